"""Spark in local mode gives the same demand file as DuckDB. It needs Java and pyspark, which .ci/run installs apart."""

from __future__ import annotations

import os
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("ibis", reason="demand needs ibis and duckdb: pip install fleetplan[logs]")
pytest.importorskip("pyspark", reason="Spark needs pyspark: pip install fleetplan[spark]")
if shutil.which("java") is None and not os.environ.get("JAVA_HOME"):
    pytest.skip("Spark needs Java 17: openjdk-17-jre-headless", allow_module_level=True)

from planner.case.demand.from_logs import demand_text
from planner.logs.measure import MeasureOptions, measure_logs
from planner.logs.reading.ledger import IN_TWO_FILES

ROWS = 200_000


def test_the_demand_file_is_the_same(tmp_path: Path) -> None:
    """200 thousand requests of two teams in 40 days, some of them twice, and 500 without ids in both files."""
    rng = np.random.default_rng(4)
    times = 1_788_739_200 + np.sort(rng.random(ROWS)) * 40 * 86_400
    prompts, outputs = rng.lognormal(7, 1, ROWS).astype(int) + 1, rng.lognormal(5, 1, ROWS).astype(int) + 1
    cached = np.where(rng.random(ROWS) < 0.3, prompts // 3, 0)
    teams = np.where(rng.random(ROWS) < 0.3, "search", "support")
    ids = np.arange(ROWS) - (rng.random(ROWS) < 0.002)
    header = "time,input_tokens,output_tokens,cached_tokens,team,request_id\n"
    columns = [values.tolist() for values in (times, prompts, outputs, cached, teams, ids)]
    rows = [f"{t:.6f},{p},{o},{c},{team},r{k}\n" for t, p, o, c, team, k in zip(*columns, strict=True)]
    half, both = ROWS // 2, [row.rpartition(",r")[0] + ",\n" for row in rows[ROWS // 2 : ROWS // 2 + 500]]
    (tmp_path / "a.csv").write_text(header + "".join(rows[:half] + both))
    (tmp_path / "b.csv").write_text(header + "".join(both + rows[half + 500 :]))
    options = MeasureOptions((str(tmp_path),), by="team")
    duckdb = measure_logs(options)
    assert duckdb.ledger.left_out["duplicate ids: the last one counts"] > 100
    assert duckdb.ledger.left_out[IN_TWO_FILES] == 500
    spark = measure_logs(replace(options, engine="spark"))
    assert demand_text(spark, "x") == demand_text(duckdb, "x")
