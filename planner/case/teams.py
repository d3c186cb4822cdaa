"""Rows that every showback may have beside those of teams."""

from __future__ import annotations

TEAM, NO_TEAM, SHARED, NOT_USED = KINDS = ("team", "no team", "shared", "not used")
"""of rows, in the order in which they are shown"""
TOTAL = "in all"
ROW_NAMES = {NO_TEAM: "no team", SHARED: "shared: engineers, vendors", NOT_USED: "not used"}
RESERVED = frozenset({TOTAL, *ROW_NAMES, *ROW_NAMES.values()})
"""names that a team may not have, in small letters"""
