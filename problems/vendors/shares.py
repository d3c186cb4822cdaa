"""What a vendor in use serves at least: rows of programs over whole servings, and the requests that they count.

No LP that prices come from has these rows: without them it is a relaxation, so its bound holds, and nothing that prices
recipes need know of them. Requests are counted exactly where a pool is served by one deployment or by an API. Where
several deployments share the requests of a slot, or work waits, each is credited with the most that it might serve; the
flows of a plan say whether it did.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from problems.fleet_problem import FleetProblem
from problems.fleet_variables import Variables
from problems.model import Row
from problems.recipes.pools import Pool
from problems.recipes.recipe import Recipe
from problems.recipes.singles import kept_share
from problems.recipes.vendors import Vendor

CARRIES_ALL = 1e-9
NOTHING = 1e-12
"""share of all requests that is left out of a row"""


def vendors_in_use_serve_their_share(fleet: FleetProblem, v: Variables) -> Iterator[Row]:
    """A vendor that is in use serves a share of all requests that is worth having it.

    sum_r,t,s requests[r,t,s,x] serve[r,t,s] + sum_r,n requests[r,n,x] sent[r,n] - least[k] vendor[x] >= 0
        for all vendors x of kinds k with a least share, requests as shares of all of them        [-]
    """
    if not fleet.whole_program or not fleet.vendors.least_share:
        return
    served: dict[Vendor, dict[int, float]] = {x: {} for x in v.vendor if x[0] in fleet.vendors.least_share}
    for r, recipe in enumerate(fleet.recipes):
        for vendor, columns in _credited(fleet, v, r, recipe):
            of = served.get(vendor, {})
            for column, share in columns:
                of[column] = of.get(column, 0.0) + share
    for vendor, of in served.items():
        terms = [(column, share) for column, share in of.items() if share > NOTHING]
        least = fleet.vendors.least_share[vendor[0]]
        yield Row(("least-share", *vendor), [*terms, (v.vendor[vendor], -least)], ">=", 0.0)


def _credited(
    fleet: FleetProblem, v: Variables, r: int, recipe: Recipe
) -> Iterator[tuple[Vendor, list[tuple[int, float]]]]:
    """The columns by which a recipe serves requests of each of its vendors, and which share of all requests."""
    pool, unit = fleet.pools[recipe.pool], 3600 / fleet.vendors.requests_per_month
    on_gpus, by_api = requests_per_s(pool, recipe)
    weight = unit * fleet.weight[recipe.slot]
    columns = [v.serving(r, i) for i in range(recipe.servings)]
    for use in recipe.uses:
        for vendor in fleet.vendors.of((use.offer,), None):
            first = next(u for u in recipe.uses if vendor in fleet.vendors.of((u.offer,), None))
            if use is first:
                yield vendor, list(zip(columns, (weight * on_gpus).tolist(), strict=True))
    for vendor in fleet.vendors.of((), recipe.api):
        yield vendor, list(zip(columns, (weight * by_api).tolist(), strict=True))
        if recipe.deferral is not None:
            load, rate = recipe.deferral.load, pool.rate_rps.sum(axis=1)
            each = float(np.divide(rate, load, out=np.zeros_like(rate), where=load > 0).max(initial=0.0))
            sent = each * recipe.deferral.line.unit * unit / fleet.months
            yield vendor, [(column, sent) for (k, _), column in v.sent.items() if k == r]


def requests_per_s(pool: Pool, recipe: Recipe) -> tuple[np.ndarray, np.ndarray]:
    """Requests that GPUs serve, and that the API does, or more where that is not known [serving]."""
    rate = pool.rate_rps[recipe.slot]
    every, nothing = rate.sum(axis=1), np.zeros(recipe.servings)
    api = next((api for api in pool.apis if api.key == recipe.api), None)
    outside = (1 - recipe.shed_frac) if api is not None else nothing
    if not recipe.uses:
        return nothing, every * outside
    if recipe.deferral is not None or pool.window is not None:
        return every, every * (recipe.deferral is None and api is not None)
    first = next(d for d in pool.deployments if d.key == recipe.uses[0].deployment)
    if len(recipe.uses) > 1 or not first.serves_all:
        bill = np.maximum(recipe.usd_per_h - pool.fixed_by_slot[recipe.slot], 0.0)
        cheapest = 3600 * float(api.usd_per_request.min()) if api is not None else 0.0
        most = np.minimum(bill / cheapest * (1 + CARRIES_ALL), every) if cheapest > 0 else every
        return every, most * outside
    seconds, load, kept = first.seconds_per_request, recipe.uses[0].load, every.copy()
    for shed, usd in ((False, api.usd_per_request if api else None), (True, pool.shed_usd_per_request)):
        part = ((recipe.shed_frac > 0) == shed) & (load < (rate @ seconds) * (1 - CARRIES_ALL))
        if usd is not None and part.any():
            kept[part] = (rate[part] * kept_share(rate[part], seconds, usd, load[part])).sum(axis=1)
    return kept, (every - kept) * outside
