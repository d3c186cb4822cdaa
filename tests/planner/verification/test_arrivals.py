"""Drawn requests against the demand file that they are drawn from."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

import planner
from planner.case.case import Workload
from planner.verification.arrivals import HOURS, MINUTES, Stream, drawn_stream, swings
from tests.support.rows import for_each

DEMAND = """
workloads:
  - name: chat
    models: [llama-3.1-8b]
    forecast: {requests_per_day: 200k}
    tokens: {input: {p50: 800, p95: 4000}, output: {p50: 150, p95: 600}}
    caching: {shared_prefix_tokens: 500, prefix_hit_rate: 60%, template_tokens: 200, template_hit_rate: 30%}
    spot: {critical_share: 70%}
  - name: jobs
    models: [llama-3.1-8b]
    forecast: {requests_per_day: 100k}
    tokens: {buckets: [{input: 400, output: 100, share: 60%}, {input: 2000, output: 200, share: 40%}]}
menu: {gpus: [l4]}
baseline: openai/gpt-4o-mini
"""
STEADY = np.ones(MINUTES)
WEEK = range(HOURS)


@cache
def workload(name: str) -> Workload:
    return next(w for w in planner.case_from_text(DEMAND).workloads if w.name == name)


@cache
def chats() -> Stream:
    return drawn_stream(workload("chat"), np.full(HOURS, 1.0), STEADY, WEEK, np.random.default_rng(1))


def steady(scv: float, rates_rps: np.ndarray, seed: int = 2) -> np.ndarray:
    w = workload("jobs").model_copy(update={"arrival_scv": scv})
    return drawn_stream(w, rates_rps, STEADY, WEEK, np.random.default_rng(seed)).arrival_s


def test_every_hour_has_its_mean_rate() -> None:
    rates = np.random.default_rng(3).uniform(0.0, 2.0, HOURS)
    rates[50:60] = 0.0
    for scv in (0.5, 2.0):
        arrival = steady(scv, rates)
        assert (np.diff(arrival) >= 0).all() and arrival[0] >= 0 and arrival[-1] < 3600 * HOURS
        count = np.histogram(arrival, 3600.0 * np.arange(HOURS + 1))[0]
        assert (count[50:60] == 0).all()
        off = (count - 3600 * rates) / np.sqrt(scv * 3600 * np.maximum(rates, 0.01))
        assert np.abs(off).max() < 4.5 and off.mean() == pytest.approx(0.0, abs=0.3)
        assert off.std() == pytest.approx(1.0, abs=0.2)


@for_each(("scv", "rel"), [(0.5, 0.02), (1.0, 0.02), (6.0, 0.03), (89.0, 0.1)])
def test_gaps_have_the_squared_variation_of_the_file(scv: float, rel: float) -> None:
    gaps = np.diff(steady(scv, np.full(HOURS, 1.0)))
    assert gaps.var() / gaps.mean() ** 2 == pytest.approx(scv, rel=rel)


def test_a_week_of_bursts_does_not_begin_with_one() -> None:
    """In a process that has gone on for long the first minute is like any other."""
    rates = np.zeros(HOURS)
    rates[0] = 1.0
    first = [int((steady(40.0, rates, seed) < 60).sum()) for seed in range(600)]
    assert np.mean(first) == pytest.approx(60.0, abs=4 * np.std(first) / len(first) ** 0.5)


def test_rates_swing_by_the_minute_as_much_as_the_file_says() -> None:
    both = tuple(workload(name).model_copy(update={"rate_cv": cv}) for name, cv in (("chat", 0.21), ("jobs", 0.4)))
    drawn = np.stack([swings(both, 0.3, np.random.default_rng(seed)) for seed in range(12)])
    for k, cv in enumerate((0.21, 0.4)):
        assert drawn[:, k].mean() == pytest.approx(1.0, rel=0.01)
        assert drawn[:, k].std() == pytest.approx(cv, rel=0.03)
    together = [np.corrcoef(np.log(each))[0, 1] for each in drawn]
    assert np.mean(together) == pytest.approx(0.3, abs=0.02)
    ten_minutes = drawn[:, 0].reshape(12, -1, 10).mean(axis=2).std()
    assert ten_minutes / 0.21 == pytest.approx(0.71, abs=0.02), "Azure's conversation trace: 15% of 21%"


def test_counts_of_minutes_vary_by_swings_and_by_chance() -> None:
    w = workload("jobs").model_copy(update={"rate_cv": 0.25, "arrival_scv": 3.0})
    rng = np.random.default_rng(5)
    (factors,) = swings((w,), 0.0, rng)
    arrival = drawn_stream(w, np.full(HOURS, 2.0), factors, WEEK, rng).arrival_s
    count = np.histogram(arrival, 60.0 * np.arange(MINUTES + 1))[0]
    expected = 0.25**2 + 3.0 / 120
    assert count.var() / count.mean() ** 2 == pytest.approx(expected, rel=0.06)


def test_lengths_have_the_percentiles_of_the_file() -> None:
    stream = chats()
    assert np.percentile(stream.prompt, [50, 95]) == pytest.approx([800, 4000], rel=0.01)
    assert np.percentile(stream.output, [50, 95]) == pytest.approx([150, 600], rel=0.01)
    assert abs(np.corrcoef(np.log(stream.prompt), np.log(stream.output))[0, 1]) < 0.01
    assert stream.prompt.min() >= 1 and stream.output.min() >= 1
    assert (stream.prompt == np.round(stream.prompt)).all()


@pytest.mark.parametrize("name", ["chat", "jobs"])
def test_requests_are_in_the_buckets_that_the_plan_is_made_of(name: str) -> None:
    w = workload(name)
    stream = chats() if name == "chat" else drawn_stream(w, np.full(HOURS, 1.0), STEADY, WEEK, np.random.default_rng(6))
    n = len(stream)
    for k, bucket in enumerate(w.buckets):
        mine = stream.bucket == k
        share = bucket.share_frac
        assert mine.mean() == pytest.approx(share, abs=4.5 * (share * (1 - share) / n) ** 0.5)
        assert stream.prompt[mine].mean() == pytest.approx(bucket.input_tokens, rel=0.03)
        assert stream.output[mine].mean() == pytest.approx(bucket.output_tokens, rel=0.03)


def test_prefixes_and_templates_are_found_as_often_as_the_file_says() -> None:
    w, stream = workload("chat"), chats()
    long = stream.prompt > 701
    found, share = np.unique(stream.found[long], return_counts=True)
    assert found.tolist() == [0, 200, 500, 700]
    assert share / long.sum() == pytest.approx([0.4 * 0.7, 0.4 * 0.3, 0.6 * 0.7, 0.6 * 0.3], abs=0.005)
    assert (stream.found < stream.prompt).all(), "the last token is always computed"
    expected = np.mean([w.cached_tokens(p) for p in stream.prompt[:50_000].tolist()])
    assert stream.found.mean() == pytest.approx(expected, rel=0.01)
    assert stream.critical.mean() == pytest.approx(0.7, abs=0.005)


def test_the_seed_decides() -> None:
    w, rates = workload("chat"), np.full(HOURS, 0.1)
    one, same, other = (drawn_stream(w, rates, STEADY, WEEK, np.random.default_rng(seed)) for seed in (1, 1, 2))
    assert all(np.array_equal(getattr(one, k), getattr(same, k)) for k in ("arrival_s", "prompt", "output", "found"))
    assert len(one) != len(other) or not np.array_equal(one.arrival_s, other.arrival_s)
