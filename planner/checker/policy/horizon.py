"""A policy and the plan of a horizon: rules of its own, and all others held against every quarter and scenario."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import date

from planner.case.quarters import block_name
from planner.checker.policy.rules import (
    Judged,
    Rule,
    at_least,
    at_most,
    change_rules,
    gap_rule,
    judged_rules,
)
from planner.checker.policy.schema import Policy
from planner.checker.proof import BoundCheck
from planner.io.formatting import percent, usd
from planner.plan.horizon.horizon_plan import HorizonPlan, cost_as_minimized
from planner.plan.horizon.horizon_view import (
    Use,
    gpus_of,
    owed_in_usd,
    owed_now_usd,
    quarters_of,
    regret_frac,
    use_of,
)

OF_THE_WHOLE = ("max_change", "max_commitment_usd", "max_gap")
"""rules that look at the horizon, not at its quarters"""


@dataclass(frozen=True, eq=False)
class JudgedHorizon:
    horizon: HorizonPlan
    policy: Policy
    against: HorizonPlan | None
    bound: BoundCheck | None
    """what planning again says of the plan's bound"""


def rules_of_a_horizon(j: JudgedHorizon, day: date) -> Iterator[Rule]:
    """Rules about all of it, then every other rule where a quarter is nearest to breaking it."""
    for rule in OWN:
        if getattr(j.policy, rule.__name__) is not None:
            yield from rule(j)
    yield from _of_quarters(j.horizon, j.policy, day)


def _of_quarters(horizon: HorizonPlan, policy: Policy, day: date) -> Iterator[Rule]:
    """Each rule once: where it is kept with the least room, or broken by most."""
    dropped = dict.fromkeys((*OF_THE_WHOLE, *(rule.__name__ for rule in OWN)))
    others = policy.model_copy(update=dropped)
    found: dict[str, list[Rule]] = {}
    for q in horizon.quarters:
        where = block_name(q.quarter, q.scenario)
        for rule in judged_rules(Judged(q.plan, others, None, day)):
            detail = f"{where}: {rule.detail}" if rule.detail else where
            found.setdefault(rule.rule, []).append(rule.model_copy(update={"detail": detail}))
    yield from (max(rules, key=_excess) for rules in found.values())


def _excess(rule: Rule) -> tuple[bool, float]:
    """How far a rule is from being kept; what is broken comes first."""
    if not isinstance(rule.value, float | int) or not isinstance(rule.limit, float | int):
        return not rule.passed, 0.0
    return not rule.passed, rule.limit - rule.value if rule.at_least else rule.value - rule.limit


def max_change(j: JudgedHorizon) -> Iterator[Rule]:
    assert j.against is not None and j.policy.max_change is not None
    limit, risk = j.policy.max_change, j.horizon.risk
    before, after = (cost_as_minimized(horizon, risk) for horizon in (j.against, j.horizon))
    which, of = ("in the worst case", "the worst case") if risk == "worst-case" else ("expected", "the expected cost")
    detail = f"{usd(before)} to {usd(after)}, {which} over the horizon"
    if j.against.risk != risk:
        detail += f"; the previous plan minimizes another measure ({j.against.risk})"
    change = (after - before) / before if before else 0.0
    yield from change_rules(limit, change, of, detail)


def max_commitment_usd(j: JudgedHorizon) -> Iterator[Rule]:
    cash = sum(c.upfront_usd for c in j.horizon.signed_now)
    owed = owed_now_usd(j.horizon)
    signed = j.horizon.signed_now or j.horizon.allowances_now
    detail = f"{usd(cash)} at signing, {usd(owed)} owed after the horizon" if signed else ""
    what = "signed now, paid at once or owed after the horizon"
    yield at_most("max_commitment_usd", what, "usd", cash + owed, j.policy.max_commitment_usd or 0.0, detail)


def max_gap(j: JudgedHorizon) -> Iterator[Rule]:
    of = " in the worst case" if j.horizon.risk == "worst-case" else ""
    detail = f"{j.horizon.status}: proven lower bound {{}}{of}"
    yield gap_rule(j.policy, j.horizon.gap_frac, j.horizon.counted_usd, j.horizon.bound_usd, j.bound, detail)


def max_liability_usd(j: JudgedHorizon) -> Iterator[Rule]:
    """What is still to be paid after the horizon, in the scenario with the most of it."""
    owed = {s.name: owed_in_usd(j.horizon, s.name) for s in j.horizon.scenarios}
    worst = max(owed, key=lambda name: owed[name])
    limit = j.policy.max_liability_usd or 0.0
    yield at_most("max_liability_usd", "owed after the horizon", "usd", owed[worst], limit, worst)


def max_regret(j: JudgedHorizon) -> Iterator[Rule]:
    shares = {s.name: regret_frac(j.horizon, s) for s in j.horizon.scenarios}
    known = {name: share for name, share in shares.items() if share is not None}
    limit, what = j.policy.max_regret or 0.0, "regret, as a share of the cost with foresight"
    if not known:
        yield at_most("max_regret", what, "frac", None, limit, "not worked out")
        return
    worst = max(known, key=lambda name: known[name])
    rule = at_most("max_regret", what, "frac", known[worst], limit, f"{worst}; as recorded in the file")
    yield rule.model_copy(update={"rests_on": "recorded"})


def min_coverage(j: JudgedHorizon) -> Iterator[Rule]:
    shares = {name: use.coverage_frac for name, use in _use(j.horizon).items()}
    what = "eligible GPU-hours that commitments cover"
    yield from _lowest("min_coverage", what, shares, j.policy.min_coverage or 0.0)


def min_utilization(j: JudgedHorizon) -> Iterator[Rule]:
    shares = {name: use.utilization_frac for name, use in _use(j.horizon).items()}
    what = "committed GPU-hours that are used"
    yield from _lowest("min_utilization", what, shares, j.policy.min_utilization or 0.0)


def _lowest(rule: str, what: str, shares: dict[str, float | None], limit: float) -> Iterator[Rule]:
    known = {name: share for name, share in shares.items() if share is not None}
    if not known:
        yield at_least(rule, what, "frac", None, limit, "nothing is committed, or nothing runs")
        return
    detail = ", ".join(f"{name} {percent(share)}" for name, share in known.items())
    yield at_least(rule, what, "frac", min(known.values()), limit, detail)


def _use(horizon: HorizonPlan) -> dict[str, Use]:
    """All offers that replicas run on or that are committed to, in GPU-hours, by scenario."""
    plans = [q.plan for q in horizon.quarters]
    offers = {d.deployment.offer for plan in plans for pool in plan.pools for d in pool.deployments}
    offers |= {h.offer for plan in plans for h in plan.case.held or ()}
    found = {}
    for s in horizon.scenarios:
        total = Use()
        for offer in sorted(offers):
            total += use_of(horizon, offer, s, quarters_of(horizon)).times(gpus_of(horizon, offer))
        found[s.name] = total
    return found


OWN: tuple[Callable[[JudgedHorizon], Iterator[Rule]], ...] = (
    *(max_change, max_commitment_usd, max_gap, max_liability_usd, max_regret, min_coverage, min_utilization),
)
"""each is named like its key in the policy"""
