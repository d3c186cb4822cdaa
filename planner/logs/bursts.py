"""Burstiness: how unevenly requests come within a minute.

Burstiness is the squared coefficient of variation of gaps between requests, each over the mean gap of its minute (or
of its ten minutes or hour, where requests are few), so that swings do not count again. A gap counts where both of its
requests are in the same window, so that nights and quiet hours are no bursts. Of n gaps of a Poisson process
the squares over their own mean fall short by n / (n + 1), which is made up for.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from planner.io.formatting import counted
from planner.logs.traffic import HOUR_S, MINUTE_S, Gaps

FEWEST_GAPS, FEWEST_IN_WINDOW, USUAL_IN_WINDOW = 200, 10, 30
"""gaps in all, in a window that counts, and in the usual window: near the fewest, only busy windows would count"""
COARSE_FRAC = 0.1
"""of the mean gap, up to which the tick of a clock does not blur gaps"""


@dataclass(frozen=True)
class Bursts:
    scv: float | None
    """None where it cannot be measured"""
    window_s: int
    gaps: int
    overall_cv: float | None
    """CV of all gaps as they are, swings included"""
    why_not: str = ""


def bursts_of(gaps: Gaps | None, requests: float) -> Bursts:
    """Burstiness from windows of a minute or, where these hold too few requests, of ten minutes or an hour."""
    if gaps is None:
        return Bursts(None, 0, 0, None, "counts do not show the gaps between requests")
    lead = np.nan_to_num(gaps.lead_us)
    total, count = float(gaps.total_us.sum() + lead.sum()), int(gaps.count.sum() + np.isfinite(gaps.lead_us).sum())
    if count < FEWEST_GAPS or total <= 0:
        return Bursts(None, 0, count, None, f"{counted(requests, 'request')}: too few to tell")
    overall = float(np.sqrt(max(0.0, (gaps.squares.sum() + (lead**2).sum()) * count / total**2 - 1)))
    for window_s in (MINUTE_S, 10 * MINUTE_S, HOUR_S):
        n, sums, squares = _windows(gaps, window_s)
        busy = (n >= FEWEST_IN_WINDOW) & (sums > 0)
        if window_s < HOUR_S and n.mean() < USUAL_IN_WINDOW:
            continue
        n, sums, squares = n[busy], sums[busy], squares[busy]
        if n.sum() < FEWEST_GAPS:
            continue
        mean_us = float(sums.sum() / n.sum())
        if gaps.zeros.sum() > COARSE_FRAC * count / 2 and not gaps.tick_us <= COARSE_FRAC * mean_us:
            tick = f"{gaps.tick_us / 1e6:g} s" if np.isfinite(gaps.tick_us) else "one minute or more"
            why = f"times have a resolution of {tick}, too coarse for gaps of {mean_us / 1e6:.2g} s"
            return Bursts(None, window_s, int(n.sum()), None, why)
        scv = float((squares / sums**2 * n**2 * (n + 1) / n).sum() / n.sum() - 1)
        return Bursts(scv, window_s, int(n.sum()), overall)
    return Bursts(None, 0, count, overall, "requests are too far apart to tell")


def _windows(gaps: Gaps, window_s: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Number, sum and squares of the gaps between two requests of the same window."""
    window = gaps.minute // (window_s // MINUTE_S)
    _, place = np.unique(window, return_inverse=True)
    inside = np.r_[False, window[1:] == window[:-1]]
    lead = np.where(inside, np.nan_to_num(gaps.lead_us), 0.0)
    n = np.bincount(place, gaps.count + inside)
    return n, np.bincount(place, gaps.total_us + lead), np.bincount(place, gaps.squares + lead**2)
