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
from fleets import Case, random_case

from problems.fleet import Offer, master
from problems.recipes import Api, Deployment, Pool, Recipe
from problems.staffing import Staffing
from solvers import fleet_solver
from solvers.column_generation import CONVERGED_FRAC, generate
from solvers.fleet_solver import Options, Outcome, _still_possible, solve_fleet
from solvers.incumbent import Incumbent
from solvers.result import Status
from solvers.solve import SolverName, solve_lp

SEEDS = [*range(66), 146]
"""the rest: cases that have gone wrong before"""


@dataclass(frozen=True)
class Way:
    """So many replicas of a workload in a slot: GPUs, those that must not be spot, and the API's bill."""

    replicas: int
    gpus: int
    firm_gpus: int
    api_usd_per_h: float


Choice = tuple[Deployment | None, Api | None]
Forced = tuple[str, str | None, str | None, int, int, int]
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
        counts = [n for n in range(whole) if not n or n >= deployment.staffing.min_replicas]
        rooms = [most_load(deployment.staffing, n) if n else 0.0 for n in counts]
        if pool.spot_allowed and pool.critical_share > 0:
            # Sending a little more to the API can save a firm replica.
            rooms += [room / pool.critical_share for room in rooms if 0 < room / pool.critical_share < sum(loads)]
        for room in rooms:
            bill = min(_overflow_bill(rates, loads, usd, room, order) for order in _orders(len(rates)))
            found.append(_way(pool, deployment, replicas_for(deployment.staffing, room), room, bill))
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
            offer = self.case.offers[g]
            holdings.append(self._commitments(offer, math.ceil(peak / offer.box)).items())
        for held in itertools.product(*holdings):
            owned = {g: n for g, (n, _) in zip(used, held, strict=True)}
            fixed = 730 * sum(usd for _, usd in held)
            if used:
                fixed += self.case.team_usd_per_month
            by_slot = [self._slot(menu[t], hosts, owned) for t in self.slots]
            self._keep(chosen, menu, by_slot, fixed)

    def _commitments(self, offer: Offer, most: int) -> dict[int, float]:
        """Instances held -> the least they cost per hour, over every mix of terms."""
        terms = list(offer.reserved_usd_per_h.values())
        cheapest: dict[int, float] = {}
        for counts in itertools.product(range(most + 1), repeat=len(terms)):
            usd = sum(n * price for n, price in zip(counts, terms, strict=True))
            if sum(counts) <= most:
                cheapest[sum(counts)] = min(usd, cheapest.get(sum(counts), math.inf))
        return cheapest

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
                        t, menu[t][k][i].gpus, menu[t][k][i].firm_gpus,
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
    """A random case; every third has a budget near what it costs without one, every third tight quotas."""
    case, rng = random_case(seed), np.random.default_rng([seed, 1])
    if seed % 3 == 0:
        free = Enumeration(case).best
        if free < math.inf:
            return replace(case, budget_usd_per_month=float(free * rng.uniform(0.98, 1.5)))
    if seed % 3 == 1:
        quotas = {k: int(rng.integers(1, 4)) for k in case.offers}
        offers = {k: replace(offer, max_instances=quotas[k]) for k, offer in case.offers.items()}
        return replace(case, offers=offers)
    return case


@cache
def solved(seed: int) -> tuple[Case, Enumeration]:
    case = limited_case(seed)
    return case, Enumeration(case)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("solver", ["cbc", "highs"])
def test_the_optimum_is_that_of_brute_force(seed: int, solver: SolverName) -> None:
    case, truth = solved(seed)
    solution = solve_fleet(case.fleet, Options(solver=solver, gap_frac=0.0))
    if truth.best == math.inf:
        assert solution.outcome is Outcome.INFEASIBLE
        assert solution.best is None
        return
    assert solution.cost_usd_per_month == pytest.approx(truth.best, rel=1e-6)
    assert solution.bound_usd_per_month <= solution.cost_usd_per_month * (1 + 1e-12)
    assert solution.bound_usd_per_month <= truth.best * (1 + 1e-9)
    assert solution.outcome is Outcome.OPTIMAL
    assert solution.best is not None
    check_plan(case, solution.best)


