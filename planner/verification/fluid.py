"""A plan behind a controller as flows, a week in milliseconds: what settings are tried on before requests are served.

Work comes as load, in replicas kept busy, tick by tick; what is more than ready replicas can do waits. How many
requests are in flight, and which share is in time, is read off a table by load: the simulator serves minutes of the
busiest hours at several loads. So a trial knows queues of minutes, and of bursts within a minute what the table has.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from planner.case.case import HOURS_KEPT_FRAC
from planner.case.controller import Controller, controllers
from planner.plan.account.account import PlanAccount, account_of
from planner.plan.operated import Operation
from planner.plan.plan import Plan, PoolPlan
from planner.verification.arrivals import HOURS, slots_of_week, swings
from planner.verification.billing import Prices, planned_usd, prices_of
from planner.verification.compiled import compiled
from planner.verification.differs import Differs
from planner.verification.measuring import clearly_missed
from planner.verification.operation import Setting, setting_of
from planner.verification.records import Verification, WorkloadServed
from planner.verification.scaling import READY, STARTING, Memory, Rule, become, decide, fresh, started
from planner.verification.serving import ServeOptions, busiest_month, verify_plan

LOADS = (0.4, 0.7, 0.85, 0.95, 1.05, 1.15, 1.3, 1.6)
"""times the demand of the busiest hours, at which requests are served for the table"""
REQUESTS, LOST = 20_000, 0.5
"""requests of each, about; and the share in time below which replicas are taken to fall behind"""
EVERY = np.ones(HOURS)
IN_FLIGHT, RUNNING, WAITING, RATE, KV, SLO = range(6)
SIGNALS = {"in-flight": IN_FLIGHT, "running": RUNNING, "waiting": WAITING, "rate": RATE, "kv": KV, "slo": SLO}
"""those that flows have"""


@dataclass(frozen=True, eq=False)
class Response:
    """What a replica shows at a load."""

    load: np.ndarray
    """of a replica, rising"""
    in_flight: np.ndarray
    within: np.ndarray
    """[promise of the pool, load]"""
    most: float
    """load that it can carry"""


@dataclass(frozen=True, eq=False)
class Promised:
    workload: str
    what: str
    percentile: float
    target_s: float


@dataclass(frozen=True, eq=False)
class Flowing:
    """A deployment, ready for trials."""

    pool: PoolPlan
    place: int
    """in its pool"""
    load: np.ndarray
    """as forecast [hour of the week]"""
    seconds: np.ndarray
    """of a replica that a request takes [hour of the week]"""
    drain_s: float
    promises: tuple[Promised, ...]
    response: Response


@dataclass(frozen=True, eq=False)
class Flowed:
    """What a trial came to."""

    usd_per_month: float
    worst: float
    """least margin of any promise: share in time less what was promised, over all requests"""
    kept: bool


@compiled
def flow(
    rule: Rule, memory: Memory, floor: np.ndarray, load: np.ndarray, seconds: np.ndarray, known: np.ndarray,
    in_flight: np.ndarray, most: float, signal: int, period: float, machine_s: float, engine_s: float, each_has: int,
    drain: int, out: np.ndarray,
) -> None:  # fmt: skip
    """Run a controller over ticks; out: ready, billed, load of a ready replica, seconds that work waits [., tick]."""
    behind = 0.0
    for k in range(len(load)):
        began = memory.at[READY]
        now = period * k
        started(memory, now)
        ready = memory.at[READY]
        can = max(ready, began) * most
        behind = max(0.0, behind + (load[k] - can) * period)
        each = min(load[k] / max(ready, 1e-9), most) if ready > 0 else most
        if behind > 0.0:
            each = most
        running = ready * np.interp(each, known, in_flight)
        waits = behind / max(seconds[k], 1e-9)
        seen = running + waits
        if signal == RUNNING:
            seen = running
        elif signal == WAITING:
            seen = waits
        elif signal == RATE:
            seen = load[k] / max(seconds[k], 1e-9)
        gone = become(memory, now, decide(rule, memory, seen, floor[k]), machine_s, engine_s, each_has)
        out[0, k] = ready
        out[1, k] = memory.at[READY] + memory.at[STARTING]
        out[2, k] = each if ready > 0 else 2.0 * most
        out[3, k] = behind / max(can, 1e-9) if ready > 0 else 1e6 * (load[k] > 0)
        for m in range(k, min(len(load), k + drain)):
            out[4, m] += gone
    for k in range(len(load)):
        out[1, k] += out[4, k]


class Trials:
    """A plan on which controllers are tried."""

    def __init__(self, plan: Plan, seed: int = 1) -> None:
        self.view: PlanAccount = account_of(plan)
        self.plan, self.seed = plan, seed
        self.week = slots_of_week(plan, busiest_month(self.view))
        self.deployments = tuple(_flowing(self.view, self.week, seed))
        self.swings: dict[int, np.ndarray] = {}
        self.prices: dict[tuple[str, int], Prices] = {}

    @property
    def hours_kept_frac(self) -> float:
        """Share of the hours in which each promise must be kept."""
        given = self.view.case.limits.hours_kept_frac
        return HOURS_KEPT_FRAC if given is None else given

    def trial(self, controller: Controller, scenarios: tuple[tuple[int, Differs | None], ...]) -> Flowed:
        """The mean cost over scenarios (seed, how demand differs), and whether every promise is kept in all of them."""
        costs, worst, kept = [], np.inf, True
        for seed, differs in scenarios:
            usd, margin, holds = self._one(controller, seed, differs)
            costs.append(usd)
            worst, kept = min(worst, margin), kept and holds
        return Flowed(float(np.mean(costs)), worst, kept)

    def _one(self, controller: Controller, seed: int, differs: Differs | None) -> tuple[float, float, bool]:
        usd, margins, kept = self.plan.cost_usd_per_month, [0.0], True
        needed = self.hours_kept_frac
        in_time: dict[tuple[str, str], list[np.ndarray]] = {}
        for f, setting, load, seconds, out in self._week(controller, seed, differs):
            prices = self._prices(f, setting)
            usd += prices.a_month(prices.usd(setting.instances(out[1])), EVERY)
            usd -= prices.a_month(planned_usd(prices, setting), EVERY)
            requests = load / np.maximum(seconds, 1e-9) * setting.controller.period_s
            for k, p in enumerate(f.promises):
                share = np.interp(out[2], f.response.load, f.response.within[k])
                share = np.where((out[3] > p.target_s) & (p.what != "TPOT"), 0.0, share)
                good, count = ((x).reshape(HOURS, -1).sum(axis=1) for x in (share * requests, requests))
                in_time.setdefault((p.workload, p.what), []).append(
                    np.array([good, count, np.full(HOURS, p.percentile)])
                )
        for parts in in_time.values():
            good, count = np.sum([x[0] for x in parts], axis=0), np.sum([x[1] for x in parts], axis=0)
            percentile = float(parts[0][2][0])
            share = float(good.sum() / max(count.sum(), 1e-9))
            bad = clearly_missed(good, count, percentile)
            hours = 1 - float(bad.sum()) / max(1, int((count >= 20).sum()))
            margins.append(share - percentile)
            kept = kept and share >= percentile and hours >= needed
        return usd, min(margins[1:], default=0.0), kept

    def corrected(
        self, run: Verification, controller: Controller, seed: int, differs: Differs | None, days: int = 7
    ) -> Operation | None:
        """What a run came to; where it served some days or a sample of hours, its costs are those of the whole week.

        These are the costs of flows, times what the hours that were served cost over what flows say that they cost:
        a few hours alone are off by half, since most of them cost nothing but what is committed to.
        """
        operation = run.operation
        sampled = {h.pool: np.array(h.hours, dtype=np.int64) for h in run.hours if h.sampled}
        if operation is None or (days == 7 and not sampled):
            return operation
        whole: dict[tuple[str, str], tuple[float, float]] = {}
        for f, setting, _, _, out in self._week(controller, seed, differs):
            prices, served = self._prices(f, setting), sampled.get(f.pool.key, np.arange(24 * days))
            key = (f.pool.key, f.pool.deployments[f.place].deployment.key)
            operated = next(d for d in operation.deployments if (d.pool, d.deployment) == key)
            flows = prices.usd(setting.instances(out[1]))
            seen, said = float(np.array(operated.usd_by_hour)[served].sum()), float(flows[served].sum())
            planned = prices.a_month(planned_usd(prices, setting), EVERY)
            whole[key] = prices.a_month(flows, EVERY) * (seen / said if said > 0 else 1.0), planned
        deployments = tuple(
            d.model_copy(update=dict(zip(("usd_per_month", "planned_usd_per_month"), whole[key], strict=True)))
            if (key := (d.pool, d.deployment)) in whole else d
            for d in operation.deployments
        )  # fmt: skip
        more = sum(
            d.usd_per_month - d.planned_usd_per_month - (old.usd_per_month - old.planned_usd_per_month)
            for d, old in zip(deployments, operation.deployments, strict=True)
        )
        return operation.model_copy(
            update={"deployments": deployments, "usd_per_month": operation.usd_per_month + more}
        )

    def _week(
        self, controller: Controller, seed: int, differs: Differs | None
    ) -> Iterator[tuple[Flowing, Setting, np.ndarray, np.ndarray, np.ndarray]]:
        """Each deployment with its load and seconds by the tick, and what `flow` says of it."""
        factors = self._factors(seed)
        if differs is not None:
            factors = factors * np.repeat(differs.factors(self.view, self.week, seed), 60)
        for f in self.deployments:
            setting = setting_of(self.view, f.pool, f.pool.deployments[f.place], self.week, controller)
            yield f, setting, *self._flow(f, setting, factors)

    def _flow(self, f: Flowing, setting: Setting, factors: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        s, c = setting, setting.controller
        per_min = 60 / c.period_s
        minute = (np.arange(HOURS * s.ticks_per_h) / per_min).astype(int)
        mine = [k for k, served in enumerate(self.view.served) if served.w.name in f.pool.workloads]
        load = f.load[minute // 60] * factors[mine].mean(axis=0)[minute]
        seconds = f.seconds[minute // 60]
        floor = s.floors()
        memory = fresh(s.rule, int(min(max(floor[0], s.planned[0]), s.rule.most)))
        out = np.zeros((5, len(load)))
        flow(
            s.rule, memory, floor, load, seconds, f.response.load, f.response.in_flight, f.response.most,
            SIGNALS.get(c.signal, IN_FLIGHT), c.period_s, s.machine_s, s.engine_s, s.each_has,
            int(np.ceil(f.drain_s / c.period_s)), out,
        )  # fmt: skip
        return load, seconds, out

    def _prices(self, f: Flowing, setting: Setting) -> Prices:
        key = (f.pool.key, f.place)
        if key not in self.prices:
            self.prices[key] = prices_of(self.view, f.pool.deployments[f.place], setting, self.week)
        return self.prices[key]

    def _factors(self, seed: int) -> np.ndarray:
        if seed not in self.swings:
            workloads = tuple(s.w for s in self.view.served)
            correlation = self.view.case.tenancy.correlation
            self.swings[seed] = swings(workloads, correlation, np.random.default_rng(seed))
        return self.swings[seed]


def _flowing(view: PlanAccount, week: np.ndarray, seed: int) -> list[Flowing]:
    plan, options = view.plan, ServeOptions(seed=seed, busiest=REQUESTS, controller=controllers()["schedule"])
    runs = [verify_plan(plan, replace(options, load=x)) for x in LOADS]
    found = []
    for pool in plan.pools:
        if not pool.deployments or view.may_wait(pool):
            continue
        promises = tuple(
            Promised(w.name, p.what, p.percentile, p.target_s)
            for w in runs[0].workloads
            if w.name in pool.workloads
            for p in w.promises
        )
        within = np.array(
            [
                [_share(run.workloads, p) for run in runs]
                for p in promises
            ]
        )  # fmt: skip
        for k, deployed in enumerate(pool.deployments):
            load = np.array(deployed.load_by_slot)
            rate = view.carried(pool, k).sum(axis=1)
            each = np.divide(load, rate, out=np.zeros_like(load), where=rate > 0)
            operated = [
                next(
                    d
                    for d in run.operation.deployments
                    if (d.pool, d.deployment) == (pool.key, deployed.deployment.key)
                )
                for run in runs
                if run.operation is not None
            ]
            # What sampled minutes had of load and of requests in flight, for a ready replica.
            loads = np.array([d.load_frac for d in operated])
            flights = np.array([d.in_flight for d in operated])
            order = np.argsort(loads)
            worst = within[:, order].min(axis=0) if len(within) else np.ones(len(order))
            carries = loads[order][worst >= LOST]
            most = float(carries.max()) if len(carries) else float(loads.max())
            d = deployed.deployment
            answers = max(b.output_tokens for w in view.case.workloads if w.name in pool.workloads for b in w.buckets)
            found.append(
                Flowing(
                    pool=pool,
                    place=k,
                    load=load[week],
                    seconds=each[week],
                    drain_s=((d.ttft_ms or 0.0) + d.tpot_ms * answers) / 1000,
                    promises=promises,
                    response=Response(
                        np.append(0.0, loads[order]),
                        np.append(0.0, np.maximum.accumulate(flights[order])),
                        np.concatenate([within[:, order[:1]], within[:, order]], axis=1),
                        most,
                    ),
                )
            )
    return found


def _share(workloads: tuple[WorkloadServed, ...], promised: Promised) -> float:
    promises = [(w.name, p) for w in workloads for p in w.promises]
    return next((p.within_frac for name, p in promises if (name, p.what) == (promised.workload, promised.what)), 1.0)
