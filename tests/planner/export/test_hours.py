"""Schedules against KEDA's own rule, minute by minute, and blocks against the hours that they were made of."""

from __future__ import annotations

import math
from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.export.hosted import Settings as ExportSettings
from planner.export.hosted import hosted_fleet
from planner.export.hours import Hours, blocks, cron, fewest
from planner.export.targets import keda
from tests.planner.export.test_targets import of_kind, plan_of

WEEK = 7 * 24 * 60
COUNTS = st.lists(st.integers(0, 4), min_size=24, max_size=24).map(tuple)


@cache
def times(expression: str) -> list[int]:
    """Minutes of the week, from Sunday 00:00 on, at which a schedule fires: 'minute hour * * days'."""
    minute, hour, day, month, days = expression.split()
    assert (day, month) == ("*", "*")
    fires = set()
    for part in ["0-6"] if days == "*" else days.split(","):
        first, _, last = part.partition("-")
        fires |= set(range(int(first), int(last or first) + 1))
    return sorted(1440 * d + 60 * int(hour) + int(minute) for d in fires)


@cache
def after(now: int, expression: str) -> int:
    """The next time at which it fires, strictly later."""
    fires = times(expression)
    return next((t for t in fires if t > now), fires[0] + WEEK)


def active(now: int, start: str, end: str) -> bool:
    """KEDA's rule (pkg/scalers/cron_scaler.go): not active if the next start comes before the next end."""
    return after(now, end) <= after(now, start)


def floor(now: int, triggers: list[tuple[str, str, int]], least: int) -> int:
    return max([least, *(n for start, end, n in triggers if active(now, start, end))])


def planned(now: int, hours: Hours) -> int:
    day, minute = divmod(now % WEEK, 1440)
    return hours["weekend" if day in (0, 6) else "weekday"][minute // 60]


def check(triggers: list[tuple[str, str, int]], hours: Hours, lead_min: int, tolerated_frac: float = 0.0) -> None:
    """Never fewer than planned, at no time more than the plan has within the time of a start, and what it takes that a
    count is not left alone.
    """
    assert all(start != end for start, end, _ in triggers)
    for hour in range(0, WEEK, 60):
        for now in (hour, hour + 30, hour + 59):
            soon = max(planned(later, hours) for later in [*range(now, now + lead_min, 30), now + lead_min])
            assert planned(now, hours) <= floor(now, triggers, fewest(hours)) <= (1 + tolerated_frac) * soon


@settings(max_examples=40)
@given(weekday=COUNTS, weekend=COUNTS, lead_min=st.sampled_from([0, 5, 59, 60, 90, 200]))
def test_schedules_hold_the_hours_and_start_ahead_of_them(
    weekday: tuple[int, ...], weekend: tuple[int, ...], lead_min: int
) -> None:
    hours = {"weekday": weekday, "weekend": weekend}
    triggers = [(*cron(b, lead_min), b.replicas) for b in blocks(hours) if b.replicas > fewest(hours)]
    check(triggers, hours, lead_min)


def test_what_is_added_is_up_by_the_full_hour() -> None:
    hours = {"weekday": (1,) * 9 + (3,) * 15, "weekend": (1,) * 24}
    (block,) = (b for b in blocks(hours) if b.replicas == 3)
    assert cron(block, 6) == ("54 8 * * 1-5", "0 0 * * 2-6")
    whole = {"weekday": (2,) * 24, "weekend": (1,) * 24}
    assert [cron(b, 6) for b in blocks(whole)] == [("54 23 * * 0", "0 0 * * 6"), ("0 0 * * 6", "0 0 * * 1")]
    assert [b.day for b in blocks({"weekday": (2,) * 24, "weekend": (2,) * 24})] == ["every day"]


@pytest.mark.parametrize("name", ["examples/quickstart.yaml", "mixed", "together"])
def test_the_floor_under_the_load_trigger_is_the_plan(name: str) -> None:
    fleet = hosted_fleet(plan_of(name), ExportSettings())
    found = of_kind(keda.export(fleet).files, "ScaledObject")
    assert sorted(found) == sorted(part.name for h in fleet.hosted for part in h.parts)
    for h in fleet.hosted:
        for part in h.parts:
            spec = found[part.name]["spec"]
            triggers = [
                (t["metadata"]["start"], t["metadata"]["end"], int(t["metadata"]["desiredReplicas"]))
                for t in spec["triggers"]
                if t["type"] == "cron"
            ]
            assert spec["minReplicaCount"] == fewest(part.hours)
            check(triggers, part.hours, math.ceil(h.start_s / 60), tolerated_frac=0.1)
            assert [t["type"] for t in spec["triggers"]].count("prometheus") == 1
        both = {d: [f + s for f, s in zip(h.firm[d], h.spot[d], strict=True)] for d in h.firm}
        assert [*both["weekday"], *both["weekend"]] == list(h.plan.replicas_by_slot[:48])
