"""What the plan rests on: assumptions, prices with their sources and dates, and what the proof covers."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date

from planner.catalog.entries import ApiTier, OfferPrices, Sourced
from planner.io.formatting import percent, usd
from planner.plan.plan import Plan
from planner.reports.html.markup import Html, and_more, details, el, join, notes, panel, table
from planner.reports.phrases import proof
from planner.reports.terminal import grouped_assumptions

STALE_DAYS = 180
"""older than the newest price of the plan by more than this; no clock is asked, so that a report never changes"""
OFFERS_SHOWN = 80
ASSUMPTIONS_SHOWN = 120


def assumptions_panel(plan: Plan) -> Html:
    rows = list(grouped_assumptions(plan))
    if not rows:
        return Html("")
    shown = table([("key", "value", "why"), *rows[:ASSUMPTIONS_SHOWN]])
    more = and_more(len(rows), ASSUMPTIONS_SHOWN)
    return panel("assumptions", "Assumed, since the demand file does not say", shown, notes(more))


def prices_panel(plan: Plan) -> Html:
    newest = _newest(plan)
    head = ("what", "price", "source", "date", "remark")
    paid: list[tuple[str, ...]] = [
        (f"{f.offer} {f.purchase}", f"${f.usd_per_h:,.2f} / h", f.price_source, f.price_date or "–",
         _remark(f.price_date, newest, f.price_assumption))
        for f in plan.fleet
    ]  # fmt: skip
    used = [plan.case.baseline, *sorted({w.api for w in plan.workloads if w.api} - {plan.case.baseline})]
    paid += [row for api in used if api in plan.case.apis for row in _api_rows(plan, api, newest)]
    menu = list(_menu_rows(plan, newest))
    more = and_more(len(menu), OFFERS_SHOWN)
    rest = details(
        f"Prices of everything on the menu ({len(menu)})", table([head, *menu[:OFFERS_SHOWN]], "b"), notes(more)
    )
    return panel("prices", "Prices", table([head, *paid], "b"), rest if menu else Html(""))


def _newest(plan: Plan) -> str | None:
    dates = [f.price_date for f in plan.fleet] + [a.date for a in plan.case.apis.values()]
    dates += [price.date for offer in plan.case.offers.values() for _, _, price in _prices(offer.prices)]
    return max((d for d in dates if d and _day(d)), default=None)


def _day(text: str) -> date | None:
    try:
        return date.fromisoformat(text)
    except ValueError:
        return None


def _remark(when: str | None, newest: str | None, assumed: str | None) -> Html:
    said: list[str] = []
    day, last = _day(when or ""), _day(newest or "")
    if day and last and (last - day).days > STALE_DAYS:
        said.append(el("span", f"stale: {(last - day).days} days older than the newest price here", class_="warn"))
    if assumed:
        said.append(join([el("span", "assumed: ", class_="warn"), assumed]))
    return join(s if k == 0 else join(["; ", s]) for k, s in enumerate(said)) if said else Html("")


def _api_rows(plan: Plan, api: str, newest: str | None) -> Iterator[tuple[str, ...]]:
    a = plan.case.apis[api]
    for prices, kind in ((a, ""), (a.batch, " batch")):
        if prices is None:
            continue
        for tier in prices.tiers:
            above = f", input above {tier.above_input_tokens:,} tokens" if tier.above_input_tokens else ""
            yield (
                f"{api}{kind}{above}",
                _tier(tier),
                prices.source,
                prices.date or "–",
                _remark(prices.date, newest, prices.assumption),
            )


def _tier(t: ApiTier) -> str:
    cached = f", cached ${t.cached_input_usd_per_1m:g}" if t.cached_input_usd_per_1m is not None else ""
    return f"${t.input_usd_per_1m:g} in{cached}, ${t.output_usd_per_1m:g} out / 1M"


def _prices(prices: OfferPrices) -> Iterator[tuple[str, float, Sourced]]:
    if prices.on_demand:
        yield "on-demand", prices.on_demand.usd_per_h, prices.on_demand
    if prices.spot:
        yield "spot, median", prices.spot.p50_usd_per_h, prices.spot
    for term, price in prices.reserved().items():
        yield term, price.usd_per_h, price


def _menu_rows(plan: Plan, newest: str | None) -> Iterator[tuple[str, ...]]:
    for key, offer in sorted(plan.case.offers.items()):
        for kind, usd_per_h, price in _prices(offer.prices):
            yield (f"{key} {kind}", f"${usd_per_h:,.2f} / h", price.source, price.date or "–",
                   _remark(price.date, newest, price.assumption))  # fmt: skip


def proof_panel(plan: Plan) -> Html:
    p = plan.proof
    covered = plan.cost_usd_per_month + plan.penalty_usd_per_month
    what = "Cost and penalty" if plan.penalty_usd_per_month else "Cost"
    gap = f"gap {percent(plan.gap_frac, 2)}"
    rows = [
        ("Verdict", proof(plan)),
        (f"{what} of the plan", f"{usd(covered)} / month"),
        ("No fleet that is covered costs less than", f"{usd(plan.bound_usd_per_month)} / month ({gap})"),
        ("What is covered", p.covers),
        ("Solver", f"{p.solver}; {p.rounds} rounds, {p.columns:,} columns, {p.servings_left_out:,} servings left out"),
        ("Checked", "the plan passed a checker that reads nothing but its JSON"),
        ("Case", plan.case_hash),
    ]
    return panel("proof", "Proof", table([("what", "said"), *rows]), notes(p.notes))


def build_or_buy_panel(plan: Plan) -> Html:
    """What else differs, where money is not all."""
    requests = sum(w.requests_per_month for w in plan.workloads)
    outside = sum(w.api_share_frac * w.requests_per_month for w in plan.workloads) / requests if requests else 0.0
    owed = sum(c.beyond_horizon_usd for c in plan.commitments)
    upfront = sum(c.upfront_usd for c in plan.commitments)
    commitments = ", ".join(
        [*([f"{usd(upfront)} up front"] * bool(upfront)), *([f"{usd(owed)} owed after the quarter"] * bool(owed))]
    )
    api = f"{plan.baseline.provider} {plan.baseline.model}"
    rows = [
        ("a month", usd(plan.cost_usd_per_month), usd(plan.baseline.cost_usd_per_month)),
        (
            "latency",
            "planned for: TTFT and TPOT of each workload are kept at its percentile",
            "whatever the provider gives",
        ),
        ("requests sent to an API provider", percent(outside), "100%"),
        (
            "engineers",
            f"{usd(plan.costs.engineers_usd_per_month)} a month"
            if plan.costs.engineers_usd_per_month
            else "none counted",
            "none counted",
        ),
        ("commitments", commitments or "none", "none"),
        (
            "if demand falls",
            "reserved instances are still paid" if plan.commitments else "instances are given back",
            "the bill falls with it",
        ),
    ]
    return panel("build-or-buy", "Build or buy: what else differs", table([("", "this plan", api), *rows]))
