"""Work that may wait, given what a count of replicas costs in each slot: which counts to run.

Exactly this is a small mixed-integer program. Here counts grow step by step, always where the work still to do costs
least, until all is done or the API is cheaper. It is near the best, quick, and always feasible.
"""

from __future__ import annotations

from dataclasses import replace
from heapq import heapify, heappop, heappush

import numpy as np

from problems.recipes.recipe import Deferral, Recipe

MOST_DAYS = 4
"""days that are considered one after the other"""
ALIKE_FRAC = 0.01
"""counts grow together in slots where the work costs nearly the same"""
NOTHING = 1e-9
"""share of the work that rounding may leave over"""


def cheapest_counts(
    recipe: Recipe, usd: np.ndarray, hours: np.ndarray, usd_factor: np.ndarray
) -> tuple[float, Recipe] | None:
    """What the work costs and the path that does it, at these costs of the servings [serving] over `hours` [slot].

    `usd_factor` is what a dollar of API weighs [slot]. The path has settled who does what, and carries the API's bill.
    None if no counts that can be had do the work.
    """
    deferral = recipe.deferral
    assert deferral is not None
    room_of = recipe.uses[0].load
    work = deferral.load * hours
    chosen = recipe.first_of_each_slot(usd)
    room, paid = room_of[chosen] * hours, usd[chosen].copy()
    left = left_over(work, room, deferral)
    api = np.inf if deferral.api_usd_per_load_h is None else deferral.api_usd_per_load_h * float(usd_factor.mean())
    t = recipe.slot
    while left.sum() > NOTHING * work.sum():
        reachable = left @ deferral.window
        more = np.minimum(room_of * hours[t] - room[t], reachable[t])
        price = np.divide(usd - paid[t], more, out=np.full(len(usd), np.inf), where=more > NOTHING * work.sum())
        best = recipe.first_of_each_slot(price)
        best = best[np.argsort(price[best], kind="stable")]
        if price[best[0]] >= api or not np.isfinite(price[best[0]]):
            break
        alike = price[best] <= min(api, price[best[0]] * (1 + ALIKE_FRAC))
        alike[1:] &= np.cumsum(more[best])[1:] <= left.sum()
        grown = best[: int(np.argmin(alike)) or len(best)]
        at = t[grown]
        chosen[at], room[at], paid[at] = grown, room_of[grown] * hours[at], usd[grown]
        left = left_over(work, room, deferral)
    if left.sum() > NOTHING * work.sum() and deferral.api_usd_per_load_h is None:
        # Filled in another order it may fit.
        chosen = recipe.first_of_each_slot(np.where(np.isfinite(usd), -room_of, 1.0))
        left = left_over(work, room_of[chosen] * hours, deferral)
        if left.sum() > NOTHING * work.sum():
            return None
    chosen, left = _trimmed(recipe, chosen, left, usd, hours, api)
    path = _settled(recipe, chosen, left, hours)
    bill = (path.usd_per_h - recipe.usd_per_h[chosen]) * hours
    return float(usd[chosen].sum() + (bill * usd_factor).sum()), path


def _trimmed(
    recipe: Recipe, chosen: np.ndarray, left: np.ndarray, usd: np.ndarray, hours: np.ndarray, api: float
) -> tuple[np.ndarray, np.ndarray]:
    """Servings with fewer replicas if the work still fits, or the API does the rest for less.

    The less room there is elsewhere, the more is left over by a replica less: where one has to stay, it stays.
    """
    deferral, room_of = recipe.deferral, recipe.uses[0].load
    assert deferral is not None
    work, chosen, left = deferral.load * hours, chosen.copy(), left.copy()
    price = api if np.isfinite(api) else 1e9 * (1 + float(np.abs(usd[np.isfinite(usd)]).max(initial=0.0)))
    parts = [np.array(slots) for slots, _ in deferral.days or ()] or [np.arange(len(hours))]
    part_of = {t: part for part in parts for t in part.tolist()}
    """which slots share their work, directly or over others; all, where windows are of no simple kind"""

    def saves(t: int) -> list[tuple[float, int]]:
        at = int(chosen[t])
        fewer = at > 0 and recipe.slot[at - 1] == t and usd[at] > usd[at - 1]
        return [(-float(usd[at] - usd[at - 1]), -t)] if fewer else []

    waiting = [item for t in range(len(chosen)) for item in saves(t)]
    heapify(waiting)
    while waiting:
        first = heappop(waiting)
        gain, t = -first[0], -first[1]
        part, fewer = part_of[t], chosen.copy()
        fewer[t] -= 1
        less = float(room_of[chosen[t]] - room_of[fewer[t]]) * hours[t]
        idle = float((room_of[chosen[part]] * hours[part] - work[part] + left[part]).sum())
        if (less - idle) * price < gain:  # else so much at least would be left over
            then = left.copy()
            then[part] = _left_over_of_a_part(work, room_of[fewer] * hours, deferral, part)
            if (then.sum() - left.sum()) * price < gain:
                chosen, left = fewer, then
                for item in saves(t):
                    heappush(waiting, item)
    return chosen, left


