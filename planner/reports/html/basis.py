"""What the plan rests on: assumptions, prices with their sources and dates, and what the proof covers."""

from __future__ import annotations

from planner.io.formatting import counted, percent, usd
from planner.plan.plan import Plan
from planner.reports.markup import Html, details, panel
from planner.reports.phrases import ASSUMED, PARTS, baseline_name, proof, served
from planner.reports.tables.html import table_html, table_panel
from planner.reports.tables.plan import assumptions
from planner.reports.tables.prices import prices
from planner.reports.tables.table import Column, Table

OFFERS_SHOWN = 80
ASSUMPTIONS_SHOWN = 120


def panels(plan: Plan, explained: bool) -> list[Html]:
    assumed = table_panel("assumptions", assumptions(plan), title=ASSUMED.capitalize(), most=ASSUMPTIONS_SHOWN)
    return [assumed, _prices(plan), _proof(plan), _more(plan, explained)]


def _more(plan: Plan, explained: bool) -> Html:
    """What this page does not hold, with the commands that would add it."""
    studied = plan.studies
    missing = [
        ("savings, lever by lever", "fleetplan study PLAN.json --only waterfall --out PLAN.json",
         studied is None or studied.waterfall is None or not studied.waterfall.compares),
        ("the volume from which hosting pays", "fleetplan study PLAN.json --only break-even --out PLAN.json",
         studied is None or studied.break_even is None),
        ("what each lever saves and each limit costs", "fleetplan explain PLAN.json --format json > WHY.json; "
         "fleetplan report PLAN.json --explanation WHY.json", not explained),
        (PARTS["verified"], "fleetplan verify PLAN.json", plan.verified is None),
    ]  # fmt: skip
    again = "plan again with a longer --time-limit"
    missing += [(PARTS[part.what], again, True) for part in plan.left_out or () if part.what != "verified"]
    rows = tuple((what, command) for what, command, is_missing in missing if is_missing)
    columns = (Column("what", "what"), Column("how", "how", "code"))
    return table_panel("more", Table("more", "More that can be worked out", columns, rows))


def _prices(plan: Plan) -> Html:
    menu = prices(plan)
    paid = menu.where(lambda row: bool(row["used"]) or row["of"] == plan.case.baseline)
    rest = details(f"Prices of everything on the menu ({len(menu.rows)})", table_html(menu, most=OFFERS_SHOWN))
    return panel("prices", menu.title, table_html(paid), rest if menu.rows else Html(""))


def _proof(plan: Plan) -> Html:
    p = plan.proof
    covered = plan.objective_usd_per_month
    what = "Cost and penalty" if plan.penalty_usd_per_month else "Cost"
    gap = f"gap {percent(plan.gap_frac, 2)}"
    rows = (
        ("Proof", proof(plan)),
        (f"{what} of the plan", f"{usd(covered)} / month"),
        ("No fleet that is covered costs less than", f"{usd(plan.bound_usd_per_month)} / month ({gap})"),
        ("What is covered", p.covers),
        (
            "Solver",
            f"{p.solver}; {counted(p.rounds, 'round')}, {counted(p.columns, 'column')}, "
            f"{counted(p.servings_left_out, 'serving')} left out",
        ),
        ("Checked", "the plan passed a checker that reads nothing but its JSON"),
        ("Served", served(plan)),
        ("Case", plan.case_hash),
    )
    return table_panel(
        "proof", Table("proof", "Proof", (Column("what", "what"), Column("said", "said")), rows, p.notes)
    )


def build_or_buy(plan: Plan) -> Html:
    """What else differs, where money is not all."""
    requests = sum(w.requests_per_month for w in plan.workloads)
    outside = sum(w.api_share_frac * w.requests_per_month for w in plan.workloads) / requests if requests else 0.0
    owed = {
        "up front": sum(c.upfront_usd for c in plan.commitments),
        "owed after the quarter": sum(c.beyond_horizon_usd for c in plan.commitments),
    }
    commitments = ", ".join(f"{usd(amount)} {what}" for what, amount in owed.items() if amount)
    team = plan.costs.engineers_usd_per_month
    latency = "planned for: TTFT and TPOT of each workload are kept at its percentile"
    falls = "reserved instances are still paid" if plan.commitments else "instances are given back"
    rows = (
        ("a month", usd(plan.cost_usd_per_month), usd(plan.baseline.cost_usd_per_month)),
        ("latency", latency, "whatever the provider gives"),
        ("requests sent to an API provider", percent(outside), "100%"),
        ("engineers", f"{usd(team)} a month" if team else "none counted", "none counted"),
        ("commitments", commitments or "none", "none"),
        ("if demand falls", falls, "the bill falls with it"),
    )
    api = Column("api", baseline_name(plan))
    columns = (Column("what", ""), Column("plan", "this plan"), api)
    return table_panel("build-or-buy", Table("build_or_buy", "Build or buy: what else differs", columns, rows))
