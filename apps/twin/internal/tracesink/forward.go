package tracesink

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"sync/atomic"
	"time"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/protobuf/proto"
)

const (
	// forwardQueue bounds what waits to be passed on; some seconds of traffic.
	forwardQueue   = 512
	forwardTimeout = 2 * time.Second
)

// Forwarder passes what is received on to another collector, by OTLP over HTTP. It never holds up its callers: what
// does not fit its queue, or cannot be delivered, is dropped and counted. The zero value and nil forward nothing.
type Forwarder struct {
	endpoint string
	client   *http.Client
	queue    chan *collector.ExportTraceServiceRequest
	dropped  atomic.Int64
	log      *slog.Logger
}

// NewForwarder sends to endpoint, a whole URL, until ctx ends. An empty endpoint gives nil.
func NewForwarder(ctx context.Context, endpoint string, log *slog.Logger) *Forwarder {
	if endpoint == "" {
		return nil
	}
	f := &Forwarder{
		endpoint: endpoint, client: &http.Client{Timeout: forwardTimeout}, log: log,
		queue: make(chan *collector.ExportTraceServiceRequest, forwardQueue),
	}
	go f.run(ctx)
	return f
}

// Take passes a request on, some time later.
func (f *Forwarder) Take(request *collector.ExportTraceServiceRequest) {
	if f == nil {
		return
	}
	select {
	case f.queue <- request:
	default:
		f.dropped.Add(spansIn(request))
	}
}

// Dropped counts the spans that were not passed on.
func (f *Forwarder) Dropped() int64 {
	if f == nil {
		return 0
	}
	return f.dropped.Load()
}

func (f *Forwarder) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case request := <-f.queue:
			if err := f.send(ctx, request); err != nil {
				f.dropped.Add(spansIn(request))
				f.log.Debug("spans not passed on", "error", err.Error())
			}
		}
	}
}

func (f *Forwarder) send(ctx context.Context, request *collector.ExportTraceServiceRequest) error {
	body, err := proto.Marshal(request)
	if err != nil {
		return fmt.Errorf("encode: %w", err)
	}
	post, err := http.NewRequestWithContext(ctx, http.MethodPost, f.endpoint, bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("address: %w", err)
	}
	post.Header.Set("Content-Type", "application/x-protobuf")
	answer, err := f.client.Do(post)
	if err != nil {
		return err
	}
	defer func() { _ = answer.Body.Close() }()
	_, _ = io.Copy(io.Discard, answer.Body) // so that the connection can be used again
	if answer.StatusCode >= http.StatusMultipleChoices {
		return fmt.Errorf("answered %s", answer.Status)
	}
	return nil
}

func spansIn(request *collector.ExportTraceServiceRequest) int64 {
	count := 0
	for _, resource := range request.GetResourceSpans() {
		for _, scope := range resource.GetScopeSpans() {
			count += len(scope.GetSpans())
		}
	}
	return int64(count)
}
