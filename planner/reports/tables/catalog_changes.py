"""What an import of prices read, left out and changed, and how two catalog files differ."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from planner.catalog.entries import day_of
from planner.catalog.importing.changes import JUMP_FRAC, Changes, PriceChange
from planner.catalog.importing.importing import Imported
from planner.io.errors import escaped
from planner.io.formatting import counted
from planner.reports.table import Column as C
from planner.reports.table import Row, Table, paragraphs
from planner.reports.text import Report, titled_text

ROWS_SHOWN, NAMES_SHOWN = 20, 6
COLUMNS = (
    C("offer", "offer"),
    C("way", "way to buy"),
    C("before_usd_per_h", "before $/h", ".4f"),
    C("after_usd_per_h", "after $/h", ".4f"),
    C("change_frac", "change", "+.1%"),
    C("jump", "", missing=""),
)


def import_report(imported: Imported, changes: Changes, compared_with: str) -> Report:
    """What was read, what changed, and what was left out by name."""
    offers = imported.offers.values()
    regions, providers = ({getattr(o, name) for o in offers} for name in ("region", "provider"))
    files = counted(len(imported.files), "file")
    head = f"{counted(len(offers), 'offer')} of {counted(len(providers), 'provider')} "
    head += f"in {counted(len(regions), 'region')}, from {files}"
    head += f"; prices of {_dates(imported)}"
    left_out = _left_out(imported.left_out)
    data = {
        "files": [str(file) for file in imported.files],
        "offers": len(offers),
        "dates": list(imported.dates),
        "compared_with": compared_with,
        **_data(changes),
        "left_out": [{"why": why, "name": name, "rows": n} for (why, name), n in sorted(imported.left_out.items())],
    }
    return Report(paragraphs([[head], *_parts(changes, compared_with), left_out]), data)


def _dates(imported: Imported) -> str:
    """The days that prices are of, and whether some are of no day that is known."""
    known = [date for date in imported.dates if day_of(date)]
    span = f"{known[0]} to {known[-1]}" if len(known) > 1 else "".join(known)
    return ", and ".join([span] * bool(known) + ["unknown date"] * (len(known) < len(imported.dates)))


def diff_report(changes: Changes, before: str) -> Report:
    """How one catalog file differs from another."""
    return Report(paragraphs(_parts(changes, before)), _data(changes))


def _parts(changes: Changes, before: str) -> Iterator[list[str]]:
    changed = len({change.offer for change in changes.prices})
    counts = f"{len(changes.new_offers)} new, {changed} with changed prices, {changes.unchanged} unchanged"
    gone = f", {len(changes.gone_offers)} gone" if changes.gone_offers else ""
    yield [f"against {escaped(before)}: {counts}{gone}"]
    if changes.prices:
        rows = tuple(_row(change) for change in changes.prices[:ROWS_SHOWN])
        more = len(changes.prices) - len(rows)
        notes = (f"and {more} more; --format json has all",) if more else ()
        yield titled_text(Table("price_changes", "Changed prices", COLUMNS, rows, notes))
    for title, keys in (("New", changes.new_offers), ("Gone", changes.gone_offers)):
        if keys:
            yield [f"  {title}: {_names(list(keys))}"]


def _row(change: PriceChange) -> Row:
    jump = "JUMP" if change.is_jump else ""
    return change.offer, change.way, change.before_usd_per_h, change.after_usd_per_h, change.change_frac, jump


def _left_out(left_out: Counter[tuple[str, str]]) -> list[str]:
    if not left_out:
        return []
    by_why: dict[str, list[str]] = defaultdict(list)
    rows: Counter[str] = Counter()
    for (why, name), number in sorted(left_out.items()):
        by_why[why].append(name)
        rows[why] += number
    return ["  Left out", *(f"  - {why} ({counted(rows[why], 'row')}): {_names(by_why[why])}" for why in by_why)]


def _names(names: list[str]) -> str:
    shown = ", ".join(escaped(name) for name in names[:NAMES_SHOWN])
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
