"""One page to be signed: what is bought, what it costs beside the API, what is owed, what could change it, by whom."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from planner.io.formatting import percent, usd
from planner.judgement.concerns import concerns_of
from planner.judgement.spending import guessed_signature
from planner.plan.horizon.horizon_plan import MONTHS_OF_A_QUARTER, HorizonPlan
from planner.plan.horizon.horizon_view import (
    book_beyond_usd,
    expected_baseline_usd,
    owed_now_usd,
    percentile_usd,
    quarters_of,
    signed_now_usd_per_month,
)
from planner.plan.plan import Plan
from planner.plan.signing import allowances_to_be_signed
from planner.reports import horizon_phrases, phrases
from planner.reports.document import Document, Group, Lines, Mark, Part, TablePart, as_sentence
from planner.reports.first_screen import in_a_sentence
from planner.reports.table import Cells, Table
from planner.reports.table import Column as C
from planner.reports.tables import horizon as of_a_horizon
from planner.reports.tables.answers import to_sign, what_moves_it, whole_terms_usd, with_other_demand
from planner.reports.tables.horizon_allowances import allowances

RISKS, ROWS = 3, 8
"""how many risks are named, and rows of what is signed shown"""
SIGNED = ("offer", "term", "instances", "first_day", "last_day", "usd_per_month", "upfront_usd", "owed_beyond_usd",
          "book_beyond_usd")  # fmt: skip
"""columns of what is signed that fit on a page"""
ALLOWANCES_SIGNED = ("name", "amount", "term", "first_day", "last_day", "usd_per_month", "owed_beyond_usd")
SIGNERS = ("prepared by", "engineering", "finance")
LINE = "_" * 24
OVER = (("month_usd", "$ a month", 1), ("quarter_usd", "$ a quarter", 3), ("year_usd", "$ a year", 12))


def plan_summary(plan: Plan) -> Document:
    """Of a plan of one quarter; a year is four such quarters."""
    return Document(
        title=f"{plan.name}: summary for signature",
        about=(", ".join(phrases.facts(plan)), phrases.proof(plan)),
        parts=lambda: _plan_parts(with_other_demand(plan)),
        foot=_foot(plan.fleetplan_version, plan.case_hash),
    )


def horizon_summary(horizon: HorizonPlan) -> Document:
    return Document(
        title=f"{horizon.name}: summary for signature",
        about=(", ".join(horizon_phrases.facts(horizon)), phrases.proof(horizon)),
        parts=lambda: _horizon_parts(horizon),
        foot=_foot(horizon.fleetplan_version, horizon.case_hash),
    )


def _foot(version: str, case_hash: str) -> str:
    return f"fleetplan {version}. A month is 730 hours. Every figure belongs to the plan {case_hash[:19]}."


def _plan_parts(plan: Plan) -> Iterator[Part]:
    yield Lines((in_a_sentence(plan),), tone="prose")
    b = plan.baseline
    rows = [("this plan, all of it", plan.total_usd_per_month)]
    if plan.held_usd_per_month:
        rows.append(("of which what is held, paid in any case", plan.held_usd_per_month))
        rows.append(("of which new", plan.cost_usd_per_month))
    rows.append((f"the same requests at {phrases.baseline_name(plan)}", b.cost_usd_per_month))
    rows.append(("the plan costs less by" if b.savings_usd_per_month >= 0 else "the plan costs more by",
                 abs(b.savings_usd_per_month)))  # fmt: skip
    if plan.held_usd_per_month:
        both = b.cost_usd_per_month + plan.held_usd_per_month
        rows.append(("all of it at the API now, while what is held runs", both))
    note = "a year: four quarters like the one that was planned, with what is held in all of them"
    yield TablePart(_costs([(what, [months * amount for *_, months in OVER]) for what, amount in rows], note))
    yield Group((TablePart(to_sign(plan), most=ROWS, most_of_text=ROWS), Lines((_owed(plan),), tone="small")),
                "What is bought and signed")  # fmt: skip
    yield Lines(tuple(_risks(plan)), "Risks and assumptions")
    yield TablePart(_signatures())


def _costs(rows: list[tuple[str, list[float]]], note: str, titles: tuple[str, ...] = ()) -> Table:
    named = titles or tuple(title for _, title, _ in OVER)
    columns = (C("what", "what"), *(C(key, title, "money") for (key, *_), title in zip(OVER, named, strict=True)))
    cells = tuple(
        Cells({"what": what} | {key: usd for (key, *_), usd in zip(OVER, amounts, strict=True)})
        for what, amounts in rows
    )
    return Table("summary_costs", "What it costs", columns, cells, (note,))


def _owed(plan: Plan) -> str:
    """What is committed, and what of it is still to be paid after the quarter."""
    allowances = allowances_to_be_signed(plan)
    if not plan.commitments and not allowances:
        held = "; what is held is paid until it lapses" if plan.held_usd_per_month else ""
        return f"nothing is committed: everything new is pay-as-you-go{held}"
    cash = sum(c.upfront_usd for c in plan.commitments)
    owed = sum(c.beyond_horizon_usd for c in plan.commitments) + sum(a.beyond_horizon_usd for a in allowances)
    whole = usd(whole_terms_usd(plan))
    return f"committed: {whole} over the full terms, {usd(cash)} in cash at signing, {usd(owed)} owed after the quarter"


def _risks(plan: Plan) -> Iterator[str]:
    """What demand may do to the cost, and the concerns that weigh most; those that forbid to sign first."""
    found = sorted(concerns_of(plan), key=lambda c: not c.stops_signing)
    demand = what_moves_it(plan).records[0]
    low, high = usd(demand.low_usd_per_month), usd(demand.high_usd_per_month)
    lines = [("STOP: " if c.stops_signing else "") + f"{c.sentence}: {c.remedy}" for c in found[: RISKS - 1]]
    yield from lines
    yield f"if {demand.what}, a month costs {low} to {high}"
    if len(lines) < RISKS - 1:
        yield f"{len(plan.assumptions)} values were assumed, as nobody gave them: the report lists each"


def _signatures() -> Table:
    columns = (C("role", "role"), C("name", "name"), C("signature", "signature"), C("date", "date"))
    return Table("signatures", "Signatures", columns, tuple((role, LINE, LINE, LINE[:12]) for role in SIGNERS))


def _horizon_parts(horizon: HorizonPlan) -> Iterator[Part]:
    months = MONTHS_OF_A_QUARTER * len(quarters_of(horizon))
    first = (Mark(as_sentence(horizon_phrases.sign_now(horizon))),)
    yield Lines((first,), tone="prose")
    there, worst = expected_baseline_usd(horizon), horizon.worst
    rows = [("this plan, expected", horizon.expected_cost_usd)]
    if horizon.held_usd:
        rows.append(("of which what was held before, paid in any case", horizon.held_usd))
    if len(horizon.scenarios) > 1:
        rows.append(("P90 of the scenarios", percentile_usd(horizon.scenarios, 0.9)))
        rows.append((f"worst case ({worst.name})", worst.cost_usd))
    if there is not None:
        less = there - horizon.expected_cost_usd
        rows.append((f"the same requests at {horizon.case.baseline.replace('/', ' ', 1)}, expected", there))
        rows.append(("the plan costs less by" if less >= 0 else "the plan costs more by", abs(less)))
    each = [(what, [amount / months, MONTHS_OF_A_QUARTER * amount / months, amount]) for what, amount in rows]
    titles = ("$ a month", "$ a quarter", f"$ in {months} months")
    yield TablePart(_costs(each, "months and quarters: means over the horizon", titles))
    signed = horizon.signed_now
    owed = owed_now_usd(horizon)
    monthly, cash = signed_now_usd_per_month(horizon), sum(c.upfront_usd for c in signed)
    worth = sum(book_beyond_usd(horizon, c) or 0.0 for c in signed)
    said = f"committed now: {usd(monthly)} a month, {usd(cash)} in cash, {usd(owed)} owed after the horizon"
    said += f", when servers that are bought are still worth {usd(worth)}" if worth else ""
    whole = of_a_horizon.sign_now(horizon)
    short = replace(whole, columns=tuple(c for c in whole.columns if c.key in SIGNED), notes=())
    table = TablePart(short, most=ROWS, most_of_text=ROWS)
    nothing = not signed and not horizon.allowances_now
    then = horizon_phrases.later_allowances(horizon)
    lines = ("nothing is committed now" if nothing else said, *([f"later: {then}"] if then else []))
    yield Group((table, *_allowances_now(horizon), Lines(lines, tone="small")), "What is signed now")
    yield Lines(tuple(_horizon_risks(horizon)), "Risks and assumptions")
    yield TablePart(_signatures())


def _allowances_now(horizon: HorizonPlan) -> Iterator[Part]:
    whole = allowances(horizon)
    if horizon.allowances_now:
        now = tuple(x for x in whole.records if x.signed is not None and x.signed.scenario is None)
        columns = tuple(c for c in whole.columns if c.key in ALLOWANCES_SIGNED)
        yield TablePart(replace(whole, columns=columns, records=now), most=ROWS, most_of_text=ROWS)


def _horizon_risks(horizon: HorizonPlan) -> Iterator[str]:
    lines = [f"STOP: {c.sentence}: {c.remedy}" for c in guessed_signature(horizon)]
    known = [s for s in horizon.scenarios if s.regret_usd is not None]
    if len(horizon.scenarios) > 1 and known:
        most = max(known, key=lambda s: s.regret_usd or 0.0)
        lines.append(f"if {most.name} comes, the plan costs {usd(most.regret_usd or 0.0)} more than one that had known")
    if len(horizon.scenarios) == 1:
        lines.append("one way that demand develops was planned for: no scenario says what another one would cost")
    if budget := horizon_phrases.within_budget(horizon):
        lines.append(budget)
    spread = [a for a in horizon.case.assumptions if a.key == "scenarios.least_spread"]
    lines += [f"demand a year ahead: {a.value} on either side at least ({a.why.split(':')[0]})" for a in spread]
    lines.append(f"proved within {percent(horizon.gap_frac, 2)} of the least that is minimized; "
                 f"{len(horizon.case.assumptions)} values were assumed: the report lists each")  # fmt: skip
    yield from lines[:RISKS]
