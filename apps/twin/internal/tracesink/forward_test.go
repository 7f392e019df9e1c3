package tracesink

import (
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/protobuf/proto"
)

var quiet = slog.New(slog.NewTextHandler(io.Discard, nil))

func TestWhatIsReceivedIsPassedOn(t *testing.T) {
	got := make(chan *collector.ExportTraceServiceRequest, 1)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		request := &collector.ExportTraceServiceRequest{}
		if err := proto.Unmarshal(body, request); err != nil || r.URL.Path != "/v1/traces" {
			t.Errorf("%s: %v", r.URL.Path, err)
		}
		got <- request
	}))
	defer server.Close()
	store := NewStore(10)
	receiver := NewReceiver(store, NewForwarder(t.Context(), server.URL+"/v1/traces", quiet))
	sent := call(1, false)
	if _, err := receiver.Export(t.Context(), sent); err != nil {
		t.Fatal(err)
	}
	select {
	case request := <-got:
		if !proto.Equal(request, sent) || store.Received() != 2 {
			t.Errorf("passed on %v, kept %d", request, store.Received())
		}
	case <-time.After(5 * time.Second):
		t.Fatal("nothing was passed on")
	}
}

func TestADeadCollectorHoldsNobodyUp(t *testing.T) {
	release := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, _ *http.Request) { <-release }))
	defer server.Close()
	defer close(release)
	forwarder := NewForwarder(t.Context(), server.URL, quiet)
	receiver := NewReceiver(NewStore(10), forwarder)
	begin := time.Now()
	for n := range forwardQueue + 100 {
		_, _ = receiver.Export(t.Context(), call(n, false))
	}
	if took := time.Since(begin); took > time.Second {
		t.Errorf("callers waited %v", took)
	}
	if forwarder.Dropped() == 0 {
		t.Error("more was queued than the queue holds, and nothing was dropped")
	}
}

func TestARefusalIsCounted(t *testing.T) {
	server := httptest.NewServer(http.NotFoundHandler())
	defer server.Close()
	forwarder := NewForwarder(t.Context(), server.URL, quiet)
	forwarder.Take(call(1, false))
	for deadline := time.Now().Add(5 * time.Second); forwarder.Dropped() != 2; {
		if time.Now().After(deadline) {
			t.Fatalf("%d dropped", forwarder.Dropped())
		}
		time.Sleep(time.Millisecond)
	}
}

func TestWithoutAnAddressNothingIsForwarded(t *testing.T) {
	forwarder := NewForwarder(t.Context(), "", quiet)
	forwarder.Take(call(1, false))
	if forwarder != nil || forwarder.Dropped() != 0 {
		t.Error("there is a forwarder")
	}
}
