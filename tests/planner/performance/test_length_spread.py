"""Lengths by two percentiles and, where it is known, their mean: in buckets, at percentiles, and in requests drawn."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner import case_from_text
from planner.io.errors import InputError
from planner.performance.length_spread import (
    CUTS,
    LengthSpread,
    cv2_within_slices,
    least_mean,
    lengths_at,
    quantile,
    slices,
)
from planner.verification.arrivals import _drawn, _inverse_normal

seeded = settings(derandomize=True, deadline=None, max_examples=50)
MANY = np.linspace(0, 1, 400_001)[1:-1:2]
"""quantiles, evenly spread"""


@st.composite
def spreads(draw: st.DrawFn) -> LengthSpread:
    p50 = draw(st.floats(10, 10_000))
    plain = LengthSpread(p50=p50, p95=p50 * draw(st.floats(1.2, 8)))
    natural = sum(share * mean for share, mean in slices(plain))
    low = least_mean(plain)
    where = draw(st.floats(0, 2))
    mean = low + where * (natural - low) if where <= 1 else natural + (where - 1) * plain.p95
    return plain.model_copy(update={"mean": mean})


@seeded
@given(spreads())
def test_the_mean_is_kept_and_percentiles_stay(spread: LengthSpread) -> None:
    assert spread.mean is not None
    assert sum(share * mean for share, mean in slices(spread)) == pytest.approx(spread.mean, rel=1e-6)
    assert quantile(spread, 0.5) == pytest.approx(spread.p50, rel=1e-9)
    assert quantile(spread, 0.95) == pytest.approx(spread.p95, rel=1e-9)
    lengths = lengths_at(spread, MANY, _inverse_normal(MANY))
    assert (np.diff(lengths) >= -1e-9 * spread.p95).all(), "longer quantiles are longer"
    for (share, mean), low, high in zip(slices(spread), CUTS, CUTS[1:], strict=False):
        inside = lengths[(low <= MANY) & (high > MANY)]
        assert inside.mean() == pytest.approx(mean, rel=0.01)
        assert share == pytest.approx(high - low)


@seeded
@given(spreads())
def test_the_variance_within_slices_is_that_of_the_lengths(spread: LengthSpread) -> None:
    lengths = lengths_at(spread, MANY, _inverse_normal(MANY))
    between = sum(share * mean**2 for share, mean in slices(spread))
    assert cv2_within_slices(spread) == pytest.approx(float((lengths**2).mean()) / between - 1, rel=0.05, abs=0.01)


def test_requests_are_drawn_with_the_mean_that_is_given() -> None:
    spread = LengthSpread(p50=1020, p95=3900, mean=1155)
    drawn, slice_of = _drawn(spread, 200_000, np.random.default_rng(1))
    assert drawn.mean() == pytest.approx(1155, rel=0.01)
    assert np.quantile(drawn, [0.5, 0.95]) == pytest.approx([1020, 3900], rel=0.05)
    assert set(slice_of.tolist()) == set(range(len(slices(spread))))
    for k, (_, mean) in enumerate(slices(spread)):
        assert drawn[slice_of == k].mean() == pytest.approx(mean, rel=0.02)


def demand(tokens: str) -> str:
    forecast = "forecast: {requests_per_day: 100k}"
    return f"workloads: [{{name: a, models: [llama-3.1-8b], {forecast}, tokens: {tokens}}}]\nbaseline: openai/gpt-4o\n"


def test_a_known_mean_makes_requests_shorter_than_the_log_normal() -> None:
    plain, known = (
        case_from_text(demand(f"{{input: {{p50: 1020, p95: 3900{mean}}}, output: 100}}")).workloads[0]
        for mean in ("", ", mean: 1155")
    )
    means = [sum(b.share_frac * b.input_tokens for b in w.buckets) for w in (plain, known)]
    assert means == pytest.approx([1425, 1155], rel=0.01)
    assert known.ttft_prompt_tokens == pytest.approx(3900)
    assert sum(b.share_frac for b in known.buckets) == pytest.approx(1)


@pytest.mark.parametrize(
    ("input_tokens", "words"),
    [
        ("{p50: 1000, p95: 4000, mean: 300}", "is not between"),
        ("{p50: 1000, p95: 4000, mean: 90000}", "which p50 and p95 allow"),
        ("{p50: 1000, p95: 1000, mean: 1200}", "is not between 1,000 and 1,000"),
    ],
)
def test_a_mean_that_cannot_be_is_refused(input_tokens: str, words: str) -> None:
    with pytest.raises(InputError) as refused:
        case_from_text(demand(f"{{input: {input_tokens}, output: 100}}"))
    assert "tokens.input.mean" in str(refused.value)
    assert words in str(refused.value)
