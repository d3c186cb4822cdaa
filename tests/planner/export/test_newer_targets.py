"""What runs fleets in 2026: the same hours, arguments and GPUs in each of their own words."""

from __future__ import annotations

import math
import shlex
from functools import cache
from itertools import pairwise
from typing import Any

import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.export.export import README, export_plan
from planner.export.hosted import Hosted, HostedFleet, Part, Settings, hosted_fleet
from planner.export.hours import Hours, fewest
from planner.export.readme import ROUTERS
from planner.export.targets.dynamo import ROUTERS as DYNAMO_ROUTERS
from planner.export.targets.dynamo import engine_arguments
from planner.export.targets.kubernetes import drain_s, grace_s
from planner.export.targets.production_stack import KNOWN
from planner.export.targets.ray import engine_kwargs
from planner.export.windows import WEEK, at_midnight, windows
from tests.planner.export.test_hours import COUNTS, check
from tests.planner.export.test_targets import of_kind, plan_of
from tests.support.manifest_checks import objects
from tests.support.rows import for_each

PLANS = ["examples/two-models.yaml", "examples/ten-tenants.yaml", "examples/levers/deferrable-batch.yaml", "together"]
BY_THE_HOUR = ["kserve", "dynamo", "llm-d", "production-stack"]
"""targets with triggers of KEDA"""


@cache
def fleet_of(name: str) -> HostedFleet:
    return hosted_fleet(plan_of(name), Settings())


@cache
def exported(name: str, target: str) -> dict[str, str]:
    return export_plan(plan_of(name), target, Settings())


def parts(name: str) -> list[tuple[Hosted, Part]]:
    return [(h, part) for h in fleet_of(name).hosted for part in h.parts]


# -- hours ------------------------------------------------------------------------------------------------


def triggers_of(name: str, target: str, h: Hosted, part: Part) -> tuple[list[dict[str, Any]], int, int]:
    """Triggers of a part with the fewest and the most replicas, wherever a target keeps them."""
    if target == "kserve":
        spec = of_kind(exported(name, target), "LLMInferenceService")[part.name]["spec"]
        if "replicas" in spec:
            return [], spec["replicas"], spec["replicas"]
        scaling = spec["scaling"]
        least = scaling["keda"].get("idleReplicaCount", scaling["minReplicas"])
        return scaling["keda"]["triggers"], least, scaling["maxReplicas"]
    spec = of_kind(exported(name, target), "ScaledObject")[part.name]["spec"]
    return spec["triggers"], spec["minReplicaCount"], spec["maxReplicaCount"]


@for_each("target", BY_THE_HOUR)
def test_triggers_evaluated_over_a_week_hold_the_hours_of_the_plan(target: str) -> None:
    for name in PLANS:
        for h, part in parts(name):
            triggers, least, most = triggers_of(name, target, h, part)
            crons = [
                (t["metadata"]["start"], t["metadata"]["end"], int(t["metadata"]["desiredReplicas"]))
                for t in triggers
                if t["type"] == "cron"
            ]
            assert least == max(fewest(part.hours), int(target == "dynamo")), "Dynamo keeps one"
            assert most == part.most
            hours = part.hours
            if target == "dynamo":
                hours = {day: tuple(max(1, n) for n in counts) for day, counts in hours.items()}
            check(crons, hours, math.ceil(h.start_s / 60), tolerated_frac=0.1)


def held(found: list[dict[str, Any]], base: int, day: int, minute: int) -> int:
    """AIBrix's rule: the window in which a minute lies sets the fewest, else the base does; ends are exclusive."""
    clock = f"{minute // 60:02d}:{minute % 60:02d}"
    for s in found:
        if WEEK[day] in s["daysOfWeek"] and s["startTime"] <= clock < s["endTime"]:
            return int(s["minReplicas"])
    return base


