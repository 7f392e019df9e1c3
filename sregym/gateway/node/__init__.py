"""The node tool: what an on-call engineer does on a node over SSH, as allow-listed operations on named workers.

It runs in the coordinator's process, because every change is journalled before it is made, and reaches nodes beside
Kubernetes. There is no shell in it, no file but those named here can be read or written, credentials and the container
runtime are out of reach, and what belongs to the machine below a node (its other processes, its kernel log) is left
out of every answer. What does not belong here: Kubernetes objects (the kube proxy), deciding who may call (the token).
"""
