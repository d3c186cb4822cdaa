"""The optimum of a tiny fleet by trying everything: no recipes, no master, no solver.

Workloads are grouped into pools in every possible way; each pool is served by every choice of deployments and API;
every number of commitments is held; every count of replicas and of instances is tried in every slot. What shortens it:

* once choices and commitments are fixed, months have nothing in common, and slots neither, unless instances take time
  to start, work may wait, or a budget is weighed against penalties;
* a way that needs no less of anything than another, and costs no less, is not needed;
* choices whose cost with the cheapest GPUs by the hour is already above the best plan found are not tried.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import reduce

import numpy as np

from problems.fleet_problem import Offer
from tests.oracle.buying import commitments, hourly_usd, usd_with_starts
from tests.oracle.menus import Choice, Menu, Served, Way, WayFilter, Work, served_ways
from tests.oracle.rules import TINY, boxes_for, work_done
from tests.support.fleets import Case

HOURS = 730.0


@dataclass(frozen=True)
class Truth:
    """The best plan: what it costs with penalties, and who serves."""

    objective: float
    """infinite where there is no plan"""
    choices: tuple[Choice, ...] = ()
    held: tuple[tuple[str, int], ...] = ()
    """instances reserved, by offer"""
    penalty: float = 0.0

    @property
    def cost(self) -> float:
        return self.objective - self.penalty


def brute_force(case: Case, allowed: WayFilter = lambda choice, slot, way: True, stand_apart: bool = False) -> Truth:
    """The cheapest plan that serves in allowed ways only.

    Replicas stand apart in two boxes where asked, and so do those that must not be spot: no deployment may then have
    one alone.
    """
    return _Search(case, allowed, stand_apart).run()


def cheapest_by_choices(case: Case) -> dict[frozenset[Choice], float]:
    """What the cheapest plan costs with each set of choices that serves all workloads, where kinds of GPU are free."""
    search, costs = _Search(case, lambda choice, slot, way: True), {}
    for together in search._groupings(case.workloads):
        served = [search.served[k] for k in together]
        search.best = Truth(math.inf)
        if search._vendors_usd(served) < math.inf:
            search._try_choices(served)
        costs[frozenset(s.choice for s in served)] = search.best.objective
    return costs


def cheapest_with(case: Case, forced: Choice, in_slot: Callable[[int, Way], bool] = lambda slot, way: True) -> float:
    """What the cheapest plan costs that makes a given choice, and serves it in one of some ways."""
    served = {pool.key: set(pool.workloads) for pool in case.pools}

    def allowed(choice: Choice, slot: int, way: Way) -> bool:
        if choice == forced:
            return in_slot(slot, way)
        return served[choice.pool].isdisjoint(served[forced.pool])

    return brute_force(case, allowed).objective


class _Search:
    def __init__(self, case: Case, allowed: WayFilter, stand_apart: bool = False) -> None:
        self.case, self.best, self.stand_apart = case, Truth(math.inf), stand_apart
        self.offers = list(case.offers.values())
        self.months = int(case.slot_month.max()) + 1
        self.weight = case.slot_hours / self.months
        self.served = [s for pool in case.pools for s in served_ways(case, pool, allowed)]
        self.alone = [self._least(s, whole_boxes=True) for s in self.served]
        self.shared = [self._least(s, whole_boxes=False) for s in self.served]

    def run(self) -> Truth:
        bounded = []
        for together in self._groupings(self.case.workloads):
            served = [self.served[k] for k in together]
            types = {self.offers[g].gpu for s in served for g in s.offers}
            if self.case.max_gpu_types is not None and len(types) > self.case.max_gpu_types:
                continue
            vendors_usd = self._vendors_usd(served)
            least = (self.case.team_usd_per_month if types else 0.0) + vendors_usd
            if vendors_usd == math.inf:
                continue
            for k in together:
                lonely = not any(self.served[k].offers & self.served[j].offers for j in together if j != k)
                least += self.alone[k] if lonely else self.shared[k]
            bounded.append((least, together))
        for least, together in sorted(bounded):
            if least >= self.best.objective:
                break
            self._try_choices([self.served[k] for k in together])
        return self.best

    def _vendors_usd(self, served: list[Served]) -> float:
        """What it costs to have all vendors of these choices; infinite where there may not be so many."""
        rules, used = self.case.vendors, set()
        for s in served:
            for g in s.offers:
                used.update(rules.of_offer.get(self.offers[g].key, ()))
            used.update(rules.of_api.get(s.choice.api or "", ()))
        for kind, most in rules.at_most.items():
            if len([name for k, name in used if k == kind]) > most:
                return math.inf
        return sum(usd for vendor, usd in rules.usd_per_month.items() if vendor in used)

    def _groupings(self, workloads: tuple[str, ...]) -> Iterator[tuple[int, ...]]:
        """Choices of pools that cover each of these workloads once."""
        if not workloads:
            yield ()
            return
        for k, s in enumerate(self.served):
            if s.workloads[0] == workloads[0] and set(s.workloads) <= set(workloads):
                rest = tuple(w for w in workloads if w not in s.workloads)
                yield from ((k, *others) for others in self._groupings(rest))

    def _least(self, s: Served, whole_boxes: bool) -> float:
        """No plan pays less for this choice: every GPU at the lowest price of its offer, by the hour."""
        least = 0.0
        if s.work is not None:
            return self._least_of_work(s)
        for t, menu in enumerate(s.menus):
            cost = menu.money + menu.penalty
            if s.either:
                cost = cost + min(s.either[t])
            for g in s.offers:
                offer = self.offers[g]
                firm, any_way = _lowest(offer)
                need, safe = menu.gpus[:, g].sum(axis=1), menu.firm[:, g].sum(axis=1)
                if whole_boxes:
                    need = offer.box * boxes_for(menu.gpus[:, g], offer.box, offer.fewest)
                    safe = offer.box * boxes_for(menu.firm[:, g], offer.box, offer.fewest_firm)
                with np.errstate(invalid="ignore"):
                    cost = (
                        cost + np.where(safe > 0, safe * firm, 0.0) + np.where(need > safe, (need - safe) * any_way, 0)
                    )
            least += float(self.weight[t] * cost.min())
        return least

    def _least_of_work(self, s: Served) -> float:
        """All of it at the API's price or at that of GPUs that are always full."""
        assert s.work is not None
        per_unit = math.inf if s.work.usd is None else s.work.usd
        for menu in s.menus:
            for g in s.offers:
                some = menu.room[:, 0] > 0
                usd = menu.gpus[some, g].sum(axis=1) * _lowest(self.offers[g])[1] / menu.room[some, 0]
                per_unit = min([per_unit, *usd.tolist()])
        idle = sum(float(self.weight[t] * menu.money.min()) for t, menu in enumerate(s.menus))
        return float(s.work.load_hours.sum()) * per_unit / self.months + idle

    def _try_choices(self, served: list[Served]) -> None:
        menus = [
            reduce(lambda a, b: a.times(b).without_worse(), (s.menus[t] for s in served))
            for t in range(len(self.weight))
        ]
        used = sorted(frozenset().union(*(s.offers for s in served)))
        holdings = []
        for g in used:
            offer = self.offers[g]
            peak = max(int(self.boxes(menu, g).max()) for menu in menus)
            holdings.append(list(commitments(offer, peak).items()))
        team = (self.case.team_usd_per_month if used else 0.0) + self._vendors_usd(served)
        for held in itertools.product(*holdings):
            fixed = team + HOURS * sum(usd for _, usd in held)
            owned = {g: n + self.offers[g].on_hand for g, (n, _) in zip(used, held, strict=True)}
            if fixed < self.best.objective and self.quota_kept({g: np.array(n) for g, n in owned.items()}):
                found = _Horizon(self, served, menus, owned, fixed).least()
                if found is not None and found[0] < self.best.objective:
                    names = tuple((self.offers[g].key, n) for g, n in owned.items() if n)
                    self.best = Truth(found[0], tuple(s.choice for s in served), names, found[1])

    def boxes(self, menu: Menu, g: int) -> np.ndarray:
        """Boxes that the ways of a menu take of an offer [way]."""
        offer = self.offers[g]
        return boxes_for(menu.gpus[:, g], offer.box, offer.fewest, self.stand_apart and offer.fewest > 1)

    def firm_boxes(self, menu: Menu, g: int) -> np.ndarray:
        """Boxes that are not spot, of these [way]."""
        offer = self.offers[g]
        return boxes_for(menu.firm[:, g], offer.box, offer.fewest_firm, self.stand_apart and offer.fewest_firm > 1)

    def quota_kept(self, instances: dict[int, np.ndarray]) -> np.ndarray:
        """Whether so many instances of each offer may be had [way]."""
        kept = np.array(True)
        for g, n in instances.items():
            limit = self.offers[g].max_instances
            if limit is not None:
                kept = kept & (n <= limit)
        for gpu, limit in self.case.max_gpus.items():
            of_type = [n * self.offers[g].box for g, n in instances.items() if self.offers[g].gpu == gpu]
            idle = [o.on_hand * o.box for g, o in enumerate(self.offers) if o.gpu == gpu and g not in instances]
            kept = kept & (sum(of_type) + sum(idle) <= limit)
        return kept


