"""Quantities as people write them: "250ms", "8%", "1.2M", "100MB", "$40k", "$48/h"; and names of time zones.

Each `parse_*` function takes a value as YAML gives it and returns a number in the base unit, or raises
Problem (a ValueError) that says what was expected. The annotated types below them are for pydantic fields.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from math import isfinite
from typing import Annotated, Any

from pydantic import PlainValidator, WithJsonSchema

from planner.io.errors import Expected, Problem, shown

_DIGITS = r"(?:0|[1-9][0-9]{0,2}(?:[,_][0-9]{3})+|[1-9][0-9]*)"
_NUMBER = rf"(?:{_DIGITS}(?:\.[0-9]+)?|\.[0-9]+)(?:[eE][+-]?[0-9]{{1,2}})?"
COUNT = rf"{_NUMBER} ?[kKMBT]?"
_PER_HOUR = r" ?(?:/|per) ?(?:h|hr|hour)"
_PERIODS = {"month": 1, "quarter": 3, "year": 12}
PERIOD_NAMES = {months: name for name, months in _PERIODS.items()}
_PER_PERIOD = r" ?(?:/|per) ?(month|quarter|year)"
USD_AMOUNT = rf"(?:\$ ?{COUNT}|[uU][sS][dD] ?{COUNT}|{COUNT} ?[uU][sS][dD])"

_MAGNITUDES = {"": 1, "k": 10**3, "K": 10**3, "M": 10**6, "B": 10**9, "T": 10**12}
_SECONDS = {"s": 1, "sec": 1, "second": 1, "m": 60, "min": 60, "minute": 60} | {
    "h": 3600, "hr": 3600, "hour": 3600, "d": 86_400, "day": 86_400, "w": 604_800, "week": 604_800
}  # fmt: skip
_TIME_UNITS = {"ms": Decimal("1e-3"), "us": Decimal("1e-6"), "µs": Decimal("1e-6")}
_TIME_UNITS |= {unit: Decimal(n) for unit, n in _SECONDS.items()}
_TIME_UNITS |= {f"{unit}s": Decimal(n) for unit, n in _SECONDS.items() if len(unit) > 1}
_GIGABYTES = {
    "kB": Decimal("1e-6"),
    "KB": Decimal("1e-6"),
    "MB": Decimal("1e-3"),
    "GB": Decimal(1),
    "TB": Decimal(1000),
}
_GIGABYTES |= {f"{prefix}iB": Decimal(2 ** (10 * k)) / 10**9 for k, prefix in enumerate("KMGT", 1)}
UTC = "UTC"
_LIKE_A_ZONE = re.compile(r"[A-Za-z][A-Za-z0-9_+-]*(/[A-Za-z0-9_+-]+)*")

MAX_WHOLE = 10**15


@dataclass(frozen=True)
class _Measure:
    """What is written as a number and a unit."""

    noun: str
    of: str
    units: Mapping[str, Decimal]
    """in base units"""
    usual: str
    examples: str

    def parse(self, value: object, likely: Sequence[str]) -> Decimal:
        """The amount in base units; a number without a unit is answered with the likely ones."""
        remedy = f"Write a number and a unit, such as {self.examples}"
        bare = _bare_number(value)
        if bare is not None:
            written = " or ".join(f'"{bare.lstrip("+-")}{unit}"' for unit in likely)
            raise Problem(f"needs a unit, got {shown(value)}", f"Write {written}")
        match = _matched(rf"(-?)({_NUMBER}) ?([^\W\d_]+)", value, f"a {self.noun}", remedy)
        sign, number, unit = match.groups()
        if unit not in self.units:
            raise Problem(f"unknown unit of {self.of} {shown(unit)} in {shown(value)}", f"Use {self.usual}")
        if sign:
            raise Problem(f"a {self.noun} cannot be negative, got {shown(value)}", remedy)
        return _decimal(number) * self.units[unit]

    @property
    def pattern(self) -> str:
        return rf"{_NUMBER} ?(?:{'|'.join(self.units)})"


_DURATION = _Measure("duration", "time", _TIME_UNITS, "ms, s, min, h or d", '"250ms", "1.5s", "2 min", "3h" or "14d"')
_SIZE = _Measure("size", "size", _GIGABYTES, "kB, MB, GB, TB, MiB or GiB", '"100MB" or "1.5GB"')


def parse_duration(value: object, likely: tuple[str, str] = ("s", "ms")) -> float:
    """Seconds from "250ms", "1.5s", "2 min", "3h" or "14d"."""
    return _finite(_DURATION.parse(value, likely), value)


def parse_long_duration(value: object) -> float:
    """Seconds of something that takes hours."""
    return parse_duration(value, ("h", "min"))


def parse_size_gb(value: object) -> float:
    """Gigabytes of 10^9 bytes from "100MB", "1.5 GB" or "200MiB"."""
    return _finite(_SIZE.parse(value, ("MB",)), value)


def parse_fraction(value: object) -> float:
    """A share from 0 to 1, from "8%" or "12.5 %"."""
    share = parse_any_fraction(value)
    if share > 1:
        raise Problem(f"must lie between 0% and 100%, got {shown(value)}")
    return share


def parse_any_fraction(value: object) -> float:
    """A share of 0 or more, from "8%" or "150%"."""
    share = parse_signed_fraction(value)
    if isinstance(value, str) and value[0] in "+-":
        wrong = "cannot be negative" if value[0] == "-" else "is a share and takes no sign"
        raise Problem(f"{wrong}, got {shown(value)}", 'Write a percentage such as "8%"')
    return share


def parse_signed_fraction(value: object) -> float:
    """A relative change of -1 or more, from "+25%", "-40%" or "150%"."""
    bare = _bare_number(value)
    if bare is not None:
        number = _decimal(bare)
        if number == 0 and not isinstance(value, str):
            return 0.0
        percent = number * 100 if abs(number) < 1 else number
        remedy = 'Write "1%" or "100%"' if number == 1 else f'Write "{_plainly(percent)}%"'
        raise Problem(f"needs a percent sign, got {shown(value)}", remedy)
    match = _matched(rf"([+-]?)({_NUMBER}) ?%", value, "a percentage", 'Write one such as "8%" or "12.5%"')
    share = _finite(_decimal(match[2]) / 100, value)
    if match[1] == "-" and share > 1:
        raise Problem(f"cannot fall by more than 100%, got {shown(value)}")
    return -share if match[1] == "-" and share else share


def parse_count(value: object) -> float:
    """A number of 0 or more, from 1200000, "1.2M", "80k", "3B" or "1_000"."""
    return _finite(_count(value), value)


def parse_positive_count(value: object) -> float:
    """A number above 0, written like any count."""
    count = parse_count(value)
    if count == 0:
        raise Problem(f"must be more than 0, got {shown(value)}")
    return count


def parse_whole(value: object) -> int:
    """A whole number of 0 or more, from 64, 3.0, "1_000" or "80k"."""
    count = _count(value, "a whole number")
    if count != count.to_integral_value():
        raise Problem(f"must be a whole number, got {shown(value)}", "Leave out the fraction")
    if count > MAX_WHOLE:
        raise Problem(f"is too large, got {shown(value)}", f"Write at most {MAX_WHOLE:.0e}")
    return int(count)


def parse_positive_whole(value: object) -> int:
    """A whole number of 1 or more."""
    count = parse_whole(value)
    if count == 0:
        raise Problem(f"must be 1 or more, got {shown(value)}")
    return count


def parse_usd(value: object) -> float:
    """Dollars from "$40k", "$1.2M" or "40000 usd"; the currency must be written."""
    bare = value if isinstance(value, str) and _is_count(value) else _bare_number(value)
    if bare is not None:
        raise Problem(f"needs a currency, got {shown(value)}", f'Write "${bare.lstrip("+-")}"')
    remedy = 'Write US dollars such as "$40k", "$1.2M" or "40000 usd"'
    return _usd(_matched(f"(-?{USD_AMOUNT})", value, "an amount in dollars", remedy)[1], value)


def parse_usd_bare(value: object) -> float:
    """Dollars for a key whose name says so: 40000, "80k" or "$80k"."""
    if isinstance(value, str) and re.search(r"\$|usd", value, re.IGNORECASE):
        return parse_usd(value)
    return _finite(_count(value, "an amount in dollars", 'Write one such as 40000, "80k" or "$1.2M"'), value)


@dataclass(frozen=True)
class UsdOver:
    """An amount for so many months."""

    usd: float
    months: int


@dataclass(frozen=True)
class Growth:
    """A change from one period to the next."""

    frac: float
    months: int

    @property
    def per_month_frac(self) -> float:
        """What compounds to it."""
        return float((1 + self.frac) ** (1 / self.months) - 1)


def parse_usd_over(value: object) -> UsdOver:
    """Dollars a month, quarter or year from "$2.4M/year" or "$600k per quarter"."""
    remedy = 'Write an amount and its period, such as "$200k/month", "$600k/quarter" or "$2.4M/year"'
    bare = _bare_number(value)
    if bare is not None:
        raise Problem(f"needs a currency and a period, got {shown(value)}", f'Write "${bare.lstrip("+-")}/year"')
    if isinstance(value, str) and re.fullmatch(USD_AMOUNT, value[:65]):
        raise Problem(f"needs a period, got {shown(value)}", f'Write "{value}/month", "/quarter" or "/year"')
    match = _matched(f"(-?{USD_AMOUNT}){_PER_PERIOD}", value, "an amount a month, quarter or year", remedy)
    return UsdOver(_usd(match[1], value), _PERIODS[match[2]])


def parse_growth(value: object) -> Growth:
    """Growth from "40%/year", "9% per quarter" or "-2%/month"."""
    remedy = 'Write a percentage and its period, such as "40%/year", "9%/quarter" or "3%/month"'
    match = _matched(rf"([+-]?{_NUMBER} ?%){_PER_PERIOD}", value, "growth a month, quarter or year", remedy)
    return Growth(parse_signed_fraction(match[1]), _PERIODS[match[2]])


def parse_usd_per_hour(value: object) -> float:
    """Dollars per hour from "$48/h", "$2.21 per hour" or "48 usd/h"."""
    remedy = 'Write a price per hour such as "$48/h" or "$2.21 per hour"'
    bare = _bare_number(value)
    if bare is not None:
        remedy = f'Write "${bare.lstrip("+-")}/h"'
        raise Problem(f"needs a currency and a unit of time, got {shown(value)}", remedy)
    if isinstance(value, str) and re.fullmatch(USD_AMOUNT, value[:65]):
        raise Problem(f"needs a unit of time, got {shown(value)}", f'Write "{value}/h"')
    return _usd(_matched(f"(-?{USD_AMOUNT}){_PER_HOUR}", value, "a price per hour", remedy)[1], value)


@dataclass(frozen=True)
class Price:
    """A price that stands on its own."""

    usd_per_h: float

    def applied_to(self, list_usd_per_h: float) -> float:
        return self.usd_per_h


@dataclass(frozen=True)
class Relative:
    """A price said as a change of another one: -0.4 is 40% off."""

    frac: float

    def applied_to(self, list_usd_per_h: float) -> float:
        return list_usd_per_h * (1 + self.frac)


def parse_price_change(value: object) -> Price | Relative:
    """An own price ("$48/h") or a change of the list price ("-40%"); a percentage must carry its sign."""
    if isinstance(value, Price | Relative):
        return value
    if isinstance(value, str) and "%" in value:
        change = parse_signed_fraction(value)
        if value[0] not in "+-":
            raise Problem(f"needs a sign, got {shown(value)}", f'Write "-{value}" for a discount')
        return Relative(change)
    try:
        return Price(parse_usd_per_hour(value))
    except Expected:
        raise Expected("a price", value, 'Write one such as "$48/h", or a change such as "-40%"') from None
    except Problem as problem:
        raise Problem(problem.message, 'Write a price such as "$48/h", or a change such as "-40%"') from None


def _matched(pattern: str, value: object, what: str, remedy: str) -> re.Match[str]:
    # No quantity is longer than this, and float and Decimal should not meet megabytes of digits.
    text = value if isinstance(value, str) and len(value) <= 64 else ""
    match = re.fullmatch(pattern, text)
    if match is None:
        raise Expected(what, value, remedy)
    return match


def _bare_number(value: object) -> str | None:
    """A number without any unit as it would be written, or None."""
    if isinstance(value, str):
        return value if len(value) <= 64 and re.fullmatch(r"[+-]?" + _NUMBER, value) else None
    if isinstance(value, int | float) and not isinstance(value, bool) and _is_finite(value):
        return _plainly(Decimal(repr(value)))
    return None


def _count(value: object, what: str = "a number", remedy: str = "") -> Decimal:
    remedy = remedy or 'Write one such as 1200, "80k", "1.2M" or "3B"'
    if isinstance(value, str):
        match = _matched(rf"(-?)({_NUMBER}) ?([kKMBT]?)", value, what, remedy)
        negative, count = bool(match[1]), _decimal(match[2]) * _MAGNITUDES[match[3]]
    elif isinstance(value, int | float) and not isinstance(value, bool) and _is_finite(value):
        negative, count = value < 0, Decimal(repr(value))
    else:
        raise Expected(what, value, remedy)
    if negative:
        raise Problem(f"cannot be negative, got {shown(value)}")
    return count.copy_abs()


def _is_count(text: str) -> bool:
    return len(text) <= 64 and re.fullmatch(COUNT, text) is not None


def _usd(amount: str, value: object) -> float:
    if amount[0] == "-":
        raise Problem(f"cannot be negative, got {shown(value)}")
    return _finite(_count(re.sub(r"\$ ?| ?usd ?", "", amount, flags=re.IGNORECASE)), value)


def _decimal(number: str) -> Decimal:
    return Decimal(number.replace(",", "").replace("_", ""))


def _plainly(number: Decimal) -> str:
    return f"{number.normalize():f}" if abs(number.adjusted()) < 20 else str(number)


def _is_finite(value: int | float) -> bool:
    return abs(value) < 10**300 if isinstance(value, int) else isfinite(value)


def _finite(number: Decimal, value: object) -> float:
    result = float(number)
    if not isfinite(result):
        raise Problem(f"is too large, got {shown(value)}")
    return result


def _written(
    pattern: str, description: str, examples: list[Any], number: dict[str, Any] | None = None
) -> WithJsonSchema:
    """What an editor is told: text of this pattern, or also a plain number."""
    text: dict[str, Any] = {"type": "string", "pattern": f"^(?:{pattern})$"}
    form = text if number is None else {"anyOf": [number, text]}
    return WithJsonSchema(form | {"description": description, "examples": examples})


_AT_LEAST_0 = {"type": "number", "minimum": 0}
_WHOLE = {"type": "integer", "minimum": 0}
_PERCENT = rf"{_NUMBER} ?%"
_HOURLY = USD_AMOUNT + _PER_HOUR

Duration = Annotated[
    float,
    PlainValidator(parse_duration),
    _written(
        _DURATION.pattern,
        "A duration: a number and ms, s, min, h or d.",
        ["250ms", "1.5s", "2 min", "3h", "14d"],
    ),
]
"""Seconds."""
LongDuration = Annotated[
    float,
    PlainValidator(parse_long_duration),
    _written(_DURATION.pattern, "A duration: a number and min, h or d.", ["90 min", "6h", "2d"]),
]
"""Seconds."""
SizeGb = Annotated[
    float,
    PlainValidator(parse_size_gb),
    _written(_SIZE.pattern, "A size: a number and kB, MB, GB, TB or MiB, GiB.", ["100MB", "1.5GB"]),
]
"""Gigabytes of 10^9 bytes."""
Fraction = Annotated[
    float,
    PlainValidator(parse_fraction),
    _written(_PERCENT, "A percentage from 0% to 100%.", ["8%", "12.5%"], {"const": 0}),
]
AnyFraction = Annotated[
    float,
    PlainValidator(parse_any_fraction),
    _written(_PERCENT, "A percentage; it may exceed 100%.", ["8%", "150%"], {"const": 0}),
]
SignedFraction = Annotated[
    float,
    PlainValidator(parse_signed_fraction),
    _written(f"[+-]?{_PERCENT}", "A relative change in percent.", ["+25%", "-40%"], {"const": 0}),
]
Count = Annotated[
    float,
    PlainValidator(parse_count),
    _written(COUNT, "A number; k, M, B and T stand for zeros.", [1200, "80k", "1.2M", "3B"], _AT_LEAST_0),
]
PositiveCount = Annotated[
    float,
    PlainValidator(parse_positive_count),
    _written(COUNT, "A number above 0.", [1200, "80k", "1.2M"], {"type": "number", "exclusiveMinimum": 0}),
]
WholeNumber = Annotated[
    int, PlainValidator(parse_whole), _written(COUNT, "A whole number of 0 or more.", [64, "80k"], _WHOLE)
]
PositiveWhole = Annotated[
    int,
    PlainValidator(parse_positive_whole),
    _written(COUNT, "A whole number of 1 or more.", [64, "80k"], _WHOLE | {"minimum": 1}),
]
Usd = Annotated[
    float,
    PlainValidator(parse_usd),
    _written(USD_AMOUNT, "An amount in US dollars.", ["$40k", "$1.2M", "40000 usd"]),
]
UsdBare = Annotated[
    float,
    PlainValidator(parse_usd_bare),
    _written(f"{USD_AMOUNT}|{COUNT}", "US dollars.", [40000, "80k", "$1.2M"], _AT_LEAST_0),
]
BudgetAmount = Annotated[
    UsdOver,
    PlainValidator(parse_usd_over),
    _written(rf"{USD_AMOUNT}{_PER_PERIOD}", "US dollars a month, quarter or year.", ["$600k/quarter", "$2.4M/year"]),
]
GrowthRate = Annotated[
    Growth,
    PlainValidator(parse_growth),
    _written(rf"[+-]?{_PERCENT}{_PER_PERIOD}", "Growth a month, quarter or year.", ["40%/year", "9%/quarter"]),
]
UsdPerHour = Annotated[
    float,
    PlainValidator(parse_usd_per_hour),
    _written(_HOURLY, "US dollars per hour.", ["$48/h", "$2.21 per hour"]),
]
PriceChange = Annotated[
    Price | Relative,
    PlainValidator(parse_price_change),
    _written(
        rf"{_HOURLY}|[+-]{_PERCENT}",
        "A price per hour of its own, or a change of the list price.",
        ["$48/h", "-40%"],
    ),
]


def is_time_zone(name: str) -> bool:
    """As the system knows them; where it knows none, whatever looks like one."""
    from zoneinfo import available_timezones

    known = available_timezones()
    return name in known if known else _LIKE_A_ZONE.fullmatch(name) is not None
