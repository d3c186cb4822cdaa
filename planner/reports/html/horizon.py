"""The page of the plan of a horizon: what to sign now first, then what it leads to."""

from __future__ import annotations

from collections.abc import Iterator

from planner.io.formatting import percent, usd
from planner.plan.horizon.horizon_plan import HorizonPlan, QuarterPlan, cost_as_minimized
from planner.plan.horizon.horizon_view import months_name, owed_beyond_usd, percentile_usd, usd_per_month
from planner.reports.charts import horizon as pictures
from planner.reports.horizon import phrases, tables
from planner.reports.horizon.phrases import NOTHING_USD
from planner.reports.horizon.text import remarks
from planner.reports.html.page import card, cards, figures, hero, page
from planner.reports.markup import Html, as_sentence, details, el, name, notes, panel
from planner.reports.phrases import proof
from planner.reports.markup import table_html, table_panel
from planner.reports.tables.plan import fleet
from planner.reports.tables.pools import pools

OPEN_QUARTERS = 1
"""plans that are not folded away"""


def horizon_page(horizon: HorizonPlan) -> str:
    """The whole report, one file."""
    signing = [
        table_panel("sign-now", tables.sign_now(horizon)),
        table_panel("use", tables.use(horizon)),
        figures(pictures.commit(horizon), pictures.regret(horizon)),
        table_panel("curve-table", tables.curve(horizon)),
    ]
    money = [
        figures(pictures.fan(horizon)),
        table_panel("scenarios", tables.scenarios(horizon)),
        table_panel("by-quarter", tables.by_quarter(horizon)),
    ]
    commitments = [
        figures(pictures.ladder(horizon)),
        table_panel("expiries", tables.expiries(horizon)),
        table_panel("later", tables.later(horizon)),
        table_panel("held", tables.held(horizon)),
    ]
    plans = [
        table_panel("quarters-table", tables.quarters(horizon)),
        *(_quarter(horizon, q, k < OPEN_QUARTERS) for k, q in enumerate(horizon.quarters)),
    ]
    sections = (
        ("signing", "What to sign now", signing),
        ("money", "What it costs", money),
        ("commitments", "Commitments in time", commitments),
        ("quarters", "Quarter by quarter", plans),
        ("proof", "What is proved", [panel("proved", "Proof and value", notes(remarks(horizon)))]),
    )
    title = f"{horizon.name}: {usd(cost_as_minimized(horizon, horizon.risk))}{_measure(horizon)}"
    sub = " · ".join([*phrases.facts(horizon), proof(horizon)])
    foot = (
        f"fleetplan {horizon.fleetplan_version}. A month is 730 hours. Every figure is of the plan "
        f"{horizon.case_hash[:19]}."
    )
    return page(title, name(horizon.name), sub, sections, [_answer(horizon)], foot)


def _answer(horizon: HorizonPlan) -> Html:
    first = phrases.sign_now(horizon)
    lines = [el("p", el("b", as_sentence(first)))]
    lines += [el("p", as_sentence(line)) for line in (*phrases.costs(horizon), *phrases.long_requests(horizon))]
    if line := phrases.value_of_scenarios(horizon):
        lines.append(el("p", as_sentence(line)))
    return hero(usd(cost_as_minimized(horizon, horizon.risk)), _measure(horizon), lines, cards(_cards(horizon)))


def _measure(horizon: HorizonPlan) -> str:
    return " in the worst case" if phrases.is_worst_case(horizon) else " expected"


def _cards(horizon: HorizonPlan) -> Iterator[Html]:
    signed = horizon.signed_now
    monthly, cash = sum(usd_per_month(c) for c in signed), sum(c.upfront_usd for c in signed)
    yield card(
        "Signed now", f"${monthly:,.0f}", f"a month, {usd(cash)} in cash" if cash else "a month, no cash at signing"
    )
    owed = sum(owed_beyond_usd(horizon, c) for c in signed)
    yield card("Owed after", f"${owed:,.0f}", "still to be paid when the horizon ends")
    if horizon.held_usd:
        yield card("Held before", usd(horizon.held_usd), "paid in any case")
    if len(horizon.scenarios) > 1:
        for share, title in ((0.5, "P50"), (0.9, "P90")):
            yield card(title, usd(percentile_usd(horizon.scenarios, share)), "cost, weighted by probability")
        if phrases.is_worst_case(horizon):
            yield card("Expected", usd(horizon.expected_cost_usd), "mean of the scenarios")
        known = [s for s in horizon.scenarios if s.regret_usd is not None]
        if known:
            worst = max(known, key=lambda s: s.regret_usd or 0.0)
            most = worst.regret_usd or 0.0
            detail = f"if {worst.name} comes" if most >= NOTHING_USD else "against plans that had known"
            yield card("Most regret", f"${max(0.0, most):,.0f}", detail)
    yield card(
        "Proved within", percent(horizon.gap_frac, 2), f"{usd(horizon.bound_usd)} at least, without what was held"
    )


def _quarter(horizon: HorizonPlan, q: QuarterPlan, open_: bool) -> Html:
    months = months_name(horizon, q.quarter, q.quarter)
    which = "all scenarios together" if q.scenario is None else q.scenario
    cost = f"{usd(q.plan.cost_usd_per_month)} / month besides commitments"
    summary = f"Quarter {q.quarter + 1}, {months}, {which}: {cost}"
    parts = [table_html(fleet(q.plan)), table_html(pools(q.plan))]
    key = f"quarter-{q.quarter + 1}-{[s.name for s in horizon.scenarios].index(q.scenario) + 1 if q.scenario else 0}"
    return el("div", details(summary, *parts, open_=open_), id=key, class_="panel")
