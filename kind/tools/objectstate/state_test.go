package main

import (
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	apps "k8s.io/api/apps/v1"
	core "k8s.io/api/core/v1"
	discovery "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// tellAll is what a state tells of objects: one line a sample, `name{label="value",...} value`.
func tellAll(t *testing.T, objects ...any) string {
	t.Helper()
	client, err := kubernetes.NewForConfig(&rest.Config{Host: "http://127.0.0.1:1"})
	if err != nil {
		t.Fatal(err)
	}
	state := newState(client)
	for _, object := range objects {
		for _, one := range state.tellers {
			// Each teller ignores what is not of its kind.
			if err := one.informer.GetStore().Add(object); err != nil {
				t.Fatal(err)
			}
		}
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(state)
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var lines strings.Builder
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			labels := []string{}
			for _, label := range metric.GetLabel() {
				labels = append(labels, label.GetName()+"="+label.GetValue())
			}
			value := metric.GetGauge().GetValue() + metric.GetCounter().GetValue()
			lines.WriteString(family.GetName() + "{" + strings.Join(labels, ",") + "} " + time.Duration(value).String() + "\n")
		}
	}
	return lines.String()
}

func expect(t *testing.T, have string, lines ...string) {
	t.Helper()
	for _, line := range lines {
		if !strings.Contains(have, line) {
			t.Errorf("missing %s in:\n%s", line, have)
		}
	}
}

func TestAPodThatWasKilledForItsMemory(t *testing.T) {
	yes := true
	pod := &core.Pod{
		ObjectMeta: meta.ObjectMeta{Namespace: "shop", Name: "a-1", UID: "u",
			OwnerReferences: []meta.OwnerReference{{Kind: "ReplicaSet", Name: "a", Controller: &yes}}},
		Spec: core.PodSpec{NodeName: "w1", Containers: []core.Container{{Name: "a", Resources: core.ResourceRequirements{
			Limits: core.ResourceList{core.ResourceMemory: resource.MustParse("1Ki")}}}}},
		Status: core.PodStatus{
			Phase:      core.PodRunning,
			Conditions: []core.PodCondition{{Type: core.PodReady, Status: core.ConditionFalse}},
			ContainerStatuses: []core.ContainerStatus{{Name: "a", RestartCount: 4,
				State:                core.ContainerState{Waiting: &core.ContainerStateWaiting{Reason: "CrashLoopBackOff"}},
				LastTerminationState: core.ContainerState{Terminated: &core.ContainerStateTerminated{Reason: "OOMKilled", ExitCode: 137}}}},
		},
	}
	expect(t, tellAll(t, pod),
		"kube_pod_status_phase{namespace=shop,phase=Running,pod=a-1,uid=u} 1ns",
		"kube_pod_status_phase{namespace=shop,phase=Pending,pod=a-1,uid=u} 0s",
		"kube_pod_status_ready{condition=false,namespace=shop,pod=a-1,uid=u} 1ns",
		"kube_pod_status_ready{condition=true,namespace=shop,pod=a-1,uid=u} 0s",
		"kube_pod_container_status_restarts_total{container=a,namespace=shop,pod=a-1,uid=u} 4ns",
		"kube_pod_container_status_waiting_reason{container=a,namespace=shop,pod=a-1,reason=CrashLoopBackOff,uid=u} 1ns",
		"kube_pod_container_status_last_terminated_reason{container=a,namespace=shop,pod=a-1,reason=OOMKilled,uid=u} 1ns",
		"kube_pod_container_resource_limits{container=a,namespace=shop,node=w1,pod=a-1,resource=memory,uid=u,unit=byte} 1.024µs",
		"kube_pod_owner{namespace=shop,owner_is_controller=true,owner_kind=ReplicaSet,owner_name=a,pod=a-1,uid=u} 1ns",
	)
}

func TestAServiceWhosePodIsNotReady(t *testing.T) {
	no, port, name := false, int32(80), "http"
	service := &core.Service{ObjectMeta: meta.ObjectMeta{Namespace: "shop", Name: "a"}, Spec: core.ServiceSpec{Selector: map[string]string{"app": "a"}}}
	headless := &core.Service{ObjectMeta: meta.ObjectMeta{Namespace: "shop", Name: "outside"}}
	slice := &discovery.EndpointSlice{
		ObjectMeta: meta.ObjectMeta{Namespace: "shop", Name: "a-x", Labels: map[string]string{discovery.LabelServiceName: "a"}},
		Endpoints:  []discovery.Endpoint{{Addresses: []string{"10.0.0.1"}, Conditions: discovery.EndpointConditions{Ready: &no}}},
		Ports:      []discovery.EndpointPort{{Port: &port, Name: &name}},
	}
	have := tellAll(t, service, headless, slice)
	expect(t, have,
		"kube_endpoint_info{endpoint=a,namespace=shop} 1ns",
		"kube_endpoint_address{endpoint=a,ip=10.0.0.1,namespace=shop,port_name=http,port_number=80,port_protocol=,ready=false} 1ns",
	)
	if strings.Contains(have, "kube_endpoint_info{endpoint=outside") {
		t.Error("a Service without a selector has no endpoints of its own")
	}
}

func TestADeploymentAndANode(t *testing.T) {
	none := int32(0)
	deployment := &apps.Deployment{ObjectMeta: meta.ObjectMeta{Namespace: "shop", Name: "a"}, Spec: apps.DeploymentSpec{Replicas: &none}}
	unsaid := &apps.Deployment{ObjectMeta: meta.ObjectMeta{Namespace: "shop", Name: "b"}}
	node := &core.Node{
		ObjectMeta: meta.ObjectMeta{Name: "w1", Labels: map[string]string{"node-role.kubernetes.io/control-plane": ""}},
		Spec:       core.NodeSpec{Unschedulable: true, Taints: []core.Taint{{Key: "k", Effect: core.TaintEffectNoSchedule}}},
		Status:     core.NodeStatus{Conditions: []core.NodeCondition{{Type: core.NodeDiskPressure, Status: core.ConditionTrue}}},
	}
	expect(t, tellAll(t, deployment, unsaid, node),
		"kube_deployment_spec_replicas{deployment=a,namespace=shop} 0s",
		"kube_deployment_spec_replicas{deployment=b,namespace=shop} 1ns",
		"kube_node_spec_unschedulable{node=w1} 1ns",
		"kube_node_role{node=w1,role=control-plane} 1ns",
		"kube_node_spec_taint{effect=NoSchedule,key=k,node=w1,value=} 1ns",
		"kube_node_status_condition{condition=DiskPressure,node=w1,status=true} 1ns",
	)
}

func TestBeforeTheFirstListsNothingIsReady(t *testing.T) {
	client, _ := kubernetes.NewForConfig(&rest.Config{Host: "http://127.0.0.1:1"})
	if newState(client).synced() {
		t.Error("ready without having listed anything")
	}
}
