"""What could serve the workloads of a plan and why it does not, for workloads that have it alike once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from planner.plan.plan import OptionRecord, Plan
from planner.reports.document import Fold, Group, Lines, Mark, Part, Sentence, TablePart
from planner.reports.phrases import alike
from planner.reports.table import HTML, MARKDOWN, TEXT, Column, Table
from planner.reports.tables.options import options, options_alike, rejected, rejections_alike

OPTIONS_IN_ALL, REASONS_IN_ALL, WORKLOADS_SHOWN = 500, 350, 100
"""rows of a page; each workload that is shown, the most expensive of many, has its part of them, at least:"""
OPTIONS_AT_LEAST, REASONS_AT_LEAST = 3, 3
OPTIONS_FIRST, NAMES_SHOWN = 8, 3
ALONE = (
    "Costs are of one workload served by itself, without engineers and limits; what is shared or mixed has its cost in "
    "the plan."
)


def option_parts(plan: Plan) -> Iterator[Part]:
    """Each workload's ways to be served alone, cheapest first, with what keeps each from being chosen."""
    yield Group(lambda: _options_of_text(plan), formats=TEXT)
    yield Group(lambda: _options_of_page(plan), "Options considered", key="options", formats=HTML)
    yield Group(lambda: (TablePart(options(plan), folded=True),), formats=MARKDOWN)


def _options_of_text(plan: Plan) -> Iterator[Part]:
    for names, mine in options_alike(plan):
        title = f"options for {alike(names)}{', each' if len(names) > 1 else ''}"
        yield TablePart(options(plan, mine, title, several=len(names) > 1), untitled=TEXT)


def _options_of_page(plan: Plan) -> Iterator[Part]:
    yield Lines((ALONE,), tone="prose")
    shown_workloads = _most_expensive(plan)
    groups = [(names, mine) for names, mine in options_alike(plan) if shown_workloads.intersection(names)]
    room = max(OPTIONS_AT_LEAST, OPTIONS_IN_ALL // len(groups))
    for names, mine in groups:
        shown = [o for k, o in enumerate(mine) if k < room or o.chosen or o.option.startswith("api ")]
        summary = _of_workloads(names, f"{len(mine)} option{'s' * (len(mine) != 1)}")
        yield Fold(summary, (*_first_and_rest(plan, names, mine, shown),), open=len(groups) <= 3)
    yield from _cut(len(plan.workloads), WORKLOADS_SHOWN, " workloads that cost less")


def _first_and_rest(
    plan: Plan, names: list[str], mine: Sequence[OptionRecord], shown: list[OptionRecord]
) -> Iterator[Part]:
    first = [o for k, o in enumerate(shown) if k < OPTIONS_FIRST or o.chosen]
    rest = [o for o in shown if o not in first]
    yield TablePart(options(plan, first, several=len(names) > 1))
    if rest:
        yield Fold(f"{len(rest)} more", (TablePart(options(plan, rest, several=len(names) > 1)),))
    yield from _cut(len(mine), len(shown), " expensive ones")


def rejection_parts(plan: Plan) -> Iterator[Part]:
    """What is not possible, and why."""
    if plan.rejected:
        yield Group(lambda: (Lines(tuple(_rejected_lines(plan)), "not used, and why"),), formats=TEXT)
        yield Group(lambda: _rejected_of_page(plan), "Not possible, and why", key="rejected", formats=HTML)
        yield TablePart(rejected(plan), folded=True, formats=MARKDOWN)


def _rejected_lines(plan: Plan) -> Iterator[str]:
    for names, grouped in rejections_alike(plan):
        yield from (f"{alike(names)}: {reason}: {', '.join(candidates)}" for reason, candidates in grouped.items())


def _rejected_of_page(plan: Plan) -> Iterator[Part]:
    shown_workloads = _most_expensive(plan)
    groups = [(names, reasons) for names, reasons in rejections_alike(plan) if shown_workloads.intersection(names)]
    room = max(REASONS_AT_LEAST, REASONS_IN_ALL // max(1, len(groups)))
    columns = (Column("reason", "reason and limit"), Column("count", "how many", "count"), Column("names", "such as"))
    for names, reasons in groups:
        rows = tuple((reason, len(of), alike(of)) for reason, of in list(reasons.items())[:room])
        table = TablePart(Table("rejected", "Not possible, and why", columns, rows))
        count = sum(len(of) for of in reasons.values())
        summary = _of_workloads(names, f"{count} not possible")
        yield Fold(summary, (table, *_cut(len(reasons), room, " reasons")), open=len(groups) <= 3)
    yield from _cut(len(plan.workloads), WORKLOADS_SHOWN, " workloads that cost less")


def _most_expensive(plan: Plan) -> set[str]:
    """The workloads that a page shows, of very many."""
    ranked = sorted(plan.workloads, key=lambda w: -w.cost_usd_per_month)
    return {w.name for w in ranked[:WORKLOADS_SHOWN]}


def _of_workloads(names: list[str], text: str) -> Sentence:
    """What holds for several workloads is shown once."""
    owners: list[str | Mark] = []
    for name in names[:NAMES_SHOWN]:
        owners += [", "] * bool(owners) + [Mark(name, "name")]
    more = f" and {len(names) - NAMES_SHOWN} more" if len(names) > NAMES_SHOWN else ""
    return (*owners, f"{more}: {text}")


def _cut(all_of: int, shown: int, what: str) -> Iterator[Part]:
    """The remark below a list that was cut."""
    if all_of > shown:
        yield Lines((f"and {all_of - shown} more{what}, in the saved plan",))
