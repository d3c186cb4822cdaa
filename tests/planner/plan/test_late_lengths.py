"""Requests that get their first token late for their length are said beside the headline."""

from __future__ import annotations

import planner
from planner.case.demand.load import case_from_text
from planner.plan.late_lengths import late_lengths
from planner.reports.phrases import first_notes
from solvers.search.fleet_solution import Options

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
    plan = planner.plan_fleet(case_from_text(DEMAND.replace("TARGET", "5s")), Options(time_limit_s=20.0))
    (late,) = late_lengths(plan)
    assert (late.workload, late.input_tokens, late.apart) == ("documents", 100_000, False)
    assert abs(late.share_frac - 0.03) < 1e-6
    assert late.ttft_s > late.target_s == 5.0
    (said,) = (note for note in first_notes(plan) if note.startswith("late: "))
    assert "3.0% of documents, prompts of about 100,000 tokens and more" in said
    assert "the objective is for 95% of all requests" in said


def test_nothing_is_said_where_all_are_in_time() -> None:
    plan = planner.plan_fleet(case_from_text(DEMAND.replace("TARGET", "200s")), Options(time_limit_s=20.0))
    assert not list(late_lengths(plan))
