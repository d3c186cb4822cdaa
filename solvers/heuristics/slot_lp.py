"""The slot LP: column generation over integer plans of single slots, for given recipes and commitments.

With recipes and commitments to large boxes given, little ties slots together: work that may wait, instances that take
time to start, commitments to single GPUs, a budget. At prices for these, slots have plans of their own
(solvers/heuristics/slot_plans.py). The LP combines the plans of all slots, and its prices generate better ones until
there are none. So it knows what recipes and commitments cost, except where the ties make it mix plans;
solvers/heuristics/relax_and_fix.py then fixes one plan for each slot.
"""

from __future__ import annotations

import time
from collections.abc import Hashable, Iterable
from dataclasses import dataclass, replace
from itertools import islice

import numpy as np

from problems.fleet_problem import FleetProblem
from problems.fleet_variables import Variables
from problems.model import Model
from solvers.backends.highs import WarmLp
from solvers.backends.solve import SolverName, solve_mip
from solvers.cuts.pool import ABOUT_BOXES
from solvers.heuristics.columns import from_solution
from solvers.heuristics.incumbent import Incumbent, limits_are_kept
from solvers.heuristics.slot_plans import Slot
from solvers.pricing.routing import work_moved

FIRST_PLANS, MORE_PLANS = 20, 5
"""plans of a slot that join the LP at first, and with each new prices"""
ROUNDS = 12
"""rounds of pricing"""
SETTLED_FRAC = 1e-5
"""share of the cost: pricing stops when a round saves less"""
UNDONE_FRAC = 10.0
"""share of the cost charged for leaving all waiting work of an hour undone: enough to find room for it"""
PLANS_TO_CHOOSE_FROM = 40
"""plans of a slot that join when a window of slots is chosen together"""
UNDONE = 1e-6
"""share of it that is as good as done"""
REST_S = 1.5
"""for counts of work that may wait on single GPUs, once slots have their plans"""


@dataclass(frozen=True, eq=False)
class SlotPlan:
    """A column of the LP."""

    slot: int
    values: np.ndarray
    """values of the slot's columns"""
    column: tuple[float, np.ndarray, np.ndarray]
    """its cost, its rows and its entries there"""


