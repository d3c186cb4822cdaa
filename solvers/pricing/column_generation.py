"""Column generation for the LP relaxation of the master: prices, the Lagrangian bound, and servings worth a look.

The restricted master holds paths (recipes narrowed to one serving per slot). Its duals price every serving of every
recipe; paths with negative reduced cost join; when there is none, the LP over all recipes is solved.

Three things keep the rounds few. Duals are central ones (an interior point method), not those of a vertex. Duals of
offers that the LP does not use are arbitrary, often zero; the bound never falls when a price rises, so prices are first
lifted to what the offer charges (solvers/pricing/dual_bound.py). And each round also prices at a blend with the duals
of the best bound so far (dual smoothing). Every bound is computed from the prices alone by weak duality, so it holds
whatever the LP solver's tolerances.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from problems.beyond_commitments import ALWAYS
from problems.constants import HOURS_PER_MONTH
from problems.fleet import master
from problems.fleet_problem import ON_HAND, FleetProblem
from problems.fleet_variables import Variables
from problems.model import Key, Model
from problems.pricing import Priced, Prices, price_recipe, prices_from_duals
from problems.recipes.recipe import Recipe
from solvers.backends.clock import check
from solvers.backends.highs import solve_lp
from solvers.backends.result import Status
from solvers.cuts.beyond_commitments import always_beyond
from solvers.cuts.picked import Picked, picked_of
from solvers.cuts.pool import ABOUT_BOXES, NO_PRICE_USD, CutPool
from solvers.cuts.separation import short_if_decided
from solvers.devices import uses
from solvers.pricing.budget_bounds import BudgetBound, budget_bound_of
from solvers.pricing.dual_bound import (
    INSIDE_RECIPES,
    Duals,
    Values,
    dual_bound_of,
    lifted,
    list_prices,
    most_to_pay,
    signed_at_list,
    spare,
    with_cover,
)
from solvers.pricing.lazy_rows import LazyRows
from solvers.pricing.mixing import Found, Mixes
from solvers.pricing.paths import Paths
from solvers.pricing.reduced_cost_fixing import possible_within, with_counts_skipped_within
from solvers.pricing.refine_counts import RefinedCounts
from solvers.pricing.waiting import WaitingWork, with_waiting_work_settled

MAX_ROUNDS = 100
NOTHING_UNSERVED = 1e-7
NEAR_FRAC = 0.3
"""partial pricing: recipes that cost this share more than the cheapest of their pool are priced only now and then"""
FIRST_PATHS = 3
"""paths of each pool in the first LP"""
PATHS_PER_WORKLOAD_AND_ROUND = 6
MIXES_OF_A_ROUND, FEWEST_OF_A_POOL, MOST_OF_A_POOL = 2400, 3, 8
"""mixes that are written down at a time, shared among the pools: they are most of what a large case has in memory"""
BEFORE_SHARPENING_FRAC = 0.02
"""near enough to begin with cuts about whole boxes, which move the prices anyway"""
ROUNDS_BETWEEN_MIXES = 6
"""mixes are looked for when the LP is settled, and now and then before: prices that forget them lead nowhere"""
MIXES_PER_WORKLOAD = 60
"""mixes of a pool that are written down at most because a better plan may use them"""
SMOOTHING = 0.7
"""weight of the best prices so far in the blend"""
STANDS_FRAC, STANDS_ROUNDS = 1e-5, 4
"""LPs in a row that cost the same, after which more cuts about boxes bring nothing: some leave and join for ever"""
AT_REST_FRAC, AT_REST = 1e-3, 2
"""change of the LP up to which it hardly moves, and how often in a row"""
NEAR_THE_LP = 0.5
"""what is left between bound and LP, as a share of what is between LP and plan, where a branch is divided"""
LONGER = 1.15
"""than the last ones, that the next round and bound may take"""
LAST_ROUNDS = 2
"""before time is up that have no new rows"""
BEHIND_FRAC, BEHIND_OF_ROWS = 5e-3, 0.5
"""share of the LP, and of what cuts have added to it, by which the bound may lag when more cuts are separated"""
TOO_LOW = 0.5
"""share of the way from the best bound to the LP by which a bound may fall short before the best duals return"""
CONVERGED_FRAC = 3e-4
"""the LP and the bound are near enough: what is left is cheaper to close in the mixed-integer program"""


@dataclass(frozen=True, eq=False)
class Generated:
    """The result of column generation."""

    feasible: bool | None
    """False only where it is proved that no plan exists; None if that was not settled"""
    bound: float
    """lower bound on the cost of any plan [USD/month]"""
    fleet: FleetProblem
    """the fleet problem with all recipes written down so far"""
    priced: tuple[Priced, ...]
    """every recipe at the prices of the last bound"""
    paid: dict[str, float]
    """what those prices pay for each workload"""
    bound_at_prices: float
    """the bound that they give"""
    least_left: float
    """what a plan costs at least if it uses a mix that is not written down"""
    held: int
    """paths in the LP"""
    rounds: int


class ColumnGeneration:
    """The state of the rounds, so that they can go on where they stopped."""

    def __init__(
        self, fleet: FleetProblem, on_round: Callable[[int, float], None], known: tuple[Recipe, ...] = ()
    ) -> None:
        self.on_round = on_round
        self.listed = list_prices(fleet)
        self.fleet = fleet
        self.mixes = Mixes(fleet)
        self.waiting = WaitingWork(fleet)
        self.paths = Paths(fleet)
        self._write_down(self._for_those_without(fleet))
        self.recipe_of_key = {recipe.key: recipe for recipe in fleet.recipes if recipe.deferral is not None}
        self.counts_left_out = RefinedCounts()
        self.closely: set[int] = set()
        """recipes that are priced in every round; the others when nothing more is to be found among them"""
        self.paths.join([*self._first_paths(), *known])
        self.unserved = tuple(_unserved(fleet, w) for w in fleet.workloads)
        self.feasible: bool | None = None
        self.rounds = self.looked_in = 0
        """so far, and the last one with a bound on all plans"""
        self.reserved: dict[tuple[str, str], float] = {}
        """commitments in the last LP"""
        self.picked: list[Picked] = []
        """the paths of the last LP, and how much it picked of their servings"""
        self.solution: tuple[Variables, np.ndarray] | None = None
        """its columns, and their values"""
        self.lp_usd, self.rests, self.stood = np.inf, 0, 0
        """the last LP, and LPs in a row that hardly moved, and that did not move at all for all cuts about boxes"""
        self.behind = False
        """whether prices were so far behind the last LP that it had no more cuts about boxes"""
        self.duals: Duals = {}
        """duals of the last LP"""
        self._settled: tuple[tuple[Recipe, ...], np.ndarray] | None = None
        self.sharpening, self.plain_usd = False, 0.0
        """cuts about whole boxes join when mixes are known: prices that are in such rows tell little about others; the
        LP without them"""
        self.to_sharpen: tuple[Variables, np.ndarray] | None = None
        """the last LP's columns and solution, where such rows may begin"""
        self.box_rows = CutPool()
        self.lazy_rows = LazyRows()
        self.settling_s = self.round_s = 0.0
        """what the last bound on all plans took, and the last round: nobody can stop in the middle of them"""
        self.bound = self.bound_at_prices = -np.inf
        self.model: Model | None = None
        """model of the last bound"""
        self.tangents: list[BudgetBound] = []
        """what bounds on all plans prove at other budgets"""
        self.bound_of_written = -np.inf
        """what the best prices prove of plans without mixes that are not written down"""
        self.priced: tuple[Priced, ...] = ()
        self.paid: dict[str, float] = {}
        self.paid_for_written: dict[str, float] = {}
        """what could be paid if there were no mixes but those written down"""
        self.least_left = -np.inf if self.mixes.pools else np.inf
        self.no_mix_at: tuple[Duals, dict[str, float], Found] | None = None
        """prices at which no mix pays that is not written down, what they pay for workloads, and what was found"""
        self.list_duals: Duals = {}
        for family, by_offer in (("in-use", self.listed.gpu_usd), ("firm", self.listed.firm_usd)):
            for g, prices in by_offer.items():
                self.list_duals |= {(family, g, t): float(p) for t, p in enumerate(prices)}
        self.list_duals = with_cover(fleet, self.list_duals | signed_at_list(fleet), {})
        self.anchor = dict(self.list_duals)
        """the duals of the best bound so far, as far as recipes are concerned that are priced in every round"""
        self.proved: Duals = {}
        self.proved_usd = -np.inf
        """duals of the best bound on all plans of a branch, and that bound"""

    def _for_those_without(self, fleet: FleetProblem) -> list[Recipe]:
        """Mixes for workloads that no deployment can serve by itself."""
        without = {w for w in fleet.workloads if not fleet.recipes_of[w]}
        if not without:
            return []
        enough = dict.fromkeys(fleet.workloads, np.inf)
        mixes = Mixes(replace(fleet, pools={k: p for k, p in fleet.pools.items() if without & set(p.workloads)}))
        recipes = mixes.find(self.listed, enough, 0.0, most=PATHS_PER_WORKLOAD_AND_ROUND).recipes
        self.mixes.written |= mixes.written
        return recipes

    def _first_paths(self) -> list[Recipe]:
        """The cheapest paths of each pool at list prices: the LP stays small if offers are of no use."""
        priced = [price_recipe(self.fleet, recipe, self.listed) for recipe in self.fleet.recipes]
        self._look_closer_at(priced)
        return [p.cheapest for ranked in by_pool_and_value(priced).values() for p in ranked[:FIRST_PATHS]]

    def _look_closer_at(self, priced: Sequence[Priced]) -> None:
        """Price only recipes from now on that cost little more than the cheapest of their pool."""
        for ranked in by_pool_and_value(priced).values():
            least = ranked[0].value
            near = [p for p in ranked if p.value - least <= NEAR_FRAC * abs(least)]
            self.closely |= {id(p.recipe) for p in (*near, *ranked[:FIRST_PATHS])}

    def nearly_settled(self, usd_per_month: float) -> bool:
        """The LP with its rows has come to rest, and what is left of prices is less than what a division may bring."""
        near = self.lp_usd - self.bound_of_written <= NEAR_THE_LP * (usd_per_month - self.lp_usd)
        return near and self.rests >= AT_REST

    def branched(self, fleet: FleetProblem, usd: float = np.inf) -> ColumnGeneration:
        """Prices for a part of the plans, where more is decided: paths, rows that have a price, mixes and the best
        prices go on. What no plan of less than so much uses is left out, so a bound beyond that says no more than that.
        """
        kept = possible_within(self, usd) if len(self.priced) == len(self.fleet.recipes) else self.fleet.recipes
        recipes = tuple(r for r in kept if fleet.allows(r))
        known = {recipe.key: recipe for recipe in recipes}
        narrowed = {path: path.within(known[path.key]) for path in self.paths.held if path.key in known}
        held = {path: own for path, own in narrowed.items() if len(own.slot_starts) == len(fleet.slot_hours)}
        fleet = replace(
            fleet,
            recipes=recipes,
            own_boxes=frozenset(row for row in fleet.own_boxes if self._pays(("own-boxes", *row))),
            rounded={r: cut for r, cut in fleet.rounded.items() if r[3] != ALWAYS and self._pays(("rounded", *r))},
        )
        fleet = fleet.with_whole_boxes((), always_beyond(fleet))
        branch = ColumnGeneration(fleet, lambda n, bound: None, tuple(held.values()))
        branch.paths.doubt(held[path] for path in held if self.paths.is_idle(path))
        branch.mixes.go_on_from(self.mixes)
        branch.waiting = self.waiting
        branch.lazy_rows.joined |= self.lazy_rows.joined
        branch.sharpening, branch.plain_usd = True, self.plain_usd
        of_boxes = {("own-boxes", *row) for row in fleet.own_boxes} | {("rounded", *row) for row in fleet.rounded}
        proved = self.proved if self.proved_usd > self.bound_at_prices else self.anchor
        branch.anchor = {k: d for k, d in proved.items() if k[0] not in ABOUT_BOXES or k in of_boxes}
        branch.proved, branch.proved_usd = branch.anchor, max(self.proved_usd, self.bound_at_prices)
        near = {recipe.key for recipe in self.fleet.recipes if id(recipe) in self.closely}
        branch.closely |= {id(recipe) for recipe in recipes if recipe.key in near}
        branch.settling_s, branch.round_s = self.settling_s, self.round_s
        return branch

    def short_if_decided(self, g: str) -> float:
        """Boxes, in the mean of all hours, that the LP lacks if commitments to an offer were decided as it has them."""
        assert self.solution is not None
        return short_if_decided(self.fleet, self.picked, g, *self.solution) / HOURS_PER_MONTH

    def _pays(self, row: Key) -> bool:
        """Whether a row about whole boxes has a price in the last LP, or in the best prices."""
        return max(duals.get(row, 0.0) for duals in (self.duals, self.anchor, self.proved)) > NO_PRICE_USD

    @property
    def next_s(self) -> float:
        """what another round would take, and a bound on all plans after it"""
        return LONGER * (self.settling_s + self.round_s)

    def _price_all(self) -> tuple[list[Recipe], list[Recipe]]:
        """Price every recipe at the best prices; paths of those that pay though nobody looked at them, and of those
        that have more counts of replicas now.
        """
        prices = self._prices(self.anchor)
        known = {id(p.recipe) for p in self.priced}
        rest = [price_recipe(self.fleet, recipe, prices) for recipe in self.fleet.recipes if id(recipe) not in known]
        self.priced = with_waiting_work_settled([*self.priced, *rest], self.waiting, prices)
        finer = {id(recipe) for recipe in self._try_every_count(prices)}
        self._look_closer_at(self.priced)
        new = by_pool_and_value(p for p in self.priced if id(p.recipe) not in known)
        overlooked = [
            p.cheapest
            for workloads, ranked in new.items()
            for p in ranked[:PATHS_PER_WORKLOAD_AND_ROUND]
            if p.value < sum(self.paid[w] for w in workloads)
        ]
        return overlooked, [p.cheapest for ranked in new.values() for p in ranked if id(p.recipe) in finer]

    def _try_every_count(self, prices: Prices) -> list[Recipe]:
        """The cheapest recipe of each pool, as long as replica counts that it leaves out make it the cheapest."""
        refined: list[Recipe] = []
        while finer := self.counts_left_out.that_matter(self.fleet, by_pool_and_value(self.priced)):
            refined += finer.values()
            self._put_in_place(finer, prices)
        return refined

    def _put_in_place(self, finer: dict[int, Recipe], prices: Prices) -> None:
        """Recipes with every count instead of those that leave some out, at the same prices."""
        self.fleet = replace(self.fleet, recipes=tuple(finer.get(id(r), r) for r in self.fleet.recipes))
        self.closely |= {id(recipe) for recipe in finer.values()}
        self.recipe_of_key |= {recipe.key: recipe for recipe in finer.values() if recipe.deferral is not None}
        again = [price_recipe(self.fleet, recipe, prices) for recipe in finer.values()]
        rest = [p for p in self.priced if id(p.recipe) not in finer]
        self.priced = with_waiting_work_settled([*rest, *again], self.waiting, prices)

    def _write_down(self, recipes: list[Recipe]) -> None:
        self.fleet = replace(self.fleet, recipes=(*self.fleet.recipes, *recipes))

    def run(
        self,
        tolerance_frac: float,
        enough: Callable[[ColumnGeneration], bool] = lambda generation: False,
        late: Callable[[float], bool] = lambda needed_s: False,
        sharpen: bool = True,
    ) -> Generated:
        """Go on until the bound is this near to the LP, nothing more pays, `enough` is known, or it is too late for
        what another round takes.

        `sharpen` adds cuts about whole boxes once that is so without them. The last rounds have no new ones: prices
        come nearer to an LP that stays as it is.
        """
        if sharpen and not self.sharpening:
            self._begin_to_sharpen()
        while self.rounds < MAX_ROUNDS and self.feasible is not False:
            check()
            self.rounds += 1
            began = time.monotonic()
            model, v = master(replace(self.fleet, recipes=(*self.paths.held, *self.unserved)))
            slack = [v.pick[len(self.paths.held) + k] for k in range(len(self.unserved))]
            in_doubt = self.feasible is None
            if in_doubt:
                new, self.feasible = self._look_for_a_plan(_cost_of_only(model, slack), v)
                if not self.feasible:
                    new = self.paths.join(new)
                    if not new or late(self.next_s):
                        break
                    continue
            model = _without(model, slack)
            lp = self.lazy_rows.solve(model, self.fleet)
            if lp.status is Status.INFEASIBLE and not in_doubt:
                self.feasible = None  # with new rows, or without paths that left, the others may not keep the limits
                continue
            if lp.status is Status.INFEASIBLE:
                self.feasible = False  # a limit is missed by less than the tolerance of the search for a plan
                break
            if lp.status is not Status.OPTIMAL or lp.x is None or lp.objective is None:
                raise RuntimeError(f"the master LP ended as {lp.status}; please report this case")
            picked = self.picked = [picked_of(v, lp.x, r, path) for r, path in enumerate(self.paths.held)]
            self._settled, self.solution = None, (v, lp.x)
            moved = abs(lp.objective - self.lp_usd) > AT_REST_FRAC * abs(lp.objective)
            self.rests = 0 if moved or self.behind or not self.fleet.rounded else self.rests + 1
            stands = abs(lp.objective - self.lp_usd) <= STANDS_FRAC * abs(lp.objective)
            self.stood = self.stood + 1 if stands and self.sharpening else 0
            self.lp_usd, self.duals = lp.objective, _by_key(model, lp.row_duals)
            self.reserved = {key: float(lp.x[column]) for key, column in v.reserved.items() if key[1] != ON_HAND}
            self.paths.after_lp(picked, stands)
            new = self.paths.join(self._round(model, v, self.duals))
            self.fleet = self.box_rows.without_idle(self.fleet, self._pays)
            behind = self.behind = bool(new) and self._prices_are_behind()
            ends = late(self.next_s + LAST_ROUNDS * self.round_s)
            goes_on = self.sharpening and self.stood < STANDS_ROUNDS and not ends
            sharper = goes_on and (behind or self._say_which_boxes_are_whole(v, lp.x, picked))
            close = tolerance_frac if self.sharpening else max(tolerance_frac, BEFORE_SHARPENING_FRAC)
            near = lp.objective - self.bound_of_written <= close * abs(lp.objective)
            self.round_s = time.monotonic() - began
            if late(self.next_s):
                self._all_that_pays(model, np.inf)
                break
            settled = enough(self) or (((near and not ends) or not new) and not sharper)
            if settled or self.rounds % ROUNDS_BETWEEN_MIXES == 0:
                finer, mixes = self._all_that_pays(model, lp.objective * close)
                self.paths.join([*finer, *mixes])
                done = settled and (not (mixes or (finer and self.sharpening)) or enough(self))
                self.to_sharpen = (v, lp.x) if done and not self.sharpening else None
                if (done and (self.sharpening or not sharpen)) or late(self.next_s):
                    break
                if done:
                    self._begin_to_sharpen()
            self.on_round(self.rounds, self.bound)
        if self.feasible and self.looked_in < self.rounds:
            self._all_that_pays(model, np.inf)
        self.on_round(self.rounds, self.bound)
        return self.generated()

    def _begin_to_sharpen(self) -> None:
        """With rows that the LP at hand breaks, if it is near enough to the one over all recipes."""
        if self.to_sharpen is not None:
            self.sharpening, self.plain_usd = True, self.lp_usd
            self._say_which_boxes_are_whole(*self.to_sharpen, self.picked)
            self.to_sharpen = None

    def _prices_are_behind(self) -> bool:
        """Whether the LP is so far above what prices prove that more rows would only move it on."""
        by_rows = self.lp_usd - self.plain_usd
        return self.lp_usd - self.bound_of_written > max(BEHIND_FRAC * abs(self.lp_usd), BEHIND_OF_ROWS * by_rows)

    def _say_which_boxes_are_whole(self, v: Variables, x: np.ndarray, picked: list[Picked]) -> bool:
        """Add rows where the LP buys parts of boxes that whole ones forbid; False if there are none."""
        self.fleet, any_new = self.box_rows.separated(self.fleet, v, x, picked)
        return any_new

    def with_mixes_within(self, cost: float) -> Generated:
        """The result with all mixes added that a plan of at most this cost may use, up to a number of them, and
        with every count of replicas where it may use one that was left out.
        """
        if self.mixes.pools:
            self._find_mixes(max(0.0, cost - self.bound_at_prices), MIXES_PER_WORKLOAD)
        if np.isfinite(self.bound_at_prices):
            finer = self.counts_left_out.every(self.fleet, with_counts_skipped_within(self, cost))
            self._put_in_place(finer, self._prices(self.anchor))
        return self.generated()

    def generated(self) -> Generated:
        """What there is now."""
        if self.feasible is None:
            self._price_without_a_bound()
        return Generated(
            self.feasible, self.bound, self.fleet, self.priced, self.paid, self.bound_at_prices, self.least_left,
            len(self.paths.held), self.rounds,
        )  # fmt: skip

    def settled(self) -> tuple[tuple[Recipe, ...], np.ndarray]:
        """All paths with whole counts of replicas, and their weights in the last LP."""
        if self._settled is None:
            self._settled = self.paths.whole(self.recipe_of_key, self.picked, self.prices)
        return self._settled

    def _price_without_a_bound(self) -> None:
        """Neither a plan nor a proof that there is none: whatever is written down may be part of one."""
        self.priced = tuple(price_recipe(self.fleet, recipe, self.listed) for recipe in self.fleet.recipes)
        self.paid = dict.fromkeys(self.fleet.workloads, 0.0)
        self.bound_at_prices = -np.inf

    def _all_that_pays(self, model: Model, tolerance: float) -> tuple[list[Recipe], list[Recipe]]:
        """What has more counts of replicas now, and whatever else costs less than the best prices pay; a bound on all
        plans comes of it either way.

        Prices that look good among the recipes at hand may be far too low for others. Then those come back that proved
        more, and the next ones are looked for around these.
        """
        started, before = time.monotonic(), self.paid
        self.anchor, changed = self._of_model(self.anchor, model)
        if changed:
            self._price_again()
        finer, found = self._found_at_anchor(model)
        less = sum(before.values()) - sum(self.paid_for_written.values())
        too_low = self.bound_at_prices < self.proved_usd - TOO_LOW * max(0.0, self.lp_usd - self.proved_usd)
        if too_low:
            self.anchor, _ = self._of_model(self.proved, model)
            self._price_again()
            more = self._found_at_anchor(model)
            finer, found = finer + more[0], found + more[1]
        if self.proved and (too_low or self.bound_at_prices >= self.proved_usd):
            self.proved, self.proved_usd = self.anchor, self.bound_at_prices
        self.model = model
        self.settling_s = time.monotonic() - started
        return finer, found if less > tolerance else []

    def _of_model(self, duals: Duals, model: Model) -> tuple[Duals, bool]:
        """Duals without rows that a model no longer has, with list prices for offers of which it knows nothing, and
        whether anything changed.

        Recipes pay for such rows, but what they take off a bound, by purchases or a limit below zero, would be
        forgotten.
        """
        rows = set(model.row_keys)
        left = self._with_list_duals({k: d for k, d in duals.items() if k in rows})
        return left, any(left.get(k, 0.0) != d for k, d in duals.items() if k[0] not in INSIDE_RECIPES)

    def _price_again(self) -> None:
        """Price recipes at the anchor, where it has changed."""
        self.priced = self._price(self.anchor, self.fleet.recipes)
        self.paid = most_to_pay(self.fleet, self.priced)

    def _found_at_anchor(self, model: Model) -> tuple[list[Recipe], list[Recipe]]:
        """Paths that pay at the best prices so far."""
        overlooked, finer = self._price_all()
        self.looked_in = self.rounds
        share = MIXES_OF_A_ROUND // max(1, len(self.mixes.pools))
        left, new = self._find_mixes(0.0, min(max(share, FEWEST_OF_A_POOL), MOST_OF_A_POOL))
        self.paid_for_written = most_to_pay(self.fleet, self.priced)
        self.bound_of_written = dual_bound_of(model, self.anchor, self.paid_for_written)
        self.paid = most_to_pay(self.fleet, self.priced, left)
        self.bound_at_prices = dual_bound_of(model, self.anchor, self.paid)
        self.bound = max(self.bound, self.bound_at_prices)
        self.tangents.append(budget_bound_of(model, self.anchor, self.bound_at_prices, self.fleet.weight_of_month))
        return finer, overlooked + new

    def tangent_at(self, duals: Duals, with_mixes: bool = True) -> BudgetBound:
        """What other duals of the last model prove: everything is priced at them, also mixes not written down.

        Without those it says how much can be proved at most.
        """
        assert self.model is not None
        priced = self._price(duals, self.fleet.recipes)
        paid = most_to_pay(self.fleet, priced)
        if with_mixes and self.mixes.pools:
            paid = most_to_pay(self.fleet, priced, self.mixes.find(self._prices(duals), paid, 0.0, most=0).least_left)
        bound = dual_bound_of(self.model, duals, paid)
        return budget_bound_of(self.model, duals, bound, self.fleet.weight_of_month)

    def _find_mixes(self, window: float, most: int) -> tuple[Values, list[Recipe]]:
        """Write mixes down, price them where the others were priced, and say how little those left aside cost."""
        prices = self._prices(self.anchor)
        if window == 0.0 and self.no_mix_at is not None and self.no_mix_at[:2] == (self.anchor, self.paid):
            mixes = self.no_mix_at[2]
        else:
            mixes = self.mixes.find(prices, self.paid, window, most)
            if mixes.recipes or window == 0.0:
                self.no_mix_at = None if mixes.recipes else (self.anchor, self.paid, mixes)
        self._write_down(mixes.recipes)
        self.closely |= {id(recipe) for recipe in mixes.recipes}
        new = tuple(price_recipe(self.fleet, recipe, prices) for recipe in mixes.recipes)
        self.priced = (*self.priced, *new)
        over = [usd - sum(self.paid[w] for w in ws) for ws, usd in mixes.least_left.items()]
        self.least_left = self.bound_at_prices + min(over, default=np.inf)
        return mixes.least_left, [p.cheapest for p in new]

    def _look_for_a_plan(self, model: Model, v: Variables) -> tuple[list[Recipe], bool | None]:
        """Serve as much as the limits allow: paths that help, and whether all can (None: not known yet).

        A positive lower bound on what stays unserved proves that no plan exists.
        """
        short = solve_lp(model)
        if short.status is Status.INFEASIBLE:
            return [], False  # commitments that are decided break a limit by themselves
        if short.objective is not None and short.objective <= NOTHING_UNSERVED:
            return [], True
        duals = _by_key(model, short.row_duals)
        raised = lifted(self.fleet, model, v, duals)
        priced = self._price(raised, self.fleet.recipes, in_dollars=False)
        new = self._worth_adding(duals, priced, in_dollars=False)
        paid = most_to_pay(self.fleet, priced)
        if new and dual_bound_of(model, raised, paid) <= NOTHING_UNSERVED:
            return new, None
        prices = self._prices(raised, in_dollars=False)
        mixes = self.mixes.find(prices, paid, 0.0, PATHS_PER_WORKLOAD_AND_ROUND)
        self._write_down(mixes.recipes)
        new += [price_recipe(self.fleet, recipe, prices).cheapest for recipe in mixes.recipes]
        paid = most_to_pay(self.fleet, priced, mixes.least_left)
        if not mixes.recipes and dual_bound_of(model, raised, paid) > NOTHING_UNSERVED:
            return [], False
        return new, None

    def _round(self, model: Model, v: Variables, duals: Duals) -> list[Recipe]:
        """Price at the LP's duals and at the blend; keep the better bound; return the paths that pay."""
        raised = lifted(self.fleet, model, v, _plain(duals))
        weight = SMOOTHING if uses("smoothing of duals") else 0.0
        blend = _plain({k: weight * self.anchor.get(k, 0.0) + (1 - weight) * d for k, d in raised.items()})
        paths: dict[tuple[Any, ...], Recipe] = {}
        at_best = self.bound_of_written
        recipes = [recipe for recipe in self.fleet.recipes if id(recipe) in self.closely]
        for at in (lifted(self.fleet, model, v, blend), raised):
            priced = self._price(at, recipes)
            paid = most_to_pay(self.fleet, priced)
            bound = dual_bound_of(model, at, paid)
            if bound > at_best:
                at_best, self.priced, self.paid, self.anchor = bound, priced, paid, self._with_list_duals(at)
            for path in self._worth_adding(duals, priced):
                paths.setdefault(path.footprint, path)
        self.bound_of_written = self.bound_at_prices = at_best
        return list(paths.values())

    def _with_list_duals(self, duals: Duals) -> Duals:
        """Duals with those of list prices for offers that they say nothing of, in dollars that weigh as much."""
        budget = [max(-duals.get(("budget", month), 0.0), 0.0) for month in range(self.fleet.months)]
        weight = 1 + self.fleet.months * min(budget)
        listed = {k: weight * d for k, d in self.list_duals.items() if ("in-use", k[1], 0) not in duals}
        return with_cover(self.fleet, listed | duals, duals)

    @property
    def prices(self) -> Prices:
        """prices of the best bound so far"""
        return self._prices(self.anchor)

    def _prices(self, duals: Duals, in_dollars: bool = True) -> Prices:
        """Prices from duals; offers that no path uses yet are at list prices, or free where money is no matter."""
        prices = prices_from_duals(self.fleet, duals, in_dollars)
        unused = {g for g in self.listed.gpu_usd if ("in-use", g, 0) not in duals}
        weight = float(prices.usd_factor.min())
        for g in unused if in_dollars else ():
            prices.gpu_usd[g], prices.firm_usd[g] = weight * self.listed.gpu_usd[g], weight * self.listed.firm_usd[g]
        if in_dollars:
            spare(self.fleet, prices, duals)
        return prices

    def _price(self, duals: Duals, recipes: Iterable[Recipe], in_dollars: bool = True) -> tuple[Priced, ...]:
        prices = self._prices(duals, in_dollars)
        priced = [price_recipe(self.fleet, recipe, prices) for recipe in recipes]
        return with_waiting_work_settled(priced, self.waiting, prices)

    def _waiting_work(self, recipes: list[Recipe], prices: Prices) -> list[Priced]:
        """The cheapest recipe of each pool for work that may wait."""
        waiting = [price_recipe(self.fleet, recipe, prices) for recipe in recipes]
        settled = with_waiting_work_settled(waiting, self.waiting, prices)
        best: dict[tuple[str, ...], Priced] = {}
        for p in settled:
            if p.recipe.workloads not in best or p.value < best[p.recipe.workloads].value:
                best[p.recipe.workloads] = p
        return list(best.values())

    def _worth_adding(self, duals: Duals, priced: tuple[Priced, ...], in_dollars: bool = True) -> list[Recipe]:
        """The best paths of each pool with negative reduced cost at the LP's duals."""
        prices = self._prices(duals, in_dollars)
        tolerance = 1e-7 * max(1.0, *(abs(duals["served", w]) for w in self.fleet.workloads))
        worth: dict[tuple[str, ...], list[tuple[float, int, Recipe]]] = {}
        for r, p in enumerate(priced):
            pays = sum(duals["served", w] for w in p.recipe.workloads)
            if p.recipe.deferral is not None:
                continue
            value = price_recipe(self.fleet, p.cheapest, prices).value - pays
            if value < -tolerance:
                worth.setdefault(p.recipe.workloads, []).append((value, r, p.cheapest))
        for p in self._waiting_work([p.recipe for p in priced if p.recipe.deferral is not None], prices):
            value = p.value - sum(duals["served", w] for w in p.recipe.workloads)
            if value < -tolerance:
                worth.setdefault(p.recipe.workloads, []).append((value, -1, p.cheapest))
        new: list[Recipe] = []
        for ranked in worth.values():
            ranked.sort(key=lambda item: item[:2])
            new += [path for _, _, path in ranked[:PATHS_PER_WORKLOAD_AND_ROUND]]
        return new


