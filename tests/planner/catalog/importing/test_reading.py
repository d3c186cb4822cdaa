"""Price files that are damaged, cut off or of another kind; and JSON that comes in parts."""

from __future__ import annotations

import gzip
import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from planner.catalog.importing import files as reading
from planner.catalog.importing.importing import import_prices
from planner.io import json_members
from planner.io.errors import InputError
from tests.support import price_files as files
from tests.support.rows import for_each

GOOD = "p5.48xlarge,H100,8,60,20,eu-west-3,a"


def complaint(path: Path, source: str, **options: Any) -> str:
    with pytest.raises(InputError) as error:
        import_prices(path, source, **options)
    return str(error.value)


@for_each(
    ("row", "message"),
    [
        ("p5.48xlarge,H100,8,sixty,20,eu-west-3,a", "vms.csv:3: Price: expected a price in USD, got 'sixty'"),
        ("p5.48xlarge,H100,8,-1,20,eu-west-3,a", "vms.csv:3: Price: expected a price in USD, got '-1'"),
        ("p5.48xlarge,H100,8,60,nan,eu-west-3,a", "vms.csv:3: SpotPrice: expected a price in USD, got 'nan'"),
        ("p5.48xlarge,H100,8,1e999,2,eu-west-3,a", "vms.csv:3: Price: expected a price in USD, got '1e999'"),
        ("p5.48xlarge,H100,many,60,20,eu-west-3,a", "vms.csv:3: AcceleratorCount: expected a number, got 'many'"),
    ],
)
def test_a_bad_cell_is_named_by_file_row_and_column(tmp_path: Path, row: str, message: str) -> None:
    assert message in complaint(files.skypilot(tmp_path, "aws", GOOD, row), "skypilot")


def test_all_bad_rows_are_reported_at_once(tmp_path: Path) -> None:
    rows = [f"p5.48xlarge,H100,8,bad{k},,eu-west-3,a" for k in range(3)]
    with pytest.raises(InputError) as error:
        import_prices(files.skypilot(tmp_path, "aws", *rows), "skypilot")
    assert [d.line for d in error.value.diagnostics] == [2, 3, 4]


def test_bad_rows_of_regions_that_nobody_asked_for_do_not_matter(tmp_path: Path) -> None:
    file = files.skypilot(tmp_path, "aws", GOOD, "p5.48xlarge,H100,8,bad,,us-east-1,a")
    assert len(import_prices(file, "skypilot", regions=["eu-west-3"]).offers) == 1


def test_a_row_with_a_cell_too_few_is_no_row(tmp_path: Path) -> None:
    file = files.skypilot(tmp_path, "aws", GOOD)
    file.write_text(file.read_text() + "p5.48xlarge,H100,8\n", encoding="utf-8")
    assert "vms.csv:3: row: has 3 cells, but the first row names 10 columns" in complaint(file, "skypilot")


def test_an_open_quote_or_another_table_is_refused(tmp_path: Path) -> None:
    file = files.skypilot(tmp_path, "aws", GOOD)
    file.write_text(file.read_text() + '"p5.48xlarge,H100\n', encoding="utf-8")
    assert "is not CSV here" in complaint(file, "skypilot")
    file.write_text("a,b\n1,2\n", encoding="utf-8")
    assert "vms.csv:1: has no column 'InstanceType'" in complaint(file, "skypilot")
    file.write_text("", encoding="utf-8")
    assert "has no column" in complaint(file, "gpuhunt")


