"""The performance model obeys physics, whatever its constants; with the shipped ones it meets known
figures."""

from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from planner.catalog.entries import Engine, Gpu, shipped_catalog
from planner.performance.closed_loop import closed_loop, largest_in_flight
from planner.performance.latency import decode_step_s, fastest_prefill_s, fastest_step_s, prefill_added_s, prefill_s
from planner.performance.machine import Lora, Machine
from planner.performance.memory import kv_bytes, kv_bytes_per_token, kv_room_bytes, largest_batch, weight_bytes
from planner.performance.queueing import most_prompt_load, prompt_wait_s, under_load
from planner.performance.throughput import Lengths, Limits, throughput
from tests.support.rows import for_each

CATALOG = shipped_catalog()
DEPLOYMENTS = [
    ("llama-2-7b", "fp16", "h100", 1),
    ("llama-3.1-8b", "fp8", "l4", 1),
    ("llama-3.1-70b", "fp16", "a100-80gb", 4),
    ("llama-3.1-70b", "int4-awq", "a100-80gb-pcie", 2),
    ("mixtral-8x7b", "fp16", "a100-80gb", 2),
    ("gpt-oss-120b", "mxfp4", "h200", 1),
    ("deepseek-v3", "fp8", "h200", 8),
    ("gemma-3-27b", "fp16", "mi300x", 1),
    ("qwen3-235b-a22b", "fp8", "b200", 4),
]
LONG_SLO = Limits(tpot_s=1.0, z=1.645)


def machine(model: str, quantization: str, gpu: str, gpus: int, engine: str = "vllm", **gpu_changes: Any) -> Machine:
    card: Gpu = CATALOG.gpus[gpu].model_copy(update=gpu_changes)
    return Machine(
        CATALOG.models[model], CATALOG.quantizations[quantization], card, gpus, CATALOG.efficiency_of(gpu),
        CATALOG.engines[engine],
    )  # fmt: skip


def lengths(*pairs: tuple[float, float], cached: float = 0.0, resident: float = 0.0) -> Lengths:
    inputs, outputs = np.array(pairs, dtype=float).T
    return Lengths(inputs, outputs, np.full(len(pairs), cached), resident)


every_deployment = for_each("deployment", DEPLOYMENTS)
every_engine = pytest.mark.parametrize("engine", sorted(CATALOG.engines))


# Physics


@every_deployment
def test_more_bandwidth_is_never_slower(deployment: tuple[str, str, str, int]) -> None:
    slow = machine(*deployment)
    fast = machine(*deployment, bandwidth_gb_per_s=slow.gpu.bandwidth_gb_per_s * 1.5)
    batch = np.array([1, 4, 16, 64, 256])
    assert (decode_step_s(fast, batch, 2000.0) < decode_step_s(slow, batch, 2000.0)).all()
    assert prefill_s(fast, 100.0) < prefill_s(slow, 100.0)


@every_deployment
def test_more_arithmetic_is_never_slower(deployment: tuple[str, str, str, int]) -> None:
    slow = machine(*deployment)
    fast = machine(*deployment, dense_tflops={p: 2 * rate for p, rate in slow.gpu.dense_tflops.items()})
    assert prefill_s(fast, 4000.0) < prefill_s(slow, 4000.0)
    assert decode_step_s(fast, 256.0, 500.0) < decode_step_s(slow, 256.0, 500.0)


@every_engine
@every_deployment
def test_longer_contexts_and_larger_batches_are_never_faster(
    deployment: tuple[str, str, str, int], engine: str
) -> None:
    m = machine(*deployment, engine=engine)
    contexts = np.geomspace(16, 120_000, 60)
    batches = np.arange(1.0, 400.0)
    assert (np.diff(decode_step_s(m, 8.0, contexts)) >= 0).all()
    assert (np.diff(decode_step_s(m, batches, 1000.0)) > 0).all()
    assert (np.diff(prefill_s(m, contexts)) > 0).all()
    assert (np.diff(prefill_s(m, 64.0, contexts[20:])) >= 0).all()
    tokens_per_s = batches / decode_step_s(m, batches, 1000.0)
    assert (np.diff(tokens_per_s) > -1e-9 * tokens_per_s[1:]).all(), "a larger batch carries no less"


