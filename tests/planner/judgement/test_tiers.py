"""Like replaces like: smaller models come in by word only and are named; guesses stop a plan until accepted."""

from __future__ import annotations

import csv
from functools import cache
from pathlib import Path

import pytest

import planner
from planner.case.demand.load import load_case
from planner.judgement.concern import Concern
from planner.judgement.concerns import concerns_of
from planner.plan.plan import Plan
from tests.support.command_line import Command
from tests.support.rows import for_each

LARGE = """\
workloads:
  - name: chat
    models: [llama-3.3-70b]
    forecast: {requests_per_day: 40k, shape: flat, burstiness: 2}
    tokens: {input: 1000, output: 200}
    slo: {ttft_p95: 2s, tpot_p95: 60ms}
    quality: {max_loss: 8%}
menu: {gpus: [h100], quantizations: [fp8], purchase: [on-demand]}
baseline: openai/gpt-4o-mini
"""


@cache
def plan_with(old: str = "", new: str = "") -> Plan:
    assert old in LARGE
    plan = planner.plan_fleet(planner.case_from_text(LARGE.replace(old, new) if old else LARGE))
    assert isinstance(plan, Plan)
    return plan


def concerns(plan: Plan, key: str = "smaller-model") -> list[Concern]:
    return [concern for concern in concerns_of(plan) if concern.key == key]


def test_a_smaller_api_replaces_no_large_model_unless_the_file_says_so() -> None:
    plan = plan_with()
    assert plan.workloads[0].api is None and plan.workloads[0].models == ("llama-3.3-70b",)
    (said,) = (a for a in plan.assumptions if a.key == "policy.smaller_apis")
    assert said.value == "forbidden" and "gpt-4o-mini is a small model" in said.why
    assert not concerns(plan)


def test_a_smaller_api_that_the_policy_lets_in_is_a_concern() -> None:
    plan = plan_with("baseline:", "policy: {smaller_apis: allowed}\nbaseline:")
    assert plan.workloads[0].api_share_frac > 0.9
    (concern,) = concerns(plan)
    assert (
        "openai/gpt-4o-mini (small) answers" in concern.sentence and "llama-3.3-70b (large) first" in concern.sentence
    )
    large = plan_with()
    assert concern.usd_per_month == pytest.approx(large.cost_usd_per_month - plan.cost_usd_per_month, rel=0.01)


def test_an_api_of_the_same_tier_says_nothing_of_tiers() -> None:
    plan = plan_with("gpt-4o-mini", "gpt-4o")
    assert not [a for a in plan.assumptions if a.key == "policy.smaller_apis"]
    assert not concerns(plan)


def test_a_smaller_model_of_the_file_that_wins_is_a_concern() -> None:
    both = "[llama-3.3-70b, {name: llama-3.1-8b, quality_loss: 5%}]"
    plan = plan_with("[llama-3.3-70b]", both)
    assert plan.workloads[0].models == ("llama-3.1-8b",)
    (concern,) = concerns(plan)
    assert "llama-3.1-8b (small) answers, but chat lists llama-3.3-70b (large) first" in concern.sentence
    assert concern.usd_per_month > 0
    assert not concerns(plan_with("[llama-3.3-70b]", "[llama-3.1-8b]")), "nothing larger was listed"


def test_guesses_stop_a_plan_until_they_are_accepted(tmp_path: Path, fleetplan: Command) -> None:
    file = tmp_path / "demand.yaml"
    file.write_text(LARGE.replace("gpt-4o-mini", "gpt-4o") + "decide: [models, baseline]\n")
    for verb in (("plan",), ("explain",), ("what-if", "--set", "policy.min_replicas=1")):
        stopped = fleetplan(verb[0], str(file), *verb[1:], "--quiet")
        assert stopped.code == 2, stopped
        assert f"{file.name}:10:" in stopped.err and "models and baseline were guessed" in stopped.err
    with pytest.raises(planner.InputError, match="accept-guesses"):
        planner.plan_fleet(file)
    assert fleetplan("validate", str(file)).code == 0
    ran = fleetplan("plan", str(file), "--accept-guesses", "--quiet", "--out", str(tmp_path / "p.json"))
    assert ran.code == 0, ran
    accepted = planner.read_plan(tmp_path / "p.json")
    assert isinstance(accepted, Plan)
    (concern,) = concerns(accepted, "accepted-guess")
    assert concern.stops_signing and "models and baseline" in concern.sentence
    assert not concerns(plan_with(), "accepted-guess")


def log(folder: Path, model: str) -> str:
    file = folder / "log.csv"
    with open(file, "w", newline="") as out:
        rows = csv.writer(out)
        rows.writerow(["time", "prompt_tokens", "completion_tokens", *(["model"] if model else [])])
        rows.writerows([3 * n, 900, 150, *([model] if model else [])] for n in range(2000))
    return str(file)


@for_each(
    ("model", "hosted", "baseline", "decide"),
    [
        ("llama-3.3-70b", "llama-3.3-70b", "", ""),
        ("gpt-4o-2024-08-06", "llama-3.3-70b", "openai/gpt-4o", "decide: [models]"),
        ("gpt-4o-mini", "llama-3.1-8b", "openai/gpt-4o-mini", "decide: [models]"),
        ("our-own", "llama-3.1-8b", "openai/gpt-4o-mini", "decide: [models, baseline]"),
        ("", "llama-3.1-8b", "openai/gpt-4o-mini", "decide: [models, baseline]"),
    ],
)
def test_a_demand_file_compares_with_what_the_log_used_or_with_its_tier(
    tmp_path: Path, fleetplan: Command, model: str, hosted: str, baseline: str, decide: str
) -> None:
    target = tmp_path / "demand.yaml"
    assert fleetplan("demand", log(tmp_path, model), "--out", str(target)).code == 0
    case, text = load_case(target), target.read_text()
    assert [c.model for c in case.workloads[0].models] == [hosted]
    assert (decide in text) if decide else ("decide:" not in text)
    if baseline:
        assert case.baseline == baseline
    else:
        assert "llama-3.3-70b" in case.baseline.lower() and "the cheapest known seller of llama-3.3-70b" in text
    assert "\n    slo:" not in text, "objectives that no log tells are assumed, and so priced"
