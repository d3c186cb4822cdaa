"""Mixes of two deployments of one model variant: which requests go where is decided by length, exactly.

For given counts of replicas the requests are routed by a small linear program: each deployment carries at most what
its replicas may, an outlet (the API, or nobody) takes the rest at its price, and the bill of the outlet is to be
smallest. Its dual has two variables, a price per unit of load on each deployment, and its optimum is at one of a few
corners that do not depend on the counts:

    bill(n1, n2) = max over corners (p1, p2) of
                   sum_b rate[b] min(usd[b], p1 u1[b], p2 u2[b]) - p1 cap1(n1) - p2 cap2(n2)

So one table holds every count of both. Without an outlet the first deployment takes what it is best at, up to what it
may carry, and the second must carry the rest.

Pairs are many and few of them matter: `pair_bounds` says at given prices how little each could cost.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, fields, replace

import numpy as np

from problems.recipes.pools import Api, Deployment, Pool, firm_replicas, load_by_slot
from problems.recipes.recipe import Recipe, Use
from problems.staffing import Staffing

MOST_ENTRIES = 90_000
"""slots times counts of one deployment times counts of the other that a table of two may have"""
TIED_FRAC = 1e-9
"""difference of prices up to which a corner is kept, though a bucket may have a cheaper way"""


@dataclass(frozen=True, eq=False)
class Member:
    """A deployment as part of a mix: the counts that are tried, and what so many replicas carry."""

    deployment: Deployment
    counts: np.ndarray
    """replicas, from none upward [count]"""
    carried: np.ndarray
    """[count]"""
    firm: np.ndarray
    """[slot, count]"""
    enough: np.ndarray
    """index of the count that carries all that the deployment can serve [slot]"""
    covered_alone: bool
    """whether a recipe of its own, or of one that dominates it, is as good as a mix that uses no other"""


def most_replicas(slots: int) -> int:
    """Replicas up to which all counts of a deployment are tried in a mix of two; of more, as many counts."""
    return int((MOST_ENTRIES / slots) ** 0.5)


def too_large(pool: Pool, d: Deployment) -> bool:
    """Whether a table of it and another would have too many entries."""
    staffing = d.staffing_in_a_mix
    return staffing is not None and int(staffing.replicas(load_by_slot(pool, d)).max(initial=0)) > most_replicas(
        pool.slots
    )


def member_of(pool: Pool, d: Deployment, every: bool = False, at_most: int | None = None) -> Member | None:
    """None if it cannot be part of a mix. Of a large one not every count is tried, unless asked for; the most that
    there may be is.
    """
    staffing = d.staffing_in_a_mix
    if staffing is None:
        return None
    load = load_by_slot(pool, d)
    needed = staffing.replicas(load)
    most = int(needed.max(initial=0))
    counts = np.r_[0, np.arange(staffing.min_replicas, most + 1)]
    if not every and too_large(pool, d):
        tried = np.linspace(staffing.min_replicas, most, most_replicas(pool.slots)).round().astype(int)
        own = [at_most] if at_most is not None and staffing.min_replicas <= at_most < most else []
        counts = np.unique(np.r_[0, tried, own].astype(int))
    carried = staffing.carried_load(counts)
    firm = _firm(pool, d, staffing, load, counts, carried)
    covered = d.serves_all and bool((d.staffing.in_worst_slot.carried_load(counts) >= carried * (1 - 1e-12)).all())
    return Member(d, counts, carried, _kept_small(firm, d.gpus_per_replica), np.searchsorted(counts, needed), covered)


def kind_of(d: Deployment, at_most: int | None) -> Hashable:
    """What the table of a member depends on. That of a replica is the same on every offer."""
    rules = [getattr(rule, f.name) for rule in (d.staffing, d.staffing_in_a_mix) if rule for f in fields(rule)]
    known = tuple(x.tobytes() if isinstance(x, np.ndarray) else x for x in rules)
    return d.seconds_per_request.tobytes(), d.gpus_per_replica, d.spot_allowed, at_most, known


def _kept_small(replicas: np.ndarray, gpus: int) -> np.ndarray:
    """What is the same in all slots is kept once; GPUs of replicas still fit. Members are a good part of the memory."""
    kind = np.int16 if int(replicas.max(initial=0)) * gpus < 2**15 else np.int32
    once = replicas[:1] if replicas.strides[0] == 0 else replicas
    return np.broadcast_to(once.astype(kind), replicas.shape)


def _firm(
    pool: Pool, d: Deployment, staffing: Staffing, load: np.ndarray, counts: np.ndarray, carried: np.ndarray
) -> np.ndarray:
    """Firm replicas for the critical part of what so many may carry; zones count for one deployment alone."""
    may_carry = np.minimum(carried[None, :], load[:, None])
    replicas = np.broadcast_to(counts[None, :], may_carry.shape)
    one_zone = d if d.spot_zones == 1 else _in_one_zone(d)
    return firm_replicas(pool, one_zone, staffing, may_carry, replicas)


def _in_one_zone(d: Deployment) -> Deployment:
    return replace(d, spot_zones=1)


def pair_recipe(pool: Pool, first: Member, second: Member, api: Api | None) -> Recipe | None:
    """Every useful pair of counts in every slot; None if no two serve everything and there is no outlet."""
    parts = []
    if api is None and pool.shed_usd_per_request is None:
        parts.append(_without_outlet(pool, first, second))
    else:
        for usd, shed in ((api.usd_per_request if api else None, 0.0), (pool.shed_usd_per_request, 1.0)):
            if usd is not None:
                parts.append((*_with_outlet(pool, first, second, usd), shed))
    slot, a, b, usd_per_h, shed_frac = (
        np.concatenate([np.broadcast_to(p[k], p[0].shape) for p in parts]) for k in range(5)
    )
    if len(np.unique(slot)) < pool.slots:
        return None
    order = np.argsort(slot, kind="stable")
    slot, a, b, usd_per_h, shed_frac = (x[order] for x in (slot, a, b, usd_per_h, shed_frac))
    return Recipe(
        pool=pool.key, workloads=pool.workloads, api=api.key if api else None, caching=pool.caching, slot=slot,
        uses=(_use(first, slot, a), _use(second, slot, b)),
        usd_per_h=usd_per_h * (shed_frac == 0) + pool.fixed_by_slot[slot],
        penalty_usd_per_h=usd_per_h * (shed_frac == 1), shed_frac=shed_frac,
    )  # fmt: skip


def part_recipe(pool: Pool, member: Member, api: Api | None) -> Recipe:
    """A deployment that serves some lengths only, and an outlet for the others: a mix with nobody."""
    nothing = np.zeros(1, dtype=int)
    nobody = Member(
        replace(member.deployment, seconds_per_request=np.full_like(member.deployment.seconds_per_request, np.inf)),
        nothing, np.zeros(1), np.zeros((pool.slots, 1), dtype=int), np.zeros(pool.slots, dtype=int),
        covered_alone=False,
    )  # fmt: skip
    recipe = pair_recipe(pool, member, nobody, api)
    assert recipe is not None, "there is an outlet"
    return replace(recipe, uses=recipe.uses[:1])


def _use(member: Member, slot: np.ndarray, chosen: np.ndarray) -> Use:
    d = member.deployment
    return Use(d.key, d.offer, d.gpus_per_replica, member.counts[chosen], member.firm[slot, chosen],
               member.carried[chosen])  # fmt: skip


Servings = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, float]


def _without_outlet(pool: Pool, first: Member, second: Member) -> Servings:
    """For every count of the first, the fewest of the second that carry the rest."""
    u1, u2 = first.deployment.seconds_per_request, second.deployment.seconds_per_request
    advantage = np.where(
        np.isfinite(u1), np.where(np.isfinite(u2), u1 / np.where(np.isfinite(u2), u2, 1.0), 0.0), np.inf
    )
    order = np.argsort(advantage, kind="stable")
    rate = pool.rate_rps[:, order]
    u1, u2 = u1[order], u2[order]
    on_first = np.multiply(rate, u1, out=np.zeros_like(rate), where=rate > 0)
    before = np.cumsum(np.where(np.isfinite(on_first), on_first, 0.0), axis=1) - np.where(
        np.isfinite(on_first), on_first, 0.0
    )
    room = first.carried[None, :, None] - before[:, None, :]
    with np.errstate(invalid="ignore", divide="ignore"):
        share = np.where(on_first[:, None, :] > 0, np.clip(room, 0.0, on_first[:, None, :]) / on_first[:, None, :], 1.0)
    share = np.where(np.isfinite(on_first)[:, None, :], share, 0.0)
    left = rate[:, None, :] * (1 - share)
    with np.errstate(invalid="ignore"):
        load = np.where(left > 1e-12 * (1 + rate[:, None, :]), left * u2[None, None, :], 0.0).sum(axis=2)
    possible = np.isfinite(load)
    b = np.searchsorted(second.carried, np.where(possible, load, 0.0) * (1 - 1e-12) - 1e-15)
    possible &= b < len(second.counts)
    useful = possible & (np.arange(len(first.counts))[None, :] <= first.enough[:, None])
    fewer = np.c_[
        np.full(len(b), len(second.counts)), np.minimum.accumulate(np.where(useful, b, len(second.counts)), 1)
    ]
    useful &= b < fewer[:, :-1]
    slot, a = np.nonzero(useful)
    return slot, a, b[slot, a], np.zeros(len(slot)), 0.0


def _with_outlet(
    pool: Pool, first: Member, second: Member, usd: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """For every two counts the smallest bill of the outlet; counts that save nothing are left out."""
    bill = _Dual(pool, first, second, Outlet(usd, np.full(pool.slots, 3600.0))).all_bills()
    useful = np.ones(bill.shape, dtype=bool)
    useful[:, 1:, :] &= bill[:, 1:, :] < bill[:, :-1, :] * (1 - 1e-12)
    useful[:, :, 1:] &= bill[:, :, 1:] < bill[:, :, :-1] * (1 - 1e-12)
    slot, a, b = np.nonzero(useful)
    return slot, a, b, bill[slot, a, b]


def _times(price: np.ndarray, seconds: np.ndarray) -> np.ndarray:
    """[corner, bucket]; a bucket that cannot be served is not had at any price"""
    finite = np.isfinite(seconds)
    return np.where(finite[None, :], price[:, None] * np.where(finite, seconds, 0.0)[None, :], np.inf)


def _corners(u1: np.ndarray, u2: np.ndarray, usd: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Where the pieces of the dual meet: prices of load on the two deployments at which buckets are indifferent.

    A bucket that is indifferent between two ways bends the dual only where its third way is no cheaper. Most prices at
    which two of them are indifferent are no corners for that reason, and the dual is as large at one that is.
    """
    on1, on2 = np.isfinite(u1), np.isfinite(u2)
    own1, own2 = np.where(on1, usd / u1, 0.0), np.where(on2, usd / u2, 0.0)
    with np.errstate(invalid="ignore"):
        dear1 = ~on1 | (own1[:, None] * u1 >= usd * (1 - TIED_FRAC))
        dear2 = ~on2 | (own2[:, None] * u2 >= usd * (1 - TIED_FRAC))
        cheap1 = own1[:, None] * u1 <= usd * (1 + TIED_FRAC)
        cheap2 = own2[:, None] * u2 <= usd * (1 + TIED_FRAC)
        ratio = u1 / u2
        above = ~on2[:, None] | (ratio * u2[:, None] >= u1[:, None] * (1 - TIED_FRAC))
        below = ~on1[:, None] | (u1[:, None] >= ratio * u2[:, None] * (1 - TIED_FRAC))
    i, j = np.nonzero(on1[:, None] & on2 & dear1 & dear2.T)
    by1, of1 = np.nonzero(on1[:, None] & (on1 & on2) & cheap1 & above)
    by2, of2 = np.nonzero(on2[:, None] & (on1 & on2) & cheap2 & below)
    only1, only2 = own1[on1 & ~on2], own2[on2 & ~on1]
    return (
        np.r_[0.0, only1, 0.0 * only2, own1[i], own1[by1], own2[by2] / ratio[of2]],
        np.r_[0.0, 0.0 * only1, only2, own2[j], own1[by1] * ratio[of1], own2[by2]],
    )


