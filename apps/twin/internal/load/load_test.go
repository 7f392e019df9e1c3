package load

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

func hotelSpec(t *testing.T) *Spec {
	t.Helper()
	raw, err := os.ReadFile("testdata/hotel.json")
	if err != nil {
		t.Fatal(err)
	}
	spec, err := ParseSpec(raw)
	if err != nil {
		t.Fatal(err)
	}
	return spec
}

func oneOperation(server *httptest.Server, rate, duration float64) *Spec {
	raw := fmt.Sprintf(`{"target":%q,"arrival":"constant","timeout_s":0.5,"window_s":1,
		"phases":[{"name":"p","rate":%g,"duration_s":%g}],
		"operations":[{"name":"get","weight":1,"path":"/x","expect":{"json":[{"path":"ok","equals":true}]}}]}`,
		server.Listener.Addr(), rate, duration)
	spec, err := ParseSpec([]byte(raw))
	if err != nil {
		panic(err)
	}
	return spec
}

type line struct {
	Kind, Phase, Name, Operation, Outcome, Reason, Message string
	Scheduled, Sent, Missed, Completed, OK, Failed         int
	Reasons                                                map[string]int
	Operations                                             map[string]line
	Seconds                                                float64
}

func lines(t *testing.T, out *bytes.Buffer) []line {
	t.Helper()
	var all []line
	scanner := bufio.NewScanner(out)
	for scanner.Scan() {
		var one line
		if err := json.Unmarshal(scanner.Bytes(), &one); err != nil {
			t.Fatalf("%s: %v", scanner.Bytes(), err)
		}
		all = append(all, one)
	}
	return all
}

func answerOK(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `{"ok":true}`) }

func serve(t *testing.T, handler http.HandlerFunc) *httptest.Server {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	return server
}

func TestRequestsDependOnTheSeedAlone(t *testing.T) {
	spec := hotelSpec(t)
	for number := range uint64(50) {
		for i := range spec.Operations {
			first, err := spec.Operations[i].values(newRandom(spec.Seed, number))
			if err != nil {
				t.Fatal(err)
			}
			again, _ := spec.Operations[i].values(newRandom(spec.Seed, number))
			other, _ := spec.Operations[i].values(newRandom(spec.Seed+1, number))
			if fmt.Sprint(first) != fmt.Sprint(again) {
				t.Fatalf("%v is not %v", first, again)
			}
			if spec.Operations[i].Name == "search" && fmt.Sprint(first) == fmt.Sprint(other) {
				t.Fatalf("the seed changes nothing: %v", first)
			}
		}
	}
}

func TestHotelValuesStayInTheirRanges(t *testing.T) {
	spec := hotelSpec(t)
	for number := range uint64(2000) {
		random := newRandom(3, number)
		search, err := spec.Operations[0].values(random)
		if err != nil {
			t.Fatal(err)
		}
		if search["in"] < "2015-04-09" || search["in"] > "2015-04-23" || search["out"] <= search["in"] || search["out"] > "2015-04-24" {
			t.Fatalf("dates: %v", search)
		}
		reserve, err := spec.Operations[3].values(random)
		if err != nil {
			t.Fatal(err)
		}
		if reserve["pw"] != strings.Repeat(reserve["n"], 10) || reserve["out"] <= reserve["in"] {
			t.Fatalf("reserve: %v", reserve)
		}
	}
}

func TestOpenLoopDoesNotWaitForAnswers(t *testing.T) {
	var peak, now atomic.Int64
	server := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if n := now.Add(1); n > peak.Load() {
			peak.Store(n)
		}
		defer now.Add(-1)
		select {
		case <-time.After(300 * time.Millisecond):
		case <-r.Context().Done():
		}
		answerOK(w, r)
	})
	var out bytes.Buffer
	if err := Run(t.Context(), oneOperation(server, 50, 1), nil, &out); err != nil {
		t.Fatal(err)
	}
	if peak.Load() < 8 {
		t.Errorf("only %d requests at a time", peak.Load())
	}
	all := lines(t, &out)
	summary := all[len(all)-1]
	if summary.Kind != "summary" || summary.Scheduled < 48 || summary.Scheduled > 50 || summary.Operations["get"].OK != summary.Sent {
		t.Errorf("summary: %+v", summary)
	}
}

