"""Runs of GPUs that share a mixture of experts: what files say of it, what plans know, and whom a profile changes."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import planner
from planner.candidates.replica import machine_for as candidate_machine
from planner.candidates.replica import measured_for
from planner.catalog.entries import shipped_catalog
from planner.catalog.profile import MeasuredPoint, Profile, profiles_text
from planner.catalog.variant import PARALLELISMS, Parallelism, Variant
from planner.io.errors import InputError
from planner.performance.calibration.calibrate import calibrate
from planner.performance.calibration.datasheet_limits import beyond_limits, in_other_units, replica_of
from planner.performance.calibration.profiles import profiles_from_text
from planner.performance.closed_loop import closed_loop
from planner.performance.machine_by_name import machine_for
from planner.plan.plan import Plan
from tests.support.command_line import Command
from tests.support.places import TESTS
from tests.support.rows import for_each

CATALOG = shipped_catalog()
EXPERTS = Variant("qwen3-30b-a3b", "fp8", "h100", 4, "expert")


def measured(variant: Variant, concurrency: int, slower: float = 1.0) -> dict[str, Any]:
    """A result of vllm bench serve, as the model predicts it, without any metadata."""
    machine = machine_for(CATALOG, variant, "vllm")
    run = closed_loop(machine, concurrency, 1000.7, 200.3)
    rate, tpot_s, ttft_s = (float(x) for x in (run.requests_per_s, run.tpot_s, run.ttft_s))
    return {
        "model_id": "Qwen/Qwen3-30B-A3B", "gpu": variant.gpu, "quantization": variant.quantization,
        "max_concurrency": concurrency, "completed": 1000, "num_prompts": 1000, "duration": 1000 / rate * slower,
        "total_input_tokens": 1_000_700, "total_output_tokens": 200_300, "request_throughput": rate / slower,
        "mean_tpot_ms": 1e3 * tpot_s * slower, "mean_ttft_ms": 1e3 * ttft_s * slower,
    }  # fmt: skip


def files(folder: Path, variant: Variant, slower: float = 1.0, **metadata: object) -> list[Path]:
    for c in (1, 16, 64, 128):
        (folder / f"c{c}.json").write_text(json.dumps(measured(variant, c, slower) | metadata))
    return sorted(folder.glob("c*.json"))


def complaints_about(paths: list[Path], **options: Any) -> str:
    with pytest.raises(InputError) as caught:
        calibrate(paths, **options)
    return " ".join(f"{d.message}. {d.remedy}." for d in caught.value.diagnostics)


@for_each(
    ("metadata", "parallelism"),
    [
        ({"tensor_parallel_size": 4}, "tensor"),
        ({"tensor_parallel_size": "4", "enable_expert_parallel": "false"}, "tensor"),
        ({"tensor_parallel_size": "4", "enable_expert_parallel": "true"}, "expert"),
        ({"tp": 4, "ep": 4, "dp_attention": False}, "expert"),
        ({"tp": 4, "ep": 4, "dp_attention": "true"}, "data"),
        ({"tp_size": 4, "dp_size": 4, "ep_size": 4, "enable_dp_attention": True}, "data"),
        ({"tensor_parallel_size": 1, "data_parallel_size": 4, "enable_expert_parallel": True}, "data"),
        ({"data_parallel_size": 4, "expert_parallel_size": 4}, "data"),
        ({"gpus_per_replica": 4, "parallelism": "data"}, "data"),
        ({"gpus_per_replica": 4, "parallelism": "Expert"}, "expert"),
    ],
)
def test_degrees_of_parallelism_say_how_experts_were_shared(
    tmp_path: Path, metadata: dict[str, object], parallelism: Parallelism
) -> None:
    done = calibrate(files(tmp_path, replace(EXPERTS, parallelism=parallelism), 1.1, **metadata))
    assert [d.profile.variant for d in done.deployments] == [replace(EXPERTS, parallelism=parallelism)]
    (again,) = profiles_from_text(done.profile_text, CATALOG)
    assert again.variant.parallelism == parallelism
    assert ("parallelism:" in done.profile_text) == (parallelism != "tensor")
    assert done.as_json()["deployments"][0]["parallelism"] == parallelism


def test_one_copy_of_attention_does_not_say_how_many_gpus(tmp_path: Path) -> None:
    asked = complaints_about(files(tmp_path, EXPERTS, data_parallel_size=1, expert_parallel_size=1))
    assert "does not say the GPUs per replica. Give it with --gpus-per-replica 1" in asked


def test_a_flag_counts_for_gpus_that_only_an_option_names(tmp_path: Path) -> None:
    (only,) = calibrate(files(tmp_path, EXPERTS, 1.1, enable_expert_parallel="yes"), gpus_per_replica=4).deployments
    assert only.profile.variant == EXPERTS
    (only,) = calibrate(files(tmp_path, EXPERTS, 1.1, tp=4), parallelism="expert").deployments
    assert only.profile.variant == EXPERTS


@for_each(
    ("metadata", "words"),
    [
        (
            {"data_parallel_size": 4},
            "4 x attention and 1 x experts on 4 GPUs: plans do not support this mix. Add enable_expert",
        ),
        ({"tp": 2, "data_parallel_size": 2, "enable_expert_parallel": True}, "2 x attention and 4 x experts on 4 GPUs"),
        ({"tp": 2, "pp": 2}, "2 stages on 4 GPUs: plans do not support this mix. Measure tensor"),
        ({"tp": 4, "ep": 2}, "1 x attention and 2 x experts on 4 GPUs"),
        ({"tp": 4, "parallelism": "wide"}, "there is no parallelism 'wide'. Use tensor, expert or data"),
        ({"tp": 4, "enable_expert_parallel": "perhaps"}, "'enable_expert_parallel' must be true or false"),
        ({"tp": 1, "parallelism": "expert"}, "one GPU has nothing to share"),
    ],
)
def test_what_plans_do_not_know_is_refused(tmp_path: Path, metadata: dict[str, object], words: str) -> None:
    assert words in complaints_about(files(tmp_path, EXPERTS, **metadata))


def test_copies_of_a_dense_model_are_replicas(tmp_path: Path) -> None:
    run = json.loads((TESTS / "results" / "vllm_old.json").read_text()) | {"gpu": "h100", "quantization": "fp16"}
    path = tmp_path / "run.json"
    path.write_text(json.dumps(run | {"tp": 1, "data_parallel_size": 4}))
    assert "was measured on 4 replicas together: llama-3.1-8b is not a mixture" in complaints_about([path])
    assert "was measured on 4 replicas" in complaints_about([path], parallelism="tensor")
    path.write_text(json.dumps(run | {"tp": 2, "parallelism": "expert"}))
    assert "llama-3.1-8b is not a mixture of experts" in complaints_about([path])


def test_columns_of_tables_say_it_too(tmp_path: Path) -> None:
    rows = [measured(EXPERTS, c, 1.1) for c in (1, 16, 64)]
    wide = tmp_path / "wide.csv"
    head = "model,gpu,gpus_per_replica,parallelism,quantization,input_tokens,output_tokens,concurrency,tpot_ms\n"
    given = "qwen3-30b-a3b,h100,4,expert,fp8,1000.7,200.3"
    wide.write_text(head + "".join(f"{given},{r['max_concurrency']},{r['mean_tpot_ms']}\n" for r in rows))
    long = tmp_path / "long.csv"
    head = (
        "model,gpu,n_gpus,tp,attention_dp,moe_ep,dtype_weights,input_len,output_len,batch_or_concurrency,metric,value\n"
    )
    tail = [f"fp8,1000.7,200.3,{r['max_concurrency']},tpot_ms,{r['mean_tpot_ms']}\n" for r in rows]
    long.write_text(head + "".join(f"qwen3-30b-a3b,h100,4,4,1,4,{row}" for row in tail))
    for path in (wide, long):
        assert [d.profile.variant for d in calibrate([path]).deployments] == [EXPERTS]
    long.write_text(head + "".join(f"qwen3-30b-a3b,h100,4,1,4,4,{row}" for row in tail))
    assert [d.profile.variant.parallelism for d in calibrate([long]).deployments] == ["data"]
    for degrees, parallelism in ((",1,", "tensor"), (",1,4", "expert"), (",4,4", "data")):
        long.write_text(head + "".join(f"qwen3-30b-a3b,h100,4,{degrees},{row}" for row in tail))
        assert [d.profile.variant for d in calibrate([long]).deployments] == [replace(EXPERTS, parallelism=parallelism)]
    long.write_text(head + "".join(f"qwen3-30b-a3b,h100,4,4,4,4,{row}" for row in tail))
    assert "4 GPUs with a parallelism of 16 are not one replica" in complaints_about([long])


def test_guidellm_extras_say_it_too(tmp_path: Path) -> None:
    report = json.loads((TESTS / "results" / "guidellm_v1.json").read_text())
    report["args"]["output_extras"] = {"gpu": "h100", "tp": 2, "quantization": "fp16", "data_parallel_size": 2}
    (tmp_path / "report.json").write_text(json.dumps(report))
    assert "was measured on 2 replicas together" in complaints_about([tmp_path / "report.json"])


@for_each("parallelism", ["tensor", "expert", "data"])
@for_each("concurrency", [1, 8, 256])
@for_each("tokens", [(64, 32), (4000, 500)])
def test_no_believable_run_is_beyond_the_datasheet(
    parallelism: Parallelism, concurrency: int, tokens: tuple[int, int]
) -> None:
    for variant in (Variant("qwen3-30b-a3b", "fp8", "h200", 8, parallelism),
                    Variant("deepseek-r1", "nvfp4", "b200", 8, parallelism)):  # fmt: skip
        run = closed_loop(machine_for(CATALOG, variant, "vllm"), concurrency, *tokens)
        point = MeasuredPoint(
            input_tokens=tokens[0], output_tokens=tokens[1], concurrency=concurrency, tpot_ms=1e3 * float(run.tpot_s),
            ttft_ms=1e3 * float(run.ttft_s), requests_per_s=float(run.requests_per_s),
        )  # fmt: skip
        assert list(beyond_limits(replica_of(variant, CATALOG), point)) == []
        assert list(in_other_units(replica_of(variant, CATALOG), point)) == []


POINT = MeasuredPoint(input_tokens=1000, output_tokens=200, concurrency=8, tpot_ms=12)


@pytest.mark.parametrize(
    ("model", "gpus", "words"),
    [
        ("llama-3.1-8b", 2, "not a mixture of experts"),
        ("qwen3-30b-a3b", 1, "nothing to share"),
        ("mixtral-8x7b", 16, "split"),
    ],
)
def test_a_profile_of_what_cannot_be_is_refused_at_its_line(model: str, gpus: int, words: str) -> None:
    wrong = Profile(
        model=model, quantization="fp8", gpu="h100", gpus_per_replica=gpus, parallelism="data", points=(POINT,)
    )
    with pytest.raises(InputError) as caught:
        profiles_from_text(profiles_text([wrong]), CATALOG)
    (diagnostic,) = caught.value.diagnostics
    assert words in diagnostic.message
    assert diagnostic.line == 9


DEMAND = """
workloads:
  - name: chat
    models: [qwen3-30b-a3b]
    forecast: {requests_per_day: 60M}
    tokens: {input: 1000, output: 200}
    api: forbidden
