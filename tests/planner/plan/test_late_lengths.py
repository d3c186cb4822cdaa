"""Lengths whose first token is late, and answers that may be slow, are said beside the headline."""

from __future__ import annotations

from planner.case.demand.load import case_from_text
from planner.plan.lengths import late_answers, late_lengths
from planner.plan.plan import Served
from planner.reports.phrases import demand_notes
from solvers.search.fleet_solution import Options
from tests.support.shared_plans import fleet_plan

DEMAND = """
workloads:
  - name: documents
    models: [llama-3.1-8b]
    forecast: {requests_per_day: 200k, shape: flat}
    tokens:
      buckets:
        - {share: 97%, input: 700, output: 150}
        - {share: 3%, input: 100000, output: 400}
    slo: {ttft_p95: TARGET, tpot_p95: 60ms}
    quality: {max_loss: 2%}
    api: forbidden
menu: {gpus: [l40s], purchase: [on-demand], providers: [aws], regions: [us-east-1], max_deployments: 1}
baseline: openai/gpt-4o-mini
"""


def test_a_plan_says_which_prompts_are_late() -> None:
    plan = fleet_plan(case_from_text(DEMAND.replace("TARGET", "5s")), Options(time_limit_s=20.0))
    (late,) = late_lengths(plan)
    assert (late.workload, late.input_tokens, late.apart) == ("documents", 100_000, False)
    assert abs(late.share_frac - 0.03) < 1e-6
    assert late.ttft_s > late.target_s == 5.0
    (said,) = (note for note in demand_notes(plan) if note.startswith("late: "))
    assert "3.0% of documents (prompts of about 100,000 tokens or more)" in said
    assert "the objective covers 95% of all requests" in said


def test_nothing_is_said_where_all_are_in_time() -> None:
    plan = fleet_plan(case_from_text(DEMAND.replace("TARGET", "200s")), Options(time_limit_s=20.0))
    assert not list(late_lengths(plan))


MIXED = (
    DEMAND.replace("97%, input", "90%, input")
    .replace("TARGET", "200s")
    .replace("        - {share: 3%", "        - {share: 7%, input: 12000, output: 300}\n        - {share: 3%")
)


def test_a_plan_says_where_answers_may_be_slow() -> None:
    plan = fleet_plan(case_from_text(MIXED.replace("200k", "900k")), Options(time_limit_s=20.0))
    (slow,) = late_answers(plan)
    assert slow.workloads == ("documents",)
    assert 0.8 < slow.share_frac < slow.percentile == 0.95
    (said,) = (note for note in demand_notes(plan) if note.startswith("at risk: "))
    assert "of the answers of documents keep the TPOT of 60 ms in the busiest hour" in said
    served = Served(kept=True, requests=1, seeds=(1,), rounds=1, first_bound_usd_per_month=0.0,
                    first_cost_usd_per_month=0.0, missed=())  # fmt: skip
    assert not list(late_answers(plan.model_copy(update={"verified": served})))


def test_nothing_is_said_where_prompts_take_few_steps() -> None:
    short = MIXED.replace("100000", "2000").replace("12000", "1500")
    plan = fleet_plan(case_from_text(short), Options(time_limit_s=20.0))
    assert not list(late_answers(plan))
    assert not any(note.startswith("at risk: ") for note in demand_notes(plan))
