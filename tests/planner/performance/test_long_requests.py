"""Shares and means of long requests, held against an integration with arithmetic of its own, and against draws."""

from __future__ import annotations

import math

import numpy as np
import pytest

from planner.case.case import Bucket
from planner.case.length_buckets import (
    MOST_REFUSED_OF_SPREAD_FRAC,
    SMALLEST_SHARE,
    cut_at,
    given_lengths,
    spread_lengths,
)
from planner.checker.lengths import mean_lengths_up_to
from planner.performance.length_spread import LengthSpread
from planner.performance.long_requests import longer_than, share_longer
from tests.support.rows import for_each

Z95 = 1.6448536269514722
SWEEP = [
    (prompt, answer, tokens)
    for prompt in ((28_000.0, 90_000.0), (5_000.0, 14_000.0), (1_000.0, 60_000.0), (9_000.0, 9_000.0))
    for answer in ((300.0, 1_200.0), (400.0, 400.0), (2_000.0, 30_000.0))
    for tokens in (8_192, 40_960, 131_072, 200_000)
]


def sigma_of(p50: float, p95: float) -> float:
    return math.log(p95 / p50) / Z95


def integrated(prompt: tuple[float, float], answer: tuple[float, float], tokens: float) -> float:
    """Share of requests that are longer, answers in steps of equal width on a logarithmic scale."""
    if prompt[1] == prompt[0]:
        prompt, answer = answer, prompt
    total, step = 0.0, 0.002
    for k in range(-4_500, 4_501) if answer[1] > answer[0] else (0,):
        weight = step * math.exp(-((step * k) ** 2) / 2) / math.sqrt(2 * math.pi) if answer[1] > answer[0] else 1.0
        room = tokens - answer[0] * math.exp(sigma_of(*answer) * step * k)
        if room <= 0:
            total += weight
        elif prompt[1] == prompt[0]:
            total += weight * (prompt[0] > room)
        else:
            total += weight * 0.5 * math.erfc(math.log(room / prompt[0]) / sigma_of(*prompt) / math.sqrt(2))
    return total


@for_each(("prompt", "answer", "tokens"), SWEEP)
def test_the_share_of_long_requests_is_that_of_the_distribution(
    prompt: tuple[float, float], answer: tuple[float, float], tokens: int
) -> None:
    spreads = (LengthSpread(p50=p50, p95=p95) for p50, p95 in (prompt, answer))
    expected = integrated(prompt, answer, tokens)
    assert share_longer(*spreads, tokens) == pytest.approx(expected, rel=1e-3, abs=1e-9)


@pytest.mark.parametrize("mean", [None, 31_000.0, 40_000.0])
def test_means_of_long_requests_are_those_of_draws(mean: float | None) -> None:
    prompts, answers = LengthSpread(p50=28_000, p95=90_000, mean=mean), LengthSpread(p50=300, p95=1_200)
    rng = np.random.default_rng(7)
    prompt, answer = (_drawn(spread, rng.standard_normal(2_000_000)) for spread in (prompts, answers))
    long = prompt + answer > 100_000
    part = longer_than(prompts, answers, 100_000)
    assert part.share.sum() == pytest.approx(long.mean(), rel=0.02)
    assert part.prompt.sum() == pytest.approx((prompt * long).mean(), rel=0.02)
    assert part.answer.sum() == pytest.approx((answer * long).mean(), rel=0.03)


def _drawn(spread: LengthSpread, normals: np.ndarray) -> np.ndarray:
    from planner.performance.length_spread import lengths_at

    shares = 0.5 * (1 + np.vectorize(math.erf)(normals / math.sqrt(2)))
    return lengths_at(spread, shares, normals)


@for_each(("prompt", "answer", "tokens"), SWEEP)
def test_what_is_refused_or_lies_beyond_a_context_is_as_much_as_the_distribution_says(
    prompt: tuple[float, float], answer: tuple[float, float], tokens: int
) -> None:
    prompts, answers = (LengthSpread(p50=p50, p95=p95) for p50, p95 in (prompt, answer))
    longer = integrated(prompt, answer, tokens)
    lengths = spread_lengths(prompts, answers, [tokens])
    assert sum(b.share_frac for b in lengths.buckets) == pytest.approx(1)
    refused = lengths.length_limit.refused_frac if lengths.length_limit else 0.0
    beyond = sum(b.share_frac for b in lengths.buckets if b.input_tokens + b.output_tokens > tokens)
    if longer < 0.99 * SMALLEST_SHARE:
        assert (refused, lengths.length_cuts) == (0.0, None)
    elif longer < 0.99 * MOST_REFUSED_OF_SPREAD_FRAC:
        assert refused == pytest.approx(longer, rel=1e-3)
        assert beyond == 0
    elif 1.01 * MOST_REFUSED_OF_SPREAD_FRAC < longer < 1 - 1.01 * SMALLEST_SHARE:
        assert refused == 0
        assert beyond == pytest.approx(longer, rel=1e-3, abs=SMALLEST_SHARE)