def check_plan(case: Case, plan: Incumbent) -> None:
    """The plan itself holds: everyone is served in every slot, all GPUs are bought, every limit is kept."""
    slots = range(len(case.slot_hours))
    assert [path.pool for path in plan.paths] == [pool.key for pool in case.pools]
    served = []
    for pool, path in zip(case.pools, plan.paths, strict=True):
        deployment = next((d for d in pool.deployments if d.key == path.deployment), None)
        api = next((a for a in pool.apis if a.key == path.api), None)
        assert path.slot.tolist() == list(slots)
        found = [
            next(w for w in ways(pool, (deployment, api), t) if w.replicas == path.replicas[t]) for t in slots
        ]
        assert path.firm_gpus.tolist() == [w.firm_gpus for w in found]
        served.append((path.offer, found))
    months = [case.team_usd_per_month if any(p.offer for p in plan.paths) else 0.0] * (
        int(case.slot_month.max()) + 1
    )
    for t in slots:
        by_gpu: dict[str, int] = {}
        usd_per_h = sum(found[t].api_usd_per_h for _, found in served)
        for g in {offer for offer, _ in served if offer is not None}:
            offer, bought = case.offers[g], plan.purchases[g]
            firm = sum(bought.reserved.values()) + int(bought.on_demand[t])
            every = firm + int(bought.spot[t])
            assert offer.box * every >= sum(found[t].gpus for host, found in served if host == g)
            assert offer.box * firm >= sum(found[t].firm_gpus for host, found in served if host == g)
            assert offer.max_instances is None or every <= offer.max_instances
            by_gpu[offer.gpu] = by_gpu.get(offer.gpu, 0) + offer.box * every
            usd_per_h += int(bought.on_demand[t]) * (offer.on_demand_usd_per_h or 0.0)
            usd_per_h += int(bought.spot[t]) * (offer.spot_usd_per_h or 0.0)
        assert all(by_gpu.get(gpu, 0) <= limit for gpu, limit in case.max_gpus.items())
        months[int(case.slot_month[t])] += usd_per_h * float(case.slot_hours[t])
    for g, bought in plan.purchases.items():
        held = sum(n * case.offers[g].reserved_usd_per_h[k] for k, n in bought.reserved.items())
        months = [usd + 730 * held for usd in months]
    assert plan.cost_usd_per_month == pytest.approx(sum(months) / len(months), rel=1e-9)
    assert case.budget_usd_per_month is None or max(months) <= case.budget_usd_per_month * (1 + 1e-9)


def test_the_cases_cover_the_rules() -> None:
    """Otherwise agreement would say little: each rule decides the optimum of some case."""
    cases = [solved(seed) for seed in SEEDS]
    feasible = [(case, truth) for case, truth in cases if truth.best < math.inf]
    assert len(feasible) >= 40
    assert len(cases) - len(feasible) >= 5
    assert sum(case.budget_usd_per_month is not None for case, _ in feasible) >= 8
    free = [Enumeration(case.without_limits()).best for case, _ in feasible]
    assert sum(truth.best > best * 1.001 for (_, truth), best in zip(feasible, free, strict=True)) >= 6
    assert {offer.box for case, _ in feasible for offer in case.offers.values()} == {1, 2, 4}
    for option in ("on demand", "spot", "reserved"):
        stripped = [Enumeration(_without_option(case, option)).best for case, _ in feasible]
        assert sum(best > truth.best * 1.001 for (_, truth), best in zip(feasible, stripped, strict=True)) >= 4
    without_api = [Enumeration(_without_apis(case)).best for case, _ in feasible]
    assert sum(best > truth.best * 1.001 for (_, truth), best in zip(feasible, without_api, strict=True)) >= 8


def _without_option(case: Case, option: str) -> Case:
    def stripped(offer: Offer) -> Offer:
        if option == "on demand":
            return replace(offer, on_demand_usd_per_h=None)
        if option == "spot":
            return replace(offer, spot_usd_per_h=None)
        return replace(offer, reserved_usd_per_h={})

    return replace(case, offers={k: stripped(offer) for k, offer in case.offers.items()})


def _without_apis(case: Case) -> Case:
    return replace(case, pools=tuple(replace(pool, apis=()) for pool in case.pools))


@pytest.mark.parametrize("seed", SEEDS)
def test_the_bound_of_column_generation_holds(seed: int) -> None:
    """It never exceeds the optimum, and comes as near to the linear program over all servings as it says."""
    case, truth = solved(seed)
    fleet = case.fleet
    generated = generate(fleet)
    relaxation = solve_lp(master(fleet)[0])
    assert generated.feasible == (relaxation.status is Status.OPTIMAL)
    if not generated.feasible:
        assert truth.best == math.inf
        return
    assert generated.bound <= truth.best * (1 + 1e-9)
    assert relaxation.objective is not None
    assert generated.bound <= relaxation.objective * (1 + 1e-9)
    assert generated.bound >= relaxation.objective * (1 - 1.01 * CONVERGED_FRAC)


@pytest.mark.parametrize("seed", SEEDS)
def test_servings_are_left_out_only_when_no_cheaper_plan_uses_them(seed: int) -> None:
    """For every serving: its bound is below the best plan that uses it, and what is dropped stays dropped."""
    case, truth = solved(seed)
    fleet = case.fleet
    generated = generate(fleet)
    if truth.best == math.inf or not generated.feasible:
        return
    cheapest = {w: min(generated.priced[r].value for r in rs) for w, rs in fleet.recipes_of.items()}
    for priced in generated.priced:
        bounds = generated.bound + priced.with_serving - cheapest[priced.recipe.pool]
        for key, bound in zip(servings(priced.recipe), bounds.tolist(), strict=True):
            assert bound <= truth.forced.get(key, math.inf) * (1 + 1e-9), key
    every = {key for recipe in fleet.recipes for key in servings(recipe)}
    for allowance in (1.0, 1.03, 1.1, 1.3):
        best_cost = truth.best * allowance
        kept, cut_for_size, _ = _still_possible(fleet, generated, best_cost)
        assert cut_for_size == 0
        left_out = every - {key for recipe in kept for key in servings(recipe)}
        cheaper = [key for key in left_out if truth.forced.get(key, math.inf) < best_cost * (1 - 1e-9)]
        assert not cheaper


