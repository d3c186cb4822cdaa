"""Requests of a week, drawn from what the demand file says: rates by hour, swings, bursts and lengths.

Rates swing around their hourly means with the file's coefficient of variation v: the logarithm of the factor follows a
first-order autoregression by the minute that forgets within RELAXATION_MIN (in Azure's conversation trace of 2023 the
rate varies by 21% from minute to minute and by 15% over ten minutes: 0.71 of it, which 4 minutes give). Gaps
between arrivals are gamma-distributed with the file's squared coefficient of variation, in time that runs as fast as
the rate.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from planner.case.case import Workload
from planner.case.length_buckets import cut_of
from planner.performance.length_spread import CUTS, ONE_LENGTH, LengthSpread, lengths_at
from planner.plan.plan import Plan

HOURS, MINUTES = 168, 168 * 60
"""of a week, which begins on Monday"""
RELAXATION_MIN = 4.0
"""minutes after which a swing has faded to 1/e"""
MOST_TOKENS = 1e8


@dataclass(frozen=True, eq=False)
class Stream:
    """Requests of one workload in the order of their arrival."""

    arrival_s: np.ndarray
    prompt: np.ndarray
    output: np.ndarray
    found: np.ndarray
    """tokens of the prompt whose KV is cached, whatever caches of blocks have"""
    bucket: np.ndarray
    critical: np.ndarray

    def __len__(self) -> int:
        return len(self.arrival_s)

    def at(self, places: np.ndarray) -> Stream:
        """Some of the requests, in an order of their own."""
        return Stream(*(column[places] for column in vars(self).values()))


def slots_of_week(plan: Plan, month: int) -> np.ndarray:
    """The slot of each hour from Monday on [hour of the week]."""
    slot = {(s.month, s.day, s.hour): t for t, s in enumerate(plan.slots)}
    days = ["weekday"] * 5 + ["weekend"] * 2
    return np.array([slot[month, day, hour] for day in days for hour in range(24)])


def swings(workloads: tuple[Workload, ...], correlation: float, rng: np.random.Generator) -> np.ndarray:
    """Factors of the rates, of mean one [workload, minute]."""
    fade = math.exp(-1 / RELAXATION_MIN)
    drawn = rng.standard_normal((len(workloads) + 1, MINUTES))
    drawn[:, 1:] *= math.sqrt(1 - fade**2)
    for k in range(1, MINUTES):
        drawn[:, k] += fade * drawn[:, k - 1]
    together = math.sqrt(correlation) * drawn[:1] + math.sqrt(1 - correlation) * drawn[1:]
    sigma = np.array([[math.sqrt(math.log1p(w.rate_cv**2))] for w in workloads])
    return np.exp(sigma * together - sigma**2 / 2)


def drawn_stream(
    w: Workload, rates_rps: np.ndarray, factors: np.ndarray, hours: range, rng: np.random.Generator
) -> Stream:
    """Requests of some hours in a row, at a mean rate by the hour that swings by the minute."""
    some = slice(hours.start, hours.stop)
    by_minute = np.repeat(rates_rps[some], 60) * factors[60 * hours.start : 60 * hours.stop]
    return drawn_minutes(w, by_minute, 60 * hours.start, rng)


def drawn_minutes(w: Workload, rates_rps: np.ndarray, first: int, rng: np.random.Generator) -> Stream:
    """Requests of some minutes in a row, at a rate for each; the first minute counts from Monday on."""
    times = 60.0 * first + _arrivals(np.concatenate([[0.0], np.cumsum(60 * rates_rps)]), w.arrival_scv, rng)
    return stream_of(w, times, *drawn_lengths(w, len(times), rng), rng)


def stream_of(
    w: Workload,
    times: np.ndarray,
    prompt: np.ndarray,
    output: np.ndarray,
    bucket: np.ndarray,
    rng: np.random.Generator,
    cached: bool | None = None,
) -> Stream:
    """Requests with what they find in caches, as often as the file says, and whether they are critical.

    Where blocks are cached, which they are if the file has a curve of reuse, caches decide what of prefixes they find.
    """
    cached = w.reuses if cached is None else cached
    prefix = np.minimum(w.shared_prefix_tokens, prompt - 1)
    template = np.minimum(w.template_tokens, prompt - 1 - prefix)
    found = prefix * (rng.random(len(times)) < w.prefix_hit_frac) * (not cached)
    found = found + template * (rng.random(len(times)) < w.template_hit_frac)
    critical = rng.random(len(times)) < w.critical_share_frac
    return Stream(times, prompt.astype(float), output.astype(np.int64), np.floor(found), bucket, critical)


def _arrivals(expected: np.ndarray, scv: float, rng: np.random.Generator) -> np.ndarray:
    """Times of a stationary renewal process of unit rate, as many a minute as are expected."""
    total = float(expected[-1])
    if total <= 0:
        return np.zeros(0)
    reached = float(rng.random() * rng.gamma(1 / scv + 1, scv))  # what is left of the gap that is under way
    parts = [np.array([reached])]
    while reached < total:
        more = int(1.02 * (total - reached) + 4 * math.sqrt(max(1.0, scv) * total) + 16)
        gaps = rng.gamma(1 / scv, scv, more)
        part = reached + np.cumsum(gaps)
        parts.append(part)
        reached = float(part[-1])
    passed = np.concatenate(parts)
    times: np.ndarray = np.interp(passed[passed < total], expected, 60.0 * np.arange(len(expected)))
    return times


def drawn_lengths(w: Workload, count: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Prompts, answers and their buckets: from the file's distributions, or its buckets as they are.

    Those that are longer than is let in are among them; of buckets nobody knows by how much they are longer.
    """
    cut = cut_of(w)
    if w.input_spread is None or w.output_spread is None or cut is None:
        return _given_lengths(w, count, rng)
    prompt, of_prompts = _drawn(w.input_spread, count, rng)
    output, of_outputs = _drawn(w.output_spread, count, rng)
    return prompt, output, cut.index(of_prompts, of_outputs, prompt + output)


def _given_lengths(w: Workload, count: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    shares = np.array([b.share_frac for b in w.buckets])
    bucket = rng.choice(len(w.buckets), count, p=shares / shares.sum())
    prompt, output = (np.array([getattr(b, k) for b in w.buckets]) for k in ("input_tokens", "output_tokens"))
    prompt, output = (np.maximum(1.0, np.round(x[bucket])) for x in (prompt, output))
    if w.length_limit is not None and w.length_limit.refused_frac:
        prompt = np.where(rng.random(count) < w.length_limit.refused_frac, float(w.length_limit.tokens), prompt)
    return prompt, output, bucket


def _drawn(spread: LengthSpread, count: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Lengths, and the slice that each is in."""
    if spread.p95 <= spread.p50 * (1 + ONE_LENGTH):
        return np.full(count, max(1.0, round(spread.p50))), np.zeros(count, dtype=np.int64)
    share = rng.random(count)
    lengths = np.clip(np.round(lengths_at(spread, share, _inverse_normal(share))), 1.0, MOST_TOKENS)
    return lengths, np.searchsorted(CUTS[1:-1], share, side="right")


def _inverse_normal(share: np.ndarray) -> np.ndarray:
    """Standard normal values at these shares, by a fine table: off by less than 1e-4 up to five deviations."""
    normals: np.ndarray = np.interp(share, _SHARES, _NORMALS)
    return normals


_NORMALS = np.linspace(-5.5, 5.5, 22_001)
_SHARES = np.array([0.5 * math.erfc(-x / math.sqrt(2)) for x in _NORMALS])