def test_damaged_archives_and_binary_files_are_refused(tmp_path: Path) -> None:
    packed = gzip.compress(("\n".join([files.GPUHUNT_HEAD] + ["x" * 5000] * 50)).encode())
    (tmp_path / "aws.csv.gz").write_bytes(packed[: len(packed) // 2])
    assert "cut off or damaged" in complaint(tmp_path / "aws.csv.gz", "gpuhunt")
    (tmp_path / "aws.csv").write_bytes(b"\xff\xfe\x00\x01" * 100)
    assert "is not UTF-8 text" in complaint(tmp_path / "aws.csv", "gpuhunt")
    (tmp_path / "bill.parquet").write_bytes(b"PAR1" + b"\x00" * 100)
    assert "is a Parquet file. Export it as CSV" in complaint(tmp_path / "bill.parquet", "gpuhunt")
    assert "cannot be read as Parquet" in complaint(tmp_path / "bill.parquet", "focus")


@for_each("source", ["aws-price-list", "azure-retail"])
@for_each(
    ("text", "message"),
    [
        ('{"a": 1,\n "Items": [{"x": 1},\n {"x"', ":3: is cut off here"),
        ('{"a": 1,\n "b": wrong}', ":2: is not JSON here"),
        ('{"a": 1} {"b": 2}', "something follows the end"),
        ('{"a": 1,, "b": 2}', "expected a name in quotes"),
        ("{}", "is not a"),
        ("[" * 100_000, "nested too deeply"),
    ],
)
def test_json_that_is_none_or_of_another_kind_is_refused(tmp_path: Path, source: str, text: str, message: str) -> None:
    (tmp_path / "p.json").write_text(text, encoding="utf-8")
    assert message in complaint(tmp_path / "p.json", source)


def test_azure_items_name_their_line(tmp_path: Path) -> None:
    sku = "Standard_ND96isr_H100_v5"
    page = files.azure_page(tmp_path / "page.json", files.azure_item(sku, 98.0, currencyCode="EUR"))
    assert "currencyCode: prices are in 'EUR'. Fetch them with currencyCode='USD'" in complaint(page, "azure-retail")
    page = files.azure_page(tmp_path / "page.json", {"type": "Consumption"})
    assert "an item has no armRegionName" in complaint(page, "azure-retail")
    page = files.azure_page(tmp_path / "page.json", files.azure_item(sku, 98.0), files.azure_item(sku, "much"))  # type: ignore[arg-type]
    line = next(k for k, text in enumerate(page.read_text().splitlines(), 1) if "currencyCode" in text and k > 10)
    assert f"page.json:{line - 1}: retailPrice: expected a price in USD, got 'much'" in complaint(page, "azure-retail")


def test_regions_and_folders_without_prices_are_named(tmp_path: Path) -> None:
    file = files.skypilot(tmp_path, "aws", GOOD)
    message = complaint(file, "skypilot", regions=["eu-west3"])
    assert (
        "--regions: " in message and "has no price for 'eu-west3'" in message and "Did you mean 'eu-west-3'?" in message
    )
    assert "has no price of a GPU instance" in complaint(file, "skypilot", gpus=["l4"])
    assert "holds no price files (*.json or *.json.gz)" in complaint(tmp_path, "azure-retail")
    assert "there is no such file or folder" in complaint(tmp_path / "nothing", "focus")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=4),
    max_leaves=25,
)


@given(document=JSON, indent=st.none() | st.just(1), chunk=st.integers(1, 9), depth=st.integers(0, 3))
@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_json_in_parts_is_the_whole_whatever_the_window(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, document: Any, indent: int | None, chunk: int, depth: int
) -> None:
    file = tmp_path / "any.json"
    file.write_text(json.dumps(document, indent=indent), encoding="utf-8")
    monkeypatch.setattr(json_members, "CHUNK", chunk)
    parts = {path: value for path, _, value in reading.members_of(file, lambda path: len(path) < depth)}
    assert parts == dict(leaves(document, (), depth))


def leaves(value: Any, path: tuple[str | int, ...], depth: int) -> Any:
    """The naive walk over a whole document."""
    if depth and isinstance(value, dict | list):
        for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
            yield from leaves(inner, (*path, key), depth - 1)
    else:
        yield path, value


def test_one_huge_member_is_refused_and_many_small_ones_are_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(json_members, "CHUNK", 100)
    monkeypatch.setattr(json_members, "MOST_CHARACTERS", 1000)
    file = tmp_path / "big.json"
    file.write_text(json.dumps(["x" * 50] * 500), encoding="utf-8")
    assert sum(1 for _ in reading.members_of(file, lambda path: not path)) == 500
    file.write_text(json.dumps(["x" * 50_000]), encoding="utf-8")
    with pytest.raises(InputError, match="holds a member of more than"):
        list(reading.members_of(file, lambda path: not path))


@pytest.mark.parametrize("row", ["x" * 3000, '"' + "x\n" * 2000, '"x\n",' * 900])
def test_a_row_without_an_end_is_refused_before_it_fills_the_memory(
    row: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "LONGEST_RECORD", 2000)
    file = files.skypilot(tmp_path, "aws", GOOD)
    file.write_text(file.read_text() + row)
    assert re.search(r"csv:\d+: has a row of more than 0.002 MB", complaint(file, "skypilot"))
