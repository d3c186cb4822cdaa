"""Tiny random horizons with caps on what vendors are paid; their optimum by trying everything.

Each block is a tiny fleet of vendor_caps.py, with caps of its own; commitments count in the cap of their vendor, and
what they leave is for instances by the hour. Every number of every commitment is tried with every way to serve.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from problems.horizon.horizon_problem import CommitmentColumn
from problems.recipes.vendors import Vendor
from tests.oracle.horizons import TinyHorizon
from tests.oracle.two_quarters import least_costs, two_quarters
from tests.oracle.vendor_caps import HOURS, SLOTS, Way, cap_case, ways
from tests.support.fleets import Case


def capped_horizon(seed: int) -> TinyHorizon:
    rng = np.random.default_rng([seed, 11])
    return two_quarters(rng, cap_case(seed), _block)


def _block(case: Case, rng: np.random.Generator, factor: float) -> Case:
    """Other demand, caps of its own, and perhaps an instance that is held."""
    caps = {x: most * float(rng.uniform(0.8, 2.0)) for x, most in case.vendors.most_usd.items()}
    offers = {g: replace(o, on_hand=int(rng.choice([0, 0, 0, 1]))) for g, o in case.offers.items()}
    pools = tuple(replace(pool, rate_rps=pool.rate_rps * factor) for pool in case.pools)
    return replace(case, pools=pools, offers=offers, vendors=replace(case.vendors, most_usd=caps))


def capped_costs(horizon: TinyHorizon) -> tuple[float, float]:
    tables = [_Table(case) for case in horizon.cases]
    return least_costs(horizon, lambda signed, b: tables[b].least(signed, b))


class _Table:
    """The least that a block costs besides commitments, by what is signed."""

    def __init__(self, case: Case) -> None:
        self.case, self.found = case, dict[tuple[tuple[int, ...], tuple[float, ...]], float]()
        self.running = list(self._running())

    def _running(self) -> Iterator[tuple[tuple[Way, ...], dict[str, tuple[int, ...]]]]:
        for several in itertools.product(*(ways(self.case, pool) for pool in self.case.pools)):
            yield (
                several,
                {
                    g: tuple(sum(w.counts[t] for w in several if w.offer == g) for t in range(SLOTS))
                    for g in self.case.offers
                },
            )

    def least(self, signed: list[tuple[int, CommitmentColumn]], b: int) -> float:
        here = [(n, c) for n, c in signed if b in c.blocks]
        rules = self.case.vendors
        counts = tuple(o.on_hand + sum(n for n, c in here if c.offer == g) for g, o in self.case.offers.items())
        caps = dict(rules.most_usd)
        for n, c in here:
            for vendor in rules.of_offer[c.offer]:
                if vendor in caps:
                    caps[vendor] -= n * c.usd_per_month
        key = counts, tuple(caps.values())
        if key not in self.found:
            there = dict(zip(self.case.offers, counts, strict=True))
            self.found[key] = min((self._usd(*each, there, caps) for each in self.running), default=math.inf)
        return self.found[key]

    def _usd(
        self,
        several: tuple[Way, ...],
        running: dict[str, tuple[int, ...]],
        there: dict[str, int],
        caps: dict[Vendor, float],
    ) -> float:
        rules, total = self.case.vendors, 0.0
        for t in range(SLOTS):
            paid: dict[Vendor, float] = dict.fromkeys(caps, 0.0)
            for g, counts in running.items():
                usd = HOURS * max(0, counts[t] - there[g]) * (self.case.offers[g].on_demand_usd_per_h or 0.0)
                paid[rules.of_offer[g][0]] = paid.get(rules.of_offer[g][0], 0.0) + usd
            for way in several:
                if way.api is not None:
                    paid[rules.of_api[way.api][0]] = paid.get(rules.of_api[way.api][0], 0.0) + way.bills[t]
            for vendor, fixed in rules.usd_per_month.items():
                if any(any(counts) for g, counts in running.items() if vendor in rules.of_offer[g]):
                    paid[vendor] = paid.get(vendor, 0.0) + fixed
            if any(paid[vendor] > most * (1 + 1e-9) + 1e-9 for vendor, most in caps.items()):
                return math.inf
            total += sum(paid.values())
        return total / SLOTS
