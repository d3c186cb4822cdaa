"""What a price file quotes and in which currency, what of it is left out and why, and the protocol of its readers."""

from __future__ import annotations

import re
from calendar import monthrange
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import date
from decimal import Decimal
from math import isfinite
from pathlib import Path
from typing import Literal, Protocol

from planner.catalog.entries import UNKNOWN_DATE, day_of
from planner.io.errors import Diagnostic, InputError, Problem, did_you_mean, shown
from planner.io.units import parse_positive_count

USD = "USD"
CODES = frozenset(
    """
    AED AFN ALL AMD AOA ARS AUD AWG AZN BAM BBD BDT BGN BHD BIF BMD BND BOB BRL BSD BTN BWP BYN BZD CAD CDF CHF CLP CNY
    COP CRC CUP CVE CZK DJF DKK DOP DZD EGP ERN ETB EUR FJD FKP GBP GEL GHS GIP GMD GNF GTQ GYD HKD HNL HTG HUF IDR ILS
    INR IQD IRR ISK JMD JOD JPY KES KGS KHR KMF KPW KRW KWD KYD KZT LAK LBP LKR LRD LSL LYD MAD MDL MGA MKD MMK MNT MOP
    MRU MUR MVR MWK MXN MYR MZN NAD NGN NIO NOK NPR NZD OMR PAB PEN PGK PHP PKR PLN PYG QAR RON RSD RUB RWF SAR SBD SCR
    SDG SEK SGD SHP SLE SOS SRD SSP STN SVC SYP SZL THB TJS TMT TND TOP TRY TTD TWD TZS UAH UGX USD UYU UZS VES VND VUV
    WST XAF XCD XCG XOF XPF YER ZAR ZMW ZWG
    """.split()  # noqa: SIM905
)
"""ISO 4217, 2025"""
AS_WRITTEN = re.compile(r"\s*([^=\s]+)\s*=\s*([^@\s]+)\s*@\s*(\S+)\s*")
RATE_REMEDY = "Write one such as EUR=1.08@2026-10-31"
LEAST_USD, MOST_USD = 1e-6, 1e6
"""for a unit of a currency: beyond them, a rate is a mistake"""
Way = Literal["on_demand", "spot", "reserved_1y", "reserved_3y", "reserved_1y_upfront", "reserved_3y_upfront"]
MOST_MISTAKES = 100
"""after which the rest of a file is not read"""

UNKNOWN_PRICE = "price unknown (0 or empty)"
UNKNOWN_GPU = "GPU not in the catalog"
UNKNOWN_INSTANCE = "instance type not known"
FRACTION = "a part of a GPU, or an impossible number of them"
NO_NAME = "no instance type or region"
OTHER_MEMORY = "memory differs from the catalog's GPU of this name"
_DAY = re.compile(r"(?<!\d)(20\d\d)([-_.]?)(\d\d)\2(\d\d)(?!\d)")
"""2026-08-22, 2026_08_22, 2026.08.22 or 20260822"""


@dataclass(frozen=True, slots=True)
class Rate:
    """What a unit of a currency is worth, as of a day."""

    usd: Decimal
    day: date | None = None

    def usd_of(self, amount: float) -> float:
        return float(Decimal(repr(amount)) * self.usd)

    def __str__(self) -> str:
        return f"{self.usd} USD on {self.day}"


NO_RATE = Rate(Decimal(1))
"""of USD itself"""


def parse_usd_of_unit(value: object) -> float:
    """USD for one unit of a currency; raises Problem."""
    remedy = "Write the USD for one unit of the currency, such as 1.08"
    try:
        usd = parse_positive_count(value)
    except Problem as problem:
        if problem.remedy:
            raise
        raise Problem(problem.message, remedy) from None
    if not LEAST_USD <= usd <= MOST_USD:
        raise Problem(f"must be from {LEAST_USD:f} to {MOST_USD:,.0f} USD, got {shown(value)}", remedy)
    return usd


def check_code(code: str) -> None:
    """Raise Problem where no rate can be given for such a currency."""
    if code == USD:
        raise Problem("USD needs no rate", "Leave it out")
    if code not in CODES:
        guess = code.upper() if code.upper() in CODES else ""
        remedy = f"Write {guess}" if guess else did_you_mean(code, sorted(CODES))
        raise Problem(f"no currency has the code {shown(code)}", remedy or "Write its code of ISO 4217, such as EUR")


def check_day(rate: Rate, first: date, last: date) -> None:
    """Raise Problem where a rate is of none of the months that these days are in."""
    begins, ends = first.replace(day=1), last.replace(day=monthrange(last.year, last.month)[1])
    if rate.day is not None and not begins <= rate.day <= ends:
        raise Problem(f"{rate.day} is outside the period", f"Give the rate of a day from {begins} to {ends}")


