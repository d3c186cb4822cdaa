"""The Lagrangian bound: duals of the master's rows, what they pay for workloads, and the bound on every plan.

At any prices the Lagrangian of the master is a lower bound. It never falls when a price rises that purchases still
allow, and it is best when as much is paid for the workloads as no recipe undercuts.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from problems.allowance import Item
from problems.beyond_commitments import ALWAYS
from problems.fleet_problem import FleetProblem
from problems.fleet_variables import Variables
from problems.model import Column, Model, Row, build_model
from problems.pricing import Priced, Prices, energy_usd
from solvers.backends.highs import solve_lp
from solvers.backends.verify import dual_bound

Duals = dict[tuple[Any, ...], float]
Values = dict[tuple[str, ...], float]
"""by the workloads of a pool"""
OF_RECIPES = ("pick", "serve", "waits", "sent")
INSIDE_RECIPES = ("one-serving", "work-done", "in-time", "lots")


def list_prices(fleet: FleetProblem) -> Prices:
    """Prices before any LP: a GPU at its cheapest list price, a firm one at that of firm capacity.

    They are feasible duals of the purchases, so they give a first valid bound. Where instances are on hand GPUs cost
    nothing: at any other price these would have to be paid for.
    """
    gpu, firm = {}, {}
    for g, offer in fleet.offers.items():
        held = [p for p in (offer.on_demand_usd_per_h, *offer.reserved_usd_per_h.values()) if p is not None]
        spot = [offer.spot_usd_per_h] if offer.spot_usd_per_h is not None else []
        if offer.on_hand:
            gpu[g], firm[g] = np.zeros(len(fleet.weight)), np.zeros(len(fleet.weight))
        elif held or spot:
            cheapest = min([*held, *spot])
            gpu[g] = fleet.weight * cheapest / offer.box
            firm[g] = fleet.weight * (min(held, default=cheapest) - cheapest) / offer.box
    factor = np.ones(len(fleet.slot_hours))
    team = dict.fromkeys(fleet.workloads, 0.0)
    return Prices(gpu, firm, factor, team, power_usd=energy_usd(fleet, factor))


def lifted(fleet: FleetProblem, model: Model, v: Variables, duals: Duals) -> Duals:
    """Duals with each GPU's price raised as far as the purchases of its offer allow.

    A GPU in a slot may cost no more than on demand; all slots together no more than a commitment; the part
    that need not be firm no more than spot.
    """
    duals = _no_more_spared_than_paid(fleet, duals)
    reduced = model.cost - model.priced(np.array([duals.get(key, 0.0) for key in model.row_keys]))
    raised = dict(duals)
    for g in sorted({key[1] for key in duals if key[0] == "in-use"}):
        offer = fleet.offers[g]
        slots = range(len(fleet.slot_hours))
        held = {k: fleet.held.get((g, k), (0, None)) for k in offer.reserved_usd_per_h}
        if offer.on_hand or any(fewest for fewest, _ in held.values()):
            continue  # what is held anyway is paid for at any price
        terms = [reduced[v.reserved[g, k]] / offer.box for k, (_, most) in held.items() if most != 0]
        if offer.on_demand_usd_per_h is not None:
            room = np.array([reduced[v.on_demand[g, t]] for t in slots]) / offer.box
        else:
            room = fleet.weight * (min(terms) / fleet.weight.sum() if terms else 0.0)
        room = np.maximum(room, 0.0)
        if terms:
            room = room * min(1.0, max(0.0, min(terms)) / max(room.sum(), 1e-300))
        spot = room
        if offer.spot_usd_per_h is not None:
            spot = np.maximum([reduced[v.spot[g, t]] / offer.box for t in slots], 0.0)
        for t in slots:
            whole = min(room[t], spot[t]) if offer.spot_usd_per_h is not None else room[t]
            raised["in-use", g, t] = raised.get(("in-use", g, t), 0.0) + whole
            if ("firm", g, t) in raised:
                raised["firm", g, t] += room[t] - whole
    return _lifted_beyond(fleet, model, v, raised)


def _no_more_spared_than_paid(fleet: FleetProblem, duals: Duals) -> Duals:
    """Duals by which allowances spare no more than usage costs; interior points may be a hair beyond that."""
    if not fleet.allowances:
        return duals
    dollar = _weight_of_a_dollar(fleet, duals)
    least = {k: -fleet.cover.usd_of[k[1]] * float(dollar[k[2]]) for k in duals if k[0] == "covered"}
    return {k: max(d, least[k]) if k in least else d for k, d in duals.items()}


def _weight_of_a_dollar(fleet: FleetProblem, duals: Duals) -> np.ndarray:
    """What a dollar an hour comes to, where the budget binds more [slot]."""
    budget = np.array([max(-duals.get(("budget", month), 0.0), 0.0) for month in range(fleet.months)])
    return np.asarray(fleet.weight * (1 + fleet.months * budget[fleet.slot_month]))


def signed_at_list(fleet: FleetProblem) -> Duals:
    """Duals at which a unit of an allowance is just worth what it costs, the same in every hour; none where held."""
    hours = [(a, t, usd) for a in fleet.cover.each if not a.held for t, usd in enumerate(fleet.weight.tolist())]
    return {("allowance", a.key, t): -usd * a.usd_per_h / a.covers for a, t, usd in hours}


def with_cover(fleet: FleetProblem, duals: Duals, known: Duals) -> Duals:
    """Duals with what allowances spare of usage that the known ones say nothing of.

    Nothing is worth more than what covering it takes is worth of an allowance: an hour that leaves some makes GPUs
    free.
    """
    left = dict(duals)
    for item in fleet.cover.items if fleet.allowances else ():
        if ("covered", item, 0) in known:
            continue
        usd = fleet.cover.usd_of[item] * _weight_of_a_dollar(fleet, duals)
        for t, takes in enumerate(_least_taken(fleet, item, duals).tolist()):
            if isinstance(item, str):
                box, firm = fleet.offers[item].box, left.get(("firm", item, t))
                left["in-use", item, t] = min(left.get(("in-use", item, t), 0.0), takes / box)
                takes -= box * left["in-use", item, t]
                if firm is not None:
                    left["firm", item, t] = min(firm, takes / box)
                    takes -= box * left["firm", item, t]
                takes = box * (left["in-use", item, t] + left.get(("firm", item, t), 0.0))
            left["covered", item, t] = -max(float(usd[t]) - takes, 0.0)
    return left


def spare(fleet: FleetProblem, prices: Prices, duals: Duals) -> None:
    """Lower list prices of what the duals say nothing of to what allowances leave of them."""
    for item in fleet.cover.items if fleet.allowances else ():
        if ("covered", item, 0) in duals:
            continue
        takes = _least_taken(fleet, item, duals)
        if isinstance(item, str) and item in prices.gpu_usd:
            box = fleet.offers[item].box
            prices.gpu_usd[item] = np.minimum(prices.gpu_usd[item], takes / box)
            prices.firm_usd[item] = np.minimum(prices.firm_usd[item], takes / box - prices.gpu_usd[item])
        elif not isinstance(item, str):
            prices.spared_usd_factor[item] = np.maximum(prices.usd_factor - takes / fleet.weight, 0.0)


def _least_taken(fleet: FleetProblem, item: Item, duals: Duals) -> np.ndarray:
    """What an hour of usage takes of an allowance, in dollars of the duals, where that is least [slot].

    None covers it where none is there.
    """
    slots = range(len(fleet.weight))
    worth = [
        np.array(
            [
                max(-duals.get(("allowance", a.key, t), 0.0), 0.0) if a.there is None or a.there[t] else np.inf
                for t in slots
            ]
        )
        for a in fleet.cover.of(item)
    ]
    least: np.ndarray = np.minimum.reduce(
        [a.takes[item] * usd for a, usd in zip(fleet.cover.of(item), worth, strict=True)]
    )
    return least


def _lifted_beyond(fleet: FleetProblem, model: Model, v: Variables, duals: Duals) -> Duals:
    """Duals with prices for boxes beyond fixed commitments, as far as purchases by the hour allow.

    Where no more are decided than so many, what is committed to does not pay them; else all slots together may not cost
    more than another commitment.
    """
    decided = sorted({(cut.offer, cut.by_hour) for cut in fleet.rounded_always})
    decided = [(g, by_hour) for g, by_hour in decided if ("rounded", "in-use", g, 0, ALWAYS) in duals]
    if not decided:
        return duals
    reduced = np.maximum(model.cost - model.priced(np.array([duals.get(key, 0.0) for key in model.row_keys])), 0.0)
    raised = dict(duals)
    for g, by_hour in decided:
        by_slot = [
            [reduced[of[g, t]] for of in (v.on_demand, v.spot) if (g, t) in of] for t in range(len(fleet.weight))
        ]
        if not all(by_slot):
            continue
        whole = np.array([min(usd) for usd in by_slot])
        firm = np.array([usd[0] for usd in by_slot]) - whole if (g, 0) in v.on_demand else 0.0 * whole
        if not by_hour:
            together = max(float((whole + firm).sum()), 1e-300)
            least = min(reduced[c] for c in v.held(fleet, g))
            whole, firm = (part * min(1.0, least / together) for part in (whole, firm))
        for kind, usd in (("in-use", whole), ("firm", firm)):
            for t, price in enumerate(usd.tolist()):
                key = ("rounded", kind, g, t, ALWAYS)
                if key in raised:
                    raised[key] += price
    return raised


def dual_bound_of(model: Model, duals: Duals, paid: dict[str, float]) -> float:
    """The Lagrangian at these duals: what they pay for the workloads, plus what the limits and purchases add.

    No recipe costs less than is paid for its workloads, so none adds anything: neither the columns of paths count nor
    the rows inside a recipe, whose duals belong to the paths of one LP.
    """
    y = duals | {("served", w): usd for w, usd in paid.items()}
    of_recipes = np.array([key[0] in OF_RECIPES for key in model.column_keys])
    without = replace(model, lower=np.where(of_recipes, 0.0, model.lower), upper=np.where(of_recipes, 0.0, model.upper))
    inside = np.array([key[0] in INSIDE_RECIPES for key in model.row_keys])
    return dual_bound(without, np.where(inside, 0.0, [y.get(key, 0.0) for key in model.row_keys]))


def most_to_pay(fleet: FleetProblem, priced: tuple[Priced, ...], left: Values | None = None) -> dict[str, float]:
    """What may be paid for each workload so that no recipe of any pool costs less than its workloads together.

    With pools of one workload each that is the cheapest recipe. Where pools overlap the most is found by a small LP:
    max sum_w y[w] with sum_{w in P} y[w] <= cheapest recipe of P, for all pools P. `left` are values of recipes that
    are not written down.
    """
    least = dict(left or {})
    for p in priced:
        least[p.recipe.workloads] = min(least.get(p.recipe.workloads, np.inf), p.value)
    alone = {w: least.get((w,), np.inf) for w in fleet.workloads}
    shared = {ws: usd for ws, usd in least.items() if len(ws) > 1 and usd < sum(alone[w] for w in ws)}
    if not shared:
        return alone
    largest = max(usd for usd in least.values() if np.isfinite(usd))
    columns = [Column(("paid", w), -1.0, lower=-largest, upper=min(alone[w], 2 * largest)) for w in fleet.workloads]
    at = {w: k for k, w in enumerate(fleet.workloads)}
    rows = [Row(("pool", *ws), [(at[w], 1.0) for w in ws], "<=", usd) for ws, usd in shared.items()]
    lp = solve_lp(build_model(columns, rows))
    if lp.x is None:
        raise RuntimeError(f"the prices of shared pools ended as {lp.status}; please report this case")
    paid_now = {w: min(float(lp.x[at[w]]), alone[w]) for w in fleet.workloads}
    for ws, usd in shared.items():
        over = sum(paid_now[w] for w in ws) - usd
        if over > 0:
            paid_now[ws[0]] -= over
    return paid_now
