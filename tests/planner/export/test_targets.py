"""A plan of each kind for every target: valid, and as planned."""

from __future__ import annotations

import shlex
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import planner
from planner.case.case import Holding
from planner.export.export import README, export_plan, target_names
from planner.export.hosted import Settings, hosted_fleet
from planner.export.routing import routes
from planner.export.targets.karpenter import _capacity_types
from planner.io.errors import InputError
from planner.plan.plan import Plan
from planner.plan.serve_commands import serve_commands
from tests.support.horizon_plans import horizon_plan
from tests.support.lever_plans import ROUGHLY, lever_plan
from tests.support.manifest_checks import against_restricted, assert_valid, objects, pods_of
from tests.support.manifest_references import loose_ends
from tests.support.places import ROOT
from tests.support.rows import for_each
from tests.support.shared_plans import example_plan

TRAITS = {
    "agents": "sessions", "hourly-rates": "each way to buy", "kimi-k3": "replicas over several instances",
    "levers/residency": "regions", "levers/semantic-caching": "a cache", "levers/speculation": "drafts",
    "levers/two-deployments": "two deployments", "mixtures-of-experts": "experts in parallel",
    "own-or-rent": "own servers",
    "ten-tenants": "adapters", "two-models": "months",
}  # fmt: skip
"""by example, what no other one has"""
EXAMPLES = [ROOT / "examples" / f"{name}.yaml" for name in TRAITS]
TARGETS = [
    "aibrix", "compose", "dynamo", "gateway", "karpenter", "keda", "kserve", "kubernetes", "llm-d", "production-stack",
    "ray", "skypilot",
]  # fmt: skip
BESIDE_THE_PODS = ("keda", "gateway")
"""targets that point at the pods of the kubernetes target"""
OVER_BOXES = ("karpenter", "keda", "kserve", "kubernetes", "ray")
"""targets of replicas that span several instances"""
NOT_THERE = {"karpenter": "Karpenter has no provider for", "skypilot": "SkyPilot does not rent from"}


@cache
def plan_of(name: str) -> Plan:
    return example_plan(name) if "/" in name else lever_plan(name)


def exported(name: str, target: str, settings: Settings | None = None) -> dict[str, str]:
    return export_plan(plan_of(name), target, settings or Settings())


def of_kind(files: dict[str, str], kind: str) -> dict[str, dict[str, Any]]:
    return {found["metadata"]["name"]: found for _, found in objects(files) if found.get("kind") == kind}


def test_the_targets_are_the_files() -> None:
    assert target_names() == TARGETS


@for_each("example", EXAMPLES)
def test_every_kind_of_plan_for_every_target(example: Path) -> None:
    exported_everywhere(plan_of(str(example.relative_to(ROOT))))


def exported_everywhere(plan: Plan) -> None:
    """Each month of a plan for each target: valid, with nothing missing, and as planned, or refused for a reason."""
    for month in range(len({s.month for s in plan.slots})):
        engines: dict[str, str] | None = None
        for target in ["kubernetes", *(t for t in TARGETS if t != "kubernetes")]:
            settings = Settings(month=month, time_zone="Europe/Berlin")
            try:
                files = export_plan(plan, target, settings)
            except InputError as error:
                if any(d.deployment.boxes_per_replica for pool in plan.pools for d in pool.deployments):
                    assert "several instances" in str(error) and target not in OVER_BOXES
                elif any(pool.deployments for pool in plan.pools):
                    assert NOT_THERE[target] in str(error)
                else:
                    assert "hosts nothing" in str(error)
                continue
            assert plan.fleet
            assert_valid(target, files)
            engines = files if target == "kubernetes" else engines
            assert loose_ends(target, files, engines if target in BESIDE_THE_PODS else None) == []
            assert month or export_plan(plan, target, settings) == files
            as_planned(plan, target, files, month)


