"""What a review says: plan against actual, hindsight, the bill, the next plan, commitments, decisions and risks."""

from __future__ import annotations

from collections.abc import Iterator

from planner.catalog.terms import in_words
from planner.io.formatting import usd, usd_small
from planner.reports.document import Card, Document, Figures, Hero, Items, Lines, Mark, Part, Section, TablePart
from planner.reports.phrases import amount
from planner.reports.table import HTML, PLAIN, Table
from planner.reports.tables import review as tables
from planner.reports.tables.bill import bill_sentences, bill_tables, lacking_currencies
from planner.reports.tables.review import signed
from planner.review.records import Review

TRIED = (
    "Both methods forecast the last weeks from earlier data only; the more accurate one is used. P10 and P90 come from "
    "the weeks tried."
)
HELD = (
    "The next plan is built around what is held: commitments that cover the whole quarter serve it first, those that "
    "lapse within it are paid until their last day. Costs of the next plan have both in them."
)


def review_document(review: Review) -> Document:
    p = review.period
    last, after = ((f.case_hash or "")[:19] for f in (review.planned, review.next.figures))
    span = f"{p.first_hour}h to {p.last_hour}h {p.time_zone}"
    return Document(
        title=f"Review {review.name}",
        about=(f"{span}, {p.hours:,} hours of {p.log_hours:,} in the log",),
        lead=lambda: (Lines((_verdict(review), *_headline(review)), formats=PLAIN), _answer(review)),
        parts=(
            Section("Decisions and risks", lambda: _decisions(review), key="decisions"),
            Section("The quarter", lambda: _quarter(review), key="quarter"),
            Section("The bill", lambda: _bill(review), key="bill"),
            Section("The next plan", lambda: _next(review), key="next"),
            Section("The log", lambda: _log(review), key="log"),
        ),
        foot=f"fleetplan {review.fleetplan_version}. A month is 730 hours. The last plan is {last}, the next {after}.",
        json=review.to_json,
        tables=lambda: tables.review_tables(review),
    )


def _verdict(review: Review) -> tuple[Mark]:
    return (Mark(review.verdict, "good" if review.as_planned else "strong"),)


def _headline(review: Review) -> Iterator[str]:
    p, a, n = review.planned, review.actual, review.next
    basis = actual_basis(review)
    yield f"planned {usd(p.cost_usd_per_month)} / month, actual {usd(a.cost_usd_per_month)} / month ({basis})"
    if review.bill is not None:
        yield from bill_sentences(review.bill)
    yield f"planned {usd_small(p.usd_per_1m_tokens)} / 1M tokens, actual {usd_small(a.usd_per_1m_tokens)} / 1M tokens"
    yield hindsight_sentence(review)
    cost = n.approved_usd_per_month
    change = cost / p.cost_usd_per_month - 1 if p.cost_usd_per_month else 0.0
    moved = "the same" if abs(change) < 0.0005 else signed(change)
    each = (f"{usd(cost)} / month ({moved})", f"{usd_small(n.approved_usd_per_1m)} / 1M tokens")
    yield f"to approve for the next plan: {', '.join(each)}"
    yield from (*commitments_sentences(review), *savings_plan_sentences(review))
    if n.p90_approved_usd_per_month is not None:
        yield f"if all demand is at its P90: {usd(n.p90_approved_usd_per_month)} / month"
    yield from ahead_sentences(review)


def _answer(review: Review) -> Hero:
    verdict = (Mark("The quarter went as planned.", "good"),) if review.as_planned else review.verdict
    said = (*commitments_sentences(review), *savings_plan_sentences(review), *ahead_sentences(review))
    lines = Lines((verdict, hindsight_sentence(review), *said), tone="prose")
    big = usd(review.next.approved_usd_per_month)
    return Hero(big, " / month to approve", (lines,), tuple(_cards(review)), formats=HTML)


def _cards(review: Review) -> Iterator[Card]:
    p, a = review.planned, review.actual
    basis = actual_basis(review) if review.actual_basis == "bill" else "the planned fleet: no bill was given"
    cost = a.cost_usd_per_month / p.cost_usd_per_month - 1 if p.cost_usd_per_month else 0.0
    yield Card("Planned", usd(p.cost_usd_per_month), "a month, in the last plan")
    yield Card("Actual", usd(a.cost_usd_per_month), f"a month ({signed(cost)}), {basis}")
    best = review.hindsight
    if best is None:
        yield Card("Best in hindsight", "–", "no fleet of the last plan's menu could serve the actual demand", bad=True)
    else:
        yield Card("Best in hindsight", usd(best.cost_usd_per_month), "a month, for actual demand, at the old prices")
    per = f"planned {usd_small(p.usd_per_1m_tokens)}, next {usd_small(review.next.approved_usd_per_1m)}"
    yield Card("Per 1M tokens", usd_small(a.usd_per_1m_tokens), per)
    off = review.trend[-1].forecast_off_frac
    yield Card("Requests", signed(off) or "0%", "against the plan, all workloads together")
    p90 = review.next.p90_approved_usd_per_month
    if p90 is None:
        yield Card("Next at P90", "–", "not known: the log is too short, or no fleet can meet the demand")
    else:
        yield Card("Next at P90", usd(p90), "a month, the best fleet if all demand is at its P90")


def _decisions(review: Review) -> Iterator[Part]:
    for key, title, items in (("asked", "decisions asked for", review.decisions), ("risks", "risks", review.risks)):
        yield Items(title, tuple((s.about, s.text) for s in items), none="None.", key=key)


def _table(table: Table, *remarks: str) -> Part:
    return TablePart(table, remarks=remarks, key=f"{table.name}-table")


