"""What to measure next, and the command lines for it."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest

import planner
from planner.candidates.replica import machine_for
from planner.performance.calibration.calibrate import calibrate
from planner.performance.closed_loop import closed_loop
from planner.plan.benchmarks import suggestions
from planner.plan.plan import Plan
from tests.support.command_line import Command

DEMAND = """
workloads:
  - name: chat
    models: [llama-3.1-8b]
    forecast: {requests_per_day: 4M}
    tokens: {input: {p50: 800, p95: 2500}, output: {p50: 150, p95: 500}}
    quality: {max_loss: 5%}
  - name: "team's $(report)"
    models: [llama-3.3-70b]
    forecast: {requests_per_day: 300k}
    tokens: {input: 2000, output: 400}
menu: {gpus: [l40s, h100], purchase: [on-demand]}
baseline: openai/gpt-4o
"""


@pytest.fixture(scope="module")
def plan() -> Plan:
    return planner.plan_fleet(planner.case_from_text(DEMAND))


def test_the_largest_stake_comes_first_and_is_cost_times_error(plan: Plan) -> None:
    found = suggestions(plan, most=100)
    stakes = [s.stake_usd_per_month for s in found]
    assert stakes == sorted(stakes, reverse=True)
    for told in plan.pools:
        costs = sum(w.gpu_cost_usd_per_month for w in plan.workloads if w.name in told.workloads)
        if len(told.deployments) == 1:
            d = told.deployments[0].deployment
            (own,) = [s for s in found if s.chosen and s.workloads == told.workloads]
            assert own.stake_usd_per_month == pytest.approx(costs * d.error_frac)
    used = {told.name for pool in plan.pools for told in pool.deployments}
    assert {s.deployment for s in found if s.chosen} <= used
    assert not used & {s.deployment for s in found if not s.chosen}
    now = {o.workload: o.cost_usd_per_month for o in plan.options if o.chosen}
    others = [s for s in found if not s.chosen]
    assert all(s.stake_usd_per_month < (now[s.workloads[0]] or 0) for s in others)


def test_lines_can_be_pasted_and_vary_lengths(plan: Plan) -> None:
    for s in suggestions(plan):
        for line in (s.vllm, s.guidellm, s.aiperf):
            assert "$(report)" not in line
            assert "\n" not in line
        words = shlex.split(s.vllm.split("; do ")[1].split("; done")[0])
        assert words[:3] == ["vllm", "bench", "serve"]
        assert 0.1 <= float(words[words.index("--random-range-ratio") + 1]) <= 0.9
        assert s.concurrencies[0] == 1
        assert len(s.concurrencies) >= 3


def test_what_was_measured_is_not_suggested_again(tmp_path: Path) -> None:
    """A result as the suggested line saves it is read without any option, and settles the matter."""
    text = DEMAND.split('  - name: "team')[0] + "menu: {gpus: [h100], quantizations: [fp16], purchase: [on-demand]}\n"
    text += "baseline: openai/gpt-4o\n"
    before = suggestions(planner.plan_fleet(planner.case_from_text(text)))
    assert [s.deployment for s in before] == ["llama-3.1-8b fp16 on 1 x h100"]
    facts = dict(word.split("=") for word in shlex.split(before[0].vllm) if "=" in word and not word.startswith("-"))
    for c, rate, tpot, ttft in ((1, 0.95, 6.6, 38.0), (20, 11.5, 8.5, 90.0), (60, 22.0, 13.0, 210.0)):
        run = {
            "model_id": "meta-llama/Llama-3.1-8B-Instruct", "max_concurrency": c, "completed": 600, "num_prompts": 600,
            "duration": 600 / rate, "total_input_tokens": 600 * 1060 + 7, "total_output_tokens": 600 * 190 + 7,
            "request_throughput": rate, "output_throughput": 190 * rate, "mean_tpot_ms": tpot, "mean_ttft_ms": ttft,
            **facts,
        }  # fmt: skip
        (tmp_path / f"c{c}.json").write_text(json.dumps(run))
    (tmp_path / "profile.yaml").write_text(calibrate(sorted(tmp_path.glob("c*.json"))).profile_text)
    (tmp_path / "demand.yaml").write_text(text + "profiles: [profile.yaml]\n")
    plan = planner.plan_fleet(planner.load_case(tmp_path / "demand.yaml"))
    assert "estimated" not in {s.basis for s in suggestions(plan)}
    assert plan.pools[0].deployments[0].deployment.basis in ("measured", "interpolated", "scaled")


EXPERTS = """
workloads:
  - name: chat
    models: [qwen3-235b-a22b]
    forecast: {requests_per_day: 3M}
    tokens: {input: {p50: 800, p95: 2500}, output: {p50: 150, p95: 500}}
    api: forbidden
