"""The master LP by column generation: which prices, which lower bound, which servings are worth a look.

The LP holds paths (recipes narrowed to one serving per slot). Its duals price every serving of every recipe;
paths that would pay at those prices join; when none does, the LP over all recipes is solved.

Two things keep the rounds few. Duals of offers that the LP does not use are arbitrary, often zero; the bound
never falls when a price rises, so prices are first lifted to what the offer charges (`_lifted`). And each round
also prices at a blend with the duals of the best bound so far (dual smoothing). Every bound is computed from
the prices alone by weak duality, so it holds whatever the LP solver's tolerances.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from problems.fleet import Fleet, Variables, master
from problems.model import Model
from problems.pricing import Priced, Prices, price_recipe, prices_from_duals
from problems.recipes import Recipe, Routing
from solvers.result import Status
from solvers.solve import dual_bound, solve_lp

Duals = dict[tuple, float]

MAX_ROUNDS = 100
NOTHING_UNSERVED = 1e-7
PATHS_PER_WORKLOAD_AND_ROUND = 6
SMOOTHING = 0.7
"""weight of the best prices so far in the blend"""
CONVERGED_FRAC = 3e-4
"""the LP and the bound are near enough: what is left is cheaper to close in the mixed-integer program"""


@dataclass(frozen=True, eq=False)
class Generated:
    """What column generation leaves behind."""

    feasible: bool | None
    """False only where it is proved that no plan exists; None where that was not settled"""
    bound: float
    """lower bound on the cost of any plan [USD/month]"""
    priced: tuple[Priced, ...]
    """every recipe at the prices that gave the bound"""
    paths: tuple[Recipe, ...]
    weights: np.ndarray
    """how much of each path the last LP picked [path]"""
    rounds: int


def generate(
    fleet: Fleet, on_round: Callable[[int, float], None] = lambda n, bound: None, known: tuple[Recipe, ...] = ()
) -> Generated:
    """Solve the master LP over all servings of all recipes; `known` are paths of a plan at hand, to start from."""
    return ColumnGeneration(fleet, on_round, known).run(CONVERGED_FRAC)


def list_prices(fleet: Fleet) -> Prices:
    """Prices before any LP: a GPU at its cheapest list price, a firm one at that of firm capacity.

    They are feasible duals of the purchases, so they give a first valid bound.
    """
    gpu, firm = {}, {}
    for g in fleet.recipes_on:
        offer = fleet.offers[g]
        held = [p for p in (offer.on_demand_usd_per_h, *offer.reserved_usd_per_h.values()) if p is not None]
        spot = [offer.spot_usd_per_h] if offer.spot_usd_per_h is not None else []
        cheapest = min([*held, *spot])
        gpu[g] = fleet.weight * cheapest / offer.box
        firm[g] = fleet.weight * (min(held, default=cheapest) - cheapest) / offer.box
    return Prices(gpu, firm, np.ones(len(fleet.slot_hours)), dict.fromkeys(fleet.workloads, 0.0))


class ColumnGeneration:
    """The state of the rounds, so that they can go on where they stopped."""

    def __init__(self, fleet: Fleet, on_round: Callable[[int, float], None], known: tuple[Recipe, ...] = ()) -> None:
        self.fleet, self.on_round = fleet, on_round
        listed = list_prices(fleet)
        self.paths = [*(price_recipe(fleet, recipe, listed).path() for recipe in fleet.recipes), *known]
        self.unserved = tuple(_unserved(fleet, w) for w in fleet.workloads)
        self.feasible: bool | None = None
        self.rounds = 0
        self.bound = -np.inf
        self.priced: tuple[Priced, ...] = ()
        self.best_duals: Duals = {}
        for g, prices in listed.gpu_usd.items():
            self.best_duals |= {("in-use", g, t): float(p) for t, p in enumerate(prices)}
        for g, prices in listed.firm_usd.items():
            self.best_duals |= {("firm", g, t): float(p) for t, p in enumerate(prices)}

    def run(
        self,
        tolerance_frac: float,
        enough: Callable[[float, tuple[Priced, ...]], bool] = lambda bound, priced: False,
    ) -> Generated:
        """Go on until the bound is this near to the LP, nothing more pays, or `enough` is known."""
        weights = np.zeros(0)
        while self.rounds < MAX_ROUNDS and self.feasible is not False:
            self.rounds += 1
            model, v = master(replace(self.fleet, recipes=(*self.paths, *self.unserved)))
            slack = [v.pick[len(self.paths) + k] for k in range(len(self.unserved))]
            if self.feasible is None:
                new, self.feasible = self._look_for_a_plan(_cost_of_only(model, slack), v)
                if not self.feasible:
                    self.paths += new
                    continue
            model = _without(model, slack)
            lp = solve_lp(model)
            if lp.status is Status.INFEASIBLE:
                self.feasible = False  # a limit is missed by less than the tolerance of the search for a plan
                break
            if lp.status is not Status.OPTIMAL or lp.x is None or lp.objective is None:
                raise RuntimeError(f"the master LP ended as {lp.status}; please report this case")
            weights = np.array([lp.x[v.pick[r]] for r in range(len(self.paths))])
            new = self._round(model, v, _by_key(model, lp.row_duals))
            self.on_round(self.rounds, self.bound)
            self.paths += new
            near = lp.objective - self.bound <= tolerance_frac * abs(lp.objective)
            if not new or near or enough(self.bound, self.priced):
                break
        weights = np.r_[weights, np.zeros(len(self.paths) - len(weights))]
        return Generated(self.feasible, self.bound, self.priced, tuple(self.paths), weights, self.rounds)

    def _look_for_a_plan(self, model: Model, v: Variables) -> tuple[list[Recipe], bool | None]:
        """Serve as much as the limits allow: paths that help, and whether all can (None: not known yet).

        A positive lower bound on what stays unserved proves that no plan exists.
        """
        short = solve_lp(model)
        if short.objective is not None and short.objective <= NOTHING_UNSERVED:
            return [], True
        duals = _by_key(model, short.row_duals)
        lifted = self._lifted(model, v, duals)
        priced = self._price(lifted, in_dollars=False)
        if self._bound(model, lifted, priced) > NOTHING_UNSERVED:
            return [], False
        new = self._worth_adding(duals, priced, in_dollars=False)
        return new, None if new else False

    def _round(self, model: Model, v: Variables, duals: Duals) -> list[Recipe]:
        """Price at the LP's duals and at the blend; keep the better bound; return the paths that pay."""
        lifted, anchor = self._lifted(model, v, duals), self.best_duals
        blend = {k: SMOOTHING * anchor.get(k, 0.0) + (1 - SMOOTHING) * d for k, d in lifted.items()}
        found: dict[tuple, Recipe] = {}
        for at in (self._lifted(model, v, blend), lifted):
            priced = self._price(at)
            bound = self._bound(model, at, priced)
            if bound > self.bound:
                self.bound, self.priced, self.best_duals = bound, priced, at
            for path in self._worth_adding(duals, priced):
                found.setdefault((path.key, path.replicas.tobytes()), path)
        return list(found.values())

    def _lifted(self, model: Model, v: Variables, duals: Duals) -> Duals:
        """The same duals with each GPU's price raised as far as the purchases of its offer allow.

        A GPU in a slot may cost no more than on demand; all slots together no more than a commitment; the part
        that need not be firm no more than spot.
        """
        reduced = model.cost - model.priced(np.array([duals.get(key, 0.0) for key in model.row_keys]))
        lifted = dict(duals)
        for g in self.fleet.recipes_on:
            offer = self.fleet.offers[g]
            slots = range(len(self.fleet.slot_hours))
            terms = [reduced[v.reserved[g, k]] / offer.box for k in offer.reserved_usd_per_h]
            if offer.on_demand_usd_per_h is not None:
                room = np.array([reduced[v.on_demand[g, t]] for t in slots]) / offer.box
            else:
                room = self.fleet.weight * (min(terms) / self.fleet.weight.sum() if terms else 0.0)
            room = np.maximum(room, 0.0)
            if terms:
                room = room * min(1.0, max(0.0, min(terms)) / max(room.sum(), 1e-300))
            spot = room
            if offer.spot_usd_per_h is not None:
                spot = np.maximum([reduced[v.spot[g, t]] / offer.box for t in slots], 0.0)
            for t in slots:
                whole = min(room[t], spot[t]) if offer.spot_usd_per_h is not None else room[t]
                lifted["in-use", g, t] = lifted.get(("in-use", g, t), 0.0) + whole
                if ("firm", g, t) in lifted:
                    lifted["firm", g, t] += room[t] - whole
        return lifted

    def _price(self, duals: Duals, in_dollars: bool = True) -> tuple[Priced, ...]:
        prices = prices_from_duals(self.fleet, duals, in_dollars)
        return tuple(price_recipe(self.fleet, recipe, prices) for recipe in self.fleet.recipes)

    def _bound(self, model: Model, duals: Duals, priced: tuple[Priced, ...]) -> float:
        """The Lagrangian at these duals: each workload at its cheapest recipe, plus what the limits add."""
        y = {k: d for k, d in duals.items() if k[0] != "served"}
        for w, recipes in self.fleet.recipes_of.items():
            y["served", w] = min(priced[r].value for r in recipes)
        return dual_bound(model, np.array([y.get(key, 0.0) for key in model.row_keys]))

    def _worth_adding(self, duals: Duals, priced: tuple[Priced, ...], in_dollars: bool = True) -> list[Recipe]:
        """Of each workload, the best paths whose cost at the LP's duals is below what the LP pays for it."""
        prices = prices_from_duals(self.fleet, duals, in_dollars)
        tolerance = 1e-7 * max(1.0, *(abs(duals["served", w]) for w in self.fleet.workloads))
        new: list[Recipe] = []
        for w, recipes in self.fleet.recipes_of.items():
            worth = []
            for r in recipes:
                path = priced[r].path()
                value = price_recipe(self.fleet, path, prices).value - duals["served", w]
                if value < -tolerance:
                    worth.append((value, r, path))
            worth.sort(key=lambda item: item[:2])
            new += [path for _, _, path in worth[:PATHS_PER_WORKLOAD_AND_ROUND]]
        return new


def _by_key(model: Model, row_duals: np.ndarray | None) -> Duals:
    if row_duals is None:
        raise RuntimeError("the master LP came back without duals; please report this case")
    return dict(zip(model.row_keys, row_duals.tolist(), strict=True))


def _unserved(fleet: Fleet, workload: str) -> Recipe:
    """A stand-in that serves nothing: it exists only to see whether the limits can be met at all."""
    slots = len(fleet.slot_hours)
    none = np.zeros(slots, dtype=int)
    nowhere = Routing(np.zeros((slots, 1)), np.ones(1), np.zeros(1, dtype=int))
    return Recipe(workload, (workload,), None, None, None, 0, np.arange(slots), none, none,
                  np.zeros(slots), np.zeros(slots), nowhere)  # fmt: skip


def _cost_of_only(model: Model, columns: list[int]) -> Model:
    cost = np.zeros_like(model.cost)
    cost[columns] = 1.0
    return replace(model, cost=cost)


def _without(model: Model, columns: list[int]) -> Model:
    upper = model.upper.copy()
    upper[columns] = 0.0
    return replace(model, upper=upper)
