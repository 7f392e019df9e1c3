"""Programs of others that are compiled from their module with a patch of ours."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from sregym.cluster.providers.steps import StepContext


async def patched_module(context: StepContext, module: str, *, pinned_in: Path, patch: Path, to: Path) -> str:
    """Puts a Go module's source, patched, into a folder that the caller removes. Returns the module's version.

    Args:
        pinned_in: The folder whose go.mod and go.sum decide the version.
        to: The folder; what is there goes.
    """
    listed = await context.run(["go", "mod", "download", "-json", module], cwd=pinned_in)
    found = json.loads(listed.stdout)
    _copy(Path(found["Dir"]), to)
    outside_any_repository = {"GIT_CEILING_DIRECTORIES": str(to.parent)}
    await context.run(["git", "apply", patch], cwd=to, env=outside_any_repository)
    return str(found["Version"])


def _copy(source: Path, to: Path) -> None:
    shutil.rmtree(to, ignore_errors=True)
    shutil.copytree(source, to, copy_function=shutil.copyfile)
    for folder in (to, *filter(Path.is_dir, to.rglob("*"))):
        folder.chmod(0o755)  # folders of the module cache are read-only
