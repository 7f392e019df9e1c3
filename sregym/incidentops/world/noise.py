"""Deterministic jitter: one table of uniform numbers per episode, read by (tick, lane).

No generator state is kept, so nothing has to be saved with an episode and the order of reads does not matter.
"""

from __future__ import annotations

import random

SIZE = 1021  # prime: strides never line up with the table


def table(*, seed: str) -> tuple[float, ...]:
    """`SIZE` numbers in [0, 1). `random.Random(str)` hashes with SHA-512: the same on every machine."""
    draw = random.Random(seed).random
    return tuple([draw() for _ in range(SIZE)])
