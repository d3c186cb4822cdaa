"""Servers that are bought: what they cost by hand, what limits them, and that a changed plan is refused."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable
from datetime import date
from functools import cache

import pytest

import planner
from planner.checker import check_plan
from planner.export.export import export_plan
from planner.export.hosted import Settings
from planner.io.formatting import usd
from planner.judgement.concerns import concerns_of
from planner.levers import levers_in_use
from planner.plan.account.account import account_of
from planner.plan.account.other_demand import other_demand
from planner.plan.horizon.horizon_plan import HorizonPlan
from planner.plan.plan import Plan
from planner.reports import horizon_phrases
from planner.reports.diff import diff_document
from planner.reports.focus import focus_rows_of
from planner.reports.formats import rendered
from planner.reports.glance import places
from planner.reports.phrases import within_budget
from planner.reports.plan import plan_document
from planner.reports.tables.answers import to_sign
from planner.reports.tables.bought import bought
from planner.reports.tables.horizon import sign_now
from tests.support.rows import for_each
from tests.support.shared_plans import CHAT, fleet_plan
from tests.support.tampering import Json, rehashed

HOURS = 730.0
SERVER = """\
    - {name: 8xh200, like: aws/p5en.48xlarge, site: hq, price: $310k, residual: 15%, life_years: 4, capital_cost: 9%,
       maintenance: 5%, colocation_usd_per_month: 1800, lead_months: 3}
"""
OWN = f"""
workloads:
  - name: chat
    models: [llama-3.3-70b]
    forecast: {{requests_per_day: 700k, shape: business-hours}}
    tokens: {{input: 1500, output: 300}}
    slo: {{ttft_p95: 2s, tpot_p95: 60ms}}
    api: forbidden
menu:
  gpus: [h200]
  quantizations: [fp8]
  providers: [aws]
  regions: [us-east-1]
  purchase: [on-demand]
  max_deployments: 1
  own:
{SERVER}sites:
  hq: {{pue: 1.3, grid_g_per_kwh: 350, usd_per_kwh: 0.11}}