func TestEveryRequestHasItsOwnConnection(t *testing.T) {
	var mu sync.Mutex
	peers := map[string]bool{}
	requests := 0
	server := serve(t, func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		peers[r.RemoteAddr], requests = true, requests+1
		mu.Unlock()
		answerOK(w, r)
	})
	if err := Run(t.Context(), oneOperation(server, 100, .3), nil, &bytes.Buffer{}); err != nil {
		t.Fatal(err)
	}
	if len(peers) != requests || requests == 0 {
		t.Errorf("%d requests over %d connections", requests, len(peers))
	}
}

func TestFailuresAreToldApart(t *testing.T) {
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	gone := &httptest.Server{Listener: closed}
	closed.Close()
	cases := map[string]*httptest.Server{
		"connect":    gone,
		"status_500": serve(t, func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no", 500) }),
		"status_302": serve(t, func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/elsewhere", 302) }),
		"body":       serve(t, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `{"ok":false}`) }),
		"timeout":    serve(t, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }),
		"reset": serve(t, func(w http.ResponseWriter, _ *http.Request) {
			conn, _, err := w.(http.Hijacker).Hijack()
			if err == nil {
				conn.Close()
			}
		}),
	}
	for reason, server := range cases {
		t.Run(reason, func(t *testing.T) {
			var out bytes.Buffer
			if err := Run(t.Context(), oneOperation(server, 20, .2), nil, &out); err != nil {
				t.Fatal(err)
			}
			all := lines(t, &out)
			total := all[len(all)-1].Operations["get"]
			if total.Failed == 0 || total.OK != 0 || total.Reasons[reason] != total.Failed {
				t.Errorf("%+v", total)
			}
		})
	}
}

func TestWindowsAddUpToTheSummary(t *testing.T) {
	server := serve(t, answerOK)
	spec := oneOperation(server, 100, 1)
	spec.WindowS = .1
	more := 0.5
	spec.Phases = append(spec.Phases, Phase{Name: "q", Rate: 50, DurationS: &more})
	var out bytes.Buffer
	if err := Run(t.Context(), spec, nil, &out); err != nil {
		t.Fatal(err)
	}
	all := lines(t, &out)
	scheduled, ok, length := 0, 0, 0.0
	phases := map[string]int{}
	for _, one := range all {
		if one.Kind == "window" {
			scheduled, ok, length = scheduled+one.Scheduled, ok+one.OK, length+one.Seconds
			phases[one.Phase] += one.Scheduled
		}
	}
	summary := all[len(all)-1]
	if scheduled != summary.Scheduled || ok != summary.Operations["get"].OK || length < summary.Seconds-.01 || length > summary.Seconds+.01 {
		t.Errorf("windows: %d scheduled, %d ok, %.3f s; summary %+v", scheduled, ok, length, summary)
	}
	if phases["p"] < 98 || phases["p"] > 100 || phases["q"] < 23 || phases["q"] > 25 {
		t.Errorf("by phase: %v", phases)
	}
}

func TestRequestsThatCouldNotBeSentAreMissed(t *testing.T) {
	server := serve(t, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	spec := oneOperation(server, 100, .3)
	spec.MaxInFlight = 5
	var out bytes.Buffer
	if err := Run(t.Context(), spec, nil, &out); err != nil {
		t.Fatal(err)
	}
	all := lines(t, &out)
	if summary := all[len(all)-1]; summary.Sent != 5 || summary.Missed != summary.Scheduled-5 || summary.Missed == 0 {
		t.Errorf("%+v", summary)
	}
}

func TestCommandsSteerTheRun(t *testing.T) {
	first, second := serve(t, answerOK), serve(t, answerOK)
	spec := oneOperation(first, 50, 1)
	spec.Phases[0].DurationS = nil
	var hits atomic.Int64
	second.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		hits.Add(1)
		answerOK(w, r)
	})
	commands := make(chan Command)
	var out bytes.Buffer
	ended := make(chan error, 1)
	go func() { ended <- Run(t.Context(), spec, commands, &out) }()
	commands <- Command{Command: "target", Target: second.Listener.Addr().String()}
	commands <- Command{Command: "records", On: true}
	commands <- Command{Command: "phases", Phases: []Phase{{Name: "fast", Rate: 200}}}
	commands <- Command{Command: "nonsense"}
	commands <- Command{Command: "target", Target: "frontend:5000"}
	for hits.Load() < 20 {
		time.Sleep(5 * time.Millisecond)
	}
	commands <- Command{Command: "stop"}
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	kinds := map[string]int{}
	for _, one := range lines(t, &out) {
		kinds[one.Kind]++
		if one.Kind == "request" && (one.Phase != "fast" || one.Outcome != "ok") {
			t.Errorf("%+v", one)
		}
	}
	if kinds["error"] != 2 || kinds["phase"] != 2 || kinds["request"] < 20 || kinds["summary"] != 1 {
		t.Errorf("%v", kinds)
	}
}

