"""Saved plans with one leaf changed: the checker refuses them, or the leaf is one of its listed remarks."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from typing import Any

from tally import ROOT, Attack, Row, tell

import planner
from planner.checker.remarks import REMARKS
from tests.planner.reports.tables.test_focus import HELD
from tests.support.horizon_plans import horizon_plan
from tests.support.lever_plans import DEMANDS, ROUGHLY, lever_plan
from tests.support.tampering import is_refused, kind_of, tampered

GROUP = "tampering"
FEW = 1
"""leaves of each kind that are changed with --quick, and of plans of a horizon, which take longer to check"""


def _example(name: str) -> Any:
    return planner.plan_fleet(planner.load_case(ROOT / "examples" / f"{name}.yaml"), ROUGHLY)


PLANS: dict[str, Callable[[], Any]] = {
    **{name: (lambda name=name: lever_plan(name)) for name in DEMANDS},
    "held and vendors": lambda: planner.plan_fleet(planner.case_from_text(HELD), ROUGHLY),
    "mixtures of experts": lambda: _example("mixtures-of-experts"),
    "ten tenants": lambda: _example("ten-tenants"),
    "a horizon": horizon_plan,
}


def attack_saved_plans(attack: Attack) -> list[Row]:
    row = Row(GROUP, "one leaf of a saved plan changed: fleetplan's own checker refuses it, or it is a listed remark")
    remarks: Counter[str] = Counter()
    with ProcessPoolExecutor(attack.jobs) as pool:
        for name, (tried, passed) in zip(PLANS, pool.map(_walked, PLANS, [attack.share < 1] * len(PLANS)), strict=True):
            row.tried += tried
            strangers = sorted(kind for kind in passed if not any(r.covers(kind) for r in REMARKS))
            row.failures += [f"{name}: {kind} can be changed" for kind in strangers]
            remarks.update(passed)
            tell(f"{GROUP}: {name}: {tried} changes, {sum(passed.values())} of remarks, {len(strangers)} failures")
    for kind, times in sorted(remarks.items()):
        tell(f"{GROUP}: {times} changes of the remark {kind} passed")
    row.worst = f"{sum(remarks.values())} changes of {len(remarks)} kinds of remarks passed"
    return [row]


def _walked(name: str, quick: bool) -> tuple[int, Counter[str]]:
    """How many changes were tried, and the kinds of leaves whose changes passed."""
    plan = json.loads(PLANS[name]().to_json())
    most = FEW if quick or "quarters" in plan else None
    tried, passed = 0, Counter[str]()
    for place, lie in tampered(plan, most):
        tried += 1
        if not is_refused(lie):
            passed[kind_of(place)] += 1
    return tried, passed
