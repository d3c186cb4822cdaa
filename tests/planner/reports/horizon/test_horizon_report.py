"""Every figure on the first screen of the plan of a horizon, worked out by hand."""

from __future__ import annotations

import csv
import io
from datetime import date

import pytest

from planner.plan.horizon.horizon_plan import HorizonPlan, MiddlePlan
from planner.plan.lengths import TooLong
from planner.plan.plan import Plan
from planner.reports import horizon_phrases as phrases
from planner.reports.horizon import horizon_document
from planner.reports.markdown import as_markdown
from planner.reports.page import as_page
from planner.reports.table import Cell, Table
from planner.reports.tables import horizon as tables
from planner.reports.text import as_text
from tests.support.horizon_plans import HELD_USD_PER_H, MONTHS_OF, OFFER, PROBABILITIES, horizon_plan, worst_case_plan
from tests.support.rows import for_each
from tests.support.shown import csv_of

HOURS = {"weekday": 5 / 7 * 730 / 24, "weekend": 2 / 7 * 730 / 24}
COMMITTED = {(0, "low"): 1 + 2, (0, "high"): 1 + 2, (1, "low"): 2, (1, "high"): 2 + 3}
"""held before, signed now and signed later; the one held before ends with the first quarter"""


def prices() -> tuple[float, float]:
    of = horizon_plan().case.offers[OFFER].prices
    assert of.reserved_1y is not None and of.on_demand is not None
    return of.reserved_1y.usd_per_h, of.on_demand.usd_per_h


def rows(table: Table) -> list[dict[str, Cell]]:
    return [dict(zip([c.key for c in table.columns], row, strict=True)) for row in table.rows]


def plan_of(quarter: int, scenario: str) -> Plan:
    found = horizon_plan().quarters
    return next(q.plan for q in found if q.quarter == quarter and q.scenario in (None, scenario))


def hours(scenario: str) -> tuple[float, float, float]:
    """Instance-hours that run, that are committed, and both; an instance has one GPU, and so has a replica."""
    run = committed = both = 0.0
    for quarter in (0, 1):
        plan, months = plan_of(quarter, scenario), MONTHS_OF[quarter, scenario]
        for t, slot in enumerate(plan.slots):
            h = HOURS[slot.day] * months.get(slot.month, 0)
            n = sum(d.replicas_by_slot[t] for pool in plan.pools for d in pool.deployments)
            run, committed = run + h * n, committed + h * COMMITTED[quarter, scenario]
            both += h * min(n, COMMITTED[quarter, scenario])
    return run, committed, both


def test_what_to_sign_now() -> None:
    reserved, on_demand = prices()
    (row,) = rows(tables.sign_now(horizon_plan()))
    assert (row["offer"], row["term"], row["instances"]) == (OFFER, "reserved-1y", 2)
    assert (row["first_day"], row["last_day"]) == ("2027-01-01", "2027-12-31")
    assert row["usd_per_month"] == pytest.approx(2 * reserved * 730)
    assert row["upfront_usd"] == 0
    assert row["owed_beyond_usd"] == pytest.approx(2 * reserved * 730 * 6)
    assert row["break_even_utilization_frac"] == pytest.approx(reserved / on_demand)
    used = sum(p * hours(name)[2] / hours(name)[1] for name, p in PROBABILITIES.items())
    assert row["expected_utilization_frac"] == pytest.approx(used)
    assert row["months_to_pay"] == pytest.approx(12 * reserved / on_demand / used)


def test_coverage_and_utilization_are_those_of_the_providers_tools() -> None:
    found = {row["scenario"]: row for row in rows(tables.use(horizon_plan()))}
    assert list(found) == ["low", "high"]
    for name, row in found.items():
        run, committed, both = hours(str(name))
        assert row["offer"] == OFFER
        assert row["eligible_hours"] == pytest.approx(run)
        assert row["committed_hours"] == pytest.approx(committed)
        assert row["coverage_frac"] == pytest.approx(both / run)
        assert row["utilization_frac"] == pytest.approx(both / committed)
    assert found["low"]["committed_hours"] == pytest.approx(3 * 2190 + 2 * 2190)


