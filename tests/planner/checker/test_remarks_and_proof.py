"""What the checker cannot verify is listed, no rule reads it unsaid, and a bound is worked out again where asked."""

from __future__ import annotations

import json
from datetime import date
from pathlib import Path

import pytest

import planner
from planner import pipeline
from planner.checker.policy import check_policy
from planner.checker.policy.rules import Check
from planner.checker.policy.schema import policy_from_text
from planner.checker.proof import bound_check
from planner.checker.remarks import BOUND, REGRET, REMARKS, remarks_in
from planner.plan.plan import Plan
from planner.plan.saved import plan_from_json
from planner.reports.markdown import as_markdown
from planner.reports.policy import check_document
from planner.reports.text import as_text
from planner.studies.proving import prove_again
from tests.support.command_line import Command
from tests.support.horizon_plans import horizon_plan
from tests.support.lever_plans import lever_plan
from tests.support.places import ROOT
from tests.support.rows import for_each
from tests.support.tampering import Json, kinds_of, unseen

POLICY = """\
budget_usd_per_month: 1k
max_usd_per_1m_tokens: 1
min_savings: 1%
max_commitment_usd: 1
max_spot_share: 1%
max_api_share: 1%
max_shed_share: 1%
allowed_regions: [x]
min_slo_headroom: 1%
max_gap: 1%
max_unmeasured_share: 1%
max_unproven_share: 1%
max_price_age: 1d
max_regret: 50%
"""
AS_OF = date(2027, 1, 31)


def proved(plan: Plan) -> Plan:
    """With its bound raised to what it costs, and all that follows from that: nothing contradicts it."""
    objective = plan.cost_usd_per_month + plan.penalty_usd_per_month
    return plan.model_copy(update={"bound_usd_per_month": objective, "gap_frac": 0.0, "status": "optimal"})


def too_expensive() -> Plan:
    """A plan about 1% above the optimum, said to be optimal."""
    return proved(lever_plan("waiting"))


# -- remarks ----------------------------------------------------------------------------------------------------------


def test_no_rule_reads_a_remark() -> None:
    plan = lever_plan("mixed")

    def judged(plan: Plan) -> list[tuple[str, object, bool]]:
        found = check_policy(plan, policy_from_text(POLICY), as_of=AS_OF)
        return [(r.rule, r.value, r.passed) for r in found.rules]

    seen = judged(plan)
    changes = list(unseen(plan.as_json(), 1, ("case", "pools", "workloads", "fleet", "slots")))
    assert len(changes) > 20
    for place, lie in changes:
        assert judged(plan_from_json(json.dumps(lie))) == seen, place


def test_rules_that_read_one_say_so() -> None:
    of_plan = check_policy(lever_plan("mixed"), policy_from_text(POLICY), as_of=AS_OF)
    of_horizon = check_policy(horizon_plan(), policy_from_text(POLICY), as_of=AS_OF)
    assert [r.rule for r in of_plan.rules if r.rests_on] == [BOUND.read_by]
    assert {r.rule for r in of_horizon.rules if r.rests_on} == {BOUND.read_by, REGRET.read_by}
    assert {r.rests_on for r in of_horizon.rules} == {None, "recorded"}
    for text in (as_text(check_document(of_horizon)), as_markdown(check_document(of_horizon)).replace("\\", "")):
        assert "max_gap rests on what the file records; --prove recomputes it" in text
        assert "max_regret rests on what the file records\n" in text


def test_a_check_lists_the_remarks_of_its_plan() -> None:
    check = check_policy(lever_plan("mixed"), None)
    whats = [r.what for r in check.unverified]
    assert whats == [r.what for r in remarks_in(lever_plan("mixed").as_json())]
    assert BOUND.what in whats and REGRET.what not in whats and "waterfall" not in whats
    told = next(line for line in as_text(check_document(check)).splitlines() if "not verified" in line)
    assert told.endswith("; ".join(whats))
    assert [r["what"] for r in check.as_json()["unverified"]] == whats


def test_the_docs_list_every_remark() -> None:
    page = (ROOT / "docs" / "reference" / "checks.md").read_text(encoding="utf-8")
    for remark in REMARKS:
        row = next(line for line in page.splitlines() if line.startswith(f"| {remark.what} |"))
        assert all(f"`{figure}`" in row for figure in remark.figures) and remark.why in row
        assert (f"`{remark.read_by}`" in row) == (remark.read_by is not None)


