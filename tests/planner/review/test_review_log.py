"""Usage logs of reviews: what is odd is named and left out, and forecasts are what arithmetic says."""

from __future__ import annotations

import sys
from datetime import datetime, timedelta
from pathlib import Path

import numpy as np
import pytest

from planner.case.demand.future.forecasting import (
    GRID,
    NAIVE,
    SMOOTHED,
    TREND,
    WEEK,
    HoltWinters,
    forecasts,
    seasonal_naive,
)
from planner.io.errors import InputError
from planner.logs.reading.ledger import Ledger
from planner.review.cleaning import ALL, cleaned
from planner.review.usage_log import UsageLog, read_log
from tests.support.rows import for_each

MONDAY = datetime(2025, 9, 1)
HOURS = np.arange(52 * WEEK)
SHAPE = 1 + 0.6 * np.sin(2 * np.pi * (HOURS % 24) / 24) + 0.2 * np.sin(2 * np.pi * (HOURS % WEEK) / WEEK)


def log_of(**rows: np.ndarray) -> UsageLog:
    return UsageLog(np.datetime64(MONDAY, "h"), tuple(rows), np.array(list(rows.values())), None, None, Ledger())


def kinds(log: UsageLog, workload: str) -> dict[str, int]:
    return {f.kind: f.count for f in cleaned(log).findings if f.workload == workload}


def noisy(seed: int, level: float = 5000.0, hours: int = len(HOURS)) -> np.ndarray:
    return np.round(level * SHAPE[:hours] * np.exp(0.05 * np.random.default_rng(seed).standard_normal(hours)))


def test_a_clean_year_has_nothing_odd() -> None:
    log = log_of(flat=noisy(1), growing=noisy(2) * (1 + HOURS / len(HOURS)), small=noisy(3, 4.0), doubled=np.where(
        HOURS < 4000, noisy(4), 2 * noisy(4)))  # fmt: skip
    assert cleaned(log).findings == ()


def test_each_oddity_is_named_and_left_out() -> None:
    row = noisy(1)
    row[1000:1030] = np.nan
    row[2000:2012] = 0
    row[3000] *= 9
    row[4000:4003] *= 0.2
    clean = cleaned(log_of(chat=row))
    assert {f.kind: f.count for f in clean.findings} == {"gap": 30, "outage": 12, "outlier": 4}
    assert np.flatnonzero(np.isnan(clean.of("chat"))).tolist() == [
        *range(1000, 1030), *range(2000, 2012), 3000, *range(4000, 4003)
    ]  # fmt: skip
    gap = next(f for f in clean.findings if f.kind == "gap")
    assert gap.when == f"{MONDAY + timedelta(hours=1000):%Y-%m-%d %H:%M} for 30 h"


def test_a_launch_and_an_end_are_no_gaps_and_no_outages() -> None:
    begun, stopped, zeros = noisy(1), noisy(2), noisy(3)
    begun[:3000], stopped[-400:], zeros[:3000] = np.nan, np.nan, 0
    clean = cleaned(log_of(begun=begun, stopped=stopped, zeros=zeros))
    assert {(f.workload, f.kind, f.count) for f in clean.findings} == {
        ("begun", "launch", 3000), ("zeros", "launch", 3000), ("stopped", "ended", 400)
    }  # fmt: skip
    assert clean.ended == ("stopped",)
    assert np.isnan(clean.of("zeros")[:3000]).all()


def test_nights_without_requests_are_demand_of_nothing() -> None:
    row = np.where(HOURS % 24 < 6, 0.0, noisy(1))
    assert cleaned(log_of(office=row)).findings == ()


def test_a_long_change_is_kept_and_said() -> None:
    row = noisy(1)
    row[3000:3060] *= 4
    clean = cleaned(log_of(chat=row))
    assert [(f.kind, f.count) for f in clean.findings] == [("shift", 60)]
    assert np.isfinite(clean.of("chat")).all()


def write_csv(path: Path, rows: list[tuple[object, ...]], head: str = "workload,time,requests") -> Path:
    path.write_text("\n".join([head, *(",".join(map(str, row)) for row in rows)]) + "\n")
    return path


def hourly(name: str, hours: int, requests: int = 600) -> list[tuple[object, ...]]:
    return [(name, (MONDAY + timedelta(hours=k)).isoformat(), requests + k) for k in range(hours)]


def test_finer_logs_add_up_and_a_part_of_an_hour_is_a_gap(tmp_path: Path) -> None:
    fine = [("w", (MONDAY + timedelta(minutes=15 * k)).isoformat(), 10) for k in range(4 * 48) if k not in (40, 41)]
    log = read_log(write_csv(tmp_path / "u.csv", fine), None)
    assert np.flatnonzero(np.isnan(log.requests[0])).tolist() == [10]
    assert np.nanmax(log.requests) == np.nanmin(log.requests) == 40
    assert kinds(log, "w") == {"gap": 1}


