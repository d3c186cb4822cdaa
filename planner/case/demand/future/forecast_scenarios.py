"""Scenarios from the forecast of logs: P10, P50 and P90 of every workload whose rates come from one, all at once.

P50 follows the forecast from month to month. P10 and P90 lie as far from it as weeks did when the forecast was tried on
the log, wider the further ahead a quarter ends: as in a random walk, by the root of the weeks.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import date

import numpy as np

from planner.case.case import Scenario
from planner.case.dates import add_months
from planner.case.demand.diagnostics import Diagnostics
from planner.case.demand.future.forecasting import WEEK, WEEKS_AHEAD, forecasts
from planner.case.demand.future_schema import ForecastScenarios
from planner.case.demand.schema import DemandFile
from planner.case.demand.usage import LoggedHours
from planner.case.horizon import MONTHS_OF_A_QUARTER
from planner.io.errors import Path

NAMES = ("P10", "P50", "P90")
WINDOW_H = 4 * WEEK
"""around the middle of a month: whole weeks, so that weekends weigh as they do"""
Factors = dict[str, tuple[float, ...]]
Fan = tuple[tuple[float, ...], ...]
"""of each scenario, by month"""


def forecast_scenarios(
    spec: DemandFile, base: Factors, logged: Mapping[str, LoggedHours], found: Diagnostics
) -> tuple[Scenario, ...]:
    """The three scenarios; `base` has dates and steps of each workload. Mistakes go to the diagnostics."""
    given = spec.scenarios
    assert isinstance(given, ForecastScenarios)
    assert spec.starts is not None
    factors: list[Factors] = [dict(base) for _ in NAMES]
    before = len(found.diagnostics)
    for k, w in enumerate(spec.workloads):
        if w.name in logged:
            fan = _checked_fan(
                spec.starts, len(base[w.name]), logged[w.name], ("workloads", k, "forecast", "csv"), found
            )
            for each, times in zip(factors, fan or (), strict=False):
                each[w.name] = tuple(float(f"{a * b:.12g}") for a, b in zip(base[w.name], times, strict=True))
        if w.name in logged and w.forecast.growth_per_month:
            message = "the forecast of the log has its own growth, and 'scenarios' are from it"
            found.complain(("workloads", k, "forecast", "growth_per_month"), message, "Remove it, or list scenarios")
    if not any(w.forecast.csv for w in spec.workloads):
        message = "are from the forecast of logs, and no workload has 'forecast: {csv: ...}'"
        found.complain(("scenarios",), message, "Give a workload its log, or list scenarios")
    if len(found.diagnostics) > before:
        return ()
    _say(spec, given, factors, logged, found)
    return named_scenarios(given, factors)


def named_scenarios(given: ForecastScenarios, factors: Iterable[Factors]) -> tuple[Scenario, ...]:
    weights = (given.weights.p10, given.weights.p50, given.weights.p90)
    return tuple(
        Scenario(name=name, probability_frac=weight, month_factors=each)
        for name, weight, each in zip(NAMES, weights, factors, strict=True)
    )


def _checked_fan(starts: date, months: int, log: LoggedHours, path: Path, found: Diagnostics) -> Fan | None:
    """What becomes of a log; complains where that cannot be worked out."""
    if (last := last_day_beyond(starts, log)) is not None:
        message = f"goes on until {last}, after the plan starts, {starts}: there is nothing to forecast"
        found.complain(path, message, f"Write starts: {add_months(last.replace(day=1), 1)}, or end the log before")
        return None
    fan = fan_of(starts, months, log)
    if fan is None:
        weeks = np.isfinite(log.requests).sum() / WEEK
        message = f"has {weeks:.1f} weeks of known hours, too few to try a forecast on and see how far it is off"
        found.complain(path, message, "Give a longer log, or list scenarios")
    return fan


def last_day_beyond(starts: date, log: LoggedHours) -> date | None:
    """The last day of a log that goes on after a plan starts; None where it does not."""
    ends = None if log.first_hour is None else log.first_hour + len(log.requests)
    if ends is None or ends <= _hour_of(starts):
        return None
    day: date = np.datetime64(ends - 1, "h").astype("datetime64[D]").astype(date)
    return day


def fan_of(starts: date, months: int, log: LoggedHours) -> Fan | None:
    """Times the rates at the end of a log in each month: P10, P50 and P90; None where it is too short to try."""
    first = _hour_of(starts)
    ends = first if log.first_hour is None else log.first_hour + len(log.requests)
    begins = [_hour_of(add_months(starts, m)) - ends for m in range(months + 1)]
    told = forecasts(log.requests[None, :], begins[-1] + WINDOW_H)[0]
    if told.low_ratio is None or told.high_ratio is None:
        return None
    middle = []
    for m in range(months):
        at = max(0, (begins[m] + begins[m + 1] - WINDOW_H) // 2)
        middle.append(float(told.requests[at : at + WINDOW_H].mean()) / log.mean_per_hour)
    quarters = [begins[m - m % MONTHS_OF_A_QUARTER + MONTHS_OF_A_QUARTER] / WEEK for m in range(months)]
    low, high = ([further(ratio, weeks) for weeks in quarters] for ratio in (told.low_ratio, told.high_ratio))
    ratios = (low, [1.0] * months, high)
    return tuple(tuple(a * b for a, b in zip(middle, ratio, strict=True)) for ratio in ratios)


def _hour_of(day: date) -> int:
    return int(np.datetime64(day, "h").astype(int))


def further(ratio: float, weeks: float) -> float:
    """P10 or P90 so many weeks ahead, over the forecast; `ratio` is that at the end of a quarter."""
    return float(ratio ** np.sqrt((weeks + 1) / (WEEKS_AHEAD + 1)))


def _say(
    spec: DemandFile,
    given: ForecastScenarios,
    factors: list[Factors],
    logged: Mapping[str, LoggedHours],
    found: Diagnostics,
) -> None:
    if "weights" not in given.model_fields_set:
        value = " / ".join(f"{w:.0%} {n}" for w, n in zip((0.3, 0.4, 0.3), NAMES, strict=True))
        found.assume("scenarios.weights", value, "Swanson's rule for three percentiles of a forecast")
    if len(logged) > 1:
        why = "workloads are taken to move together: the P10 of all logs come at once, and so do their P90"
        found.assume("scenarios", "P10, P50 and P90 of all logs at once", why)
    if len(logged) < len(spec.workloads):
        names = [w.name for w in spec.workloads if w.name not in logged]
        found.assume("scenarios", f"{', '.join(names)} as given", "no log says how far they may be off")
    for name, log in logged.items():
        if log.first_hour is None:
            why = "the log has no dates: its end is taken to be the start of the plan"
            found.assume(f"workloads.{name}.forecast.csv", str(spec.starts), why)
        span = [f"x {each[name][0]:.3g} to {each[name][-1]:.3g}" for each in factors]
        value = "; ".join(f"{n} {each}" for n, each in zip(NAMES, span, strict=True))
        why = "times the rates at the end of the log, in the first and the last month, by its forecast"
        found.assume(f"scenarios.{name}", value, why)