@dataclass(frozen=True, eq=False)
class MemberPrices:
    """What the members of a pool cost at given prices."""

    replicas_usd: list[np.ndarray]
    """so many replicas, firm ones included, by member [slot, count]"""
    outlet_usd: np.ndarray | None
    """a request a second left over [slot, bucket]"""


def may_mix(members: list[Member]) -> np.ndarray:
    """Whether two members are worth mixing: no other variant could replace both [member, member].

    On one offer the same deployment may replace both, and that is no mix: these are always worth it.
    """
    variants = sorted({v for m in members for v in m.deployment.replaced_by})
    by = np.array([[v in m.deployment.replaced_by for v in variants] for m in members], dtype=int)
    worth = by.reshape(len(members), -1) @ by.reshape(len(members), -1).T == 0
    offer = np.array([m.deployment.offer for m in members])
    return np.asarray((worth | (offer[:, None] == offer)) & ~np.eye(len(members), dtype=bool))


def pair_bounds(pool: Pool, members: list[Member], prices: MemberPrices, below: float, asked: np.ndarray) -> np.ndarray:
    """A lower bound on the servings of each two members, summed over the slots [member, member] (upper triangle); inf
    for those that are not asked for.

    Every request costs no less than on the better of the two, at the best of its counts. Where that is below a given
    value it is sharpened: in a slot one of the two serves alone, which is priced exactly; or both do. Then one of them
    has some count, and the other at least its smallest, and costs for its load no less than at the best of its counts.
    Both are of use somewhere: else it is no mix, and a recipe of one of them or of the outlet is as good.
    """
    usd = prices.replicas_usd
    bounds = np.full((len(members), len(members)), np.inf)
    asked = np.triu(asked, 1)
    per_request = np.full((len(members), *pool.rate_rps.shape), np.inf)
    for k in np.flatnonzero(asked.any(axis=0) | asked.any(axis=1)).tolist():
        per_request[k] = _least_usd(pool, members[k], usd[k])
    if prices.outlet_usd is not None:
        per_request = np.minimum(per_request, prices.outlet_usd[None])
    with np.errstate(invalid="ignore"):
        spent = np.where(pool.rate_rps[None] > 0, per_request * pool.rate_rps[None], 0.0)
    for k in np.flatnonzero(asked.any(axis=1)).tolist():
        others = np.flatnonzero(asked[k])
        bounds[k, others] = np.minimum(spent[k][None], spent[others]).sum(axis=(1, 2))
    worth = np.flatnonzero((bounds < below).any(axis=0) | (bounds < below).any(axis=1)).tolist()
    if not worth:
        return bounds
    alone, used = np.full((2, len(members), pool.slots), np.inf)
    for k in worth:
        alone[k], used[k] = _alone_usd(pool, members[k], usd[k], prices.outlet_usd)
    smallest = np.stack([u[:, 1] if u.shape[1] > 1 else np.full(pool.slots, np.inf) for u in usd])
    covered = np.array([m.covered_alone for m in members])
    by_counts = np.argsort([len(m.counts) for m in members], kind="stable")
    place = np.argsort(by_counts)
    both = np.full((len(members), len(members), pool.slots), -np.inf)
    for fewer_first in (True, False):  # what the one with fewer counts says is enough for most
        asked = np.triu(bounds < below, 1)
        asked = (asked | asked.T) & ((place[:, None] < place) == fewer_first)
        for k in np.flatnonzero(asked.any(axis=1)).tolist():
            others = np.flatnonzero(asked[k])
            both[k, others] = _both_usd(pool, members[k], usd[k], per_request[others], smallest[others])
        i, j = np.nonzero(bounds < below)
        together = np.maximum(both[i, j], both[j, i])
        least = np.minimum(np.minimum(alone[i], alone[j]), together)
        more_i = np.where(covered[j], _least_more(used[i], least), 0.0)
        more_j = np.where(covered[i], _least_more(used[j], least), 0.0)
        bounds[i, j] = least.sum(axis=1) + np.minimum(_least_more(together, least), more_i + more_j)
    return bounds


