package main

import (
	"strconv"

	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
)

var phases = []string{"Pending", "Succeeded", "Failed", "Unknown", "Running"}

func tellPod(pod *core.Pod, to sink) {
	labels := []string{"namespace", pod.Namespace, "pod", pod.Name, "uid", string(pod.UID)}
	kind, name, controlled := owner(pod)
	to.gauge("kube_pod_info", 1, with(labels, "host_ip", pod.Status.HostIP, "pod_ip", pod.Status.PodIP,
		"node", pod.Spec.NodeName, "created_by_kind", kind, "created_by_name", name,
		"priority_class", pod.Spec.PriorityClassName, "host_network", strconv.FormatBool(pod.Spec.HostNetwork))...)
	to.gauge("kube_pod_owner", 1, with(labels, "owner_kind", kind, "owner_name", name, "owner_is_controller", controlled)...)
	to.created("kube_pod_created", pod, labels...)
	if pod.Status.StartTime != nil {
		to.gauge("kube_pod_start_time", seconds(pod.Status.StartTime.Time), labels...)
	}
	if pod.DeletionTimestamp != nil {
		to.gauge("kube_pod_deletion_timestamp", seconds(pod.DeletionTimestamp.Time), labels...)
	}
	to.flag("kube_pod_status_phase", string(pod.Status.Phase), phases, "phase", labels...)
	if pod.Status.Reason != "" {
		to.gauge("kube_pod_status_reason", 1, with(labels, "reason", pod.Status.Reason)...)
	}
	tellPodConditions(pod, labels, to)
	for _, volume := range pod.Spec.Volumes {
		if claim := volume.PersistentVolumeClaim; claim != nil {
			to.gauge("kube_pod_spec_volumes_persistentvolumeclaims_info", 1,
				with(labels, "volume", volume.Name, "persistentvolumeclaim", claim.ClaimName)...)
		}
	}
	for _, container := range pod.Spec.Containers {
		here := with(labels, "container", container.Name, "node", pod.Spec.NodeName)
		to.amounts("kube_pod_container_resource_requests", container.Resources.Requests, here...)
		to.amounts("kube_pod_container_resource_limits", container.Resources.Limits, here...)
	}
	tellContainers("kube_pod_container", pod.Status.ContainerStatuses, labels, to)
	tellContainers("kube_pod_init_container", pod.Status.InitContainerStatuses, labels, to)
}

func tellPodConditions(pod *core.Pod, labels []string, to sink) {
	for _, condition := range pod.Status.Conditions {
		switch condition.Type {
		case core.PodReady:
			to.condition("kube_pod_status_ready", condition.Status, "condition", labels...)
		case core.PodScheduled:
			to.condition("kube_pod_status_scheduled", condition.Status, "condition", labels...)
			if condition.Status == core.ConditionFalse {
				to.gauge("kube_pod_status_unschedulable", 1, labels...)
			}
		}
	}
}

func tellContainers(prefix string, statuses []core.ContainerStatus, labels []string, to sink) {
	for _, status := range statuses {
		here := with(labels, "container", status.Name)
		to.gauge(prefix+"_info", 1, with(here, "image", status.Image, "image_id", status.ImageID, "container_id", status.ContainerID)...)
		to.gauge(prefix+"_status_ready", truth(status.Ready), here...)
		to.gauge(prefix+"_status_running", truth(status.State.Running != nil), here...)
		to.gauge(prefix+"_status_waiting", truth(status.State.Waiting != nil), here...)
		to.gauge(prefix+"_status_terminated", truth(status.State.Terminated != nil), here...)
		to.counter(prefix+"_status_restarts_total", float64(status.RestartCount), here...)
		if waiting := status.State.Waiting; waiting != nil && waiting.Reason != "" {
			to.gauge(prefix+"_status_waiting_reason", 1, with(here, "reason", waiting.Reason)...)
		}
		if ended := status.State.Terminated; ended != nil {
			to.gauge(prefix+"_status_terminated_reason", 1, with(here, "reason", ended.Reason)...)
		}
		if running := status.State.Running; running != nil {
			to.gauge(prefix+"_state_started", seconds(running.StartedAt.Time), here...)
		}
		if last := status.LastTerminationState.Terminated; last != nil {
			to.gauge(prefix+"_status_last_terminated_reason", 1, with(here, "reason", last.Reason)...)
			to.gauge(prefix+"_status_last_terminated_exitcode", float64(last.ExitCode), here...)
			to.gauge(prefix+"_status_last_terminated_timestamp", seconds(last.FinishedAt.Time), here...)
		}
	}
}

// owner is who made an object: kind, name and whether it controls it.
func owner(object meta.Object) (kind, name, controlled string) {
	for _, one := range object.GetOwnerReferences() {
		if one.Controller != nil && *one.Controller {
			return one.Kind, one.Name, "true"
		}
	}
	return "", "", ""
}
