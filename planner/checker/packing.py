"""Boxes that replicas take: each replica stands in one, the largest first, wherever there is room.

Where replicas of a deployment are spread, they do not all stand in the same one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from heapq import heapify, heappop, heapreplace

SIZES = (1, 2, 4, 8)
"""GPUs of a replica; as they divide one another, no other order needs fewer boxes"""


def boxes_needed(box: int, replicas: dict[int, int]) -> int:
    """By the GPUs of a replica, so many of them."""
    room: Counter[int] = Counter()
    """boxes by the GPUs that are free in them"""
    for size, left in sorted(replicas.items(), reverse=True):
        for free in sorted(room):
            left = _put(room, free, size, left)
        if left:
            room[box] += -(-left // (box // size))
            _put(room, box, size, left)
    return sum(room.values())


def _put(room: Counter[int], free: int, size: int, left: int) -> int:
    """Put replicas into boxes with so much room; how many are left."""
    each = free // size
    full = min(room[free], left // each) if each else 0
    room[free] -= full
    room[free - each * size] += full
    left -= full * each
    if each and left and room[free]:
        room[free] -= 1
        room[free - left * size] += 1
        return 0
    return left


def stand_apart(box: int, boxes: int, deployments: Sequence[tuple[int, int]]) -> bool:
    """Whether boxes hold deployments, given by the GPUs of a replica and how many there are, none of them in one alone.

    Replicas of one size may change places, so what counts is how many of them stand in each box: all deployments have
    one elsewhere if as many replicas of their size do as there are deployments of two or more. Each goes where there
    is most room, so that those that are smaller find some in as many boxes as can be.
    """
    free = [box] * boxes
    for size in sorted({size for size, _ in deployments}, reverse=True):
        counts = [n for of, n in deployments if of == size]
        most = sum(counts) - sum(n > 1 for n in counts)
        room = [(-gpus, k) for k, gpus in enumerate(free)]
        heapify(room)
        standing = [0] * boxes
        for _ in range(sum(counts)):
            while room and standing[room[0][1]] == most:
                heappop(room)
            if not room or -room[0][0] < size:
                return False
            k = room[0][1]
            free[k] -= size
            standing[k] += 1
            heapreplace(room, (-free[k], k))
    return True
