"""Settings of a controller with which promises hold at the least cost: tried as flows, then served as requests."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import product

import numpy as np

from planner.case.controller import Controller
from planner.io.errors import input_error
from planner.plan.operated import Differing, Operation, Tuned
from planner.plan.plan import Plan
from planner.verification.differs import Differs
from planner.verification.fluid import SIGNALS, Flowed, Trials
from planner.verification.records import Verification
from planner.verification.serving import ServeOptions, attained, verify_plan

TARGETS = (1.0, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4)
"""share of what a replica has in flight in the busiest hour of the plan"""
BUFFERS_FRAC = (0.0, 0.1, 0.2, 0.35)
"""of the peak, in whole replicas"""
CEILINGS = (1.0, 1.25, 1.5, 2.0)
LEADS_S = (0.0, 300.0)
"""besides the start-up time"""
DOWN_WINDOWS_S = (300.0,)
SEEDS = (1, 2)
"""of the trials"""
SERVED_SEED = 3
REQUESTS = 500_000
"""served one by one for each setting that trials liked, about"""
ROUNDS = 4
FINALISTS = 40
"""settings of the first trial, on the hardest days, that are tried on all others"""
WORTHWHILE_FRAC = 0.02
"""of the cost, by which a setting must be cheaper to be served too"""
MARGIN = 0.002
"""by which every promise must hold in trials: they know no single request"""
OnShare = Callable[[str, float], None]


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
    hardest = ((SEEDS[0], Differs(error_frac, 1) if error_frac else None),)
    settings = _settings(controller, trials)
    first: list[tuple[Flowed, Controller]] = []
    for k, setting in enumerate(settings):
        if k % 16 == 0:
            on_progress(f"trying setting {k + 1} of {len(settings)}", 0.1 + 0.3 * k / len(settings))
        first.append((trials.trial(setting, hardest), setting))
    on_progress("trying the best of them on other days", 0.4)
    ranked = _ranked([(trials.trial(setting, scenarios), setting) for _, setting in _finalists(first)])
    return _served(plan, ranked, error_frac, len(settings), on_progress, requests)


def _settings(controller: Controller, trials: Trials) -> list[Controller]:
    peak = max(max(f.pool.deployments[f.place].replicas_by_slot) for f in trials.deployments)
    buffers = sorted({math.ceil(share * peak - 1e-9) for share in BUFFERS_FRAC})
    return [
        controller.model_copy(
            update={
                "schedule": True, "target": controller.target * target, "buffer": buffer, "most_ratio": ceiling,
                "more_lead_s": lead, "down_window_s": window,
            }
        )
        for target, buffer, ceiling, lead, window in product(TARGETS, buffers, CEILINGS, LEADS_S, DOWN_WINDOWS_S)
    ]  # fmt: skip


def _ranked(tried: list[tuple[Flowed, Controller]]) -> list[tuple[Flowed, Controller]]:
    """Those that keep all promises with a margin, the cheapest first; then the others, the safest first."""
    good, rest = [x for x in tried if _holds(x[0])], [x for x in tried if not _holds(x[0])]
    good.sort(key=lambda x: (round(x[0].usd_per_month, 2), x[1].most_ratio, x[1].buffer, -x[1].target))
    rest.sort(key=lambda x: (-round(x[0].worst, 4), x[0].usd_per_month))
    return [*good, *rest]


def _finalists(tried: list[tuple[Flowed, Controller]]) -> list[tuple[Flowed, Controller]]:
    """The cheapest of those that hold, and the safest of the others, which requests may like better than flows do."""
    ranked = _ranked(tried)
    holding = [x for x in ranked if _holds(x[0])]
    return [*holding[: FINALISTS // 2], *ranked[len(holding) :][: FINALISTS - len(holding[: FINALISTS // 2])]]


def _holds(flowed: Flowed) -> bool:
    return flowed.kept and flowed.worst >= MARGIN


def _served(
    plan: Plan,
    ranked: list[tuple[Flowed, Controller]],
    error_frac: float,
    settings: int,
    on_progress: OnShare,
    requests: int,
) -> Operation:
    """The cheapest that keeps every promise when requests are served: from the best trial on, safer or cheaper ones."""
    wrong = (Differs(error_frac, 1), Differs(error_frac, -1)) if error_frac else ()
    best: Operation | None = None
    rounds = 0

    def serve(controller: Controller | None, differs: Differs | None) -> Verification:
        on_progress(f"serving setting {rounds} request by request", min(1.0, 0.6 + 0.1 * (rounds - 1)))
        options = ServeOptions(seed=SERVED_SEED, controller=controller, differs=differs, most_requests=requests)
        return verify_plan(plan, options)

    current: tuple[Flowed, Controller] | None = ranked[0]
    while current is not None and rounds < ROUNDS:
        rounds += 1
        flowed, controller = current
        differing = []
        for differs in wrong:
            run = serve(controller, differs)
            assert run.operation is not None
            differing.append(
                Differing(
                    differs=str(differs),
                    usd_per_month=run.operation.usd_per_month,
                    requests=run.requests,
                    attained=run.operation.attained,
                )
            )
        found = serve(controller, None).operation
        assert found is not None
        how = Tuned(
            forecast_error_frac=error_frac,
            settings=settings,
            seeds=(*SEEDS, SERVED_SEED),
            rounds=rounds,
            flow_usd_per_month=flowed.usd_per_month,
            differing=tuple(differing),
        )
        found = found.model_copy(update={"tuned": how})
        if best is None or (_shortfall(found), _usd(found)) < (_shortfall(best), _usd(best)):
            best = found
        if not found.kept and best.kept:
            break  # what is cheaper misses
        current = _cheaper(ranked, flowed) if found.kept else _safer(ranked, flowed)
    assert best is not None
    return best.model_copy(update={"beside": attained(serve(None, None).workloads)})


def _cheaper(ranked: list[tuple[Flowed, Controller]], than: Flowed) -> tuple[Flowed, Controller] | None:
    """The safest of those that are clearly cheaper: trials may have been too careful."""
    some = [x for x in ranked if x[0].usd_per_month < (1 - WORTHWHILE_FRAC) * than.usd_per_month]
    return max(some, key=lambda x: (round(x[0].worst, 4), -x[0].usd_per_month), default=None)


def _safer(ranked: list[tuple[Flowed, Controller]], than: Flowed) -> tuple[Flowed, Controller] | None:
    """The cheapest of those that hold better."""
    some = [x for x in ranked if x[0].worst > than.worst + MARGIN]
    return min(some, key=lambda x: x[0].usd_per_month, default=None)


def _usd(operation: Operation) -> float:
    """On average over forecasts that are right and wrong."""
    wrong = operation.tuned.differing if operation.tuned is not None else ()
    return float(np.mean([operation.usd_per_month, *(run.usd_per_month for run in wrong)]))


def _shortfall(operation: Operation) -> float:
    wrong = operation.tuned.differing if operation.tuned is not None else ()
    every = (*operation.attained, *(a for run in wrong for a in run.attained))
    return sum(max(0.0, a.percentile - a.within_frac) + (not a.kept) for a in every)


def with_operation(
    plan: Plan, controller: Controller, error_frac: float, on_progress: OnShare = lambda what, done: None
) -> Plan:
    """The plan with the controller that was tuned for it."""
    return plan.model_copy(update={"operation": tuned(plan, controller, error_frac, on_progress)})
