package main

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"reflect"
	"testing"

	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

func seenOf(t *testing.T, nodes []*core.Node, pods []*core.Pod) *seen {
	t.Helper()
	client, err := kubernetes.NewForConfig(&rest.Config{Host: "http://127.0.0.1:1"})
	if err != nil {
		t.Fatal(err)
	}
	s := newSeen(client)
	for _, node := range nodes {
		if err := s.factory.Core().V1().Nodes().Informer().GetStore().Add(node); err != nil {
			t.Fatal(err)
		}
	}
	for _, pod := range pods {
		if err := s.factory.Core().V1().Pods().Informer().GetStore().Add(pod); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

func pod(namespace, name, ip string, ports ...core.ContainerPort) *core.Pod {
	return &core.Pod{
		ObjectMeta: meta.ObjectMeta{Namespace: namespace, Name: name},
		Spec:       core.PodSpec{NodeName: "worker", Containers: []core.Container{{Name: "main", Ports: ports}}},
		Status:     core.PodStatus{Phase: core.PodRunning, PodIP: ip},
	}
}

func TestANodeIsItsKubelet(t *testing.T) {
	node := &core.Node{ObjectMeta: meta.ObjectMeta{Name: "worker"}}
	node.Status.Addresses = []core.NodeAddress{
		{Type: core.NodeHostName, Address: "worker"}, {Type: core.NodeInternalIP, Address: "10.0.0.2"},
	}
	node.Status.DaemonEndpoints.KubeletEndpoint.Port = 10250
	still := &core.Node{ObjectMeta: meta.ObjectMeta{Name: "still-without-address"}}
	have, err := seenOf(t, []*core.Node{node, still}, nil).nodeGroups()
	if err != nil {
		t.Fatal(err)
	}
	want := []group{{Targets: []string{"10.0.0.2:10250"}, Labels: map[string]string{"__meta_kubernetes_node_name": "worker"}}}
	if !reflect.DeepEqual(have, want) {
		t.Errorf("have %v, want %v", have, want)
	}
}

func TestAPodIsATargetForEachPort(t *testing.T) {
	ports := []core.ContainerPort{{Name: "metrics", ContainerPort: 9090}, {Name: "http", ContainerPort: 80}}
	pods := []*core.Pod{
		pod("shop", "cart", "10.1.0.2", ports...),
		pod("shop", "no-port", "10.1.0.3"),
		pod("shop", "pending", "", ports...),
		pod("bank", "vault", "fd00::1", ports[0]),
	}
	s := seenOf(t, nil, pods)
	for namespace, want := range map[string][]string{
		"":     {"10.1.0.2:80", "10.1.0.2:9090", "[fd00::1]:9090"},
		"bank": {"[fd00::1]:9090"},
		"none": {},
	} {
		groups, err := s.podGroups(namespace)
		if err != nil {
			t.Fatal(err)
		}
		have := []string{}
		for _, one := range groups {
			have = append(have, one.Targets...)
		}
		if !reflect.DeepEqual(have, want) {
			t.Errorf("namespace %q: have %v, want %v", namespace, have, want)
		}
	}
	groups, _ := s.podGroups("shop")
	want := map[string]string{
		"__meta_kubernetes_namespace": "shop", "__meta_kubernetes_pod_name": "cart",
		"__meta_kubernetes_pod_phase": "Running", "__meta_kubernetes_pod_node_name": "worker",
		"__meta_kubernetes_pod_container_name": "main", "__meta_kubernetes_pod_container_port_name": "metrics",
	}
	if !reflect.DeepEqual(groups[1].Labels, want) {
		t.Errorf("have %v, want %v", groups[1].Labels, want)
	}
}

func TestNothingIsSaidBeforeTheFirstLists(t *testing.T) {
	answer := httptest.NewRecorder()
	handler(seenOf(t, nil, nil)).ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/pods", nil))
	if answer.Code != http.StatusServiceUnavailable {
		t.Errorf("status %d", answer.Code)
	}
}

func TestNoTargetsAreAnEmptyList(t *testing.T) {
	groups, err := seenOf(t, nil, nil).podGroups("")
	if err != nil {
		t.Fatal(err)
	}
	if text, _ := json.Marshal(groups); string(text) != "[]" {
		t.Errorf("have %s", text)
	}
}
