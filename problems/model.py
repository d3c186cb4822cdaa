"""A minimisation model as arrays: columns, rows and a sparse matrix, checked once where it is built."""

from __future__ import annotations

import dataclasses
from array import array
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import inf
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

Sense = Literal["<=", "==", ">="]
Key = tuple[Hashable, ...]
Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Booleans = NDArray[np.bool_]


class ModelError(ValueError):
    """A model that must not reach a solver; the message names the row or column at fault."""


@dataclass(frozen=True, slots=True)
class Column:
    """One variable: what a unit of it costs, its bounds, and whether it must be whole."""

    key: Key
    cost: float
    lower: float = 0.0
    upper: float = inf
    integer: bool = False


@dataclass(frozen=True, slots=True)
class Row:
    """One constraint: sum of coefficient * column over `terms`, compared with `rhs`."""

    key: Key
    terms: Sequence[tuple[int, float]]
    sense: Sense
    rhs: float


@dataclass(frozen=True)
class Model:
    """minimise cost @ x  subject to  row_lower <= A x <= row_upper,  lower <= x <= upper.

    A is stored by rows: the entries of row i are `indices[starts[i]:starts[i + 1]]` and likewise `values`.
    """

    cost: Floats
    lower: Floats
    upper: Floats
    integer: Booleans
    starts: Integers
    indices: Integers
    values: Floats
    row_lower: Floats
    row_upper: Floats
    column_keys: tuple[Key, ...]
    row_keys: tuple[Key, ...]

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            array = getattr(self, field.name)
            if isinstance(array, np.ndarray):
                array.setflags(write=False)

    @property
    def n_columns(self) -> int:
        return len(self.cost)

    @property
    def n_rows(self) -> int:
        return len(self.row_lower)

    @property
    def n_nonzeros(self) -> int:
        return len(self.values)

    @cached_property
    def entry_rows(self) -> Integers:
        """The row of each stored entry."""
        return np.repeat(np.arange(self.n_rows), np.diff(self.starts))

    def activity(self, x: ArrayLike) -> Floats:
        """A @ x."""
        products = self.values * np.asarray(x, dtype=float)[self.indices]
        return np.asarray(np.bincount(self.entry_rows, weights=products, minlength=self.n_rows), dtype=float)

    def priced(self, row_prices: ArrayLike) -> Floats:
        """A.T @ row_prices."""
        products = self.values * np.asarray(row_prices, dtype=float)[self.entry_rows]
        return np.asarray(np.bincount(self.indices, weights=products, minlength=self.n_columns), dtype=float)

    def objective(self, x: ArrayLike) -> float:
        return float(self.cost @ np.asarray(x, dtype=float))

    def relaxed(self) -> Model:
        """The LP relaxation: the model with no column required to be an integer."""
        return dataclasses.replace(self, integer=np.zeros(self.n_columns, dtype=bool))

    def with_fixed(self, columns: ArrayLike, values: ArrayLike) -> Model:
        """A copy with `columns` (a mask or indices) fixed at `values` (one each)."""
        lower, upper = self.lower.copy(), self.upper.copy()
        lower[np.asarray(columns)] = upper[np.asarray(columns)] = values
        return dataclasses.replace(self, lower=lower, upper=upper)

    def with_cost(self, cost: ArrayLike) -> Model:
        return dataclasses.replace(self, cost=np.array(cost, dtype=float))

    def only_rows(self, rows: Integers) -> Model:
        """A copy with some of its rows, in the order given."""
        lengths = np.diff(self.starts)[rows]
        starts = np.r_[0, np.cumsum(lengths)]
        entries = np.repeat(self.starts[rows] - starts[:-1], lengths) + np.arange(starts[-1])
        return dataclasses.replace(
            self,
            starts=starts,
            indices=self.indices[entries],
            values=self.values[entries],
            row_lower=self.row_lower[rows],
            row_upper=self.row_upper[rows],
            row_keys=tuple(self.row_keys[n] for n in rows.tolist()),
        )

    def without_columns(self, columns: Booleans, x: ArrayLike) -> Model:
        """A copy without some columns (a mask), which have their values in x; rows may be left empty."""
        there, kept = self.activity(np.where(columns, x, 0.0)), ~columns
        left = kept[self.indices]
        lengths = np.bincount(self.entry_rows[left], minlength=self.n_rows)
        return dataclasses.replace(
            self,
            cost=self.cost[kept],
            lower=self.lower[kept],
            upper=self.upper[kept],
            integer=self.integer[kept],
            starts=np.r_[0, np.cumsum(lengths)],
            indices=(np.cumsum(kept) - 1)[self.indices[left]],
            values=self.values[left],
            row_lower=self.row_lower - there,
            row_upper=self.row_upper - there,
            column_keys=tuple(key for key, own in zip(self.column_keys, kept.tolist(), strict=True) if own),
        )

    def without_empty_rows(self) -> Model:
        """A copy whose rows all have entries."""
        return self.only_rows(np.flatnonzero(np.diff(self.starts)))

    def with_shares(self, columns: Sequence[tuple[float, Integers, Floats]]) -> Model:
        """A copy with more columns at its end, 0 or 1, each with its cost, its rows and its entries there."""
        n = len(columns)
        rows = np.concatenate([self.entry_rows, *(own for _, own, _ in columns)]).astype(np.int64)
        lengths = [len(own) for _, own, _ in columns]
        indices = np.r_[self.indices, np.repeat(self.n_columns + np.arange(n), lengths)]
        order = np.argsort(rows, kind="stable")
        return dataclasses.replace(
            self,
            cost=np.r_[self.cost, [cost for cost, _, _ in columns]],
            lower=np.r_[self.lower, np.zeros(n)],
            upper=np.r_[self.upper, np.ones(n)],
            integer=np.r_[self.integer, np.ones(n, dtype=bool)],
            starts=np.searchsorted(rows[order], np.arange(self.n_rows + 1)),
            indices=indices[order].astype(np.int64),
            values=np.concatenate([self.values, *(own for _, _, own in columns)])[order],
            column_keys=(*self.column_keys, *(("share", k) for k in range(n))),
        )

    def with_rows(self, rows: Iterable[Row]) -> Model:
        """A copy with more rows at its end; raises ModelError like `build_model`."""
        keys: list[Key] = []
        row_lower: list[float] = []
        row_upper: list[float] = []
        starts = [self.n_nonzeros]
        indices, values = array("q"), array("d")  # a tenth of what lists of numbers take
        for row in rows:
            keys.append(row.key)
            low, high = _row_bounds(row)
            row_lower.append(low)
            row_upper.append(high)
            if len(row.terms) == 0:
                raise ModelError(f"row {row.key!r} is empty")
            try:
                indices.extend(index for index, _ in row.terms)
            except TypeError:
                raise ModelError("a row has a column index that is not an integer") from None
            values.extend(value for _, value in row.terms)
            starts.append(self.n_nonzeros + len(indices))
        row_keys = (*self.row_keys, *keys)
        _all_different(row_keys, "row")
        longer = dataclasses.replace(
            self,
            starts=np.r_[self.starts[:-1], np.array(starts, dtype=np.int64)],
            indices=np.r_[self.indices, np.array(indices, dtype=np.int64)],
            values=np.r_[self.values, np.array(values, dtype=float)],
            row_lower=np.r_[self.row_lower, np.array(row_lower, dtype=float)],
            row_upper=np.r_[self.row_upper, np.array(row_upper, dtype=float)],
            row_keys=row_keys,
        )
        _check_entries(longer)
        return longer


