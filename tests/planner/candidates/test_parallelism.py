"""How the GPUs per replica share a mixture of experts: what is offered, checked, written and said."""

from __future__ import annotations

import json
import shlex

import pytest

import planner
from planner.candidates.enumerate import enumerate_candidates
from planner.case.case import Case
from planner.case.changes import with_limits
from planner.checker import check_plan
from planner.explanations.limits import every_limit
from planner.export.export import export_plan
from planner.export.hosted import Settings
from planner.io.errors import InputError
from planner.optimization.replan import Replanner
from planner.plan.diff import diff_plans
from planner.plan.plan import Plan
from planner.plan.serve_commands import serve_commands
from tests.support.lever_plans import ROUGHLY
from tests.support.shared_plans import fleet_plan
from tests.support.shown import plan_text

TEXT = """
workloads:
  - name: chat
    models: [MODEL]
    forecast: {requests_per_day: 2M}
    tokens: {input: 900, output: 250}
    slo: {ttft_p95: 2s, tpot_p95: 60ms}
    api: forbidden
menu: {gpus: [h200], quantizations: [QUANTIZATION], providers: [aws], purchase: [on-demand]WAYS}
baseline: openai/gpt-4o
"""


def case(ways: str | None, model: str = "qwen3-235b-a22b", quantization: str = "fp8") -> Case:
    text = TEXT.replace("MODEL", model).replace("QUANTIZATION", quantization)
    return planner.case_from_text(text.replace("WAYS", f", parallelism: {ways}" if ways else ""))


def offered(case: Case) -> set[tuple[int, str]]:
    found = enumerate_candidates(case)
    accepted = {(c.machine.gpus, c.parallelism) for cs in found.accepted.values() for c in cs}
    rejected = {(r.variant.gpus_per_replica, r.variant.parallelism) for r in found.rejected if r.variant}
    return accepted | rejected


@pytest.fixture(scope="module")
def shared() -> Plan:
    return planner.plan_fleet(case("[expert]"), ROUGHLY)


def test_a_menu_without_it_slices_everything() -> None:
    assert case(None).limits.parallelism is None
    assert case(None).hash() == case("[tensor]").hash()
    assert offered(case(None)) == {(n, "tensor") for n in (1, 2, 4, 8)}


def test_every_way_is_tried_on_every_number_of_gpus() -> None:
    ways = ("tensor", "expert", "data")
    assert offered(case("[data, tensor, expert]")) == {(1, "tensor"), *((n, w) for n in (2, 4, 8) for w in ways)}


def test_dense_models_have_no_experts_to_share() -> None:
    dense = case("[tensor, expert, data]", "llama-3.1-8b")
    assert dense.limits.parallelism is None
    assert offered(dense) == offered(case(None, "llama-3.1-8b"))


def test_a_wrong_word_names_those_there_are() -> None:
    with pytest.raises(InputError) as error:
        case("[pipeline]")
    assert "menu.parallelism[0]" in str(error.value)
    assert "'tensor', 'expert' or 'data'" in str(error.value)


def test_more_ways_never_cost_more() -> None:
    costs = {ways: fleet_plan(case(ways), ROUGHLY).bound_usd_per_month for ways in ("[tensor]", "[expert]")}
    both = fleet_plan(case("[tensor, expert]"), ROUGHLY)
    assert both.bound_usd_per_month <= min(costs.values()) * (1 + 1e-6)


def test_whole_experts_are_told_to_the_engine(shared: Plan) -> None:
    (pool,) = shared.pools
    used = [d.deployment for d in pool.deployments]
    for d, serve in zip(used, serve_commands(shared), strict=True):
        words = shlex.split(serve.command)
        assert words[words.index("--tensor-parallel-size") + 1] == str(d.gpus_per_replica)
        assert ("--enable-expert-parallel" in words) == (d.gpus_per_replica > 1)
        assert "--data-parallel-size" not in words


def as_if(plan: Plan, parallelism: str) -> list[str]:
    """What the checker says where the first deployment is named as if its GPUs shared experts in another way."""
    data = json.loads(plan.to_json())
    record = data["pools"][0]["deployments"][0]["deployment"]
    sizes = f"/{record['gpus_per_replica']}x"
    text = json.dumps(data).replace(f"{sizes}-expert/", f"{sizes}-{parallelism}/".replace("-tensor", ""))
    data = json.loads(text)
    data["pools"][0]["deployments"][0]["deployment"]["parallelism"] = parallelism
    return list(check_plan(data))


def test_the_checker_knows_what_the_menu_allows_and_how_fast_each_way_is(shared: Plan) -> None:
    assert list(check_plan(shared.as_json())) == []
    sliced, copied = as_if(shared, "tensor"), as_if(shared, "data")
    assert any("seconds_per_request[0] is" in text for text in sliced)
    assert any("data parallelism is not on the menu" in text for text in copied)


