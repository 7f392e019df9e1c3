"""The incidents: one declarative YAML file each, the schema they follow, and the builder that draws an instance.

Belongs here: data about incidents. What a gauge or a condition *does* is the world's business.
"""

from sregym.incidentops.scenarios.build import build
from sregym.incidentops.scenarios.catalogue import Task, catalogue, num_tasks, splits, task_at

__all__ = ["Task", "build", "catalogue", "num_tasks", "splits", "task_at"]