def build_model(columns: Sequence[Column], rows: Iterable[Row]) -> Model:
    """Arrays from columns and rows; raises ModelError rather than mend or drop anything."""
    column_keys = tuple(column.key for column in columns)
    _all_different(column_keys, "column")
    cost = np.array([column.cost for column in columns], dtype=float)
    lower = np.array([column.lower for column in columns], dtype=float)
    upper = np.array([column.upper for column in columns], dtype=float)
    _check_columns(column_keys, cost, lower, upper)

    nothing = np.zeros(0)
    without_rows = Model(
        cost=cost,
        lower=lower,
        upper=upper,
        integer=np.array([column.integer for column in columns], dtype=bool),
        starts=np.zeros(1, dtype=np.int64),
        indices=nothing.astype(np.int64),
        values=nothing,
        row_lower=nothing,
        row_upper=nothing,
        column_keys=column_keys,
        row_keys=(),
    )
    return without_rows.with_rows(rows)


def _all_different(keys: Sequence[Key], what: str) -> None:
    if len(set(keys)) == len(keys):
        return
    seen: set[Key] = set()
    for key in keys:
        if key in seen:
            raise ModelError(f"{what} {key!r} is defined twice")
        seen.add(key)


def _check_columns(keys: Sequence[Key], cost: Floats, lower: Floats, upper: Floats) -> None:
    bad_cost = _first(~np.isfinite(cost))
    if bad_cost is not None:
        raise ModelError(f"column {keys[bad_cost]!r} has cost {cost[bad_cost]}")
    # Written so that NaN fails: every comparison with NaN is false.
    bad_bounds = _first(~((lower <= upper) & (lower < inf) & (upper > -inf)))
    if bad_bounds is not None:
        raise ModelError(f"column {keys[bad_bounds]!r} has bounds [{lower[bad_bounds]}, {upper[bad_bounds]}]")


def _row_bounds(row: Row) -> tuple[float, float]:
    if not np.isfinite(row.rhs):
        raise ModelError(f"row {row.key!r} has right-hand side {row.rhs}")
    if row.sense == "<=":
        return -inf, row.rhs
    if row.sense == ">=":
        return row.rhs, inf
    if row.sense == "==":
        return row.rhs, row.rhs
    raise ModelError(f"row {row.key!r} has sense {row.sense!r}; it must be one of <=, ==, >=")


def _check_entries(model: Model) -> None:
    rows, columns = model.entry_rows, model.indices
    bad = _first((columns < 0) | (columns >= model.n_columns))
    if bad is not None:
        raise ModelError(
            f"row {model.row_keys[rows[bad]]!r} uses column index {columns[bad]}; there are {model.n_columns} columns"
        )
    bad = _first(~np.isfinite(model.values))
    if bad is not None:
        raise ModelError(
            f"row {model.row_keys[rows[bad]]!r} has coefficient {model.values[bad]} "
            f"on column {model.column_keys[columns[bad]]!r}"
        )
    order = np.lexsort((columns, rows))
    same_cell = (np.diff(rows[order]) == 0) & (np.diff(columns[order]) == 0)
    bad = _first(same_cell)
    if bad is not None:
        cell = order[bad]
        raise ModelError(f"row {model.row_keys[rows[cell]]!r} repeats column {model.column_keys[columns[cell]]!r}")


def _first(mask: NDArray[Any]) -> int | None:
    return int(np.argmax(mask)) if mask.any() else None