@every_engine
@every_deployment
def test_no_estimate_beats_the_datasheet(deployment: tuple[str, str, str, int], engine: str) -> None:
    m = machine(*deployment, engine=engine)
    batch = np.array([1.0, 8.0, 64.0, 512.0])
    assert (decode_step_s(m, batch, 3000.0) > fastest_step_s(m, batch, 3000.0)).all()
    tokens = np.array([16.0, 512.0, 8000.0])
    assert (prefill_s(m, tokens) > fastest_prefill_s(m, tokens)).all()


@every_deployment
def test_a_tighter_slo_never_carries_more(deployment: tuple[str, str, str, int]) -> None:
    m = machine(*deployment)
    sizes = lengths((200, 100), (1000, 300), (4000, 800), (100, 1500))
    slos = np.geomspace(0.004, 0.5, 25)
    rates = np.array([throughput(m, sizes, Limits(tpot_s=s, z=1.645)).requests_per_s for s in slos])
    assert (np.diff(rates, axis=0) >= 0).all()
    assert (rates[-1] > rates[0]).all(), "the SLO binds somewhere"
    stricter = np.array([throughput(m, sizes, Limits(tpot_s=s, z=2.326)).requests_per_s for s in slos])
    assert (stricter <= rates).all()


def test_limits_hold_and_are_named() -> None:
    m = machine("llama-3.1-8b", "fp16", "h100", 1)
    found = throughput(m, lengths((1000, 300), (1000, 300)), Limits(tpot_s=0.012, z=1.645))
    assert found.bound_by == ("TPOT", "TPOT")
    assert (found.tpot_s <= 0.012).all() and (found.requests_per_s > 0).all()
    assert throughput(m, lengths((1000, 300)), Limits(tpot_s=1e-4, z=0.0)).requests_per_s.tolist() == [0.0]


def test_memory_binds_when_it_should() -> None:
    small, large = machine("llama-2-7b", "fp16", "l4", 1), machine("llama-2-7b", "fp16", "h100", 1)
    long = lengths((3000, 1000))
    found = throughput(small, long, LONG_SLO)
    assert found.bound_by == ("KV memory",)
    room = kv_room_bytes(small.model, small.gpu, 1, small.quantization)
    assert found.in_flight[0] * kv_bytes(small.model, small.quantization, 3500.0) <= room
    assert found.in_flight[0] < throughput(large, long, LONG_SLO).in_flight[0]
    assert throughput(machine("llama-2-7b", "fp16", "l4", 1), lengths((30_000, 100)), LONG_SLO).requests_per_s == 0
    assert throughput(large, lengths((100, 100)), LONG_SLO).bound_by != ("KV memory",)


def test_heads_that_cannot_split_are_repeated() -> None:
    model, fp8 = CATALOG.models["qwen3-235b-a22b"], CATALOG.quantizations["fp8"]
    gpu = CATALOG.gpus["h200"]
    assert model.kv_heads == 4
    four, eight = (kv_room_bytes(model, gpu, n, fp8) for n in (4, 8))
    whole = 8 / 4 * (four + weight_bytes(model, fp8)) - weight_bytes(model, fp8)
    assert eight == pytest.approx(whole / 2)


def test_a_slower_link_is_slower() -> None:
    nvlink, pcie = (machine("llama-3.1-70b", "fp16", g, 4) for g in ("a100-80gb", "a100-80gb-pcie"))
    assert prefill_s(pcie, 4000.0) > 1.2 * prefill_s(nvlink, 4000.0)
    one, four = (machine("llama-3.1-8b", "fp16", "a100-80gb-pcie", n) for n in (1, 4))
    assert decode_step_s(four, 1.0, 500.0) > decode_step_s(one, 1.0, 500.0) / 4


def test_experts_are_read_as_the_batch_chooses_them() -> None:
    sparse = machine("qwen3-30b-a3b", "fp16", "h200", 1)
    steps = decode_step_s(sparse, np.array([1.0, 8.0, 64.0, 512.0]), 500.0)
    dense = decode_step_s(machine("qwen3-32b", "fp16", "h200", 1), np.array([1.0, 8.0, 64.0, 512.0]), 500.0)
    assert steps[0] < 0.45 * dense[0], "one token reads a few experts"
    assert steps[2] > 2 * steps[0], "64 tokens read most of them"
    assert steps[3] < dense[3], "and still compute less than a dense model"


