package tracesink

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"
	"time"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	resource "go.opentelemetry.io/proto/otlp/resource/v1"
	otlp "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
)

var began = time.Now().Add(-time.Minute).Truncate(time.Microsecond)

func attribute(key, value string) *common.KeyValue {
	return &common.KeyValue{Key: key, Value: &common.AnyValue{Value: &common.AnyValue_StringValue{StringValue: value}}}
}

func number(n, size int) []byte {
	id := make([]byte, size)
	binary.BigEndian.PutUint64(id[size-8:], uint64(n))
	return id
}

// call is trace n: frontend calls search, which fails when failed is set.
func call(n int, failed bool) *collector.ExportTraceServiceRequest {
	start := uint64(began.Add(time.Duration(n) * time.Second).UnixNano())
	span := func(id, parent int, name string, took time.Duration) *otlp.Span {
		made := &otlp.Span{
			TraceId: number(n, 16), SpanId: number(n*10+id, 8), Name: name, Kind: otlp.Span_SPAN_KIND_SERVER,
			StartTimeUnixNano: start, EndTimeUnixNano: start + uint64(took),
			Attributes: []*common.KeyValue{attribute("n", fmt.Sprint(n))},
		}
		if parent > 0 {
			made.ParentSpanId = number(n*10+parent, 8)
		}
		return made
	}
	root, child := span(1, 0, "GET /hotels", 5*time.Millisecond), span(2, 1, "search.Search/Nearby", time.Duration(n)*time.Millisecond)
	if failed {
		child.Status = &otlp.Status{Code: otlp.Status_STATUS_CODE_ERROR, Message: "late"}
		child.Events = []*otlp.Span_Event{{TimeUnixNano: start, Name: "gave up"}}
	}
	of := func(service string, span *otlp.Span) *otlp.ResourceSpans {
		return &otlp.ResourceSpans{
			Resource:   &resource.Resource{Attributes: []*common.KeyValue{attribute("service.name", service)}},
			ScopeSpans: []*otlp.ScopeSpans{{Spans: []*otlp.Span{span}}},
		}
	}
	return &collector.ExportTraceServiceRequest{ResourceSpans: []*otlp.ResourceSpans{of("frontend", root), of("search", child)}}
}

func filled(t *testing.T, capacity, traces int) *Store {
	t.Helper()
	store := NewStore(capacity)
	for n := 1; n <= traces; n++ {
		if _, err := NewReceiver(store, nil).Export(t.Context(), call(n, n%2 == 0)); err != nil {
			t.Fatal(err)
		}
	}
	return store
}

func query(t *testing.T, store *Store, path string, into any) int {
	t.Helper()
	recorder := httptest.NewRecorder()
	Query(store).ServeHTTP(recorder, httptest.NewRequest(http.MethodGet, path, nil))
	var body struct{ Data json.RawMessage }
	if err := json.Unmarshal(recorder.Body.Bytes(), &body); err != nil {
		t.Fatalf("%s: %s", path, recorder.Body)
	}
	if recorder.Code == http.StatusOK {
		if err := json.Unmarshal(body.Data, into); err != nil {
			t.Fatalf("%s: %s: %v", path, body.Data, err)
		}
	}
	return recorder.Code
}

func TestAllWaysToSendSpans(t *testing.T) {
	encoded, err := proto.Marshal(call(1, false))
	if err != nil {
		t.Fatal(err)
	}
	asJSON, err := protojson.Marshal(call(1, false))
	if err != nil {
		t.Fatal(err)
	}
	var zipped bytes.Buffer
	writer := gzip.NewWriter(&zipped)
	_, _ = writer.Write(encoded)
	writer.Close()
	for name, c := range map[string]struct {
		body    []byte
		headers map[string]string
	}{
		"protobuf": {encoded, map[string]string{"Content-Type": "application/x-protobuf"}},
		"gzip":     {zipped.Bytes(), map[string]string{"Content-Type": "application/x-protobuf", "Content-Encoding": "gzip"}},
		"json":     {asJSON, map[string]string{"Content-Type": "application/json"}},
	} {
		store := NewStore(10)
		request := httptest.NewRequest(http.MethodPost, "/v1/traces", bytes.NewReader(c.body))
		for header, value := range c.headers {
			request.Header.Set(header, value)
		}
		recorder := httptest.NewRecorder()
		NewReceiver(store, nil).ServeHTTP(recorder, request)
		if recorder.Code != 200 || store.Received() != 2 {
			t.Errorf("%s: %d %s, %d spans", name, recorder.Code, recorder.Body, store.Received())
		}
	}
	recorder := httptest.NewRecorder()
	NewReceiver(NewStore(1), nil).ServeHTTP(recorder, httptest.NewRequest(http.MethodPost, "/v1/traces", bytes.NewReader([]byte("rubbish"))))
	if recorder.Code != http.StatusBadRequest {
		t.Errorf("rubbish: %d", recorder.Code)
	}
}