policy: {{startup: 0s, spread: false}}
baseline: openai/gpt-4o-mini
"""


@cache
def planned(text: str = OWN) -> Plan:
    return fleet_plan(planner.case_from_text(text))


def test_depreciation_by_hand() -> None:
    """Of $310,000 15% are left after 48 months, capital is charged on the mean of both, a year has 12 months."""
    plan = planned()
    (line,), (servers,) = plan.fleet, plan.bought or ()
    n = line.instances_by_slot[0]
    assert (line.offer, line.purchase, servers.instances) == ("own/8xh200@hq", "bought-48mo", n)
    assert n >= 1
    assert servers.depreciation_usd_per_month == pytest.approx(n * (310_000 - 46_500) / 48)
    assert servers.capital_usd_per_month == pytest.approx(n * 0.09 * (310_000 + 46_500) / 2 / 12)
    assert servers.maintenance_usd_per_month == pytest.approx(n * 0.05 * 310_000 / 12)
    assert servers.colocation_usd_per_month == n * 1800
    assert plan.cost_usd_per_month == pytest.approx(servers.cost_usd_per_month)


def test_energy_by_hand() -> None:
    """What the box draws in every hour, and what a GPU in use draws besides, at its most, with cooling."""
    plan = planned()
    (servers,), gpu = plan.bought or (), plan.case.power.gpus["h200"]  # type: ignore[union-attr]
    box_kw = 1.3 * 8 * (gpu.host_w + gpu.idle_w) / 1000
    gpu_kw = 1.3 * (gpu.most_frac * gpu.tdp_w - gpu.idle_w) / 1000
    used = sum(
        s.hours_per_month * n * d.deployment.gpus_per_replica
        for pool in plan.pools
        for d in pool.deployments
        for s, n in zip(plan.slots, d.replicas_by_slot, strict=True)
    )
    used /= plan.slots[-1].month + 1
    assert servers.idle_kwh_per_month == pytest.approx(servers.instances * box_kw * HOURS)
    assert servers.gpu_hours_per_month == pytest.approx(used)
    assert servers.gpu_kwh_per_month == pytest.approx(used * gpu_kw)
    kwh = servers.idle_kwh_per_month + servers.gpu_kwh_per_month
    assert servers.energy_usd_per_month == pytest.approx(0.11 * kwh)
    assert kwh >= plan.power.kwh_per_month  # type: ignore[union-attr]


def test_every_reader_gets_the_same_sum() -> None:
    """Costs, the table of parts, what is signed, a budget in FOCUS, months, workloads, and other demand."""
    plan = planned()
    costs, money = plan.costs, account_of(plan).money
    assert (costs.bought_usd_per_month or 0) + (costs.energy_usd_per_month or 0) == pytest.approx(
        plan.cost_usd_per_month
    )
    rows = bought(plan).rows
    assert sum(row[-1] for row in rows[:-1]) == pytest.approx(rows[-1][-1])
    first, *others, whole = to_sign(plan).rows
    servers_usd = 310_000 * plan.fleet[0].instances_by_slot[0]
    assert first[3:] == (servers_usd, servers_usd, 0)
    assert sum(row[2] for row in (first, *others)) == pytest.approx(whole[2])
    budget = [r for r in focus_rows_of(plan, date(2027, 1, 1)) if r["ServiceName"] in ("Servers", "Energy")]
    assert sum(float(r["BilledCost"]) for r in budget) == pytest.approx(3 * plan.cost_usd_per_month, rel=1e-6)
    months = [money.month_usd(month) for month in range(plan.slots[-1].month + 1)]
    assert sum(months) / len(months) == pytest.approx(plan.cost_usd_per_month)
    assert sum(w.cost_usd_per_month for w in plan.workloads) == pytest.approx(plan.cost_usd_per_month)
    (same,) = other_demand(plan, (1.0,))
    assert same.cost_usd_per_month == pytest.approx(plan.cost_usd_per_month)


def test_a_server_is_worth_what_is_left_of_its_price() -> None:
    price = planned().case.offers["own/8xh200@hq"].prices.bought
    assert price is not None
    assert [price.book_usd(months) for months in (0, 24, 48, 60)] == pytest.approx([310_000, 178_250, 46_500, 46_500])


def test_rent_is_left_for_what_is_cheaper() -> None:
    """The lever is in use; without it the same is rented, for more; dear servers are left alone."""
    plan, rented = planned(), planned(OWN[: OWN.index("  own:")] + OWN[OWN.index("policy:") :])
    (lever,) = [x for x in levers_in_use(plan) if x.key == "servers of your own"]
    without = fleet_plan(lever.without(plan.case))
    assert without.cost_usd_per_month == pytest.approx(rented.cost_usd_per_month)
    assert plan.cost_usd_per_month < rented.cost_usd_per_month
    dear = planned(OWN.replace("$310k", "$3M"))
    assert dear.cost_usd_per_month == pytest.approx(rented.cost_usd_per_month)
    assert (dear.bought, dear.costs.energy_usd_per_month) == ((), 0.0)


@pytest.mark.parametrize(("site", "most"), [("power_kw: 10.5", None), ("power_kw: 10.8", 1), ("power_kw: 25", 2)])
def test_the_power_of_a_site_limits_what_stands_there(site: str, most: int | None) -> None:
    """A server draws 10.7 kW with cooling where all of its GPUs draw their most."""
    text = OWN.replace("usd_per_kwh: 0.11", f"usd_per_kwh: 0.11, {site}").replace("700k", "2M")
    text = text.replace("max_deployments: 1", "max_deployments: 2")
    if most is None:
        with pytest.raises(planner.InputError, match=r"too little for one 8xh200, which draws 10\.7 kW"):
            planner.case_from_text(text)
        return
    case = planner.case_from_text(text)
    assert case.limits.max_instances == {"own/8xh200@hq": most}
    (servers,) = planned(text).bought or ()
    assert servers.instances == most


def test_plans_without_such_servers_say_nothing_of_them() -> None:
    plan = planned(CHAT).as_json()
    assert "bought" not in plan
    assert not [key for key in plan["costs"] if key.startswith(("bought", "energy"))]


def _price(plan: Json) -> Json:
    return plan["case"]["offers"]["own/8xh200@hq"]["prices"]["bought"]


def _fewer(plan: Json) -> None:
    line = plan["fleet"][0]
    line["instances_by_slot"] = [n - (t > 5) for t, n in enumerate(line["instances_by_slot"])]


LIES: dict[str, tuple[Callable[[Json], object], str]] = {
    "depreciation": (lambda p: p["bought"][0].update(depreciation_usd_per_month=1.0), "depreciation_usd_per_month is"),
    "energy": (lambda p: p["costs"].update(energy_usd_per_month=1.0), "energy_usd_per_month is"),
    "given away": (_fewer, "must be held all the time"),
    "another life": (lambda p: p["fleet"][0].update(purchase="bought-60mo"), "bought-60mo"),
    "draws nothing": (lambda p: _price(p).update(idle_kw=0.0), "kW of a server that stands idle is"),
    "idles": (lambda p: _price(p).update(gpu_kw=0.0), "kW of one in full use is"),
}


@for_each("lie", LIES)
def test_a_changed_plan_is_refused(lie: str) -> None:
    change, words = LIES[lie]
    plan = copy.deepcopy(planned().as_json())
    assert check_plan(plan) == []
    change(plan)
    rehashed(plan)
    problems = check_plan(plan)
    assert any(words in problem for problem in problems), problems


def test_they_are_left_out_by_name() -> None:
    """As `what-if --without own` does; the site may stay in the file."""
    case = planner.case_from_text(OWN.replace("  own:\n", "  own: []\n").replace(SERVER, ""))
    assert not [way for way in case.purchase if way.startswith("bought")]
    assert not [key for key in case.offers if key.startswith("own/")]


def test_years_that_rest_on_a_quarter_are_a_concern() -> None:
    (concern,) = (c for c in concerns_of(planned()) if c.key == "bought-on-a-quarter")
    count = sum(line.instances_by_slot[0] for line in planned().fleet)
    assert usd(310_000 * count) in concern.sentence and "live 4 years" in concern.sentence
    assert "3 months pass" in concern.sentence
    rented = planned(OWN.replace("price: $310k", "price: $9M"))
    assert rented.fleet and not rented.commitments
    assert not [c for c in concerns_of(rented) if c.key == "bought-on-a-quarter"]


def test_a_site_of_the_file_is_not_assumed() -> None:
    assert places(planned(OWN.replace("  regions: [us-east-1]\n", ""))) == "in own hq"


HORIZON = OWN.replace("lead_months: 3", "lead_months: 4, max_instances: 3").replace(
    "\nworkloads:", "\nstarts: 2027-01-01\nhorizon: 4 quarters\nworkloads:", 1
)


@cache
def plan_of_a_year() -> HorizonPlan:
    plan = planner.plan_fleet(planner.case_from_text(HORIZON))
    assert isinstance(plan, HorizonPlan)
    return plan


def planned_for_a_year() -> Json:
    return plan_of_a_year().as_json()


def test_what_is_paid_for_and_what_is_drawn_are_said_side_by_side() -> None:
    """Both of GPUs in use hour by hour; paid at the most that they draw, as the money by part has it."""
    plan = planned()
    (servers,), (place,), power = plan.bought or (), plan.power.places if plan.power else (), plan.case.power
    assert power is not None
    gpu, pue = power.gpus["h200"], 1.3
    used_h = sum(
        d.deployment.gpus_per_replica * n * slot.hours_per_month
        for pool in plan.pools
        for d in pool.deployments
        for n, slot in zip(d.replicas_by_slot, plan.slots, strict=True)
    ) / (plan.slots[-1].month + 1)  # fmt: skip
    idle_kw = servers.instances * 8 * (gpu.host_w + gpu.idle_w) / 1e3
    paid = pue * (HOURS * idle_kw + used_h * (gpu.most_w - gpu.idle_w) / 1e3)
    assert servers.gpu_hours_per_month == pytest.approx(used_h)
    assert servers.energy_usd_per_month == pytest.approx(0.11 * paid)
    assert HOURS * pue * idle_kw < place.kwh_per_month < paid
    (note,) = bought(plan).notes
    assert f"{paid:,.0f} kWh a month are paid for" in note
    assert f"the {place.kwh_per_month:,.0f} kWh that are expected" in note


INTERNAL = re.compile(r"bought-\d+mo")


def test_people_read_a_life_in_words_and_machines_our_name_of_it() -> None:
    """In all that is shown of a quarter, of a year and of both compared; CSV keeps what scripts join by."""
    year = plan_of_a_year()
    changed = diff_document(planner.diff_plans(planned(OWN.replace("700k", "2M")), planned()))
    for document in (plan_document(planned(), verbose=True), plan_document(year, verbose=True), changed):
        for format in ("table", "md", "html"):
            said = rendered(document, format)
            assert "bought for 4 years" in said
            assert INTERNAL.search(said) is None
    assert ",bought-48mo," in rendered(plan_document(planned()), "csv", "fleet")
    readme = export_plan(planned(), "compose", Settings())["README.md"]
    assert "bought for 4 years" in readme and INTERNAL.search(readme) is None


def test_what_servers_are_worth_after_the_horizon_is_said() -> None:
    """Of $263,500 that each loses over 48 months, 6 have passed; what no hour on demand is sold for has no payback."""
    plan = plan_of_a_year()
    (signed,) = (c for c in plan.signed_now if c.term == "bought-48mo")
    worth = signed.instances * (310_000 - 263_500 * 6 / 48)
    table = sign_now(plan)
    (row,) = (dict(zip([c.key for c in table.columns], cells, strict=True)) for cells in table.rows)
    assert row["book_beyond_usd"] == pytest.approx(worth)
    assert row["months_to_pay"] is None
    assert f"{usd(worth)} of book value left then" in horizon_phrases.sign_now(plan)


def test_a_server_serves_after_its_lead_time_and_costs_its_months_in_the_horizon() -> None:
    """Four months are two quarters; what is left of its life after the horizon is no cost, nor owed in cash."""
    horizon = planned_for_a_year()
    (signed,) = [c for c in horizon["commitments"] if c["term"] == "bought-48mo"]
    price = planned().case.offers["own/8xh200@hq"].prices.bought
    assert price is not None
    assert (signed["quarter"], signed["scenario"], signed["first_day"]) == (2, None, "2027-07-01")
    assert signed["last_day"] == "2031-06-30"
    assert signed["counted_usd"] == signed["inside_usd"]
    assert signed["inside_usd"] == pytest.approx(signed["instances"] * 6 * price.usd_per_month)
    assert signed["upfront_usd"] == signed["instances"] * 310_000
    first, _, third, _ = horizon["quarters"]
    assert not [h for h in first["plan"]["case"].get("held", ()) if h["offer"].startswith("own/")]
    assert third["plan"]["costs"]["energy_usd_per_month"] > 0
    assert third["plan"]["costs"]["bought_usd_per_month"] == 0


HORIZON_LIES: dict[str, tuple[Callable[[Json], object], str]] = {
    "serves at once": (lambda c: c.update(quarter=0, first_day="2027-01-01", last_day="2030-12-31"), "ordered before"),
    "lives longer": (lambda c: c.update(last_day="2032-06-30"), "its last day is"),
    "is cheaper": (lambda c: c.update(inside_usd=1.0), "inside_usd is"),
}


@pytest.mark.parametrize("lie", HORIZON_LIES)
def test_a_changed_horizon_is_refused(lie: str) -> None:
    change, words = HORIZON_LIES[lie]
    plan = copy.deepcopy(planned_for_a_year())
    assert check_plan(plan) == []
    change(plan["commitments"][0])
    problems = check_plan(plan)
    assert any(words in problem for problem in problems), problems


def test_a_limit_on_liabilities_counts_what_servers_are_still_to_lose() -> None:
    """Of a server that serves 6 of 48 months, 42 / 48 of what it loses in value."""
    each = (310_000 - 46_500) * 42 / 48
    for limit, most in ((0.9 * each, 0), (1.1 * each, 1)):
        text = HORIZON.replace("spread: false}", f"spread: false, max_liability: ${limit:.0f}}}")
        text = text.replace("max_deployments: 1", "max_deployments: 2")
        horizon = planner.plan_fleet(planner.case_from_text(text))
        assert sum(c.instances for c in horizon.commitments if c.term == "bought-48mo") == most


@pytest.mark.parametrize("most", ["", ", max_instances: 1"])
def test_servers_that_stand_there_take_room_of_the_site(most: str) -> None:
    """They draw of the same power; and those of 'have' are no reason to buy more than may be bought."""
    text = OWN.replace("usd_per_kwh: 0.11}", "usd_per_kwh: 0.11, power_kw: 40}")
    text = text.replace("lead_months: 3}", f"lead_months: 3{most}}}")
    have = "\nhave: [{offer: own/8xh200, purchase: owned, instances: 1, price: $1/h}]"
    alone, beside = (
        planner.case_from_text(f"starts: 2027-01-01\n{text}{more}").limits.max_instances["own/8xh200@hq"]
        for more in ("", have)
    )
    price = planned().case.offers["own/8xh200@hq"].prices.bought
    assert price is not None
    room = int(40 // (price.idle_kw + 8 * price.gpu_kw))
    assert (alone, beside) == ((1, 1) if most else (room, room - 1))
    assert room > 2


def test_a_budget_that_is_kept_is_said_with_the_cash_beside_it() -> None:
    plan = planned(OWN.replace("policy: {", "policy: {budget: $900k/quarter, "))
    said = within_budget(plan)
    assert said.startswith(f"budget of $900,000 a quarter: {usd(3 * plan.cost_usd_per_month)} of $900,000 in a quarter")
    assert f"{usd(sum(c.upfront_usd for c in plan.commitments))} in cash at signing" in said
    assert not within_budget(planned())


def test_a_horizon_that_no_budget_lets_through_says_what_is_enough() -> None:
    text = HORIZON.replace("policy: {", "policy: {budget: $10k/quarter, ").replace("4 quarters", "2 quarters")
    with pytest.raises(planner.Infeasible, match=r"from \$10,000 to \$[\d,]+ a quarter") as caught:
        planner.plan_fleet(planner.case_from_text(text.replace("lead_months: 4", "lead_months: 3")))
    (found,) = re.findall(r"from \$10,000 to \$([\d,]+) a quarter", str(caught.value))
    enough = f"budget: ${int(found.replace(',', '')) + 1}/quarter"
    plan = planner.plan_fleet(
        planner.case_from_text(text.replace("lead_months: 4", "lead_months: 3").replace("budget: $10k/quarter", enough))
    )
    assert isinstance(plan, HorizonPlan)
