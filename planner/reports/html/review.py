"""A review as one HTML file, made of the same parts as the page of a plan."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from planner.io.formatting import usd, usd_small
from planner.reports.charts import bill as bill_pictures
from planner.reports.charts import review as pictures
from planner.reports.html.page import card, cards, figures, hero, page
from planner.reports.markup import Html, as_sentence, el, join, name, panel
from planner.reports.review import (
    actual_basis,
    ahead_sentences,
    commitments_sentences,
    hindsight_sentence,
    savings_plan_sentences,
)
from planner.reports.tables import review as tables
from planner.reports.tables.bills.bill import bill_sentences, bill_tables
from planner.reports.markup import table_panel
from planner.reports.tables.review import signed
from planner.reports.table import Table
from planner.review.records import Review, ReviewItem


def review_page(review: Review) -> str:
    asked = [_items("asked", "Decisions asked for", review.decisions), _items("risks", "Risks", review.risks)]
    quarter = [
        figures(pictures.by_hour(review)),
        _panel(tables.workloads(review)),
        _panel(tables.capacity(review), "Load is taken to follow tokens."),
        _panel(tables.costs(review), *_hindsight(review)),
    ]
    following = [
        figures(pictures.bridge(review), pictures.next_demand(review), pictures.trend(review)),
        _panel(tables.forecasts(review), _TRIED),
        *(_panel(t) for t in (tables.ahead(review), tables.sign_now(review)) if t.rows),
        _panel(tables.commitments(review), _HELD),
        _fleet(review),
    ]
    sections = (
        ("decisions", "Decisions and risks", asked),
        ("quarter", "The quarter", quarter),
        ("bill", "The bill", _bill(review)),
        ("next", "The next plan", following),
        ("log", "The log", [_log(review)]),
    )
    p = review.period
    sub = f"{p.first_hour}h to {p.last_hour}h UTC, {p.hours:,} hours of {p.log_hours:,} in the log"
    last, after = ((f.case_hash or "")[:19] for f in (review.planned, review.next.figures))
    foot = f"fleetplan {review.fleetplan_version}. A month is 730 hours. The last plan is {last}, the next {after}."
    heading = join(["Review ", name(review.name)])
    return page(f"Review {review.name}", heading, sub, sections, [_answer(review)], foot)


_TRIED = (
    "Both methods forecast the last weeks from earlier data only; the more accurate one is used. P10 and P90 come from "
    "the weeks tried."
)
_HELD = (
    "The next plan is made around what is held: commitments that are there for the whole quarter serve it first, those "
    "that lapse within it are paid until their last day. Costs of the next plan have both in them."
)


def _answer(review: Review) -> Html:
    verdict = el("b", "The quarter went as planned.", class_="good") if review.as_planned else review.verdict
    lines = [el("p", verdict), el("p", as_sentence(hindsight_sentence(review)))]
    said = (*commitments_sentences(review), *savings_plan_sentences(review), *ahead_sentences(review))
    lines += [el("p", as_sentence(words)) for words in said]
    return hero(usd(review.next.approved_usd_per_month), " / month to approve", lines, cards(_cards(review)))


def _cards(review: Review) -> Iterator[Html]:
    p, a = review.planned, review.actual
    basis = actual_basis(review) if review.actual_basis == "bill" else "the planned fleet: no bill was given"
    cost = a.cost_usd_per_month / p.cost_usd_per_month - 1 if p.cost_usd_per_month else 0.0
    yield card("Planned", usd(p.cost_usd_per_month), "a month, in the last plan")
    yield card("Actual", usd(a.cost_usd_per_month), f"a month ({signed(cost)}), {basis}")
    best = review.hindsight
    if best is None:
        yield card("Best in hindsight", "–", "no fleet of the last plan's menu could serve the actual demand", "bad")
    else:
        yield card("Best in hindsight", usd(best.cost_usd_per_month), "a month, for actual demand, at the old prices")
    per = f"planned {usd_small(p.usd_per_1m_tokens)}, next {usd_small(review.next.approved_usd_per_1m)}"
    yield card("Per 1M tokens", usd_small(a.usd_per_1m_tokens), per)
    off = review.trend[-1].forecast_off_frac
    yield card("Requests", signed(off) or "0%", "against the plan, all workloads together")
    p90 = review.next.p90_approved_usd_per_month
    if p90 is None:
        yield card("Next at P90", "–", "not known: the log is too short, or no fleet can do it")
    else:
        yield card("Next at P90", usd(p90), "a month, the best fleet if all demand is at its P90")


def _items(id_: str, title: str, of: Iterable[ReviewItem]) -> Html:
    items = [el("li", el("b", name(s.about)), ": ", s.text) for s in of]
    return panel(id_, title, el("ul", *items) if items else el("p", "None."))


def _panel(table: Table, *remarks: str) -> Html:
    return table_panel(f"{table.name}-table", table, *remarks)


def _bill(review: Review) -> list[Html]:
    if review.bill is None:
        return []
    sentences = [el("p", as_sentence(words)) for words in bill_sentences(review.bill)]
    drawn = figures(bill_pictures.paid(review.bill), bill_pictures.teams(review.bill))
    return [*sentences, drawn, *(_panel(table) for table in bill_tables(review.bill))]


def _hindsight(review: Review) -> Iterator[str]:
    if review.hindsight is not None and review.hindsight.fleet:
        yield f"in hindsight: {', '.join(review.hindsight.fleet)}"
    if review.actual_basis != "bill":
        yield f"actual: {review.actual_basis}"


def _fleet(review: Review) -> Html:
    items = [el("li", line) for line in review.next.fleet]
    return panel("next-fleet", "The next fleet, at its busiest", el("ul", *items) if items else Html(""))


def _log(review: Review) -> Html:
    table = tables.findings(review)
    if table.rows:
        return _panel(table, "Hours left out never count as hours without demand.", *review.log_notes)
    return panel("findings-table", "Log anomalies", join([el("p", line) for line in ("Nothing.", *review.log_notes)]))
