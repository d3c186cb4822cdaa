"""The formulation that one would write from a textbook, on the same fleet, to compare with.

Whole replicas of every deployment in every slot, whole instances of every offer in every way of buying, and the
share of each length that goes to each deployment or API, all in one mixed-integer program:

    min   reserved x its price + on-demand, spot and their starts x their prices + API requests x their prices + team

    sum of shares = 1                                    every length of every workload in every slot
    load = sum of rate x seconds x share                 every deployment and slot
    replicas >= slope x load + intercept x used          the staffing rule, by a tangent of its concave margin: too
                                                         many for other loads, never too few
    load <= all it could carry x used                    with a binary per workload and deployment; at most K of
                                                         them, all of one model variant
    replicas >= least x used,  replicas >= load / most load of a replica
    box x instances >= GPUs of replicas;  box x firm instances >= GPUs that the critical load needs
    quotas, and a team where anything is used

It cannot share replicas between workloads, defer work or spread spot over zones; caching is decided before, by the
rough cost of each option; of the variants of a model on one offer it sees the one that needs the fewest GPUs. Its
bound is one on its own program. Its cost is judged by the rules that the other plans keep: exact replicas for the
loads it chose, bought in closed form.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from problems.constants import HOURS_PER_MONTH
from problems.fleet_problem import FleetProblem
from problems.model import Column, Model, Row, build_model
from problems.purchase import Purchase
from problems.recipes.pools import Deployment, Pool, firm_replicas, load_by_slot
from problems.recipes.recipe import Recipe, Use
from problems.staffing import Staffing
from solvers.backends.solve import SolverName, solve_mip
from solvers.heuristics.incumbent import Incumbent, complete, incumbent_of, limits_are_kept, usage

TIMES_OUR_SECONDS = 4
MOST_NONZEROS = 3_000_000
GAP_FRAC = 0.001
SMALLEST_SHARE = 1e-6
"""a share below this is the solver's tolerance, not a decision"""


def solve_textbook(fleet: FleetProblem, solver: SolverName, time_limit_s: float) -> dict[str, Any]:
    """Seconds, cost and bound; None where it found no plan, or would be too large to try."""
    started = time.monotonic()
    program = Program(fleet)
    size = program.nonzeros()
    if size > MOST_NONZEROS:
        note = f"not tried: about {size:,} nonzeros"
        return {"seconds": None, "cost": None, "bound": None, "note": note}
    model = program.model()
    result = solve_mip(model, solver=solver, gap_frac=GAP_FRAC, time_limit_s=time_limit_s)
    plan = program.plan(result.x) if result.x is not None else None
    return {
        "seconds": round(time.monotonic() - started, 2),
        "cost": plan.cost_usd_per_month if plan else None,
        "bound": result.bound + program.caches_usd_per_month() if np.isfinite(result.bound) else None,
        "status": result.status.value,
        "columns": model.n_columns,
        "nonzeros": model.n_nonzeros,
    }


def tangent(staffing: Staffing, load: np.ndarray) -> tuple[float, float]:
    """Slope and intercept of load + margin, where it touches between the mean and the peak of a pool's load."""
    at = (float(load.mean()) + float(load.max())) / 2
    step = 1e-6 * at
    below, above = staffing.margin(np.array([at - step, at + step]))
    slope = float(above - below) / (2 * step)
    return 1 + slope, float(staffing.margin(np.array([at]))[0]) - slope * at


def most_load(staffing: Staffing, peak: float) -> float:
    """The mean load that TTFT allows each of as many replicas as the peak needs: a textbook has one figure for all."""
    return float(staffing.most_load(staffing.replicas(np.array(peak))))


def most_replicas(pool: Pool, deployment: Deployment) -> int:
    """Replicas that the tangent asks for when the deployment carries all it can: never less than the rule does."""
    load = load_by_slot(pool, deployment)
    slope, intercept = tangent(deployment.staffing, load)
    peak = float(load.max())
    staffed = int(np.ceil(max(slope * peak + intercept, peak / most_load(deployment.staffing, peak))))
    return max(staffed, deployment.staffing.min_replicas)


