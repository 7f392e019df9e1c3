// Command consul is the service registry.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"apps/internal/consul"
	"apps/internal/registry"
	"apps/internal/telemetry"
)

func main() {
	if len(os.Args) > 1 && os.Args[1] != "agent" {
		if err := consul.CLI(context.Background(), os.Args[1:], os.Stdout); err != nil {
			if !errors.Is(err, consul.ErrUsage) {
				fmt.Fprintln(os.Stderr, err)
			}
			os.Exit(1)
		}
		return
	}
	log := telemetry.NewLogger(os.Stdout, "consul", os.Getenv("LOG_LEVEL"))
	address, err := registry.LocalAddress("")
	if err != nil {
		address = "127.0.0.1"
	}
	node, err := os.Hostname()
	if err != nil {
		node = "consul"
	}
	telemetry.Fatal(log, "agent ended", "error", consul.Serve(context.Background(), node, address, log))
	os.Exit(1)
}
