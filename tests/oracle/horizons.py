"""Tiny random horizons: two quarters, two scenarios, commitments of both lengths; their optimum by trying everything.

The first quarter is one block, the second one block for each scenario. Each is a tiny fleet, whose least cost with any
number of instances on hand is known by brute force; then every number of every commitment is tried.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, replace

import numpy as np

from problems.horizon import Block, CommitmentColumn, HorizonProblem
from tests.oracle.brute_force import brute_force
from tests.oracle.cases import lever_case
from tests.support.fleets import Case

MONTHS = 3.0
MOST = 2
"""instances of a commitment that are tried"""


@dataclass(frozen=True, eq=False)
class TinyHorizon:
    problem: HorizonProblem
    cases: tuple[Case, ...]
    """of each block"""


def tiny_horizon(seed: int, amended: bool = False) -> TinyHorizon:
    """One of every kind of commitment to one offer or two, some of which are held already.

    `amended`: each scenario has prices of its own in the second quarter, and the high one a quota.
    """
    rng = np.random.default_rng([seed, 7])
    case = lever_case(seed).case
    names = sorted(case.offers)
    for_sale = names[: int(rng.integers(1, 3))]
    held = {g: int(rng.choice([0, 0, 1])) for g in names}
    offers = {g: replace(o, reserved_usd_per_h={}, on_hand=held[g], max_instances=None) for g, o in case.offers.items()}
    case = replace(case, offers=offers, max_gpus={}, budget_usd_per_month=None)
    likely = float(rng.uniform(0.2, 0.8))
    months = (MONTHS, MONTHS * likely, MONTHS * (1 - likely))
    cases = tuple(_scaled(case, float(factor)) for factor in (1.0, rng.uniform(0.2, 0.9), rng.uniform(1.0, 1.8)))
    signed_later = [1.0, 1.0]
    if amended:
        cases = (cases[0], *(_repriced(c, rng) for c in cases[1:]))
        signed_later = rng.uniform(0.5, 1.5, 2).tolist()
        g = for_sale[0]
        few = {**cases[2].offers, g: replace(cases[2].offers[g], max_instances=held[g] + 1)}
        cases = (*cases[:2], replace(cases[2], offers=few))
    commitments = []
    for g in for_sale:
        usual = case.offers[g].on_demand_usd_per_h or 2.0 * case.offers[g].box
        monthly = 730 * usual * float(rng.uniform(0.3, 0.8))
        long, (low, high) = monthly * float(rng.uniform(0.7, 1.0)), signed_later
        commitments += [
            CommitmentColumn(g, "long", 0, None, (0, 1, 2), 2 * MONTHS * long, long, float(rng.uniform(0, 9e3)), MOST),
            CommitmentColumn(g, "short", 0, None, (0,), MONTHS * monthly, monthly, most=MOST),
            CommitmentColumn(g, "short", 1, "low", (1,), months[1] * low * monthly, low * monthly, 2e3, MOST),
            CommitmentColumn(g, "short", 1, "high", (2,), months[2] * high * monthly, high * monthly, 2e3, MOST),
        ]  # fmt: skip
    blocks = tuple(Block(c.fleet, m, f"block {b}") for b, (c, m) in enumerate(zip(cases, months, strict=True)))
    owed = float(rng.uniform(0, 1.5e4)) if rng.random() < 0.3 else None
    return TinyHorizon(HorizonProblem(blocks, tuple(commitments), owed), cases)


def _scaled(case: Case, factor: float) -> Case:
    return replace(case, pools=tuple(replace(pool, rate_rps=pool.rate_rps * factor) for pool in case.pools))


def _repriced(case: Case, rng: np.random.Generator) -> Case:
    """Other prices on demand and for spot, which stays below."""
    offers = {}
    for g, o in case.offers.items():
        times, spot = (float(x) for x in rng.uniform(0.5, 1.6, 2))
        usd = o.on_demand_usd_per_h and times * o.on_demand_usd_per_h
        less = o.spot_usd_per_h and min(spot * o.spot_usd_per_h, usd or np.inf)
        offers[g] = replace(o, on_demand_usd_per_h=usd, spot_usd_per_h=less)
    return replace(case, offers=offers)


def least_usd(horizon: TinyHorizon) -> float:
    """Cost and penalties of the best plan, over the horizon."""
    problem = horizon.problem
    offers = sorted({c.offer for c in problem.commitments})
    tables = [_least_of_block(case, offers) for case in horizon.cases]
    best = math.inf
    for x in itertools.product(*(range(few, most + 1) for few, most in problem.bounds)):
        signed = list(zip(x, problem.commitments, strict=True))
        owed = [sum(n * c.owed_usd for n, c in signed if c.scenario in (None, s)) for s in ("low", "high")]
        if problem.max_owed_usd is not None and max(owed) > problem.max_owed_usd:
            continue
        usd = sum(n * c.usd for n, c in zip(x, problem.commitments, strict=True))
        for b, (block, table) in enumerate(zip(problem.blocks, tables, strict=True)):
            counts = [
                sum(n for n, c in zip(x, problem.commitments, strict=True) if c.offer == g and b in c.blocks)
                for g in offers
            ]
            usd += block.months * table[tuple(counts)]
        best = min(best, usd)
    return best


def _least_of_block(case: Case, offers: list[str]) -> dict[tuple[int, ...], float]:
    """By the instances of each offer that are committed to."""
    table = {}
    for counts in itertools.product(range(2 * MOST + 1), repeat=len(offers)):
        more = {
            g: replace(case.offers[g], on_hand=case.offers[g].on_hand + n) for g, n in zip(offers, counts, strict=True)
        }
        table[counts] = brute_force(replace(case, offers={**case.offers, **more})).objective
    return table
