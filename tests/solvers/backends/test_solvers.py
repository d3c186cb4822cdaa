"""Both solvers against enumeration, the checker against broken points, prices against the optimum."""

import dataclasses
import itertools
from math import inf

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from problems.model import Column, Model, Row, build_model
from solvers.backends.highs import WarmLp, solve_lp
from solvers.backends.result import Solution, Status, StoppedBy, cost_scale
from solvers.backends.solve import SolverName, checked_point, solve_mip
from solvers.backends.verify import dual_bound, verify
from tests.support.rows import for_each

BOTH: list[SolverName] = ["cbc", "highs"]
both = pytest.mark.parametrize("solver", BOTH)
whole = st.integers(-6, 6)


def multi_knapsack(n_columns: int, n_rows: int, seed: int, scale: float = 1.0) -> Model:
    rng = np.random.default_rng(seed)
    weights = rng.integers(1, 1000, (n_rows, n_columns))
    costs = (weights.mean(axis=0) + rng.uniform(0, 500, n_columns)) * scale
    return build_model(
        [Column(("take", j), float(costs[j]), 0, 1, True) for j in range(n_columns)],
        [
            Row(
                ("need", i),
                [(j, float(weights[i, j])) for j in range(n_columns)],
                ">=",
                weights[i].sum() // 2,
            )
            for i in range(n_rows)
        ],
    )


@st.composite
def small_programs(draw: st.DrawFn) -> Model:
    n = draw(st.integers(1, 4))
    lowers = draw(st.lists(st.integers(-2, 1), min_size=n, max_size=n))
    columns = [
        Column(("x", j), draw(whole) / 4, lowers[j], lowers[j] + draw(st.integers(0, 3)), True) for j in range(n)
    ]
    rows = []
    for i in range(draw(st.integers(1, 4))):
        used = draw(st.lists(st.integers(0, n - 1), min_size=1, max_size=n, unique=True))
        sense = draw(st.sampled_from(["<=", ">=", ">=", "=="]))
        rows.append(Row(("r", i), [(j, float(draw(whole))) for j in used], sense, float(draw(whole))))
    return build_model(columns, rows)


def enumerated_optimum(model: Model) -> float:
    ranges = [range(int(low), int(high) + 1) for low, high in zip(model.lower, model.upper, strict=True)]
    feasible = (
        np.array(point, dtype=float)
        for point in itertools.product(*ranges)
        if not verify(model, np.array(point, dtype=float))
    )
    return min((model.objective(x) for x in feasible), default=inf)


@given(model=small_programs(), gap_frac=st.sampled_from([0.0, 0.0, 0.2]))
@settings(max_examples=20, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.filter_too_much])
def test_both_solvers_agree_with_enumeration(model: Model, gap_frac: float) -> None:
    best = enumerated_optimum(model)
    for solver in BOTH:
        found = solve_mip(model, solver=solver, gap_frac=gap_frac)
        if best == inf:
            assert found.status is Status.INFEASIBLE, found
            continue
        assert found.status is Status.OPTIMAL, found
        assert found.x is not None
        assert found.objective is not None
        assert not verify(model, found.x)
        assert found.bound <= best + 1e-6
        assert -1e-6 <= found.objective - best <= gap_frac * abs(found.objective) + 1e-6


@st.composite
def boxed_linear_programs(draw: st.DrawFn) -> tuple[Model, list[float]]:
    n, m = draw(st.integers(1, 5)), draw(st.integers(1, 5))
    inside = [draw(whole) / 2 for _ in range(n)]
    columns = [
        Column(
            ("x", j),
            draw(whole) / 3,
            inside[j] - draw(st.sampled_from([0.0, 1.0, 2.5, inf])),
            inside[j] + draw(st.sampled_from([0.0, 1.0, 2.5, inf])),
        )
        for j in range(n)
    ]
    rows = []
    for i in range(m):
        terms = [(j, draw(whole) / 3) for j in range(n)]
        at_point = sum(value * inside[j] for j, value in terms)
        sense = draw(st.sampled_from(["<=", ">=", "=="]))
        room = {"<=": 1.0, ">=": -1.0, "==": 0.0}[sense] * draw(st.integers(0, 3))
        rows.append(Row(("r", i), terms, sense, at_point + room))
    prices = draw(st.lists(st.floats(-50, 50), min_size=m, max_size=m))
    return build_model(columns, rows), prices


