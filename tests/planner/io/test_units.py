from __future__ import annotations

import re
from collections.abc import Callable
from math import isclose, isfinite
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, TypeAdapter

from planner.io import units
from planner.io.errors import Problem
from planner.io.units import Price, Relative
from tests.support.rows import for_each

PARSERS: dict[str, Callable[[object], Any]] = {
    "Duration": units.parse_duration,
    "LongDuration": units.parse_long_duration,
    "SizeGb": units.parse_size_gb,
    "Fraction": units.parse_fraction,
    "AnyFraction": units.parse_any_fraction,
    "SignedFraction": units.parse_signed_fraction,
    "Count": units.parse_count,
    "PositiveCount": units.parse_positive_count,
    "WholeNumber": units.parse_whole,
    "PositiveWhole": units.parse_positive_whole,
    "Usd": units.parse_usd,
    "UsdBare": units.parse_usd_bare,
    "UsdPerHour": units.parse_usd_per_hour,
    "PriceChange": units.parse_price_change,
}

GOOD: list[tuple[str, object, object]] = [
    ("Duration", "250ms", 0.25),
    ("Duration", "1.5s", 1.5),
    ("Duration", "2 min", 120.0),
    ("Duration", "5m", 300.0),
    ("Duration", "3h", 10_800.0),
    ("Duration", "2 hours", 7200.0),
    ("Duration", "14d", 1_209_600.0),
    ("Duration", "1 week", 604_800.0),
    ("Duration", "40us", 4e-5),
    ("Duration", "1,500ms", 1.5),
    ("Duration", "0s", 0.0),
    ("LongDuration", "6h", 21_600.0),
    ("LongDuration", "2d", 172_800.0),
    ("SizeGb", "100MB", 0.1),
    ("SizeGb", "1.5 GB", 1.5),
    ("SizeGb", "2TB", 2000.0),
    ("SizeGb", "500kB", 0.0005),
    ("SizeGb", "1GiB", 1.073741824),
    ("SizeGb", "0MB", 0.0),
    ("Fraction", "8%", 0.08),
    ("Fraction", "12.5 %", 0.125),
    ("Fraction", "7%", 0.07),
    ("Fraction", "100%", 1.0),
    ("Fraction", 0, 0.0),
    ("Fraction", 0.0, 0.0),
    ("AnyFraction", "150%", 1.5),
    ("SignedFraction", "+25%", 0.25),
    ("SignedFraction", "-40%", -0.4),
    ("SignedFraction", "300%", 3.0),
    ("SignedFraction", "-100%", -1.0),
    ("Count", 1_200_000, 1_200_000.0),
    ("Count", 1.5, 1.5),
    ("Count", "1.2M", 1_200_000.0),
    ("Count", "4.35k", 4350.0),
    ("Count", "80K", 80_000.0),
    ("Count", "3B", 3e9),
    ("Count", "1T", 1e12),
    ("Count", "1_000", 1000.0),
    ("Count", "1,000,000", 1e6),
    ("Count", "1e6", 1e6),
    ("Count", 0, 0.0),
    ("PositiveCount", "0.5", 0.5),
    ("WholeNumber", 3.0, 3),
    ("WholeNumber", 0, 0),
    ("WholeNumber", "32k", 32_000),
    ("WholeNumber", "1_000", 1000),
    ("PositiveWhole", 1, 1),
    ("Usd", "$40k", 40_000.0),
    ("Usd", "$1.2M", 1_200_000.0),
    ("Usd", "$1,200.50", 1200.5),
    ("Usd", "40000 usd", 40_000.0),
    ("Usd", "USD 40k", 40_000.0),
    ("UsdBare", 40_000, 40_000.0),
    ("UsdBare", "80k", 80_000.0),
    ("UsdBare", "$80k", 80_000.0),
    ("UsdBare", "80k USD", 80_000.0),
    ("UsdPerHour", "$48/h", 48.0),
    ("UsdPerHour", "$2.21 per hour", 2.21),
    ("UsdPerHour", "48 usd/h", 48.0),
    ("UsdPerHour", "$0.5 / hr", 0.5),
    ("PriceChange", "$48/h", Price(48.0)),
    ("PriceChange", "-40%", Relative(-0.4)),
    ("PriceChange", "+5%", Relative(0.05)),
    ("PriceChange", Relative(0.1), Relative(0.1)),
]

