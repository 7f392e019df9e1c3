package main

import (
	"math"

	apps "k8s.io/api/apps/v1"
	autoscaling "k8s.io/api/autoscaling/v2"
	batch "k8s.io/api/batch/v1"
)

func tellDeployment(d *apps.Deployment, to sink) {
	labels := []string{"namespace", d.Namespace, "deployment", d.Name}
	to.created("kube_deployment_created", d, labels...)
	to.gauge("kube_deployment_spec_replicas", count(d.Spec.Replicas, 1), labels...)
	to.gauge("kube_deployment_spec_paused", truth(d.Spec.Paused), labels...)
	to.gauge("kube_deployment_status_replicas", float64(d.Status.Replicas), labels...)
	to.gauge("kube_deployment_status_replicas_ready", float64(d.Status.ReadyReplicas), labels...)
	to.gauge("kube_deployment_status_replicas_available", float64(d.Status.AvailableReplicas), labels...)
	to.gauge("kube_deployment_status_replicas_unavailable", float64(d.Status.UnavailableReplicas), labels...)
	to.gauge("kube_deployment_status_replicas_updated", float64(d.Status.UpdatedReplicas), labels...)
	to.gauge("kube_deployment_metadata_generation", float64(d.Generation), labels...)
	to.gauge("kube_deployment_status_observed_generation", float64(d.Status.ObservedGeneration), labels...)
	for _, condition := range d.Status.Conditions {
		to.condition("kube_deployment_status_condition", condition.Status, "status",
			with(labels, "condition", string(condition.Type))...)
	}
}

func tellReplicaSet(r *apps.ReplicaSet, to sink) {
	labels := []string{"namespace", r.Namespace, "replicaset", r.Name}
	kind, name, controlled := owner(r)
	to.created("kube_replicaset_created", r, labels...)
	to.gauge("kube_replicaset_spec_replicas", count(r.Spec.Replicas, 1), labels...)
	to.gauge("kube_replicaset_status_replicas", float64(r.Status.Replicas), labels...)
	to.gauge("kube_replicaset_status_ready_replicas", float64(r.Status.ReadyReplicas), labels...)
	to.gauge("kube_replicaset_owner", 1, with(labels, "owner_kind", kind, "owner_name", name, "owner_is_controller", controlled)...)
}

func tellStatefulSet(s *apps.StatefulSet, to sink) {
	labels := []string{"namespace", s.Namespace, "statefulset", s.Name}
	to.created("kube_statefulset_created", s, labels...)
	to.gauge("kube_statefulset_replicas", count(s.Spec.Replicas, 1), labels...)
	to.gauge("kube_statefulset_status_replicas", float64(s.Status.Replicas), labels...)
	to.gauge("kube_statefulset_status_replicas_ready", float64(s.Status.ReadyReplicas), labels...)
	to.gauge("kube_statefulset_status_replicas_available", float64(s.Status.AvailableReplicas), labels...)
	to.gauge("kube_statefulset_status_replicas_current", float64(s.Status.CurrentReplicas), labels...)
	to.gauge("kube_statefulset_status_replicas_updated", float64(s.Status.UpdatedReplicas), labels...)
	to.gauge("kube_statefulset_metadata_generation", float64(s.Generation), labels...)
	to.gauge("kube_statefulset_status_observed_generation", float64(s.Status.ObservedGeneration), labels...)
}

func tellDaemonSet(d *apps.DaemonSet, to sink) {
	labels := []string{"namespace", d.Namespace, "daemonset", d.Name}
	to.created("kube_daemonset_created", d, labels...)
	to.gauge("kube_daemonset_status_desired_number_scheduled", float64(d.Status.DesiredNumberScheduled), labels...)
	to.gauge("kube_daemonset_status_current_number_scheduled", float64(d.Status.CurrentNumberScheduled), labels...)
	to.gauge("kube_daemonset_status_number_ready", float64(d.Status.NumberReady), labels...)
	to.gauge("kube_daemonset_status_number_available", float64(d.Status.NumberAvailable), labels...)
	to.gauge("kube_daemonset_status_number_unavailable", float64(d.Status.NumberUnavailable), labels...)
	to.gauge("kube_daemonset_status_number_misscheduled", float64(d.Status.NumberMisscheduled), labels...)
	to.gauge("kube_daemonset_status_updated_number_scheduled", float64(d.Status.UpdatedNumberScheduled), labels...)
}

func tellJob(j *batch.Job, to sink) {
	labels := []string{"namespace", j.Namespace, "job_name", j.Name}
	kind, name, controlled := owner(j)
	to.created("kube_job_created", j, labels...)
	to.gauge("kube_job_owner", 1, with(labels, "owner_kind", kind, "owner_name", name, "owner_is_controller", controlled)...)
	to.gauge("kube_job_status_active", float64(j.Status.Active), labels...)
	to.gauge("kube_job_status_succeeded", float64(j.Status.Succeeded), labels...)
	to.gauge("kube_job_status_failed", float64(j.Status.Failed), labels...)
	for _, condition := range j.Status.Conditions {
		switch condition.Type {
		case batch.JobFailed:
			to.condition("kube_job_failed", condition.Status, "condition", labels...)
		case batch.JobComplete:
			to.condition("kube_job_complete", condition.Status, "condition", labels...)
		}
	}
}

func tellCronJob(c *batch.CronJob, to sink) {
	labels := []string{"namespace", c.Namespace, "cronjob", c.Name}
	to.created("kube_cronjob_created", c, labels...)
	to.gauge("kube_cronjob_spec_suspend", truth(c.Spec.Suspend != nil && *c.Spec.Suspend), labels...)
	to.gauge("kube_cronjob_status_active", float64(len(c.Status.Active)), labels...)
	if c.Status.LastScheduleTime != nil {
		to.gauge("kube_cronjob_status_last_schedule_time", seconds(c.Status.LastScheduleTime.Time), labels...)
	}
}

func tellAutoscaler(h *autoscaling.HorizontalPodAutoscaler, to sink) {
	labels := []string{"namespace", h.Namespace, "horizontalpodautoscaler", h.Name}
	target := h.Spec.ScaleTargetRef
	to.gauge("kube_horizontalpodautoscaler_info", 1, with(labels, "scaletargetref_kind", target.Kind, "scaletargetref_name", target.Name)...)
	to.gauge("kube_horizontalpodautoscaler_spec_min_replicas", count(h.Spec.MinReplicas, 1), labels...)
	to.gauge("kube_horizontalpodautoscaler_spec_max_replicas", float64(h.Spec.MaxReplicas), labels...)
	to.gauge("kube_horizontalpodautoscaler_status_current_replicas", float64(h.Status.CurrentReplicas), labels...)
	to.gauge("kube_horizontalpodautoscaler_status_desired_replicas", float64(h.Status.DesiredReplicas), labels...)
	for _, condition := range h.Status.Conditions {
		to.condition("kube_horizontalpodautoscaler_status_condition", condition.Status, "status",
			with(labels, "condition", string(condition.Type))...)
	}
	for _, metric := range h.Status.CurrentMetrics {
		if used := metric.Resource; used != nil && used.Current.AverageUtilization != nil {
			to.gauge("kube_horizontalpodautoscaler_status_target_metric", float64(*used.Current.AverageUtilization),
				with(labels, "metric_name", string(used.Name), "metric_target_type", "utilization")...)
		}
	}
}

func count(wanted *int32, otherwise float64) float64 {
	if wanted == nil {
		return otherwise
	}
	return math.Max(float64(*wanted), 0)
}