def test_sliding_windows_and_latent_attention_read_less() -> None:
    sliding = machine("gpt-oss-120b", "mxfp4", "h200", 1)
    everywhere = Machine(
        sliding.model.model_copy(update={"sliding": None}),
        sliding.quantization,
        sliding.gpu,
        1,
        sliding.efficiency,
    )
    assert decode_step_s(sliding, 64.0, 8000.0) < decode_step_s(everywhere, 64.0, 8000.0)
    assert decode_step_s(sliding, 64.0, 100.0) == pytest.approx(decode_step_s(everywhere, 64.0, 100.0))
    assert kv_bytes_per_token(CATALOG.models["deepseek-v3"], CATALOG.quantizations["fp16"]) == 70272
    assert kv_bytes_per_token(CATALOG.models["llama-3.1-70b"], CATALOG.quantizations["fp16"]) == 327680


def test_weights_outside_the_quantized_ones_keep_sixteen_bits() -> None:
    llama, fp8 = CATALOG.models["llama-3.1-8b"], CATALOG.quantizations["fp8"]
    vocabulary = 2 * 128256 * 4096
    assert weight_bytes(llama, fp8) == pytest.approx(8.03e9 - vocabulary + 2 * vocabulary, rel=1e-3)
    gpt_oss = weight_bytes(CATALOG.models["gpt-oss-120b"], CATALOG.quantizations["mxfp4"])
    assert gpt_oss == pytest.approx(65.3e9, rel=0.02), "the published checkpoint has 60.8 GiB"
    tied = CATALOG.models["gemma-3-4b"]
    assert weight_bytes(tied, CATALOG.quantizations["fp16"]) == pytest.approx(2e9 * tied.parameters_b)


# Prefix cache, adapters, engines, load


def test_a_cached_prefix_saves_prefill_and_memory() -> None:
    m = machine("llama-3.1-8b", "fp16", "h100", 1)
    plain = throughput(m, lengths((2304, 200)), LONG_SLO)
    hit = throughput(m, lengths((2304, 200), cached=2048, resident=2048), LONG_SLO)
    assert hit.requests_per_s > 1.3 * plain.requests_per_s
    assert hit.ttft_s < plain.ttft_s
    assert largest_in_flight(m, 2304.0, 200.0, 2048.0, 2048.0) > largest_in_flight(m, 2304.0, 200.0)
    assert prefill_s(m, 256.0, 2304.0) > prefill_s(m, 256.0), "the cached part is still attended to"


def test_every_gpu_holds_all_adapters_beside_its_part_of_the_kv_cache() -> None:
    """Where each GPU keeps the whole KV cache, as with MLA, adapters take no more of it than their size."""
    base = machine("deepseek-v3", "fp8", "h200", 8)
    adapted = Machine(base.model, base.quantization, base.gpu, 8, base.efficiency, base.engine, Lora(50, 0.1))
    room = [kv_room_bytes(m.model, m.gpu, 8, m.quantization, m.engine.usable_memory_frac) for m in (base, adapted)]
    tokens = 100_000.0
    fits = [float(largest_in_flight(m, tokens, 1.0)) for m in (base, adapted)]
    each = float(kv_bytes(base.model, base.quantization, tokens + base.engine.reserved_output_frac))
    assert fits == [np.floor(room[0] / each), np.floor((room[1] - 50 * 0.1e9) / each)]


def test_requests_that_find_a_prefix_still_hold_their_own_window() -> None:
    """Layers with a sliding window keep the latest tokens, which no request shares."""
    m = machine("gpt-oss-120b", "mxfp4", "h200", 1)
    window = m.model.sliding.window_tokens if m.model.sliding else 0
    assert 0 < window < 1000
    room = kv_room_bytes(m.model, m.gpu, 1, m.quantization)
    fits = largest_batch(m.model, m.gpu, 1, m.quantization, 5000.0, 4000.0)
    assert fits == np.floor(room / float(kv_bytes(m.model, m.quantization, 1000.0)))


