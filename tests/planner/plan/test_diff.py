"""What changed between two plans: every part, and a split of the cost's change that adds up to the cent."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import planner
from planner.plan.diff import diff_plans
from planner.plan.plan import Plan
from planner.reports.diff import diff_document
from planner.reports.markdown import as_markdown
from planner.reports.text import as_text
from tests.support.command_line import SMALL, Command
from tests.support.lever_plans import lever_plan
from tests.support.rows import for_each
from tests.support.shared_plans import fleet_plan


@pytest.fixture(scope="module")
def plan() -> Plan:
    return fleet_plan(planner.case_from_text(SMALL))


@pytest.fixture(scope="module")
def larger() -> Plan:
    text = SMALL.replace("400k", "600k").replace("critical_share: 60%", "critical_share: 80%")
    return fleet_plan(planner.case_from_text(text + "prices: {aws/g6e.xlarge: {on_demand: $2/h}}\n"))


def repriced(plan: Plan, factor: float) -> Plan:
    """The same plan where everything that is sold by the hour costs so many times as much."""
    data = plan.as_json()
    for offer in data["case"]["offers"].values():
        for price in filter(None, offer["prices"].values()):
            for key in ("usd_per_h", "p50_usd_per_h", "p95_usd_per_h", "upfront_usd"):
                if key in price:
                    price[key] *= factor
    hourly = ("reserved_usd_per_month", "on_demand_usd_per_month", "spot_usd_per_month")
    for line in data["fleet"]:
        line["usd_per_h"] *= factor
        line["cost_usd_per_month"] *= factor
    for key in hourly:
        data["costs"][key] *= factor
    data["cost_usd_per_month"] = sum(data["costs"].values())
    return Plan.model_validate_json(json.dumps(data))


def test_a_plan_does_not_differ_from_itself(plan: Plan) -> None:
    for same in (plan, lever_plan("together"), lever_plan("waiting"), lever_plan("shedding")):
        found = diff_plans(same, same)
        assert found.same
        assert as_text(diff_document(found)) == "no change\n"
        assert as_markdown(diff_document(found)).endswith("\n\n**no change**\n")
        assert found.attribution.total_usd_per_month == 0
        assert not (found.fleet or found.workloads or found.prices or found.limits or found.inputs)


@for_each("name", ["together", "mixed", "shedding", "waiting"])
def test_dearer_instances_are_all_price(name: str) -> None:
    before = lever_plan(name)
    after = repriced(before, 1.25)
    told = diff_plans(before, after).attribution
    paid = sum(line.cost_usd_per_month for line in before.fleet)
    assert told.prices_usd_per_month == pytest.approx(0.25 * paid, abs=0.01)
    assert told.demand_usd_per_month == 0
    assert abs(told.choices_usd_per_month) <= 0.02


def test_a_dearer_api_is_all_price() -> None:
    before = lever_plan("waiting")
    assert before.costs.api_usd_per_month > 1
    data = before.as_json()
    for api in data["case"]["apis"].values():
        for tiers in (api["tiers"], api["batch"]["tiers"]):
            for tier in tiers:
                tier["input_usd_per_1m"] *= 2
                tier["output_usd_per_1m"] *= 2
    data["cost_usd_per_month"] += data["costs"]["api_usd_per_month"]
    data["costs"]["api_usd_per_month"] *= 2
    told = diff_plans(before, Plan.model_validate_json(json.dumps(data)))
    assert told.attribution.prices_usd_per_month == pytest.approx(before.costs.api_usd_per_month, abs=0.01)
    assert abs(told.attribution.choices_usd_per_month) <= 0.02
    assert {(p.of, p.used) for p in told.prices} == {("own/mini", True)}
    assert {p.key for p in told.prices} >= {"input, $/1M", "batch output, $/1M"}


def test_caches_and_engineers_are_priced_too() -> None:
    before = lever_plan("together")
    costs = before.case.cache_costs.model_copy(
        update={"tier_usd_per_month": before.case.cache_costs.tier_usd_per_month + 30}
    )
    case = before.case.model_copy(update={"cache_costs": costs, "engineers_usd_per_month": 500.0})
    kept = sum(set(w.caching.split("+")) & {"prefix", "template"} != set() for w in before.workloads)
    told = diff_plans(before, before.model_copy(update={"case": case})).attribution
    assert kept >= 1
    assert told.prices_usd_per_month == pytest.approx(30 * kept, abs=0.01)
    hosted = before.model_copy(update={"costs": before.costs.model_copy(update={"engineers_usd_per_month": 400.0})})
    told = diff_plans(hosted, before.model_copy(update={"case": case})).attribution
    assert told.prices_usd_per_month == pytest.approx(30 * kept + 100, abs=0.01)


def test_more_of_the_same_is_all_demand(plan: Plan) -> None:
    twice = plan.model_copy(
        update={"tokens_per_month": 2 * plan.tokens_per_month, "cost_usd_per_month": 2 * plan.cost_usd_per_month}
    )
    told = diff_plans(plan, twice).attribution
    assert told.demand_usd_per_month == pytest.approx(plan.cost_usd_per_month, abs=0.01)
    assert told.prices_usd_per_month == 0
    assert abs(told.choices_usd_per_month) <= 0.02


@given(
    cost=st.floats(0, 1e8), tokens=st.floats(0, 1e15), factor=st.floats(0.01, 100), budget=st.none() | st.floats(1, 1e6)
)
def test_the_parts_add_up_to_the_cent(cost: float, tokens: float, factor: float, budget: float | None) -> None:
    before = lever_plan("shedding")
    after = repriced(before, factor).model_copy(update={"cost_usd_per_month": cost, "tokens_per_month": tokens})
    a = diff_plans(before, after).attribution
    parts = [a.demand_usd_per_month, a.prices_usd_per_month, a.choices_usd_per_month]
    assert sum(round(100 * x) for x in parts) == round(100 * a.total_usd_per_month)
    assert a.total_usd_per_month == pytest.approx(cost - before.cost_usd_per_month, abs=0.011)


def test_what_is_not_sold_any_more_is_said(plan: Plan) -> None:
    offers = {key: o for key, o in plan.case.offers.items() if key not in {f.offer for f in plan.fleet}}
    told = diff_plans(plan, fleet_plan(plan.case.model_copy(update={"offers": offers})))
    assert told.attribution.prices_usd_per_month == 0
    assert any("has no price in the second plan" in note for note in told.attribution.notes)
    assert {c.key for c in told.inputs} == {"offers"}
    assert "its price counts as unchanged" in as_text(diff_document(told))


def test_two_real_plans(plan: Plan, larger: Plan) -> None:
    found = diff_plans(plan, larger)
    assert not found.same
    changed = {(c.of, c.key): (c.before, c.after) for c in found.workloads}
    assert changed["chat", "critical share"] == (0.6, 0.8)
    then, now = changed["chat", "tokens per month"]
    assert isinstance(then, float) and now == pytest.approx(1.5 * then)
    price = next(p for p in found.prices if p.key == "on-demand, $/h" and p.of.startswith("aws/g6e.xlarge@"))
    assert price.after == 2.0
    assert price.date_before and price.date_after is None
    total = sum(c.change_usd_per_month for c in found.costs if c.part != "total")
    assert total == pytest.approx(larger.cost_usd_per_month - plan.cost_usd_per_month)
    by_line = sum(f.usd_after - f.usd_before for f in found.fleet)
    instances = sum(f.cost_usd_per_month for f in larger.fleet) - sum(f.cost_usd_per_month for f in plan.fleet)
    assert by_line == pytest.approx(instances)
    back = diff_plans(larger, plan)
    assert back.attribution.total_usd_per_month == -found.attribution.total_usd_per_month
    assert {(f.offer, f.purchase) for f in back.fleet} == {(f.offer, f.purchase) for f in found.fleet}


def test_lines_are_added_removed_and_changed(plan: Plan) -> None:
    first, *others = plan.fleet
    fewer = plan.model_copy(update={"fleet": tuple(others)})
    assert [(f.what, f.offer, f.peak_after) for f in diff_plans(plan, fewer).fleet] == [("removed", first.offer, 0)]
    (added,) = diff_plans(fewer, plan).fleet
    assert (added.what, added.peak_before) == ("added", 0)
    more = first.model_copy(update={"instances_by_slot": tuple(n + 1 for n in first.instances_by_slot)})
    (changed,) = diff_plans(plan, plan.model_copy(update={"fleet": (more, *others)})).fleet
    assert (changed.what, changed.peak_after) == ("changed", max(first.instances_by_slot) + 1)
    assert changed.instance_hours_after - changed.instance_hours_before == pytest.approx(730)


@pytest.fixture
def fleetplan(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path, plan: Plan, larger: Plan
) -> Command:
    monkeypatch.chdir(tmp_path)
    Path("a.json").write_text(plan.to_json(), encoding="utf-8")
    Path("b.json").write_text(larger.to_json(), encoding="utf-8")
    return Command(monkeypatch, capsys)


def test_the_command(fleetplan: Command) -> None:
    same = fleetplan("diff", "a.json", "a.json", "--exit-code")
    assert (same.code, same.out, same.err) == (0, "no change\n", "")
    text = fleetplan("diff", "a.json", "b.json")
    assert text.code == 0
    assert "why the cost changed" in text.out
    assert fleetplan("diff", "a.json", "b.json", "--exit-code").code == 1
    page = fleetplan("diff", "a.json", "b.json", "--format", "md")
    assert page.out.startswith("# Changes of ")
    data = json.loads(fleetplan("diff", "a.json", "b.json", "--format", "json").out)
    assert data["format"] == "fleetplan-diff/1"
    assert list(data) == [
        "format", "same", "before", "after", "attribution", "costs", "fleet", "workloads", "prices", "limits", "inputs",
    ]  # fmt: skip
    missing = fleetplan("diff", "a.json", "c.json")
    assert (missing.code, missing.out) == (2, "")
    assert "c.json: cannot be read" in missing.err
