"""Counts of replicas for given recipes and commitments: whole plans of single slots, put together.

With recipes and commitments to large boxes given, little ties slots together: work that may wait, instances that take
time to start, commitments to single GPUs, a budget. At prices for these, the cheapest plans of a slot are found by
adding one workload after the other: of the sums that use the same GPUs only the cheapest counts, and boxes are whole in
the end. An LP mixes plans of all slots, and its prices lead to better ones until there are none. So it knows what
recipes and commitments cost, but for what the ties make it mix, and a small program chooses one plan for each slot.
"""

from __future__ import annotations

import time
from collections.abc import Hashable
from dataclasses import dataclass, replace

import numpy as np

from problems.fleet import Fleet, Variables, master
from problems.model import Model
from problems.purchase import hourly_purchase
from solvers.column_generation import ABOUT_BOXES
from solvers.columns import from_solution
from solvers.incumbent import Incumbent, limits_are_kept
from solvers.slot_choice import one_for_each_slot
from solvers.solve import SolverName, WarmLp

SUMS = 1_500
"""of some workloads that are kept while others are added: those that the LP says most for"""
SERVINGS = 12
"""of a workload in a slot that are tried"""
FIRST_PLANS, MORE_PLANS = 20, 5
"""of a slot that join the LP at first, and each time that it has new prices"""
ROUNDS = 12
"""of prices"""
SETTLED_FRAC = 1e-5
"""of the cost: prices that save less lead nowhere"""
WHOLE_S = 4.0
"""for one plan of each slot"""


@dataclass(frozen=True, eq=False)
class Counted:
    """A plan, and what its recipes and commitments would cost if slots could mix plans."""

    plan: Incumbent
    lp_usd: float


def counts_by_slot(fleet: Fleet, solver: SolverName, until: float, below: float = np.inf) -> Counted | None:
    """A plan with the recipes and commitments of a fleet, near the cheapest; None where the LP does not cost less.

    Every workload has one recipe there, and commitments to large boxes are decided.
    """
    model, v = master(fleet)
    lp = WarmLp(model)
    if time.monotonic() >= until or lp.solve() is None or lp.objective > below:
        return None
    together = _Together(fleet, model, v, lp.prices)
    usd = together.priced(until)
    plan = together.whole(solver, until) if usd is not None and usd < below else None
    return Counted(plan, usd) if plan is not None and usd is not None else None


@dataclass(frozen=True, eq=False)
class _Choice:
    """What a recipe may do in a slot."""

    columns: np.ndarray
    """[serving]"""
    load: np.ndarray
    """of work that may wait [serving]"""
    use: np.ndarray
    """GPUs, all and firm ones, of each large offer [serving, 2 x offer]"""


