"""What is downloaded and read to start a replica, and how long that takes."""

from __future__ import annotations

import pytest

import planner
from planner.case.case import Case
from planner.case.start_up import start_s
from planner.case.weights import weights_of
from planner.catalog.entries import shipped_catalog
from planner.checker.deployment import starts_in_time
from planner.io.errors import InputError
from planner.plan.serve_commands import checkpoint_of
from tests.support.lever_plans import lever_plan
from tests.support.rows import for_each

DEMAND = """
workloads:
  - name: chat
    models: [{model}]
    forecast: {{requests_per_day: 200k}}
    tokens: {{input: 900, output: 150}}
    spot: {{critical_share: 50%}}
    api: forbidden
menu: {{gpus: [h100], quantizations: [fp8], purchase: [on-demand, spot]}}
policy: {{startup: {startup}}}
catalog: {{models: {{{model}: {own}}}}}
baseline: openai/gpt-4o-mini
"""
ORIGINAL_GB = 2 * shipped_catalog().models["qwen2.5-72b"].parameters_b


def case_of(model: str, own: str = "{}", startup: str = "5min") -> Case:
    return planner.case_from_text(DEMAND.format(model=model, own=own, startup=startup))


def of_any_format(model: str) -> Case:
    return case_of(model).model_copy(update={"quantizations": shipped_catalog().quantizations})


def test_weights_that_are_quantized_on_load_are_read_in_16_bit() -> None:
    case = case_of("qwen2.5-72b")
    weights = weights_of(case, "qwen2.5-72b", "fp8")
    assert (weights.checkpoint, weights.quantized_to) == ("Qwen/Qwen2.5-72B-Instruct", "fp8")
    assert weights.gb == pytest.approx(ORIGINAL_GB)
    engine_s = 12.8 + 1.5 + 0.67 * 80 + 0.2 + 0.036 * 80 + 0.32 * 80  # of its 80 layers, by the catalog's figures
    assert start_s(case, "qwen2.5-72b", "fp8") == pytest.approx(300 + ORIGINAL_GB + engine_s)
    _, note = checkpoint_of(case, "qwen2.5-72b", "fp8")
    assert f"{ORIGINAL_GB:,.0f} GB of 16-bit weights are downloaded" in note
    assert "catalog: {models: {qwen2.5-72b: {checkpoints: {fp8: ID}}}}" in note


def test_a_checkpoint_of_ones_own_is_loaded_as_it_is() -> None:
    case = case_of("qwen2.5-72b", "{checkpoints: {fp8: ours/qwen-72b-fp8}}")
    weights = weights_of(case, "qwen2.5-72b", "fp8")
    assert (weights.checkpoint, weights.quantized_to) == ("ours/qwen-72b-fp8", None)
    assert weights.gb < 0.55 * ORIGINAL_GB
    assert checkpoint_of(case, "qwen2.5-72b", "fp8") == ("ours/qwen-72b-fp8", "")


def test_the_same_weights_are_loaded_whatever_the_precision_of_the_cache() -> None:
    case = of_any_format("qwen2.5-72b")
    assert weights_of(case, "qwen2.5-72b", "fp8-kv8") == weights_of(case, "qwen2.5-72b", "fp8")
    known = of_any_format("llama-3.1-8b")
    assert weights_of(known, "llama-3.1-8b", "fp8-kv8").checkpoint == "RedHatAI/Meta-Llama-3.1-8B-Instruct-FP8-dynamic"


@for_each(
    ("model", "quantization"),
    [("qwen2.5-14b", "int4-awq"), ("qwen2.5-14b", "nvfp4"), ("qwen2.5-14b", "int8"), ("gpt-oss-20b", "fp8")],
)
def test_what_no_engine_makes_on_load_needs_a_checkpoint(model: str, quantization: str) -> None:
    """Engines quantize 16-bit weights, and to FP8 only; of other published formats they make nothing."""
    case = of_any_format(model)
    weights = weights_of(case, model, quantization)
    assert (weights.checkpoint, weights.quantized_to) == (None, None)
    wanted, note = checkpoint_of(case, model, quantization)
    assert wanted.startswith("YOUR-CHECKPOINT/") and "put the id or path of a checkpoint" in note


def test_spot_waits_for_the_weights_that_are_read() -> None:
    """With 7 min for the machine and 97 s for the engine, 73 GB in FP8 come within ten minutes; 145 GB do not."""
    for own, in_time in (("{}", False), ("{checkpoints: {fp8: ours/qwen-72b-fp8}}", True)):
        case = case_of("qwen2.5-72b", own, "7min")
        assert (start_s(case, "qwen2.5-72b", "fp8") <= case.start.spot_within_s) == in_time
        record = lever_plan("waiting").pools[0].deployments[0].deployment
        assert starts_in_time(case, record.model_copy(update={"model": "qwen2.5-72b"})) == in_time


@for_each(
    ("own", "words"),
    [
        ("{checkpoints: {fp9: ours/a}}", "no weights are stored in 'fp9'"),
        ("{checkpoints: {fp8-kv8: ours/a}}", "no weights are stored in 'fp8-kv8'"),
        ("{checkpoints: {fp16: ours/a}}", "qwen2.5-72b is published in fp16"),
        ("{checkpoints: ours/a}", "checkpoints"),
    ],
)
def test_checkpoints_that_nothing_would_load_are_refused_at_their_place(own: str, words: str) -> None:
    with pytest.raises(InputError) as caught:
        case_of("qwen2.5-72b", own)
    assert words in str(caught.value)
    assert all(c.line for c in caught.value.diagnostics)
