// Package service is the life of a process: it finds out which service it is to be, sets up logging, metrics and
// the Go runtime, runs it, and turns its end into an exit status. What a service does is none of its business.
package service

import (
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime/debug"

	"apps/internal/config"
	"apps/internal/rpc"
	"apps/internal/telemetry"
)

// DefaultMetricsPort is the port that OpenTelemetry reserves for Prometheus exporters.
const DefaultMetricsPort = 9464

// Command is one service. Run returns only when the service cannot go on.
type Command struct {
	Run func(ctx context.Context, process *Process) error
	// MetricsPortVariable names the tunable of the metrics port, and MetricsPort its default, where the service has
	// one of its own.
	MetricsPortVariable string
	MetricsPort         int
}

// Process is what every service has at hand.
type Process struct {
	Name    string
	Config  config.File
	Log     *slog.Logger
	Metrics *telemetry.Metrics
	// ServerTLS and ClientTLS are nil while TLS is switched off.
	ServerTLS *tls.Config
	ClientTLS *tls.Config
}

// Main runs the service that the command line asks for and exits when it ends.
func Main(commands map[string]Command) {
	name := Identity(os.Args, commands)
	command, ok := commands[name]
	if !ok {
		fmt.Fprintf(os.Stderr, "unknown service %q\n", name)
		os.Exit(2)
	}
	process := Start(name, command)
	err := command.Run(context.Background(), process)
	telemetry.Fatal(process.Log, "service ended", "error", fmt.Sprint(err))
	os.Exit(1)
}

// Identity is the name that the program was called by, or its first argument when that name is no service.
func Identity(args []string, commands map[string]Command) string {
	name := filepath.Base(args[0])
	if _, ok := commands[name]; !ok && len(args) > 1 {
		return args[1]
	}
	return name
}

// Start prepares a process.
func Start(name string, command Command) *Process {
	debug.SetGCPercent(config.Int("GC", 100))
	log := telemetry.NewLogger(os.Stdout, name, config.Text("LOG_LEVEL", "info"))
	file, err := config.Load(config.Text("CONFIG_FILE", config.DefaultPath))
	if err != nil {
		log.Error("could not read configuration", "error", err.Error())
	}
	process := &Process{Name: name, Config: file, Log: log, Metrics: telemetry.NewMetrics(name)}
	process.ServerTLS, process.ClientTLS, err = rpc.TLS(config.Text("TLS", ""))
	if err != nil {
		telemetry.Panic(log, "could not set up TLS", err)
	}
	process.Metrics.Serve(fmt.Sprintf(":%d", metricsPort(command)), log)
	return process
}

func metricsPort(command Command) int {
	if command.MetricsPortVariable != "" {
		return config.Int(command.MetricsPortVariable, command.MetricsPort)
	}
	return config.Int("OTEL_EXPORTER_PROMETHEUS_PORT", DefaultMetricsPort)
}
