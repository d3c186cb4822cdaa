"""One test for a property of many rows: it fails with every row that lacks the property, and why."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.support import costs

Test = Callable[..., None]


def for_each(names: str | tuple[str, ...], rows: Iterable[Any]) -> Callable[[Test], Test]:
    """Like `pytest.mark.parametrize`, but all rows are one test: `@for_each("seed", range(60))`.

    They share the fixtures, but each has its own folder, its own patches, and to itself what it printed. Where all of
    them cost too much for the usual run, as many run as it pays for, spread over all (tests/support/costs.py).
    """
    keys = (names,) if isinstance(names, str) else names
    values = [(row,) if isinstance(names, str) else tuple(row) for row in rows]

    def decorated(check: Test) -> Test:
        @functools.wraps(check)
        def test(**fixtures: Any) -> None:
            assert values, "there are no rows"
            some = costs.affordable(test, values)
            offenders, skipped = [], []
            for number, row in enumerate(some):
                try:
                    with _of_a_row(fixtures, number) as own:
                        check(**dict(zip(keys, row, strict=True)), **own)
                except pytest.skip.Exception as skip:
                    skipped.append(str(skip))
                except (Exception, pytest.fail.Exception) as error:
                    offenders.append(f"{', '.join(map(_short, row))}: {type(error).__name__}: {error}")
            if offenders:
                pytest.fail("\n".join([f"{len(offenders)} of {len(some)} rows:", *offenders]), pytrace=False)
            if len(skipped) == len(some):
                pytest.skip(skipped[0])

        signature = inspect.signature(check)
        fixtures = [p for p in signature.parameters.values() if p.name not in keys]
        test.__signature__ = signature.replace(parameters=fixtures)  # type: ignore[attr-defined]
        test.rows = len(values) * getattr(check, "rows", 1)  # type: ignore[attr-defined]
        return test

    return decorated


def _short(value: object) -> str:
    text = str(value)
    return text if len(text) <= 100 else f"{text[:97]}..."


@contextmanager
def _of_a_row(fixtures: dict[str, Any], number: int) -> Iterator[dict[str, Any]]:
    """The fixtures of a test, of which those that remember what a row did are as new."""
    own = dict(fixtures)
    with ExitStack() as stack:
        if isinstance(fixtures.get("tmp_path"), Path):
            own["tmp_path"] = fixtures["tmp_path"] / f"row-{number}"
            own["tmp_path"].mkdir(exist_ok=True)
        if "monkeypatch" in fixtures:
            own["monkeypatch"] = stack.enter_context(fixtures["monkeypatch"].context())
        if "capsys" in fixtures:
            fixtures["capsys"].readouterr()
        yield own
