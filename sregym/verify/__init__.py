"""The adversarial self-test of problems: each right repair must pass, each cheat must fail, on a live cluster.

What belongs here: the cells of the test, the state of the world between two cells, and the report. What does not:
printing (the command does), and any knowledge of a concrete problem.
"""

from sregym.verify.cells import CellKind, CellResult, Outcome, Report
from sregym.verify.verifier import verify

__all__ = ["CellKind", "CellResult", "Outcome", "Report", "verify"]