def test_the_load_at_which_prompts_wait_so_long_is_found_again() -> None:
    rng = np.random.default_rng(5)
    for percentile in (0.5, 0.9, 0.95, 0.99):
        prefill, cv2 = rng.uniform(0.001, 3.0, 60), rng.uniform(0.0, 4.0, 60)
        wait = 0.8
        load = most_prompt_load(wait, prefill, cv2, 2.0, percentile)
        assert ((load > 0) & (load < 1)).all()
        for u, s, c in zip(load.tolist(), prefill.tolist(), cv2.tolist(), strict=True):
            if u < 0.999:
                assert prompt_wait_s(u / s, s, c, 2.0, percentile) == pytest.approx(wait, rel=1e-9)
                assert prompt_wait_s(1.01 * u / s, s, c, 2.0, percentile) > wait
        assert not most_prompt_load(0.0, prefill, cv2, 2.0, percentile).any()
        assert not most_prompt_load(-1.0, prefill, cv2, 2.0, percentile).any()


@every_engine
def test_a_mixed_prompt_never_costs_more_than_one_alone(engine: str) -> None:
    m = machine("llama-3.1-8b", "fp16", "h100", 1, engine=engine)
    tokens = np.array([32.0, 256.0, 2000.0, 20_000.0])
    added = prefill_added_s(m, tokens, tokens, 32.0)
    assert (added <= prefill_s(m, tokens)).all() and (np.diff(added) > 0).all() and (added > 0).all()


def test_a_burst_waits_longer_and_an_overload_forever() -> None:
    m = machine("llama-3.1-8b", "fp16", "h100", 1)
    calm = [under_load(m, 1000, 200, rate) for rate in (1, 5, 10, 20)]
    bursts = [under_load(m, 1000, 200, rate, arrival_cv2=6.0) for rate in (1, 5, 10, 20)]
    assert all(a.ttft_s < b.ttft_s for a, b in pairwise(calm))
    assert all(a.ttft_s < b.ttft_s and a.tpot_s == b.tpot_s for a, b in zip(calm, bursts, strict=True))
    assert all(x.ttft_percentile_s >= x.ttft_s and x.e2e_percentile_s >= x.e2e_s for x in calm + bursts)
    assert under_load(m, 1000, 200, 500).ttft_s == np.inf
    assert under_load(machine("llama-2-7b", "fp16", "l4", 1), 40_000, 100, 0.01).ttft_s == np.inf


def test_a_closed_loop_obeys_littles_law() -> None:
    m = machine("llama-3.1-70b", "fp8", "h100", 2, engine="sglang")
    for wanted in (1.0, 8.0, 64.0, 400.0):
        run = closed_loop(m, wanted, 1000.0, 300.0)
        inside = run.requests_per_s * (300 * run.tpot_s + prefill_s(m, 1000.0))
        assert run.in_flight <= wanted
        assert inside <= run.in_flight * 1.1
    full = closed_loop(m, np.inf, 1000.0, 300.0)
    assert full.in_flight == largest_in_flight(m, 1000.0, 300.0)
    assert closed_loop(m, 1e6, 1000.0, 300.0).ttft_s > 100, "the rest waits for a place"


def test_a_prompt_beside_others_waits_for_steps_and_prompts() -> None:
    """Prompts ahead add up where steps mix them with running requests, and are prefilled together where they do not."""
    beside = {"queue_frac": 0.1, "queued_steps": 0.0, "queued_prompts": 0.0}
    for name, power in (("vllm", 1.0), ("sglang", 0.5)):
        m = machine("llama-3.1-70b", "fp8", "h200", 8, engine=name)
        waits = []
        for others in (4.0, 64.0):
            none, some, steps = (
                replace(m, engine=m.engine.model_copy(update={**beside, **change}))
                for change in ({"queue_frac": 0.0}, {}, {"queued_steps": 2.0})
            )
            first, later, latest = (closed_loop(x, others + 1, 2000.0, 2000.0) for x in (none, some, steps))
            assert 0 < first.ttft_s <= prefill_s(m, 2000.0)
            assert latest.ttft_s - later.ttft_s == pytest.approx(2 * decode_step_s(m, others + 1, 3000.0), rel=0.05)
            waits.append(float(later.ttft_s - first.ttft_s))
        assert waits[1] / waits[0] == pytest.approx(16**power, rel=0.1), name


