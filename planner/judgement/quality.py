"""Whether anybody has seen a deployment run, and its answers scored."""

from __future__ import annotations

from collections.abc import Iterator

from planner.io.formatting import percent
from planner.judgement.concern import Concern
from planner.plan.plan import Plan
from planner.plan.quality_notes import unproven_and_borrowed


def unproven_quality(plan: Plan) -> Iterator[Concern]:
    """Deployments that the engine was never seen to run, with a loss of quality measured on another family."""
    for names, d, basis in unproven_and_borrowed(plan):
        costs = {w.name: w.gpu_cost_usd_per_month for w in plan.workloads}
        loss = f"{percent(basis.loss_frac, 1)}, {basis.remark}"
        yield Concern(
            key="unproven-quality",
            usd_per_month=sum(costs[name] for name in names),
            sentence=f"{', '.join(names)}: {plan.case.engine_name} is not known to run {d}, and its quality loss "
            f"({loss}) was not measured on this model",
            remedy="run it and score its answers before you sign, or set 'policy: {unproven: forbidden}'",
        )
