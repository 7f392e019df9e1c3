"""Diagnoses in the style of language models: long, with evidence, victims and what was ruled out. By problem id."""

RIGHT = {
    "assign_to_non_existent_node_hotel_reservation": """\
The pod of `recommendation` has been Pending since the last roll-out:

    0/4 nodes are available: 4 node(s) didn't match Pod's node affinity/selector.

**Root cause:** the Deployment `recommendation` carries `nodeSelector: kubernetes.io/hostname: worker-07`, and
there is no
such node in the cluster (nodes: control-plane, worker, worker2, worker3). The scheduler cannot place the pod, so
GET /recommendations fails with HTTP 500. Node resources are fine, no taints were added.
""",
    "configmap_drift_hotel_reservation": """\
Investigation summary: frontend returned HTTP 500 for /hotels. Logs of the `search` service show that calls to geo
fail.
The geo pod is in CrashLoopBackOff with "panic: no reachable servers" because the database URL is empty.
`kubectl get cm geo-config -o yaml` shows that the key `GeoMongoAddress` is missing from config.json.

Root cause: ConfigMap geo-config is missing the GeoMongoAddress key, so geo cannot connect to mongodb-geo.
""",
    "k8s_target_port-misconfig_hotel_reservation": """\
**Root Cause Analysis**

The `memcached-profile` Service in namespace `hotel-reservation` is misconfigured. Its `targetPort` is set to 11212
while
the container listens on 11211.

Evidence:
- `kubectl get endpoints memcached-profile` shows <pod-ip>:11212
- Connections are refused; profile times out and requests for hotels return errors.

All other pods are Running and Ready. No recent restarts, no OOMKilled events, no network policies.
""",
    "missing_service_hotel_reservation": """\
The hotel-reservation application is failing because the Kubernetes Service `mongodb-rate` does not exist. The
Deployment
mongodb-rate is running fine (1/1), but there's no Service object, so DNS lookup of mongodb-rate fails ("no such
host")
and the rate pod panics and goes into CrashLoopBackOff. This cascades to search and frontend (/hotels returns 500).
""",
    "readiness_probe_misconfiguration_hotel_reservation": """\
## Findings
1. The Service `frontend` has no endpoints, users get connection refused.
2. The pod of `frontend` is Running but 0/1 ready.
3. Events: "Readiness probe failed: Get http://10.244.1.9:8080/healthz: connect: connection refused"

## Root cause
The readinessProbe of Deployment `frontend` points at path /healthz on port 8080. The server listens on 5000, so
the probe
always fails, the pod never becomes ready, and the Service has nobody to send traffic to.
""",
    "resource_request_too_small": """\
mongodb-rate restarts again and again: last state Terminated, reason OOMKilled, exit code 137. The Deployment
mongodb-rate
sets resources.limits.memory to 45Mi, which is below what the database needs to start. Because its memory limit is too
low the container of mongodb-rate is killed by the kernel, rate loses its database and hotel searches fail.
""",
    "scale_pod_zero_hotel_reservation": """\
`kubectl get deploy` shows profile 0/0. Somebody scaled the Deployment `profile` to zero replicas; there is no pod,
hence
search and frontend get "no reachable instance" for it and /hotels fails with 500. Its image, configuration and
MongoDB (mongodb-profile) are healthy.
""",
    "search_rate_retry_collapse_hotel_reservation": """\
All pods are healthy, no restarts, yet 80 % of GET /hotels time out. Metrics: rate_queue_depth stays at 256 and
rate_requests_expired_total grows, although users send only 8 requests/s. search calls rate with a deadline of 750
ms and
3 attempts (RATE_RPC_TIMEOUT_MS, RATE_RPC_MAX_ATTEMPTS).

Root cause: retries of the search Deployment keep the bounded queue of the rate Deployment full. Requests expire
while they
wait but still use the capacity of 20/s, and each is tried again, so the retry storm sustains itself and does not
recover
after the burst that began it.
""",
    "storage_user_unregistered-1": """\
geo crash-loops with "server returned error on SASL authentication step: Authentication failed". I logged in to the
MongoDB of Deployment mongodb-geo: db.getUsers() on the admin database shows that the user `admin` is missing, it
has been
dropped. Because the account admin no longer exists in mongodb-geo, geo cannot log in and hotel search fails. The
credentials in geo itself are unchanged.
""",
    "storage_user_unregistered-2": """\
Root cause: the MongoDB user `admin` was removed from mongodb-rate (Deployment mongodb-rate). rate authenticates as
admin,
gets "Authentication failed" (code 18), panics and restarts; search gets no prices, so GET /hotels returns 500.
""",
}

WRONG = {
    "assign_to_non_existent_node_hotel_reservation": """\
**Root cause:** the worker nodes have run out of CPU, so that the scheduler cannot place the pod of recommendation,
which
stays Pending. GET /recommendations fails.
""",
    "configmap_drift_hotel_reservation": """\
geo is in CrashLoopBackOff. It panics with "no reachable servers" at start. Root cause: MongoDB mongodb-geo does
not accept
connections, probably since its volume is corrupt. As a result hotel search fails.
""",
    "k8s_target_port-misconfig_hotel_reservation": """\
The profile service is slow and returns errors. It cannot reach its cache: connection refused to
memcached-profile:11211.
Root cause: the memcached-profile pod has crashed and must be restarted.
""",
    "missing_service_hotel_reservation": """\
rate crash-loops since it cannot resolve mongodb-rate. The root cause is CoreDNS, which does not answer for this
name, so
that search and frontend fail.
""",
    "readiness_probe_misconfiguration_hotel_reservation": """\
The frontend Service has no endpoints since its selector does not match the labels of the frontend pods. Users get
connection refused.
""",
    "resource_request_too_small": """\
rate is in CrashLoopBackOff because its memory limit is too low: Deployment rate is OOMKilled, so hotel searches fail.
""",
    "scale_pod_zero_hotel_reservation": """\
Root cause: mongodb-profile has been scaled to 0 replicas, so profile has no database and /hotels fails with 500.
""",
    "search_rate_retry_collapse_hotel_reservation": """\
GET /hotels times out. Root cause: the Deployment mongodb-rate is too slow, its queries take seconds, so that rate
answers
late and searches fail. Increase the CPU limit of mongodb-rate.
""",
    "storage_user_unregistered-1": """\
geo fails with "Authentication failed". Root cause: the password in the configuration of Deployment geo is wrong,
so geo
cannot log in to mongodb-geo and hotel search fails.
""",
    "storage_user_unregistered-2": """\
The rate pods crash with "Authentication failed". Root cause: in mongodb-geo the user admin was dropped, so rate
cannot log
in and GET /hotels returns 500.
""",
}
