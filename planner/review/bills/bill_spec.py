"""What a review file says of its bill."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from planner.io.validation import Strict


class BillSpec(Strict):
    """A bill as a FOCUS export; a file name alone says the same as {focus: FILE}."""

    focus: tuple[Annotated[str, Field(min_length=1)], ...] = Field(min_length=1)
    """Exports, 1.0 or later, in CSV (plain or gzipped) or Parquet: one, or a list such as one a month."""
    team_tag: str = Field(default="team", min_length=1)
    """The tag that says whose a charge is."""
    where: dict[str, str | tuple[str, ...]] = {}
    """Columns and the values that count, such as {SubAccountName: llm-serving}; other rows are shown apart."""
    skus: dict[str, str] = {}
    """SkuId, SkuPriceId or instance type -> the plan's name of the instance or API, where a bill names it otherwise."""


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
