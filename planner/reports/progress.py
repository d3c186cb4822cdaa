"""Progress on a terminal: what is going on, the best cost, the bound and the gap. Silent elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from planner.reports.text import percent, usd
from solvers.fleet_solution import Progress


@contextmanager
def progress_on_stderr(quiet: bool) -> Iterator[Callable[[Progress], None]]:
    """A live line on stderr while the block runs."""
    if quiet or not sys.stderr.isatty():
        yield lambda progress: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, SpinnerColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bars

    parts = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(bar_width=24), TimeElapsedColumn())
    with Bars(*parts, console=Console(stderr=True), transient=True) as bars:
        task = bars.add_task("reading", total=1.0)

        def show(p: Progress) -> None:
            bars.update(task, description=describe(p), completed=closed_frac(p))

        yield show


def describe(p: Progress) -> str:
    parts = [p.phase]
    if p.best_usd_per_month is not None:
        parts.append(f"best {usd(p.best_usd_per_month)}/month")
    if p.bound_usd_per_month:
        parts.append(f"bound {usd(p.bound_usd_per_month)}")
    if p.best_usd_per_month and p.bound_usd_per_month:
        parts.append(f"gap {percent(1 - p.bound_usd_per_month / p.best_usd_per_month, 2)}")
    return "  ".join(parts)


def closed_frac(p: Progress) -> float:
    """How much of the way the bound has come: full when it meets the best cost."""
    if not p.best_usd_per_month or not p.bound_usd_per_month:
        return 0.0
    return max(0.0, min(1.0, p.bound_usd_per_month / p.best_usd_per_month))
