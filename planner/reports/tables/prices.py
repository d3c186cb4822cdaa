"""Every price on the menu, from where it is, of when, and whether the plan pays it."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date

from planner.catalog.entries import ApiTier, OfferPrices, SpotPrice, day_of, is_of_unknown_day
from planner.plan.plan import Plan
from planner.reports.tables.table import FILES, HTML, Cell, Row, Table
from planner.reports.tables.table import Column as C

STALE_DAYS = 180
"""older than the newest price of the plan by more than this"""


def prices(plan: Plan) -> Table:
    """Every price on the menu, with what the plan buys marked; those of the fleet are as the plan has them."""
    apis = {w.api for w in plan.workloads if w.api}
    rows: list[Row] = []
    for (offer, purchase), (usd_per_h, p95, *basis) in _hourly_prices(plan):
        used = any(f.offer == offer and f.purchase == purchase for f in plan.fleet)
        price = f"{offer} {purchase}", f"${usd_per_h:,.2f} / h"
        rows.append((offer, purchase, used, *price, usd_per_h, p95, None, None, None, None, *basis))
    for key, api in plan.case.apis.items():
        for way, prices in (("api", api), ("api batch", api.batch)):
            for t in prices.tiers if prices else ():
                assert prices is not None
                above = f", input above {t.above_input_tokens:,} tokens" if t.above_input_tokens else ""
                price = f"{key} {way}{above}", _per_1m(t)
                tokens = (t.input_usd_per_1m, t.cached_input_usd_per_1m, t.output_usd_per_1m)
                basis = [prices.source, prices.date, prices.assumption, is_of_unknown_day(prices.date)]
                above_tokens = t.above_input_tokens or None
                rows.append((key, way, key in apis, *price, None, None, *tokens, above_tokens, *basis))
    newest = max((day for *_, when, _, _ in rows if (day := _day(when))), default=None)
    columns = (
        C("of", "of", formats=FILES), C("purchase", "buy", formats=FILES), C("used", "✓", formats=FILES),
        C("what", "what", formats=HTML), C("price", "price", "number", HTML),
        C("price_usd_per_h", "$/h", "price", FILES), C("p95_usd_per_h", "p95 $/h", "price", FILES),
        C("input_usd_per_1m", "$/1M in", "small price", FILES),
        C("cached_input_usd_per_1m", "$/1M cached", "small price", FILES),
        C("output_usd_per_1m", "$/1M out", "small price", FILES),
        C("above_input_tokens", "above tokens", "count", FILES), C("source", "from"), C("date", "of"),
        C("assumption", "assumed", formats=FILES), C("stale", "stale", formats=FILES),
        C("remark", "remark", "warning", HTML, missing=""),
    )  # fmt: skip
    return Table("prices", "Prices", columns, tuple((*row, _remark(row[-3], row[-2], row[-1], newest)) for row in rows))


Priced = tuple[float, float | None, str, str | None, str | None, bool]
"""what an hour costs, also at the 95th percentile, from where, of when, what was assumed, and whether it is stale"""


def _hourly_prices(plan: Plan) -> Iterator[tuple[tuple[str, str], Priced]]:
    paid = {(f.offer, f.purchase): f for f in plan.fleet}
    for key, offer in plan.case.offers.items():
        for purchase, price in _offer_prices(offer.prices):
            f = paid.get((key, purchase))
            if f is not None:
                price = (f.usd_per_h, price[1], f.price_source, f.price_date, f.price_assumption, price[-1])
            yield (key, purchase), price


def _offer_prices(prices: OfferPrices) -> Iterator[tuple[str, Priced]]:
    for purchase, p in prices.by_way().items():
        figures = (p.p50_usd_per_h, p.p95_usd_per_h) if isinstance(p, SpotPrice) else (p.usd_per_h, None)
        yield purchase, (*figures, p.source, p.date, p.assumption, p.is_stale)


def _per_1m(t: ApiTier) -> str:
    cached = f", cached ${t.cached_input_usd_per_1m:g}" if t.cached_input_usd_per_1m is not None else ""
    return f"${t.input_usd_per_1m:g} in{cached}, ${t.output_usd_per_1m:g} out / 1M"


def _day(text: Cell) -> date | None:
    return None if text is None else day_of(str(text))


def _remark(when: Cell, assumed: Cell, stale: Cell, newest: date | None) -> str:
    """What is old or assumed; no clock is asked, so that a report never changes."""
    day = _day(when)
    days = (newest - day).days if newest and day else 0
    older = f": {days} days older than the newest price here" if days > STALE_DAYS else ""
    older = ": of unknown date" if when is not None and day is None else older
    old = [f"stale{older}"] if stale or older else []
    return "; ".join(old + ([f"assumed: {assumed}"] if assumed else []))
