"""Scenarios of a demand file: each is the file with some changes, whose demand is compared with it month by month; or
P10, P50 and P90 of every workload whose rates come from logs, all at once.

P50 follows the forecast from month to month. P10 and P90 lie as far from it as weeks did when the forecast was tried on
the log, wider the further ahead a quarter ends: as in a random walk, by the root of the weeks; and never nearer than a
floor that grows in the same way. What else scenarios change begins after the first quarter:
planner/case/demand/future/amendments.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from datetime import date

import numpy as np

from planner.case.case import Scenario, Workload
from planner.case.dates import add_months, month_end, month_index, month_name
from planner.case.demand.future.edits import RATE_KEYS, ScenarioEdits, is_volume
from planner.case.demand.future.forecasting import WEEK, WEEKS_AHEAD, forecasts
from planner.case.demand.future_schema import LEAST_SPREAD_FRAC, ForecastScenarios, ScenarioSpec
from planner.case.demand.notes import Notes
from planner.case.demand.schema import DemandFile
from planner.case.demand.usage import LoggedHours
from planner.case.demand.workload_schema import MOST_REQUESTS_PER_DAY, WorkloadSpec
from planner.case.slots import MONTHS_OF_A_QUARTER
from planner.catalog.entries import Gpu, Offer
from planner.io.errors import InputError, Path
from planner.io.validation import validate
from problems.constants import HOURS_PER_MONTH

LEAST_FACTOR = 1e-6
"""a workload that falls below this has ended"""
WEEKS_OF_A_YEAR = 52
DAYS_PER_MONTH = HOURS_PER_MONTH / 24
NAMES = ("P10", "P50", "P90")
WINDOW_H = 4 * WEEK
"""around the middle of a month: whole weeks, so that weekends weigh as they do"""
Factors = dict[str, tuple[float, ...]]
Fan = tuple[tuple[float, ...], ...]
"""of each scenario, by month"""
AS_FORECAST = "as forecast"
"""the one scenario of a file that has none"""

ReadWorkload = Callable[[WorkloadSpec, int, Notes], Workload]


def month_factors(spec: WorkloadSpec, starts: date, months: int, scale: float = 1.0) -> tuple[float, ...]:
    """Times the rates that its file gives; 0 before its launch and after its retirement.

    The rates are those of its first month: of the launch, or of the horizon where it is there already.
    """
    first = max(0, month_index(starts, spec.from_day)) if spec.from_day else 0
    last = month_index(starts, spec.until) if spec.until else months
    factors = []
    for month in range(months):
        factor = scale * (1 + spec.forecast.monthly_growth_frac) ** (month - first) if first <= month <= last else 0.0
        for step in spec.steps:
            factor *= step.times if month_index(starts, step.from_day) <= month else 1.0
        factors.append(float(f"{factor:.12g}"))
    return tuple(factors)


def check_dates(spec: WorkloadSpec, path: Path, starts: date, months: int, notes: Notes) -> None:
    """Complain about dates that leave nothing to plan."""
    if spec.from_day and month_index(starts, spec.from_day) >= months:
        message = f"the launch is after the horizon, which ends {month_end(add_months(starts, months - 1))}"
        notes.complain((*path, "from"), message, "Remove the workload, or lengthen 'horizon'")
    if spec.until and month_index(starts, spec.until) < 0:
        notes.complain((*path, "until"), f"is before the plan starts, {starts}", "Remove the workload")


def check_steps(spec: WorkloadSpec, path: Path, starts: date, notes: Notes) -> None:
    """Complain about steps that the forecast counts already."""
    for k, step in enumerate(spec.steps):
        if month_index(starts, step.from_day) < 0:
            message = f"is before the plan starts, {starts}: the forecast already includes it"
            notes.complain((*path, "steps", k, "from"), message, "Remove the step")


def check_size(
    spec: WorkloadSpec,
    workload: Workload,
    factors: tuple[float, ...],
    path: Path,
    starts: date,
    notes: Notes,
) -> None:
    """Complain where growth goes on for so long that nobody can have meant it."""
    per_day = 3600 * (5 * sum(workload.weekday_rps) + 2 * sum(workload.weekend_rps)) / 7
    for month, factor in enumerate(factors):
        if factor * per_day > MOST_REQUESTS_PER_DAY:
            message = f"exceeds 10 billion requests a day in {month_name(starts, month)}"
        elif 0 < factor < LEAST_FACTOR:
            message = f"falls to less than a millionth by {month_name(starts, month)}"
        else:
            continue
        remedy = "Check growth and steps, or give the workload an end with 'until'"
        notes.complain((*path, "forecast", "growth_per_month"), message, remedy)
        return


def assume_dates(spec: WorkloadSpec, starts: date, notes: Notes) -> None:
    """Say how dates within a month are counted, and from when growth is."""
    key = f"workloads.{spec.name}"
    if spec.from_day and spec.from_day.day > 1:
        why = f"{spec.from_day} counts from the start of its month"
        notes.assume(f"{key}.from", str(spec.from_day.replace(day=1)), why)
    if spec.from_day and spec.forecast.monthly_growth_frac and month_index(starts, spec.from_day) > 0:
        why = "the forecast is for the month of the launch, and growth counts from there"
        notes.assume(f"{key}.forecast", f"from {spec.from_day:%Y-%m}", why)
    if spec.until and spec.until != month_end(spec.until):
        notes.assume(f"{key}.until", str(month_end(spec.until)), f"{spec.until} counts to the end of its month")
    for step in spec.steps:
        if step.from_day.day > 1:
            why = f"{step.from_day} counts from the start of its month"
            notes.assume(f"{key}.steps", str(step.from_day.replace(day=1)), why)


def forecast_scenarios(
    spec: DemandFile, base: Factors, logged: Mapping[str, LoggedHours], notes: Notes
) -> tuple[Scenario, ...]:
    """The three scenarios; `base` has dates and steps of each workload. Mistakes go to the notes."""
    given = spec.scenarios
    assert isinstance(given, ForecastScenarios)
    assert spec.starts is not None
    factors: list[Factors] = [dict(base) for _ in NAMES]
    before = len(notes.mistakes)
    for k, w in enumerate(spec.workloads):
        if w.name in logged:
            path = ("workloads", k, "forecast", "csv")
            fan = _checked_fan(spec.starts, len(base[w.name]), logged[w.name], given.least_spread, path, notes)
            for each, times in zip(factors, fan or (), strict=False):
                each[w.name] = tuple(float(f"{a * b:.12g}") for a, b in zip(base[w.name], times, strict=True))
        if w.name in logged and w.forecast.monthly_growth_frac:
            message = "the 'scenarios' come from the log's forecast, which has its own growth"
            written = "growth_per_month" if w.forecast.growth is None else "growth"
            notes.complain(("workloads", k, "forecast", written), message, "Remove it, or list scenarios")
    if not any(w.forecast.csv for w in spec.workloads):
        message = "come from forecasts of logs, but no workload has 'forecast: {csv: ...}'"
        notes.complain(("scenarios",), message, "Give a workload its log, or list scenarios")
    if len(notes.mistakes) > before:
        return ()
    _say(spec, given, factors, logged, notes)
    return named_scenarios(given, factors)


def named_scenarios(given: ForecastScenarios, factors: Iterable[Factors]) -> tuple[Scenario, ...]:
    weights = (given.weights.p10, given.weights.p50, given.weights.p90)
    return tuple(
        Scenario(name=name, probability_frac=weight, month_factors=each)
        for name, weight, each in zip(NAMES, weights, factors, strict=True)
    )


def _checked_fan(
    starts: date, months: int, log: LoggedHours, least_spread: float, path: Path, notes: Notes
) -> Fan | None:
    """What becomes of a log; complains where that cannot be worked out."""
    if (last := last_day_beyond(starts, log)) is not None:
        message = f"goes on until {last}, after the plan starts, {starts}: there is nothing to forecast"
        notes.complain(path, message, f"Write starts: {add_months(last.replace(day=1), 1)}, or end the log before")
        return None
    fan = fan_of(starts, months, log, least_spread)
    if fan is None:
        weeks = np.isfinite(log.requests).sum() / WEEK
        message = f"has {weeks:.1f} weeks of known hours, too few to test how accurate a forecast would be"
        notes.complain(path, message, "Give a longer log, or list scenarios")
    return fan


def last_day_beyond(starts: date, log: LoggedHours) -> date | None:
    """The last day of a log that goes on after a plan starts; None where it does not."""
    ends = None if log.first_hour is None else log.first_hour + len(log.requests)
    if ends is None or ends <= _hour_of(starts):
        return None
    day: date = np.datetime64(ends - 1, "h").astype("datetime64[D]").astype(date)
    return day


def fan_of(starts: date, months: int, log: LoggedHours, least_spread: float = LEAST_SPREAD_FRAC) -> Fan | None:
    """Times the rates at the end of a log in each month: P10, P50 and P90; None where it is too short to try.

    P10 and P90 are never nearer to P50 than so much a year ahead: a trial on the weeks of a quiet quarter shows little
    of what may change in a year.
    """
    first = _hour_of(starts)
    ends = first if log.first_hour is None else log.first_hour + len(log.requests)
    begins = [_hour_of(add_months(starts, m)) - ends for m in range(months + 1)]
    forecast = forecasts(log.requests[None, :], begins[-1] + WINDOW_H)[0]
    if forecast.low_ratio is None or forecast.high_ratio is None:
        return None
    middle = []
    for m in range(months):
        at = max(0, (begins[m] + begins[m + 1] - WINDOW_H) // 2)
        middle.append(float(forecast.requests[at : at + WINDOW_H].mean()) / log.mean_per_hour)
    quarters = [begins[m - m % MONTHS_OF_A_QUARTER + MONTHS_OF_A_QUARTER] / WEEK for m in range(months)]
    floor = [least_ratio(least_spread, weeks) for weeks in quarters]
    low = [min(further(forecast.low_ratio, weeks), 1 / least) for weeks, least in zip(quarters, floor, strict=True)]
    high = [max(further(forecast.high_ratio, weeks), least) for weeks, least in zip(quarters, floor, strict=True)]
    ratios = (low, [1.0] * months, high)
    return tuple(tuple(a * b for a, b in zip(middle, ratio, strict=True)) for ratio in ratios)


def _hour_of(day: date) -> int:
    return int(np.datetime64(day, "h").astype(int))


def further(ratio: float, weeks: float) -> float:
    """P10 or P90 so many weeks ahead, over the forecast; `ratio` is that at the end of a quarter."""
    return float(ratio ** np.sqrt((weeks + 1) / (WEEKS_AHEAD + 1)))


def least_ratio(least_spread: float, weeks: float) -> float:
    """P90 over P50 at least so many weeks ahead, where it is so much more a year ahead: by the root of time."""
    return float((1 + least_spread) ** np.sqrt(weeks / WEEKS_OF_A_YEAR))


def _say(
    spec: DemandFile,
    given: ForecastScenarios,
    factors: list[Factors],
    logged: Mapping[str, LoggedHours],
    notes: Notes,
) -> None:
    if "weights" not in given.model_fields_set:
        value = " / ".join(f"{w:.0%} {n}" for w, n in zip((0.3, 0.4, 0.3), NAMES, strict=True))
        notes.assume("scenarios.weights", value, "Swanson's rule for three percentiles of a forecast")
    if logged and given.least_spread:
        ahead = ", ".join(f"{least_ratio(given.least_spread, 13 * q) - 1:+.0%} after {3 * q} months" for q in (1, 2, 4))
        whose = "assumed" if "least_spread" not in given.model_fields_set else "of the file"
        why = f"{whose}: P90 is no nearer to P50 ({ahead}, P10 likewise), however quiet the log was"
        notes.assume("scenarios.least_spread", f"{given.least_spread:.0%} a year ahead", why)
    if len(logged) > 1:
        why = (
            "workloads are assumed to move together: all logs are at their P10 at the same time, and likewise at their "
            "P90"
        )
        notes.assume("scenarios", "P10, P50 and P90 of all logs together", why)
    if len(logged) < len(spec.workloads):
        names = [w.name for w in spec.workloads if w.name not in logged]
        notes.assume("scenarios", f"{', '.join(names)} as given", "no log shows how uncertain they are")
    for name, log in logged.items():
        if log.first_hour is None:
            why = "the log has no dates: its end is assumed to be the start of the plan"
            notes.assume(f"workloads.{name}.forecast.csv", str(spec.starts), why)
        span = [f"x {each[name][0]:.3g} to {each[name][-1]:.3g}" for each in factors]
        value = "; ".join(f"{n} {each}" for n, each in zip(NAMES, span, strict=True))
        why = "times the rates at the end of the log, in the first and the last month, by its forecast"
        notes.assume(f"scenarios.{name}", value, why)


class ScenarioReader:
    def __init__(
        self,
        spec: DemandFile,
        workloads: tuple[Workload, ...],
        logged: Mapping[str, LoggedHours],
        menu: tuple[Mapping[str, Gpu], dict[str, Offer], dict[str, Offer]],
        read: ReadWorkload,
        notes: Notes,
    ) -> None:
        """`logged` is what logs have of workloads, `menu` its GPUs and offers, and all offers of the catalog."""
        self.spec, self.workloads, self.logged, self.menu = spec, workloads, logged, menu
        self.read, self.notes = read, notes
        self.months = MONTHS_OF_A_QUARTER * (spec.horizon or 1)

    def scenarios(self) -> tuple[Scenario, ...]:
        """Scenarios in the order of the file, or the one that the file is; mistakes go to the notes.

        They have the volume of their demand; what else they change is still to come.
        """
        given = self.spec.listed_scenarios
        base = {w.name: self._factors(w, k, 1.0, self.notes) for k, w in enumerate(self.spec.workloads)}
        if isinstance(self.spec.scenarios, ForecastScenarios):
            return self._from_forecast(base)
        if not given:
            return (Scenario(name=AS_FORECAST, probability_frac=1.0, month_factors=base),)
        return tuple(s for k, each in enumerate(given) if (s := self._scenario(each, k, base)) is not None)

    def _scenario(self, given: ScenarioSpec, k: int, base: Factors) -> Scenario | None:
        before = len(self.notes.mistakes)
        edits = self.edits(given, k)
        data, places = edits.laid_over(is_volume)
        if len(self.notes.mistakes) > before:
            return None
        try:
            spec = validate(DemandFile, replace(self.notes.document, data=data))
        except InputError as error:
            edits.complain(error.diagnostics, places)
            return None
        changed = {}
        for i in sorted({path[1] for path in places if isinstance(path[1], int)}):
            w, own = spec.workloads[i], Notes(self.notes.document)
            rates = any(path[:3] == ("workloads", i, "forecast") and path[3] in RATE_KEYS for path in places)
            changed[w.name] = self._factors(w, i, self._scale(w, i, own) if rates else 1.0, own)
            edits.complain(own.mistakes, places)
        return Scenario(name=given.name, probability_frac=given.probability, month_factors=base | changed)

    def _from_forecast(self, base: Factors) -> tuple[Scenario, ...]:
        assert self.spec.starts is not None
        scenarios = forecast_scenarios(self.spec, base, self.logged, self.notes)
        for s in scenarios:
            for k, w in enumerate(self.spec.workloads):
                factors, path = s.month_factors[w.name], ("workloads", k)
                check_size(w, self.workloads[k], factors, path, self.spec.starts, self.notes)
        return scenarios

    def edits(self, given: ScenarioSpec, k: int) -> ScenarioEdits:
        return ScenarioEdits(given, ("scenarios", k), *self.menu, self.notes)

    def _factors(self, w: WorkloadSpec, k: int, scale: float, notes: Notes) -> tuple[float, ...]:
        """Factors of a workload over the rates that the file itself has."""
        assert self.spec.starts is not None
        factors = month_factors(w, self.spec.starts, self.months, scale)
        check_steps(w, ("workloads", k), self.spec.starts, notes)
        check_size(w, self.workloads[k], factors, ("workloads", k), self.spec.starts, notes)
        return factors

    def _scale(self, w: WorkloadSpec, k: int, notes: Notes) -> float:
        """Requests of a changed workload over those of the file, which come at the same hours."""
        changed, base = (hours_of(x) for x in (self.read(w, k, notes), self.workloads[k]))
        scale = float(changed.sum() / base.sum())
        if not np.allclose(changed, scale * base, rtol=1e-9, atol=1e-12 * scale * base.max()):
            path = ("workloads", k, "forecast", "hourly")
            message = "changes the hours at which requests come, not only their number"
            notes.complain(path, message, "Give the same numbers, all times one factor")
        return scale


def hours_of(w: Workload) -> np.ndarray:
    return np.array([*w.weekday_rps, *w.weekend_rps])