menu: {gpus: [h200], quantizations: [fp8], purchase: [on-demand], max_deployments: 1, parallelism: [WAY]}
baseline: openai/gpt-4o
"""


@pytest.mark.parametrize("parallelism", ["tensor", "expert", "data"])
def test_what_a_line_saves_is_read_as_the_deployment_that_it_is_of(tmp_path: Path, parallelism: str) -> None:
    plan = planner.plan_fleet(planner.case_from_text(EXPERTS.replace("WAY", parallelism)))
    (deployment,) = [d.deployment for pool in plan.pools for d in pool.deployments]
    suggestion = next(s for s in suggestions(plan) if s.chosen)
    machine = machine_for(plan.case, deployment.variant)
    words = shlex.split(suggestion.vllm.split("; do ")[1].split("; done")[0])
    start = words.index("--metadata") + 1
    facts = dict(word.split("=") for word in words[start : words.index("--max-concurrency")])
    for c in suggestion.concurrencies:
        run = closed_loop(machine, c, 1060.4, 190.6)
        rate = float(run.requests_per_s)
        result = {
            "model_id": words[words.index("--model") + 1], "max_concurrency": c, "completed": 500, "num_prompts": 500,
            "duration": 500 / rate, "total_input_tokens": 530_200, "total_output_tokens": 95_300,
            "request_throughput": rate, "mean_tpot_ms": 1e3 * float(run.tpot_s),
            "mean_ttft_ms": 1e3 * float(run.ttft_s),
        }  # fmt: skip
        (tmp_path / f"c{c}.json").write_text(json.dumps(result | facts))
    files = sorted(tmp_path.glob("c*.json"))
    assert [d.profile.variant for d in calibrate(files).deployments] == [deployment.variant]
    assert deployment.variant.parallelism == parallelism
    named = shlex.split(suggestion.calibrate)
    assert ("--parallelism" in named) == (parallelism != "tensor")
    given = dict(zip(named[3::2], named[4::2], strict=True))
    assert int(given["--gpus-per-replica"]) == deployment.gpus_per_replica
    bare = [json.loads(f.read_text()) for f in files]
    for f, run in zip(files, bare, strict=True):
        f.write_text(json.dumps({k: v for k, v in run.items() if k not in facts and k != "model_id"}))
    options = {key[2:].replace("-", "_"): value for key, value in given.items() if key != "--out"}
    again = calibrate(files, **options | {"gpus_per_replica": deployment.gpus_per_replica})  # type: ignore[arg-type]
    assert [d.profile.variant for d in again.deployments] == [deployment.variant]


def test_the_command_prints_and_refuses(
    plan: Plan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    fleetplan = Command(monkeypatch, capsys)
    (tmp_path / "plan.json").write_text(json.dumps(plan.as_json()))
    ran = fleetplan("calibrate", "--suggest", tmp_path / "plan.json")
    assert ran.code == 0
    assert "vllm bench serve" in ran.out
    listed = json.loads(fleetplan("calibrate", "--suggest", tmp_path / "plan.json", "--format", "json").out)
    assert [s["deployment"] for s in listed] == [s.deployment for s in suggestions(plan)]
    assert fleetplan("calibrate").code == 2
    both = fleetplan("calibrate", "results.json", "--suggest", tmp_path / "plan.json")
    assert both.code == 2
    assert "reads a plan, not results" in both.err
