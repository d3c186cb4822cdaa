"""Names of time zones."""

from __future__ import annotations

import re

_LIKE_A_ZONE = re.compile(r"[A-Za-z][A-Za-z0-9_+-]*(/[A-Za-z0-9_+-]+)*")
UTC = "UTC"


def is_time_zone(name: str) -> bool:
    """As the system knows them; where it knows none, whatever looks like one."""
    from zoneinfo import available_timezones

    known = available_timezones()
    return name in known if known else _LIKE_A_ZONE.fullmatch(name) is not None
