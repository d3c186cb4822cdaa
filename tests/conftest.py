"""What all tests share. None fails because the machine was busy, or because it was started in the background."""

from __future__ import annotations

import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterator

import pytest
from hypothesis import settings

from tests.support import costs
from tests.support.browser import Page, browser
from tests.support.command_line import Command
from tests.support.shared_plans import SHARED

settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")

BEGAN = "FLEETPLAN_TESTS_BEGAN"
"""when this run began, for its workers"""

os.environ["FLEETPLAN_VERIFY"] = "0"  # a sample takes seconds; those who test it ask for it
os.environ["FLEETPLAN_PROGRESS_S"] = "inf"  # lines of progress come by the clock
# Commands and solvers are started hundreds of times, in half the time where modules are kept compiled.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:  # as a shell starts its background jobs, which pass it on
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--depth",
        choices=costs.DEPTHS,
        default="usual",
        help="by what tests cost (tests/costs.txt): quick ones, the usual ones, the deep ones with every seed, or all",
    )
    parser.addoption("--slice", metavar="K/N", help="every N-th test file from the K-th on, such as 3/10")
    parser.addoption("--minutes", type=float, help="skip what has not begun by then")
    parser.addoption("--write-costs", action="store_true", help="measure what runs, and write tests/costs.txt")


def pytest_configure(config: pytest.Config) -> None:
    """A folder for what is made once in a run (tests/support/shared_plans.py), of this process and of its workers."""
    costs.Depth.of_this_run = config.getoption("depth")
    if config.getoption("write_costs") and costs.Depth.of_this_run != "all":
        raise pytest.UsageError("--write-costs measures tests with all of their rows: add --depth all")
    if SHARED not in os.environ:
        folder = os.environ[SHARED] = tempfile.mkdtemp(prefix="fleetplan-tests-")
        os.environ[BEGAN] = str(time.time())

        def gone() -> None:
            del os.environ[SHARED]
            shutil.rmtree(folder, ignore_errors=True)

        config.add_cleanup(gone)
    if config.getoption("write_costs"):
        config.pluginmanager.register(costs.Recorder(config))
    if config.getoption("minutes") is not None:
        config.pluginmanager.register(costs.Until(config.getoption("minutes"), float(os.environ[BEGAN])))


@pytest.hookimpl(tryfirst=True)  # before those that `-m` does not ask for are left out
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for item in items:
        if "page" in getattr(item, "fixturenames", ()):
            item.add_marker("browser")
    wanted = [item for item in items if costs.is_wanted(item, config.getoption("depth"))]
    if config.getoption("slice"):
        first, of = map(int, config.getoption("slice").split("/"))
        files = sorted({item.path for item in wanted})
        chosen = {file for number, file in enumerate(files) if number % of == first % of}
        wanted = [item for item in wanted if item.path in chosen]
    kept = set(wanted)
    config.hook.pytest_deselected(items=[item for item in items if item not in kept])
    items[:] = wanted


@pytest.fixture(scope="session")
def page() -> Iterator[Page]:
    with browser() as page:
        yield page


@pytest.fixture
def fleetplan(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    return Command(monkeypatch, capsys)