@given(case=boxed_linear_programs())
@settings(max_examples=150, deadline=None, derandomize=True)
def test_prices_never_prove_more_than_the_optimum(case: tuple[Model, list[float]]) -> None:
    model, prices = case
    lp = solve_lp(model)
    assert lp.status in (Status.OPTIMAL, Status.UNBOUNDED)
    if lp.objective is None or lp.row_duals is None:
        assert dual_bound(model, np.array(prices)) == -inf
        return
    slack = 1e-6 * max(1.0, abs(lp.objective))
    assert dual_bound(model, np.array(prices)) <= lp.objective + slack
    assert dual_bound(model, lp.row_duals) == pytest.approx(lp.objective, abs=slack)


@given(case=boxed_linear_programs(), values=st.lists(st.integers(-2, 2), min_size=1, max_size=5))
@settings(max_examples=100, deadline=None, derandomize=True)
def test_decided_step_by_step_a_program_ends_as_if_it_had_been_so_from_the_start(
    case: tuple[Model, list[float]], values: list[int]
) -> None:
    model, warm = case[0], WarmLp(case[0])
    lower, upper = model.lower.copy(), model.upper.copy()
    for step in range(-1, min(len(values), model.n_columns)):
        if step >= 0:
            lower[step] = upper[step] = values[step]
            warm.decide([step], values[step], values[step])
        anew = solve_lp(dataclasses.replace(model, lower=lower.copy(), upper=upper.copy()))
        x = warm.solve()
        assert (x is None) == (anew.status is not Status.OPTIMAL)
        if x is not None:
            assert model.objective(x) == pytest.approx(anew.objective, rel=1e-6, abs=1e-6)


def test_what_was_decided_can_be_taken_back() -> None:
    model = build_model([Column(("x",), 1.0, 0, 4)], [Row(("r",), [(0, 1.0)], ">=", 3.0)])
    lp = WarmLp(model)
    assert lp.solve() == pytest.approx([3.0])
    lp.decide([0], 0.0, 2.0)
    assert lp.solve() is None
    lp.decide([0], 0.0, 4.0)
    assert lp.solve() == pytest.approx([3.0])


def test_duals_are_the_price_of_the_right_hand_side() -> None:
    def diet(need: float, cap: float) -> Model:
        return build_model(
            [Column(("cheap",), 2.0), Column(("dear",), 5.0)],
            [
                Row(("need",), [(0, 1.0), (1, 1.0)], ">=", need),
                Row(("cap",), [(0, 1.0)], "<=", cap),
            ],
        )

    lp, more_need, more_cap = solve_lp(diet(10, 4)), solve_lp(diet(11, 4)), solve_lp(diet(10, 5))
    assert lp.objective is not None
    assert lp.row_duals is not None
    assert lp.reduced_costs is not None
    assert lp.row_duals.tolist() == pytest.approx([5.0, -3.0])
    assert more_need.objective == pytest.approx(lp.objective + lp.row_duals[0])
    assert more_cap.objective == pytest.approx(lp.objective + lp.row_duals[1])
    assert lp.reduced_costs.tolist() == pytest.approx([0.0, 0.0])


def test_linear_programs_report_infeasible_and_unbounded() -> None:
    column = Column(("x",), -1.0)
    assert solve_lp(build_model([column], [])).status is Status.UNBOUNDED
    torn = [Row(("a",), [(0, 1.0)], "<=", 1.0), Row(("b",), [(0, 1.0)], ">=", 2.0)]
    assert solve_lp(build_model([column], torn)).status is Status.INFEASIBLE