func TestOldTracesMakeRoom(t *testing.T) {
	store := filled(t, 3, 5)
	var traces []traceView
	query(t, store, "/api/traces?service=search&limit=100", &traces)
	if len(traces) != 3 || traces[0].TraceID[31:] != "5" || traces[2].TraceID[31:] != "3" {
		t.Errorf("%d traces kept: %+v", len(traces), traces)
	}
	if store.Trace([16]byte(number(1, 16))) != nil {
		t.Error("the oldest trace is still there")
	}
}

func TestSearches(t *testing.T) {
	store := filled(t, 100, 6)
	from := fmt.Sprint(began.Add(4 * time.Second).UnixMicro())
	for path, want := range map[string]int{
		"/api/traces?service=frontend":                                            6,
		"/api/traces?service=frontend&limit=2":                                    2,
		"/api/traces?service=frontend&operation=GET+/hotels":                      6,
		"/api/traces?service=frontend&operation=search.Search/Nearby":             0,
		"/api/traces?service=none":                                                0,
		"/api/traces?service=search&minDuration=4ms":                              3,
		"/api/traces?service=search&maxDuration=1500us":                           1,
		"/api/traces?service=search&tags=" + url.QueryEscape(`{"error":"true"}`):  3,
		"/api/traces?service=search&tags=" + url.QueryEscape(`{"error":"false"}`): 0,
		"/api/traces?service=search&tag=n:3":                                      1,
		"/api/traces?service=search&start=" + from:                                3,
		"/api/traces?service=search&end=" + from:                                  4,
		"/api/traces?service=search&lookback=1h":                                  6,
		"/api/traces?service=search&lookback=1s":                                  0,
	} {
		var traces []traceView
		if code := query(t, store, path, &traces); code != 200 || len(traces) != want {
			t.Errorf("%s: %d, %d traces, wanted %d", path, code, len(traces), want)
		}
	}
	for _, path := range []string{
		"/api/traces", "/api/traces?service=x&start=soon", "/api/traces?service=x&minDuration=1", "/api/traces?service=x&tags=x",
		"/api/traces/xyz", "/api/dependencies",
	} {
		if code := query(t, store, path, nil); code != http.StatusBadRequest {
			t.Errorf("%s: %d", path, code)
		}
	}
}

func TestOneTraceInJaegersShape(t *testing.T) {
	store := filled(t, 100, 2)
	var traces []traceView
	if code := query(t, store, "/api/traces/2", &traces); code != 200 || len(traces) != 1 || len(traces[0].Spans) != 2 {
		t.Fatalf("%d %+v", code, traces)
	}
	child := traces[0].Spans[1]
	if traces[0].Processes[child.ProcessID].ServiceName != "search" || child.OperationName != "search.Search/Nearby" ||
		child.Duration != 2000 || child.StartTime != began.Add(2*time.Second).UnixMicro() {
		t.Errorf("%+v", child)
	}
	if len(child.References) != 1 || child.References[0].SpanID != traces[0].Spans[0].SpanID || child.References[0].RefType != "CHILD_OF" {
		t.Errorf("references: %+v", child.References)
	}
	if len(child.Logs) != 1 || child.Logs[0].Fields[0].Value != "gave up" {
		t.Errorf("logs: %+v", child.Logs)
	}
	if code := query(t, store, "/api/traces/7", &traces); code != http.StatusNotFound {
		t.Errorf("unknown trace: %d", code)
	}
}

func TestNamesAndDependencies(t *testing.T) {
	store := filled(t, 100, 4)
	var names []string
	if query(t, store, "/api/services", &names); fmt.Sprint(names) != "[frontend search]" {
		t.Errorf("services %v", names)
	}
	if query(t, store, "/api/services/search/operations", &names); fmt.Sprint(names) != "[search.Search/Nearby]" {
		t.Errorf("operations %v", names)
	}
	var found []Dependency
	now := fmt.Sprint(time.Now().UnixMilli())
	if query(t, store, "/api/dependencies?lookback=3600000&endTs="+now, &found); len(found) != 1 || found[0] != (Dependency{"frontend", "search", 4}) {
		t.Errorf("dependencies %v", found)
	}
}
