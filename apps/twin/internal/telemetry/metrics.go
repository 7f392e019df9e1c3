package telemetry

import (
	"log/slog"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Metrics holds the series of one process. Registry takes a service's own series as well.
type Metrics struct {
	Registry *prometheus.Registry
	served   *prometheus.CounterVec
	duration *prometheus.HistogramVec
	called   *prometheus.CounterVec
}

// NewMetrics makes the series that every service has.
func NewMetrics(service string) *Metrics {
	labels := prometheus.Labels{"service": service}
	metrics := &Metrics{
		Registry: prometheus.NewRegistry(),
		served: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "requests_total", Help: "Requests answered.", ConstLabels: labels,
		}, []string{"operation", "code"}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "request_duration_seconds", Help: "Time from a request's arrival to its answer.", ConstLabels: labels,
			Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10},
		}, []string{"operation"}),
		called: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "client_requests_total", Help: "Calls made to peers.", ConstLabels: labels,
		}, []string{"peer", "operation", "code"}),
	}
	metrics.Registry.MustRegister(metrics.served, metrics.duration, metrics.called,
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return metrics
}

// Served records one answered request.
func (m *Metrics) Served(operation, code string, took time.Duration) {
	m.served.WithLabelValues(operation, code).Inc()
	m.duration.WithLabelValues(operation).Observe(took.Seconds())
}

// Called records one call to a peer.
func (m *Metrics) Called(peer, operation, code string) {
	m.called.WithLabelValues(peer, operation, code).Inc()
}

// Handler answers scrapes.
func (m *Metrics) Handler() http.Handler {
	return promhttp.HandlerFor(m.Registry, promhttp.HandlerOpts{})
}

// Serve answers scrapes on port until the process ends. A port that is taken is only logged: being watched is not
// what a service is for.
func (m *Metrics) Serve(address string, log *slog.Logger) {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", m.Handler())
	server := &http.Server{Addr: address, Handler: mux, ReadHeaderTimeout: 5 * time.Second}
	go func() {
		log.Warn("metrics endpoint ended", "address", address, "error", server.ListenAndServe())
	}()
}
