"""Concerns about a plan: what somebody with experience would ask before it is signed, ranked by the money at stake.

A rule is a function of a plan that yields concerns; it reads what the plan records and plans nothing.
"""

from __future__ import annotations

from planner.io.remembered import of_the_last
from planner.judgement.concern import Concern, Rule
from planner.judgement.service import (
    accepted_guesses,
    context_exceeded,
    late_prompts,
    missed_promise,
    more_than_an_api_takes,
    one_machine,
    sessions_queue,
    smaller_model,
    unproven_quality,
)
from planner.judgement.spending import (
    assumptions_that_bind,
    bought_on_a_quarter,
    cheaper_elsewhere,
    guessed_price,
    not_served,
    scarce_by_the_hour,
    short_log,
    signed_unproven,
    small_part,
)
from planner.plan.plan import Plan

RULES: tuple[Rule, ...] = (
    *(
        guessed_price,
        not_served,
        short_log,
        bought_on_a_quarter,
        signed_unproven,
        missed_promise,
        late_prompts,
        context_exceeded,
        one_machine,
        sessions_queue,
    ),
    *(assumptions_that_bind, cheaper_elsewhere, scarce_by_the_hour, smaller_model, accepted_guesses),
    *(unproven_quality, small_part, more_than_an_api_takes),
)


@of_the_last
def concerns_of(plan: Plan) -> tuple[Concern, ...]:
    """Every concern about a plan, the one that most money rests on first."""
    found = [concern for rule in RULES for concern in rule(plan)]
    return tuple(sorted(found, key=lambda c: (not c.stops_signing, -c.usd_per_month, c.key)))
