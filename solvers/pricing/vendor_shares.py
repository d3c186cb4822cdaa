"""Whether the vendors of a plan serve the shares of all requests that are worth having them."""

from __future__ import annotations

from weakref import WeakKeyDictionary

from problems.fleet_problem import FleetProblem
from problems.recipes.recipe import Recipe
from problems.recipes.vendors import Vendor
from solvers.pricing.routing import flows_of

ROUNDING = 1e-9
_known: WeakKeyDictionary[Recipe, tuple[dict[str, float], float]] = WeakKeyDictionary()
"""requests a month that a path sends to each offer and to its API"""


def shares_are_kept(fleet: FleetProblem, paths: tuple[Recipe, ...]) -> bool:
    """Whether they do; of a part of the workloads nothing can be said yet."""
    if not fleet.vendors.least_share or {w for path in paths for w in path.workloads} != set(fleet.workloads):
        return True
    if any(path.servings != len(fleet.slot_hours) for path in paths):
        return False  # not decided on a serving for each slot
    return not short_of_their_share(fleet, paths)


def short_of_their_share(fleet: FleetProblem, paths: tuple[Recipe, ...]) -> list[Vendor]:
    """Vendors in use that serve less than they must, of paths with one serving in each slot."""
    least = fleet.vendors.least_share
    used = [vendor for vendor in fleet.vendors_used(paths) if vendor[0] in least]
    requests = dict.fromkeys(used, 0.0)
    for path in paths if used else ():
        on_offers, by_api = _requests(fleet, path)
        sold = [(vendor, each) for g, each in on_offers.items() for vendor in fleet.vendors.of((g,), None)]
        sold += [(vendor, by_api) for vendor in fleet.vendors.of((), path.api)]
        for vendor, each in sold:
            if vendor in requests:
                requests[vendor] += each
    every = fleet.vendors.requests_per_month
    return sorted(vendor for vendor in used if requests[vendor] < least[vendor[0]] * every * (1 - ROUNDING))


def _requests(fleet: FleetProblem, path: Recipe) -> tuple[dict[str, float], float]:
    if path not in _known:
        flows = flows_of(fleet.pools[path.pool], path, fleet.slot_hours)
        on_offers: dict[str, float] = {}
        for use, flow in zip(path.uses, flows.uses, strict=True):
            on_offers[use.offer] = on_offers.get(use.offer, 0.0) + 3600 * float(fleet.weight @ flow.sum(axis=1))
        _known[path] = (on_offers, 3600 * float(fleet.weight @ flows.api.sum(axis=1)))
    return _known[path]
