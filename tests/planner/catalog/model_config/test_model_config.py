"""Entries from config.json files: weights as published, KV cache and states layer by layer, and what is open."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.catalog.entries import Model, shipped_catalog
from planner.catalog.model_config.config import ModelConfig, NamedCounts, named_counts
from planner.catalog.model_config.entry import make_entry
from planner.io.errors import InputError
from planner.performance.memory import (
    INDEX_FRAC,
    attended_layers,
    kv_bytes,
    kv_copies,
    kv_read_bytes,
    parameters,
    sight,
    weight_bytes,
)
from tests.support.model_configs import (
    DEEPSEEK_V3,
    DEEPSEEK_V4_FLASH,
    DEEPSEEK_V4_PRO,
    DEEPSEEK_V32,
    GEMMA_4,
    GLM_53_FLASH,
    GPT_OSS,
    KIMI_K3,
    LLAMA_8B,
    MIMO,
    MINIMAX_M3,
    MIXTRAL,
    NEMOTRON_NANO,
    PUBLISHED,
    QWEN3_NEXT,
    QWEN_38,
    Config,
)
from tests.support.rows import for_each

FP16 = shipped_catalog().quantizations["fp16"]


def entry_of(config: Config, name: str = "my-model", **given: Any) -> Model:
    return make_entry(ModelConfig("config.json", copy.deepcopy(config), given), name).model


def complaints(config: Config, **given: Any) -> str:
    with pytest.raises(InputError) as error:
        entry_of(config, **given)
    return str(error.value)


def without(config: Config, *keys: str) -> Config:
    return {key: value for key, value in config.items() if key not in keys}


@for_each("name", PUBLISHED)
def test_weights_are_within_two_percent_of_the_published_count(name: str) -> None:
    published = PUBLISHED[name]
    model = entry_of(published.config, name)
    assert model.parameters_b == pytest.approx(published.total_b, rel=0.02)
    if published.active_b is None:
        return
    # published active counts are rounded, and leave out the vocabulary or not
    vocabulary_b = model.vocab * model.hidden * (1 if model.tied_embeddings else 2) / 1e9
    slack = max(0.05 * published.active_b, 0.5)
    assert published.active_b - slack <= model.active_parameters_b <= published.active_b + vocabulary_b + slack


def test_glm_53_flash_is_as_large_as_published_with_the_layer_that_drafts() -> None:
    """320B, of which the layer for multi-token prediction has 288 experts and a shared one."""
    model = entry_of(GLM_53_FLASH)
    drafting_b = (288 + 1) * 3 * 4096 * 2048 / 1e9
    assert model.parameters_b + drafting_b == pytest.approx(320, rel=0.005)
    assert model.active_parameters_b == pytest.approx(18, abs=1)


@for_each("name", ["llama-3.1-8b", "mixtral-8x7b", "deepseek-v3", "gpt-oss-20b"])
def test_an_entry_agrees_with_the_shipped_one(name: str) -> None:
    config = {"llama-3.1-8b": LLAMA_8B, "mixtral-8x7b": MIXTRAL, "deepseek-v3": DEEPSEEK_V3, "gpt-oss-20b": GPT_OSS}
    made, shipped = entry_of(config[name], name), shipped_catalog().models[name]
    same = ("parameters_b", "active_parameters_b", "layers", "hidden", "query_heads", "kv_heads", "head_dim", "ffn",
            "vocab", "attention", "moe", "sliding", "mla", "tied_embeddings", "native_quantization")  # fmt: skip
    assert {key: getattr(made, key) for key in same} == {key: getattr(shipped, key) for key in same}


KV_HELD = [
    # (config, bytes of a request at 16 bit as a function of its tokens, counted by hand from the shapes)
    (LLAMA_8B, lambda t: 32 * 2 * 8 * 128 * 2 * t),
    (DEEPSEEK_V3, lambda t: 61 * (512 + 64) * 2 * t),
    (DEEPSEEK_V32, lambda t: 61 * ((512 + 64) * 2 + 132) * t),
    (GPT_OSS, lambda t: 2 * 8 * 64 * 2 * (12 * t + 12 * min(t, 128))),
    (GEMMA_4, lambda t: 10 * 2 * 4 * 512 * 2 * t + 50 * 2 * 16 * 256 * 2 * min(t, 1024)),
    (MIMO, lambda t: 9 * 4 * (192 + 128) * 2 * t + 39 * 8 * (192 + 128) * 2 * min(t, 128)),
    (QWEN3_NEXT, lambda t: 12 * 2 * 2 * 256 * 2 * t + 36 * 32 * 128 * 128 * 4),
    (NEMOTRON_NANO, lambda t: 6 * 2 * 2 * 128 * 2 * t + 23 * 64 * 64 * 128 * 4),
    (
        DEEPSEEK_V4_PRO,
        lambda t: (30 * t / 4 + 31 * t / 128 + 61 * min(t, 128)) * 512 * 2 + 30 * t / 4 * 132,
    ),
    (
        DEEPSEEK_V4_FLASH,
        lambda t: (21 * t / 4 + 20 * t / 128 + 43 * min(t, 128)) * 512 * 2 + 21 * t / 4 * 132,
    ),
    (KIMI_K3, lambda t: 24 * (512 + 64) * 2 * t + 69 * 96 * 128 * 128 * 4),
    (MINIMAX_M3, lambda t: 60 * 2 * 4 * 128 * 2 * t + 57 * 132 * t),
    (GLM_53_FLASH, lambda t: 11 * (512 * 2 + 132 / 4) * t + 34 * 64 * 128 * 128 * 4),
    (QWEN_38, lambda t: 23 * 2 * 4 * 256 * 2 * t + 69 * 128 * 128 * 128 * 4),
]


@for_each(("config", "held"), KV_HELD)
@for_each("tokens", [1, 100, 1000, 50_000])
def test_a_request_holds_what_its_layers_keep(config: Config, held: Any, tokens: int) -> None:
    assert float(kv_bytes(entry_of(config), FP16, tokens)) == pytest.approx(held(tokens), rel=1e-12)


def test_the_cache_of_deepseek_v4_is_as_large_as_was_published() -> None:
    """9.62 GiB for 2^20 tokens (vLLM, 2026-04-24), with keys of the indexer in 16 bit; ours have 8 and a scale."""
    million = 2**20
    wider = 30 * million / 4 * (2 * 128 - 132)
    held = float(kv_bytes(entry_of(DEEPSEEK_V4_PRO), FP16, million)) + wider
    window = 61 * 128 * 512 * 2
    assert (held - window) / 2**30 == pytest.approx(9.62, abs=0.005)


READ = [
    # (config, bytes that a decode step reads of one request, counted by hand from the shapes)
    (
        DEEPSEEK_V4_PRO,
        lambda t: (61 * min(t, 128) + 30 * min(t, 4096) / 4 + 31 * t / 128) * 1024 + 30 * t / 4 * 132,
    ),
    (MINIMAX_M3, lambda t: 2 * 4 * 128 * 2 * (57 * min(t, 2048) + 3 * t) + 57 * 132 * t),
    (GLM_53_FLASH, lambda t: 11 * (1024 * min(t, 2048) + 132 / 4 * t) + 2 * 34 * 64 * 128 * 128 * 4),
    (KIMI_K3, lambda t: 24 * (512 + 64) * 2 * t + 2 * 69 * 96 * 128 * 128 * 4),
]


@for_each(("config", "read"), READ)
@for_each("tokens", [1, 100, 3000, 50_000])
def test_a_decode_step_reads_what_attention_picks(config: Config, read: Any, tokens: int) -> None:
    assert float(kv_read_bytes(entry_of(config), FP16, tokens, 1.0)) == pytest.approx(read(tokens), rel=1e-12)


@pytest.mark.parametrize("tokens", [4096, 10_000, 1_000_000])
def test_a_query_of_deepseek_v4_sees_single_tokens_and_entries(tokens: int) -> None:
    seen = 61 * 128 + 30 * (1024 + INDEX_FRAC * tokens / 4) + 31 * tokens / 128
    assert float(attended_layers(entry_of(DEEPSEEK_V4_PRO), tokens)) == pytest.approx(seen, rel=1e-12)


def test_experts_in_four_bits_stand_beside_the_rest_in_eight() -> None:
    model = entry_of(DEEPSEEK_V4_PRO)
    assert (model.native_quantization, model.moe and model.moe.other_bits) == ("mxfp4", 8)
    experts = 61 * 384 * 3 * 7168 * 3072
    rest = model.parameters_b * 1e9 - experts - 2 * 129280 * 7168
    stored = experts * 4.25 / 8 + rest + 2 * 129280 * 7168 * 2
    mxfp4 = shipped_catalog().quantizations["mxfp4"]
    assert weight_bytes(model, mxfp4) == pytest.approx(stored, rel=1e-4)


@for_each("ratios", [[4, 128], [4, 64, 128] * 21, ["4"] * 62, 4])
def test_ratios_of_a_compressed_cache_that_are_not_understood_are_refused(ratios: object) -> None:
    assert "compress_ratios: expected 0, 4 or one larger number" in complaints(
        DEEPSEEK_V4_PRO | {"compress_ratios": ratios}
    )


@pytest.mark.parametrize("lacking", ["mla", "sparse"])
def test_an_entry_with_a_compressed_cache_says_what_its_entries_hold(lacking: str) -> None:
    fields = entry_of(DEEPSEEK_V4_PRO).model_dump(exclude_none=True, exclude={lacking})
    with pytest.raises(ValueError, match=f"needs '{lacking}'"):
        Model.model_validate(fields)


def test_routed_experts_are_those_of_the_layers_that_have_them() -> None:
    p = parameters(entry_of(DEEPSEEK_V3))
    assert p.routed == pytest.approx(58 * 256 * 3 * 7168 * 2048, rel=1e-4)
    assert p.chosen_frac == 8 / 256
    p = parameters(entry_of(NEMOTRON_NANO))
    assert p.routed == pytest.approx(23 * 128 * 2 * 2688 * 1856, rel=1e-3)


def test_wider_heads_of_full_layers_count_in_the_arithmetic() -> None:
    seen = sight(entry_of(GEMMA_4))
    assert (seen.full, seen.windowed, seen.window) == (pytest.approx(10 / 60 * 2), pytest.approx(50 / 60), 1024)


@for_each("gpus", [1, 2, 4, 8, 16, 32])
def test_heads_are_repeated_by_the_kind_of_layer(gpus: int) -> None:
    """Gemma 4 31B: 16 heads in layers with a window, 4 in the others; a GPU holds one of each at least."""
    model = entry_of(GEMMA_4)
    copies = kv_copies(model, gpus)
    held = float(kv_bytes(model, FP16, 10_000, copies)) * copies
    full, windowed = max(4, gpus) * 512 * 10 * 10_000, max(16, gpus) * 256 * 50 * 1024
    assert held == pytest.approx(2 * 2 * (full + windowed), rel=1e-12)


def test_an_indexer_shared_by_layers_is_kept_once() -> None:
    kinds = ["full", "shared"] * 30 + ["full"]
    model = entry_of(DEEPSEEK_V32 | {"indexer_types": kinds})
    assert model.sparse is not None and model.sparse.index_layers == 31
    assert float(kv_bytes(model, FP16, 1000)) == (61 * (512 + 64) * 2 + 31 * 132) * 1000


def test_layers_without_attention_keep_nothing() -> None:
    attention = {"n_heads_in_group": 4, "no_op": False}
    blocks = [{"attention": attention, "ffn": {"ffn_mult": 5.25}}] * 3
    blocks += [{"attention": {"no_op": True}, "ffn": {"ffn_mult": 1.3125}}]
    config = without(LLAMA_8B, "num_key_value_heads", "intermediate_size") | {"num_hidden_layers": 4}
    model = entry_of(config | {"model_type": "nemotron-nas", "block_configs": blocks})
    assert float(kv_bytes(model, FP16, 10)) == 3 * 2 * 8 * 128 * 2 * 10
    ffn = 3 * 4096 * (3 * 14336 + 3584)
    assert model.parameters_b * 1e9 == pytest.approx(3 * 2 * 4096 * 128 * 40 + ffn + 2 * 128256 * 4096, abs=5e6)


@for_each(
    ("config", "key"),
    [
        (without(LLAMA_8B, "num_key_value_heads"), "num_key_value_heads"),
        (without(LLAMA_8B, "vocab_size"), "vocab_size"),
        (without(LLAMA_8B, "max_position_embeddings"), "max_position_embeddings"),
        (without(LLAMA_8B, "tie_word_embeddings") | {"model_type": "mine"}, "tie_word_embeddings"),
        (LLAMA_8B | {"model_type": "mine", "sliding_window": 512}, "sliding_window_pattern"),
        (without(DEEPSEEK_V3, "first_k_dense_replace"), "first_k_dense_replace"),
        (without(DEEPSEEK_V3, "moe_intermediate_size"), "moe_intermediate_size"),
        (without(DEEPSEEK_V3, "qk_rope_head_dim"), "qk_rope_head_dim"),
        (without(QWEN3_NEXT, "full_attention_interval"), "full_attention_interval"),
        (without(NEMOTRON_NANO, "mamba_num_heads"), "mamba_num_heads"),
    ],
)
def test_what_is_open_is_asked_for_by_name_and_can_be_given(config: Config, key: str) -> None:
    message = complaints(config)
    assert f"{key}: is missing" in message
    assert f"Give it with --set {key}=" in message
    value = message.split(f"--set {key}=")[1].split()[0].rstrip(".")
    assert entry_of(config, **{key: False if value == "false" else int(value)}).parameters_b > 0


def test_everything_that_is_open_is_asked_for_at_once() -> None:
    message = complaints({"model_type": "mine"})
    for key in ("num_hidden_layers", "hidden_size", "num_attention_heads", "vocab_size", "intermediate_size"):
        assert f"config.json: {key}: is missing" in message


@for_each(
    ("more", "words"),
    [
        ({"num_kv_shared_layers": 20}, "num_kv_shared_layers: layers that share a KV cache cannot be stated"),
        ({"num_hidden_layers": "many"}, "num_hidden_layers: expected a whole number, got 'many'"),
        ({"num_hidden_layers": 10**9}, "num_hidden_layers: expected a whole number from 1 to 10,000"),
        ({"layer_types": ["full_attention"] * 3}, "for each of the 32 layers, got 3 values"),
        ({"layer_types": ["conv"] * 32}, "unknown kind of layer 'conv'"),
        ({"num_key_value_heads": 5}, "32 query heads do not divide over 5 KV heads"),
        ({"quantization_config": {"quant_method": "bitsandbytes"}}, "the method 'bitsandbytes' is not in the catalog"),
        ({"attn_type_list": [0, 1] * 16}, "attn_type_list: has layers of linear attention"),
    ],
)
def test_what_cannot_be_stated_is_refused(more: Config, words: str) -> None:
    assert words in complaints(LLAMA_8B | more)


@for_each(
    ("quantization", "native"),
    [
        ({"quant_method": "fp8"}, "fp8"),
        ({"quant_method": "awq", "bits": 4}, "int4-awq"),
        ({"quant_method": "modelopt", "quant_algo": "NVFP4"}, "nvfp4"),
        ({"quant_method": "compressed-tensors",
          "config_groups": {"g": {"weights": {"type": "int", "num_bits": 4, "group_size": 32}}}}, "int4-gptq"),
        ({"quant_method": "compressed-tensors",
          "config_groups": {"g": {"weights": {"type": "float", "num_bits": 4, "group_size": 32}}}}, "mxfp4"),
    ],
)  # fmt: skip
def test_published_precision(quantization: Config, native: str) -> None:
    assert entry_of(LLAMA_8B | {"quantization_config": quantization}).native_quantization == native


def test_a_name_may_state_the_precision_that_the_config_does_not() -> None:
    model = entry_of(LLAMA_8B, "my/model-8B-FP8")
    assert model.native_quantization == "fp8"
    assert "taken from the model's name" in (model.notes or "")


@for_each(
    ("config", "sliding"),
    [
        (LLAMA_8B | {"model_type": "mistral", "sliding_window": 4096}, (4096, 0)),
        (LLAMA_8B | {"model_type": "gemma2", "sliding_window": 4096}, (4096, 16)),
        (LLAMA_8B | {"model_type": "gemma3", "sliding_window": 1024}, (1024, 5)),
        (LLAMA_8B | {"model_type": "qwen2", "sliding_window": 4096, "use_sliding_window": False}, None),
        (LLAMA_8B | {"model_type": "phi3", "sliding_window": 262144}, None),
        (LLAMA_8B | {"sliding_window": 512, "sliding_window_pattern": 8}, (512, 4)),
    ],
)
def test_windows_of_older_configs(config: Config, sliding: tuple[int, int] | None) -> None:
    found = entry_of(config).sliding
    assert (found and (found.window_tokens, found.full_attention_layers)) == sliding


@for_each(
    ("name", "counts"),
    [
        ("meta-llama/Llama-3.1-70B", NamedCounts(70.0)),
        ("Qwen3-30B-A3B", NamedCounts(30.0, 3.0)),
        ("Qwen3-0.6B", NamedCounts(0.6)),
        ("Llama-4-Scout-17B-16E-Instruct", NamedCounts(active_b=17.0)),
        ("Mixtral-8x7B", NamedCounts()),
        ("Kimi-K2.5", NamedCounts()),
        ("SmolLM-135M", NamedCounts(0.135)),
    ],
)
def test_counts_in_names(name: str, counts: NamedCounts) -> None:
    assert named_counts(name) == counts


VALUES = st.one_of(
    st.none(), st.booleans(), st.integers(-3, 10**13), st.floats(), st.text(max_size=4),
    st.lists(st.integers(0, 2), max_size=70), st.dictionaries(st.text(max_size=2), st.integers(), max_size=2),
)  # fmt: skip
CONFIGS = [published.config for published in PUBLISHED.values()]


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_a_damaged_config_is_an_entry_or_an_input_error(data: st.DataObject) -> None:
    config = data.draw(st.sampled_from(CONFIGS))
    inner = config.get("text_config", config)
    keys = data.draw(st.lists(st.sampled_from(sorted(inner)), max_size=3, unique=True))
    damaged = inner | {key: data.draw(VALUES) for key in keys}
    try:
        model = entry_of(config | {"text_config": damaged} if "text_config" in config else damaged)
    except InputError as error:
        assert error.diagnostics
    else:
        assert 0 < model.active_parameters_b <= model.parameters_b
