"""What each pool may do: who serves it over the whole horizon, and with how many replicas in each slot."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

import numpy as np

from problems.recipes.pools import Api, Deployment, Pool
from problems.staffing import Staffing
from tests.oracle.rules import SIZES, firm_count, in_slot, least_outlet_cost, max_utilization, replicas_for
from tests.support.fleets import Case


@dataclass(frozen=True)
class Choice:
    """Who serves a pool: no deployment, one, or a mix of two, and at most one API beside them."""

    pool: str
    deployments: tuple[str, ...]
    api: str | None


@dataclass(frozen=True)
class Work:
    """Work of a pool that may wait, by arrival slot, and its price at the API per unit (None: no API)."""

    load_hours: np.ndarray
    window: np.ndarray
    usd: float | None


@dataclass(frozen=True)
class Menu:
    """Everything that may be done in one slot; row k of each array is one way. Money in USD/h."""

    gpus: np.ndarray
    """in replicas of 1, 2, 4 and 8 [way, offer, size]"""
    firm: np.ndarray
    """GPUs that must not be spot [way, offer, size]"""
    money: np.ndarray
    penalty: np.ndarray
    room: np.ndarray
    """load that may be done here of each pool whose work waits [way, such pool]"""

    def only(self, ways: np.ndarray) -> Menu:
        return Menu(self.gpus[ways], self.firm[ways], self.money[ways], self.penalty[ways], self.room[ways])

    def times(self, other: Menu) -> Menu:
        """Every way of one with every way of the other."""
        i, j = (x.ravel() for x in np.indices((len(self.money), len(other.money))))
        return Menu(
            self.gpus[i] + other.gpus[j],
            self.firm[i] + other.firm[j],
            self.money[i] + other.money[j],
            self.penalty[i] + other.penalty[j],
            np.concatenate([self.room[i], other.room[j]], axis=1),
        )

    def without_worse(self) -> Menu:
        """Without ways that need no less of anything, cost no less and have no more room than another."""
        gpus, firm = (used.reshape(len(used), -1) for used in (self.gpus, self.firm))
        every = np.concatenate([gpus, firm, self.money[:, None], self.penalty[:, None], -self.room], axis=1)
        differing = (every != every[0]).any(axis=0)
        if not differing.any():
            return self.only(np.array([0]))
        every = every[:, differing]
        _, first = np.unique(every, axis=0, return_index=True)
        found, every = self.only(first), every[first]
        no_more = (every[:, None, :] <= every[None, :, :]).all(axis=2)
        np.fill_diagonal(no_more, False)
        return found.only(~no_more.any(axis=0))


@dataclass(frozen=True)
class Served:
    """A choice worked out: its menus by slot, and what ties slots together."""

    choice: Choice
    workloads: tuple[str, ...]
    offers: frozenset[int]
    menus: tuple[Menu, ...]
    work: Work | None = None
    either: tuple[tuple[float, float], ...] = field(default=())
    """without GPUs, any share may be shed instead of going to the API: USD/h of all at the API, of all shed [slot]"""


WayFilter = Callable[[Choice, int, "Way"], bool]


def served_ways(case: Case, pool: Pool, allowed: WayFilter = lambda choice, slot, way: True) -> list[Served]:
    """Every choice of a pool that can serve every slot; of its ways only those that are not worse than another."""
    number = {g: k for k, g in enumerate(case.offers)}
    found = []
    for members, api in _choices(pool, bool(case.vendors.of_api)):
        choice = Choice(pool.key, tuple(d.key for d in members), api.key if api else None)
        menus, work = [], None
        if pool.window is not None and members:
            work = _work(case, pool, members[0], api)
        for t in range(pool.slots):
            if work is not None:
                ways = list(_deferred(case, pool, members[0], t))
            elif len(members) == 2 or (members and not _serves_all(members[0])):
                ways = list(_mixed(pool, members, api, t))
            elif members:
                ways = list(_alone(pool, members[0], api, t))
            else:
                ways = list(_without_gpus(pool, api, t))
            ways = [way for way in ways if allowed(choice, t, way)]
            if not ways:
                break
            menus.append(_menu(case, pool, members, ways, t).without_worse())
        if len(menus) == pool.slots:
            used = frozenset(number[d.offer] for d in members)
            either = ()
            if not members and api is not None and pool.shed_usd_per_request is not None:
                either = tuple(_either(pool, api, t) for t in range(pool.slots))
            found.append(Served(choice, pool.workloads, used, tuple(menus), work, either))
    return found


def _serves_all(d: Deployment) -> bool:
    return bool(np.isfinite(d.seconds_per_request).all())


def _choices(pool: Pool, or_no_api: bool = False) -> Iterator[tuple[tuple[Deployment, ...], Api | None]]:
    """Where having an API costs something, doing without it is a choice of its own."""
    apis: tuple[Api | None, ...] = pool.apis or (None,)
    if or_no_api and pool.apis:
        apis = (*apis, None)
    for api in apis:
        if api is not None or pool.shed_usd_per_request is not None:
            yield (), api
        for d in pool.deployments:
            outlet = api is not None or pool.shed_usd_per_request is not None
            if _serves_all(d) or (outlet and d.staffing_in_a_mix is not None):
                yield (d,), api
        if pool.max_deployments >= 2:
            mixable = [d for d in pool.deployments if d.staffing_in_a_mix is not None]
            for two in itertools.combinations(mixable, 2):
                if two[0].variant == two[1].variant:
                    yield two, api


@dataclass(frozen=True)
class Way:
    """Replicas of each deployment of a choice, those that must not be spot, and what the rest costs [USD/h]."""

    replicas: tuple[int, ...]
    firm: tuple[int, ...]
    money: float = 0.0
    penalty: float = 0.0
    room: float | None = None


def _menu(case: Case, pool: Pool, members: tuple[Deployment, ...], ways: list[Way], t: int) -> Menu:
    number = {g: k for k, g in enumerate(case.offers)}
    gpus, firm = (np.zeros((len(ways), len(number), len(SIZES)), dtype=int) for _ in range(2))
    for k, way in enumerate(ways):
        for d, n, safe in zip(members, way.replicas, way.firm, strict=True):
            size = SIZES.index(d.gpus_per_replica)
            gpus[k, number[d.offer], size] += n * d.gpus_per_replica
            firm[k, number[d.offer], size] += safe * d.gpus_per_replica
    fixed = float(np.broadcast_to(pool.fixed_usd_per_h, (pool.slots,))[t])
    room = np.array([[way.room] for way in ways if way.room is not None]).reshape(len(ways), -1)
    money, penalty = (np.array([getattr(way, what) for way in ways]) for what in ("money", "penalty"))
    energy = gpus.sum(axis=2) @ np.array([offer.usd_per_gpu_h for offer in case.offers.values()])
    return Menu(gpus, firm, money + fixed + energy, penalty, room)


def _outlets(pool: Pool, api: Api | None) -> list[tuple[list[float], str]]:
    """What leaving costs by the bucket, and whether that is money or a penalty."""
    found = []
    if api is not None:
        found.append((api.usd_per_request.tolist(), "money"))
    if pool.shed_usd_per_request is not None:
        found.append((np.asarray(pool.shed_usd_per_request).tolist(), "penalty"))
    return found


def _bill(pool: Pool, usd: list[float], t: int) -> float:
    return 3600 * sum(rate * each for rate, each in zip(pool.rate_rps[t].tolist(), usd, strict=True))


def _without_gpus(pool: Pool, api: Api | None, t: int) -> Iterator[Way]:
    """All to the API, or all shed. Where both may be, `_either` says what each costs, and the menu holds neither."""
    outlets = _outlets(pool, api)
    if len(outlets) == 2:
        yield Way((), ())
        return
    ((usd, kind),) = outlets
    yield replace(Way((), ()), **{kind: _bill(pool, usd, t)})


def _either(pool: Pool, api: Api, t: int) -> tuple[float, float]:
    (api_usd, _), (shed_usd, _) = _outlets(pool, api)
    return _bill(pool, api_usd, t), _bill(pool, shed_usd, t)


def _alone(pool: Pool, d: Deployment, api: Api | None, t: int) -> Iterator[Way]:
    """n replicas, of which the critical load needs m, and a load that both allow; the rest leaves one way."""
    staffing = in_slot(d.staffing, t, pool.slots)
    rates, seconds = pool.rate_rps[t].tolist(), d.seconds_per_request.tolist()
    whole = sum(rate * u for rate, u in zip(rates, seconds, strict=True))
    enough = replicas_for(staffing, whole)
    may_be_spot = pool.spot_allowed and (d.spot_allowed or pool.critical_share == 0)
    most = 2 * enough + 1 if d.spot_zones > 1 and may_be_spot else enough
    for n in (0, *range(staffing.min_replicas, most + 1)):
        for load in _loads(pool, staffing, n, whole, may_be_spot):
            firm = firm_count(pool, d, staffing, load, n)
            if load >= whole * (1 - 1e-12):
                yield Way((n,), (firm,))
                continue
            for usd, kind in _outlets(pool, api):
                (cost,) = least_outlet_cost(rates, [seconds], np.array([[load]]), usd)
                yield replace(Way((n,), (firm,)), **{kind: 3600 * float(cost)})


def _loads(pool: Pool, staffing: Staffing, n: int, whole: float, may_be_spot: bool) -> Iterator[float]:
    """The largest loads that n replicas carry, while m of them carry the critical share."""
    carried = min(whole, max_utilization(staffing, n))
    yield carried
    if may_be_spot and pool.critical_share > 0:
        for m in range(staffing.min_replicas, n):
            yield min(carried, max_utilization(staffing, m) / pool.critical_share)


def _mixed(pool: Pool, members: tuple[Deployment, ...], api: Api | None, t: int) -> Iterator[Way]:
    """All counts of each, up to what it could carry by itself; requests are routed between them by length."""
    rates = pool.rate_rps[t].tolist()
    counts, firm, rooms = [], [], []
    for d in members:
        assert d.staffing_in_a_mix is not None
        staffing = in_slot(d.staffing_in_a_mix, t, pool.slots)
        one_zone = replace(d, spot_zones=1)
        seconds = d.seconds_per_request.tolist()
        whole = sum(rate * u for rate, u in zip(rates, seconds, strict=True) if math.isfinite(u))
        counts.append([0, *range(staffing.min_replicas, replicas_for(staffing, whole) + 1)])
        rooms.append([max_utilization(staffing, n) for n in counts[-1]])
        firm.append(
            [firm_count(pool, one_zone, staffing, min(r, whole), n) for n, r in zip(counts[-1], rooms[-1], strict=True)]
        )
    chosen = list(itertools.product(*(range(len(each)) for each in counts)))
    room = np.array([[rooms[k][i] for k, i in enumerate(some)] for some in chosen])
    every_second = [d.seconds_per_request.tolist() for d in members]
    outlets: list[tuple[list[float] | None, str]] = [*_outlets(pool, api)] or [(None, "money")]
    for usd, kind in outlets:
        cost = 3600 * least_outlet_cost(rates, every_second, room, usd)
        for some, each in zip(chosen, cost.tolist(), strict=True):
            if each < math.inf:
                ways = (tuple(of[k][i] for k, i in enumerate(some)) for of in (counts, firm))
                yield replace(Way(*ways), **{kind: each})


def _work(case: Case, pool: Pool, d: Deployment, api: Api | None) -> Work:
    assert pool.window is not None
    load = pool.rate_rps @ d.seconds_per_request
    usd = None
    if api is not None:
        usd = 3600 * float((pool.rate_rps @ api.usd_per_request).sum() / load.sum())
    return Work(load * case.slot_hours, np.asarray(pool.window, dtype=bool), usd)


def _deferred(case: Case, pool: Pool, d: Deployment, t: int) -> Iterator[Way]:
    """None, or any count from the fewest on, up to all work that may be done in this slot."""
    assert pool.window is not None
    staffing = in_slot(d.staffing, t, pool.slots)
    work = (pool.rate_rps @ d.seconds_per_request * case.slot_hours)[np.asarray(pool.window, dtype=bool)[:, t]].sum()
    most = replicas_for(staffing, float(work / case.slot_hours[t]))
    for n in (0, *range(staffing.min_replicas, most + 1)):
        room = max_utilization(staffing, n)
        yield Way((n,), (firm_count(pool, d, staffing, room, n),), room=room)
