"""The savings of the plan lever by lever: a table whose bars step down."""

from __future__ import annotations

from planner.io.formatting import percent, usd
from planner.levers import FIRST_STEP, FOOTNOTE, LAST_STEP
from planner.plan.plan import Plan
from planner.plan.study_records import StepRecord, Waterfall
from planner.reports.markup import Html, bar, bar_table, details, el, figure, join, legend, notes, table_html
from planner.reports.tables import studies

START = {
    FIRST_STEP: "one GPU type on demand", "right-sizing": "GPUs on demand", LAST_STEP: "the plan itself",
    FOOTNOTE: "the naive fleet",
}  # fmt: skip
"""older plans begin with a naive fleet"""
KEYS = (("b1", "cost of the step"), ("b3", "saved by it"), ("b4", "added by it"))


def waterfall(plan: Plan) -> Html:
    study = plan.studies.waterfall if plan.studies else None
    if study is None or not study.compares:
        return Html("")
    most = max((s.cost_usd_per_month or 0.0 for s in study.steps), default=0.0) or 1.0
    rows, before = [], None
    for step in study.steps:
        rows.append(_row(step, before, most))
        before = step.cost_usd_per_month if step.cost_usd_per_month is not None else before
    return figure(
        "waterfall",
        _title(study),
        legend(KEYS),
        bar_table(("step", "", "$/month", "saves"), rows),
        details("Table: the fleet of each step", table_html(studies.waterfall(study))),
        notes(_footnote(study)),
        caption="The same demand, planned again with one more lever at each step.",
        wide=True,
    )


def _title(study: Waterfall) -> str:
    planned = [s for s in study.steps if s.cost_usd_per_month is not None]
    if study.saves_usd_per_month is None or not planned:
        return "Savings, lever by lever"
    saved, share = usd(study.saves_usd_per_month), percent(study.saves_frac or 0.0)
    first = START.get(planned[0].key, f"the fleet of the {_lower(planned[0].title)} step")
    title = f"The levers save {saved} a month, {share} compared with {first}"
    best = max(planned, key=lambda s: s.saves_usd_per_month or 0.0)
    return title + (f"; the largest step is {_lower(best.title)}" if best.saves_usd_per_month else "")


def _footnote(study: Waterfall) -> list[str]:
    naive = study.naive
    if naive is None or naive.cost_usd_per_month is None:
        return []
    return [f"a naive fleet, {naive.said}, would cost {usd(naive.cost_usd_per_month)} a month"]


def _lower(title: str) -> str:
    return title[:1].lower() + title[1:]


def _row(s: StepRecord, before: float | None, most: float) -> tuple[str, ...]:
    label = join([s.title, el("span", s.said, class_="said")])
    cost = s.cost_usd_per_month
    if cost is None:
        why = "no fleet can meet the demand" if s.status == "infeasible" else "no plan was found in time"
        return label, el("span", why, class_="hint"), "–", "–"
    start = cost if before is None else before
    pieces = [("b1", 0.0, min(start, cost) / most)]
    pieces.append(
        ("b3", cost / most, (start - cost) / most) if cost <= start else ("b4", start / most, (cost - start) / most)
    )
    saved = s.saves_usd_per_month
    share = f" ({percent(s.saves_frac)})" if s.saves_frac is not None and s.saves_frac >= 0 else ""
    saving = "–" if saved is None else f"{saved:,.0f}{share}"
    return label, bar(pieces, f"{s.title}: {usd(cost)} a month"), f"{cost:,.0f}", saving
