"""Puts the commands together."""

from __future__ import annotations

from collections.abc import Callable

from cyclopts import App as Cyclopts
from cyclopts import Parameter

from sregym.catalogue import Catalogue
from sregym.cli.audit import audit_command
from sregym.cli.cluster import cluster_app
from sregym.cli.doctor import doctor_app
from sregym.cli.problems import problems_app
from sregym.cli.recover import recover_app
from sregym.cli.results import results_command
from sregym.cli.run import demo_command, run_command
from sregym.cli.verify import verify_command
from sregym.cli.version import version
from sregym.coordinator.lab import Content

HELP = """Put an SRE agent on call for a live, really broken Kubernetes application, and grade what it does.

    python main.py --agent playbook --suite demo        a first graded run: no key, no image registry
    python main.py --agent react --model openai/gpt-5   a model of your choice
    python main.py problems list                        what there is
    python main.py results RUN                          the table of a run again
    python main.py doctor                               is this machine fit?
"""
PLAIN = Parameter(negative="", show_default=lambda value: None if value is False or value == () else value)
"""No `--no-x` beside `--x`, and no default that is nothing: flags are off, lists are empty unless given."""
INCIDENTOPS_HELP = "Simulated incidents for training: no cluster, thousands of steps a second."
"""Here, since the command is imported only when it is used."""


def build(content: Callable[[], Content]) -> Cyclopts:
    """The command line. `content` is called when a command needs it, so that `--help` is quick."""

    def catalogue() -> Catalogue:
        return content().catalogue

    app = Cyclopts(name="main.py", help=HELP, help_format="plaintext", version=version, default_parameter=PLAIN)
    app.default(run_command(content))
    app.command(demo_command(content), name="demo")
    app.command(results_command(), name="results")
    app.command(problems_app(catalogue))
    app.command(verify_command(content), name="verify")
    app.command(audit_command(content), name="audit")
    app.command(cluster_app(content))
    app.command(doctor_app)
    app.command(recover_app())
    app.command("sregym.cli.incidentops:incidentops_app", name="incidentops", help=INCIDENTOPS_HELP)
    return app
