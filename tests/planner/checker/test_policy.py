"""Policies: every rule passes at its limit and fails beyond it, bad files are named, and what is printed is inert."""

from __future__ import annotations

import json
from datetime import date, timedelta
from functools import cache
from pathlib import Path

import pytest

import planner
from planner.case.case import LatencyTarget
from planner.checker.policy import check_policy
from planner.checker.policy.rules import Check, Rule
from planner.checker.policy.schema import RULES, load_policy, policy_from_text
from planner.io.errors import InputError
from planner.plan.account.account import Account
from planner.plan.decisions import decisions_of
from planner.plan.plan import Plan, PowerPlan
from planner.reports.markdown import as_markdown
from planner.reports.policy import check_document
from planner.reports.text import as_text
from tests.support.command_line import SMALL, Command, no_control_characters
from tests.support.lever_plans import lever_plan
from tests.support.markdown_pages import cells, only_our_tags
from tests.support.places import ROOT
from tests.support.rows import for_each
from tests.support.shared_plans import fleet_plan

EXAMPLE = ROOT / "examples" / "policies" / "production.yaml"
HOSTILE = "=cmd() <script>alert(1)</script> | `x` [a](http://b) @all #1 \u202e [bold]"
AS_OF = date(2027, 1, 31)


@cache
def small_plan() -> Plan:
    return fleet_plan(planner.case_from_text(SMALL))


def checked(plan: Plan, text: str, against: Plan | None = None, as_of: date | None = AS_OF) -> Check:
    return check_policy(plan, policy_from_text(text), against, as_of)


def judged(plan: Plan, text: str, against: Plan | None = None, as_of: date | None = AS_OF) -> Rule:
    (rule,) = checked(plan, text, against, as_of).rules
    return rule


def changed(plan: Plan, **update: object) -> Plan:
    return plan.model_copy(update=update)


def gpu_hours(plan: Plan, purchase: str | None = None) -> float:
    months = len({s.month for s in plan.slots})
    return sum(
        n * f.gpus_per_instance * s.hours_per_month / months
        for f in plan.fleet
        if purchase in (None, f.purchase)
        for n, s in zip(f.instances_by_slot, plan.slots, strict=True)
    )


def share_of_requests(plan: Plan, key: str) -> float:
    total = sum(w.requests_per_month for w in plan.workloads)
    return sum(getattr(w, key) * w.requests_per_month for w in plan.workloads) / total


def with_bases(plan: Plan, *bases: str) -> Plan:
    """The same pool with a deployment of each basis, the k-th with k + 1 times the load."""
    pool = plan.pools[0]
    d = pool.deployments[0]
    others = tuple(
        d.model_copy(
            update={
                "deployment": d.deployment.model_copy(update={"basis": basis}),
                "load_by_slot": tuple((k + 1) * x for x in d.load_by_slot),
            }
        )
        for k, basis in enumerate(bases)
    )
    return changed(plan, pools=(pool.model_copy(update={"deployments": others}),))


def on_unknown_gpus(plan: Plan) -> Plan:
    """The same plan on GPUs of which nobody knows what runs there."""
    gpus = {key: gpu.model_copy(update={"architecture": "own"}) for key, gpu in plan.case.gpus.items()}
    return changed(plan, case=plan.case.model_copy(update={"gpus": gpus}))


def percent(x: float) -> str:
    return f"{100 * x:.12f}%"


def powered(plan: Plan) -> PowerPlan:
    assert plan.power is not None
    return plan.power


