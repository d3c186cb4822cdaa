"""Ways in which CBC, PuLP and HiGHS have been seen to mislead; each one must not get through."""

from __future__ import annotations

import itertools
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from math import inf
from pathlib import Path

import numpy as np
import pytest

from problems.model import Column, Model, Row, build_model
from solvers.backends import cbc, child, highs, highs_child, solve
from solvers.backends.cbc_log import CbcLog
from solvers.backends.result import Claim, Request, Status, StoppedBy
from solvers.backends.solve import SolverName, solve_mip
from solvers.backends.verify import verify
from tests.support.patience import PATIENCE_S
from tests.support.places import ROOT
from tests.support.rows import for_each

both = pytest.mark.parametrize("solver", ["cbc", "highs"])
linux_only = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks for processes in /proc")


def market_split(n_columns: int = 40, n_rows: int = 5, seed: int = 1) -> Model:
    """Few rows, no good relaxation: far out of reach of branch and bound, though points are easy to find."""
    rng = np.random.default_rng(seed)
    weights = rng.integers(0, 100, (n_rows, n_columns))
    columns = [Column(("in", j), 0.0, 0, 1, True) for j in range(n_columns)]
    columns += [Column(("miss", i, side), 1.0) for i in range(n_rows) for side in "+-"]
    rows = []
    for i in range(n_rows):
        terms = [(j, float(weights[i, j])) for j in range(n_columns)]
        terms += [(n_columns + 2 * i, 1.0), (n_columns + 2 * i + 1, -1.0)]
        rows.append(Row(("split", i), terms, "==", float(weights[i].sum() // 2)))
    return build_model(columns, rows)


def two_choices() -> Model:
    """minimise 3a + 2b with a + b >= 1: the optimum is 2."""
    return build_model(
        [Column(("a",), 3.0, 0, 1, True), Column(("b",), 2.0, 0, 1, True)],
        [Row(("some",), [(0, 1.0), (1, 1.0)], ">=", 1.0)],
    )


FakeCbc = Callable[..., None]


@pytest.fixture
def fake_cbc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeCbc:
    """Replaces CBC with a script that prints a log, leaves a solution file and may then hang."""

    def install(log: str, solution: str = "", hang: bool = False) -> None:
        (tmp_path / "log").write_text(log)
        (tmp_path / "sol").write_text(solution)
        script = tmp_path / "cbc"
        script.write_text(
            "#!/bin/sh\n"
            f"cat {tmp_path}/log\nfor last; do :; done\n"
            f'[ -s {tmp_path}/sol ] && cp {tmp_path}/sol "$last"\n' + ("sleep 60\n" if hang else "exit 0\n")
        )
        script.chmod(0o755)
        monkeypatch.setattr(cbc, "_binary", lambda: str(script))

    return install


# 1. A stop by a limit is reported as optimal.


@both
def test_1_and_5_a_time_limit_holds_and_is_not_called_optimal(solver: SolverName) -> None:
    model = market_split()  # which takes hours
    for seconds in (1.5, 6.0, 24.0):  # a busy machine may not have started the solver within the first
        found = solve_mip(model, solver=solver, time_limit_s=seconds)
        assert found.stopped_by is StoppedBy.TIME
        if found.status is Status.FEASIBLE:
            break
    assert found.status is Status.FEASIBLE
    assert found.x is not None
    assert not verify(model, found.x)
    assert found.bound < model.objective(found.x)


def test_1_a_node_limit_that_leaves_nothing_is_no_solution() -> None:
    hard = market_split()
    exact = hard.with_fixed(np.arange(40, hard.n_columns), 0.0)
    found = solve_mip(exact, node_limit=20)
    assert found.status is Status.NO_SOLUTION
    assert found.stopped_by is StoppedBy.NODES
    assert found.x is None


CUT_OFF_BUT_COMPLETED = """\
Continuous objective value is 31080 - 0.00 seconds
Cbc0012I Integer solution of 31396.535 found by feasibility pump after 0 iterations and 0 nodes (0.04 seconds)
Cbc0013I At root node, 15 cuts changed objective from 31080.027 to 4.8446211e+09 in 80 passes
Cbc0001I Search completed - best objective 31396.5347922966, took 560 iterations and 0 nodes (0.16 seconds)
Cgl0014I Postprocessing changed objective from -4.0140973e+09 to 31396.535 - possible tolerance issue
Result - Optimal solution found
Objective value:                31396.53479230
"""


def test_1_a_cut_off_search_that_says_completed_is_marked_as_damaged() -> None:
    log = read(CUT_OFF_BUT_COMPLETED)
    assert log.damaged
    assert log.open_bound == pytest.approx(31080, rel=1e-5)


def test_1_result_optimal_after_a_partial_search_is_not_believed() -> None:
    log = read(
        "Continuous objective value is 31080 - 0.00 seconds\n"
        "Cbc0010I After 0 nodes, 1 on tree, 31396.535 best solution, best possible 31093.551 (0.16 seconds)\n"
        "Cbc0020I Exiting on maximum time\n"
        "Cbc0005I Partial search - best objective 31249.559 (best possible 31093.551), took 5 iterations\n"
        "Result - Optimal solution found\n"
        "Objective value:                31249.55894797\n"
    )
    assert log.status is Status.FEASIBLE
    assert log.stopped_by is StoppedBy.TIME
    assert log.incumbent == 31249.559
    assert 31093.54 < log.bound < 31093.551


def test_1_the_lower_bound_line_is_not_believed() -> None:
    log = read(
        "Continuous objective value is 100 - 0.00 seconds\n"
        "Cbc0012I Integer solution of 120 found by rounding\n"
        "Result - Stopped on time limit\n"
        "Objective value:                120.00000000\n"
        "Lower bound:                    120.000\n"
        "Gap:                            0.00\n"
    )
    assert log.status is Status.FEASIBLE
    assert log.bound < 100.0


def test_1_a_gap_stop_proves_the_gap_and_no_more() -> None:
    log = read(
        "Cbc0011I Exiting as integer gap of 2.322844 less than 1e-10 or 5%\n"
        "Cbc0001I Search completed - best objective 65.497165721949, took 0 iterations and 0 nodes\n"
        "Result - Optimal solution found (within gap tolerance)\n"
    )
    assert log.status is Status.OPTIMAL
    assert log.bound == pytest.approx(63.1743217, abs=1e-6)


def test_a_warm_start_the_root_cannot_beat_is_proved() -> None:
    found = solve_mip(two_choices(), warm_start=np.array([0.0, 1.0]))
    assert (found.status, found.solver, found.bound, found.notes) == (Status.OPTIMAL, "cbc", 2.0, ())


def test_1_a_completed_search_as_time_runs_out_is_no_proof(fake_cbc: FakeCbc) -> None:
    done = "Cbc0001I Search completed - best objective 1536, took 0 iterations and 0 nodes (1.0 seconds)\n"
    fake_cbc(done, "Optimal - objective value 1536\n 0 x0 1 0\n")
    claim = cbc.run_cbc(Request(two_choices(), time_limit_s=0.001))
    assert claim.status is Status.FEASIBLE
    assert claim.bound == -inf
    assert claim.stopped_by is StoppedBy.TIME


# 2. Without an incumbent the solution file holds the relaxation.


def test_2_values_are_not_read_without_an_incumbent(fake_cbc: FakeCbc, monkeypatch: pytest.MonkeyPatch) -> None:
    def must_not_read(*_: object) -> None:
        raise AssertionError("the solution file was opened")

    monkeypatch.setattr(cbc, "read_solution", must_not_read)
    fake_cbc(
        "Continuous objective value is 2 - 0.00 seconds\nCbc0020I Exiting on maximum time\n"
        "Cbc0005I Partial search - best objective 1e+50 (best possible 2), took 5 iterations\n"
        "Result - Stopped on time limit\n",
        "Stopped on time - objective value 2\n 0 x0 0.5 0\n",
    )
    found = solve_mip(two_choices(), time_limit_s=5.0)
    assert found.status is Status.NO_SOLUTION
    assert found.x is None


def test_2_infeasible_problems_return_no_values() -> None:
    found = solve_mip(two_choices().with_fixed([0, 1], [0.0, 0.0]))
    assert found.status is Status.INFEASIBLE
    assert found.x is None


# 3. The solution file can be wrong.


def test_3_a_point_that_breaks_a_row_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cbc, "read_solution", lambda path, n: np.zeros(n))
    found = solve_mip(two_choices())
    assert found.status is Status.OPTIMAL
    assert found.solver == "highs"
    assert found.objective == 2.0
    assert "breaks the model: row of ('some',) by 1" in " ".join(found.notes)


def test_3_a_point_dearer_than_claimed_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cbc, "read_solution", lambda path, n: np.ones(n))
    found = solve_mip(two_choices())
    assert (found.status, found.solver, found.objective) == (Status.OPTIMAL, "highs", 2.0)
    assert "ended its search at 2.0, but its point costs 5.0" in " ".join(found.notes)


@both
def test_3_a_bound_above_a_checked_point_is_caught(solver: SolverName, monkeypatch: pytest.MonkeyPatch) -> None:
    lie = Claim(Status.OPTIMAL, np.array([1.0, 0.0]), bound=3.0)
    monkeypatch.setattr(solve, f"run_{solver}", lambda request: lie)
    found = solve_mip(two_choices(), solver=solver, warm_start=np.array([0.0, 1.0]))
    assert (found.status, found.objective) == (Status.OPTIMAL, 2.0)
    assert found.solver != solver
    assert "claims a bound of 3.0" in " ".join(found.notes)


def test_3_without_any_sound_run_the_status_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    broken = Claim(Status.OPTIMAL, np.array([0.0, 0.0]), bound=0.0)
    monkeypatch.setattr(solve, "run_cbc", lambda request: broken)
    monkeypatch.setattr(solve, "run_highs", lambda request: broken)
    found = solve_mip(two_choices())
    assert (found.status, found.x, found.bound) == (Status.FAILED, None, -inf)
    kept = solve_mip(two_choices(), warm_start=np.array([1.0, 0.0]))
    assert (kept.status, kept.objective, kept.bound) == (Status.FEASIBLE, 3.0, -inf)


def test_3_a_wrong_infeasible_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(solve, "run_cbc", lambda request: Claim(Status.INFEASIBLE))
    found = solve_mip(two_choices())
    assert (found.status, found.objective, found.solver) == (Status.OPTIMAL, 2.0, "highs")
    assert "highs found a checked point" in " ".join(found.notes)


def test_3_cbc_preprocessing_that_calls_a_feasible_model_infeasible() -> None:
    costs = [-13.07, -11.0, 10.3, 5.01, 11.52, 23.0, -1.803]
    lower, upper = [-2, -3, -1, -1, -3, -1, -2], [3, 3, 3, 1, 2, 3, 2]
    whole = [True, False, False, True, True, False, True]
    model = build_model(
        [Column(("x", j), costs[j], lower[j], upper[j], whole[j]) for j in range(7)],
        [
            Row(("a",), [(1, -1.67), (2, -0.69), (3, -9.3), (4, -4.55), (5, 1.19)], "<=", 3.1),
            Row(("b",), [(0, -4.0), (1, 2.0), (2, -2.6), (5, -12.0), (6, -4.79)], "<=", 0.4),
        ],
    )
    found = solve_mip(model)
    assert found.status is Status.OPTIMAL
    assert found.objective == pytest.approx(-138.666)


@both
def test_3_infeasible_needs_a_second_opinion(solver: SolverName, monkeypatch: pytest.MonkeyPatch) -> None:
    runs: list[tuple[str, bool]] = []

    def run(name: SolverName, request: Request) -> Claim:
        runs.append((name, request.again))
        return Claim(Status.INFEASIBLE) if name == solver else Claim(Status.FAILED)

    monkeypatch.setattr(solve, "_run", run)
    found = solve_mip(two_choices(), solver=solver)
    assert found.status is Status.INFEASIBLE
    assert [again for name, again in runs if name == solver] == [False, True]
    assert "twice" in found.notes[-1]


@both
def test_a_gap_is_relative_to_the_objective_below_zero_too(solver: SolverName) -> None:
    rng = np.random.default_rng(2)
    weights, values = rng.integers(10, 90, 40), rng.integers(10, 90, 40)
    model = build_model(
        [Column(("x", j), -float(values[j]), 0, 1, True) for j in range(40)],
        [Row(("room",), [(j, float(weights[j])) for j in range(40)], "<=", float(weights.sum() // 3))],
    )
    found = solve_mip(model, solver=solver, gap_frac=0.1)
    assert found.status is Status.OPTIMAL
    assert found.gap_frac <= 0.1
    assert found.notes == ()


def test_3_large_whole_numbers_lose_digits_in_the_file_and_are_recovered() -> None:
    model = build_model(
        [Column(("a",), 1.0, 0, inf, True), Column(("b",), 1.5, 0, inf, True)],
        [
            Row(("sum",), [(0, 1.0), (1, 1.0)], "==", 1123456789.0),
            Row(("cap",), [(0, 1.0)], "<=", 123456789.0),
        ],
    )
    found = solve_mip(model)
    assert found.status is Status.OPTIMAL
    assert found.x is not None
    assert found.x.tolist() == [123456789.0, 1e9]


# 4. A sentinel coefficient made CBC call a wrong answer optimal.


@for_each("seed", range(6))
def test_4_sentinel_loads_do_not_yield_a_wrong_optimum(seed: int) -> None:
    rng = np.random.default_rng(seed)
    items, pools = 5, 3
    load = rng.uniform(1, 10, (items, pools)).round(3)
    load[rng.random((items, pools)) < 0.4] = 1e6
    cost, opening = rng.uniform(1, 10, (items, pools)).round(3), rng.uniform(5, 20, pools).round(2)
    capacity = rng.uniform(12, 20, pools).round(2)
    columns = [Column(("put", *at), float(cost[at]), 0, 1, True) for at in np.ndindex(items, pools)]
    columns += [Column(("open", p), float(opening[p]), 0, 5, True) for p in range(pools)]
    rows = [Row(("once", i), [(i * pools + p, 1.0) for p in range(pools)], "==", 1.0) for i in range(items)]
    for p in range(pools):
        loads = [(i * pools + p, float(load[i, p])) for i in range(items)]
        rows.append(Row(("fits", p), [*loads, (items * pools + p, -float(capacity[p]))], "<=", 0.0))

    best = inf
    for picks in itertools.product(range(pools), repeat=items):
        used = np.bincount(picks, weights=[load[i, p] for i, p in enumerate(picks)], minlength=pools)
        opened = np.ceil(used / capacity - 1e-9)
        if opened.max() <= 5:
            best = min(best, sum(cost[i, p] for i, p in enumerate(picks)) + float(opened @ opening))
    found = solve_mip(build_model(columns, rows))
    if best == inf:
        assert found.status is Status.INFEASIBLE
    else:
        assert found.status is Status.OPTIMAL
        assert found.objective == pytest.approx(best)


# 5. Time limits overshoot; an interrupted solver leaves a file that reads as optimal.


def test_5_the_watchdog_kills_what_outlives_its_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(child, "grace_s", lambda limit: 0.2)
    lines: list[str] = []
    code, killed = child.run_child(["sh", "-c", "echo on; sleep 3600 & sleep 3600"], 0.3, lines.append)
    assert killed
    assert code == -signal.SIGKILL
    assert lines == ["on"]


class Deaf:
    """A HiGHS that never ends by itself."""

    cancelled = False

    def startSolve(self) -> None: ...

    def wait(self, seconds: float) -> tuple[bool, None]:
        return self.cancelled, None

    def cancelSolve(self) -> None:
        self.cancelled = True


def test_5_a_run_in_this_process_that_outlives_its_limit_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    deaf = Deaf()
    monkeypatch.setattr(child, "grace_s", lambda limit: 0.0)
    monkeypatch.setattr(highs_child, "solve_mip", lambda arrays, report, run: run(deaf))
    claim = highs.run_highs(Request(two_choices(), time_limit_s=0.01))
    assert (claim.status, claim.x, claim.stopped_by) == (Status.NO_SOLUTION, None, StoppedBy.TIME)
    assert deaf.cancelled


def test_5_a_killed_run_keeps_the_warm_start_and_the_bound(fake_cbc: FakeCbc, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(child, "grace_s", lambda limit: 0.2)
    # Costs reach CBC multiplied by 256, to be near 1000.
    fake_cbc("Continuous objective value is 512 - 0.00 seconds\n", hang=True)
    kept = solve_mip(two_choices(), time_limit_s=0.3, warm_start=np.array([1.0, 0.0]))
    assert (kept.status, kept.objective, kept.stopped_by) == (Status.FEASIBLE, 3.0, StoppedBy.TIME)
    assert kept.bound == pytest.approx(2.0, rel=1e-5)
    nothing = solve_mip(two_choices(), time_limit_s=0.3)
    assert (nothing.status, nothing.x, nothing.stopped_by) == (Status.NO_SOLUTION, None, StoppedBy.TIME)


@linux_only
def test_5_an_interrupted_cbc_is_not_believed() -> None:
    interrupted: list[int] = []

    def interrupt_child(incumbent: float | None, bound: float) -> None:
        if incumbent is not None and not interrupted:
            interrupted.extend(pid for pid in processes_mentioning("fleetplan-cbc-") if is_our_child(pid))
            for pid in interrupted:
                os.kill(pid, signal.SIGINT)

    claim = cbc.run_cbc(Request(market_split(), time_limit_s=5.0, on_progress=interrupt_child))
    assert interrupted
    assert claim.status is not Status.OPTIMAL
    assert claim.stopped_by is None or claim.status is Status.FEASIBLE


INTERRUPTED_SCRIPT = """
from solvers.backends import highs
highs.MOST_COLUMNS_HERE = {columns}
from tests.solvers.backends.test_solver_traps import market_split
from solvers.backends.solve import solve_mip
solve_mip(market_split(), solver={solver!r}, on_progress=lambda *_: print("running", flush=True))
"""


@pytest.mark.process
@linux_only
@pytest.mark.parametrize("solver, columns", [("cbc", 0), ("highs", 0), ("highs", 20_000)])
def test_5_and_10_ctrl_c_ends_everything_at_once(solver: SolverName, columns: int, tmp_path: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", INTERRUPTED_SCRIPT.format(solver=solver, columns=columns)],
        env={**os.environ, "TMPDIR": str(tmp_path), "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "running\n"
        assert bool(processes_mentioning(str(tmp_path))) is (columns == 0)  # in a child
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=PATIENCE_S)
    finally:
        process.kill()
    assert "KeyboardInterrupt" in errors
    assert processes_mentioning(str(tmp_path)) == []
    assert list(tmp_path.iterdir()) == []


@both
def test_an_error_in_the_progress_callback_ends_the_child(solver: SolverName) -> None:
    def stop(incumbent: float | None, bound: float) -> None:
        raise RuntimeError("enough")

    with pytest.raises(RuntimeError, match="enough"):
        solve_mip(market_split(), solver=solver, on_progress=stop)


# 6. PuLP's defaults and warnings.


def test_6_cbc_is_run_on_elapsed_time_with_seeds_and_without_threads() -> None:
    options = cbc._options(Request(two_choices(), gap_frac=0.01, time_limit_s=7.0, node_limit=9, again=True))
    text = " ".join(options)
    assert "-timeMode elapsed" in text
    assert "-randomSeed" in text
    assert "-randomCbcSeed" in text
    assert "-ratio 0.0099" in text
    assert "-sec 7.0" in text
    assert "-maxNodes 9" in text
    assert "-preprocess off" in text
    assert "-threads" not in text


@pytest.mark.filterwarnings("error")
def test_6_users_do_not_see_deprecation_warnings() -> None:
    assert solve_mip(two_choices()).status is Status.OPTIMAL


def test_6_a_cbc_that_dies_is_replaced(fake_cbc: FakeCbc, tmp_path: Path) -> None:
    fake_cbc("Segmentation fault\n")
    (tmp_path / "cbc").write_text("#!/bin/sh\nkill -SEGV $$\n")
    found = solve_mip(two_choices())
    assert (found.status, found.objective, found.solver) == (Status.OPTIMAL, 2.0, "highs")


def test_6_a_log_that_says_nothing_is_not_an_answer(fake_cbc: FakeCbc) -> None:
    fake_cbc("Result - Optimal solution found\n", "Optimal - objective value 3\n 0 x0 1 0\n")
    found = solve_mip(two_choices())
    assert (found.status, found.objective, found.solver) == (Status.OPTIMAL, 2.0, "highs")


# 7. Names that collide once cleaned.


@both
def test_7_keys_that_clean_to_the_same_name_stay_apart(solver: SolverName) -> None:
    keys: list[tuple] = [("a-b",), ("a_b",), ("a b",), ("a", "b"), ("x0",), ("a[b]",)]
    model = build_model(
        [Column(key, 1.0 + j, 0, 5, True) for j, key in enumerate(keys)],
        [Row(key, [(j, 1.0)], ">=", float(j)) for j, key in enumerate(keys)],
    )
    found = solve_mip(model, solver=solver)
    assert found.x is not None
    assert found.x.tolist() == [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]


# 8. HiGHS drops coefficients of 1e-9 and less, and answers another question.


@both
@for_each("tiny", [1e-8, 1e-9, 1e-10])
def test_8_a_coefficient_that_is_dropped_changes_no_answer(tiny: float, solver: SolverName) -> None:
    """n x tiny + z / 2 >= 1: without its first term nothing is enough."""
    columns = [Column(("n",), 1.0, 0, 2 / tiny, True), Column(("z",), 3.0, 0, 1, True)]
    found = solve_mip(build_model(columns, [Row(("need",), [(0, tiny), (1, 0.5)], ">=", 1.0)]), solver=solver)
    assert found.status is Status.OPTIMAL
    assert found.objective == pytest.approx(0.5 / tiny + 3, rel=1e-6)
    assert found.bound <= found.objective
    if solver == "highs" and tiny <= 1e-9:
        assert any("a checked point" in note for note in found.notes)


# Warm starts.


@both
def test_a_warm_start_is_never_lost(solver: SolverName) -> None:
    model = market_split()
    first = solve_mip(model, solver="cbc", time_limit_s=2.0)
    assert first.objective is not None
    again = solve_mip(model, solver=solver, time_limit_s=0.3, warm_start=first.x)
    assert again.status is Status.FEASIBLE
    assert again.objective is not None
    assert again.objective <= first.objective + 1e-9


@both
def test_a_broken_warm_start_is_ignored_aloud(solver: SolverName) -> None:
    for start in (np.zeros(2), np.zeros(3), np.array([np.nan, 1.0])):
        found = solve_mip(two_choices(), solver=solver, warm_start=start)
        assert (found.status, found.objective) == (Status.OPTIMAL, 2.0)
        assert found.notes[0].startswith("warm start ignored")


def read(text: str) -> CbcLog:
    log = CbcLog()
    for line in text.splitlines():
        log.feed(line)
    return log


def is_our_child(pid: int) -> bool:
    status = Path(f"/proc/{pid}/status").read_text()
    return f"PPid:\t{os.getpid()}\n" in status


def processes_mentioning(text: str) -> list[int]:
    """Live processes with `text` in an argument (this one excepted)."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                arguments = (entry / "cmdline").read_bytes().decode(errors="replace")
            except OSError:
                continue
            if text in arguments:
                found.append(int(entry.name))
    return found
