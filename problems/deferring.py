"""Work that may wait, given what a count of replicas costs in each slot: which counts to run.

Exactly this is a small mixed-integer program. Here counts grow step by step, always where the work still to do costs
least, until all is done or the API is cheaper. It is near the best, quick, and always feasible.
"""

from __future__ import annotations

from collections import deque
from dataclasses import replace

import numpy as np

from problems.recipes import Deferral, Recipe

MOST_DAYS = 4
"""that are looked at one after the other"""
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
    if left.sum() > NOTHING * work.sum() and deferral.api_usd_per_load_h is None:
        # Filled in another order it fits: recipes whose largest counts cannot do the work are left out beforehand.
        chosen, left = recipe.first_of_each_slot(-room_of), np.zeros(slots)
    else:
        chosen, left = _trimmed(recipe, chosen, left, usd, hours, api)
    path = _settled(recipe, chosen, left, hours)
    bill = (path.usd_per_h - recipe.usd_per_h[chosen]) * hours
    return float(usd[chosen].sum() + (bill * usd_factor).sum()), path


def _trimmed(
    recipe: Recipe, chosen: np.ndarray, left: np.ndarray, usd: np.ndarray, hours: np.ndarray, api: float
) -> tuple[np.ndarray, np.ndarray]:
    """The same servings with fewer replicas where the work still fits, or the API does the rest for less."""
    deferral, room_of = recipe.deferral, recipe.uses[0].load
    assert deferral is not None
    work, chosen = deferral.load * hours, chosen.copy()
    price = api if np.isfinite(api) else 1e9 * (1 + float(np.abs(usd).max(initial=0.0)))
    while True:
        saved = [
            (float(usd[at] - usd[at - 1]), t)
            for t, at in enumerate(chosen.tolist())
            if at > 0 and recipe.slot[at - 1] == t and usd[at] > usd[at - 1]
        ]
        for gain, t in sorted(saved, reverse=True):
            fewer = chosen.copy()
            fewer[t] -= 1
            then = _left_over(work, room_of[fewer] * hours, deferral)
            if (then.sum() - left.sum()) * price < gain:
                chosen, left = fewer, then
                break
        else:
            return chosen, left


def counts_with_room(recipe: Recipe, load: np.ndarray, hours: np.ndarray) -> Recipe | None:
    """The path with the fewest replicas that can take a load [slot]; None where work is left over."""
    deferral = recipe.deferral
    assert deferral is not None
    room_of = recipe.uses[0].load
    enough = room_of >= load[recipe.slot] * (1 - 1e-9)
    chosen = recipe.first_of_each_slot(np.where(enough, room_of, 1e12 - room_of))
    left = _left_over(deferral.load * hours, room_of[chosen] * hours, deferral)
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


def _left_over(work: np.ndarray, room: np.ndarray, deferral: Deferral) -> np.ndarray:
    """Work of each arrival slot that finds no room: what comes first is done first, which leaves the least.

    Where windows are of any other kind, work with the least room to go to is first, which is near enough.
    """
    if deferral.days is not None:
        return _in_order_of_arrival(work, room, deferral.days)
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


def _in_order_of_arrival(work: np.ndarray, room: np.ndarray, days: list[tuple[list[int], int]]) -> np.ndarray:
    """Day after day, until as much waits at the end of one as at its start: what that day leaves over."""
    left = np.zeros(len(work))
    come, free = work.tolist(), room.tolist()
    for slots, long in days:
        waiting: deque[list[float]] = deque()
        over, before = {}, -1.0
        now, hour = 0.0, 0
        while now > before:
            over, before = dict.fromkeys(slots, 0.0), now
            for slot in slots:
                waiting.append([float(hour), come[slot]])
                has = free[slot]
                while waiting and has > 0:
                    done = min(has, waiting[0][1])
                    has -= done
                    waiting[0][1] -= done
                    if waiting[0][1] > 0:
                        break
                    waiting.popleft()
                while waiting and hour - waiting[0][0] >= long - 1:
                    arrived, rest = waiting.popleft()
                    over[slots[int(arrived) % len(slots)]] += rest
                hour += 1
            now = sum(rest for _, rest in waiting)
            if now > before and hour >= MOST_DAYS * len(slots):
                # What waits still grows from day to day: so much of it is never done.
                for arrived, rest in waiting:
                    over[slots[int(arrived) % len(slots)]] += rest * (1 - before / now)
                break
        for slot, rest in over.items():
            left[slot] = rest
    return left
