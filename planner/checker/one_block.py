"""Whether the plan of one block holds: structure, figures, then every rule."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from planner.checker.allowances import allowances_hold
from planner.checker.alternatives import options_are_named, rejections_are_true
from planner.checker.bought import servers_are_paid_for
from planner.checker.checked import Checked
from planner.checker.claims import claims_are_honest
from planner.checker.deployment import deployments_are_allowed
from planner.checker.figures import figures_that_differ
from planner.checker.limits import limits_hold
from planner.checker.purchases import purchases_hold
from planner.checker.serving import pools_are_served
from planner.checker.structure import names_and_lengths_fit, plan_or_problems
from planner.checker.studies import studies_hold
from planner.plan.account.account import account_of
from planner.plan.account.figures import worked_out_again


def block_problems(data: Any, screened: bool = False) -> Iterator[str]:
    plan = plan_or_problems(data)
    if isinstance(plan, list):
        yield from plan
        return
    if plan.case_hash != plan.case.hash():
        yield "the case inside is not the one that was planned (its hash differs)"
    unusable = [*names_and_lengths_fit(plan)]
    yield from unusable
    if unusable:
        return
    account = account_of(plan)
    yield from deployments_are_allowed(account)
    true = worked_out_again(plan, account)
    yield from figures_that_differ(_without_its_case(plan.as_json()), _without_its_case(true.as_json()))
    checked = Checked(true, account)
    yield from pools_are_served(checked)
    yield from purchases_hold(checked)
    yield from servers_are_paid_for(checked)
    yield from allowances_hold(checked)
    yield from limits_hold(checked)
    yield from claims_are_honest(checked)
    yield from options_are_named(checked)
    yield from studies_hold(checked)
    if not screened:
        yield from rejections_are_true(checked)


def _without_its_case(plan: dict[str, Any]) -> dict[str, Any]:
    """The case is guarded by its hash."""
    return {key: value for key, value in plan.items() if key != "case"}