BAD: list[tuple[str, object, str]] = [
    ("Duration", 1.5, 'needs a unit, got 1.5. Write "1.5s" or "1.5ms"'),
    ("Duration", "90", "needs a unit, got '90'. Write \"90s\""),
    ("Duration", 0, "needs a unit"),
    ("Duration", -1, 'Write "1s"'),
    ("Duration", "-3s", "cannot be negative"),
    ("Duration", "5M", "unknown unit of time 'M'"),
    ("Duration", "3 parsec", "unknown unit of time 'parsec'"),
    ("Duration", "1,5s", "expected a duration"),
    ("Duration", "nan s", "expected a duration"),
    ("Duration", float("nan"), "expected a duration, got nan"),
    ("Duration", True, "expected a duration, got true"),
    ("Duration", None, "expected a duration, got nothing"),
    ("Duration", ["1s"], "expected a duration, got a list"),
    ("Duration", "1" * 100 + "s", "expected a duration"),
    ("LongDuration", 6, 'needs a unit, got 6. Write "6h" or "6min"'),
    ("LongDuration", "six hours", "expected a duration, got 'six hours'"),
    ("SizeGb", 100, 'needs a unit, got 100. Write "100MB"'),
    ("SizeGb", "100Mb", "unknown unit of size 'Mb' in '100Mb'. Use kB, MB"),
    ("SizeGb", "-1GB", "a size cannot be negative"),
    ("SizeGb", "large", "expected a size, got 'large'"),
    ("SizeGb", None, "expected a size, got nothing"),
    ("Fraction", 0.08, 'needs a percent sign, got 0.08. Write "8%"'),
    ("Fraction", 8, 'Write "8%"'),
    ("Fraction", 1, 'Write "1%" or "100%"'),
    ("Fraction", "0.5", 'Write "50%"'),
    ("Fraction", "120%", "between 0% and 100%"),
    ("Fraction", "-3%", "cannot be negative"),
    ("Fraction", "-0%", "cannot be negative"),
    ("Fraction", "+8%", "takes no sign"),
    ("Fraction", False, "expected a percentage"),
    ("AnyFraction", "-3%", "cannot be negative"),
    ("SignedFraction", "-140%", "cannot fall by more than 100%"),
    ("SignedFraction", -0.4, 'Write "-40%"'),
    ("Count", True, "expected a number, got true"),
    ("Count", -1, "cannot be negative"),
    ("Count", "-80k", "cannot be negative"),
    ("Count", "2m", "expected a number"),
    ("Count", "1,5", "expected a number"),
    ("Count", "000", "expected a number"),
    ("Count", "٣", "expected a number"),
    ("Count", float("inf"), "expected a number"),
    ("Count", 10**400, "expected a number"),
    ("Count", {}, "expected a number, got a mapping"),
    ("PositiveCount", 0, "must be more than 0"),
    ("WholeNumber", 2.5, "must be a whole number, got 2.5"),
    ("WholeNumber", True, "expected a whole number"),
    ("WholeNumber", 1e300, "too large"),
    ("PositiveWhole", 0, "must be 1 or more"),
    ("Usd", 40_000, 'needs a currency, got 40000. Write "$40000"'),
    ("Usd", "40k", 'Write "$40k"'),
    ("Usd", "€40", "expected an amount in dollars"),
    ("Usd", "-$40", "cannot be negative"),
    ("UsdBare", "€40", "expected an amount in dollars"),
    ("UsdBare", -1, "cannot be negative"),
    ("UsdPerHour", 48, 'Write "$48/h"'),
    ("UsdPerHour", "$48", "needs a unit of time, got '$48'. Write \"$48/h\""),
    ("UsdPerHour", "$48/month", "expected a price per hour"),
    ("UsdPerHour", "-$48/h", "cannot be negative"),
    ("PriceChange", "40%", "needs a sign, got '40%'. Write \"-40%\" for a discount"),
    ("PriceChange", "-140%", "cannot fall"),
    ("PriceChange", 48, "needs a currency"),
    ("PriceChange", "cheap", "expected a price, got 'cheap'"),
]


