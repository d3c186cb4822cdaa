"""A test of many rows fails with each row that lacks the property, and with no other."""

from __future__ import annotations

import inspect
import os
from pathlib import Path

import pytest

from tests.support.rows import for_each


def test_every_offender_is_listed_with_its_reason() -> None:
    @for_each("number", [2, 3, 4, 5, 0])
    def even(number: int) -> None:
        assert 12 % number in (0, 1), "is no divisor"
        assert number % 2 == 0, f"{number} is odd"

    with pytest.raises(pytest.fail.Exception) as failed:
        even()
    head, *lines = str(failed.value).splitlines()
    assert head == "3 of 5 rows:"
    assert [line for line in lines if line.startswith(("3: ", "5: ", "0: "))] == [
        "3: AssertionError: 3 is odd",
        "5: AssertionError: is no divisor",
        "0: ZeroDivisionError: integer modulo by zero",
    ]


def test_a_row_that_raises_nothing_where_it_should_is_an_offender() -> None:
    @for_each(("text", "base"), [("x", 10), ("7", 10), ("8", 8)])
    def is_refused(text: str, base: int) -> None:
        with pytest.raises(ValueError):
            int(text, base)

    with pytest.raises(pytest.fail.Exception, match=r"1 of 3 rows:\n7, 10: Failed: DID NOT RAISE"):
        is_refused()


def test_no_rows_are_no_success() -> None:
    with pytest.raises(AssertionError, match="there are no rows"):
        for_each("row", [])(lambda row: None)()


def test_what_is_no_row_is_a_fixture_and_each_row_has_a_folder_and_patches_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    @for_each("name", ["a", "b"])
    def writes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
        assert "PATCHED" not in os.environ and list(tmp_path.iterdir()) == []
        monkeypatch.setenv("PATCHED", name)
        (tmp_path / name).touch()

    assert list(inspect.signature(writes).parameters) == ["tmp_path", "monkeypatch"]
    writes(tmp_path=tmp_path, monkeypatch=monkeypatch)
    assert sorted(path.name for path in tmp_path.glob("*/*")) == ["a", "b"]


def test_rows_that_are_skipped_hide_no_others() -> None:
    @for_each("number", [1, 2, 3])
    def odd(number: int) -> None:
        if number == 1:
            pytest.skip("one is left out")
        assert number % 2

    with pytest.raises(pytest.fail.Exception, match="1 of 3 rows:\n2: "):
        odd()
    with pytest.raises(pytest.skip.Exception, match="one is left out"):
        for_each("number", [1])(lambda number: pytest.skip("one is left out"))()
