"""Write anew everything that tests compare with: `python tests/refresh.py`, then read the diff.

Golden plans, the README's output, the JSON schema, the rules of thumb, and the golden rows.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import rules_of_thumb
from golden_plans import EXAMPLES, ROOT, as_text, digest, golden_file

import planner
from planner.reports.terminal import render
from planner.starter import make_demand_schema

README_BLOCK = re.compile(r"(<!-- output of: fleetplan plan (\S+) -->\n```text\n)(.*?)(```\n)", re.DOTALL)


def readme_output(example: str) -> str:
    """The headline and the fleet, as the README shows them."""
    plan = planner.plan_fleet(planner.load_case(ROOT / example))
    return "\n\n".join(render(plan).split("\n\n")[:2]) + "\n"


def main() -> None:
    for example in EXAMPLES:
        target = golden_file(example)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(as_text(digest(planner.plan_fleet(planner.load_case(example)))), encoding="utf-8")
    readme = ROOT / "README.md"
    text = README_BLOCK.sub(lambda m: m[1] + readme_output(m[2]) + m[4], readme.read_text(encoding="utf-8"))
    readme.write_text(text, encoding="utf-8")
    (ROOT / "planner" / "data" / "demand.schema.json").write_text(make_demand_schema(), encoding="utf-8")
    rules = rules_of_thumb.PAGE
    rules.write_text(rules_of_thumb.page(rules.read_text(encoding="utf-8")), encoding="utf-8")
    rows = [sys.executable, "-m", "pytest", "-q", "tests/test_fleet_rows.py"]
    subprocess.run(rows, cwd=ROOT, env=os.environ | {"REFRESH_GOLDEN_ROWS": "1"}, check=False)


if __name__ == "__main__":
    main()
