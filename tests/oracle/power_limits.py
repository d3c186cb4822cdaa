"""Tiny fleets whose power is limited, and their optimum by trying everything.

Two months of one slot, one length of requests, replicas of one GPU in boxes of one or two, no mixes; one offer has a
commitment too, whose boxes draw whether anything runs or not.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import numpy as np

from problems.power import PowerLimit
from tests.oracle.two_months import HOURS, SLOTS, Way, two_month_case, ways
from tests.support.fleets import Case


def power_case(seed: int) -> Case:
    rng, case = np.random.default_rng([seed, 21]), two_month_case(seed)
    offers = {}
    for g, offer in case.offers.items():
        box = int(rng.choice([1, 1, 2]))
        prices = {"on_demand_usd_per_h": box * (offer.on_demand_usd_per_h or 0.0)}
        reserved = {term: box * usd for term, usd in offer.reserved_usd_per_h.items()}
        on_hand = int(rng.random() < 0.2)
        offers[g] = replace(offer, box=box, reserved_usd_per_h=reserved, on_hand=on_hand, **prices)
    limit = PowerLimit(
        box_kw={g: float(rng.uniform(0.1, 0.6)) * offer.box for g, offer in offers.items()},
        gpu_kw={g: float(rng.uniform(0.2, 0.9)) for g in offers},
        most_kw=float(rng.uniform(0.5, 3.0)),
    )
    return replace(case, offers=offers, power=limit)


def least_usd(case: Case) -> float:
    """What the cheapest plan costs a month; infinite where there is none."""
    best = math.inf
    for several in itertools.product(*(ways(case, pool) for pool in case.pools)):
        gpus = {g: [sum(way.counts[t] for way in several if way.offer == g) for t in range(SLOTS)] for g in case.offers}
        most = max(-(-n // case.offers["g0"].box) for n in gpus["g0"])
        for signed in range(most + 1):
            best = min(best, _usd(case, several, gpus, signed))
    return best


def _usd(case: Case, several: tuple[Way, ...], gpus: dict[str, list[int]], signed: int) -> float:
    """What these ways cost with so many commitments to g0; infinite where they draw too much."""
    total = 0.0
    for t in range(SLOTS):
        kw = 0.0
        for g, offer in case.offers.items():
            there = offer.on_hand + (signed if g == "g0" else 0)
            boxes = max(there, -(-gpus[g][t] // offer.box))
            total += HOURS * (boxes - there) * (offer.on_demand_usd_per_h or 0.0)
            total += HOURS * (signed * offer.reserved_usd_per_h["1y"] if g == "g0" else 0.0)
            assert case.power is not None
            kw += boxes * case.power.box_kw[g] + gpus[g][t] * case.power.gpu_kw[g]
        if kw > case.power.most_kw * (1 + 1e-9):
            return math.inf
        total += sum(way.bills[t] for way in several)
    return total / SLOTS
