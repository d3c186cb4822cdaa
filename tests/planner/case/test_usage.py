"""Usage logs: hours found by their weekday, gaps never read as zero, and mistakes named with their line."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path

import pytest

import planner
from planner.case.demand.usage import Hours, usage_hours
from planner.logs.statistics import WITHIN_HOUR_VARIATION
from planner.logs.usage import read_usage_file
from tests.support.rows import for_each

MONDAY = datetime(2026, 9, 7)
NO_ZONE = "'u.csv': times have no time zone and count as UTC"


def read_usage(path: Path, workload: str, zone: str | None = None) -> Hours:
    return usage_hours(read_usage_file(path), path, workload, zone)


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
    assert hours.notes == (NO_ZONE,)


def test_a_gap_is_not_zero_demand(tmp_path: Path) -> None:
    whole = read_usage(log(tmp_path / "a.csv", 14 * 24), "w")
    with_gap = read_usage(log(tmp_path / "b.csv", 14 * 24, skip=tuple(range(30, 60))), "w")
    assert with_gap.weekday_rps == pytest.approx(whole.weekday_rps)


def test_missing_weekends_are_taken_from_weekdays_and_said(tmp_path: Path) -> None:
    hours = read_usage(log(tmp_path / "u.csv", 48), "w")
    assert hours.weekend_rps == pytest.approx(hours.weekday_rps)
    assert "24 weekend hours are not in the log and taken from weekdays" in hours.notes


def test_finer_rows_add_up_to_hours(tmp_path: Path) -> None:
    rows = ["time,requests"] + [f"{(MONDAY + timedelta(minutes=10 * k)).isoformat()},600" for k in range(6 * 48)]
    path = tmp_path / "u.csv"
    path.write_text("\n".join(rows))
    assert read_usage(path, "w").weekday_rps == pytest.approx((1.0,) * 24)


@for_each(
    ("text", "said"),
    [
        ("when,requests\n2026-01-01,1\n", "no column for time, only 'when' and 'requests'"),
        ("time,request\n2026-01-01,1\n", "no column for requests by time, nor for prompt and output"),
        ("time,requests\n2026-01-01T00:00:00,-5\n", ":2: has no request that can be used: negative requests"),
        (
            "time,requests\n2026-01-01T00:00:00,1\nyesterday,5\n",
            "covers 1 whole hour; 1 row left out: unreadable time",
        ),
        ("time,requests\n2026-01-01T00:00:00,1\n", "covers 1 whole hour"),
        ("time,requests\n2026-01-01T00:00:00,0\n", "has no requests at all"),
        ("workload,time,requests\nv,2026-01-01T00:00:00,1\n", "no rows for the workload 'w', only for 'v'"),
        ("", "is empty"),
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
    assert "3 rows left out: no requests (b.csv row 5, b.csv row 9, b.csv row 40)" in hours.notes
    assert "1 row left out: negative requests (b.csv row 20)" in hours.notes
    assert "1 row left out: requests above 10 billion (b.csv row 33)" in hours.notes
    assert "1 row left out: no time (b.csv row 51)" in hours.notes
    assert "5 hours without records" in hours.notes


def test_an_hour_of_which_a_part_is_missing_is_left_out(tmp_path: Path) -> None:
    """In a log of ten minutes, five sixths of an hour are not an hour."""
    times = [MONDAY + timedelta(minutes=10 * k) for k in range(6 * 48)]
    rows = [f"{t.isoformat()},600" for t in times]
    rows[3], rows[100] = f"{times[3].isoformat()},", ",600"
    path = tmp_path / "u.csv"
    path.write_text("\n".join(["time,requests", *rows]))
    assert read_usage(path, "w").weekday_rps == pytest.approx((1.0,) * 24)


def test_text_that_is_no_number_is_left_out_and_all_are_counted(tmp_path: Path) -> None:
    whole = read_usage(log(tmp_path / "a.csv", 14 * 24), "w")
    path = with_cells(tmp_path / "u.csv", {5: "twelve", 9: '"1,234"', 20: "", 33: "12k", 40: "?"})
    hours = read_usage(path, "w")
    assert hours.weekday_rps == pytest.approx(whole.weekday_rps)
    assert "4 rows left out: unreadable requests (u.csv row 5, u.csv row 9, u.csv row 33, ...)" in hours.notes


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
    said = [a.value for a in planner.load_case(tmp_path / "demand.yaml").assumptions if a.key.endswith("forecast.csv")]
    assert "1 row left out: no requests (u.csv row 5)" in said
    assert "1 row left out: negative requests (u.csv row 9)" in said


@pytest.mark.parametrize("given", [False, True])
def test_tokens_of_the_log_are_used_or_named(tmp_path: Path, given: bool) -> None:
    path = log(tmp_path / "u.csv", 14 * 24)
    head, *rows = path.read_text().splitlines()
    tokens = [f"{row},{700 * int(row.split(',')[1])},{90 * int(row.split(',')[1])},x" for row in rows]
    path.write_text("\n".join([f"{head},input_tokens,output_tokens,colour", *tokens]))
    own = "    tokens: {input: 900, output: 150}\n" if given else ""
    (tmp_path / "demand.yaml").write_text(
        f"workloads:\n  - name: w\n    models: [llama-3.1-8b]\n    forecast: {{csv: u.csv}}\n{own}"
        "baseline: openai/gpt-4o-mini\n"
    )
    case = planner.load_case(tmp_path / "demand.yaml")
    means = [
        sum(b.share_frac * getattr(b, f"{k}_tokens") for b in case.workloads[0].buckets) for k in ("input", "output")
    ]
    assert means == pytest.approx([900, 150] if given else [700, 90], rel=0.001)
    said = [a.value for a in case.assumptions]
    assert ("input tokens of the log are not used: their mean is 700" in said) == given
    assert any("columns not used: 'colour'" in value for value in said)


def test_a_log_gives_the_same_rates_as_the_verb_demand(tmp_path: Path) -> None:
    """A growing log of two months, with an outage and a spike, by the clock of Berlin."""
    pytest.importorskip("ibis", reason="demand needs ibis and duckdb: pip install fleetplan[logs]")
    rows = ["time,requests"]
    for k in range(60 * 24):
        t = MONDAY + timedelta(hours=k)
        count = (1000 + 90 * t.hour) * (1 + k / 2000) * (20 if k == 700 else 1)
        rows.append(f"{t.isoformat()}Z,{0 if 800 <= k < 805 else count:.0f}")
    (tmp_path / "u.csv").write_text("\n".join(rows))
    measured = planner.measure_logs(planner.MeasureOptions((str(tmp_path / "u.csv"),), zone="Europe/Berlin"))
    (tmp_path / "a.yaml").write_text(planner.demand_text(measured, "w"))
    (tmp_path / "b.yaml").write_text(
        "workloads:\n  - name: w\n    models: [llama-3.1-8b]\n    forecast: {csv: u.csv}\n"
        "baseline: openai/gpt-4o-mini\ntime_zone: Europe/Berlin\n"
    )
    one, other = (planner.load_case(tmp_path / name).workloads[0] for name in ("a.yaml", "b.yaml"))
    assert one.weekday_rps == pytest.approx(other.weekday_rps, rel=1e-3)  # four digits are written
    assert one.weekend_rps == pytest.approx(other.weekend_rps, rel=1e-3)
    assert one.rate_cv == pytest.approx(other.rate_cv, abs=0.001)
    assert other.weekday_rps[2] / other.weekday_rps[0] == pytest.approx(1000 / (1000 + 90 * 22), rel=0.05)


def test_columns_have_other_names_too(tmp_path: Path) -> None:
    path = log(tmp_path / "u.csv", 14 * 24)
    expected = read_usage(path, "w")
    path.write_text(path.read_text().replace("time,requests", "TIMESTAMP,num_requests"))
    assert read_usage(path, "w") == expected


def test_columns_may_be_named(tmp_path: Path) -> None:
    path = log(tmp_path / "u.csv", 14 * 24)
    path.write_text(path.read_text().replace("time,requests", "when,n"))
    demand = tmp_path / "demand.yaml"
    text = (
        "workloads:\n  - name: w\n    models: [llama-3.1-8b]\n"
        "    forecast: {csv: u.csv, columns: {time: when, %s: n}}\n"
        "baseline: openai/gpt-4o-mini\n"
    )
    demand.write_text(text % "requests")
    assert planner.load_case(demand).workloads[0].weekday_rps[0] == pytest.approx(1.0)
    demand.write_text(text % "number")
    with pytest.raises(planner.InputError, match=r"there is no 'number'\. Write one of time, prompt"):
        planner.load_case(demand)
    demand.write_text(text.replace(", %s: n", ""))
    with pytest.raises(planner.InputError, match=r"Name it next to the log: columns: \{requests: COLUMN\}"):
        planner.load_case(demand)


def test_totals_by_the_hour_are_not_taken_for_single_requests(tmp_path: Path) -> None:
    rows = [f"{(MONDAY + timedelta(hours=k)).isoformat()},70,70000,9000" for k in range(48)]
    path = tmp_path / "u.csv"
    path.write_text("\n".join(["time,calls,input_tokens,output_tokens", *rows]))
    with pytest.raises(planner.InputError, match="a row an hour, and no column for requests"):
        read_usage(path, "w")


def test_a_log_of_single_requests_is_counted_by_the_hour(tmp_path: Path) -> None:
    times = [MONDAY + timedelta(seconds=30 * k) for k in range(3 * 24 * 120)]
    rows = [f"{t.isoformat()},{100 + k % 7},{9},r{k}" for k, t in enumerate(times) if t.hour != 5 or t.second]
    path = tmp_path / "trace.csv"
    path.write_text("\n".join(["TIMESTAMP,ContextTokens,GeneratedTokens,request_id", *rows, *rows[500:700]]))
    hours = read_usage(path, "w")
    assert hours.weekday_rps == pytest.approx([1 / 60 if h == 5 else 1 / 30 for h in range(24)])
    assert "200 rows left out: duplicate ids: the last one counts (by request id)" in hours.notes
    path.write_text("TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:15:46.6805900,374,44\n")
    with pytest.raises(planner.InputError, match="`fleetplan demand` takes shorter logs"):
        read_usage(path, "w")


def test_names_are_text_whatever_they_look_like(tmp_path: Path) -> None:
    path = log(tmp_path / "u.csv", 14 * 24)
    head, *rows = path.read_text().splitlines()
    path.write_text("\n".join([f"workload,{head}", *(f"007,{row}" for row in rows), *(f"7,{row}0" for row in rows)]))
    assert read_usage(path, "007").weekday_rps[0] == pytest.approx(1.0)
    assert read_usage(path, "7").weekday_rps[0] == pytest.approx(10.0)


def test_a_missing_row_of_one_workload_is_no_zero_where_zeros_are_written(tmp_path: Path) -> None:
    """Of few requests, which no rule for outages could tell from nothing."""
    times = [(MONDAY + timedelta(hours=k)).isoformat() for k in range(14 * 24)]
    rows = [f"{w},{t},{6 if k % 24 else 0}" for k, t in enumerate(times) for w in "wv" if w == "v" or k % 24 != 7]
    path = tmp_path / "u.csv"
    path.write_text("\n".join(["workload,time,requests", *rows, *(f"w,{t},6" for t in times[7:31:24])]))
    assert read_usage(path, "w").weekday_rps[7] == pytest.approx(6 / 3600)


def test_rows_of_other_workloads_do_not_matter(tmp_path: Path) -> None:
    path = log(tmp_path / "u.csv", 14 * 24)
    head, *rows = path.read_text().splitlines()
    path.write_text("\n".join([f"workload,{head}", *(f"w,{row}" for row in rows), "v,2026-09-07T00:00:00,some"]))
    assert read_usage(path, "w").notes == ("1 row left out: unreadable requests (u.csv row 338)", NO_ZONE)


def test_a_log_is_read_in_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = with_cells(tmp_path / "u.csv", {5: "", 150: "", 300: "-1"})
    whole = read_usage(path, "w")
    monkeypatch.setattr("planner.io.input_files.PIECE_BYTES", 90)
    monkeypatch.setattr("planner.logs.reading.sources.BLOCK_BYTES", 200)
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
