"""Pricing of deferrable work: a lower bound on its cost with a deployment, and the replica counts that matter.

The counts of a slot in parts, and work that waits or leaves for an API: a small LP over the servings that matter. What
it says work is worth in each slot bounds every path of the recipe from below, by weak duality over all servings; those
that look cheaper there join until LP and bound meet. The servings it takes are those that the master needs.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from problems.fleet_problem import FleetProblem
from problems.model import Model
from problems.pricing import Priced, Prices, fixed_value, serving_values
from problems.recipes.recipe import Recipe
from solvers.backends.highs import solve_lp

IN_USE = 1e-7
NEAR_ENOUGH = 1e-5
"""relative gap between the LP over some servings and the bound over all"""
MOST_ROUNDS = 12


@dataclass(frozen=True, eq=False)
class _Worth:
    """What work is worth."""

    of_work: np.ndarray
    """[slot]"""
    of_lots: np.ndarray
    """where it takes whole lots [row]"""


@dataclass(frozen=True, eq=False)
class _Lots:
    """Rows that say that work takes whole lots, entry by entry: which part of it a serving does."""

    rows: int
    row: np.ndarray
    serving: np.ndarray
    part: np.ndarray


@dataclass(eq=False)
class WaitingWork:
    """What is known of recipes from one price to the next: servings that were of use, and what work was worth."""

    fleet: FleetProblem

    def __post_init__(self) -> None:
        self._servings: dict[tuple[Any, ...], np.ndarray] = {}
        """servings that a program had [mask]"""
        self._worth: dict[tuple[Any, ...], _Worth] = {}
        """what work was worth when a recipe was last priced"""
        self._lots: dict[tuple[Any, ...], _Lots] = {}

    def at_least(self, recipe: Recipe, prices: Prices) -> float:
        """A quick lower bound: what work was worth before, at the costs of now."""
        worth = self._worth.get(_known_as(recipe))
        if worth is None:
            return -np.inf
        values = serving_values(self.fleet, recipe.at_best, prices)
        return self._bound(recipe, prices, values, _room(recipe, self.fleet), worth)[0]

    def _lots_of(self, recipe: Recipe, room: np.ndarray) -> _Lots:
        known = _known_as(recipe)
        if known not in self._lots:
            assert recipe.deferral is not None
            done = recipe.deferral.done_in_runs(room / _unit(recipe, self.fleet), recipe.slot)
            none = (np.zeros(0, dtype=int), np.zeros(0))
            rows = np.repeat(np.arange(len(done)), [len(servings) for servings, _ in done])
            self._lots[known] = _Lots(len(done), rows, *map(np.concatenate, zip(none, *done, strict=True)))
        return self._lots[known]

    def _bound(
        self, recipe: Recipe, prices: Prices, values: np.ndarray, room: np.ndarray, worth: _Worth
    ) -> tuple[float, np.ndarray, np.ndarray]:
        """By weak duality over all servings; the cheapest of each slot, and what each costs more than that."""
        deferral, hours = recipe.deferral, self.fleet.weight
        assert deferral is not None
        lots = self._lots_of(recipe, room)
        values = values - room * worth.of_work[recipe.slot]
        values -= np.bincount(lots.serving, worth.of_lots[lots.row] * lots.part, minlength=len(values))
        best = recipe.first_of_each_slot(values)
        each = np.where(deferral.window, worth.of_work[None, :], np.inf).min(axis=1)
        if deferral.api_usd_per_load_h is not None:
            each = np.minimum(each, _bill(recipe, prices))
        some = deferral.load > 0
        paid = float((deferral.load * hours)[some] @ each[some]) + float(worth.of_lots.sum())
        value = float(values[best].sum()) + paid + fixed_value(self.fleet, recipe, prices)
        return value, best, values - values[best][recipe.slot]

    def priced(self, recipe: Recipe, prices: Prices) -> Priced | None:
        """The least that any counts of replicas cost, by a program over the servings that matter.

        None if the program was not solved: a bound of another kind has to do.
        """
        values, room = serving_values(self.fleet, recipe.at_best, prices), _room(recipe, self.fleet)
        fixed = fixed_value(self.fleet, recipe, prices)
        assert recipe.deferral is not None
        line = recipe.deferral.line
        idle, largest = recipe.first_of_each_slot(room), recipe.first_of_each_slot(-room)
        chosen = self._servings.get(_known_as(recipe))
        if chosen is None:
            rate = np.divide(values, room, out=np.full(len(values), np.inf), where=room > 0)
            chosen = np.zeros(recipe.servings, dtype=bool)
            chosen[np.r_[idle, largest, recipe.first_of_each_slot(rate)]] = True
        lots, worth = self._lots_of(recipe, room), self._worth.get(_known_as(recipe))
        if worth is not None:
            chosen = chosen.copy()
            chosen[self._bound(recipe, prices, values, room, worth)[1]] = True
        value, extra, used = -np.inf, np.zeros(recipe.servings), idle
        for _ in range(MOST_ROUNDS):
            servings = np.flatnonzero(chosen)
            lp = solve_lp(_model(recipe, self.fleet, prices, servings, values, room, lots))
            if lp.x is None or lp.row_duals is None or lp.objective is None:
                break
            of_line, of_lots = np.split(np.maximum(lp.row_duals[len(self.fleet.weight) :], 0.0), [len(line.work)])
            worth = _Worth(of_line[line.stretch_of] / _unit(recipe, self.fleet), of_lots)
            bound, best, more = self._bound(recipe, prices, values, room, worth)
            if bound > value:
                value, extra, self._worth[_known_as(recipe)] = bound, more, worth
            used = servings[lp.x[: len(servings)] > IN_USE]
            if lp.objective + fixed - value <= NEAR_ENOUGH * abs(value) or chosen[best].all():
                break
            chosen[best] = True
        if not np.isfinite(value):
            return None
        keep = np.zeros(recipe.servings, dtype=bool)
        keep[np.r_[idle, largest, used]] = True
        self._servings[_known_as(recipe)] = keep
        with_it = value + extra
        skipped = recipe.at_best.uses[0].load > recipe.uses[0].load
        narrowed = np.unique(np.r_[used, idle])
        return Priced(recipe, value, lambda: recipe.only(narrowed), lambda: (with_it, with_it[skipped]))


def _known_as(recipe: Recipe) -> tuple[Any, ...]:
    """The key of a recipe; it differs once every count of replicas is tried."""
    return (*recipe.key, recipe.servings)


def _room(recipe: Recipe, fleet: FleetProblem) -> np.ndarray:
    """Work that a serving can take, and those counts after it that are not tried [serving]."""
    room: np.ndarray = recipe.at_best.uses[0].load * fleet.weight[recipe.slot]
    return room


def _unit(recipe: Recipe, fleet: FleetProblem) -> float:
    """Work of the waiting line, in load x hours of the mean month."""
    assert recipe.deferral is not None
    return recipe.deferral.line.unit / fleet.months


def _bill(recipe: Recipe, prices: Prices) -> np.ndarray:
    """What the API asks for the work of a slot, per unit of load and hour [slot]."""
    assert recipe.deferral is not None and recipe.deferral.api_usd_per_load_h is not None
    return recipe.deferral.api_usd_per_load_h * prices.usd_factor_of(recipe.pool, recipe.api)


def _model(
    recipe: Recipe,
    fleet: FleetProblem,
    prices: Prices,
    servings: np.ndarray,
    usd: np.ndarray,
    rooms: np.ndarray,
    lots: _Lots,
) -> Model:
    """Columns: some servings, work that waits from slot to slot, what the API does."""
    deferral = recipe.deferral
    assert deferral is not None
    line, unit, slots = deferral.line, _unit(recipe, fleet), len(fleet.weight)
    waits = np.flatnonzero(line.may_wait)
    after = np.argsort(line.before)  # every stretch is before one
    sent = np.arange(len(line.work) if deferral.api_usd_per_load_h is not None else 0)
    n, m, k = len(servings), len(waits), len(sent)
    bill = _bill(recipe, prices)[line.first_slot] if k else np.zeros(0)
    # One serving in each slot; work is done by its replicas or the API, or waits; it takes whole lots.
    slot, of_lots = recipe.slot[servings], slots + len(line.work)
    place = np.full(recipe.servings, -1)
    place[servings] = np.arange(n)
    there = np.flatnonzero(place[lots.serving] >= 0)
    rows = np.r_[slot, slots + np.r_[line.stretch_of[slot], waits, after[waits], sent], of_lots + lots.row[there]]
    columns = np.r_[np.arange(n), np.arange(n), n + np.arange(m), n + np.arange(m), n + m + np.arange(k)]
    columns = np.r_[columns, place[lots.serving[there]]]
    values = np.r_[np.ones(n), rooms[servings] / unit, np.ones(m), -np.ones(m), np.ones(k), lots.part[there]]
    order = np.lexsort((columns, rows))
    one, n_rows = np.ones(slots), of_lots + lots.rows
    return Model(
        cost=np.r_[usd[servings], np.zeros(m), unit * bill],
        lower=np.zeros(n + m + k),
        upper=np.r_[np.ones(n), line.may_wait[waits], line.most[sent]],
        integer=np.zeros(n + m + k, dtype=bool),
        starts=np.r_[0, np.cumsum(np.bincount(rows, minlength=n_rows))],
        indices=columns[order],
        values=values[order],
        row_lower=np.r_[one, line.work, np.ones(lots.rows)],
        row_upper=np.r_[one, np.full(n_rows - slots, np.inf)],
        column_keys=tuple(("column", c) for c in range(n + m + k)),
        row_keys=tuple(("row", c) for c in range(n_rows)),
    )


def with_waiting_work_settled(priced: list[Priced], waiting: WaitingWork, prices: Prices) -> tuple[Priced, ...]:
    """Price recipes of work that may wait exactly if one may be the cheapest of its pool."""
    by_pool: dict[tuple[str, ...], list[int]] = {}
    for k, p in enumerate(priced):
        by_pool.setdefault(p.recipe.workloads, []).append(k)
    settled = list(priced)
    for ks in by_pool.values():
        least = min((settled[k].value for k in ks if settled[k].recipe.deferral is None), default=np.inf)
        bounds = {
            k: max(settled[k].value, waiting.at_least(settled[k].recipe, prices))
            for k in ks
            if settled[k].recipe.deferral is not None and settled[k].value < least
        }
        for k in sorted(bounds, key=lambda k: bounds[k]):
            exact = waiting.priced(settled[k].recipe, prices) if bounds[k] < least else None
            settled[k] = exact or replace(settled[k], value=bounds[k])
            least = min(least, settled[k].value)
    return tuple(settled)