class SlotLp:
    """The LP over plans of slots."""

    def __init__(self, fleet: FleetProblem, model: Model, v: Variables, prices: np.ndarray, usd: float) -> None:
        """The model is that of the fleet, and knows of whole boxes; `prices` are of its rows, `usd` its LP."""
        self.fleet, self.v, self.cost = fleet, v, model.cost
        large = sorted(g for g in fleet.recipes_on if fleet.offers[g].box > 1)
        slots = (Slot(fleet, v, t, large) for t in range(len(fleet.slot_hours)))
        self.slots = [slot for slot in slots if slot.choices]
        rows = _ties(model, fleet, {slot.t for slot in self.slots})
        self.ties = model.only_rows(rows)
        self.parts = [_entries(self.ties, slot.columns) for slot in self.slots]
        self.first_usd = self._usd(prices[rows])
        self.likely = np.maximum(model.cost - model.priced(prices), 0.0)
        self.inside = np.zeros(model.n_columns, dtype=bool)
        """columns that plans of slots stand for"""
        for slot in self.slots:
            self.inside[slot.columns] = True
        counts = [c for (r, _), c in v.serve.items() if fleet.recipes[r].deferral is not None]
        whole = np.isin(np.arange(model.n_columns), counts)  # others have their best answers afterwards
        self.rest = replace(self.ties, integer=whole).without_columns(self.inside, np.zeros(model.n_columns))
        self.lp = WarmLp(self.rest)
        self._undone_columns = self._undone_at_a_price(UNDONE_FRAC * usd)
        """for work that is left undone"""
        self.lp.add_columns(self._undone_columns)
        self._undone = slice(self.rest.n_columns, self.rest.n_columns + len(self._undone_columns))
        self.plans: list[SlotPlan] = []
        self.plans_of: list[list[int]] = [[] for _ in self.slots]
        """numbers of the plans of each slot"""
        self.usd = np.inf
        """what the LP costs with all plans that pay"""
        self.prices = prices[rows]
        """prices of that LP"""
        self._number: dict[tuple[int, bytes], int] = {}

    def priced(self, until: float) -> float | None:
        """What the LP costs when its prices lead to nothing better; None if time is up or it has no solution."""
        every = range(len(self.slots))
        self._add(every, self.first_usd, FIRST_PLANS, np.inf, until)
        for _ in range(ROUNDS):
            if time.monotonic() >= until or self.lp.solve() is None:
                return None
            before, self.usd, self.prices = self.usd, self.lp.objective, self.lp.prices
            if before - self.usd < SETTLED_FRAC * self.usd:
                break
            if not self.add_what_pays(every, until):
                break
        return self.usd

    def whole(self, chosen: list[int], solver: SolverName) -> Incumbent | None:
        """The plan with these plans of slots; None if it leaves work undone or breaks a limit."""
        x = self.lp.solve()
        if x is None or x[self._undone].max(initial=0.0) > UNDONE:
            return None
        rest = x[: self.rest.n_columns]
        if self.rest.integer.any():
            model = self.rest.with_shares([self.plans[n].column for n in chosen])
            of_plans = np.arange(model.n_columns) >= len(rest)
            model = model.without_columns(of_plans, np.ones(model.n_columns)).without_empty_rows()
            result = solve_mip(model, solver=solver, time_limit_s=REST_S)
            if result.x is None:
                return None
            rest = result.x
        values = np.zeros(len(self.inside))
        values[~self.inside] = rest
        for n in chosen:
            values[self.slots[self.plans[n].slot].columns] = self.plans[n].values
        plan = from_solution(self.fleet, self.v, values)
        kept = plan is not None and limits_are_kept(self.fleet, plan) and _all_work_is_done(self.fleet, plan)
        return plan if kept else None

    def _undone_at_a_price(self, usd: float) -> list[tuple[float, np.ndarray, np.ndarray]]:
        """Columns for waiting work that no API does: plans with too little room for it are expensive, not forbidden."""
        row_of = {key: n for n, key in enumerate(self.rest.row_keys)}
        return [
            (usd, np.array([row_of["work-done", r, n]]), recipe.deferral.line.most[n : n + 1])
            for r, recipe in enumerate(self.fleet.recipes)
            if recipe.deferral is not None and recipe.deferral.api_usd_per_load_h is None
            for n in np.flatnonzero(recipe.deferral.line.most).tolist()
        ]

    def column(self, plan: int) -> int:
        """The column of a plan in the LP."""
        return self._undone.stop + plan

    def shares(self, s: int, x: np.ndarray) -> np.ndarray:
        """What a solution of the LP has of each plan of a slot."""
        return x[[self.column(n) for n in self.plans_of[s]]]

    def decide(self, s: int, number: int) -> None:
        """A slot has this plan and no other."""
        self.lp.decide([self.column(other) for other in self.plans_of[s]], 0.0, 0.0)
        self.lp.decide([self.column(number)], 1.0, 1.0)

    def program(self) -> Model:
        """The LP as a program where slots have whole plans."""
        columns = [*self._undone_columns, *(plan.column for plan in self.plans)]
        model = self.rest.with_shares(columns)
        return replace(model, integer=np.arange(model.n_columns) >= self._undone.stop)

    def plans_outside(self, slots: Iterable[int]) -> np.ndarray:
        """Columns of plans of all slots but these [mask]."""
        some = set(slots)
        outside = [plan.slot not in some for plan in self.plans]
        columns: np.ndarray = np.r_[np.zeros(self._undone.stop, dtype=bool), np.array(outside, dtype=bool)]
        return columns

    def beyond_the_best(self, plans: list[int]) -> np.ndarray:
        """What plans cost more than the best ones of their slots, at the prices of the LP with all plans that pay."""
        columns = [self.plans[n].column for n in plans]
        return np.array([usd - float(self.prices[rows] @ entries) for usd, rows, entries in columns])

    def add_cheapest(self, slots: Iterable[int]) -> None:
        """More plans of some slots, the cheapest at those prices."""
        self._add(slots, self._usd(self.prices), PLANS_TO_CHOOSE_FROM, np.inf, np.inf)

    def add_what_pays(self, slots: Iterable[int], until: float = np.inf) -> bool:
        """New plans of some slots that pay at the LP's prices; False if there are none."""
        return self._add(slots, self._usd(self.lp.prices), MORE_PLANS, 0.0, until)

    def with_room(self, s: int, shares: np.ndarray, most: int) -> list[int]:
        """The cheapest plans of a slot that have room for all waiting work that these shares of its plans have."""
        slot, usd = self.slots[s], self._usd(self.lp.prices)
        mixed = sum(share * self.plans[n].values for share, n in zip(shares.tolist(), self.plans_of[s], strict=True))
        plans = slot.plans(usd, self._likely(usd), room=slot.room_of(np.asarray(mixed)))
        return self._join(s, islice(plans, most))

    def _usd(self, prices: np.ndarray) -> np.ndarray:
        """What a unit of each column costs once what ties slots together is paid for."""
        return self.cost - self.ties.priced(prices)

    def _likely(self, usd: np.ndarray) -> np.ndarray:
        likely: np.ndarray = self.likely + usd - self.first_usd
        return likely

    def _add(self, slots: Iterable[int], usd: np.ndarray, most: int, below: float, until: float) -> bool:
        """New plans of some slots, as far as time allows; False if there are none."""
        likely, before = self._likely(usd), len(self.plans)
        for s in slots:
            if time.monotonic() < until:
                plans = self.slots[s].plans(usd, likely, below)
                self._join(s, islice((p for p in plans if (s, p.tobytes()) not in self._number), most))
        return len(self.plans) > before

    def _join(self, s: int, plans: Iterable[np.ndarray]) -> list[int]:
        """Numbers of plans of a slot, which are in the LP from now on if they were not."""
        slot, (rows, entries) = self.slots[s], self.parts[s]
        numbers, first = [], len(self.plans)
        for values in plans:
            number = self._number.setdefault((s, values.tobytes()), len(self.plans))
            numbers.append(number)
            if number == len(self.plans):
                column = entries @ values
                some = np.flatnonzero(column)
                own = float(self.cost[slot.columns] @ values)
                self.plans.append(SlotPlan(s, values, (own, rows[some], column[some])))
                self.plans_of[s].append(number)
        self.lp.add_columns([plan.column for plan in self.plans[first:]])
        return numbers


