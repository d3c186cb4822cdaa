"""Replicas over several boxes: planned where one does not hold a model, checked, served, and exported."""

from __future__ import annotations

import copy
import math
import shlex
from collections import Counter
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

import planner
from planner.candidates.enumerate import enumerate_candidates
from planner.candidates.replica import machine_for
from planner.case.boxes import known_links, most_boxes
from planner.catalog.entries import Offer, shipped_catalog
from planner.catalog.variant import PARALLELISMS, Parallelism, Variant, of_key
from planner.explanations.limits import every_limit
from planner.export.export import export_plan
from planner.export.hosted import Settings
from planner.export.packing import Wanted, packed, skews
from planner.io.errors import InputError
from planner.performance.latency import decode_step_s, prefill_added_s, prefill_s, prompts_behind_s, prompts_round_s
from planner.performance.memory import kv_room_bytes, layout_of, weight_bytes
from planner.performance.steady_state import steady_state
from planner.plan.account.replicas import boxes_filled
from planner.plan.plan import Plan
from planner.plan.serve_commands import serve_commands
from tests.support.manifest_checks import against_restricted, assert_valid, objects, pods_of
from tests.support.rows import for_each
from tests.support.shared_plans import fleet_plan
from tests.support.tampering import passes_unlisted, rehashed

DEMAND = """
workloads:
  - name: agents
    models: [MODEL]
    forecast: {requests_per_day: 20k, burstiness: 1}
    tokens: {input: 3000, output: 400}
    slo: {ttft_p95: 8s, tpot_p95: 80ms}
    kind: chat
    quality: {max_loss: 10%}
    api: forbidden
menu: {gpus: [GPU], quantizations: [SCHEME], purchase: [on-demand], providers: [aws], regions: [us-east-1], apis: [],
       max_deployments: 1MORE}
policy: {min_replicas: 1, startup: 0s, unproven: allowed}
baseline: openai/gpt-4o
"""
K3, V4, QWEN = (
    ("kimi-k3", "b200", "mxfp4"),
    ("deepseek-v4-pro", "h100", "mxfp4"),
    ("qwen3.8-2.4t-a95b", "b200", "fp8"),
)


def demand(model: str, gpu: str, scheme: str, more: str = "") -> str:
    text = DEMAND.replace("MODEL", model).replace("GPU", gpu).replace("SCHEME", scheme)
    return text.replace("MORE", f", {more}" if more else "")


def planned(text: str) -> Plan:
    return fleet_plan(planner.case_from_text(text))


def only(plan: Plan) -> Any:
    (pool,) = plan.pools
    (deployed,) = pool.deployments
    return deployed.deployment


def kimi() -> Plan:
    return planned(demand(*K3))


@pytest.mark.parametrize("what", [K3, V4, QWEN])
def test_models_that_no_box_holds_span_as_few_as_hold_them(what: tuple[str, str, str]) -> None:
    plan = planned(demand(*what))
    d = only(plan)
    assert d.boxes_per_replica == 2 and d.gpus_per_replica == 16 and d.basis == "estimated"
    assert any(a.key == "menu.max_boxes_per_replica" and what[0] in a.why for a in plan.case.assumptions)
    peak = max(plan.pools[0].deployments[0].replicas_by_slot)
    assert max(line.instances_by_slot[0] for line in plan.fleet) <= 2 * peak
    assert sum(max(line.instances_by_slot) for line in plan.fleet) == 2 * peak
    assert planner.check_plan(plan.as_json()) == []


def test_one_box_where_one_does() -> None:
    """B300 hold what B200 do not; a menu that asks for several gets one where it does."""
    alone = planned(demand("kimi-k3", "b300", "mxfp4"))
    assert only(alone).boxes_per_replica is None and alone.case.limits.max_boxes_per_replica is None
    assert all(offer.interconnect is None for offer in alone.case.offers.values())
    asked = planned(demand("kimi-k3", "b300", "mxfp4", "max_boxes_per_replica: 4"))
    assert only(asked).boxes_per_replica is None and asked.cost_usd_per_month == alone.cost_usd_per_month
    assert not any(r.boxes_per_replica for r in asked.rejected)


