"""How wide the ranges of an explore page are, and whether what is planned afterwards lies in them.

    python benchmarks/explore.py examples/budgets.yaml examples/two-models.yaml --settings 200 --jobs 2

Two sliders at random places, as a real browser shows them; of the settings asked for, `--planned` are planned anew.
Both the settings of the page and those planned anew are kept in the temporary folder, so that a second call resumes.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import tempfile
from pathlib import Path
from statistics import median

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import planner
from planner.studies.overrides import Source
from solvers.search.fleet_solution import Options
from tests.planner.studies.test_explore import assert_inside, planned_as, random_setting
from tests.support.browser import browser

FIGURES = ("cost_usd_per_month", "penalty_usd_per_month", "bound_usd_per_month", "status")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+")
    parser.add_argument("--settings", type=int, default=200)
    parser.add_argument("--planned", type=int, default=200)
    parser.add_argument("--detail", default="normal")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    executor = "in-process" if asked.jobs == 1 else f"processes:{asked.jobs}"
    options = Options(gap_frac=0.01, time_limit_s=60.0)
    for file in asked.files:
        journal = Path(tempfile.gettempdir()) / f"explore-{Path(file).stem}-{asked.detail}.jsonl"
        study = planner.explore(
            Source(file), detail=asked.detail, options=options, executor=executor, journal=journal, on_done=_told
        )
        page_file = study.save(journal.with_suffix(".html"))
        print(f"\n{file}: {len(study.points)} settings planned, page of {page_file.stat().st_size:,} bytes")
        chance, widths, none, open_above = random.Random(asked.seed), [], 0, 0
        kept = journal.with_suffix(".planned.jsonl")
        planned = dict(map(json.loads, kept.read_text(encoding="utf-8").splitlines())) if kept.exists() else {}
        with browser() as page:
            page.open(page_file, 1280)
            for k in range(asked.settings):
                setting = random_setting(page, chance)
                found = page.js(f"(b => [b.none, b.low, b.high])(explore.bracket({json.dumps(setting)}))")
                command = page.js(f"explore.command({json.dumps(setting)})")
                if k < asked.planned:
                    if command not in planned:
                        row = planned_as(command, study)
                        planned[command] = {name: row[name] for name in FIGURES}
                        with kept.open("a", encoding="utf-8") as lines:
                            lines.write(json.dumps([command, planned[command]]) + "\n")
                    assert_inside(found, command, planned[command])
                if found[0]:
                    none += 1
                elif found[2] is None:
                    open_above += 1
                else:
                    widths.append(1 - found[1] / found[2] if found[2] else 0.0)
        widths.sort()
        print(
            f"  {len(widths)} ranges: median width {median(widths):.1%}, "
            f"90% within {widths[int(0.9 * len(widths))]:.1%}, "
            f"widest {widths[-1]:.1%}; proved impossible: {none}; without an upper side: {open_above}; "
            f"{min(asked.planned, asked.settings)} planned afterwards, all inside"
        )


def _told(done: int, total: int) -> None:
    print(f"\r{done} of {total}", end="", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
