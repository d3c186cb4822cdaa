"""Cells of a FOCUS row as decimals, times, quantities and tags, and money in whole cents that add up."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal, InvalidOperation
from functools import lru_cache
from pathlib import Path

from planner.catalog.importing.focus import tags_of
from planner.catalog.importing.quotes import Gathering
from planner.io.errors import shown

ZERO = Decimal(0)
MOST_USD, MOST_QUANTITY = Decimal(10) ** 12, Decimal(10) ** 18
"""a charge beyond them is a mistake"""
_NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d{1,3})?")
_OF_GPUS = re.compile(r"(?i)\bgpus?[\s-]*|\bgpu(?=h)")
"""in a unit such as GPU-Hours: whoever asks for hours knows what they are of"""
_UNIT = re.compile(r"(?i)\s*(?:per\s+)?(\d+(?:\.\d+)?|\d{1,3}(?:,\d{3})+)?\s*([kmb])?\s*-?\s*([a-z]+)\s*")
MAGNITUDES = {"": 1, "k": 10**3, "m": 10**6, "b": 10**9}
HOURS = {"hours": Decimal(1), "hour": Decimal(1), "hrs": Decimal(1), "hr": Decimal(1), "h": Decimal(1),
         "seconds": Decimal(1) / 3600, "second": Decimal(1) / 3600}  # fmt: skip
TOKENS = {"tokens": Decimal(1), "token": Decimal(1)}
Row = Mapping[str, str]


@dataclass
class Amount:
    """What some rows of a bill come to."""

    rows: int = 0
    billed: Decimal = ZERO
    """on the invoice: a commitment when it is paid for"""
    effective: Decimal = ZERO
    """amortized: a commitment over the hours that it covers"""

    def add(self, billed: Decimal, effective: Decimal, rows: int = 1) -> None:
        self.rows += rows
        self.billed += billed
        self.effective += effective


def in_cents(parts: Sequence[Decimal], total: int | None = None) -> list[int]:
    """Parts in whole cents, each within one of its own, that add up to the total: by default their sum, rounded."""
    floors = [int((100 * part).to_integral_value("ROUND_FLOOR")) for part in parts]
    whole = rounded(sum(parts, ZERO)) if total is None else total
    most_left = sorted(range(len(parts)), key=lambda k: (floors[k] - 100 * parts[k], k))
    for k in most_left[: max(0, whole - sum(floors))]:
        floors[k] += 1
    return floors


def rounded(amount: Decimal) -> int:
    """Whole cents, half a cent to the even one."""
    return int((100 * amount).to_integral_value("ROUND_HALF_EVEN"))


def usd(cents: int) -> float:
    return cents / 100


class Cells:
    """Reads the cells of one file, and notes every mistake."""

    def __init__(self, file: Path, gathering: Gathering) -> None:
        self.file, self.gathering = file, gathering

    def money(self, row: Row, name: str, number: int) -> Decimal:
        """A cost, which is never blank."""
        amount = decimal_of(row[name])
        if amount is None or abs(amount) > MOST_USD:
            self.complain(number, name, f"expected an amount of money, got {shown(row[name])}")
            return ZERO
        return amount

    def quantity(self, row: Row, name: str, number: int) -> Decimal | None:
        """A quantity; None where it is blank."""
        text = row.get(name, "")
        if not text.strip():
            return None
        amount = decimal_of(text)
        if amount is None or abs(amount) > MOST_QUANTITY:
            self.complain(number, name, f"expected a number, got {shown(text)}")
            return None
        return amount

    def time(self, row: Row, name: str, number: int) -> datetime | None:
        time = time_of(row[name])
        if time is None:
            self.complain(number, name, f"expected a time such as 2026-09-01T00:00:00Z, got {shown(row[name])}")
        return time

    def tag(self, row: Row, name: str, number: int) -> str | None:
        """The value of a tag, whose name may be spelled with other capitals; None where there is none."""
        tags = tags_of(row.get("Tags", ""))
        if tags is None:
            self.complain(number, "Tags", f"expected a JSON object, got {shown(row['Tags'])}")
            return None
        spelled = (tags[key] for key in sorted(tags) if key.casefold() == name.casefold())
        return tags.get(name) or next(filter(None, spelled), None)

    def measured(self, row: Row, units: Mapping[str, Decimal], number: int) -> Decimal | None:
        """The quantity in one of these units, by what was consumed, else by what was priced; None: in another unit."""
        for quantity, unit in (("ConsumedQuantity", "ConsumedUnit"), ("PricingQuantity", "PricingUnit")):
            times = unit_size(row.get(unit, ""), tuple(units.items()))
            if times is not None and (amount := self.quantity(row, quantity, number)) is not None:
                return amount * times
        return None

    def complain(self, number: int, name: str, message: str) -> None:
        self.gathering.complain(self.file, number, name, message, "Export the bill again, or mend the row")


def decimal_of(text: str) -> Decimal | None:
    text = text.strip()
    if not _NUMBER.fullmatch(text):
        return None
    try:
        return Decimal(text)
    except InvalidOperation:
        return None


@lru_cache(maxsize=4096)
def time_of(text: str) -> datetime | None:
    """A time in UTC; one without a zone is in UTC."""
    try:
        time = datetime.fromisoformat(text.strip().removesuffix(" UTC"))
        return time.replace(tzinfo=UTC) if time.tzinfo is None else time.astimezone(UTC)
    except (ValueError, OverflowError):
        return None


@lru_cache(maxsize=1024)
def unit_size(unit: str, units: tuple[tuple[str, Decimal], ...]) -> Decimal | None:
    """How many of a unit are one of a bill's, such as 1,000,000 for "1M Tokens"; None where it is another unit."""
    match = _UNIT.fullmatch(_OF_GPUS.sub("", unit))
    if match is None:
        return None
    count, magnitude, name = match.groups()
    size = dict(units).get(name.lower())
    if size is None:
        return None
    return Decimal((count or "1").replace(",", "")) * MAGNITUDES[(magnitude or "").lower()] * size
