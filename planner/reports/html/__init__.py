"""The report as a page: one self-contained HTML file."""
