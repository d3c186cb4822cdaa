"""Dollars and times whose unit is in the name of their key."""

from __future__ import annotations

from typing import Any

import pytest
from jsonschema import validate as fits
from pydantic import TypeAdapter, ValidationError

from planner.io.errors import Problem
from planner.io.rates import Months, UsdPer1mTokens, UsdPerKwh, UsdPerMonth, UsdPerYear, Years
from tests.support.rows import for_each

GOOD = [
    (UsdPerMonth, 350, 350.0),
    (UsdPerMonth, "$350", 350.0),
    (UsdPerMonth, "80k", 80_000.0),
    (UsdPerMonth, "$350/month", 350.0),
    (UsdPerMonth, "$1,350 per month", 1350.0),
    (UsdPerMonth, "350 usd a month", 350.0),
    (UsdPerYear, "$200k/year", 200_000.0),
    (UsdPerKwh, "$0.11/kWh", 0.11),
    (UsdPerKwh, "0.11/kWh", 0.11),
    (UsdPer1mTokens, "$0.02/1M tokens", 0.02),
    (Years, 3.5, 3.5),
    (Years, "4 years", 4.0),
    (Years, "1 year", 1.0),
    (Months, "3 months", 3),
    (Months, "3-month", 3),
    (Months, 3, 3),
]
ALSO_GOOD = [
    (Months, "3 Months", 3),
    (Months, "3 MONTHS", 3),
    (Months, "12 mo", 12),
    (Months, "0 quarters", 0),
    (Years, "4 Years", 4.0),
    (Years, "4y", 4.0),
]
"""taken, though an editor is told of plainer words only"""
BAD = [
    (UsdPerMonth, "$4200/year", "Write 350."),
    (UsdPerMonth, "$900/quarter", "Write 300."),
    (UsdPerYear, "$10k/month", "Write 120000."),
    (UsdPerMonth, "$2/h", 'Write dollars, such as 350 or "$350/month".'),
    (UsdPerMonth, "$350/day", 'Write dollars, such as 350 or "$350/month".'),
    (UsdPerMonth, "350 euros", 'Write dollars, such as 350 or "$350/month".'),
    (UsdPerMonth, "US$350/month", 'Write dollars, such as 350 or "$350/month".'),
    (UsdPerMonth, "£350", 'Write dollars, such as 350 or "$350/month".'),
    (UsdPerKwh, "€0.11/kWh", 'Write dollars, such as 0.11 or "$0.11/kWh".'),
    (UsdPerKwh, "0.11 EUR/kWh", 'Write dollars, such as 0.11 or "$0.11/kWh".'),
    (UsdPerKwh, "11c/kWh", "Write 0.11."),
    (UsdPerMonth, "-$350/month", "cannot be negative"),
    (UsdPerKwh, "$120/MWh", "Write 0.12."),
    (UsdPerKwh, "12 ct", "Write 0.12."),
    (UsdPerKwh, "12 cents/kWh", "Write 0.12."),
    (UsdPer1mTokens, "$0.00002/1k tokens", "Write 0.02."),
    (Years, "48 months", "Write 4."),
    (Years, "50 months", "Write whole quarters: 4 or 4.25."),
    (Years, "1 month", "Write whole quarters: 0.25."),
    (Years, "16 quarters", "Write 4."),
    (Years, "0 months", "must be more than 0, got '0 months'"),
    (Years, "-48 months", "cannot be negative, got '-48 months'"),
    (Years, "0 years", "must be more than 0, got '0 years'"),
    (Years, "-4 years", "cannot be negative, got '-4 years'"),
    (Years, "4 lives", "expected a number"),
    (Months, "1 quarter", "Write 3."),
    (Months, "1.5 years", "Write 18."),
    (Months, "0.1 years", "Write whole months: 1 or 2."),
    (Months, "1.5 months", "must be a whole number, got '1.5 months'"),
    (Months, "1.5 Months", "must be a whole number, got '1.5 Months'"),
]


@for_each(("kind", "written", "meant"), GOOD)
def test_the_unit_of_the_key_may_be_written(kind: Any, written: object, meant: float) -> None:
    adapter = TypeAdapter(kind)
    assert adapter.validate_python(written) == meant
    fits(written, adapter.json_schema())


@for_each(("kind", "written", "meant"), ALSO_GOOD)
def test_units_are_taken_in_capitals_and_short(kind: Any, written: str, meant: float) -> None:
    assert TypeAdapter(kind).validate_python(written) == meant


@for_each(("kind", "written", "said"), BAD)
def test_another_unit_is_answered_with_what_to_write(kind: Any, written: object, said: str) -> None:
    with pytest.raises(ValidationError) as error:
        TypeAdapter(kind).validate_python(written)
    cause = error.value.errors()[0]["ctx"]["error"]
    assert isinstance(cause, Problem)
    assert said in str(cause)
