"""Dollars and times of keys whose name says in what: `colocation_usd_per_month: $350/month`, `life_years: 4 years`.

A number alone is enough for them. Whoever writes the unit as well may, where it is the key's own; in another one the
remedy says the number to write.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from math import floor
from typing import Annotated, Any

from pydantic import PlainValidator, WithJsonSchema

from planner.io.errors import Expected, Problem, shown
from planner.io.units import COUNT, USD_AMOUNT, parse_count, parse_positive_count, parse_usd_bare, parse_whole

_PER = r" ?(?:/|\bper\b|\ba\b) ?"
_CENTS = r" ?(?:c|ct|cents?|¢)"
_MONTHS = {"month": 1.0, "months": 1.0, "mo": 1.0, "quarter": 3.0, "quarters": 3.0}
_MONTHS |= {"year": 12.0, "years": 12.0, "yr": 12.0, "y": 12.0, "annum": 12.0}
_QUARTER = 3
_KWH = {"kwh": 1.0, "mwh": 1000.0, "wh": 1e-3}
_TOKENS = {"1m tokens": 1.0, "1m": 1.0, "m tokens": 1.0, "million tokens": 1.0, "mtok": 1.0}
_TOKENS |= {"1k tokens": 1e-3, "1k": 1e-3, "k tokens": 1e-3}


def usd_per(unit: str, units: Mapping[str, float], example: str) -> Callable[[object], float]:
    """A parser of dollars per `unit`; `units` are all that are known, each by how much of a common one it is."""
    remedy = f'Write dollars, such as {example} or "${example}/{unit}"'

    def parse(value: object) -> float:
        text = value if isinstance(value, str) and len(value) <= 64 else ""
        cents = re.fullmatch(rf"({COUNT}){_CENTS}(?:{_PER}(.+))?", text)
        match = cents or re.fullmatch(rf"(-?(?:{USD_AMOUNT}|{COUNT})){_PER}(.+)", text)
        if match is None:
            try:
                return parse_usd_bare(value)
            except Expected as expected:
                raise Expected(expected.what, value, remedy) from None
        other = (unit if match[2] is None else match[2]).lower()
        if other not in units:
            raise Expected(f"dollars per {unit}", value, remedy)
        amount, ratio = parse_usd_bare(match[1]), units[unit.lower()] / units[other]
        if cents or ratio != 1:
            written = amount * ratio * (0.01 if cents else 1)
            raise Problem(f"is in dollars per {unit}, got {shown(value)}", f"Write {written:.10g}")
        return amount

    return parse


def time_in(unit: str, of_number: Callable[[object], float], step_months: int) -> Callable[[object], float]:
    """A parser of numbers of `unit` (months or years) that are so many months, or a multiple."""

    def parse(value: object) -> float:
        text = value if isinstance(value, str) and len(value) <= 64 else ""
        match = re.fullmatch(rf"(-?{COUNT})[ -]?(?i:({'|'.join(_MONTHS)}))", text)
        if match is None:
            return of_number(value)
        ratio = _MONTHS[match[2].lower()] / _MONTHS[unit]
        try:
            amount = parse_count(match[1])
            if ratio == 1 or amount == 0:
                return of_number(match[1])
        except Problem as problem:
            message = problem.message.replace(shown(match[1]), shown(value))
            raise Problem(message, problem.remedy) from None
        raise Problem(f"is in {unit}, got {shown(value)}", nearest(amount * ratio))

    def nearest(amount: float) -> str:
        step = step_months / _MONTHS[unit]
        below = floor(amount / step + 1e-9) * step
        if abs(amount - below) < 1e-9:
            return f"Write {amount:.10g}"
        allowed = " or ".join(f"{near:.10g}" for near in (below, below + step) if near > 0)
        whole = "quarters" if step_months == _QUARTER else unit
        return f"Write whole {whole}: {allowed}"

    return parse


def _written(pattern: str, description: str, examples: list[Any], number: dict[str, Any]) -> WithJsonSchema:
    text = {"type": "string", "pattern": f"^(?:{pattern})$"}
    return WithJsonSchema({"anyOf": [number, text], "description": description, "examples": examples})


def _usd(unit: str, pattern: str, description: str, examples: list[Any]) -> WithJsonSchema:
    amount = f"(?:{USD_AMOUNT}|{COUNT})(?:{_PER}(?:{pattern}))?"
    return _written(amount, description, examples, {"type": "number", "minimum": 0})


UsdPerMonth = Annotated[
    float,
    PlainValidator(usd_per("month", _MONTHS, "350")),
    _usd("month", "mo|month", "US dollars a month.", [40000, "80k", "$350/month"]),
]
UsdPerYear = Annotated[
    float,
    PlainValidator(usd_per("year", _MONTHS, "200k")),
    _usd("year", "y|yr|year|annum", "US dollars a year.", [200000, "200k", "$200k/year"]),
]
UsdPerKwh = Annotated[
    float,
    PlainValidator(usd_per("kWh", _KWH, "0.11")),
    _usd("kWh", "kWh", "US dollars a kWh.", [0.11, "$0.11/kWh"]),
]
UsdPer1mTokens = Annotated[
    float,
    PlainValidator(usd_per("1M tokens", _TOKENS, "0.02")),
    _usd("1M tokens", "1M tokens", "US dollars for a million tokens.", [0.02, "$0.02/1M tokens"]),
]
Years = Annotated[
    float,
    PlainValidator(time_in("years", parse_positive_count, _QUARTER)),
    _written(f"{COUNT}(?:[ -]?years?)?", "Years.", [4, 3.5, "4 years"], {"type": "number", "exclusiveMinimum": 0}),
]
Months = Annotated[
    int,
    PlainValidator(time_in("months", parse_whole, 1)),
    _written(f"{COUNT}(?:[ -]?months?)?", "Whole months.", [3, "3 months"], {"type": "integer", "minimum": 0}),
]