def test_remarks_are_keys_of_plans() -> None:
    """A key that was renamed would leave an entry that nothing has."""
    fields = set(Plan.model_fields) | set(type(horizon_plan()).model_fields)
    assert {figure.split(".")[0] for r in REMARKS for figure in r.figures} <= fields
    known = set(kinds_of(lever_plan("mixed").as_json())) | set(kinds_of(json.loads(horizon_plan().to_json())))
    exact = {f for r in REMARKS for f in r.figures if not f.endswith(".**") and not f.startswith("studies")}
    assert exact <= known


# -- the bound --------------------------------------------------------------------------------------------------------


@for_each(
    ("recorded", "again", "found", "verdict"),
    [
        (100.0, 100.0, 101.0, "confirmed"),
        (100.0, 100.5, 101.0, "confirmed"),
        (100.0, 100 * (1 - 1.9e-6), 100.0, "confirmed"),
        (100.0, 99.9, 100.1, "not-confirmed"),
        (100.0, 99.9, 100.0, "not-confirmed"),
        (100.0, 90.0, 99.9, "refuted"),
        (100.0, None, None, "not-confirmed"),
        (0.0, 0.0, 0.0, "confirmed"),
    ],
)
def test_a_cheaper_plan_refutes_a_bound_and_another_bound_confirms_it(
    recorded: float, again: float | None, found: float | None, verdict: str
) -> None:
    assert bound_check(recorded, again, found).verdict == verdict


def test_a_bound_raised_to_the_cost_passes_the_check_and_is_refuted_by_planning_again() -> None:
    plan = too_expensive()
    assert planner.check_plan(plan.as_json()) == []
    found = prove_again(plan, planner.Options())
    assert found.verdict == "refuted"
    assert found.found_usd is not None and found.found_usd < found.recorded_usd == plan.bound_usd_per_month


def test_a_true_bound_is_confirmed() -> None:
    for plan in (lever_plan("waiting"), lever_plan("shedding"), proved(lever_plan("mixed"))):
        assert prove_again(plan, planner.Options()).verdict == "confirmed"


def test_a_search_that_ends_early_decides_nothing() -> None:
    """No plan is cheaper than the bound that is claimed, but in so few steps it is not proved either."""
    objective = lever_plan("shedding").cost_usd_per_month + lever_plan("shedding").penalty_usd_per_month
    bound = 0.9999 * objective
    plan = lever_plan("shedding").model_copy(update={"bound_usd_per_month": bound, "gap_frac": 1 - bound / objective})
    assert planner.check_plan(plan.as_json()) == []
    found = prove_again(plan, planner.Options(node_limit=0, round_limit=1))
    assert found.verdict == "not-confirmed"
    assert found.recomputed_usd is not None and found.recomputed_usd < bound


