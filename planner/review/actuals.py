"""Cleaned hours as demand: workloads of a case with the rates and lengths that came, or that are forecast."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from planner.case.case import Bucket, Workload
from planner.case.demand.future.forecasting import WEEK
from planner.case.demand.usage import Hours, by_hour
from planner.case.length_buckets import spread_lengths
from planner.case.slots import KINDS, MONTHS_OF_A_QUARTER
from planner.performance.length_spread import LengthSpread
from planner.review.cleaning import Cleaned
from planner.review.period import FEWEST_HOURS, Span
from planner.review.usage_log import HOUR, UsageLog
from problems.constants import HOURS_PER_MONTH

SAME_RATES_FRAC, SAME_LENGTH_FRAC, NO_GROWTH_FRAC = 0.001, 0.01, 0.005
"""smaller differences are rounding of the log, and change nothing"""


def weekend_and_hour(log: UsageLog, first: int, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Weekend flag and hour of the day, for hours counted from the start of the log."""
    time = log.first + np.arange(first, first + count) * HOUR
    days = time.astype("datetime64[D]").astype(int)
    return (days + 3) % 7 >= 5, time.astype(int) % 24  # 1970-01-01 was a Thursday


@dataclass(frozen=True, eq=False)
class Actuals:
    """Actual demand of one workload in the period."""

    hours: Hours
    """with the growth that was planned taken out"""
    input_tokens: float | None
    """of a request, on average"""
    output_tokens: float | None


def actuals(clean: Cleaned, name: str, span: Span, growth_per_month_frac: float) -> Actuals | None:
    """None where no hour of it is known."""
    if name not in clean.log.workloads:
        return None
    k = clean.log.workloads.index(name)
    requests = clean.requests[k, span.first : span.stop]
    known = np.isfinite(requests)
    if known.sum() < FEWEST_HOURS or not requests[known].any():
        return None
    month = np.minimum((np.arange(len(requests)) / HOURS_PER_MONTH).astype(int), MONTHS_OF_A_QUARTER - 1)
    rps = requests / 3600 / (1 + growth_per_month_frac) ** month
    weekend, hour = weekend_and_hour(clean.log, span.first, len(requests))
    lengths = [_mean_length(tokens, k, span, requests) for tokens in (clean.log.input_tokens, clean.log.output_tokens)]
    return Actuals(by_hour(weekend[known], hour[known], rps[known]), *lengths)


def _mean_length(tokens: np.ndarray | None, k: int, span: Span, requests: np.ndarray) -> float | None:
    if tokens is None:
        return None
    row = tokens[k, span.first : span.stop]
    known = np.isfinite(row) & np.isfinite(requests)
    total = float(requests[known].sum())
    return float(row[known].sum()) / total if total > 0 and row[known].any() else None


def with_actual_demand(workload: Workload, found: Actuals) -> Workload:
    """The workload with the rates and lengths that came; growth as planned."""
    hours = found.hours
    changed = with_rates(workload, hours.weekday_rps, hours.weekend_rps, workload.growth_per_month_frac)
    return with_lengths(changed, found)


def with_rates(workload: Workload, weekday: tuple[float, ...], weekend: tuple[float, ...], growth: float) -> Workload:
    same_growth = abs(growth - workload.growth_per_month_frac) < NO_GROWTH_FRAC
    if same_growth and hourly_error(workload, weekday, weekend) < SAME_RATES_FRAC:
        return workload
    change = {"weekday_rps": weekday, "weekend_rps": weekend, "growth_per_month_frac": growth}
    return workload.model_copy(update=change)


def with_lengths(workload: Workload, found: Actuals) -> Workload:
    """Every length bucket longer or shorter by the same factor, so that the mean is the one that came."""
    factors = []
    for key, mean in (("input_tokens", found.input_tokens), ("output_tokens", found.output_tokens)):
        factor = 1.0 if mean is None else mean / sum(b.share_frac * getattr(b, key) for b in workload.buckets)
        factors.append(factor if abs(factor - 1) > SAME_LENGTH_FRAC else 1.0)
    if factors == [1.0, 1.0]:
        return workload
    longer, wordier = factors
    buckets = tuple(
        Bucket(share_frac=b.share_frac, input_tokens=longer * b.input_tokens, output_tokens=wordier * b.output_tokens)
        for b in workload.buckets
    )
    prompts, answers = _stretched(workload.input_spread, longer), _stretched(workload.output_spread, wordier)
    change = {
        "buckets": buckets,
        "ttft_prompt_tokens": longer * workload.ttft_prompt_tokens,
        "input_spread": prompts,
        "output_spread": answers,
    }
    return workload.model_copy(update=change | _cut_again(workload, prompts, answers))


def _cut_again(workload: Workload, prompts: LengthSpread | None, answers: LengthSpread | None) -> dict[str, Any]:
    """Lengths that are cut where those of the workload are, at contexts and the longest that is let in."""
    limit, cuts = workload.length_limit, workload.length_cuts or ()
    if prompts is None or answers is None or not (cuts or limit):
        return {}
    contexts = (*cuts, limit.tokens) if limit else cuts
    found = spread_lengths(prompts, answers, contexts, limit.tokens if limit else None)
    return found.fields if found.buckets else {"input_spread": None, "output_spread": None}


def _stretched(spread: LengthSpread | None, factor: float) -> LengthSpread | None:
    if spread is None:
        return None
    mean = None if spread.mean is None else factor * spread.mean
    return LengthSpread(p50=factor * spread.p50, p95=factor * spread.p95, mean=mean)


def hourly_error(workload: Workload, weekday: tuple[float, ...], weekend: tuple[float, ...]) -> float:
    """Mean absolute difference of the hours of a week, as a share of the workload's mean."""
    shares = [share for _, share in KINDS]
    pairs = ((workload.weekday_rps, weekday), (workload.weekend_rps, weekend))
    off = sum(s * np.abs(np.subtract(a, b)).sum() for s, (a, b) in zip(shares, pairs, strict=True))
    mean = sum(s * np.sum(a) for s, (a, _) in zip(shares, pairs, strict=True))
    return float(off / mean) if mean > 0 else 0.0


def from_forecast(workload: Workload, requests: np.ndarray, log: UsageLog) -> Workload:
    """The workload with the rates of the 13 weeks after the log, growth from month to month taken from them."""
    month = np.minimum((np.arange(len(requests)) / HOURS_PER_MONTH).astype(int), MONTHS_OF_A_QUARTER - 1)
    # Whole weeks of each month, so that weekends do not pass for growth.
    means = [requests[month == m][: 4 * WEEK].mean() for m in range(MONTHS_OF_A_QUARTER)]
    growth = (means[-1] / means[0]) ** (1 / (MONTHS_OF_A_QUARTER - 1)) - 1 if means[0] > 0 and means[-1] > 0 else 0.0
    growth = 0.0 if abs(growth) < NO_GROWTH_FRAC else round(float(growth), 6)
    weekend, hour = weekend_and_hour(log, log.hours, len(requests))
    hours = by_hour(weekend, hour, requests / 3600 / (1 + growth) ** month)
    return with_rates(workload, hours.weekday_rps, hours.weekend_rps, growth)


def scaled(workload: Workload, factor: float) -> Workload:
    weekday, weekend = (tuple(factor * r for r in rates) for rates in (workload.weekday_rps, workload.weekend_rps))
    return workload.model_copy(update={"weekday_rps": weekday, "weekend_rps": weekend})
