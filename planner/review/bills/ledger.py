"""Sums of a bill: every charge is put somewhere once, and commitments that nobody used go where they were used."""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass, field
from decimal import Decimal

from planner.review.bills.cents import ZERO, Amount
from planner.review.bills.matching import Target
from planner.review.bills.records import BoughtAs, ChargeKind

ELSEWHERE = Target("other accounts", "")
UNUSED = "(not used)"
"""whose the unused part of a commitment is"""
USED_BY_NOTHING = "a commitment that nothing in the bill used"
SMALLEST = Decimal("1e-10")
BY_SPEND = ("savingsplan", "spendbased", "flexible")
"""in the type of commitments to spend so much, or else in their identifier, where their category is not given"""


@dataclass
class Line:
    """Instances of one offer, bought in one way."""

    used: Decimal = ZERO
    unused: Decimal = ZERO
    hours: Decimal = ZERO


@dataclass
class ApiLine:
    paid: Decimal = ZERO
    tokens: defaultdict[str, Decimal] = field(default_factory=lambda: defaultdict(Decimal))


@dataclass
class Commitment:
    """A commitment: what it was used for, and what of it was not."""

    key: str
    name: str = ""
    type: str = ""
    category: str = ""
    used: defaultdict[Target, Decimal] = field(default_factory=lambda: defaultdict(Decimal))
    hours: defaultdict[Target, Decimal] = field(default_factory=lambda: defaultdict(Decimal))
    unused: Decimal = ZERO
    open: Amount = field(default_factory=Amount)
    """of what was not used, what no row says where it belongs"""
    elsewhere: bool = False
    """whether other accounts hold it"""
    bought: Amount = field(default_factory=Amount)
    bought_for: Target | None = None

    @property
    def by_spend(self) -> bool:
        """Whether dollars are committed, not instances: a savings plan."""
        if self.category:
            return self.category.strip().lower() == "spend"
        spelled = re.sub(r"[\s_-]", "", (self.type or self.key).lower())
        return any(word in spelled for word in BY_SPEND)


@dataclass
class Ledger:
    kinds: defaultdict[ChargeKind, Amount] = field(default_factory=lambda: defaultdict(Amount))
    lines: defaultdict[tuple[str, BoughtAs], Line] = field(default_factory=lambda: defaultdict(Line))
    apis: defaultdict[str, ApiLine] = field(default_factory=lambda: defaultdict(ApiLine))
    no_offer: defaultdict[Target, Amount] = field(default_factory=lambda: defaultdict(Amount))
    no_offer_hours: defaultdict[Target, Decimal] = field(default_factory=lambda: defaultdict(Decimal))
    no_offer_gpu_hours: defaultdict[Target, Decimal] = field(default_factory=lambda: defaultdict(Decimal))
    """of rows that count GPUs"""
    services: defaultdict[str, Amount] = field(default_factory=lambda: defaultdict(Amount))
    currencies: defaultdict[str, Amount] = field(default_factory=lambda: defaultdict(Amount))
    """in them, and in no sum; those that would not count anyway under a name that says why"""
    converted: defaultdict[str, Amount] = field(default_factory=lambda: defaultdict(Amount))
    """in them, and counted as USD"""
    commitments: dict[str, Commitment] = field(default_factory=dict)
    teams: defaultdict[str | None, dict[str, Decimal]] = field(
        default_factory=lambda: defaultdict(lambda: {"instances": ZERO, "apis": ZERO})
    )
    spot_days: defaultdict[tuple[str, str], list[Decimal]] = field(
        default_factory=lambda: defaultdict(lambda: [ZERO, ZERO])
    )
    """cost and hours by offer and day"""
    notes: list[str] = field(default_factory=list)

    def post(
        self, target: Target, way: BoughtAs, billed: Decimal, effective: Decimal, hours: Decimal = ZERO,
        team: str | None = None, unused: bool = False, rows: int = 1,
    ) -> None:  # fmt: skip
        """Put a charge where it belongs."""
        self.kinds[target.kind].add(billed, effective, rows)
        if target.kind == "instances":
            line = self.lines[target.name, way]
            line.hours += ZERO if unused else hours
            if unused:
                line.unused += effective
            else:
                line.used += effective
        elif target.kind == "apis":
            self.apis[target.name].paid += effective
        elif target.kind == "no offer":
            self.no_offer[target].add(billed, effective, rows)
            self.no_offer_hours[target] += hours
        elif target.kind == "other services":
            self.services[target.name].add(billed, effective, rows)
        if target.kind in ("instances", "apis"):
            self.teams[UNUSED if unused else team][target.kind] += effective

    def settle(self) -> None:
        """Put what commitments left unused where they were used, and purchases that nothing amortizes."""
        for key, c in sorted(self.commitments.items()):
            self._settle_unused(key, c)
            self._settle_bought(key, c)

    def _settle_unused(self, key: str, c: Commitment) -> None:
        """In proportion to what each use of it cost."""
        if not c.open.rows:
            return
        uses = [(target, used) for target, used in sorted(c.used.items()) if used > 0]
        if not uses:
            target = ELSEWHERE if c.elsewhere else Target("no offer", c.name or key, USED_BY_NOTHING)
            self.post(target, "reserved", c.open.billed, c.open.effective, unused=True, rows=c.open.rows)
            return
        total = sum((used for _, used in uses), ZERO)
        left = Amount(c.open.rows, c.open.billed, c.open.effective)
        for k, (target, used) in enumerate(uses):
            last = k == len(uses) - 1
            billed, effective = (
                rest if last else (amount * used / total).quantize(SMALLEST)
                for amount, rest in ((c.open.billed, left.billed), (c.open.effective, left.effective))
            )  # fmt: skip
            self.post(target, "reserved", billed, effective, unused=True, rows=left.rows if last else 0)
            left.add(-billed, -effective, 0)

    def _settle_bought(self, key: str, c: Commitment) -> None:
        """A purchase counts through the hours that amortize it; where there are none, its own effective cost does."""
        named = c.name or key
        amortized = sum(c.used.values(), ZERO) + c.unused
        if c.bought.rows and c.bought.effective and not amortized:
            target = c.bought_for or Target("no offer", named, USED_BY_NOTHING)
            self.post(target, "reserved", c.bought.billed, c.bought.effective, rows=c.bought.rows)
            return
        if c.bought.rows:
            self.kinds["commitments bought"].add(c.bought.billed, c.bought.effective, c.bought.rows)
        if c.bought.effective and amortized:
            self.notes.append(f"the purchase of {named} has an EffectiveCost beside the hours that amortize it: "
                              "the hours count, the purchase does not")  # fmt: skip
        hours = sum(c.hours.values(), ZERO)
        if hours and not amortized:
            self.notes.append(f"{named} covered {hours:,.0f} hours whose EffectiveCost is 0: what they cost is not "
                              "in what was paid")  # fmt: skip
