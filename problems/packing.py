"""Replicas that do not fill a box: how many boxes replicas of several sizes take.

A replica stands in one box. Of a box of 7 GPUs, replicas of 4 fill 4, those of 2 or more fill 6, and those of any size
all 7. So for every size the boxes have room for the GPUs that are in replicas of this size or larger:

    most[s] x boxes >= sum over sizes n >= s of n x replicas of n        for every size s

Sizes of 1, 2, 4 and 8, which divide one another, fit whenever this holds: the largest first, each into a box with room.
Other sizes need no fewer boxes than this, and perhaps more.

Where the replicas of a deployment must not all stand in one box, sizes that differ may take another one: of two boxes
of 8, three replicas of 4 leave room in one only. Of T replicas of one size, of which m deployments have two or more, no
box may hold more than T - m, since each of the m has one elsewhere. That is enough: number the places box by box, and
give deployment i the places i and T - m + i. Large ones first, each into the box with the most room, leaves room as
evenly spread as can be, which is best for all that follow.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from heapq import heapify, heappop, heapreplace

import numpy as np

Sizes = tuple[tuple[int, int, int], ...]
"""GPUs of a replica, replicas of that size, and the deployments of it that must stand in two boxes"""


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


@lru_cache(maxsize=2**16)
def boxes_apart(box: int, sizes: Sizes) -> int:
    """The fewest boxes that hold replicas so that those of no deployment of two or more all stand in one."""
    boxes = -(-sum(size * replicas for size, replicas, _ in sizes) // box)
    while not _stand_apart(box, boxes, sizes):
        boxes += 1
    return boxes


def _stand_apart(box: int, boxes: int, sizes: Sizes) -> bool:
    free = [box] * boxes
    for size, replicas, deployments in sorted(sizes, reverse=True):
        most = replicas - deployments
        open_ones = [(-room, 0, k) for k, room in enumerate(free) if most > 0]
        heapify(open_ones)
        for _ in range(replicas):
            if not open_ones or -open_ones[0][0] < size:
                return False
            _, held, k = open_ones[0]
            free[k] -= size
            if held + 1 < most:
                heapreplace(open_ones, (-free[k], held + 1, k))
            else:
                heappop(open_ones)
    return True
