"""The master problem: pick one recipe per workload and buy the instances that they need.

    min   sum_g,term reserved[g,term] x 730 h x price
        + sum_g,t hours[t] (on_demand[g,t] x price + spot[g,t] x price), and as much for the time they take to start
        + sum_r,t,s hours[t] x (other_cost + penalty)[r,t,s] x serve[r,t,s]  +  team x its cost

under the families listed in FAMILIES, one function each. Money is USD per month, averaged over the months of
the horizon; penalties of what is shed weigh in the objective alone. Recipes are data: see problems/recipes.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from problems.beyond_commitments import ALWAYS, Beyond, BeyondSlots
from problems.model import Column, Model, Row, build_model
from problems.pools import Pool
from problems.recipes import Deferral, Recipe
from problems.rounding_up import Rounded, RoundedSlots
from problems.side_by_side import SideBySide
from problems.singles import recipes_of
from problems.waiting_line import WaitingLine

HOURS_PER_MONTH = 730.0
SERVINGS_SIDE_BY_SIDE = 3_000_000
"""of all recipes, up to which those of the same workloads are kept side by side"""
Held = dict[tuple[str, str], tuple[int, int | None]]
"""by offer and term: the fewest commitments, and the most if that is decided"""


@dataclass(frozen=True, eq=False)
class Offer:
    """An instance type in a region: a box of GPUs that is bought whole. A missing price is not for sale."""

    key: str
    gpu: str
    box: int
    on_demand_usd_per_h: float | None = None
    spot_usd_per_h: float | None = None
    reserved_usd_per_h: dict[str, float] = field(default_factory=dict)
    """price of a committed instance by term, paid every hour"""
    max_instances: int | None = None
    start_h: float = 0.0
    """hours before its use that an instance bought by the hour must be bought"""

    @property
    def for_sale(self) -> bool:
        prices = (self.on_demand_usd_per_h, self.spot_usd_per_h, *self.reserved_usd_per_h.values())
        return any(price is not None for price in prices)


@dataclass(frozen=True, eq=False)
class Fleet:
    """What the master knows: slots, offers, recipes and limits."""

    workloads: tuple[str, ...]
    slot_hours: np.ndarray
    """hours of its month that a slot stands for [slot]"""
    slot_month: np.ndarray
    """month of each slot, from 0 [slot]"""
    offers: dict[str, Offer]
    pools: dict[str, Pool]
    recipes: tuple[Recipe, ...]
    slot_before: np.ndarray | None = None
    """the hour before, on the same day [slot]; None: nothing is known of the order of the slots"""
    max_gpus: dict[str, int] = field(default_factory=dict)
    """most GPUs of a type at any time, over all offers"""
    max_gpu_types: int | None = None
    """kinds of GPU that may be used at all"""
    budget_usd_per_month: float | None = None
    team_usd_per_month: float = 0.0
    """fixed cost of the engineers who run anything self-hosted"""
    held: Held = field(default_factory=dict)
    """(offer, term) -> fewest and most commitments, where that is decided; None: as many as anybody could use"""
    uses: dict[tuple[str, str], bool] = field(default_factory=dict)
    """(workload, offer) -> whether a workload uses an offer, where that is decided"""
    boxes_in_parts: bool = False
    """a program whose boxes are rounded up afterwards: parts of boxes may be bought, and half a box more is charged"""
    own_boxes: frozenset[tuple[str, str, str, int]] = frozenset()
    """(in-use or firm, workload, offer, slot) for which it is said that a workload's own boxes are whole"""
    rounded: dict[tuple[str, str, int, int], Rounded | Beyond] = field(default_factory=dict)
    """(both, offer, slot, number) -> what whole boxes say of several workloads, in use and firm;
    (in-use or firm, offer, slot, number) -> what they say of boxes beyond commitments"""

    @property
    def limited(self) -> bool:
        """Whether anything but demand decides how much is bought."""
        quotas = self.max_gpus or any(o.max_instances is not None for o in self.offers.values())
        return bool(quotas) or self.budget_usd_per_month is not None

    @property
    def months(self) -> int:
        return int(self.slot_month.max()) + 1

    @cached_property
    def weight(self) -> np.ndarray:
        """hours per month, averaged over the horizon, that a slot stands for [slot]"""
        return self.slot_hours / self.months

    @cached_property
    def recipes_of(self) -> dict[str, list[int]]:
        of: dict[str, list[int]] = {w: [] for w in self.workloads}
        for r, recipe in enumerate(self.recipes):
            for w in recipe.workloads:
                of[w].append(r)
        return of

    @cached_property
    def servings(self) -> int:
        return sum(recipe.servings for recipe in self.recipes)

    @cached_property
    def recipes_for(self) -> dict[tuple[str, ...], list[Recipe]]:
        """by the workloads that are served together"""
        found: dict[tuple[str, ...], list[Recipe]] = {}
        for recipe in self.recipes:
            found.setdefault(recipe.workloads, []).append(recipe)
        return found

    def side_by_side(self, workloads: tuple[str, ...]) -> Iterable[SideBySide]:
        """The recipes for workloads that are served together, but those of work that may wait.

        Those of a small fleet are kept side by side; of a large one that would take too much memory.
        """
        independent = tuple(recipe for recipe in self.recipes_for.get(workloads, ()) if recipe.deferral is None)
        if self.servings > SERVINGS_SIDE_BY_SIDE:
            return (SideBySide((recipe,)) for recipe in independent)
        if workloads not in self._side_by_side:
            self._side_by_side[workloads] = (SideBySide(independent),) if independent else ()
        return self._side_by_side[workloads]

    @cached_property
    def _side_by_side(self) -> dict[tuple[str, ...], tuple[SideBySide, ...]]:
        return {}

    @cached_property
    def recipes_on(self) -> dict[str, list[int]]:
        on: dict[str, list[int]] = {}
        for r, recipe in enumerate(self.recipes):
            for g in recipe.offers:
                on.setdefault(g, []).append(r)
        return on

    @cached_property
    def rounded_slots(self) -> dict[tuple[str, str, int], RoundedSlots | BeyondSlots]:
        """by kind, offer and number"""
        together: dict[tuple[str, str, int], list[Any]] = {}
        for (kind, g, _, number), cut in self.rounded.items():
            together.setdefault((kind, g, number), []).append(cut)
        return {key: cuts[0].by_slot(cuts, len(self.slot_hours)) for key, cuts in together.items()}

    @cached_property
    def rounded_always(self) -> list[Beyond]:
        """rows about boxes beyond commitments that stay"""
        return [cut for (*_, number), cut in self.rounded.items() if number == ALWAYS and isinstance(cut, Beyond)]

    @cached_property
    def largest_use(self) -> dict[str, dict[str, int]]:
        """offer -> workload -> the most GPUs that one of its recipes uses there"""
        largest: dict[str, dict[str, int]] = {}
        for offer, recipes in self.recipes_on.items():
            of_workload = largest.setdefault(offer, {})
            for r in recipes:
                gpus = int(self.recipes[r].gpus_on(offer).max(initial=0))
                for w in self.recipes[r].workloads:
                    of_workload[w] = max(of_workload.get(w, 0), gpus)
        return largest

    @cached_property
    def most_instances(self) -> dict[str, int]:
        """Instances of an offer that no plan exceeds: every workload with its largest recipe there."""
        largest = {offer: sum(gpus.values()) for offer, gpus in self.largest_use.items()}
        return {offer: 2 * -(-gpus // self.offers[offer].box) + 1 for offer, gpus in largest.items()}

    def decided_commitments(self, g: str) -> tuple[int, int | None]:
        """The fewest commitments to an offer that are decided, of all terms together, and the most if that is."""
        ranges = [self.held.get((g, term), (0, None)) for term in self.offers[g].reserved_usd_per_h]
        most = [many for _, many in ranges if many is not None]
        return sum(few for few, _ in ranges), sum(most) if len(most) == len(ranges) else None

    def with_whole_boxes(
        self, own: Iterable[tuple[str, str, str, int]], rounded: Mapping[Any, Rounded | Beyond]
    ) -> Fleet:
        """The fleet with more rows that say which boxes are whole."""
        return replace(self, own_boxes=self.own_boxes.union(own), rounded={**self.rounded, **rounded})

    def allows(self, recipe: Recipe) -> bool:
        """Whether a recipe agrees with what is decided."""
        return recipe.pool in self.pools and self.allows_use(recipe.workloads, recipe.offers)

    def allows_use(self, workloads: tuple[str, ...], offers: Iterable[str]) -> bool:
        """Whether recipes of these workloads on these offers agree with what is decided."""
        on = set(offers)
        return all((g in on) == way for (w, g), way in self.uses.items() if w in workloads)

    def line_of(self, r: int) -> WaitingLine:
        """of a recipe for work that may wait"""
        deferral = self.recipes[r].deferral
        assert deferral is not None
        return deferral.line

    def starts_late(self, g: str) -> bool:
        """Whether instances of an offer take time to start that somebody has to pay for."""
        return self.slot_before is not None and self.offers[g].start_h > 0

    def gpus_of(self, recipe: Recipe) -> tuple[str, ...]:
        """the kinds of GPU that a recipe uses, each once"""
        return tuple(dict.fromkeys(self.offers[g].gpu for g in recipe.offers))


def fleet_of(
    workloads: tuple[str, ...],
    pools: Iterable[Pool],
    offers: dict[str, Offer],
    slot_hours: np.ndarray,
    slot_month: np.ndarray,
    **limits: Any,
) -> Fleet:
    """The fleet problem of some pools, with every recipe of at most one deployment; mixes come while it is solved."""
    by_key = {pool.key: pool for pool in pools}
    recipes = tuple(recipe for pool in by_key.values() for recipe in recipes_of(pool, slot_hours))
    return Fleet(workloads, slot_hours, slot_month, offers, by_key, recipes, **limits)


@dataclass(eq=False)
class Variables:
    """Column numbers by what they mean."""

    columns: list[Column] = field(default_factory=list)
    pick: dict[int, int] = field(default_factory=dict)
    serve: dict[tuple[int, int], int] = field(default_factory=dict)
    """(recipe, serving) -> column, only where a slot has a choice; a lone serving goes with its pick"""
    reserved: dict[tuple[str, str], int] = field(default_factory=dict)
    on_demand: dict[tuple[str, int], int] = field(default_factory=dict)
    spot: dict[tuple[str, int], int] = field(default_factory=dict)
    started: dict[tuple[str, str, int], int] = field(default_factory=dict)
    """(on-demand or spot, offer, slot) -> instances started for that slot"""
    waits: dict[tuple[int, int], int] = field(default_factory=dict)
    """(recipe, stretch of its waiting line) -> work that waits at the end of it"""
    sent: dict[tuple[int, int], int] = field(default_factory=dict)
    """(recipe, stretch of its waiting line) -> work that leaves the line there for an API"""
    gpu_type: dict[str, int] = field(default_factory=dict)
    charged: dict[str, int] = field(default_factory=dict)
    """offer -> whether it is used, where half a box is charged for that"""
    team: int | None = None

    def add(self, column: Column) -> int:
        self.columns.append(column)
        return len(self.columns) - 1

    def serving(self, r: int, i: int) -> int:
        return self.serve.get((r, i), self.pick[r])

    def held(self, fleet: Fleet, g: str) -> list[int]:
        return [self.reserved[g, term] for term in fleet.offers[g].reserved_usd_per_h]

    def firm(self, fleet: Fleet, g: str, t: int) -> list[int]:
        return self.held(fleet, g) + ([self.on_demand[g, t]] if (g, t) in self.on_demand else [])

    def bought(self, fleet: Fleet, g: str, t: int) -> list[int]:
        return self.firm(fleet, g, t) + ([self.spot[g, t]] if (g, t) in self.spot else [])


def define_variables(fleet: Fleet) -> Variables:
    """Columns with their costs. Boxes of one GPU come out whole by themselves where nothing limits them."""
    v = Variables()
    for r, recipe in enumerate(fleet.recipes):
        cost = fleet.weight[recipe.slot] * (recipe.usd_per_h + recipe.penalty_usd_per_h)
        choices = np.bincount(recipe.slot, minlength=len(fleet.slot_hours))[recipe.slot] > 1
        v.pick[r] = v.add(Column(("pick", r), float(cost[~choices].sum()), upper=1, integer=True))
        for i in np.flatnonzero(choices).tolist():
            v.serve[r, i] = v.add(Column(("serve", r, i), float(cost[i]), upper=1, integer=recipe.self_hosted))
        if recipe.deferral is not None:
            _define_waiting(fleet, v, r, recipe.deferral)
    for g in sorted(fleet.recipes_on):
        _define_purchases(fleet, v, g)
    if fleet.max_gpu_types is not None:
        for gpu in sorted({fleet.offers[g].gpu for g in fleet.recipes_on}):
            v.gpu_type[gpu] = v.add(Column(("gpu-type", gpu), 0.0, upper=1, integer=True))
    if fleet.team_usd_per_month and fleet.recipes_on:
        v.team = v.add(Column(("team",), fleet.team_usd_per_month, upper=1))
    return v


def _define_waiting(fleet: Fleet, v: Variables, r: int, deferral: Deferral) -> None:
    line, price = deferral.line, deferral.api_usd_per_load_h
    for n in line.stretches:
        most = float(line.may_wait[n])
        if most:
            v.waits[r, n] = v.add(Column(("waits", r, n), 0.0, upper=most))
        if price is not None:
            v.sent[r, n] = v.add(Column(("sent", r, n), price * line.unit / fleet.months, upper=float(line.most[n])))


def _define_purchases(fleet: Fleet, v: Variables, g: str) -> None:
    offer, most = fleet.offers[g], fleet.most_instances[g]
    whole = (offer.box > 1 or fleet.limited) and not fleet.boxes_in_parts
    if fleet.boxes_in_parts and offer.box > 1:
        v.charged[g] = v.add(Column(("charged", g), 0.0, upper=1, integer=True))
    for term, usd_per_h in offer.reserved_usd_per_h.items():
        fewest, at_most = fleet.held.get((g, term), (0, None))
        upper = max(fewest, most) if at_most is None else at_most
        column = Column(("reserved", g, term), usd_per_h * HOURS_PER_MONTH, fewest, upper, integer=True)
        v.reserved[g, term] = v.add(column)
    for way, price, columns in (
        ("on-demand", offer.on_demand_usd_per_h, v.on_demand),
        ("spot", offer.spot_usd_per_h, v.spot),
    ):
        for t, hours in enumerate(fleet.weight.tolist()) if price is not None else ():
            columns[g, t] = v.add(Column((way, g, t), hours * price, upper=most, integer=whole))
            if fleet.starts_late(g):
                started = Column(("started", way, g, t), hours * offer.start_h * price, upper=most)
                v.started[way, g, t] = v.add(started)


def every_workload_is_served(fleet: Fleet, v: Variables) -> Iterator[Row]:
    """Each workload is covered by exactly one of the recipes picked.

    sum_{r covers w} pick[r] = 1        for all workloads w        [-]
    """
    for w in fleet.workloads:
        yield Row(("served", w), [(v.pick[r], 1.0) for r in fleet.recipes_of[w]], "==", 1.0)


def every_slot_has_one_serving(fleet: Fleet, v: Variables) -> Iterator[Row]:
    """A recipe that is picked serves each slot in one of its ways.

    sum_s serve[r,t,s] - pick[r] = 0        for all recipes r, slots t with a choice        [-]
    """
    by_slot: dict[tuple[int, int], list[int]] = {}
    for (r, i), column in v.serve.items():
        by_slot.setdefault((r, int(fleet.recipes[r].slot[i])), []).append(column)
    for (r, t), columns in by_slot.items():
        yield Row(("one-serving", r, t), [(c, 1.0) for c in columns] + [(v.pick[r], -1.0)], "==", 0.0)


def gpus_in_use_are_bought(fleet: Fleet, v: Variables) -> Iterator[Row]:
    """Every GPU in use stands in an instance that is paid for.

    box[g] (reserved + on_demand + spot)[g,t] - sum_r,s gpus[r,t,s] serve[r,t,s] >= 0    for all g, t    [GPU]

    Where boxes are rounded up afterwards, half a box is added to what is used: it prices the rounding to come.
    """
    for g in sorted(fleet.recipes_on):
        box = float(fleet.offers[g].box)
        use = _gpus_by_slot(fleet, v, g, "gpus_on")
        for t in range(len(fleet.slot_hours)):
            bought = [(c, box) for c in v.bought(fleet, g, t)]
            charge = [(v.charged[g], -box / 2)] if use[t] and g in v.charged else []
            yield Row(("in-use", g, t), bought + [(c, -n) for c, n in use[t].items()] + charge, ">=", 0.0)


def firm_gpus_are_not_spot(fleet: Fleet, v: Variables) -> Iterator[Row]:
    """GPUs that must survive a reclaim of the offer's spot market stand in reserved or on-demand instances.

    box[g] (reserved + on_demand)[g,t] - sum_r,s firm_gpus[r,t,s] serve[r,t,s] >= 0    for g with spot, t    [GPU]
    """
    for g in sorted(fleet.recipes_on):
        if fleet.offers[g].spot_usd_per_h is None:
            continue
        box = float(fleet.offers[g].box)
        use = _gpus_by_slot(fleet, v, g, "firm_gpus_on")
        for t in range(len(fleet.slot_hours)):
            if use[t]:
                firm = [(c, box) for c in v.firm(fleet, g, t)]
                yield Row(("firm", g, t), firm + [(c, -n) for c, n in use[t].items()], ">=", 0.0)


def own_boxes_are_whole(fleet: Fleet, v: Variables) -> Iterator[Row]:
    """Whoever shares a box, what one workload uses fills whole boxes or begins them. Said where it sharpens the LP.

    bought[g,t] - sum_{r covers w},s ceil(gpus[r,t,s] / box[g]) serve[r,t,s] >= 0    for chosen w, g, t    [instance]

    and the same for firm GPUs and instances that are not spot.
    """
    by_pair: dict[tuple[str, str, str], list[int]] = {}
    for kind, w, g, t in sorted(fleet.own_boxes):
        by_pair.setdefault((kind, w, g), []).append(t)
    for (kind, w, g), slots in by_pair.items():
        use: dict[int, dict[int, float]] = {t: {} for t in slots}
        for r in fleet.recipes_of[w]:
            recipe = fleet.recipes[r]
            if g in recipe.offers:
                boxes = boxes_of(fleet, recipe, g, kind)
                for i in np.flatnonzero(boxes).tolist():
                    if recipe.slot[i] in use:
                        use[recipe.slot[i]][v.serving(r, i)] = float(boxes[i])
        for t in slots:
            if use[t]:
                bought = v.bought(fleet, g, t) if kind == "in-use" else v.firm(fleet, g, t)
                terms = [(c, 1.0) for c in bought] + [(c, -n) for c, n in use[t].items()]
                yield Row(("own-boxes", kind, w, g, t), terms, ">=", 0.0)


def boxes_of(fleet: Fleet, recipe: Recipe, g: str, kind: str) -> np.ndarray:
    """Whole boxes of an offer that a recipe would need if nobody shared them [serving]."""
    return -(-recipe.used_on(kind, g) // fleet.offers[g].box)


def boxes_are_rounded_up(fleet: Fleet, v: Variables) -> Iterator[Row]:
    """What workloads use together fills whole boxes or begins them. Said where it sharpens the LP.

    (1 - f) bought[g,t] + f firm[g,t] - sum_r,s (step[w](r,t,s) - step[w](0)) serve[r,t,s] >= sum_w step[w](0)    [-]

    for chosen g, t, with weights f and steps in GPUs in use and firm ones as in problems/rounding_up.py. Where
    commitments are decided, steps may count boxes beyond them, in use or firm (problems/beyond_commitments.py): no more
    than so many leave the rest to what is bought by the hour, and no fewer are bought in any case.
    """
    for (kind, g, number), cuts in fleet.rounded_slots.items():
        if g not in fleet.recipes_on:
            continue
        said = {t for of, offer, t, n in fleet.rounded if (of, offer, n) == (kind, g, number)}
        terms: dict[int, dict[int, float]] = {t: {} for t in sorted(said)}
        for r in fleet.recipes_on[g]:
            recipe = fleet.recipes[r]
            each = cuts.use(recipe)
            for i in np.flatnonzero(each > 1e-9).tolist():
                row, column = terms[int(recipe.slot[i])], v.serving(r, i)
                row[column] = row.get(column, 0.0) - float(each[i])
        for t, row in terms.items():
            cut = fleet.rounded[kind, g, t, number]
            counted = _counted(fleet, v, cut)
            if row or (counted and number == ALWAYS):
                yield Row(("rounded", kind, g, t, number), counted + list(row.items()), ">=", cut.rhs)


def _counted(fleet: Fleet, v: Variables, cut: Rounded | Beyond) -> list[tuple[int, float]]:
    """The instances that such a row counts, and how much."""
    g, t = cut.offer, cut.slot
    if isinstance(cut, Rounded):
        spot = [(v.spot[g, t], 1 - cut.firm_frac)] if (g, t) in v.spot and cut.firm_frac < 1 else []
        return [(c, 1.0) for c in v.firm(fleet, g, t)] + spot
    counted = v.bought(fleet, g, t) if cut.kind == "in-use" else v.firm(fleet, g, t)
    return [(c, 1.0) for c in counted if not (cut.by_hour and c in v.held(fleet, g))]


def used_offers_are_charged(fleet: Fleet, v: Variables) -> Iterator[Row]:
    """Whoever uses an offer of several GPUs pays for the half box that rounding up will cost.

    sum_{r on g, covers w} pick[r] - charged[g] <= 0  for such offers g, workloads w, where boxes are rounded later  [-]
    """
    for g, charged in v.charged.items():
        by_workload: dict[str, list[tuple[int, float]]] = {}
        for r in fleet.recipes_on[g]:
            for w in fleet.recipes[r].workloads:
                by_workload.setdefault(w, []).append((v.pick[r], 1.0))
        for w, picks in by_workload.items():
            yield Row(("charged", g, w), [*picks, (charged, -1.0)], "<=", 0.0)


def instances_are_started_in_time(fleet: Fleet, v: Variables) -> Iterator[Row]:
    """An instance bought by the hour that was not there the hour before is bought for the time it takes to start.

    bought[g,t] - bought[g,before t] - started[g,t] <= 0  for on-demand and spot, all g that start late, t  [instance]
    """
    for (way, g, t), started in v.started.items():
        columns = v.on_demand if way == "on-demand" else v.spot
        before = int(fleet.slot_before[t]) if fleet.slot_before is not None else t
        if before != t:
            terms = [(columns[g, t], 1.0), (columns[g, before], -1.0), (started, -1.0)]
            yield Row(("started", way, g, t), terms, "<=", 0.0)


def deferred_work_is_done(fleet: Fleet, v: Variables) -> Iterator[Row]:
    """Work of a recipe that is picked is done where it comes, by the API, or waits.

    sum_t,s room[r,t,s] serve[r,t,s] + sent[r,n] + waits[r,n] - waits[r,before n] - work[r,n] pick[r] >= 0
        for all recipes r of work that may wait, stretches n of slots t (problems/waiting_line.py)    [work]
    """
    for r, recipe in enumerate(fleet.recipes):
        if recipe.deferral is None:
            continue
        line = recipe.deferral.line
        room = recipe.uses[0].load * fleet.slot_hours[recipe.slot] / line.unit
        terms: list[dict[int, float]] = [{} for _ in line.stretches]
        for i in np.flatnonzero(room).tolist():
            row, column = terms[line.stretch_of[recipe.slot[i]]], v.serving(r, i)
            row[column] = row.get(column, 0.0) + float(room[i])
        for n, row in enumerate(terms):
            if line.work[n]:
                row[v.pick[r]] = row.get(v.pick[r], 0.0) - float(line.work[n])
            others = ((v.sent, n, 1.0), (v.waits, n, 1.0), (v.waits, int(line.before[n]), -1.0))
            of_line = [(columns[r, k], sign) for columns, k, sign in others if (r, k) in columns]
            if row or of_line:
                yield Row(("work-done", r, n), [*row.items(), *of_line], ">=", 0.0)


def deferred_work_is_in_time(fleet: Fleet, v: Variables) -> Iterator[Row]:
    """No work waits longer than it may.

    may_wait[r,n] pick[r] - waits[r,n] >= 0    for all such recipes r, stretches n at whose end work may wait    [work]
    """
    for (r, n), waits in v.waits.items():
        yield Row(("in-time", r, n), [(v.pick[r], float(fleet.line_of(r).may_wait[n])), (waits, -1.0)], ">=", 0.0)


def instance_quota_is_kept(fleet: Fleet, v: Variables) -> Iterator[Row]:
    """No more instances of an offer at any time than may be had.

    (reserved + on_demand + spot)[g,t] <= max_instances[g]        for all g with a limit, t        [instance]
    """
    for g in sorted(fleet.recipes_on):
        limit = fleet.offers[g].max_instances
        if limit is not None:
            for t in range(len(fleet.slot_hours)):
                terms = [(c, 1.0) for c in v.bought(fleet, g, t)]
                yield Row(("instance-quota", g, t), terms, "<=", float(limit))


def gpu_quota_is_kept(fleet: Fleet, v: Variables) -> Iterator[Row]:
    """No more GPUs of a type at any time than allowed, over all offers.

    sum_{g of type k} box[g] (reserved + on_demand + spot)[g,t] <= max_gpus[k]        for all k, t        [GPU]
    """
    for gpu, limit in sorted(fleet.max_gpus.items()):
        offers = [g for g in sorted(fleet.recipes_on) if fleet.offers[g].gpu == gpu]
        for t in range(len(fleet.slot_hours)) if offers else ():
            terms = [(c, float(fleet.offers[g].box)) for g in offers for c in v.bought(fleet, g, t)]
            yield Row(("gpu-quota", gpu, t), terms, "<=", float(limit))


def few_gpu_types_are_used(fleet: Fleet, v: Variables) -> Iterator[Row]:
    """No more kinds of GPU than the team is ready to operate.

    sum_{r uses k, covers w} pick[r] - gpu_type[k] <= 0  for all kinds k, workloads w;  sum_k gpu_type[k] <= N  [-]
    """
    if fleet.max_gpu_types is None or not v.gpu_type:
        return
    for w in fleet.workloads:
        using: dict[str, list[tuple[int, float]]] = {}
        for r in fleet.recipes_of[w]:
            for gpu in fleet.gpus_of(fleet.recipes[r]):
                using.setdefault(gpu, []).append((v.pick[r], 1.0))
        for gpu in sorted(using):
            yield Row(("gpu-type", w, gpu), [*using[gpu], (v.gpu_type[gpu], -1.0)], "<=", 0.0)
    terms = [(c, 1.0) for c in v.gpu_type.values()]
    yield Row(("gpu-types",), terms, "<=", float(fleet.max_gpu_types))


def the_budget_is_kept(fleet: Fleet, v: Variables) -> Iterator[Row]:
    """What a month costs stays within the budget.

    sum of all costs of month m <= budget        for all months m, where there is a budget        [USD/month]
    """
    if fleet.budget_usd_per_month is None:
        return
    for month in range(fleet.months):
        terms = [(c, v.columns[c].cost) for c in v.reserved.values()]
        for paid_by_slot in (v.on_demand, v.spot):
            terms += [
                (c, v.columns[c].cost * fleet.months)
                for (_, t), c in paid_by_slot.items()
                if fleet.slot_month[t] == month
            ]
        terms += [
            (c, v.columns[c].cost * fleet.months) for (_, _, t), c in v.started.items() if fleet.slot_month[t] == month
        ]
        for (r, n), c in v.sent.items():
            if fleet.slot_month[fleet.line_of(r).first_slot[n]] == month:
                terms.append((c, v.columns[c].cost * fleet.months))
        terms += _other_cost_of_month(fleet, v, month)
        if v.team is not None:
            terms.append((v.team, fleet.team_usd_per_month))
        terms = [(c, usd) for c, usd in terms if usd]
        if terms:
            yield Row(("budget", month), terms, "<=", fleet.budget_usd_per_month)


def one_team_if_anything_is_self_hosted(fleet: Fleet, v: Variables) -> Iterator[Row]:
    """Whatever runs on GPUs needs the engineering team, once for all workloads.

    sum_{r self-hosted, covers w} pick[r] - team <= 0        for all workloads w        [-]
    """
    if v.team is None:
        return
    for w in fleet.workloads:
        hosted = [(v.pick[r], 1.0) for r in fleet.recipes_of[w] if fleet.recipes[r].self_hosted]
        if hosted:
            yield Row(("team", w), [*hosted, (v.team, -1.0)], "<=", 0.0)


FAMILIES: tuple[Callable[[Fleet, Variables], Iterator[Row]], ...] = (
    every_workload_is_served,
    every_slot_has_one_serving,
    deferred_work_is_done,
    deferred_work_is_in_time,
    gpus_in_use_are_bought,
    firm_gpus_are_not_spot,
    own_boxes_are_whole,
    boxes_are_rounded_up,
    used_offers_are_charged,
    instances_are_started_in_time,
    instance_quota_is_kept,
    gpu_quota_is_kept,
    few_gpu_types_are_used,
    the_budget_is_kept,
    one_team_if_anything_is_self_hosted,
)


def master(fleet: Fleet) -> tuple[Model, Variables]:
    """The whole mixed-integer program of a fleet."""
    v = define_variables(fleet)
    return build_model(v.columns, (row for family in FAMILIES for row in family(fleet, v))), v


def _gpus_by_slot(fleet: Fleet, v: Variables, g: str, what: str) -> list[dict[int, float]]:
    """GPUs (all, or the firm ones) that each column uses of an offer, slot by slot."""
    use: list[dict[int, float]] = [{} for _ in fleet.slot_hours]
    for r in fleet.recipes_on[g]:
        recipe = fleet.recipes[r]
        gpus = getattr(recipe, what)(g)
        for i in np.flatnonzero(gpus).tolist():
            use[recipe.slot[i]][v.serving(r, i)] = float(gpus[i])
    return use


def _other_cost_of_month(fleet: Fleet, v: Variables, month: int) -> list[tuple[int, float]]:
    cost: dict[int, float] = {}
    for r, recipe in enumerate(fleet.recipes):
        usd = fleet.slot_hours[recipe.slot] * recipe.usd_per_h * (fleet.slot_month[recipe.slot] == month)
        for i in np.flatnonzero(usd).tolist():
            column = v.serving(r, i)
            cost[column] = cost.get(column, 0.0) + float(usd[i])
    return list(cost.items())
