// Command relay forwards a few ports to the coordinator's gateway and adds the token.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"apps/internal/relay"
)

func main() {
	file := flag.String("config", "", "file with the configuration (default: RELAY_CONFIG, else standard input)")
	flag.Parse()
	ctx, cancel := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer cancel()
	raw, err := read(*file)
	if err == nil {
		var config relay.Config
		if config, err = relay.ParseConfig(raw); err == nil {
			err = relay.Serve(ctx, config, os.Stdout, slog.New(slog.NewJSONHandler(os.Stderr, nil)))
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func read(file string) ([]byte, error) {
	if file != "" {
		return os.ReadFile(file)
	}
	if text := os.Getenv("RELAY_CONFIG"); text != "" {
		return []byte(text), nil
	}
	return io.ReadAll(os.Stdin)
}
