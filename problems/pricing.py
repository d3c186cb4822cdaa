"""What each serving costs at the prices (duals) of a master LP, and what that proves.

At any duals the Lagrangian of the master splits into one minimum per pool, which is exact here: the cheapest
serving of each slot of the cheapest recipe. Its value L is a lower bound on every plan. A plan that uses a
given serving costs at least L + (what its recipe costs with that serving - what the cheapest recipe of its
pool costs), so a serving whose bound exceeds a plan already at hand can be left out without loss.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from problems.fleet import Fleet
from problems.recipes import Recipe


@dataclass(frozen=True, eq=False)
class Prices:
    """Duals of the master's rows, as prices (all at least zero)."""

    gpu_usd: dict[str, np.ndarray]
    """a GPU of an offer in a slot, over the hours the slot stands for [slot]"""
    firm_usd: dict[str, np.ndarray]
    """on top of that, for a GPU that must not be spot [slot]"""
    api_usd_factor: np.ndarray
    """how much a dollar of API cost weighs when the budget binds, 1 or more [slot]"""
    team_usd: dict[str, float]
    """the workload's share of the engineering team, if self-hosted"""
    in_dollars: bool = True
    """False in the phase that only looks for a feasible plan, where real costs count nothing"""


def prices_from_duals(fleet: Fleet, row_duals: dict[tuple, float], in_dollars: bool = True) -> Prices:
    slots = len(fleet.slot_hours)
    gpu = {g: np.zeros(slots) for g in fleet.recipes_on}
    firm = {g: np.zeros(slots) for g in fleet.recipes_on}
    budget = np.zeros(fleet.months)
    team = dict.fromkeys(fleet.workloads, 0.0)
    for key, dual in row_duals.items():
        if key[0] == "in-use":
            gpu[key[1]][key[2]] = max(dual, 0.0)
        elif key[0] == "firm":
            firm[key[1]][key[2]] = max(dual, 0.0)
        elif key[0] == "budget":
            budget[key[1]] = max(-dual, 0.0)
        elif key[0] == "team":
            team[key[1]] = max(-dual, 0.0)
    factor = float(in_dollars) + fleet.months * budget[fleet.slot_month]
    return Prices(gpu, firm, factor, team, in_dollars)


def serving_values(fleet: Fleet, recipe: Recipe, prices: Prices) -> np.ndarray:
    """Cost of each serving of a recipe at these prices [serving]."""
    t = recipe.slot
    value = fleet.weight[t] * recipe.api_usd_per_h * prices.api_usd_factor[t]
    if recipe.offer is not None:
        value = value + recipe.gpus * prices.gpu_usd[recipe.offer][t]
        value = value + recipe.firm_gpus * prices.firm_usd[recipe.offer][t]
    return value


@dataclass(frozen=True, eq=False)
class Priced:
    """A recipe at given prices."""

    recipe: Recipe
    value: float
    """cost with the cheapest serving in each slot"""
    best: np.ndarray
    """that serving's index, slot by slot"""
    with_serving: np.ndarray
    """cost when a given serving is used and the other slots are at their cheapest [serving]"""

    def path(self) -> Recipe:
        """The recipe narrowed to its cheapest serving in each slot."""
        return self.recipe.only(self.best)


def price_recipe(fleet: Fleet, recipe: Recipe, prices: Prices) -> Priced:
    values = serving_values(fleet, recipe, prices)
    best = recipe.first_of_each_slot(values)
    cheapest = np.zeros(len(fleet.slot_hours))
    cheapest[recipe.slot[best]] = values[best]
    team = sum(prices.team_usd[w] for w in recipe.workloads) if recipe.self_hosted else 0.0
    total = float(cheapest.sum()) + team
    return Priced(recipe, total, best, total + values - cheapest[recipe.slot])
