"""Constraint families about vendors in use. A fleet without rules about vendors has none of these rows."""

from __future__ import annotations

from collections.abc import Iterator

from problems.fleet_problem import FleetProblem
from problems.fleet_variables import Variables
from problems.model import Row
from problems.recipes.vendors import Vendor


def vendors_in_use_are_paid(fleet: FleetProblem, v: Variables) -> Iterator[Row]:
    """Whatever is picked of a vendor takes an account, a contract and somebody who knows it, once for all workloads.

    sum_{r buys of x, covers w} pick[r] - vendor[x] <= 0        for all vendors x, workloads w        [-]

    One row for each workload, not one for all of them: what is picked in parts costs as large a part of the vendor.
    """
    for w in fleet.workloads if v.vendor else ():
        buying: dict[Vendor, list[tuple[int, float]]] = {}
        for r in fleet.recipes_of[w]:
            for vendor in fleet.vendors_of(fleet.recipes[r]):
                buying.setdefault(vendor, []).append((v.pick[r], 1.0))
        for vendor in sorted(buying):
            yield Row(("vendor", w, *vendor), [*buying[vendor], (v.vendor[vendor], -1.0)], "<=", 0.0)


def few_vendors_are_used(fleet: FleetProblem, v: Variables) -> Iterator[Row]:
    """No more providers, regions or APIs than the policy allows.

    sum_{x of kind k} vendor[x] <= at_most[k]        for all kinds k with a limit        [-]
    """
    for kind, most in sorted(fleet.vendors.at_most.items()):
        terms = [(column, 1.0) for (k, _), column in v.vendor.items() if k == kind]
        if terms:
            yield Row(("vendors", kind), terms, "<=", float(most))
