"""How long commitments run: those of providers, and the life of a server that is bought."""

from __future__ import annotations

import re

from planner.io.formatting import counted

TERM_MONTHS = {"reserved-1y": 12, "reserved-3y": 36, "reserved-1y-upfront": 12, "reserved-3y-upfront": 36}
"""commitments that providers sell"""
_NAMED = re.compile(r"\bbought-([1-9]\d{0,3})mo\b")
_BOUGHT = re.compile(r"bought-([1-9]\d{0,3})mo")


def bought_term(life_months: int) -> str:
    """The way to buy a server whose life is so long."""
    return f"bought-{life_months}mo"


def in_words(text: str) -> str:
    """The same text, with servers bought for their life where it has our name of that way to buy."""
    return _NAMED.sub(lambda named: f"bought for {in_years(int(named[1]))}", text)


def in_years(months: int) -> str:
    """In years where it is some, else in months."""
    return counted(months // 12, "year") if months % 12 == 0 else counted(months, "month")


def is_bought(purchase: str) -> bool:
    return _BOUGHT.fullmatch(purchase) is not None


def is_term(purchase: str) -> bool:
    """Whether what is bought in this way is there, and paid for, all the time for many months."""
    return purchase in TERM_MONTHS or is_bought(purchase)


def term_months(purchase: str) -> int:
    """How long a commitment runs, or a server that is bought lives; 0 for what is bought by the hour."""
    found = _BOUGHT.fullmatch(purchase)
    return int(found[1]) if found else TERM_MONTHS.get(purchase, 0)
