"""Time in a demand file: growth, launches, steps, retirements and scenarios, by hand arithmetic."""

from __future__ import annotations

import math
import re
from datetime import date, timedelta
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import planner
from planner.case.case import Case, Future, case_from_json
from planner.case.dates import add_months, last_day_of_term, month_index, quarter_days
from planner.case.demand.starter import starter_text
from planner.case.quarters import block_case, blocks_of, month_groups, quarter_case
from planner.case.slots import rates_rps, requests_per_month, slots_of
from planner.io.errors import InputError
from tests.support.places import ROOT
from tests.support.rows import for_each

HEAD = """\
starts: 2027-01-01
menu: {gpus: [l40s], quantizations: [fp8]}
baseline: openai/gpt-4o-mini
"""
CHAT = "workloads:\n  - {name: chat, models: [llama-3.1-8b], forecast: {requests_per_day: 100k%s}%s}\n"
DOCS = "  - {name: docs, models: [llama-3.1-8b], forecast: {requests_per_day: 10k%s}%s}\n"


def case_of(*parts: str) -> Case:
    return planner.case_from_text(HEAD + "".join(parts))


def chat(forecast: str = "", dates: str = "") -> str:
    return CHAT % (forecast, dates)


def docs(forecast: str = "", dates: str = "") -> str:
    return DOCS % (forecast, dates)


def future_of(case: Case) -> Future:
    assert case.future is not None
    return case.future


def factors(case: Case, workload: str, scenario: int = 0) -> tuple[float, ...]:
    return future_of(case).scenarios[scenario].month_factors[workload]


def scenarios(*rows: str) -> str:
    return "scenarios:\n" + "".join(f"  - {{{row}}}\n" for row in rows)


# -- months ---------------------------------------------------------------------------------------------------------


def test_growth_goes_on_for_twelve_months() -> None:
    case = case_of(chat(", growth_per_month: 10%"), "horizon: 4 quarters\n")
    assert factors(case, "chat") == pytest.approx([1.1**m for m in range(12)])
    assert factors(case, "chat")[11] == pytest.approx(2.85311670611)
    assert [s.name for s in future_of(case).scenarios] == ["as forecast"]
    assert (future_of(case).starts, case.months, case.workloads[0].month_factors) == (date(2027, 1, 1), None, None)


def test_a_launch_grows_from_its_own_month_and_a_retirement_ends_with_its_month() -> None:
    dates = ", from: 2027-05-20, until: 2027-09-02"
    case = case_of(chat(), docs(", growth_per_month: 100%", dates), "horizon: 4\n")
    assert factors(case, "docs") == (0, 0, 0, 0, 1, 2, 4, 8, 16, 0, 0, 0)
    said = {a.key: (a.value, a.why) for a in case.assumptions}
    assert said["workloads.docs.from"] == ("2027-05-01", "2027-05-20 counts from the start of its month")
    assert said["workloads.docs.until"] == ("2027-09-30", "2027-09-02 counts to the end of its month")
    assert "growth counts from there" in said["workloads.docs.forecast"][1]


def test_a_launch_before_the_plan_changes_nothing() -> None:
    horizon = "horizon: 2 quarters\n"
    growing = ", growth_per_month: 5%"
    launched = case_of(chat(growing, ", from: 2026-03-01"), horizon)
    assert launched.future == case_of(chat(growing), horizon).future


def test_steps_multiply_from_their_month_on() -> None:
    steps = ", steps: [{from: 2027-05-01, times: 0.5}, {from: 2027-02-15, times: 3}]"
    assert factors(case_of(chat("", steps), "horizon: 2\n"), "chat") == (1, 3, 3, 3, 1.5, 1.5)


def test_a_launch_that_slips_takes_its_growth_along() -> None:
    late = "name: late, probability: 40%, changes: {workloads.docs.from: 2027-06-01}"
    never = "name: never, probability: 10%, changes: {workloads.docs.from: 2028-01-01}"
    launch = docs(", growth_per_month: 50%", ", from: 2027-03-01")
    case = case_of(chat(), launch, "horizon: 2 quarters\n", scenarios("name: on time, probability: 50%", late, never))
    assert factors(case, "docs", 0) == (0, 0, 1, 1.5, 2.25, 3.375)
    assert factors(case, "docs", 1) == (0, 0, 0, 0, 0, 1)
    assert factors(case, "docs", 2) == (0,) * 6
    assert factors(case, "chat", 1) == (1,) * 6


