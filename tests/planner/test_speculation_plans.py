"""Plans that draft: chosen where it pays, checked, served by a command, and shown."""

from __future__ import annotations

import copy
import json
import shlex
from itertools import pairwise
from typing import Any

import pytest

import planner
from planner.candidates import screen
from planner.candidates.step_budget import KNOWN
from planner.case.case import Case
from planner.explanations.limits import every_limit
from planner.export.targets.ray import engine_kwargs
from planner.plan.plan import Plan
from planner.plan.serve_commands import serve_commands
from tests.support.rows import for_each
from tests.support.shared_plans import plan_of
from tests.support.tampering import rehashed

DEMAND = """
workloads:
  - name: chat
    models: [MODEL]
    forecast: {requests_per_day: 300k, burstiness: 1}
    tokens: {input: 400, output: 200}
    slo: {ttft_p95: 2s, tpot_p95: 4ms}
    kind: chat
    api: forbidden
    OWN
menu: {gpus: [h100], quantizations: [fp8], purchase: [on-demand], providers: [aws], regions: [us-east-1], apis: [],
       max_gpus_per_replica: 2, max_deployments: 1, speculation: METHODS}
policy: {min_replicas: 1, startup: 0s}
baseline: openai/gpt-4o-mini
"""


CHAT, LLAMA = "speculation: {domain: chat}", "llama-3.1-8b"


def demand(methods: str = "[none, eagle3]", own: str = CHAT, model: str = LLAMA) -> str:
    return DEMAND.replace("METHODS", methods).replace("OWN", own).replace("MODEL", model)


def planned(text: str) -> Plan:
    plan = plan_of(planner.case_from_text(text))
    assert isinstance(plan, Plan)
    return plan


def drafting() -> Plan:
    return planned(demand())


def only(plan: Plan) -> Any:
    (pool,) = plan.pools
    (deployed,) = pool.deployments
    return deployed.deployment


def test_drafts_are_chosen_where_answers_must_be_fast() -> None:
    plan, plain = drafting(), planned(demand("[none]"))
    d = only(plan)
    assert d.speculation is not None and d.speculation.startswith("eagle3:")
    assert plain.cost_usd_per_month > plan.cost_usd_per_month and only(plain).speculation is None
    tokens = int(d.speculation.rpartition(":")[2])
    assert 1 < d.accepted_tokens <= tokens + 1 and d.basis == "estimated"
    (workload,) = plan.case.workloads
    (known,) = workload.drafts or ()
    assert d.accepted_tokens == pytest.approx(1 + sum(known.chances[:tokens]))


