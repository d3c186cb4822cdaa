"""Draw the picture of the README: the explore page of the quickstart, in a real browser.

    python benchmarks/picture.py --journal quickstart.jsonl

Plans about ninety settings (minutes), or takes them from the journal; writes docs/explore.png.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import planner
from solvers.search.fleet_solution import Options
from tests.support.browser import browser
from tests.support.places import ROOT

WIDTH, HEIGHT = 1180, 1000
MOVED = (
    "explore.set('demand', 1.414); document.getElementById('pin').click();"
    "explore.set('demand', 1); explore.set('gpu-prices', 0.7492)"
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--journal", type=Path)
    asked = parser.parse_args()
    options = Options(gap_frac=0.01, time_limit_s=60.0)
    source = ROOT / "examples" / "quickstart.yaml"
    study = planner.explore(source, detail="few", options=options, journal=asked.journal)
    with tempfile.TemporaryDirectory() as folder, browser() as page:
        page.open(study.save(Path(folder) / "explore.html"), WIDTH, HEIGHT)
        page.js(MOVED)
        page.screenshot(ROOT / "docs" / "explore.png", HEIGHT)


if __name__ == "__main__":
    main()