def test_several_boxes_of_one_kind_against_one_of_another() -> None:
    """Named, boxes are joined of offers that do not hold a model, beside those that do; the cheaper one is bought."""
    text = demand("kimi-k3", "b200, b300", "mxfp4", "max_boxes_per_replica: 2")
    plan = planned(text)
    assert most_boxes(plan.case, "kimi-k3") == 2
    one = planned(demand("kimi-k3", "b200, b300", "mxfp4"))
    assert plan.cost_usd_per_month <= one.cost_usd_per_month * (1 + 1e-9)


def test_one_is_the_most_where_the_file_says_so() -> None:
    with pytest.raises(planner.Infeasible, match=r"up to 4 boxes instead of 1 \(menu\.max_boxes_per_replica\)"):
        planned(demand(*K3, "max_boxes_per_replica: 1"))


def test_more_boxes_are_offered_only_where_one_does_not_do() -> None:
    few = planner.case_from_text(demand("kimi-k3", "b200", "mxfp4", "max_boxes_per_replica: 2"))
    (limit,) = [x for x in every_limit(few) if "boxes" in x.key]
    more = limit.one_more.change(few)
    assert more.limits.max_boxes_per_replica == {"kimi-k3": 4} and few.limits.max_boxes_per_replica == {"kimi-k3": 2}
    for gpu in ("b200", "b300"):
        case = planner.case_from_text(demand("kimi-k3", gpu, "mxfp4"))
        assert not [x for x in every_limit(case) if "boxes" in x.key]


OWN = """
catalog:
  offers:
    mine/box@here:
      provider: mine
      instance: box
      region: here
      gpu: b200
      gpus: 8
      prices: {on_demand: {usd_per_h: 40}}
"""


@for_each(
    ("link", "why"),
    [
        ("", "no fast interconnect between boxes is known"),
        ("      interconnect: {kind: ethernet, gb_per_s: 12.5}\n", "no fast interconnect between boxes"),
        ("      interconnect: {kind: nvlink, gb_per_s: 900, domain_gpus: 8}\n", "the interconnect reaches fewer GPUs"),
        ("      interconnect: {kind: infiniband, gb_per_s: 50}\n", None),
    ],
)
def test_boxes_are_joined_by_something_fast(link: str, why: str | None) -> None:
    text = demand(*K3).replace("providers: [aws], regions: [us-east-1]", "providers: [mine]")
    case = planner.case_from_text(text + OWN + link)
    found = enumerate_candidates(case)
    reasons = {r.reason for r in found.rejected if r.variant and r.variant.boxes > 1}
    accepted = [c.on_gpus.boxes for some in found.accepted.values() for c in some]
    assert (reasons, accepted) == (({why}, []) if why else (set(), [2, 3, 4]))
    assert (case.offers["mine/box@here"].interconnect is None) == (not link)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ("max_boxes_per_replica: 0", "max_boxes_per_replica"),
        ("max_boxes_per_replica: 9", "max_boxes_per_replica"),
        ("max_boxes_per_replica: two", "max_boxes_per_replica"),
    ],
)
def test_mistakes_are_located(change: str, why: str) -> None:
    with pytest.raises(InputError, match=why):
        planner.case_from_text(demand(*K3, change))


def test_an_interconnect_is_read_strictly() -> None:
    with pytest.raises(InputError, match=r"interconnect\.kind"):
        planner.case_from_text(demand(*K3) + OWN + "      interconnect: {kind: string, gb_per_s: 50}\n")


def test_known_links_are_of_offers_and_sourced() -> None:
    types = {f"{offer.provider}/{offer.instance}": offer for offer in shipped_catalog().offers.values()}
    assert list(known_links()) == sorted(known_links())
    for key, link in known_links().items():
        assert isinstance(types[key], Offer) and link.is_fast and link.date and "memory" not in link.source
        assert types[key].gpus in (1, 2, 4, 8) and 5 <= link.gb_per_s <= 900


# -- what a replica over boxes is --------------------------------------------------------------------------------------


def machine(boxes: int, gpus: int = 8, model: str = "kimi-k3") -> Any:
    case = planner.case_from_text(demand(*K3).replace("kimi-k3", model))
    return machine_for(case, Variant(model, "mxfp4", "b200", gpus * boxes, boxes=boxes))