@dataclass(frozen=True, eq=False)
class Choice:
    """A deployment that may serve a pool, with its columns."""

    pool: Pool
    deployment: Deployment
    used: int
    load: np.ndarray
    """columns [slot]"""
    replicas: np.ndarray
    share: np.ndarray
    """columns [slot, bucket]; -1 where it cannot serve"""


@dataclass(eq=False)
class Bought:
    """The columns of one offer."""

    reserved: dict[str, int] = field(default_factory=dict)
    by_hour: dict[str, np.ndarray] = field(default_factory=dict)
    """on-demand and spot, columns [slot]"""
    started: dict[str, np.ndarray] = field(default_factory=dict)

    def columns(self, t: int, firm: bool = False) -> list[int]:
        ways = [columns for way, columns in self.by_hour.items() if not (firm and way == "spot")]
        return [*self.reserved.values(), *(int(columns[t]) for columns in ways)]


class Program:
    """The mixed-integer program of a fleet, and what its values mean."""

    def __init__(self, fleet: FleetProblem) -> None:
        self.fleet = fleet
        self.slots = range(len(fleet.slot_hours))
        self.kept = [(pool, best_of_each_offer(pool)) for pool in plain_pools(fleet)]
        self.columns: list[Column] = []

    def nonzeros(self) -> int:
        """About: a share stands in two rows, and each deployment takes some twenty entries a slot."""
        shares = sum(pool.rate_rps.size * (2 * len(kept) + len(pool.apis)) for pool, kept in self.kept)
        return shares + 20 * sum(pool.slots * len(kept) for pool, kept in self.kept)

    def caches_usd_per_month(self) -> float:
        """What the caches cost, decided before."""
        return sum(float(self.fleet.weight @ pool.fixed_by_slot) for pool, _ in self.kept)

    def model(self) -> Model:
        self.choices = [self._choice(pool, d) for pool, kept in self.kept for d in kept]
        self.to_api = {pool.key: [self._api_shares(pool, k) for k in range(len(pool.apis))] for pool, _ in self.kept}
        self.on: dict[str, list[Choice]] = defaultdict(list)
        for choice in self.choices:
            self.on[choice.deployment.offer].append(choice)
        self.bought = {g: self._offer(g) for g in sorted(self.on)}
        variants = sorted({(c.pool.key, c.deployment.variant) for c in self.choices})
        self.variant = {of: self._add("variant", upper=1, integer=True) for of in variants}
        self.team = self._add("team", cost=self.fleet.team_usd_per_month, upper=1)
        return build_model(self.columns, self._rows())

    # -- columns ------------------------------------------------------------------------------------------

    def _add(self, name: str, cost: float = 0.0, upper: float = np.inf, integer: bool = False) -> int:
        self.columns.append(Column((name, len(self.columns)), cost, upper=upper, integer=integer))
        return len(self.columns) - 1

    def _add_all(self, name: str, costs: np.ndarray, upper: float = np.inf, integer: bool = False) -> np.ndarray:
        """Columns of one kind, one for each cost; none where that is not finite."""
        each = ((self._add(name, c, upper, integer) if np.isfinite(c) else -1) for c in costs.ravel().tolist())
        return np.fromiter(each, dtype=int).reshape(costs.shape)

    def _choice(self, pool: Pool, deployment: Deployment) -> Choice:
        free = np.zeros(pool.slots)
        possible = np.isfinite(deployment.seconds_per_request) & (pool.rate_rps > 0)
        most = most_replicas(pool, deployment)
        return Choice(
            pool,
            deployment,
            used=self._add("used", upper=1, integer=True),
            load=self._add_all("load", free),
            replicas=self._add_all("replicas", free, upper=most, integer=True),
            share=self._add_all("share", np.where(possible, 0.0, np.inf), upper=1),
        )

    def _api_shares(self, pool: Pool, k: int) -> np.ndarray:
        usd_per_h = 3600 * pool.rate_rps * pool.apis[k].usd_per_request
        costs = np.where(pool.rate_rps > 0, self.fleet.weight[:, None] * usd_per_h, np.inf)
        return self._add_all("to-api", costs, upper=1)

    def _offer(self, g: str) -> Bought:
        offer, bought, weight = self.fleet.offers[g], Bought(), self.fleet.weight
        gpus = sum(most_replicas(c.pool, c.deployment) * c.deployment.gpus_per_replica for c in self.on[g])
        most = float(np.ceil(gpus / offer.box))
        for term, usd_per_h in offer.reserved_usd_per_h.items():
            bought.reserved[term] = self._add("reserved", usd_per_h * HOURS_PER_MONTH, upper=most, integer=True)
        for way, price in (("on-demand", offer.on_demand_usd_per_h), ("spot", offer.spot_usd_per_h)):
            if price is not None:
                bought.by_hour[way] = self._add_all(way, weight * price, upper=most, integer=True)
                if self.fleet.starts_late(g):
                    bought.started[way] = self._add_all("started", weight * offer.start_h * price)
        return bought

    # -- rows ---------------------------------------------------------------------------------------------

    def _rows(self) -> Iterator[Row]:
        yield from self._everything_is_served()
        for n, choice in enumerate(self.choices):
            yield from self._replicas_suffice(n, choice)
        for g, bought in self.bought.items():
            yield from self._gpus_are_bought(g, bought)
            yield from self._starts_are_paid(g, bought)
        yield from self._quotas_are_kept()

    def _everything_is_served(self) -> Iterator[Row]:
        by_pool: dict[str, list[Choice]] = defaultdict(list)
        for choice in self.choices:
            by_pool[choice.pool.key].append(choice)
        for pool, _ in self.kept:
            choices = by_pool[pool.key]
            shares = np.array([*(c.share for c in choices), *self.to_api[pool.key]])
            for t, b in zip(*np.nonzero(pool.rate_rps > 0), strict=True):
                terms = [(c, 1.0) for c in shares[:, t, b].tolist() if c >= 0]
                yield Row(("served", pool.key, int(t), int(b)), terms, "==", 1.0)
            if choices:
                yield Row(("few", pool.key), [(c.used, 1.0) for c in choices], "<=", float(pool.max_deployments))
                variants = sorted({c.deployment.variant for c in choices})
                picked = {v: self.variant[pool.key, v] for v in variants}
                yield Row(("one-variant", pool.key), [(c, 1.0) for c in picked.values()], "<=", 1.0)
                for k, c in enumerate(choices):
                    terms = [(c.used, 1.0), (picked[c.deployment.variant], -1.0)]
                    yield Row(("variant", pool.key, k), terms, "<=", 0.0)

    def _replicas_suffice(self, n: int, choice: Choice) -> Iterator[Row]:
        pool, deployment, staffing = choice.pool, choice.deployment, choice.deployment.staffing
        most = load_by_slot(pool, deployment)
        slope, intercept = tangent(staffing, most)
        load = pool.rate_rps * _finite_seconds(deployment)
        yield Row(("team", n), [(choice.used, 1.0), (self.team, -1.0)], "<=", 0.0)
        for t, (r, carried) in enumerate(zip(choice.replicas.tolist(), choice.load.tolist(), strict=True)):
            lengths = np.flatnonzero(choice.share[t] >= 0)
            parts = zip(choice.share[t, lengths].tolist(), (-load[t, lengths]).tolist(), strict=True)
            yield Row(("load", n, t), [(carried, 1.0), *parts], "==", 0.0)
            yield Row(("used", n, t), [(carried, 1.0), (choice.used, -float(most[t]))], "<=", 0.0)
            yield Row(("staffed", n, t), [(r, 1.0), (carried, -slope), (choice.used, -intercept)], ">=", 0.0)
            yield Row(("least", n, t), [(r, 1.0), (choice.used, -float(staffing.min_replicas))], ">=", 0.0)
            busiest = most_load(staffing, float(most.max()))
            if busiest < 1:
                yield Row(("busy", n, t), [(r, 1.0), (carried, -1 / busiest)], ">=", 0.0)

    def _gpus_are_bought(self, g: str, bought: Bought) -> Iterator[Row]:
        box = float(self.fleet.offers[g].box)
        firm_terms = [_firm_terms(choice) for choice in self.on[g]]
        for t in self.slots:
            in_use = [(int(c.replicas[t]), -float(c.deployment.gpus_per_replica)) for c in self.on[g]]
            yield Row(("in-use", g, t), [(c, box) for c in bought.columns(t)] + in_use, ">=", 0.0)
            if "spot" in bought.by_hour:
                firm = [(c, -gpus) for terms in firm_terms for c, gpus in terms[t]]
                held = [(c, box) for c in bought.columns(t, firm=True)]
                if held or firm:
                    yield Row(("firm", g, t), held + firm, ">=", 0.0)

    def _starts_are_paid(self, g: str, bought: Bought) -> Iterator[Row]:
        assert self.fleet.slot_before is not None or not bought.started
        for way, started in bought.started.items():
            instances = bought.by_hour[way]
            for t, before in enumerate(self.fleet.slot_before.tolist()):
                terms = [(int(started[t]), 1.0), (int(instances[t]), -1.0), (int(instances[before]), 1.0)]
                yield Row(("started", g, way, t), terms, ">=", 0.0)

    def _quotas_are_kept(self) -> Iterator[Row]:
        for g, bought in self.bought.items():
            limit = self.fleet.offers[g].max_instances
            for t in self.slots if limit is not None else ():
                yield Row(("instances", g, t), [(c, 1.0) for c in bought.columns(t)], "<=", float(limit or 0))
        for gpu, most in self.fleet.max_gpus.items():
            offers = [(g, float(self.fleet.offers[g].box)) for g in self.bought if self.fleet.offers[g].gpu == gpu]
            for t in self.slots if offers else ():
                terms = [(c, box) for g, box in offers for c in self.bought[g].columns(t)]
                yield Row(("gpus", gpu, t), terms, "<=", float(most))

    # -- the plan that the values mean --------------------------------------------------------------------

    def plan(self, x: np.ndarray) -> Incumbent | None:
        """Exact replicas for the shares chosen, bought in closed form; by the program's own purchases where that
        breaks a limit and they hold everything."""
        paths = tuple(self._path(pool, x) for pool, _ in self.kept)
        bought = complete(self.fleet, paths)
        return bought or self._with_own_purchases(paths, x)

    def _path(self, pool: Pool, x: np.ndarray) -> Recipe:
        choices = [c for c in self.choices if c.pool is pool]
        columns = np.array([*(c.share for c in choices), *self.to_api[pool.key]])
        shares = np.where(columns >= 0, x[columns], 0.0)
        shares[shares < SMALLEST_SHARE] = 0.0
        shares = shares / np.where(pool.rate_rps > 0, shares.sum(axis=0), 1.0)
        taking = [(c.deployment, s) for c, s in zip(choices, shares, strict=False) if s.any()]
        usd_per_h = np.array(pool.fixed_by_slot)
        for api, share in zip(pool.apis, shares[len(choices) :], strict=True):
            usd_per_h = usd_per_h + 3600 * (pool.rate_rps * share) @ api.usd_per_request
        return Recipe(
            pool=pool.key,
            workloads=pool.workloads,
            uses=tuple(_use(pool, deployment, share, len(taking) > 1) for deployment, share in taking),
            api=next((api.key for api, s in zip(pool.apis, shares[len(choices) :], strict=True) if s.any()), None),
            slot=np.arange(pool.slots),
            usd_per_h=usd_per_h,
            penalty_usd_per_h=np.zeros(pool.slots),
            shed_frac=np.zeros(pool.slots),
            caching=pool.caching,
        )

    def _with_own_purchases(self, paths: tuple[Recipe, ...], x: np.ndarray) -> Incumbent | None:
        purchases = {}
        for g, bought in self.bought.items():
            none = np.zeros(len(self.slots), dtype=int)
            held = {term: round(x[c]) for term, c in bought.reserved.items() if round(x[c])}
            on_demand, spot = (
                np.rint(x[bought.by_hour[way]]).astype(int) if way in bought.by_hour else none
                for way in ("on-demand", "spot")
            )
            box, firm = self.fleet.offers[g].box, sum(held.values()) + on_demand
            gpus, firm_gpus = usage(self.fleet, paths, g)
            if (box * firm < firm_gpus).any() or (box * (firm + spot) < gpus).any():
                return None
            if held or on_demand.any() or spot.any():
                purchases[g] = Purchase(held, on_demand, spot)
        plan = incumbent_of(self.fleet, paths, purchases)
        return plan if limits_are_kept(self.fleet, plan) else None


