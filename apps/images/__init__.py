"""Images of the lite profile: what the topologies call `registry.internal/...`, built here and brought to the nodes.

Each folder is one image (or, for `twin`, one family): its Dockerfile, its pins, and nothing that only its builder
knows. Tags are plausible and stable, since agents see them; what an image was made from is in its content-addressed
second tag and in the run's lock file. Images that never enter the cluster (the load generator, the gateway's relay)
are listed apart.
"""

from apps.images.recipes import CLUSTER_SIDE, HOST_SIDE, STEPS, recipes_for

__all__ = ["CLUSTER_SIDE", "HOST_SIDE", "STEPS", "recipes_for"]
