"""A document in each format, by one name; a renderer is imported once somebody asks for its format."""

from __future__ import annotations

from collections.abc import Callable

from planner.reports.document import Document


def as_html(document: Document) -> str:
    from planner.reports.page import as_page

    return as_page(document)


def as_markdown(document: Document) -> str:
    from planner.reports import markdown

    return markdown.as_markdown(document)


def as_workbook(document: Document) -> bytes:
    from planner.reports import xlsx

    return xlsx.as_workbook(document)


def as_csv(document: Document, table: str | None = None) -> str:
    """One table by its name, else the first."""
    from planner.reports.csv import one_table_csv

    return one_table_csv(document, table)


def as_json(document: Document) -> str:
    return document.json()


def as_text(document: Document, color: bool = False, seconds: float | None = None) -> str:
    from planner.reports import text

    return text.as_text(document, color, seconds)


RENDERERS: dict[str, Callable[[Document], str]] = {
    "html": as_html,
    "text": as_text,
    "markdown": as_markdown,
    "csv": as_csv,
    "json": as_json,
}
"""by the name of the format"""
SHORT = {"table": "text", "md": "markdown"}
"""names of formats on the command line"""


def rendered(document: Document, format: str, table: str | None = None) -> str:
    """The document in a format by either of its names; of csv, the table that is named."""
    name = SHORT.get(format, format)
    return as_csv(document, table) if name == "csv" else RENDERERS[name](document)
