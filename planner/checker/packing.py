"""Boxes that replicas take: each replica stands in one, the largest first, wherever there is room."""

from __future__ import annotations

from collections import Counter

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
