"""Verbs that judge plans: verify, check, review and diff."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, get_args

from planner.case.case import RouterName
from planner.checker.policy.schema import Policy, load_policy, parse_date
from planner.io.errors import OutOfTime, did_you_mean, input_error, shown
from planner.io.formatting import counted
from planner.io.named_files import NamedFiles
from planner.plan.horizon.horizon_plan import HorizonPlan
from planner.plan.plan import Plan
from planner.verbs.opening import (
    AnyPlan,
    any_plan,
    blocks_asked,
    is_horizon,
    months_of,
    one_quarter,
    saved_horizon,
    saved_plan,
)
from planner.verbs.planning import OnProgress, _silent, require_numba, within
from solvers.backends.deadline import Limit, TimeIsUp, interruptions_deferred, limited_to, why_stopped
from solvers.search.fleet_solution import Options

if TYPE_CHECKING:
    from planner.checker.policy import Check
    from planner.plan.diff_records import PlanDiff
    from planner.plan.horizon.horizon_diff import HorizonDiff
    from planner.review.review import Reviewed
    from planner.review.review_file import ReviewInputs
    from planner.verification.records import HorizonVerification, VerificationReport
    from planner.verification.request_logs import RequestSource
    from planner.verification.serving import ServeOptions

MOST_REQUESTS = 30_000_000
"""served of a week; of more, a sample of hours"""
MOST_LOADS, LEAST_LOAD, MOST_LOAD = 10, 0.01, 20
ROUTERS: tuple[RouterName, ...] = get_args(RouterName)
OnShare = Callable[[str, float], None]
"""what is going on, and the share of it that is done"""

# -- verify -----------------------------------------------------------------------------------------------


def verify(
    plan: AnyPlan,
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
    month: int | None = None,
    quarter: int | None = None,
    scenario: str | None = None,
    most_requests: int | None = MOST_REQUESTS,
    seed: int = 1,
    time_limit_s: float | None = None,
    on_progress: OnShare = lambda what, done: None,
    on_note: Callable[[str], None] = lambda note: None,
) -> VerificationReport | HorizonVerification:
    """Serve a plan request by request, and hold its promises against what users would have seen.

    Of a horizon the busiest month of each quarter in each scenario, unless `quarter` and `scenario` name one. `load`
    multiplies the demand; several loads are served one after the other. `slack` looks for the largest load and the
    smallest fleet that hold. `log` is served in place of its `workload`, from hour `at` of the week on. Of more than
    `most_requests` a sample of hours is served; None: all. At the time limit, or on Ctrl-C, the report has what was
    served until then, and says so. Needs fleetplan[verify].
    """
    require_numba()
    with interruptions_deferred():
        from planner.verification.serving import ServeOptions

    loads = _checked_loads(load)
    options = ServeOptions(
        seed=_at_least(0, "--seed", seed),
        router=_checked_router(router),
        reclaims=_at_least(0, "--reclaim", reclaims),
        failures=_at_least(0, "--fail", failures),
        days=_checked_days(days),
        most_requests=most_requests,
    )
    try:
        with limited_to(time_limit_s) as limit:
            if is_horizon(plan) and (quarter is None or (quarter > 1 and scenario is None)):
                asked: dict[str, object] = {
                    "--log": log,
                    "--workload": workload,
                    "--at": at,
                    "--month": month,
                    "--slack": slack or None,
                }
                _refuse_for_several(asked)
                return _horizon_served(plan, quarter, scenario, options, loads, on_progress)
            one = one_quarter(plan, quarter, scenario)
            options = replace(options, month=_month(plan, one, month, quarter, scenario, on_note))
            return _plan_served(one, options, loads, slack, _log_of(one, log, workload, at), on_progress)
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


def _refuse_for_several(asked: Mapping[str, object]) -> None:
    for flag in (flag for flag, given in asked.items() if given is not None):
        remedy = "Add --quarter 1, or a later one with --scenario NAME"
        raise input_error(flag, "is for one quarter, and several quarters of the horizon would be served", remedy)


def _month(
    source: AnyPlan,
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
        mine = months_of(source, quarter, scenario)
        if mine is not None and month - 1 not in mine:
            there_are = f"Give one of {', '.join(str(m + 1) for m in mine)}, or leave it out"
            raise input_error("--month", f"month {month} of the plan is one of other scenarios", there_are)
        return month - 1
    if not is_horizon(source):
        return None
    from planner.verification.horizons import busiest_month

    busiest = busiest_month(plan, months_of(source, quarter, scenario) or sorted(months))
    if plan.case.months is not None:
        on_note(f"serving {plan.case.months[busiest].label}, the busiest month of quarter {quarter}")
    return busiest


def _log_of(plan: Plan, log: Path | str | None, workload: str | None, at: int | None) -> RequestSource | None:
    from planner.verification.request_logs import source_of

    if log is None:
        for flag, value in (("--workload", workload), ("--at", at)):
            if value is not None:
                raise input_error(flag, "is for --log", "Add --log")
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
    """Serve a plan; an interruption ends it with what is known so far."""
    with interruptions_deferred():
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
        stopped = runs[-1].stopped
        if stopped is not None:
            break
    if slack and stopped is None:
        try:
            found = slack_of(plan, options, on_progress, log)
        except KeyboardInterrupt as stop:
            stopped = why_stopped(stop)
    left = [f"load {load:g}" for load in loads[len(runs) :]] + ["slack"] * (slack and found is None)
    return VerificationReport(runs=tuple(runs), slack=found, stopped=stopped, not_served=tuple(left))


def _horizon_served(
    source: AnyPlan,
    quarter: int | None,
    scenario: str | None,
    options: ServeOptions,
    loads: list[float],
    on_progress: OnShare,
) -> HorizonVerification:
    """Serve every quarter of a horizon, or of one scenario, or a later quarter in every scenario."""
    with interruptions_deferred():
        from planner.verification.horizons import verify_horizon

    assert not isinstance(source, Plan)
    horizon = saved_horizon(source)
    asked = blocks_asked(horizon, quarter, scenario)
    return verify_horizon(horizon, asked, options, loads, on_progress, keep_partial=True)


# -- check, review, diff ----------------------------------------------------------------------------------


def check(
    plan: AnyPlan,
    *,
    policy: Policy | Path | str | None = None,
    against: AnyPlan | None = None,
    as_of: date | str | None = None,
    prove: bool = False,
    options: Options | None = None,
    on_progress: OnProgress = _silent,
) -> Check:
    """Check a plan: its figures, each rule of a policy, and with `prove` its bound, by planning the case again.

    `against` is the plan before it, and `as_of` the day, for rules that compare. Raises InputError where a figure of
    the plan is wrong.
    """
    from planner.checker.policy import check_policy
    from planner.checker.policy.horizon import check_horizon_policy
    from planner.studies.proving import prove_again

    for flag, given in (("--against", against), ("--as-of", as_of)):
        if given is not None and policy is None:
            raise input_error(flag, "is for the rules of a policy", "Add --policy POLICY.yaml, or leave it out")
    day = as_of if isinstance(as_of, date | None) else _day(as_of)
    rules = policy if isinstance(policy, Policy | None) else load_policy(policy)
    options = options or Options()
    limit = Limit.of(options.time_limit_s)
    whole = any_plan(plan)
    if isinstance(whole, HorizonPlan):
        before = _whole_horizon(against)
        bound = prove_again(whole, within(options, limit), on_progress) if prove else None
        return check_horizon_policy(whole, rules, before, day, bound)
    earlier = _one_plan(against)
    bound = prove_again(whole, within(options, limit), on_progress) if prove else None
    return check_policy(whole, rules, earlier, day, bound)


def _day(text: str) -> date:
    try:
        return date.fromisoformat(parse_date(text))
    except ValueError as error:
        raise input_error("--as-of", str(error).rstrip(".")) from None


def _whole_horizon(source: AnyPlan | None) -> HorizonPlan | None:
    if isinstance(source, Plan):
        raise input_error("--against", f"{source.name} is a plan of one quarter", "Give the plan of a horizon")
    return None if source is None else saved_horizon(source)


def _one_plan(source: AnyPlan | None) -> Plan | None:
    if isinstance(source, HorizonPlan):
        raise input_error("--against", f"{source.name} is the plan of a horizon", "Give a plan of one quarter")
    return None if source is None else saved_plan(source)


def review(
    file: Path | str | ReviewInputs,
    options: Options | None = None,
    on_progress: OnProgress = _silent,
    *,
    root: Path | str | None = None,
) -> Reviewed:
    """Review a quarter as a review file says: plan against actual, hindsight, the next plan, commitments, decisions.

    The options hold for each plan.
    """
    from planner.review import review as reviewing
    from planner.review.review_file import read_review

    files = NamedFiles(None if root is None else Path(root))
    inputs = read_review(file, files) if isinstance(file, Path | str) else file
    return reviewing.review_fleet(inputs, options, on_progress)


def diff(
    before: AnyPlan, after: AnyPlan, *, quarter: int | None = None, scenario: str | None = None
) -> PlanDiff | HorizonDiff:
    """What changed between two plans, and why the cost did: demand, prices, fleet and choices.

    `quarter` and `scenario` compare one quarter of horizons; a plan of one quarter is taken as it is.
    """
    from planner.plan.diff import diff_plans
    from planner.plan.horizon.horizon_diff import diff_horizons

    of_horizons = [is_horizon(plan) for plan in (before, after)]
    whole = quarter is None and scenario is None
    if all(of_horizons) and whole:
        a, b = (_whole_horizon(plan) for plan in (before, after))
        assert a is not None and b is not None
        return diff_horizons(a, b)
    return diff_plans(
        *_each_quarter(zip((before, after), of_horizons, strict=True), quarter, scenario, any(of_horizons) or whole)
    )


def _each_quarter(
    plans: Iterable[tuple[AnyPlan, bool]], quarter: int | None, scenario: str | None, as_they_are: bool
) -> list[Plan]:
    """The quarter of each that is asked for; plans of one quarter as they are where another has several."""
    return [
        one_quarter(plan, quarter, scenario) if of_horizon or not as_they_are else one_quarter(plan, None, None)
        for plan, of_horizon in plans
    ]
