"""A document in each format, by one name; a renderer is imported once somebody asks for its format."""

from __future__ import annotations

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
