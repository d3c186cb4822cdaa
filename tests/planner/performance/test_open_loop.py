"""One replica under a rate of arrivals: against theory, and against an engine that served a trace in real time."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from planner.catalog.entries import shipped_catalog
from planner.catalog.profile import MeasuredPoint, Profile, profiles_text
from planner.catalog.variant import Variant
from planner.performance.accuracy import score
from planner.performance.calibration.correction import Correction, predicted
from planner.performance.estimate import estimate
from planner.performance.length_spread import LengthSpread, least_mean, lengths_at, quantile, spread_around
from planner.performance.machine_by_name import machine_for
from planner.performance.measurements import COLUMNS
from planner.performance.queueing import (
    EVERY,
    QUANTILES,
    SHARES,
    _decoding_s,
    _numbers_in_flight,
    _sums,
    percentile_of_sum,
    under_load,
)
from planner.reports.performance import estimate_document
from planner.reports.text import as_text
from tests.support.rows import for_each

H200 = machine_for(shipped_catalog(), Variant("llama-3.1-8b", "fp16", "h200", 1), "vllm")
SERVED = [
    (6.08, 1.06, 1148.2, 274.5, 6.75, 8.10, 103.2),
    (10.25, 1.06, 1244.6, 250.8, 8.75, 11.47, 129.7),
    (15.03, 0.98, 1259.2, 239.7, 15.17, 22.24, 194.0),
    (17.09, 0.96, 1288.4, 241.9, 21.71, 34.16, 225.0),
]
ANSWERED = [(500.7, 3.367), (458.5, 4.279), (460.8, 7.570), (477.7, 10.893)]
"""of the same runs: p95 of the answers [tokens], E2E p95 [s]"""
"""requests/s, c2, tokens in and out, TPOT mean and p95, TTFT p95 [ms]: Llama 3.1 8B in BF16 on one H200, an engine
scheduled like vLLM V1, lengths and arrivals of Azure's conversation trace of 2023, measured on 2026-11-17"""


@for_each(("rate", "c2", "prompt", "output", "tpot", "tpot_p95", "ttft_p95"), SERVED)
def test_percentiles_are_those_of_an_engine(
    rate: float, c2: float, prompt: float, output: float, tpot: float, tpot_p95: float, ttft_p95: float
) -> None:
    prompts = spread_around(prompt, 3.535 * prompt, 0.883 * prompt)
    loaded = under_load(H200, prompt, output, rate, c2, 0.95, prompts=prompts)
    assert 1e3 * loaded.tpot_s == pytest.approx(tpot, rel=0.15)
    assert 1e3 * loaded.tpot_percentile_s == pytest.approx(tpot_p95, rel=0.15)
    assert 1e3 * loaded.ttft_percentile_s == pytest.approx(ttft_p95, rel=0.35)


@for_each(("run", "answered"), list(zip(SERVED, ANSWERED, strict=True)))
def test_the_percentile_of_e2e_is_that_of_an_engine_whose_answers_differ(
    run: tuple[float, ...], answered: tuple[float, float]
) -> None:
    rate, c2, prompt, output, *_ = run
    p95, e2e_p95 = answered
    prompts = spread_around(prompt, 3.535 * prompt, 0.883 * prompt)
    equal, apart = (
        under_load(H200, prompt, output, rate, c2, prompts=prompts, answers=answers)
        for answers in (None, spread_around(output, p95))
    )
    assert apart.e2e_percentile_s == pytest.approx(e2e_p95, rel=0.15)
    assert equal.e2e_percentile_s < 0.8 * e2e_p95, "equal answers are what was too short"


@for_each(("percentile", "within"), [(0.5, 0.03), (0.95, 0.03), (0.99, 0.05)])
@for_each("share", [0.02, 0.6])
@for_each("answers", [LengthSpread(p50=150, p95=600), LengthSpread(p50=20, p95=1500, mean=260)])
def test_the_percentile_of_e2e_is_that_of_drawn_sums(
    answers: LengthSpread, share: float, percentile: float, within: float
) -> None:
    """A prompt, a wait and an answer of its own length at a TPOT of its own, drawn one by one."""
    prompts, wait, tpot, by_load, by_chance, least = LengthSpread(p50=900, p95=4000), 0.2, 0.012, 9e-6, 4e-6, 0.005
    lone, tokens = (lengths_at(x, SHARES, QUANTILES) for x in (prompts, answers))
    decoding = _decoding_s(tokens, tpot, by_load, by_chance, least)
    found = percentile_of_sum(_sums(1e-4 * lone[EVERY], decoding), wait, share, percentile)
    rng, many = np.random.default_rng(5), 400_000
    places = (np.sort(rng.random(many)), np.sort(rng.standard_normal(many)))
    prompt, answer = (rng.permutation(lengths_at(x, *places)) for x in (prompts, answers))
    spread = np.sqrt(by_load + by_chance * answer.mean() / np.maximum(answer, 1))
    each = np.maximum(tpot + spread * rng.standard_normal(many), least)
    waits = np.where(rng.random(many) < share, rng.exponential(wait / share, many), 0.0)
    drawn = 1e-4 * prompt + waits + np.maximum(answer - 1, 0) * each
    assert found == pytest.approx(float(np.quantile(drawn, percentile)), rel=within)


