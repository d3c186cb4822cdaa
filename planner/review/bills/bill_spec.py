"""What a review file says of its bill."""

from __future__ import annotations

from datetime import date as Day
from decimal import Decimal
from typing import Annotated

from pydantic import BeforeValidator, Field

from planner.catalog.importing.currencies import Rate, parse_usd_of_unit
from planner.io.units import PositiveCount
from planner.io.validation import Strict


class RateSpec(Strict):
    """What a currency is worth."""

    usd: Annotated[PositiveCount, BeforeValidator(parse_usd_of_unit)]
    """USD for one unit of it."""
    date: Day
    """The day of this rate, in a month under review."""

    @property
    def rate(self) -> Rate:
        return Rate(Decimal(repr(self.usd)), self.date)


class BillSpec(Strict):
    """A bill as a FOCUS export; a file name alone says the same as {focus: FILE}."""

    focus: tuple[Annotated[str, Field(min_length=1)], ...] = Field(min_length=1)
    """Exports, 1.0 or later, in CSV (plain or gzipped) or Parquet: one, or a list such as one a month."""
    team_tag: str = Field(default="team", min_length=1)
    """The tag that says whose a charge is, with or without capitals."""
    where: dict[str, str | tuple[str, ...]] = {}
    """Columns and the values that count, such as {SubAccountName: llm-serving}; other rows are shown apart."""
    skus: dict[str, str] = {}
    """ResourceId, SkuId, SkuPriceId or instance type -> the plan's name of the instance or API, where a bill names it
    otherwise; `other` for what is no part of the plan."""


def bill_spec(value: object) -> object:
    """Files alone as what they say, and one file as a list of it."""
    if not isinstance(value, dict):
        return {"focus": _files(value)} if isinstance(value, str | list) else value
    where = value.get("where")
    if isinstance(where, dict):
        where = {name: tuple(of) if isinstance(of, list) else of for name, of in where.items()}
    known = {"focus": _files(value.get("focus")), "where": where}
    return value | {key: of for key, of in known.items() if key in value}


def _files(value: object) -> object:
    return (value,) if isinstance(value, str) else tuple(value) if isinstance(value, list) else value
