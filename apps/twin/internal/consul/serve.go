package consul

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"time"
)

// Serve runs the agent: the HTTP API on its port, and the other ports of the original as mere open doors. It always
// returns an error.
func Serve(ctx context.Context, node, address string, log *slog.Logger) error {
	for _, port := range []string{":8300", ":8400", ":8600"} {
		if err := openTCP(ctx, port); err != nil {
			return err
		}
	}
	if _, err := net.ListenPacket("udp", ":8600"); err != nil {
		return fmt.Errorf("open dns port: %w", err)
	}
	server := &http.Server{Addr: ":8500", Handler: logged(log, NewAgent(NewCatalog(), node, address).Handler()), ReadHeaderTimeout: 10 * time.Second}
	log.Info("agent running", "node", node, "address", address, "http", server.Addr)
	return fmt.Errorf("serve: %w", server.ListenAndServe())
}

func openTCP(ctx context.Context, port string) error {
	var config net.ListenConfig
	listener, err := config.Listen(ctx, "tcp", port)
	if err != nil {
		return fmt.Errorf("open port: %w", err)
	}
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				_ = conn.SetDeadline(time.Now().Add(time.Minute))
				_, _ = io.Copy(io.Discard, conn)
			}()
		}
	}()
	return nil
}

func logged(log *slog.Logger, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPut {
			log.Info("agent request", "method", r.Method, "path", r.URL.Path, "from", r.RemoteAddr)
		}
		next.ServeHTTP(w, r)
	})
}
