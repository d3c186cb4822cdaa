"""Instances that replicas fill, wherever they find room."""

from __future__ import annotations

from collections import Counter


def boxes_filled(box: int, replicas: Counter[int]) -> int:
    """Boxes for replicas of these numbers of GPUs: the largest first, each where there is room, or whole boxes."""
    free: Counter[int] = Counter()
    """boxes by the GPUs that are left in them"""
    whole = sum(n * -(-size // box) for size, n in replicas.items() if size > box)
    for size, left in sorted(((size, n) for size, n in replicas.items() if size <= box), reverse=True):
        for room in sorted(r for r in free if r >= size):
            filled = min(free[room], -(-left // (room // size)))
            for _ in range(filled):
                put = min(left, room // size)
                free[room] -= 1
                free[room - put * size] += 1
                left -= put
        while left > 0:
            put = min(left, max(1, box // size))
            free[box - put * size] += 1
            left -= put
    return whole + sum(free.values())