def of_the_plan(hours: Hours, day: int, minute: int) -> int:
    kind = "weekend" if day % 7 >= 5 else "weekday"
    return hours[kind][minute // 60]


def assert_windows_hold(found: list[dict[str, Any]], base: int, hours: Hours, lead_min: int) -> None:
    """Never fewer than planned, and no more than the plan has within the time of a start; the last minute apart."""
    for s in found:
        assert "00:00" <= s["startTime"] < s["endTime"] <= "23:59", "no window crosses midnight"
    for day in range(7):
        for minute in [*range(0, 1439, 13), 1438, 1439]:
            later = [minute, *range(minute - minute % 60 + 60, minute + lead_min + 1, 60)]
            soon = max(of_the_plan(hours, day + m // 1440, m % 1440) for m in later)
            there = held(found, base, day, minute)
            assert there >= of_the_plan(hours, day, minute)
            assert there == soon if minute < 1439 else there >= soon


@settings(max_examples=15)
@given(weekday=COUNTS, weekend=COUNTS, lead_min=st.sampled_from([0, 5, 59, 60, 90, 200]))
def test_windows_hold_any_hours(weekday: tuple[int, ...], weekend: tuple[int, ...], lead_min: int) -> None:
    hours = {"weekday": weekday, "weekend": weekend}
    found = [
        {"daysOfWeek": w.days, "startTime": w.start, "endTime": w.end, "minReplicas": w.replicas}
        for w in windows(hours, lead_min)
    ]
    assert_windows_hold(found, at_midnight(hours, lead_min), hours, lead_min)


@for_each("name", PLANS)
def test_schedules_of_aibrix_hold_the_hours_of_the_plan(name: str) -> None:
    scalers = of_kind(exported(name, "aibrix"), "PodAutoscaler")
    for h, part in parts(name):
        spec = scalers[part.name]["spec"]
        found = spec.get("schedules", [])
        assert len({s["name"] for s in found}) == len(found)
        assert {s["timezone"] for s in found} <= {"UTC"}, "one time zone for all"
        assert_windows_hold(found, spec["minReplicas"], part.hours, math.ceil(h.start_s / 60))
        assert spec["maxReplicas"] == part.most
        assert part.name in of_kind(exported(name, "aibrix"), "Deployment")


def test_ray_follows_the_load_and_its_readme_says_what_people_must_do() -> None:
    name = "examples/ten-tenants.yaml"
    ((h, part),) = parts(name)
    service = of_kind(exported(name, "ray"), "RayService")[part.name]["spec"]
    (config,) = yaml.safe_load(service["serveConfigV2"])["applications"][0]["args"]["llm_configs"]
    scaling = config["deployment_config"]["autoscaling_config"]
    (group,) = service["rayClusterConfig"]["workerGroupSpecs"]
    assert (scaling["min_replicas"], scaling["max_replicas"]) == (fewest(part.hours), part.most)
    assert (group["minReplicas"], group["maxReplicas"]) == (fewest(part.hours), part.most)
    assert scaling["target_ongoing_requests"] == h.in_flight
    text = exported(name, "ray")[README]
    assert "Ray Serve follows the load, not the clock" in text
    assert "these files do not follow the hours" in text and "a month more" in text


# -- arguments and GPUs -----------------------------------------------------------------------------------


def gpus_of(container: dict[str, Any]) -> int:
    return int(container["resources"]["limits"]["nvidia.com/gpu"])


def engines(name: str, target: str) -> dict[str, tuple[list[str] | dict[str, Any], int]]:
    """What the engine of each part is told beside its model, and GPUs per replica."""
    files = exported(name, target)
    if target == "kserve":
        return {
            part: (
                shlex.split(c["env"][0]["value"].replace("$$", "$")),
                int(c["resources"]["limits"]["nvidia.com/gpu"]),
            )
            for part, found in of_kind(files, "LLMInferenceService").items()
            for c in found["spec"]["template"]["containers"]
        }
    if target == "dynamo":
        return {
            f"{graph}{'-spot' if component['name'] == 'spot' else ''}": (
                [a.replace("$$", "$") for a in c["args"][2:]],
                gpus_of(c),
            )
            for graph, found in of_kind(files, "DynamoGraphDeployment").items()
            for component in found["spec"]["components"]
            if component["type"] == "worker"
            for c in component["podTemplate"]["spec"]["containers"]
        }
    if target == "ray":
        return {
            part: (
                yaml.safe_load(found["spec"]["serveConfigV2"])["applications"][0]["args"]["llm_configs"][0][
                    "engine_kwargs"
                ],
                int(c["resources"]["limits"]["nvidia.com/gpu"]),
            )
            for part, found in of_kind(files, "RayService").items()
            for group in found["spec"]["rayClusterConfig"]["workerGroupSpecs"]
            for c in group["template"]["spec"]["containers"]
        }
    specs = [m for path, found in objects(files) if path.endswith("values.yaml")
             for m in found["servingEngineSpec"]["modelSpec"]]  # fmt: skip
    return {m["name"]: (m["vllmConfig"], m["requestGPU"]) for m in specs}


@for_each("target", ["kserve", "dynamo", "ray", "production-stack"])
def test_engines_are_told_what_the_plan_says(target: str) -> None:
    for name in [*PLANS, "examples/mixtures-of-experts.yaml"]:
        found = engines(name, target)
        assert set(found) == {part.name for _, part in parts(name)}
        for h, part in parts(name):
            told, gpus = found[part.name]
            flags = h.arguments[1:]
            assert gpus == h.gpus
            if target == "kserve":
                assert told == [*flags, "--shutdown-timeout", str(drain_s(h, part))]
            elif target == "dynamo":
                assert told == engine_arguments(flags)
            elif target == "ray":
                assert told == engine_kwargs(flags)
            else:
                assert isinstance(told, dict)
                by_flag = dict(pairwise(flags))
                assert {ours: str(told[ours]) for ours in KNOWN.values()} == {
                    ours: by_flag[flag] for flag, ours in KNOWN.items()
                }
                rest = [w for w in flags if w.startswith("--") and w not in (*KNOWN, "--enable-prefix-caching")]
                assert [a for a in told["extraArgs"] if a.startswith("--")] == rest


def test_replicas_that_stop_have_time_for_their_answers() -> None:
    """Each hour takes some away: they finish the longest answer of the plan, on spot what the notice leaves."""
    for name in PLANS:
        kserve, graphs, rays = (
            of_kind(exported(name, target), kind)
            for target, kind in (
                ("kserve", "LLMInferenceService"), ("dynamo", "DynamoGraphDeployment"), ("ray", "RayService")
            )
        )  # fmt: skip
        for h, part in parts(name):
            workers = {c["name"]: c["podTemplate"]["spec"] for c in graphs[h.name]["spec"]["components"]}
            (group,) = rays[part.name]["spec"]["rayClusterConfig"]["workerGroupSpecs"]
            pods = [kserve[part.name]["spec"]["template"], workers["spot" if part.spot else "firm"],
                    group["template"]["spec"]]  # fmt: skip
            given = [pod["terminationGracePeriodSeconds"] for pod in pods]
            assert given == [grace_s(h, part)] * 3
            assert given[0] <= 120 if part.spot else given[0] > h.drain_s


def test_arguments_keep_their_kinds_in_python() -> None:
    found = engine_kwargs(["--max-model-len", "4096", "--gpu-memory-utilization", "0.9", "--enable-lora",
                           "--lora-modules", "a=adapters/a", "b=adapters/b"])  # fmt: skip
    assert found == {"max_model_len": 4096, "gpu_memory_utilization": 0.9, "enable_lora": True}
    assert engine_kwargs(["--enable-lora", "--lora-modules", "a=adapters/a"]) == {"enable_lora": True}


def test_adapters_are_loaded_as_each_target_knows() -> None:
    """Neither workers of Dynamo nor Serve's engines know --lora-modules: it belongs to `vllm serve`."""
    name = "examples/ten-tenants.yaml"
    ((h, part),) = parts(name)
    tenants = {w.name for w in fleet_of(name).plan.case.workloads}
    assert set(h.adapter_names) == tenants
    assert engine_arguments(["--model", "x", "--enable-lora", "--lora-modules", "a=adapters/a"])[-1] == "--enable-lora"
    models = of_kind(exported(name, "dynamo"), "DynamoModel")
    assert {m["spec"]["modelName"] for m in models.values()} == tenants
    assert {m["spec"]["baseModelName"] for m in models.values()} == {h.checkpoint}
    (_, worker) = of_kind(exported(name, "dynamo"), "DynamoGraphDeployment")[h.name]["spec"]["components"]
    assert worker["modelRef"] == {"name": h.checkpoint}
    (container,) = worker["podTemplate"]["spec"]["containers"]
    assert {"name": "DYN_LORA_ENABLED", "value": "true"} in container["env"]
    serve = yaml.safe_load(of_kind(exported(name, "ray"), "RayService")[part.name]["spec"]["serveConfigV2"])
    (config,) = serve["applications"][0]["args"]["llm_configs"]
    assert config["lora_config"]["max_num_adapters_per_replica"] == len(tenants)
    for target in ("kserve", "production-stack"):
        assert all(f"{name}=" in "".join(exported("examples/ten-tenants.yaml", target).values()) for name in tenants)


def test_replicas_are_replaced_in_place_and_evicted_one_at_a_time() -> None:
    """The plan buys no GPUs beside them, whatever an operator does by itself."""
    for name in PLANS:
        for target in ("kubernetes", "kserve", "dynamo", "production-stack"):
            budgets = of_kind(exported(name, target), "PodDisruptionBudget")
            assert set(budgets) == {part.name for _, part in parts(name)}
            assert {b["spec"]["maxUnavailable"] for b in budgets.values()} == {1}
        for service in of_kind(exported(name, "kserve"), "LLMInferenceService").values():
            assert service["spec"]["rolloutStrategy"] == {"maxSurge": 0, "maxUnavailable": 1}
        for path, values in objects(exported(name, "production-stack")):
            if path.endswith("values.yaml"):
                engines = values["servingEngineSpec"]
                assert engines["strategy"]["rollingUpdate"] == {"maxSurge": 0, "maxUnavailable": 1}
                probe = engines["startupProbe"]
                assert probe["periodSeconds"] * probe["failureThreshold"] >= max(3 * h.start_s for h, _ in parts(name))
        for _, part in parts(name):
            budget = of_kind(exported(name, "ray"), "PodDisruptionBudget").get(part.name)
            stays = fewest(part.hours) - 1
            assert (budget["spec"]["minAvailable"] if budget else 0) == max(0, stays), "Ray tells nobody its count"


def test_routers_of_dynamo_are_those_that_the_plan_counts_on() -> None:
    assert set(ROUTERS) == set(DYNAMO_ROUTERS)
    ((_, graph),) = of_kind(exported("examples/ten-tenants.yaml", "dynamo"), "DynamoGraphDeployment").items()
    (frontend,) = graph["spec"]["components"][0]["podTemplate"]["spec"]["containers"]
    routing = fleet_of("examples/ten-tenants.yaml").plan.case.limits.routing
    assert {"name": "DYN_ROUTER_MODE", "value": DYNAMO_ROUTERS[routing]} in frontend["env"]


# -- options ----------------------------------------------------------------------------------------------


@for_each("target", ["kubernetes", "keda", "gateway", "kserve", "aibrix", "dynamo", "llm-d", "ray"])
def test_namespace_and_registry_are_everywhere(target: str) -> None:
    placed = Settings(namespace="llm", registry="registry.internal:5000/mirror")
    files = export_plan(plan_of("together"), target, placed)
    kinds = [found for _, found in objects(files) if found.get("kind") not in (None, "Kustomization")]
    assert [f["metadata"]["name"] for f in kinds if f["metadata"].get("namespace") != "llm"] == []
    images = [line.split("image:")[1].strip(' "') for text in files.values() for line in text.split("\n")
              if "image: " in line and line.strip().startswith(("image:", "- image:"))]  # fmt: skip
    assert [image for image in images if not image.startswith("registry.internal:5000/mirror/")] == []
    assert "kubectl -n llm apply" in files[README]


def test_headroom_is_in_every_target_that_scales() -> None:
    more = Settings(headroom_frac=0.5)
    for target in BY_THE_HOUR:
        for h, part in parts("together"):
            files = export_plan(plan_of("together"), target, more)
            if target == "kserve":
                most = of_kind(files, "LLMInferenceService")[part.name]["spec"]["scaling"]["maxReplicas"]
            else:
                most = of_kind(files, "ScaledObject")[part.name]["spec"]["maxReplicaCount"]
            assert most == math.ceil(part.most * 1.5), (target, h.name)