def _left_over_of_a_part(work: np.ndarray, room: np.ndarray, deferral: Deferral, part: np.ndarray) -> np.ndarray:
    """Work of some slots that finds no room; no day has anything to do with another."""
    for slots, long in deferral.days or ():
        if slots[0] == part[0]:
            return np.array(_left_over_of_a_day(work[part], room[part], long))
    return left_over(work, room, deferral)


def counts_with_room(recipe: Recipe, load: np.ndarray, hours: np.ndarray) -> Recipe | None:
    """The path with the fewest replicas that can take a load [slot]; None if work is left over."""
    deferral = recipe.deferral
    assert deferral is not None
    room_of = recipe.uses[0].load
    enough = room_of >= load[recipe.slot] * (1 - 1e-9)
    chosen = recipe.first_of_each_slot(np.where(enough, room_of, 1e12 - room_of))
    left = left_over(deferral.load * hours, room_of[chosen] * hours, deferral)
    if left.sum() > NOTHING * deferral.load.sum() and deferral.api_usd_per_load_h is None:
        return None
    return _settled(recipe, chosen, left, hours)


def _settled(recipe: Recipe, chosen: np.ndarray, left: np.ndarray, hours: np.ndarray) -> Recipe:
    """The path of these servings, with what is left over on the API's bill."""
    deferral = recipe.deferral
    assert deferral is not None
    left = left if left.sum() > NOTHING * (deferral.load * hours).sum() else np.zeros(len(hours))
    bill = left * (deferral.api_usd_per_load_h or 0.0)
    path = recipe.only(chosen)
    return replace(path, usd_per_h=path.usd_per_h + bill / hours, deferral=None)


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


def left_over(work: np.ndarray, room: np.ndarray, deferral: Deferral) -> np.ndarray:
    """Work of each arrival slot that finds no room: what comes first is done first, which leaves the least.

    Where windows are of any other kind, work with the least room to go to is first, which is near enough.
    """
    if deferral.days is not None:
        over = np.zeros(len(work))
        for slots, long in deferral.days:
            over[slots] = _left_over_of_a_day(work[slots], room[slots], long)
        return over
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


def _left_over_of_a_day(work: np.ndarray, room: np.ndarray, long: int) -> list[float]:
    """Day after day, until as much waits at the end of one as at its start: what that day leaves over.

    Counted from the first hour on: all that has arrived, and all that is done or given up.
    """
    come, free = work.tolist(), room.tolist()
    arrived: list[float] = []
    over, done, before, now = [0.0] * len(come), 0.0, -1.0, 0.0
    while now > before:
        over, before = [0.0] * len(come), now
        for more, has in zip(come, free, strict=True):
            arrived.append((arrived[-1] if arrived else 0.0) + more)
            done = min(arrived[-1], done + has)
            late = len(arrived) - long
            if late >= 0 and arrived[late] > done:
                over[late % len(come)] += arrived[late] - done
                done = arrived[late]
        now = arrived[-1] - done
        if now > before and len(arrived) >= MOST_DAYS * len(come):
            # What waits still grows from day to day: so much of it is never done.
            for k in range(len(arrived) - 1, -1, -1):
                if arrived[k] <= done:
                    break
                rest = min(come[k % len(come)], arrived[k] - done)
                over[k % len(come)] += rest * (1 - before / now)
            break
    return over