def test_repeated_rows_count_once(tmp_path: Path) -> None:
    rows = hourly("w", 48)
    rows += [rows[3], rows[4], ("w", rows[5][1], 1000)]
    log = read_log(write_csv(tmp_path / "u.csv", rows), None)
    assert log.requests[0, :6].tolist() == [600, 601, 602, 603, 604, 1000]
    assert kinds(log, ALL) == {"repeated": 2, "contradicting": 1}


def test_parquet_is_the_same_as_csv(tmp_path: Path) -> None:
    import pandas as pd

    csv = write_csv(tmp_path / "u.csv", hourly("a", 60) + hourly("b", 50))
    pd.read_csv(csv).to_parquet(tmp_path / "u.parquet")
    one, other = read_log(csv, None), read_log(tmp_path / "u.parquet", None)
    assert one.workloads == other.workloads == ("a", "b")
    np.testing.assert_array_equal(one.requests, other.requests)


def test_without_a_reader_of_parquet_the_remedy_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "u.parquet").write_bytes(b"PAR1")
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    with pytest.raises(InputError, match=r"Install it: pip install 'fleetplan\[parquet\]'"):
        read_log(tmp_path / "u.parquet", None)


@for_each(
    ("rows", "head", "said"),
    [
        (
            [("w", "2026-01-01T00:00", -1)],
            "workload,time,requests",
            "u.csv:2: has no request that can be used: negative",
        ),
        (
            [("w", "not a time", 1)],
            "workload,time,requests",
            "u.csv:2: has no request that can be used: unreadable time",
        ),
        (
            [("2026-01-01T00:00", 1)],
            "time,requests",
            "has no column 'workload', but the plan has several workloads. Add",
        ),
        ([("w", "2026-01-01T00:00", 1)], "workload,time,requests", "covers 1 hour. Give at least 24."),
        (
            [("w", "2026-01-01", 1), ("w", "2066-01-01", 1)],
            "workload,time,requests",
            "u.csv:2: has 1 row of 2026-01-01, 14,610 days before the other 1 row of 2066-01-01. Correct the times",
        ),
        (
            [("w", f"{year}-01-01", 1) for year in range(2026, 2033)],
            "workload,time,requests",
            "covers 7 years. Check the times",
        ),
        ([("w", 0, 1), ("w", 90_000, 1)], "workload,time,requests", "has times without dates"),
        ([("w", "2026-01-01", 0), ("w", "2026-01-03", 0)], "workload,time,requests", "has no requests at all"),
        ([], "workload,time,requests", "holds no request. Check what was exported"),
        (
            [("", "2026-01-01T00:00", 1)],
            "workload,time,requests",
            "u.csv:2: has no request that can be used: no workload",
        ),
        ([("w", 1)], "workload,requests", "has no column for time, only 'workload' and 'requests'"),
    ],
)
def test_what_is_wrong_with_a_log_is_said(tmp_path: Path, rows: list[tuple[object, ...]], head: str, said: str) -> None:
    with pytest.raises(InputError, match=said.replace(".", r"\.")):
        read_log(write_csv(tmp_path / "u.csv", rows, head), None)


def test_cells_that_say_nothing_are_left_out_and_named(tmp_path: Path) -> None:
    rows = hourly("a", 48) + hourly("b", 48)
    rows[3], rows[7], rows[60] = (*rows[3][:2], ""), (*rows[7][:2], -4), (*rows[60][:2], "NaN")
    rows[20], rows[30] = ("a", "", 5), ("", rows[30][1], 5)
    log = read_log(write_csv(tmp_path / "u.csv", rows), None)
    assert np.flatnonzero(np.isnan(log.requests[0])).tolist() == [3, 7, 20, 30]
    assert np.flatnonzero(np.isnan(log.requests[1])).tolist() == [12]
    found = {(f.said.split(":")[0], f.count, f.unit, f.when) for f in cleaned(log).findings if f.kind == "missing"}
    assert found == {
        ("no requests", 2, "rows", "u.csv row 5, u.csv row 62"),
        ("negative requests", 1, "rows", "u.csv row 9"),
        ("no time", 1, "rows", "u.csv row 22"),
        ("no workload", 1, "rows", "u.csv row 32"),
    }


