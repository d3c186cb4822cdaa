"""Separation: which cuts about whole boxes an LP solution violates; it buys fractions wherever nothing forbids it.

A workload's own boxes are whole (problems/valid_inequalities.py); so are those that workloads fill together
(problems/rounding_up.py), and those beyond commitments, where these are decided (problems/beyond_commitments.py).
"""

from __future__ import annotations

import numpy as np

from problems.beyond_commitments import Beyond, Counts
from problems.fleet_problem import FleetProblem
from problems.fleet_variables import Variables
from problems.rounding_up import BOTH, Rounded
from problems.standing_apart import APART, Apart
from problems.valid_inequalities import boxes_of
from solvers.cuts.beyond_commitments import MOST_HELD, counts_beyond, surely_enough
from solvers.cuts.picked import Picked
from solvers.cuts.rounding_up import parts_begun
from solvers.cuts.standing_apart import standing_apart
from solvers.devices import uses

SHORT_OF_A_BOX = 0.01
"""boxes by which the LP must be short before a row is added"""
ROWS_OF_A_SLOT = 8
"""inequalities that are said of one offer in one slot at most"""
MOST_GPUS = 3_000
"""GPUs of all workloads in an offer and slot up to which cuts beyond commitments are separated"""
QUIET_ROUNDS = 3
"""rounds for which a slot is skipped after no cut was found there"""
Own = tuple[str, str, str, int]
Key = tuple[str, str, int, int]
Where = tuple[str, int]
"""in-use or firm, and the slot"""
Cut = Rounded | Beyond | Apart
Quiet = dict[tuple[str, str, int], int]
"""(kind of row, offer, slot) -> calls that pass it over"""


def parts_of_boxes(
    fleet: FleetProblem, picked: list[Picked], v: Variables, x: np.ndarray, quiet: Quiet | None = None
) -> tuple[set[Own], dict[Key, Cut]]:
    """Workloads that get less than their own boxes, and offers that sell less than workloads together begin.

    `quiet` remembers from call to call where there was nothing to say, and so much longer nobody looks there.
    """
    quiet = {} if quiet is None else quiet
    quiet.update({where: left - 1 for where, left in quiet.items() if left})
    own: set[Own] = set()
    rounded: dict[Key, Cut] = {}
    slots = len(fleet.slot_hours)
    used = [p for p in picked if p.weight > 1e-9 and p.path.self_hosted]
    for g in sorted({g for p in used for g in p.path.offers}):
        on = [p for p in used if g in p.path.offers]
        if uses("cuts: beyond commitments"):
            rounded |= _beyond_commitments(fleet, on, g, v, x, quiet)
        if fleet.offers[g].box == 1:
            continue
        has = np.array([[sum(x[c] for c in of(fleet, g, t)) for of in (v.bought, v.firm)] for t in range(slots)])
        for kind, enough in zip(("in-use", "firm"), has.T, strict=True):
            needed: dict[str, np.ndarray] = {}
            for p in on:
                boxes = p.sum(boxes_of(fleet, p.path, g, kind))
                for w in p.path.workloads:
                    needed[w] = needed.get(w, np.zeros(slots)) + boxes
            for w, boxes in needed.items() if uses("cuts: own boxes") else ():
                short = np.flatnonzero(boxes > enough + SHORT_OF_A_BOX).tolist()
                own |= {(kind, w, g, t) for t in short}
        if uses("cuts: rounding up"):
            rounded |= _rounded(fleet, on, g, has, quiet)
        if uses("cuts: standing apart"):
            rounded |= _apart(fleet, on, g, has, quiet)
    return own - fleet.own_boxes, rounded


