"""How content describes the container images that it needs. Their builder is `sregym.cluster.providers`."""

from sregym.cluster.providers.go_source import patched_module
from sregym.cluster.providers.images import BuiltImage, ImageContext, ImageRecipe, go_build
from sregym.cluster.providers.steps import Lane, Step, StepContext, fingerprint_of

__all__ = [
    "BuiltImage",
    "ImageContext",
    "ImageRecipe",
    "Lane",
    "Step",
    "StepContext",
    "fingerprint_of",
    "go_build",
    "patched_module",
]
