"""A bill: what a review file says of it, its FOCUS exports read into a ledger, and the contracted prices in it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from datetime import date as Day
from decimal import Decimal
from pathlib import Path
from typing import Annotated

from pydantic import BeforeValidator, Field

from planner.case.case import Case
from planner.case.prices import usd_per_h
from planner.catalog.entries import Offer
from planner.catalog.importing.focus import NEEDED as PRICED_BY
from planner.catalog.importing.focus import PRICING, counted_by, details_of, focus_rows, quote_of, tags_of
from planner.catalog.importing.instances import provider_called
from planner.catalog.importing.offers import PriceChange, Quotes, prices_of, same_price
from planner.catalog.importing.quotes import Gathering, Quote, Rate, parse_usd_of_unit
from planner.io.errors import Diagnostic, InputError, input_error, listed, shown
from planner.io.units import PositiveCount
from planner.io.validation import Strict
from planner.review.bills.cells import HOURS, TOKENS, ZERO, Cells
from planner.review.bills.ledger import (
    ELSEWHERE,
    MATCHED_BY,
    SMALLEST,
    USED_BY_NOTHING,
    Commitment,
    Ledger,
    Matching,
    Target,
    bought_as,
    token_kind,
)
from planner.review.bills.records import BillPrice, ChargeKind
from problems.constants import HOURS_PER_MONTH

NEEDED = (
    *("BilledCost", "EffectiveCost", "BillingCurrency", "ChargeCategory", "ChargePeriodStart", "ChargePeriodEnd"),
    "ServiceName",
)
WANTED = (
    *PRICED_BY, *PRICING, *MATCHED_BY, "ConsumedQuantity", "ConsumedUnit", "Tags", "ChargeDescription",
    "CommitmentDiscountId", "CommitmentDiscountName", "CommitmentDiscountType", "CommitmentDiscountStatus",
    "CommitmentDiscountCategory",
    "BillingAccountId", "BillingAccountType",
)  # fmt: skip
CATEGORIES: dict[str, ChargeKind | None] = {
    "Usage": None, "Purchase": None, "Tax": "taxes", "Credit": "credits", "Adjustment": "adjustments",
}  # fmt: skip
"""of charges, and the kind of those that are for nothing in particular"""
OF_A_PLAN = ("fleetplan", "Plan")
"""account and its type in the export of a plan"""
DAY = timedelta(days=1)
MOST_TAGS, TAGS_NAMED = 200, 8
UNMATCHED_NAMED = 5


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


@dataclass
class Bill:
    """A bill, summed up, over the hours that it has of a period."""

    files: tuple[Path, ...]
    ledger: Ledger
    rows: int
    first: datetime
    stop: datetime
    quotes: tuple[Quote, ...]
    """prices of instances on the menu, each once a day"""
    missing_days: tuple[date, ...]
    """in between, without any usage"""
    rates: Mapping[str, Rate] = field(default_factory=dict)
    """currency -> what it counts as"""

    @property
    def hours(self) -> float:
        return (self.stop - self.first).total_seconds() / 3600


def read_bill(
    files: Sequence[Path],
    spec: BillSpec,
    offers: Mapping[str, Offer],
    apis: Collection[str],
    period: tuple[datetime, datetime],
    rates: Mapping[str, Rate] | None = None,
) -> Bill:
    """Read exports; raises InputError with every mistake in them, or where most of them is of no offer."""
    gathering = Gathering(rates=rates or {})
    reader = _Reader(Matching(offers, apis, spec.skus), spec, period, gathering, len(files) > 1)
    for file in files:
        reader.read(file)
    if gathering.mistakes:
        raise InputError(gathering.mistakes)
    return reader.bill(tuple(files))


@dataclass
class _Reader:
    matching: Matching
    spec: BillSpec
    period: tuple[datetime, datetime]
    gathering: Gathering
    several: bool
    ledger: Ledger = field(default_factory=Ledger)
    rows: int = 0
    seen: set[int] = field(default_factory=set)
    quotes: dict[tuple[str, str, float, str], Quote] = field(default_factory=dict)
    days: set[date] = field(default_factory=set)
    longer: bool = False
    """whether usage comes in rows of more than a day"""
    tags: set[str] = field(default_factory=set)
    spellings: set[str] = field(default_factory=set)
    """of the team's tag"""
    first_rows: dict[Target, tuple[Path, int]] = field(default_factory=dict)
    """of what matches no offer"""
    planned_h: set[int] = field(default_factory=set)
    """hours of the months that come from the export of a plan"""
    used_rates: set[str] = field(default_factory=set)
    """currencies of charges that were converted"""
    covered: list[datetime] = field(default_factory=list)
    whole: list[datetime] = field(default_factory=list)

    def read(self, file: Path) -> None:
        cells = Cells(file, self.gathering)
        needed = (*NEEDED, *(name for name in self.spec.where if name not in NEEDED))
        seen: set[int] = set()
        for number, row in focus_rows(file, needed, None if self.several else WANTED, self.gathering):
            repeated = False
            if self.several:
                key = hash(frozenset((name, cell) for name, cell in row.items() if cell))
                repeated = key in self.seen
                seen.add(key)
            self.take(row, number, cells, repeated)
        self.seen |= seen

    def take(self, row: dict[str, str], number: int, cells: Cells, repeated: bool) -> None:
        self.rows += 1
        billed, effective = (cells.money(row, name, number) for name in ("BilledCost", "EffectiveCost"))
        start, end = (cells.time(row, name, number) for name in ("ChargePeriodStart", "ChargePeriodEnd"))
        category = row["ChargeCategory"]
        if category not in CATEGORIES:
            known = listed(list(CATEGORIES))
            cells.complain(number, "ChargeCategory", f"expected {known}, got {shown(category)}")
            return
        if start is None or end is None:
            return
        if end < start:
            cells.complain(number, "ChargePeriodEnd", f"is before ChargePeriodStart: {shown(row['ChargePeriodEnd'])}")
            return
        share = self._share(start, end)
        kind = "corrections" if row.get("ChargeClass") else CATEGORIES[category]
        why = self._why_not_counted(row, kind, repeated, share)
        converted = self._in_usd(row["BillingCurrency"], billed, effective, share, why)
        if converted is None:
            return
        billed, effective = converted
        if repeated or not share:
            self.ledger.kinds["repeated" if repeated else "outside the period"].add(billed, effective)
            return
        if share < 1:
            inside = [(amount * share).quantize(SMALLEST) for amount in (billed, effective)]
            self.ledger.kinds["outside the period"].add(billed - inside[0], effective - inside[1], 0)
            billed, effective = inside
        if why == ELSEWHERE.kind:
            self._charge_elsewhere(row, billed, effective, category == "Usage" and kind is None)
            return
        if category == "Usage" and kind is None:
            self._cover(start, end)
            if (row.get("BillingAccountId"), row.get("BillingAccountType")) == OF_A_PLAN:
                self.planned_h.add(round((end - start).total_seconds() / 3600))
        if kind is not None:
            self.ledger.kinds[kind].add(billed, effective)
        else:
            self._charge(row, number, cells, billed, effective, share)

    def _why_not_counted(
        self, row: dict[str, str], kind: ChargeKind | None, repeated: bool, share: Decimal
    ) -> ChargeKind | None:
        """The kind of a charge that is for no instance or API of ours in the period; None where it may be."""
        if repeated:
            return "repeated"
        if not share:
            return "outside the period"
        return kind if self._is_ours(row) else ELSEWHERE.kind

    def _in_usd(
        self, currency: str, billed: Decimal, effective: Decimal, share: Decimal, why: ChargeKind | None
    ) -> tuple[Decimal, Decimal] | None:
        """A charge in USD, noted in its own currency if it counts; None, and noted, where there is no rate."""
        rate, part = self.gathering.rate_of(currency), share or Decimal(1)
        if rate is None:
            named = currency or "(no currency)"
            self.ledger.currencies[f"{named} ({why})" if why else named].add(billed * part, effective * part)
            return None
        if currency not in self.gathering.rates:
            return billed, effective
        self.used_rates.add(currency)
        if why is None:
            self.ledger.converted[currency].add(billed * part, effective * part)
        return (billed * rate.usd).quantize(SMALLEST), (effective * rate.usd).quantize(SMALLEST)

    def _is_ours(self, row: dict[str, str]) -> bool:
        where = self.spec.where.items()
        return all(row[name] in ((value,) if isinstance(value, str) else value) for name, value in where)

    def _share(self, start: datetime, end: datetime) -> Decimal:
        """Of a charge, by time, inside the period."""
        self.whole = [min(start, self.whole[0]), max(end, self.whole[1])] if self.whole else [start, end]
        first, stop = self.period
        if start >= first and end <= stop and (start < stop or end > start):
            return Decimal(1)
        seconds = (min(end, stop) - max(start, first)).total_seconds()
        return Decimal(seconds) / Decimal((end - start).total_seconds()) if seconds > 0 else ZERO

    def _cover(self, start: datetime, end: datetime) -> None:
        first, stop = max(start, self.period[0]), min(end, self.period[1])
        self.covered = [min(first, self.covered[0]), max(stop, self.covered[1])] if self.covered else [first, stop]
        self.days.add(first.date())
        self.longer |= end - start > DAY

    def _charge(
        self, row: dict[str, str], number: int, cells: Cells, billed: Decimal, effective: Decimal, share: Decimal
    ) -> None:
        """Usage, or a purchase."""
        details = details_of(row, number, cells.file, self.gathering)
        target, way = self.matching.target(row, details), bought_as(row)
        commitment, purchase = self._commitment(row), row["ChargeCategory"] == "Purchase"
        if purchase and commitment is not None:
            commitment.bought.add(billed, effective)
            commitment.bought_for = target if target.is_named else None
            return
        counted_hours = ZERO if purchase else (cells.measured(row, HOURS, number) or ZERO) * share
        hours = self.matching.instance_hours(row, details, target, counted_hours)
        if target.kind == "no offer":
            self.first_rows.setdefault(target, (cells.file, number))
            if counted_by(row, provider_called(row["ProviderName"])) == "GPUs":
                self.ledger.no_offer_gpu_hours[target] += counted_hours
        team = cells.tag(row, self.spec.team_tag, number)
        if target.kind in ("instances", "apis"):
            self._note_tags((tags_of(row.get("Tags", "")) or {}).keys())
        unused = row.get("CommitmentDiscountStatus") == "Unused"
        if commitment is not None and unused:
            commitment.unused += effective
            if not target.is_named:
                commitment.open.add(billed, effective)
                return
        elif commitment is not None:
            commitment.used[target] += effective
            commitment.hours[target] += hours
        idle = unused or row.get("CapacityReservationStatus") == "Unused"
        self.ledger.post(target, "reserved" if purchase else way, billed, effective, hours, team, idle)
        if target.kind == "apis":
            tokens = (cells.measured(row, TOKENS, number) or ZERO) * share
            self.ledger.apis[target.name].tokens[token_kind(row, details)] += tokens
        elif target.kind == "instances":
            self._priced(row, number, cells, target, effective, hours)

    def _note_tags(self, names: Collection[str]) -> None:
        if len(self.tags) < MOST_TAGS:
            self.tags |= set(names)
        asked = self.spec.team_tag.casefold()
        self.spellings |= {name for name in names if name.casefold() == asked}

    def _charge_elsewhere(self, row: dict[str, str], billed: Decimal, effective: Decimal, used: bool) -> None:
        """Put what nobody used of a commitment in another account to all accounts that used it."""
        commitment = self._commitment(row) if used else None
        if commitment is not None and row.get("CommitmentDiscountStatus") == "Unused":
            commitment.unused += effective
            commitment.elsewhere = True
            commitment.open.add(billed, effective)
            return
        if commitment is not None:
            commitment.used[ELSEWHERE] += effective
        self.ledger.post(ELSEWHERE, "reserved", billed, effective)

    def _commitment(self, row: dict[str, str]) -> Commitment | None:
        key = row.get("CommitmentDiscountId")
        if not key:
            return None
        commitment = self.ledger.commitments.setdefault(key, Commitment(key))
        commitment.name = commitment.name or row.get("CommitmentDiscountName", "")
        commitment.type = commitment.type or row.get("CommitmentDiscountType", "")
        commitment.category = commitment.category or row.get("CommitmentDiscountCategory", "")
        return commitment

    def _priced(
        self, row: dict[str, str], number: int, cells: Cells, target: Target, effective: Decimal, hours: Decimal
    ) -> None:
        if bought_as(row) == "spot" and hours > 0:
            day = self.ledger.spot_days[target.name, row["ChargePeriodStart"][:10]]
            day[0] += effective
            day[1] += hours
        quote = quote_of({**dict.fromkeys(PRICED_BY, ""), **row}, number, cells.file, self.gathering)
        if quote is not None and quote.key == target.name:
            self.quotes.setdefault((quote.key, quote.way, quote.usd_per_h, quote.date), quote)

    def bill(self, files: tuple[Path, ...]) -> Bill:
        if not self.rows:
            raise input_error(files[0], "has no rows", "Export the bill again")
        others = sorted(self.ledger.currencies)
        if not self.ledger.kinds:
            remedy = (
                f"Give a rate of the period, rates: {{{others[0].partition(' (')[0]}: {{usd: 1.08, date: 2026-10-31}}}}"
            )
            raise input_error(files[0], f"has no charge in USD, but in {listed(others, 'and')}", remedy)
        if not self.covered:
            first, last = self.period[0].date(), (self.period[1] - timedelta(hours=1)).date()
            goes = f"; it goes from {self.whole[0].date()} to {self.whole[1].date()}" if self.whole else ""
            remedy = "Check 'period' and 'where'"
            raise input_error(files[0], f"has no usage from {first} to {last}{goes}", remedy)
        if self.covered[0] == self.covered[1]:
            remedy = "Export the bill again, with the hours or days of each charge"
            raise input_error(files[0], "has no usage that lasts: ChargePeriodEnd is ChargePeriodStart", remedy)
        self.ledger.settle()
        if unmatched := [*self._unmatched(files[0])]:
            raise InputError(unmatched)
        self.ledger.notes += self._notes_on_tags()
        for currency in sorted(set(self.gathering.rates) - self.used_rates):
            self.ledger.notes.append(f"no charge is in {currency}, so its rate is not used")
        if odd := sorted(self.planned_h - {round(HOURS_PER_MONTH)}):
            off = listed([f"{HOURS_PER_MONTH / h - 1:+.1%} in a month of {h} h" for h in odd], "and")
            every = f"the export of a plan has {HOURS_PER_MONTH:.0f} h in every month"
            self.ledger.notes.append(f"{every}, so its cost by the hour differs from the plan's: {off}")
        first, stop = self.covered
        quotes = tuple(self.quotes.values())
        return Bill(files, self.ledger, self.rows, first, stop, quotes, self._missing(), self.gathering.rates)

    def _unmatched(self, file: Path) -> Iterator[Diagnostic]:
        """What is wrong with a bill of which most that the plan may be about, by cost, is of no offer."""
        counted = [self.ledger.kinds[kind] for kind in ("instances", "apis") if kind in self.ledger.kinds]
        matched = sum((amount.effective for amount in counted), ZERO)
        lost = {t: a.effective for t, a in self.ledger.no_offer.items() if t.why != USED_BY_NOTHING and a.effective > 0}
        total = sum(lost.values(), ZERO)
        if counted and total <= max(matched, ZERO):
            return
        remedy = "Name it under bill: skus (other: not of this plan), or add it to the menu"
        if not lost:
            services = sorted(self.ledger.services, key=lambda name: -self.ledger.services[name].effective)
            known = listed([shown(name) for name in services[:UNMATCHED_NAMED]], "and")
            message = f"no charge is for an instance or API of the plan{f'; it has {known}' if known else ''}"
            yield Diagnostic(str(file), None, None, "", message, "Check that it is the right bill, and bill: skus")
        for target in sorted(lost, key=lambda t: (-lost[t], t))[:UNMATCHED_NAMED]:
            where, row = self.first_rows.get(target, (file, None))
            message = f"${lost[target]:,.2f} of ${total + matched:,.2f} match no offer: {target.why}"
            yield Diagnostic(str(where), row, None, target.name, message, remedy)

    def _notes_on_tags(self) -> Iterator[str]:
        asked = shown(self.spec.team_tag)
        if self.tags and not self.spellings and len(self.tags) < MOST_TAGS:
            known = listed([shown(tag) for tag in sorted(self.tags)][:TAGS_NAMED], "and")
            yield f"no charge carries the tag {asked}; there are {known}"
        if self.spellings - {self.spec.team_tag}:
            spelled = listed([shown(tag) for tag in sorted(self.spellings)], "and")
            counts = "counts" if len(self.spellings) == 1 else "count"
            yield f"tags are compared without regard to case: {spelled} {counts} as {asked}"

    def _missing(self) -> tuple[date, ...]:
        first, stop = self.covered
        span = ((first + k * DAY).date() for k in range((stop - first) // DAY))
        return () if self.longer else tuple(day for day in span if day not in self.days)


def at_prices_of_bill(case: Case, bill: Bill) -> tuple[Case, tuple[BillPrice, ...]]:
    """The case at the prices that the bill gives of instances on its menu, and those of them that are new.

    One that is far from what it was is more often a mistake than news: it is named, and not taken.
    """
    by_offer: dict[str, Quotes] = defaultdict(lambda: defaultdict(list))
    for quote in bill.quotes:
        if quote.key in case.offers and quote.usd_per_h > 0:
            by_offer[quote.key][quote.way].append(quote)
    offers, changed = dict(case.offers), []
    for key in sorted(by_offer):
        offer = offers[key]
        quoted = prices_of(by_offer[key], offer, key, Gathering())
        prices = offer.prices.model_copy(update=quoted)
        new = {}
        for way in quoted:
            purchase = way.replace("_", "-")
            before, after = (usd_per_h(of, purchase) for of in (offer.prices, prices))
            if after is None or purchase not in case.purchase:
                continue
            if before is None or not same_price(before, after):
                taken = not PriceChange(key, way, before, after).is_jump
                if taken:
                    new[way] = quoted[way]
                changed.append(
                    BillPrice(offer=key, purchase=purchase, before_usd_per_h=before, usd_per_h=after,
                              source=quoted[way].source, date=quoted[way].date, taken=taken)
                )  # fmt: skip
        offers[key] = offer.model_copy(update={"prices": offer.prices.model_copy(update=new)})
    return (case.model_copy(update={"offers": offers}) if changed else case), tuple(changed)
