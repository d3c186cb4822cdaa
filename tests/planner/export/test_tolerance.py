"""A HorizontalPodAutoscaler and KEDA's cron scaler, simulated for weeks on the manifests as they are written."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.export.export import export_plan
from planner.export.hosted import Settings, hosted_fleet
from planner.export.hours import Hours, cron, fewest, peak
from planner.export.targets import keda
from planner.export.tolerance import floors
from planner.plan.plan import Plan
from tests.planner.export.test_hours import WEEK, planned, times
from tests.planner.export.test_targets import EXAMPLES, of_kind, plan_of
from tests.support.places import ROOT
from tests.support.rows import for_each

LOOKS = 4
"""a minute: every 15 s"""
Near = Callable[[float], bool]
NEAR: dict[str, Near] = {
    "before 1.33": lambda ratio: abs(1.0 - ratio) <= 0.1,
    "from 1.33 on": lambda ratio: 1.0 - 0.1 <= ratio <= 1.0 + 0.1,
}
"""whether a count is left alone, as pkg/controller/podautoscaler/replica_calculator.go has it; rounding differs"""


def asked_by_minute(spec: dict[str, Any]) -> list[list[int]]:
    """What active cron triggers ask for in each minute of a week, from Sunday 00:00 on; a start holds until its end."""
    asked: list[list[int]] = [[] for _ in range(WEEK)]
    for trigger in spec["triggers"]:
        if trigger["type"] == "cron":
            told = trigger["metadata"]
            changes = dict.fromkeys(times(told["end"]), False) | dict.fromkeys(times(told["start"]), True)
            on = changes[max(changes)]
            for minute in range(WEEK):
                on = changes.get(minute, on)
                if on:
                    asked[minute].append(int(told["desiredReplicas"]))
    return asked


def simulated(spec: dict[str, Any], replicas: int, near: Near, weeks: int = 2) -> Iterator[tuple[int, int]]:
    """Minutes from Sunday 00:00 on, and the replicas at the end of each, where there is no load at all."""
    behavior = spec["advanced"]["horizontalPodAutoscalerConfig"]["behavior"]
    doubling = [{"type": "Percent", "value": 100}, {"type": "Pods", "value": 4}]
    policies = behavior.get("scaleUp", {"policies": doubling})["policies"]
    kept = deque[int](maxlen=LOOKS * behavior["scaleDown"]["stabilizationWindowSeconds"] // 60)
    least, most = spec["minReplicaCount"], spec["maxReplicaCount"]
    asked, idle = asked_by_minute(spec), 0
    for minute in range(weeks * WEEK):
        values = [*asked[minute % WEEK], 1]
        idle = 0 if len(values) > 1 else idle + 1
        for _ in range(LOOKS):
            if not least and (not replicas or idle > spec["cooldownPeriod"] // 60):
                replicas = 1 if len(values) > 1 else 0  # KEDA itself, not the HorizontalPodAutoscaler
                continue
            wanted = max(replicas if near(value / replicas) else value for value in values)
            kept.append(min(max(wanted, least, 1), most))
            steady = max(kept) if kept[-1] < replicas else kept[-1]
            steps = [p["value"] if p["type"] == "Pods" else replicas * p["value"] // 100 for p in policies]
            replicas = min(steady, replicas + max(steps))
        yield minute, replicas


def shortages(spec: dict[str, Any], hours: Hours, replicas: int, near: Near) -> list[tuple[int, int, int]]:
    """Minutes with fewer replicas than planned; before the first hour is over the count has to be reached yet."""
    counts = ((minute, planned(minute, hours), n) for minute, n in simulated(spec, replicas, near))
    return [(minute, plan, n) for minute, plan, n in counts if minute >= 60 and n < plan]


def scaled(plan: Plan, settings: Settings) -> dict[str, tuple[dict[str, Any], Hours]]:
    """The specs of ScaledObjects as written, and the hours of the plan that each is to hold."""
    parts = {part.name: part for h in hosted_fleet(plan, settings).hosted for part in h.parts}
    found = of_kind(export_plan(plan, "keda", settings), "ScaledObject")
    assert sorted(found) == sorted(parts)
    return {name: (written["spec"], parts[name].hours) for name, written in found.items()}


@for_each("near", NEAR.values())
@for_each("example", EXAMPLES)
def test_the_planned_replicas_are_there(example: Path, near: Near) -> None:
    plan = plan_of(str(example.relative_to(ROOT)))
    if not plan.fleet:
        pytest.skip("an API serves everything")
    for spec, hours in scaled(plan, Settings()).values():
        for replicas in {peak(hours), spec["maxReplicaCount"]}:
            assert shortages(spec, hours, replicas, near) == []


def test_floors_as_planned_would_be_missed() -> None:
    """What the simulation is for: ten tenants would have one replica too few for hours of every week."""
    ((spec, hours),) = scaled(plan_of("examples/ten-tenants.yaml"), Settings()).values()
    as_planned = deepcopy(spec)
    raised = floors(hours, spec["maxReplicaCount"], peak(hours)).written
    for trigger, block in zip(as_planned["triggers"], raised, strict=False):
        trigger["metadata"]["desiredReplicas"] = str(block.replicas)
    assert shortages(as_planned, hours, peak(hours), NEAR["from 1.33 on"])
    assert not shortages(spec, hours, peak(hours), NEAR["from 1.33 on"])


COUNTS = st.integers(1, 12).flatmap(
    lambda scale: st.lists(st.integers(1, 25).map(lambda n: scale * n), min_size=24, max_size=24).map(tuple)
)


@settings(max_examples=25, deadline=None)
@given(
    weekday=COUNTS, weekend=COUNTS, more=st.sampled_from([0, 1, 40]), near=st.sampled_from(sorted(NEAR)),
    lead_min=st.sampled_from([8, 57, 75, 122]),
)  # fmt: skip
def test_any_hours_are_held_and_little_more(
    weekday: tuple[int, ...], weekend: tuple[int, ...], more: int, near: str, lead_min: int
) -> None:
    hours = {"weekday": weekday, "weekend": weekend}
    found = floors(hours, peak(hours) + more, applied=peak(hours), early_min=lead_min + keda.STABLE_S // 60)
    triggers = [_trigger(*cron(block, lead_min), replicas) for block, replicas in found.written.items()]
    spec = {
        "minReplicaCount": fewest(hours), "maxReplicaCount": peak(hours) + more, "triggers": triggers,
        "advanced": {"horizontalPodAutoscalerConfig": {"behavior": keda.behavior(peak(hours) + more)}},
    }  # fmt: skip
    assert shortages(spec, hours, peak(hours), NEAR[near]) == []
    for block, replicas in found.written.items():
        assert block.replicas <= replicas <= 1.1 * (block.replicas - 1) + 1 or replicas == block.replicas
    assert len(found.more_by_hour) == 7 * 24 and min(found.more_by_hour) >= 0


def _trigger(start: str, end: str, replicas: int) -> dict[str, Any]:
    return {"type": "cron", "metadata": {"start": start, "end": end, "desiredReplicas": str(replicas)}}


def test_replicas_come_at_once_since_a_count_on_the_way_may_be_near_enough() -> None:
    """Doubled from 4 there are 16 before there are 17, and 16 are left alone."""
    hours = {"weekday": (4,) * 8 + (17,) * 16, "weekend": (4,) * 24}
    triggers = [_trigger(*cron(b, 8), n) for b, n in floors(hours, most=17, applied=17).written.items()]
    spec = {
        "minReplicaCount": 4, "maxReplicaCount": 17, "triggers": triggers,
        "advanced": {"horizontalPodAutoscalerConfig": {"behavior": keda.behavior(17)}},
    }  # fmt: skip
    assert not shortages(spec, hours, 17, NEAR["from 1.33 on"])
    del spec["advanced"]["horizontalPodAutoscalerConfig"]["behavior"]["scaleUp"]  # type: ignore[index]
    assert {n for _, _, n in shortages(spec, hours, 17, NEAR["from 1.33 on"])} == {16}


@pytest.mark.parametrize(("lead_min", "between_h"), [(57, 1), (122, 2)])
def test_a_floor_that_begins_beside_counts_of_hours_before_is_reached_from_these(lead_min: int, between_h: int) -> None:
    """28 asked for early beside 27 stay 27, though the hours between have 15."""
    counts = (15,) * 9 + (27,) + (15,) * between_h + (28,) + (15,) * (13 - between_h)
    hours = {"weekday": counts, "weekend": counts}

    def short(early_min: int) -> list[tuple[int, int, int]]:
        written = floors(hours, most=28, applied=28, early_min=early_min).written
        spec = {
            "minReplicaCount": 15, "maxReplicaCount": 28,
            "triggers": [_trigger(*cron(b, lead_min), n) for b, n in written.items()],
            "advanced": {"horizontalPodAutoscalerConfig": {"behavior": keda.behavior(28)}},
        }  # fmt: skip
        return shortages(spec, hours, 15, NEAR["from 1.33 on"])

    assert {n for _, _, n in short(early_min=0)} == {27}
    assert not short(early_min=lead_min + keda.STABLE_S // 60)


def test_no_floor_is_raised_where_steps_are_large_or_counts_small() -> None:
    hours = {"weekday": (2,) * 8 + (20,) * 8 + (30,) * 8, "weekend": (2,) * 24}
    found = floors(hours, most=30, applied=30)
    assert list(found.written.values()) == [20, 30] and not any(found.more_by_hour) and not found.are_raised
    small = {"weekday": tuple(range(1, 10)) + (9,) * 15, "weekend": (1,) * 24}
    assert not floors(small, most=9, applied=9).are_raised


def test_a_step_within_the_tolerance_is_asked_for_as_one_beyond_it() -> None:
    hours = {"weekday": (2,) * 8 + (40,) * 8 + (42,) * 8, "weekend": (2,) * 24}
    found = floors(hours, most=60, applied=42)
    assert [*found.written.values()] == [40, 45]
    assert sorted(set(found.more_by_hour)) == [0, 3]
    at_most = floors(hours, most=42, applied=42)
    assert [*at_most.written.values()] == [40, 45], "more than there may be, which is then what there is"
    assert not any(at_most.more_by_hour)


@pytest.mark.parametrize(("headroom", "factor"), [(0.0, 1.0), (0.25, 1.25)])
def test_the_most_replicas_are_those_of_every_month_and_the_headroom(headroom: float, factor: float) -> None:
    plan = plan_of("together")
    months = sorted({slot.month for slot in plan.slots})
    assert len(months) > 1
    peaks: dict[str, int] = {}
    for month in months:
        for name, (_, hours) in scaled(plan, Settings(month=month)).items():
            peaks[name] = max(peaks.get(name, 0), peak(hours))
    for month in months:
        for name, (spec, _) in scaled(plan, Settings(month=month, headroom_frac=headroom)).items():
            assert spec["maxReplicaCount"] == math.ceil(factor * peaks[name])


def test_what_has_no_effect_is_not_written() -> None:
    """KEDA itself looks at triggers only where there may be no replica at all."""
    specs = [spec for e in EXAMPLES for spec, _ in _specs(e)]
    assert {spec["minReplicaCount"] == 0 for spec in specs} == {True, False}
    for spec in specs:
        assert {"pollingInterval", "cooldownPeriod"} & spec.keys() == (
            set() if spec["minReplicaCount"] else {"pollingInterval", "cooldownPeriod"}
        )


def _specs(example: Path) -> list[tuple[dict[str, Any], Hours]]:
    plan = plan_of(str(example.relative_to(ROOT)))
    return list(scaled(plan, Settings()).values()) if plan.fleet else []
