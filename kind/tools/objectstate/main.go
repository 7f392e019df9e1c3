// objectstate tells the state of Kubernetes objects as metrics, under the names that kube-state-metrics 2 gives them
// (its documentation, "Exposed Metrics"). That program is not served as a Go module; this one knows the metrics that
// dashboards and alert rules of a small cluster use.
package main

import (
	"context"
	"flag"
	"log/slog"
	"net/http"
	"os"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

func main() {
	address := flag.String("address", ":8080", "where the state of objects is served")
	own := flag.String("telemetry-address", ":8081", "where the process's own metrics are served")
	flag.Parse()
	if err := run(context.Background(), *address, *own); err != nil {
		slog.Error("ended", "error", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, address, own string) error {
	config, err := rest.InClusterConfig()
	if err != nil {
		return err
	}
	// Lists as protobuf take a third of the memory that they take as JSON.
	config.ContentType = "application/vnd.kubernetes.protobuf"
	config.AcceptContentTypes = "application/vnd.kubernetes.protobuf,application/json"
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	state := newState(client)
	state.start(ctx)
	objects, process := prometheus.NewRegistry(), prometheus.NewRegistry()
	objects.MustRegister(state)
	process.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	failed := make(chan error)
	serve(own, mux(process, func() bool { return true }), failed)
	serve(address, mux(objects, state.synced), failed)
	slog.Info("serving", "address", address)
	return <-failed
}

func mux(registry *prometheus.Registry, ready func() bool) http.Handler {
	handler := http.NewServeMux()
	handler.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	handler.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("OK")) })
	handler.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		if !ready() {
			http.Error(w, "the first lists are still to come", http.StatusServiceUnavailable)
			return
		}
		_, _ = w.Write([]byte("OK"))
	})
	return handler
}

func serve(address string, handler http.Handler, failed chan<- error) {
	server := &http.Server{Addr: address, Handler: handler, ReadHeaderTimeout: 5 * time.Second}
	go func() { failed <- server.ListenAndServe() }()
}
