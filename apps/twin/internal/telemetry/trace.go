package telemetry

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	"go.opentelemetry.io/otel/sdk/trace"
)

// The agent address of the configuration names a UDP port; spans go to the same host by OTLP over HTTP.
const otlpPort = "4318"

// StartTracing sends the spans of this process to the host in agentAddress. The name must resolve now; whether
// anything listens there is never noticed, neither now nor by a request.
func StartTracing(ctx context.Context, service, instance, agentAddress string, ratio float64, log *slog.Logger) error {
	host, _, err := net.SplitHostPort(agentAddress)
	if err != nil {
		return fmt.Errorf("tracing agent address %q: %w", agentAddress, err)
	}
	if _, err := net.DefaultResolver.LookupHost(ctx, host); err != nil {
		return fmt.Errorf("resolve tracing agent: %w", err)
	}
	exporter, err := otlptracehttp.New(ctx,
		otlptracehttp.WithEndpoint(net.JoinHostPort(host, otlpPort)),
		otlptracehttp.WithInsecure(),
		otlptracehttp.WithTimeout(2*time.Second),
		otlptracehttp.WithRetry(otlptracehttp.RetryConfig{Enabled: false}))
	if err != nil {
		return fmt.Errorf("tracing exporter: %w", err)
	}
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { log.Debug("tracing", "error", err.Error()) }))
	otel.SetTextMapPropagator(propagation.TraceContext{})
	otel.SetTracerProvider(trace.NewTracerProvider(
		trace.WithSampler(trace.ParentBased(trace.TraceIDRatioBased(min(ratio, 1)))),
		trace.WithResource(resource.NewSchemaless(
			attribute.String("service.name", service), attribute.String("service.instance.id", instance))),
		trace.WithBatcher(exporter, trace.WithMaxQueueSize(1024), trace.WithMaxExportBatchSize(256),
			trace.WithBatchTimeout(time.Second))))
	return nil
}
