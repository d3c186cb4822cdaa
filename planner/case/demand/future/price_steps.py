"""Dates with which prices change: the first days of quarters, each once for an instance."""

from __future__ import annotations

from datetime import date

from planner.case.dates import last_day_after, month_index, quarter_days
from planner.case.demand.diagnostics import Diagnostics
from planner.case.demand.overrides import offers_called, repriced
from planner.case.demand.schema import DemandFile
from planner.case.horizon import MONTHS_OF_A_QUARTER
from planner.catalog.entries import Offer
from planner.io.errors import Path


def quarter_beginning(day: date, path: Path, starts: date, quarters: int, what: str, found: Diagnostics) -> int | None:
    """The quarter after the first that a day is the first of; complains where there is none."""
    months = month_index(starts, day)
    quarter, within = divmod(months, MONTHS_OF_A_QUARTER)
    ends = last_day_after(starts, MONTHS_OF_A_QUARTER * quarters)
    if day > ends:
        found.complain(path, f"is after the horizon, which ends {ends}", "Remove it, or lengthen 'horizon'")
    elif day <= starts:
        message = f"is not after {starts}, when the plan starts with {what} of the file"
        found.complain(path, message, "Write the first day of a later quarter")
    elif within or day.day > 1:
        around = [quarter_days(starts, q)[0] for q in (quarter, quarter + 1) if 1 <= q < quarters]
        remedy = f"Write {' or '.join(map(str, around))}" if around else "Lengthen 'horizon'"
        found.complain(path, f"lies within a quarter of the plan: {what} change with a quarter", remedy)
    else:
        return quarter
    return None


def check_price_steps(spec: DemandFile, offers: dict[str, Offer], found: Diagnostics) -> None:
    """Complain about dates that are no quarter of the plan, and about two changes of one instance with one date."""
    if spec.starts is None:
        return
    named: dict[tuple[str, date], str] = {}
    for name, price in spec.prices.items():
        for k, step in enumerate(price.steps):
            path: Path = ("prices", name, "steps", k, "from")
            quarter_beginning(step.from_day, path, spec.starts, spec.horizon or 1, "prices", found)
            for key in offers_called(name, offers):
                other = named.setdefault((key, step.from_day), name)
                if other != name:
                    message = f"prices of '{other}', which {key} is too, change on {step.from_day} as well"
                    found.complain(path, message, "Give the step once")


def step_days(spec: DemandFile) -> list[date]:
    """Dates with which some price changes."""
    return sorted({step.from_day for price in spec.prices.values() for step in price.steps})


def offers_at(offers: dict[str, Offer], spec: DemandFile, day: date, file: str) -> dict[str, Offer]:
    """Offers at the prices of a day, from their first prices on."""
    begun = [(s.from_day, name, s) for name, price in spec.prices.items() for s in price.steps if s.from_day <= day]
    priced = dict(offers)
    for since, name, step in sorted(begun, key=lambda each: each[0]):
        for key in offers_called(name, offers):
            priced[key] = repriced(priced[key], step, f"{file}, from {since}")
    return priced