def test_scenarios_change_volume_as_what_if_does() -> None:
    hours = ", ".join(str(k + 1) for k in range(24))
    twice = ", ".join(str(2 * k + 2) for k in range(24))
    hourly = f"  - {{name: hours, models: [llama-3.1-8b], forecast: {{hourly: [{hours}]}}}}\n"
    case = case_of(
        chat(", growth_per_month: 1%"),
        hourly,
        scenarios(
            "name: a, probability: 25%, changes: {workloads.chat.forecast.requests_per_day: +20%}",
            "name: b, probability: 25%, changes: {workloads.chat.forecast.requests_per_day: 50k, "
            "workloads.chat.forecast.growth_per_month: -10%}",
            f"name: c, probability: 25%, changes: {{workloads.hours.forecast.hourly: [{twice}]}}",
            "name: d, probability: 25%, changes: {workloads.hours.steps: [{from: 2027-01-01, times: 1.25}]}",
        ),
    )
    assert future_of(case).quarters == 1
    assert factors(case, "chat", 0) == pytest.approx((1.2, 1.212, 1.22412))
    assert factors(case, "chat", 1) == pytest.approx((0.5, 0.45, 0.405))
    assert factors(case, "hours", 2) == (2, 2, 2)
    assert factors(case, "hours", 3) == (1.25,) * 3
    assert factors(case, "chat", 2) == pytest.approx((1, 1.01, 1.0201))


def test_one_quarter_as_forecast_stays_an_ordinary_case() -> None:
    text = chat(", growth_per_month: 4%")
    plain = planner.case_from_text(HEAD.replace("starts: 2027-01-01\n", "") + text)
    dated = case_of(text, "horizon: 1 quarter\n")
    assert dated.starts == date(2027, 1, 1)
    assert dated.model_copy(update={"starts": None, "assumptions": plain.assumptions}) == plain
    assert "starts" not in plain.as_json()


def test_dates_within_one_quarter_become_its_months() -> None:
    case = case_of(chat(), docs("", ", from: 2027-02-01"))
    assert case.future is None
    assert [m.label for m in case.months or ()] == ["2027-01", "2027-02 to 2027-03"]
    assert [m.weight for m in case.months or ()] == pytest.approx([2 / 3, 4 / 3])
    slots = slots_of(case)
    assert [w.month_factors for w in case.workloads] == [(1, 1), (0, 1)]
    assert requests_per_month(case.workloads[1], slots) == pytest.approx(10_000 * 730 / 24 * 2 / 3)
    assert rates_rps(case.workloads[1], slots)[:48].max() == 0


def test_the_commented_keys_of_the_starter_work() -> None:
    text = re.sub(r"^(\s*)# (from:|steps:|max_liability:|risk:)", r"\1\2", starter_text(), flags=re.MULTILINE)
    head, found, last = text.partition("# starts: ")
    case = planner.case_from_text(head + re.sub(r"^# ", "", found + last, flags=re.MULTILINE))
    grown = [0.0, *(1.01**m * (1.5 if m >= 4 else 1.0) for m in range(11))]
    assert factors(case, "support-chat", 1) == pytest.approx(grown)
    assert (case.held or ())[0].instances == 2
    assert case.future is not None and case.future.risk == "worst-case"


def test_the_worst_case_is_taken_over_scenarios_that_change_prices() -> None:
    case = planner.case_from_text(
        """\
starts: 2027-01-01
horizon: 2 quarters
workloads:
  - {name: chat, models: [llama-3.1-8b], forecast: {requests_per_day: 300k}}
scenarios:
  - {name: as today, probability: 60%}
  - {name: scarce, probability: 40%, changes: {prices.l40s.on_demand: +25%}}
menu: {gpus: [l40s], purchase: [on-demand, reserved-1y]}
policy: {risk: worst-case}
baseline: openai/gpt-4o-mini
"""
    )
    future = future_of(case)
    assert future.risk == "worst-case"
    assert [s.amendments is not None for s in future.scenarios] == [False, True]


def test_the_file_in_the_documentation_loads() -> None:
    page = (ROOT / "docs" / "reference" / "commitments.md").read_text(encoding="utf-8")
    shown = re.search(r"^```yaml\n(.*?)^```", page, re.DOTALL | re.MULTILINE)
    assert shown is not None
    case = planner.case_from_text(shown[1])
    assert len(case.held or ()) == 3
    assert [s.name for s in future_of(case).scenarios] == ["slow", "middle", "late"]
    assert factors(case, "assistant", 1)[8] == pytest.approx(1.2 * 1.0344**8)
    assert factors(case, "search", 2) == pytest.approx((0,) * 6 + (1, 1.1, 1.21, 1.331, 1.4641, 0))


# -- blocks ---------------------------------------------------------------------------------------------------------

THREE = scenarios(
    "name: low, probability: 30%, changes: {workloads.chat.forecast.growth_per_month: 0%}",
    "name: middle, probability: 50%",
    "name: high, probability: 20%, changes: {workloads.chat.forecast.growth_per_month: 20%}",
)


