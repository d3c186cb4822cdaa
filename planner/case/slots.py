"""Slots: the hours of a representative weekday and weekend day, for each month of the quarter that differs."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from planner.case.case import Case, Month, Workload
from problems.constants import HOURS_PER_MONTH

MONTHS_OF_A_QUARTER = 3
DAYS_PER_MONTH = HOURS_PER_MONTH / 24
KINDS = (("weekday", 5 / 7), ("weekend", 2 / 7))


@dataclass(frozen=True)
class Slot:
    month: int
    day: str
    hour: int
    hours_per_month: float
    """hours of its month that this slot stands for, times the weight of the month"""
    label: str


def hours_in_a_month(day: str) -> float:
    """Hours of an average month that an hour of such a day stands for."""
    return DAYS_PER_MONTH * dict(KINDS)[day]


def hour_of_days(day: str, hour: int) -> int:
    """An hour, counted through a weekday and a weekend day."""
    return 24 * [kind for kind, _ in KINDS].index(day) + hour


def slots_of(case: Case) -> tuple[Slot, ...]:
    """One pair of days where nothing grows, else one pair per month."""
    grows = any(w.growth_per_month_frac for w in case.workloads)
    several = tuple(Month(label=f"month {m + 1}") for m in range(MONTHS_OF_A_QUARTER if grows else 1))
    return tuple(
        Slot(m, day, hour, DAYS_PER_MONTH * share * month.weight, f"{month.label} {day} {hour:02d}h")
        for m, month in enumerate(case.months or several)
        for day, share in KINDS
        for hour in range(24)
    )


def month_factor(workload: Workload, month: int) -> float:
    """Times its rates that a workload has in a month."""
    if workload.month_factors is not None:
        return workload.month_factors[month]
    return float((1 + workload.growth_per_month_frac) ** month)


def rates_rps(workload: Workload, slots: tuple[Slot, ...]) -> np.ndarray:
    """Mean rate of the requests that a workload lets in [slot]."""
    by_day = {"weekday": workload.weekday_rps, "weekend": workload.weekend_rps}
    arriving = np.array([by_day[s.day][s.hour] * month_factor(workload, s.month) for s in slots])
    return workload.admitted_frac * arriving


def requests_per_month(workload: Workload, slots: tuple[Slot, ...]) -> float:
    """Requests that are let in, mean over the months of the horizon."""
    hours = np.array([s.hours_per_month for s in slots])
    return float(rates_rps(workload, slots) @ hours * 3600 / (slots[-1].month + 1))


def refused_per_month(workload: Workload, slots: tuple[Slot, ...]) -> float:
    """Requests that are refused for their length, mean over the months of the horizon."""
    return requests_per_month(workload, slots) * (1 / workload.admitted_frac - 1)


def slots_before(slots: tuple[Slot, ...]) -> np.ndarray:
    """The hour before, on a day of the same kind; the last hour comes before the first [slot]."""
    at = {(s.month, s.day, s.hour): t for t, s in enumerate(slots)}
    return np.array([at[s.month, s.day, (s.hour - 1) % 24] for s in slots])


def window_of(deadline_h: float, slots: tuple[Slot, ...]) -> np.ndarray:
    """Whether work that arrives in a slot may be done in another: whole hours later, around midnight too.

    What arrives as an hour begins and is done as a later one ends has waited an hour more than lies between them.
    """
    month, hour = (np.array(x) for x in ([s.month for s in slots], [s.hour for s in slots]))
    day = np.array([s.day for s in slots])
    later = (hour[None, :] - hour[:, None]) % 24
    within = later <= max(0, math.floor(deadline_h) - 1)
    allowed: np.ndarray = within & (month[:, None] == month) & (day[:, None] == day)
    return allowed
