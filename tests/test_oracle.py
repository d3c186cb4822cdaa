"""The optimizer against brute force written from the definitions: no recipes, no master, no solver.

`Enumeration` tries every deployment and API of every workload, every count of replicas in every slot and every
number of boxes in every way of buying them. Only two facts shorten it. Once the commitments are fixed, slots
have nothing in common but the budget; and a slot that costs less never breaks a budget.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache

import numpy as np
import pytest

from problems.fleet import Offer
from problems.recipes import Api, Deployment, Pool
from problems.staffing import Staffing
from solvers.column_generation import generate
from solvers.fleet_solver import Options, Outcome, _still_possible, solve_fleet
from solvers.solve import solve_lp
from fleets import Case, random_case

CASES = 66


@dataclass(frozen=True)
class Way:
    """So many replicas of a workload in a slot: GPUs, those that must not be spot, and the API's bill."""

    replicas: int
    gpus: int
    firm_gpus: int
    api_usd_per_h: float


Choice = tuple[Deployment | None, Api | None]
Forced = tuple[str, str | None, str | None, int, int]
"""workload, deployment, API, slot, replicas"""


def replicas_for(staffing: Staffing, load: float) -> int:
    """The first count that covers the mean and z standard deviations."""
    if load == 0:
        return 0
    n = staffing.min_replicas
    while load + spread(staffing, load) > n + 1e-9:
        n += 1
    return n


def spread(s: Staffing, load: float) -> float:
    arrivals = load * (1 + s.arrival_scv) / 2 / s.batch
    return s.z * math.sqrt(arrivals + (s.rate_cv * load) ** 2)


def most_load(staffing: Staffing, n: int) -> float:
    """The largest load that n replicas cover, by bisection."""
    low, high = 0.0, float(n)
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (middle, high) if middle + spread(staffing, middle) <= n else (low, middle)
    return low


def ways(pool: Pool, choice: Choice, slot: int) -> list[Way]:
    """Every count of replicas that serves the slot, none of them more than the whole demand needs."""
    deployment, api = choice
    rates = pool.rate_rps[slot].tolist()
    if deployment is None:
        assert api is not None
        bill = sum(rate * usd for rate, usd in zip(rates, api.usd_per_request.tolist(), strict=True))
        return [Way(0, 0, 0, 3600 * bill)]
    loads = [rate * u for rate, u in zip(rates, deployment.seconds_per_request.tolist(), strict=True)]
    whole = replicas_for(deployment.staffing, sum(loads))
    found = [_way(pool, deployment, whole, sum(loads), 0.0)]
    if api is not None:
        usd = api.usd_per_request.tolist()
        for n in range(whole):
            if n and n < deployment.staffing.min_replicas:
                continue
            room = most_load(deployment.staffing, n) if n else 0.0
            bill = min(_overflow_bill(rates, loads, usd, room, order) for order in _orders(len(rates)))
            found.append(_way(pool, deployment, n, room, bill))
    return found


def _way(pool: Pool, d: Deployment, n: int, load: float, bill_usd_per_h: float) -> Way:
    firm = n
    if pool.spot_allowed:
        firm = min(n, replicas_for(d.staffing, pool.critical_share * load))
    return Way(n, n * d.gpus_per_replica, firm * d.gpus_per_replica, bill_usd_per_h)


def _orders(buckets: int) -> Iterator[tuple[int, ...]]:
    return itertools.permutations(range(buckets))


def _overflow_bill(
    rates: list[float], loads: list[float], usd: list[float], room: float, order: tuple[int, ...]
) -> float:
    """What the API bills per hour when the GPUs are filled with the buckets in this order."""
    bill = 0.0
    for b in order:
        kept = min(room, loads[b])
        room -= kept
        bill += 3600 * usd[b] * (rates[b] - (rates[b] * kept / loads[b] if loads[b] else 0.0))
    return bill


@cache
def prices_of(offer: Offer, gpus: int, firm_gpus: int, owned: int) -> dict[int, float]:
    """Instances bought on top of those owned -> the least they cost per hour; empty if not for sale."""
    enough = math.ceil(gpus / offer.box)
    cheapest: dict[int, float] = {}
    for on_demand in range(enough + 1 if offer.on_demand_usd_per_h is not None else 1):
        for spot in range(enough + 1 if offer.spot_usd_per_h is not None else 1):
            if offer.box * (owned + on_demand) < firm_gpus or offer.box * (owned + on_demand + spot) < gpus:
                continue
            usd = on_demand * (offer.on_demand_usd_per_h or 0) + spot * (offer.spot_usd_per_h or 0)
            extra = on_demand + spot
            cheapest[extra] = min(usd, cheapest.get(extra, math.inf))
    return cheapest


