"""Results as a user sees them: as text, as Markdown, as a page and as CSV."""

from __future__ import annotations

from planner.plan.plan import Plan
from planner.reports.csv import table_csv
from planner.reports.document import Document
from planner.reports.markdown import as_markdown
from planner.reports.page import as_page
from planner.reports.plan import plan_document
from planner.reports.text import as_text


def in_every_format(document: Document) -> tuple[str, str, str]:
    """For people: text, Markdown and page."""
    return as_text(document), as_markdown(document), as_page(document)


def plan_text(plan: Plan, seconds: float | None = None, verbose: bool = True, color: bool = False) -> str:
    return as_text(plan_document(plan, verbose=verbose), color, seconds)


def unwrapped(text: str) -> str:
    """On one line, so that sentences can be looked for."""
    return " ".join(text.split())


def first_screen(plan: Plan) -> str:
    """What a terminal shows unless it is asked for more."""
    return plan_text(plan, verbose=False)


def plan_markdown(plan: Plan) -> str:
    return as_markdown(plan_document(plan))


def plan_csv(plan: Plan, name: str = "fleet") -> str:
    return csv_of(plan_document(plan), name)


def csv_of(document: Document, name: str) -> str:
    """One table by its name."""
    return next(table_csv(table) for table in document.all_tables() if table.name == name)
