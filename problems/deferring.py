"""Work that may wait, given what a count of replicas costs in each slot: which counts to run.

Exactly this is a small mixed-integer program. Here counts grow step by step, always where the work still to do costs
least, until all is done or the API is cheaper. It is near the best, quick, and always feasible.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from problems.recipes import Deferral, Recipe

NOTHING = 1e-9
"""share of the work that rounding may leave over"""


def cheapest_counts(recipe: Recipe, usd: np.ndarray, hours: np.ndarray, usd_factor: np.ndarray) -> tuple[float, Recipe]:
    """What the work costs and the path that does it, at these costs of the servings [serving] over `hours` [slot].

    `usd_factor` is what a dollar of API weighs [slot]. The path has settled who does what, and carries the API's bill.
    """
    deferral = recipe.deferral
    assert deferral is not None
    slots = len(hours)
    room_of = recipe.uses[0].load
    work = deferral.load * hours
    chosen = recipe.first_of_each_slot(usd)
    room, paid = room_of[chosen] * hours, usd[chosen].copy()
    left = _left_over(work, room, deferral)
    api = np.inf if deferral.api_usd_per_load_h is None else deferral.api_usd_per_load_h * float(usd_factor.mean())
    t = recipe.slot
    while left.sum() > NOTHING * work.sum():
        reachable = left @ deferral.window
        more = np.minimum(room_of * hours[t] - room[t], reachable[t])
        price = np.divide(usd - paid[t], more, out=np.full(len(usd), np.inf), where=more > NOTHING * work.sum())
        best = int(np.argmin(price))
        if price[best] >= api or not np.isfinite(price[best]):
            break
        at = int(t[best])
        chosen[at], room[at], paid[at] = best, room_of[best] * hours[at], usd[best]
        left = _left_over(work, room, deferral)
    if left.sum() <= NOTHING * work.sum():
        left = np.zeros(slots)
    elif deferral.api_usd_per_load_h is None:
        # Filled in another order it fits: recipes whose largest counts cannot do the work are left out beforehand.
        chosen, left = recipe.first_of_each_slot(-room_of), np.zeros(slots)
        paid = usd[chosen]
    bill = left * (deferral.api_usd_per_load_h or 0.0)
    path = recipe.only(chosen)
    path = replace(path, usd_per_h=path.usd_per_h + bill / hours, deferral=None)
    return float(paid.sum() + (bill * usd_factor).sum()), path


def least_usd(recipe: Recipe, usd: np.ndarray, hours: np.ndarray) -> float:
    """About what the work costs at least: all of it at the best price per load of its window, or at the API's."""
    deferral = recipe.deferral
    assert deferral is not None
    carried = recipe.uses[0].load * hours[recipe.slot]
    rate = np.divide(usd, carried, out=np.full(len(usd), np.inf), where=carried > 0)
    best = np.full(len(hours), np.inf)
    np.minimum.at(best, recipe.slot, rate)
    least = np.where(deferral.window, best[None, :], np.inf).min(axis=1)
    api = np.inf if deferral.api_usd_per_load_h is None else deferral.api_usd_per_load_h
    work = deferral.load * hours
    return float((work[work > 0] * np.minimum(least, api)[work > 0]).sum())


def _left_over(work: np.ndarray, room: np.ndarray, deferral: Deferral) -> np.ndarray:
    """Work of each arrival slot that finds no room, those with the least room to go to first."""
    left, free = work.tolist(), room.tolist()
    for h in np.argsort(deferral.window @ room, kind="stable").tolist():
        mine = left[h]
        if mine <= 0:
            continue
        for t in deferral.slots_of[h]:
            if free[t] > 0:
                moved = min(mine, free[t])
                mine -= moved
                free[t] -= moved
                if mine <= 0:
                    break
        left[h] = max(mine, 0.0)
    return np.array(left)