@for_each(("kind", "written", "value"), GOOD)
def test_quantities_are_read_as_people_write_them(kind: str, written: object, value: object) -> None:
    result = PARSERS[kind](written)
    assert result == value
    assert type(result) is type(value)


@for_each(("kind", "written", "words"), BAD)
def test_bad_quantities_say_what_to_write(kind: str, written: object, words: str) -> None:
    with pytest.raises(Problem) as caught:
        PARSERS[kind](written)
    assert words in str(caught.value)


WRITTEN = st.text("0123456789.,_eE+-%$ kKMBTmshdin/perusdUSD€", max_size=12)
ANYTHING = (
    WRITTEN | st.text() | st.none() | st.booleans() | st.integers() | st.floats() | st.lists(st.integers())
    | st.binary() | st.just(10**5000)
)  # fmt: skip


@for_each("kind", PARSERS)
@given(value=ANYTHING)
def test_nothing_but_a_value_error_is_raised(kind: str, value: object) -> None:
    try:
        result = PARSERS[kind](value)
    except ValueError as error:
        assert str(error)
    else:
        numbers = [result] if isinstance(result, int | float) else list(vars(result).values())
        assert all(isfinite(number) for number in numbers)


def schema_accepts(schema: dict[str, Any], value: object) -> bool:
    if "anyOf" in schema:
        return any(schema_accepts(form, value) for form in schema["anyOf"])
    if schema.get("type") == "string":
        return isinstance(value, str) and re.search(schema["pattern"], value) is not None
    return isinstance(value, int | float) and value >= schema.get("minimum", schema.get("const", 0))


@for_each("kind", PARSERS)
def test_the_schema_knows_its_examples(kind: str) -> None:
    schema = TypeAdapter(getattr(units, kind)).json_schema()
    assert schema["description"]
    for example in schema["examples"]:
        PARSERS[kind](example)
        assert schema_accepts(schema, example)
    for other, written, _ in GOOD:
        if other == kind and not isinstance(written, Price | Relative):
            assert schema_accepts(schema, written), written


@for_each("kind", PARSERS)
@given(value=WRITTEN)
def test_an_editor_never_marks_what_is_accepted(kind: str, value: str) -> None:
    try:
        PARSERS[kind](value)
    except ValueError:
        return
    assert schema_accepts(TypeAdapter(getattr(units, kind)).json_schema(), value)


AMOUNT = st.decimals(0, 10**9, places=3, allow_nan=False).map(float)


@given(AMOUNT)
def test_round_trips(amount: float) -> None:
    written = f"{amount:.3f}"
    assert units.parse_duration(f"{written}s") == amount
    assert isclose(units.parse_duration(f"{written}ms"), amount / 1000)
    assert isclose(units.parse_duration(f"{written} h"), amount * 3600)
    assert isclose(units.parse_any_fraction(f"{written}%"), amount / 100)
    assert units.parse_signed_fraction(f"+{written}%") == units.parse_any_fraction(f"{written}%")
    assert units.parse_count(amount) == units.parse_count(written) == amount
    assert isclose(units.parse_count(f"{written}M"), amount * 1e6)
    assert units.parse_usd(f"${written}") == units.parse_usd_bare(written) == amount
    assert units.parse_price_change(f"${written}/h") == Price(amount)


@given(st.integers(0, 10**15))
def test_whole_numbers_are_exact(number: int) -> None:
    assert units.parse_whole(number) == units.parse_whole(f"{number:,}") == units.parse_whole(f"{number:_}") == number


def test_prices_apply_to_a_list_price() -> None:
    assert Price(3.0).applied_to(10.0) == 3.0
    assert isclose(Relative(-0.4).applied_to(10.0), 6.0)


def test_types_work_in_a_model() -> None:
    class Sample(BaseModel):
        ttft: units.Duration = 1.5
        price: units.PriceChange | None = None

    assert Sample.model_validate({"ttft": "250ms", "price": "-40%"}) == Sample.model_construct(
        ttft=0.25, price=Relative(-0.4)
    )
