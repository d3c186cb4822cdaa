"""What is paid to a vendor in a month, and the rows that cap it: instances, API bills, and what having it costs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from problems.constants import HOURS_PER_MONTH
from problems.fleet_problem import FleetProblem
from problems.fleet_variables import Variables
from problems.model import Row
from problems.purchase import Purchase, starting_usd_per_h
from problems.recipes.recipe import Recipe
from problems.recipes.vendors import Vendor

ROUNDING = 1e-9
KEPT_FRAC = 5e-7
"""share of a cap, and of a dollar, by which plans may exceed it: solvers keep rows up to a millionth of a dollar"""
Term = tuple[int, float]


def no_vendor_is_paid_too_much(fleet: FleetProblem, v: Variables) -> Iterator[Row]:
    """What is paid to a vendor in a month stays within its cap.

    sum of all costs of month m at vendor x <= cap[x]        for all vendors x with a cap, months m        [USD/month]

    Both sides count as much as the month does.
    """
    for vendor, most in sorted(fleet.vendors.most_usd.items()):
        for month in range(fleet.months):
            counts = float(fleet.weight_of_month[month])
            terms = [*_instances(fleet, v, vendor, month), *_api_bills(fleet, v, vendor, month)]
            if vendor in v.vendor:
                terms.append((v.vendor[vendor], fleet.vendors.usd([vendor]) * counts))
            terms = [(c, usd) for c, usd in terms if usd]
            if most < 0:  # commitments alone are more: nothing may be picked
                terms = terms or [(c, 1.0) for c in v.pick.values()]
            if terms:
                yield Row(("vendor-cap", *vendor, month), terms, "<=", most * counts)


def _instances(fleet: FleetProblem, v: Variables, vendor: Vendor, month: int) -> Iterator[Term]:
    """Columns of instances; commitments are spread evenly over their months."""

    def sold(g: str) -> bool:
        return vendor in fleet.vendors.of_offer.get(g, ())

    for (g, _), c in v.reserved.items():
        if sold(g):
            yield c, v.columns[c].cost * float(fleet.weight_of_month[month])
    for by_slot in (v.on_demand, v.spot):
        for (g, t), c in by_slot.items():
            if sold(g) and fleet.slot_month[t] == month:
                yield c, v.columns[c].cost * fleet.months
    for (_, g, t), c in v.started.items():
        if sold(g) and fleet.slot_month[t] == month:
            yield c, v.columns[c].cost * fleet.months


def _api_bills(fleet: FleetProblem, v: Variables, vendor: Vendor, month: int) -> list[Term]:
    """Columns of servings that an API of the vendor has a part in, and of work that waits and goes there in the end."""
    bills: dict[int, float] = {}
    asking = {r for r, recipe in enumerate(fleet.recipes) if vendor in fleet.vendors.of((), recipe.api)}
    for r in sorted(asking):
        recipe = fleet.recipes[r]
        usd = fleet.slot_hours[recipe.slot] * api_usd_per_h(fleet, recipe) * (fleet.slot_month[recipe.slot] == month)
        for i in np.flatnonzero(usd).tolist():
            column = v.serving(r, i)
            bills[column] = bills.get(column, 0.0) + float(usd[i])
    for (r, n), c in v.sent.items():
        if r in asking and fleet.slot_month[fleet.line_of(r).first_slot[n]] == month:
            bills[c] = v.columns[c].cost * fleet.months
    return list(bills.items())


def api_usd_per_h(fleet: FleetProblem, recipe: Recipe) -> np.ndarray:
    """The bill of its API: all that a recipe costs besides GPUs and caches [serving]."""
    return np.asarray(np.maximum(recipe.usd_per_h - fleet.pools[recipe.pool].fixed_by_slot[recipe.slot], 0.0))


def caps_are_kept(fleet: FleetProblem, paths: tuple[Recipe, ...], purchases: Mapping[str, Purchase]) -> bool:
    """Whether no vendor is paid more than its cap in any month."""
    return all(
        paid_by_month(fleet, vendor, paths, purchases).max() <= most + KEPT_FRAC * (abs(most) + 1)
        for vendor, most in fleet.vendors.most_usd.items()
    )


def paid_by_month(
    fleet: FleetProblem, vendor: Vendor, paths: tuple[Recipe, ...], purchases: Mapping[str, Purchase]
) -> np.ndarray:
    """What a plan pays a vendor in each month, besides what is held [month]."""
    by_slot, fixed = np.zeros(len(fleet.slot_hours)), 0.0
    for path in paths:
        if vendor in fleet.vendors.of((), path.api):
            np.add.at(by_slot, path.slot, api_usd_per_h(fleet, path))
    for g, bought in purchases.items():
        if vendor in fleet.vendors.of_offer.get(g, ()):
            offer = fleet.offers[g]
            by_slot += bought.on_demand * (offer.on_demand_usd_per_h or 0.0)
            by_slot += bought.spot * (offer.spot_usd_per_h or 0.0)
            by_slot += starting_usd_per_h(fleet, offer, bought.on_demand, bought.spot)
            fixed += sum(n * offer.reserved_usd_per_h[k] * HOURS_PER_MONTH for k, n in bought.reserved.items())
    if vendor in fleet.vendors_used(paths):
        fixed += fleet.vendors.usd([vendor])
    by_month = np.bincount(fleet.slot_month, by_slot * fleet.slot_hours, fleet.months)
    return np.asarray(by_month / fleet.weight_of_month + fixed)
