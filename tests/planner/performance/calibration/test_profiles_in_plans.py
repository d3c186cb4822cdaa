"""A user's own measurements come first: profiles in plans, their provenance, and the range of the cost."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import planner
from planner.performance.calibration.calibrate import calibrate
from planner.plan.plan import Plan
from planner.reports.performance import calibration_document
from planner.reports.text import as_text
from tests.support.command_line import Command

DEMAND = """
workloads:
  - name: chat
    models: [llama-3.1-8b]
    forecast: {requests_per_day: 3M}
    tokens: {input: 512, output: 128}
menu: {gpus: [h100], quantizations: [fp16], purchase: [on-demand]}
baseline: openai/gpt-4o
"""
POINTS = """model,gpu,gpus_per_replica,quantization,input_tokens,output_tokens,concurrency,tpot_ms,ttft_ms
llama-3.1-8b,h100,1,fp16,512,128,1,%s,24
llama-3.1-8b,h100,1,fp16,512,128,16,%s,40
llama-3.1-8b,h100,1,fp16,512,128,64,%s,80
"""
RATES = """model,gpu,gpus_per_replica,quantization,input_tokens,output_tokens,requests_per_s
llama-3.1-8b,h100,1,fp16,512,128,%s
"""


def planned(folder: Path, results: str | None) -> Plan:
    text = DEMAND
    if results is not None:
        (folder / "results.csv").write_text(results)
        (folder / "profile.yaml").write_text(calibrate([folder / "results.csv"]).profile_text)
        text += "profiles: [profile.yaml]\n"
    (folder / "demand.yaml").write_text(text)
    return planner.plan_fleet(planner.load_case(folder / "demand.yaml"))


def test_measurements_change_the_plan_and_its_basis(tmp_path: Path) -> None:
    plain, measured, slow = (planned(tmp_path, r) for r in (None, POINTS % (7, 9, 16), POINTS % (14, 18, 32)))
    bases = [p.pools[0].deployments[0].deployment.basis for p in (plain, measured, slow)]
    assert bases == ["calibrated", "measured", "measured"]
    assert slow.cost_usd_per_month > measured.cost_usd_per_month
    assert planner.check_plan(slow.as_json()) == []


def test_a_table_of_rates_is_used_as_it_is(tmp_path: Path) -> None:
    plan = planned(tmp_path, RATES % 12.5)
    deployment = plan.pools[0].deployments[0].deployment
    assert deployment.seconds_per_request == pytest.approx((1 / 12.5,))
    assert deployment.basis == "measured"
    assert deployment.bound_by == "measured table"


def test_lengths_beyond_a_table_are_refused_with_the_reason(tmp_path: Path) -> None:
    (tmp_path / "results.csv").write_text((RATES % 12.5).replace("512,128", "256,128"))
    (tmp_path / "profile.yaml").write_text(calibrate([tmp_path / "results.csv"]).profile_text)
    (tmp_path / "demand.yaml").write_text(DEMAND + "profiles: [profile.yaml]\n")
    plan = planner.plan_fleet(planner.load_case(tmp_path / "demand.yaml"))
    assert any("measured table has no rate" in r.reason for r in plan.rejected)


def test_faster_than_the_datasheet_is_refused_with_the_arithmetic(tmp_path: Path) -> None:
    (tmp_path / "results.csv").write_text(POINTS % (1.5, 2, 3))
    with pytest.raises(planner.InputError, match=r"GB.*TB/s"):
        calibrate([tmp_path / "results.csv"])


def test_calibration_says_what_it_did(tmp_path: Path) -> None:
    (tmp_path / "results.csv").write_text(POINTS % (7, 9, 16))
    done = calibrate([tmp_path / "results.csv"])
    text = as_text(calibration_document(done))
    assert "llama-3.1-8b fp16 on 1 x h100" in text
    assert "held out" in text
    assert "used for rates and TPOT and TTFT" in text
    assert done.as_json()["deployments"][0]["errors"]


def test_runs_that_make_predictions_worse_are_not_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Rates of several deployments under one name; without a TTFT nothing else is left to use."""
    rows = [line.rsplit(",", 1)[0] for line in (POINTS % (6.5, 22, 11)).splitlines()]
    text = "\n".join([*rows, "llama-3.1-8b,h100,1,fp16,512,128,8,7"]) + "\n"
    (tmp_path / "results.csv").write_text(text.replace("512,128", "512.4,128.6"))
    run = Command(monkeypatch, capsys)
    ran = run("calibrate", tmp_path / "results.csv", "--out", tmp_path / "profile.yaml")
    assert ran.code == 2
    assert "left out for rates and TPOT" in ran.err
    assert "measure varied lengths" in ran.err
    assert not (tmp_path / "profile.yaml").exists()


def test_a_missing_profile_is_named(tmp_path: Path) -> None:
    (tmp_path / "demand.yaml").write_text(DEMAND + "profiles: [nowhere.yaml]\n")
    with pytest.raises(planner.InputError, match=r"nowhere\.yaml"):
        planner.load_case(tmp_path / "demand.yaml")


def test_the_cost_range_brackets_the_plan_and_widens_with_the_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.modules[__name__], "DEMAND", DEMAND.replace("3M", "40M"))
    estimated = planned(tmp_path, None)
    r = estimated.if_throughput_is_off
    assert r.low_usd_per_month is not None
    assert r.high_usd_per_month is not None
    assert r.low_usd_per_month < r.mid_usd_per_month < r.high_usd_per_month
    measured = planned(tmp_path, POINTS % (7, 9, 16)).if_throughput_is_off
    assert measured.high_usd_per_month is not None
    assert measured.high_usd_per_month / measured.mid_usd_per_month < r.high_usd_per_month / r.mid_usd_per_month