def _least_more(usd: np.ndarray, least: np.ndarray) -> np.ndarray:
    """By how much a cost exceeds the least, in the slot where that is least [pair]."""
    with np.errstate(invalid="ignore"):
        excess: np.ndarray = np.where(np.isfinite(least), usd - least, 0.0).min(axis=1)
        return excess


def _alone_usd(
    pool: Pool, m: Member, usd: np.ndarray, outlet_usd: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray | float]:
    """The cheapest count of one member, or none, with the outlet for the rest; and the cheapest count [slot]."""
    u = m.deployment.seconds_per_request
    if outlet_usd is None:
        serves = ((pool.rate_rps <= 0) | np.isfinite(u)).all(axis=1)
        enough = np.take_along_axis(usd, np.minimum(m.enough, usd.shape[1] - 1)[:, None], axis=1)[:, 0]
        each = np.where(serves, enough, np.inf)
        if usd.shape[1] < 2:
            return each, np.inf
        return each, np.where(serves & (m.enough == 0), usd[:, 1], each)
    each = usd + _bills(pool.rate_rps, u, outlet_usd[None], m.carried)[0]
    return each.min(axis=1), each[:, 1:].min(axis=1, initial=np.inf)


def _least_usd(pool: Pool, m: Member, usd: np.ndarray) -> np.ndarray:
    """What a request costs at least on a member, at the best of its counts [slot, bucket]."""
    u = m.deployment.seconds_per_request
    each = np.full(pool.rate_rps.shape, np.inf)
    if usd.shape[1] > 1:
        within = np.arange(1, len(m.counts))[None, :] <= np.maximum(m.enough, 1)[:, None]
        per_load = np.where(within, usd[:, 1:] / m.carried[None, 1:], np.inf).min(axis=1)
        each[:, np.isfinite(u)] = per_load[:, None] * u[np.isfinite(u)][None, :]
    return each


