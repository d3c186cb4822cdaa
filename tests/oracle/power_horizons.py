"""Tiny random horizons with limits on power and carbon; their optimum by trying everything.

Each block is a tiny fleet of power_limits.py, with limits of its own; what is signed draws whether anything runs on it
or not. Every number of every commitment is tried with every way to serve.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import numpy as np

from problems.horizon.horizon_problem import Block, CommitmentColumn, HorizonProblem
from problems.horizon.risk import Risk
from tests.oracle.horizons import MONTHS, TinyHorizon
from tests.oracle.power_limits import power_case
from tests.oracle.vendor_caps import HOURS, SLOTS, Way, ways
from tests.support.fleets import Case

MOST = 2
EACH = (MONTHS / SLOTS,) * SLOTS


def powered_horizon(seed: int) -> TinyHorizon:
    """One offer or two that may be signed for: a long term and a short one that begin now, and one later in each
    scenario."""
    rng = np.random.default_rng([seed, 23])
    case = power_case(seed)
    case = replace(case, offers={g: replace(o, reserved_usd_per_h={}) for g, o in case.offers.items()})
    likely = float(rng.uniform(0.2, 0.8))
    cases = tuple(_block(case, rng, float(f)) for f in (1.0, rng.uniform(0.4, 1.0), rng.uniform(1.0, 1.6)))
    commitments = []
    for g in sorted(case.offers)[: int(rng.integers(1, 3))]:
        monthly = HOURS * (case.offers[g].on_demand_usd_per_h or 0.0) * float(rng.uniform(0.3, 0.8))
        long = monthly * float(rng.uniform(0.7, 1.0))
        commitments += [
            CommitmentColumn(g, "long", 0, None, (0, 1, 2), 2 * MONTHS * long, long, most=MOST),
            CommitmentColumn(g, "short", 0, None, (0,), MONTHS * monthly, monthly, most=MOST),
            CommitmentColumn(g, "short", 1, "low", (1,), MONTHS * likely * monthly, monthly, most=MOST),
            CommitmentColumn(g, "short", 1, "high", (2,), MONTHS * (1 - likely) * monthly, monthly, most=MOST),
        ]
    blocks = (
        Block(cases[0].fleet, MONTHS, "block 0", {"low": EACH, "high": EACH}),
        Block(cases[1].fleet, MONTHS * likely, "block 1", {"low": EACH}),
        Block(cases[2].fleet, MONTHS * (1 - likely), "block 2", {"high": EACH}),
    )
    risk = Risk({"low": likely, "high": 1 - likely})
    return TinyHorizon(HorizonProblem(blocks, tuple(commitments), risk=risk), cases)


def _block(case: Case, rng: np.random.Generator, factor: float) -> Case:
    """Other demand, and limits of its own."""
    assert case.power is not None
    kw, kg = (
        None if most is None else most * float(rng.uniform(0.8, 2.0))
        for most in (case.power.most_kw, case.power.most_kg_per_month)
    )
    pools = tuple(replace(pool, rate_rps=pool.rate_rps * factor) for pool in case.pools)
    return replace(case, pools=pools, power=replace(case.power, most_kw=kw, most_kg_per_month=kg))


def least_costs(horizon: TinyHorizon) -> tuple[float, float]:
    """What the best plans cost over the horizon, expected and in the worst case; infinite where there is none."""
    problem, p = horizon.problem, horizon.problem.risk.probabilities
    known: list[dict[tuple[int, ...], float]] = [{} for _ in horizon.cases]
    expected = worst = math.inf
    for x in itertools.product(range(MOST + 1), repeat=len(problem.commitments)):
        signed = [(n, c) for n, c in zip(x, problem.commitments, strict=True) if n]
        usd = []
        for b, case in enumerate(horizon.cases):
            there = tuple(
                o.on_hand + sum(n for n, c in signed if c.offer == g and b in c.blocks) for g, o in case.offers.items()
            )
            if there not in known[b]:
                known[b][there] = _least(case, dict(zip(case.offers, there, strict=True)))
            usd.append(known[b][there])
        if math.inf in usd:
            continue
        costs = {
            s: MONTHS * (usd[0] + usd[1 + k])
            + sum(n * (c.usd / p[s] if c.scenario else c.usd) for n, c in signed if c.scenario in (None, s))
            for k, s in enumerate(p)
        }
        expected = min(expected, sum(p[s] * costs[s] for s in p))
        worst = min(worst, max(costs.values()))
    return expected, worst


def _least(case: Case, there: dict[str, int]) -> float:
    several = itertools.product(*(ways(case, pool) for pool in case.pools))
    return min((_usd(case, each, there) for each in several), default=math.inf)


def _usd(case: Case, several: tuple[Way, ...], there: dict[str, int]) -> float:
    """What a month costs besides what is there; infinite where too much is drawn or emitted."""
    limits, total = case.power, 0.0
    assert limits is not None
    for t in range(SLOTS):
        kw = kg = 0.0
        for g, offer in case.offers.items():
            used = sum(way.counts[t] for way in several if way.offer == g)
            boxes = max(there[g], -(-used // offer.box))
            total += HOURS * (boxes - there[g]) * (offer.on_demand_usd_per_h or 0.0)
            drawn = boxes * limits.box_kw[g] + used * limits.gpu_kw[g]
            kw, kg = kw + drawn, kg + HOURS * drawn * limits.kg_per_kwh[g]
        if limits.most_kw is not None and kw > limits.most_kw * (1 + 1e-9):
            return math.inf
        if limits.most_kg_per_month is not None and kg > limits.most_kg_per_month * (1 + 1e-9):
            return math.inf
        total += sum(way.bills[t] for way in several)
    return total / SLOTS