def by_pool_and_value(priced: Iterable[Priced]) -> dict[tuple[str, ...], list[Priced]]:
    """Priced recipes of each pool, the cheapest first."""
    by_pool: dict[tuple[str, ...], list[Priced]] = {}
    for p in priced:
        by_pool.setdefault(p.recipe.workloads, []).append(p)
    return {ws: sorted(recipes, key=lambda p: p.value) for ws, recipes in by_pool.items()}


def _plain(duals: Duals) -> Duals:
    """Duals without negligible prices of cuts about whole boxes."""
    return {k: 0.0 if k[0] in ABOUT_BOXES and d <= NO_PRICE_USD else d for k, d in duals.items()}


def _by_key(model: Model, row_duals: np.ndarray | None) -> Duals:
    if row_duals is None:
        raise RuntimeError("the master LP has no duals; please report this case")
    return dict(zip(model.row_keys, row_duals.tolist(), strict=True))


def _unserved(fleet: FleetProblem, workload: str) -> Recipe:
    """A stand-in that serves nothing: it exists only to see whether the limits can be met at all."""
    none = np.zeros(len(fleet.slot_hours))
    return Recipe(workload, (workload,), (), None, np.arange(len(none)), none, none, none)


def _cost_of_only(model: Model, columns: list[int]) -> Model:
    cost = np.zeros_like(model.cost)
    cost[columns] = 1.0
    return replace(model, cost=cost)


def _without(model: Model, columns: list[int]) -> Model:
    upper = model.upper.copy()
    upper[columns] = 0.0
    return replace(model, upper=upper)