class Enumeration:
    """The optimum of a case, and of the case with any one count of replicas in one slot forced."""

    def __init__(self, case: Case) -> None:
        self.case = case
        self.best = math.inf
        self.forced: dict[Forced, float] = {}
        self.slots = range(len(case.slot_hours))
        self.months = int(case.slot_month.max()) + 1
        menus = [choices_of(pool) for pool in case.pools]
        for chosen in itertools.product(*menus):
            self._try_choices(chosen)

    def _try_choices(self, chosen: tuple[Choice, ...]) -> None:
        pools = self.case.pools
        menu = [[ways(pool, c, t) for pool, c in zip(pools, chosen, strict=True)] for t in self.slots]
        used = sorted({d.offer for d, _ in chosen if d is not None})
        hosts = [d.offer if d is not None else None for d, _ in chosen]
        holdings = []
        for g in used:
            peak = max(
                sum(max(w.gpus for w in menu[t][k]) for k, host in enumerate(hosts) if host == g)
                for t in self.slots
            )
            holdings.append(list(self._commitments(self.case.offers[g], math.ceil(peak / self.case.offers[g].box))))
        for held in itertools.product(*holdings):
            owned = {g: n for g, (n, _) in zip(used, held, strict=True)}
            fixed = 730 * sum(usd for _, usd in held)
            if used:
                fixed += self.case.team_usd_per_month
            by_slot = [self._slot(menu[t], hosts, owned) for t in self.slots]
            self._keep(chosen, menu, by_slot, fixed)

    def _commitments(self, offer: Offer, most: int) -> Iterator[tuple[int, float]]:
        """(instances, USD/h) of every mix of terms."""
        terms = list(offer.reserved_usd_per_h.values())
        for counts in itertools.product(range(most + 1), repeat=len(terms)):
            if sum(counts) <= most:
                yield sum(counts), sum(n * usd for n, usd in zip(counts, terms, strict=True))

    def _slot(
        self, menu: list[list[Way]], hosts: list[str | None], owned: dict[str, int]
    ) -> dict[tuple[int, ...], float]:
        """USD/h of the slot for every combination of ways, where it can be bought at all."""
        costs = {}
        for index in itertools.product(*(range(len(m)) for m in menu)):
            picked = [menu[k][i] for k, i in enumerate(index)]
            bought = []
            for g in owned:
                gpus = sum(w.gpus for w, host in zip(picked, hosts, strict=True) if host == g)
                firm = sum(w.firm_gpus for w, host in zip(picked, hosts, strict=True) if host == g)
                bought.append(prices_of(self.case.offers[g], gpus, firm, owned[g]))
            least = min(
                (
                    sum(prices[n] for prices, n in zip(bought, extra, strict=True))
                    for extra in itertools.product(*bought)
                    if self._within_quota({g: owned[g] + n for g, n in zip(owned, extra, strict=True)})
                ),
                default=math.inf,
            )
            if least < math.inf:
                costs[index] = least + sum(w.api_usd_per_h for w in picked)
        return costs

    def _within_quota(self, instances: dict[str, int]) -> bool:
        offers = self.case.offers
        for g, n in instances.items():
            limit = offers[g].max_instances
            if limit is not None and n > limit:
                return False
        return all(
            sum(n * offers[g].box for g, n in instances.items() if offers[g].gpu == gpu) <= limit
            for gpu, limit in self.case.max_gpus.items()
        )

    def _keep(
        self,
        chosen: tuple[Choice, ...],
        menu: list[list[list[Way]]],
        by_slot: list[dict[tuple[int, ...], float]],
        fixed: float,
    ) -> None:
        if not all(by_slot):
            return
        least = [min(costs.values()) for costs in by_slot]
        self.best = min(self.best, self._cost(least, fixed))
        for t in self.slots:
            for index, usd_per_h in by_slot[t].items():
                cost = self._cost([*least[:t], usd_per_h, *least[t + 1 :]], fixed)
                for k, i in enumerate(index):
                    d, api = chosen[k]
                    key = (
                        self.case.pools[k].key, d.key if d else None, api.key if api else None,
                        t, menu[t][k][i].replicas,
                    )  # fmt: skip
                    self.forced[key] = min(cost, self.forced.get(key, math.inf))

    def _cost(self, usd_per_h: list[float], fixed: float) -> float:
        """USD per month, averaged over the months; infinite where a month breaks the budget."""
        months = [fixed] * self.months
        for t in self.slots:
            months[int(self.case.slot_month[t])] += usd_per_h[t] * float(self.case.slot_hours[t])
        budget = self.case.budget_usd_per_month
        if budget is not None and max(months) > budget:
            return math.inf
        return sum(months) / self.months


def choices_of(pool: Pool) -> list[Choice]:
    alone: list[Choice] = [(None, api) for api in pool.apis]
    hosted: list[Choice] = [(d, api) for d in pool.deployments for api in (pool.apis or (None,))]
    return alone + hosted


def limited_case(seed: int) -> Case:
    """A random case, every third with a budget near what it costs without one."""
    case = random_case(seed)
    if seed % 3 == 0:
        free = Enumeration(case).best
        if free < math.inf:
            factor = np.random.default_rng([seed, 1]).uniform(0.93, 1.25)
            return replace(case, budget_usd_per_month=float(free * factor))
    return case
