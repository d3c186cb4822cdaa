"""What differs after the first quarter: prices with a date, and scenarios that change more than volume."""

from __future__ import annotations

import json
import re

import pytest

import planner
from planner.case.case import Case, case_from_json
from planner.case.quarters import block_case, blocks_of
from planner.io.errors import InputError
from planner.reports.text import as_text
from planner.reports.validation import validation_document
from tests.planner.case.test_future import HEAD, chat, docs, future_of, scenarios
from tests.support.places import ROOT
from tests.support.rows import for_each

OFFER = "aws/g6e.xlarge@us-east-1"
YEAR = "horizon: 4 quarters\n"
PRICES = """\
prices:
  aws/g6e.xlarge:
    on_demand: $2/h
    reserved_1y: $1.50/h
    steps: [{from: 2027-04-01, on_demand: -10%}, {from: 2027-10-01, on_demand: -10%, reserved_1y: $1/h}]
"""


def case_of(*parts: str) -> Case:
    return planner.case_from_text(HEAD + "".join(parts))


def quarters_of(case: Case, scenario: str) -> list[Case]:
    """The case of each quarter as a scenario has it."""
    return [block_case(case, b) for b in blocks_of(case) if b.scenario in (None, scenario)]


def on_demand(case: Case) -> float | None:
    price = case.offers[OFFER].prices.on_demand
    return price and price.usd_per_h


def test_prices_change_with_their_quarter_each_on_the_one_before() -> None:
    case = case_of(chat(), YEAR, PRICES)
    quarters = quarters_of(case, "as forecast")
    assert [on_demand(q) for q in quarters] == pytest.approx([2.0, 1.8, 1.8, 1.62])
    year = [q.offers[OFFER].prices.reserved_1y for q in quarters]
    assert [p and p.usd_per_h for p in year] == [1.5, 1.5, 1.5, 1.0]
    price = quarters[3].offers[OFFER].prices.on_demand
    assert price is not None
    assert price.source == "your own price in <text>, from 2027-10-01"
    assert quarters[1].offers["aws/g6e.12xlarge@us-east-1"] == case.offers["aws/g6e.12xlarge@us-east-1"]
    assert case_from_json(case.as_json()) == case


def test_a_file_without_later_changes_has_no_amendments() -> None:
    case = case_of(chat(), YEAR, scenarios("name: a, probability: 40%", "name: b, probability: 60%"))
    assert [s.amendments for s in future_of(case).scenarios] == [None, None]
    assert "amendments" not in str(case.as_json())


def test_scenarios_change_prices_objectives_and_menus_after_the_first_quarter() -> None:
    case = case_of(
        chat(),
        YEAR,
        PRICES,
        scenarios(
            "name: usual, probability: 40%",
            "name: scarce, probability: 30%, changes: {prices.l40s.on_demand: +50%, menu.purchase: [on-demand], "
            "policy.max_instances.aws/g6e.48xlarge: 0, workloads.chat.forecast.requests_per_day: +10%}",
            "name: strict, probability: 30%, from: 2027-07-01, changes: {workloads.chat.slo.ttft_p95: 1s, "
            "workloads.chat.tokens.output: 300, menu.gpus: [l40s, l4]}",
        ),
    )
    usual, scarce, strict = (quarters_of(case, name) for name in ("usual", "scarce", "strict"))
    assert [on_demand(q) for q in usual] == pytest.approx([2.0, 1.8, 1.8, 1.62])
    assert [on_demand(q) for q in scarce] == pytest.approx([2.0, 2.7, 2.7, 2.43])
    assert [q.purchase for q in scarce] == [("on-demand", "spot"), *[("on-demand",)] * 3]
    assert [q.limits.max_instances.get("aws/g6e.48xlarge@us-east-1") for q in scarce] == [None, 0, 0, 0]
    assert [q.workloads[0].month_factors for q in scarce[1:]] == [(1.1,)] * 3
    assert [q.workloads[0].ttft.seconds for q in strict] == [2, 2, 1, 1]
    assert [len(q.workloads[0].buckets) > 4 for q in strict] == [True, True, False, False]
    assert ["l4" in q.gpus for q in strict] == [False, False, True, True]
    assert [on_demand(q) for q in strict] == pytest.approx([2.0, 1.8, 1.8, 1.62])
    assert usual[0] == scarce[0] == strict[0]
    said = {a.key: a.value for a in case.assumptions}
    assert said["scenarios.scarce"].endswith("policy.max_instances.aws/g6e.48xlarge from 2027-04-01")
    assert "scenarios.strict" not in said