def test_without_a_spread_of_answers_e2e_is_that_of_equal_ones_and_the_estimate_says_so() -> None:
    ask = {"rate": 10.0, "e2e": (6.0, 0.95)}
    equal, apart = (
        estimate("llama-3.1-8b", "h200", 1155, 211, **ask, answers=answers)
        for answers in (None, spread_around(211, 451))
    )
    assert equal.loaded and apart.loaded and equal.slo and apart.slo
    assert apart.loaded.e2e_percentile_s > 1.4 * equal.loaded.e2e_percentile_s
    assert apart.loaded.e2e_s == pytest.approx(equal.loaded.e2e_s, rel=0.05)
    assert apart.slo.requests_per_s < equal.slo.requests_per_s
    assert apart.slo.e2e_ms == pytest.approx(6000, rel=1e-3)
    note = "E2E assumes that all answers have 211 tokens"
    assert note in as_text(estimate_document(equal))
    assert note not in as_text(estimate_document(apart))
    assert "211 out (p95 451)" in as_text(estimate_document(apart))
    assert equal.as_json()["output_spread"] is None
    assert apart.as_json()["output_spread"]["p95"] == 451


def test_long_answers_are_in_flight_longer_than_others() -> None:
    """What a replica decodes at a time are the long answers: more KV to read than of as many equal ones."""
    equal, apart = (under_load(H200, 700, 700, 4.0, answers=x) for x in (None, spread_around(700, 2400)))
    assert apart.tpot_s > equal.tpot_s
    assert apart.utilization > equal.utilization


def test_bursts_and_load_make_the_percentile_of_tpot_worse_than_the_mean() -> None:
    calm, bursty = (under_load(H200, 1200, 250, 12.0, c2) for c2 in (1.0, 4.0))
    assert bursty.tpot_s == pytest.approx(calm.tpot_s)
    assert bursty.tpot_percentile_s - bursty.tpot_s > 1.3 * (calm.tpot_percentile_s - calm.tpot_s)
    apart = [under_load(H200, 1200, 250, rate) for rate in (4.0, 8.0, 12.0, 16.0)]
    spread = [x.tpot_percentile_s / x.tpot_s for x in apart]
    assert spread == sorted(spread)


def test_one_place_is_an_m_m_1_queue_and_several_are_erlangs() -> None:
    rate, mu = 0.8, 1.0
    shares, wait, waiting_share = _numbers_in_flight(rate, np.array([mu]))
    assert shares[0] == pytest.approx(0.8)
    assert (wait, waiting_share) == pytest.approx((0.8 / (1 - 0.8), 0.8))
    servers, load = 5, 4.0
    shares, wait, waiting_share = _numbers_in_flight(load, np.arange(1.0, servers + 1))
    terms = [load**k / math.factorial(k) for k in range(servers)]
    last = load**servers / math.factorial(servers) * servers / (servers - load)
    erlang_c = last / (sum(terms) + last)
    assert waiting_share == pytest.approx(erlang_c)
    assert wait == pytest.approx(erlang_c / (servers - load))
    assert shares[:-1] == pytest.approx(np.array(terms[1:]) / (sum(terms) + last))


def test_the_percentile_of_a_sum_is_that_of_drawn_ones() -> None:
    rng = np.random.default_rng(3)
    times = np.exp(rng.normal(-3, 1, 100))
    for share, wait in ((0.02, 0.01), (0.3, 0.05), (1.0, 0.4), (0.0, 0.0)):
        drawn = rng.choice(times, 400_000)
        late = rng.random(400_000) < share
        drawn = drawn + np.where(late, rng.exponential(wait / share if share else 1.0, 400_000), 0.0)
        assert percentile_of_sum(times, wait, share, 0.95) == pytest.approx(float(np.quantile(drawn, 0.95)), rel=0.03)


