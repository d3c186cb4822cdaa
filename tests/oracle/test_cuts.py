"""CBC 2.10.3 cuts off optimal points with its knapsack and flow cover cuts: programs as they were found.

With a plan to start from, CBC called 11021.84 optimal where 10920.75 can be had with a budget of two months, and
4445.28 where 4401.08 can be had with instances that take time to start.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from problems.model import Column, Row, build_model
from solvers.backends.result import Status
from solvers.backends.solve import SolverName, solve_mip


@pytest.mark.parametrize(("file", "optimum"), [("knapsack.json", 10920.749265564), ("flow_cover.json", 4401.078419585)])
@pytest.mark.parametrize("solver", ["cbc", "highs"])
@pytest.mark.parametrize("started", [True, False])
def test_no_cut_takes_the_optimum_away(solver: SolverName, started: bool, file: str, optimum: float) -> None:
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
