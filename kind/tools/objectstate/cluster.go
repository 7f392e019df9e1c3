package main

import (
	"strconv"
	"strings"

	core "k8s.io/api/core/v1"
	discovery "k8s.io/api/discovery/v1"
)

func tellNode(n *core.Node, to sink) {
	labels := []string{"node", n.Name}
	info := n.Status.NodeInfo
	address := ""
	for _, one := range n.Status.Addresses {
		if one.Type == core.NodeInternalIP {
			address = one.Address
		}
	}
	to.gauge("kube_node_info", 1, with(labels, "kernel_version", info.KernelVersion, "os_image", info.OSImage,
		"container_runtime_version", info.ContainerRuntimeVersion, "kubelet_version", info.KubeletVersion,
		"pod_cidr", n.Spec.PodCIDR, "internal_ip", address)...)
	to.created("kube_node_created", n, labels...)
	to.gauge("kube_node_spec_unschedulable", truth(n.Spec.Unschedulable), labels...)
	for _, taint := range n.Spec.Taints {
		to.gauge("kube_node_spec_taint", 1, with(labels, "key", taint.Key, "value", taint.Value, "effect", string(taint.Effect))...)
	}
	for label := range n.Labels {
		if role, is := strings.CutPrefix(label, "node-role.kubernetes.io/"); is {
			to.gauge("kube_node_role", 1, with(labels, "role", role)...)
		}
	}
	for _, condition := range n.Status.Conditions {
		to.condition("kube_node_status_condition", condition.Status, "status", with(labels, "condition", string(condition.Type))...)
	}
	to.amounts("kube_node_status_capacity", n.Status.Capacity, labels...)
	to.amounts("kube_node_status_allocatable", n.Status.Allocatable, labels...)
}

func tellNamespace(n *core.Namespace, to sink) {
	to.created("kube_namespace_created", n, "namespace", n.Name)
	to.flag("kube_namespace_status_phase", string(n.Status.Phase), []string{"Active", "Terminating"}, "phase", "namespace", n.Name)
}

func tellService(s *core.Service, to sink) {
	labels := []string{"namespace", s.Namespace, "service", s.Name}
	to.gauge("kube_service_info", 1, with(labels, "cluster_ip", s.Spec.ClusterIP, "external_name", s.Spec.ExternalName)...)
	to.gauge("kube_service_spec_type", 1, with(labels, "type", string(s.Spec.Type))...)
	to.created("kube_service_created", s, labels...)
	if len(s.Spec.Selector) > 0 {
		// An Endpoints object exists for every Service with a selector, also where no pod matches it.
		to.gauge("kube_endpoint_info", 1, "namespace", s.Namespace, "endpoint", s.Name)
	}
}

// tellEndpoints tells EndpointSlices as the Endpoints that they replace.
func tellEndpoints(e *discovery.EndpointSlice, to sink) {
	service := e.Labels[discovery.LabelServiceName]
	if service == "" {
		return
	}
	for _, endpoint := range e.Endpoints {
		ready := endpoint.Conditions.Ready == nil || *endpoint.Conditions.Ready
		for _, address := range endpoint.Addresses {
			for _, port := range e.Ports {
				to.gauge("kube_endpoint_address", 1, "namespace", e.Namespace, "endpoint", service, "ip", address,
					"ready", strconv.FormatBool(ready), "port_name", text(port.Name), "port_number", number(port.Port),
					"port_protocol", text((*string)(port.Protocol)))
			}
		}
	}
}

var claimPhases = []string{"Lost", "Bound", "Pending"}

func tellClaim(c *core.PersistentVolumeClaim, to sink) {
	labels := []string{"namespace", c.Namespace, "persistentvolumeclaim", c.Name}
	to.gauge("kube_persistentvolumeclaim_info", 1, with(labels, "storageclass", text(c.Spec.StorageClassName), "volumename", c.Spec.VolumeName)...)
	to.flag("kube_persistentvolumeclaim_status_phase", string(c.Status.Phase), claimPhases, "phase", labels...)
	if wanted, is := c.Spec.Resources.Requests[core.ResourceStorage]; is {
		to.gauge("kube_persistentvolumeclaim_resource_requests_storage_bytes", wanted.AsApproximateFloat64(), labels...)
	}
}

var volumePhases = []string{"Pending", "Available", "Bound", "Released", "Failed"}

func tellVolume(v *core.PersistentVolume, to sink) {
	labels := []string{"persistentvolume", v.Name}
	to.flag("kube_persistentvolume_status_phase", string(v.Status.Phase), volumePhases, "phase", labels...)
	if size, is := v.Spec.Capacity[core.ResourceStorage]; is {
		to.gauge("kube_persistentvolume_capacity_bytes", size.AsApproximateFloat64(), labels...)
	}
	if claim := v.Spec.ClaimRef; claim != nil {
		to.gauge("kube_persistentvolume_claim_ref", 1, with(labels, "claim_namespace", claim.Namespace, "name", claim.Name)...)
	}
}

func tellQuota(q *core.ResourceQuota, to sink) {
	labels := []string{"namespace", q.Namespace, "resourcequota", q.Name}
	for kind, list := range map[string]core.ResourceList{"hard": q.Status.Hard, "used": q.Status.Used} {
		for resource, quantity := range list {
			to.gauge("kube_resourcequota", quantity.AsApproximateFloat64(), with(labels, "resource", string(resource), "type", kind)...)
		}
	}
}

func text(value *string) string {
	if value == nil {
		return ""
	}
	return *value
}

func number(value *int32) string {
	if value == nil {
		return ""
	}
	return strconv.Itoa(int(*value))
}
