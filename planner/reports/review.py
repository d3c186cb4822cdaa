"""A review as text and as Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from planner.io.errors import escaped
from planner.io.formatting import usd, usd_small
from planner.reports.tables.bills.bill import bill_sentences, lacking_currencies
from planner.reports.markdown import bullets, inline, markdown, titled_markdown
from planner.reports.tables.review import review_tables, signed
from planner.reports.table import paragraphs
from planner.reports.text import titled_text
from planner.review.records import Review


def review_text(review: Review) -> str:
    sections: list[Iterable[str]] = [map(escaped, headline(review))]
    for items, title in ((review.decisions, "decisions asked for"), (review.risks, "risks")):
        if items:
            sections.append([f"  {title}", *(escaped(f"    {s.about}: {s.text}") for s in items)])
    if review.log_notes:
        sections.append(["  the log", *(escaped(f"    {note}") for note in review.log_notes)])
    return paragraphs([*sections, *map(titled_text, review_tables(review))])


def review_markdown(review: Review) -> str:
    _, _, *others = headline(review)
    sections = [[f"# Review {inline(review.name)}"], [inline(_period(review))], [f"**{inline(review.verdict)}**"]]
    sections.append(bullets(line.strip() for line in others))
    for items, title in ((review.decisions, "Decisions asked for"), (review.risks, "Risks")):
        if items:
            sections += [[f"## {title}"], [f"- **{markdown(s.about)}**: {markdown(s.text)}" for s in items]]
    if review.log_notes:
        sections += [["## The log"], [f"- {markdown(note)}" for note in review.log_notes]]
    return paragraphs([*sections, *map(titled_markdown, review_tables(review))])


def headline(review: Review) -> Iterator[str]:
    p, a, n = review.planned, review.actual, review.next
    yield f"{review.name}   {_period(review)}"
    yield f"  {review.verdict}"
    basis = actual_basis(review)
    yield f"  planned {usd(p.cost_usd_per_month)} / month, actual {usd(a.cost_usd_per_month)} / month ({basis})"
    if review.bill is not None:
        yield from (f"  {sentence}" for sentence in bill_sentences(review.bill))
    each = (usd_small(p.usd_per_1m_tokens), usd_small(a.usd_per_1m_tokens))
    yield f"  planned {each[0]} / 1M tokens, actual {each[1]} / 1M tokens"
    yield f"  {hindsight_sentence(review)}"
    cost = n.approved_usd_per_month
    change = cost / p.cost_usd_per_month - 1 if p.cost_usd_per_month else 0.0
    moved = "the same" if abs(change) < 0.0005 else signed(change)
    each = (f"{usd(cost)} / month ({moved})", f"{usd_small(n.approved_usd_per_1m)} / 1M tokens")
    yield f"  to approve for the next plan: {', '.join(each)}"
    for sentence in (*commitments_sentences(review), *savings_plan_sentences(review)):
        yield f"  {sentence}"
    if n.p90_approved_usd_per_month is not None:
        yield f"  if all demand is at its P90: {usd(n.p90_approved_usd_per_month)} / month"
    for sentence in ahead_sentences(review):
        yield f"  {sentence}"


def actual_basis(review: Review) -> str:
    """What the actual cost rests on, and what it lacks."""
    lacking = lacking_currencies(review.bill) if review.bill is not None else ""
    by_the_bill = f"by the bill, without {lacking}" if lacking else "by the bill"
    return by_the_bill if review.actual_basis == "bill" else review.actual_basis


def _period(review: Review) -> str:
    period = review.period
    return f"{period.first_hour}h to {period.last_hour}h {period.time_zone}, {period.hours:,} hours"


def commitments_sentences(review: Review) -> Iterator[str]:
    """State what is paid for commitments in the next quarter; nothing if there are none."""
    n = review.next
    if n.overlap_usd_per_month:
        on_time = "if expiring commitments are used until they lapse and only then renewed or replaced"
        at_once = f"{usd(n.cost_usd_per_month)} / month if their replacements start on the first day of the quarter"
        yield f"{usd(n.approved_usd_per_month)} / month {on_time}; {at_once}"
    if n.held_usd_per_month:
        paid = f"{usd(n.held_usd_per_month)} / month of the next plan is paid in any case for what is held"
        idle = f", {usd(n.idle_usd_per_month)} of it for what the plan does not use"
        yield paid + (idle if n.idle_usd_per_month >= 0.005 else "")


def savings_plan_sentences(review: Review) -> Iterator[str]:
    """State what savings plans on the bill cover, and that nothing is reserved in its place."""
    for c in review.savings_plans:
        plans = f"savings plan{'s' * (len(c.commitments) > 1)} {', '.join(c.commitments)}"
        pays = f"pay{'s' * (len(c.commitments) == 1)} for {c.covered_instances:.1f} x {c.offer}"
        cost = f"{usd(c.usd_per_month)} / month in any case"
        counted = "too little, or listed as held already: not counted again"
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
    signed = ", ".join(f"{s.instances} x {s.offer} {s.term}" for s in ahead.sign_now) or "nothing"
    yield f"over {span}, with P10, P50 and P90 as scenarios: sign {signed} now, {usd(ahead.expected_cost_usd)} expected"
    offers = {s.offer for s in ahead.sign_now}
    lapsing = [a for a in review.commitments if a.act == "renew" and a.offer in offers]
    if lapsing:
        what = ", ".join(f"{a.instances} x {a.offer} {a.purchase} (until {a.lapses})" for a in lapsing)
        rest = "from the first day on: this is that renewal, not an additional one"
        yield f"what is signed now includes what takes the place of {what} {rest}"


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
