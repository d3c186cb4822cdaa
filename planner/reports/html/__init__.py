"""The report as a page: one self-contained HTML file."""

from planner.reports.html.page import fragment, html_report

__all__ = ["fragment", "html_report"]