# name, plan, rule without its limit, the value it must find, and how a limit is written
CASES = {
    "spot": lambda: (lever_plan("together"), "max_spot_share: {}",
                     gpu_hours(lever_plan("together"), "spot") / gpu_hours(lever_plan("together")), percent),
    "api": lambda: (lever_plan("waiting"), "max_api_share: {}",
                    share_of_requests(lever_plan("waiting"), "api_share_frac"), percent),
    "shed": lambda: (lever_plan("shedding"), "max_shed_share: {}",
                     share_of_requests(lever_plan("shedding"), "shed_share_frac"), percent),
    "tokens": lambda: (small_plan(), "max_usd_per_1m_tokens: {}",
                       1e6 * small_plan().cost_usd_per_month / small_plan().tokens_per_month, "{:.12f}".format),
    "budget": lambda: (small_plan(), "budget_usd_per_month: {}", small_plan().costs.total(), "{:.9f}".format),
    "commitment": lambda: (small_plan(), "max_commitment_usd: {}",
                           sum(c.upfront_usd + c.beyond_horizon_usd for c in small_plan().commitments),
                           "{:.9f}".format),
    "guessed": lambda: (small_plan(), "max_guessed_commitment_usd: {}",
                        sum(c.instances * 8760 * next(f.usd_per_h for f in small_plan().fleet if f.purchase == c.term)
                            for c in small_plan().commitments), "{:.9f}".format),
    "gap": lambda: (changed(small_plan(), gap_frac=0.03), "max_gap: {}", 0.03, percent),
    "unmeasured": lambda: (with_bases(small_plan(), "measured", "estimated", "interpolated", "scaled", "calibrated"),
                           "max_unmeasured_share: {}", (2 + 4 + 5) / 15, percent),
    "unproven": lambda: (on_unknown_gpus(small_plan()), "max_unproven_share: {}", 1.0, percent),
    "change": lambda: (changed(small_plan(), cost_usd_per_month=1230.0), "max_change: {}", 0.23, percent),
    "change down": lambda: (changed(small_plan(), cost_usd_per_month=770.0), "max_change: {}", 0.23, percent),
    "rise": lambda: (changed(small_plan(), cost_usd_per_month=2500.0), "max_change: {{rise: {}}}", 1.5, percent),
    "fall": lambda: (changed(small_plan(), cost_usd_per_month=400.0), "max_change: {{fall: {}}}", 0.6, percent),
    "power": lambda: (small_plan(), "max_power_kw: {}", powered(small_plan()).rated_kw, "{:.12f}".format),
    "carbon": lambda: (small_plan(), "max_co2_kg_per_month: {}", powered(small_plan()).rated_co2_kg_per_month,
                       "{:.12f}".format),
    "age": lambda: (small_plan(), "max_price_age: {}",
                    (AS_OF - min(date.fromisoformat(str(f.price_date)) for f in small_plan().fleet)).days,
                    "{:.6f}d".format),
}  # fmt: skip
BEFORE = 1000.0


@for_each("name", CASES)
def test_a_value_at_its_limit_passes_and_one_beyond_it_fails(name: str) -> None:
    plan, text, value, written = CASES[name]()
    against = changed(plan, cost_usd_per_month=BEFORE)
    assert value > 0
    at, beyond = (judged(plan, text.format(written(limit)), against) for limit in (value, value * 0.9999))
    assert at.value == pytest.approx(value) and at.passed and not at.at_least
    assert not beyond.passed
    shown = as_text(check_document(checked(plan, text.format(written(value * 0.9999)), against)))
    assert f"{plan.name} breaks 1 of 1 rule\n" in shown and "  FAILS  max_" in shown.replace("budget", "max_")


def test_savings_and_headroom_are_least_limits() -> None:
    plan = small_plan()
    saved = 1 - plan.cost_usd_per_month / plan.baseline.cost_usd_per_month
    assert judged(plan, f"min_savings: {percent(saved)}").passed
    assert not judged(plan, f"min_savings: {percent(saved + 1e-4)}").passed
    dearer = changed(plan, baseline=plan.baseline.model_copy(update={"savings_frac": -0.2}))
    assert judged(dearer, "min_savings: -20%").passed and not judged(dearer, "min_savings: -19%").passed
    d, w = plan.pools[0].deployments[0].deployment, plan.case.workloads[0]
    for kind, ms, seconds in (("ttft", d.ttft_ms, w.ttft.seconds), ("tpot", d.tpot_ms, w.tpot.seconds)):
        assert ms is not None
        left = 1 - ms / 1e3 / seconds
        rule = judged(plan, f"min_slo_headroom: {{{kind}: {percent(left)}}}")
        assert rule.passed and rule.at_least and rule.value == pytest.approx(left)
        assert w.name in rule.detail
        assert not judged(plan, f"min_slo_headroom: {{{kind}: {percent(left + 1e-4)}}}").passed


