"""Controllers by the names that verbs take."""

from __future__ import annotations

from planner.case.controller import Controller, controllers
from planner.io.errors import did_you_mean, input_error, shown
from planner.plan.plan import Plan

OF_PLAN = "plan"
"""names the autoscaler that a plan was tuned for, or that of its policy"""


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
