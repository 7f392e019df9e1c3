"""Runs every check of this repository in turn, and sums up in one last line: `N passed, N failed, N skipped`.

python -m scripts.test                  what `make test` and CI run
python -m scripts.test --only lint      lint, types, import contracts
python -m scripts.test --only fast      everything that needs no cluster
python -m scripts.test --only live      what needs one
python -m scripts.test --acceptance     the whole live matrix
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ET
from dataclasses import dataclass
from pathlib import Path

from sregym.cluster.providers.base import DEFAULT_NAME
from sregym.settings import Settings

ROOT = Path(__file__).resolve().parent.parent
CLUSTER_TOOLS = ("discovery", "objectstate")
SOURCES = [
    "main.py",
    "cli.py",
    "sregym",
    "apps",
    "injectors",
    "oracles",
    "problems",
    "benchmarks",
    "examples",
    "tests",
    "scripts",
]


@dataclass(frozen=True)
class Count:
    passed: int = 0
    failed: int = 0
    skipped: int = 0

    def __add__(self, other: Count) -> Count:
        return Count(self.passed + other.passed, self.failed + other.failed, self.skipped + other.skipped)


def say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def step(title: str, *argv: str, cwd: Path = ROOT) -> Count:
    """One command that passes or fails as a whole."""
    say(f"\n=== {title}: {' '.join(argv)}")
    begun = time.monotonic()
    code = subprocess.run(argv, cwd=cwd, check=False).returncode
    say(f"--- {title}: {'passed' if code == 0 else f'FAILED (exit {code})'} in {time.monotonic() - begun:.0f} s")
    return Count(passed=1) if code == 0 else Count(failed=1)


def pytest(title: str, *argv: str) -> Count:
    """A pytest run, counted test by test. A run that dies without a report counts as one failure."""
    say(f"\n=== {title}: pytest {' '.join(argv)}")
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "junit.xml"
        command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", f"--junitxml={report}", *argv]
        code = subprocess.run(command, cwd=ROOT, check=False).returncode
        if not report.exists():
            return Count(failed=1)
        suite = ET.parse(report).getroot().find("testsuite")
        assert suite is not None
        total, bad = int(suite.get("tests", 0)), int(suite.get("failures", 0)) + int(suite.get("errors", 0))
        skipped = int(suite.get("skipped", 0))
    if code not in (0, 1):
        bad = max(bad, 1)
    return Count(passed=max(total - bad - skipped, 0), failed=bad, skipped=skipped)


def lint() -> Count:
    existing = [name for name in SOURCES if (ROOT / name).exists()]
    python = sys.executable
    return (
        step("format", python, "-m", "ruff", "format", "--check", *existing)
        + step("lint", python, "-m", "ruff", "check", *existing)
        + step("types", python, "-m", "mypy")
        + step("imports", str(Path(python).parent / "lint-imports"))
    )


def go() -> Count:
    twin = ROOT / "apps" / "twin"
    return step("go vet", "go", "vet", "./...", cwd=twin) + step("go test", "go", "test", "./...", cwd=twin)


def fast() -> Count:
    return pytest("tests that need no cluster", "tests", "-m", "not live")


def live(marks: str) -> Count:
    """Tests on a real cluster, which is made first, with everything that goes on it (from a bare machine: built)."""
    up = step("cluster", sys.executable, "main.py", "cluster", "up")
    if up.failed:
        return up
    # Here, since most of what they are compiled of was compiled for the cluster.
    ours = [f"./{name}/..." for name in CLUSTER_TOOLS]
    tools = step("go test of the cluster's tools", "go", "test", "-vet=off", *ours, cwd=ROOT / "kind" / "tools")
    kubeconfig = Settings().paths.state / "clusters" / f"{DEFAULT_NAME}.kubeconfig"
    return (
        up
        + tools
        + pytest("live tests", "tests", "--live", "-m", marks, f"--kubeconfig={kubeconfig}", "--durations=25")
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=["lint", "fast", "live"])
    parser.add_argument("--acceptance", action="store_true", help="the whole live matrix")
    options = parser.parse_args()
    marks = "live" if options.acceptance else "live and not acceptance"
    if options.only == "lint":
        count = lint()
    elif options.only == "fast":
        count = go() + fast()
    elif options.only == "live":
        count = live(marks)
    else:
        count = lint() + go() + fast() + live(marks)
    say(f"\n{count.passed} passed, {count.failed} failed, {count.skipped} skipped")
    return 1 if count.failed or not count.passed else 0


if __name__ == "__main__":
    sys.exit(main())