def test_headroom_is_that_of_the_tightest_workload_and_of_every_objective() -> None:
    plan = small_plan()
    pool = plan.pools[0]
    d = pool.deployments[0]
    slow = d.model_copy(update={"deployment": d.deployment.model_copy(update={"e2e_ms": 900.0, "ttft_ms": 1900.0})})
    hurried = plan.case.workloads[0].model_copy(update={"e2e": LatencyTarget(seconds=1.0, percentile=0.95)})
    two = changed(
        plan,
        pools=(pool.model_copy(update={"deployments": (d, slow)}),),
        case=plan.case.model_copy(update={"workloads": (hurried,)}),
    )
    rules = {rule.rule: rule for rule in checked(two, "min_slo_headroom: 8%").rules}
    assert list(rules) == ["min_slo_headroom.ttft", "min_slo_headroom.tpot", "min_slo_headroom.e2e"]
    assert rules["min_slo_headroom.e2e"].value == pytest.approx(0.1) and rules["min_slo_headroom.e2e"].passed
    assert rules["min_slo_headroom.ttft"].value == pytest.approx(1 - 1.9 / hurried.ttft.seconds)
    kinds = [rule.rule.split(".")[1] for rule in checked(plan, "min_slo_headroom: 8%").rules]
    assert kinds == ["ttft", "tpot"]
    nobody = checked(plan, "min_slo_headroom: {e2e: 50%}").rules[0]
    assert nobody.passed and nobody.value is None
    assert " -  at least 50.0%  " in as_text(check_document(checked(plan, "min_slo_headroom: {e2e: 50%}")))


def test_the_budget_is_for_the_dearest_month() -> None:
    plan = lever_plan("together")
    assert plan.case.workloads[0].growth_per_month_frac > 0
    rule = judged(plan, f"budget_usd_per_month: {plan.cost_usd_per_month}")
    assert not rule.passed and rule.detail == "month 3 of 3"
    assert judged(plan, f"budget_usd_per_month: {rule.value}").passed


def test_regions() -> None:
    plan = small_plan()
    assert judged(plan, "allowed_regions: [eu-west-1, us-east-1]").passed
    rule = judged(plan, "allowed_regions: [eu-west-1]")
    assert not rule.passed and rule.value == ("us-east-1",) and "not allowed: us-east-1" in rule.detail


def test_prices_age_from_the_day_that_is_given() -> None:
    plan = small_plan()
    oldest = min(date.fromisoformat(str(f.price_date)) for f in plan.fleet)
    text = "max_price_age: 30d\nas_of: {}"
    assert judged(plan, text.format(oldest + timedelta(30)), as_of=None).passed
    assert not judged(plan, text.format(oldest + timedelta(31)), as_of=None).passed
    assert judged(plan, text.format(oldest + timedelta(31)), as_of=oldest).value == 0
    today = checked(plan, "max_price_age: 10000d", as_of=None)
    assert today.as_of_is_today and "which is today" in as_text(check_document(today))
    assert "which is today" not in as_text(check_document(checked(plan, "max_price_age: 10000d")))
    assert checked(plan, "max_gap: 1%").as_of is None


def test_prices_of_batch_work_age_too() -> None:
    plan = lever_plan("waiting")
    apis = {}
    for key, api in plan.case.apis.items():
        assert api.batch is not None
        batch = api.batch.model_copy(update={"date": "2020-01-01"})
        apis[key] = api.model_copy(update={"batch": batch})
    rule = judged(changed(plan, case=plan.case.model_copy(update={"apis": apis})), "max_price_age: 1000d")
    assert not rule.passed and rule.detail.startswith("of 2020-01-01: own/mini batch")


