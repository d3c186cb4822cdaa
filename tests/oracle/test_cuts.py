"""Programs whose optimal points were cut off: by CBC 2.10.3's knapsack and flow cover cuts, and by HiGHS's presolve.

With a plan to start from, CBC called 11021.84 optimal where 10920.75 can be had with a budget of two months, and
4445.28 where 4401.08 can be had with instances that take time to start. HiGHS 1.10 to 1.15 called 6100 optimal where
4898.63 can be had with a budget, an engineer and a vendor's fixed cost.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from problems.model import Column, Row, build_model
from solvers.backends.result import Status
from solvers.backends.solve import SolverName, solve_mip
from tests.support.rows import for_each

OPTIMA = {"knapsack.json": 10920.749265564, "flow_cover.json": 4401.078419585, "presolve.json": 4898.626062323}


@for_each(("file", "optimum"), OPTIMA.items())
@for_each("solver", ["cbc", "highs"])
@for_each("started", [True, False])
def test_nothing_takes_the_optimum_away(solver: SolverName, started: bool, file: str, optimum: float) -> None:
    data = json.loads(Path(__file__).with_name(file).read_text())
    columns = [Column((k,), *column) for k, column in enumerate(data["columns"])]
    rows = [
        Row((k,), [tuple(term) for term in terms], sense, rhs) for k, (terms, sense, rhs) in enumerate(data["rows"])
    ]
    model = build_model(columns, rows)
    start = np.array(data["start"]) if started else None
    solution = solve_mip(model, solver=solver, warm_start=start)
    assert solution.status is Status.OPTIMAL
    assert solution.objective == pytest.approx(optimum)
