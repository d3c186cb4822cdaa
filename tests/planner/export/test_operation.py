"""What was tuned, exported: thresholds, floors, ceilings, windows, and what READMEs state."""

from __future__ import annotations

import yaml

from planner.export.export import export_plan
from planner.export.hosted import Settings, hosted_fleet
from planner.export.targets.keda import PODS, SILENT
from tests.support.operated_plans import operated_plan, small_plan


def scaled(target: str, tuned: bool, kind: str = "ScaledObject") -> dict:  # type: ignore[type-arg]
    files = export_plan(operated_plan() if tuned else small_plan(), target, Settings())
    docs = [d for name, text in files.items() if name.endswith(".yaml") for d in yaml.safe_load_all(text)]
    return next(d for d in docs if d and d["kind"] == kind)["spec"]


def test_keda_has_the_tuned_settings() -> None:
    plain, tuned = scaled("keda", False), scaled("keda", True)
    (h,) = hosted_fleet(small_plan(), Settings()).hosted
    peak = max(h.plan.replicas_by_slot)
    load = {t["name"]: t for t in tuned["triggers"]}["load"]
    assert load["metadata"]["threshold"] == str(round(0.8 * h.in_flight)) and PODS
    assert plain["maxReplicaCount"] == peak
    assert tuned["maxReplicaCount"] == -(-3 * peak // 2) + 1
    assert tuned["minReplicaCount"] == plain["minReplicaCount"] + 1
    behavior = tuned["advanced"]["horizontalPodAutoscalerConfig"]["behavior"]
    assert behavior["scaleDown"]["stabilizationWindowSeconds"] == 600
    assert "pollingInterval" not in tuned and "cooldownPeriod" not in tuned, "KEDA ignores them above zero replicas"
    starts = [
        {t["name"]: t["metadata"]["start"].split()[:2] for t in spec["triggers"] if t["type"] == "cron"}
        for spec in (plain, tuned)
    ]
    earlier = [
        (60 * int(a[1]) + int(a[0]) - 60 * int(b[1]) - int(b[0])) % 1440
        for name, b in starts[1].items()
        for a in [starts[0].get(name)]
        if a is not None and a != b
    ]
    assert earlier and set(earlier) <= {5, 6}, "floors rise 5 min earlier"


def test_what_is_averaged_and_kept_in_part_is_written_so() -> None:
    plan = operated_plan()
    assert plan.operation is not None
    controller = plan.operation.controller.model_copy(update={"window_s": 600.0, "floor_share": 0.5, "buffer": 0})
    plan = plan.model_copy(update={"operation": plan.operation.model_copy(update={"controller": controller})})
    for target, name in (("keda", "load"), ("llm-d", "running")):
        files = export_plan(plan, target, Settings())
        docs = [d for file, text in files.items() if file.endswith(".yaml") for d in yaml.safe_load_all(text)]
        triggers = next(d for d in docs if d and d["kind"] == "ScaledObject")["spec"]["triggers"]
        query = {t["name"]: t for t in triggers}[name]["metadata"]["query"]
        assert query.startswith("avg_over_time((sum(") and query.endswith(")[600s:15s])"), query
    (h,) = hosted_fleet(plan, Settings()).hosted
    (part,) = h.parts
    least = min(n for counts in part.hours.values() for n in counts)
    for day, counts in part.hours.items():
        assert part.floor[day] == tuple(max(least, -(-n // 2)) for n in counts)
    assert "averaged over 10 min, floors of 50%" in export_plan(plan, "keda", Settings())["README.md"]


def test_other_targets_have_them_too() -> None:
    (h,) = hosted_fleet(operated_plan(), Settings()).hosted
    assert h.target_in_flight == round(0.8 * h.in_flight)
    aibrix = scaled("aibrix", True, "PodAutoscaler")
    assert aibrix["metricsSources"][0]["targetValue"] == str(h.target_in_flight)
    assert aibrix["minReplicas"] == scaled("aibrix", False, "PodAutoscaler")["minReplicas"] + 1, (
        "the minute of midnight"
    )
    running = {t["name"]: t for t in scaled("llm-d", True)["triggers"]}["running"]
    assert running["metadata"]["threshold"] == str(h.target_in_flight)
    kserve = scaled("kserve", True, "LLMInferenceService")
    assert kserve["scaling"]["maxReplicas"] == scaled("keda", True)["maxReplicaCount"]


def test_readmes_state_what_was_simulated() -> None:
    for target in ("keda", "aibrix", "llm-d", "kubernetes"):
        readme = export_plan(operated_plan(), target, Settings())["README.md"]
        assert "## In operation, as simulated" in readme and "99.8%" in readme, target
        assert "staffing rule in whole hours" in readme
    readme = export_plan(operated_plan(), "keda", Settings())["README.md"]
    assert "a threshold of 80%" in readme and "raise the limits of the NodePools" in readme
    assert "ScalingActive" in readme and "ScalingActive" in SILENT
    assert "In operation" not in export_plan(small_plan(), "keda", Settings())["README.md"]
