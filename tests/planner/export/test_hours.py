"""Schedules against KEDA's own rule, minute by minute, and blocks against the hours that they were made of."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta
from functools import cache
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.export.hosted import Settings as ExportSettings
from planner.export.hosted import hosted_fleet
from planner.export.hours import Hours, Skipped, blocks, cron, fewest, skipped
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


# -- the night in which summer time begins ---------------------------------------------------------------


def next_after(now: datetime, expression: str) -> datetime:
    """As robfig/cron v3 finds it, which KEDA asks: a time that the clock leaves out is passed over."""
    minute, hour, *_, days = expression.split()
    fires = {time // 1440 for time in times(f"0 0 * * {days}")}
    day = now.date()
    while True:
        wall = datetime(day.year, day.month, day.day, int(hour), int(minute), tzinfo=now.tzinfo)
        exists = wall.astimezone(UTC).astimezone(now.tzinfo).replace(tzinfo=None) == wall.replace(tzinfo=None)
        if exists and (day.weekday() + 1) % 7 in fires and wall.astimezone(UTC) > now.astimezone(UTC):
            return wall.astimezone(UTC)
        day += timedelta(days=1)


def short_in(zone: ZoneInfo, first: datetime, hours: Hours, without: Skipped | None) -> list[datetime]:
    """Times of the days around a night at which floors are below the plan, stabilization left out."""
    triggers = [(*cron(block, 9, without), block.replicas) for block in blocks(hours) if block.replicas > fewest(hours)]
    found = []
    for k in range(0, 3 * 24 * 60, 10):
        now = (first.astimezone(UTC) + timedelta(minutes=k)).astimezone(zone)
        there = max([fewest(hours), *(n for s, e, n in triggers if next_after(now, e) <= next_after(now, s))])
        if there < hours["weekend" if now.weekday() >= 5 else "weekday"][now.hour]:
            found.append(now)
    return found


@pytest.mark.parametrize(
    ("name", "eve", "gap"),
    [
        ("Europe/Berlin", datetime(2027, 3, 26), (120, 180)),
        ("America/New_York", datetime(2027, 3, 12), (120, 180)),
        ("Africa/Cairo", datetime(2027, 4, 29), (0, 60)),
    ],
)
def test_no_block_is_lost_in_the_night_in_which_summer_time_begins(
    name: str, eve: datetime, gap: tuple[int, int]
) -> None:
    zone, without = ZoneInfo(name), skipped(name, 2027)
    assert without == Skipped(*gap)
    late = gap[0] // 60 or 24
    night = tuple(3 if hour >= 20 or hour < late % 24 else 1 for hour in range(24))
    hours = {"weekday": night, "weekend": night}
    first = eve.replace(tzinfo=zone)
    assert short_in(zone, first, hours, None), "as written elsewhere the evening before has no floor"
    assert short_in(zone, first, hours, without) == []


def test_zones_without_summer_time_have_every_minute() -> None:
    assert skipped("UTC", 2027) is None and skipped("Asia/Kolkata", 2027) is None
    assert cron(blocks({"weekday": (2,) * 2 + (1,) * 22, "weekend": (2,) * 2 + (1,) * 22})[0], 0)[1] == "0 2 * * *"
