"""Tiny random horizons with limits on power; their optimum by trying everything.

Each block is a tiny fleet of power_limits.py, with limits of its own; what is signed draws whether anything runs on it
or not. Every number of every commitment is tried with every way to serve.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import numpy as np

from tests.oracle.horizons import TinyHorizon
from tests.oracle.power_limits import power_case
from tests.oracle.two_months import HOURS, SLOTS, Way, ways
from tests.oracle.two_quarters import Signed, least_costs, two_quarters
from tests.support.fleets import Case


def powered_horizon(seed: int) -> TinyHorizon:
    rng = np.random.default_rng([seed, 23])
    return two_quarters(rng, power_case(seed), _block)


def _block(case: Case, rng: np.random.Generator, factor: float) -> Case:
    """Other demand, and a limit of its own."""
    assert case.power is not None
    kw = case.power.most_kw * float(rng.uniform(0.8, 2.0))
    pools = tuple(replace(pool, rate_rps=pool.rate_rps * factor) for pool in case.pools)
    return replace(case, pools=pools, power=replace(case.power, most_kw=kw))


def powered_costs(horizon: TinyHorizon) -> tuple[float, float]:
    known: dict[tuple[int, ...], float] = {}

    def least(signed: Signed, b: int) -> float:
        case = horizon.cases[b]
        there = {g: o.on_hand for g, o in case.offers.items()}
        for n, c in signed:
            there[c.offer] += n if b in c.blocks else 0
        key = (b, *there.values())
        if key not in known:
            known[key] = _least(case, there)
        return known[key]

    return least_costs(horizon, least)


def _least(case: Case, there: dict[str, int]) -> float:
    several = itertools.product(*(ways(case, pool) for pool in case.pools))
    return min((_usd(case, each, there) for each in several), default=math.inf)


def _usd(case: Case, several: tuple[Way, ...], there: dict[str, int]) -> float:
    """What a month costs besides what is there; infinite where too much is drawn."""
    limit, total = case.power, 0.0
    assert limit is not None
    for t in range(SLOTS):
        kw = 0.0
        for g, offer in case.offers.items():
            used = sum(way.counts[t] for way in several if way.offer == g)
            boxes = max(there[g], -(-used // offer.box))
            total += HOURS * (boxes - there[g]) * (offer.on_demand_usd_per_h or 0.0)
            kw += boxes * limit.box_kw[g] + used * limit.gpu_kw[g]
        if kw > limit.most_kw * (1 + 1e-9):
            return math.inf
        total += sum(way.bills[t] for way in several)
    return total / SLOTS
