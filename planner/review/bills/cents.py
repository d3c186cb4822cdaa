"""Money as exact decimals, and as whole cents that add up."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal

ZERO = Decimal(0)


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
