"""Every price on the menu, from where it is, of when, and whether the plan pays it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date as Day

from planner.catalog.entries import ApiTier, SpotPrice, day_of, is_of_unknown_day
from planner.catalog.terms import in_words
from planner.plan.plan import Plan
from planner.reports.table import FILES, HTML, Table
from planner.reports.table import Column as C

STALE_DAYS = 180
"""older than the newest price of the plan by more than this"""


@dataclass(frozen=True)
class Price:
    """What an hour of an instance costs, also at the 95th percentile, or what tokens of an API do."""

    of: str
    purchase: str
    used: bool
    source: str
    date: str | None
    assumption: str | None
    stale: bool
    usd_per_h: float | None = None
    p95_usd_per_h: float | None = None
    tier: ApiTier | None = None

    @property
    def above_tokens(self) -> int | None:
        """Of the prompt, from which on the price holds."""
        return (self.tier.above_input_tokens or None) if self.tier else None

    @property
    def shown(self) -> str:
        t = self.tier
        if t is None:
            return f"${self.usd_per_h:,.2f} / h"
        cached = f", cached ${t.cached_input_usd_per_1m:g}" if t.cached_input_usd_per_1m is not None else ""
        return f"${t.input_usd_per_1m:g} in{cached}, ${t.output_usd_per_1m:g} out / 1M"

    @property
    def day(self) -> Day | None:
        return None if self.date is None else day_of(self.date)


def prices(plan: Plan) -> Table:
    """Every price on the menu, with what the plan buys marked; those of the fleet are as the plan has them."""
    records = (*_hourly_prices(plan), *_api_prices(plan))
    newest = max((day for p in records if (day := p.day)), default=None)

    def of_tier(name: str, title: str) -> C:
        """A price of tokens."""
        return C(name, title, "small price", FILES, get=lambda p: getattr(p.tier, name) if p.tier else None)

    columns = (
        C("of", "of", formats=FILES),
        C("purchase", "buy", "way to buy", formats=FILES),
        C("used", "✓", formats=FILES),
        C("what", "what", formats=HTML, get=_what),
        C("price", "price", "number", HTML, get=lambda p: p.shown),
        C("price_usd_per_h", "$/h", "price", FILES, get=lambda p: p.usd_per_h),
        C("p95_usd_per_h", "p95 $/h", "price", FILES),
        of_tier("input_usd_per_1m", "$/1M in"),
        of_tier("cached_input_usd_per_1m", "$/1M cached"),
        of_tier("output_usd_per_1m", "$/1M out"),
        C("above_input_tokens", "above tokens", "count", FILES, get=lambda p: p.above_tokens),
        C("source", "from"),
        C("date", "of"),
        C("assumption", "assumed", formats=FILES),
        C("stale", "stale", formats=FILES),
        C("remark", "remark", "warning", HTML, missing="", get=lambda p: _remark(p, newest)),
    )
    return Table("prices", "Prices", columns, records)


def _hourly_prices(plan: Plan) -> Iterator[Price]:
    paid = {(f.offer, f.purchase): f for f in plan.fleet}
    for key, offer in plan.case.offers.items():
        for purchase, p in offer.prices.by_way().items():
            usd, p95 = (p.p50_usd_per_h, p.p95_usd_per_h) if isinstance(p, SpotPrice) else (p.usd_per_h, None)
            source, when, assumed = p.source, p.date, p.assumption
            f = paid.get((key, purchase))
            if f is not None:
                usd, source, when, assumed = f.usd_per_h, f.price_source, f.price_date, f.price_assumption
            yield Price(key, purchase, f is not None, source, when, assumed, p.is_stale, usd, p95)


def _api_prices(plan: Plan) -> Iterator[Price]:
    apis = {w.api for w in plan.workloads if w.api}
    for key, api in plan.case.apis.items():
        for way, p in (("api", api), ("api batch", api.batch)):
            for t in p.tiers if p else ():
                assert p is not None
                yield Price(key, way, key in apis, p.source, p.date, p.assumption, is_of_unknown_day(p.date), tier=t)


def _what(p: Price) -> str:
    return f"{p.of} {in_words(p.purchase)}" + (f", input above {p.above_tokens:,} tokens" if p.above_tokens else "")


def _remark(p: Price, newest: Day | None) -> str:
    """What is old or assumed; no clock is asked, so that a report never changes."""
    days = (newest - p.day).days if newest and p.day else 0
    older = f": {days} days older than the newest price here" if days > STALE_DAYS else ""
    older = ": of unknown date" if p.date is not None and p.day is None else older
    old = [f"stale{older}"] if p.stale or older else []
    return "; ".join(old + ([f"assumed: {p.assumption}"] if p.assumption else []))