def _both_usd(pool: Pool, m: Member, usd: np.ndarray, per_request: np.ndarray, smallest: np.ndarray) -> np.ndarray:
    """Some replicas of one member, and each other member for the rest of the requests [other member, slot]."""
    if usd.shape[1] < 2:
        return np.full(smallest.shape, np.inf)
    rest = _bills(pool.rate_rps, m.deployment.seconds_per_request, per_request, m.carried[1:])
    cheapest: np.ndarray = (usd[None, :, 1:] + np.maximum(rest, smallest[:, :, None])).min(axis=2)
    return cheapest


def _bills(rate: np.ndarray, seconds: np.ndarray, usd: np.ndarray, carried: np.ndarray) -> np.ndarray:
    """Cost of what is left over when a deployment carries so much, the most expensive first [row, slot, count].

    `usd` are prices of a request [row, slot, bucket], inf where nobody else can serve it. The bill falls in straight
    lines as more is carried, so it is looked up between the loads at which a bucket is whole.
    """
    can = np.isfinite(seconds)
    asked = rate > 0
    with np.errstate(invalid="ignore"):
        never = np.where(asked & ~can, rate * usd, 0.0).sum(axis=2)
        value = np.where(asked & can, rate * usd, 0.0)
    load = np.broadcast_to(rate * np.where(can, seconds, 0.0), usd.shape)
    order = np.argsort(-np.where(can, usd / np.where(can, seconds, 1.0), -np.inf), axis=2)
    load, value = np.take_along_axis(load, order, axis=2), np.take_along_axis(value, order, axis=2)
    must = np.where(np.isinf(value), load, 0.0).sum(axis=2)
    value = np.where(np.isinf(value), 0.0, value)
    slope = np.divide(value, load, out=np.zeros_like(load), where=load > 0)
    nothing = np.zeros((*usd.shape[:2], 1))
    whole = np.concatenate((nothing, np.cumsum(load, axis=2)), axis=2)
    saved = np.concatenate((nothing, np.cumsum(value, axis=2)), axis=2)
    slope = np.concatenate((slope, nothing), axis=2)
    total = saved[:, :, -1:]
    at = _count_up_to(whole[:, :, 1:], carried)
    more = np.take_along_axis(slope, at, 2) * (carried - np.take_along_axis(whole, at, 2))
    bills = total - np.take_along_axis(saved, at, 2) - more
    bills[bills <= 1e-12 * total] = 0.0
    bills[carried < must[:, :, None] * (1 - 1e-12)] = np.inf
    whole_bills: np.ndarray = bills + never[:, :, None]
    return whole_bills


