"""Several quarters and scenarios: fleet problems that share nothing but commitments.

A **block** is a quarter in one scenario, or the first quarter in all of them together, which share models, deployments
and caching. Each block is a fleet problem by itself once it is known how many instances are committed to in it. So the
master of a horizon picks one plan for each block and signs commitments, each of which lasts for some of the blocks:

    min   sum_k usd[k] x[k]  +  sum_b months[b] sum_p usd[p] y[b,p]

    one plan for each block              sum_p y[b,p] = 1                                              for all b
    plans use what is committed to       sum_{k of g, lasts in b} x[k] - sum_p n[p,g] y[b,p] >= 0      for all b, g
    GPUs of a type within their quota    sum_{k, g of type} box[g] x[k] <= what holdings leave         for all b, types
    no more is owed than may be          sum_{k signed in s} owed[k] x[k] <= limit                     for scenarios s

with x whole and y 0 or 1. A block's plans are those of its fleet problem with any number n[g] of instances committed
to; usd[p] is what a plan costs besides, a month, penalties included. There are too many to list: some are found at
prices mu of the second family. A block asks for the plan with the least months x usd + sum_g mu[b,g] n[g] there, which
is its fleet problem with a commitment to g at mu[b,g] / months[b] a month. What that proves of all plans is said by
problems/horizon_bound.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import inf

import numpy as np

from problems.constants import HOURS_PER_MONTH
from problems.fleet_problem import FleetProblem
from problems.model import Column, Model, Row, build_model

COMMITTED = "committed"
"""the term of commitments in a block"""
Prices = dict[tuple[int, str], float]
"""(block, offer) -> what an instance that is committed to is worth there, mu [USD]"""


@dataclass(frozen=True, eq=False)
class Block:
    """A quarter in one scenario, or in all: all that a fleet problem has but commitments."""

    fleet: FleetProblem
    """its offers have no terms; what was held before is on hand"""
    months: float
    """times its probability"""
    name: str

    def with_commitments_at(self, usd_per_month: dict[str, float]) -> FleetProblem:
        """The fleet that may commit to offers at prices by the month.

        Its budget is left out: what commitments really cost in it is known only once they are chosen.
        """
        offers = {
            g: replace(o, reserved_usd_per_h={COMMITTED: usd_per_month[g] / HOURS_PER_MONTH})
            if g in usd_per_month
            else o
            for g, o in self.fleet.offers.items()
        }
        return replace(self.fleet, offers=offers, budget_usd_per_month=None)

    def with_committed(self, instances: dict[str, int], usd_per_month: float) -> FleetProblem:
        """The fleet with so many instances on hand besides, which cost so much of the budget."""
        offers = {g: replace(o, on_hand=o.on_hand + instances.get(g, 0)) for g, o in self.fleet.offers.items()}
        budget = self.fleet.budget_usd_per_month
        left = None if budget is None else budget - usd_per_month
        return replace(self.fleet, offers=offers, budget_usd_per_month=left)


@dataclass(frozen=True)
class CommitmentColumn:
    """One commitment that may be signed: an offer and a term, from one quarter on, in one scenario or in all."""

    offer: str
    term: str
    quarter: int
    scenario: str | None
    blocks: tuple[int, ...]
    """in which it lasts"""
    usd: float
    """for one instance, as far as it counts, times the probability"""
    usd_per_month: float
    """for one instance, what is spread over the term: it counts in budgets"""
    owed_usd: float = 0.0
    """after the horizon, for one instance, as far as that is limited"""
    most: int = 0


@dataclass(frozen=True, eq=False)
class BlockPlan:
    """What the master knows of a plan of a block."""

    usd_per_month: float
    """cost and penalty besides commitments"""
    committed: dict[str, int]
    """instances that it needs to be committed to"""


@dataclass(frozen=True)
class Trade:
    """Instances that the master may buy in a block, or sell there, besides commitments."""

    usd: float
    most: float = inf
    sold: bool = False


Trades = dict[tuple[int, str], Sequence[Trade]]
"""(block, offer) -> what may be bought and sold"""


@dataclass(frozen=True, eq=False)
class HorizonProblem:
    blocks: tuple[Block, ...]
    commitments: tuple[CommitmentColumn, ...]
    max_owed_usd: float | None = None
    decided: tuple[tuple[int, int], ...] = ()
    """fewest and most of each commitment, where that is decided"""

    @cached_property
    def bounds(self) -> tuple[tuple[int, int], ...]:
        """fewest and most of each commitment"""
        return self.decided or tuple((0, c.most) for c in self.commitments)

    def with_bounds(self, k: int, fewest: int, most: int) -> HorizonProblem:
        """The part of the plans that sign so many of a commitment."""
        return replace(self, decided=(*self.bounds[:k], (fewest, most), *self.bounds[k + 1 :]))

    @cached_property
    def offers_of(self) -> list[list[str]]:
        """offers that may be committed to in each block"""
        return [
            sorted({c.offer for c in self.commitments if b in c.blocks and c.offer in block.fleet.offers})
            for b, block in enumerate(self.blocks)
        ]

    @cached_property
    def too_much_usd(self) -> float:
        """more than any instance is worth: what a plan costs that needs more of them than are committed to"""
        each = [
            price * HOURS_PER_MONTH * block.months
            for block in self.blocks
            for o in block.fleet.offers.values()
            for price in (o.on_demand_usd_per_h, o.spot_usd_per_h)
            if price is not None
        ]
        return 10.0 * max([*each, *(c.usd for c in self.commitments)], default=0.0)

    def committed_in(self, b: int, x: Sequence[int]) -> dict[str, int]:
        """Instances of each offer that are committed to in a block."""
        total: dict[str, int] = {}
        for c, n in zip(self.commitments, x, strict=True):
            if b in c.blocks and n and c.offer in self.blocks[b].fleet.offers:
                total[c.offer] = total.get(c.offer, 0) + n
        return total

    def paid_in(self, b: int, x: Sequence[int]) -> float:
        """What commitments cost a month in a block, as budgets count them."""
        return sum(c.usd_per_month * n for c, n in zip(self.commitments, x, strict=True) if b in c.blocks)

    def commitments_usd(self, x: Sequence[int]) -> float:
        return sum(c.usd * n for c, n in zip(self.commitments, x, strict=True))

    def left_of_quota(self, b: int) -> dict[str, int]:
        """GPUs of limited types that holdings leave in a block."""
        fleet = self.blocks[b].fleet
        return {
            gpu: limit - sum(o.box * o.on_hand for o in fleet.offers.values() if o.gpu == gpu)
            for gpu, limit in fleet.max_gpus.items()
        }

    @cached_property
    def scenarios(self) -> tuple[str | None, ...]:
        """those in which something is signed later; None where nothing is"""
        return tuple(sorted({c.scenario for c in self.commitments if c.scenario is not None})) or (None,)

    def owed_in(self, scenario: str | None) -> list[tuple[int, float]]:
        """What each commitment leaves owed that is signed in a scenario, now or later."""
        return [
            (k, c.owed_usd) for k, c in enumerate(self.commitments) if c.owed_usd and c.scenario in (None, scenario)
        ]


def horizon_master(
    problem: HorizonProblem,
    plans: Sequence[Sequence[BlockPlan]],
    relaxed: bool,
    trades: Trades | None = None,
) -> Model:
    """The restricted master over the plans of each block that are known, commitments first.

    Until enough plans are known, some may lack what they need at a price that is never worth it. Where `trades` are
    given there are those instead: they keep its duals near to other prices.
    """
    columns = [
        Column(("sign", k), c.usd, fewest, most, integer=not relaxed)
        for k, (c, (fewest, most)) in enumerate(zip(problem.commitments, problem.bounds, strict=True))
    ]
    at: list[list[int]] = []
    traded: dict[tuple[int, str], list[tuple[int, float]]] = {}
    for b, offers in enumerate(problem.offers_of):
        for g in offers:
            traded[b, g] = []
            for t, trade in enumerate((Trade(problem.too_much_usd),) if trades is None else trades[b, g]):
                sign = -1.0 if trade.sold else 1.0
                traded[b, g].append((len(columns), sign))
                columns.append(Column(("traded", b, g, t), sign * trade.usd, upper=trade.most))
    for b, known in enumerate(plans):
        at.append([])
        for p, plan in enumerate(known):
            at[b].append(len(columns))
            usd = problem.blocks[b].months * plan.usd_per_month
            columns.append(Column(("plan", b, p), usd, upper=1, integer=not relaxed))
    return build_model(columns, _rows(problem, plans, at, traded, relaxed))


def _rows(
    problem: HorizonProblem,
    plans: Sequence[Sequence[BlockPlan]],
    at: list[list[int]],
    traded: dict[tuple[int, str], list[tuple[int, float]]],
    relaxed: bool,
) -> list[Row]:
    rows = [Row(("one-plan", b), [(c, 1.0) for c in known], "==", 1.0) for b, known in enumerate(at)]
    for b, offers in enumerate(problem.offers_of):
        for g in offers:
            signed = [(k, 1.0) for k, c in enumerate(problem.commitments) if c.offer == g and b in c.blocks]
            used = [
                (column, -float(plan.committed[g]))
                for column, plan in zip(at[b], plans[b], strict=True)
                if plan.committed.get(g)
            ]
            rows.append(Row(("committed", b, g), [*signed, *used, *traded[b, g]], ">=", 0.0))
    rows += limits_on_commitments(problem, gpus=not relaxed)
    return rows


def limits_on_commitments(problem: HorizonProblem, gpus: bool = True) -> Iterator[Row]:
    """Commitments leave quotas of GPU types intact, and no more is owed than may be; they are the first columns."""
    for b, block in enumerate(problem.blocks) if gpus else ():
        for gpu, left in sorted(problem.left_of_quota(b).items()):
            offers = block.fleet.offers
            terms = [
                (k, float(offers[c.offer].box))
                for k, c in enumerate(problem.commitments)
                if b in c.blocks and c.offer in offers and offers[c.offer].gpu == gpu
            ]
            if terms:
                yield Row(("gpus-committed", b, gpu), terms, "<=", float(max(0, left)))
        for g in problem.offers_of[b]:
            offer = block.fleet.offers[g]
            if offer.max_instances is not None:
                signed = [(k, 1.0) for k, c in enumerate(problem.commitments) if b in c.blocks and c.offer == g]
                left = max(0, offer.max_instances - offer.on_hand)
                yield Row(("instances-committed", b, g), signed, "<=", float(left))
    for scenario in problem.scenarios if problem.max_owed_usd is not None else ():
        if owed := problem.owed_in(scenario):
            yield Row(("owed", scenario), owed, "<=", problem.max_owed_usd or 0.0)


def even_prices(problem: HorizonProblem) -> Prices:
    """Prices to begin with: each commitment spread evenly over its blocks, and of several the lowest."""
    prices: Prices = {}
    for c in problem.commitments:
        months = sum(problem.blocks[b].months for b in c.blocks)
        for b in c.blocks:
            share = c.usd * problem.blocks[b].months / months
            prices[b, c.offer] = min(prices.get((b, c.offer), np.inf), share)
    return prices
