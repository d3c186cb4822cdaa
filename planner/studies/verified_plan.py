"""Plan, serve the plan, and where it misses a promise tighten what missed and plan again.

What missed is a kind of replica in a pool, in some hours of a weekday or a weekend day: it carries less than the
staffing rule says. Its load factor in these hours is lowered so that each has one replica more, and never raised again.
Where work waits or several deployments share it by length, one factor holds in all hours, and the busiest has one
more. All rounds serve the same requests, so that they can
be compared; a plan that keeps every promise is served once more with a fresh seed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from planner.case.case import HOURS_OF_DAYS, Case, LoadFactor
from planner.case.slots import hour_of_days
from planner.io.errors import OutOfTime
from planner.pipeline import Kept, OnKept, plan_fleet, why
from planner.plan.account.account import PlanAccount, account_of
from planner.plan.account.replicas import staffing
from planner.plan.plan import LeftOut, Plan, PoolPlan, Served
from planner.plan.study_records import Why
from planner.verification.records import Verification, WorkloadServed
from planner.verification.serving import ServeOptions, verify_plan
from solvers.backends.clock import Stopped, TimeIsUp, limited_to
from solvers.search.fleet_solution import Options, Progress

ROUNDS = 5
"""plans that are served at most"""
CLEARLY = 1e-6
"""by which a load is above what replicas carry"""
PLAN_FRAC = 0.6
"""share of what is left of a time limit that a plan may take, so that it can be served"""


@dataclass(frozen=True, eq=False)
class _Round:
    plan: Plan
    served: Verification
    """the one that misses more, of the seeds that were tried"""

    @property
    def shortfall(self) -> float:
        """How far the promises are missed, together."""
        promises = [p for w in self.served.workloads for p in w.promises]
        over_all = sum(max(0.0, p.percentile - p.within_frac) for p in promises)
        return over_all + sum(
            p.hours_promised_frac - (p.hours_kept_frac or 0.0) for p in promises if not p.kept_by_the_hour
        )


def plan_and_verify(
    case: Case,
    options: Options,
    serving: ServeOptions,
    on_progress: Callable[[Progress], None] = lambda progress: None,
    on_plan: Callable[[Plan], None] = lambda plan: None,
    on_kept: OnKept = lambda kept: None,
) -> Plan:
    """The cheapest plan found that keeps its promises when it is served, or the best so far after some rounds.

    `on_plan` gets every checked plan before it is served, `on_kept` what there is of the last one. Where no plan was
    served, for lack of time or because somebody wished to stop, the last one says so.
    """

    def keep(kept: Kept) -> None:
        on_kept(replace(kept, missing=(*kept.missing, "verified")))

    rounds: list[_Round] = []
    unserved: Plan | None = None
    stopped: Why | None = None
    limit_s = options.time_limit_s or 0.0
    with limited_to(options.time_limit_s) as limit:
        try:
            for n in range(1, ROUNDS + 1):
                head = f"round {n} of at most {ROUNDS}: "
                within = None if options.time_limit_s is None else PLAN_FRAC * limit.left_s
                unserved = plan_fleet(case, replace(options, time_limit_s=within), _heard(on_progress, head), keep)
                if unserved.interrupted:
                    stopped = "interrupted"
                    break
                on_plan(unserved)
                keep(Kept(unserved, ()))
                rounds.append(_Round(unserved, _served(unserved, serving, _share_heard(on_progress, head))))
                if rounds[-1].served.kept:
                    break
                case = _tightened(case, rounds[-1])
        except Stopped as stop:
            if unserved is None and limit.ended(stop):
                raise OutOfTime(limit_s, "looking for a first plan", limit_s) from None
            if unserved is None or (isinstance(stop, TimeIsUp) and not limit.ended(stop)):
                raise
            stopped = why(stop)
    assert unserved is not None
    best = _best_of(rounds)
    plan = unserved if best is None else _with_record(best, rounds, serving)
    if stopped == "interrupted" or (stopped is not None and best is None):
        plan = plan.model_copy(update={"left_out": (*(plan.left_out or ()), LeftOut(what="verified", why=stopped))})
    return plan


def _best_of(rounds: list[_Round]) -> _Round | None:
    """The last one where it keeps its promises, else the one that misses them least."""
    if rounds and rounds[-1].served.kept:
        return rounds[-1]
    return min(rounds, key=lambda r: r.shortfall, default=None)


def _heard(on_progress: Callable[[Progress], None], head: str) -> Callable[[Progress], None]:
    return lambda p: on_progress(replace(p, phase=head + p.phase))


def _share_heard(on_progress: Callable[[Progress], None], head: str) -> Callable[[str, float], None]:
    return lambda what, done: on_progress(Progress(f"{head}{what} ({done:.0%})", None, None))


def _served(plan: Plan, serving: ServeOptions, tell: Callable[[str, float], None]) -> Verification:
    """Serve with one seed, and confirm with the next."""
    first = verify_plan(plan, serving, tell)
    return verify_plan(plan, replace(serving, seed=serving.seed + 1), tell) if first.kept else first


def _tightened(case: Case, found: _Round) -> Case:
    """The case with lower load factors for the replicas of every pool that misses a promise."""
    missed = {w.name: _bad_hours(w) for w in found.served.workloads if not w.kept}
    factors = {(f.workloads, f.replica, f.hours): f for f in case.load_factors or ()}
    view = account_of(found.plan)
    for pool in found.plan.pools:
        bad = set[int]().union(*(missed[name] for name in pool.workloads if name in missed))
        for k, hosted in enumerate(pool.deployments if bad else ()):
            d = hosted.deployment
            kind = d.variant.key_on(d.gpu)
            by_hour = case.load_factors_of(pool.workloads, kind)
            for hours, less in _one_replica_more(view, pool, k, bad).items():
                now = min(by_hour) if hours is None else by_hour[hours[0]]
                factors[pool.workloads, kind, hours] = LoadFactor(
                    workloads=pool.workloads, replica=kind, factor=now * less, hours=hours
                )
    return case.model_copy(update={"load_factors": tuple(factors.values()) or None})


def _bad_hours(w: WorkloadServed) -> set[int]:
    """Hours of the days in which a workload misses a promise; all, if none has requests enough to tell."""
    bad = {h for p in w.promises if not p.kept for h in p.bad_hours_of_days}
    return bad or set(range(HOURS_OF_DAYS))


def _one_replica_more(view: PlanAccount, pool: PoolPlan, k: int, bad: set[int]) -> dict[tuple[int, ...] | None, float]:
    """By how much its replicas must carry less so that bad hours of a deployment need one more; None: in all hours.

    Of the same hour in several months the one that needs it most counts.
    """
    hosted = pool.deployments[k]
    carried = staffing(view, pool, k).carried_load(np.array(hosted.replicas_by_slot)).tolist()

    def less(t: int) -> float:
        replicas, load = hosted.replicas_by_slot[t], hosted.load_by_slot[t]
        most = carried[t]
        return min(replicas / (replicas + 1), (1 - CLEARLY) * load / most) if most > 0 else 1.0

    if view.in_a_mix(pool, k) or view.may_wait(pool):
        return {None: less(max(range(len(view.slots)), key=lambda t: hosted.load_by_slot[t]))}
    by_hour: dict[tuple[int, ...] | None, float] = {}
    for t, slot in enumerate(view.slots):
        hour = hour_of_days(slot.day, slot.hour)
        if hour in bad and hosted.load_by_slot[t] > 0:
            by_hour[(hour,)] = min(less(t), by_hour.get((hour,), 1.0))
    return by_hour


def _with_record(best: _Round, rounds: list[_Round], serving: ServeOptions) -> Plan:
    first = rounds[0].plan
    missed = tuple(f"{w.name}: {p.what}" for w in best.served.workloads for p in w.promises if not p.kept)
    record = Served(
        kept=best.served.kept,
        requests=best.served.requests,
        seeds=(serving.seed, serving.seed + 1) if best.served.seed != serving.seed else (serving.seed,),
        rounds=len(rounds),
        first_bound_usd_per_month=first.bound_usd_per_month,
        first_cost_usd_per_month=first.cost_usd_per_month,
        missed=missed,
    )
    return best.plan.model_copy(update={"verified": record})
