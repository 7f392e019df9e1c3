package telemetry

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/trace"
)

func TestLinesAreObjectsWithTheTrace(t *testing.T) {
	var out bytes.Buffer
	log := NewLogger(&out, "rate", "info")
	id := trace.TraceID{1}
	ctx := trace.ContextWithSpanContext(t.Context(), trace.NewSpanContext(trace.SpanContextConfig{TraceID: id, SpanID: trace.SpanID{2}}))
	log.WarnContext(ctx, "slow", "took_ms", 7)
	log.DebugContext(ctx, "not shown")
	var line map[string]any
	if err := json.Unmarshal(out.Bytes(), &line); err != nil {
		t.Fatalf("%s: %v", out.String(), err)
	}
	for key, want := range map[string]any{"level": "warn", "service": "rate", "message": "slow", "took_ms": 7.0, "trace_id": id.String()} {
		if line[key] != want {
			t.Errorf("%s is %v", key, line[key])
		}
	}
}

func TestLevels(t *testing.T) {
	for level, want := range map[string]int{"error": 1, "warning": 2, "info": 3, "": 3, "debug": 4} {
		var out bytes.Buffer
		log := NewLogger(&out, "x", level)
		log.Error("e")
		log.Warn("w")
		log.Info("i")
		log.Debug("d")
		if got := strings.Count(out.String(), "\n"); got != want {
			t.Errorf("%q writes %d lines", level, got)
		}
	}
}

func TestPanicIsLoggedAndUnwinds(t *testing.T) {
	var out bytes.Buffer
	defer func() {
		if recover() == nil || !strings.Contains(out.String(), `"level":"panic"`) {
			t.Errorf("no panic, or no line: %s", out.String())
		}
	}()
	Panic(NewLogger(&out, "x", "error"), "store failed", errors.New("gone"))
}

func TestMetricsByOperationAndCode(t *testing.T) {
	metrics := NewMetrics("search")
	metrics.Served("search.Search/Nearby", "OK", 5*time.Millisecond)
	metrics.Served("search.Search/Nearby", "Unavailable", time.Second)
	metrics.Called("srv-rate", "rate.Rate/GetRates", "OK")
	recorder := httptest.NewRecorder()
	metrics.Handler().ServeHTTP(recorder, httptest.NewRequest("GET", "/metrics", nil))
	for _, want := range []string{
		`requests_total{code="OK",operation="search.Search/Nearby",service="search"} 1`,
		`requests_total{code="Unavailable",operation="search.Search/Nearby",service="search"} 1`,
		`request_duration_seconds_count{operation="search.Search/Nearby",service="search"} 2`,
		`client_requests_total{code="OK",operation="rate.Rate/GetRates",peer="srv-rate",service="search"} 1`,
		`process_resident_memory_bytes`,
	} {
		if !strings.Contains(recorder.Body.String(), want) {
			t.Errorf("missing %s", want)
		}
	}
}

func TestTracingNeedsTheNameButNotTheServer(t *testing.T) {
	log := NewLogger(io.Discard, "x", "error")
	for _, address := range []string{"", "jaeger", "jaeger.invalid:6831"} {
		if err := StartTracing(t.Context(), "x", "1", address, 1, log); err == nil {
			t.Errorf("%q was accepted", address)
		}
	}
	if err := StartTracing(t.Context(), "x", "1", "localhost:6831", 1, log); err != nil {
		t.Fatal(err)
	}
	begin := time.Now()
	for range 5000 { // more than the exporter's queue holds, with nobody to take them
		_, span := otel.Tracer("t").Start(t.Context(), "s")
		span.End()
	}
	if took := time.Since(begin); took > 2*time.Second {
		t.Errorf("spans held up their makers: %v", took)
	}
}
