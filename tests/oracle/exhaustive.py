"""The optimum of tiny fleets of many replicas by trying every count: no recipes, no master, no solver.

Where `brute_force` has every lever and few replicas, this has few levers and many of them: work that may wait, overflow
to an API or to nobody, mixes of up to three deployments, quotas, commitments, spot; one month, no starts, no budget,
no rules about vendors, a workload a pool. Replicas are of 1, 2, 4 or 8 GPUs and divide their boxes, so that GPUs in use
fill them.

* Where no work waits, slots have only commitments in common.
* One workload that waits: counts slot by slot; of those that do no less work for no more, one is kept.
* Else every combination of counts over the month, for each workload and for all of them together; what costs more
  than the best at its GPUs' lowest prices is passed over.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from problems.fleet_problem import Offer
from problems.recipes.pools import Api, Deployment, Pool
from problems.recipes.vendors import NO_VENDORS
from problems.staffing import Staffing
from tests.oracle.routes import Routes
from tests.oracle.rules import max_utilization
from tests.support.fleets import Case

HOURS = 730.0
DONE = 1e-9
"""of the work: what rounding may leave of it"""
CHUNK = 2_000_000


def least_objective(case: Case) -> float:
    """Cost and penalty of the cheapest plan, USD a month; infinite where there is none."""
    return _Exhaustive(case).run()


@dataclass(frozen=True)
class _Choice:
    pool: Pool
    members: tuple[Deployment, ...]
    api: Api | None

    @cached_property
    def offers(self) -> frozenset[str]:
        return frozenset(d.offer for d in self.members)

    @property
    def waits(self) -> bool:
        return self.pool.window is not None and bool(self.members)


@dataclass(frozen=True, eq=False)
class _Ways:
    """Ways to serve one workload in one slot, or over the month (then GPUs have an axis of slots more)."""

    gpus: np.ndarray
    """[way, offer] or [way, offer, slot]"""
    firm: np.ndarray
    """GPUs that must not be spot"""
    usd: np.ndarray
    """API and penalty, in an hour or in the month [way]"""

    def only(self, some: np.ndarray) -> _Ways:
        return _Ways(*(getattr(self, name)[some] for name in self.__dataclass_fields__))


class _Exhaustive:
    def __init__(self, case: Case) -> None:
        assert int(case.slot_month.max()) == 0
        assert case.slot_before is None
        assert case.budget_usd_per_month is None
        assert case.max_gpu_types is None
        assert case.vendors == NO_VENDORS
        self.case, self.hours, self.best = case, case.slot_hours, math.inf
        self.offers = list(case.offers.values())
        self.number = {offer.key: k for k, offer in enumerate(self.offers)}
        self._known: dict[_Choice, tuple[_Ways, np.ndarray]] = {}

    def run(self) -> float:
        for together in itertools.product(*(list(self._choices(pool)) for pool in self.case.pools)):
            self._try(together)
        return self.best

    def _choices(self, pool: Pool) -> Iterator[_Choice]:
        """A mix includes those of fewer."""
        apis: tuple[Api | None, ...] = pool.apis or (None,)
        mixable = [d for d in pool.deployments if d.staffing_in_a_mix is not None and pool.max_deployments > 1]
        mixes = [
            some
            for size in range(2, pool.max_deployments + 1)
            for some in itertools.combinations(mixable, size)
            if len({d.variant for d in some}) == 1
        ]
        mixes = [some for some in mixes if not any(set(some) < set(more) for more in mixes)]
        for api in apis:
            outlet = api is not None or pool.shed_usd_per_request is not None
            if outlet:
                yield _Choice(pool, (), api)
            for d in pool.deployments:
                if np.isfinite(d.seconds_per_request).all() or (outlet and d.staffing_in_a_mix is not None):
                    yield _Choice(pool, (d,), api)
            if pool.window is None:
                yield from (_Choice(pool, some, api) for some in mixes)

    def _try(self, together: tuple[_Choice, ...]) -> None:
        groups = [(choice,) for choice in together] if self._nothing_shared(together) else [together]
        total = 0.0
        for some in groups:
            total += self._least(some, self.best - total)
            if total >= self.best:
                return
        self.best = total

    def _nothing_shared(self, together: tuple[_Choice, ...]) -> bool:
        gpus = [{self.case.offers[g].gpu for g in choice.offers} for choice in together]
        return all(not (a & b) for a, b in itertools.combinations(gpus, 2))

    def _least(self, some: tuple[_Choice, ...], below: float) -> float:
        if not any(choice.waits for choice in some):
            return self._slot_by_slot(some)
        if len(some) == 1:
            return self._waiting_alone(some[0])
        return self._whole_months(some, below)

    # what is bought

    def _holdings(self, peak: dict[int, int]) -> Iterator[tuple[dict[int, int], float]]:
        """Every number of commitments of every offer in use, and what they cost a month."""
        each = [range((most if self.offers[g].reserved_usd_per_h else 0) + 1) for g, most in peak.items()]
        for counts in itertools.product(*each):
            held = dict(zip(peak, counts, strict=True))
            usd = sum(n * min(self.offers[g].reserved_usd_per_h.values()) for g, n in held.items() if n)
            if self._quota_kept({g: np.array(n) for g, n in held.items()}):
                yield held, HOURS * usd

    def _quota_kept(self, boxes: dict[int, np.ndarray]) -> np.ndarray:
        kept: np.ndarray = np.array(True)
        for g, n in boxes.items():
            most = self.offers[g].max_instances
            if most is not None:
                kept = kept & (n <= most)
        for gpu, most in self.case.max_gpus.items():
            of_type = [n * self.offers[g].box for g, n in boxes.items() if self.offers[g].gpu == gpu]
            if of_type:
                kept = kept & (sum(of_type) <= most)
        return kept

    def _hourly_usd(
        self, boxes: dict[int, np.ndarray], firm: dict[int, np.ndarray], held: dict[int, int]
    ) -> np.ndarray:
        """USD/h of what is bought beside the commitments; infinite where it cannot be had."""
        usd: np.ndarray = np.array(0.0)
        for g in boxes:
            usd = usd + bought_usd(self.offers[g], held[g], boxes[g], firm[g])
        kept = self._quota_kept({g: np.maximum(boxes[g], held[g]) for g in boxes})
        return np.where(kept, usd, math.inf)

    # slots that have only commitments in common

    def _slot_by_slot(self, some: tuple[_Choice, ...]) -> float:
        used = sorted({self.number[g] for choice in some for g in choice.offers})
        slots = []
        for t in range(len(self.hours)):
            ways = [self._in_slot(choice, t) for choice in some]
            if not all(len(w.usd) for w in ways):
                return math.inf
            slots.append(self._needs(ways, used))
        peak = {g: max(int(needs[0][g].max()) for needs in slots) for g in used}
        best = math.inf
        for held, usd in self._holdings(peak):
            for t, (boxes, firm, money) in enumerate(slots):
                usd += self.hours[t] * float((money + self._hourly_usd(boxes, firm, held)).min())
            best = min(best, usd)
        return best

    def _needs(
        self, ways: list[_Ways], used: list[int]
    ) -> tuple[dict[int, np.ndarray], dict[int, np.ndarray], np.ndarray]:
        """Boxes of each offer, firm ones and money of every way of all workloads; the cheapest of those alike."""
        gpus, firm, usd = (getattr(ways[0], name) for name in ("gpus", "firm", "usd"))
        for other in ways[1:]:
            i, j = (x.ravel() for x in np.indices((len(usd), len(other.usd))))
            gpus, firm, usd = gpus[i] + other.gpus[j], firm[i] + other.firm[j], usd[i] + other.usd[j]
        columns = [-(-kind[:, g] // self.offers[g].box) for kind in (gpus, firm) for g in used]
        if columns:
            order = np.lexsort([usd, *columns])
            table = np.stack(columns, axis=1)[order]
            first = np.r_[True, (table[1:] != table[:-1]).any(axis=1)]
            columns, usd = list(table[first].T), usd[order][first]
        else:
            usd = usd.min(keepdims=True)
        half = len(used)
        return dict(zip(used, columns[:half], strict=True)), dict(zip(used, columns[half:], strict=True)), usd

    # what may be done in a slot

    def _in_slot(self, choice: _Choice, t: int) -> _Ways:
        pool, members = choice.pool, choice.members
        rates = pool.rate_rps[t]
        if not members:
            found = self._without_gpus(choice, t)
        elif len(members) == 1 and np.isfinite(members[0].seconds_per_request).all():
            found = self._alone(choice, rates)
        else:
            found = self._mixed(choice, rates)
        return replace(found, usd=found.usd + float(np.broadcast_to(pool.fixed_usd_per_h, (pool.slots,))[t]))

    def _ways(self, choice: _Choice, counts: np.ndarray, firm: np.ndarray, usd: np.ndarray) -> _Ways:
        """Counts are [way, member], usd what leaves costs an hour."""
        gpus, safe = (np.zeros((len(usd), len(self.offers)), dtype=int) for _ in range(2))
        for k, d in enumerate(choice.members):
            gpus[:, self.number[d.offer]] += counts[:, k] * d.gpus_per_replica
            safe[:, self.number[d.offer]] += firm[:, k] * d.gpus_per_replica
        return _Ways(gpus, safe, usd)

    def _without_gpus(self, choice: _Choice, t: int) -> _Ways:
        pool, rates = choice.pool, choice.pool.rate_rps[t]
        none = np.zeros((1, 0), dtype=int)
        bills = (np.array([3600 * float(rates @ usd)]) for usd in _outlets(choice))
        found = [self._ways(choice, none, none, bill) for bill in bills]
        assert pool.window is None or len(found) == 1
        return _joined(found)

    def _alone(self, choice: _Choice, rates: np.ndarray) -> _Ways:
        """The loads beyond which another replica, or another firm one, would be needed; what is left leaves one way."""
        pool, (d,) = choice.pool, choice.members
        seconds = d.seconds_per_request
        whole = float(rates @ seconds)
        able = carried_by(d.staffing, whole)
        share = pool.critical_share
        loads = np.minimum(able, whole)
        if _may_be_spot(pool, d) and share > 0:
            loads = np.unique(np.minimum(np.r_[able, able / share], whole))
        counts = enough(able, loads)
        firm = enough(able, share * loads) if _may_be_spot(pool, d) else counts
        found = []
        all_of_it = loads >= whole * (1 - 1e-12)
        for usd in [*_outlets(choice), None]:
            ways = all_of_it if usd is None else ~all_of_it
            kept = kept_by_one(rates, seconds, usd if usd is not None else np.ones_like(seconds), loads[ways])
            left = np.maximum(rates - kept, 0.0) if usd is not None else np.zeros_like(kept)
            bill = 3600 * left @ (usd if usd is not None else np.zeros_like(seconds))
            found.append(self._ways(choice, counts[ways][:, None], firm[ways][:, None], bill))
        return _joined(found)

    def _mixed(self, choice: _Choice, rates: np.ndarray) -> _Ways:
        """Every count of each member up to all that it can serve; who serves which lengths is free."""
        pool, members = choice.pool, choice.members
        each = []
        for d in members:
            assert d.staffing_in_a_mix is not None
            can = np.isfinite(d.seconds_per_request)
            whole = float(rates[can] @ d.seconds_per_request[can])
            able = carried_by(d.staffing_in_a_mix, whole)
            run = np.flatnonzero((np.arange(len(able)) == 0) | (able > 0))
            load = np.minimum(able[run], whole)
            firm = np.minimum(enough(able, pool.critical_share * load), run) if _may_be_spot(pool, d) else run
            each.append((run, firm, able[run]))
        index = np.indices([len(run) for run, _, _ in each]).reshape(len(each), -1)
        counts, firm, rooms = (
            np.stack([of[k][i] for of, i in zip(each, index, strict=True)], axis=1) for k in range(3)
        )
        seconds = np.array([d.seconds_per_request for d in members])
        found = []
        for usd in _outlets(choice) or [None]:
            bill = Routes(seconds, usd).bills(rates, rooms)
            can = np.isfinite(bill)
            found.append(self._ways(choice, counts[can], firm[can], 3600 * bill[can]))
        return _joined(found)

    # one workload that waits

    def _waiting_alone(self, choice: _Choice) -> float:
        work = _Work(choice, self.hours)
        g = self.number[choice.members[0].offer]
        per_replica = choice.members[0].gpus_per_replica
        boxes, firm = (
            [-(-n * per_replica // self.offers[g].box) for n in of_slots] for of_slots in (work.counts, work.firm)
        )
        idle = float(np.broadcast_to(choice.pool.fixed_usd_per_h, self.hours.shape) @ self.hours)
        best = math.inf
        for held, usd in self._holdings({g: max(int(n.max()) for n in boxes)}):
            by_slot = [
                self.hours[t] * self._hourly_usd({g: boxes[t]}, {g: firm[t]}, held) for t in range(len(self.hours))
            ]
            best = min(best, usd + idle + work.least_usd(by_slot))
        return best

    # every combination of counts over the month

    def _whole_months(self, some: tuple[_Choice, ...], below: float) -> float:
        rows, least = map(list, zip(*(self._cheapest_first(choice) for choice in some), strict=True))
        if sum(float(of.min(initial=math.inf)) for of in least) >= below:
            return math.inf
        used = sorted({self.number[g] for choice in some for g in choice.offers})
        peak = {g: -(-sum(int(r.gpus[:, g].max()) for r in rows) // self.offers[g].box) for g in used}
        best = below
        for held, usd in self._holdings(peak):
            best = min(best, self._least_of_months(rows, least, used, held, usd, best))
        return best if best < below else math.inf

    def _least_of_months(
        self,
        rows: list[_Ways],
        least: list[np.ndarray],
        used: list[int],
        held: dict[int, int],
        held_usd: float,
        best: float,
    ) -> float:
        other = least[1] if len(rows) > 1 else np.zeros(1)
        at, step = 0, 64
        while at < len(least[0]):
            if least[0][at] + other[0] >= best:
                break
            n = int(np.searchsorted(other, best - least[0][at])) if math.isfinite(best) else len(other)
            step = max(1, min(4 * step, CHUNK // max(n, 1)))
            i, j = (x.ravel() for x in np.indices((min(step, len(least[0]) - at), n)))
            chosen = [rows[0].only(i + at), *(r.only(j) for r in rows[1:])]
            best = min(best, float(self._months_usd(chosen, used, held).min(initial=math.inf)) + held_usd)
            at += step
        return best

    def _months_usd(self, chosen: list[_Ways], used: list[int], held: dict[int, int]) -> np.ndarray:
        gpus, firm = (sum(getattr(c, kind) for c in chosen) for kind in ("gpus", "firm"))
        usd = sum(c.usd for c in chosen)
        for t, hours in enumerate(self.hours):
            boxes = {g: -(-gpus[:, g, t] // self.offers[g].box) for g in used}
            safe = {g: -(-firm[:, g, t] // self.offers[g].box) for g in used}
            usd = np.where(self._quota_kept({g: np.maximum(boxes[g], held[g]) for g in used}), usd, math.inf)
            for g in used:
                usd = usd + hours * bought_usd(self.offers[g], held[g], boxes[g], safe[g])
        return np.asarray(usd)

    def _cheapest_first(self, choice: _Choice) -> tuple[_Ways, np.ndarray]:
        """All ways of a choice over the month, and what each costs at least."""
        if choice not in self._known:
            rows = self._rows(choice)
            least = self._least_of_rows(rows)
            order = np.argsort(least, kind="stable")
            self._known[choice] = rows.only(order), least[order]
        return self._known[choice]

    def _least_of_rows(self, rows: _Ways) -> np.ndarray:
        """No plan pays less for these ways: every GPU at the lowest price of its offer, by the hour."""
        usd = rows.usd.copy()
        for g, offer in enumerate(self.offers):
            usd += (rows.gpus[:, g] @ self.hours) * _lowest(offer)
        return usd

    def _rows(self, choice: _Choice) -> _Ways:
        if choice.waits:
            return self._rows_of_work(choice)
        slots = [self._in_slot(choice, t) for t in range(len(self.hours))]
        index = np.indices([len(ways.usd) for ways in slots]).reshape(len(slots), -1)
        chosen = [ways.only(i) for ways, i in zip(slots, index, strict=True)]
        gpus, firm = (np.stack([getattr(w, kind) for w in chosen], axis=2) for kind in ("gpus", "firm"))
        return _Ways(gpus, firm, np.sum([h * ways.usd for h, ways in zip(self.hours, chosen, strict=True)], axis=0))

    def _rows_of_work(self, choice: _Choice) -> _Ways:
        """Every count in every slot that does the work, or leaves some to the API."""
        pool, (d,) = choice.pool, choice.members
        work = _Work(choice, self.hours)
        left = work.left_over()
        kept = left <= (0 if choice.api is None else math.inf)
        for t in range(left.ndim):  # one replica less that leaves no more undone is no worse
            fewer = np.roll(left, 1, axis=t) <= left
            fewer[(slice(None),) * t + (0,)] = False
            kept &= ~fewer
        index, left, kept = np.indices(left.shape).reshape(left.ndim, -1), left.ravel(), kept.ravel()
        index, left = index[:, kept], left[kept]
        gpus, firm = (np.zeros((len(left), len(self.offers), len(self.hours)), dtype=int) for _ in range(2))
        for t in range(len(self.hours)):
            gpus[:, self.number[d.offer], t] = work.counts[t][index[t]] * d.gpus_per_replica
            firm[:, self.number[d.offer], t] = work.firm[t][index[t]] * d.gpus_per_replica
        idle = float(np.broadcast_to(pool.fixed_usd_per_h, self.hours.shape) @ self.hours)
        return _Ways(gpus, firm, left * (work.price or 0.0) + idle)


class _Work:
    """Work that may wait: counts to try in each slot, and what is left over."""

    def __init__(self, choice: _Choice, hours: np.ndarray) -> None:
        pool, (d,) = choice.pool, choice.members
        assert pool.window is not None
        self.window = np.asarray(pool.window, dtype=bool)
        self.arrives = (pool.rate_rps @ d.seconds_per_request) * hours
        self.price = None
        if choice.api is not None:
            bill = 3600 * float((pool.rate_rps @ choice.api.usd_per_request).sum())
            self.price = bill / float((pool.rate_rps @ d.seconds_per_request).sum())
        able = [carried_by(d.staffing, float(self.arrives @ self.window[:, t]) / h) for t, h in enumerate(hours)]
        self.counts = [np.flatnonzero((np.arange(len(a)) == 0) | (a > 0)) for a in able]
        loads = [a[n] for a, n in zip(able, self.counts, strict=True)]
        self.room = [h * load for h, load in zip(hours, loads, strict=True)]
        share = pool.critical_share
        self.firm = [
            np.minimum(enough(a, share * load), n) if _may_be_spot(pool, d) else n
            for a, n, load in zip(able, self.counts, loads, strict=True)
        ]

    def left_over(self, slots: list[int] | None = None) -> np.ndarray:
        """Work of some slots that cannot be done in time, for every count of each [count of the first, of the next...].

        The largest flow is the smallest cut: the work of some arrivals, and all room that the others can reach.
        """
        slots = list(range(len(self.room))) if slots is None else slots
        whole = float(self.arrives[slots].sum())
        done: np.ndarray = np.array(math.inf)
        for held in itertools.product((False, True), repeat=len(slots)):
            cut: np.ndarray = np.array(sum(float(self.arrives[s]) for s, h in zip(slots, held, strict=True) if not h))
            for k, t in enumerate(slots):
                if any(self.window[s, t] for s, h in zip(slots, held, strict=True) if h):
                    cut = cut + _along(self.room[t], k, len(slots))
            done = np.minimum(done, cut)
        left = whole - np.broadcast_to(done, [len(self.room[t]) for t in slots])
        return np.where(left > DONE * whole, left, 0.0)

    @cached_property
    def _days(self) -> list[list[int]]:
        """slots whose work may meet, directly or over others"""
        days: list[set[int]] = []
        for h, reached in enumerate(self.window):
            day = {h, *np.flatnonzero(reached).tolist()}
            days = [d for d in days if not d & day] + [day.union(*(d for d in days if d & day))]
        return [sorted(day) for day in days]

    @cached_property
    def _bills(self) -> dict[int, np.ndarray]:
        """of the API, for every count of each slot of a day; by the first slot of the day"""
        return {day[0]: self._bill(self.left_over(day)) for day in self._days}

    def _bill(self, left: np.ndarray) -> np.ndarray:
        return np.where(left > 0, math.inf, 0.0) if self.price is None else self.price * left

    def least_usd(self, by_slot: list[np.ndarray]) -> float:
        """The cheapest counts, where each costs so much in its slot, with the API's bill."""
        total = 0.0
        for day in self._days:
            if self.window[np.ix_(day, day)].all():
                total += self._least_at_any_time(day, by_slot)
            else:
                usd = self._bills[day[0]]
                for k, t in enumerate(day):
                    usd = usd + _along(by_slot[t], k, len(day))
                total += float(usd.min())
        return total

    def _least_at_any_time(self, day: list[int], by_slot: list[np.ndarray]) -> float:
        """All room is alike, so that the slots of a day fall into two halves: each of one beside the best of the other.

        That is the cheapest with room for all the rest, or the one that leaves least to the API for its price.
        """
        work, half = float(self.arrives[day].sum()), (len(day) + 1) // 2
        (room, usd), (more, more_usd) = (self._together(some, by_slot, work) for some in (day[:half], day[half:]))
        if not len(usd) or not len(more_usd):
            return math.inf
        first = np.searchsorted(more, work * (1 - DONE) - room)
        whole = np.r_[more_usd, math.inf][first]
        if self.price is None:
            return float((usd + whole).min())
        in_part = np.r_[math.inf, np.minimum.accumulate(more_usd - self.price * more)][first] + self.price * (
            work - room
        )
        return float((usd + np.minimum(whole, in_part)).min())

    def _together(self, slots: list[int], by_slot: list[np.ndarray], work: float) -> tuple[np.ndarray, np.ndarray]:
        """Room of counts in some slots and what they cost, from little to much; none has a cheaper one with as much."""
        room, usd = np.zeros(1), np.zeros(1)
        for t in slots:
            had = np.isfinite(by_slot[t])
            room = np.minimum(room[:, None] + self.room[t][had][None, :], work).ravel()
            usd = (usd[:, None] + by_slot[t][had][None, :]).ravel()
        order = np.lexsort([-room, usd])
        room, usd = room[order], usd[order]
        kept = room > np.r_[-1.0, np.maximum.accumulate(room)[:-1]]
        return room[kept], usd[kept]


