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


def packed(gpus: int, firm_boxes: int, spot_boxes: int, wanted: Sequence[Wanted]) -> list[Box]:
    """Fill the instances that are bought: what must be firm first, large before small, spot last.

    Sizes of replicas divide one another, so that no other order needs fewer instances.
    """
    boxes = [Box(spot=k >= firm_boxes, free=gpus) for k in range(firm_boxes + spot_boxes)]
    must = [(w.gpus, k) for k, w in enumerate(wanted) for _ in range(w.firm)]
    may = [(w.gpus, k) for k, w in enumerate(wanted) for _ in range(w.replicas - w.firm)]
    for replicas in (must, may):
        for size, k in sorted(replicas, key=lambda replica: (-replica[0], replica[1])):
            room = [box for box in boxes if box.free >= size]
            min(room, key=lambda box: (box.spot, box.free)).put(k, size)
    return boxes