@pytest.mark.parametrize("digits", [310, 4000])
def test_a_number_beyond_all_floats_was_not_measured(tmp_path: Path, digits: int) -> None:
    rows = hourly("a", 48)
    rows[3] = (*rows[3][:2], "9" * digits)
    log = read_log(write_csv(tmp_path / "u.csv", rows), None)
    assert np.flatnonzero(np.isnan(log.requests[0])).tolist() == [3]
    rows[5] = (*rows[5][:2], "many")
    log = read_log(write_csv(tmp_path / "u.csv", rows), None)
    assert np.flatnonzero(np.isnan(log.requests[0])).tolist() == [3, 5]


def test_an_hour_with_a_row_that_says_nothing_is_a_gap_however_many_others_it_has(tmp_path: Path) -> None:
    rows = [("w", (MONDAY + timedelta(minutes=30 * k)).isoformat(), 10) for k in range(96)]
    rows += [("w", (MONDAY + timedelta(hours=5, minutes=10)).isoformat(), "")]
    rows += [("w", (MONDAY + timedelta(hours=7)).isoformat(), "")]  # written again with its figure above
    log = read_log(write_csv(tmp_path / "u.csv", rows), None)
    assert np.flatnonzero(np.isnan(log.requests[0])).tolist() == [5]


def test_requests_count_where_tokens_were_not_measured(tmp_path: Path) -> None:
    rows = [(*row, 1000, 10 if k != 6 else "") for k, row in enumerate(hourly("w", 48))]
    log = read_log(write_csv(tmp_path / "u.csv", rows, "workload,time,requests,input_tokens,output_tokens"), None)
    assert np.isfinite(log.requests).all()
    assert log.input_tokens is not None and np.isfinite(log.input_tokens).all()
    assert log.output_tokens is not None and np.flatnonzero(np.isnan(log.output_tokens[0])).tolist() == [6]


# -- forecasts ------------------------------------------------------------------------------------------------


def test_an_exact_week_is_forecast_exactly() -> None:
    week = np.random.default_rng(1).uniform(10, 100, WEEK)
    for weeks in (1, 2, 8):
        (found,) = forecasts(np.tile(week, weeks)[None, :], 5 * WEEK + 7)
        np.testing.assert_allclose(found.requests, np.tile(week, 6)[: 5 * WEEK + 7], rtol=1e-9)
        assert found.tried_weeks == {1: 0, 2: 1, 8: 2}[weeks]
        assert (found.error_frac or 0.0) == pytest.approx(0, abs=1e-9)


def test_the_naive_forecast_looks_past_a_gap() -> None:
    week = np.arange(1.0, WEEK + 1)
    row = np.tile(week, 3)
    row[-30:-10] = np.nan
    np.testing.assert_array_equal(seasonal_naive(row[None, :], WEEK)[0], week)


def test_holt_winters_is_the_recursion() -> None:
    """Against a plain loop of the textbook's equations, one set of constants, a gap in it."""
    rng = np.random.default_rng(2)
    y = 50 + np.tile(rng.uniform(0, 20, WEEK), 5) + rng.standard_normal(5 * WEEK)
    y[400:420] = np.nan
    alpha, beta, gamma, damping = GRID[:, 7]
    start = 2 * WEEK
    level, trend = float(np.nanmean(y[:start])), 0.0
    season = [float(np.nanmean(y[:start][k::WEEK])) - level for k in range(WEEK)]
    for t, seen in enumerate(y):
        before = level + damping * trend
        if np.isnan(seen):
            level, trend = before, damping * trend
            continue
        old, level = level, alpha * (seen - season[t % WEEK]) + (1 - alpha) * before
        trend = beta * (level - old) + (1 - beta) * damping * trend
        season[t % WEEK] = gamma * (seen - level) + (1 - gamma) * season[t % WEEK]
    expected = [
        level + trend * sum(damping**k for k in range(1, h + 1)) + season[(len(y) + h - 1) % WEEK]
        for h in (1, 100, 400)
    ]
    said = HoltWinters(y[None, :], GRID[:, 7:8]).ahead(len(y), 400)[0]
    assert [said[0], said[99], said[399]] == pytest.approx(expected, rel=1e-9)


def test_a_damped_trend_is_followed_and_chosen() -> None:
    """The trend halves every 13 weeks or so and goes on, which the last week alone cannot know."""
    weeks = 40
    t = np.arange((weeks + 4) * WEEK)
    y = 1000 + 1000 * (1 - 0.95 ** (t / WEEK)) + 500 * np.tile(SHAPE[:WEEK], weeks + 4)
    (found,) = forecasts(y[None, : weeks * WEEK], 4 * WEEK)
    assert found.method == SMOOTHED
    assert found.error_frac is not None
    assert found.other_error_frac is not None
    assert found.error_frac < found.other_error_frac
    actual = y[weeks * WEEK :]
    naive = seasonal_naive(y[None, : weeks * WEEK], 4 * WEEK)[0]
    assert np.abs(found.requests - actual).mean() < 0.5 * np.abs(naive - actual).mean()


