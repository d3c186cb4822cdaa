"""Mixtures of experts, layouts over GPUs, kinds of attention, and what the label of a figure says."""

from dataclasses import replace

import numpy as np
import pytest

from planner.catalog.entries import Backing, shipped_catalog
from planner.performance.closed_loop import closed_loop, largest_in_flight
from planner.performance.estimate import estimate
from planner.performance.latency import decode_step_s, experts_s, prefill_s, touched_experts_frac
from planner.performance.machine import Machine
from planner.performance.memory import Layout, attended_layers, kv_bytes, kv_copies, kv_room_bytes, state_bytes
from tests.support.rows import for_each

CATALOG = shipped_catalog()


def machine(
    model: str, gpus: int = 8, quantization: str = "fp8", gpu: str = "h200", layout: Layout | None = None
) -> Machine:
    return Machine(
        CATALOG.models[model], CATALOG.quantizations[quantization], CATALOG.gpus[gpu], gpus,
        CATALOG.efficiency_of(gpu), CATALOG.engines["vllm"], layout=layout or Layout(),
    )  # fmt: skip


def test_a_lone_token_reads_its_own_experts_and_many_read_nearly_all() -> None:
    tokens = np.array([1.0, 4.0, 16.0, 64.0, 256.0, 4096.0])
    touched = touched_experts_frac(8 / 256, tokens)
    even = 1 - (1 - 8 / 256) ** tokens
    assert touched[0] == pytest.approx(8 / 256, rel=0.05)
    assert (np.diff(touched) > 0).all() and touched[-1] > 0.99
    assert (touched <= even + 1e-12).all() and (touched[2:4] < 0.9 * even[2:4]).all(), "popular experts are shared"


# benchmarks/expert_kernels.py on an H200, 2026-11-18: products of the experts of one layer in FP8 (best of twelve
# tilings, popularity drawn exponentially): ms of a slice of all experts, and of the busiest GPU with whole ones.
KERNELS = [
    ("deepseek-v3", 8, 4, 0.0650, 0.1143), ("deepseek-v3", 8, 16, 0.1345, 0.1795),
    ("deepseek-v3", 8, 64, 0.2567, 0.2919), ("deepseek-v3", 8, 256, 0.3539, 0.3918),
    ("deepseek-v3", 8, 512, 0.3650, 0.3671),
    ("deepseek-v3", 8, 2048, 0.5124, 0.4559), ("qwen3-235b-a22b", 4, 16, 0.1075, 0.1172),
    ("qwen3-235b-a22b", 4, 128, 0.1698, 0.1881), ("qwen3-235b-a22b", 4, 2048, 0.2963, 0.3058),
    ("minimax-m2.5", 2, 16, 0.1807, 0.2038), ("minimax-m2.5", 2, 256, 0.4217, 0.4397),
    ("minimax-m2.5", 8, 64, 0.1018, 0.1235), ("minimax-m2.5", 8, 2048, 0.1920, 0.1740),
]  # fmt: skip


@for_each(("model", "gpus", "tokens", "slices_ms", "busiest_ms"), KERNELS)
def test_whole_experts_against_slices_are_as_on_a_gpu(
    model: str, gpus: int, tokens: int, slices_ms: float, busiest_ms: float
) -> None:
    layouts = (Layout(), Layout(expert_groups=gpus))
    sliced, whole = (float(experts_s(machine(model, gpus, layout=x), np.array(float(tokens)))) for x in layouts)
    assert whole / sliced == pytest.approx(busiest_ms / slices_ms, rel=0.065 if tokens <= 512 else 0.17)


def test_copies_of_attention_hold_a_latent_cache_once_and_the_weights_often() -> None:
    split, copied = machine("deepseek-r1", 8, "fp8", "h200"), Layout(attention_copies=8, expert_groups=8)
    model = split.model
    assert kv_copies(model, 8) == 8 and kv_copies(model, 8, copied) == 1
    fp8, gpu = split.quantization, split.gpu
    rooms = [kv_room_bytes(model, gpu, 8, fp8, 0.9, layout) for layout in (Layout(), copied)]
    lost = split.parameters.dense + 2 * (split.parameters.head + split.parameters.embedding)
    assert rooms[1] == pytest.approx(8 * rooms[0] - 7 * lost)
    wide = replace(split, layout=copied)
    assert largest_in_flight(wide, 8000.0, 1000.0) > 2 * largest_in_flight(split, 8000.0, 1000.0)
    assert decode_step_s(wide, 256.0, 16000.0) < decode_step_s(split, 256.0, 16000.0), "each reads its own share"
    assert decode_step_s(wide, 1.0, 500.0) > decode_step_s(split, 1.0, 500.0), "all attention weights on every GPU"
    assert prefill_s(wide, 4000.0) > prefill_s(split, 4000.0), "one prompt keeps one copy busy"


def test_stages_share_the_weights() -> None:
    model, gpu, fp8 = CATALOG.models["llama-3.1-70b"], CATALOG.gpus["l40s"], CATALOG.quantizations["fp8"]
    alone, staged = (kv_room_bytes(model, gpu, 1, fp8, 0.9, Layout(stages=s)) for s in (1, 4))
    assert alone < 0 < staged


