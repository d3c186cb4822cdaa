"""The savings waterfall of a case: planned again with one lever more at each step, from a sane fleet to the plan.

The first step is one GPU type on demand, run with the engine's defaults. A fleet without batching is a footnote.
Every step may do what the one before may, so its best plan costs no more. The last step is the plan itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from planner.case.case import Case
from planner.case.changes import has_quotas, without_quotas
from planner.levers import STEPS
from planner.optimization.replan import Replanner, to_compare
from planner.pipeline import attempt, why
from planner.plan.plan import Plan
from planner.plan.study_records import StepRecord, Waterfall, Why
from planner.studies.waterfall_steps import Step, naive_step, steps_of
from solvers.backends.clock import Stopped, why_stopped
from solvers.search.fleet_solution import Options, Outcome, Progress

Plans = dict[str, Plan]
"""by the key of the step"""


def waterfall(
    plan: Plan,
    options: Options | None = None,
    on_progress: Callable[[Progress], None] = lambda progress: None,
) -> tuple[Waterfall, Plans]:
    """Plan the case again for each step, and keep the plans. A wish to stop keeps what is known."""
    options = options or Options()
    steps, notes = steps_of(plan.case)
    replanner = Replanner(plan.case, to_compare(options), on_progress, total_s=options.time_limit_s)
    planned = _Steps(plan, replanner)
    done: list[Step] = []
    stopped: Why | None = None
    naive = naive_step(plan.case, steps[0])
    try:
        for k, step in enumerate(steps):
            with replanner.part(f"waterfall, step {k + 1} of {len(steps)}: "):
                planned.take(step)
            done.append(step)
        if naive is not None:
            planned.take_aside(naive)
    except Stopped as stop:
        stopped = why(stop)
        missing = [*steps[len(done) :], *([naive] if naive else [])]
        notes.append(f"{why_stopped(stop)}: these were not planned: {', '.join(s.key for s in missing)}")
    end = STEPS[-1]
    last = Step(end.key, end.title, _everything(plan.case), lambda case: case)
    planned.keep(last, plan, plan.status)
    records = tuple(_recorded([*done, last], planned))
    costs = [r.cost_usd_per_month for r in records if r.cost_usd_per_month is not None]
    saves = costs[0] - costs[-1]
    record = Waterfall(
        steps=records,
        saves_usd_per_month=saves,
        saves_frac=saves / costs[0] if costs[0] else 0.0,
        naive=next(_recorded([naive], planned)) if naive and naive.key in planned.outcomes else None,
        notes=(*notes, *planned.notes, *_about_the_plan(plan, costs)),
        stopped=stopped,
    )
    return record, planned.plans


class _Steps:
    """Plans of the steps so far."""

    def __init__(self, plan: Plan, replanner: Replanner) -> None:
        self.plan, self.replanner = plan, replanner
        self.plans: Plans = {}
        self.outcomes: dict[str, str] = {}
        self.bounds: dict[str, float] = {}
        self.notes: list[str] = []
        self.lifted = False
        """whether quotas and the budget are left out, because the first fleet does not fit into them"""

    def take(self, step: Step) -> None:
        case = step.change(self.plan.case)
        if case == self.plan.case:
            self.keep(step, self.plan, self.plan.status)
            return
        found = self._planned(step, case)
        before = list(self.plans.values())[-1:]
        if found is not None and before and _usd(before[0]) < _usd(found):
            self.bounds[step.key] = min(found.bound_usd_per_month, _usd(before[0]))
            self.notes.append(f"{step.key}: the search found nothing cheaper than the step before, whose plan is kept")
            found = before[0]
        if found is not None:
            self.keep(step, found, self.outcomes.get(step.key, found.status))

    def take_aside(self, step: Step) -> None:
        """Plan what is no step of the savings; quotas are for fleets that somebody would run."""
        phase = f"waterfall, footnote: {step.key}"
        tried = self.replanner.plan(without_quotas(step.change(self.plan.case)), phase, attempt)
        if tried.plan is not None:
            self.keep(step, tried.plan, tried.plan.status)
        else:
            self.outcomes[step.key] = "infeasible" if tried.outcome is Outcome.INFEASIBLE else "not-found"

    def keep(self, step: Step, plan: Plan, status: str) -> None:
        self.plans[step.key] = plan
        self.outcomes[step.key] = status
        self.bounds.setdefault(step.key, plan.bound_usd_per_month)

    def _planned(self, step: Step, case: Case) -> Plan | None:
        tried = self.replanner.plan(without_quotas(case) if self.lifted else case, step.key, attempt)
        if tried.plan is None and has_quotas(case) and not self.lifted and not self.plans:
            self.lifted = True
            self.notes.append(
                "the first fleet does not fit into the quotas and the budget of the case, so every step but the last "
                "is planned without them"
            )
            return self._planned(step, case)
        if tried.plan is None:
            self.outcomes[step.key] = "infeasible" if tried.outcome is Outcome.INFEASIBLE else "not-found"
        return tried.plan


def _recorded(steps: list[Step], planned: _Steps) -> Iterator[StepRecord]:
    before: float | None = None
    for step in steps:
        plan = planned.plans.get(step.key)
        usd = None if plan is None else _usd(plan)
        saves = None if usd is None or before is None else before - usd
        yield StepRecord(
            key=step.key,
            title=step.title,
            said=step.said,
            status=planned.outcomes[step.key],
            cost_usd_per_month=usd,
            bound_usd_per_month=planned.bounds.get(step.key),
            usd_per_1m_tokens=None if plan is None else plan.usd_per_1m_tokens,
            saves_usd_per_month=saves,
            saves_frac=None if saves is None else saves / before if before else 0.0,
            fleet=() if plan is None else fleet_at_its_busiest(plan),
        )
        before = before if usd is None else usd


def fleet_at_its_busiest(plan: Plan) -> tuple[str, ...]:
    return tuple(f"{max(x.instances_by_slot)} x {x.offer} ({x.gpu}), {x.purchase}" for x in plan.fleet)


def _usd(plan: Plan) -> float:
    return plan.objective_usd_per_month


def _everything(case: Case) -> str:
    more = STEPS[-1].said(case)
    return f"the plan itself: {more}" if more else "the plan itself"


def _about_the_plan(plan: Plan, costs: list[float]) -> Iterator[str]:
    if plan.penalty_usd_per_month:
        yield "the plan sheds requests; its cost here includes their penalty"
    if len(costs) > 1 and costs[-1] > costs[-2]:
        why = "by less than the plan is proved to"
        if costs[-1] - costs[-2] > plan.gap_frac * costs[-1]:
            why = "because the limits of the case hold for the plan alone"
        yield f"the plan costs more than the step before it, {why}"