def test_a_bound_above_a_plan_that_passes_its_check_is_a_defect(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = lever_plan("shedding")
    dearer = plan.model_copy(update={"cost_usd_per_month": 2 * plan.cost_usd_per_month})
    tried = pipeline.Attempt(pipeline.Outcome.OPTIMAL, proved(dearer))
    monkeypatch.setattr("planner.studies.proving.attempt", lambda *_: tried)
    with pytest.raises(pipeline.BrokenPlan, match=r"but a plan for .* passes its check"):
        prove_again(plan, planner.Options())


def test_the_bound_of_a_horizon_is_proved_again() -> None:
    plan = planner.plan_fleet(horizon_plan().case, planner.Options(gap_frac=0.05))
    assert prove_again(plan, planner.Options()).verdict == "confirmed"


@pytest.mark.parametrize("share", [1 + 1e-5, 1.5])
def test_a_plan_below_its_own_bound_is_refused(share: float) -> None:
    """Penalties count: a bound between cost, and cost and penalty, is none that the plan breaks."""
    plan = lever_plan("shedding")
    objective = plan.cost_usd_per_month + plan.penalty_usd_per_month
    assert plan.penalty_usd_per_month > 0
    above = plan.model_copy(update={"bound_usd_per_month": share * objective, "gap_frac": 0.0, "status": "optimal"})
    assert any("lies outside 0 and the cost (and penalty)" in p for p in planner.check_plan(above.as_json()))
    below = (plan.cost_usd_per_month + objective) / 2
    between = plan.model_copy(
        update={"bound_usd_per_month": below, "gap_frac": 1 - below / objective, "status": "feasible"}
    )
    assert planner.check_plan(between.as_json()) == []


# -- the policy and the command ---------------------------------------------------------------------------------------


def test_max_gap_rests_on_the_bound_that_was_worked_out_again() -> None:
    plan = proved(lever_plan("shedding"))
    objective = plan.bound_usd_per_month

    def judged(again: float | None) -> Check:
        bound = None if again is None else bound_check(objective, again, objective)
        return check_policy(plan, policy_from_text("max_gap: 1%"), bound=bound)

    recorded, confirmed, short = (judged(again).rules[0] for again in (None, objective, 0.97 * objective))
    assert (recorded.value, recorded.passed, recorded.rests_on) == (0.0, True, "recorded")
    assert "as recorded in the file" in recorded.detail
    assert (confirmed.value, confirmed.passed, confirmed.rests_on) == (0.0, True, "recomputed")
    assert "worked out again" in confirmed.detail
    assert short.value == pytest.approx(0.03) and not short.passed
    assert BOUND not in judged(objective).unverified and BOUND in judged(0.97 * objective).unverified


def test_the_command_proves_again(tmp_path: Path, fleetplan: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    true, false, policy = tmp_path / "true.json", tmp_path / "false.json", tmp_path / "policy.yaml"
    true.write_text(lever_plan("waiting").to_json())
    false.write_text(too_expensive().to_json())
    policy.write_text("max_gap: 1%\n")
    unproved = fleetplan("check", false)
    assert unproved.code == 0 and "passes the check of its figures" in unproved.out
    assert "bound, gap and status" in unproved.out
    assert fleetplan("check", false, "--policy", policy).code == 0
    kept = fleetplan("check", true, "--prove")
    assert kept.code == 0 and "is confirmed: planned again, $" in kept.out and "bound, gap" not in kept.out
    gap = fleetplan("check", true, "--prove", "--policy", policy, "--format", "json")
    assert gap.code == 5 and json.loads(gap.out)["rules"][0]["rests_on"] == "recomputed"
    for format in ("table", "md", "json"):
        refuted = fleetplan("check", false, "--prove", "--policy", policy, "--quiet-when-ok", "--format", format)
        assert refuted.code == 2 and "refuted" in refuted.out
    assert json.loads(refuted.out)["passed"] is False
    early = bound_check(100.0, 90.0, 101.0)
    monkeypatch.setattr("planner.studies.proving.prove_again", lambda *_: early)
    short = fleetplan("check", true, "--prove", "--quiet-when-ok")
    assert short.code == 4 and "is not confirmed: planned again, only $90.00 is proved" in short.out
    stopped = early.model_copy(update={"interrupted": True})
    monkeypatch.setattr("planner.studies.proving.prove_again", lambda *_: stopped)
    assert fleetplan("check", true, "--prove").code == 130


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (("--time-limit", "5s"), "--time-limit: is for --prove"),
        (("--as-of", "2027-01-31"), "--as-of: applies only to the rules of a policy"),
        (("--against", "old.json"), "--against: applies only to the rules of a policy"),
    ],
)
def test_flags_that_do_nothing_are_refused(flags: tuple[str, ...], message: str, fleetplan: Command) -> None:
    ran = fleetplan("check", "plan.json", *flags)
    assert ran.code == 2 and message in ran.err and ran.out == ""


# -- rejections and options -------------------------------------------------------------------------------------------


def _lie(plan: Json, what: str) -> Json:
    options = [o for o in plan["options"] if not o["chosen"]]
    by_api = next(o for o in plan["options"] if o["api"])
    hosted = next(o for o in options if o["deployments"])
    if what == "reason":
        plan["rejected"][0]["reason"] = "nobody sells it"
    elif what == "dropped":
        del plan["rejected"][0]
    elif what == "another GPU":
        hosted["gpu"] = "h100"
    elif what == "another API":
        by_api |= {"api": "openai/gpt-4o", "option": "api openai/gpt-4o"}
    elif what == "cost at an API":
        by_api["cost_usd_per_month"] *= 0.99
    elif what == "twice":
        plan["options"].append(hosted)
    return plan


@for_each(
    ("what", "words"),
    [
        ("reason", "is not rejected for 'nobody sells it'"),
        ("dropped", "it is not said that"),
        ("another GPU", "the GPU of its offer is"),
        ("another API", "openai/gpt-4o may not serve it"),
        ("cost at an API", "cost_usd_per_month is"),
        ("twice", "is listed 2 times"),
    ],
)
def test_what_is_said_of_alternatives_is_worked_out_again(what: str, words: str) -> None:
    plan = json.loads((ROOT / "examples" / "quarterly-review" / "last-plan.json").read_text(encoding="utf-8"))
    assert any(words in problem for problem in planner.check_plan(_lie(plan, what)))
