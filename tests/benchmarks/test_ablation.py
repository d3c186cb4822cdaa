"""What the ablation leaves out: each device is asked for where it works, and a proof stays one without it."""

from __future__ import annotations

import math
import subprocess
import sys

import pytest

from solvers.devices import DEVICES, WITHOUT, Device, uses
from solvers.search.fleet_solution import Options, Outcome
from solvers.search.fleet_solver import solve_fleet
from tests.oracle.cases import lever_case, truth_of
from tests.oracle.plans import check_plan
from tests.support.places import ROOT
from tests.support.rows import for_each

SEEDS = (0, 3, 7)


def test_every_device_is_asked_for_in_one_place() -> None:
    source = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "solvers").rglob("*.py"))
    assert {device: source.count(f'uses("{device}")') for device in DEVICES} == dict.fromkeys(DEVICES, 1)


def test_devices_are_left_out_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    assert all(uses(device) for device in DEVICES)
    monkeypatch.setenv(WITHOUT, "diving,lazy rows")
    assert [device for device in DEVICES if not uses(device)] == ["diving", "lazy rows"]


@for_each("device", DEVICES)
def test_what_is_proved_without_a_device_is_the_optimum(device: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(WITHOUT, device)
    for seed in SEEDS:
        found, truth = solve_fleet(lever_case(seed).case.fleet, Options(gap_frac=0.0)), truth_of(seed).objective
        assert found.bound_usd_per_month <= truth * (1 + 1e-9)
        if found.best is not None:
            check_plan(lever_case(seed).case, found.best)
            assert found.objective >= truth * (1 - 1e-9)
        if found.outcome is Outcome.OPTIMAL:
            assert found.objective == pytest.approx(truth, rel=1e-6)
        assert found.outcome is not Outcome.INFEASIBLE or truth == math.inf


def test_a_device_that_does_not_exist_is_named_before_anything_is_measured() -> None:
    command = [sys.executable, str(ROOT / "benchmarks" / "ablation.py"), "--only", "divination"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 1
    assert "no such device: divination; there are again, polishing, diving" in done.stderr
