"""The tables of the plan of a horizon, each defined once. Money is USD; a month is 730 hours."""

from __future__ import annotations

from collections import Counter
from datetime import date

from planner.case.case import OWNED
from planner.plan.horizon.horizon_plan import HorizonPlan, SignedCommitment
from planner.plan.horizon.horizon_view import (
    Use,
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
from planner.reports.horizon.phrases import part_quarters
from planner.reports.table import BEYOND_TEXT, DATA, FILES, TICK, Row, Table
from planner.reports.table import Column as C

NAMES = ("sign_now", "use", "held", "scenarios", "by_quarter", "curve", "ladder", "later", "quarters")
"""of all tables"""
ALL = "all offers, in GPU-hours"


def tables_of(horizon: HorizonPlan) -> tuple[Table, ...]:
    """All tables, always in the same order."""
    return (
        sign_now(horizon), use(horizon), held(horizon), scenarios(horizon), by_quarter(horizon), curve(horizon),
        expiries(horizon), later(horizon), quarters(horizon),
    )  # fmt: skip


def about(horizon: HorizonPlan) -> Table:
    """The plan in a few figures, for a workbook."""
    facts: tuple[Row, ...] = (
        ("plan", horizon.name), ("status", horizon.status), ("minimized", horizon.risk),
        ("expected_cost_usd", horizon.expected_cost_usd),
        ("p50_usd", percentile_usd(horizon.scenarios, 0.5)), ("p90_usd", percentile_usd(horizon.scenarios, 0.9)),
        ("worst_scenario", horizon.worst_scenario), ("worst_cost_usd", horizon.worst.cost_usd),
        ("counted_usd", horizon.counted_usd), ("bound_usd", horizon.bound_usd), ("gap_frac", horizon.gap_frac),
        ("case_hash", horizon.case_hash), ("fleetplan_version", horizon.fleetplan_version),
    )  # fmt: skip
    return Table("about", "About", (C("key", "key"), C("value", "value")), facts)


def sign_now(horizon: HorizonPlan) -> Table:
    rows = tuple(
        (c.offer, c.term, c.instances, f"{c.first_day}", f"{c.last_day}", c.usd_per_h, usd_per_month(c), c.upfront_usd,
         owed_beyond_usd(horizon, c), c.inside_usd, c.beyond_usd, c.counted_usd, break_even_frac(horizon, c),
         expected_utilization(horizon, c), months_to_pay(horizon, c))
        for c in horizon.signed_now
    )  # fmt: skip
    columns = (
        C("offer", "sign now"), C("term", "term"), C("instances", "instances", "count"), C("first_day", "from"),
        C("last_day", "until"), C("price_usd_per_h", "$/h each", "price", FILES),
        C("usd_per_month", "$/month", "money"),
        C("upfront_usd", "cash now $", "money"), C("owed_beyond_usd", "owed after $", "money"),
        C("inside_usd", "in the horizon $", "money", DATA), C("beyond_usd", "after it $", "money", DATA),
        C("counted_usd", "counted $", "money", DATA),
        C("break_even_utilization_frac", "breaks even at", "percent", missing="not sold on demand"),
        C("expected_utilization_frac", "utilization", "percent"),
        C("months_to_pay", "months to pay", ",.1f", missing="never"),
    )  # fmt: skip
    notes = (
        "owed after: still to be paid when the horizon ends; breaks even at: the utilization at which it costs as much "
        "as the same hours on demand",
        "utilization: expected, of all commitments to the offer; months to pay: of such demand, until the hours used "
        "would have cost as much on demand as the whole term",
    )
    return Table("sign_now", "Sign now", columns, rows, notes if rows else ())


def use(horizon: HorizonPlan) -> Table:
    """Coverage and utilization by offer and scenario, over the whole horizon."""
    rows: list[Row] = []
    offers = committed_offers(horizon)
    for s in horizon.scenarios:
        total = Use()
        for offer in offers:
            used = use_of(horizon, offer, s, quarters_of(horizon))
            rows.append((s.name, offer, *_use(used)))
            total += used.times(gpus_of(horizon, offer))
        if len(offers) > 1:
            rows.append((s.name, ALL, *_use(total)))
    columns = (
        C("scenario", "scenario"), C("offer", "commitments to"), C("coverage_frac", "coverage", "percent"),
        C("utilization_frac", "utilization", "percent"), C("eligible_hours", "eligible instance-h", "count"),
        C("committed_hours", "committed instance-h", "count"), C("covered_hours", "both", "count", DATA),
    )  # fmt: skip
    notes = (
        "coverage: share of the eligible instance-hours (all but spot) that commitments cover; "
        "utilization: share of the committed instance-hours that are used; held and new ones, over the horizon",
    )
    return Table("use", "Coverage and utilization", columns, tuple(rows), notes if rows else ())


def committed_offers(horizon: HorizonPlan) -> list[str]:
    """Offers that something is committed to in some quarter, held before or signed."""
    names = {h.offer for q in horizon.quarters for h in q.plan.case.held or () if committed_in(q.plan, h.offer)}
    return sorted(names)


def _use(used: Use) -> Row:
    return used.coverage_frac, used.utilization_frac, used.eligible_h, used.committed_h, used.covered_h


def held(horizon: HorizonPlan) -> Table:
    rows = tuple(
        (h.offer, h.purchase, h.instances, _day(h.first_day), _day(h.last_day),
         h.usd_per_h, None if h.purchase == OWNED else usd_per_month(h))
        for h in horizon.case.held or ()
    )  # fmt: skip
    columns = (
        C("offer", "held"), C("purchase", "how"), C("instances", "instances", "count"),
        C("first_day", "from", missing="before"), C("last_day", "until", missing="beyond"),
        C("price_usd_per_h", "$/h each", "price"), C("usd_per_month", "$/month", "money", missing="while it runs"),
    )  # fmt: skip
    return Table("held", "Held before, paid in any case", columns, rows, tuple(part_quarters(horizon)))


def _day(day: date | None) -> str | None:
    return None if day is None else f"{day}"


def scenarios(horizon: HorizonPlan) -> Table:
    rows = tuple(
        (s.name, s.probability_frac, s.cost_usd, s.penalty_usd, s.counted_usd, known_usd(horizon, s), s.if_known_usd,
         s.if_known_bound_usd, s.regret_usd, regret_frac(horizon, s))
        for s in horizon.scenarios
    )  # fmt: skip
    blank = (None,) * 7
    summary: tuple[Row, ...] = ()
    if len(rows) > 1:
        summary = (
            ("expected", None, horizon.expected_cost_usd, *blank),
            ("P50 of costs", None, percentile_usd(horizon.scenarios, 0.5), *blank),
            ("P90 of costs", None, percentile_usd(horizon.scenarios, 0.9), *blank),
            ("worst case", None, horizon.worst.cost_usd, *blank),
        )
    penalties = BEYOND_TEXT if any(s.penalty_usd for s in horizon.scenarios) else DATA
    columns = (
        C("scenario", "scenario"), C("probability_frac", "probability", "percent", missing=" "),
        C("cost_usd", "cost in the horizon $", "money"), C("penalty_usd", "penalty $", "money", penalties),
        C("counted_usd", "comes to without what was held $", "money", DATA),
        C("known_usd", "had it been known $", "money", missing=" "),
        C("if_known_usd", "without what was held $", "money", DATA),
        C("if_known_bound_usd", "at least $", "money", DATA), C("regret_usd", "regret $", "money", missing=" "),
        C("regret_frac", "regret", "percent", missing=" "),
    )  # fmt: skip
    notes: tuple[str, ...] = ()
    if any(s.regret_usd is not None for s in horizon.scenarios):
        notes = ("regret: how much more than the plan that had known the scenario, penalties included",)
    if horizon.risk == "worst-case":
        notes = (f"the worst case was minimized, not the expected cost: {horizon.worst_scenario}", *notes)
    return Table("scenarios", "Cost by scenario", columns, rows, notes, people_rows=(*rows, *summary))


def by_quarter(horizon: HorizonPlan) -> Table:
    rows: tuple[Row, ...] = tuple((s.name, *s.by_quarter_usd) for s in horizon.scenarios)
    columns = (
        C("scenario", "$ by quarter"),
        *(C(f"quarter_{q + 1}_usd", months_name(horizon, q, q), "money") for q in quarters_of(horizon)),
    )
    notes = ("plans and new commitments; what was held before comes on top",) if horizon.held_usd else ()
    return Table("by_quarter", "Cost by quarter", columns, rows, notes)


def curve(horizon: HorizonPlan) -> Table:
    """Other numbers of the largest commitment."""
    found = horizon.curve
    points = found.points if found is not None else ()
    chosen = {c.instances for c in horizon.signed_now if found and (c.offer, c.term) == (found.offer, found.term)}
    now = sum(chosen)
    rows = tuple(
        ((TICK if p.instances == now else "  ") + f"{p.instances}", p.instances, p.expected_usd, p.p90_usd, p.worst_usd,
         p.gap_frac) for p in points
    )  # fmt: skip
    title = f"Commit more or fewer {found.offer} {found.term}" if found is not None else "Commit more or fewer"
    columns = (
        C("commit", "commit", formats=("text", "markdown", "html")), C("instances", "instances", "count", DATA),
        C("expected_usd", "expected $", "money", missing="no plan"), C("p90_usd", "P90 $", "money"),
        C("worst_usd", "worst $", "money"), C("gap_frac", "proved within", "percent"),
    )  # fmt: skip
    return Table("curve", title, columns, rows)


def expiries(horizon: HorizonPlan) -> Table:
    rows: tuple[Row, ...] = tuple(
        (e.scenario, e.month, e.offer, e.purchase, e.instances, e.usd_per_month, e.origin,
         "in the horizon" if e.inside else "after it")
        for e in ladder(horizon)
    )  # fmt: skip
    columns = (
        C("scenario", "in scenario", missing="every one"), C("last_month", "last month"), C("offer", "what ends"),
        C("purchase", "how"), C("instances", "instances", "count"), C("usd_per_month", "$/month", "money"),
        C("origin", "since"), C("when", "ends"),
    )  # fmt: skip
    return Table("ladder", "When commitments end", columns, rows, people_rows=_together(horizon, rows))


def _together(horizon: HorizonPlan, rows: tuple[Row, ...]) -> tuple[Row, ...]:
    """Rows that differ in the scenario alone, their first cell, as one; a row that is there twice stays twice."""
    names: dict[tuple[Row, int], list[str]] = {}
    seen: Counter[Row] = Counter()
    for row in rows:
        scenario, *rest = row
        names.setdefault((tuple(rest), seen[row]), []).extend([scenario] if isinstance(scenario, str) else [])
        seen[row] += 1
    order = [s.name for s in horizon.scenarios]
    return tuple((", ".join(sorted(some, key=order.index)) or None, *rest) for (rest, _), some in names.items())


def later(horizon: HorizonPlan) -> Table:
    signed = [c for c in horizon.commitments if c.scenario is not None]
    rows = tuple(_later(horizon, c) for c in sorted(signed, key=_when))
    columns = (
        C("scenario", "in scenario"), C("first_day", "from"), C("offer", "sign later"), C("term", "term"),
        C("instances", "instances", "count"), C("last_day", "until"), C("usd_per_month", "$/month", "money"),
        C("upfront_usd", "cash at signing $", "money"), C("owed_beyond_usd", "owed after the horizon $", "money"),
        C("counted_usd", "counted $", "money", DATA), C("quarters_in_force", "quarters in it", "count", DATA),
    )  # fmt: skip
    return Table("later", "Signed later, if the scenario comes", columns, rows, people_rows=_together(horizon, rows))


def _when(c: SignedCommitment) -> tuple[str, str, str, str]:
    return f"{c.first_day}", c.scenario or "", c.offer, c.term


def _later(horizon: HorizonPlan, c: SignedCommitment) -> Row:
    return (
        c.scenario, f"{c.first_day}", c.offer, c.term, c.instances, f"{c.last_day}", usd_per_month(c), c.upfront_usd,
        owed_beyond_usd(horizon, c), c.counted_usd, len(quarters_covered(horizon, c)),
    )  # fmt: skip


def quarters(horizon: HorizonPlan) -> Table:
    """One row for each quarter's plan; every one is a plan as any other."""
    rows = tuple(
        (q.quarter + 1, months_name(horizon, q.quarter, q.quarter), q.scenario, q.plan.cost_usd_per_month,
         q.plan.penalty_usd_per_month, _gpus(horizon, k), _of_requests(horizon, k, "api_share_frac"),
         _of_requests(horizon, k, "shed_share_frac"))
        for k, q in enumerate(horizon.quarters)
    )  # fmt: skip
    columns = (
        C("quarter", "quarter", "count"), C("months", "months"), C("scenario", "scenario", missing="all together"),
        C("cost_usd_per_month", "$/month besides commitments", "money"),
        C("penalty_usd_per_month", "penalty $/month", "money", DATA), C("peak_gpus", "GPUs at peak", "count"),
        C("api_share_frac", "api", "share"), C("shed_share_frac", "shed", "share"),
    )  # fmt: skip
    notes = ("each is a plan as any other: fleetplan report HORIZON.json --quarter 2 --scenario NAME --out plan.json",)
    return Table("quarters", "Plans by quarter", columns, rows, notes)


def _gpus(horizon: HorizonPlan, k: int) -> int:
    plan = horizon.quarters[k].plan
    used = [d for pool in plan.pools for d in pool.deployments]
    each = [[n * d.deployment.gpus_per_replica for n in d.replicas_by_slot] for d in used]
    return max((sum(at) for at in zip(*each, strict=True)), default=0)


def _of_requests(horizon: HorizonPlan, k: int, key: str) -> float:
    workloads = horizon.quarters[k].plan.workloads
    total = sum(w.requests_per_month for w in workloads)
    return sum(getattr(w, key) * w.requests_per_month for w in workloads) / total if total else 0.0
