"""Who serves which requests in a plan: the flows behind a path.

With one deployment they follow from the load it keeps. In a mix, and for work that may wait, they come from a small
linear program whose outcome the path has already paid for.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from problems.model import Column, Row, build_model
from problems.recipes.pools import Deployment, Pool
from problems.recipes.recipe import Deferral, Recipe
from problems.recipes.singles import kept_share
from solvers.backends.highs import solve_lp

ROOM = 1e-9
"""relative room that rounding is given"""


@dataclass(frozen=True, eq=False)
class Flows:
    """Requests a second of a pool [slot, bucket]."""

    uses: tuple[np.ndarray, ...]
    """by deployment, as the path lists them; of work that may wait: when it arrives"""
    api: np.ndarray
    shed: np.ndarray
    moved: np.ndarray | None = None
    """share of the deferrable work that arrives in a slot and is done in another [arrival slot, slot]"""


def flows_of(pool: Pool, path: Recipe, slot_hours: np.ndarray) -> Flows:
    """The flows of a path (one serving per slot) of a pool."""
    rate = pool.rate_rps
    deployments = {d.key: d for d in pool.deployments}
    members = [deployments[use.deployment] for use in path.uses]
    if pool.window is not None and members:
        return _deferred(pool, path, members[0], slot_hours)
    if not members:
        kept: list[np.ndarray] = []
    elif len(members) == 1 and members[0].serves_all:
        kept = [rate * _kept_by_one(pool, path, members[0])]
    else:
        kept = _kept_by_several(pool, path, members)
    rest = np.maximum(rate - sum(kept, np.zeros_like(rate)), 0.0)
    rest[rest <= ROOM * rate] = 0.0
    shed = rest * path.shed_frac[:, None]
    return Flows(tuple(kept), rest - shed, shed)


def _outlet_usd(pool: Pool, path: Recipe) -> np.ndarray | None:
    """Price of what the GPUs do not carry [slot, bucket], in money or as a penalty."""
    api = next((a.usd_per_request for a in pool.apis if a.key == path.api), None)
    if api is None and pool.shed_usd_per_request is None:
        return None
    nothing = np.zeros(pool.rate_rps.shape[1])
    shed = pool.shed_usd_per_request if pool.shed_usd_per_request is not None else nothing
    return np.where(path.shed_frac[:, None] > 0, shed[None, :], (api if api is not None else shed)[None, :])


def _kept_by_one(pool: Pool, path: Recipe, d: Deployment) -> np.ndarray:
    usd = _outlet_usd(pool, path)
    load = path.uses[0].load
    share = np.ones_like(pool.rate_rps)
    whole = load >= (pool.rate_rps @ d.seconds_per_request) * (1 - ROOM)
    if usd is not None:
        sheds = path.shed_frac > 0
        for rows in (np.flatnonzero(~whole & sheds), np.flatnonzero(~whole & ~sheds)):
            if rows.size:
                share[rows] = kept_share(pool.rate_rps[rows], d.seconds_per_request, usd[rows[0]], load[rows])
    return share


def _kept_by_several(pool: Pool, path: Recipe, members: list[Deployment]) -> list[np.ndarray]:
    """min the outlet's bill: sum of flows = rate, and no deployment carries more than its replicas may."""
    usd = _outlet_usd(pool, path)
    columns: list[Column] = []
    at: dict[tuple[int, int, int], int] = {}
    rows: list[Row] = []
    for t, b in zip(*np.nonzero(pool.rate_rps), strict=True):
        terms = []
        for k, d in enumerate(members):
            if path.uses[k].replicas[t] and np.isfinite(d.seconds_per_request[b]):
                at[k, t, b] = len(columns)
                terms.append((len(columns), 1.0))
                columns.append(Column(("kept", k, int(t), int(b)), 0.0, upper=1.0))
        if usd is not None:
            terms.append((len(columns), 1.0))
            columns.append(Column(("rest", int(t), int(b)), float(pool.rate_rps[t, b] * usd[t, b]), upper=1.0))
        rows.append(Row(("all", int(t), int(b)), terms, "==", 1.0))
    for k, d in enumerate(members):
        for t in np.flatnonzero(path.uses[k].replicas).tolist():
            can = np.isfinite(d.seconds_per_request)
            load = pool.rate_rps[t] * np.where(can, d.seconds_per_request, 0.0)
            terms = [(at[k, t, b], float(load[b])) for b in range(len(load)) if (k, t, b) in at]
            rows.append(Row(("carried", k, t), terms, "<=", float(path.uses[k].load[t]) * (1 + ROOM)))
    lp = solve_lp(build_model(columns, [row for row in rows if row.terms]))
    if lp.x is None:
        raise RuntimeError(f"the requests of {pool.key} cannot be routed as planned ({lp.status}); please report this")
    kept = [np.zeros_like(pool.rate_rps) for _ in members]
    for (k, t, b), column in at.items():
        kept[k][t, b] = pool.rate_rps[t, b] * min(max(float(lp.x[column]), 0.0), 1.0)
    return kept


def _deferred(pool: Pool, path: Recipe, d: Deployment, slot_hours: np.ndarray) -> Flows:
    assert pool.window is not None
    load = pool.rate_rps @ d.seconds_per_request
    moved = work_moved(Deferral(load, pool.window, slot_hours, 0.0 if path.api else None), path.uses[0].load)
    if moved is None:
        raise RuntimeError(f"the work of {pool.key} does not fit where it was planned; please report this")
    own = np.minimum(moved.sum(axis=1), 1.0)
    own[own > 1 - ROOM] = 1.0
    api = pool.rate_rps * (1 - own)[:, None]
    return Flows((pool.rate_rps - api,), api, np.zeros_like(api), moved)


def work_moved(deferral: Deferral, room: np.ndarray) -> np.ndarray | None:
    """Share of the work of each arrival slot that is done in each slot, as much as fits; None if some must stay.

    Work that need not move stays where it is: a move costs a little in this program, and nothing in the plan.
    """
    slots = len(deferral.load)
    columns: list[Column] = []
    of_arrival: list[list[tuple[int, float]]] = [[] for _ in range(slots)]
    in_slot: list[list[tuple[int, float]]] = [[] for _ in range(slots)]
    moves = [(h, t) for h, t in zip(*np.nonzero(deferral.window), strict=True) if deferral.load[h] > 0 and room[t] > 0]
    for h, t in moves:
        work = float(deferral.load[h] * deferral.hours[h])
        of_arrival[h].append((len(columns), 1.0))
        in_slot[t].append((len(columns), work))
        columns.append(Column(("moved", int(h), int(t)), work * ((h != t) * 1e-3 - 1.0), upper=1.0))
    if not columns:
        done = np.zeros((slots, slots))
        return done if deferral.api_usd_per_load_h is not None or not deferral.load.any() else None
    rows = [Row(("work", h), terms, "<=", 1.0) for h, terms in enumerate(of_arrival) if terms]
    rows += [
        Row(("room", t), terms, "<=", float(room[t] * deferral.hours[t]) * (1 + ROOM))
        for t, terms in enumerate(in_slot)
        if terms
    ]
    lp = solve_lp(build_model(columns, rows))
    if lp.x is None:
        return None
    moved = np.zeros((slots, slots))
    for (h, t), share in zip(moves, lp.x.tolist(), strict=True):
        moved[h, t] = min(max(share, 0.0), 1.0)
    missing = (deferral.load > 0) & (moved.sum(axis=1) < 1 - 1e-6)
    return None if missing.any() and deferral.api_usd_per_load_h is None else moved
