"""Golden rows: what each constraint family says about one small fleet, row by row.

The files in tests/golden/rows are named after the functions. To write them again after a change that is meant:

    REFRESH_GOLDEN_ROWS=1 python -m pytest tests/test_fleet_rows.py

and read the difference: each row must say what the docstring of its family says.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fleets import Case

from problems.fleet import FAMILIES, Fleet, Offer, Variables, define_variables, master
from problems.model import Row
from problems.recipes import Api, Deployment, Pool
from problems.staffing import Staffing

GOLDEN = Path(__file__).parent / "golden" / "rows"
Family = Callable[[Fleet, Variables], Iterator[Row]]


def small_case() -> Case:
    """Two months of one slot each.

    chat    2 and 1 replicas of 2 GPUs on duo, half of them may be spot, and an API may help (or do it all)
    batch   1 and 3 replicas of 1 GPU on duo or on solo, all of them may be spot, no API
    """
    exact = Staffing(z=0.0, arrival_scv=1.0, rate_cv=0.0, batch=8.0, min_replicas=1)
    second = np.ones(1)
    chat = Pool(
        key="chat", workloads=("chat",), rate_rps=np.array([[2.0], [1.0]]), critical_share=0.5, spot_allowed=True,
        deployments=(Deployment("chat on duo", "duo", 2, second, exact),),
        apis=(Api("api", np.array([0.0005])),),
    )  # fmt: skip
    batch = Pool(
        key="batch", workloads=("batch",), rate_rps=np.array([[1.0], [3.0]]), critical_share=0.0, spot_allowed=True,
        deployments=(
            Deployment("batch on duo", "duo", 1, second, exact),
            Deployment("batch on solo", "solo", 1, second, exact),
        ),
        apis=(),
    )  # fmt: skip
    duo = Offer("duo", "h100", 2, 4.0, 1.5, {"1y": 3.0}, max_instances=5)
    solo = Offer("solo", "h100", 1, on_demand_usd_per_h=2.5)
    return Case(
        pools=(chat, batch),
        offers={"duo": duo, "solo": solo},
        slot_hours=np.array([730.0, 730.0]),
        slot_month=np.array([0, 1]),
        max_gpus={"h100": 12},
        budget_usd_per_month=20_000.0,
        team_usd_per_month=5_000.0,
    )


def rows_as_data(family: Family, fleet: Fleet) -> list[dict[str, Any]]:
    v = define_variables(fleet)
    return [
        {
            "row": _name(row.key),
            "terms": {_name(v.columns[c].key): round(coefficient, 6) for c, coefficient in row.terms},
            "sense": row.sense,
            "rhs": round(row.rhs, 6),
        }
        for row in family(fleet, v)
    ]


def columns_as_data(fleet: Fleet) -> list[dict[str, Any]]:
    return [
        {"column": _name(c.key), "cost": round(c.cost, 6), "lower": c.lower, "upper": c.upper, "whole": c.integer}
        for c in define_variables(fleet).columns
    ]


def _name(key: tuple[Any, ...]) -> str:
    return " ".join(str(part) for part in key)


def golden(name: str, found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    path = GOLDEN / f"{name}.json"
    if os.environ.get("REFRESH_GOLDEN_ROWS"):
        lines = ",\n".join("  " + json.dumps(item) for item in found)
        path.write_text(f"[\n{lines}\n]\n" if found else "[]\n")
    assert path.exists(), f"{name} has no golden rows; see the docstring of this file"
    return json.loads(path.read_text())


@pytest.mark.parametrize("family", FAMILIES, ids=lambda f: f.__name__)
def test_rows_are_golden(family: Family) -> None:
    found = rows_as_data(family, small_case().fleet)
    assert found, "the small fleet has no row of this family: widen it"
    assert found == golden(family.__name__, found)


def test_columns_are_golden() -> None:
    found = columns_as_data(small_case().fleet)
    assert found == golden("define_variables", found)


def test_every_golden_file_belongs_to_a_family() -> None:
    assert {p.stem for p in GOLDEN.glob("*.json")} == {f.__name__ for f in FAMILIES} | {"define_variables"}


def test_every_family_says_what_it_means() -> None:
    """A true sentence, prose, an inequality with its index set, and a unit."""
    for family in FAMILIES:
        doc = family.__doc__ or ""
        assert any(sign in doc for sign in ("<=", ">=", " = ")), family.__name__
        assert "for " in doc, family.__name__
        assert doc.rstrip().endswith("]"), f"{family.__name__} names no unit"


def test_the_master_holds_every_family() -> None:
    fleet = small_case().fleet
    model, v = master(fleet)
    expected = [row.key for family in FAMILIES for row in family(fleet, v)]
    assert list(model.row_keys) == expected
    assert list(model.column_keys) == [c.key for c in v.columns]


def test_limits_that_are_not_set_make_no_rows() -> None:
    case = replace(small_case().without_limits(), team_usd_per_month=0.0)
    model, _ = master(case.fleet)
    kinds = {key[0] for key in model.row_keys}
    assert kinds == {"served", "one-serving", "in-use", "firm"}


def test_an_offer_without_spot_has_no_firm_rows() -> None:
    case = small_case()
    case = case.with_offer("duo", replace(case.offers["duo"], spot_usd_per_h=None))
    model, _ = master(case.fleet)
    assert "firm" not in {key[0] for key in model.row_keys}


def test_a_month_that_costs_nothing_keeps_any_budget() -> None:
    """No demand in the second month and only an API: the budget of that month has nothing to count."""
    idle = Pool("w", ("w",), np.array([[1.0], [0.0]]), 1.0, False, (), (Api("api", np.array([0.001])),))
    case = replace(small_case(), pools=(idle,))
    model, _ = master(case.fleet)
    assert model.objective(np.ones(model.n_columns)) == pytest.approx(0.001 * 3600 * 730 / 2)