menu: {gpus: [h100], quantizations: [fp8], purchase: [on-demand], max_gpus_per_replica: 4, max_deployments: 1,
       parallelism: [expert]}
baseline: openai/gpt-4o
"""


def planned(folder: Path, parallelism: str, profile: str = "") -> Plan:
    text = DEMAND.replace("[expert]", f"[{parallelism}]")
    (folder / "profile.yaml").write_text(profile)
    (folder / "demand.yaml").write_text(text + ("profiles: [profile.yaml]\n" if profile else ""))
    return planner.plan_fleet(planner.load_case(folder / "demand.yaml"))


def costs(plan: Plan) -> dict[tuple[int, str], float | None]:
    return {(o.gpus_per_replica, o.parallelism): o.cost_usd_per_month for o in plan.options if o.variant is not None}


def test_a_profile_changes_the_candidate_of_its_parallelism_alone(tmp_path: Path) -> None:
    faster = calibrate(files(tmp_path, EXPERTS, 0.9, tp=4, enable_expert_parallel="true")).profile_text
    for way, changed in (("expert", {(4, "expert")}), ("tensor", set())):
        before, after = (costs(planned(tmp_path, way, text)) for text in ("", faster))
        assert before.keys() == after.keys() and {key for key in before if before[key] != after[key]} == changed
    case = planned(tmp_path, "tensor, expert", faster).case
    for way in PARALLELISMS:
        variant = replace(EXPERTS, parallelism=way)
        profile, correction = measured_for(case, candidate_machine(case, variant), variant)
        assert (profile is None) == (correction is None) == (way != "expert")


def test_the_command_takes_the_parallelism(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    fleetplan = Command(monkeypatch, capsys)
    runs = files(tmp_path, EXPERTS, 1.1, tp=4)
    ran = fleetplan("calibrate", *runs, "--parallelism", "expert", "--out", tmp_path / "profile.yaml")
    assert ran.code == 0
    assert "qwen3-30b-a3b fp8 on 4 x h100, expert parallel" in ran.out
    shape = ("--model", "qwen3-30b-a3b", "--gpu", "h100", "--quantization", "fp8", "--input", "1000", "--output", "200")
    ask = ("estimate", *shape, "--gpus-per-replica", "4", "--profile", tmp_path / "profile.yaml")
    assert "expert parallel" in fleetplan(*ask, "--parallelism", "expert").out
    assert "has no profile of qwen3-30b-a3b fp8 on 4 x h100. It has" in fleetplan(*ask).err
    wrong = fleetplan("calibrate", *runs, "--parallelism", "tp", "--out", tmp_path / "profile.yaml")
    assert (wrong.code, "Use tensor, expert or data" in wrong.err) == (2, True)