def test_prices_without_a_date_are_named_and_those_of_unknown_date_fail() -> None:
    alone = tuple(w.model_copy(update={"api_share_frac": 0.0}) for w in small_plan().workloads)
    plan = changed(small_plan(), workloads=alone)
    line = plan.fleet[0]
    lines = tuple(line.model_copy(update={"offer": f"o{k}", "price_date": day}) for k, day in
                  enumerate((None, "last week", "2027-01-21", "2027-01-29")))  # fmt: skip
    dated = plan.baseline.model_copy(update={"date": None, "provider": "p", "model": "m"})
    rule = judged(changed(plan, fleet=lines, baseline=dated), "max_price_age: 1d")
    buy = line.purchase
    assert rule.value == 10 and not rule.passed
    assert rule.detail == f"of 2027-01-21: o2 {buy}; of unknown date: o1 {buy}; without a date: o0 {buy}, p/m"
    without = judged(changed(plan, fleet=lines[:1], baseline=dated), "max_price_age: 1d")
    assert without.passed and without.value is None
    for written in ("unknown", "last week"):
        unknown = lines[0].model_copy(update={"price_date": written})
        rule = judged(changed(plan, fleet=(unknown,), baseline=dated), "max_price_age: 10000d")
        assert not rule.passed and rule.detail.startswith(f"of unknown date: o0 {buy}")


def test_a_change_within_the_proofs_is_said() -> None:
    plan = changed(small_plan(), gap_frac=0.05, cost_usd_per_month=1000.0)
    near, far = (judged(changed(plan, cost_usd_per_month=c), "max_change: 1%", plan) for c in (1050.0, 1200.0))
    assert not near.passed and "the proofs leave $102 open" in near.detail
    assert not far.passed and "open" not in far.detail
    from_nothing = judged(plan, "max_change: 900%", changed(plan, cost_usd_per_month=0.0))
    assert not from_nothing.passed and from_nothing.value is None


def test_what_is_held_counts_as_paid() -> None:
    plan = small_plan()
    case = plan.case.model_copy(update={"held_besides_usd_per_month": 1000.0})
    account = Account(case, decisions_of(plan))
    held = changed(plan, held_usd_per_month=account.money.held_usd, baseline=account.money.baseline)
    each = judged(held, "max_usd_per_1m_tokens: 1").value
    paid = plan.cost_usd_per_month + 1000
    assert each == pytest.approx(1e6 * paid / plan.tokens_per_month)
    saved = judged(held, "min_savings: 1%").value
    assert saved == pytest.approx(1 - paid / plan.baseline.cost_usd_per_month)


def test_a_change_needs_the_plan_before() -> None:
    with pytest.raises(InputError, match="Give --against"):
        checked(small_plan(), "max_change: 5%")


def test_every_rule_is_there_and_documented() -> None:
    text = EXAMPLE.read_text()
    docs = (ROOT / "docs" / "reference" / "checks.md").read_text()
    assert [key for key in RULES if f"`{key}" not in docs] == []
    assert len([key for key in RULES if f"\n{key}: " in text]) >= 8
    assert load_policy(EXAMPLE)
    everything = policy_from_text(
        "budget_usd_per_month: 1\nmax_change: 1%\nmax_usd_per_1m_tokens: 1\nmin_savings: 1%\nmax_commitment_usd: 1\n"
        "max_guessed_commitment_usd: 1\nmax_spot_share: 1%\nmax_api_share: 1%\nmax_shed_share: 1%\n"
        "allowed_regions: [x]\nmin_slo_headroom: 1%\n"
        "max_gap: 1%\nmax_unmeasured_share: 1%\nmax_unproven_share: 1%\nmax_power_kw: 1\n"
        "max_co2_kg_per_month: 1\nmax_price_age: 1d\n"
        "max_liability_usd: 1\nmax_regret: 1%\nmin_coverage: 1%\nmin_utilization: 1%\n"
    )
    found = check_policy(small_plan(), everything, small_plan(), AS_OF)
    assert list(dict.fromkeys(rule.rule.split(".")[0] for rule in found.rules)) == list(RULES)
    assert {rule.passed for rule in found.rules} == {True, False}
    assert json.loads(json.dumps(found.as_json(), allow_nan=False))["passed"] is False


