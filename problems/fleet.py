"""The master problem: pick one recipe per workload and buy the instances that they need.

    min   sum_g,term reserved[g,term] x 730 h x price
        + sum_g,t hours[t] (on_demand[g,t] x price + spot[g,t] x price)
        + sum_r,t,s hours[t] x api_cost[r,t,s] x serve[r,t,s]  +  team x its cost

under the families listed in FAMILIES, one function each. Money is USD per month, averaged over the months of
the horizon. Recipes are data: see problems/recipes.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from problems.model import Column, Model, Row, build_model
from problems.recipes import Recipe

HOURS_PER_MONTH = 730.0


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
    recipes: tuple[Recipe, ...]
    max_gpus: dict[str, int] = field(default_factory=dict)
    """most GPUs of a type at any time, over all offers"""
    budget_usd_per_month: float | None = None
    team_usd_per_month: float = 0.0
    """fixed cost of the engineers who run anything self-hosted"""

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
    def recipes_on(self) -> dict[str, list[int]]:
        on: dict[str, list[int]] = {}
        for r, recipe in enumerate(self.recipes):
            if recipe.offer is not None:
                on.setdefault(recipe.offer, []).append(r)
        return on

    @cached_property
    def most_instances(self) -> dict[str, int]:
        """Instances of an offer that no plan exceeds: every pool at its largest there."""
        most: dict[str, int] = {}
        for offer, recipes in self.recipes_on.items():
            largest: dict[str, int] = {}
            for r in recipes:
                pool = self.recipes[r].pool
                largest[pool] = max(largest.get(pool, 0), int(self.recipes[r].gpus.max(initial=0)))
            most[offer] = 2 * -(-sum(largest.values()) // self.offers[offer].box) + 1
        return most


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
    team: int | None = None

    def add(self, column: Column) -> int:
        self.columns.append(column)
        return len(self.columns) - 1

    def serving(self, r: int, i: int) -> int:
        return self.serve.get((r, i), self.pick[r])

    def firm(self, fleet: Fleet, g: str, t: int) -> list[int]:
        held = [self.reserved[g, term] for term in fleet.offers[g].reserved_usd_per_h]
        return held + ([self.on_demand[g, t]] if (g, t) in self.on_demand else [])

    def bought(self, fleet: Fleet, g: str, t: int) -> list[int]:
        return self.firm(fleet, g, t) + ([self.spot[g, t]] if (g, t) in self.spot else [])


def define_variables(fleet: Fleet) -> Variables:
    """Columns with their costs. Boxes of one GPU come out whole by themselves where nothing limits them."""
    v = Variables()
    for r, recipe in enumerate(fleet.recipes):
        cost = fleet.weight[recipe.slot] * recipe.api_usd_per_h
        choices = np.bincount(recipe.slot, minlength=len(fleet.slot_hours))[recipe.slot] > 1
        v.pick[r] = v.add(Column(("pick", r), float(cost[~choices].sum()), upper=1, integer=True))
        for i in np.flatnonzero(choices).tolist():
            v.serve[r, i] = v.add(Column(("serve", r, i), float(cost[i]), upper=1, integer=True))
    for g in sorted(fleet.recipes_on):
        offer, most = fleet.offers[g], fleet.most_instances[g]
        for term, usd_per_h in offer.reserved_usd_per_h.items():
            column = Column(("reserved", g, term), usd_per_h * HOURS_PER_MONTH, upper=most, integer=True)
            v.reserved[g, term] = v.add(column)
        for t, hours in enumerate(fleet.weight.tolist()):
            whole = offer.box > 1 or fleet.limited
            if offer.on_demand_usd_per_h is not None:
                cost_od = hours * offer.on_demand_usd_per_h
                v.on_demand[g, t] = v.add(Column(("on-demand", g, t), cost_od, upper=most, integer=whole))
            if offer.spot_usd_per_h is not None:
                cost_spot = hours * offer.spot_usd_per_h
                v.spot[g, t] = v.add(Column(("spot", g, t), cost_spot, upper=most, integer=whole))
    if fleet.team_usd_per_month and fleet.recipes_on:
        v.team = v.add(Column(("team",), fleet.team_usd_per_month, upper=1))
    return v


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
    """
    for g in sorted(fleet.recipes_on):
        box = float(fleet.offers[g].box)
        use = _gpus_by_slot(fleet, v, g, "gpus")
        for t in range(len(fleet.slot_hours)):
            bought = [(c, box) for c in v.bought(fleet, g, t)]
            yield Row(("in-use", g, t), bought + [(c, -n) for c, n in use[t].items()], ">=", 0.0)


def firm_gpus_are_not_spot(fleet: Fleet, v: Variables) -> Iterator[Row]:
    """GPUs that must survive a reclaim of the offer's spot market stand in reserved or on-demand instances.

    box[g] (reserved + on_demand)[g,t] - sum_r,s firm_gpus[r,t,s] serve[r,t,s] >= 0    for g with spot, t    [GPU]
    """
    for g in sorted(fleet.recipes_on):
        if fleet.offers[g].spot_usd_per_h is None:
            continue
        box = float(fleet.offers[g].box)
        use = _gpus_by_slot(fleet, v, g, "firm_gpus")
        for t in range(len(fleet.slot_hours)):
            if use[t]:
                firm = [(c, box) for c in v.firm(fleet, g, t)]
                yield Row(("firm", g, t), firm + [(c, -n) for c, n in use[t].items()], ">=", 0.0)


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
        terms += _api_cost_of_month(fleet, v, month)
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
    gpus_in_use_are_bought,
    firm_gpus_are_not_spot,
    instance_quota_is_kept,
    gpu_quota_is_kept,
    the_budget_is_kept,
    one_team_if_anything_is_self_hosted,
)


def master(fleet: Fleet) -> tuple[Model, Variables]:
    """The whole mixed-integer program of a fleet."""
    v = define_variables(fleet)
    rows = [row for family in FAMILIES for row in family(fleet, v)]
    return build_model(v.columns, rows), v


def _gpus_by_slot(fleet: Fleet, v: Variables, g: str, what: str) -> list[dict[int, float]]:
    """GPUs (all, or the firm ones) that each column uses of an offer, slot by slot."""
    use: list[dict[int, float]] = [{} for _ in fleet.slot_hours]
    for r in fleet.recipes_on[g]:
        recipe = fleet.recipes[r]
        gpus = getattr(recipe, what)
        for i in np.flatnonzero(gpus).tolist():
            use[recipe.slot[i]][v.serving(r, i)] = float(gpus[i])
    return use


def _api_cost_of_month(fleet: Fleet, v: Variables, month: int) -> list[tuple[int, float]]:
    cost: dict[int, float] = {}
    for r, recipe in enumerate(fleet.recipes):
        usd = fleet.slot_hours[recipe.slot] * recipe.api_usd_per_h * (fleet.slot_month[recipe.slot] == month)
        for i in np.flatnonzero(usd).tolist():
            column = v.serving(r, i)
            cost[column] = cost.get(column, 0.0) + float(usd[i])
    return list(cost.items())
