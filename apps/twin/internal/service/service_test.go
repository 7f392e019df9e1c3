package service

import "testing"

func TestTheNameSaysWhichServiceItIs(t *testing.T) {
	commands := map[string]Command{"geo": {}, "rate": {}}
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"/go/bin/geo"}, "geo"}, {[]string{"geo", "rate"}, "geo"}, {[]string{"/bin/hotelreservation", "rate"}, "rate"},
		{[]string{"hotelreservation"}, "hotelreservation"}, {[]string{"hotelreservation", "none"}, "none"},
	} {
		if got := Identity(c.args, commands); got != c.want {
			t.Errorf("%v: %q", c.args, got)
		}
	}
}

func TestMetricsPorts(t *testing.T) {
	own := Command{MetricsPortVariable: "SEARCH_METRICS_PORT", MetricsPort: 9092}
	if metricsPort(own) != 9092 || metricsPort(Command{}) != DefaultMetricsPort {
		t.Error("defaults")
	}
	t.Setenv("SEARCH_METRICS_PORT", "1")
	t.Setenv("OTEL_EXPORTER_PROMETHEUS_PORT", "2")
	if metricsPort(own) != 1 || metricsPort(Command{}) != 2 {
		t.Error("set by the environment")
	}
}
