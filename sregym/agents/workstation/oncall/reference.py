"""Does what it is told on standard input: a diagnosis and a list of kubectl calls."""

from __future__ import annotations

import json
import sys

from . import desk
from .kube import change


def main() -> None:
    told = json.load(sys.stdin)
    desk.diagnose(told["diagnosis"])
    for call in told["calls"]:
        done = change(*call["argv"], stdin=call["stdin"], within=call["within"])
        if not done.ok:
            desk.say(f"failed with status {done.code}")
    desk.mitigated()


if __name__ == "__main__":
    main()
