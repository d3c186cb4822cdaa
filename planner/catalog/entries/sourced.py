"""Where a figure comes from, and what an entry is called."""

from __future__ import annotations

from datetime import date as Date

from planner.io.validation import Strict

OWN_FIGURE = "your own figure"
UNKNOWN_DATE = "unknown"
"""of a figure that somebody else published without a day; a figure of one's own needs none"""


def day_of(written: str | None) -> Date | None:
    """The day that a date names; None where there is no date, or none that can be read."""
    try:
        return Date.fromisoformat(written or "")
    except ValueError:
        return None


def is_of_unknown_day(written: str | None) -> bool:
    """Whether a date says that nobody knows it, or says it in words: such a price counts as stale."""
    return written is not None and day_of(written) is None


class Sourced(Strict):
    """Something whose numbers come from somewhere."""

    source: str = OWN_FIGURE
    """Where the numbers come from."""
    date: str | None = None
    """When they were true, as YYYY-MM-DD; "unknown" where the source does not say."""
    assumption: str | None = None
    """Why a number that is not a published fact was assumed."""
    notes: str | None = None


class Named(Sourced):
    name: str | None = None
    aliases: tuple[str, ...] = ()
