"""Tiny horizons with a savings plan or provisioned units for several quarters, and their optimum by trying everything.

Two quarters of two scenarios or of one. Blocks are those of tests/oracle/allowances.py, each with demand of its
own; one offer may be committed to besides. Every number of every commitment is tried, and what a block costs with these
is worked out hour by hour.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, replace
from functools import cache

import numpy as np

from problems.allowance import Allowance
from problems.horizon.horizon_problem import Block, CommitmentColumn, HorizonProblem
from problems.horizon.risk import Risk
from tests.oracle.allowances import HOURS, dollar_case, every_choice, units_case, usd_of_hours
from tests.support.fleets import Case

MONTHS = 3.0
KEY, OFFER = "plan", "g0"


@dataclass(frozen=True, eq=False)
class AllowanceHorizon:
    problem: HorizonProblem
    cases: tuple[Case, ...]
    """of each block; without commitments"""
    allowance: Allowance
    lot: float
    """units of the allowance in one lot"""


def dollar_horizon(seed: int, most: int = 3) -> AllowanceHorizon:
    """A savings plan: lots are about what an instance takes of it."""
    rng = np.random.default_rng([seed, 41])
    case = dollar_case(seed)
    (plan,) = case.allowances
    plan = replace(plan, key=KEY, usd_per_h=1.0, held=0.0, most=np.inf)
    lot = float(rng.uniform(0.4, 1.1)) * max(plan.takes.values())
    if rng.random() < 0.25:
        plan = replace(plan, most=lot * float(rng.uniform(1.0, 2.9)))
    return _horizon(rng, case, plan, lot, fewest=0, most=most)


def units_horizon(seed: int, most: int = 2) -> AllowanceHorizon:
    """Provisioned units: one or two lots at least, if any."""
    rng = np.random.default_rng([seed, 42])
    case = units_case(seed)
    (units,) = case.allowances
    assert units.step is not None
    fewest = int(rng.integers(0, 3))
    lot = 2.0 * units.step
    usd = float(rng.uniform(0.4, 0.9))
    units = replace(units, key=KEY, usd_per_h=usd, held=0.0, step=lot, fewest=fewest * lot)
    return _horizon(rng, case, units, lot, fewest=fewest, most=most)


def _horizon(
    rng: np.random.Generator, case: Case, plan: Allowance, lot: float, fewest: int, most: int
) -> AllowanceHorizon:
    offers = {**case.offers, OFFER: replace(case.offers[OFFER], reserved_usd_per_h={})}
    case = replace(case, offers=offers, allowances=(plan,))
    case = replace(case, pools=case.pools[:1])
    certain = bool(rng.random() < 0.5)
    likely = 1.0 if certain else float(rng.uniform(0.3, 0.7))
    factors = (1.0, rng.uniform(1.0, 1.5), rng.uniform(0.2, 0.9))
    all_of = {"high": likely} if certain else {"high": likely, "low": 1 - likely}
    chances = (all_of, *({s: p} for s, p in all_of.items()))
    cases = tuple(_scaled(case, float(factor)) for factor, _ in zip(factors, chances, strict=False))
    blocks = tuple(
        Block(
            replace(c.fleet, allowances=(replace(plan, usd_per_h=0.0),)),
            MONTHS * sum(of.values()),
            f"block {b}",
            dict.fromkeys(of, (MONTHS,)),
            {KEY: lot},
        )
        for b, (c, of) in enumerate(zip(cases, chances, strict=True))
    )
    monthly = HOURS * lot * plan.usd_per_h
    discount = float(rng.uniform(0.8, 1.0))
    everywhere = tuple(range(len(blocks)))
    later = ((1, s, (1 + k,), 1.0, p, 1.0) for k, (s, p) in enumerate(all_of.items()))
    lasts = ((0, None, everywhere, 2.0, 1.0, discount), *later)
    columns: list[CommitmentColumn] = []
    for quarter, scenario, of, quarters, chance, price in lasts:
        usd = MONTHS * quarters * chance * price * monthly
        column = CommitmentColumn(KEY, "1y", quarter, scenario, of, usd, price * monthly, most=most)
        if fewest:
            first = replace(column, usd=fewest * usd, usd_per_month=fewest * column.usd_per_month, most=1, lots=fewest)
            columns.append(first)
            column = replace(column, begins_with=len(columns) - 1)
        columns.append(column)
    if rng.random() < 0.5:
        each = HOURS * float(rng.uniform(0.6, 0.9)) * (offers[OFFER].on_demand_usd_per_h or 1.0)
        columns.append(CommitmentColumn(OFFER, "1y", 0, None, everywhere, MONTHS * 2.0 * each, each, most=2))
    problem = HorizonProblem(blocks, tuple(columns), risk=Risk(all_of))
    return AllowanceHorizon(problem, cases, plan, lot)


def _scaled(case: Case, factor: float) -> Case:
    return replace(case, pools=tuple(replace(pool, rate_rps=pool.rate_rps * factor) for pool in case.pools))


def least_usd(horizon: AllowanceHorizon, without: bool = False) -> float:
    """By trying every number of every commitment; `without` the allowance."""
    problem, best = horizon.problem, math.inf
    tables = [_Table(case, horizon.lot) for case in horizon.cases]
    limit = horizon.allowance.most / horizon.lot + 1e-9
    columns = problem.commitments
    for x in itertools.product(*(range(c.most + 1) for c in columns)):
        if any(n and c.begins_with is not None and not x[c.begins_with] for n, c in zip(x, columns, strict=True)):
            continue
        if without and any(n and c.offer == KEY for n, c in zip(x, columns, strict=True)):
            continue
        usd = sum(n * c.usd for n, c in zip(x, columns, strict=True))
        for b, table in enumerate(tables):
            lots = sum(n * c.lots for n, c in zip(x, columns, strict=True) if c.offer == KEY and b in c.blocks)
            there = sum(n for n, c in zip(x, columns, strict=True) if c.offer == OFFER and b in c.blocks)
            usd += math.inf if lots > limit else problem.blocks[b].months * table.usd(there, lots)
        best = min(best, usd)
    return best


class _Table:
    """What a block costs a month at least, by what is committed to in it."""

    def __init__(self, case: Case, lot: float) -> None:
        self.case, self.lot, self.choices = case, lot, list(every_choice(case))
        self.known: dict[tuple[int, int], float] = {}

    def usd(self, there: int, lots: int) -> float:
        if (there, lots) not in self.known:
            each = (usd_of_hours(self.case, hours, there, lots * self.lot) for hours in self.choices)
            self.known[there, lots] = min(each, default=math.inf)
        return self.known[there, lots]


@cache
def truth_of(kind: str, seed: int) -> float:
    return least_usd(dollar_horizon(seed) if kind == "dollars" else units_horizon(seed))
