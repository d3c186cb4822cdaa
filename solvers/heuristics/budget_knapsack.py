"""A knapsack over the hours of a day: the servings of one workload with the least penalty, for every amount of money.

The other paths of a plan stay as they are. Then the cost of a serving is known, but for instances that have to be
started, which depend on the hour before. So the hours of a day are a chain, and a knapsack along it finds the best
choice for every amount. Amounts are counted in small units, and a day begins at its quietest hour as if nothing had to
be started for that one. So purchases for these servings are computed again; no bound depends on any of it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from problems.fleet_problem import FleetProblem
from problems.purchase import hourly_purchase
from problems.recipes.recipe import Recipe
from solvers.heuristics.incumbent import usage

UNITS = 8192
"""distinct amounts of money, from the least that a month can cost to the most"""
SHARES = 400
"""of what can be spent, that are looked at for a ladder of amounts"""
MOST_CHOICES = 12
"""servings of a slot that are looked at"""


@dataclass(frozen=True, eq=False)
class Step:
    """One slot of a chain."""

    servings: np.ndarray
    """servings considered, the cheapest first [choice]"""
    units: np.ndarray
    """what each costs after a choice of the slot before [choice before, choice]"""
    usd: np.ndarray
    """the same in dollars"""
    before: np.ndarray
    """the best choice of the slot before, for an amount up to this slot [choice, units]"""


@dataclass(frozen=True, eq=False)
class Month:
    """The chain of one month; its budget is its own."""

    steps: list[Step]
    penalty_usd: np.ndarray
    """what is left of the penalty [last choice, units]"""
    least_usd: float
    """what units are counted from"""
    unit_usd: float

    @property
    def first_unit(self) -> int:
        """the least amount that serves every slot in some way"""
        return int(np.flatnonzero(np.isfinite(self.penalty_usd).any(axis=0))[0])

    @property
    def left_usd(self) -> np.ndarray:
        """The least that an amount leaves of the penalty [units]."""
        left: np.ndarray = self.penalty_usd.min(axis=0)
        return left

    @property
    def units_of_use(self) -> int:
        """beyond the least amount; more of them avoid no penalty"""
        return int(np.argmin(self.left_usd)) - self.first_unit

    def within(self, usd: float) -> tuple[list[int], float]:
        """The best servings for this amount, and what they cost; the cheapest ones where it is too little."""
        enough = np.flatnonzero(np.isfinite(self.penalty_usd).any(axis=0))
        units = int(np.clip((usd - self.least_usd) / self.unit_usd, enough[0], enough[-1]))
        choice = int(np.argmin(self.penalty_usd[:, units]))
        servings, spent = [], 0.0
        for step in reversed(self.steps):
            servings.append(int(step.servings[choice]))
            before = int(step.before[choice, units])
            spent += float(step.usd[before, choice])
            units -= int(step.units[before, choice])
            choice = before
        return servings, spent


class BudgetKnapsack:
    """All that can be bought for one recipe beside the other paths of a plan, with so many instances held."""

    def __init__(
        self,
        fleet: FleetProblem,
        rest: tuple[Recipe, ...],
        recipe: Recipe,
        held: dict[str, int],
        units: int = UNITS,
    ) -> None:
        self.fleet, self.recipe, self.units = fleet, recipe, units
        self.bought: list[tuple[float, np.ndarray]] = []
        """dollars to start an instance and how many there are [serving], for each offer and way to buy it hourly"""
        hours = fleet.slot_hours[recipe.slot]
        self.usd, self.penalty_usd = recipe.usd_per_h * hours, recipe.penalty_usd_per_h * hours
        for g in recipe.offers:
            offer = fleet.offers[g]
            gpus, firm = (used[recipe.slot] for used in usage(fleet, rest, g))
            on_demand, spot, usd_per_h = hourly_purchase(
                offer, held[g], gpus + recipe.gpus_on(g), firm + recipe.firm_gpus_on(g)
            )
            self.usd = self.usd + usd_per_h * hours
            self.bought.append((offer.start_h * (offer.on_demand_usd_per_h or 0.0), on_demand))
            self.bought.append((offer.start_h * (offer.spot_usd_per_h or 0.0), spot))
        self.possible = len(np.unique(recipe.slot[np.isfinite(self.usd)])) == len(fleet.slot_hours)
        self.months = [self._month(month) for month in range(fleet.months)] if self.possible else []

    @property
    def unit_usd(self) -> np.ndarray:
        """[month]"""
        return np.array([month.unit_usd for month in self.months])

    def within(self, usd: np.ndarray) -> tuple[Recipe, np.ndarray]:
        """The path that is best for these amounts, and what it costs with all that stands on its offers [month]."""
        by_month = [month.within(float(amount)) for month, amount in zip(self.months, usd, strict=True)]
        servings = np.sort(np.concatenate([chosen for chosen, _ in by_month]))
        return self.recipe.only(servings), np.array([spent for _, spent in by_month])

    def amounts(self, between_usd: tuple[float, float], others_usd: float, step_frac: float) -> Iterator[np.ndarray]:
        """Amounts that leave so much of the penalty or less, each with less cost + penalty by such a share [month].

        `others_usd` is what the paths beside it leave of penalty. Months of several are given alike shares.
        """
        least, most = between_usd
        last = np.inf
        for share in np.linspace(0.0, 1.0, SHARES + 1):
            units = [month.first_unit + round(share * month.units_of_use) for month in self.months]
            left = sum(float(m.left_usd[k]) for m, k in zip(self.months, units, strict=True))
            spent = np.array([m.least_usd + m.unit_usd * k for m, k in zip(self.months, units, strict=True)])
            total = left + float(spent.sum()) + others_usd
            if least <= left <= most and total <= (1 - step_frac) * last:
                last = total
                yield spent

    def _month(self, month: int) -> Month:
        order = [link for link in self._chain() if self.fleet.slot_month[link[0]] == month]
        choices = [self._worth_a_look(t) for t, _ in order]
        before = [choices[0][:1], *choices[:-1]]
        costs = [self._usd(*link, last, now) for link, last, now in zip(order, before, choices, strict=True)]
        least = [float(usd.min()) for usd in costs]
        unit_usd = max(sum(float(usd.max()) for usd in costs) - sum(least), 1e-6) / self.units
        steps: list[Step] = []
        left = np.zeros((1, self.units + len(order) + 1))  # each slot may be rounded up
        for servings, usd, least_usd in zip(choices, costs, least, strict=True):
            units = np.rint((usd - least_usd) / unit_usd).astype(int)
            left, after = _bought(left, units, self.penalty_usd[servings])
            steps.append(Step(servings, units, usd, after))
        return Month(steps, left, sum(least), unit_usd)

    def _usd(self, slot: int, follows: bool, last: np.ndarray, servings: np.ndarray) -> np.ndarray:
        """What servings of a slot cost after those of the slot before [serving before, serving]."""
        usd = np.tile(self.usd[servings], (len(last), 1))
        for start_usd, instances in self.bought if follows else ():
            more = np.maximum(instances[servings][None, :] - instances[last][:, None], 0)
            usd = usd + self.fleet.slot_hours[slot] * start_usd * more
        return usd

    def _worth_a_look(self, slot: int) -> np.ndarray:
        """Servings of a slot, the cheapest first, each with less penalty than those before."""
        there = np.flatnonzero((self.recipe.slot == slot) & np.isfinite(self.usd))
        there = there[np.lexsort((self.penalty_usd[there], self.usd[there]))]
        least = np.minimum.accumulate(self.penalty_usd[there])
        there = there[np.r_[True, least[1:] < least[:-1]]]
        spread: np.ndarray = there[np.unique(np.linspace(0, len(there) - 1, MOST_CHOICES).round().astype(int))]
        return spread

    def _chain(self) -> list[tuple[int, bool]]:
        """Every slot once, and whether it comes right after the one before it in this order."""
        slots = range(len(self.fleet.slot_hours))
        before = slots if self.fleet.slot_before is None else self.fleet.slot_before.tolist()
        after = {b: t for t, b in zip(slots, before, strict=True) if b != t}
        at_stake = np.zeros(len(slots))
        np.maximum.at(at_stake, self.recipe.slot, self.penalty_usd)
        chain: list[tuple[int, bool]] = []
        seen: set[int] = set()
        for first in np.argsort(at_stake, kind="stable").tolist():
            t, follows = first, False
            while t is not None and t not in seen:
                chain.append((t, follows))
                seen.add(t)
                t, follows = after.get(t), True
        return chain


def _bought(left: np.ndarray, units: np.ndarray, penalty_usd: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """One step of the knapsack: the least penalty for every amount [choice, units], and after which choice."""
    best = np.full((units.shape[1], left.shape[1]), np.inf)
    before = np.zeros(best.shape, dtype=np.int8)
    for j in range(units.shape[1]):
        for i in range(units.shape[0]):
            spent = units[i, j]
            if spent >= left.shape[1]:
                continue
            tried = left[i, : left.shape[1] - spent] + penalty_usd[j]
            better = tried < best[j, spent:]
            np.copyto(best[j, spent:], tried, where=better)
            np.copyto(before[j, spent:], i, where=better)
    return best, before
