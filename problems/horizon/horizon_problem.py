"""Several quarters and scenarios: fleet problems that share nothing but commitments.

A **block** is a quarter in one scenario, or the first quarter in all of them together, which share models, deployments
and caching. Each block is a fleet problem by itself once it is known how many instances are committed to in it. So the
master of a horizon picks one plan for each block and signs commitments, each of which lasts for some of the blocks:

    min   sum_k usd[k] x[k]  +  sum_b months[b] sum_p usd[p] y[b,p]

    one plan for each block              sum_p y[b,p] = 1                                              for all b
    plans use what is committed to       sum_{k of g, lasts in b} x[k] - sum_p n[p,g] y[b,p] >= 0      for all b, g
    GPUs of a type within their quota    sum_{k, g of type} box[g] x[k] <= what holdings leave         for all b, types
    allowances within their limit        sum_{k of a, lasts in b} lots[k] x[k] <= most[a]              for all b, a
    they begin with their fewest units   x[k] <= most[k] x[first of k]                                 for such k
    no more is owed than may be          sum_{k signed in s} owed[k] x[k] <= limit                     for scenarios s

with x whole and y 0 or 1. A block's plans are those of its fleet problem with any number n[g] of instances committed
to; usd[p] is what a plan costs besides, a month, penalties included. There are too many to list: they are priced. At
duals mu of the second family a block asks for the plan with the least months x usd + sum_g mu[b,g] n[g], which is its
fleet problem with a commitment to g at mu[b,g] / months[b] a month. What that proves of all plans is said by bound.py.

An allowance that lasts for several blocks, a savings plan or provisioned units with a term, is a g like any offer: it
is signed in whole **lots** of dollars or units, n[a] = sum_k lots[k] x[k], which a block has for sale at mu, or holds.

A budget i of some quarters of a scenario couples blocks as well. Nothing may be shed then, so that the cheapest plan
of a block is the one that spends least, and none is priced for its sake:

    quarters within their budget         sum_k usd[k,i] x[k] + sum_{b of i, p} usd[p,s] y[b,p] <= most[i]   for all i

The objective above is the expected cost. For the worst case it counts e times, and (1 - e) w comes on top, with

    none costs more than the worst       w - sum_k usd[k,s] x[k] - sum_{b,p} usd[p,s] y[b,p] >= 0      for scenarios s

where usd[.,s] is what a commitment or plan costs in scenario s (risk.py says what e is for). The duals of this
family, and e times the probabilities, add up to one: these **weights** take the place of the probabilities in
months[b], usd[k] and the months of the first block.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from problems.allowance import Allowance, units_of
from problems.constants import HOURS_PER_MONTH
from problems.fleet_problem import FleetProblem
from problems.horizon.risk import EXPECTED, Risk, Weights

COMMITTED = "committed"
"""the term of commitments in a block"""
ROUNDING = 1e-9
"""share of a budget by which sums may miss it"""
Prices = dict[tuple[int, str], float]
"""(block, offer or allowance) -> what an instance or a lot that is committed to is worth there, mu [USD]"""


@dataclass(frozen=True, eq=False)
class Block:
    """A quarter in one scenario, or in all: all that a fleet problem has but commitments."""

    fleet: FleetProblem
    """its offers have no terms; what was held before is on hand; allowances over several blocks cost nothing here"""
    months: float
    """times its probability"""
    name: str
    times: dict[str, tuple[float, ...]] = field(default_factory=dict)
    """scenario -> months of the calendar that each month of the fleet stands for in it"""
    lots: dict[str, float] = field(default_factory=dict)
    """allowance that is signed for several blocks -> units in one of its lots"""

    def sells(self, g: str) -> bool:
        """Whether an offer, or an allowance for several blocks, is any use here."""
        return g in self.fleet.offers or g in self.lots

    def lot_saves_usd(self, g: str) -> float:
        """The most that a lot of an allowance takes off the bill of a month."""
        a = next(a for a in self.fleet.cover.each if a.key == g)
        return self.lots[g] * self.fleet.cover.most_saved_usd_per_h(a) * float(self.fleet.weight.sum())

    @property
    def differs(self) -> bool:
        """whether months of the fleet are of some scenarios more than of others"""
        return len(set(self.times.values())) > 1

    def usd_in(self, usd_by_month: np.ndarray) -> dict[str, float]:
        """What months of the fleet that cost so much come to in each scenario."""
        return {s: float(usd_by_month @ np.array(times)) for s, times in self.times.items()}

    def months_at(self, weights: Weights) -> float:
        """How much it counts with these weights of scenarios."""
        return sum(weights[s] * sum(times) for s, times in self.times.items()) if weights else self.months

    def at(self, weights: Weights) -> Block:
        """The block with scenarios that count so much, whatever their probabilities."""
        if not weights:
            return self
        months = self.months_at(weights)
        if not self.differs:
            return replace(self, months=months)
        by_month = sum((weights[s] * np.array(times) for s, times in self.times.items()), np.zeros(self.fleet.months))
        month_weight = by_month * len(by_month) / months
        hours = self.fleet.slot_hours * (month_weight / self.fleet.weight_of_month)[self.fleet.slot_month]
        recipes = tuple(
            r if r.deferral is None else replace(r, deferral=replace(r.deferral, hours=hours))
            for r in self.fleet.recipes
        )
        fleet = replace(self.fleet, slot_hours=hours, month_weight=month_weight, recipes=recipes)
        return replace(self, fleet=fleet, months=months)

    def with_commitments_at(self, usd_per_month: dict[str, float]) -> FleetProblem:
        """The fleet that may commit to offers at prices by the month.

        Its budget is left out: what commitments really cost is known only once they are chosen.
        """
        offers = {
            g: replace(o, reserved_usd_per_h={COMMITTED: usd_per_month[g] / HOURS_PER_MONTH})
            if g in usd_per_month
            else o
            for g, o in self.fleet.offers.items()
        }

        def priced(a: Allowance) -> Allowance | None:
            if a.key not in usd_per_month:
                return None
            lot = self.lots[a.key]
            return replace(a, usd_per_h=usd_per_month[a.key] / HOURS_PER_MONTH / lot, step=lot)

        allowances = self._allowances(priced)
        return replace(self.fleet, offers=offers, allowances=allowances, budget_usd_per_month=None)

    def _allowances(self, of: Callable[[Allowance], Allowance | None]) -> tuple[Allowance, ...]:
        """Those for several blocks as they are here, or left out; others stay."""
        each = (of(a) if a.key in self.lots else a for a in self.fleet.allowances)
        return tuple(a for a in each if a is not None)

    def with_committed(self, instances: dict[str, int], usd_per_month: float) -> FleetProblem:
        """The fleet with so many instances on hand, and lots of allowances held, besides; they cost so much of the
        budget."""
        offers = {g: replace(o, on_hand=o.on_hand + instances.get(g, 0)) for g, o in self.fleet.offers.items()}
        budget = self.fleet.budget_usd_per_month
        left = None if budget is None else _left_of(budget, usd_per_month)

        def held(a: Allowance) -> Allowance | None:
            lots = instances.get(a.key, 0)
            return replace(a, held=units_of(lots, self.lots[a.key])) if lots else None

        return replace(self.fleet, offers=offers, budget_usd_per_month=left, allowances=self._allowances(held))


@dataclass(frozen=True)
class CommitmentColumn:
    """One commitment that may be signed: an offer and a term, from one quarter on, in one scenario or in all.

    Of an allowance it is its fewest units, or what comes on top of them.
    """

    offer: str
    """or an allowance"""
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
    lots: int = 1
    """that one of it counts as: more where it is the fewest units of an allowance"""
    begins_with: int | None = None
    """the commitment to the fewest units, without which there is none of this"""


@dataclass(frozen=True, eq=False)
class BlockPlan:
    """What the master knows of a plan of a block."""

    usd_per_month: float
    """cost and penalty besides commitments"""
    committed: dict[str, int]
    """instances, and lots of allowances, that it needs to be committed to"""
    usd_in: dict[str, float] = field(default_factory=dict)
    """what it comes to in each scenario, over the block"""


@dataclass(frozen=True, eq=False)
class SpendLimit:
    """The most that some quarters of a scenario may cost together, commitments as far as they last in them."""

    scenario: str
    blocks: tuple[int, ...]
    signed_usd: dict[int, float]
    """commitment -> what one instance costs in these quarters"""
    most_usd: float

    def is_kept(self, x: Sequence[int], usd_in: Sequence[Mapping[str, float]]) -> bool:
        """Whether commitments and plans of blocks, which cost so much in each scenario, keep to it."""
        return not self.beyond_usd(x, usd_in)

    def beyond_usd(self, x: Sequence[int], usd_in: Sequence[Mapping[str, float]]) -> float:
        """By how much these exceed it; 0 where they keep to it."""
        signed = sum(usd * x[k] for k, usd in self.signed_usd.items())
        spent = signed + sum(usd_in[b].get(self.scenario, 0.0) for b in self.blocks)
        return spent - self.most_usd if spent > self.most_usd * (1 + ROUNDING) else 0.0


@dataclass(frozen=True, eq=False)
class HorizonProblem:
    blocks: tuple[Block, ...]
    commitments: tuple[CommitmentColumn, ...]
    max_owed_usd: float | None = None
    spending: tuple[SpendLimit, ...] = ()
    """budgets over several blocks, where nothing may be shed: then what a plan costs is what is minimized of it"""
    decided: tuple[tuple[int, int], ...] = ()
    """fewest and most of each commitment, where that is decided"""
    risk: Risk = EXPECTED

    @cached_property
    def bounds(self) -> tuple[tuple[int, int], ...]:
        """fewest and most of each commitment"""
        return self.decided or tuple((0, c.most) for c in self.commitments)

    def with_bounds(self, k: int, fewest: int, most: int) -> HorizonProblem:
        """The part of the plans that sign so many of a commitment."""
        return replace(self, decided=(*self.bounds[:k], (fewest, most), *self.bounds[k + 1 :]))

    @cached_property
    def offers_of(self) -> list[list[str]]:
        """offers and allowances that may be committed to in each block"""
        return [
            sorted({c.offer for c in self.commitments if b in c.blocks and block.sells(c.offer)})
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
        each += [block.lot_saves_usd(g) * block.months for block in self.blocks for g in block.lots]
        return 10.0 * max([*each, *(c.usd for c in self.commitments)], default=0.0) or 1.0

    def committed_in(self, b: int, x: Sequence[int]) -> dict[str, int]:
        """Instances of each offer, and lots of each allowance, that are committed to in a block."""
        total: dict[str, int] = {}
        for c, n in zip(self.commitments, x, strict=True):
            if b in c.blocks and n and self.blocks[b].sells(c.offer):
                total[c.offer] = total.get(c.offer, 0) + c.lots * n
        return total

    def paid_in(self, b: int, x: Sequence[int]) -> float:
        """What commitments cost a month in a block, as budgets count them."""
        return sum(c.usd_per_month * n for c, n in zip(self.commitments, x, strict=True) if b in c.blocks)

    def fleet_with(self, b: int, x: Sequence[int], weights: Weights | None = None) -> FleetProblem:
        """The fleet of a block with what is signed on hand, within what that leaves of its budget."""
        return self.blocks[b].at(weights or {}).with_committed(self.committed_in(b, x), self.paid_in(b, x))

    def commitments_usd(self, x: Sequence[int], weights: Weights | None = None) -> float:
        """Expected, or with scenarios that count so much."""
        return sum(self.usd_at(c, weights) * n for c, n in zip(self.commitments, x, strict=True) if n)

    def usd_at(self, c: CommitmentColumn, weights: Weights | None) -> float:
        """What a commitment costs with scenarios that count so much, whatever their probabilities."""
        if not weights or c.scenario is None:
            return c.usd
        return c.usd * weights[c.scenario] / self.risk.probabilities[c.scenario]

    def usd_in(self, c: CommitmentColumn, scenario: str) -> float:
        """What a commitment costs in one scenario."""
        return self.usd_at(c, {s: float(s == scenario) for s in self.risk.probabilities})

    def nearest(self, x: Sequence[int]) -> list[int]:
        """Commitments as near to these as is decided."""
        return [min(max(n, few), most) for n, (few, most) in zip(x, self.bounds, strict=True)]

    def left_of_quota(self, b: int) -> dict[str, int]:
        """GPUs of limited types that holdings leave in a block."""
        fleet = self.blocks[b].fleet
        return {
            gpu: limit - sum(o.box * o.on_hand for o in fleet.offers.values() if o.gpu == gpu)
            for gpu, limit in fleet.max_gpus.items()
        }

    def beyond_budgets_usd(self, x: Sequence[int], usd_in: Sequence[Mapping[str, float]]) -> float:
        """By how much commitments and plans of blocks, which cost so much in each scenario, exceed the budget that they
        exceed most."""
        return max((limit.beyond_usd(x, usd_in) for limit in self.spending), default=0.0)

    @cached_property
    def scenarios(self) -> tuple[str | None, ...]:
        """those in which something is signed later; None where nothing is"""
        return tuple(sorted({c.scenario for c in self.commitments if c.scenario is not None})) or (None,)

    def owed_in(self, scenario: str | None) -> list[tuple[int, float]]:
        """What each commitment leaves owed that is signed in a scenario, now or later."""
        return [
            (k, c.owed_usd) for k, c in enumerate(self.commitments) if c.owed_usd and c.scenario in (None, scenario)
        ]


def _left_of(most_usd: float, paid_usd: float) -> float:
    """What commitments leave of a budget: nothing where they are as much, but for rounding; else below zero."""
    left = most_usd - paid_usd
    return left if left < -ROUNDING * (most_usd + 1) else max(0.0, left)


def even_prices(problem: HorizonProblem) -> Prices:
    """Prices to begin with: each commitment spread evenly over its blocks, and of several the lowest."""
    prices: Prices = {}
    for c in problem.commitments:
        months = sum(problem.blocks[b].months for b in c.blocks)
        for b in c.blocks:
            share = c.usd / c.lots * problem.blocks[b].months / months
            prices[b, c.offer] = min(prices.get((b, c.offer), np.inf), share)
    return prices