def test_owned_boxes_stay_on_a_changed_menu() -> None:
    have = "have: [{offer: aws/g6e.xlarge, purchase: owned, instances: 2, price: $0.40/h}]\n"
    case = case_of(
        chat(), "horizon: 2\n", have, scenarios("name: a, probability: 100%, changes: {prices.l40s.on_demand: +50%}")
    )
    second = quarters_of(case, "a")[1]
    assert on_demand(second) == pytest.approx(1.5 * (on_demand(case) or 0.0))
    owned = second.offers[f"{OFFER}+owned"].prices.on_demand
    assert owned is not None
    assert owned.usd_per_h == 0.4
    assert second.limits.max_instances[f"{OFFER}+owned"] == 2


def test_a_launch_that_slips_and_another_objective_together() -> None:
    late = "name: late, probability: 100%, changes: {workloads.docs.from: 2027-04-01, workloads.docs.slo.ttft_p95: 1s}"
    case = case_of(chat(), docs("", ", from: 2027-02-01"), "horizon: 2\n", scenarios(late))
    first, second = quarters_of(case, "late")
    assert [w.name for w in first.workloads] == ["chat"]
    assert [(w.name, w.ttft.seconds, w.month_factors) for w in second.workloads] == [
        ("chat", 2, (1.0,)),
        ("docs", 1, (1.0,)),
    ]


@for_each(
    ("own", "change", "way", "usd_per_h"),
    [
        ("on_demand: $2/h, reserved_1y: $1.20/h", "prices.l40s.reserved_1y: -10%", "reserved_1y", 1.2 * 0.9),
        ("on_demand: $2/h, reserved_1y: -40%", "prices.l40s.reserved_1y: -10%", "reserved_1y", 1.2 * 0.9),
        ("on_demand: $2/h, reserved_1y: -40%", "prices.aws/g6e.xlarge.reserved_1y: +50%", "reserved_1y", 1.2 * 1.5),
        ("on_demand: -20%", "prices.l40s.on_demand: +25%", "on_demand", 1.861 * 0.8 * 1.25),
        ("on_demand: -20%", "prices.aws/g6e.xlarge.on_demand: +25%", "on_demand", 1.861 * 0.8 * 1.25),
        ("on_demand: $1.50/h", "prices.l40s.on_demand: +25%", "on_demand", 1.5 * 1.25),
    ],
)
def test_percentages_are_on_the_price_that_the_menu_has(own: str, change: str, way: str, usd_per_h: float) -> None:
    """In 'prices' of the file, -40% is off the price on demand, or off that of the catalog."""
    case = case_of(chat(), f"prices: {{aws/g6e.xlarge: {{{own}}}}}\n", ONE % change)
    listed = case_of(chat()).offers[OFFER].prices.on_demand
    assert listed is not None
    assert listed.usd_per_h == pytest.approx(1.861)
    price = getattr(quarters_of(case, "a")[1].offers[OFFER].prices, way)
    assert price.usd_per_h == pytest.approx(usd_per_h)


