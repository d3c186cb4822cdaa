"""What engines run is data: sourced, consistent with the catalog, and in the plan's reasons."""

from __future__ import annotations

import json
import re

import pytest

import planner
from planner.case.support import support_of
from planner.catalog.engine_support import (
    Verdict,
    entries,
    known_support,
    parser_entries,
    parser_flags,
    quantized_checkpoint,
)
from planner.catalog.entries import shipped_catalog, shipped_entries
from planner.catalog.variant import Variant
from planner.checker import check_plan
from planner.io.errors import InputError
from planner.plan.serve_commands import serve_commands
from planner.reports.catalog import catalog_document
from planner.reports.text import as_text
from tests.support.rows import for_each
from tests.support.shared_plans import fleet_plan
from tests.support.shown import plan_csv, plan_text

CATALOG = shipped_catalog()


def test_every_entry_has_a_source_and_names_what_the_catalog_has() -> None:
    architectures = {gpu.architecture for gpu in CATALOG.gpus.values()} | {"volta"}
    families = {model.family for model in CATALOG.models.values()}
    names = [name for key, m in CATALOG.models.items() for name in (key, m.checkpoint or key)]
    for entry in entries():
        assert re.fullmatch(r"20\d\d-\d\d-\d\d", entry.date or "") and entry.source
        assert bool(entry.reason) == (entry.verdict != "runs")
        assert entry.engine in CATALOG.engines
        assert set(entry.architectures) <= architectures
        assert set(entry.families) <= families
        assert set(entry.quantizations) <= set(CATALOG.quantizations)
        assert all(any(name.startswith(model) for name in names) for model in entry.models)


def test_known_checkpoints_are_of_models_and_quantizations_of_the_catalog() -> None:
    published = {m.checkpoint for m in CATALOG.models.values()}
    known = shipped_entries("checkpoints")
    assert list(known) == sorted(known) and set(known) <= published
    for ids in known.values():
        assert set(ids) <= set(CATALOG.quantizations)
        assert all(re.fullmatch(r"[\w.-]+/[\w.-]+", name) for name in ids.values())
    llama = CATALOG.models["llama-3.3-70b"]
    assert quantized_checkpoint(llama, "int4-awq") is not None
    assert quantized_checkpoint(llama.model_copy(update={"checkpoint": None}), "fp8") is None
    own = llama.model_copy(update={"checkpoints": {"fp8": "ours/llama-fp8"}})
    assert quantized_checkpoint(own, "fp8") == "ours/llama-fp8", "an entry of one's own comes first"


@for_each(
    ("engine", "model", "quantization", "gpu", "verdict"),
    [
        ("vllm", "llama-3.1-8b", "fp8", "h100", "runs"),
        ("vllm", "gemma-3-4b", "fp16", "t4", "fails"),
        ("vllm", "gemma-3-4b", "int8", "t4", "fails"),
        ("vllm", "gemma-3-4b", "fp16", "l4", "runs"),
        ("vllm", "llama-3.1-8b", "fp16", "t4", "runs"),
        ("vllm", "llama-3.1-8b", "int8", "b200", "fails"),
        ("vllm", "llama-3.1-8b", "int4-gptq", "mi300x", "unproven"),
        ("vllm", "llama-3.1-8b", "int4-awq", "b200", "unproven"),
        ("vllm", "gpt-oss-20b", "mxfp4", "t4", "fails"),
        ("vllm", "gpt-oss-20b", "mxfp4", "h100", "runs"),
        ("exllamav2", "llama-3.1-8b", "fp8", "h100", "unproven"),
    ],
)
def test_what_is_known(engine: str, model: str, quantization: str, gpu: str, verdict: Verdict) -> None:
    found = known_support(engine, Variant(model, quantization, gpu), CATALOG.models[model], CATALOG.gpus[gpu])
    assert found.verdict == verdict
    assert bool(found.reason) == (verdict != "runs")