def test_between_two_contexts_lie_as_many_requests_as_the_distribution_says() -> None:
    prompt, answer = (28_000.0, 90_000.0), (300.0, 1_200.0)
    prompts, answers = (LengthSpread(p50=p50, p95=p95) for p50, p95 in (prompt, answer))
    lengths = spread_lengths(prompts, answers, [131_072, 32_768], longest=200_000)
    assert lengths.length_cuts == (32_768, 131_072)
    longer = {tokens: integrated(prompt, answer, tokens) for tokens in (32_768, 131_072, 200_000)}
    totals = [(b.share_frac, b.input_tokens + b.output_tokens) for b in lengths.buckets]
    for low, high in ((32_768, 131_072), (131_072, 200_000)):
        inside = sum(share for share, tokens in totals if low < tokens <= high)
        expected = (longer[low] - longer[high]) / (1 - longer[200_000])
        assert inside == pytest.approx(expected, rel=1e-3)
    assert max(tokens for _, tokens in totals) < 200_000


def test_a_limit_inside_a_bucket_splits_it_as_the_distribution_does() -> None:
    prompt, answer = (28_000.0, 90_000.0), (300.0, 1_200.0)
    prompts, answers = (LengthSpread(p50=p50, p95=p95) for p50, p95 in (prompt, answer))
    cut = cut_at(prompts, answers, (), 131_072)
    longer = cut.too_long_frac(longer_than(prompts, answers, 100_000).share, 100_000)
    shares = np.array([b.share_frac for b in cut.buckets])
    expected = [integrated(prompt, answer, tokens) for tokens in (100_000, 131_072)]
    assert shares @ longer == pytest.approx((expected[0] - expected[1]) / (1 - expected[1]), rel=1e-3)


def test_buckets_of_a_file_are_refused_whole() -> None:
    def bucket(share: float, tokens: float) -> Bucket:
        return Bucket(share_frac=share, input_tokens=tokens, output_tokens=100)

    rare = (bucket(0.9995, 1_000), bucket(0.0005, 50_000))
    lengths = given_lengths(rare, [32_768])
    assert lengths.length_limit is not None
    assert lengths.length_limit.refused_frac == pytest.approx(0.0005)
    assert [b.share_frac for b in lengths.buckets] == pytest.approx([1.0])
    often = (bucket(0.98, 1_000), bucket(0.02, 50_000))
    assert given_lengths(often, [32_768]).buckets == often, "too many to refuse them unasked"
    asked = given_lengths(often, [32_768], longest=32_768)
    assert asked.length_limit is not None
    assert asked.length_limit.refused_frac == pytest.approx(0.02)


MOSTLY_REFUSED = [
    ((1_000.0, 20_000.0), (200.0, 2_000.0), 512),
    ((1_000.0, 100_000.0), (200.0, 20_000.0), 4_096),
    ((1_000.0, 100_000.0), (200.0, 20_000.0), 512),
    ((2_000.0, 9_000.0), (1_000.0, 5_000.0), 1_000),
    ((2_000.0, 9_000.0), (1_000.0, 5_000.0), 820),
    ((200.0, 400.0), (3_000.0, 60_000.0), 700),
    ((900.0, 900.0), (400.0, 8_000.0), 1_000),
    ((28_000.0, 90_000.0), (300.0, 1_200.0), 131_072),
]


@for_each(("prompt", "answer", "longest"), MOSTLY_REFUSED)
def test_the_means_of_what_is_let_in_are_those_of_draws_however_much_is_refused(
    prompt: tuple[float, float], answer: tuple[float, float], longest: int
) -> None:
    rng = np.random.default_rng(11)
    drawn = [p50 * np.exp(sigma_of(p50, p95) * rng.standard_normal(4_000_000)) for p50, p95 in (prompt, answer)]
    fits = drawn[0] + drawn[1] <= longest
    prompts, answers = (LengthSpread(p50=p50, p95=p95) for p50, p95 in (prompt, answer))
    lengths = spread_lengths(prompts, answers, [131_072], longest)
    assert lengths.length_limit is not None
    assert lengths.length_limit.refused_frac == pytest.approx(1 - fits.mean(), rel=0.01)
    checked = mean_lengths_up_to(prompts, answers, longest)
    for tokens, key, (low, _) in zip(drawn, ("input_tokens", "output_tokens"), checked, strict=True):
        expected = float(tokens[fits].mean())
        noise = 4 * float(tokens[fits].std()) / fits.sum() ** 0.5
        assert low == pytest.approx(expected, rel=1e-3, abs=noise)
        assert sum(b.share_frac * getattr(b, key) for b in lengths.buckets) == pytest.approx(
            expected, rel=3e-3, abs=noise
        )