@for_each(
    ("text", "place", "message"),
    [
        ("max_spot_shar: 10%", "1:1", "unknown key 'max_spot_shar'. Did you mean 'max_spot_share'?"),
        ("max_gap: 1%\nbudget: 80k", "2:1", "unknown key 'budget'"),
        ("max_gap: 0.01", "1:10", 'Write "1%"'),
        ("max_gap: 120%", "1:10", "must lie between 0% and 100%"),
        ("max_gap: -1%", "1:10", "cannot be negative"),
        ("max_gap:", "1:9", "expected a limit, got nothing"),
        ("max_gap: 1%\nmin_slo_headroom: {ttft: 1%, e2e: }", "2:35", "expected a limit, got nothing"),
        ("budget_usd_per_month: lots", "1:23", "expected an amount in dollars, got 'lots'"),
        ("budget_usd_per_month: -5", "1:23", "negative"),
        ("max_price_age: 90", "1:16", 'Write "90d" or "90w"'),
        ("max_price_age: soon", "1:16", "expected a duration"),
        ("max_gap: 1%\nas_of: 31.1.2027", "2:8", "expected a date, got '31.1.2027'. Write one such as 2027-01-31"),
        ("max_gap: 1%\nas_of: 2027-02-30", "2:8", "expected a date"),
        ("max_change: {up: 3%}", "1:14", "unknown key 'up'"),
        ("max_change: {}", "1:13", "Write {rise: 10%, fall: 30%}"),
        ("min_slo_headroom: {}", "1:19", "Write {ttft: 10%}"),
        ("min_slo_headroom: {ttft: 10}", "1:26", 'Write "10%"'),
        ("min_slo_headroom: [1%]", "1:19", "expected"),
        ("allowed_regions: us-east-1", "1:18", "Write [us-east-1]"),
        ("allowed_regions: []", "1:18", "must have at least 1 entry"),
        ("max_gap: 1%\nmax_gap: 2%", "2:1", "was already given on line 1"),
        ("as_of: 2027-01-31", "1:1", "has no rule, so every plan keeps it. Write one such as"),
        ("- max_gap: 1%", "1:1", "expected a mapping"),
        ("", "1:1", "the file is empty"),
        ("max_gap: [1%", "2:1", "closing ']'"),
    ],
)
def test_a_bad_policy_is_named_at_its_place(
    text: str, place: str, message: str, tmp_path: Path, fleetplan: Command
) -> None:
    file, plan = tmp_path / "policy.yaml", tmp_path / "plan.json"
    file.write_text(text)
    ran = fleetplan("check", plan, "--policy", file)
    assert ran.code == 2 and ran.out == ""
    assert any(f"policy.yaml:{place}: " in line and message in line for line in ran.err.splitlines()), ran.err
    assert len(ran.err.splitlines()) == 1 and "Traceback" not in ran.err


