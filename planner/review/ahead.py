"""Several quarters from the next one on, with P10, P50 and P90 of the forecast as scenarios: what to sign now.

The next plan is one quarter, as it is forecast. This one looks further, since a commitment outlasts the quarter.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import date
from functools import partial

from planner.case.allowances import allowance_of
from planner.case.case import Assumption, Case, Future, Workload
from planner.case.dates import last_day_after
from planner.case.demand.future.scenarios import NAMES, Factors, fan_of, last_day_beyond, named_scenarios
from planner.case.demand.usage import LoggedHours
from planner.case.owned import with_owned_offers
from planner.case.slots import MONTHS_OF_A_QUARTER
from planner.explanations.relaxations import Infeasible
from planner.io.errors import InputError, OutOfTime
from planner.optimization.replan import OnProgress
from planner.pipeline import plan_horizon
from planner.plan.horizon.horizon_plan import HorizonPlan, SignedAllowance
from planner.plan.horizon.horizon_view import owed_beyond_usd, usd_per_month
from planner.review.cleaning import Cleaned
from planner.review.holdings import HAVE
from planner.review.records import Ahead, AllowanceAhead, ScenarioAhead, SignedAhead
from planner.review.review_file import ReviewInputs
from solvers.search.fleet_solution import Options

LEAST_GAP_FRAC = 0.01
"""plans of several quarters are proved within this, or within the gap of the review where that is more"""


def plan_ahead(
    inputs: ReviewInputs, next_case: Case, clean: Cleaned, options: Options, on_progress: OnProgress
) -> tuple[Ahead | None, HorizonPlan | None]:
    """What to sign now, and the plan that says so; nothing where the review file does not ask for it."""
    if not inputs.spec.next.looks_ahead:
        return None, None
    case = horizon_case(inputs, next_case, clean)
    future = case.future
    assert future is not None
    try:
        plan = plan_horizon(case, replace(options, gap_frac=max(options.gap_frac, LEAST_GAP_FRAC)), on_progress)
    except Infeasible as error:
        note = f"no fleet keeps the limits {' '.join(error.reasons[:2])}"
        return Ahead(first_day=future.starts, quarters=future.quarters, note=note), None
    except OutOfTime:
        note = "no plan within the time limit"
        return Ahead(first_day=future.starts, quarters=future.quarters, note=note), None
    signed = (
        SignedAhead(
            offer=c.offer,
            term=c.term,
            instances=c.instances,
            last_day=c.last_day,
            usd_per_month=usd_per_month(c),
            owed_after_usd=owed_beyond_usd(plan, c),
        )
        for c in plan.signed_now
    )
    scenarios = (
        ScenarioAhead(name=s.name, probability_frac=s.probability_frac, cost_usd=s.cost_usd, regret_usd=s.regret_usd)
        for s in plan.scenarios
    )
    ahead = Ahead(
        first_day=future.starts,
        quarters=future.quarters,
        expected_cost_usd=plan.expected_cost_usd,
        gap_frac=plan.gap_frac,
        sign_now=tuple(signed),
        allowances=tuple(map(partial(_allowance, plan.case), plan.allowances_now)) or None,
        scenarios=tuple(scenarios),
    )
    return ahead, plan


def _allowance(case: Case, signed: SignedAllowance) -> AllowanceAhead:
    return AllowanceAhead(
        name=signed.name,
        term=signed.term,
        units=signed.units,
        of_api=allowance_of(case, signed.name).api is not None,
        last_day=signed.last_day,
        usd_per_month=signed.usd_per_month,
        owed_after_usd=signed.beyond_usd,
    )


def horizon_case(inputs: ReviewInputs, case: Case, clean: Cleaned) -> Case:
    """The next case over several quarters, with the forecast of each log; raises InputError where no log has one."""
    spec, starts = inputs.spec.next, inputs.held.first
    quarters = spec.horizon or 1
    months = MONTHS_OF_A_QUARTER * quarters
    factors: list[Factors] = [{} for _ in NAMES]
    known = 0
    for w in case.workloads:
        own = tuple((1 + w.growth_per_month_frac) ** m for m in range(months))
        fan = None
        if w.name in inputs.log.workloads:
            log = _hours_of(inputs, clean, w)
            if (last := last_day_beyond(starts, log)) is not None:
                message = f"goes on until {last}, after the next quarter begins, {starts}"
                raise InputError([inputs.document.diagnostic(("usage",), message, "Leave out what is later")])
            fan = fan_of(starts, months, log, spec.scenarios_ahead.least_spread)
            known += fan is not None
        for each, times in zip(factors, fan or (own,) * len(NAMES), strict=True):
            each[w.name] = tuple(float(f"{x:.12g}") for x in times)
    if not known:
        message = "needs the P10 and P90 of a forecast, but no workload has a log long enough to test one"
        raise InputError([inputs.document.diagnostic(spec.where_ahead, message, "Leave it out, or give a longer log")])
    ends = last_day_after(starts, months)
    held = tuple(
        h
        for h in inputs.held.holdings
        if h.offer in case.offers
        and (h.last_day is None or h.last_day >= starts)
        and (h.first_day is None or h.first_day <= ends)
    )
    future = Future(starts=starts, quarters=quarters, scenarios=named_scenarios(spec.scenarios_ahead, factors))
    kept = [a for a in case.assumptions if a.key != "horizon" and not a.key.startswith(HAVE)]
    changes = {
        "starts": starts,
        "held": held or None,
        "held_besides_usd_per_month": None,
        "future": future,
        "assumptions": (*kept, *_assumed(starts, ends, future)),
    }
    return with_owned_offers(case.model_copy(update=changes))


def _assumed(starts: date, ends: date, future: Future) -> Iterator[Assumption]:
    yield Assumption(key="horizon", value=f"{starts} to {ends}", why="a month is 730 h; P50 follows the forecast")
    value = ", ".join(f"{s.name} {s.probability_frac:.0%}" for s in future.scenarios)
    why = "all logs are assumed to move together; workloads without a log are as in the next plan"
    yield Assumption(key="scenarios", value=value, why=why)


def _hours_of(inputs: ReviewInputs, clean: Cleaned, w: Workload) -> LoggedHours:
    mean = 3600 * (5 * sum(w.weekday_rps) + 2 * sum(w.weekend_rps)) / 168
    return LoggedHours(clean.of(w.name), int(inputs.log.first.astype("datetime64[h]").astype(int)), mean)
