"""`fleetplan demand` on every format: what was put into a log comes out of the demand file."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from planner.case.case import Case, Workload
from planner.case.demand.load import load_case
from tests.support import log_samples
from tests.support.command_line import Command
from tests.support.log_samples import MODELS, Sample, requests
from tests.support.rows import for_each

pytest.importorskip("ibis", reason="demand needs ibis and duckdb: pip install fleetplan[logs]")

SAMPLES = requests()
JOINT: dict[str, Callable[[list[Sample], Path], Path]] = {
    "litellm": log_samples.litellm,
    "otel": log_samples.otel,
    "langfuse csv": log_samples.langfuse_csv,
    "langfuse json": log_samples.langfuse_json,
    "azure": log_samples.azure,
    "mooncake": log_samples.mooncake,
    "jsonl": log_samples.jsonl,
    "parquet": log_samples.parquet,
}
SUMS: dict[str, Callable[[list[Sample], Path], Path]] = {
    "openai": log_samples.openai_pages,
    "counts": log_samples.counts_csv,
    "prometheus": log_samples.prometheus,
}
OWN = ("--columns", "time=ts_ms,prompt=in,output=out,team=who")


def demand(fleetplan: Command, source: Path, *options: str) -> Case:
    target = source.parent / "demand.yaml"
    ran = fleetplan("demand", str(source), "--out", str(target), *options)
    assert ran.code == 0, ran.err
    return load_case(target)


def hourly_counts(samples: list[Sample]) -> tuple[np.ndarray, np.ndarray]:
    """Requests per hour of a weekday and of a weekend day, of a week."""
    days = np.zeros((7, 24))
    for s in samples:
        days[s.time.weekday(), s.time.hour] += 1
    return days[:5].mean(axis=0), days[5:].mean(axis=0)


def means(w: Workload) -> tuple[float, float]:
    return (
        sum(b.share_frac * b.input_tokens for b in w.buckets),
        sum(b.share_frac * b.output_tokens for b in w.buckets),
    )


def check_rates(w: Workload, samples: list[Sample]) -> None:
    weekday, weekend = hourly_counts(samples)
    assert np.array(w.weekday_rps) * 3600 == pytest.approx(weekday, rel=0.01, abs=1e-3)
    assert np.array(w.weekend_rps) * 3600 == pytest.approx(weekend, rel=0.01, abs=1e-3)


@for_each("name", JOINT)
def test_rates_and_means_of_a_request_log_are_recovered(name: str, fleetplan: Command, tmp_path: Path) -> None:
    case = demand(fleetplan, JOINT[name](SAMPLES, tmp_path), *(OWN if name == "jsonl" else ()))
    (w,) = case.workloads
    check_rates(w, SAMPLES)
    assert means(w) == pytest.approx(
        (np.mean([s.prompt for s in SAMPLES]), np.mean([s.output for s in SAMPLES])), rel=0.001
    )


@pytest.mark.parametrize("name", SUMS)
def test_rates_and_means_of_counts_are_recovered(name: str, fleetplan: Command, tmp_path: Path) -> None:
    case = demand(fleetplan, SUMS[name](SAMPLES, tmp_path))
    (w,) = case.workloads
    if name != "prometheus":  # which does not say when within five minutes
        check_rates(w, SAMPLES)
    assert sum(w.weekday_rps) == pytest.approx(hourly_counts(SAMPLES)[0].sum() / 3600, rel=0.01)
    assert means(w) == pytest.approx(
        (np.mean([s.prompt for s in SAMPLES]), np.mean([s.output for s in SAMPLES])), rel=0.01
    )


@for_each("name", ["litellm", "otel", "langfuse csv", "openai", "prometheus", "parquet"])
def test_a_log_is_split_by_model(name: str, fleetplan: Command, tmp_path: Path) -> None:
    case = demand(fleetplan, (JOINT | SUMS)[name](SAMPLES, tmp_path), "--by", "model")
    models = {w.models[0].model: w for w in case.workloads}
    assert set(models) == {"qwen3-32b", "llama-3.3-70b"}
    for key, model in (("qwen3-32b", MODELS[0]), ("llama-3.3-70b", MODELS[1])):
        of = [s for s in SAMPLES if s.model == model]
        per_week = 3600 * (5 * sum(models[key].weekday_rps) + 2 * sum(models[key].weekend_rps))
        assert per_week == pytest.approx(len(of), rel=0.01)
        assert means(models[key])[0] == pytest.approx(np.mean([s.prompt for s in of]), rel=0.01)


@pytest.mark.parametrize("name", ["langfuse csv", "langfuse json"])
def test_a_short_log_is_split_by_model_too(name: str, fleetplan: Command, tmp_path: Path) -> None:
    """None of three models has 50 requests, and each is a workload; what has hardly any is put together."""
    models = [*MODELS, "gpt-5-mini"]
    few = [replace(s, model=models[k % 3]) for k, s in enumerate(SAMPLES[:90])]
    rare = [replace(s, model=f"rare-{k}", id=f"rare-{k}") for k, s in enumerate(SAMPLES[90:92])]
    for samples, others in ((few, []), ([*few, *rare], ["other"])):
        out = tmp_path / f"demand-{len(others)}.yaml"
        ran = fleetplan("demand", str((JOINT | SUMS)[name](samples, tmp_path)), "--by", "model", "--out", str(out))
        assert ran.code == 0, ran.err
        assert sorted(re.findall(r'- name: "?([^"\n]+)', out.read_text())) == sorted([*models, *others])
        assert ("2 values of --by with few requests are put together as 'other'" in ran.err) == bool(others)


@for_each(("name", "by"), [("litellm", "team"), ("litellm", "route"), ("otel", "team"), ("jsonl", "team")])
def test_a_log_is_split_by_team_and_route(name: str, by: str, fleetplan: Command, tmp_path: Path) -> None:
    case = demand(fleetplan, JOINT[name](SAMPLES, tmp_path), "--by", by, *(OWN if name == "jsonl" else ()))
    assert [w.name.removeprefix("route:") for w in case.workloads] == ["search", "support"]


@pytest.mark.parametrize("name", ["litellm", "openai", "prometheus"])
def test_a_log_of_several_models_that_is_not_split_says_so(name: str, fleetplan: Command, tmp_path: Path) -> None:
    out = tmp_path / "d.yaml"
    assert fleetplan("demand", str((JOINT | SUMS)[name](SAMPLES, tmp_path)), "--out", str(out)).code == 0
    assert "the log mixes" in out.read_text()
    assert "--by model splits it" in out.read_text()


def test_what_is_no_request_of_a_model_is_counted_and_left_out(fleetplan: Command, tmp_path: Path) -> None:
    ran = fleetplan("demand", str(log_samples.litellm(SAMPLES, tmp_path)), "--format", "json")
    assert ran.code == 0
    figures = json.loads(ran.out)
    assert figures["left_out"] == {
        "failed": 1,
        "answered from the gateway's cache": 1,
        "no generation (embedding or the like)": 1,
        "duplicate ids: the last one counts": 1,
    }
    (w,) = figures["workloads"]
    assert w["requests"] == len(SAMPLES)
    assert w["prompt_tokens"] == sum(s.prompt for s in SAMPLES)
    assert w["output_tokens"] == sum(s.output for s in SAMPLES)
    assert w["cached_tokens"] == sum(s.cached for s in SAMPLES)


def test_totals_of_counters_count_restarts(fleetplan: Command, tmp_path: Path) -> None:
    ran = fleetplan("demand", str(log_samples.prometheus(SAMPLES, tmp_path)), "--format", "json")
    (w,) = json.loads(ran.out)["workloads"]
    assert w["requests"] == len(SAMPLES)
    assert w["prompt_tokens"] == sum(s.prompt for s in SAMPLES)
    assert w["cached_tokens"] == sum(s.cached for s in SAMPLES)
    assert "1 restart of a replica" in ran.err


def test_counts_of_one_time_add_up_unless_they_are_the_same_row(fleetplan: Command, tmp_path: Path) -> None:
    hours = [f"2026-09-{7 + h // 24:02d}T{h % 24:02d}:00:00Z" for h in range(72)]
    rows = [f"{hour},{team},60,600,60" for hour in hours for team in ("a", "b")]
    path = tmp_path / "usage.csv"
    path.write_text("\n".join(["time,team,requests,input_tokens,output_tokens", *rows, rows[0]]))
    ran = fleetplan("demand", str(path), "--format", "json")
    assert ran.code == 0
    found = json.loads(ran.out)
    assert found["left_out"] == {"duplicate rows": 1}
    assert found["workloads"][0]["requests"] == 2 * 72 * 60
    assert found["workloads"][0]["weekday_requests_per_hour"] == pytest.approx([120.0] * 24)


def test_cached_tokens_become_a_prefix(fleetplan: Command, tmp_path: Path) -> None:
    (w,) = demand(fleetplan, log_samples.litellm(SAMPLES, tmp_path)).workloads
    some = [s.cached for s in SAMPLES if s.cached]
    assert w.shared_prefix_tokens == pytest.approx(np.mean(some), abs=0.5)
    assert cached_share(w) == pytest.approx(sum(some) / sum(s.prompt for s in SAMPLES), abs=0.001)


def cached_share(w: Workload) -> float:
    """The share of prompt tokens that the planner takes to be cached."""
    tokens = sum(b.share_frac * b.input_tokens for b in w.buckets)
    return sum(b.share_frac * w.cached_tokens(b.input_tokens) for b in w.buckets) / tokens


@for_each("share", [0.05, 0.5, 0.9, 1.0])
def test_the_planner_counts_the_share_that_was_cached(share: float, fleetplan: Command, tmp_path: Path) -> None:
    rng = np.random.default_rng(4)
    prompts = rng.lognormal(6, 1.2, 4000).astype(int) + 1
    cached = np.where(rng.random(4000) < 0.8, np.minimum(prompts, prompts * share * rng.gamma(9, 1 / 9, 4000)), 0)
    one_by_one, totals = tmp_path / "requests.csv", tmp_path / "totals.csv"
    rows = [f"{1_780_000_000 + 40 * k},{n},10,{c:.0f}" for k, (n, c) in enumerate(zip(prompts, cached, strict=True))]
    one_by_one.write_text("\n".join(["time,input_tokens,output_tokens,cached_tokens", *rows]))
    sums = [f"{1_780_272_000 + 3600 * k},1000,800000,9000,{800_000 * share:.0f}" for k in range(72)]
    totals.write_text("\n".join(["time,requests,input_tokens,output_tokens,cached_tokens", *sums]))
    (w,) = demand(fleetplan, one_by_one).workloads
    assert cached_share(w) == pytest.approx(cached.round().sum() / prompts.sum(), abs=0.002)
    (w,) = demand(fleetplan, totals).workloads
    assert cached_share(w) == pytest.approx(share, abs=0.002)


def test_hours_are_those_of_the_time_zone(fleetplan: Command, tmp_path: Path) -> None:
    source = log_samples.azure(SAMPLES, tmp_path)
    (utc,) = demand(fleetplan, source).workloads
    (local,) = demand(fleetplan, source, "--time-zone", "Asia/Tokyo").workloads
    busiest = int(np.argmax(utc.weekday_rps))
    assert local.weekday_rps[(busiest + 9) % 24] == pytest.approx(utc.weekday_rps[busiest], rel=0.35)


def test_holidays_count_as_weekend_days(fleetplan: Command, tmp_path: Path) -> None:
    source = log_samples.azure(SAMPLES, tmp_path)
    (w,) = demand(fleetplan, source, "--holidays", "2026-09-07").workloads
    rest = [s for s in SAMPLES if 1 <= s.time.weekday() <= 4]
    assert sum(w.weekday_rps) * 3600 == pytest.approx(len(rest) / 4, rel=0.01)


def test_several_files_and_folders_are_one_log(fleetplan: Command, tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    log_samples.azure(SAMPLES[:500], tmp_path / "a")
    log_samples.azure(SAMPLES[500:], tmp_path / "b")
    target = tmp_path / "demand.yaml"
    for sources in ([str(tmp_path)], [str(tmp_path / "*" / "*.csv")], [str(tmp_path / "a"), str(tmp_path / "b")]):
        assert fleetplan("demand", *sources, "--out", str(target)).code == 0
        check_rates(load_case(target).workloads[0], SAMPLES)


def test_a_demand_file_from_a_log_plans_as_it_is(fleetplan: Command, tmp_path: Path) -> None:
    source = log_samples.litellm(SAMPLES, tmp_path)
    target = tmp_path / "demand.yaml"
    assert fleetplan("demand", str(source), "--by", "model", "--out", str(target)).code == 0
    text = target.read_text()
    assert text.count("DECIDE") >= 4 and "decide:" not in text, "the log names the models, and who sells them is known"
    assert fleetplan("plan", str(target), "--out", str(tmp_path / "plan.json"), "--quiet").code == 0
