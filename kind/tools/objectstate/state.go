package main

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"
	apps "k8s.io/api/apps/v1"
	autoscaling "k8s.io/api/autoscaling/v2"
	batch "k8s.io/api/batch/v1"
	core "k8s.io/api/core/v1"
	discovery "k8s.io/api/discovery/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
)

// state holds every object that is told about, kept up to date by watches, and tells of them when it is scraped.
type state struct {
	factory informers.SharedInformerFactory
	tellers []teller
}

// teller is one kind: where its objects are and what is told of each.
type teller struct {
	informer cache.SharedIndexInformer
	tell     func(object any, to sink)
}

func newState(client kubernetes.Interface) *state {
	factory := informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithTransform(slim))
	s := &state{factory: factory}
	add(s, factory.Core().V1().Pods().Informer(), tellPod)
	add(s, factory.Core().V1().Nodes().Informer(), tellNode)
	add(s, factory.Core().V1().Namespaces().Informer(), tellNamespace)
	add(s, factory.Core().V1().Services().Informer(), tellService)
	add(s, factory.Discovery().V1().EndpointSlices().Informer(), tellEndpoints)
	add(s, factory.Core().V1().PersistentVolumeClaims().Informer(), tellClaim)
	add(s, factory.Core().V1().PersistentVolumes().Informer(), tellVolume)
	add(s, factory.Core().V1().ResourceQuotas().Informer(), tellQuota)
	add(s, factory.Apps().V1().Deployments().Informer(), tellDeployment)
	add(s, factory.Apps().V1().ReplicaSets().Informer(), tellReplicaSet)
	add(s, factory.Apps().V1().StatefulSets().Informer(), tellStatefulSet)
	add(s, factory.Apps().V1().DaemonSets().Informer(), tellDaemonSet)
	add(s, factory.Batch().V1().Jobs().Informer(), tellJob)
	add(s, factory.Batch().V1().CronJobs().Informer(), tellCronJob)
	add(s, factory.Autoscaling().V2().HorizontalPodAutoscalers().Informer(), tellAutoscaler)
	return s
}

type told interface {
	*core.Pod | *core.Node | *core.Namespace | *core.Service | *discovery.EndpointSlice |
		*core.PersistentVolumeClaim | *core.PersistentVolume | *core.ResourceQuota |
		*apps.Deployment | *apps.ReplicaSet | *apps.StatefulSet | *apps.DaemonSet |
		*batch.Job | *batch.CronJob | *autoscaling.HorizontalPodAutoscaler
}

func add[T told](s *state, informer cache.SharedIndexInformer, tell func(T, sink)) {
	s.tellers = append(s.tellers, teller{informer: informer, tell: func(object any, to sink) {
		if typed, ok := object.(T); ok {
			tell(typed, to)
		}
	}})
}

// slim drops what is never told: the record of who set which field is half of an object.
func slim(object any) (any, error) {
	if held, ok := object.(meta.Object); ok {
		held.SetManagedFields(nil)
		held.SetAnnotations(nil)
	}
	return object, nil
}

func (s *state) start(ctx context.Context) { s.factory.Start(ctx.Done()) }

// synced tells whether the first list of every kind has come.
func (s *state) synced() bool {
	for _, one := range s.tellers {
		if !one.informer.HasSynced() {
			return false
		}
	}
	return true
}

// Describe tells nothing beforehand: which series there are depends on the objects.
func (s *state) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector.
func (s *state) Collect(out chan<- prometheus.Metric) {
	for _, one := range s.tellers {
		for _, object := range one.informer.GetStore().List() {
			one.tell(object, sink{out})
		}
	}
}