def test_dual_bound_on_a_column_that_can_run_away() -> None:
    model = build_model([Column(("x",), 1.0)], [Row(("r",), [(0, 1.0)], ">=", 3.0)])
    assert dual_bound(model, np.array([1.0])) == 3.0
    assert dual_bound(model, np.array([1.0 + 1e-12])) == pytest.approx(3.0)
    assert dual_bound(model, np.array([1.1])) == -inf
    assert dual_bound(model, np.array([-7.0])) == 0.0  # a >= row cannot have a negative price
    assert dual_bound(model, np.array([np.nan])) == -inf


@both
def test_statuses_without_a_solution(solver: SolverName) -> None:
    def status(model: Model) -> Solution:
        found = solve_mip(model, solver=solver)
        assert found.x is None
        assert found.objective is None
        assert found.gap_frac == inf
        return found

    def integers(*costs: float, upper: float = inf) -> list[Column]:
        return [Column(("x", j), cost, 0.0, upper, True) for j, cost in enumerate(costs)]

    no_room = build_model(integers(1.0, upper=1.0), [Row(("r",), [(0, 1.0)], ">=", 5.0)])
    assert status(no_room).status is Status.INFEASIBLE
    odd = build_model(integers(1, 1, 1, upper=1), [Row(("r",), [(j, 2.0) for j in range(3)], "==", 3.0)])
    assert status(odd).status is Status.INFEASIBLE
    falling = build_model(integers(-1, 0), [Row(("r",), [(0, 1.0), (1, -1.0)], "<=", 3.0)])
    assert status(falling).status is Status.UNBOUNDED
    # Its relaxation falls for ever, but no whole point exists: CBC alone would say unbounded.
    falling_and_odd = build_model(integers(-1, 0), [Row(("r",), [(0, 2.0), (1, -2.0)], "==", 1.0)])
    assert status(falling_and_odd).status is Status.INFEASIBLE


@both
def test_models_that_need_no_search(solver: SolverName) -> None:
    three = [Column(("x", j), 1.5, 0.0, 9.0, True) for j in range(3)]
    cases = {
        "one row": (build_model(three, [Row(("r",), [(0, 1.0)], ">=", 2.5)]), 4.5),
        "no rows": (build_model(three, []), 0.0),
        "no columns": (build_model([], []), 0.0),
        "no cost": (
            build_model([Column(("x",), 0.0, 0, 5, True)], [Row(("r",), [(0, 1.0)], ">=", 2.5)]),
            0.0,
        ),
        "no integers": (build_model([Column(("x",), 2.0)], [Row(("r",), [(0, 1.0)], ">=", 2.5)]), 5.0),
        "free columns": (
            build_model(
                [Column(("a",), 1.0, -inf, inf, True), Column(("b",), -1.0, -inf, 5.0, True)],
                [Row(("r",), [(0, 1.0), (1, 1.0)], ">=", -2.5)],
            ),
            -12.0,
        ),
    }
    for name, (model, optimum) in cases.items():
        found = solve_mip(model, solver=solver)
        assert found.status is Status.OPTIMAL, name
        assert found.objective == pytest.approx(optimum), name
        assert found.bound == pytest.approx(optimum), name


@both
def test_a_gap_and_a_node_limit_are_reported_as_such(solver: SolverName) -> None:
    model = multi_knapsack(60, 5, seed=3)
    seen: list[tuple[float | None, float]] = []
    rough = solve_mip(model, solver=solver, gap_frac=0.03, on_progress=lambda *pair: seen.append(pair))
    assert rough.status is Status.OPTIMAL
    assert rough.stopped_by is None
    assert 0.0 < rough.gap_frac <= 0.03
    assert seen
    assert all(incumbent is None or bound <= incumbent + 1e-3 for incumbent, bound in seen)
    cut = solve_mip(model, solver=solver, node_limit=1)
    assert cut.status is Status.FEASIBLE
    assert cut.stopped_by is StoppedBy.NODES
    assert cut.gap_frac > 1e-6