class _Slot:
    """One slot: the servings of each recipe there, and instances of large boxes that are bought by the hour."""

    def __init__(self, fleet: Fleet, v: Variables, t: int, large: list[str]) -> None:
        self.t, self.offers = t, [fleet.offers[g] for g in large]
        terms = [[(g, term) for term in fleet.offers[g].reserved_usd_per_h] for g in large]
        self.held = [sum(fleet.held.get(key, (0, 0))[0] for key in keys) for keys in terms]
        self.base = np.zeros(2 * len(large))
        """what recipes use that have no choice"""
        self.choices: list[_Choice] = []
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
                self.choices.append(_Choice(np.array([v.serve[r, i] for i in at.tolist()]), load, use))
        self.bought = [(v.on_demand.get((g, t)), v.spot.get((g, t))) for g in large]
        bought = [c for columns in self.bought for c in columns if c is not None]
        self.columns = np.array([*(c for choice in self.choices for c in choice.columns.tolist()), *bought], dtype=int)
        self._place = {c: k for k, c in enumerate(self.columns.tolist())}
        self._known: set[bytes] = set()

    def plans(self, usd: np.ndarray, likely: np.ndarray, most: int, below: float) -> list[np.ndarray]:
        """New plans that cost less, as values of the slot's columns, the cheapest first.

        `usd` is what a unit of each column costs, and `likely` is small where the LP says most for it. Of plans that
        do as much waiting work and buy the same, one is enough.
        """
        cost, use, chosen, loads = self._sums(usd, likely)
        bought = np.zeros((len(cost), 2 * len(self.offers)))
        for k, (offer, held) in enumerate(zip(self.offers, self.held, strict=True)):
            instances = hourly_purchase(offer, held, use[:, 2 * k], use[:, 2 * k + 1])[:2]
            for way, (n, column) in enumerate(zip(instances, self.bought[k], strict=True)):
                bought[:, 2 * k + way] = n
                cost = cost + n * usd[column] if column is not None else np.where(n > 0, np.inf, cost)
            if offer.max_instances is not None:
                cost = np.where(held + sum(instances) > offer.max_instances, np.inf, cost)
        tied, seen = np.c_[bought, loads], set()
        found: list[np.ndarray] = []
        for n in np.argsort(cost, kind="stable").tolist():
            if cost[n] >= below or len(found) >= most:
                break
            if tied[n].tobytes() not in seen:
                seen.add(tied[n].tobytes())
                values = self._values(chosen[n], bought[n])
                if values.tobytes() not in self._known:
                    self._known.add(values.tobytes())
                    found.append(values)
        return found

    def _sums(self, usd: np.ndarray, likely: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """One serving of each recipe: costs, GPUs, columns and loads; the cheapest for all that they could use."""
        rank, cost, use = np.zeros(1), np.zeros(1), self.base[None, :]
        chosen, loads = np.zeros((1, 0), dtype=int), np.zeros((1, 0))
        number = np.random.default_rng(0).integers(1, 2**62, use.shape[1])  # different sums have different ones
        for choice in sorted(self.choices, key=lambda choice: int((likely[choice.columns] < 1e-6).sum())):
            some = np.argsort(likely[choice.columns], kind="stable")[:SERVINGS]
            columns = choice.columns[some]
            ranks = (rank[:, None] + likely[columns] - likely[columns[0]]).ravel()
            costs = (cost[:, None] + usd[columns]).ravel()
            uses = (use[:, None, :] + choice.use[some]).reshape(len(costs), -1)
            alike = uses.astype(np.int64) @ number
            order = np.lexsort((costs, alike))
            kept = order[np.r_[True, np.diff(alike[order]) != 0]]
            if len(kept) > SUMS:
                kept = kept[np.argpartition(ranks[kept], SUMS)[:SUMS]]
            before, own = np.divmod(kept, len(some))
            rank, cost, use = ranks[kept], costs[kept], uses[kept]
            chosen, loads = np.c_[chosen[before], columns[own]], np.c_[loads[before], choice.load[some][own]]
        return cost, use, chosen, loads

    def _values(self, chosen: np.ndarray, bought: np.ndarray) -> np.ndarray:
        values = np.zeros(len(self.columns))
        values[[self._place[c] for c in chosen.tolist()]] = 1.0
        for column, n in zip((c for columns in self.bought for c in columns), bought.tolist(), strict=True):
            if column is not None:
                values[self._place[column]] = n
        return values


@dataclass(frozen=True, eq=False)
class _SlotPlan:
    """A column of the LP."""

    slot: int
    values: np.ndarray
    """of the slot's columns"""
    column: tuple[float, np.ndarray, np.ndarray]
    """its cost, its rows and its entries there"""


class _Together:
    """The LP over plans of slots, and the program that makes it whole."""

    def __init__(self, fleet: Fleet, model: Model, v: Variables, prices: np.ndarray) -> None:
        """The model is that of the fleet, and knows of whole boxes; `prices` are of its rows."""
        self.fleet, self.v, self.cost = fleet, v, model.cost
        large = sorted(g for g in fleet.recipes_on if fleet.offers[g].box > 1)
        slots = (_Slot(fleet, v, t, large) for t in range(len(fleet.slot_hours)))
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
        self.plans: list[_SlotPlan] = []

    def priced(self, until: float) -> float | None:
        """What the LP costs when its prices lead to nothing better; None where time is up or it has no solution."""
        self._add(self.first_usd, FIRST_PLANS, np.inf, until)
        usd = np.inf
        for _ in range(ROUNDS):
            if time.monotonic() >= until or self.lp.solve() is None:
                return None
            before, usd = usd, self.lp.objective
            if before - usd < SETTLED_FRAC * usd:
                break
            if not self._add(self._usd(self.lp.prices), MORE_PLANS, 0.0, until):
                break
        return usd

    def whole(self, solver: SolverName, until: float) -> Incumbent | None:
        """One plan for every slot."""
        model = self.rest.with_shares([plan.column for plan in self.plans])
        slots = np.array([plan.slot for plan in self.plans], dtype=int)
        x = one_for_each_slot(model, slots, solver, min(until, time.monotonic() + WHOLE_S))
        if x is None:
            return None
        values = np.zeros(len(self.inside))
        values[~self.inside] = x[: self.rest.n_columns]
        for plan, share in zip(self.plans, x[self.rest.n_columns :].tolist(), strict=True):
            if share > 0.5:
                values[self.slots[plan.slot].columns] = plan.values
        found = from_solution(self.fleet, self.v, values)
        return found if found is not None and limits_are_kept(self.fleet, found) else None

    def _usd(self, prices: np.ndarray) -> np.ndarray:
        """What a unit of each column costs once what ties slots together is paid for."""
        return self.cost - self.ties.priced(prices)

    def _add(self, usd: np.ndarray, most: int, below: float, until: float) -> bool:
        """New plans of all slots, as far as time allows; False where there are none."""
        likely = self.likely + usd - self.first_usd
        new: list[_SlotPlan] = []
        for s, (slot, (rows, entries)) in enumerate(zip(self.slots, self.parts, strict=True)):
            for values in slot.plans(usd, likely, most, below) if time.monotonic() < until else ():
                column = entries @ values
                some = np.flatnonzero(column)
                own = float(self.cost[slot.columns] @ values)
                new.append(_SlotPlan(s, values, (own, rows[some], column[some])))
        self.lp.add_columns([plan.column for plan in new])
        self.plans += new
        return bool(new)


def _ties(model: Model, fleet: Fleet, slots: set[int]) -> np.ndarray:
    """The rows that tie slots together; of those that say that a recipe serves a slot, one for each slot."""
    seen: set[Hashable] = set()
    kept = []
    on_large = {r for r, recipe in enumerate(fleet.recipes) if any(fleet.offers[g].box > 1 for g in recipe.offers)}
    for n, key in enumerate(model.row_keys):
        within = key[0] in ABOUT_BOXES
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