def plain_pools(fleet: FleetProblem) -> list[Pool]:
    """One pool for each workload by itself, under the caching that is cheapest by rough cost."""
    alone = [pool for pool in fleet.pools.values() if len(pool.workloads) == 1]
    return [
        min((pool for pool in alone if pool.workloads == (w,)), key=lambda pool: _rough_usd_per_month(fleet, pool))
        for w in fleet.workloads
    ]


def _rough_usd_per_month(fleet: FleetProblem, pool: Pool) -> float:
    """Every GPU at its cheapest price, with no margin and no whole numbers; or the API."""
    costs = [np.inf]
    for d in pool.deployments:
        offer = fleet.offers.get(d.offer)
        if offer is not None and offer.to_be_had and d.serves_all:
            ways = (offer.on_demand_usd_per_h, offer.spot_usd_per_h, *offer.reserved_usd_per_h.values())
            price = min(p for p in ways if p is not None) / offer.box
            costs.append(float(fleet.weight @ load_by_slot(pool, d)) * d.gpus_per_replica * price)
    costs += [float(fleet.weight @ (3600 * pool.rate_rps @ api.usd_per_request)) for api in pool.apis]
    return min(costs) + float(fleet.weight @ pool.fixed_by_slot)


def best_of_each_offer(pool: Pool) -> list[Deployment]:
    """The deployment that needs the fewest GPUs for the pool's mix, of those on one offer that serve most lengths."""
    best: dict[str, Deployment] = {}
    for d in pool.deployments:
        if d.offer not in best or _gpus_needed(pool, d) < _gpus_needed(pool, best[d.offer]):
            best[d.offer] = d
    return list(best.values())