def test_the_first_quarter_has_the_months_of_all_scenarios() -> None:
    case = case_of(chat(", growth_per_month: 10%"), "horizon: 2 quarters\n", THREE)
    first = block_case(case, blocks_of(case)[0])
    assert [(m.label, round(m.weight / 6 * 3, 6)) for m in first.months or ()] == [
        ("2027-01", 1.0),
        ("2027-02 to 2027-03, low", 0.6),
        ("2027-02, middle", 0.5),
        ("2027-02, high", 0.2),
        ("2027-03, middle", 0.5),
        ("2027-03, high", 0.2),
    ]
    assert first.workloads[0].month_factors == pytest.approx((1, 1, 1.1, 1.2, 1.21, 1.44))
    assert first.future is None


def test_blocks_weigh_what_they_stand_for() -> None:
    case = case_of(chat(", growth_per_month: 10%"), "horizon: 3 quarters\n", THREE)
    blocks = blocks_of(case)
    assert [(b.quarter, b.scenario) for b in blocks] == [
        (0, None), (1, "low"), (2, "low"), (1, "middle"), (2, "middle"), (1, "high"), (2, "high"),
    ]  # fmt: skip
    assert [b.months for b in blocks] == pytest.approx([3, 0.9, 0.9, 1.5, 1.5, 0.6, 0.6])
    assert sum(b.months for b in blocks) == pytest.approx(9)
    low = block_case(case, blocks[2])
    assert [m.label for m in low.months or ()] == ["2027-07 to 2027-09"]
    assert (low.starts, low.workloads[0].month_factors) == (date(2027, 7, 1), (1.0,))


@settings(max_examples=40, deadline=None)
@given(
    growth=st.lists(st.integers(-30, 60), min_size=1, max_size=4),
    weights=st.lists(st.integers(1, 9), min_size=4, max_size=4),
    quarters=st.integers(1, 5),
)
def test_blocks_expect_the_requests_of_the_scenarios(growth: list[int], weights: list[int], quarters: int) -> None:
    """Requests over all blocks, weighted, are those of a naive sum over scenarios and months."""
    shares = [round(100 * w / sum(weights[: len(growth)])) for w in weights[: len(growth)]]
    shares[0] += 100 - sum(shares)
    if min(shares) <= 0:
        return
    rows = (
        f"name: s{k}, probability: {p}%, changes: {{workloads.chat.forecast.growth_per_month: {g}%}}"
        for k, (p, g) in enumerate(zip(shares, growth, strict=True))
    )
    case = case_of(chat(), f"horizon: {quarters}\n", scenarios(*rows))
    expected = sum(
        p / 100 * 100_000 * 730 / 24 * (1 + g / 100) ** m
        for p, g in zip(shares, growth, strict=True)
        for m in range(3 * quarters)
    )
    total = 0.0
    for block in blocks_of(case):
        quarter = block_case(case, block)
        assert math.fsum(m.weight for m in quarter.months or ()) == pytest.approx(len(quarter.months or ()))
        total += block.months * requests_per_month(quarter.workloads[0], slots_of(quarter))
    assert total == pytest.approx(expected)


def test_a_scenario_in_two_halves_is_the_same_first_quarter() -> None:
    text = chat(", growth_per_month: 10%")
    halves = scenarios("name: a, probability: 50%", "name: b, probability: 50%")
    whole, split = case_of(text, "horizon: 2\n"), case_of(text, "horizon: 2\n", halves)
    assert block_case(whole, blocks_of(whole)[0]).model_copy(update={"assumptions": split.assumptions}) == block_case(
        split, blocks_of(split)[0]
    )


def test_a_workload_without_demand_is_left_out_of_its_quarter() -> None:
    case = case_of(chat(), docs("", ", from: 2027-04-01"), "horizon: 2 quarters\n")
    names = [[w.name for w in block_case(case, b).workloads] for b in blocks_of(case)]
    assert names == [["chat"], ["chat", "docs"]]


def test_groups_say_which_scenarios_share_a_month() -> None:
    case = case_of(chat(", growth_per_month: 10%"), "horizon: 2 quarters\n", THREE)
    groups = month_groups(case, 0, future_of(case).scenarios)
    for name, probability in (("low", 0.3), ("middle", 0.5), ("high", 0.2)):
        own = [g for g in groups if name in g.scenarios]
        assert sorted(m for g in own for m in g.months) == [0, 1, 2]
        later = [g for g in own if g.scenarios == (name,)]
        assert sum(g.share_frac for g in later) == pytest.approx(probability * 2 / 3)
    one = quarter_case(case, 1, future_of(case).scenarios[2:])
    assert one.workloads[0].month_factors == pytest.approx((1.2**3, 1.2**4, 1.2**5))


