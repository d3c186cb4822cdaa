"""Currencies other than USD: their codes, and what one of them was worth on a day."""

from __future__ import annotations

import re
from calendar import monthrange
from dataclasses import dataclass
from datetime import date
from decimal import Decimal

from planner.io.errors import Problem, did_you_mean, shown
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
REMEDY = "Write one such as EUR=1.08@2026-10-31"
LEAST_USD, MOST_USD = 1e-6, 1e6
"""for a unit of a currency: beyond them, a rate is a mistake"""


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
        raise Problem(f"expected a currency, its rate in USD and the day, got {shown(text)}", REMEDY)
    code, usd, day = match.groups()
    check_code(code)
    worth = parse_usd_of_unit(usd)
    try:
        return code, Rate(Decimal(repr(worth)), date.fromisoformat(day))
    except ValueError:
        raise Problem(f"expected a date, got {shown(day)}", REMEDY) from None
