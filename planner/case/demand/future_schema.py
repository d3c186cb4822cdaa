"""Time as people write it in a demand file: horizon, holdings, scenarios, and dates of a workload.

Docstrings of fields are what editors show (JSON schema) and what the error messages quote.
"""

from __future__ import annotations

import re
from datetime import date
from typing import Annotated, Any, Literal

from pydantic import Discriminator, Field, PlainValidator, Tag, WithJsonSchema, model_validator

from planner.case.case import OWNED
from planner.io.errors import Expected, Problem, shown
from planner.io.units import Fraction, PositiveCount, PositiveWhole, UsdPerHour
from planner.io.validation import FieldProblem, Strict

MOST_QUARTERS, MOST_SCENARIOS, MOST_STEP = 12, 12, 1000.0
FIRST_YEAR, LAST_YEAR = 2000, 2099
LEAST_SPREAD_FRAC = 0.2
"""of a year ahead: an assumption, as no trial on a quarter of log can show what changes in a year"""
_QUARTERS = re.compile(r"([0-9]{1,3})(?: ?quarters?)?")


def parse_quarters(value: object) -> int:
    """Quarters from "4 quarters" or 4."""
    remedy = f'Write 1 to {MOST_QUARTERS} quarters, such as "4 quarters"'
    text = str(value) if isinstance(value, int) and not isinstance(value, bool) else value
    match = _QUARTERS.fullmatch(text) if isinstance(text, str) else None
    if match is None:
        raise Expected("a number of quarters", value, remedy)
    if not 1 <= int(match[1]) <= MOST_QUARTERS:
        raise Problem(f"must be 1 to {MOST_QUARTERS} quarters, got {shown(value)}", remedy)
    return int(match[1])


Quarters = Annotated[
    int,
    PlainValidator(parse_quarters),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "integer", "minimum": 1, "maximum": MOST_QUARTERS},
                {"type": "string", "pattern": "^(?:[1-9]|1[0-2])(?: ?quarters?)?$"},
            ],
            "description": f"1 to {MOST_QUARTERS} quarters.",
            "examples": ["4 quarters"],
        }
    ),
]
HeldAs = Literal[
    "reserved-1y", "reserved-3y", "reserved-1y-upfront", "reserved-3y-upfront", "capacity-reservation", "owned"
]


class HoldingSpec(Strict):
    """Instances that you already have: signed for, reserved, or owned."""

    offer: str = Field(min_length=1, examples=["aws/p5.48xlarge"])
    """An instance on the menu, as provider/instance or provider/instance@region."""
    purchase: HeldAs
    """The kind of commitment, capacity-reservation, or owned (leased boxes too)."""
    instances: PositiveWhole = Field(examples=[2])
    price: UsdPerHour = Field(examples=["$30/h"])
    """Price of one instance: as signed, an upfront payment spread over the term; if owned, what running it costs."""
    from_day: date | None = Field(default=None, alias="from", examples=["2026-04-01"])
    """The first day it is available; by default it already is."""
    until: date | None = Field(default=None, examples=["2027-06-30"])
    """Its last day. An owned instance may go without."""

    @model_validator(mode="after")
    def _makes_sense(self) -> HoldingSpec:
        if self.until is None and self.purchase != OWNED:
            raise FieldProblem((), "needs 'until', the last day of its term", "Add until: 2027-06-30")
        if self.from_day and self.until and self.until < self.from_day:
            raise FieldProblem(("until",), f"is before 'from', {self.from_day}", "Write its last day here")
        if self.purchase == OWNED and not self.price:
            message = "must be above $0/h: what running an owned instance costs"
            raise FieldProblem(("price",), message, "Write power, space and upkeep, such as $0.50/h")
        return self


class StepSpec(Strict):
    """A lasting change of a workload's rate."""

    from_day: date = Field(alias="from", examples=["2027-04-01"])
    """The month it begins with; a day within a month counts from the month's start."""
    times: PositiveCount = Field(examples=[1.5])
    """The factor by which the rate is multiplied from then on."""

    @model_validator(mode="after")
    def _within_reason(self) -> StepSpec:
        if self.times > MOST_STEP:
            raise FieldProblem(("times",), f"is above {MOST_STEP:g}", "Check the number")
        return self


