"""The columns of the master problem: what is picked, how each slot is served, and what is bought."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from problems.allowance import Allowance, Item
from problems.constants import HOURS_PER_MONTH
from problems.fleet_problem import ON_HAND, FleetProblem
from problems.model import Column
from problems.recipes.recipe import Deferral
from problems.recipes.vendors import Vendor


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
    vendor: dict[Vendor, int] = field(default_factory=dict)
    """vendor -> whether it is in use, where there are rules about vendors"""
    charged: dict[str, int] = field(default_factory=dict)
    """offer -> whether it is used, where half a box is charged for that"""
    team: int | None = None
    signed: dict[str, list[tuple[int, float]]] = field(default_factory=dict)
    """allowance -> columns of what is signed, with the units that one of each stands for"""
    covered: dict[tuple[str, Item, int], int] = field(default_factory=dict)
    """(allowance, what it covers, slot) -> how much of that"""

    def add(self, column: Column) -> int:
        self.columns.append(column)
        return len(self.columns) - 1

    def serving(self, r: int, i: int) -> int:
        return self.serve.get((r, i), self.pick[r])

    def held(self, fleet: FleetProblem, g: str) -> list[int]:
        """Instances that are there all the time: committed to, or on hand."""
        on_hand = [self.reserved[g, ON_HAND]] if fleet.offers[g].on_hand else []
        return on_hand + [self.reserved[g, term] for term in fleet.offers[g].reserved_usd_per_h]

    def firm(self, fleet: FleetProblem, g: str, t: int) -> list[int]:
        return self.held(fleet, g) + ([self.on_demand[g, t]] if (g, t) in self.on_demand else [])

    def bought(self, fleet: FleetProblem, g: str, t: int) -> list[int]:
        return self.firm(fleet, g, t) + ([self.spot[g, t]] if (g, t) in self.spot else [])


def define_variables(fleet: FleetProblem) -> Variables:
    """Columns with their costs. Boxes of one GPU come out whole by themselves where nothing limits them."""
    v = Variables()
    for r, recipe in enumerate(fleet.recipes):
        hourly = recipe.usd_per_h + fleet.energy_usd_per_h(recipe) + recipe.penalty_usd_per_h
        cost = fleet.weight[recipe.slot] * hourly
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
    for vendor in sorted({vendor for recipe in fleet.recipes for vendor in fleet.vendors_of(recipe)}):
        usd, fewest = fleet.vendors.usd([vendor]), float(fleet.vendors_decided.get(vendor, False))
        v.vendor[vendor] = v.add(Column(("vendor", *vendor), usd, fewest, upper=1, integer=True))
    _define_allowances(fleet, v)
    return v


def _define_waiting(fleet: FleetProblem, v: Variables, r: int, deferral: Deferral) -> None:
    line, price = deferral.line, deferral.api_usd_per_load_h
    for n in line.stretches:
        most = float(line.may_wait[n])
        if most:
            v.waits[r, n] = v.add(Column(("waits", r, n), 0.0, upper=most))
        if price is not None:
            v.sent[r, n] = v.add(Column(("sent", r, n), price * line.unit / fleet.months, upper=float(line.most[n])))


def _define_purchases(fleet: FleetProblem, v: Variables, g: str) -> None:
    offer, most = fleet.offers[g], fleet.most_instances[g]
    whole = (offer.box > 1 or fleet.limited or g in fleet.cover.items) and not fleet.boxes_in_parts
    if fleet.boxes_in_parts and offer.box > 1:
        v.charged[g] = v.add(Column(("charged", g), 0.0, upper=1, integer=True))
    if offer.on_hand:
        v.reserved[g, ON_HAND] = v.add(
            Column(("reserved", g, ON_HAND), 0.0, offer.on_hand, offer.on_hand, integer=True)
        )
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


def _define_allowances(fleet: FleetProblem, v: Variables) -> None:
    """Columns of what is signed, and of what it covers, which saves what that costs without."""
    for a in fleet.cover.each:
        v.signed[a.key] = _signed(fleet, v, a)
        for item in a.takes:
            if not _is_in_the_program(fleet, item):
                continue
            most, usd = fleet.cover.most_usage[item], fleet.cover.usd_of[item]
            for t, hours in enumerate(fleet.weight.tolist()):
                upper = most if a.there is None or a.there[t] else 0.0
                v.covered[a.key, item, t] = v.add(Column(("covered", a.key, item, t), -hours * usd, upper=upper))


def _is_in_the_program(fleet: FleetProblem, item: Item) -> bool:
    """Whether any recipe of the program may use what is covered."""
    if isinstance(item, str):
        return item in fleet.recipes_on
    return any((recipe.pool, recipe.api) == item for recipe in fleet.recipes)


def _signed(fleet: FleetProblem, v: Variables, a: Allowance) -> list[tuple[int, float]]:
    """Columns of an allowance's amount, and the units that one of each stands for."""
    usd, most = a.usd_per_h * HOURS_PER_MONTH, fleet.cover.most_units(a)
    if a.held:
        return [(v.add(Column(("signed", a.key), 0.0, 1.0, 1.0)), a.held)]
    step, columns = a.step or 1.0, []
    if a.fewest:
        first = Column(("signed", a.key), usd * a.fewest, upper=float(most >= a.fewest), integer=True)
        columns.append((v.add(first), a.fewest))
    more = max(most - a.fewest, 0.0) / step
    upper = more if a.step is None else float(np.floor(more + 1e-9))
    columns.append((v.add(Column(("more", a.key), usd * step, upper=upper, integer=a.step is not None)), step))
    return columns
