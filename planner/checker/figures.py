"""Every figure of a saved plan against the same one worked out again: two trees, compared leaf by leaf."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import chain
from typing import Any

import numpy as np

MONTH_HOURS = 730.0
REL = 1e-6
"""figures may differ by a millionth"""
SMALL = 1e-9
"""of the largest amount that was added or subtracted to get them"""
NAMES = ("limit", "key", "workload", "label", "name", "offer")
"""keys that say which entry of a list is meant"""
MORE_NAMES = ("name", "purchase", "term", "option", "slot")
AMOUNT = "usd_per_month"


def near(a: float, b: float, of: float = 1.0) -> bool:
    """Equal but for rounding; `of` is the size of what was added or subtracted to get them."""
    return math.isclose(a, b, rel_tol=REL, abs_tol=SMALL * of)


def differs(what: str, claimed: float | None, true: float | None, of: float = 1.0) -> Iterator[str]:
    """The sentence about a figure that is not so."""
    if claimed is None or true is None:
        if claimed is not true:
            yield f"{what} is {true}, not {claimed}"
    elif not near(claimed, true, of):
        yield f"{what} is {true:.10g}, not {claimed:.10g}"


def is_not(what: str, claimed: object, true: object) -> Iterator[str]:
    """Report a name or word that differs from the true one."""
    if claimed != true:
        yield f"{what} is {true}, not {claimed}"


def figures_that_differ(claimed: Any, true: Any, where: str = "", of: float = 1.0) -> Iterator[str]:
    """A sentence for every leaf that is not as it should be."""
    if claimed == true:
        return
    if isinstance(claimed, dict) and isinstance(true, dict):
        yield from _entries_that_differ(claimed, true, where)
    elif isinstance(claimed, list) and isinstance(true, list):
        yield from _items_that_differ(claimed, true, where)
    elif _is_number(claimed) and _is_number(true):
        if not near(claimed, true, of):
            yield f"{where} is {true:.10g}, not {claimed:.10g}"
    else:
        yield f"{where} is {_shown(true)}, not {_shown(claimed)}"


def _entries_that_differ(claimed: dict[str, Any], true: dict[str, Any], where: str) -> Iterator[str]:
    amounts = [abs(x) for key, x in true.items() if key.endswith(AMOUNT) and _is_number(x)]
    for key in dict.fromkeys([*true, *claimed]):
        of = max([1.0, *amounts]) if key.endswith(AMOUNT) else 1.0
        inner = f"{where}.{key}" if where else key
        yield from figures_that_differ(claimed.get(key), true.get(key), inner, of)


def _items_that_differ(claimed: list[Any], true: list[Any], where: str) -> Iterator[str]:
    if len(claimed) != len(true):
        there, missing = (_named(a, b) for a, b in ((claimed, true), (true, claimed)))
        yield f"{where} has {len(true)} entries, not {len(claimed)}" + "".join(
            f"; {word} {', '.join(names)}" for word, names in (("without", there), ("but with", missing)) if names
        )
        return
    of = max([1.0, *(abs(x) for x in true if _is_number(x))])
    differing = [
        list(figures_that_differ(mine, other, f"{where}[{_name_of(other) or k}]", of))
        for k, (mine, other) in enumerate(zip(claimed, true, strict=True))
    ]
    if all(isinstance(x, dict | list) for x in true):
        yield from chain.from_iterable(differing)
    elif wrong := [problem for problems in differing for problem in problems]:
        yield wrong[0] + (f" ({len(wrong)} of {len(true)} such figures differ)" if len(wrong) > 1 else "")


def _named(some: list[Any], others: list[Any]) -> list[str]:
    """The entries of a list that the other one lacks, by name."""
    known = {_name_of(x) for x in others}
    return [name for x in some if (name := _name_of(x)) and name not in known]


def _name_of(entry: Any) -> str:
    if not isinstance(entry, dict):
        return ""
    entry = entry.get("deployment") or entry
    if not isinstance(entry, dict):
        return ""
    first = next((key for key in NAMES if entry.get(key) is not None), None)
    named = (first, *(key for key in MORE_NAMES if key != first))
    return " ".join(str(entry[key]) for key in named if key is not None and entry.get(key) is not None)


def _is_number(x: Any) -> bool:
    return isinstance(x, int | float) and not isinstance(x, bool)


def _shown(x: Any) -> str:
    return f"{x!r:.80}" if isinstance(x, dict | list) else str(x)


def in_words(problems: Iterator[str]) -> list[str]:
    """Each problem on a line of its own, and last of all that of a plan that cannot be worked out to the end."""
    found: list[str] = []
    try:
        with np.errstate(all="ignore"):
            for problem in problems:
                found.append(_on_one_line(problem))
    except Exception as error:  # what cannot be worked out again is refused, whatever the reason
        found.append(_on_one_line(f"the plan cannot be worked out again: {type(error).__name__}: {error}"))
    return found


def _on_one_line(text: str) -> str:
    return "".join(c if c.isprintable() else " " for c in text)