@both
def test_the_same_question_has_the_same_answer(solver: SolverName) -> None:
    model = multi_knapsack(30, 3, seed=1)
    first, second = (solve_mip(model, solver=solver) for _ in range(2))
    assert first.x is not None
    assert second.x is not None
    assert first.x.tolist() == second.x.tolist()
    lps = [solve_lp(model) for _ in range(2)]
    assert lps[0].row_duals is not None
    assert lps[1].row_duals is not None
    assert lps[0].row_duals.tolist() == lps[1].row_duals.tolist()


@both
def test_tiny_costs_are_solved_as_exactly_as_large_ones(solver: SolverName) -> None:
    large = solve_mip(multi_knapsack(40, 3, seed=3), solver=solver)
    tiny = solve_mip(multi_knapsack(40, 3, seed=3, scale=1e-7), solver=solver)
    assert large.objective is not None
    assert tiny.objective == pytest.approx(large.objective * 1e-7, rel=1e-9)


def test_cost_scale_is_a_power_of_two() -> None:
    assert cost_scale(multi_knapsack(5, 1, 0)) == 1.0
    assert np.log2(cost_scale(multi_knapsack(5, 1, 0, 1e-7))) % 1 == 0
    assert cost_scale(build_model([Column(("x",), 0.0)], [])) == 1.0


def test_verify_names_each_kind_of_violation() -> None:
    model = build_model(
        [Column(("a",), 1.0, 0.0, 2.0, True), Column(("b",), 1.0, 0.0, 2.0)],
        [Row(("sum",), [(0, 1.0), (1, 1.0)], "<=", 3.0)],
    )

    def kinds(*x: float) -> list[tuple[str, tuple]]:
        return [(violation.kind, violation.key) for violation in verify(model, np.array(x))]

    assert kinds(1.0, 2.0) == []
    assert kinds(1.0, 2.0 + 5e-7) == []
    assert kinds(-1.0, 0.0) == [("lower bound", ("a",))]
    assert kinds(0.0, 2.5) == [("upper bound", ("b",))]
    assert kinds(0.5, 0.0) == [("integrality", ("a",))]
    assert kinds(2.0, 1.5) == [("row", ("sum",))]
    assert kinds(0.0, float("nan")) == [("not finite", ("b",))]
    assert kinds(0.0) == [("shape", ())]


def test_large_rows_are_not_given_a_whole_unit_of_room() -> None:
    model = build_model([Column(("x",), 1.0, 0, inf, True)], [Row(("r",), [(0, 1.0)], "<=", 1e8)])
    assert verify(model, np.array([1e8 + 1]))


def test_a_point_is_rounded_and_the_rest_solved_for_again() -> None:
    model = build_model(
        [Column(("n",), 1.0, 0, 9, True), Column(("flow",), 0.0)],
        [Row(("r",), [(1, 1.0), (0, -1000.0)], "==", 0.0)],
    )
    x, _ = checked_point(model, np.array([2.9999999, 2999.9999]))
    assert x is not None
    assert x.tolist() == [3.0, 3000.0]
    nothing, why = checked_point(model, np.array([9.6, 9600.0]))
    assert nothing is None
    assert "upper bound" in why


@for_each(
    "bad",
    [{"solver": "gurobi"}, {"gap_frac": -0.1}, {"gap_frac": inf}, {"time_limit_s": 0.0}, {"node_limit": -1}],
)
def test_meaningless_requests_are_refused(bad: dict) -> None:
    with pytest.raises(ValueError, match=next(iter(bad))):
        solve_mip(multi_knapsack(3, 1, 0), **bad)
