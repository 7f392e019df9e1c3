package tracesink

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/grpc"
	_ "google.golang.org/grpc/encoding/gzip" // exporters may compress
)

// Serve opens all of Jaeger's ports and answers until one of them fails. It always returns an error.
func Serve(ctx context.Context, store *Store, forward *Forwarder, log *slog.Logger) error {
	receiver := NewReceiver(store, forward)
	traces := http.NewServeMux()
	traces.Handle("POST /v1/traces", receiver)
	failed := make(chan error)
	for port, handler := range map[string]http.Handler{
		":4318": traces, ":14268": traces, ":14267": http.NotFoundHandler(),
		":16686": Query(store), ":14269": admin(store, forward),
		":5778": http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write([]byte(`{"strategyType":"PROBABILISTIC","probabilisticSampling":{"samplingRate":1}}`))
		}),
	} {
		server := &http.Server{Addr: port, Handler: handler, ReadHeaderTimeout: 10 * time.Second}
		go func() { failed <- server.ListenAndServe() }()
	}
	var config net.ListenConfig
	grpcPort, err := config.Listen(ctx, "tcp", ":4317")
	if err != nil {
		return fmt.Errorf("open port: %w", err)
	}
	server := grpc.NewServer(grpc.MaxRecvMsgSize(maxExport))
	collector.RegisterTraceServiceServer(server, receiver)
	go func() { failed <- server.Serve(grpcPort) }()
	for _, port := range []string{":5775", ":6831", ":6832"} {
		if err := discard(ctx, port); err != nil {
			return err
		}
	}
	log.Info("collector and query running")
	return fmt.Errorf("serve: %w", <-failed)
}

// admin is the health port.
func admin(store *Store, forward *Forwarder) http.Handler {
	began := time.Now()
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"status":"Server available","upSince":%q,"uptime":%q}`+"\n", began.Format(time.RFC3339Nano), time.Since(began))
	})
	mux.HandleFunc("GET /metrics", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, "# TYPE jaeger_collector_spans_received_total counter\njaeger_collector_spans_received_total %d\n", store.Received())
		fmt.Fprintf(w, "# TYPE jaeger_collector_spans_dropped_total counter\njaeger_collector_spans_dropped_total %d\n", forward.Dropped())
	})
	return mux
}

// discard takes datagrams of the old agent protocol and drops them.
func discard(ctx context.Context, port string) error {
	var config net.ListenConfig
	conn, err := config.ListenPacket(ctx, "udp", port)
	if err != nil {
		return fmt.Errorf("open port: %w", err)
	}
	go func() {
		buffer := make([]byte, 1<<16)
		for {
			if _, _, err := conn.ReadFrom(buffer); err != nil {
				return
			}
		}
	}()
	return nil
}
