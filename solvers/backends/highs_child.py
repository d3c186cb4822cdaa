"""The child process of a HiGHS mixed-integer run: `python -m solvers.backends.highs_child FOLDER PARENT`.

It reads FOLDER/model.npz, prints `progress INCUMBENT BOUND` lines and leaves FOLDER/result.npz. It ends with the
process PARENT, and imports little of this project: it is started often.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from solvers.backends.parent import exit_with

SEED, OTHER_SEED = 20, 21


def load_model(arrays: Mapping[str, Any]) -> Any:
    """A HiGHS object holding the model in `arrays`; one thread and one seed, so that runs repeat."""
    import highspy

    highs = highspy.Highs()
    highs.setOptionValue("log_to_console", False)
    highs.setOptionValue("threads", 1)
    highs.setOptionValue("random_seed", SEED)
    lp = highspy.HighsLp()
    lp.num_col_, lp.num_row_ = len(arrays["cost"]), len(arrays["row_lower"])
    lp.col_cost_ = arrays["cost"]
    lp.col_lower_, lp.col_upper_ = arrays["lower"], arrays["upper"]
    lp.row_lower_, lp.row_upper_ = arrays["row_lower"], arrays["row_upper"]
    lp.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
    lp.a_matrix_.num_col_, lp.a_matrix_.num_row_ = lp.num_col_, lp.num_row_
    lp.a_matrix_.start_ = arrays["starts"].astype(np.int32)
    lp.a_matrix_.index_ = arrays["indices"].astype(np.int32)
    lp.a_matrix_.value_ = arrays["values"]
    if arrays["integer"].any():
        kinds = (highspy.HighsVarType.kContinuous, highspy.HighsVarType.kInteger)
        lp.integrality_ = [kinds[whole] for whole in arrays["integer"].tolist()]
    if highs.passModel(lp) == highspy.HighsStatus.kError:
        raise ValueError("HiGHS refused the model")
    return highs


def run_resolved(highs: Any, run: Callable[[Any], object]) -> Any:
    """Solve; where presolve cannot tell infeasible from unbounded, solve again without it."""
    import highspy

    run(highs)
    if highs.getModelStatus() == highspy.HighsModelStatus.kUnboundedOrInfeasible:
        highs.setOptionValue("presolve", "off")
        run(highs)
    return highs.getModelStatus()


def solve_mip(arrays: Mapping[str, Any], report: Callable[[float, float], None], run: Callable[[Any], object]) -> Any:
    """The status, a whole point or nothing, and the bound of a mixed-integer model; `report` gets costs on the way."""
    import highspy

    highs = load_model(arrays)
    # Presolve has cut off optimal points and called the rest optimal (1.10 to 1.15: tests/oracle/test_cuts.py).
    highs.setOptionValue("presolve", "off")
    if arrays["again"]:
        highs.setOptionValue("random_seed", OTHER_SEED)
    highs.setOptionValue("mip_rel_gap", float(arrays["gap_frac"]))
    highs.setOptionValue("mip_abs_gap", 0.0)
    highs.setOptionValue("mip_min_logging_interval", 1.0)
    if "time_limit_s" in arrays:
        highs.setOptionValue("time_limit", float(arrays["time_limit_s"]))
    if "node_limit" in arrays:
        highs.setOptionValue("mip_max_nodes", int(arrays["node_limit"]))
    if "warm_start" in arrays:
        start = arrays["warm_start"]
        highs.setSolution(len(start), np.arange(len(start), dtype=np.int32), start)

    def tell(event: Any) -> None:
        report(event.data_out.mip_primal_bound, event.data_out.mip_dual_bound)

    highs.cbMipImprovingSolution += tell
    highs.cbMipLogging += tell
    status = run_resolved(highs, run)
    info = highs.getInfo()
    has_point = info.primal_solution_status == int(highspy.SolutionStatus.kSolutionStatusFeasible)
    bound = info.mip_dual_bound if arrays["integer"].any() else info.objective_function_value
    return status.name, np.array(highs.getSolution().col_value) if has_point else np.zeros(0), bound


def solve_folder(folder: Path) -> None:
    with np.load(folder / "model.npz") as stored:
        arrays = {name: stored[name] for name in stored.files}

    def report(incumbent: float, bound: float) -> None:
        print("progress", incumbent, bound, flush=True)

    status, x, bound = solve_mip(arrays, report, lambda solver: solver.run())
    np.savez(folder / "result.npz", status=status, x=x, bound=bound)


if __name__ == "__main__":
    exit_with(int(sys.argv[2]))
    solve_folder(Path(sys.argv[1]))