def test_memory_is_that_of_all_boxes_less_what_the_fullest_lacks() -> None:
    model, gpu = shipped_catalog().models["kimi-k3"], shipped_catalog().gpus["b200"]
    scheme = shipped_catalog().quantizations["mxfp4"]
    whole = weight_bytes(model, scheme)
    usable = 8 * (0.9 * gpu.vram_gb * 0.995 * 2**30 - 2e9)
    for boxes in (2, 3, 4):
        most_layers = math.ceil(model.layers / boxes)
        end = 2 * model.vocab * model.hidden
        fullest = (whole - 2 * end) * most_layers / model.layers + end
        held = kv_room_bytes(model, gpu, 8 * boxes, scheme, layout=layout_of("tensor", 8 * boxes, boxes)) * 8  # MLA
        assert held == pytest.approx((usable - fullest) * model.layers / most_layers, rel=1e-9)
        assert held < boxes * usable - whole
    assert kv_room_bytes(model, gpu, 8, scheme) < 0


def test_a_pipeline_carries_as_much_as_its_boxes_and_takes_as_long_as_one() -> None:
    """With small hops, even layers and no head or overhead to wait for, two boxes do twice what one does with half."""
    two = machine(2)
    one = two.one_box
    assert (one.gpus, one.layout.stages, two.boxes, two.link_gb_per_s) == (8, 2, 2, 50)
    for batch in (2.0, 16.0, 128.0):
        alone, both = (float(decode_step_s(m, b, 3000.0)) for m, b in ((one, batch / 2), (two, batch)))
        assert alone < both < 1.25 * alone
    assert float(decode_step_s(two, 1.0, 3000.0)) == float(decode_step_s(two, 2.0, 3000.0))
    added, half = (float(prefill_added_s(m, 2000.0, 2000.0, b)) for m, b in ((two, 32.0), (one, 16.0)))
    assert added == pytest.approx(half / 2, rel=0.1) and added > half / 2
    short = [float(prefill_s(m, 500.0)) for m in (one, two)]
    assert short[0] < short[1] < 1.1 * short[0]
    chunk = two.engine.chunk_tokens
    long = [float(prefill_s(m, 16.0 * chunk)) for m in (one, two)]
    assert 0.5 * long[0] < long[1] < 0.65 * long[0]
    rates = [float(steady_state(m, b, 3000.0, 400.0).requests_per_s) for m, b in ((one, 32.0), (two, 64.0))]
    assert 1.6 * rates[0] < rates[1] < 2 * rates[0]


def test_a_round_of_prompts_and_what_follows_it_are_the_whole_way() -> None:
    two = machine(2)
    tokens = np.array([64.0, 500.0, float(two.engine.chunk_tokens)])
    whole = prompts_round_s(two, tokens) + prompts_behind_s(two, tokens)
    assert whole == pytest.approx(prefill_s(two, tokens), rel=1e-9)


def test_slower_links_take_longer() -> None:
    two = machine(2)
    slow = replace(two, link_gb_per_s=1.0)
    assert float(decode_step_s(slow, 64.0, 3000.0)) > float(decode_step_s(two, 64.0, 3000.0))
    assert float(prefill_s(slow, 4000.0)) > float(prefill_s(two, 4000.0))


# -- the checker -------------------------------------------------------------------------------------------------------


def broken(change: Any) -> list[str]:
    data = copy.deepcopy(kimi().as_json())
    change(data)
    rehashed(data)
    return planner.check_plan(data)


def deployment(data: dict[str, Any]) -> dict[str, Any]:
    return data["pools"][0]["deployments"][0]["deployment"]  # type: ignore[no-any-return]


def offer(data: dict[str, Any]) -> dict[str, Any]:
    return data["case"]["offers"][deployment(data)["offer"]]  # type: ignore[no-any-return]


def fewer(data: dict[str, Any]) -> None:
    (line,) = data["fleet"]
    line["instances_by_slot"] = [n - 1 for n in line["instances_by_slot"]]