def _rounded(fleet: FleetProblem, on: list[Picked], g: str, has: np.ndarray, quiet: Quiet) -> dict[Key, Rounded]:
    """The row of each slot that the LP violates most; `has` are all instances and those that are not spot [slot, 2]."""
    box, slots = fleet.offers[g].box, len(fleet.slot_hours)
    spare = has.copy()
    shares: dict[str, np.ndarray] = {}
    for p in on:
        gpus, firm = p.path.gpus_on(g), p.path.firm_gpus_on(g)
        own = shares.setdefault(p.path.workloads[0], np.zeros((slots, box**2)))
        np.add.at(own, (p.path.slot, gpus % box * box + firm % box), p.shares)
        spare -= np.stack([p.sum(gpus), p.sum(firm)], axis=1) / box
    for own in shares.values():
        own[:, 0] += np.maximum(0.0, 1.0 - own.sum(axis=1))
    can = {w: _possible_remainders(fleet, w, g) for w in shares}
    cuts: dict[Key, Rounded] = {}
    for t in range(slots):
        number = _free_number(fleet, BOTH, g, t)
        some = {w: own[t] for w, own in shares.items() if own[t, 0] < 1 - 1e-6}
        if number is None or not some or quiet.get((BOTH, g, t)):
            continue
        parts = parts_begun(some, can, box, spare[t], SHORT_OF_A_BOX)
        if parts is not None:
            cuts[BOTH, g, t, number] = Rounded(g, t, box, *parts)
        else:
            quiet[BOTH, g, t] = QUIET_ROUNDS
    return cuts


def _apart(fleet: FleetProblem, on: list[Picked], g: str, has: np.ndarray, quiet: Quiet) -> dict[Key, Apart]:
    """The row of each slot and kind, about replicas that stand apart, that the LP violates most."""
    cuts: dict[Key, Apart] = {}
    for of, enough in zip(("in-use", "firm"), has.T, strict=True):
        kind = f"{APART} {of}"
        numbers = {t: _free_number(fleet, kind, g, t) for t in range(len(enough)) if not quiet.get((kind, g, t))}
        asked = [t for t, number in numbers.items() if number is not None]
        found = standing_apart(fleet, on, of, g, enough, asked, SHORT_OF_A_BOX)
        for t in asked:
            number = numbers[t]
            if t in found and number is not None:
                cuts[kind, g, t, number] = found[t]
            else:
                quiet[kind, g, t] = QUIET_ROUNDS
    return cuts


def _free_number(fleet: FleetProblem, kind: str, g: str, t: int) -> int | None:
    """A number that no row of a kind has in an offer and slot; None: there are as many as there may be."""
    return next((n for n in range(ROWS_OF_A_SLOT) if (kind, g, t, n) not in fleet.rounded), None)


def _beyond_commitments(
    fleet: FleetProblem, on: list[Picked], g: str, v: Variables, x: np.ndarray, quiet: Quiet
) -> dict[Key, Beyond]:
    """The row of each slot, about boxes beyond commitments that are decided, that the LP violates most."""
    reserved = sum(float(x[c]) for c in v.held(fleet, g))
    decided = _decided_commitments(fleet, g, reserved)
    if decided is None:
        return {}
    beyond, by_hour = decided
    numbers = {
        (kind, t): _free_number(fleet, kind, g, t) for kind in ("in-use", "firm") for t in range(len(fleet.slot_hours))
    }
    asked = {(kind, t) for (kind, t), n in numbers.items() if n is not None and not quiet.get((kind, g, t))}
    cuts: dict[Key, Beyond] = {}
    for (kind, t), (parts, short) in _short_beyond(fleet, on, g, v, x, beyond, by_hour, asked).items():
        number = numbers[kind, t]
        if short > SHORT_OF_A_BOX and number is not None:
            cuts[kind, g, t, number] = Beyond(kind, g, t, parts, beyond, by_hour)
        else:
            quiet[kind, g, t] = QUIET_ROUNDS
    return cuts