@for_each(
    ("engine", "variant", "verdict"),
    [
        ("vllm", Variant("qwen3-235b-a22b", "fp8", "h200", 4, "expert"), "runs"),
        ("vllm", Variant("qwen3-235b-a22b", "fp8", "h200", 4, "data"), "runs"),
        ("vllm", Variant("gpt-oss-120b", "mxfp4", "h100", 2, "expert"), "runs"),
        ("vllm", Variant("kimi-k2.5", "nvfp4", "b200", 4, "expert"), "runs"),
        ("vllm", Variant("qwen3-235b-a22b", "int4-awq", "a100-80gb", 4, "expert"), "runs"),
        ("vllm", Variant("qwen3-235b-a22b", "int4-awq", "a100-80gb", 4, "data"), "unproven"),
        ("vllm", Variant("qwen3-235b-a22b", "int4-awq", "a100-80gb", 4), "runs"),
        ("vllm", Variant("qwen3-30b-a3b", "int8", "b200", 2, "data"), "fails"),
        ("vllm-2023", Variant("mixtral-8x7b", "fp16", "h100", 2, "expert"), "fails"),
        ("vllm-2023", Variant("mixtral-8x7b", "fp16", "h100", 2), "runs"),
        ("sglang", Variant("deepseek-r1", "nvfp4", "b200", 4, "expert"), "runs"),
        ("sglang", Variant("deepseek-r1", "nvfp4", "b200", 4, "data"), "unproven"),
        ("sglang", Variant("mixtral-8x7b", "int4-awq", "h100", 2, "expert"), "unproven"),
        ("tensorrt-llm", Variant("deepseek-r1", "fp8", "h200", 8, "data"), "fails"),
        ("tensorrt-llm", Variant("deepseek-r1", "fp8", "h200", 8, "expert"), "unproven"),
        ("lmdeploy", Variant("mixtral-8x7b", "fp16", "h100", 2, "expert"), "unproven"),
        ("transformers", Variant("gpt-oss-120b", "mxfp4", "h100", 2, "data"), "fails"),
        ("tgi", Variant("mixtral-8x7b", "fp16", "h100", 2, "expert"), "fails"),
        ("exllamav2", Variant("mixtral-8x7b", "fp16", "h100", 2, "data"), "fails"),
    ],
)
def test_what_is_known_of_ways_to_share_experts(engine: str, variant: Variant, verdict: Verdict) -> None:
    found = known_support(engine, variant, CATALOG.models[variant.model], CATALOG.gpus[variant.gpu])
    assert found.verdict == verdict


MIXTURE = """
workloads:
  - {name: chat, models: [qwen3-30b-a3b], forecast: {requests_per_day: 400k}, api: forbidden}
menu: {engine: ENGINE, gpus: [h100], quantizations: [fp8], parallelism: [tensor, expert, data], max_deployments: 1}
policy: {unproven: allowed}
baseline: openai/gpt-4o-mini
"""


def test_what_is_unproven_with_a_borrowed_loss_is_used_only_where_that_is_allowed() -> None:
    """TGI is not known to run it, and its loss in FP8 was measured on models of another family."""
    text = MIXTURE.replace("ENGINE", "tgi")
    with pytest.raises(planner.Infeasible, match="unproven, and its loss of quality is borrowed"):
        planner.plan_fleet(planner.case_from_text(text.replace("policy: {unproven: allowed}\n", "")))
    allowed = fleet_plan(planner.case_from_text(text))
    assert allowed.fleet and check_plan(allowed.as_json()) == []
    limits = allowed.case.limits.model_copy(update={"unproven_forbidden": None})
    case = allowed.case.model_copy(update={"limits": limits})
    silent = allowed.model_copy(update={"case": case, "case_hash": case.hash()})
    assert any("unproven with a borrowed quality loss" in problem for problem in check_plan(silent.as_json()))


def test_a_way_that_the_engine_lacks_is_rejected_with_its_reason() -> None:
    plan = fleet_plan(planner.case_from_text(MIXTURE.replace("ENGINE", "tgi")))
    assert {d.deployment.variant.parallelism for pool in plan.pools for d in pool.deployments} == {"tensor"}
    reasons = {(r.parallelism, r.reason) for r in plan.rejected if r.parallelism}
    assert reasons == {(way, "TGI shards every layer over all GPUs of a replica") for way in ("expert", "data")}
    assert check_plan(plan.as_json()) == []
    waits = fleet_plan(planner.case_from_text(MIXTURE.replace("ENGINE", "tensorrt-llm")))
    assert any(r.parallelism == "data" and "prompts wait" in r.reason for r in waits.rejected)


