"""Lengths that logs show on one side alone, prompts or answers, as distributions that a demand file may have."""

from __future__ import annotations

from planner.case.demand.workload_schema import MOST_TAIL
from planner.logs.lengths import Side
from planner.performance.length_spread import LengthSpread, least_mean

TYPICAL = {"prompt": (0.883, 3.536), "output": (0.611, 2.136)}
"""p50 and p95 over the mean in Azure's conversation trace of 2023, where a log has means only"""


def side_text(side: Side) -> str:
    parts = [f"mean {side.mean:,.1f}"]
    parts += [f"p{100 * q:g} {tokens:,.0f}" for q, tokens in side.percentiles.items() if q in (0.5, 0.95, 0.999)]
    return ", ".join(parts)


def spread_of(side: Side, name: str) -> tuple[LengthSpread, str]:
    """Lengths as they are written, and on what they rest."""
    if not side.percentiles:
        p50, p95 = (max(1.0, side.mean * ratio) for ratio in TYPICAL[name])
        basis = "only the mean is known; spread as in Azure's conversation trace of 2023"
    else:
        p50 = max(1.0, side.percentiles[0.5])
        p95 = min(max(p50, side.percentiles[0.95]), 200 * p50)
        basis = f"{side_text(side)}, from histograms (between their bounds on a logarithmic scale)"
    p50, p95, mean = round(p50, 1), round(p95, 1), round(side.mean, 1)
    if p95 == p50:
        return LengthSpread(p50=p50, p95=p95), basis
    if not least_mean(LengthSpread(p50=p50, p95=p95)) <= mean <= MOST_TAIL * p95:
        return LengthSpread(p50=p50, p95=p95), f"{basis}; no spread through both has the mean {side.mean:,.1f}"
    return LengthSpread(p50=p50, p95=p95, mean=mean), basis
