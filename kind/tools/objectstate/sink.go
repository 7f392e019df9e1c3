package main

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// sink takes samples. Labels are names and values in turn.
type sink struct{ out chan<- prometheus.Metric }

func (s sink) gauge(name string, value float64, labels ...string) {
	s.send(prometheus.GaugeValue, name, value, labels)
}

func (s sink) counter(name string, value float64, labels ...string) {
	s.send(prometheus.CounterValue, name, value, labels)
}

func (s sink) send(kind prometheus.ValueType, name string, value float64, labels []string) {
	names, values := make([]string, 0, len(labels)/2), make([]string, 0, len(labels)/2)
	for i := 0; i+1 < len(labels); i += 2 {
		names, values = append(names, labels[i]), append(values, labels[i+1])
	}
	metric, err := prometheus.NewConstMetric(prometheus.NewDesc(name, help, names, nil), kind, value, values...)
	if err != nil {
		metric = prometheus.NewInvalidMetric(prometheus.NewDesc(name, help, names, nil), err)
	}
	s.out <- metric
}

const help = "See the metric of this name in kube-state-metrics."

// flag tells a condition as one sample for each value that it can have.
func (s sink) flag(name string, now string, all []string, label string, labels ...string) {
	for _, one := range all {
		s.gauge(name, truth(one == now), with(labels, label, one)...)
	}
}

var conditions = []string{"true", "false", "unknown"}

// condition tells a Kubernetes condition.
func (s sink) condition(name string, now core.ConditionStatus, label string, labels ...string) {
	s.flag(name, conditionName(now), conditions, label, labels...)
}

func (s sink) created(name string, object meta.Object, labels ...string) {
	if at := object.GetCreationTimestamp(); !at.IsZero() {
		s.gauge(name, seconds(at.Time), labels...)
	}
}

func conditionName(now core.ConditionStatus) string {
	switch now {
	case core.ConditionTrue:
		return "true"
	case core.ConditionFalse:
		return "false"
	default:
		return "unknown"
	}
}

// with is labels with some more; never the caller's own array.
func with(labels []string, more ...string) []string {
	return append(labels[:len(labels):len(labels)], more...)
}

func truth(is bool) float64 {
	if is {
		return 1
	}
	return 0
}

func seconds(at time.Time) float64 { return float64(at.Unix()) }

// amounts tells quantities by resource, each in the unit that kube-state-metrics tells it in.
func (s sink) amounts(name string, list core.ResourceList, labels ...string) {
	for resource, quantity := range list {
		unit := "integer"
		switch resource {
		case core.ResourceCPU:
			unit = "core"
		case core.ResourceMemory, core.ResourceStorage, core.ResourceEphemeralStorage:
			unit = "byte"
		}
		label := string(resource)
		if resource == core.ResourceEphemeralStorage {
			label = "ephemeral_storage"
		}
		s.gauge(name, quantity.AsApproximateFloat64(), with(labels, "resource", label, "unit", unit)...)
	}
}
