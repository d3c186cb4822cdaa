"""Work that may wait at given prices: what it costs at least with a deployment, and which counts of replicas matter.

The counts of a slot in parts, and the work moved between slots or sent to an API: a small LP. Its dual bound is a lower
bound on every path of the recipe, and the servings it takes are those that the master needs.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from problems.fleet import Fleet
from problems.model import Model
from problems.pricing import Priced, Prices, fixed_value, load_reached, serving_values
from problems.recipes import Recipe
from solvers.solve import dual_bound, solve_lp

IN_USE = 1e-7


@dataclass(eq=False)
class WaitingWork:
    """The programs of recipes, made once: from one price to the next only costs change."""

    fleet: Fleet

    def __post_init__(self) -> None:
        self._models: dict[tuple, Model] = {}
        self._usd_of_work: dict[tuple, np.ndarray] = {}
        """what work was worth in each slot when a recipe was last priced [slot]"""

    def at_least(self, recipe: Recipe, prices: Prices) -> float:
        """A quick lower bound: what work was worth before, at the costs of now."""
        usd_of_work = self._usd_of_work.get(recipe.key)
        if usd_of_work is None:
            return -np.inf
        deferral, hours = recipe.deferral, self.fleet.weight
        assert deferral is not None
        values = serving_values(self.fleet, recipe, prices)
        values = values - load_reached(recipe) * hours[recipe.slot] * usd_of_work[recipe.slot]
        cheapest = float(values[recipe.first_of_each_slot(values)].sum())
        each = np.where(deferral.window, usd_of_work[None, :], np.inf).min(axis=1)
        if deferral.api_usd_per_load_h is not None:
            each = np.minimum(each, deferral.api_usd_per_load_h * prices.usd_factor)
        some = deferral.load > 0
        worth = float((deferral.load * hours)[some] @ each[some])
        return cheapest + worth + fixed_value(self.fleet, recipe, prices)

    def priced(self, recipe: Recipe, prices: Prices) -> Priced:
        """The exact value."""
        values = serving_values(self.fleet, recipe, prices)
        fixed = fixed_value(self.fleet, recipe, prices)
        if recipe.key not in self._models:
            self._models[recipe.key] = _model(recipe, self.fleet)
        model = self._models[recipe.key]
        cost = np.zeros(model.n_columns)
        cost[: recipe.servings] = values
        deferral = recipe.deferral
        assert deferral is not None
        if deferral.api_usd_per_load_h is not None:
            bill = deferral.load * self.fleet.weight * deferral.api_usd_per_load_h * prices.usd_factor
            kinds = deferral.alike(self.fleet.slot_month)
            cost[model.n_columns - len(kinds) :] = [bill[slots].sum() for slots in kinds]
        model = model.with_cost(cost)
        lp = solve_lp(model)
        if lp.x is None or lp.row_duals is None:
            raise RuntimeError(f"the prices of work that may wait ended as {lp.status}; please report this case")
        value = dual_bound(model, lp.row_duals) + fixed
        self._usd_of_work[recipe.key] = np.maximum(lp.row_duals[-len(self.fleet.weight) :], 0.0)
        used = np.flatnonzero(lp.x[: recipe.servings] > IN_USE)
        idle = recipe.first_of_each_slot(recipe.uses[0].load)
        return Priced(
            recipe, value, lambda: recipe.only(np.unique(np.r_[used, idle])), np.full(len(values), value), np.zeros(0)
        )


def _model(recipe: Recipe, fleet: Fleet) -> Model:
    """Columns: servings, moves from slot to slot, what the API does; costs come with prices."""
    deferral = recipe.deferral
    assert deferral is not None
    hours, slots = fleet.weight, len(fleet.weight)
    kinds = deferral.alike(fleet.slot_month)
    work = np.array([float(deferral.load[k] @ hours[k]) for k in kinds])
    kind, target = np.nonzero(deferral.window[[k[0] for k in kinds]])
    n, m = recipe.servings, len(kind)
    api = len(kinds) if deferral.api_usd_per_load_h is not None else 0
    # One serving in each slot; all work done; the replicas can take the work that is moved to their slot.
    fits = slots + len(kinds)
    rows = np.r_[recipe.slot, slots + kind, slots + np.arange(api), fits + recipe.slot, fits + target]
    columns = np.r_[np.arange(n), n + np.arange(m), n + m + np.arange(api), np.arange(n), n + np.arange(m)]
    room = load_reached(recipe) * hours[recipe.slot]
    values = np.r_[np.ones(n + m + api), room, -work[kind]]
    order = np.lexsort((columns, rows))
    one = np.ones(slots + len(kinds))
    return Model(
        cost=np.zeros(n + m + api),
        lower=np.zeros(n + m + api),
        upper=np.ones(n + m + api),
        integer=np.zeros(n + m + api, dtype=bool),
        starts=np.r_[0, np.cumsum(np.bincount(rows, minlength=fits + slots))],
        indices=columns[order],
        values=values[order],
        row_lower=np.r_[one, np.zeros(slots)],
        row_upper=np.r_[one, np.full(slots, np.inf)],
        column_keys=tuple(("column", k) for k in range(n + m + api)),
        row_keys=tuple(("row", k) for k in range(fits + slots)),
    )


def with_waiting_work_settled(priced: list[Priced], waiting: WaitingWork, prices: Prices) -> tuple[Priced, ...]:
    """The same with the recipes of work that may wait priced exactly where one may be the cheapest of its pool."""
    by_pool: dict[tuple[str, ...], list[int]] = {}
    for k, p in enumerate(priced):
        by_pool.setdefault(p.recipe.workloads, []).append(k)
    found = list(priced)
    for ks in by_pool.values():
        least = min((found[k].value for k in ks if found[k].recipe.deferral is None), default=np.inf)
        bounds = {
            k: max(found[k].value, waiting.at_least(found[k].recipe, prices))
            for k in ks
            if found[k].recipe.deferral is not None and found[k].value < least
        }
        for k in sorted(bounds, key=lambda k: bounds[k]):
            if bounds[k] >= least:
                found[k] = replace(found[k], value=bounds[k], with_serving=np.maximum(found[k].with_serving, bounds[k]))
                continue
            found[k] = waiting.priced(found[k].recipe, prices)
            least = min(least, found[k].value)
    return tuple(found)
