"""Recipes with at most one deployment: an API alone, nobody at all, or a deployment with something for the rest.

The rest of a slot goes to the API or is shed, all of it one way. Which requests stay on the GPUs is a continuous
knapsack whose size is the load kept: those whose outlet is most expensive per unit of load stay, which is exact.
A deployment that serves some lengths only leaves the others to the outlet.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from problems.recipes.pairs import member_of, part_recipe
from problems.recipes.pools import Api, Deployment, Pool, firm_replicas, load_by_slot
from problems.recipes.recipe import Deferral, Recipe, Use

MOST_STEPS = 48
"""counts of replicas up to which overflow is tried at each"""
COARSE_STEPS = 16
"""counts that are tried of more than those, and as many near what carries everything"""
FINE_COUNTS = 60
"""counts of replicas up to which each is tried for work that may wait"""
COARSE_FRAC = 0.03
"""from one count to the next beyond those"""


def recipes_of(pool: Pool, slot_hours: np.ndarray) -> list[Recipe]:
    """Every recipe of a pool with at most one deployment.

    A deployment with an API may carry everything in every slot, so it includes the deployment alone.
    """
    apis = pool.apis_beside_gpus
    without_gpus = [_no_gpus(pool, api) for api in apis if api or pool.shed_usd_per_request is not None]
    hosted = [d for d in pool.deployments if d.serves_all and d.alone]
    if pool.window is not None:
        return without_gpus + [_deferred(pool, d, api, slot_hours) for d in hosted for api in apis]
    return without_gpus + [_one_deployment(pool, d, api) for d in hosted for api in apis] + _in_part(pool)


def _in_part(pool: Pool) -> list[Recipe]:
    """Deployments that serve some lengths only, and an outlet for the others."""
    outlets = [api for api in pool.apis_beside_gpus if api or pool.shed_usd_per_request is not None]
    members = [member_of(pool, d, every=True) for d in pool.deployments if not d.serves_all and d.alone]
    return [part_recipe(pool, member, api) for member in members if member is not None for api in outlets]


def with_every_count(pool: Pool, recipe: Recipe, slot_hours: np.ndarray) -> Recipe:
    """A recipe of one deployment with every count of replicas, where some were left out."""
    return _again(pool, recipe, slot_hours, every=True)


def with_the_most(pool: Pool, recipe: Recipe, slot_hours: np.ndarray, most: int) -> Recipe:
    """A recipe of one deployment that tries the most replicas that there may be, where some counts were left out.

    Else a quota between two counts would leave the smaller one only, and forbid what it allows.
    """
    return _again(pool, recipe, slot_hours, at_most=most)


def _again(
    pool: Pool, recipe: Recipe, slot_hours: np.ndarray, every: bool = False, at_most: int | None = None
) -> Recipe:
    deployment = next(d for d in pool.deployments if d.key == recipe.uses[0].deployment)
    api = next((api for api in pool.apis if api.key == recipe.api), None)
    if pool.window is not None:
        return _deferred(pool, deployment, api, slot_hours, every, at_most)
    return _one_deployment(pool, deployment, api, every, at_most)


def kept_share(rate_rps: np.ndarray, seconds: np.ndarray, usd: np.ndarray, load: np.ndarray) -> np.ndarray:
    """Share of each bucket that stays on the GPUs when they carry this load, the most expensive first [row, bucket]."""
    order = np.argsort(-usd / seconds, kind="stable")
    bucket_load = (rate_rps * seconds)[:, order]
    before = np.cumsum(bucket_load, axis=1) - bucket_load
    kept = np.clip(load[:, None] - before, 0.0, bucket_load)
    share: np.ndarray = np.empty_like(kept)
    share[:, order] = np.divide(kept, bucket_load, out=np.zeros_like(kept), where=bucket_load > 0)
    return share


def _no_gpus(pool: Pool, api: Api | None) -> Recipe:
    """All from the API, or shed: any share of the requests, alike for all lengths."""
    slots = pool.slots
    ways = [_Rest(3600 * pool.rate_rps @ api.usd_per_request, shed=False)] if api else []
    if pool.shed_usd_per_request is not None:
        ways.append(_Rest(3600 * pool.rate_rps @ pool.shed_usd_per_request, shed=True))
    slot = np.repeat(np.arange(slots), len(ways))
    usd = np.stack([w.usd_per_h * (not w.shed) for w in ways], axis=1).ravel()
    penalty = np.stack([w.usd_per_h * w.shed for w in ways], axis=1).ravel()
    return Recipe(
        pool=pool.key, workloads=pool.workloads, uses=(), api=api.key if api else None, caching=pool.caching, slot=slot,
        usd_per_h=usd + pool.fixed_by_slot[slot], penalty_usd_per_h=penalty,
        shed_frac=np.tile(np.array([float(w.shed) for w in ways]), slots),
    )  # fmt: skip


@dataclass(frozen=True, eq=False)
class _Rest:
    usd_per_h: np.ndarray
    shed: bool


@dataclass(frozen=True, eq=False)
class _Servings:
    """Some servings of one deployment, before they are sorted by slot."""

    slot: np.ndarray
    load: np.ndarray
    replicas: np.ndarray
    usd_per_h: np.ndarray
    shed: bool


def _one_deployment(
    pool: Pool, d: Deployment, api: Api | None, every: bool = False, at_most: int | None = None
) -> Recipe:
    """The GPUs carry up to a load and an outlet takes the rest, in every slot."""
    load = load_by_slot(pool, d)
    whole = d.staffing.replicas(load)
    parts = [_Servings(np.arange(pool.slots), load, whole, np.zeros(pool.slots), shed=False)]
    between: list[_Servings] = []
    for usd, shed in ((api.usd_per_request if api else None, False), (pool.shed_usd_per_request, True)):
        if usd is not None:
            part, skipped = _overflow(pool, d, usd, load, whole, shed, every, at_most)
            parts.append(part)
            between += [skipped] if skipped is not None else []
    if d.spot_zones > 1 and pool.spot_allowed:
        parts = [p for part in parts for p in _with_spares(part, d.spot_zones)]
    recipe = _joined(pool, d, api, parts)
    return replace(recipe, between=_skipped(_joined(pool, d, api, between), d)) if between else recipe


def _overflow(
    pool: Pool,
    d: Deployment,
    usd: np.ndarray,
    load: np.ndarray,
    whole: np.ndarray,
    shed: bool,
    every: bool,
    at_most: int | None,
) -> tuple[_Servings, _Servings | None]:
    """Servings that leave a part to an outlet; and, where not all were tried, what those between could cost at least.

    Of all loads only those matter beyond which one more replica, or one more firm replica, would be needed; plus none.
    Of many replicas every few are tried, all near what carries everything, and as many as there may be.
    """
    rule, factor = replace(d.staffing, load_factor=1.0), np.broadcast_to(d.staffing.load_factor, (pool.slots,))
    fewest, most, by_rule = d.staffing.min_replicas, int(whole.max(initial=0)), load / factor
    few = every or most - fewest < MOST_STEPS
    if few:
        counts = np.arange(fewest, most + 1)
        steps = rule.carried_load(counts)
        if pool.spot_allowed and 0 < pool.critical_share < 1:
            steps = np.concatenate([steps, steps / pool.critical_share])
        loads = np.unique(np.r_[0.0, steps])
        slot, choice = np.nonzero(loads[None, :] < by_rule[:, None] * (1 - 1e-12))
    else:
        counts = np.arange(max(1, fewest), most + 1)
        coarse = np.isin(counts, np.linspace(fewest, most, COARSE_STEPS).astype(int))
        near = (counts >= whole[:, None] - COARSE_STEPS) & (counts < whole[:, None])
        tried = np.column_stack([np.ones(pool.slots, dtype=bool), coarse | near | (counts == at_most)])
        loads = np.append(0.0, rule.carried_load(counts))
        slot, choice = np.nonzero(tried & (loads < by_rule[:, None] * (1 - 1e-12)))
    kept, staffing = factor[slot] * loads[choice], d.staffing.in_slots(slot)

    def bill(loads: np.ndarray) -> np.ndarray:
        share = kept_share(pool.rate_rps[slot], d.seconds_per_request, usd, loads)
        usd_per_h: np.ndarray = 3600 * (pool.rate_rps[slot] * (1 - share)) @ usd
        return usd_per_h

    bills = bill(kept)
    servings = _Servings(slot, kept, staffing.replicas(kept), bills, shed)
    if few:
        return servings, None
    last = np.r_[np.diff(slot) != 0, True]
    next_bill = np.where(last, 0.0, np.r_[bills[1:], 0.0])
    more = kept * (1 + 1e-9) + 1e-12
    return servings, _Servings(slot, more, staffing.replicas(more), next_bill, shed)


def _skipped(recipe: Recipe, d: Deployment) -> Recipe:
    """Spread over zones, spare replicas could be had that need no firm one."""
    use = recipe.uses[0]
    return recipe if d.spot_zones == 1 else replace(recipe, uses=(replace(use, firm_replicas=0 * use.replicas),))


def _with_spares(part: _Servings, zones: int) -> list[_Servings]:
    """Replicas more than needed let more of them be spot, where spot is spread over several zones."""
    most = int(part.replicas.max(initial=0)) // (zones - 1) + 1
    spares = [part]
    for extra in range(1, most + 1):
        useful = (part.replicas > 0) & (part.replicas // (zones - 1) + 1 >= extra)
        spares.append(
            replace(
                part, slot=part.slot[useful], load=part.load[useful], replicas=part.replicas[useful] + extra,
                usd_per_h=part.usd_per_h[useful],
            )
        )  # fmt: skip
    return spares


def _joined(pool: Pool, d: Deployment, api: Api | None, parts: list[_Servings]) -> Recipe:
    slot = np.concatenate([p.slot for p in parts])
    order = np.argsort(slot, kind="stable")

    def join(arrays: list[np.ndarray]) -> np.ndarray:
        return np.concatenate(arrays)[order]

    slot, load = slot[order], join([p.load for p in parts])
    replicas = join([p.replicas for p in parts])
    staffing = d.staffing.in_slots(slot)
    return Recipe(
        pool=pool.key, workloads=pool.workloads, api=api.key if api else None, caching=pool.caching, slot=slot,
        uses=(
            Use(d.key, d.offer, d.gpus_per_replica, replicas, firm_replicas(pool, d, staffing, load, replicas), load),
        ),
        usd_per_h=join([p.usd_per_h * (not p.shed) for p in parts]) + pool.fixed_by_slot[slot],
        penalty_usd_per_h=join([p.usd_per_h * p.shed for p in parts]),
        shed_frac=join([np.full(len(p.slot), float(p.shed)) for p in parts]),
    )  # fmt: skip


def _deferred(
    pool: Pool,
    d: Deployment,
    api: Api | None,
    slot_hours: np.ndarray,
    every: bool = False,
    at_most: int | None = None,
) -> Recipe:
    """Work that may wait: in every slot none or any count from the fewest on, and the load that they can take."""
    assert pool.window is not None
    load = load_by_slot(pool, d)
    most = d.staffing.replicas((load * slot_hours) @ pool.window / slot_hours)
    most = most if at_most is None else np.minimum(most, at_most)
    allowed = np.r_[0, np.arange(max(1, d.staffing.min_replicas), int(most.max(initial=0)) + 1)]
    tried = np.arange(len(allowed)) if every else _counts_up_to(len(allowed) - 1)
    counts = allowed[tried]
    slot, choice = np.nonzero(np.arange(len(counts))[None, :] <= np.searchsorted(counts, most)[:, None])
    replicas = counts[choice]
    carried = d.staffing.carried_load(replicas)
    lot = float(d.staffing.carried_load(allowed[1:2])[0]) if len(allowed) > 1 else 0.0
    price = None
    if api is not None:
        each = pool.rate_rps.sum(axis=0)
        price = 3600 * float(each @ api.usd_per_request) / float(each @ d.seconds_per_request)
    recipe = Recipe(
        pool=pool.key, workloads=pool.workloads, api=api.key if api else None, caching=pool.caching, slot=slot,
        uses=(
            Use(
                d.key, d.offer, d.gpus_per_replica, replicas, firm_replicas(pool, d, d.staffing, carried, replicas),
                carried,
            ),
        ),
        usd_per_h=pool.fixed_by_slot[slot].astype(float), penalty_usd_per_h=np.zeros(len(slot)),
        shed_frac=np.zeros(len(slot)), deferral=Deferral(load, pool.window, slot_hours, price, lot),
    )  # fmt: skip
    if len(counts) == len(allowed):
        return recipe
    load_of_each = d.staffing.carried_load(allowed)
    firm = np.minimum.reduceat(firm_replicas(pool, d, d.staffing, load_of_each, allowed), tried)
    reached = load_of_each[np.r_[tried[1:] - 1, tried[-1]]]
    at_best = replace(recipe.uses[0], firm_replicas=firm[choice], load=reached[choice])
    return replace(recipe, between=replace(recipe, uses=(at_best,)))


def _counts_up_to(most: int) -> np.ndarray:
    """Every count that work would need if it did not wait, and fewer of those that much of it at once would need."""
    counts = list(range(min(most, FINE_COUNTS) + 1))
    while counts[-1] < most:
        counts.append(min(most, max(counts[-1] + 1, int(counts[-1] * (1 + COARSE_FRAC)))))
    return np.array(counts)