def _quarter(review: Review) -> Iterator[Part]:
    from planner.reports.charts import review as pictures

    yield Figures((lambda: pictures.by_hour(review),))
    yield _table(tables.costs(review), *_hindsight(review))
    yield _table(tables.workloads(review))
    yield _table(tables.capacity(review), "Load is assumed to be proportional to tokens.")


def _hindsight(review: Review) -> Iterator[str]:
    if review.hindsight is not None and review.hindsight.fleet:
        yield f"in hindsight: {', '.join(review.hindsight.fleet)}"
    if review.actual_basis != "bill":
        yield f"actual: {review.actual_basis}"


def _bill(review: Review) -> Iterator[Part]:
    from planner.reports.charts import bill as pictures

    bill = review.bill
    if bill is not None:
        yield Lines(tuple(bill_sentences(bill)), tone="prose", formats=HTML)
        yield Figures((lambda: pictures.paid(bill), lambda: pictures.teams(bill)))
        yield from (_table(table) for table in bill_tables(bill))


def _next(review: Review) -> Iterator[Part]:
    from planner.reports.charts import review as pictures

    drawn = (pictures.bridge, pictures.next_demand, pictures.trend)
    yield Figures(tuple(lambda draw=draw: draw(review) for draw in drawn))  # type: ignore[misc]
    yield TablePart(tables.bridge(review), formats=PLAIN)
    yield _table(tables.forecasts(review), TRIED)
    yield from (_table(tables.ahead(review)), _table(tables.sign_now(review)))
    yield _table(tables.commitments(review), HELD)
    yield Lines(review.next.fleet, "The next fleet, at its busiest", key="next-fleet", formats=HTML)
    yield TablePart(tables.trend(review), formats=PLAIN)


def _log(review: Review) -> Iterator[Part]:
    findings = tables.findings(review)
    notes = review.log_notes
    if findings.records:
        yield TablePart(findings, key="findings-table",
                        remarks=("Hours left out never count as hours without demand.", *notes))  # fmt: skip
    else:
        yield Lines(("Nothing.", *notes), "log anomalies", key="findings-table", formats=HTML)
    yield Lines(notes, "the log", formats=PLAIN)


def actual_basis(review: Review) -> str:
    """What the actual cost rests on, and what it lacks."""
    lacking = lacking_currencies(review.bill) if review.bill is not None else ""
    by_the_bill = f"by the bill, without {lacking}" if lacking else "by the bill"
    return by_the_bill if review.actual_basis == "bill" else review.actual_basis


def commitments_sentences(review: Review) -> Iterator[str]:
    """State what is paid for commitments in the next quarter; nothing if there are none."""
    n = review.next
    if n.overlap_usd_per_month:
        on_time = "if expiring commitments are used until they lapse and only then renewed or replaced"
        at_once = f"{usd(n.cost_usd_per_month)} / month if their replacements start on the first day of the quarter"
        yield f"{usd(n.approved_usd_per_month)} / month {on_time}; {at_once}"
    if n.held_usd_per_month:
        paid = f"{usd(n.held_usd_per_month)} / month of the next plan is paid in any case for what is already held"
        idle = f", {usd(n.idle_usd_per_month)} of it for instances that the plan does not use"
        yield paid + (idle if n.idle_usd_per_month >= 0.005 else "")


def savings_plan_sentences(review: Review) -> Iterator[str]:
    """State what savings plans on the bill cover, and that nothing is reserved in its place."""
    for c in review.savings_plans:
        plans = f"savings plan{'s' * (len(c.commitments) > 1)} {', '.join(c.commitments)}"
        pays = f"pay{'s' * (len(c.commitments) == 1)} for {c.covered_instances:.1f} x {c.offer}"
        cost = f"{usd(c.usd_per_month)} / month in any case"
        counted = "too small to count, or already listed as held"
        if c.held_instances:
            counted = f"the next plan counts {c.held_instances} as held, and reserves only what it needs beyond that"
        yield f"{plans} {pays}, {cost}: {counted}"


def ahead_sentences(review: Review) -> Iterator[str]:
    """State what to sign now for several quarters; nothing if the review does not look so far."""
    ahead = review.ahead
    if ahead is None:
        return
    span = "the next quarter" if ahead.quarters == 1 else f"the {ahead.quarters} quarters from {ahead.first_day}"
    if ahead.expected_cost_usd is None:
        yield f"over {span}: {ahead.note}"
        return
    each = [f"{s.instances} x {s.offer} {in_words(s.term)}" for s in ahead.sign_now]
    each += [f"{amount(a.units, a.of_api)} of {a.name} for {a.term}" for a in ahead.allowances or ()]
    signed = ", ".join(each) or "nothing"
    yield f"over {span}, with P10, P50 and P90 as scenarios: sign {signed} now, {usd(ahead.expected_cost_usd)} expected"
    offers = {s.offer for s in ahead.sign_now}
    lapsing = [a for a in review.commitments if a.act == "renew" and a.offer in offers]
    if lapsing:
        what = ", ".join(f"{a.instances} x {a.offer} {a.purchase} (until {a.lapses})" for a in lapsing)
        rest = "from the first day on: this is that renewal, not an additional one"
        yield f"what is signed now includes the replacement of {what} {rest}"


def hindsight_sentence(review: Review) -> str:
    best = review.hindsight
    if best is None or review.hindsight_note:
        return review.hindsight_note
    cost = f"best fleet in hindsight {usd(best.cost_usd_per_month)} / month"
    if not best.told_apart:
        return f"{cost}: the difference is within the proof gap"
    if best.saves_usd_per_month > 0:
        return f"{cost}: {usd(best.saves_usd_per_month)} / month less than the quarter cost"
    return f"{cost}: actual demand would have needed {usd(-best.saves_usd_per_month)} / month more than was spent"