def as_planned(plan: Plan, target: str, files: dict[str, str], month: int) -> None:
    """Arguments, GPUs and numbers of replicas are those of the plan."""
    slots = [t for t, s in enumerate(plan.slots) if s.month == month]
    running = [d for pool in plan.pools for d in pool.deployments if any(d.replicas_by_slot[t] for t in slots)]
    lines = {tuple(shlex.split(c.command)[2:]) for c in serve_commands(plan)}
    if target == "kubernetes":
        for name, deployment in of_kind(files, "Deployment").items():
            container = deployment["spec"]["template"]["spec"]["containers"][0]
            assert container["args"][-2] == "--shutdown-timeout"
            assert tuple(a.replace("$$", "$") for a in container["args"][:-2]) in lines
            gpus = dict(zip(container["args"], container["args"][1:], strict=False))["--tensor-parallel-size"]
            assert container["resources"]["limits"] == {"nvidia.com/gpu": gpus}, name
        assert len(of_kind(files, "Service")) == len(running)
        pods = [against_restricted(pod) for pod in pods_of(files)]
        assert pods == [[]] * (len(of_kind(files, "Deployment")) + 2 * len(of_kind(files, "LeaderWorkerSet")))
    if target == "karpenter":
        limits = sum(int(pool["spec"]["limits"]["nvidia.com/gpu"]) for pool in of_kind(files, "NodePool").values())
        used = {d.deployment.offer for d in running}
        pools: dict[tuple[str, str], list[list[int]]] = {}
        for f in plan.fleet:
            if plan.case.offers[f.offer].provider in ("aws", "gcp") and f.offer in used:
                way = f.purchase if f.purchase in ("on-demand", "spot") else "committed"
                pools.setdefault((f.offer, way), []).append([f.instances_by_slot[t] for t in slots])
        most = {key: max(map(sum, zip(*lines, strict=True))) for key, lines in pools.items()}
        room = {key: (n + 1) * plan.case.offers[key[0]].gpus for key, n in most.items() if n}
        assert limits == sum(room.values()), "one instance more in each pool, to replace a node"
    if target == "skypilot":
        rented = [d for d in running if plan.case.offers[d.deployment.offer].provider != "own"]
        assert len(list(objects(files))) == len(rented), "no cloud has servers of one's own"
        for _, service in objects(files):
            assert any(" ".join(map(shlex.quote, line)) in service["run"] for line in lines)
    if target == "compose":
        for _, project in objects(files):
            used = [gpu for s in project["services"].values() for gpu in gpus_of(s)]
            assert used == [str(k) for k in range(len(used))]
            assert len({s["ports"][0] for s in project["services"].values()}) == len(project["services"])


def gpus_of(service: dict[str, Any]) -> list[str]:
    ids: list[str] = service["deploy"]["resources"]["reservations"]["devices"][0]["device_ids"]
    return ids


