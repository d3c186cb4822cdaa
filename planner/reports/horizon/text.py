"""The plan of a horizon in a terminal and as Markdown: what to sign now first, then what it leads to."""

from __future__ import annotations

from collections.abc import Iterator

from planner.io.errors import escaped
from planner.plan.horizon.horizon_plan import HorizonPlan
from planner.reports.horizon import phrases, tables
from planner.reports.phrases import proof
from planner.reports.csv import table_csv
from planner.reports.markdown import bullets, markdown, table_markdown, titled_markdown
from planner.reports.table import Table, paragraphs
from planner.reports.text import table_text, titled_text

FOLDED = ("by_quarter", "ladder", "quarters")


def horizon_text(horizon: HorizonPlan, seconds: float | None = None) -> str:
    """The whole report; `seconds` is how long the planning took, where that is known."""
    first, *others = (t for t in tables.tables_of(horizon) if t.rows)
    head = list(_headline(horizon, seconds))
    shown = [table_text(first) if first.name == "sign_now" else _titled(first)]
    return paragraphs([head, *shown, *(_titled(t) for t in others), _closing(horizon)])


def _titled(table: Table) -> list[str]:
    return table_text(table) if table.columns[0].title == table.title.lower() else titled_text(table)


def _headline(horizon: HorizonPlan, seconds: float | None) -> Iterator[str]:
    took = f" in {seconds:.1f} s" if seconds is not None else ""
    yield f"{escaped(horizon.name)}   {', '.join(phrases.facts(horizon))}   {proof(horizon)}{took}"
    yield f"  {escaped(phrases.sign_now(horizon))}"
    yield from (f"  {escaped(line)}" for line in (*phrases.costs(horizon), *phrases.long_requests(horizon)))


def _closing(horizon: HorizonPlan) -> Iterator[str]:
    yield from (f"  {escaped(line)}" for line in remarks(horizon))


def remarks(horizon: HorizonPlan) -> Iterator[str]:
    """What the tables do not say."""
    told = (phrases.value_of_scenarios, phrases.long_terms, phrases.proved)
    yield from (line for say in told if (line := say(horizon)))
    yield from phrases.vendor_caps(horizon)
    yield from (f"note: {note}" for note in horizon.notes)


def horizon_markdown(horizon: HorizonPlan) -> str:
    answer = phrases.sign_now(horizon)
    head = [f"# {markdown(horizon.name)}", "", f"**{markdown(answer[:1].upper() + answer[1:])}.**", ""]
    facts = f"{', '.join(phrases.facts(horizon))}; {proof(horizon)}"
    shown = [t for t in tables.tables_of(horizon) if t.rows]
    open_, folded = ([t for t in shown if (t.name in FOLDED) is fold] for fold in (False, True))
    return paragraphs(
        [
            [*head, *bullets([facts, *phrases.costs(horizon), *phrases.long_requests(horizon), *remarks(horizon)])],
            *(titled_markdown(t) for t in open_),
            *(_folded(t) for t in folded),
        ]
    )


def _folded(table: Table) -> list[str]:
    summary = f"<details><summary>{markdown(table.title)} ({len(table.rows)})</summary>"
    return [summary, "", *table_markdown(table), "", "</details>"]


def horizon_csv(horizon: HorizonPlan, name: str) -> str:
    """One table by its name."""
    return table_csv(next(t for t in tables.tables_of(horizon) if t.name == name))
