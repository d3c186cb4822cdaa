"""What the plan of a horizon says: what to sign now, what it leads to, and what is proved."""

from __future__ import annotations

from collections.abc import Iterator

from planner.io.formatting import percent, usd
from planner.judgement.spending import guessed_signature
from planner.plan.horizon.horizon_plan import HorizonPlan, QuarterPlan, cost_as_minimized
from planner.plan.horizon.horizon_view import months_name, owed_now_usd, percentile_usd, signed_now_usd_per_month
from planner.reports import horizon_phrases as phrases
from planner.reports.document import (
    Card,
    Document,
    Figures,
    Fold,
    Hero,
    Lines,
    Mark,
    Part,
    Section,
    TablePart,
    as_sentence,
)
from planner.reports.phrases import proof
from planner.reports.summary import horizon_summary
from planner.reports.table import HTML, PLAIN, RICH, Cell
from planner.reports.tables import horizon as tables
from planner.reports.tables.horizon_allowances import allowance_use, allowances
from planner.reports.tables.plan import fleet
from planner.reports.tables.pools import pools

OPEN_QUARTERS = 1
"""plans that a page does not fold away"""


def horizon_document(horizon: HorizonPlan) -> Document:
    least = cost_as_minimized(horizon, horizon.risk)
    said = (phrases.sign_now(horizon), *_stops(horizon), *phrases.costs(horizon), *phrases.long_requests(horizon))
    return Document(
        title=horizon.name,
        about=(", ".join(phrases.facts(horizon)), proof(horizon)),
        lead=lambda: (Lines(said, formats=("text",)), _answer(horizon)),
        parts=(
            Section("What to sign now", lambda: _signing(horizon), key="signing"),
            Section("What it costs", lambda: _money(horizon), key="money"),
            Section("Commitments in time", lambda: _commitments(horizon), key="commitments"),
            Section("Quarter by quarter", lambda: _quarters(horizon), key="quarters"),
            Section("What is proved", lambda: _proved(horizon), key="proof"),
        ),
        foot=f"fleetplan {horizon.fleetplan_version}. A month is 730 hours. Every figure belongs to the plan "
        f"{horizon.case_hash[:19]}.",
        tab=f"{horizon.name}: {usd(least)}{_measure(horizon)}",
        json=horizon.to_json,
        summary=lambda: horizon_summary(horizon),
        tables=lambda: tables.tables_of(horizon),
        facts=lambda: _facts(horizon),
    )


def _stops(horizon: HorizonPlan) -> tuple[str, ...]:
    """What forbids to sign."""
    return tuple(f"STOP: {c.sentence}: {c.remedy}" for c in guessed_signature(horizon))


def _facts(horizon: HorizonPlan) -> tuple[tuple[str, Cell], ...]:
    """The plan in a few figures, for a workbook."""
    return (
        ("plan", horizon.name),
        ("status", horizon.status),
        ("minimized", horizon.risk),
        ("expected_cost_usd", horizon.expected_cost_usd),
        ("p50_usd", percentile_usd(horizon.scenarios, 0.5)),
        ("p90_usd", percentile_usd(horizon.scenarios, 0.9)),
        ("worst_scenario", horizon.worst_scenario),
        ("worst_cost_usd", horizon.worst.cost_usd),
        ("counted_usd", horizon.counted_usd),
        ("bound_usd", horizon.bound_usd),
        ("gap_frac", horizon.gap_frac),
        ("case_hash", horizon.case_hash),
        ("fleetplan_version", horizon.fleetplan_version),
    )


def _answer(horizon: HorizonPlan) -> Hero:
    lines = [*phrases.costs(horizon), *phrases.long_requests(horizon)]
    if line := phrases.value_of_scenarios(horizon):
        lines.append(line)
    first = (Mark(as_sentence(phrases.sign_now(horizon))),)
    return Hero(
        usd(cost_as_minimized(horizon, horizon.risk)),
        _measure(horizon),
        (Lines((first, *lines), tone="prose"),),
        cards=tuple(_cards(horizon)),
        formats=RICH,
    )


def _measure(horizon: HorizonPlan) -> str:
    return " in the worst case" if phrases.is_worst_case(horizon) else " expected"


