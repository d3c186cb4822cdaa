"""Where a figure comes from, and what an entry is called."""

from __future__ import annotations

from planner.io.validation import Strict

OWN_FIGURE = "your own figure"


class Sourced(Strict):
    """Something whose numbers come from somewhere."""

    source: str = OWN_FIGURE
    """Where the numbers come from."""
    date: str | None = None
    """When they were true, as YYYY-MM-DD."""
    assumption: str | None = None
    """Why a number that is not a published fact was assumed."""
    notes: str | None = None


class Named(Sourced):
    name: str | None = None
    aliases: tuple[str, ...] = ()
