"""A review as one HTML file, made of the same parts as the page of a plan."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from planner.io.formatting import usd, usd_small
from planner.reports import review_tables
from planner.reports.html import review_pictures as pictures
from planner.reports.html.headline import card
from planner.reports.html.markup import Html, el, join, long_table, name, notes, panel, section
from planner.reports.html.page import figures, whole_page
from planner.reports.review import held_said, hindsight_said
from planner.reports.review_tables import signed
from planner.reports.table import Table
from planner.review.records import Review, ReviewItem

SECTIONS = {
    "decisions": "Decisions and risks",
    "quarter": "The quarter",
    "next": "The next plan",
    "log": "The log",
}


def review_page(review: Review) -> str:
    parts: dict[str, list[Html]] = {
        "decisions": [_said("asked", "Decisions asked for", review.decisions), _said("risks", "Risks", review.risks)],
        "quarter": [
            figures(pictures.by_hour(review)),
            _panel(review_tables.workloads(review)),
            _panel(review_tables.capacity(review), "Load is taken to follow tokens."),
            _panel(review_tables.costs(review), *_hindsight(review)),
        ],
        "next": [
            figures(pictures.bridge(review), pictures.next_demand(review), pictures.trend(review)),
            _panel(review_tables.forecasts(review), _TRIED),
            _panel(review_tables.commitments(review), *([_HELD] if review.commitments else [])),
            _fleet(review),
        ],
        "log": [_log(review)],
    }
    links = el("nav", *(el("a", label, href=f"#{key}") for key, label in SECTIONS.items()), aria_label="sections")
    p = review.period
    said = f"{p.first_hour}h to {p.last_hour}h UTC, {p.hours:,} hours of {p.log_hours:,} in the log"
    top = el("header", el("h1", "Review ", name(review.name)), el("p", said, class_="sub"), links, class_="top")
    main = el("main", _hero(review), *(section(key, label, *parts[key]) for key, label in SECTIONS.items()))
    last, after = ((f.case_hash or "")[:19] for f in (review.planned, review.next.figures))
    said = f"fleetplan {review.fleetplan_version}. A month is 730 hours. The last plan is {last}, the next {after}."
    foot = el("footer", said)
    return whole_page(f"Review {review.name}", top, main, foot)


_TRIED = (
    "Both methods forecast the last weeks from earlier points without what came later; the one that was less off is "
    "used. P10 and P90 are those of the weeks tried."
)
_HELD = (
    "The next plan is made as if nothing were held; what is held then serves it first. A fleet planned around what is "
    "held might cost less."
)


def _hero(review: Review) -> Html:
    f = review.next.figures
    big = el("div", usd(f.cost_usd_per_month), el("small", " / month next"), class_="big")
    verdict = el("b", "The quarter went as planned.", class_="good") if review.as_planned else review.verdict
    lines = [el("p", verdict), el("p", _sentence(hindsight_said(review)))]
    if said := held_said(review):
        lines.append(el("p", _sentence(said)))
    answer = el("div", big, *lines, class_="answer")
    return el("div", answer, el("dl", *_cards(review), class_="cards"), class_="hero")


def _sentence(words: str) -> str:
    return words[:1].upper() + words[1:].rstrip(".") + "."


def _cards(review: Review) -> Iterator[Html]:
    p, a, f = review.planned, review.actual, review.next.figures
    basis = "by the bill" if review.actual_basis == "bill" else "the planned fleet: no bill was given"
    cost = a.cost_usd_per_month / p.cost_usd_per_month - 1 if p.cost_usd_per_month else 0.0
    yield card("Planned", usd(p.cost_usd_per_month), "a month, in the last plan")
    yield card("Actual", usd(a.cost_usd_per_month), f"a month ({signed(cost)}), {basis}")
    best = review.hindsight
    if best is None:
        yield card("Best in hindsight", "–", "no fleet of the last plan's menu could serve what came", "bad")
    else:
        yield card("Best in hindsight", usd(best.cost_usd_per_month), "a month, for what came, at the old prices")
    per = f"planned {usd_small(p.usd_per_1m_tokens)}, next {usd_small(f.usd_per_1m_tokens)}"
    yield card("Per 1M tokens", usd_small(a.usd_per_1m_tokens), per)
    off = review.trend[-1].forecast_off_frac
    yield card("Requests", signed(off) or "0%", "against the plan, all workloads together")
    p90 = review.next.p90_cost_usd_per_month
    if p90 is None:
        yield card("Next at P90", "–", "not known: the log is too short, or no fleet can do it")
    else:
        yield card("Next at P90", usd(p90), "a month, the best fleet if all demand is at its P90")


def _said(id_: str, title: str, said: Iterable[ReviewItem]) -> Html:
    items = [el("li", el("b", name(s.about)), ": ", s.text) for s in said]
    return panel(id_, title, el("ul", *items) if items else el("p", "None."))


def _panel(table: Table, *remarks: str) -> Html:
    if not table.rows:
        return Html("")
    right = "".join(chr(ord("a") + k) for k, c in enumerate(table.columns) if c.right)
    rows = [tuple(c.title for c in table.columns), *table.shown()]
    return panel(f"{table.name}-table", table.title.capitalize(), long_table(rows, right), notes(remarks))


def _hindsight(review: Review) -> Iterator[str]:
    if review.hindsight is not None and review.hindsight.fleet:
        yield f"in hindsight: {', '.join(review.hindsight.fleet)}"
    if review.actual_basis != "bill":
        yield f"actual: {review.actual_basis}"


def _fleet(review: Review) -> Html:
    items = [el("li", line) for line in review.next.fleet]
    return panel("next-fleet", "The next fleet, at its busiest", el("ul", *items) if items else Html(""))


def _log(review: Review) -> Html:
    table = review_tables.findings(review)
    if table.rows:
        return _panel(table, "What is left out is never taken for no demand.")
    return panel("findings-table", "Odd in the log", join([el("p", "Nothing.")]))
