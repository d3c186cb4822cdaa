"""Tables of counts: the step is the usual one, and what a key leaves out is nothing."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from planner.logs.measure import Measured, MeasureOptions, measure_logs

pytest.importorskip("ibis", reason="demand needs ibis and duckdb: pip install fleetplan[logs]")

MONDAY = datetime(2026, 5, 4, tzinfo=UTC)
HOURS = [MONDAY + timedelta(hours=h) for h in range(14 * 24)]


def measured(rows: list[tuple[datetime, str, int]], path: Path, zone: str = "UTC") -> Measured:
    path.write_text("\n".join(["time,team,requests", *(f"{t.isoformat()},{team},{n}" for t, team, n in rows)]))
    return measure_logs(MeasureOptions((str(path),), by="team", zone=zone))


def test_hours_that_only_one_team_lacks_are_zeros(tmp_path: Path) -> None:
    rows = [(t, "steady", 1000) for t in HOURS] + [(t, "nightly", 700) for t in HOURS if t.hour == 2]
    nightly, steady = measured(rows, tmp_path / "counts.csv").workloads
    assert steady.rates.weekday == pytest.approx((1000,) * 24)
    for rates in (nightly.rates.weekday, nightly.rates.weekend):
        assert rates == pytest.approx([700.0 if h == 2 else 0.0 for h in range(24)])


def test_many_teams_with_a_row_a_day_do_not_make_an_hourly_table_daily(tmp_path: Path) -> None:
    rows = [(t, f"team {t.hour}", 600) for t in HOURS]
    for w in measured(rows, tmp_path / "counts.csv").workloads:
        assert sum(w.rates.weekday) == pytest.approx(600)
        assert max(w.rates.weekday) == pytest.approx(600)


def test_a_row_off_its_hour_does_not_change_the_step(tmp_path: Path) -> None:
    rows = [(t + timedelta(minutes=k == 100), "all", 1000) for k, t in enumerate(HOURS)]
    (w,) = measured(rows, tmp_path / "counts.csv").workloads
    assert w.traffic.step_s == 3600
    assert w.rates.weekday == w.rates.weekend == pytest.approx((1000,) * 24)


def test_days_of_23_and_25_hours_leave_days_as_the_step(tmp_path: Path) -> None:
    """Clocks in Berlin go forward on 2026-03-29 and back on 2026-10-25."""
    berlin = ZoneInfo("Europe/Berlin")
    for month, first in ((3, 2), (10, 5)):
        days = [datetime(2026, month, first, tzinfo=berlin) + timedelta(days=d) for d in range(42)]
        rows = [(t, "all", 24_000 if t.weekday() < 5 else 2400) for t in days]
        (w,) = measured(rows, tmp_path / "counts.csv", "Europe/Berlin").workloads
        assert w.rates.weekday == pytest.approx((1000,) * 24)
        assert w.rates.weekend == pytest.approx((100,) * 24, rel=0.01)


def test_hours_of_a_clock_that_is_half_an_hour_off_stay_whole(tmp_path: Path) -> None:
    india = ZoneInfo("Asia/Kolkata")
    rows = [(t.replace(tzinfo=india), "all", 100 * t.hour + 1) for t in HOURS]
    (w,) = measured(rows, tmp_path / "counts.csv", "Asia/Kolkata").workloads
    assert w.rates.weekday == pytest.approx([100 * h + 1 for h in range(24)])


@pytest.mark.parametrize(
    ("zone", "shift"), [("Asia/Kolkata", 0.5), ("Asia/Kathmandu", 0.75), ("Australia/Adelaide", 0.5)]
)
def test_hours_of_utc_are_split_between_hours_of_a_clock_that_is_half_an_hour_off(
    tmp_path: Path, zone: str, shift: float
) -> None:
    rows = [(t, "all", 100 * t.hour) for t in HOURS]
    found = measured(rows, tmp_path / "counts.csv", zone)
    (w,) = found.workloads
    assert sum(w.rates.weekday) == pytest.approx(100 * sum(range(24)))
    whole = int(HOURS[0].astimezone(ZoneInfo(zone)).utcoffset().total_seconds() // 3600)  # type: ignore[union-attr]
    for h in range(24):
        before, after = 100 * ((h - whole - 1) % 24), 100 * ((h - whole) % 24)
        assert w.rates.weekday[h] == pytest.approx(shift * before + (1 - shift) * after)
    assert any("split between them evenly" in note for note in found.ledger.notes)


def test_rows_that_conflict_count_as_the_last_and_parts_are_added(tmp_path: Path) -> None:
    rows = [(t, "all", 1000) for t in HOURS]
    found = measured([*rows, *((t, "all", 1100) for t in HOURS[:24]), *rows[100:110]], tmp_path / "counts.csv")
    assert dict(found.ledger.left_out) == {
        "conflicting rows for one time: the last one counts": 24,
        "duplicate rows": 10,
    }
    assert found.workloads[0].traffic.total == 1000 * (len(HOURS) - 24) + 1100 * 24
    parts = measured([*rows, *((t, "all", 500) for t in HOURS)], tmp_path / "counts.csv")
    assert parts.workloads[0].traffic.total == 1500 * len(HOURS)
    assert f"{len(HOURS)} rows at the time of another row, added to it" in parts.ledger.notes


def test_a_row_without_a_count_is_unknown_beside_the_rows_of_others(tmp_path: Path) -> None:
    rows = [(t, team, 9) for t in HOURS for team in ("a", "b")]
    path = tmp_path / "counts.csv"
    text = ["time,team,requests", *(f"{t.isoformat()},{team},{n}" for t, team, n in rows)]
    path.write_text("\n".join(line.removesuffix("9") if k % 48 == 1 else line for k, line in enumerate(text)))
    for w in measure_logs(MeasureOptions((str(path),), by="team")).workloads:
        assert w.rates.weekday == pytest.approx((9,) * 24)


def test_counts_without_dates_begin_on_a_monday(tmp_path: Path) -> None:
    path = tmp_path / "counts.csv"
    path.write_text("\n".join(["time,requests", *(f"{3600 * k},{100 if k % 168 < 120 else 30}" for k in range(336))]))
    (w,) = measure_logs(MeasureOptions((str(path),))).workloads
    assert w.rates.weekday == pytest.approx((100,) * 24)
    assert w.rates.weekend == pytest.approx((30,) * 24)


def test_teams_of_a_short_table_are_workloads_of_their_own(tmp_path: Path) -> None:
    rows = [(t, team, 1) for t in HOURS[:24] for team in ("a", "b", "c")]
    rows += [(HOURS[3], "rare", 1), (HOURS[5], "odd", 1)]
    assert [w.traffic.name for w in measured(rows, tmp_path / "counts.csv").workloads] == ["a", "b", "c", "other"]


@pytest.mark.parametrize("wrong", ["", "-1000", "many"])
def test_tokens_of_a_row_without_requests_do_not_make_the_others_longer(tmp_path: Path, wrong: str) -> None:
    path = tmp_path / "counts.csv"
    rows = [f"{t.isoformat()},{wrong if k % 3 == 0 else 1000},500000,200000,100000" for k, t in enumerate(HOURS)]
    path.write_text("\n".join(["time,requests,input_tokens,output_tokens,cached_tokens", *rows]))
    (w,) = measure_logs(MeasureOptions((str(path),))).workloads
    assert w.traffic.prompt_tokens == pytest.approx(500 * w.traffic.total)
    assert w.traffic.output_tokens == pytest.approx(200 * w.traffic.total)
    assert w.traffic.cache is not None
    assert w.traffic.cache.requests == pytest.approx(w.traffic.total)
    assert w.traffic.cache.prompt_tokens == pytest.approx(w.traffic.prompt_tokens)
