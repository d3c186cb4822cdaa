"""Whether servers that may be bought pay at a volume, and between which volumes that changes."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from planner.plan.study_records import OwnPoint

EQUAL = 1e-9
NOTHING_FRAC = 0.002
"""of the cost: what saves less is as good as nothing, and proofs are hardly closer"""


def pays(p: OwnPoint) -> bool | None:
    """Whether it is proved that servers make the best plan cheaper, or that they save next to nothing; None: neither"""
    own, rented, bound = p.with_servers_usd_per_month, p.rented_usd_per_month, p.rented_bound_usd_per_month
    if own is not None and (bound is None or own < bound * (1 - EQUAL)):
        return True
    return False if rented is not None and rented * (1 - NOTHING_FRAC) <= p.with_servers_bound_usd_per_month else None


def change_of(points: Sequence[OwnPoint]) -> tuple[OwnPoint, OwnPoint] | None:
    """The first two neighbours, of those for which it is proved, between which servers begin to pay."""
    known = [p for p in points if pays(p) is not None]
    return next(((a, b) for a, b in pairwise(known) if not pays(a) and pays(b)), None)
