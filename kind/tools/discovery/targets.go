package main

import (
	"cmp"
	"context"
	"net"
	"slices"
	"strconv"

	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
)

// group is one entry of an answer, as Prometheus wants it.
type group struct {
	Targets []string          `json:"targets"`
	Labels  map[string]string `json:"labels"`
}

// seen is every node and pod, kept up to date by watches.
type seen struct {
	factory informers.SharedInformerFactory
}

func newSeen(client kubernetes.Interface) *seen {
	s := &seen{factory: informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithTransform(slim))}
	s.factory.Core().V1().Nodes().Informer()
	s.factory.Core().V1().Pods().Informer()
	return s
}

// slim drops what no label is made of.
func slim(object any) (any, error) {
	if held, ok := object.(meta.Object); ok {
		held.SetManagedFields(nil)
		held.SetAnnotations(nil)
		held.SetLabels(nil)
	}
	return object, nil
}

func (s *seen) start(ctx context.Context) { s.factory.Start(ctx.Done()) }

func (s *seen) synced() bool {
	v1 := s.factory.Core().V1()
	return v1.Nodes().Informer().HasSynced() && v1.Pods().Informer().HasSynced()
}

// nodeGroups is role `node`: one target a node, its kubelet.
func (s *seen) nodeGroups() ([]group, error) {
	nodes, err := s.factory.Core().V1().Nodes().Lister().List(labels.Everything())
	if err != nil {
		return nil, err
	}
	found := []group{}
	for _, node := range nodes {
		if host := addressOf(node); host != "" {
			port := strconv.Itoa(int(node.Status.DaemonEndpoints.KubeletEndpoint.Port))
			found = append(found, group{
				Targets: []string{net.JoinHostPort(host, port)},
				Labels:  map[string]string{"__meta_kubernetes_node_name": node.Name},
			})
		}
	}
	return sorted(found), nil
}

func addressOf(node *core.Node) string {
	for _, one := range node.Status.Addresses {
		if one.Type == core.NodeInternalIP {
			return one.Address
		}
	}
	return ""
}

// podGroups is role `pod`: one target for each port that a container declares.
func (s *seen) podGroups(namespace string) ([]group, error) {
	pods, err := s.factory.Core().V1().Pods().Lister().Pods(namespace).List(labels.Everything())
	if err != nil {
		return nil, err
	}
	found := []group{}
	for _, pod := range pods {
		if pod.Status.PodIP == "" {
			continue
		}
		for _, container := range pod.Spec.Containers {
			for _, port := range container.Ports {
				found = append(found, group{
					Targets: []string{net.JoinHostPort(pod.Status.PodIP, strconv.Itoa(int(port.ContainerPort)))},
					Labels: map[string]string{
						"__meta_kubernetes_namespace":               pod.Namespace,
						"__meta_kubernetes_pod_name":                pod.Name,
						"__meta_kubernetes_pod_phase":               string(pod.Status.Phase),
						"__meta_kubernetes_pod_node_name":           pod.Spec.NodeName,
						"__meta_kubernetes_pod_container_name":      container.Name,
						"__meta_kubernetes_pod_container_port_name": port.Name,
					},
				})
			}
		}
	}
	return sorted(found), nil
}

// sorted gives the same answer for the same objects.
func sorted(groups []group) []group {
	slices.SortFunc(groups, func(a, b group) int {
		return cmp.Or(
			cmp.Compare(a.Targets[0], b.Targets[0]),
			cmp.Compare(a.Labels["__meta_kubernetes_pod_name"], b.Labels["__meta_kubernetes_pod_name"]),
		)
	})
	return groups
}
