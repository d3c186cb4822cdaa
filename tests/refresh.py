"""Write anew everything that tests compare with: `python tests/refresh.py`, then read the diff.

Golden plans, the example of a review, output that the README and the docs show, the reference of public names, the JSON
schema, the rules of thumb, and the golden rows.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from planner.case.demand.starter import make_demand_schema
from planner.reports.review import review_document
from planner.reports.text import as_text
from planner.review.quarter import review_fleet
from planner.review.review_file import read_review
from tests.support import api_reference, bill_data, review_data, rules_of_thumb
from tests.support.golden_plans import EXAMPLES, ROOT, digest, golden_file
from tests.support.golden_plans import as_text as as_golden
from tests.support.shared_plans import example_plan
from tests.support.shown import first_screen

WHAT_IF_BLOCK = re.compile(r"(<!-- output of: fleetplan (what-if [^\n]*?) -->\n```text\n)(.*?)(```\n)", re.DOTALL)
README_BLOCK = re.compile(r"(<!-- output of: fleetplan plan (\S+) -->\n```text\n)(.*?)(```\n)", re.DOTALL)
REVIEW_BLOCK = re.compile(r"(<!-- output of: fleetplan review (\S+) -->\n```text\n)(.*?)(```\n)", re.DOTALL)
REVIEW_SHOWN = ("decisions asked for", "costs", "cost bridge")
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
API = ROOT / "docs" / "reference" / "api.md"


def review_output(example: str) -> str:
    """The headline and the tables that the guide shows."""
    first, *others = (
        as_text(review_document(review_fleet(read_review(ROOT / example)).review)).rstrip("\n").split("\n\n")
    )
    return "\n\n".join([first, *(part for part in others if part.strip().startswith(REVIEW_SHOWN))]) + "\n"


def readme_output(example: str) -> str:
    """The first screen, as the README shows it, with the sample that `plan` serves."""
    from planner.verification.quick_sample import with_sample

    return first_screen(with_sample(example_plan(example)))


def what_if_output(arguments: str) -> str:
    """What the command prints; its picture is written where the command says."""
    script = Path(sys.executable).with_name("fleetplan")
    done = subprocess.run([script, *arguments.split()], cwd=ROOT, capture_output=True, text=True, check=True)
    return done.stdout


def main() -> None:
    review_data.write_example(ROOT / "examples" / "quarterly-review")
    bill_data.write_bill(ROOT / "examples" / "quarterly-review")
    for example in EXAMPLES:
        target = golden_file(example)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(as_golden(digest(example_plan(example))), encoding="utf-8")
    for page in PAGES:
        before = page.read_text(encoding="utf-8")
        text = README_BLOCK.sub(lambda m: m[1] + readme_output(m[2]) + m[4], before)
        text = REVIEW_BLOCK.sub(lambda m: m[1] + review_output(m[2]) + m[4], text)
        text = WHAT_IF_BLOCK.sub(lambda m: m[1] + what_if_output(m[2]) + m[4], text)
        if text != before:
            page.write_text(text, encoding="utf-8")
    API.write_text(api_reference.page(), encoding="utf-8")
    (ROOT / "planner" / "data" / "demand.schema.json").write_text(make_demand_schema(), encoding="utf-8")
    rules = rules_of_thumb.PAGE
    rules.write_text(rules_of_thumb.page(rules.read_text(encoding="utf-8")), encoding="utf-8")
    rows = [sys.executable, "-m", "pytest", "-q", "tests/problems/test_fleet_rows.py"]
    subprocess.run(rows, cwd=ROOT, env=os.environ | {"REFRESH_GOLDEN_ROWS": "1"}, check=False)


if __name__ == "__main__":
    main()
