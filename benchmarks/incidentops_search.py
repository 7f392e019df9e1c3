"""Looks for a policy that scores without diagnosis in IncidentOps, and prints what it found as JSON.

    python -m benchmarks.incidentops_search --random 100000

Exhaustive to two calls, beam search, random sequences (see `sregym.incidentops.adversary`). Every sequence is
then played on tasks it was not chosen on, so that luck does not count: `held_out` is that mean.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterable
from typing import Any

from sregym.incidentops.adversary import Arena, Found, alphabet, beam, exhaustive, random_sequences, tasks

LIMIT = 0.5


def best(found: Iterable[Found]) -> tuple[Found, int]:
    """The best of a search, and how many sequences it tried."""
    top: Found | None = None
    count = 0
    for item in found:
        count += 1
        if top is None or item.mean > top.mean:
            top = item
    assert top is not None  # every search yields
    return top, count


def report(name: str, found: Iterable[Found], held_out: Arena) -> dict[str, Any]:
    """One search as JSON."""
    started = time.process_time()
    top, count = best(found)
    return {
        "search": name,
        "sequences": count,
        "best_mean": round(top.mean, 4),
        "held_out_mean": round(held_out.worth(top.calls).mean, 4),
        "best": top.text(),
        "cpu_s": round(time.process_time() - started, 1),
    }


def main() -> int:
    """Exit code 1 when a sequence scores above the limit."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--random", type=int, default=100_000, help="random sequences (%(default)s unless set)")
    parser.add_argument("--length", type=int, default=2, help="exhaustive up to so many calls (%(default)s unless set)")
    parser.add_argument("--beam", type=int, default=6, help="width of the beam (%(default)s unless set)")
    parser.add_argument("--beam-length", type=int, default=16, help="calls of its sequences (%(default)s unless set)")
    parser.add_argument(
        "--screen", type=int, default=2, help="tasks that a random sequence is screened on (%(default)s unless set)"
    )
    parser.add_argument("--only", choices=["exhaustive", "beam", "random"], help="one search instead of all")
    given = parser.parse_args()
    arena, held_out = Arena(tasks([0])), Arena(tasks([1, 2]))
    searches = {
        "exhaustive": exhaustive(arena, length=given.length),
        "beam": beam(arena, width=given.beam, length=given.beam_length),
        "random": random_sequences(arena, count=given.random, seed=1, screen=given.screen),
    }
    rows = [report(name, found, held_out) for name, found in searches.items() if given.only in (None, name)]
    for row in rows:
        if row["search"] == "random":
            row["sequences"] = given.random
        elif row["search"] == "beam":
            row["sequences"] = given.beam * len(alphabet()) * given.beam_length
    highest = max(row["best_mean"] for row in rows)
    json.dump({"limit": LIMIT, "highest": highest, "searches": rows}, sys.stdout, indent=1)
    sys.stdout.write("\n")
    return 1 if highest > LIMIT else 0


if __name__ == "__main__":
    sys.exit(main())
