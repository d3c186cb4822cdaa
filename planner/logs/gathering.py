"""What logs hold, put together: requests go to whoever takes them, counts and metrics become traffic."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from planner.io.errors import input_error
from planner.logs.counts import CountRows, traffic_of_counts
from planner.logs.reading.prometheus import Metrics
from planner.logs.reading.requests import Counts, Log, Requests
from planner.logs.traffic import Traffic, traffic_of_counters


def traffic_in(
    log: Log,
    where: Path | str,
    take: Callable[[Requests], None],
    taken: Callable[[bool], list[Traffic]],
    counts: CountRows | None = None,
) -> list[Traffic]:
    """Traffic by key; raises InputError where a log holds nothing, or what does not go together.

    Requests go to `take`, piece by piece; `taken` then says what traffic they make, with dates or without. Counts
    go to `counts`, where that is given, and keep all of their keys.
    """
    rows = CountRows() if counts is None else counts
    metrics = Metrics(log.by, log.ledger)
    dated: set[bool] = set()
    try:
        for part in log.parts():
            if isinstance(part, Requests):
                take(part)
                dated |= {part.dated} if len(part.time_us) else set()
            elif isinstance(part, Counts):
                rows.add(part)
            else:
                metrics.add(part)
    except MemoryError:
        remedy = "Give one row an hour, or leave out older rows"
        raise input_error(where, "needs more memory than there is", remedy) from None
    if len(dated) > 1:
        raise input_error(where, "holds logs with dates and logs without", "Read them one by one")
    held = (("requests", dated), ("counts", len(rows.times)), ("metrics", metrics.first))
    kinds = [name for name, some in held if some]
    if len(kinds) > 1:
        raise input_error(where, f"holds {' and '.join(kinds)}", "They overlap: read one kind of them")
    if metrics.first:
        return traffic_of_counters(metrics.usable())
    if len(rows.times):
        return traffic_of_counts(rows, log.ledger, every_key=counts is not None) if rows.rows else []
    if not dated:
        raise input_error(where, "holds no request", "Check what was exported")
    return taken(dated.pop())
