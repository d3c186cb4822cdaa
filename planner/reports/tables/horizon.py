"""The tables of the plan of a horizon, each defined once. Money is USD; a month is 730 hours."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from datetime import date

from planner.case.case import OWNED
from planner.catalog.terms import in_words, is_bought
from planner.plan.horizon.horizon_plan import HorizonPlan, SignedCommitment
from planner.plan.horizon.horizon_showback import horizon_showback
from planner.plan.horizon.horizon_view import (
    Use,
    book_beyond_usd,
    break_even_frac,
    committed_in,
    expected_utilization,
    gpus_of,
    known_usd,
    ladder,
    months_name,
    months_to_pay,
    owed_beyond_usd,
    percentile_usd,
    quarters_covered,
    quarters_of,
    regret_frac,
    usd_per_month,
    use_of,
)
from planner.plan.plan import Plan
from planner.reports.horizon_phrases import part_quarters
from planner.reports.table import BEYOND_TEXT, DATA, FILES, PEOPLE, TICK, Cells, Row, Table
from planner.reports.table import Column as C
from planner.reports.tables.horizon_allowances import allowance_use, allowances
from planner.reports.tables.showback import showback_table

NAMES = (
    *("sign_now", "allowances", "use", "allowance_use", "held", "scenarios", "by_quarter", "baseline", "showback"),
    *("curve", "ladder", "later", "quarters"),
)
"""of all tables"""
ALL = "all offers, in GPU-hours"


def tables_of(horizon: HorizonPlan) -> tuple[Table, ...]:
    """All tables, always in the same order."""
    makers = (
        *(sign_now, allowances, use, allowance_use, held, scenarios, by_quarter, baseline, showback),
        *(curve, expiries, later, quarters),
    )
    return tuple(make(horizon) for make in makers)


def sign_now(horizon: HorizonPlan) -> Table:
    signed = horizon.signed_now
    bought = any(is_bought(c.term) for c in signed)
    worth_after = C("book_beyond_usd", "worth after $", "money", get=lambda c: book_beyond_usd(horizon, c))
    columns = (
        C("offer", "sign now"),
        C("term", "term", "way to buy"),
        C("instances", "instances", "count"),
        C("first_day", "from", get=lambda c: f"{c.first_day}"),
        C("last_day", "until", get=lambda c: f"{c.last_day}"),
        C("price_usd_per_h", "$/h each", "price", FILES, get=lambda c: c.usd_per_h),
        C("usd_per_month", "$/month", "money", get=usd_per_month),
        C("upfront_usd", "cash now $", "money"),
        C("owed_beyond_usd", "owed after $", "money", get=lambda c: owed_beyond_usd(horizon, c)),
        *([worth_after] if bought else []),
        C("inside_usd", "in the horizon $", "money", DATA),
        C("beyond_usd", "after it $", "money", DATA),
        C("counted_usd", "counted $", "money", DATA),
        C("break_even_utilization_frac", "breaks even at", "percent", missing="not sold on demand",
          get=lambda c: break_even_frac(horizon, c)),
        C("expected_utilization_frac", "utilization", "percent", get=lambda c: expected_utilization(horizon, c)),
        C("months_to_pay", "payback, months", ",.1f", get=lambda c: months_to_pay(horizon, c)),
    )  # fmt: skip
    notes = (
        "owed after: still to be paid when the horizon ends; breaks even at: the utilization at which it costs as much "
        "as the same hours on demand",
        "utilization: expected, of all commitments to the offer; payback: months of such demand until the hours used "
        "would have cost as much on demand as the whole term",
        *(["worth after: book value of servers that are bought, when the horizon ends"] if bought else []),
    )
    return Table("sign_now", "Sign now", columns, signed, notes if signed else ())


@dataclass(frozen=True)
class _OfferUse:
    """How commitments to an offer are used in a scenario."""

    scenario: str
    offer: str
    used: Use


def use(horizon: HorizonPlan) -> Table:
    """Coverage and utilization by offer and scenario, over the whole horizon."""
    rows: list[_OfferUse] = []
    offers = committed_offers(horizon)
    for s in horizon.scenarios:
        total = Use()
        for offer in offers:
            used = use_of(horizon, offer, s, quarters_of(horizon))
            rows.append(_OfferUse(s.name, offer, used))
            total += used.times(gpus_of(horizon, offer))
        if len(offers) > 1:
            rows.append(_OfferUse(s.name, ALL, total))
    columns = (
        C("scenario", "scenario"),
        C("offer", "commitments to"),
        C("coverage_frac", "coverage", "percent", get=lambda x: x.used.coverage_frac),
        C("utilization_frac", "utilization", "percent", get=lambda x: x.used.utilization_frac),
        C("eligible_hours", "eligible instance-h", "count", get=lambda x: x.used.eligible_h),
        C("committed_hours", "committed instance-h", "count", get=lambda x: x.used.committed_h),
        C("covered_hours", "both", "count", DATA, get=lambda x: x.used.covered_h),
    )
    notes = (
        "coverage: share of the eligible instance-hours (all but spot) that commitments cover; "
        "utilization: share of the committed instance-hours that are used; held and new ones, over the horizon",
    )
    return Table("use", "Coverage and utilization", columns, tuple(rows), notes if rows else ())


def committed_offers(horizon: HorizonPlan) -> list[str]:
    """Offers that something is committed to in some quarter, held before or signed."""
    names = {h.offer for q in horizon.quarters for h in q.plan.case.held or () if committed_in(q.plan, h.offer)}
    return sorted(names)


def held(horizon: HorizonPlan) -> Table:
    columns = (
        C("offer", "held"),
        C("purchase", "bought as", "way to buy"),
        C("instances", "instances", "count"),
        C("first_day", "from", missing="before", get=lambda h: _day(h.first_day)),
        C("last_day", "until", missing="beyond", get=lambda h: _day(h.last_day)),
        C("price_usd_per_h", "$/h each", "price", get=lambda h: h.usd_per_h),
        C("usd_per_month", "$/month", "money", missing="while it runs",
          get=lambda h: None if h.purchase == OWNED else usd_per_month(h)),
    )  # fmt: skip
    title = "Held before, paid in any case"
    return Table("held", title, columns, tuple(horizon.case.held or ()), tuple(part_quarters(horizon)))


def _day(day: date | None) -> str | None:
    return None if day is None else f"{day}"


def scenarios(horizon: HorizonPlan) -> Table:
    every = horizon.scenarios
    columns = (
        C("scenario", "scenario", get=lambda s: s.name),
        C("probability_frac", "probability", "percent", missing=" "),
        C("cost_usd", "cost in the horizon $", "money"),
        C("penalty_usd", "penalty $", "money", BEYOND_TEXT if any(s.penalty_usd for s in every) else DATA),
        C("counted_usd", "cost as counted, without what was held $", "money", DATA),
        C("known_usd", "with perfect foresight $", "money", missing=" ", get=lambda s: known_usd(horizon, s)),
        C("if_known_usd", "without what was held $", "money", DATA),
        C("if_known_bound_usd", "at least $", "money", DATA),
        C("regret_usd", "regret $", "money", missing=" "),
        C("regret_frac", "regret", "percent", missing=" ", get=lambda s: regret_frac(horizon, s)),
    )
    summary = {
        "expected": horizon.expected_cost_usd,
        "P50 of costs": percentile_usd(every, 0.5),
        "P90 of costs": percentile_usd(every, 0.9),
        "worst case": horizon.worst.cost_usd,
    }
    below = [Cells(scenario=name, cost_usd=usd) for name, usd in summary.items()] if len(every) > 1 else []
    notes: tuple[str, ...] = ()
    if any(s.regret_usd is not None for s in every):
        notes = ("regret: extra cost compared with perfect foresight of the scenario, penalties included",)
    if horizon.risk == "worst-case":
        notes = (f"the worst case was minimized, not the expected cost: {horizon.worst_scenario}", *notes)
    return Table("scenarios", "Cost by scenario", columns, every, notes, people=(*every, *below))


def by_quarter(horizon: HorizonPlan) -> Table:
    def of_quarter(q: int) -> C:
        title = months_name(horizon, q, q)
        return C(f"quarter_{q + 1}_usd", title, "money", get=lambda s: s.by_quarter_usd[q])

    name = C("scenario", "$ by quarter", get=lambda s: s.name)
    notes = ("plans and new commitments; what was held before comes on top",) if horizon.held_usd else ()
    columns = (name, *map(of_quarter, quarters_of(horizon)))
    return Table("by_quarter", "Cost by quarter", columns, horizon.scenarios, notes)


def baseline(horizon: HorizonPlan) -> Table:
    """The same requests at the API baseline, quarter by quarter; no rows of a plan that does not know it."""

    def of_quarter(q: int) -> C:
        title = months_name(horizon, q, q)
        return C(f"quarter_{q + 1}_usd", title, "money", get=lambda s: s.baseline_by_quarter_usd[q])

    columns = (
        C("scenario", "$ at the API", get=lambda s: s.name),
        *map(of_quarter, quarters_of(horizon)),
        C("baseline_usd", "in all", "money"),
        C("cost_usd", "this plan", "money"),
        C("saves_usd", "saves", "money"),
    )
    known = tuple(s for s in horizon.scenarios if s.baseline_by_quarter_usd is not None)
    notes = ("this plan: with what was held before, which is paid in any case",) if horizon.held_usd else ()
    return Table("baseline", "The same requests at the API baseline", columns, known, notes)


def showback(horizon: HorizonPlan) -> Table:
    """What each team bears of the expected cost, to the cent; people read the sum below."""
    title = "Showback by team, of the expected cost in the horizon"
    return showback_table(title, horizon_showback(horizon), "usd", {"committed": "committed, paid anyway $"})


def curve(horizon: HorizonPlan) -> Table:
    """Other numbers of the largest commitment."""
    found = horizon.curve
    now = sum(c.instances for c in horizon.signed_now if found and (c.offer, c.term) == (found.offer, found.term))
    columns = (
        C("commit", "commit", formats=PEOPLE,
          get=lambda p: (TICK if p.instances == now else "  ") + f"{p.instances}"),
        C("instances", "instances", "count", DATA),
        C("expected_usd", "expected $", "money", missing="no plan"),
        C("p90_usd", "P90 $", "money"),
        C("worst_usd", "worst $", "money"),
        C("gap_frac", "proved within", "percent"),
    )  # fmt: skip
    title = (
        f"Commit more or fewer {found.offer} {in_words(found.term)}" if found is not None else "Commit more or fewer"
    )
    return Table("curve", title, columns, found.points if found is not None else ())


def expiries(horizon: HorizonPlan) -> Table:
    columns = (
        C("scenario", "in scenario", missing="all scenarios"),
        C("last_month", "last month", get=lambda e: e.month),
        C("offer", "what ends"),
        C("purchase", "bought as", "way to buy"),
        C("instances", "instances", "count"),
        C("usd_per_month", "$/month", "money"),
        C("origin", "since"),
        C("when", "ends", get=lambda e: "in the horizon" if e.inside else "after it"),
    )
    return _together(horizon, Table("ladder", "When commitments end", columns, tuple(ladder(horizon))))


def _together(horizon: HorizonPlan, table: Table) -> Table:
    """The table, in which people read rows that differ in the scenario alone, their first cell, as one."""
    names: dict[tuple[Row, int], list[str]] = {}
    seen: Counter[Row] = Counter()
    for row in table.rows:
        scenario, *rest = row
        names.setdefault((tuple(rest), seen[row]), []).extend([scenario] if isinstance(scenario, str) else [])
        seen[row] += 1
    order = [s.name for s in horizon.scenarios]
    rows = ((", ".join(sorted(some, key=order.index)) or None, *rest) for (rest, _), some in names.items())
    return replace(table, people=tuple(rows))


def later(horizon: HorizonPlan) -> Table:
    columns = (
        C("scenario", "in scenario"),
        C("first_day", "from", get=lambda c: f"{c.first_day}"),
        C("offer", "sign later"),
        C("term", "term", "way to buy"),
        C("instances", "instances", "count"),
        C("last_day", "until", get=lambda c: f"{c.last_day}"),
        C("usd_per_month", "$/month", "money", get=usd_per_month),
        C("upfront_usd", "cash at signing $", "money"),
        C("owed_beyond_usd", "owed after the horizon $", "money", get=lambda c: owed_beyond_usd(horizon, c)),
        C("counted_usd", "counted $", "money", DATA),
        C("quarters_in_force", "quarters in it", "count", DATA, get=lambda c: len(quarters_covered(horizon, c))),
    )
    signed = sorted((c for c in horizon.commitments if c.scenario is not None), key=_when)
    return _together(horizon, Table("later", "Signed later, if the scenario comes", columns, tuple(signed)))


def _when(c: SignedCommitment) -> tuple[str, str, str, str]:
    return f"{c.first_day}", c.scenario or "", c.offer, c.term


def quarters(horizon: HorizonPlan) -> Table:
    """One row for each quarter's plan; every one is a plan like any other."""
    columns = (
        C("quarter", "quarter", "count", get=lambda q: q.quarter + 1),
        C("months", "months", get=lambda q: months_name(horizon, q.quarter, q.quarter)),
        C("scenario", "scenario", missing="all scenarios"),
        C("cost_usd_per_month", "$/month without commitments", "money", get=lambda q: q.plan.cost_usd_per_month),
        C("penalty_usd_per_month", "penalty $/month", "money", DATA, get=lambda q: q.plan.penalty_usd_per_month),
        C("peak_gpus", "GPUs at peak", "count", get=lambda q: _gpus(q.plan)),
        C("api_share_frac", "api", "share", get=lambda q: _of_requests(q.plan, "api_share_frac")),
        C("shed_share_frac", "shed", "share", get=lambda q: _of_requests(q.plan, "shed_share_frac")),
    )
    notes = (
        "each can be written as an ordinary plan: fleetplan report HORIZON.json --quarter 2 --scenario NAME --out "
        "plan.json",
    )
    return Table("quarters", "Plans by quarter", columns, horizon.quarters, notes)


def _gpus(plan: Plan) -> int:
    used = [d for pool in plan.pools for d in pool.deployments]
    each = [[n * d.deployment.gpus_per_replica for n in d.replicas_by_slot] for d in used]
    return max((sum(at) for at in zip(*each, strict=True)), default=0)


def _of_requests(plan: Plan, key: str) -> float:
    total = sum(w.requests_per_month for w in plan.workloads)
    return sum(getattr(w, key) * w.requests_per_month for w in plan.workloads) / total if total else 0.0