def _lowest(offer: Offer) -> tuple[float, float]:
    """Lowest price of a GPU that is not spot, and of any GPU [USD/h]."""
    if offer.on_hand:
        return 0.0, 0.0
    firm = [p for p in (offer.on_demand_usd_per_h, *offer.reserved_usd_per_h.values()) if p is not None]
    spot = [offer.spot_usd_per_h] if offer.spot_usd_per_h is not None else []
    return min(firm, default=math.inf) / offer.box, min([*firm, *spot], default=math.inf) / offer.box


class _Slot:
    """The ways of one slot that can be bought, on top of what is owned."""

    def __init__(self, search: _Search, menu: Menu, owned: dict[int, int]) -> None:
        offers = {g: search.offers[g] for g in owned}
        boxes = {g: search.boxes(menu, g) for g in offers}
        firm = {g: search.firm_boxes(menu, g) for g in offers}
        self.menu = menu
        self.firm = {g: np.maximum(0, firm[g] - n) for g, n in owned.items()}
        self.more = {g: np.maximum(0, boxes[g] - n) for g, n in owned.items()}
        self.bought = {
            g: hourly_usd(search.offers[g], int(self.more[g].max()))[self.firm[g], self.more[g]] for g in owned
        }
        self.usd = menu.money + menu.penalty + sum(self.bought.values())
        within = search.quota_kept({g: n + self.more[g] for g, n in owned.items()})
        self.keep(np.isfinite(self.usd) & within)

    def keep(self, ways: np.ndarray) -> None:
        self.menu, self.usd = self.menu.only(ways), self.usd[ways]
        self.firm = {g: n[ways] for g, n in self.firm.items()}
        self.more = {g: n[ways] for g, n in self.more.items()}
        self.bought = {g: usd[ways] for g, usd in self.bought.items()}


