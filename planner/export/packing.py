"""Which replicas stand in which instance, and so which of them run on spot."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field


@dataclass
class Box:
    """An instance, and how many replicas of each deployment stand in it."""

    spot: bool
    free: int
    """GPUs"""
    replicas: Counter[int] = field(default_factory=Counter)

    def put(self, deployment: int, gpus: int) -> None:
        self.free -= gpus
        self.replicas[deployment] += 1


@dataclass(frozen=True)
class Wanted:
    """Replicas of one deployment in one hour."""

    gpus: int
    """of each"""
    firm: int
    """that must not be spot"""
    replicas: int
    """all of them"""


def packed(gpus: int, firm_boxes: int, spot_boxes: int, wanted: Sequence[Wanted], spread: bool = False) -> list[Box]:
    """Fill the instances that are bought: what must be firm first, large before small, spot last.

    Sizes of replicas divide one another, so that no other order needs fewer instances. Where replicas are spread, the
    second of a deployment stands in another instance than the first.
    """
    boxes = _packed(gpus, firm_boxes, spot_boxes, wanted, spread)
    if boxes is None and spread:  # firm and spot replicas of several sizes are in each other's way
        boxes = _packed(gpus, firm_boxes, spot_boxes, wanted, spread=False)
    if boxes is None:
        raise ValueError("the instances of a plan hold its replicas")
    return boxes


def _packed(gpus: int, firm_boxes: int, spot_boxes: int, wanted: Sequence[Wanted], spread: bool) -> list[Box] | None:
    boxes = [Box(spot=k >= firm_boxes, free=gpus) for k in range(firm_boxes + spot_boxes)]
    must = [(w.gpus, k) for k, w in enumerate(wanted) for _ in range(w.firm)]
    may = [(w.gpus, k) for k, w in enumerate(wanted) for _ in range(w.replicas - w.firm)]
    for replicas, firm_only in ((must, True), (may, False)):
        for size, k in sorted(replicas, key=lambda replica: (-replica[0], replica[1])):
            if size > gpus:  # whole boxes, empty ones; on spot where one of them is
                empty = [box for box in boxes if box.free == gpus and not (firm_only and box.spot)]
                whole = sorted(empty, key=lambda box: box.spot)[: size // gpus]
                if len(whole) < size // gpus:
                    return None
                for box in whole:
                    box.free = 0
                whole[-1].replicas[k] += 1
                continue
            room = [box for box in boxes if box.free >= size and not (firm_only and box.spot)]
            second = spread and sum(box.replicas[k] > 0 for box in boxes) == 1
            apart = [box for box in room if not (second and box.replicas[k])]
            if not apart:
                return None
            min(apart, key=lambda box: (box.spot, box.free)).put(k, size)
    return boxes


def skews(gpus: int, boxes: int, parts: Sequence[tuple[int, int]]) -> list[int] | None:
    """By how much the instances of a kind differ in replicas of each part, given by the GPUs of a replica and how many
    there are, where each stands with as few of its own as there is room for. None: so they do not fit.

    Kubernetes counts a single instance as if another one had none.
    """
    boxes -= sum(n * size // gpus for size, n in parts if size > gpus)  # these stand alone
    if boxes < 0:
        return None
    free = [gpus] * boxes
    counts = [[0] * boxes for _ in parts]
    small = [(size, k) for k, (size, n) in enumerate(parts) if size <= gpus for _ in range(n)]
    for size, k in sorted(small, reverse=True):
        room = [b for b in range(boxes) if free[b] >= size]
        if not room:
            return None
        b = min(room, key=lambda b: (counts[k][b], -free[b]))
        free[b] -= size
        counts[k][b] += 1
    return [max(of, default=0) - (min(of) if boxes > 1 else 0) for of in counts]
