"""Months and quarters of the calendar. Every day is included: a span ends with its last day."""

from __future__ import annotations

import calendar
from datetime import date, timedelta

from planner.case.slots import MONTHS_OF_A_QUARTER
from planner.catalog.terms import term_months


def add_months(day: date, months: int) -> date:
    """The same day so many months later; the last of the month where that has fewer days."""
    year, month = divmod(day.year * 12 + day.month - 1 + months, 12)
    return date(year, month + 1, min(day.day, calendar.monthrange(year, month + 1)[1]))


def month_index(starts: date, day: date) -> int:
    """Calendar months from one day's month to another's; negative where it lies before."""
    return (day.year - starts.year) * 12 + day.month - starts.month


def month_name(starts: date, month: int) -> str:
    """A month of the horizon as 2027-01."""
    return f"{add_months(starts, month):%Y-%m}"


def month_end(day: date) -> date:
    return day.replace(day=calendar.monthrange(day.year, day.month)[1])


def quarter_days(starts: date, quarter: int) -> tuple[date, date]:
    """First and last day of a quarter of the horizon, from 0."""
    first = add_months(starts, MONTHS_OF_A_QUARTER * quarter)
    return first, last_day_after(first, MONTHS_OF_A_QUARTER)


def last_day_after(first: date, months: int) -> date:
    """Last day of so many months that begin with a day."""
    return add_months(first, months) - timedelta(days=1)


def last_day_of_term(first: date, term: str) -> date:
    """Last day of a commitment that begins with a day."""
    return last_day_after(first, term_months(term))