def test_the_checker_knows_a_menu_without_slices() -> None:
    sliced = fleet_plan(case(None), ROUGHLY)
    assert sliced.pools[0].deployments[0].deployment.gpus_per_replica > 1
    menu = with_limits(parallelism=("expert",))(sliced.case)
    tampered = sliced.as_json() | {"case": menu.model_dump(mode="json"), "case_hash": menu.hash()}
    assert "chat: tensor parallelism is not on the menu" in check_plan(tampered)


@pytest.mark.parametrize(("part", "words"), [("options", "data parallel"), ("rejected", "is not rejected for")])
def test_the_checker_compares_alternatives_with_their_names(shared: Plan, part: str, words: str) -> None:
    data = shared.as_json()
    (first, *_) = (entry for entry in data[part] if entry["gpu"])
    first["parallelism"] = "data"
    problem, *_ = check_plan(data)
    assert problem.startswith("chat: ")
    assert words in problem


@pytest.mark.parametrize(("way", "together"), [("tensor", True), ("expert", False), ("data", False)])
def test_adapters_are_served_in_slices_alone(way: str, together: bool) -> None:
    text = TEXT.replace("MODEL", "qwen3-235b-a22b").replace("QUANTIZATION", "fp8")
    text = text.replace("WAYS", f", parallelism: [{way}]")
    start, end = text.index("  - name: chat"), text.index("menu:")
    chat = text[start:end] + "    adapter: 200MB\n    tenancy: shared\n"
    case = planner.case_from_text(text[:start] + chat + chat.replace("chat", "help") + text[end:])
    found = enumerate_candidates(case)
    assert any(len(pool.workloads) == 2 for pool in found.pools.values()) == together


def test_a_diff_compares_the_ways_of_two_menus(shared: Plan) -> None:
    assert diff_plans(shared, shared).same
    (change,) = diff_plans(fleet_plan(case(None), ROUGHLY), shared).limits
    assert (change.key, change.before, change.after) == ("parallelism", "tensor", "expert")


def test_a_report_says_how_experts_are_shared(shared: Plan) -> None:
    assert "8 x h200, expert parallel" in plan_text(shared) or "4 x h200, expert parallel" in plan_text(shared)


def test_an_explanation_prices_the_ways_that_the_menu_leaves_out() -> None:
    ways = [limit.key for limit in every_limit(case(None)) if "parallelism" in limit.key]
    assert ways == ["menu.parallelism.expert", "menu.parallelism.data"]
    assert not [limit.key for limit in every_limit(case(None, "llama-3.1-8b")) if "parallelism" in limit.key]
    (sliced,) = (limit for limit in every_limit(case("[expert, data]")) if "parallelism" in limit.key)
    assert sliced.one_more is not None
    assert sliced.one_more.label == "let GPUs share experts as tensor parallel (menu.parallelism)"
    (step,) = (limit.one_more for limit in every_limit(case("[tensor, expert]")) if "parallelism" in limit.key)
    assert step is not None
    assert step.change(case("[tensor, expert]")).limits.parallelism == ("tensor", "expert", "data")


def test_another_menu_is_formulated_anew() -> None:
    """What changes quotas alone keeps its recipes; ways to share experts are no quotas."""
    replanner = Replanner(case("[tensor]"), ROUGHLY)
    other = with_limits(parallelism=("expert",))(replanner.case)
    deployments = {d.key for pool in replanner.fleet_of(other).pools.values() for d in pool.deployments}
    assert any("x-expert/" in key for key in deployments)


def test_every_copy_of_attention_is_told_its_share() -> None:
    """Each is an engine of its own; side by side on an instance there are as many as all replicas have together."""
    plan = fleet_plan(case("[data]"), ROUGHLY)
    (told,) = plan.pools[0].deployments
    d, words = told.deployment, shlex.split(serve_commands(plan)[0].command)
    assert d.parallelism == "data"
    assert d.basis == "estimated"
    assert words[words.index("--tensor-parallel-size") + 1] == "1"
    assert words[words.index("--data-parallel-size") + 1] == str(d.gpus_per_replica)
    each = int(words[words.index("--max-num-seqs") + 1])
    assert d.requests_in_flight <= each * d.gpus_per_replica <= 2 * d.requests_in_flight
    (service,) = (text for name, text in export_plan(plan, "skypilot", Settings()).items() if name.endswith(".yaml"))
    assert service.count("--data-parallel-size 8") == 1
    assert list(check_plan(plan.as_json())) == []


def test_reuse_by_memory_needs_one_cache() -> None:
    curve = "{requests_per_s: 4, curve: [{tokens: 100k, hit_rate: 20%}, {tokens: 2M, hit_rate: 70%}]}"
    text = TEXT.replace("MODEL", "qwen3-235b-a22b").replace("QUANTIZATION", "fp8")
    text = text.replace("    api:", f"    caching: {{prefix_reuse: {curve}}}\n    api:")
    found = enumerate_candidates(planner.case_from_text(text.replace("WAYS", ", parallelism: [tensor, data]")))
    offered = {(c.pool.caching[0], c.parallelism) for cs in found.accepted.values() for c in cs}
    assert ("prefix", "tensor") in offered
    assert ("prefix", "data") not in offered
