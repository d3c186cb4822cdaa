"""Tables about savings plans and provisioned units over a horizon: what is signed or held, and how it is used."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date

from planner.case.allowances import allowance_of
from planner.case.case import Allowance
from planner.case.quarters import lapses_in_horizon
from planner.plan.horizon.horizon_plan import HorizonPlan, SignedAllowance
from planner.plan.horizon.horizon_view import months_name
from planner.plan.plan import AllowancePlan
from planner.reports.phrases import amount_of
from planner.reports.table import DATA, PEOPLE, Table
from planner.reports.table import Column as C
from problems.constants import HOURS_PER_MONTH


@dataclass(frozen=True)
class _Line:
    """An allowance that is held, or signed with a quarter."""

    allowance: Allowance
    signed: SignedAllowance | None = None

    @property
    def origin(self) -> str:
        if self.signed is None:
            return "held"
        return "sign now" if self.signed.scenario is None else "sign later"

    @property
    def units(self) -> float:
        return self.allowance.held if self.signed is None else self.signed.units

    @property
    def usd_per_month(self) -> float:
        return self.units * self.allowance.usd_per_h * HOURS_PER_MONTH

    @property
    def last_day(self) -> date | None:
        return self.allowance.last_day if self.signed is None else self.signed.last_day


def allowances(horizon: HorizonPlan) -> Table:
    """What is held, what to sign now, and what is signed later."""
    lines = [_Line(a) for a in horizon.case.allowances or () if a.held]
    lines += [_Line(allowance_of(horizon.case, s.name), s) for s in horizon.allowances or ()]
    columns = (
        C("origin", "savings plans and units"),
        C("scenario", "in scenario", missing="all scenarios", get=lambda x: x.signed and x.signed.scenario),
        C("name", "name", get=lambda x: x.allowance.name),
        C("amount", "amount", formats=PEOPLE, get=lambda x: amount_of(x.allowance, x.units)),
        C("units", "units", "number", DATA),
        C("term", "term", get=lambda x: x.allowance.term),
        C("first_day", "from", missing="before", get=lambda x: x.signed and f"{x.signed.first_day}"),
        C("last_day", "until", missing="beyond", get=lambda x: x.last_day and f"{x.last_day}"),
        C("usd_per_month", "$/month", "money"),
        C("owed_beyond_usd", "owed after $", "money", get=lambda x: x.signed and x.signed.beyond_usd),
        C("counted_usd", "counted $", "money", DATA, get=lambda x: x.signed and x.signed.counted_usd),
    )
    return Table("allowances", "Savings plans and provisioned units", columns, tuple(lines))


@dataclass(frozen=True)
class _Use:
    quarter: int
    scenario: str | None
    amount: str
    of: AllowancePlan

    @property
    def lost_usd_per_month(self) -> float:
        return max(0.0, 1 - self.of.used_frac) * self.of.usd_per_month


def allowance_use(horizon: HorizonPlan) -> Table:
    """How much of each is used and lost, quarter by quarter."""
    columns = (
        C("quarter", "quarter", "count", get=lambda x: x.quarter + 1),
        C("months", "months", get=lambda x: months_name(horizon, x.quarter, x.quarter)),
        C("scenario", "scenario", missing="all scenarios"),
        C("name", "savings plan or units", get=lambda x: x.of.name),
        C("amount", "amount", formats=PEOPLE),
        C("units", "units", "number", DATA, get=lambda x: x.of.units),
        C("usd_per_month", "$/month", "money", get=lambda x: x.of.usd_per_month),
        C("covered_usd_per_month", "$/month covered", "money", get=lambda x: x.of.covered_usd_per_month),
        C("used_frac", "% used", "percent", get=lambda x: x.of.used_frac),
        C("lost_usd_per_month", "$/month lost", "money"),
        C("covered_frac", "% covered", "percent", get=lambda x: x.of.covered_frac),
    )
    notes = ["covered: what the same usage costs without; lost: paid in hours that do not use it"]
    rows = tuple(_uses(horizon))
    if any(lapses_in_horizon(horizon.case, a) for a in horizon.case.allowances or ()):
        notes.append("what lapses within a quarter is paid for its days there, and covers what runs on them")
    return Table("allowance_use", "What they cover, by quarter", columns, rows, tuple(notes) if rows else ())


def _uses(horizon: HorizonPlan) -> Iterator[_Use]:
    for q in horizon.quarters:
        for a in q.plan.allowances or ():
            yield _Use(q.quarter, q.scenario, amount_of(allowance_of(q.plan.case, a.name), a.units), a)
