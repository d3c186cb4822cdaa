"""Serve the plan of a horizon: the busiest month of every quarter in every scenario, one after the other.

Months that are served alike (the first quarter is one plan, and scenarios may share its months; a quarter may repeat
another one) are served once and stand for all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from importlib.metadata import version

from planner.case.quarters import block_name
from planner.plan.account.account import account_of
from planner.plan.horizon.horizon_plan import HorizonPlan
from planner.plan.horizon.horizon_view import calendar_name, months_in
from planner.plan.plan import Plan
from planner.verification.records import HorizonVerification, ServedQuarter, Verification, VerificationReport
from planner.verification.serving import ServeOptions, busiest_month, verify_plan

BESIDES_SERVING = {"months": None, "starts": None, "held": None, "held_besides_usd_per_month": None}
"""what requests do not notice in a case: dates, and who pays"""
WAYS = ("caching", "api_flows", "shed_flows", "deployment_flows", "moves")
"""where the requests of a workload go"""


@dataclass(frozen=True, eq=False)
class _Month:
    scenario: str
    quarter: int
    plan: Plan
    month: int
    """of the plan"""
    label: str

    def served_as(self) -> tuple[str, ...]:
        """All that serving it depends on; what months are called and how many days they have is not."""
        plan = self.plan
        hours = [(s.month, s.day, s.hour) for s in plan.slots]
        demand = plan.case.model_copy(update=BESIDES_SERVING).model_dump_json()
        pools = [pool.model_dump_json() for pool in plan.pools]
        ways = [w.model_dump_json(include={*WAYS}) for w in plan.workloads]
        return (f"{self.month} of {hours}", demand, *pools, *ways)


def verify_horizon(
    horizon: HorizonPlan,
    asked: Iterable[tuple[int, str]],
    options: ServeOptions,
    loads: list[float],
    on_progress: Callable[[str, float], None] = lambda what, done: None,
    keep_partial: bool = False,
) -> HorizonVerification:
    """Serve the quarters asked for, each a number from 0 and a scenario, at all loads.

    With `keep_partial` an interruption ends it with what was measured until then.
    """
    months = [_busiest(horizon, quarter, scenario) for quarter, scenario in asked]
    numbers: dict[tuple[str, ...], int] = {}
    run_of = [numbers.setdefault(m.served_as(), len(numbers)) for m in months]
    total = len(numbers) * len(loads)
    reports: list[VerificationReport] = []
    for m in (months[run_of.index(n)] for n in range(len(numbers))):
        runs: list[Verification] = []
        for load in loads:
            done = len(reports) * len(loads) + len(runs)
            tell = _telling(on_progress, f"{done + 1} of {total}: {m.label}, {m.scenario}: ", done, total)
            at_load = replace(options, month=m.month, load=load)
            runs.append(verify_plan(m.plan, at_load, tell, keep_partial=keep_partial))
            if runs[-1].stopped is not None:
                break
        reports.append(VerificationReport(runs=tuple(runs), stopped=runs[-1].stopped))
        if reports[-1].stopped is not None:
            break
    return HorizonVerification(
        plan=horizon.name,
        case_hash=horizon.case_hash,
        fleetplan_version=version("fleetplan"),
        quarters=tuple(
            ServedQuarter(scenario=m.scenario, quarter=m.quarter, month=m.label, run=n)
            for m, n in zip(months, run_of, strict=True)
            if n < len(reports)
        ),
        runs=tuple(reports),
        stopped=reports[-1].stopped,
        not_served=tuple(
            block_name(m.quarter, m.scenario) for m, n in zip(months, run_of, strict=True) if n >= len(reports)
        ),
    )


def _telling(
    on_progress: Callable[[str, float], None], head: str, before: int, total: int
) -> Callable[[str, float], None]:
    return lambda what, done: on_progress(head + what, (before + done) / total)


def _busiest(horizon: HorizonPlan, quarter: int, scenario: str) -> _Month:
    plan = horizon.plan_of(quarter, scenario)
    month = busiest_month(account_of(plan), months_in(horizon, quarter, scenario))
    return _Month(scenario, quarter, plan, month, calendar_name(horizon, quarter, scenario, month))