def test_a_repeated_week_with_a_jump_prefers_the_naive() -> None:
    week = np.random.default_rng(3).uniform(50, 100, WEEK)
    y = np.concatenate([np.tile(week, 5), np.tile(3 * week[::-1], 7)])
    (found,) = forecasts(y[None, :], WEEK)
    assert found.method == NAIVE
    np.testing.assert_allclose(found.requests, 3 * week[::-1])


def test_p10_and_p90_surround_the_forecast_and_cover_what_comes() -> None:
    rng = np.random.default_rng(4)
    weekly = np.exp(0.15 * rng.standard_normal(51)).repeat(WEEK)
    y = 1000 * np.tile(SHAPE[:WEEK], 51) * weekly
    inside = 0
    for start in range(30, 50, 2):
        (found,) = forecasts(y[None, : start * WEEK], WEEK)
        assert found.low_ratio is not None
        assert found.high_ratio is not None
        assert found.low_ratio <= 1 <= found.high_ratio
        came = y[start * WEEK : (start + 1) * WEEK].sum() / found.requests.sum()
        inside += found.low_ratio <= came <= found.high_ratio
    assert 6 <= inside <= 10


@pytest.mark.parametrize("growth", [-0.2, 0.25, 0.8])
def test_growth_goes_on_and_is_not_damped_away(growth: float) -> None:
    """A quarter that grew by so much, seen by the hour: the next one goes on along the same line."""
    rng, weeks = np.random.default_rng(11), 13
    level = 1 + growth * np.arange(2 * weeks * WEEK) / (weeks * WEEK)
    y = 1000 * level * np.tile(SHAPE[:WEEK] + 2, 2 * weeks) * np.exp(0.05 * rng.standard_normal(2 * weeks * WEEK))
    (found,) = forecasts(y[None, : weeks * WEEK])
    assert found.method == TREND
    assert found.requests.sum() == pytest.approx(y[weeks * WEEK :].sum(), rel=0.03)
    assert found.error_frac is not None
    assert found.other_error_frac is not None
    assert found.error_frac < found.other_error_frac


def test_a_few_weeks_have_no_trend() -> None:
    rng = np.random.default_rng(12)
    for weeks in range(2, 8):
        y = 1000 * np.tile(SHAPE[:WEEK] + 2, weeks) * np.linspace(1, 2, weeks * WEEK)
        (found,) = forecasts((y * np.exp(0.05 * rng.standard_normal(len(y))))[None, :])
        assert found.method != TREND


def test_p10_and_p90_of_a_quarter_lie_on_both_sides_and_cover_four_fifths() -> None:
    rng, inside, tries = np.random.default_rng(13), 0, 24
    for _ in range(tries):
        weeks, growth = int(rng.choice([10, 13, 20])), rng.uniform(-0.2, 0.6)
        hours = (weeks + 13) * WEEK
        level = 1 + growth * np.arange(hours) / (13 * WEEK)
        noise = np.repeat(np.exp(0.03 * rng.standard_normal(weeks + 13)), WEEK) * np.exp(
            0.05 * rng.standard_normal(hours)
        )
        y = 1000 * level * np.tile(SHAPE[:WEEK] + 2, weeks + 13) * noise
        (found,) = forecasts(y[None, : weeks * WEEK])
        assert found.low_ratio is not None
        assert found.high_ratio is not None
        assert found.low_ratio < 1 < found.high_ratio
        inside += found.low_ratio <= y[weeks * WEEK :].sum() / found.requests.sum() <= found.high_ratio
    assert 0.65 * tries <= inside <= tries


def test_a_year_of_twenty_workloads_is_cleaned_and_forecast() -> None:
    rows = np.array([noisy(k) * (1 + 0.3 * (k % 3) * HOURS / len(HOURS)) for k in range(20)])
    rows[3, :3000], rows[4, 5000:5060], rows[5, 6000:6012] = np.nan, np.nan, 0
    log = log_of(**{f"w{k:02d}": row for k, row in enumerate(rows)})
    clean = cleaned(log)
    found = forecasts(clean.requests)
    assert {(f.workload, f.kind) for f in clean.findings} == {("w03", "launch"), ("w04", "gap"), ("w05", "outage")}
    for row, told in zip(rows, found, strict=True):
        assert told.error_frac is not None
        assert told.error_frac < 0.09
        assert 0.9 < told.requests.mean() / np.nanmean(row[-4 * WEEK :]) < 1.15
