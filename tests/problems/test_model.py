"""Rows and columns become arrays once, and nothing malformed gets past that point."""

from math import inf, nan

import numpy as np
import pytest

from problems.model import Column, Model, ModelError, Row, build_model
from tests.support.rows import for_each


def two_columns() -> list[Column]:
    return [Column(("pick", "a"), 2.0, 0.0, 1.0, True), Column(("load",), 0.5)]


def small_model() -> Model:
    return build_model(
        two_columns(),
        [
            Row(("served",), [(0, 1.0), (1, 2.0)], ">=", 3.0),
            Row(("cap",), [(1, 4.0)], "<=", 8.0),
            Row(("tie",), [(1, 1.0), (0, -1.0)], "==", 0.0),
        ],
    )


def test_arrays_hold_what_was_given() -> None:
    model = small_model()
    assert (model.n_rows, model.n_columns, model.n_nonzeros) == (3, 2, 5)
    assert model.row_lower.tolist() == [3.0, -inf, 0.0]
    assert model.row_upper.tolist() == [inf, 8.0, 0.0]
    assert model.integer.tolist() == [True, False]
    assert model.column_keys == (("pick", "a"), ("load",))
    assert model.row_keys == (("served",), ("cap",), ("tie",))


def test_products_match_the_dense_matrix() -> None:
    model = small_model()
    dense = np.array([[1.0, 2.0], [0.0, 4.0], [-1.0, 1.0]])
    assert model.activity([3.0, 5.0]).tolist() == (dense @ [3.0, 5.0]).tolist()
    assert model.priced([1.0, 2.0, 3.0]).tolist() == (dense.T @ [1.0, 2.0, 3.0]).tolist()
    assert model.objective([3.0, 5.0]) == 8.5


def test_changed_copies_leave_the_original_alone() -> None:
    model = small_model()
    assert not model.relaxed().integer.any()
    by_mask = model.with_fixed([True, False], [1.0])
    by_index = model.with_fixed([0], [1.0])
    for fixed in (by_mask, by_index):
        assert (fixed.lower[0], fixed.upper[0], fixed.upper[1]) == (1.0, 1.0, inf)
    assert model.lower[0] == 0.0
    assert model.integer[0]
    with pytest.raises(ValueError, match="read-only"):
        model.cost[0] = 9.0


def test_a_model_without_rows_or_columns_is_allowed() -> None:
    assert build_model([], []).n_columns == 0
    model = build_model(two_columns(), [])
    assert model.activity([1.0, 1.0]).tolist() == []
    assert model.priced([]).tolist() == [0.0, 0.0]


@for_each(
    ("column", "diagnostic"),
    [
        (Column(("bad",), nan), "cost nan"),
        (Column(("bad",), inf), "cost inf"),
        (Column(("bad",), 1.0, 2.0, 1.0), r"bounds \[2.0, 1.0\]"),
        (Column(("bad",), 1.0, nan, 1.0), "bounds"),
        (Column(("bad",), 1.0, 0.0, nan), "bounds"),
        (Column(("bad",), 1.0, inf, inf), "bounds"),
        (Column(("bad",), 1.0, -inf, -inf), "bounds"),
    ],
)
def test_a_bad_column_is_named(column: Column, diagnostic: str) -> None:
    with pytest.raises(ModelError, match=rf"column \('bad',\) has {diagnostic}"):
        build_model([*two_columns(), column], [])


@for_each(
    ("row", "diagnostic"),
    [
        (Row(("bad",), [(0, nan)], "<=", 1.0), "coefficient nan on column"),
        (Row(("bad",), [(0, 1.0), (1, -inf)], "<=", 1.0), "coefficient -inf on column"),
        (Row(("bad",), [(0, 1.0)], "<=", nan), "right-hand side nan"),
        (Row(("bad",), [(0, 1.0)], ">=", -inf), "right-hand side -inf"),
        (Row(("bad",), [], "==", 1.0), "empty"),
        (Row(("bad",), [(0, 1.0), (1, 1.0), (0, 2.0)], "==", 1.0), r"repeats column \('pick', 'a'\)"),
        (Row(("bad",), [(2, 1.0)], "==", 1.0), "column index 2"),
        (Row(("bad",), [(-1, 1.0)], "==", 1.0), "column index -1"),
        (Row(("bad",), [(0, 1.0)], "<", 1.0), "sense '<'"),  # type: ignore[arg-type]
    ],
)
def test_a_bad_row_is_named(row: Row, diagnostic: str) -> None:
    good = Row(("good",), [(0, 1.0), (1, 1.0)], "<=", 1.0)
    with pytest.raises(ModelError, match=rf"row \('bad',\).*{diagnostic}"):
        build_model(two_columns(), [good, row])


def test_a_fractional_column_index_is_refused() -> None:
    with pytest.raises(ModelError, match="not an integer"):
        build_model(two_columns(), [Row(("r",), [(0.5, 1.0)], "<=", 1.0)])  # type: ignore[list-item]


def test_duplicate_keys_are_refused() -> None:
    with pytest.raises(ModelError, match=r"column \('x',\) is defined twice"):
        build_model([Column(("x",), 1.0), Column(("x",), 2.0)], [])
    row = Row(("r",), [(0, 1.0)], "<=", 1.0)
    with pytest.raises(ModelError, match=r"row \('r',\) is defined twice"):
        build_model(two_columns(), [row, row])


def test_some_rows_and_columns_make_a_smaller_model_of_the_same_numbers() -> None:
    model = small_model()
    two = model.only_rows(np.array([2, 0]))
    assert two.row_keys == (("tie",), ("served",))
    assert two.activity([3.0, 5.0]).tolist() == [2.0, 13.0]
    without = model.without_columns(np.array([True, False]), [1.0, 99.0])
    assert without.column_keys == (("load",),)
    assert without.row_lower.tolist() == [2.0, -inf, 1.0]
    assert without.activity([5.0]).tolist() == [10.0, 20.0, 5.0]
    alone = model.without_columns(np.array([False, True]), [0.0, 2.0])
    assert alone.row_keys == model.row_keys, "rows keep their numbers"
    assert alone.without_empty_rows().row_keys == (("served",), ("tie",))


def test_shares_are_columns_of_their_own() -> None:
    shares = [(7.0, np.array([0, 2]), np.array([3.0, -1.0])), (0.0, np.array([1]), np.ones(1))]
    model = small_model().with_shares(shares)
    assert model.activity([0.0, 0.0, 2.0, 5.0]).tolist() == [6.0, 5.0, -2.0]
    assert model.objective([0.0, 0.0, 2.0, 5.0]) == 14.0
    assert model.integer.tolist() == [True, False, True, True]
    assert model.upper.tolist()[2:] == [1.0, 1.0]
