"""Growth, launches, steps and retirements of a workload, as factors of its rates in each month of the horizon."""

from __future__ import annotations

from datetime import date

from planner.case.case import Workload
from planner.case.dates import add_months, month_end, month_index, month_name
from planner.case.demand.diagnostics import Diagnostics
from planner.case.demand.workload_schema import MOST_REQUESTS_PER_DAY, WorkloadSpec
from planner.io.errors import Path
from problems.constants import HOURS_PER_MONTH

LEAST_FACTOR = 1e-6
"""a workload that falls below this has ended"""
DAYS_PER_MONTH = HOURS_PER_MONTH / 24


def month_factors(spec: WorkloadSpec, starts: date, months: int, scale: float = 1.0) -> tuple[float, ...]:
    """Times the rates that its file gives; 0 before its launch and after its retirement.

    The rates are those of its first month: of the launch, or of the horizon where it is there already.
    """
    first = max(0, month_index(starts, spec.from_day)) if spec.from_day else 0
    last = month_index(starts, spec.until) if spec.until else months
    factors = []
    for month in range(months):
        factor = scale * (1 + spec.forecast.growth_per_month) ** (month - first) if first <= month <= last else 0.0
        for step in spec.steps:
            factor *= step.times if month_index(starts, step.from_day) <= month else 1.0
        factors.append(float(f"{factor:.12g}"))
    return tuple(factors)


def check_dates(spec: WorkloadSpec, path: Path, starts: date, months: int, found: Diagnostics) -> None:
    """Complain about dates that leave nothing to plan."""
    if spec.from_day and month_index(starts, spec.from_day) >= months:
        message = f"the launch is after the horizon, which ends {month_end(add_months(starts, months - 1))}"
        found.complain((*path, "from"), message, "Remove the workload, or lengthen 'horizon'")
    if spec.until and month_index(starts, spec.until) < 0:
        found.complain((*path, "until"), f"is before the plan starts, {starts}", "Remove the workload")


def check_steps(spec: WorkloadSpec, path: Path, starts: date, found: Diagnostics) -> None:
    """Complain about steps that the forecast counts already."""
    for k, step in enumerate(spec.steps):
        if month_index(starts, step.from_day) < 0:
            message = f"is before the plan starts, {starts}: the forecast has it already"
            found.complain((*path, "steps", k, "from"), message, "Remove the step")


def check_size(
    spec: WorkloadSpec, workload: Workload, factors: tuple[float, ...], path: Path, starts: date, found: Diagnostics
) -> None:
    """Complain where growth goes on for so long that nobody can have meant it."""
    per_day = 3600 * (5 * sum(workload.weekday_rps) + 2 * sum(workload.weekend_rps)) / 7
    for month, factor in enumerate(factors):
        if factor * per_day > MOST_REQUESTS_PER_DAY:
            message = f"comes to over 10 billion requests a day in {month_name(starts, month)}"
        elif 0 < factor < LEAST_FACTOR:
            message = f"falls to less than a millionth by {month_name(starts, month)}"
        else:
            continue
        remedy = "Check growth and steps, or give the workload an end with 'until'"
        found.complain((*path, "forecast", "growth_per_month"), message, remedy)
        return


def assume_dates(spec: WorkloadSpec, starts: date, found: Diagnostics) -> None:
    """Say how dates within a month are counted, and from when growth is."""
    key = f"workloads.{spec.name}"
    if spec.from_day and spec.from_day.day > 1:
        why = f"{spec.from_day} counts from the start of its month"
        found.assume(f"{key}.from", str(spec.from_day.replace(day=1)), why)
    if spec.from_day and spec.forecast.growth_per_month and month_index(starts, spec.from_day) > 0:
        why = "the forecast is for the month of the launch, and growth counts from there"
        found.assume(f"{key}.forecast", f"from {spec.from_day:%Y-%m}", why)
    if spec.until and spec.until != month_end(spec.until):
        found.assume(f"{key}.until", str(month_end(spec.until)), f"{spec.until} counts to the end of its month")
    for step in spec.steps:
        if step.from_day.day > 1:
            why = f"{step.from_day} counts from the start of its month"
            found.assume(f"{key}.steps", str(step.from_day.replace(day=1)), why)
