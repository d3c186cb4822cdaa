"""Rows of the master about allowances: they cover no more than is signed, and no more than there is to cover."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from problems.fleet_problem import FleetProblem
from problems.fleet_variables import Variables
from problems.model import Row


def allowances_cover_what_is_signed(fleet: FleetProblem, v: Variables) -> Iterator[Row]:
    """What an allowance covers in an hour takes no more of it than its units hold; what an hour leaves is lost.

    sum_items takes[a,i] covered[a,i,t] - covers[a] (fewest[a] signed[a] + step[a] more[a]) <= 0
        for all allowances a, slots t        [USD/h, tokens/h]

    In a slot in which what is held is not there, it covers nothing.
    """
    for a in fleet.cover.each:
        signed = [(c, -a.covers * units) for c, units in v.signed.get(a.key, ())]
        for t in range(len(fleet.slot_hours)):
            covered = [(v.covered[a.key, i, t], n) for i, n in a.takes.items() if (a.key, i, t) in v.covered]
            holds = signed if a.there is None or a.there[t] else []
            if covered or holds:
                yield Row(("allowance", a.key, t), [*covered, *holds], "<=", 0.0)


def allowances_begin_with_the_fewest(fleet: FleetProblem, v: Variables) -> Iterator[Row]:
    """Beyond the fewest units of an allowance there are more only where these are signed.

    more[a] - most[a] signed[a] <= 0        for all allowances a with a fewest        [step]
    """
    for key, signed in v.signed.items():
        if len(signed) > 1:
            (first, _), (more, _) = signed
            yield Row(("fewest", key), [(more, 1.0), (first, -v.columns[more].upper)], "<=", 0.0)


def no_more_is_covered_than_used(fleet: FleetProblem, v: Variables) -> Iterator[Row]:
    """Allowances cover instances on demand that run, and what an API is paid for work that does not wait.

    sum_a covered[a,g,t] - on_demand[g,t] <= 0                          for all offers g, slots t        [instance]
    sum_a covered[a,p,x,t] - sum_r,s api_usd[r,t,s] serve[r,t,s] <= 0   for pools p, their APIs x, t        [USD/h]
    """
    for item in fleet.cover.items:
        used = None if isinstance(item, str) else _bill_by_slot(fleet, v, item)
        for t in range(len(fleet.slot_hours)):
            covered = [(v.covered[a.key, item, t], 1.0) for a in fleet.cover.of(item) if (a.key, item, t) in v.covered]
            if covered and isinstance(item, str):
                yield Row(("covered", item, t), [*covered, (v.on_demand[item, t], -1.0)], "<=", 0.0)
            elif covered and used is not None:
                yield Row(("covered", item, t), [*covered, *((c, -usd) for c, usd in used[t].items())], "<=", 0.0)


def _bill_by_slot(fleet: FleetProblem, v: Variables, item: tuple[str, str]) -> list[dict[int, float]]:
    """What each column pays an API, slot by slot."""
    bills: list[dict[int, float]] = [{} for _ in fleet.slot_hours]
    for r, recipe in enumerate(fleet.recipes):
        if (recipe.pool, recipe.api) == item:
            usd = fleet.api_usd_per_h(recipe)
            for i in np.flatnonzero(usd).tolist():
                of_slot, column = bills[recipe.slot[i]], v.serving(r, i)
                of_slot[column] = of_slot.get(column, 0.0) + float(usd[i])
    return bills
