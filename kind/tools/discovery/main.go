// discovery tells Prometheus which nodes and pods there are, over HTTP (`http_sd_configs` in its documentation), with
// the labels that Prometheus's own Kubernetes discovery gives them: Debian's Prometheus is built without that one.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"log/slog"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

func main() {
	address := flag.String("address", "127.0.0.1:9099", "where targets are served")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	if err := run(ctx, *address); err != nil {
		slog.Error("ended", "error", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, address string) error {
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
	seen := newSeen(client)
	seen.start(ctx)
	server := &http.Server{Addr: address, Handler: handler(seen), ReadHeaderTimeout: 5 * time.Second}
	go func() {
		<-ctx.Done()
		_ = server.Close()
	}()
	slog.Info("serving", "address", address)
	if err := server.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// handler serves /nodes, and /pods with an optional ?namespace=. Prometheus keeps the targets it has when the answer is
// no 200, which is what it should do before the first lists have come.
func handler(seen *seen) http.Handler {
	mux := http.NewServeMux()
	serve := func(path string, groups func(*http.Request) ([]group, error)) {
		mux.HandleFunc("GET "+path, func(w http.ResponseWriter, r *http.Request) {
			if !seen.synced() {
				http.Error(w, "the first lists are still to come", http.StatusServiceUnavailable)
				return
			}
			found, err := groups(r)
			if err != nil {
				http.Error(w, err.Error(), http.StatusInternalServerError)
				return
			}
			w.Header().Set("Content-Type", "application/json")
			if err := json.NewEncoder(w).Encode(found); err != nil {
				slog.Warn("an answer was not taken", "error", err)
			}
		})
	}
	serve("/nodes", func(*http.Request) ([]group, error) { return seen.nodeGroups() })
	serve("/pods", func(r *http.Request) ([]group, error) { return seen.podGroups(r.URL.Query().Get("namespace")) })
	return mux
}