def test_a_spread_without_a_median_has_the_mean_and_the_percentile() -> None:
    spread = spread_around(1000.0, 2800.0)
    assert quantile(spread, 0.95) == pytest.approx(2800)
    sigma = math.log(spread.p95 / spread.p50) / 1.6448536269514722
    assert spread.p50 * math.exp(sigma**2 / 2) == pytest.approx(1000, rel=1e-6)
    assert spread_around(1155.0, 4083.0, 1020.0) == LengthSpread(p50=1020, p95=4083, mean=1155)
    assert least_mean(LengthSpread(p50=1020, p95=4083)) < 1155


def test_accuracy_scores_runs_at_a_rate(tmp_path: Path) -> None:
    columns = (*COLUMNS, "request_rate", "burstiness", "input_p50", "input_p95", "output_p95")
    lines = [",".join(columns)]
    runs = zip([*SERVED, (40.0, 1.0, 1200.0, 250.0, 60.0, 90.0, 450.0)], [*ANSWERED, (460.0, 30.0)], strict=True)
    for (rate, c2, prompt, output, *values), (output_p95, e2e_p95) in runs:
        metrics = ("tpot_ms", "tpot_p95_ms", "ttft_p95_ms", "e2e_p95_ms")
        for metric, value in zip(metrics, (*values, 1e3 * e2e_p95), strict=True):
            row = {
                "source": "h200", "model": "llama-3.1-8b", "gpu": "h200", "tp": 1, "dtype_weights": "bf16",
                "input_len": prompt, "output_len": output, "batch_or_concurrency": "", "metric": metric, "value": value,
                "request_rate": rate, "burstiness": c2, "input_p50": 0.883 * prompt, "input_p95": 3.535 * prompt,
                "output_p95": output_p95,
            }  # fmt: skip
            lines.append(",".join(str(row[name]) for name in columns))
    lines.append("h200,llama-3.1-8b,h200,1,bf16,1000,200,8,ttft_p95_ms,100,,,,,")
    (tmp_path / "open.csv").write_text("\n".join(lines) + "\n")
    found = score(tmp_path / "open.csv")
    assert found.skipped == {
        "more arrivals than a replica answers by the model": 4, "a percentile without a request rate": 1
    }  # fmt: skip
    errors = found.by_metric
    assert {name: e.n for name, e in errors.items()} == dict.fromkeys(metrics, 4)
    assert errors["e2e_p95_ms"].mape < 0.15
    assert abs(errors["e2e_p95_ms"].bias) < 0.1
    assert errors["tpot_p95_ms"].mape < 0.15
    assert errors["tpot_p95_ms"].bias > -0.1
    assert errors["ttft_p95_ms"].mape < 0.35
    assert errors["ttft_p95_ms"].bias > -0.1


def test_a_profile_corrects_every_figure_of_an_estimate(tmp_path: Path) -> None:
    """Steps and prefills half as fast again: at a concurrency, in the sweep, at a rate and inside an objective."""
    slow = Correction(decode_level=1.5, most_in_flight=512, prefill_ratio=1.5, ttft_ratio=1.5)
    points = []
    for tokens in (300.5, 1000.5, 3000.5):
        for batch in (1, 8, 32, 96):
            run = predicted(H200, slow, tokens, 200.5, batch)
            measured = {"tpot_ms": run.tpot_ms, "ttft_ms": run.ttft_ms, "requests_per_s": run.requests_per_s}
            points.append(MeasuredPoint(input_tokens=tokens, output_tokens=200.5, concurrency=batch, **measured))
    profile = Profile(model="llama-3.1-8b", quantization="fp16", gpu="h200", gpus_per_replica=1, points=tuple(points))
    (tmp_path / "profile.yaml").write_text(profiles_text([profile]))
    objective = {"concurrency": 32, "rate": 4.0, "tpot": (0.05, 0.95)}
    plain, corrected = (
        estimate("llama-3.1-8b", "h200", 1000, 200, profile=p, **objective) for p in (None, tmp_path / "profile.yaml")
    )
    assert plain.at and plain.slo and plain.loaded and corrected.at and corrected.slo and corrected.loaded
    assert corrected.at.tpot_ms == pytest.approx(1.5 * plain.at.tpot_ms, rel=0.05)
    assert corrected.at.requests_per_s == pytest.approx(plain.at.requests_per_s / 1.5, rel=0.05)
    assert corrected.sweep[3].tpot_ms > 1.3 * plain.sweep[3].tpot_ms
    assert corrected.loaded.tpot_s > 1.4 * plain.loaded.tpot_s
    assert corrected.slo.requests_per_s < plain.slo.requests_per_s / 1.3
    assert (corrected.basis, corrected.error_frac) == ("measured", None)
    far = estimate("llama-3.1-8b", "h200", 30_000, 200, profile=tmp_path / "profile.yaml")
    assert far.basis == "scaled"
