"""The days under review, as hours of the log and as times."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime

import numpy as np
from pydantic import model_validator

from planner.case.demand.future.forecasting import WEEK, WEEKS_AHEAD
from planner.io.errors import input_error
from planner.io.formatting import counted
from planner.io.validation import FieldProblem, Strict
from planner.review.usage_log import HOUR, UsageLog

LONGEST_QUARTER_H = 100 * 24
FEWEST_HOURS = 24


class PeriodSpec(Strict):
    """The days under review, both included."""

    first_day: date
    last_day: date

    @model_validator(mode="after")
    def _in_order(self) -> PeriodSpec:
        if self.last_day < self.first_day:
            raise FieldProblem(("last_day",), "is before 'first_day'", "Write the later day here")
        return self


@dataclass(frozen=True)
class Span:
    """Hours of a log: from `first` to before `stop`."""

    first: int
    stop: int

    def times(self, log: UsageLog) -> tuple[datetime, datetime]:
        """From when to when, in UTC."""
        first, stop = (log.first + k * HOUR for k in (self.first, self.stop))
        return first.astype(datetime).replace(tzinfo=UTC), stop.astype(datetime).replace(tzinfo=UTC)


def span_of(log: UsageLog, period: PeriodSpec | None, file: str) -> Span:
    """The hours under review."""
    if period is None:
        return Span(0 if log.hours <= LONGEST_QUARTER_H else log.hours - WEEKS_AHEAD * WEEK, log.hours)
    first = max(0, _hour_of(period.first_day, log))
    stop = min(log.hours, _hour_of(period.last_day, log) + 24)
    if stop - first < FEWEST_HOURS:
        last = log.first + (log.hours - 1) * HOUR
        message = f"has {counted(max(0, stop - first), 'hour')} of the period; it goes from {log.first} to {last} h"
        raise input_error(file, message, "Correct 'period'")
    return Span(first, stop)


def _hour_of(day: date, log: UsageLog) -> int:
    return int((np.datetime64(day, "h") - log.first) / HOUR)
