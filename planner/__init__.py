"""fleetplan: the cheapest fleet that meets demand and SLOs, proved, against an API baseline.

import planner
plan = planner.plan_fleet("demand.yaml")
plan.frame("fleet")

docs/reference/python.md has every public name.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:  # nothing is imported before the command can say that it was interrupted
    from typing import Any

    from planner.case.case import Case as Case
    from planner.case.demand.from_logs import demand_text as demand_text
    from planner.case.demand.load import case_from_text as case_from_text
    from planner.case.demand.load import load_case as load_case
    from planner.checker import check_plan as check_plan
    from planner.checker.policy import check_policy as check_policy
    from planner.checker.policy.rules import Check as Check
    from planner.checker.policy.schema import Policy as Policy
    from planner.checker.policy.schema import load_policy as load_policy
    from planner.explanations.records import Explanation as Explanation
    from planner.explanations.relaxations import Infeasible as Infeasible
    from planner.io.errors import InputError as InputError
    from planner.io.errors import OutOfTime as OutOfTime
    from planner.io.result import Result as Result
    from planner.logs.measure import MeasureOptions as MeasureOptions
    from planner.logs.measure import measure_logs as measure_logs
    from planner.performance.accuracy import Accuracy as Accuracy
    from planner.performance.calibration.calibrate import Calibration as Calibration
    from planner.performance.estimate import Estimate as Estimate
    from planner.plan.diff import diff_plans as diff_plans
    from planner.plan.diff_records import PlanDiff as PlanDiff
    from planner.plan.horizon.horizon_diff import HorizonDiff as HorizonDiff
    from planner.plan.horizon.horizon_plan import HorizonPlan as HorizonPlan
    from planner.plan.plan import Plan as Plan
    from planner.plan.saved import read_plan as read_plan
    from planner.plan.serve_commands import serve_commands as serve_commands
    from planner.reports.html import html_report as html_report
    from planner.review.quarter import Reviewed as Reviewed
    from planner.review.quarter import review_fleet as review_fleet
    from planner.review.review_file import read_review as read_review
    from planner.studies.explore import Exploration as Exploration
    from planner.studies.sweep import Sweep as Sweep
    from planner.verbs.catalogs import add_model as add_model
    from planner.verbs.catalogs import catalog_entries as catalog_entries
    from planner.verbs.catalogs import diff_catalogs as diff_catalogs
    from planner.verbs.catalogs import import_prices as import_prices
    from planner.verbs.demanding import demand as demand
    from planner.verbs.demanding import init as init
    from planner.verbs.demanding import schema as schema
    from planner.verbs.demanding import validate as validate
    from planner.verbs.estimating import Suggestions as Suggestions
    from planner.verbs.estimating import accuracy as accuracy
    from planner.verbs.estimating import calibrate as calibrate
    from planner.verbs.estimating import estimate as estimate
    from planner.verbs.estimating import estimate_points as estimate_points
    from planner.verbs.estimating import suggest_benchmarks as suggest_benchmarks
    from planner.verbs.exploring import explore as explore
    from planner.verbs.judging import check as check
    from planner.verbs.judging import diff as diff
    from planner.verbs.judging import review as review
    from planner.verbs.judging import verify as verify
    from planner.verbs.planning import Studied as Studied
    from planner.verbs.planning import explain as explain
    from planner.verbs.planning import plan_fleet as plan_fleet
    from planner.verbs.planning import study as study
    from planner.verbs.planning import what_if as what_if
    from planner.verbs.results import Answer as Answer
    from planner.verbs.results import Made as Made
    from planner.verbs.showing import Exported as Exported
    from planner.verbs.showing import export as export
    from planner.verbs.showing import report as report
    from planner.verification.records import HorizonVerification as HorizonVerification
    from planner.verification.records import VerificationReport as VerificationReport
    from solvers.search.fleet_solution import Options as Options
    from solvers.search.fleet_solution import Progress as Progress

_WHERE = {
    "Case": "planner.case.case",
    "demand_text": "planner.case.demand.from_logs",
    "case_from_text": "planner.case.demand.load",
    "load_case": "planner.case.demand.load",
    "check_plan": "planner.checker",
    "check_policy": "planner.checker.policy",
    "Check": "planner.checker.policy.rules",
    "Policy": "planner.checker.policy.schema",
    "load_policy": "planner.checker.policy.schema",
    "Explanation": "planner.explanations.records",
    "Infeasible": "planner.explanations.relaxations",
    "InputError": "planner.io.errors",
    "OutOfTime": "planner.io.errors",
    "Result": "planner.io.result",
    "MeasureOptions": "planner.logs.measure",
    "measure_logs": "planner.logs.measure",
    "Accuracy": "planner.performance.accuracy",
    "Calibration": "planner.performance.calibration.calibrate",
    "Estimate": "planner.performance.estimate",
    "diff_plans": "planner.plan.diff",
    "PlanDiff": "planner.plan.diff_records",
    "HorizonDiff": "planner.plan.horizon.horizon_diff",
    "HorizonPlan": "planner.plan.horizon.horizon_plan",
    "Plan": "planner.plan.plan",
    "read_plan": "planner.plan.saved",
    "serve_commands": "planner.plan.serve_commands",
    "html_report": "planner.reports.html",
    "Reviewed": "planner.review.quarter",
    "review_fleet": "planner.review.quarter",
    "read_review": "planner.review.review_file",
    "Exploration": "planner.studies.explore",
    "Sweep": "planner.studies.sweep",
    "Answer": "planner.verbs.results",
    "Made": "planner.verbs.results",
    "add_model": "planner.verbs.catalogs",
    "catalog_entries": "planner.verbs.catalogs",
    "diff_catalogs": "planner.verbs.catalogs",
    "import_prices": "planner.verbs.catalogs",
    "demand": "planner.verbs.demanding",
    "init": "planner.verbs.demanding",
    "schema": "planner.verbs.demanding",
    "validate": "planner.verbs.demanding",
    "Suggestions": "planner.verbs.estimating",
    "accuracy": "planner.verbs.estimating",
    "calibrate": "planner.verbs.estimating",
    "estimate": "planner.verbs.estimating",
    "estimate_points": "planner.verbs.estimating",
    "suggest_benchmarks": "planner.verbs.estimating",
    "explore": "planner.verbs.exploring",
    "check": "planner.verbs.judging",
    "diff": "planner.verbs.judging",
    "review": "planner.verbs.judging",
    "verify": "planner.verbs.judging",
    "Studied": "planner.verbs.planning",
    "explain": "planner.verbs.planning",
    "plan_fleet": "planner.verbs.planning",
    "study": "planner.verbs.planning",
    "what_if": "planner.verbs.planning",
    "Exported": "planner.verbs.showing",
    "export": "planner.verbs.showing",
    "report": "planner.verbs.showing",
    "HorizonVerification": "planner.verification.records",
    "VerificationReport": "planner.verification.records",
    "Options": "solvers.search.fleet_solution",
    "Progress": "solvers.search.fleet_solution",
}

_FORMER = {"check_horizon": "check_plan", "plan_horizon": "plan_fleet", "read_horizon": "read_plan"}
"""names of 0.1 for plans of several quarters, and what does the same for every plan"""

_ROOMS = ("export", "review")
"""packages that have the name of a verb, and can be called"""

__all__ = sorted(_WHERE)


def __getattr__(name: str) -> Any:
    """Import on first use, so that `fleetplan --help` stays fast."""
    if name in _FORMER:
        from warnings import warn

        warn(f"planner.{name} is now planner.{_FORMER[name]}", DeprecationWarning, stacklevel=2)
        return public(_FORMER[name])
    if name not in _WHERE:
        raise AttributeError(f"module 'planner' has no attribute {name!r}")
    from importlib import import_module

    return import_module(f"{__name__}.{name}") if name in _ROOMS else public(name)


def public(name: str) -> Any:
    """What a public name stands for."""
    from importlib import import_module

    return getattr(import_module(_WHERE[name]), name)


_HIGHER = {"reports": "planner.reports.results", "changes": "planner.studies.overrides"}
"""rooms that a lower one asks for by name (planner/io/upwards.py), so that no import points up"""


def higher(name: str) -> Any:
    """A room that a lower one may ask for, imported on use."""
    from importlib import import_module

    return import_module(_HIGHER[name])


def __dir__() -> list[str]:
    return __all__