def test_costs_by_scenario_and_their_quantiles() -> None:
    horizon = horizon_plan()
    low, high = (s.cost_usd for s in horizon.scenarios)
    assert low < high
    shown = {row[0]: row for row in tables.scenarios(horizon).view("text").shown()}
    assert shown["expected"][2] == f"{0.75 * low + 0.25 * high:,.0f}"
    assert shown["P50 of costs"][2] == f"{low:,.0f}"
    assert shown["P90 of costs"][2] == f"{high:,.0f}"
    found = rows(tables.scenarios(horizon))
    for row, s in zip(found, horizon.scenarios, strict=True):
        assert isinstance(row["known_usd"], float)
        assert row["known_usd"] + float(str(row["regret_usd"])) == pytest.approx(s.cost_usd)
    held_usd = HELD_USD_PER_H * 2190
    assert horizon.held_usd == pytest.approx(held_usd)
    assert low == pytest.approx(sum(horizon.scenarios[0].by_quarter_usd) + held_usd)


def test_the_curve_marks_what_is_signed() -> None:
    shown = [row[0] for row in tables.curve(horizon_plan()).view("text").rows]
    assert shown == ["  0", "  1", "✓ 2", "  4"]
    assert tables.curve(horizon_plan()).view("text").shown()[0][1] == "no plan"


def test_the_ladder_of_expiries() -> None:
    found = [(r["last_month"], r["instances"], r["origin"], r["when"]) for r in rows(tables.expiries(horizon_plan()))]
    assert found == [
        ("2027-03", 1, "held", "in the horizon"),
        ("2027-12", 2, "signed now", "after it"),
        ("2028-03", 3, "signed later", "after it"),
    ]


def test_what_is_signed_later_names_its_scenario() -> None:
    reserved, _ = prices()
    (row,) = rows(tables.later(horizon_plan()))
    assert (row["scenario"], row["first_day"], row["last_day"]) == ("high", "2027-04-01", "2028-03-31")
    assert row["owed_beyond_usd"] == pytest.approx(3 * reserved * 730 * 9)


def test_rows_alike_in_several_scenarios_are_one_for_people() -> None:
    horizon = horizon_plan()
    later = horizon.commitments[1]
    both = horizon.model_copy(
        update={"commitments": (*horizon.commitments, later.model_copy(update={"scenario": "low"}))}
    )
    assert len(tables.later(both).rows) == 2
    assert [row[0] for row in tables.later(both).view("text").rows] == ["low, high"]


def test_sentences() -> None:
    horizon = horizon_plan()
    text = as_text(horizon_document(horizon), seconds=3.0)
    assert "sign now: 2 x " + OFFER in text
    assert "proved within 2.00% in 3.0 s" in text
    assert "planning for all scenarios saves at least $1,234 over committing for low alone" in text
    assert f"proven lower bound ${0.98 * horizon.counted_usd:,.0f}; this plan ${horizon.counted_usd:,.0f}" in text


@for_each(
    ("change", "words"),
    [
        ({"middle": MiddlePlan(scenario="low", counted_usd=None)}, "committing for low alone is not possible"),
        ({"long_terms_would_save_usd": 4321.0}, "would save $4,321 in it"),
        ({"long_terms_would_save_usd": 0.0}, "would save nothing here"),
        ({"commitments": ()}, "sign nothing now"),
        ({"notes": ("look at this",)}, "note: look at this"),
        ({"status": "interrupted"}, "INTERRUPTED"),
    ],
)
def test_what_else_may_have_to_be_said(change: dict[str, object], words: str) -> None:
    horizon = horizon_plan().model_copy(update=change)
    assert words in as_text(horizon_document(horizon))
    assert words.lower() in as_markdown(horizon_document(horizon)).replace("\\", "").lower()
    assert words.lower() in as_page(horizon_document(horizon)).lower()


def test_a_comparison_that_is_not_proved_is_not_made() -> None:
    """A plan for one scenario that was not searched to its end says nothing of what planning for all is worth."""
    horizon = horizon_plan()
    for bound in (None, horizon.counted_usd - 1.0):
        middle = MiddlePlan(scenario="low", counted_usd=horizon.counted_usd + 22_867.0, bound_usd=bound)
        text = as_text(horizon_document(horizon.model_copy(update={"middle": middle})))
        assert "committing for low alone" not in text
    middle = MiddlePlan(scenario="low", counted_usd=horizon.counted_usd - 1.0, bound_usd=0.0)
    text = as_text(horizon_document(horizon.model_copy(update={"middle": middle})))
    assert "committing for low alone would cost no more" in text


def test_csv_has_every_table_and_figures_as_they_are() -> None:
    horizon = horizon_plan()
    for name in tables.NAMES:
        read = list(csv.DictReader(io.StringIO(csv_of(horizon_document(horizon), name))))
        assert len(read) == len(next(t for t in tables.tables_of(horizon) if t.name == name).rows)
    (row,) = csv.DictReader(io.StringIO(csv_of(horizon_document(horizon), "sign_now")))
    assert float(row["usd_per_month"]) == pytest.approx(2 * prices()[0] * 730)


