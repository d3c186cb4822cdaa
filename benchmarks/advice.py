"""Stop conditions: what somebody with experience would not sign without a word, and whether the first screen says it.

    python benchmarks/advice.py FOLDER_OF_DEMAND_FILES --seconds 60 --out advice.md
    python benchmarks/advice.py --saved FOLDER_OF_PLANS --out before.md

Plans every demand file of the folder, of examples/ and of examples/companies (written as by people who do not know the
tool), and scores twelve conditions, each a rule of planner/judgement over the plan: how many plans give rise to it, and
how many of these say so on the first screen of a terminal. The plans that no rule has anything against are named: look
at them as hard as at the others.

With --saved, plans that are there already, each NAME.json with NAME.txt beside it: what `fleetplan plan` printed when
it was made, also by an older version. A condition then counts as said where the first 45 lines of that have the
sentence of today, or the words in which a version before these rules mentioned it.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import planner
from planner.io.errors import InputError, OutOfTime
from planner.judgement.concern import Concern
from planner.judgement.concerns import concerns_of
from planner.plan.plan import Plan
from planner.reports.first_screen import CONCERNS_SHOWN
from planner.reports.plan import plan_document
from planner.reports.text import as_text

ROOT = Path(__file__).resolve().parent.parent
CONDITIONS = {
    "a default that binds, unpriced": ("assumed-limit",),
    "a smaller tier than asked for": ("smaller-model",),
    "a cheaper seller of the same model": ("cheaper-elsewhere",),
    "a guessed price to sign": ("guessed-price",),
    "a vendor, region or GPU below 2% of the cost": ("small-part",),
    "large boxes switched by the hour": ("scarce-capacity",),
    "one machine where two were asked for": ("one-machine",),
    "to be signed and not served": ("not-served",),
    "a promise missed in an hour": ("missed-promise", "late-prompts"),
    "requests longer than the context": ("context-exceeded",),
    "quality unproven and borrowed": ("unproven-quality", "signed-unproven"),
    "a forecast from too short a log": ("short-log",),
}
"""what an expert looks for, and the rules that find it"""


BEFORE = {
    "cheaper-elsewhere": "cheaper at an API",
    "context-exceeded": "REFUSED every month",
    "guessed-price": "assumed prices",
    "late-prompts": "late:",
    "missed-promise": "at risk:",
    "not-served": "not served yet",
    "smaller-model": "compare answers",
    "unproven-quality": "borrowed from",
}
"""in which words versions before these rules mentioned some conditions, if without the sum at stake"""
SCREEN_LINES = 45


@dataclass(frozen=True)
class Judged:
    name: str
    lines: int
    """of the first screen"""
    found: tuple[Concern, ...]
    shown: tuple[Concern, ...]


def demand_files(folders: list[Path]) -> Iterator[Path]:
    """Every demand file below some folders; what is none, such as a policy, is left out when it is read."""
    for folder in folders:
        yield from sorted(folder.rglob("*.yaml"))


def judged(file: Path, seconds: float) -> Judged | None:
    """None where it is no demand file, is for several quarters, or has no plan in the time."""
    try:
        plan = planner.plan_fleet(file, planner.Options(gap_frac=0.001, time_limit_s=seconds), sample=True)
    except (InputError, OutOfTime, planner.Infeasible) as none:
        print(f"{file.name}: left out, {str(none).splitlines()[0]}")
        return None
    return on_screen(file, plan) if isinstance(plan, Plan) else None


def on_screen(file: Path, plan: Plan) -> Judged:
    screen = as_text(plan_document(plan))
    words = " ".join(screen.split())
    found = concerns_of(plan)
    shown = tuple(c for c in found if " ".join(c.sentence.split()) in words)
    return Judged(f"{file.parent.name}/{file.stem}", len(screen.splitlines()), found, shown)


def saved(folder: Path) -> Iterator[Judged]:
    """Plans that are there already, beside what was printed when they were made."""
    for file in sorted(folder.glob("*.json")):
        plan, lines = planner.read_plan(file), file.with_suffix(".txt").read_text(encoding="utf-8").splitlines()
        if isinstance(plan, Plan):
            words = " ".join(" ".join(lines[:SCREEN_LINES]).split())
            found = concerns_of(plan)
            shown = tuple(c for c in found if " ".join(c.sentence.split()) in words or _mentioned(c, words))
            yield Judged(file.stem, len(lines), found, shown)


def _mentioned(concern: Concern, words: str) -> bool:
    return concern.key in BEFORE and BEFORE[concern.key] in words


def table(plans: list[Judged]) -> Iterator[str]:
    known = {key for keys in CONDITIONS.values() for key in keys}
    others = {c.key: (c.key,) for p in plans for c in p.found if c.key not in known}
    yield "| stop condition | plans that give rise to it | said on the first screen | ranked below three others |"
    yield "|---|--:|--:|--:|"
    for name, keys in {**CONDITIONS, **others}.items():
        found = [p for p in plans if any(c.key in keys for c in p.found)]
        said = [p for p in found if any(c.key in keys for c in p.shown)]
        below = [p for p in found if p not in said and len(p.found) > CONCERNS_SHOWN]
        yield f"| {name} | {len(found)} | {len(said)} | {len(below)} |"
    yield ""
    yield "| plan | lines | concerns | shown |"
    yield "|---|--:|---|--:|"
    for p in plans:
        yield f"| {p.name} | {p.lines} | {', '.join(c.key for c in p.found) or 'none'} | {len(p.shown)} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="*", type=Path, help="more demand files")
    parser.add_argument("--saved", type=Path, help="no demand files, but plans that are there already")
    parser.add_argument("--only", action="store_true", help="these folders alone, not examples/")
    parser.add_argument("--seconds", type=float, default=60.0, help="for each plan")
    parser.add_argument("--out", type=Path, help="a Markdown file for the tables")
    given = parser.parse_args()
    folders = [*given.folders, *([] if given.only else [ROOT / "examples"])]
    plans = [] if given.saved is None else list(saved(given.saved))
    for file in demand_files(folders) if given.saved is None else ():
        if (one := judged(file, given.seconds)) is not None:
            plans.append(one)
            keys = [c.key + ("" if c in one.shown else " (not shown)") for c in one.found]
            print(f"{one.name}: {one.lines} lines; {', '.join(keys) or 'no concern'}", flush=True)
    text = "\n".join(table(plans)) + "\n"
    print(text)
    if given.out is not None:
        given.out.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