def _cards(horizon: HorizonPlan) -> Iterator[Card]:
    monthly, cash = signed_now_usd_per_month(horizon), sum(c.upfront_usd for c in horizon.signed_now)
    detail = f"a month, {usd(cash)} in cash" if cash else "a month, no cash at signing"
    yield Card("Signed now", f"${monthly:,.0f}", detail)
    owed = owed_now_usd(horizon)
    yield Card("Owed after", f"${owed:,.0f}", "still to be paid when the horizon ends")
    if horizon.held_usd:
        yield Card("Held before", usd(horizon.held_usd), "paid in any case")
    if len(horizon.scenarios) > 1:
        for share, title in ((0.5, "P50"), (0.9, "P90")):
            yield Card(title, usd(percentile_usd(horizon.scenarios, share)), "cost, weighted by probability")
        if phrases.is_worst_case(horizon):
            yield Card("Expected", usd(horizon.expected_cost_usd), "mean of the scenarios")
        known = [s for s in horizon.scenarios if s.regret_usd is not None]
        if known:
            worst = max(known, key=lambda s: s.regret_usd or 0.0)
            most = worst.regret_usd or 0.0
            detail = f"in scenario {worst.name}" if most >= phrases.NOTHING_USD else "compared with perfect foresight"
            yield Card("Most regret", f"${max(0.0, most):,.0f}", detail)
    bound = f"{usd(horizon.bound_usd)} is the lower bound, without what was held"
    yield Card("Proved within", percent(horizon.gap_frac, 2), bound)


def _signing(horizon: HorizonPlan) -> Iterator[Part]:
    from planner.reports.charts import horizon as pictures

    yield Lines(_stops(horizon), tone="stop", formats=RICH)
    yield TablePart(tables.sign_now(horizon))
    yield TablePart(allowances(horizon), key="allowances")
    yield TablePart(tables.use(horizon))
    yield TablePart(allowance_use(horizon), key="allowance-use")
    yield Figures((lambda: pictures.commit(horizon), lambda: pictures.regret(horizon)))
    yield TablePart(tables.curve(horizon), key="curve-table")


def _money(horizon: HorizonPlan) -> Iterator[Part]:
    from planner.reports.charts import horizon as pictures

    yield Figures((lambda: pictures.fan(horizon),))
    yield TablePart(tables.scenarios(horizon))
    yield TablePart(tables.by_quarter(horizon), folded=True)
    yield TablePart(tables.baseline(horizon), key="baseline")
    yield TablePart(tables.showback(horizon), key="showback")


def _commitments(horizon: HorizonPlan) -> Iterator[Part]:
    from planner.reports.charts import horizon as pictures

    yield Figures((lambda: pictures.ladder(horizon),))
    yield TablePart(tables.expiries(horizon), key="expiries", folded=True)
    yield TablePart(tables.later(horizon))
    yield TablePart(tables.held(horizon))


def _quarters(horizon: HorizonPlan) -> Iterator[Part]:
    yield TablePart(tables.quarters(horizon), key="quarters-table", folded=True)
    for k, q in enumerate(horizon.quarters):
        yield _quarter(horizon, q, k < OPEN_QUARTERS)


def _quarter(horizon: HorizonPlan, q: QuarterPlan, open_: bool) -> Part:
    months = months_name(horizon, q.quarter, q.quarter)
    which = "all scenarios together" if q.scenario is None else q.scenario
    cost = f"{usd(q.plan.cost_usd_per_month)} / month besides commitments"
    scenario = [s.name for s in horizon.scenarios].index(q.scenario) + 1 if q.scenario else 0
    return Fold(
        f"Quarter {q.quarter + 1}, {months}, {which}: {cost}",
        lambda: (TablePart(fleet(q.plan)), TablePart(pools(q.plan))),
        open_,
        key=f"quarter-{q.quarter + 1}-{scenario}",
        formats=HTML,
    )


def _proved(horizon: HorizonPlan) -> Iterator[Part]:
    remarks = tuple(phrases.remarks(horizon))
    yield Lines(remarks, formats=PLAIN)
    yield Lines(remarks, "Proof and value", key="proved", formats=HTML)
