"""The registry of levers: explanations, the waterfall and what-if leave out the same things."""

from __future__ import annotations

import json

import planner
from planner.case.case import Case
from planner.case.demand.schema import MenuSpec
from planner.levers import FIRST_STEP, FOOTNOTE, LEVERS, STEP_KEYS, STEPS, SWITCHES
from planner.studies.overrides import Override, Scenario, Source
from tests.support.lever_plans import DEMANDS


def cases() -> list[Case]:
    return [planner.case_from_text(text) for text in DEMANDS.values()]


def test_every_lever_has_a_name_of_its_own_and_a_step() -> None:
    assert len({lever.key for lever in LEVERS}) == len(LEVERS)
    assert {lever.step for lever in LEVERS} == {step.key for step in STEPS}
    assert (FIRST_STEP, *(step.key for step in STEPS), FOOTNOTE) == STEP_KEYS
    assert len(SWITCHES) == sum(x.switch is not None for x in LEVERS) + sum(x.switch is not None for x in STEPS)


def test_a_switch_writes_what_the_menu_of_a_demand_file_may_say() -> None:
    for switch in SWITCHES.values():
        assert switch.key in MenuSpec.model_fields
        assert MenuSpec.model_validate_json(json.dumps({switch.key: switch.value})) != MenuSpec(), switch.name


def test_a_case_without_a_lever_has_nothing_more_to_leave_out() -> None:
    for case in cases():
        for lever in LEVERS:
            without = lever.without(case)
            assert lever.without(without) == without, lever.key
            assert not lever.adds(without), lever.key


def test_what_if_leaves_out_the_same_as_the_waterfall_adds() -> None:
    """By its name a lever is gone from the demand file, so that nothing is left for it to add."""
    seen = set()
    for case in cases():
        for x in (*LEVERS, *STEPS):
            said = x.adds if x in LEVERS else x.said
            if x.switch is not None and said(case):
                changed = Source(case).changed(Scenario((Override("without", x.switch.name, "yes"),)))
                assert not said(changed), x.key
                seen.add(x.switch.name)
    assert seen == {"api", "sharing", "deferral", "caching"}


def test_a_case_without_any_step_has_no_lever_left() -> None:
    """The waterfall begins without levers: what its steps lack is what explanations leave out."""
    for case in cases():
        plain = case
        for step in STEPS:
            plain = step.without(plain)
        assert all(lever.without(plain) == plain for lever in LEVERS)
        assert not any(step.said(plain) for step in STEPS if step.adds is None)
