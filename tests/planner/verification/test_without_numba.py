"""Plans are made where numba is not installed."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.support.places import ROOT

pytestmark = pytest.mark.process

WITHOUT_NUMBA = "import sys; sys.modules['numba'] = None; import planner, planner.cli; print(planner.__name__)"


def test_planner_does_without_numba() -> None:
    done = subprocess.run([sys.executable, "-P", "-c", WITHOUT_NUMBA], cwd=ROOT, env={"PYTHONPATH": str(ROOT)},
                          capture_output=True, text=True, check=False)  # fmt: skip
    assert done.stdout.strip() == "planner", done.stderr
