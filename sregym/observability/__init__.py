"""The observability stack: metrics, alerts, logs and traces, once per cluster, emptied before each attempt.

Here are its manifests and configuration as data, its images, how it is installed and emptied, and the few questions
that the coordinator asks of it. Not here: what agents get to see of it (`sregym.gateway`), and the applications' own
telemetry. It works through the `Cluster` contract alone.
"""

from sregym.observability.emptying import emptied
from sregym.observability.images import recipes, steps
from sregym.observability.stack import NAMESPACE, install, objects
from sregym.observability.telemetry import Telemetry

__all__ = ["NAMESPACE", "Telemetry", "emptied", "install", "objects", "recipes", "steps"]