def test_the_command(tmp_path: Path, fleetplan: Command) -> None:
    plan, good, bad = tmp_path / "plan.json", tmp_path / "good.yaml", tmp_path / "bad.yaml"
    plan.write_text(small_plan().to_json())
    good.write_text("max_gap: 1%\nmax_change: 0%\n")
    bad.write_text("max_gap: 1%\nbudget_usd_per_month: $7\n")
    kept = fleetplan("check", plan, "--policy", good, "--against", plan)
    assert (kept.code, kept.err) == (0, "") and "keeps the policy (2 rules)" in kept.out
    for format in ("table", "md", "json"):
        ran = fleetplan("check", plan, "--policy", good, "--against", plan, "--quiet-when-ok", "--format", format)
        assert (ran.code, ran.out, ran.err) == (0, "", "")
        broken = fleetplan("check", plan, "--policy", bad, "--quiet-when-ok", "--format", format)
        assert broken.code == 5 and broken.err == "" and "budget" in broken.out
        assert broken.out == fleetplan("check", plan, "--policy", bad, "--format", format).out
    told = json.loads(broken.out)
    assert told["format"] == "fleetplan-check/1" and [r["passed"] for r in told["rules"]] == [False, True]
    assert fleetplan("check", plan, "--policy", good).code == 2
    assert "no such file" in fleetplan("check", plan, "--policy", tmp_path / "none.yaml").err
    assert "--as-of: expected a date" in fleetplan("check", plan, "--policy", bad, "--as-of", "tomorrow").err


def test_only_plans_that_hold_are_checked(tmp_path: Path, fleetplan: Command) -> None:
    plan, old, policy = tmp_path / "plan.json", tmp_path / "old.json", tmp_path / "policy.yaml"
    old.write_text(small_plan().to_json())
    data = json.loads(old.read_text())
    data["cost_usd_per_month"] = 1.0
    plan.write_text(json.dumps(data))
    policy.write_text("max_change: 5%\n")
    for arguments in ((plan, old), (old, plan)):
        ran = fleetplan("check", arguments[0], "--policy", policy, "--against", arguments[1])
        assert ran.code == 2 and "plan.json: this plan fails its check" in ran.err and ran.out == ""


def test_reasons_against_the_menu_are_confirmed_by_check_alone(tmp_path: Path, fleetplan: Command) -> None:
    plan = tmp_path / "plan.json"
    data = json.loads((ROOT / "examples" / "quarterly-review" / "last-plan.json").read_text())
    del data["rejected"][0]
    plan.write_text(json.dumps(data))
    assert "it is not said that" in fleetplan("check", plan).err
    assert fleetplan("report", plan, "--format", "table").code == 0


def test_what_is_printed_is_inert() -> None:
    plan = Plan.model_validate_json(
        small_plan().to_json().replace('"chat"', json.dumps(HOSTILE)).replace('"us-east-1"', json.dumps(HOSTILE))
    )
    plan = changed(plan, name=HOSTILE)
    text = "min_slo_headroom: 99%\nallowed_regions: [nowhere]\nmax_api_share: 0%\nmax_gap: 1%\nmax_price_age: 1d\n"
    found = checked(plan, text + "max_change: 0%", changed(plan, name=HOSTILE))
    page = as_markdown(check_document(found))
    assert only_our_tags(page)
    rows = cells(page)
    assert {len(row) for row in rows} == {6}
    assert any("<script>alert(1)</script> | `x`" in row[2] for row in rows if row[1] == "allowed_regions")
    assert no_control_characters(as_text(check_document(found))) and no_control_characters(page.replace("\u200b", ""))
    failing, kept = page.split("<details>")
    assert "min\\_slo\\_headroom.ttft" in failing and "max\\_gap" in kept


def test_value_and_limit_can_be_told_apart() -> None:
    close = as_text(check_document(checked(changed(small_plan(), gap_frac=0.010001), "max_gap: 1%")))
    assert "1.0001%  at most 1.0000%" in close
    dust = as_text(check_document(checked(changed(small_plan(), gap_frac=0.01 + 1e-10), "max_gap: 1%")))
    assert "1.0%  at most 1.0%" in dust and "  ok" in dust


def test_power_that_is_not_known_keeps_no_limit() -> None:
    unknown = changed(small_plan(), power=powered(small_plan()).model_copy(update={"not_known": ("a10g",)}))
    rule = judged(unknown, "max_power_kw: 1000000")
    assert not rule.passed
    assert "nobody published what a10g draws" in rule.detail
