"""Unit economics that are often quoted, recomputed by the library."""

from __future__ import annotations

from itertools import pairwise

import pytest

from planner.catalog.entries import shipped_catalog
from planner.performance.latency import decode_step_s
from planner.performance.machine import Machine
from planner.performance.memory import kv_bytes, kv_bytes_per_token, weight_bytes
from tests.support.economics import (
    api_usd,
    groups_needed,
    hybrid_usd_per_month,
    prefill_tokens_per_h,
    tokens_per_month,
    usd_per_1m_tokens,
    usd_per_month,
    weights_only_tok_s,
)
from tests.support.rows import for_each


@for_each(
    ("usd_per_h", "tok_s", "utilization", "expected"),
    [
        (4 * 2.21, 2400, 0.7, 1.462),
        (10, 1000, 1, 2.78),
        (10, 2000, 1, 1.39),
        (4.50, 400, 1, 3.13),
        (4.50, 3800, 1, 0.33),
    ],
)
def test_cost_of_a_million_tokens(usd_per_h: float, tok_s: float, utilization: float, expected: float) -> None:
    assert usd_per_1m_tokens(usd_per_h, tok_s, utilization) == pytest.approx(expected, abs=0.005)


@for_each(
    ("usd_per_h", "tok_s", "at_full_load", "at_70_percent"),
    [
        (4.50, 4800, 0.26, None),
        (2.21, 2900, 0.21, None),
        (1.01, 850, 0.33, None),
        (0.54, 620, 0.24, None),
        (0.38, 350, 0.30, None),
        (8.84, 2400, 1.02, 1.46),
        (18.00, 6200, 0.81, 1.15),
        (4.42, 1800, 0.68, 0.97),
        (4.50, 1500, 0.83, 1.19),
        (4.42, 3200, 0.38, 0.55),
    ],
)
def test_right_sizing_tables(usd_per_h: float, tok_s: float, at_full_load: float, at_70_percent: float | None) -> None:
    assert usd_per_1m_tokens(usd_per_h, tok_s) == pytest.approx(at_full_load, abs=0.006)
    if at_70_percent is not None:
        assert usd_per_1m_tokens(usd_per_h, tok_s, 0.7) == pytest.approx(at_70_percent, abs=0.006)


def test_the_weights_only_formula_never_flattens() -> None:
    """Reading 14 GB of weights at 3.35 TB/s, times 1.2: the figures that formula really gives."""
    rates = [weights_only_tok_s(batch, 14e9, 3.35e12) for batch in (1, 32, 64, 128)]
    assert rates == pytest.approx([199, 6381, 12762, 25524], abs=1)


def test_ours_has_kv_reads_and_a_compute_ceiling() -> None:
    """Batching pays, and flattens: doubling the batch helps less and less."""
    c = shipped_catalog()
    machine = Machine(c.models["llama-2-7b"], c.quantizations["fp16"], c.gpus["h100"], 1, c.efficiency_of("h100"))
    rates = [batch / float(decode_step_s(machine, batch, 1024)) for batch in (1, 64, 128, 256)]
    assert 60 < rates[0] < 250
    assert rates[1] / rates[0] > 15
    gains = [b / a for a, b in pairwise(rates[1:])]
    assert 1 < gains[1] < gains[0] < 2
    naive = weights_only_tok_s(256, weight_bytes(machine.model, machine.quantization), 3.35e12)
    assert rates[3] < 0.5 * naive


def test_kv_cache_of_a_2048_token_sequence() -> None:
    c = shipped_catalog()
    model, fp16 = c.models["llama-2-7b"], c.quantizations["fp16"]
    assert float(kv_bytes(model, fp16, 2048)) == pytest.approx(1.07e9, rel=0.005)
    assert kv_bytes_per_token(c.models["llama-3.1-70b"], fp16) == 327_680
    assert kv_bytes_per_token(c.models["deepseek-v3"], fp16) == 70_272


def test_prefix_cache_saves_three_quarters_of_prefill() -> None:
    without, with_cache = (prefill_tokens_per_h(10_000, 2048, 256, hit) for hit in (0.0, 0.85))
    assert without == 23.04e6
    assert with_cache == pytest.approx(5.632e6)
    assert 1 - with_cache / without == pytest.approx(0.756, abs=0.001)
    assert (without - with_cache) / 1e6 * 0.50 == pytest.approx(8.70, abs=0.005)


def test_hybrid_of_base_and_spot() -> None:
    mix = hybrid_usd_per_month(4, 2.21, 4, 0.73, 0.6)
    assert usd_per_month(4 * 2.21) == pytest.approx(6453, abs=1)
    assert mix == pytest.approx(7732, abs=1)
    assert 1 - mix / usd_per_month(6 * 2.21) == pytest.approx(0.201, abs=0.001)
    assert 1 - mix / usd_per_month(6.4 * 2.21) == pytest.approx(0.251, abs=0.001)
    assert 1 - mix / usd_per_month(8 * 2.21) == pytest.approx(0.401, abs=0.001)


def test_build_or_buy() -> None:
    assert api_usd(1e9, 0.5, 2.50, 10.00) == pytest.approx(6_250)
    assert api_usd(10e9, 0.5, 2.50, 10.00) == pytest.approx(62_500)
    assert tokens_per_month(2400, 0.7) == pytest.approx(4.4e9, rel=0.005)
    assert groups_needed(1e9, 2400, 0.7) == 1
    assert groups_needed(10e9, 2400, 0.7) == 3


def test_the_catalog_prices_gpt_4o_as_the_articles_do() -> None:
    from planner.catalog.apis import api_model

    gpt_4o = api_model("openai/gpt-4o")
    assert gpt_4o is not None
    assert gpt_4o.request_usd(1e6, 0, 1e6) == pytest.approx(12.50)