def parse_rate(text: str) -> tuple[str, Rate]:
    """A currency and its rate from EUR=1.08@2026-10-31; raises Problem."""
    match = AS_WRITTEN.fullmatch(text)
    if match is None:
        raise Problem(f"expected a currency, its rate in USD and the day, got {shown(text)}", RATE_REMEDY)
    code, usd, day = match.groups()
    check_code(code)
    worth = parse_usd_of_unit(usd)
    try:
        return code, Rate(Decimal(repr(worth)), date.fromisoformat(day))
    except ValueError:
        raise Problem(f"expected a date, got {shown(day)}", RATE_REMEDY) from None


@dataclass(frozen=True, slots=True)
class Quote:
    """One price of one instance type in one region; 0 means that the price is not known."""

    provider: str
    instance: str
    region: str
    way: Way
    usd_per_h: float
    source: str
    date: str
    """As YYYY-MM-DD, or unknown."""
    gpu: str = ""
    """As the file names it; empty: it does not."""
    gpus: float | None = None
    memory_gib: float | None = None
    """Of one GPU."""
    upfront_usd: float = 0.0
    rank: int = 0
    """Of several prices for one way to buy, those of the lowest rank count."""

    @property
    def known_date(self) -> str:
        """Its date, or nothing, which comes before every date."""
        return "" if self.date == UNKNOWN_DATE else self.date

    @property
    def key(self) -> str:
        return f"{self.provider}/{self.instance}@{self.region}"


@dataclass
class Gathering:
    """What is wanted of the files, what was left out, and every mistake."""

    regions: frozenset[str] | None = None
    date: str | None = None
    """The day that the prices are of, where the user gives it."""
    left_out: Counter[tuple[str, str]] = field(default_factory=Counter)
    """Rows by why and by name."""
    seen_regions: set[str] = field(default_factory=set)
    mistakes: list[Diagnostic] = field(default_factory=list)
    rates: Mapping[str, Rate] = field(default_factory=dict)
    """Currency -> what it is worth in USD."""
    converted: dict[str, tuple[str, str]] = field(default_factory=dict)
    """Currency -> first and last day on which charges begin that were converted."""

    def wants(self, region: str) -> bool:
        self.seen_regions.add(region)
        return self.regions is None or region in self.regions

    def leave_out(self, why: str, name: str) -> None:
        self.left_out[why, name] += 1

    def complain(self, file: Path, row: int | None, where: str, message: str, remedy: str = "") -> None:
        """Note a mistake and read on; all of them are reported together, and nothing is written."""
        self.mistakes.append(Diagnostic(str(file), row, None, where, message, remedy))
        if len(self.mistakes) >= MOST_MISTAKES:
            raise InputError(self.mistakes)

    def price(self, cell: object, file: Path, row: int | None, where: str) -> float:
        """A price as written; empty is 0, and both mean that it is not known."""
        text = "" if cell is None else str(cell).strip()
        if not text:
            return 0.0
        try:
            value = float(text)
        except ValueError:
            value = float("nan")
        if not isfinite(value) or value < 0:
            self.complain(file, row, where, f"expected a price in USD, got {shown(cell)}", "Write a number, or nothing")
            return 0.0
        return value

    def rate_of(self, currency: str, day: str = "") -> Rate | None:
        """What a currency is worth, for a charge that begins on a day, where it has one; None: no rate is given."""
        if currency == USD:
            return NO_RATE
        rate = self.rates.get(currency)
        if rate is not None and day:
            days = (*self.converted.get(currency, ()), day[:10])
            self.converted[currency] = min(days), max(days)
        return rate

    def day(self, in_file: object, file: Path) -> str:
        """The day given by the user, else in the file, else in its name or that of a folder it lies in; else unknown.

        When a file was last changed says nothing of its prices: a clone or a copy is always of today.
        """
        if self.date is not None:
            return self.date
        if in_file:
            try:
                return date.fromisoformat(str(in_file)[:10]).isoformat()
            except ValueError:
                self.complain(file, None, "", f"expected a date, got {shown(in_file)}", "Give the day with --as-of")
        return _day_in_name(file)


def _day_in_name(file: Path) -> str:
    """The day in the name of a file, else of the nearest folder with one; the earliest, where a name has several."""
    for name in reversed(file.parts):
        days = ["-".join(match.group(1, 3, 4)) for match in _DAY.finditer(name)]
        if known := sorted(day for day in days if day_of(day)):
            return known[0]
    return UNKNOWN_DATE


class Reader(Protocol):
    """Yields the quotes of one file, whatever their GPUs and regions; each format has one."""

    def __call__(self, file: Path, gathering: Gathering) -> Iterator[Quote]: ...
