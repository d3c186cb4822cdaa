"""What tests cost, measured, and which of them run when.

`tests/costs.txt` holds CPU seconds, those of children included, of each test that takes a tenth of one or more;
`python -m pytest -n auto --depth all --write-costs` measures them anew. What tests share, such as the plan of a module,
is spread over those who use it.
"""

from __future__ import annotations

import inspect
import os
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.support.places import ROOT, TESTS

FILE = TESTS / "costs.txt"
HEAD = "# CPU seconds of tests, by python -m pytest -n auto --depth all --write-costs\n"
DEPTHS = ("quick", "usual", "deep", "all")
QUICK_S = 0.1
"""more than this is not for every change of a line"""
USUAL_S = 0.5
"""more than this is deep"""
ELSEWHERE = ("process", "browser")
"""marks of tests whose work is done by processes that they do not wait for: deep, whatever was measured"""


def _read() -> dict[str, float]:
    if not FILE.exists():
        return {}
    lines = (line.split(maxsplit=1) for line in FILE.read_text(encoding="utf-8").splitlines() if line[:1].isdigit())
    return {name: float(seconds) for seconds, name in lines}


COSTS = _read()


class Depth:
    """How much of the suite runs: set once, by tests/conftest.py."""

    of_this_run = "usual"


def name_of(test: Callable[..., Any]) -> str:
    code = inspect.unwrap(test).__code__
    file = Path(code.co_filename)
    return f"{file.relative_to(ROOT).as_posix() if file.is_relative_to(ROOT) else file.name}::{code.co_name}"


def affordable(test: Callable[..., Any], rows: Sequence[Any]) -> list[Any]:
    """As many rows of a test as cost half a second, the first and the last among them."""
    cost = COSTS.get(name_of(test), 0.0)
    if Depth.of_this_run in ("deep", "all") or cost <= USUAL_S:
        return list(rows)
    number = max(1, int(len(rows) * USUAL_S / cost))
    return [rows[round(i * (len(rows) - 1) / max(1, number - 1))] for i in range(number)]


def is_wanted(item: pytest.Item, depth: str) -> bool:
    """Whether a test runs at this depth: `deep` is what `usual` leaves out, rows included."""
    if depth == "all":
        return True
    test = getattr(item, "function", None)
    cost = COSTS.get(item.nodeid.split("[")[0], 0.0)
    rows = getattr(test, "rows", 1)
    smoke = item.get_closest_marker("smoke") is not None
    elsewhere = any(item.get_closest_marker(mark) for mark in ELSEWHERE)
    usual = smoke or (cost / rows <= USUAL_S and not elsewhere)
    if depth == "deep":
        return not usual or (rows > 1 and cost > USUAL_S)
    return usual and (depth == "usual" or (cost <= QUICK_S and not elsewhere))


def cpu_s() -> float:
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


class Meter:
    """CPU seconds of what tests share, apart from those of the test that came first."""

    def __init__(self) -> None:
        self.shared: defaultdict[str, float] = defaultdict(float)
        self.uses: set[str] = set()
        self.within: dict[str, set[str]] = defaultdict(set)
        self._open: list[tuple[str, float]] = []

    @contextmanager
    def of(self, key: str) -> Iterator[None]:
        """What is made within is `key`, and whoever asks for it uses it."""
        if self._open:
            self.within[self._open[-1][0]].add(key)
        else:
            self.uses.add(key)
        before, known = cpu_s(), sum(self.shared.values())
        self._open.append((key, before))
        try:
            yield
        finally:
            self._open.pop()
            self.shared[key] += cpu_s() - before - (sum(self.shared.values()) - known)

    def reading(self) -> dict[str, Any]:
        """What was seen since the last reading, as plain data."""
        seen = {"shared": dict(self.shared), "uses": sorted(self.uses),
                "within": {key: sorted(parts) for key, parts in self.within.items()}}  # fmt: skip
        self.shared.clear()
        self.uses.clear()
        self.within.clear()
        return seen


METER = Meter()


class Recorder:
    """Measures each test in the process that runs it, adds up in the one that started it, and writes the file."""

    def __init__(self, config: pytest.Config) -> None:
        self.config = config
        self.began = cpu_s()
        self.own: defaultdict[str, float] = defaultdict(float)
        self.shared: defaultdict[str, float] = defaultdict(float)
        self.users: defaultdict[str, set[str]] = defaultdict(set)
        self.within: defaultdict[str, set[str]] = defaultdict(set)

    @pytest.hookimpl(hookwrapper=True)
    def pytest_fixture_setup(self, fixturedef: Any) -> Iterator[None]:
        if fixturedef.scope == "function":
            yield
        else:
            with METER.of(f"fixture {fixturedef.baseid}::{fixturedef.argname}"):
                yield

    def pytest_runtest_logstart(self) -> None:
        self.began = cpu_s()

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[None]:
        outcome: Any = yield
        if call.when == "teardown":
            seen = METER.reading()
            seen["own"] = cpu_s() - self.began - sum(seen["shared"].values())
            definitions = item._fixtureinfo.name2fixturedefs.values()
            seen["uses"] += [
                f"fixture {d[-1].baseid}::{d[-1].argname}" for d in definitions if d[-1].scope != "function"
            ]
            outcome.get_result().costs = seen

    def pytest_runtest_logreport(self, report: Any) -> None:
        seen = getattr(report, "costs", None)
        if seen is None or hasattr(self.config, "workerinput"):
            return
        test, case = report.nodeid.split("[")[0], report.nodeid
        self.own[case] += seen["own"]
        for key, seconds in seen["shared"].items():
            self.shared[key] = max(self.shared[key], seconds)
        for key in seen["uses"]:
            self.users[key].add(test)
        for key, parts in seen["within"].items():
            self.within[key] |= set(parts)

    def pytest_sessionfinish(self) -> None:
        if hasattr(self.config, "workerinput") or not self.own:
            return
        found: defaultdict[str, float] = defaultdict(float)
        for case, seconds in self.own.items():
            test = case.split("[")[0]
            found[test] = max(found[test], seconds)
        for key, seconds in self.shared.items():
            users = set(self.users[key])
            for whole, parts in self.within.items():
                if key in parts:
                    users |= self.users[whole]
            for test in users:
                found[test] += seconds / len(users)
        kept = {test: s for test, s in COSTS.items() if test not in found and (ROOT / test.split("::")[0]).exists()}
        rows = sorted((test, s) for test, s in {**kept, **found}.items() if s >= QUICK_S)
        FILE.write_text(HEAD + "".join(f"{s:.1f} {test}\n" for test, s in rows), encoding="utf-8")


class Until:
    """Skips what has not begun when its share of time is over."""

    def __init__(self, minutes: float, began: float) -> None:
        self.end = began + 60 * minutes

    def pytest_runtest_setup(self) -> None:
        if time.time() > self.end:
            pytest.skip("the time of this run is over")