def test_spot_replicas_are_deployments_of_their_own_and_the_rest_stays_off_spot() -> None:
    files = exported("together", "kubernetes")
    (plan,) = [d for pool in plan_of("together").pools for d in pool.deployments]
    deployments, peak = of_kind(files, "Deployment"), max(plan.replicas_by_slot[:48])
    (name,) = (n for n in deployments if not n.endswith("-spot"))
    firm, spot = deployments[name], deployments[f"{name}-spot"]
    assert firm["spec"]["replicas"] >= max(plan.firm_replicas_by_slot[:48])
    assert firm["spec"]["replicas"] + spot["spec"]["replicas"] >= peak

    def operators(deployment: dict[str, Any]) -> list[tuple[str, list[str]]]:
        affinity = deployment["spec"]["template"]["spec"]["affinity"]["nodeAffinity"]
        terms = affinity["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
        return [(e["operator"], e["values"]) for term in terms for e in term["matchExpressions"]]

    assert operators(firm) == [("NotIn", ["spot"]), ("NotIn", ["SPOT"])]
    assert operators(spot) == [("In", ["spot"]), ("In", ["SPOT"])]
    zones = spot["spec"]["template"]["spec"]["topologySpreadConstraints"][0]["topologyKey"]
    assert zones == "topology.kubernetes.io/zone"
    service = of_kind(files, "Service")[name]
    for deployment in (firm, spot):
        assert service["spec"]["selector"].items() <= deployment["spec"]["template"]["metadata"]["labels"].items()


def test_replicas_that_share_instances_are_spread_over_nodes_and_zones() -> None:
    example = "examples/mixtures-of-experts.yaml"
    for name, deployment in of_kind(exported(example, "kubernetes"), "Deployment").items():
        hosts, zones = deployment["spec"]["template"]["spec"]["topologySpreadConstraints"]
        assert (hosts["topologyKey"], hosts["whenUnsatisfiable"]) == ("kubernetes.io/hostname", "DoNotSchedule"), name
        assert hosts["nodeTaintsPolicy"] == "Honor", "a node that fails or is drained is no place with room"
        assert (hosts["maxSkew"], hosts["minDomains"]) == (1, 2)
        assert (zones["topologyKey"], zones["whenUnsatisfiable"]) == ("topology.kubernetes.io/zone", "ScheduleAnyway")
        for spread in (hosts, zones):
            labels = deployment["spec"]["template"]["metadata"]["labels"]
            assert spread["labelSelector"]["matchLabels"].items() <= labels.items()
    for _, service in objects(exported(example, "skypilot")):
        assert service["service"]["replica_policy"]["min_replicas"] == 2
    (alone,) = of_kind(exported("examples/own-catalog.yaml", "kubernetes"), "Deployment").values()
    assert "topologySpreadConstraints" not in alone["spec"]["template"]["spec"], "spread: false"


def test_adapters_are_mounted_where_the_arguments_look_for_them() -> None:
    for target, mounted in (("kubernetes", "/srv/vllm/adapters"), ("compose", "./adapters:/srv/vllm/adapters:ro"),
                            ("skypilot", "~/adapters: ./adapters")):  # fmt: skip
        text = "".join(exported("together", target).values())
        assert "tuned=adapters/tuned" in text
        assert mounted in text.replace('"', "")


def test_firm_replicas_are_the_base_of_a_service_on_spot() -> None:
    (plan,) = [d for pool in plan_of("together").pools for d in pool.deployments]
    ((_, service),) = objects(exported("together", "skypilot"))
    policy = service["service"]["replica_policy"]
    assert service["resources"]["use_spot"]
    assert policy["base_ondemand_fallback_replicas"] == max(plan.firm_replicas_by_slot[:48])
    assert policy["min_replicas"] == min(plan.replicas_by_slot[:48])
    assert policy["max_replicas"] == max(plan.replicas_by_slot[:48])


def test_node_pools_are_by_offer_and_way_to_buy_with_what_is_paid_first() -> None:
    pools = of_kind(exported("examples/hourly-rates.yaml", "karpenter"), "NodePool")
    ways = {}
    for name, pool in pools.items():
        wanted = {r["key"]: r["values"] for r in pool["spec"]["template"]["spec"]["requirements"]}
        ways[name.removeprefix("g6e-xlarge-")] = (pool["spec"]["weight"], wanted["karpenter.sh/capacity-type"])
        assert wanted["node.kubernetes.io/instance-type"] == ["g6e.xlarge"]
    bought = {f.purchase.split("-1y")[0] for f in plan_of("examples/hourly-rates.yaml").fleet}
    assert set(ways) == bought
    assert ways["reserved"] == (100, ["reserved", "on-demand"])
    assert ways["on-demand"] == (50, ["on-demand"])


HELD_FIRST = {"reserved": (100, ["reserved", "on-demand"]), "on-demand": (50, ["on-demand"]), "spot": (10, ["spot"])}


@cache
def held_plan(name: str) -> Plan:
    """A plan of the same demand by somebody who holds one instance of what it runs on."""
    before = plan_of(name)
    offers = dict.fromkeys(d.deployment.offer for pool in before.pools for d in pool.deployments)
    held = tuple(
        Holding(offer=offer, purchase=purchase, instances=1, usd_per_h=0.4)
        for offer, purchase in zip(offers, ("reserved-1y", "capacity-reservation"), strict=False)
    )
    return planner.plan_fleet(before.case.model_copy(update={"held": held}), ROUGHLY)


@for_each("name", ["together", "mixed", "shedding", "examples/own-catalog.yaml"])
def test_what_is_held_is_exported_to_every_target(name: str) -> None:
    plan = held_plan(name)
    assert "held" in {line.purchase for line in plan.fleet}
    exported_everywhere(plan)


def test_every_quarter_of_a_horizon_is_exported_to_every_target() -> None:
    for quarter in horizon_plan().quarters:
        assert "held" in {line.purchase for line in quarter.plan.fleet}
        exported_everywhere(quarter.plan)


def test_the_plan_under_review_is_exported_to_every_target() -> None:
    exported_everywhere(planner.read_plan(ROOT / "examples" / "quarterly-review" / "last-plan.json"))


def test_what_is_held_comes_before_what_is_rented() -> None:
    """In one pool with commitments: Karpenter fills it first, and the rest on demand or on spot."""
    for name in ("together", "shedding"):
        plan = held_plan(name)
        pools = of_kind(export_plan(plan, "karpenter", Settings()), "NodePool")
        ways = {}
        for pool_name, pool in pools.items():
            wanted = {r["key"]: r["values"] for r in pool["spec"]["template"]["spec"]["requirements"]}
            way = next(way for way in HELD_FIRST if pool_name.endswith(way))
            ways[way] = (pool["spec"]["weight"], wanted["karpenter.sh/capacity-type"])
        assert ways.items() <= HELD_FIRST.items()
        assert "reserved" in ways and len(ways) > 1
        committed = [f for f in plan.fleet if f.purchase not in ("on-demand", "spot")]
        (limit,) = (p["spec"]["limits"]["nvidia.com/gpu"] for n, p in pools.items() if n.endswith("-reserved"))
        assert int(limit) == sum(max(f.instances_by_slot) for f in committed) + 1


def test_clouds_without_reserved_nodes_run_commitments_on_demand() -> None:
    assert _capacity_types("gcp", "reserved") == ["on-demand"]
    assert _capacity_types("aws", "reserved") == ["reserved", "on-demand"]
    assert _capacity_types("azure", "spot") == ["spot"]


def test_one_box_holds_the_replicas_of_the_plan_each_on_its_own_gpu() -> None:
    ((file, project),) = objects(exported("examples/own-catalog.yaml", "compose"))
    (deployment,) = plan_of("examples/own-catalog.yaml").pools[0].deployments
    assert file == "pro6000-4x/compose.yaml"
    assert [gpus_of(s) for s in project["services"].values()] == [
        [str(k)] for k in range(max(deployment.replicas_by_slot))
    ]


@for_each(
    ("name", "words"),
    [
        ("together", ["70% of its requests are critical", "must shed the others at once", "fewest in flight",
                      "adapters: a folder or volume", "chat: 70%", "tuned: 60%"]),
        ("mixed", ["up to 5,745", "more than 5,745", "documents: 40% of its requests are critical"]),
        ("waiting", ["night: may wait 2 h", "own/mini"]),
        ("shedding", ["chat: may be shed, at", "of it", "shed"]),
        ("examples/quickstart.yaml", ["go to openai/gpt-4o-mini, those that the replicas cannot take in these hours",
                                      "loading the weights in 9 s (1 GB/s)", "fresh node has them after 53 s (0.17",
                                      "secrets", "kubectl apply", "add --enable-auto-tool-choice --tool-call-parser"]),
        ("examples/levers/gpu-types.yaml", ["analysis: put the id or path of a checkpoint of qwen3-32b quantized"]),
    ],
)  # fmt: skip
def test_the_readme_says_what_is_left_to_people_and_what_a_gateway_must_do(name: str, words: list[str]) -> None:
    text = exported(name, "kubernetes")[README].replace("\\", "")
    assert [w for w in words if w not in text] == []


def test_routes_by_length_are_those_of_the_flows() -> None:
    """Short requests go to the cheap deployment, the few long ones to where there is room for them."""
    fleet = hosted_fleet(plan_of("mixed"), Settings())
    (w,) = fleet.plan.workloads
    names = [h.name for h in fleet.hosted]
    rates = [(0.0, 0.0)] + [
        tuple(map(sum, zip(*(f.requests_per_s for f in flows), strict=True))) for flows in w.deployment_flows
    ]
    api = tuple(map(sum, zip(*(f.requests_per_s for f in w.api_flows), strict=True))) or (0.0, 0.0)
    for route in routes(fleet):
        length = 1 if route.up_to is None else 0
        assert {name for name, rate in zip(names[1:], rates[1:], strict=True) if rate[length]} <= set(route.to)
        assert (w.api in route.to) == (api[length] > 0)
        assert sum(route.to.values()) == pytest.approx(1, abs=1e-4)
    ways = [set(route.to) for route in routes(fleet)]
    assert len(ways) == 2 and ways[0] != ways[1]


def test_two_plans_export_differently_where_they_differ() -> None:
    one, other = (exported(f"examples/{name}.yaml", "kubernetes") for name in ("quickstart", "own-catalog"))
    assert set(one) != set(other)
    months = [exported("together", "keda", Settings(month=m)) for m in (0, 2)]
    assert months[0] != months[1]
    zones = [exported("examples/quickstart.yaml", "keda", Settings(time_zone=z)) for z in ("UTC", "Asia/Tokyo")]
    assert zones[0] != zones[1]


def test_an_image_of_ones_own_is_used_everywhere() -> None:
    for target in ("kubernetes", "compose"):
        text = "".join(exported("mixed", target, Settings(image="registry.internal/vllm:1")).values())
        assert "registry.internal/vllm:1" in text and "vllm/vllm-openai" not in text


@for_each(
    ("image", "repository", "tag"),
    [
        ("registry.internal:5000/vllm", "registry.internal:5000/vllm", "latest"),
        ("registry.internal:5000/vllm:1", "registry.internal:5000/vllm", "1"),
        ("vllm", "vllm", "latest"),
        (f"vllm/vllm-openai@sha256:{'a' * 64}", "vllm/vllm-openai@sha256", "a" * 64),
    ],
)
def test_a_chart_is_told_repository_and_tag_apart(image: str, repository: str, tag: str) -> None:
    files = exported("mixed", "production-stack", Settings(image=image))
    (found,) = {(m["repository"], m["tag"]) for path, values in objects(files) if path.endswith("values.yaml")
                for m in values["servingEngineSpec"]["modelSpec"]}  # fmt: skip
    assert found == (repository, tag)


@for_each(
    ("settings", "words"),
    [
        (Settings(month=1), "the plan has no month 2"),
        (Settings(month=-1), "the plan has no month 0"),
        (Settings(time_zone="Europe/Berln"), "there is no time zone 'Europe/Berln'"),
        (Settings(time_zone="UTC\n  evil: 1"), "there is no time zone"),
        (Settings(image=""), "is not an image"),
        (Settings(image="vllm:1 --privileged"), "is not an image"),
        (Settings(image="$(id)"), "is not an image"),
        (Settings(registry="https://registry.internal"), "is not a registry"),
        (Settings(namespace="LLM"), "cannot be the name of a namespace"),
        (Settings(headroom_frac=float("nan")), "is not from 0% to 1000%"),
    ],
)
def test_settings_that_do_not_fit_are_refused(settings: Settings, words: str) -> None:
    with pytest.raises(InputError, match=words):
        exported("mixed", "keda", settings)