def servings(recipe: Recipe) -> list[Forced]:
    each = zip(recipe.slot.tolist(), recipe.gpus.tolist(), recipe.firm_gpus.tolist(), strict=True)
    return [(recipe.pool, recipe.deployment, recipe.api, t, gpus, firm) for t, gpus, firm in each]


def test_servings_cut_for_size_are_covered_by_the_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    """With room for a handful of servings the plan may be dearer, but never the bound."""
    cut = 0
    for seed in SEEDS[:40]:
        case, truth = solved(seed)
        for room in (2, 5, 9):
            monkeypatch.setattr(fleet_solver, "MOST_SERVINGS", room)
            solution = solve_fleet(case.fleet, Options(solver="highs", gap_frac=0.0))
            if truth.best == math.inf:
                assert solution.best is None
                continue
            assert solution.cost_usd_per_month >= truth.best * (1 - 1e-9)
            assert solution.bound_usd_per_month <= truth.best * (1 + 1e-9)
            if solution.outcome is Outcome.OPTIMAL:
                assert solution.cost_usd_per_month == pytest.approx(truth.best, rel=1e-5)
            cut += solution.servings_left_out
    assert cut > 0


def test_more_workloads_than_the_program_has_room_for() -> None:
    """Each workload keeps its cheapest way in every slot, however many there are."""
    slots = 48
    api = Api("api", np.array([0.001]))
    names = [f"w{k}" for k in range(fleet_solver.MOST_SERVINGS // slots + 1)]
    pools = tuple(Pool(name, (name,), np.ones((slots, 1)), 1.0, False, (), (api,)) for name in names)
    case = Case(pools, {}, np.full(slots, 730 / slots), np.zeros(slots, dtype=int))
    solution = solve_fleet(case.fleet)
    assert solution.outcome is Outcome.OPTIMAL
    assert solution.cost_usd_per_month == pytest.approx(len(names) * 3.6 * 730)


@pytest.mark.parametrize("quiet_rps", [0.2, 1.0])
@pytest.mark.parametrize("short_frac", [1e-9, 1e-8, 5e-8, 2e-7, 1e-6])
def test_a_budget_just_too_small_is_infeasible(short_frac: float, quiet_rps: float) -> None:
    """A few cents under a bill of millions, in one month or in both, must be an answer, not an error."""
    api = Api("api", np.array([1.0]))
    pool = Pool("w", ("w",), np.array([[1.0], [quiet_rps]]), 1.0, False, (), (api,))
    case = Case((pool,), {}, np.full(2, 730.0), np.arange(2), budget_usd_per_month=730 * 3600 * (1 - short_frac))
    solution = solve_fleet(case.fleet, Options(gap_frac=0.0))
    if solution.outcome is not Outcome.INFEASIBLE:
        assert short_frac < 2e-9, "beyond what counts as rounding"
        assert solution.cost_usd_per_month == pytest.approx(730 * 3600 * (1 + quiet_rps) / 2)


def test_an_offer_that_sells_nothing_is_not_used() -> None:
    """Two workloads, one of which could only run there: infeasible, or without it when the other can."""
    staffing = Staffing(z=0.0, arrival_scv=1.0, rate_cv=0.0, batch=8.0, min_replicas=1)
    offers = {"none": Offer("none", "h", 1), "some": Offer("some", "h", 1, on_demand_usd_per_h=2.0)}
    deployments = tuple(Deployment(g, g, 1, np.ones(1), staffing) for g in offers)
    pool = Pool("w", ("w",), np.ones((2, 1)), 1.0, False, deployments, ())
    slow = replace(deployments[1], seconds_per_request=np.array([1.5]))
    case = Case((replace(pool, deployments=(deployments[0], slow)),), offers, np.full(2, 365.0), np.zeros(2, dtype=int))
    assert Enumeration(case).best == pytest.approx(2 * 2.0 * 730)
    assert solve_fleet(case.fleet, Options(gap_frac=0.0)).cost_usd_per_month == pytest.approx(2 * 2.0 * 730)
    stuck = replace(case, pools=(replace(pool, deployments=deployments[:1]),))
    assert solve_fleet(stuck.fleet, Options(gap_frac=0.0)).outcome is Outcome.INFEASIBLE


def test_a_workload_that_nobody_may_serve_is_infeasible() -> None:
    pool = Pool("w", ("w",), np.ones((2, 1)), 1.0, False, (), ())
    case = Case((pool,), {}, np.full(2, 365.0), np.zeros(2, dtype=int))
    assert solve_fleet(case.fleet).outcome is Outcome.INFEASIBLE
