"""Tiny horizons of two quarters: what is signed now, and what is later in each of two scenarios."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from problems.horizon.horizon_problem import Block, CommitmentColumn, HorizonProblem
from problems.horizon.risk import Risk
from tests.oracle.horizons import MONTHS, TinyHorizon
from tests.oracle.two_months import HOURS, SLOTS
from tests.support.fleets import Case

Signed = Sequence[tuple[int, CommitmentColumn]]
"""how many of each commitment, where there are any"""
MOST = 2
EACH = (MONTHS / SLOTS,) * SLOTS


def two_quarters(
    rng: np.random.Generator, case: Case, block: Callable[[Case, np.random.Generator, float], Case]
) -> TinyHorizon:
    """One offer or two that may be signed for: a long term and a short one that begin now, and one later in each
    scenario. `block` makes the fleet of a block of so many times the demand."""
    case = replace(case, offers={g: replace(o, reserved_usd_per_h={}) for g, o in case.offers.items()})
    likely = float(rng.uniform(0.2, 0.8))
    cases = tuple(block(case, rng, float(f)) for f in (1.0, rng.uniform(0.4, 1.0), rng.uniform(1.0, 1.6)))
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


def least_costs(horizon: TinyHorizon, least: Callable[[Signed, int], float]) -> tuple[float, float]:
    """What the best plans cost over the horizon, expected and in the worst case; infinite where there is none. `least`
    is what a month of a block costs besides what is signed."""
    problem, p = horizon.problem, horizon.problem.risk.probabilities
    expected = worst = math.inf
    for x in itertools.product(range(MOST + 1), repeat=len(problem.commitments)):
        signed = [(n, c) for n, c in zip(x, problem.commitments, strict=True) if n]
        usd = [least(signed, b) for b in range(len(horizon.cases))]
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