class ScenarioSpec(Strict):
    """One way that demand may develop."""

    name: str = Field(min_length=1, max_length=40, pattern=r"^\S(.*\S)?$", examples=["high"])
    probability: Fraction = Field(examples=["30%"])
    """How likely it is; all scenarios together add up to 100%."""
    changes: dict[str, Any] = Field(default={}, examples=[{"workloads.chat.forecast.growth_per_month": "5%"}])
    """What differs from the file, by path as in `what-if --set`: the volume of demand over the whole horizon; prices,
    objectives, lengths, menu and policy after the first quarter, which is the same in all scenarios."""
    from_day: date | None = Field(default=None, alias="from", examples=["2027-07-01"])
    """When changes other than of volume begin: the first day of a quarter, by default the second."""

    @model_validator(mode="after")
    def _is_possible(self) -> ScenarioSpec:
        if not self.probability:
            raise FieldProblem(("probability",), "must be above 0%", "Remove the scenario")
        return self


class WeightsSpec(Strict):
    """The probabilities given to the percentiles of a forecast."""

    p10: Fraction = Field(default=0.3, examples=["30%"])
    p50: Fraction = Field(default=0.4, examples=["40%"])
    p90: Fraction = Field(default=0.3, examples=["30%"])

    @model_validator(mode="after")
    def _add_up(self) -> WeightsSpec:
        total = self.p10 + self.p50 + self.p90
        if abs(total - 1) > 1e-9:
            raise FieldProblem((), f"add up to {100 * total:.6g}%", "Give p10, p50 and p90 that add up to 100%")
        for name in ("p10", "p50", "p90"):
            if not getattr(self, name):
                raise FieldProblem((name,), "must be above 0%", "List scenarios yourself to leave one out")
        return self


class ForecastScenarios(Strict):
    """Scenarios P10, P50 and P90 of the forecast of all workloads whose rates come from a log."""

    of: Literal["forecast"] = Field(alias="from", examples=["forecast"])
    weights: WeightsSpec = Field(default=WeightsSpec(), examples=[{"p10": "30%", "p50": "40%", "p90": "30%"}])
    """Probabilities: {p10: 30%, p50: 40%, p90: 30%} by default, Swanson's rule."""
    least_spread: Fraction = Field(default=LEAST_SPREAD_FRAC, examples=["20%"])
    """How far P10 and P90 lie from P50 a year ahead at least, less before by the root of time; 0%: as the log says."""

    @model_validator(mode="before")
    @classmethod
    def _is_meant(cls, data: Any) -> Any:
        if isinstance(data, str):
            remedy = "Write {from: forecast}, or a list of scenarios"
            raise FieldProblem((), f"expected a list, or a mapping with 'from', got {shown(data)}", remedy)
        if isinstance(data, dict) and "from" not in data and any(isinstance(v, dict) for v in data.values()):
            name = shown(next(key for key, v in data.items() if isinstance(v, dict)))[1:-1]
            remedy = f'Write each in a line of its own: "- {{name: {name}, probability: 30%}}"'
            raise FieldProblem((), "expected a list of scenarios, got a mapping", remedy)
        return data


class UnusedSpec(Strict):
    """What commitments of more than a year are worth after the horizon."""

    worth: Fraction = Field(examples=["50%"])
    """Share of its price that the rest of the term is worth; terms of up to a year are worth all of it."""


def _kind(scenarios: Any) -> str:
    return "forecast" if isinstance(scenarios, dict | str | ForecastScenarios) else "listed"


Scenarios = Annotated[
    Annotated[tuple[ScenarioSpec, ...], Field(max_length=MOST_SCENARIOS), Tag("listed")]
    | Annotated[ForecastScenarios, Tag("forecast")],
    Discriminator(_kind),
]


def check_scenarios(scenarios: tuple[ScenarioSpec, ...]) -> None:
    """Raise FieldProblem where names repeat or probabilities do not add up."""
    names = [s.name for s in scenarios]
    for k, name in enumerate(names):
        if name in names[:k]:
            message = f"{shown(name)} is the name of scenario {names.index(name) + 1} too"
            raise FieldProblem(("scenarios", k, "name"), message, "Give each scenario its own name")
    total = sum(s.probability for s in scenarios)
    if scenarios and abs(total - 1) > 1e-9:
        message = f"has probabilities that add up to {100 * total:.6g}%"
        raise FieldProblem(("scenarios",), message, "Make them add up to 100%")


def check_start(starts: date) -> None:
    if not FIRST_YEAR <= starts.year <= LAST_YEAR:
        raise FieldProblem(("starts",), f"is not between {FIRST_YEAR} and {LAST_YEAR}", "Check the year")
    if starts.day != 1:
        remedy = f"Write {starts.replace(day=1)}"
        raise FieldProblem(("starts",), "is not the first day of a month", remedy)