def _all_work_is_done(fleet: FleetProblem, plan: Incumbent) -> bool:
    """Whether work that may wait fits where no API does the rest; the LP knows that to a part in a million only."""
    deferral_of = {recipe.key: recipe.deferral for recipe in fleet.recipes}
    waiting = [(path, deferral) for path in plan.paths if (deferral := deferral_of[path.key]) is not None]
    return all(work_moved(deferral, path.uses[0].load) is not None for path, deferral in waiting if path.api is None)


def _ties(model: Model, fleet: FleetProblem, slots: set[int]) -> np.ndarray:
    """The rows that tie slots together; of those that say that a recipe serves a slot, one for each slot."""
    seen: set[Hashable] = set()
    kept = []
    on_large = {r for r, recipe in enumerate(fleet.recipes) if any(fleet.offers[g].box > 1 for g in recipe.offers)}
    for n, key in enumerate(model.row_keys):
        within = key[0] in ABOUT_BOXES or key[0] == "lots"
        if key[0] in ("in-use", "firm"):
            within = fleet.offers[str(key[1])].box > 1 and key[2] in slots
        elif key[0] == "one-serving" and key[1] in on_large:
            within = key[2] in seen
            seen.add(key[2])
        if not within:
            kept.append(n)
    return np.array(kept, dtype=int)


def _entries(model: Model, columns: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The rows that some columns are in, and what they have there [row, column]."""
    at = np.flatnonzero(np.isin(model.indices, columns))
    rows, place = np.unique(model.entry_rows[at], return_inverse=True)
    order = np.argsort(columns)
    entries = np.zeros((len(rows), len(columns)))
    entries[place, order[np.searchsorted(columns[order], model.indices[at])]] = model.values[at]
    return rows, entries
