"""What differs from the file from a later quarter on: prices with a date, and what a scenario changes besides volume.

Prices change on the first days of quarters, each once for an instance. The first quarter is one plan for all scenarios,
and what is signed with it is signed in all of them. So it is planned with the prices, objectives and menu of the file;
each later quarter is one of a scenario and has those of the scenario.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import date
from typing import Any

import numpy as np

from planner.case.case import AMENDED, Amendment, Case, Scenario
from planner.case.dates import last_day_after, month_index, quarter_days
from planner.case.demand.future.edits import ScenarioEdits, is_other
from planner.case.demand.future.scenarios import ScenarioReader, hours_of
from planner.case.demand.future_schema import ScenarioSpec
from planner.case.demand.notes import Notes
from planner.case.demand.overrides import offers_called, repriced
from planner.case.demand.schema import DemandFile
from planner.case.slots import MONTHS_OF_A_QUARTER
from planner.catalog.entries import Offer
from planner.io.errors import InputError, Path
from planner.io.validation import validate

CaseOn = Callable[[date], Case]
"""a case at the prices of a day"""
NAMING_OFFERS = ("prices", "have", "policy", "scenarios", "unused_after_horizon")
"""keys whose values name instances, or need what is named there"""


def quarter_beginning(day: date, path: Path, starts: date, quarters: int, what: str, notes: Notes) -> int | None:
    """The quarter after the first that a day is the first of; complains where there is none."""
    months = month_index(starts, day)
    quarter, within = divmod(months, MONTHS_OF_A_QUARTER)
    ends = last_day_after(starts, MONTHS_OF_A_QUARTER * quarters)
    if day > ends:
        notes.complain(path, f"is after the horizon, which ends {ends}", "Remove it, or lengthen 'horizon'")
    elif day <= starts:
        message = f"is not after {starts}, when the plan starts with {what} of the file"
        notes.complain(path, message, "Write the first day of a later quarter")
    elif within or day.day > 1:
        around = [quarter_days(starts, q)[0] for q in (quarter, quarter + 1) if 1 <= q < quarters]
        remedy = f"Write {' or '.join(map(str, around))}" if around else "Lengthen 'horizon'"
        notes.complain(path, f"lies within a quarter of the plan: {what} change with a quarter", remedy)
    else:
        return quarter
    return None


def check_price_steps(spec: DemandFile, offers: dict[str, Offer], notes: Notes) -> None:
    """Complain about dates that are no quarter of the plan, and about two changes of one instance with one date."""
    if spec.starts is None:
        return
    named: dict[tuple[str, date], str] = {}
    for name, price in spec.prices.items():
        for k, step in enumerate(price.steps):
            path: Path = ("prices", name, "steps", k, "from")
            quarter_beginning(step.from_day, path, spec.starts, spec.horizon or 1, "prices", notes)
            for key in offers_called(name, offers):
                other = named.setdefault((key, step.from_day), name)
                if other != name:
                    message = f"{key} is also covered by '{other}', whose prices change on {step.from_day} too"
                    notes.complain(path, message, "Give the step once")


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


class AmendmentReader:
    def __init__(self, reader: ScenarioReader, base: CaseOn, changed: Callable[[Any], CaseOn]) -> None:
        """`base` is the file's case on a day, `changed` that of changed data."""
        assert reader.spec.starts is not None
        self.reader, self.base, self.changed = reader, base, changed
        self.spec: DemandFile = reader.spec
        self.notes: Notes = reader.notes
        self.starts, self.quarters = reader.spec.starts, reader.spec.horizon or 1
        self.now = base(self.starts)

    def amended(self, scenarios: tuple[Scenario, ...]) -> tuple[Scenario, ...]:
        """Scenarios with their amendments; mistakes go to the notes."""
        amended = []
        for k, s in enumerate(scenarios):
            given = self.spec.listed_scenarios[k] if self.spec.listed_scenarios else None
            amended.append(s.model_copy(update={"amendments": self._of_scenario(given, k)}))
        return tuple(amended)

    def _of_scenario(self, given: ScenarioSpec | None, k: int) -> tuple[Amendment, ...] | None:
        """By quarter, each as it differs from the first; None where nothing does."""
        turns = {self._quarter(day): self.base for day in step_days(self.spec)}
        if given is not None:
            edits = self.reader.edits(given, k)
            data, places = edits.laid_over(is_other)
            begins = self._begins(edits, places)
            if begins is not None:
                try:
                    later = self._later(data, places)
                    days = step_days(validate(DemandFile, replace(self.notes.document, data=data)))
                except InputError as error:
                    edits.complain(error.diagnostics, places)
                    return None
                turns = {q: case_on for q, case_on in turns.items() if q < begins}
                turns |= {q: later for q in {begins, *(self._quarter(day) for day in days)} if q >= begins}
        return tuple(self._differing(turns)) or None

    def _begins(self, edits: ScenarioEdits, places: dict[Path, Path]) -> int | None:
        """The quarter with which changes other than of volume begin; None where there are none."""
        given, path = edits.given, (*edits.here, "from")
        if not places:
            if given.from_day is not None:
                message = "has no effect: changes of volume have their own dates, and nothing else changes"
                self.notes.complain(path, message, "Give the workload a date, with from or steps")
            return None
        if given.from_day is not None:
            what = "prices, objectives and menus"
            return quarter_beginning(given.from_day, path, self.starts, self.quarters, what, self.notes)
        if self.quarters == 1:
            message = "begins after the first quarter, but the horizon has only one quarter"
            remedy = "Lengthen 'horizon', or compare with what-if"
            written = next(iter(places.values()))
            self.notes.mistakes.append(self.notes.document.diagnostic(written, message, remedy, at_key=True))
            return None
        first = quarter_days(self.starts, 1)[0]
        what = ", ".join(dict.fromkeys(str(written[-1]) for written in places.values()))
        why = "the first quarter has one plan for all scenarios; write 'from:' with a later quarter"
        self.notes.assume(f"scenarios.{given.name}", f"{what} from {first}", why)
        return 1

    def _later(self, data: Any, places: dict[Path, Path]) -> CaseOn:
        """The case of changed data; raises InputError where they change what all scenarios share."""
        document = self.notes.document
        if any(path[0] == "menu" for path in places):
            before, after = (self._menu_of(each) for each in (document.data, data))
            lost = [key for key in before if key not in after]
        else:
            lost = []
        later = self.changed(data) if not lost else self.base
        case = later(self.starts)
        lost = lost or [key for key in self.now.offers if key not in case.offers]
        if lost:
            message = f"takes {lost[0]} off the menu, although commitments to it may be signed now"
            remedy = f"Write policy.max_instances.'{lost[0]}': 0 instead"
            raise InputError([document.diagnostic(("menu",), message, remedy)])
        for k, (w, was) in enumerate(zip(case.workloads, self.now.workloads, strict=True)):
            if not np.allclose(hours_of(w), hours_of(was), rtol=1e-9, atol=0):
                message = "changes the number of requests only indirectly"
                remedy = "Change requests_per_day, hourly, growth_per_month or steps"
                raise InputError([document.diagnostic(("workloads", k), message, remedy)])
        return later

    def _menu_of(self, data: Any) -> Iterable[str]:
        """Offers on the menu, whatever else of the file names instances that may not be there."""
        menu = {key: value for key, value in data.items() if key not in NAMING_OFFERS}
        return self.changed(menu)(self.starts).offers

    def _differing(self, turns: dict[int, CaseOn]) -> Iterable[Amendment]:
        before = Amendment(from_quarter=1)
        for quarter, case_on in sorted(turns.items(), key=lambda turn: turn[0]):
            case = with_rates_of(self.now, case_on(quarter_days(self.starts, quarter)[0]))
            fields = {name: getattr(case, name) for name in AMENDED}
            differs = {name: new for name, new in fields.items() if new != getattr(self.now, name)}
            amendment = Amendment(from_quarter=quarter, **differs)
            if amendment != before.model_copy(update={"from_quarter": quarter}):
                yield amendment
            before = amendment

    def _quarter(self, day: date) -> int:
        return month_index(self.starts, day) // MONTHS_OF_A_QUARTER


def with_rates_of(base: Case, case: Case) -> Case:
    """A case whose workloads come as often as in another, which scenarios multiply."""
    workloads = []
    for w, was in zip(case.workloads, base.workloads, strict=True):
        rates = {key: getattr(was, key) for key in ("weekday_rps", "weekend_rps", "growth_per_month_frac")}
        workloads.append(w.model_copy(update=rates))
    return case.model_copy(update={"workloads": tuple(workloads)})