def test_percentages_of_commitments_are_on_those_of_the_catalog() -> None:
    now, later = (q.offers[OFFER].prices for q in quarters_of(case_of(chat(), ONE % "prices.l40s.spot: +50%"), "a"))
    assert now.spot is not None
    assert later.spot is not None
    assert later.spot.p50_usd_per_h == pytest.approx(1.5 * now.spot.p50_usd_per_h)
    changes = "prices.l40s.reserved_1y: -10%, prices.l40s.on_demand: +25%"
    now, later = (q.offers[OFFER].prices for q in quarters_of(case_of(chat(), ONE % changes), "a"))
    assert now.reserved_1y is not None
    assert later.reserved_1y is not None
    assert later.reserved_1y.usd_per_h == pytest.approx(0.9 * now.reserved_1y.usd_per_h)


ONE = "horizon: 2\n" + "scenarios: [{name: a, probability: 100%%, changes: {%s}}]\n"


@for_each(
    ("written", "message"),
    [
        (ONE % "have: []", "cannot differ between scenarios: what is held is the same in all scenarios"),
        (ONE % "baseline: openai/gpt-4o", "cannot differ between scenarios: it must be the same"),
        (ONE % "policy.max_liability: $1k", "cannot differ between scenarios"),
        (ONE % "policy: {min_replicas: 3}", "is more than one value"),
        (ONE % "workloads.chat.forecast: {requests_per_day: 5}", "is more than one value"),
        (ONE % "workloads.chat.forecast.shape: flat", "changes the hours at which requests come"),
        (ONE % "prices.h100.on_demand: +5%", "no instance or GPU on the menu is called 'h100'"),
        (ONE % "prices.l40s.on_demand: 5", "scenarios[0].changes['prices.l40s.on_demand']"),
        (ONE % "prices.l40s.on_demand: $3/h", "is one price for boxes of 1, 4 and 8 GPUs. Write a change"),
        (ONE % "policy.min_replica: 5", "there is no key 'min_replica' in policy"),
        (ONE % "workloads.chat.models: [gpt-5]", "there is no model 'gpt-5' in the catalog"),
        (ONE % "menu.gpus: [l4]", "off the menu, although commitments to it may be signed now"),
        (ONE % "prices.l40s.on_demand: +5%, prices.aws/g6e.xlarge@us-east-1.on_demand: +5%", "is changed twice"),
        (ONE % "policy.max_gpus: {l40s: 1}" + "have: [{offer: aws/g6e.xlarge, purchase: reserved-1y, instances: 2, "
         "price: $1/h, until: 2027-12-31}]\n", "2 GPUs of l40s are held, more than policy.max_gpus allows (1)"),
    ],
)  # fmt: skip
def test_mistakes_are_named_where_the_change_is_written(written: str, message: str) -> None:
    with pytest.raises(InputError) as error:
        case_of(chat(), written)
    assert message in str(error.value)
    assert all(d.line == 7 for d in error.value.diagnostics)


def test_the_changes_in_the_documentation_load() -> None:
    page = (ROOT / "docs" / "reference" / "commitments.md").read_text(encoding="utf-8")
    whole, changes, _, prices = re.findall(r"^```yaml\n(.*?)^```", page, re.DOTALL | re.MULTILINE)[:4]
    case = planner.case_from_text(re.sub(r"scenarios:\n(  .*\n)+", "", whole) + changes + prices)
    assert [[a.from_quarter for a in s.amendments or ()] for s in future_of(case).scenarios] == [[2], [1, 2], [2]]


def test_validate_says_what_differs_and_from_when_on() -> None:
    strict = "name: strict, probability: 100%, from: 2027-07-01, changes: {workloads.chat.slo.ttft_p95: 1s}"
    report = validation_document(case_of(chat(), YEAR, PRICES, scenarios(strict)))
    assert "  strict: from 2027-04-01 on, these change: instances and their prices\n" in as_text(report)
    assert "  strict: from 2027-07-01 on, these change: workloads, instances and their prices\n" in as_text(report)
    (scenario,) = json.loads(report.json())["scenarios"]
    assert scenario["differs_from_quarter"]["3"] == ["workloads", "offers"]
