"""Replicas that do not fill a box: how many boxes replicas of several sizes take.

A replica stands in one box. Of a box of 7 GPUs, replicas of 4 fill 4, those of 2 or more fill 6, and those of any size
all 7. So for every size the boxes have room for the GPUs that are in replicas of this size or larger:

    most[s] x boxes >= sum over sizes n >= s of n x replicas of n        for every size s

Sizes of 1, 2, 4 and 8, which divide one another, fit whenever this holds: the largest first, each into a box with room.
Other sizes need no fewer boxes than this, and perhaps more.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np


def most_of_a_box(box: int, sizes: Iterable[int]) -> dict[int, int]:
    """By size, the GPUs of a box that replicas of this size or larger can fill, where that is not all of them."""
    several = sorted({size for size in sizes if size <= box})
    most = {size: _filled(box, [n for n in several if n >= size]) for size in several}
    return {size: gpus for size, gpus in most.items() if gpus < box}


def _filled(box: int, sizes: list[int]) -> int:
    reached = {0}
    for gpus in range(1, box + 1):
        if any(gpus - n in reached for n in sizes):
            reached.add(gpus)
    return max(reached)


def with_gaps(box: int, gpus: np.ndarray, in_large: dict[int, np.ndarray], most: dict[int, int]) -> np.ndarray:
    """GPUs with those that stay empty beside replicas: as many as fill the boxes that these take [slot].

    `in_large` are GPUs in replicas of a size or larger.
    """
    for size, used in in_large.items():
        gpus = np.maximum(gpus, -(-used // most[size]) * box)
    return gpus
