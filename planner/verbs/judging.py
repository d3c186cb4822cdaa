"""Verbs that judge plans: verify, check, review and diff."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, get_args

from planner.case.case import RouterName
from planner.case.controller import Controller
from planner.checker.policy.schema import Policy, load_policy, parse_date
from planner.io.errors import OutOfTime, did_you_mean, input_error, shown
from planner.io.formatting import counted
from planner.io.named_files import NamedFiles
from planner.plan.blocks import AnyPlan, block_of, blocks_asked, part_of
from planner.plan.horizon.horizon_plan import HorizonPlan
from planner.plan.plan import Plan
from planner.verbs.autoscalers import controller_named, forecast_error_of
from planner.verbs.opening import PlanOrFile, block, months_of, opened
from planner.verbs.planning import OnProgress, require_numba, silent, within
from planner.verification.sampling import MOST_REQUESTS
from solvers.backends.clock import Limit, Stopped, TimeIsUp, limited_to, stop_is_asked, stoppable, why_stopped
from solvers.search.fleet_solution import Options

if TYPE_CHECKING:
    from planner.checker.policy.rules import Check
    from planner.export.live import Live
    from planner.plan.diff_records import PlanDiff
    from planner.plan.horizon.horizon_diff import HorizonDiff
    from planner.review.quarter import Reviewed
    from planner.review.review_file import ReviewInputs
    from planner.verification.records import HorizonVerification, Verification, VerificationReport
    from planner.verification.request_logs import RequestSource
    from planner.verification.serving import ServeOptions

MOST_LOADS, LEAST_LOAD, MOST_LOAD = 10, 0.01, 20
ROUTERS: tuple[RouterName, ...] = get_args(RouterName)
OnShare = Callable[[str, float], None]
"""what is going on, and the share of it that is done"""

# -- verify -----------------------------------------------------------------------------------------------


@stoppable()
def verify(
    plan: PlanOrFile,
    *,
    days: int = 7,
    load: float | Sequence[float] = 1.0,
    slack: bool = False,
    log: Path | str | None = None,
    workload: str | None = None,
    at: int | None = None,
    router: str | None = None,
    reclaims: int = 0,
    failures: int = 0,
    stock_outs: int = 0,
    month: int | None = None,
    quarter: int | None = None,
    scenario: str | None = None,
    most_requests: int | None = MOST_REQUESTS,
    autoscaler: str | Controller | None = None,
    forecast_error: str | None = None,
    spike: str | None = None,
    seed: int = 1,
    time_limit_s: float | None = None,
    on_progress: OnShare = lambda what, done: None,
    on_note: Callable[[str], None] = lambda note: None,
) -> VerificationReport | HorizonVerification:
    """Serve a plan request by request, and hold its promises against what users would have seen.

    Of several quarters the busiest month of each in each scenario, unless `quarter` and `scenario` name one; a `log`, a
    `month` and `slack` are of one quarter, the first unless another is named. `load` multiplies the demand; several
    loads are served one after the other. `slack` looks for the largest load and the smallest fleet that hold. `log` is
    served in place of its `workload`, from hour `at` of the week on. Of more than `most_requests` a sample of hours is
    served; None: all. Behind an `autoscaler` (a name, or `plan` for the one of the plan or its policy) replicas are
    those that it orders, beside those of the plan's hours; `forecast_error` ("15%", "+20%") and `spike` ("2x") make
    demand differ from the forecast. At the time limit, or on Ctrl-C, the report has what was served until then, and
    says so. Needs fleetplan[verify].
    """
    require_numba()
    from planner.verification.differs import differs_from
    from planner.verification.serving import ServeOptions

    loads = _checked_loads(load)
    options = ServeOptions(
        seed=_at_least(0, "--seed", seed),
        router=_checked_router(router),
        reclaims=_at_least(0, "--reclaim", reclaims),
        failures=_at_least(0, "--fail", failures),
        stock_outs=_at_least(0, "--stock-out", stock_outs),
        days=_checked_days(days),
        most_requests=most_requests,
        differs=differs_from(forecast_error_of(forecast_error), spike),
    )
    try:
        with limited_to(time_limit_s) as limit:
            whole = opened(plan)
            of_one = any(x is not None for x in (log, workload, at, month, autoscaler)) or slack
            several = not of_one and (quarter is None or (quarter > 1 and scenario is None))
            if isinstance(whole, HorizonPlan) and several:
                return _quarters_served(whole, quarter, scenario, options, loads, on_progress)
            one = block_of(whole, quarter, scenario)
            requests = _log_of(one, log, workload, at)
            options = replace(options, month=_month(whole, one, month, quarter, scenario, on_note))
            if autoscaler is not None:
                options = replace(options, controller=controller_named(autoscaler, one))
            return _plan_served(one, options, loads, slack, requests, on_progress)
    except TimeIsUp as stop:
        if time_limit_s is None or not limit.ended(stop):
            raise
        raise OutOfTime(time_limit_s, "reading the plan", time_limit_s) from None


def _checked_loads(load: float | Sequence[float]) -> list[float]:
    loads = [float(x) for x in (load if isinstance(load, Sequence) else [load])]
    if not loads or len(loads) > MOST_LOADS or not all(LEAST_LOAD <= x <= MOST_LOAD for x in loads):
        message = f"takes 1 to {MOST_LOADS} numbers from {LEAST_LOAD} to {MOST_LOAD}"
        raise input_error("--load", message, "Write --load 1,1.1,1.3")
    return loads


def _checked_router(name: str | None) -> RouterName | None:
    for router in ROUTERS:
        if name == router:
            return router
    if name is None:
        return None
    raise input_error("--router", f"there is no router {shown(name)}", did_you_mean(name, ROUTERS))


def _checked_days(days: int) -> int:
    if not 1 <= days <= 7:
        raise input_error("--days", f"takes 1 to 7, got {shown(days)}", "Write 7 for the whole week")
    return days


def _at_least(least: int, option: str, number: int) -> int:
    if number < least:
        raise input_error(option, f"must be {least} or more, got {number}")
    return number


def _month(
    whole: AnyPlan,
    plan: Plan,
    month: int | None,
    quarter: int | None,
    scenario: str | None,
    on_note: Callable[[str], None],
) -> int | None:
    """The month to serve, from 0 on; of a quarter of a horizon the busiest of the scenario, or of all of them."""
    months = {s.month for s in plan.slots}
    if month is not None:
        if month - 1 not in months:
            raise input_error("--month", f"the plan has {counted(len(months), 'month')}", "Leave it out")
        mine = months_of(whole, quarter, scenario)
        if mine is not None and month - 1 not in mine:
            there_are = f"Give one of {', '.join(str(m + 1) for m in mine)}, or leave it out"
            raise input_error("--month", f"month {month} of the plan belongs to other scenarios", there_are)
        return month - 1
    if whole is plan:
        return None
    from planner.plan.account.account import account_of
    from planner.verification.serving import busiest_month

    busiest = busiest_month(account_of(plan), months_of(whole, quarter, scenario) or sorted(months))
    if plan.case.months is not None:
        on_note(f"serving {plan.case.months[busiest].label}, the busiest month of quarter {quarter or 1}")
    return busiest


def _log_of(plan: Plan, log: Path | str | None, workload: str | None, at: int | None) -> RequestSource | None:
    from planner.verification.request_logs import source_of

    if log is None:
        for flag, value in (("--workload", workload), ("--at", at)):
            if value is not None:
                raise input_error(flag, "works only with --log", "Add --log")
        return None
    names = [w.name for w in plan.case.workloads]
    if workload is None and len(names) > 1:
        raise input_error("--log", "the plan has several workloads", "Name one with --workload; the others are drawn")
    if workload is not None and workload not in names:
        raise input_error("--workload", f"there is no workload {shown(workload)}", did_you_mean(workload, names))
    return source_of(plan, Path(log), workload or names[0], at)


def _plan_served(
    plan: Plan,
    options: ServeOptions,
    loads: list[float],
    slack: bool,
    log: RequestSource | None,
    on_progress: OnShare,
) -> VerificationReport:
    """Serve a plan; a stop ends it with what is known so far."""
    from planner.verification.records import VerificationReport
    from planner.verification.serving import verify_plan
    from planner.verification.slack import slack_of

    found, stopped = None, None
    runs = []
    for k, load in enumerate(loads):
        at_load = replace(options, load=load)
        head = f"load {load:g}: " if len(loads) > 1 else ""

        def tell(what: str, done: float, head: str = head, k: int = k) -> None:
            on_progress(head + what, (k + done) / len(loads))

        runs.append(verify_plan(plan, at_load, tell, log, keep_partial=True))
        runs[-1] = _beside_its_hours(plan, runs[-1], at_load, tell, log)
        stopped = runs[-1].stopped
        if stopped is not None:
            break
    if slack and stopped is None:
        try:
            found = slack_of(plan, options, on_progress, log)
        except Stopped as stop:
            stopped = why_stopped(stop)
    left = [f"load {load:g}" for load in loads[len(runs) :]] + ["slack"] * (slack and found is None)
    return VerificationReport(runs=tuple(runs), slack=found, stopped=stopped, not_served=tuple(left))


def _beside_its_hours(
    plan: Plan, run: Verification, options: ServeOptions, tell: OnShare, log: RequestSource | None
) -> Verification:
    """What was served behind a controller, with what the plan's own hours keep of the same requests."""
    from planner.verification.serving import attained, verify_plan

    if run.operation is None or run.stopped is not None:
        return run
    own = verify_plan(plan, replace(options, controller=None), tell, log, keep_partial=True)
    beside = () if own.stopped is not None else attained(own.workloads)
    return run.model_copy(update={"operation": run.operation.model_copy(update={"beside": beside})})


