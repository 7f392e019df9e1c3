package relay

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"time"
)

// Serve opens all ports, says so on out, and forwards until ctx ends or a port fails.
func Serve(ctx context.Context, config Config, out io.Writer, log *slog.Logger) error {
	var ports net.ListenConfig
	failed := make(chan error, len(config.Listeners))
	ready := struct {
		Kind      string   `json:"kind"`
		Listeners []string `json:"listeners"`
	}{Kind: "ready"}
	for _, listener := range config.Listeners {
		handler, err := listener.Handler(log)
		if err != nil {
			return err
		}
		port, err := ports.Listen(ctx, "tcp", listener.Listen)
		if err != nil {
			return fmt.Errorf("listener %q: %w", listener.Name, err)
		}
		ready.Listeners = append(ready.Listeners, port.Addr().String())
		if listener.Raw {
			defer port.Close()
			go func() { failed <- listener.serveRaw(ctx, port, log) }()
			continue
		}
		server := &http.Server{Handler: handler, ReadHeaderTimeout: 30 * time.Second}
		defer server.Close()
		go func() { failed <- server.Serve(port) }()
	}
	if err := json.NewEncoder(out).Encode(ready); err != nil {
		return fmt.Errorf("report: %w", err)
	}
	select {
	case <-ctx.Done():
		return nil
	case err := <-failed:
		return fmt.Errorf("serve: %w", err)
	}
}