def _count_up_to(loads: np.ndarray, carried: np.ndarray) -> np.ndarray:
    """How many of the loads are no larger than what is carried, of which there is more and more [row, slot, count]."""
    rows, slots, counts = *loads.shape[:2], len(carried) + 1
    first = np.searchsorted(carried, loads).reshape(rows * slots, -1)
    reached = np.bincount((first + counts * np.arange(rows * slots)[:, None]).ravel(), minlength=rows * slots * counts)
    return reached.reshape(rows, slots, counts)[:, :, :-1].cumsum(axis=2)


def pair_value(pool: Pool, first: Member, second: Member, base: np.ndarray, outlets: list[Outlet]) -> float:
    """What the cheapest counts of two members cost, exactly, summed over the slots; inf where they cannot serve all.

    `base` is what their replicas cost [slot, count, count]. The bills of an outlet are bounded from below at first, and
    worked out only where that could be the cheapest.
    """
    if not outlets:
        slot, a, b, _, _ = _without_outlet(pool, first, second)
        least = np.full(pool.slots, np.inf)
        np.minimum.at(least, slot, base[slot, a, b])
        return float(least.sum())
    least = np.full(pool.slots, np.inf)
    for outlet in outlets:
        least = np.minimum(least, _least_with_outlet(pool, first, second, base, outlet))
    return float(least.sum())


