"""The composition root: content in, command line out."""

from __future__ import annotations

import sys
from functools import cache

from sregym.cli.start import libraries

with libraries("main.py"):
    from sregym.cli.app import build
    from sregym.cli.entry import run
    from sregym.coordinator.lab import Content


@cache
def content() -> Content:
    """Everything that the core is handed of content. Imported late, so that `--help` needs none of it."""
    from apps.images import HOST_SIDE, STEPS, recipes_for
    from sregym.catalogue import Catalogue

    return Content(catalogue=Catalogue.discover("problems"), app_images=recipes_for, host_images=HOST_SIDE, steps=STEPS)


if __name__ == "__main__":
    sys.exit(run(build(content)))
