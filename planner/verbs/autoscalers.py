"""Controllers by the names that verbs take."""

from __future__ import annotations

from pathlib import Path

from planner.case.controller import Controller, controllers
from planner.io.errors import did_you_mean, input_error, shown
from planner.plan.plan import Plan

OF_PLAN = "plan"
"""names the autoscaler that a plan was tuned for, or that of its policy"""


def forecast_error_of(asked: str | None) -> str | None:
    """The percentage as it is given, or that of a saved review: of the workload that is hardest to forecast."""
    if asked is None or not asked.strip().lower().endswith(".json"):
        return asked
    from planner.review.records import read_saved_review

    review = read_saved_review(Path(asked.strip()))
    tried = [abs(f.error_frac) for f in review.forecasts if f.error_frac is not None]
    errors = tried or [w.hourly_error_frac for w in review.workloads if w.hourly_error_frac is not None]
    if not errors:
        raise input_error("--forecast-error", f"{asked} says of no workload how far its forecast was off", "Write 15%")
    return f"{100 * min(0.99, max(errors)):.3g}%"


def controller_named(asked: str | Controller, plan: Plan) -> Controller:
    """A published controller, or with `plan` the one that was tuned for it or stands in its policy."""
    if isinstance(asked, Controller):
        return asked
    if asked == OF_PLAN:
        own = plan.operation.controller if plan.operation is not None else plan.case.autoscaler
        if own is None:
            remedy = "Write policy: {autoscaler: keda} in the demand file, or plan with --autoscaler keda"
            raise input_error("--autoscaler", "the plan has no autoscaler", remedy)
        return own
    if asked not in controllers():
        names = (*controllers(), OF_PLAN)
        remedy = did_you_mean(asked, names) or f"Give one of {', '.join(names)}"
        raise input_error("--autoscaler", f"there is no autoscaler {shown(asked)}", remedy)
    return controllers()[asked]