def _quarters_served(
    horizon: HorizonPlan,
    quarter: int | None,
    scenario: str | None,
    options: ServeOptions,
    loads: list[float],
    on_progress: OnShare,
) -> HorizonVerification:
    """Serve every quarter, or those of one scenario, or a later quarter in every scenario."""
    from planner.verification.horizons import verify_horizon

    asked = blocks_asked(horizon, quarter, scenario)
    return verify_horizon(horizon, asked, options, loads, on_progress, keep_partial=True)


# -- check, review, diff ----------------------------------------------------------------------------------


@stoppable()
def check(
    plan: PlanOrFile,
    *,
    policy: Policy | Path | str | None = None,
    against: PlanOrFile | None = None,
    as_of: date | str | None = None,
    prove: bool = False,
    options: Options | None = None,
    on_progress: OnProgress = silent,
    quarter: int | None = None,
    scenario: str | None = None,
) -> Check:
    """Check a plan: its figures, each rule of a policy, and with `prove` its bound, by planning the case again.

    `against` is the plan before it, and `as_of` the day, for rules that compare. A plan of several quarters is judged
    as a whole unless `quarter` and `scenario` name one. Raises InputError where a figure of the plan is wrong.
    """
    from planner.checker.policy import check_policy, refuse_another_kind
    from planner.studies.proving import prove_again

    for flag, given in (("--against", against), ("--as-of", as_of)):
        if given is not None and policy is None:
            raise input_error(
                flag, "applies only to the rules of a policy", "Add --policy POLICY.yaml, or leave it out"
            )
    day = as_of if isinstance(as_of, date | None) else _day(as_of)
    rules = policy if isinstance(policy, Policy | None) else load_policy(policy)
    options = options or Options()
    limit = Limit.of(options.time_limit_s)
    plans: Sequence[AnyPlan] = [opened(each, screened=False) for each in (plan, against) if each is not None]
    judged, *earlier = _parts(plans, quarter, scenario)
    before = earlier[0] if earlier else None
    refuse_another_kind(judged, before)
    bound = prove_again(judged, within(options, limit), on_progress) if prove else None
    return check_policy(judged, rules, before, day, bound)