def test_no_length_is_better_than_the_one_that_is_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every draft length by itself: the two that get a closer look have the best among them."""
    costs = {}
    for k in range(1, 8):
        monkeypatch.setattr(screen, "best_lengths", lambda case, group, plain, method, k=k: [k])
        KNOWN._known.clear()
        costs[k] = planner.plan_fleet(planner.case_from_text(demand("[eagle3]"))).cost_usd_per_month
    monkeypatch.undo()
    assert drafting().cost_usd_per_month == pytest.approx(min(costs.values()), rel=1e-6)
    assert max(costs.values()) > min(costs.values())


def test_drafts_are_left_out_where_they_lose() -> None:
    """Work that may be slow runs in large batches, in which every token that is verified costs time."""
    slow = demand(own="deadline: 12h\n    speculation: {domain: questions}")
    plan = planned(slow.replace("slo: {ttft_p95: 2s, tpot_p95: 4ms}", ""))
    assert only(plan).speculation is None
    lost = [r for r in plan.rejected if r.speculation]
    assert lost and all(r.reason == "carries no more with any number of drafts" for r in lost)


def test_what_a_workload_measured_comes_first() -> None:
    case = planner.case_from_text(demand(own="speculation: {accepted: 2.4, tokens: 3}"))
    (known,) = case.workloads[0].drafts or ()
    assert 1 + sum(known.chances) == pytest.approx(2.4) and len(known.chances) == 3
    assert not any("speculation" in a.key for a in case.assumptions)
    least = planner.case_from_text(demand(own=""))
    (assumed,) = least.workloads[0].drafts or ()
    assert "questions" in assumed.source and any("speculation" in a.key for a in least.assumptions)


@for_each(
    ("methods", "own", "model", "why"),
    [
        ("[none, eagle3]", "", "qwen3-8b", "nobody measured how many eagle3 drafts of qwen3-8b are accepted"),
        ("[none, mtp]", "", "llama-3.1-8b", "no layers for MTP are known"),
        ("[none, ngram]", "", "llama-3.1-8b", "nobody measured how many ngram drafts"),
        ("[none, 'draft:qwen3-0.6b']", "", "llama-3.1-8b", "words of the one"),
        ("[none, eagle3]", "speculation: {domain: translation}", "llama-3.1-8b", "workloads.chat.speculation.accepted"),
    ],
)
def test_what_cannot_draft_says_what_to_do(methods: str, own: str, model: str, why: str) -> None:
    text = demand(methods, own, model).replace("tpot_p95: 4ms", "tpot_p95: 50ms")
    plan = planned(text)
    assert only(plan).speculation is None
    assert any(why in f"{r.reason} {r.limit}" for r in plan.rejected)


@for_each(
    ("text", "why"),
    [
        (demand("[none, eagle4]"), "there is no method 'eagle4'"),
        (demand("[none, 'draft:llama-9']"), "there is no model 'llama-9'"),
        (demand(own="speculation: {accepted: 5, tokens: 3}"), "must be between 1 and 4"),
        (demand(own="speculation: {accepted: 2, tokens: 12}"), "is above 8"),
    ],
)
def test_mistakes_are_located(text: str, why: str) -> None:
    with pytest.raises(planner.InputError, match=why):
        planner.case_from_text(text)


def test_a_small_model_may_draft_for_a_large_one() -> None:
    text = demand("[none, 'draft:llama-3.1-8b']", "speculation: {accepted: 3.2, tokens: 4}", "llama-3.1-70b")
    case = planner.case_from_text(text.replace("tpot_p95: 4ms", "tpot_p95: 25ms"))
    assert case.limits.speculation == ("none", "draft:llama-3.1-8b")
    assert case.drafters is not None and "llama-3.1-70b draft:llama-3.1-8b" in case.drafters


def broken(change: Any) -> list[str]:
    data = copy.deepcopy(drafting().as_json())
    change(data)
    rehashed(data)
    return planner.check_plan(data)


def deployment(data: dict[str, Any]) -> dict[str, Any]:
    return data["pools"][0]["deployments"][0]["deployment"]  # type: ignore[no-any-return]


TAMPERED = {
    "another method": lambda data: deployment(data).update(speculation="ngram:3"),
    "more drafts": lambda data: deployment(data).update(speculation="eagle3:9"),
    "other drafts": lambda data: deployment(data).update(speculation="eagle3:1"),
    "no number": lambda data: deployment(data).update(speculation="eagle3:0"),
    "no drafts": lambda data: deployment(data).pop("speculation"),
    "more accepted": lambda data: deployment(data).update(accepted_tokens=9.0),
    "a little more accepted": lambda data: deployment(data).update(accepted_tokens=3.3),
    "off the menu": lambda data: data["case"]["limits"].update(speculation=["none"]),
    "no drafter": lambda data: data["case"].pop("drafters"),
    "less accepted": lambda data: data["case"]["workloads"][0]["drafts"][0].update(chances=[0.1, 0.05]),
    "likelier later": lambda data: data["case"]["workloads"][0]["drafts"][0]["chances"].reverse(),
}


@for_each("name", TAMPERED)
def test_a_tampered_plan_is_refused(name: str) -> None:
    assert broken(TAMPERED[name])


def test_the_command_drafts_as_planned() -> None:
    plan = drafting()
    (command,) = serve_commands(plan)
    words = shlex.split(command.command)
    config = json.loads(words[words.index("--speculative-config") + 1])
    tokens = int(only(plan).speculation.rpartition(":")[2])
    assert config["method"] == "eagle3" and config["num_speculative_tokens"] == tokens
    assert config["model"] == "lmsys/SGLang-EAGLE3-Llama-3.1-8B-Instruct-SpecForge"
    schedule = config.get("num_speculative_tokens_per_batch_size", [[1, 1, tokens]])
    assert schedule[0][2] == tokens and schedule[0][0] == 1
    assert all(b[0] == a[1] + 1 and b[2] < a[2] for a, b in pairwise(schedule))
    most, sequences = (int(words[words.index(f"--max-num-{what}") + 1]) for what in ("batched-tokens", "seqs"))
    assert most >= (1 + tokens) * sequences
    assert any("spec_decode" in note for note in command.notes)
    assert engine_kwargs(words[3:])["speculative_config"] == config


def test_reports_say_how_tokens_are_drafted(tmp_path: Any) -> None:
    plan = drafting()
    tokens = only(plan).speculation.rpartition(":")[2]
    assert f"{tokens} drafts by eagle3" in str(only(plan).variant)
    page = tmp_path / "plan.html"
    plan.save(page)
    assert f"{tokens} drafts by eagle3" in page.read_text(encoding="utf-8")


def test_the_lever_is_left_out_by_its_name() -> None:
    from planner.levers import SWITCHES, levers_in_use

    plan = drafting()
    assert "speculation" in SWITCHES
    (lever,) = (x for x in levers_in_use(plan) if x.key == "speculative decoding")
    without = lever.without(plan.case)
    assert without.limits.speculation is None and without.drafters is None and not lever.adds(without)
    assert isinstance(without, Case) and lever.without(without) == without


def test_runs_with_drafts_are_not_mixed_with_others(tmp_path: Any) -> None:
    run = {"model": "llama-3.1-8b", "gpu": "h100", "gpus_per_replica": 1, "quantization": "fp8", "input_tokens": 500,
           "output_tokens": 200, "concurrency": 8, "tpot_ms": 9.0, "ttft_ms": 60.0}  # fmt: skip
    rows = [run, run | {"concurrency": 16, "tpot_ms": 10.0, "speculation": "eagle3"}]
    path = tmp_path / "runs.csv"
    columns = list(rows[1])
    lines = [",".join(columns), *(",".join(str(r.get(c, "")) for c in columns) for r in rows)]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    with pytest.raises(planner.InputError, match=r"speculative decoding .*eagle3"):
        planner.calibrate([path])


def test_what_drafts_would_save_is_said_where_the_menu_has_none() -> None:
    plain, plan = planned(demand("[none]")), planned(demand(own=""))
    limits = [x for x in every_limit(plain.case) if x.key.startswith("menu.speculation")]
    assert [x.key for x in limits] == ["menu.speculation.eagle3"]
    step = limits[0].one_more
    assert step is not None
    tried = plan_of(step.change(plain.case))
    assert tried.cost_usd_per_month == pytest.approx(plan.cost_usd_per_month, rel=1e-6)
    assert not [x for x in every_limit(plan.case) if x.key.startswith("menu.speculation")]
