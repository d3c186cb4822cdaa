"""A model as text in the LP format that solvers read, with names that say what rows and columns mean."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

import numpy as np

from problems.model import Key, Model

PER_LINE = 6
"""terms of a row on a line"""
MOST_LETTERS = 200
"""of a name: some solvers read no more than 255"""


def lp_text(model: Model, remarks: Iterable[str] = ()) -> str:
    """The model; remarks come first, a line each."""
    return "\n".join([*(f"\\ {_plain(remark)}" for remark in remarks), *_lines(model), ""])


def _lines(model: Model) -> Iterator[str]:
    columns, rows = names(model.column_keys), names(model.row_keys)
    yield "Minimize"
    costs = np.flatnonzero(model.cost)
    yield from _terms(" usd_per_month:", [(columns[c], float(model.cost[c])) for c in costs] or [(columns[0], 0.0)])
    yield "Subject To"
    for n, name in enumerate(rows):
        of_row = slice(model.starts[n], model.starts[n + 1])
        entries = zip(model.indices[of_row].tolist(), model.values[of_row].tolist(), strict=True)
        terms = [(columns[c], value) for c, value in entries]
        low, high = float(model.row_lower[n]), float(model.row_upper[n])
        if low == high:
            yield from _terms(f" {name}:", terms, f"= {_number(low)}")
            continue
        both = low > -np.inf and high < np.inf
        if low > -np.inf:
            yield from _terms(f" {name}{'.least' if both else ''}:", terms, f">= {_number(low)}")
        if high < np.inf:
            yield from _terms(f" {name}{'.most' if both else ''}:", terms, f"<= {_number(high)}")
    yield "Bounds"
    for name, low, high in zip(columns, model.lower.tolist(), model.upper.tolist(), strict=True):
        lower = "-inf" if low == -np.inf else _number(low)
        yield f" {lower} <= {name}" + (f" <= {_number(high)}" if high < np.inf else "")
    if model.integer.any():
        yield "General"
        yield from (f" {columns[c]}" for c in np.flatnonzero(model.integer).tolist())
    yield "End"


def names(keys: Iterable[Key]) -> list[str]:
    """A name for each key, each only once: letters, digits, dots and underscores."""
    seen: dict[str, int] = {}
    found = []
    for key in keys:
        name = re.sub(r"[^A-Za-z0-9.]+", "_", ".".join(map(str, key)))[:MOST_LETTERS]
        again = seen[name] = seen.get(name, 0) + 1
        found.append(name if again == 1 else f"{name}__{again}")
    return found


def _terms(head: str, terms: list[tuple[str, float]], end: str = "") -> Iterator[str]:
    written = [f"{'-' if value < 0 else '+'} {_number(abs(value))} {name}" for name, value in terms]
    for first in range(0, max(len(written), 1), PER_LINE):
        last = first + PER_LINE >= len(written)
        yield " ".join(
            filter(None, [head if not first else " ", *written[first : first + PER_LINE], end if last else ""])
        )


def _number(value: float) -> str:
    return repr(int(value)) if value == int(value) and abs(value) < 1e15 else repr(value)


def _plain(remark: str) -> str:
    return re.sub(r"[^ -~]+", "?", remark)
