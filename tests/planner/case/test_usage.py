"""Usage logs: hours found by their weekday, gaps never read as zero, and mistakes named with their line."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path

import pytest

import planner
from planner.case.demand.usage import WITHIN_HOUR_VARIATION, read_usage

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


def with_cells(path: Path, cells: dict[int, str]) -> Path:
    """The log of two weeks with other text for the requests of some lines."""
    lines = log(path, 14 * 24).read_text().splitlines()
    for number, cell in cells.items():
        lines[number - 1] = f"{lines[number - 1].split(',')[0]},{cell}"
    path.write_text("\n".join(lines) + "\n")
    return path


def test_cells_that_say_nothing_are_left_out_and_named_together(tmp_path: Path) -> None:
    whole = read_usage(log(tmp_path / "a.csv", 14 * 24), "w")
    path = with_cells(tmp_path / "b.csv", {5: "", 9: "NaN", 20: "-5", 33: "inf", 40: " "})
    lines = path.read_text().splitlines()
    path.write_text("\n".join([*lines[:50], ",7200", *lines[50:]]) + "\n")
    hours = read_usage(path, "w")
    assert hours.weekday_rps == pytest.approx(whole.weekday_rps)
    assert hours.weekend_rps == pytest.approx(whole.weekend_rps)
    assert hours.notes == ("6 rows of the log are left out: time 1 x (line 51), requests 5 x (lines 5, 9, 20, ...)",)


def test_an_hour_of_which_a_part_is_missing_is_left_out(tmp_path: Path) -> None:
    """In a log of ten minutes, five sixths of an hour are not an hour."""
    times = [MONDAY + timedelta(minutes=10 * k) for k in range(6 * 48)]
    rows = [f"{t.isoformat()},600" for t in times]
    rows[3], rows[100] = f"{times[3].isoformat()},", ",600"
    path = tmp_path / "u.csv"
    path.write_text("\n".join(["time,requests", *rows]))
    assert read_usage(path, "w").weekday_rps == pytest.approx((1.0,) * 24)


def test_text_that_is_no_number_is_a_mistake_and_all_are_named(tmp_path: Path) -> None:
    path = with_cells(tmp_path / "u.csv", {5: "twelve", 9: '"1,234"', 20: "", 33: "12k", 40: "?"})
    with pytest.raises(planner.InputError) as caught:
        read_usage(path, "w")
    (diagnostic,) = caught.value.diagnostics
    assert diagnostic.line == 5
    assert diagnostic.message.endswith("of 0 or more: requests 4 x (lines 5, 9, 33, ...)")


def test_days_written_without_their_midnight(tmp_path: Path) -> None:
    path = log(tmp_path / "u.csv", 14 * 24)
    whole = read_usage(path, "w")
    path.write_text(path.read_text().replace("T00:00:00", ""))
    assert read_usage(path, "w") == whole


def test_the_plan_says_which_rows_are_left_out(tmp_path: Path) -> None:
    with_cells(tmp_path / "u.csv", {5: "", 9: "-1"})
    (tmp_path / "demand.yaml").write_text(
        "workloads:\n  - name: w\n    models: [llama-3.1-8b]\n    forecast: {csv: u.csv}\n"
        "baseline: openai/gpt-4o-mini\n"
    )
    said = {a.key: a.value for a in planner.load_case(tmp_path / "demand.yaml").assumptions}
    assert said["workloads.w.forecast.csv"] == "2 rows of the log are left out: requests 2 x (lines 5, 9)"


def test_tokens_are_no_matter_of_a_forecast(tmp_path: Path) -> None:
    path = log(tmp_path / "u.csv", 14 * 24)
    head, *rows = path.read_text().splitlines()
    path.write_text("\n".join([f"{head},input_tokens", *(f"{row},unknown" for row in rows)]))
    (note,) = read_usage(path, "w").notes
    assert "input_tokens of the log are not used" in note


def test_columns_have_other_names_too(tmp_path: Path) -> None:
    path = log(tmp_path / "u.csv", 14 * 24)
    expected = read_usage(path, "w")
    path.write_text(path.read_text().replace("time,requests", "TIMESTAMP,num_requests"))
    assert read_usage(path, "w") == expected


def test_a_log_of_single_requests_is_for_the_verb_demand(tmp_path: Path) -> None:
    path = tmp_path / "trace.csv"
    path.write_text("TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:15:46.6805900,374,44\n")
    with pytest.raises(planner.InputError, match=r"fleetplan demand trace\.csv"):
        read_usage(path, "w")


def test_rows_of_other_workloads_do_not_matter(tmp_path: Path) -> None:
    path = log(tmp_path / "u.csv", 14 * 24)
    head, *rows = path.read_text().splitlines()
    path.write_text("\n".join([f"workload,{head}", *(f"w,{row}" for row in rows), "v,2026-09-07T00:00:00,some"]))
    assert read_usage(path, "w").notes == ()


def test_a_log_is_read_in_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = with_cells(tmp_path / "u.csv", {5: "", 150: "", 300: "-1"})
    whole = read_usage(path, "w")
    monkeypatch.setattr("planner.case.demand.usage_chunks.CHUNK_ROWS", 7)
    assert read_usage(path, "w") == whole


def test_without_enough_memory_the_remedy_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import pandas as pd

    def full(*_: object, **__: object) -> None:
        raise MemoryError

    monkeypatch.setattr(pd, "read_csv", full)
    with pytest.raises(planner.InputError, match=r"needs more memory than there is\. Give one row an hour"):
        read_usage(log(tmp_path / "u.csv", 48), "w")


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