def elsewhere(data: dict[str, Any]) -> None:
    """Half of the boxes are those of a twin of the offer."""
    (line,) = data["fleet"]
    data["case"]["offers"]["aws/twin"] = copy.deepcopy(offer(data))
    half = [n // 2 for n in line["instances_by_slot"]]
    line["instances_by_slot"] = half
    data["fleet"].append(line | {"offer": "aws/twin"})


TAMPERED = {
    "one box": (lambda data: deployment(data).pop("boxes_per_replica"), "do not pack"),
    "more boxes": (lambda data: deployment(data).update(boxes_per_replica=4), "4 boxes of"),
    "boxes that GPUs do not fill": (lambda data: deployment(data).update(boxes_per_replica=3), "over 3 boxes"),
    "no boxes": (lambda data: deployment(data).update(boxes_per_replica=0), "boxes_per_replica"),
    "fewer GPUs": (lambda data: deployment(data).update(gpus_per_replica=8), "have 16 GPUs"),
    "off the menu": (lambda data: data["case"]["limits"].pop("max_boxes_per_replica"), "1 allowed"),
    "fewer allowed": (lambda data: data["case"]["limits"].update(max_boxes_per_replica={"kimi-k2": 4}), "1 allowed"),
    "no link": (lambda data: offer(data).pop("interconnect"), "nothing fast"),
    "a slow link": (lambda data: offer(data)["interconnect"].update(kind="ethernet"), "nothing fast"),
    "a small domain": (lambda data: offer(data)["interconnect"].update(domain_gpus=8), "reaches 8 GPUs"),
    "a slower link": (lambda data: offer(data)["interconnect"].update(gb_per_s=0.5), ""),
    "more memory": (lambda data: data["case"]["gpus"]["b200"].update(vram_gb=288), "one aws/p6-b200"),
    "a larger model": (lambda data: data["case"]["models"]["kimi-k3"].update(parameters_b=5600.0), "do not hold"),
    "an instance less": (fewer, "bought"),
    "two offers": (elsewhere, "bought"),
}


@for_each("name", TAMPERED)
def test_a_tampered_plan_is_refused(name: str) -> None:
    change, why = TAMPERED[name]
    problems = broken(change)
    assert problems and any(why in problem for problem in problems), problems[:3]


def test_no_leaf_changes_unnoticed() -> None:
    assert passes_unlisted(kimi().as_json(), 1) == set()


# -- in use ------------------------------------------------------------------------------------------------------------


def test_it_is_served_as_planned() -> None:
    assert planner.verify(kimi()).kept


def test_the_command_joins_its_boxes() -> None:
    (command,) = serve_commands(kimi())
    words = shlex.split(command.command)
    given = dict(pairwise(words))
    assert (given["--tensor-parallel-size"], given["--pipeline-parallel-size"], given["--nnodes"]) == ("8", "2", "2")
    assert given["--node-rank"] == "0" and command.replicas_per_instance == 0
    assert any("--headless" in note and "efa" in note for note in command.notes)


def test_the_runner_up_is_named() -> None:
    """Without two boxes, three: deployments are known by their keys, whatever their replicas are."""
    found = planner.explain(kimi())
    (choice,) = found.choices
    assert choice.runner_up is not None and "3 boxes of 8 x b200" in (choice.runner_up.served_by or "")


@for_each("parallelism", PARALLELISMS)
@for_each("speculation", ["", "eagle3:3", "draft:llama-3.1-8b:4"])
@for_each("boxes", [1, 2])
def test_keys_are_read_as_they_are_made(parallelism: Parallelism, speculation: str, boxes: int) -> None:
    variant = Variant("kimi-k3", "mxfp4", "", 16, parallelism, speculation, boxes)
    place = "aws/p6-b200.48xlarge@us-east-1"
    assert of_key(variant.key_on(place)) == (variant, place)


def test_groups_are_exported_to_kubernetes() -> None:
    plan = kimi()
    files = export_plan(plan, "kubernetes", Settings())
    assert_valid("kubernetes", files)
    (group,) = [found for _, found in objects(files) if found["kind"] == "LeaderWorkerSet"]
    template = group["spec"]["leaderWorkerTemplate"]
    assert group["spec"]["replicas"] == max(plan.pools[0].deployments[0].replicas_by_slot) and template["size"] == 2
    leader, worker = (template[role]["spec"]["containers"][0] for role in ("leaderTemplate", "workerTemplate"))
    assert leader["resources"]["limits"] == worker["resources"]["limits"] == {"nvidia.com/gpu": "8"}
    assert worker["args"] == [*leader["args"], "--headless"] and "$(LWS_LEADER_ADDRESS)" in leader["args"]
    assert "readinessProbe" in leader and "readinessProbe" not in worker
    (service,) = [found for _, found in objects(files) if found["kind"] == "Service"]
    assert (group["metadata"]["name"], service["metadata"]["name"]) == ("agents-groups", "agents")
    assert service["spec"]["selector"]["leaderworkerset.sigs.k8s.io/worker-index"] == "0"
    assert [against_restricted(pod) for pod in pods_of(files)] == [[], []]
    assert "LeaderWorkerSet" in files["README.md"] and "efa" in files["README.md"]
    assert "rollout undo" not in files["README.md"] and "FIRST-BOX" not in files["README.md"]
    assert "--to gateway" not in files["README.md"] and "gateway target" not in files["README.md"]  # it refuses
    assert 'pod=~"agents(-spot)?-groups-[0-9]+"' in files["README.md"]


@for_each("target", ["keda", "karpenter", "kserve", "ray"])
def test_other_targets_that_can_are_valid(target: str) -> None:
    files = export_plan(kimi(), target, Settings())
    assert_valid(target, files)
    (found,) = [each for _, each in objects(files) if each["kind"] != "PodDisruptionBudget"]
    assert "gateway target" not in files["README.md"]
    spec = found["spec"]
    if target == "keda":
        scaled = spec["scaleTargetRef"]
        assert (scaled["kind"], scaled["name"]) == ("LeaderWorkerSet", "agents-groups")
        assert "agents-groups-[0-9]+" in spec["triggers"][-1]["metadata"]["query"]
    if target == "kserve":
        assert spec["parallelism"] == {"tensor": 8, "pipeline": 2} and spec["worker"] == spec["template"]
        assert "parallel-size" not in spec["template"]["containers"][0]["env"][0]["value"]
    if target == "ray":
        (workers,) = spec["rayClusterConfig"]["workerGroupSpecs"]
        assert workers["replicas"] % 2 == 0 and "pipeline_parallel_size: 2" in spec["serveConfigV2"]


def test_two_evictions_do_not_stop_two_replicas_of_ray() -> None:
    """Pods of one replica are not told from those of another, so that only one may go."""
    files = export_plan(planned(demand(*K3).replace("min_replicas: 1", "min_replicas: 2")), "ray", Settings())
    (service,) = [each["spec"] for _, each in objects(files) if each["kind"] == "RayService"]
    (budget,) = [each["spec"] for _, each in objects(files) if each["kind"] == "PodDisruptionBudget"]
    (workers,) = service["rayClusterConfig"]["workerGroupSpecs"]
    assert budget["minAvailable"] == workers["minReplicas"] - 1 == 3


@for_each("target", ["compose", "gateway", "llm-d", "dynamo", "aibrix", "skypilot", "production-stack"])
def test_targets_that_cannot_say_so(target: str) -> None:
    with pytest.raises(InputError, match="several instances"):
        export_plan(kimi(), target, Settings())


def test_whole_boxes_are_counted_and_packed() -> None:
    assert boxes_filled(8, Counter({16: 2, 4: 3})) == 6
    boxes = packed(8, 3, 2, [Wanted(16, 1, 2), Wanted(4, 1, 2)])
    assert [dict(box.replicas) for box in boxes if box.spot and box.replicas]
    assert sum(box.replicas[0] for box in boxes) == 2 and sum(box.replicas[1] for box in boxes) == 2
    with pytest.raises(ValueError, match="hold its replicas"):
        packed(8, 1, 2, [Wanted(16, 1, 2)])
    assert skews(8, 4, [(16, 1), (4, 2)]) == [0, 0]
    assert skews(8, 1, [(16, 1)]) is None


@pytest.mark.parametrize(("kind", "gb_per_s"), [("infiniband", 400), ("ethernet", 400), ("nvlink", 14400)])
def test_an_interconnect_in_bits_is_refused(kind: str, gb_per_s: float) -> None:
    with pytest.raises(InputError, match="as a rate in Gbit/s or of the whole box would be"):
        planner.case_from_text(demand(*K3) + OWN + f"      interconnect: {{kind: {kind}, gb_per_s: {gb_per_s}}}\n")
