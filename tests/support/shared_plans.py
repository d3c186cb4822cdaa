"""Plans that several files of tests look at, made once in a run: by whichever worker asks first, and kept on disk."""

from __future__ import annotations

import fcntl
import hashlib
import os
import pickle
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import TypeVar

import planner
from planner.case.case import Case
from planner.pipeline import plan_fleet
from planner.plan.plan import Plan
from tests.support.costs import METER
from tests.support.places import ROOT

SHARED = "FLEETPLAN_SHARED_BY_TESTS"
"""the folder of this run, which the root conftest makes and all workers inherit; without one nothing is kept"""
Made = TypeVar("Made")


def made_once(key: str, make: Callable[[], Made]) -> Made:
    """What `make` gives, for all who ask by this key in this run."""
    if SHARED not in os.environ:
        return make()
    with METER.of(key):
        return _kept(key, make)


def _kept(key: str, make: Callable[[], Made]) -> Made:
    file = Path(os.environ[SHARED]) / hashlib.sha256(key.encode()).hexdigest()
    with open(file.with_suffix(".lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not file.exists():
            whole = file.with_suffix(".part")
            whole.write_bytes(pickle.dumps(make()))
            whole.rename(file)
    made: Made = pickle.loads(file.read_bytes())
    return made


CHAT = """
workloads:
  - name: chat
    models: [llama-3.1-8b]
    forecast: {requests_per_day: 1500k, shape: business-hours}
    tokens: {input: 800, output: 200}
    slo: {ttft_p95: 2s, tpot_p95: 60ms}
    api: forbidden
menu: {gpus: [l40s], quantizations: [fp8], providers: [aws], regions: [us-east-1], purchase: [on-demand]}
baseline: openai/gpt-4o-mini
"""
"""a demand file whose plan has several replicas on demand, and nothing else"""


def plan_of(case: Case, options: planner.Options | None = None) -> Plan:
    """As `planner.plan_fleet(case, options)`."""
    return made_once(f"{options} {case.model_dump_json()}", lambda: planner.plan_fleet(case, options))


def fleet_plan(case: Case, options: planner.Options | None = None) -> Plan:
    """A plan for tests of what it buys, costs and rejects: as cheap and as well checked, but without other options,
    the range of its cost and what assumed limits cost, which take most of the time.
    """
    return plan_fleet(case, options, complete=False)


@cache
def example_plan(example: str | Path) -> Plan:
    """The plan of a demand file, by its path below the root of the project."""
    return plan_of(planner.load_case(ROOT / example))