def check_live(
    plan: PlanOrFile,
    metrics: Path | str,
    *,
    time_zone: str | None = None,
    quarter: int | None = None,
    scenario: str | None = None,
) -> Live:
    """Hold what ran against one quarter of a plan, the first unless another is named.

    `metrics` is a folder of saved answers of Prometheus.
    """
    from planner.export.live import live_check

    return live_check(block(plan, quarter, scenario), Path(metrics), time_zone)


def _day(text: str) -> date:
    try:
        return date.fromisoformat(parse_date(text))
    except ValueError as error:
        raise input_error("--as-of", str(error).rstrip(".")) from None


@stoppable()
def review(
    file: Path | str | ReviewInputs,
    options: Options | None = None,
    on_progress: OnProgress = silent,
    *,
    root: Path | str | None = None,
) -> Reviewed:
    """Review a quarter as a review file says: plan against actual, hindsight, the next plan, commitments, decisions.

    The options hold for each plan.
    """
    from planner.review import quarter as reviewing
    from planner.review.review_file import read_review

    files = NamedFiles(None if root is None else Path(root))
    inputs = read_review(file, files) if isinstance(file, Path | str) else file
    reviewed = reviewing.review_fleet(inputs, options, on_progress)
    if stop_is_asked():
        raise Stopped
    return reviewed


def diff(
    before: PlanOrFile, after: PlanOrFile, *, quarter: int | None = None, scenario: str | None = None
) -> PlanDiff | HorizonDiff:
    """What changed between two plans, and why the cost did: demand, prices, fleet and choices.

    `quarter` and `scenario` compare one quarter of plans of several; a plan of one quarter is taken as it is.
    """
    from planner.plan.diff import diff_plans

    plans: Sequence[AnyPlan] = [opened(before), opened(after)]
    a, b = _parts(plans, quarter, scenario)
    return diff_plans(a, b)


def _parts(plans: Sequence[AnyPlan], quarter: int | None, scenario: str | None) -> Sequence[AnyPlan]:
    """The quarter of each, where one is asked for; plans of one quarter as they are where another has several."""
    several = any(isinstance(plan, HorizonPlan) for plan in plans)
    return [plan if several and isinstance(plan, Plan) else part_of(plan, quarter, scenario) for plan in plans]