def _gpus_needed(pool: Pool, d: Deployment) -> tuple[int, float]:
    lengths_missing = int(np.isinf(d.seconds_per_request).sum())
    return lengths_missing, d.gpus_per_replica * float(load_by_slot(pool, d).sum())


def _firm_terms(choice: Choice) -> list[list[tuple[int, float]]]:
    """Firm GPUs that a deployment needs, as terms of columns, by slot."""
    pool, d = choice.pool, choice.deployment
    gpus = float(d.gpus_per_replica)
    if not pool.spot_allowed or not (d.spot_allowed or pool.critical_share == 0):
        return [[(int(r), gpus)] for r in choice.replicas]
    if pool.critical_share == 0:
        return [[] for _ in choice.load]
    slope, intercept = tangent(d.staffing, load_by_slot(pool, d))
    return [[(int(c), gpus * slope * pool.critical_share), (choice.used, gpus * intercept)] for c in choice.load]


def _finite_seconds(d: Deployment) -> np.ndarray:
    return np.where(np.isfinite(d.seconds_per_request), d.seconds_per_request, 0.0)


def _use(pool: Pool, d: Deployment, share: np.ndarray, mixed: bool) -> Use:
    """What the rules ask of a deployment that takes these shares [slot, bucket]."""
    staffing = (d.staffing_in_a_mix or d.staffing) if mixed else d.staffing
    load = (pool.rate_rps * share) @ _finite_seconds(d)
    replicas = staffing.replicas(load)
    most = np.minimum(staffing.carried_load(replicas), load_by_slot(pool, d)) if mixed else load
    firm = firm_replicas(pool, d, staffing, most, replicas)
    return Use(d.key, d.offer, d.gpus_per_replica, replicas, firm, load)
