"""Two plans of a horizon compared, as text and as Markdown."""

from __future__ import annotations

from collections.abc import Iterator

from planner.io.errors import escaped
from planner.io.formatting import percent, usd
from planner.plan.horizon.horizon_diff import HorizonDiff
from planner.reports.markdown import bullets, markdown, titled_markdown
from planner.reports.table import Column as C
from planner.reports.table import Table, paragraphs
from planner.reports.text import titled_text

NAMES = {"expected": "the expected cost", "worst-case": "the worst case"}
"""of what is minimized"""


def horizon_diff_text(diff: HorizonDiff) -> str:
    if diff.same:
        return "no change\n"
    return paragraphs([map(escaped, _headline(diff)), *(titled_text(t) for t in _tables(diff) if t.rows)])


def horizon_diff_markdown(diff: HorizonDiff) -> str:
    names = f"{diff.before} → {diff.after}" if diff.before != diff.after else diff.after
    head = f"# Changes of {markdown(names)}"
    if diff.same:
        return f"{head}\n\nNo change.\n"
    first, *others = _headline(diff)
    tables = (titled_markdown(t) for t in _tables(diff) if t.rows)
    return paragraphs([[head], [f"**{markdown(first)}**"], bullets(line.strip() for line in others), *tables])


def _headline(diff: HorizonDiff) -> Iterator[str]:
    a, b = diff.minimized_before_usd, diff.minimized_after_usd
    worst_case = diff.risk_after == "worst-case"
    share = f", {'+' if b > a else ''}{percent((b - a) / a, 1)}" if a else ""
    moved = f"{'+' if b > a else ''}{usd(b - a)}{share}" if a != b else "the same cost"
    yield f"{'worst case' if worst_case else 'expected'} {usd(a)} → {usd(b)} over the horizon  ({moved})"
    if worst_case:
        yield f"  expected {usd(diff.expected_before_usd)} → {usd(diff.expected_after_usd)}"
    if diff.risk_before != diff.risk_after:
        yield f"  they minimize different measures: {NAMES[diff.risk_before]} → {NAMES[diff.risk_after]}"
    if diff.quarters_before != diff.quarters_after:
        yield f"  {diff.quarters_before} → {diff.quarters_after} quarters: costs are not of the same months"
    unsure = max(diff.counted_before_usd - diff.bound_before_usd, diff.counted_after_usd - diff.bound_after_usd)
    if 0 < abs(b - a) < unsure and diff.risk_before == diff.risk_after:
        yield f"  the change is within the proof gap ({usd(unsure)})"
    if diff.same_case:
        yield "  both are made from the same demand file"
    if not diff.signed:
        yield "  what is signed is the same"


def _tables(diff: HorizonDiff) -> Iterator[Table]:
    signed = tuple(
        (c.scenario, c.first_day, c.offer, c.term, c.instances_before, c.instances_after,
         c.instances_after - c.instances_before)
        for c in diff.signed
    )  # fmt: skip
    columns = (
        C("scenario", "signed", missing="now"), C("first_day", "from"), C("offer", "offer"), C("term", "term"),
        C("before", "before", "count"), C("after", "after", "count"), C("change", "change", "+,.0f"),
    )  # fmt: skip
    yield Table("signed", "what is signed", columns, signed)
    rows = tuple(
        (s.scenario, s.cost_before_usd, s.cost_after_usd,
         None if s.cost_before_usd is None or s.cost_after_usd is None else s.cost_after_usd - s.cost_before_usd,
         s.regret_before_usd, s.regret_after_usd)
        for s in diff.scenarios
    )  # fmt: skip
    costs = (
        C("scenario", "scenario"), C("before_usd", "before $", "money"), C("after_usd", "after $", "money"),
        C("change_usd", "change $", "+,.0f"), C("regret_before_usd", "regret before $", "money"),
        C("regret_after_usd", "regret after $", "money"),
    )  # fmt: skip
    yield Table("scenarios", "cost by scenario", costs, rows)