# Known figures and provenance


def test_batching_flattens_as_on_real_gpus() -> None:
    """A 7B model on one H100: about 90 tok/s alone in early engines, 4,800 at 64, flat past 128."""
    m = machine("llama-2-7b", "fp16", "h100", 1)
    batch = np.array([1.0, 32.0, 64.0, 128.0, 256.0])
    rate = batch / decode_step_s(m, batch, 512.0)
    assert 90 < rate[0] < 200
    assert rate[2] == pytest.approx(4800, rel=0.25)
    assert rate[2] / rate[0] > 25
    assert rate[4] / rate[3] < 1.3, "twice the batch, little more"
    naive = batch / (6.74e9 * 2 / 3.35e12 * 1.2)
    assert (rate < naive).all() and rate[3] < 0.6 * naive[3], "KV reads and arithmetic are counted"


def test_kv_cache_of_a_sequence() -> None:
    model, fp16 = CATALOG.models["llama-2-7b"], CATALOG.quantizations["fp16"]
    assert float(kv_bytes(model, fp16, 2048)) == pytest.approx(1.07e9, rel=0.01)


def test_unmeasured_gpus_and_precisions_are_estimates() -> None:
    assert machine("llama-3.1-8b", "fp16", "h100", 1).basis == "calibrated"
    assert machine("llama-3.1-8b", "fp16", "mi300x", 1).basis == "estimated"
    assert machine("llama-3.1-8b", "fp16", "b200", 1).basis == "calibrated", "ML.ENERGY's runs"
    assert machine("llama-3.1-8b", "fp16", "b300", 1).basis == "estimated"
    guess = machine("llama-3.1-8b", "int8", "b200", 1)
    assert guess.basis == "estimated"
    assert guess.error_frac > machine("llama-3.1-8b", "fp16", "h100", 1).error_frac > 0
    assert CATALOG.efficiency_of("a card of my own") is CATALOG.efficiency["default"]


def test_constants_say_where_they_come_from() -> None:
    for name, entry in CATALOG.efficiency.items():
        assert entry.source and entry.date and "fp16" in entry.rates, name
        for precision, rates in entry.rates.items():
            assert rates.source and rates.date, f"{name} {precision}"
            assert (rates.basis == "calibrated") == (rates.points >= 8), f"{name} {precision}"
            assert (rates.points > 0) == (rates.error_frac is not None), f"{name} {precision}"
    for name, engine in CATALOG.engines.items():
        assert engine.source and engine.date, name
        assert (engine.basis == "calibrated") == (engine.points >= 8), name
        assert (engine.points > 0) == (engine.error_frac is not None), name
    assert {"vllm", "sglang", "tensorrt-llm", "tgi"} <= set(CATALOG.engines)


def test_engines_are_constants_only() -> None:
    base = machine("llama-3.1-8b", "fp16", "h100", 1)
    slower: Engine = base.engine.model_copy(update={"step_overhead_ms": base.engine.step_overhead_ms + 5.0})
    changed = Machine(base.model, base.quantization, base.gpu, 1, base.efficiency, slower)
    assert decode_step_s(changed, 8.0, 500.0) - decode_step_s(base, 8.0, 500.0) == pytest.approx(5e-3)
    assert Machine(base.model, base.quantization, base.gpu, 1, base.efficiency).engine is CATALOG.engines["vllm"]


# Arrays


@every_deployment
def test_arrays_give_what_a_loop_gives(deployment: tuple[str, str, str, int]) -> None:
    m = machine(*deployment)
    rng = np.random.default_rng(7)
    pairs = [(float(i), float(o)) for i, o in rng.integers(20, 6000, (40, 2))]
    together = throughput(m, lengths(*pairs), Limits(tpot_s=0.06, z=1.645))
    for k, pair in enumerate(pairs):
        alone = throughput(m, lengths(pair), Limits(tpot_s=0.06, z=1.645))
        for name in ("requests_per_s", "in_flight", "tpot_s", "ttft_s"):
            assert getattr(alone, name)[0] == pytest.approx(getattr(together, name)[k], rel=1e-12), name
        assert alone.bound_by[0] == together.bound_by[k]