def test_names_are_text_everywhere() -> None:
    hostile = "<script>alert(1)</script>"
    horizon = _renamed(horizon_plan(), hostile)
    assert hostile not in as_page(horizon_document(horizon))
    assert hostile not in as_markdown(horizon_document(horizon))
    assert hostile in phrases.sign_now(horizon) or hostile in as_text(horizon_document(horizon))


def _renamed(horizon: HorizonPlan, name: str) -> HorizonPlan:
    return horizon.model_copy(update={"name": name, "middle": MiddlePlan(scenario=name, counted_usd=None)})


def test_the_worst_case_is_named_wherever_it_was_minimized() -> None:
    horizon = worst_case_plan()
    mean, high = horizon.expected_cost_usd, horizon.scenarios[1]
    line = f"worst case: ${high.cost_usd:,.0f} in scenario high over 6 months (${high.cost_usd / 6:,.0f} / month)"
    for told in (as_text(horizon_document(horizon)), as_markdown(horizon_document(horizon)).replace("\\", "")):
        assert f"{line}; expected: ${mean:,.0f}".lower() in told.lower()
        assert "2 scenarios, worst case minimized" in told
        assert "the worst case was minimized, not the expected cost: high" in told
        assert "saves at least $1,234 in the worst case over committing for low alone" in told
        assert "(worst case, high: cost with penalties and commitments as counted" in told
    page = as_page(horizon_document(horizon))
    assert f"<title>growth: ${high.cost_usd:,.0f} in the worst case" in page
    assert "cost least in the worst case" in page and "cost least on average" not in page
    facts = dict(horizon_document(horizon).facts())
    assert (facts["minimized"], facts["worst_scenario"]) == ("worst-case", "high")
    assert facts["worst_cost_usd"] == high.cost_usd
    assert "worst case minimized" not in as_text(horizon_document(horizon_plan()))


def test_a_commitment_that_lapses_within_a_quarter_is_named_with_what_it_costs_there() -> None:
    """One instance at $1.25/h until 14 February: 45 of 90 days of 2,190 h, $1,368.75."""
    horizon = horizon_plan()
    (held,) = horizon.case.held or ()
    case = horizon.case.model_copy(update={"held": (held.model_copy(update={"last_day": date(2027, 2, 14)}),)})
    (note,) = tables.held(horizon.model_copy(update={"case": case})).notes
    assert note.startswith("1 x aws/g6e.xlarge@us-east-1 reserved-1y lapse on 2027-02-14, within 2027-01 to 2027-03")
    assert "$1,369 is paid there for their days" in note
    assert note.endswith("what is signed instead begins with a quarter, on 2027-01-01 or after 2027-03-31")
    assert tables.held(horizon).notes == ()


def test_what_is_refused_for_its_length_is_on_the_first_screen_of_every_report() -> None:
    horizon = horizon_plan()
    assert list(phrases.long_requests(horizon)) == []
    quarters = []
    for k, q in enumerate(horizon.quarters):
        limit = {
            "longest_request_tokens": 8_192,
            "refused_share_frac": 0.02,
            "refused_requests_per_month": 1e6 * (k + 1),
        }
        told = tuple(w.model_copy(update=limit) for w in q.plan.workloads)
        quarters.append(q.model_copy(update={"plan": q.plan.model_copy(update={"workloads": told})}))
    refusing = horizon.model_copy(update={"quarters": tuple(quarters)})
    said = "every month: 2.00% of chat (1M to 3M requests longer than 8,192 tokens, by quarter and scenario)"
    assert f"REFUSED {said}; figures are for the rest" in "\n".join(as_text(horizon_document(refusing)).split("\n")[:8])
    assert said in as_page(horizon_document(refusing))
    assert said in as_markdown(horizon_document(refusing)).replace("\\", "")


def test_what_is_passed_on_for_its_length_names_where_it_goes() -> None:
    some = [
        TooLong("chat", 8_192, share, 1e6 * share, to)
        for share, to in ((0.01, "openai/gpt-4o"), (0.02, "openai/gpt-4o"))
    ]
    assert phrases.where_passed_on(some) == (
        "1.00% to 2.00% of chat (10k to 20k requests longer than 8,192 tokens, by quarter and scenario, "
        "the most its deployments accept) go to openai/gpt-4o"
    )
