// Command jaeger collects traces and answers questions about them.
package main

import (
	"context"
	"os"
	"runtime/debug"

	"apps/internal/config"
	"apps/internal/telemetry"
	"apps/internal/tracesink"
)

// Spans come and go all the time: collecting early keeps the process near the size of what it holds.
const collectAt = 40

func main() {
	debug.SetGCPercent(collectAt)
	log := telemetry.NewLogger(os.Stdout, "jaeger", os.Getenv("LOG_LEVEL"))
	store := tracesink.NewStore(config.Int("MEMORY_MAX_TRACES", 2000))
	ctx := context.Background()
	forward := tracesink.NewForwarder(ctx, os.Getenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"), log)
	telemetry.Fatal(log, "collector ended", "error", tracesink.Serve(ctx, store, forward, log).Error())
	os.Exit(1)
}