class _Horizon:
    """All slots, with choices and commitments given."""

    def __init__(
        self, search: _Search, served: list[Served], menus: list[Menu], owned: dict[int, int], fixed: float
    ) -> None:
        self.search, self.owned, self.fixed = search, owned, fixed
        self.case, self.offers = search.case, search.offers
        self.work = [s.work for s in served if s.work is not None]
        self.either = [s.either for s in served if s.either]
        self.tied = self._tied_over_time()
        self.slots = [_Slot(search, menu, owned) for menu in menus]

    def _tied_over_time(self) -> list[list[int]]:
        """Offers whose instances take time to start, each with those that share a quota with it."""
        late = {g for g in self.owned if self.offers[g].start_h > 0 and self.case.slot_before is not None}
        limited = {self.offers[g].gpu for g in late} & set(self.case.max_gpus)
        groups = [[g for g in self.owned if self.offers[g].gpu == gpu] for gpu in sorted(limited)]
        return groups + [[g] for g in sorted(late) if self.offers[g].gpu not in limited]

    def least(self) -> tuple[float, float] | None:
        """The objective and the penalty in it; None where it is not below the best plan found, or not possible."""
        if not all(len(slot.usd) for slot in self.slots):
            return None
        weight = self.search.weight
        either = sum(weight[t] * min(e[t]) for e in self.either for t in range(len(weight)))
        floor = sum(w * float(slot.usd.min()) for w, slot in zip(weight, self.slots, strict=True))
        room = self.search.best.objective - self.fixed - floor - either
        if room <= 0:
            return None
        for slot, w in zip(self.slots, weight, strict=True):
            slot.keep(w * (slot.usd - slot.usd.min()) < room)
        objective, penalty = self.fixed, 0.0
        for month in range(self.search.months):
            found = self._month([int(t) for t in np.flatnonzero(self.case.slot_month == month)])
            if found is None:
                return None
            objective += found[0] / self.search.months
            penalty += found[1] / self.search.months
        return objective, penalty

    def _month(self, slots: list[int]) -> tuple[float, float] | None:
        """Every combination of ways over the slots of a month, one axis for each: the least of money and penalty."""
        hours = self.case.slot_hours
        tied = {g for group in self.tied for g in group}
        money, penalty = (np.zeros([1] * len(slots)) for _ in range(2))
        for k, t in enumerate(slots):
            slot = self.slots[t]
            by_hour = slot.menu.money + sum(usd for g, usd in slot.bought.items() if g not in tied)
            money = money + _along(hours[t] * by_hour, k, len(slots))
            penalty = penalty + _along(hours[t] * slot.menu.penalty, k, len(slots))
        for group in self.tied:
            money = money + self._usd_over_time(group, slots)
        for p, work in enumerate(self.work):
            money = money + self._usd_of_work(p, work, slots)
        money, penalty = self._within_budget(slots, money, penalty)
        total = money + penalty
        at = int(np.argmin(total))
        if total.flat[at] == math.inf:
            return None
        return float(total.flat[at]), float(np.broadcast_to(penalty, total.shape).flat[at])

    def _usd_over_time(self, group: list[int], slots: list[int]) -> np.ndarray:
        """USD of offers whose slots hang together; a quota on all of them is split between them in every way."""
        least: np.ndarray = np.array(math.inf)
        for caps in self._caps(group, slots):
            least = np.minimum(least, sum(self._usd_under_caps(g, slots, caps[g]) for g in group))
        return least

    def _caps(self, group: list[int], slots: list[int]) -> Iterator[dict[int, tuple[int, ...]]]:
        """Caps on what is bought of each offer in each slot that the quotas allow; only the widest ones."""
        most = [max(int(self.slots[t].more[g].max()) for t in slots) for g in group]
        allowed = []
        for counts in itertools.product(*(range(n + 1) for n in most)):
            instances = {g: np.array(self.owned[g] + n) for g, n in zip(group, counts, strict=True)}
            if self.search.quota_kept(instances):
                allowed.append(counts)
        widest = [c for c in allowed if not any(c != d and all(map(int.__le__, c, d)) for d in allowed)]
        for chosen in itertools.product(widest, repeat=len(slots)):
            yield {g: tuple(counts[k] for counts in chosen) for k, g in enumerate(group)}

    def _usd_under_caps(self, g: int, slots: list[int], caps: tuple[int, ...]) -> np.ndarray:
        assert self.case.slot_before is not None
        before = tuple(slots.index(int(self.case.slot_before[t])) for t in slots)
        hours = tuple(float(self.case.slot_hours[t]) for t in slots)
        table = usd_with_starts(self.offers[g], hours, before, caps)
        index, fits = [], np.array(True)
        for k, t in enumerate(slots):
            slot = self.slots[t]
            index += [_along(np.minimum(n[g], caps[k]), k, len(slots)) for n in (slot.firm, slot.more)]
            fits = fits & _along(slot.more[g] <= caps[k], k, len(slots))
        return np.where(fits, table[tuple(index)], math.inf)

    def _usd_of_work(self, p: int, work: Work, slots: list[int]) -> np.ndarray:
        """What the API asks for work that cannot be done in time; infinite where there is no API."""
        hours, asked = self.case.slot_hours, work.load_hours[slots]
        room = [_along(hours[t] * self.slots[t].menu.room[:, p], k, len(slots)) for k, t in enumerate(slots)]
        left = asked.sum() - work_done(asked, work.window[np.ix_(slots, slots)], room)
        left = np.where(left > TINY * asked.sum(), left, 0.0)
        if work.usd is None:
            return np.where(left > 0, math.inf, 0.0)
        return work.usd * left

    def _within_budget(self, slots: list[int], money: np.ndarray, penalty: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """What goes to an API or is shed, any share of it: the API where that is cheaper, as far as money goes."""
        hours, spare = self.case.slot_hours, []
        for e in self.either:
            for t in slots:
                api, shed = hours[t] * e[t][0], hours[t] * e[t][1]
                if shed <= api:
                    penalty = penalty + shed
                else:
                    money = money + api
                    spare.append((shed / api, api))
        budget = self.case.budget_usd_per_month
        if budget is None:
            return money, penalty
        excess = np.maximum(0.0, money + self.fixed - budget)
        for ratio, api in sorted(spare):
            saved = np.minimum(excess, api)
            money, penalty, excess = money - saved, penalty + ratio * saved, excess - saved
        return np.where(excess > TINY, math.inf, money), penalty


def _along(values: np.ndarray, axis: int, axes: int) -> np.ndarray:
    return values.reshape([-1 if k == axis else 1 for k in range(axes)])
