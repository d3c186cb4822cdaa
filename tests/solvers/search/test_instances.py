"""The benchmark over fleet-mix instances, run as a user does, on small files with optima worked out by hand."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.support.places import ROOT
from tests.support.rows import for_each

KEYS = ["name", "cost_usd_per_h", "optimum_usd_per_h", "melange_usd_per_h", "seconds", "melange_seconds"]

Ran = subprocess.CompletedProcess[str]


SCRIPT = ROOT / "benchmarks" / "instances.py"


def run(*args: str | Path) -> Ran:
    return subprocess.run(
        [sys.executable, str(SCRIPT), *map(str, args)],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )


def benchmark() -> ModuleType:
    spec = importlib.util.spec_from_file_location("instances", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["instances"] = module
    spec.loader.exec_module(module)
    return module


def gpu(usd: float, max_rps: list[list[Any]]) -> dict[str, Any]:
    return {"cost_per_hour": usd, "max_rps_in_out": max_rps}


THREE_TYPES = {
    "name": "three-types",
    "weights_in_out": [[0.5, 0.0], [0.25, 0.25]],
    "rate_rps": 8.0,
    "gpus": {
        "small": gpu(1.0, [[4.0, 9.0], [0.0, 0.0]]),
        "middle": gpu(1.5, [[1.0, 9.0], [2.0, None]]),
        "large": gpu(4.0, [[1.0, 9.0], [1.0, 2.0]]),
    },
    "exact": {"cost": 6.5},
    "melange": {"slice1": {"cost": 9.0, "solve_s": 0.5}, "slice4": {"cost": 8.0, "solve_s": 0.25}},
}
"""each length has its own GPU: one small full of the first, one middle full of the third, one large full of the last"""

OVER_ONE = {
    "name": "a-weights-over-one",
    "weights_in_out": [[0.75, 0.5]],
    "rate_rps": 4,
    "gpus": {"a": gpu(2.0, [[2.0, 1.0]]), "b": gpu(7.0, [[3.0, 4.0]])},
    "melange": {},
}
"""3 and 2 requests/s: 3.5 of a cost 8; one b has room for 3 of the first, or 2 of the second and half of the first:
with one a 9, alone two of them 14; so four of a"""


def write(folder: Path, *instances: dict[str, Any]) -> Path:
    for k, instance in enumerate(instances):
        (folder / f"{k}.json").write_text(json.dumps(instance))
    return folder


@pytest.mark.parametrize("solver", ["cbc", "highs"])
def test_costs_are_the_optima_and_answers_are_compared(tmp_path: Path, solver: str) -> None:
    ran = run(write(tmp_path, THREE_TYPES, OVER_ONE), "--solver", solver, "--format", "json")
    assert ran.returncode == 0, ran.stderr
    rows = json.loads(ran.stdout)
    assert [row["name"] for row in rows] == ["a-weights-over-one", "three-types"]
    assert all(list(row) == KEYS for row in rows)
    assert rows[0]["cost_usd_per_h"] == pytest.approx(8.0, rel=1e-6)
    assert rows[1]["cost_usd_per_h"] == pytest.approx(6.5, rel=1e-6)
    assert [row["optimum_usd_per_h"] for row in rows] == [None, 6.5]
    assert [row["melange_usd_per_h"] for row in rows] == [None, 8.0]
    assert [row["melange_seconds"] for row in rows] == [None, 0.25]
    assert all(row["seconds"] > 0 for row in rows)


def test_recorded_answers_have_no_say_in_the_cost(tmp_path: Path) -> None:
    wrong = {**THREE_TYPES, "exact": {"cost": 1.0, "counts": {"small": 1}}, "melange": {"slice4": {"cost": 5.0}}}
    ran = run(write(tmp_path, wrong), "--format", "json")
    row = json.loads(ran.stdout)[0]
    assert row["cost_usd_per_h"] == pytest.approx(6.5, rel=1e-6)
    assert (row["optimum_usd_per_h"], row["melange_usd_per_h"], row["melange_seconds"]) == (1.0, 5.0, None)


def test_the_table_sums_up(tmp_path: Path) -> None:
    off = {**OVER_ONE, "name": "off", "exact": {"cost": 7.9}}
    ran = run(write(tmp_path, THREE_TYPES, OVER_ONE, off))
    assert ran.returncode == 0, ran.stderr
    lines = ran.stdout.splitlines()
    assert len(lines) == 5
    assert lines[1].split()[:4] == ["a-weights-over-one", "8.000", "-", "-"]
    assert lines[-1].startswith("3 instances; 1 of 2 equal the optimum within 0.01%; worst 1.2658% off (off); ")
    assert lines[-1].endswith("18.75% cheaper than Melange on average of 1")


@for_each(
    ("change", "said"),
    [
        ({"weights_in_out": [[0.5, "x"], [0.25, 0.25]]}, "weights_in_out is 'x', not a number of at least 0"),
        ({"weights_in_out": [[0.5, 0.5], [0.25]]}, "weights_in_out has rows of different lengths"),
        ({"weights_in_out": None}, "weights_in_out is not a table of numbers"),
        ({"weights_in_out": [[0, 0], [0, 0]]}, "nothing is asked for"),
        ({"rate_rps": -1}, "rate_rps is -1, not a number of at least 0"),
        ({"rate_rps": float("nan")}, "rate_rps is nan"),
        ({"name": 3}, "name is not a string"),
        ({"gpus": {}}, "gpus is missing or empty"),
        ({"gpus": {"a": gpu(1.0, [[1.0, 1.0]])}}, "gpus.a.max_rps_in_out is 1 x 2, weights_in_out is 2 x 2"),
        ({"gpus": {"a": {"max_rps_in_out": [[1.0, 1.0], [1.0, 1.0]]}}}, "gpus.a.cost_per_hour is None"),
        ({"gpus": {"a": gpu(1.0, [[1.0, 1.0], [1.0, None]])}}, "a bucket with requests that no GPU can serve"),
    ],
)
def test_bad_files_are_told(tmp_path: Path, change: dict[str, Any], said: str) -> None:
    instances = benchmark()
    with pytest.raises(instances.BadFile, match=rf"0\.json: .*{re.escape(said)}"):
        instances.read_folder(write(tmp_path, {**THREE_TYPES, **change}))


def test_all_bad_files_are_told_at_once(tmp_path: Path) -> None:
    write(tmp_path, THREE_TYPES)
    (tmp_path / "broken.json").write_text("{")
    (tmp_path / "list.json").write_text("[1]")
    (tmp_path / "binary.json").write_bytes(b"\xff\xfe")
    ran = run(tmp_path)
    assert_refused(ran, "broken.json: is not JSON")
    assert "list.json: is not a JSON object" in ran.stderr
    assert "binary.json: cannot be read" in ran.stderr
    assert "0.json" not in ran.stderr


def test_bad_folders_are_told(tmp_path: Path) -> None:
    assert_refused(run(tmp_path / "nowhere"), "nowhere: no such folder")
    assert_refused(run(tmp_path), "no .json files")


def assert_refused(ran: Ran, said: str) -> None:
    assert ran.returncode == 2
    assert said in ran.stderr
    assert "Traceback" not in ran.stderr
    assert ran.stdout == ""
