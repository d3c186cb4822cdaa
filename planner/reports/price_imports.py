"""What an import of prices read, left out and changed, and how two catalog files differ."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from planner.catalog.entries import day_of
from planner.catalog.importing.importing import Imported
from planner.catalog.importing.offers import JUMP_FRAC, Changes
from planner.io.formatting import counted, json_text
from planner.reports.document import Document, Lines, Part, TablePart
from planner.reports.table import Column as C
from planner.reports.table import Table

ROWS_SHOWN, NAMES_SHOWN = 20, 6


def import_document(imported: Imported, changes: Changes, compared_with: str) -> Document:
    """What was read, what changed, and what was left out by name."""
    offers = imported.offers.values()
    regions, providers = ({getattr(o, name) for o in offers} for name in ("region", "provider"))
    found = f"{counted(len(offers), 'offer')} of {counted(len(providers), 'provider')}"
    where = f"in {counted(len(regions), 'region')}, from {counted(len(imported.files), 'file')}"
    data = {
        "files": [str(file) for file in imported.files],
        "offers": len(offers),
        "dates": list(imported.dates),
        "compared_with": compared_with,
        **_data(changes),
        "left_out": [{"why": why, "name": name, "rows": n} for (why, name), n in sorted(imported.left_out.items())],
    }
    return Document(
        title="Import of prices",
        headline=f"{found} {where}; prices of {_dates(imported)}",
        parts=(
            Lines((_counts(changes, compared_with),)),
            *_parts(changes),
            Lines(tuple(_left_out(imported.left_out)), "Left out"),
        ),
        json=lambda: json_text(data),
    )


def _dates(imported: Imported) -> str:
    """The days that prices are of, and whether some are of no day that is known."""
    known = [date for date in imported.dates if day_of(date)]
    span = f"{known[0]} to {known[-1]}" if len(known) > 1 else "".join(known)
    return ", and ".join([span] * bool(known) + ["unknown date"] * (len(known) < len(imported.dates)))


def price_diff_document(changes: Changes, before: str) -> Document:
    """How one catalog file differs from another."""
    return Document(
        title="Changes of the catalog",
        headline=_counts(changes, before),
        parts=tuple(_parts(changes)),
        json=lambda: json_text(_data(changes)),
    )


def _counts(changes: Changes, before: str) -> str:
    changed = len({change.offer for change in changes.prices})
    counts = f"{len(changes.new_offers)} new, {changed} with changed prices, {changes.unchanged} unchanged"
    gone = f", {len(changes.gone_offers)} gone" if changes.gone_offers else ""
    return f"against {before}: {counts}{gone}"


def _parts(changes: Changes) -> Iterator[Part]:
    columns = (
        C("offer", "offer"),
        C("way", "way to buy"),
        C("before_usd_per_h", "before $/h", ".4f"),
        C("after_usd_per_h", "after $/h", ".4f"),
        C("change_frac", "change", "+.1%"),
        C("jump", "", missing="", get=lambda change: "JUMP" if change.is_jump else ""),
    )
    more = len(changes.prices) - ROWS_SHOWN
    notes = (f"and {more} more; --format json has all",) if more > 0 else ()
    yield TablePart(Table("price_changes", "Changed prices", columns, tuple(changes.prices[:ROWS_SHOWN]), notes))
    for title, keys in (("New", changes.new_offers), ("Gone", changes.gone_offers)):
        if keys:
            yield Lines((f"{title}: {_names(list(keys))}",))


def _left_out(left_out: Counter[tuple[str, str]]) -> Iterator[str]:
    by_why: dict[str, list[str]] = defaultdict(list)
    rows: Counter[str] = Counter()
    for (why, name), number in sorted(left_out.items()):
        by_why[why].append(name)
        rows[why] += number
    yield from (f"{why} ({counted(rows[why], 'row')}): {_names(names)}" for why, names in by_why.items())


def _names(names: list[str]) -> str:
    shown = ", ".join(names[:NAMES_SHOWN])
    more = len(names) - NAMES_SHOWN
    return f"{shown} and {more} more" if more > 0 else shown


def _data(changes: Changes) -> dict[str, Any]:
    return {
        "new": list(changes.new_offers),
        "gone": list(changes.gone_offers),
        "unchanged": changes.unchanged,
        "changed": [asdict(c) | {"change_frac": c.change_frac, "jump": c.is_jump} for c in changes.prices],
        "jump_frac": JUMP_FRAC,
    }