def test_linear_attention_keeps_a_state_of_fixed_size() -> None:
    model, fp8 = CATALOG.models["qwen3.5-397b-a17b"], CATALOG.quantizations["fp8"]
    state = 45 * 64 * 128 * 128 * 4
    assert state_bytes(model) == state
    assert float(kv_bytes(model, fp8, 1000.0)) == pytest.approx(state + 15 * 2 * 2 * 256 * 2 * 1000)
    assert float(attended_layers(model, 1000.0)) == 15 * 1000
    held = [float(kv_bytes(model, fp8, 1000.0, copies)) for copies in (1.0, 4.0)]
    assert held[0] - held[1] == pytest.approx(state * 3 / 4), "value heads are split where KV heads are repeated"


def test_sparse_attention_stores_everything_and_reads_the_best() -> None:
    sparse = machine("glm-5")
    full = replace(sparse, model=sparse.model.model_copy(update={"sparse": None}))
    assert kv_bytes(sparse.model, sparse.quantization, 9000.0) > kv_bytes(full.model, full.quantization, 9000.0)
    grown = [decode_step_s(m, 64.0, 60000.0) - decode_step_s(m, 64.0, 2048.0) for m in (sparse, full)]
    assert 0 < grown[0] < 0.25 * grown[1]


def test_an_8_bit_cache_doubles_the_room_and_halves_the_reads() -> None:
    wide, narrow = (machine("llama-3.1-70b", 2, name, "h100") for name in ("fp8", "fp8-kv8"))
    fits = [float(largest_in_flight(m, 6000.0, 500.0)) for m in (wide, narrow)]
    assert fits[1] == pytest.approx(2 * fits[0], abs=1)
    empty, full = 1.0, 8000.0
    read = [float(decode_step_s(m, 32.0, full) - decode_step_s(m, 32.0, empty)) for m in (wide, narrow)]
    assert read[1] == pytest.approx(read[0] / 2, rel=0.02)
    most = [float(closed_loop(m, np.inf, 6000.0, 500.0).requests_per_s) for m in (wide, narrow)]
    assert most[1] > most[0]


@for_each(
    ("context", "wide_tok_s", "narrow_tok_s"),
    [(2_048, 29.1, 29.4), (8_192, 26.4, 27.9), (16_384, 23.6, 26.2), (32_640, 19.4, 23.4)],
)
def test_an_8_bit_cache_gains_what_vllm_measured(context: int, wide_tok_s: float, narrow_tok_s: float) -> None:
    """Qwen3-4B in BF16 on an L4, one request at a time (vLLM 0.25.1, docs.vllm.ai, quantized_kvcache, 2026-11-18)."""
    pair = [machine("qwen3-4b", 1, name, "l4") for name in ("fp16", "fp16-kv8")]
    speed = [1 / float(decode_step_s(m, 1.0, float(context))) for m in pair]
    assert speed == pytest.approx([wide_tok_s, narrow_tok_s], rel=0.05)
    assert speed[1] / speed[0] == pytest.approx(narrow_tok_s / wide_tok_s, abs=0.03)


@for_each(
    ("model", "gpu", "quantization", "expected"),
    [
        ("llama-3.1-70b", "h100", "fp8", "calibrated"),
        ("minimax-m2.5", "b200", "fp8", "calibrated"),
        ("llama-3.1-70b", "b300", "fp8", "estimated"),
        ("gpt-oss-120b", "h200", "mxfp4", "calibrated"),
        ("llama-3.1-70b", "h200", "int4-awq", "estimated"),
        ("deepseek-v4-flash", "h200", "mxfp4", "estimated"),
        ("glm-5.3-flash", "h200", "fp8", "estimated"),
    ],
)
def test_calibrated_is_said_of_a_gpu_a_precision_and_a_class_of_models(
    model: str, gpu: str, quantization: str, expected: str
) -> None:
    assert machine(model, 8, quantization, gpu).basis == expected


def test_layers_that_the_constants_were_fitted_without_are_said_to_be_an_estimate() -> None:
    rates = CATALOG.efficiency["h200"].rates["fp8"]
    assert rates.basis == "calibrated"
    stated = rates.for_class(CATALOG.models["kimi-k3"])
    assert (stated.basis, stated.points, stated.error_frac) == ("estimated", 0, None)
    assert "no model with such attention layers was measured" in stated.source
    own = rates.model_copy(update={"basis": "measured"})
    assert own.for_class(CATALOG.models["kimi-k3"]) == own


def test_a_figure_that_rests_on_the_other_class_says_so() -> None:
    dense_only = CATALOG.efficiency["l40s"].rates["fp8"]
    assert dense_only.for_class(CATALOG.models["llama-3.1-8b"]).basis == "calibrated"
    moved = dense_only.model_copy(update={"moe": Backing(basis="estimated", points=0)})
    stated = moved.for_class(CATALOG.models["mixtral-8x7b"])
    assert (stated.basis, stated.points, stated.error_frac) == ("estimated", 0, None)
    assert "these are dense models" in stated.source
    own = moved.model_copy(update={"basis": "measured"})
    assert own.for_class(CATALOG.models["mixtral-8x7b"]).basis == "measured", "a user's own figure stays so"
    found = estimate("llama-3.1-70b", "b300", 1000, 100, gpus_per_replica=4, quantization="fp8")
    assert found.basis == "estimated" and "mixtures of experts" in found.source