func TestEndOfCommandsStops(t *testing.T) {
	commands := make(chan Command, 4)
	ReadCommands(bufio.NewReader(strings.NewReader("{\"command\":\"records\",\"on\":true}\nrubbish\n{\"comand\":\"stop\"}\n")), commands, true)
	var got []Command
	for command := range commands {
		got = append(got, command)
	}
	if len(got) != 3 || !got[0].On || got[1].Command == "stop" || got[2].Command == "stop" {
		t.Errorf("%+v", got)
	}
	spec := oneOperation(serve(t, answerOK), 1, 1)
	spec.Phases[0].DurationS = nil
	closed := make(chan Command)
	close(closed)
	if err := Run(context.Background(), spec, closed, &bytes.Buffer{}); err != nil {
		t.Fatal(err)
	}
}

func TestSpecsThatAreRefused(t *testing.T) {
	good := `"target":"127.0.0.1:1","phases":[{"name":"p","rate":1}],"operations":[{"name":"a","weight":1,"path":"/"}]`
	for _, raw := range []string{
		`{}`, `{` + good + `,"rates":3}`, `{` + strings.Replace(good, "127.0.0.1:1", "frontend:5000", 1) + `}`,
		`{` + good + `,"arrival":"poisson"}`, `{` + strings.Replace(good, `"rate":1`, `"rate":-1`, 1) + `}`,
		`{` + strings.Replace(good, `"rate":1`, `"rate":1,"weights":{"b":1}`, 1) + `}`,
		`{` + strings.Replace(good, `"path":"/"`, `"path":"/","vars":[{"name":"x"}]`, 1) + `}`,
		`{` + strings.Replace(good, `"path":"/"`, `"path":"/","expect":{"json":[{"path":"x"}]}`, 1) + `}`,
	} {
		if _, err := ParseSpec([]byte(raw)); err == nil {
			t.Errorf("accepted %s", raw)
		}
	}
	if _, err := ParseSpec([]byte(`{` + good + `}`)); err != nil {
		t.Error(err)
	}
}

func TestChecks(t *testing.T) {
	body := []byte(`{"type":"FeatureCollection","features":[{"name":"a"},{"name":""}],"none":[],"message":"Login successful."}`)
	word := "successful"
	for _, c := range []struct {
		check Check
		want  bool
	}{
		{Check{Path: "type", Equals: "FeatureCollection"}, true},
		{Check{Path: "type", Equals: "Feature"}, false},
		{Check{Path: "features", Kind: "array", MinItems: 2}, true},
		{Check{Path: "features", MinItems: 3}, false},
		{Check{Path: "features.0.name", NotEmpty: true}, true},
		{Check{Path: "features.*.name", NotEmpty: true}, false},
		{Check{Path: "none.*.name", NotEmpty: true}, true},
		{Check{Path: "none", NotEmpty: true}, false},
		{Check{Path: "message", Contains: &word}, true},
		{Check{Path: "absent", NotEmpty: true}, false},
		{Check{Path: "features.7", NotEmpty: true}, false},
		{Check{Kind: "object"}, true},
	} {
		if got := (Expect{JSON: []Check{c.check}}).valid(body); got != c.want {
			t.Errorf("%+v: %v", c.check, got)
		}
	}
	if (Expect{JSON: []Check{{Kind: "object"}}}).valid([]byte("<html>")) {
		t.Error("HTML passed a JSON check")
	}
}

func TestLatencyPercentiles(t *testing.T) {
	times := histogram{}
	for ms := 1; ms <= 1000; ms++ {
		times.add(float64(ms))
	}
	got := times.latency()
	for name, pair := range map[string][2]float64{"p50": {got.P50, 500}, "p99": {got.P99, 990}, "max": {got.Max, 1000}, "mean": {got.Mean, 500}} {
		if pair[0] < pair[1]*.99 || pair[0] > pair[1]*1.03 {
			t.Errorf("%s is %g, not about %g", name, pair[0], pair[1])
		}
	}
	if (histogram{}).latency() != nil {
		t.Error("no times must give no latency")
	}
}
