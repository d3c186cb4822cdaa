"""From the dates, holdings and scenarios of a demand file to the future of its case."""

from __future__ import annotations

from typing import Any

import numpy as np

from planner.case.case import Case, Future, Limits, Scenario
from planner.case.dates import last_day_after, quarter_days
from planner.case.demand.future.holdings import holdings_of
from planner.case.demand.future.scenarios import ScenarioReader, assume_dates, check_dates
from planner.case.demand.notes import Notes
from planner.case.demand.schema import DemandFile
from planner.case.quarters import quarter_case
from planner.case.slots import MONTHS_OF_A_QUARTER
from planner.case.terms import is_long
from planner.catalog.entries import Catalog, Offer
from planner.catalog.terms import term_months

A_MONTH = "a representative weekday and weekend day of each month; a month is 730 h"


def future_fields(
    spec: DemandFile,
    catalog: Catalog,
    offers: dict[str, Offer],
    limits: Limits,
    reader: ScenarioReader | None,
    notes: Notes,
) -> dict[str, Any]:
    """Fields of a Case that are about time; of one that is read for a scenario, what is held."""
    worth = spec.unused_after_horizon.worth if spec.unused_after_horizon else None
    after = {"unused_worth_frac": worth, "max_liability_usd": spec.policy.max_liability}
    if spec.policy.risk == "worst-case" and not spec.scenarios and reader is not None:
        message = "without scenarios there is no worst case"
        notes.complain(("policy", "risk"), message, "List 'scenarios' with their probabilities, or leave 'risk' out")
    quarters = spec.horizon or 1
    if all(value is None for value in after.values()):
        _assume_no_long_terms(spec, MONTHS_OF_A_QUARTER * quarters, notes)
    if spec.starts is None:
        for key, value in (
            (("unused_after_horizon",), worth),
            (("policy", "max_liability"), spec.policy.max_liability),
        ):
            if value is not None:
                notes.complain(
                    key,
                    "limits what is owed after a horizon, and there is no horizon",
                    "Write when it begins: starts: 2027-01-01",
                )
        notes.assume("horizon", "one quarter", A_MONTH)
        return {}
    if reader is None:
        return {"starts": spec.starts, "held": holdings_of(spec, catalog, offers, limits, notes) or None}
    count = "one quarter" if quarters == 1 else f"{quarters} quarters"
    ends = last_day_after(spec.starts, MONTHS_OF_A_QUARTER * quarters)
    notes.assume("horizon", f"{count}, {spec.starts} to {ends}", A_MONTH)
    for k, w in enumerate(spec.workloads):
        check_dates(w, ("workloads", k), spec.starts, MONTHS_OF_A_QUARTER * quarters, notes)
        assume_dates(w, spec.starts, notes)
    holdings = holdings_of(spec, catalog, offers, limits, notes)
    scenarios = reader.scenarios()
    if notes.mistakes:
        return {}
    _check_that_something_comes(spec, scenarios, notes)
    future = Future(starts=spec.starts, quarters=quarters, scenarios=scenarios, risk=spec.policy.risk, **after)
    return {"starts": spec.starts, "held": holdings or None, "future": future}


def as_planned(case: Case, spec: DemandFile) -> Case:
    """The case as it is planned: an ordinary one where its future is one quarter, as it is forecast."""
    long_terms = spec.unused_after_horizon is not None or spec.policy.max_liability is not None
    if case.future is None or case.future.quarters > 1 or spec.scenarios or long_terms:
        return case
    quarter = quarter_case(case, 0, case.future.scenarios).model_copy(update={"limits": case.limits})
    if any(w.dates for w in spec.workloads):
        return quarter
    if all(a.in_months is None for a in quarter.allowances or ()):
        return quarter.model_copy(update={"workloads": case.workloads, "months": None})
    grown = {
        w.name: [(1 + w.growth_per_month_frac) ** m for m in range(len(quarter.months or ()))] for w in case.workloads
    }
    plain = all(np.allclose(w.month_factors or (), grown[w.name]) for w in quarter.workloads)
    return quarter.model_copy(update={"workloads": case.workloads}) if plain else quarter


def _assume_no_long_terms(spec: DemandFile, months: int, notes: Notes) -> None:
    """Say which commitments on the menu are not bought, since nobody says what they are worth after the horizon."""
    terms = [term for term in spec.menu.purchase or () if is_long(term) and term_months(term) > months]
    if terms:
        why = "what is left of a long term after the horizon may never be used; give its worth, or policy.max_liability"
        notes.assume("unused_after_horizon", f"{' and '.join(terms)} not bought", why)


def _check_that_something_comes(spec: DemandFile, scenarios: tuple[Scenario, ...], notes: Notes) -> None:
    """Complain about quarters without any demand, and workloads that no scenario has any for."""
    assert spec.starts is not None
    for k, w in enumerate(spec.workloads):
        if not any(any(s.month_factors[w.name]) for s in scenarios):
            message = "no scenario has any demand for this workload within the horizon"
            notes.complain(("workloads", k), message, "Remove it, or change its dates")
    for quarter in range(spec.horizon or 1):
        months = slice(MONTHS_OF_A_QUARTER * quarter, MONTHS_OF_A_QUARTER * (quarter + 1))
        comes = [any(any(factors[months]) for factors in s.month_factors.values()) for s in scenarios]
        if any(comes) if quarter == 0 else all(comes):
            continue
        first, last = quarter_days(spec.starts, quarter)
        message = f"no workload has any demand from {first} to {last}"
        if quarter and spec.listed_scenarios:
            notes.complain(("scenarios", comes.index(False)), message, "Extend a workload, or shorten 'horizon'")
        else:
            notes.complain(("starts",) if not quarter else ("horizon",), message, "Change 'starts', 'horizon' or dates")
        return
