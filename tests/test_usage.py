"""Usage logs: hours found by their weekday, gaps never read as zero, and mistakes named with their line."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path

import pytest

import planner
from planner.usage import WITHIN_HOUR_VARIATION, read_usage

MONDAY = datetime(2026, 9, 7)


def log(path: Path, hours: int, skip: tuple[int, ...] = (), start: datetime = MONDAY) -> Path:
    """3,600 requests an hour on weekdays, 7,200 on weekends, twice as many from 12h on."""
    rows = ["time,requests"]
    for k in range(hours):
        t = start + timedelta(hours=k)
        count = (7200 if t.weekday() >= 5 else 3600) * (2 if t.hour >= 12 else 1)
        if k not in skip:
            rows.append(f"{t.isoformat()},{count}")
    path.write_text("\n".join(rows) + "\n")
    return path


def test_hours_of_weekdays_and_weekends(tmp_path: Path) -> None:
    hours = read_usage(log(tmp_path / "u.csv", 14 * 24), "w")
    assert hours.weekday_rps == pytest.approx((1.0,) * 12 + (2.0,) * 12)
    assert hours.weekend_rps == pytest.approx((2.0,) * 12 + (4.0,) * 12)
    assert hours.variation == pytest.approx(WITHIN_HOUR_VARIATION)
    assert hours.notes == ()


def test_a_gap_is_not_zero_demand(tmp_path: Path) -> None:
    whole = read_usage(log(tmp_path / "a.csv", 14 * 24), "w")
    with_gap = read_usage(log(tmp_path / "b.csv", 14 * 24, skip=tuple(range(30, 60))), "w")
    assert with_gap.weekday_rps == pytest.approx(whole.weekday_rps)


def test_missing_weekends_are_taken_from_weekdays_and_said(tmp_path: Path) -> None:
    hours = read_usage(log(tmp_path / "u.csv", 48), "w")
    assert hours.weekend_rps == pytest.approx(hours.weekday_rps)
    assert "24 weekend hours are missing" in hours.notes[0]


def test_finer_rows_add_up_to_hours(tmp_path: Path) -> None:
    rows = ["time,requests"] + [f"{(MONDAY + timedelta(minutes=10 * k)).isoformat()},600" for k in range(6 * 48)]
    path = tmp_path / "u.csv"
    path.write_text("\n".join(rows))
    assert read_usage(path, "w").weekday_rps == pytest.approx((1.0,) * 24)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("when,requests\n2026-01-01,1\n", "no column 'time'"),
        ("time,request\n2026-01-01,1\n", "did you mean 'request'"),
        ("time,requests\n2026-01-01T00:00:00,-5\n", ":2: needs a time"),
        ("time,requests\n2026-01-01T00:00:00,1\nyesterday,5\n", ":3: needs a time"),
        ("time,requests\n2026-01-01T00:00:00,1\n", "covers 1 hours"),
        ("", "cannot be read as CSV"),
    ],
)
def test_mistakes_are_named(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "u.csv"
    path.write_text(text)
    with pytest.raises(planner.InputError) as error:
        read_usage(path, "w")
    assert said.lower() in str(error.value).lower()


def test_a_demand_file_reads_its_log(tmp_path: Path) -> None:
    log(tmp_path / "u.csv", 14 * 24)
    demand = tmp_path / "demand.yaml"
    demand.write_text(
        "workloads:\n  - name: w\n    models: [llama-3.1-8b]\n    forecast: {csv: u.csv}\n"
        "baseline: openai/gpt-4o-mini\n"
    )
    workload = planner.load_case(demand).workloads[0]
    assert workload.weekday_rps == pytest.approx((1.0,) * 12 + (2.0,) * 12)
    (tmp_path / "u.csv").unlink()
    with pytest.raises(planner.InputError, match=r"u\.csv"):
        planner.load_case(demand)
