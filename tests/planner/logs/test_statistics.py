"""Statistics of logs against naive ones: percentiles, buckets, swings, bursts, growth, and odd hours."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.logs.lengths import quantiles
from planner.logs.measure import Measured, MeasureOptions, Workload, measure_logs

pytest.importorskip("ibis", reason="demand needs ibis and duckdb: pip install fleetplan[logs]")

START = datetime(2026, 3, 2, tzinfo=UTC)
"""a Monday"""


def measured(times_s: np.ndarray, path: Path, seed: int = 0, resolution: float = 1e-6) -> Measured:
    """Measure a log of requests at these seconds after START."""
    rng = np.random.default_rng(seed)
    n = len(times_s)
    prompts = rng.lognormal(6, 1, n).astype(int) + 1
    outputs = (prompts**0.5 * rng.lognormal(1, 0.5, n)).astype(int) + 1
    stamps = START.timestamp() + np.round(np.sort(times_s) / resolution) * resolution
    rows = [f"{t:.6f},{p},{o}" for t, p, o in zip(stamps.tolist(), prompts.tolist(), outputs.tolist(), strict=True)]
    path.write_text("time,input_tokens,output_tokens\n" + "\n".join(rows) + "\n")
    return measure_logs(MeasureOptions((str(path),)))


def one(found: Measured) -> Workload:
    (w,) = found.workloads
    return w


def poisson(rate_per_hour: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    counts = rng.poisson(rate_per_hour)
    return np.concatenate([h * 3600 + rng.random(n) * 3600 for h, n in enumerate(counts.tolist())])


@given(st.lists(st.integers(1, 50), min_size=1, max_size=60), st.sampled_from((0.0, 0.1, 0.5, 0.95, 0.999, 1.0)))
@settings(max_examples=100, deadline=None)
def test_percentiles_are_those_of_numpy(lengths: list[int], share: float) -> None:
    counts = sorted(Counter(lengths).items())
    values, times = np.array([v for v, _ in counts]), np.array([n for _, n in counts])
    assert quantiles(values, times, [share])[0] == pytest.approx(np.quantile(lengths, share))


def test_buckets_are_cut_at_contexts(tmp_path: Path) -> None:
    """The mean of the longest hundredth fits a context that a fifth of them exceed."""
    rng, path, n = np.random.default_rng(4), tmp_path / "log.csv", 6000
    prompts, outputs = (rng.lognormal(mean, 0.75, n).astype(int) + 1 for mean in (9.8, 5.5))
    times = START.timestamp() + np.sort(rng.random(n)) * 7200
    rows = (f"{t:.3f},{p},{o}" for t, p, o in zip(times.tolist(), prompts.tolist(), outputs.tolist(), strict=True))
    path.write_text("time,input_tokens,output_tokens\n" + "\n".join(rows) + "\n")
    lengths = one(measure_logs(MeasureOptions((str(path),)))).traffic.lengths
    assert lengths is not None and hasattr(lengths, "buckets")
    assert sum(b.requests * b.input_tokens for b in lengths.buckets) == pytest.approx(prompts.sum())
    for context in (32_768, 40_960):
        longer = sum(b.requests for b in lengths.buckets if b.input_tokens + b.output_tokens > context)
        truth = int((prompts + outputs > context).sum())
        assert truth - 40 <= longer <= truth, "but for a few that stay with shorter ones"
    assert len(lengths.buckets) <= 64, "as many as a demand file may have"


def test_buckets_keep_counts_and_means_and_are_cut_at_percentiles(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    path = tmp_path / "log.csv"
    lengths = one(measured(rng.random(3000) * 7200, path)).traffic.lengths
    rows = [tuple(map(int, line.split(",")[1:])) for line in path.read_text().splitlines()[1:]]
    prompts, outputs = np.array([r[0] for r in rows]), np.array([r[1] for r in rows])
    assert lengths is not None and hasattr(lengths, "buckets")
    cuts = [np.floor(np.quantile(prompts, [0.25, 0.5, 0.75, 0.9, 0.95, 0.99])),
            np.floor(np.quantile(outputs, [0.5, 0.8, 0.95]))]  # fmt: skip
    cells = Counter(zip(np.searchsorted(cuts[0], prompts), np.searchsorted(cuts[1], outputs), strict=True))
    assert sorted(b.requests for b in lengths.buckets) == sorted(cells.values())
    total = sum(b.requests for b in lengths.buckets)
    assert sum(b.requests * b.input_tokens for b in lengths.buckets) / total == pytest.approx(prompts.mean())
    assert sum(b.requests * b.output_tokens for b in lengths.buckets) / total == pytest.approx(outputs.mean())
    assert lengths.prompt.percentiles[0.999] == pytest.approx(np.quantile(prompts, 0.999))


def naive_burstiness(times_s: np.ndarray) -> float:
    """Gaps within a minute with ten of them or more, over that minute's mean gap."""
    by_minute: dict[int, list[float]] = {}
    for before, at in zip(times_s[:-1].tolist(), times_s[1:].tolist(), strict=True):
        if at // 60 == before // 60:
            by_minute.setdefault(int(at // 60), []).append(at - before)
    squares, count = 0.0, 0
    for gaps in by_minute.values():
        n = len(gaps)
        if n >= 10:
            squares += sum((g / np.mean(gaps)) ** 2 for g in gaps) * (n + 1) / n
            count += n
    return squares / count - 1


@pytest.mark.parametrize("shape", [1.0, 0.25])
def test_burstiness_is_the_naive_one_and_that_of_the_process(shape: float, tmp_path: Path) -> None:
    rng = np.random.default_rng(5)
    times = np.cumsum(rng.gamma(shape, 1 / shape / 5, 20_000))
    found = one(measured(times, tmp_path / "log.csv")).bursts
    assert found.window_s == 60
    assert found.scv == pytest.approx(naive_burstiness(np.round(times, 6)), rel=1e-4)
    assert found.scv == pytest.approx(1 / shape, rel=0.12)


def test_poisson_requests_that_are_few_have_a_burstiness_of_one(tmp_path: Path) -> None:
    rng = np.random.default_rng(6)
    found = one(measured(rng.random(4000) * 7 * 86_400, tmp_path / "log.csv")).bursts
    assert found.window_s > 60
    assert found.scv == pytest.approx(1.0, abs=0.1)


def test_a_clock_that_ticks_too_coarsely_tells_no_burstiness(tmp_path: Path) -> None:
    rng = np.random.default_rng(7)
    found = one(measured(rng.random(9000) * 3000, tmp_path / "log.csv", resolution=3.0)).bursts
    assert found.scv is None
    assert "a resolution of 3 s" in found.why_not


def test_swings_leave_poisson_noise_out(tmp_path: Path) -> None:
    rng = np.random.default_rng(8)
    minutes = np.arange(2 * 1440)
    still = np.concatenate([m * 60 + rng.random(n) * 60 for m, n in enumerate(rng.poisson(40, len(minutes)).tolist())])
    rates = 40 * rng.gamma(1 / 0.3**2, 0.3**2, len(minutes))
    moving = np.concatenate([m * 60 + rng.random(n) * 60 for m, n in enumerate(rng.poisson(rates).tolist())])
    assert one(measured(still, tmp_path / "still.csv")).swings.within_cv == pytest.approx(0, abs=0.04)
    assert one(measured(moving, tmp_path / "moving.csv")).swings.within_cv == pytest.approx(0.3, abs=0.03)


def test_days_that_differ_show_as_swings_from_day_to_day(tmp_path: Path) -> None:
    rng = np.random.default_rng(9)
    days = rng.normal(1, 0.2, 20)
    found = one(measured(poisson(np.repeat(60 * days, 24), rng), tmp_path / "log.csv"))
    kinds = np.arange(20) % 7 >= 5
    expected = np.sqrt(np.average([days[kinds].var(ddof=1), days[~kinds].var(ddof=1)], weights=[kinds.sum() - 1, 13]))
    assert found.swings.daily_cv == pytest.approx(expected, rel=0.15)


@pytest.mark.parametrize(("growth", "weeks"), [(0.10, 8), (0.0, 8), (0.10, 2)])
def test_growth_is_measured_over_weeks_or_not_at_all(growth: float, weeks: int, tmp_path: Path) -> None:
    rng = np.random.default_rng(10)
    hours = np.arange(weeks * 168)
    rate = 40 * (1 + growth) ** (hours / 730) * (1.5 + np.sin(hours / 24 * 2 * np.pi))
    found = one(measured(poisson(rate, rng), tmp_path / "log.csv"))
    if weeks < 4:
        assert found.growth.per_month is None
    else:
        assert found.growth.per_month == pytest.approx(growth, abs=0.03)


def test_outages_and_spikes_are_no_demand(tmp_path: Path) -> None:
    rng = np.random.default_rng(11)
    rate = np.tile(50 * (1.5 + np.sin(np.arange(168) / 24 * 2 * np.pi)), 4)
    usual = rate[:24].copy()
    rate[200:206], rate[400:402] = 0.0, 2000.0
    found = one(measured(poisson(rate, rng), tmp_path / "log.csv"))
    assert {kind: int(flags.sum()) for kind, flags in found.hours.odd.items()} == {"outage": 6, "outlier": 2}
    assert np.array(found.rates.weekday) == pytest.approx(usual, rel=0.25)


def test_hours_of_half_an_hour_zones_and_summer_time(tmp_path: Path) -> None:
    """At 6:30 to 7:30 UTC it is noon to 13h in India; clocks in Berlin went forward on 2026-03-29."""
    path = tmp_path / "log.csv"
    rows = ["time,input_tokens,output_tokens"]
    for day in range(42):
        for k in range(60):
            noon = START + timedelta(days=day, hours=6, minutes=30, seconds=60 * k)
            rows.append(f"{noon.isoformat()},100,10")
        rows.append(f"{(START + timedelta(days=day, hours=23, minutes=59)).isoformat()},100,10")
    path.write_text("\n".join(rows))
    india = one(measure_logs(MeasureOptions((str(path),), zone="Asia/Kolkata"))).rates.weekday
    assert int(np.argmax(india)) == 12 and india[12] == pytest.approx(60, rel=0.05)
    berlin = one(measure_logs(MeasureOptions((str(path),), zone="Europe/Berlin"))).rates.weekday
    assert berlin[8] > 0 and berlin[7] + berlin[8] + berlin[9] == pytest.approx(60, rel=0.05)


def test_nights_without_requests_are_no_bursts(tmp_path: Path) -> None:
    rng = np.random.default_rng(12)
    hour = np.arange(28 * 24) % 24
    found = one(measured(poisson(np.where((hour >= 9) & (hour < 17), 60.0, 0.0), rng), tmp_path / "log.csv"))
    assert found.bursts.scv == pytest.approx(1.0, abs=0.1)


def test_bursts_do_not_count_again_as_swings(tmp_path: Path) -> None:
    """A steady process of gamma gaps with a squared CV of 4: counts vary by twice the noise of Poisson."""
    rng = np.random.default_rng(13)
    found = one(measured(np.cumsum(rng.gamma(0.25, 4.0, 120_000)), tmp_path / "log.csv"))
    assert found.bursts.scv == pytest.approx(4.0, rel=0.12)
    assert found.swings.within_cv is not None and found.swings.within_cv < 0.08


@pytest.mark.parametrize("shift_week", [3, 4, 6])
def test_a_level_shift_is_no_growth(shift_week: int, tmp_path: Path) -> None:
    rng = np.random.default_rng(14)
    rate = np.where(np.arange(8 * 168) < shift_week * 168, 15.0, 60.0)
    found = one(measured(poisson(rate, rng), tmp_path / "log.csv"))
    assert found.growth.per_month == 0.0
    assert f"level shift about {(START + timedelta(weeks=shift_week)).date()}" in found.growth.basis
    assert np.mean(found.rates.weekday) == pytest.approx(60, rel=0.03)
    assert found.swings.daily_cv is None or found.swings.daily_cv < 0.06


def test_a_trend_that_has_ended_is_no_growth(tmp_path: Path) -> None:
    rng = np.random.default_rng(15)
    week = np.arange(8 * 168) / 168
    found = one(measured(poisson(20 * 1.3 ** np.minimum(week, 4), rng), tmp_path / "log.csv"))
    assert found.growth.per_month == 0.0
    assert np.mean(found.rates.weekday) == pytest.approx(20 * 1.3**4, rel=0.03)


def test_rates_that_grow_are_those_of_the_end_of_the_log(tmp_path: Path) -> None:
    rng = np.random.default_rng(16)
    hours = np.arange(6 * 168)
    found = one(measured(poisson(30 * 2 ** (hours / 730), rng), tmp_path / "log.csv"))
    assert found.growth.per_month == pytest.approx(1.0, abs=0.08)
    for rates in (found.rates.weekday, found.rates.weekend):
        assert np.mean(rates) == pytest.approx(30 * 2 ** (len(hours) / 730), rel=0.03)
    assert found.swings.daily_cv is not None and found.swings.daily_cv < 0.06


def test_growth_of_office_hours_is_measured_although_weekends_are_almost_empty(tmp_path: Path) -> None:
    rng = np.random.default_rng(17)
    hours = np.arange(6 * 168)
    office = (hours % 24 >= 9) & (hours % 24 < 17) & (hours // 24 % 7 < 5)
    found = one(measured(poisson(np.where(office, 100 * 1.2 ** (hours / 730), 0.05), rng), tmp_path / "log.csv"))
    assert found.growth.per_month == pytest.approx(0.2, abs=0.05)
    assert found.rates.weekday[12] == pytest.approx(100 * 1.2 ** (len(hours) / 730), rel=0.05)


def test_the_hour_that_clocks_leave_out_in_spring_is_no_gap(tmp_path: Path) -> None:
    rng = np.random.default_rng(18)
    path = tmp_path / "log.csv"
    measured(poisson(np.full(35 * 24, 20.0), rng), path)
    found = one(measure_logs(MeasureOptions((str(path),), zone="Europe/Berlin")))
    assert "gap" not in found.hours.odd
