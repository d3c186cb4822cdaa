"""Which share of answers keeps TPOT: against counts of prompts drawn one by one, and where nothing can break it."""

from __future__ import annotations

import math

import numpy as np
import pytest

from planner.candidates.pools import groups_alone
from planner.candidates.replica import Replica, replicas_with
from planner.candidates.tpot_share import keeps_tpot, kept_frac
from planner.case.demand.load import case_from_text
from planner.catalog.variant import Variant

DEMAND = """
workloads:
  - name: w
    models: [llama-3.1-8b]
    forecast: {{requests_per_day: 500k, shape: flat, burstiness: {scv}}}
    tokens: {tokens}
    slo: {{ttft_p95: 20s, tpot_p95: {tpot}}}
    quality: {{max_loss: 2%}}
menu: {{gpus: [l40s]}}
baseline: openai/gpt-4o
"""
DOCUMENTS = """
      buckets:
        - {share: 90%, input: 700, output: 150}
        - {share: 7%, input: 12000, output: 300}
        - {share: 3%, input: 100000, output: 400}"""
SHORT = "{input: {p50: 1500, p95: 7000}, output: {p50: 15, p95: 90}}"


def replica(tokens: str, scv: float = 1, tpot: str = "60ms", budget: int = 1024) -> Replica:
    case = case_from_text(DEMAND.format(tokens=tokens, scv=scv, tpot=tpot))
    return next(replicas_with(case, [groups_alone(case)[0].traffic], Variant("llama-3.1-8b", "fp8", "l40s", 1), budget))


def test_whole_documents_break_tpot_of_answers_beside_them() -> None:
    """No document of 100,000 tokens may begin during an answer: about what Poisson arrivals of these leave."""
    found = replica(DOCUMENTS)
    load = 0.5
    documents_per_s = 0.03 * load / found.mean_seconds
    seconds = [150 * 0.025, 300 * 0.025, 400 * 0.025]
    expected = sum(share * math.exp(-documents_per_s * s) for share, s in zip((0.9, 0.07, 0.03), seconds, strict=True))
    assert kept_frac(found, load) == pytest.approx(expected, abs=0.015)
    assert not keeps_tpot(found, 0.6)
    assert keeps_tpot(found, 0.3)


def test_the_share_falls_with_load_and_bursts_and_short_answers() -> None:
    shares = [kept_frac(replica(SHORT, budget=8192), load) for load in (0.2, 0.4, 0.6, 0.8)]
    assert np.all(np.diff(shares) < 0)
    assert kept_frac(replica(SHORT, 10, budget=8192), 0.4) < shares[1]
    longer = SHORT.replace("p50: 15, p95: 90", "p50: 150, p95: 900")
    assert kept_frac(replica(longer, 10, budget=8192), 0.4) > kept_frac(replica(SHORT, 10, budget=8192), 0.4)


def test_answers_of_one_token_have_no_tpot() -> None:
    assert kept_frac(replica("{input: 2000, output: 1}", 23), 0.9) == 1


def test_prompts_whose_full_steps_are_short_enough_break_nothing() -> None:
    """In whatever number they come."""
    assert kept_frac(replica("{input: 1500, output: 15}", 23, "100ms"), 0.95) == pytest.approx(1, abs=1e-3)
    assert kept_frac(replica("{input: 1500, output: 15}", 23, "100ms", budget=8192), 0.95) < 0.95
