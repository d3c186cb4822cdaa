"""Progress on stderr: what is going on, the best cost, the bound and the gap. A live line on a terminal; elsewhere,
where logs are kept, a line now and then."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from planner.io.errors import escaped
from planner.io.formatting import percent, usd
from solvers.search.fleet_solution import Progress

LINE_EVERY_S = 10.0
EVERY = "FLEETPLAN_PROGRESS_S"
"""names the seconds between two lines of a log, where others are wanted; inf: none"""


@contextmanager
def progress_on_stderr(quiet: bool) -> Iterator[Callable[[Progress], None]]:
    """Show progress while the block runs."""
    if quiet:
        yield lambda progress: None
        return
    if not sys.stderr.isatty():
        yield _Lines()
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


@contextmanager
def share_on_stderr(quiet: bool) -> Iterator[Callable[[str, float], None]]:
    """Show what is going on and how much of it is done."""
    with progress_on_stderr(quiet) as show:
        yield lambda what, done: show(Progress(f"{what} ({done:.0%})", None, None))


@contextmanager
def search_log_on_stderr() -> Iterator[Callable[[Progress], None]]:
    """A line for each round of pricing, and for each better plan or bound: for those who look into a search."""
    started, last = time.monotonic(), None

    def row(*cells: str) -> None:
        phase, *figures = cells
        print("  ".join([f"{phase:<48.48}", *(f"{cell:>12}" for cell in figures)]), file=sys.stderr, flush=True)

    def amount(usd_per_month: float | None) -> str:
        known = usd_per_month is not None and 0 < usd_per_month < float("inf")
        return f"{usd_per_month:,.2f}" if known else "-"

    def show(p: Progress) -> None:
        nonlocal last
        found = (p.best_usd_per_month, p.bound_usd_per_month)
        if p.round is None and (found == last or found == (None, None)):
            return
        last = found
        gap = "-"
        if p.best_usd_per_month and p.bound_usd_per_month:
            gap = percent(1 - p.bound_usd_per_month / p.best_usd_per_month, 3)
        made = (
            (amount(p.round.lp_usd_per_month), f"{p.round.columns:,}", f"{p.round.cuts:,}") if p.round else ("-",) * 3
        )
        row(escaped(p.phase), f"{time.monotonic() - started:.1f}", *map(amount, found), gap, *made)

    row("phase", "seconds", "plan $/month", "bound", "gap", "LP", "columns", "cuts")
    yield show


class _Lines:
    """A line for a log, no more often than is worth reading; short work has none."""

    def __init__(self) -> None:
        self._started = self._last = time.monotonic()
        try:
            self._every_s = float(os.environ.get(EVERY, LINE_EVERY_S))
        except ValueError:
            self._every_s = LINE_EVERY_S

    def __call__(self, p: Progress) -> None:
        now = time.monotonic()
        if now - self._last >= self._every_s:
            self._last = now
            print(f"{now - self._started:5.0f} s  {describe(p)}", file=sys.stderr, flush=True)


def describe(p: Progress) -> str:
    parts = [escaped(p.phase)]
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
