"""Integer plans of a single slot, by dynamic programming: replica counts, and what is bought for them.

Recipes and commitments are given. At prices for what ties slots together, workloads are added one after the other; only
the cheapest of all sums that use the same GPUs is kept, and boxes are rounded up at the end.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from problems.fleet_problem import FleetProblem
from problems.fleet_variables import Variables
from problems.purchase import hourly_purchase

SUMS = 1_500
"""partial sums kept while workloads are added: those most likely by the LP"""
SERVINGS = 12
"""servings of a workload in a slot that are tried"""


@dataclass(frozen=True, eq=False)
class Choice:
    """What a recipe may do in a slot."""

    columns: np.ndarray
    """[serving]"""
    load: np.ndarray
    """load of work that may wait [serving]"""
    use: np.ndarray
    """GPUs, all and firm ones, of each large offer [serving, 2 x offer]"""
    number: np.ndarray
    """for what it uses: sums of these are alike where all is used alike, but for an accident [serving]"""


class Slot:
    """One slot: the servings of each recipe there, and instances of large boxes that are bought by the hour."""

    def __init__(self, fleet: FleetProblem, v: Variables, t: int, large: list[str]) -> None:
        self.t, self.offers = t, [fleet.offers[g] for g in large]
        terms = [[(g, term) for term in fleet.offers[g].reserved_usd_per_h] for g in large]
        self.held = [sum(fleet.held.get(key, (0, 0))[0] for key in keys) for keys in terms]
        self.base = np.zeros(2 * len(large))
        """what recipes use that have no choice"""
        self.choices: list[Choice] = []
        numbers = np.random.default_rng(0).integers(1, 2**50, 2 * len(large))
        for r, recipe in enumerate(fleet.recipes):
            if set(large).isdisjoint(recipe.offers):
                continue
            at = np.flatnonzero(recipe.slot == t)
            here = recipe.only(at)
            use = np.zeros((len(at), 2 * len(large)))
            for k, g in enumerate(large):
                if g in recipe.offers:
                    use[:, 2 * k], use[:, 2 * k + 1] = here.gpus_on(g), here.firm_gpus_on(g)
            if len(at) == 1:
                self.base += use[0]
            elif len(at):
                load = here.uses[0].load if here.deferral is not None else np.zeros(len(at))
                columns = np.array([v.serve[r, i] for i in at.tolist()])
                self.choices.append(Choice(columns, load, use, use.astype(np.int64) @ numbers))
        self.bought = [(v.on_demand.get((g, t)), v.spot.get((g, t))) for g in large]
        bought = [c for columns in self.bought for c in columns if c is not None]
        self.columns = np.array([*(c for choice in self.choices for c in choice.columns.tolist()), *bought], dtype=int)
        self._place = {c: k for k, c in enumerate(self.columns.tolist())}

    def plans(
        self, usd: np.ndarray, likely: np.ndarray, below: float = np.inf, room: np.ndarray | None = None
    ) -> Iterator[np.ndarray]:
        """Plans that cost less than that, as values of the slot's columns, the cheapest first.

        `usd` is what a unit of each column costs, and `likely` is small where the LP says most for it. Of plans that
        do as much waiting work and buy the same, one is enough. All have `room` for so much waiting work, or as much as
        there can be [choice].
        """
        cost, use, chosen, loads = self._sums(usd, likely, room)
        bought = np.zeros((len(cost), 2 * len(self.offers)))
        for k, (offer, held) in enumerate(zip(self.offers, self.held, strict=True)):
            instances = hourly_purchase(offer, held, use[:, 2 * k], use[:, 2 * k + 1])[:2]
            for way, (n, column) in enumerate(zip(instances, self.bought[k], strict=True)):
                bought[:, 2 * k + way] = n
                cost = cost + n * usd[column] if column is not None else np.where(n > 0, np.inf, cost)
            if offer.max_instances is not None:
                cost = np.where(offer.on_hand + held + sum(instances) > offer.max_instances, np.inf, cost)
        tied, seen = np.c_[bought, loads], set()
        for n in np.argsort(cost, kind="stable").tolist():
            if cost[n] >= below:
                return
            if tied[n].tobytes() not in seen:
                seen.add(tied[n].tobytes())
                yield self._values(chosen[n], bought[n])

    def room_of(self, values: np.ndarray) -> np.ndarray:
        """Waiting work that there is room for, given values of the slot's columns [choice]."""
        ends = np.cumsum([0, *(len(choice.columns) for choice in self.choices)])
        return np.array([values[a:b] @ c.load for a, b, c in zip(ends, ends[1:], self.choices, strict=False)])

    def _sums(
        self, usd: np.ndarray, likely: np.ndarray, room: np.ndarray | None
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """One serving of each recipe: costs, GPUs, columns and loads; the cheapest for all that they could use."""
        rank, cost, alike = np.zeros(1), np.zeros(1), np.zeros(1, dtype=np.int64)
        place = np.zeros((1, len(self.choices)), dtype=int)
        """index of the serving of each choice [sum, choice]"""
        open_ones = [int((likely[choice.columns] < 1e-6).sum()) for choice in self.choices]
        for c in np.argsort(open_ones, kind="stable").tolist():
            choice = self.choices[c]
            some = np.argsort(likely[choice.columns], kind="stable")
            if room is not None:
                some = some[choice.load[some] >= min(room[c], choice.load.max()) - 1e-9]
            some = some[:SERVINGS]
            columns = choice.columns[some]
            costs = np.add.outer(usd[columns], cost).ravel()
            numbers = np.add.outer(choice.number[some], alike).ravel()
            kept = _cheapest_of_each(numbers, costs)
            own, before = np.divmod(kept, len(cost))
            ranks = rank[before] + likely[columns][own] - likely[columns[0]]
            if len(kept) > SUMS:
                likeliest = np.sort(np.argpartition(ranks, SUMS)[:SUMS])  # numbers stay in order
                kept, own, before, ranks = kept[likeliest], own[likeliest], before[likeliest], ranks[likeliest]
            rank, cost, alike = ranks, costs[kept], numbers[kept]
            place = place[before]
            place[:, c] = some[own]
        use = sum((choice.use[place[:, c]] for c, choice in enumerate(self.choices)), self.base)
        chosen = np.stack([choice.columns[place[:, c]] for c, choice in enumerate(self.choices)], axis=1)
        loads = np.stack([choice.load[place[:, c]] for c, choice in enumerate(self.choices)], axis=1)
        return cost, use, chosen, loads

    def _values(self, chosen: np.ndarray, bought: np.ndarray) -> np.ndarray:
        values = np.zeros(len(self.columns))
        values[[self._place[c] for c in chosen.tolist()]] = 1.0
        for column, n in zip((c for columns in self.bought for c in columns), bought.tolist(), strict=True):
            if column is not None:
                values[self._place[column]] = n
        return values


def _cheapest_of_each(numbers: np.ndarray, costs: np.ndarray) -> np.ndarray:
    """Where the cheapest of each number is, in the order of the numbers."""
    order = np.argsort(numbers, kind="stable")
    costs, first = costs[order], _first_of_each(numbers[order])
    group = np.cumsum(first) - 1
    cheapest = np.flatnonzero(costs == np.minimum.reduceat(costs, np.flatnonzero(first))[group])
    where: np.ndarray = order[cheapest[_first_of_each(group[cheapest])]]
    return where


def _first_of_each(in_order: np.ndarray) -> np.ndarray:
    """Whether each number differs from the one before [mask]."""
    first = np.ones(len(in_order), dtype=bool)
    np.not_equal(in_order[1:], in_order[:-1], out=first[1:])
    return first
