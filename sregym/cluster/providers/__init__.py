"""Where clusters come from: Docker on the host, kind and its images, or anybody's cluster by kubeconfig.

Belongs here: what happens before there is an API server to talk to, and what is bound to one kind of host. Does not
belong here: talking to Kubernetes beyond the question whether a cluster is up and what it can do.
"""
