"""Scarce instances that a plan buys by the hour, beside how many may be taken to be there."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from planner.catalog.scarcity import by_the_hour
from planner.plan.plan import FleetLine, Plan

BY_THE_HOUR = ("on-demand", "spot")


@dataclass(frozen=True, eq=False)
class Stock:
    """Instances that a plan wants from one stock by the hour: boxes of a GPU in a region of a provider, or an offer of
    which somebody said how many there are."""

    lines: tuple[FleetLine, ...]
    counted_on: int
    """instances that may be taken to be there"""
    wanted: np.ndarray
    """[slot]"""

    @property
    def peak(self) -> int:
        return int(self.wanted.max(initial=0))

    @property
    def beyond(self) -> np.ndarray:
        """Instances that may not be there [slot]."""
        return np.asarray(np.maximum(0, self.wanted - self.counted_on))

    @property
    def main_line(self) -> FleetLine:
        """Of which there are most."""
        return max(self.lines, key=lambda line: (max(line.instances_by_slot), line.offer))


def stocks_exceeded(plan: Plan) -> list[Stock]:
    """Stocks of which a plan wants more in some hour than may be taken to be there."""
    return [stock for stock in _stocks(plan) if stock.peak > stock.counted_on]


def _stocks(plan: Plan) -> Iterator[Stock]:
    lines: dict[tuple[str, ...], list[FleetLine]] = {}
    for line in plan.fleet:
        offer = plan.case.offers[line.offer]
        if line.purchase in BY_THE_HOUR and by_the_hour(offer) is not None:
            known = (line.offer,) if offer.available is not None else (offer.gpu, offer.provider, offer.region)
            lines.setdefault(known, []).append(line)
    for some in lines.values():
        wanted = sum((np.array(line.instances_by_slot) for line in some), np.zeros(len(plan.slots), dtype=np.int64))
        yield Stock(tuple(some), by_the_hour(plan.case.offers[some[0].offer]) or 0, wanted)