def test_a_case_with_a_future_goes_through_json() -> None:
    case = case_of(chat(", growth_per_month: 10%"), "horizon: 2 quarters\n", THREE)
    assert case_from_json(case.as_json()) == case
    other = case_of(chat(", growth_per_month: 10%"), "horizon: 3 quarters\n", THREE)
    assert case.hash() != other.hash()


# -- calendar -------------------------------------------------------------------------------------------------------


@given(day=st.dates(date(2000, 1, 1), date(2099, 12, 31)), months=st.integers(0, 60))
def test_months_of_the_calendar(day: date, months: int) -> None:
    later = add_months(day, months)
    assert month_index(day, later) == months
    assert later.day == day.day or (later.day < day.day and (later + timedelta(days=1)).day == 1)


@given(year=st.integers(2000, 2099), month=st.integers(1, 12), quarters=st.integers(1, 12))
def test_quarters_follow_each_other_without_a_gap(year: int, month: int, quarters: int) -> None:
    starts = date(year, month, 1)
    days = [quarter_days(starts, q) for q in range(quarters)]
    assert days[0][0] == starts
    assert all(b[0] - a[1] == timedelta(days=1) for a, b in pairwise(days))
    assert all(first.day == 1 and 89 <= (last - first).days + 1 <= 92 for first, last in days)


def test_last_day_of_a_term() -> None:
    assert last_day_of_term(date(2027, 1, 1), "reserved-1y") == date(2027, 12, 31)
    assert last_day_of_term(date(2027, 3, 1), "reserved-1y-upfront") == date(2028, 2, 29)
    assert last_day_of_term(date(2027, 4, 1), "reserved-3y") == date(2030, 3, 31)


# -- mistakes (tests/bad has more) ----------------------------------------------------------------------------------


@for_each(
    ("written", "message"),
    [
        ("horizon: 2 years\n", "expected a number of quarters, got '2 years'"),
        ("horizon: 0\n", "must be 1 to 12 quarters, got 0"),
        ("horizon: 1.5\n", "expected a number of quarters, got 1.5"),
        ("unused_after_horizon: {worth: 0.5}\n", 'Write "50%"'),
        ("policy: {max_liability: 200k}\n", 'Write "$200k"'),
        ("have: [{offer: aws/g6e.xlarge, purchase: spot, instances: 1, price: $1/h}]\n", "got 'spot'"),
        ("have: [{offer: aws/g6e.xlarge, purchase: owned, instances: 1, price: 1}]\n", 'Write "$1/h"'),
        ("have: [{offer: aws/g6e.xlarge, purchase: owned, instances: 0, price: $1/h}]\n", "must be 1 or more"),
        (scenarios("name: a, probability: 1"), "needs a percent sign"),
        ("scenarios: {slow: {probability: 100%}}\n", 'got a mapping. Write each in a line of its own: "- {name: slow,'),
        ("scenarios: forecast\n", "got 'forecast'. Write {from: forecast}"),
        ("scenarios: {form: forecast}\n", "unknown key 'form'. Did you mean 'from'?"),
        (scenarios("name: a, probability: 100%, changes: {policy.min_replicas: 3}"), "but the horizon has only one"),
        (scenarios("name: a, probability: 100%, changes: {workloads.chat.name: b}"), "identifies workloads"),
        (
            scenarios("name: a, probability: 100%, changes: {workloads.chat.steps: [{from: 2026-01-01, times: 2}]}"),
            "before the plan starts",
        ),
        (
            "horizon: 12\n"
            + scenarios("name: a, probability: 100%, changes: {workloads.chat.forecast.growth_per_month: 90%}"),
            "exceeds 10 billion requests a day",
        ),
    ],
)  # fmt: skip
def test_mistakes_are_named(written: str, message: str) -> None:
    with pytest.raises(InputError) as error:
        case_of(chat(), written)
    assert message in str(error.value)
    assert all(d.line is not None for d in error.value.diagnostics)


def test_a_scenario_may_not_leave_a_quarter_without_demand_but_the_first_is_for_all() -> None:
    changed = scenarios(
        "name: now, probability: 50%", "name: later, probability: 50%, changes: {workloads.chat.from: 2027-04-01}"
    )
    case = case_of(chat(), "horizon: 2\n", changed)
    assert factors(case, "chat", 1) == (0, 0, 0, 1, 1, 1)
    first = block_case(case, blocks_of(case)[0])
    assert [(m.label, m.weight) for m in first.months or ()] == [
        ("2027-01 to 2027-03, now", 1.0), ("2027-01 to 2027-03, later", 1.0),
    ]  # fmt: skip
