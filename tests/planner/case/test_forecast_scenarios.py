"""Scenarios from the forecast of a log: P50 along its trend, P10 and P90 wider from quarter to quarter."""

from __future__ import annotations

import math
from datetime import datetime, timedelta
from pathlib import Path

import numpy as np
import pytest

import planner
from planner.case.case import Case, Future
from planner.io.errors import InputError
from tests.support.rows import for_each

WEEKS = 26
ENDS = datetime(2027, 1, 1)
"""the hour after the last one of the log"""
HEAD = """\
starts: 2027-01-01
horizon: 4 quarters
menu: {gpus: [l40s], quantizations: [fp8]}
baseline: openai/gpt-4o-mini
workloads:
"""
CHAT = "  - {name: chat, models: [llama-3.1-8b], forecast: {csv: log.csv%s}%s}\n"
DOCS = CHAT.replace("chat", "docs")
FROM_LOG = "scenarios: {from: forecast%s}\n"


def write_log(folder: Path, growth: float, noise: float = 0.0, weeks: int = WEEKS, ends: datetime = ENDS) -> None:
    """Two workloads whose weeks grow along a line; the noise is one of whole weeks."""
    rng, hours = np.random.default_rng(5), 168 * weeks
    rows = ["time,workload,requests"]
    for name, level in (("chat", 6000.0), ("docs", 800.0)):
        of_week = np.exp(noise * rng.standard_normal(weeks))
        for h in range(hours):
            time = ends - timedelta(hours=hours - h)
            rate = (
                level * (1 + growth * (h - hours) / hours) * of_week[h // 168] * (1.5 if 8 <= time.hour < 20 else 0.5)
            )
            rows.append(f"{time:%Y-%m-%dT%H:%M:%SZ},{name},{round(rate)}")
    (folder / "log.csv").write_text("\n".join(rows) + "\n", encoding="utf-8")


def case_of(folder: Path, *parts: str) -> Case:
    file = folder / "demand.yaml"
    file.write_text(HEAD + "".join(parts), encoding="utf-8")
    return planner.load_case(file)


def future_of(case: Case) -> Future:
    assert case.future is not None
    return case.future


def factors(case: Case, name: str = "chat") -> list[tuple[float, ...]]:
    return [s.month_factors[name] for s in future_of(case).scenarios]


def test_p50_follows_the_line_of_the_log(tmp_path: Path) -> None:
    """26 weeks that end 26% above their start: 1% of the end's level a week, which goes on."""
    write_log(tmp_path, growth=0.26)
    case = case_of(tmp_path, CHAT % ("", ""), FROM_LOG % "")
    low, middle, high = factors(case)
    w = case.workloads[0]
    per_hour = 3600 * (5 * sum(w.weekday_rps) + 2 * sum(w.weekend_rps)) / 168
    for m in range(12):
        weeks = (m + 0.5) * 365 / 12 / 7
        assert middle[m] * per_hour == pytest.approx(6000 * (1 + 0.01 * weeks), rel=0.005), m
        assert low[m] <= middle[m] <= high[m]
    assert [(s.name, s.probability_frac) for s in future_of(case).scenarios] == [
        ("P10", 0.3), ("P50", 0.4), ("P90", 0.3),
    ]  # fmt: skip


def test_p10_and_p90_widen_by_the_root_of_the_weeks(tmp_path: Path) -> None:
    write_log(tmp_path, growth=0.0, noise=0.08)
    case = case_of(tmp_path, CHAT % ("", ""), FROM_LOG % ", weights: {p10: 25%, p50: 50%, p90: 25%}")
    low, middle, high = factors(case)
    ends = [d / 7 for d in (90, 181, 273, 365)]
    for each in (low, high):
        apart = [math.log(each[3 * q] / middle[3 * q]) for q in range(4)]
        assert abs(apart[0]) > 0.05
        for q in range(4):
            assert apart[q] / apart[0] == pytest.approx(math.sqrt((ends[q] + 1) / (ends[0] + 1)), rel=1e-6)
            for m in (1, 2):
                assert math.log(each[3 * q + m] / middle[3 * q + m]) == pytest.approx(apart[q], rel=1e-6)
    assert [s.probability_frac for s in future_of(case).scenarios] == [0.25, 0.5, 0.25]
    assert "scenarios.weights" not in {a.key for a in case.assumptions}


@pytest.mark.parametrize(("text", "least"), [("", 0.2), (", least_spread: 50%", 0.5)])
def test_a_quiet_log_is_not_sure_of_a_year(tmp_path: Path, text: str, least: float) -> None:
    """Weeks that never differed show no doubt; the floor grows by the root of time, on either side of P50 alike."""
    write_log(tmp_path, growth=0.0)
    case = case_of(tmp_path, CHAT % ("", ""), FROM_LOG % text)
    low, middle, high = factors(case)
    for q, days in enumerate((90, 181, 273, 365)):
        apart = (1 + least) ** math.sqrt(days / 7 / 52)
        assert high[3 * q] / middle[3 * q] == pytest.approx(apart, rel=1e-6)
        assert low[3 * q] / middle[3 * q] == pytest.approx(1 / apart, rel=1e-6)
    (said,) = (a for a in case.assumptions if a.key == "scenarios.least_spread")
    assert said.value == f"{least:.0%} a year ahead" and f"{least:+.0%} after 12 months" in said.why
    assert said.why.startswith("assumed" if not text else "of the file")


def test_without_a_floor_it_is_as_sure_as_the_log(tmp_path: Path) -> None:
    write_log(tmp_path, growth=0.0)
    low, _, high = factors(case_of(tmp_path, CHAT % ("", ""), FROM_LOG % ", least_spread: 0%"))
    assert high[11] / low[11] < 1.05


def test_all_logs_move_together_and_the_rest_stays(tmp_path: Path) -> None:
    write_log(tmp_path, growth=0.0, noise=0.08)
    new = "  - {name: new, models: [llama-3.1-8b], forecast: {requests_per_day: 1k}, from: 2027-04-01}\n"
    step = ", steps: [{from: 2027-07-01, times: 2}]"
    case = case_of(tmp_path, CHAT % ("", ""), DOCS % ("", step), new, FROM_LOG % "")
    plain = case_of(tmp_path, CHAT % ("", ""), DOCS % ("", ""), new, FROM_LOG % "")
    for with_step, without in zip(factors(case, "docs"), factors(plain, "docs"), strict=True):
        assert with_step == pytest.approx([x * (2 if m >= 6 else 1) for m, x in enumerate(without)])
    assert factors(case, "new") == [(0.0,) * 3 + (1.0,) * 9] * 3
    low, _, high = future_of(case).scenarios
    assert all(low.month_factors[name][0] < high.month_factors[name][0] for name in ("chat", "docs"))
    said = [(a.key, a.value, a.why) for a in case.assumptions if a.key.startswith("scenarios")]
    assert any("move together" in why for _, _, why in said)
    assert ("scenarios", "new as given", "no log shows how uncertain they are") in said
    assert ("scenarios.weights", "30% P10 / 40% P50 / 30% P90") in [(key, value) for key, value, _ in said]


@for_each(
    ("text", "log", "message"),
    [
        (CHAT % (", growth_per_month: 3%", "") + FROM_LOG % "", {}, "has its own growth"),
        (CHAT % ("", "") + FROM_LOG % "", {"weeks": 1}, "has 1.0 weeks of known hours, too few"),
        (CHAT % ("", "") + FROM_LOG % "", {"ends": datetime(2027, 1, 9)}, "Write starts: 2027-02-01"),
        (CHAT.replace("csv: log.csv", "requests_per_day: 5k") % ("", "") + FROM_LOG % "", {}, "no workload has"),
        (CHAT % ("", "") + FROM_LOG % ", weights: {p10: 20%}", {}, "add up to 90%"),
        (CHAT % ("", "") + FROM_LOG % ", weights: {p10: 0%, p90: 60%}", {}, "must be above 0%"),
        (CHAT % ("", "") + "scenarios: {from: log}\n", {}, "expected 'forecast', got 'log'"),
    ],
)
def test_mistakes_are_named(tmp_path: Path, text: str, log: dict[str, datetime], message: str) -> None:
    write_log(tmp_path, **({"growth": 0.1, "noise": 0.05} | log))  # type: ignore[arg-type]
    with pytest.raises(InputError) as error:
        case_of(tmp_path, text)
    assert message in str(error.value)
    assert all(d.line is not None for d in error.value.diagnostics)


def test_a_log_that_cannot_be_read_is_the_only_mistake(tmp_path: Path) -> None:
    (tmp_path / "log.csv").write_text("hour,requests\n2026-12-07 00:00,36964\n", encoding="utf-8")
    with pytest.raises(InputError) as refused:
        case_of(tmp_path, CHAT % ("", ""), FROM_LOG % "")
    assert [d.message[:24] for d in refused.value.diagnostics] == ["has no column for time, "]
