"""Price files with something wrong anywhere: offers or a clear error, never a crash, and no price out of nothing."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from planner.case.demand.overrides import own_offers
from planner.catalog.importing.importing import catalog_text, import_prices
from planner.io.errors import InputError
from planner.io.strict_yaml import parse_yaml
from tests.planner.catalog.importing.test_sources import aws_file, savings_plans
from tests.support import price_files as files

ODD = st.sampled_from([None, "", 0, -1, 1e400, "nan", "x", "Ünïcode\x07", [], [1], {}, {"a": 1}, True, "55"])
QUICK = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def paths(value: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    if path:
        yield path
    if isinstance(value, dict | list):
        for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
            yield from paths(inner, (*path, key))


def holds_or_says_why(file: Path, source: str) -> None:
    """What is imported can be read back, and its prices are positive."""
    try:
        imported = import_prices(file, source)
        text = catalog_text(imported, source)
    except InputError as error:
        assert str(error)
        return
    assert own_offers(parse_yaml(text)).keys() == imported.offers.keys()
    for offer in imported.offers.values():
        assert all(price.usd_per_h > 0 for price in offer.prices.reserved().values())


@pytest.fixture(scope="module")
def documents(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("whole")
    sku = "Standard_ND96isr_H100_v5"
    page = files.azure_page(
        folder / "page.json",
        files.azure_item(sku, 98.0, savingsPlan=[{"term": "1 Year", "retailPrice": 70.0}]),
        files.azure_item(sku, 525600.0, type="Reservation", reservationTerm="1 Year"),
    )
    found = {"ec2": aws_file(folder), "plans": savings_plans(folder / "plans.json"), "azure": page}
    return {name: json.loads(file.read_text(encoding="utf-8")) for name, file in found.items()}


@pytest.mark.parametrize(
    ("name", "source"), [("ec2", "aws-price-list"), ("plans", "aws-price-list"), ("azure", "azure-retail")]
)
@given(data=st.data())
@QUICK
def test_json_with_a_wrong_value_anywhere(
    documents: dict[str, Any], tmp_path: Path, name: str, source: str, data: st.DataObject
) -> None:
    damaged = copy.deepcopy(documents[name])
    path = data.draw(st.sampled_from(list(paths(damaged))))
    inner = damaged
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = data.draw(ODD)
    file = tmp_path / "damaged.json"
    file.write_text(json.dumps(damaged), encoding="utf-8")
    holds_or_says_why(file, source)


CELL = st.sampled_from(["", "0", "-1", "nan", "inf", "1e400", "x", "\x07", "9999999", "0.5", "{}", "[1]", '"', "é"])


@pytest.mark.parametrize("source", ["skypilot", "gpuhunt", "focus"])
@given(column=st.integers(0, 15), row=st.integers(0, 2), cell=CELL)
@QUICK
def test_tables_with_a_wrong_cell_anywhere(tmp_path: Path, source: str, column: int, row: int, cell: str) -> None:
    if source == "skypilot":
        file = files.skypilot(tmp_path, "gcp", ",H100,8,78,47,us-west4,a", "a3-highgpu-8g,,,9.5,5.5,us-west4,a")
        files.skypilot(tmp_path, "oci", "new,H100,8,60,20,eu,a", "new,H100,8,60,21,eu,b")
    elif source == "gpuhunt":
        file = files.gpuhunt(tmp_path / "oci.csv", "new,eu,60,8,H100,80,False", "new,eu,20,8,H100,80,True")
    else:
        file = files.focus(tmp_path / "bill.csv", *(files.focus_row("p5.48xlarge"),) * 2)
    for path in tmp_path.rglob("*.csv"):
        lines = [line.split(",") for line in path.read_text(encoding="utf-8").splitlines()]
        lines[row][column % len(lines[row])] = cell
        path.write_text("\n".join(map(",".join, lines)) + "\n", encoding="utf-8")
    holds_or_says_why(tmp_path if source == "skypilot" else file, source)
