"""Settings of a controller with which promises hold at the least cost: tried as flows, then served as requests."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from itertools import product

import numpy as np

from planner.case.controller import Controller
from planner.io.errors import input_error
from planner.plan.operated import Attained, Differing, Operation, Tuned
from planner.plan.plan import Plan
from planner.verification.differs import Differs
from planner.verification.fluid import SIGNALS, Flowed, Trials
from planner.verification.records import Verification
from planner.verification.serving import ServeOptions, attained, verify_plan

TARGETS = (1.0, 0.8, 0.7, 0.6, 0.5, 0.4)
"""share of what a replica has in flight in the busiest hour of the plan"""
WINDOWS_S = (0.0, 600.0)
"""over which that is averaged: swings of minutes are over before a replica has started"""
FLOORS = (1.0, 0.75)
"""share of the planned replicas that stays in any case"""
BUFFERS_FRAC = (0.0, 0.2)
"""of the peak, in whole replicas"""
CEILINGS = (1.0, 1.25, 1.5)
DOWN_WINDOWS_S = (60.0, 300.0)
SEEDS = (1, 2)
"""of the trials"""
SERVED_SEED = 3
REQUESTS, DAYS = 1_500_000, 1
"""served one by one for each setting that trials liked: a Monday, or a sample of its hours where it has more"""
ROUNDS = 4
FINALISTS = 20
"""settings of the first trial that are tried on all days"""
WORTHWHILE_FRAC = 0.01
"""of the cost, by which a setting must differ to be served too"""
SPARE_FRAC, SPARE_HOURS_FRAC = 0.01, 1 / 24
"""by which promises must hold more than they need, over requests and hours: of the settings that are served the
cheapest that holds is taken, which is lucky with its day"""
OnShare = Callable[[str, float], None]
Tried = tuple[Flowed, Controller]


def tuned(
    plan: Plan,
    controller: Controller,
    error_frac: float,
    on_progress: OnShare = lambda what, done: None,
    requests: int = REQUESTS,
) -> Operation:
    """The plan behind the controller with settings that keep every promise, where any that were tried do.

    Where none does, those that come nearest; the operation says what is missed.
    """
    if not controller.can_be_tuned or controller.signal not in SIGNALS:
        remedy = "Give keda, hpa or skyserve, or write the settings of others under policy: {autoscaler:}"
        raise input_error("--autoscaler", f"{controller.name} has nothing that is tuned", remedy)
    on_progress("serving samples at several loads", 0.0)
    trials = Trials(plan, SEEDS[0])
    if not trials.deployments:
        raise input_error("--autoscaler", "the plan has no replicas that answer at once", "Plan without it")
    signs = (0, 1, -1) if error_frac else (0,)
    scenarios = tuple((seed, Differs(error_frac, sign) if error_frac else None) for seed in SEEDS for sign in signs)
    settings = _settings(controller, trials)
    first: list[Tried] = []
    for k, setting in enumerate(settings):
        if k % 16 == 0:
            on_progress(f"trying setting {k + 1} of {len(settings)}", 0.1 + 0.3 * k / len(settings))
        first.append((trials.trial(setting, scenarios[: min(2, len(signs))]), setting))
    on_progress("trying the best of them on other days", 0.4)
    best = _spread(_front(first), FINALISTS)
    front = _front([(trials.trial(setting, scenarios), setting) for _, setting in best])
    return _served(trials, front, error_frac, len(settings), on_progress, requests)


def _settings(controller: Controller, trials: Trials) -> list[Controller]:
    peak = max(max(f.pool.deployments[f.place].replicas_by_slot) for f in trials.deployments)
    buffers = sorted({math.ceil(share * peak - 1e-9) for share in BUFFERS_FRAC})
    every = [
        (target, window, floor, buffer, ceiling, down)
        for target, window, floor, buffer, ceiling, down in product(
            TARGETS, WINDOWS_S, FLOORS, buffers, CEILINGS, DOWN_WINDOWS_S
        )
        if not buffer or (floor == 1 and not window)  # a buffer is for swings that nothing follows
    ]
    return [
        controller.model_copy(
            update={
                "schedule": True, "target": controller.target * target, "window_s": window, "floor_share": floor,
                "buffer": buffer, "most_ratio": ceiling, "down_window_s": down,
            }
        )
        for target, window, floor, buffer, ceiling, down in every
    ]  # fmt: skip


def _front(tried: list[Tried]) -> list[Tried]:
    """Settings than which none is cheaper and as safe, from the cheapest on: each is safer than those before."""
    order = sorted(tried, key=lambda x: (round(x[0].usd_per_month, 2), -round(x[0].worst, 4), x[1].most_ratio))
    front: list[Tried] = []
    for x in order:
        if not front or round(x[0].worst, 4) > round(front[-1][0].worst, 4):
            front.append(x)
    return front


def _spread(front: list[Tried], number: int) -> list[Tried]:
    """So many of them, evenly."""
    places = np.unique(np.linspace(0, len(front) - 1, min(number, len(front))).round().astype(int))
    return [front[k] for k in places]


def _served(
    trials: Trials,
    front: list[Tried],
    error_frac: float,
    settings: int,
    on_progress: OnShare,
    requests: int,
) -> Operation:
    """The cheapest that keeps every promise when requests are served.

    Flows rank settings well, and think them less safe than requests do: so the front is halved, from the cheapest on
    that holds as flows, with those that hold on one side and those that miss on the other.
    """
    best: _Round | None = None
    rounds = 0

    def serve(controller: Controller | None, differs: Differs | None) -> Verification:
        on_progress(f"serving setting {rounds} request by request", min(1.0, 0.6 + 0.1 * (rounds - 1)))
        options = ServeOptions(
            seed=SERVED_SEED, controller=controller, differs=differs, most_requests=requests, days=DAYS
        )
        return verify_plan(trials.plan, options)

    def operate(controller: Controller, sign: int) -> Operation:
        differs = Differs(error_frac, sign) if sign else None
        operation = trials.corrected(serve(controller, differs), controller, SERVED_SEED, differs, DAYS)
        assert operation is not None
        return operation

    low, high = -1, len(front)
    place = next((k for k, (flowed, _) in enumerate(front) if flowed.kept), len(front) - 1)
    while rounds < ROUNDS:
        rounds += 1
        flowed, controller = front[place]
        wrong = (operate(controller, 1),) if error_frac else ()
        found = _Round(operate(controller, 0), wrong, flowed, controller, trials.hours_kept_frac)
        if best is None or (not found.holds, found.shortfall, found.usd) < (not best.holds, best.shortfall, best.usd):
            best = found
        low, high = (low, place) if found.holds else (place, high)
        between = _worthwhile(front, low, high)
        if not between:
            break
        place = between[len(between) // 2]
    assert best is not None
    runs = (*best.wrong, operate(best.controller, -1)) if error_frac else ()
    how = Tuned(
        forecast_error_frac=error_frac,
        settings=settings,
        seeds=(*SEEDS, SERVED_SEED),
        rounds=rounds,
        flow_usd_per_month=best.flowed.usd_per_month,
        differing=tuple(
            Differing(differs=o.differs, usd_per_month=o.usd_per_month, requests=o.requests, attained=o.attained)
            for o in runs
        ),
    )
    kept = tuple(d.model_copy(update={"usd_by_hour": ()}) for d in best.right.deployments)  # plans are saved without
    beside = attained(serve(None, None).workloads)
    return best.right.model_copy(update={"tuned": how, "beside": beside, "deployments": kept})


@dataclass(frozen=True, eq=False)
class _Round:
    """A setting that was served: as forecast, and with more."""

    right: Operation
    wrong: tuple[Operation, ...]
    flowed: Flowed
    controller: Controller
    hours_kept_frac: float
    """of hours in which every promise must be kept"""

    @property
    def _attained(self) -> list[Attained]:
        return [a for o in (self.right, *self.wrong) for a in o.attained]

    @property
    def holds(self) -> bool:
        """Every promise, with something to spare."""
        return all(
            a.kept
            and a.within_frac >= min(1.0, a.percentile + SPARE_FRAC)
            and (a.hours_kept_frac is None or a.hours_kept_frac >= min(1.0, self.hours_kept_frac + SPARE_HOURS_FRAC))
            for a in self._attained
        )

    @property
    def shortfall(self) -> float:
        return sum(max(0.0, a.percentile - a.within_frac) + (not a.kept) for a in self._attained)

    @property
    def usd(self) -> float:
        return float(np.mean([o.usd_per_month for o in (self.right, *self.wrong)]))


def _worthwhile(front: list[Tried], low: int, high: int) -> list[int]:
    """Places between one that misses and one that holds which cost clearly less than the latter."""
    most = (1 - WORTHWHILE_FRAC) * front[high][0].usd_per_month if high < len(front) else math.inf
    return [k for k in range(low + 1, high) if front[k][0].usd_per_month <= most]


def with_operation(
    plan: Plan, controller: Controller, error_frac: float, on_progress: OnShare = lambda what, done: None
) -> Plan:
    """The plan with the controller that was tuned for it."""
    return plan.model_copy(update={"operation": tuned(plan, controller, error_frac, on_progress)})