def short_if_decided(fleet: FleetProblem, picked: list[Picked], g: str, v: Variables, x: np.ndarray) -> float:
    """Box-hours a month that an LP solution lacks if an offer's commitments, whole in it, were decided so."""
    on = [p for p in picked if p.weight > 1e-9 and g in p.path.offers]
    held = round(sum(float(x[c]) for c in v.held(fleet, g)))
    everywhere = {(kind, t) for kind in ("in-use", "firm") for t in range(len(fleet.slot_hours))}
    shortages = _short_beyond(fleet, on, g, v, x, held, True, everywhere)
    return sum(float(fleet.weight[t]) * short for (_, t), (_, short) in shortages.items() if short > SHORT_OF_A_BOX)


def _short_beyond(
    fleet: FleetProblem,
    on: list[Picked],
    g: str,
    v: Variables,
    x: np.ndarray,
    beyond: int,
    by_hour: bool,
    asked: set[Where],
) -> dict[Where, tuple[Counts, float]]:
    """Boxes beyond so many commitments that any mixture of whole plans has more than the LP, and what says so."""
    if beyond > MOST_HELD:
        return {}
    box, slots = fleet.offers[g].box, len(fleet.slot_hours)
    reserved = sum(float(x[c]) for c in v.held(fleet, g))
    shortages: dict[Where, tuple[Counts, float]] = {}
    for kind, of in (("in-use", v.bought), ("firm", v.firm)):
        shares = _shares_of_counts(on, g, kind, slots, box * (beyond + 2))
        steps = {w: _replica_step(fleet, w, g) for w in shares}
        for t in range(slots):
            some = {w: own[t] for w, own in shares.items() if own[t, 0] < 1 - 1e-6}
            if not some or (kind, t) not in asked:
                continue
            has = sum(float(x[c]) for c in of(fleet, g, t)) - (reserved if by_hour else beyond)
            gpus = sum(map(len, some.values()))
            if gpus > MOST_GPUS or surely_enough(some, box, beyond) <= has + SHORT_OF_A_BOX:
                continue
            can = {w: np.arange(len(share)) % steps[w] == 0 for w, share in some.items()}
            parts = counts_beyond(some, can, box, beyond, has + SHORT_OF_A_BOX)
            needed = sum(float(share @ parts[w]) for w, share in some.items() if parts)
            shortages[kind, t] = parts, needed - has
    return shortages


def _decided_commitments(fleet: FleetProblem, g: str, held: float) -> tuple[int, bool] | None:
    """The number of commitments that is decided to be the most, or the fewest: whichever is nearer to the LP."""
    fewest, most = fleet.decided_commitments(g)
    if most and (not fewest or 2 * held >= fewest + most):
        return most, True
    return (fewest, False) if fewest else None


def _shares_of_counts(on: list[Picked], g: str, kind: str, slots: int, most: int) -> dict[str, np.ndarray]:
    """How often each workload uses how many GPUs of an offer in the LP [slot, GPUs]."""
    used = [(p, p.path.used_on(kind, g)) for p in on]
    largest: dict[str, int] = {}
    for p, gpus in used:
        largest[p.path.workloads[0]] = max(largest.get(p.path.workloads[0], most), int(gpus.max(initial=0)))
    shares = {w: np.zeros((slots, most + 1)) for w, most in largest.items()}
    for p, gpus in used:
        np.add.at(shares[p.path.workloads[0]], (p.path.slot, gpus), p.shares)
    for own in shares.values():
        own[:, 0] += np.maximum(0.0, 1.0 - own.sum(axis=1))
    return shares


def _possible_remainders(fleet: FleetProblem, workload: str, g: str) -> np.ndarray:
    """Remainders of a box that a workload may leave: replicas of several GPUs leave few [both as one number]."""
    one = np.arange(fleet.offers[g].box) % _replica_step(fleet, workload, g) == 0
    possible: np.ndarray = (one[:, None] & one[None, :]).ravel()
    return possible


def _replica_step(fleet: FleetProblem, workload: str, g: str) -> int:
    """GPUs that go into the box and into every replica of a workload on an offer."""
    each = [d.gpus_per_replica for pool in fleet.pools.values() if workload in pool.workloads
            for d in pool.deployments if d.offer == g]  # fmt: skip
    return int(np.gcd.reduce([fleet.offers[g].box, *each]))