GEMMA = """
workloads:
  - {name: tags, models: [gemma-3-4b], forecast: {requests_per_day: 50k}, api: forbidden, quality: {max_loss: 5%}}
menu: {gpus: [t4, l4], quantizations: [fp16, int8], max_deployments: 1}
baseline: openai/gpt-4o-mini
"""


def test_what_is_known_not_to_run_is_rejected_with_its_reason_and_a_plan_with_it_does_not_hold() -> None:
    plan = fleet_plan(planner.case_from_text(GEMMA))
    assert {d.deployment.gpu for pool in plan.pools for d in pool.deployments} == {"l4"}
    reasons = {(r.gpu, r.reason) for r in plan.rejected if r.gpu == "t4"}
    assert reasons == {("t4", "vLLM does not run this model in FP16, and the GPU has no BF16")}
    assert check_plan(plan.as_json()) == []
    gpus = {key: gpu.model_copy(update={"architecture": "turing"}) for key, gpu in plan.case.gpus.items()}
    case = plan.case.model_copy(update={"gpus": gpus})
    forged = plan.model_copy(update={"case": case, "case_hash": case.hash()})
    assert any("does not run this model in FP16" in problem for problem in check_plan(forged.as_json()))


OWN = """
workloads:
  - {name: chat, models: [llama-3.1-8b], forecast: {requests_per_day: 50k}, api: forbidden}
menu: {gpus: [own], quantizations: [fp16], max_deployments: 1, regions: [home], providers: [colo]}
catalog:
  gpus:
    own: {vram_gb: 48, bandwidth_gb_per_s: 900, dense_tflops: {fp16: 300}, interconnect: {kind: pcie, gb_per_s: 64}}
  offers:
    colo/box@home: {provider: colo, instance: box, region: home, gpu: own, gpus: 1, prices: {on_demand: {usd_per_h: 1}}}
baseline: openai/gpt-4o-mini
"""


def test_what_was_never_seen_to_run_is_marked_everywhere_and_a_policy_forbids_it() -> None:
    plan = planner.plan_fleet(planner.case_from_text(OWN))
    assert support_of(plan.case, Variant("llama-3.1-8b", "fp16", "own")).verdict == "unproven"
    text = plan_text(plan)
    assert "unproven; try it before you sign: vllm is not known to run llama-3.1-8b fp16 on own" in text
    assert "estimated, unproven" in text
    for table in ("options", "deployments"):
        head, first, *_ = plan_csv(plan, table).splitlines()
        assert "support" in head and "unproven" in first
    (command,) = serve_commands(plan)
    assert any(note.startswith("unproven: no source shows") for note in command.notes)
    with pytest.raises(Exception, match="unproven: no source shows that it runs"):
        planner.plan_fleet(planner.case_from_text(OWN + "policy: {unproven: forbidden}\n"))
    with pytest.raises(InputError, match="unproven"):
        planner.case_from_text(OWN + "policy: {unproven: never}\n")


def test_every_parser_is_of_a_model_of_the_catalog_and_says_where_it_is_from() -> None:
    published = [m.checkpoint or "" for m in CATALOG.models.values()]
    for entry in parser_entries():
        assert any(name.startswith(entry.models) for name in published), entry.models
        assert entry.source and entry.date and (entry.tools or entry.reasoning)
        assert entry.tools or not entry.chat_template


def test_parsers_are_those_of_the_first_entry_that_fits() -> None:
    assert parser_flags(CATALOG.models["qwen3-coder-480b-a35b"])[2] == "qwen3_xml"
    assert parser_flags(CATALOG.models["qwen3-8b"])[2:] == ("hermes", "--reasoning-parser", "qwen3")
    assert parser_flags(CATALOG.models["deepseek-r1"]) == ("--reasoning-parser", "deepseek_r1")
    assert parser_flags(CATALOG.models["falcon-180b"]) == ()
    assert parser_flags(CATALOG.models["qwen3-8b"].model_copy(update={"checkpoint": None})) == ()


def test_the_catalog_shows_quantized_checkpoints_and_how_to_add_one() -> None:
    report = catalog_document("models", "llama-3.1-8b", "180d", None)
    assert (
        json.loads(report.json())["llama-3.1-8b"]["checkpoints"]["fp8"]
        == "RedHatAI/Meta-Llama-3.1-8B-Instruct-FP8-dynamic"
    )
    assert "catalog: {models: {llama-3.1-8b: {checkpoints: {fp8: ID}}}}" in as_text(report)