def _least_with_outlet(pool: Pool, first: Member, second: Member, base: np.ndarray, outlet: Outlet) -> np.ndarray:
    dual = _Dual(pool, first, second, outlet)
    flat = (base + dual.lower_bounds()).reshape(pool.slots, -1)
    rows, width = np.arange(pool.slots), len(second.counts)
    exact = np.zeros(flat.shape, dtype=bool)
    while True:
        at = flat.argmin(axis=1)
        todo = rows[~exact[rows, at]]
        if not len(todo):
            return np.asarray(flat[rows, at])
        a, b = at[todo] // width, at[todo] % width
        flat[todo, at[todo]] = base[todo, a, b] + dual.bills(todo, a, b)
        exact[todo, at[todo]] = True


@dataclass(frozen=True, eq=False)
class Outlet:
    """An API, or nobody: what a request costs there, and how much that weighs in a slot."""

    usd_per_request: np.ndarray
    """[bucket]"""
    weight: np.ndarray
    """[slot]"""


class _Dual:
    """The routing of two members and an outlet, by the corners of its dual."""

    def __init__(self, pool: Pool, first: Member, second: Member, outlet: Outlet) -> None:
        u1, u2 = first.deployment.seconds_per_request, second.deployment.seconds_per_request
        self.first, self.second, self.weight = first, second, outlet.weight
        self.p1, self.p2 = _corners(u1, u2, outlet.usd_per_request)
        each = np.minimum(outlet.usd_per_request[None, :], np.minimum(_times(self.p1, u1), _times(self.p2, u2)))
        self.worth = pool.rate_rps @ each.T
        whole = pool.rate_rps @ outlet.usd_per_request
        self.nothing = 1e-12 * whole

    def bills(self, slot: np.ndarray, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        """For counts in slots, one each, weighed."""
        less = self.worth[slot] - self.first.carried[a][:, None] * self.p1 - self.second.carried[b][:, None] * self.p2
        weighed: np.ndarray = self.weight[slot] * np.maximum(less.max(axis=1) - self.nothing[slot], 0.0)
        return weighed

    def lower_bounds(self) -> np.ndarray:
        """For all counts, from a few of the corners [slot, count, count]."""
        slots = np.arange(len(self.worth))
        few: set[int] = set()
        for a in (0, len(self.first.counts) // 3, 2 * len(self.first.counts) // 3):
            for b in (0, len(self.second.counts) // 3, 2 * len(self.second.counts) // 3):
                less = self.worth - self.first.carried[a] * self.p1 - self.second.carried[b] * self.p2
                few.update(np.unique(less.argmax(axis=1)).tolist())
        best = np.zeros((len(slots), len(self.first.counts), len(self.second.counts)))
        for k in sorted(few):
            less = (
                self.worth[:, k, None, None]
                - self.p1[k] * self.first.carried[None, :, None]
                - self.p2[k] * self.second.carried[None, None, :]
            )
            np.maximum(best, less, out=best)
        weighed: np.ndarray = self.weight[:, None, None] * np.maximum(best - self.nothing[:, None, None], 0.0)
        return weighed

    def all_bills(self) -> np.ndarray:
        """For all counts [slot, count, count]."""
        bill = np.empty((len(self.worth), len(self.first.counts), len(self.second.counts)))
        for n, carried in enumerate(self.first.carried.tolist()):
            less = (self.worth - self.p1 * carried)[:, None, :] - self.second.carried[None, :, None] * self.p2
            bill[:, n, :] = less.max(axis=2)
        weighed: np.ndarray = self.weight[:, None, None] * np.maximum(bill - self.nothing[:, None, None], 0.0)
        return weighed