def carried_by(staffing: Staffing, load: float) -> np.ndarray:
    """The most load that each count of replicas carries, from none up to the first that carries this one."""
    able = [0.0]
    while able[-1] < load - DONE * (1 + load):
        able.append(max_utilization(staffing, len(able)))
    return np.array([*able[:-1], max(able[-1], load)])


def enough(able: np.ndarray, load: np.ndarray) -> np.ndarray:
    """The first count that carries a load; none for no load."""
    return np.where(load > 0, np.searchsorted(able, load * (1 - DONE)), 0)


def kept_by_one(rates: np.ndarray, seconds: np.ndarray, usd: np.ndarray, loads: np.ndarray) -> np.ndarray:
    """Requests that stay where so much load is kept, first those that cost most elsewhere for it [way, bucket]."""
    kept = np.zeros((len(loads), len(rates)))
    left = loads.astype(float).copy()
    for b in sorted(range(len(rates)), key=lambda b: -usd[b] / seconds[b]):
        here = np.minimum(left, rates[b] * seconds[b])
        kept[:, b] = here / seconds[b]
        left -= here
    return kept


def bought_usd(offer: Offer, held: int, boxes: np.ndarray, firm: np.ndarray) -> np.ndarray:
    """USD/h of boxes beyond those held, of which so many in all must not be spot."""
    on_demand = math.inf if offer.on_demand_usd_per_h is None else offer.on_demand_usd_per_h
    spot = math.inf if offer.spot_usd_per_h is None else offer.spot_usd_per_h
    safe = np.maximum(firm - held, 0)
    more = np.maximum(boxes - held, 0) - safe
    with np.errstate(invalid="ignore"):
        return np.where(safe > 0, safe * on_demand, 0.0) + np.where(more > 0, more * min(on_demand, spot), 0.0)


def _lowest(offer: Offer) -> float:
    """USD/h of a GPU in the cheapest way to buy it."""
    prices = (offer.on_demand_usd_per_h, offer.spot_usd_per_h, *offer.reserved_usd_per_h.values())
    return min((usd for usd in prices if usd is not None), default=math.inf) / offer.box


def _may_be_spot(pool: Pool, d: Deployment) -> bool:
    assert d.spot_zones == 1
    return pool.spot_allowed and (d.spot_allowed or pool.critical_share == 0)


def _outlets(choice: _Choice) -> list[np.ndarray]:
    """What leaving costs by the bucket: the API's price, and the penalty."""
    prices = (None if choice.api is None else choice.api.usd_per_request, choice.pool.shed_usd_per_request)
    return [usd for usd in prices if usd is not None]


def _joined(several: list[_Ways]) -> _Ways:
    return _Ways(*(np.concatenate([getattr(w, name) for w in several]) for name in _Ways.__dataclass_fields__))


def _along(values: np.ndarray, axis: int, axes: int) -> np.ndarray:
    return values.reshape([-1 if k == axis else 1 for k in range(axes)])
