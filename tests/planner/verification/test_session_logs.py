"""Files of sessions that a plan serves: when their requests come, and which blocks their prompts share."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import planner
from planner.io.errors import InputError
from planner.verification.request_logs import LoggedBlocks, RequestSource, source_of
from planner.verification.serving import AS_PLANNED, verify_plan
from tests.support.rows import for_each
from tests.support.shared_plans import fleet_plan

HEAD = "session,seq,agent,t_s,input_tokens,output_tokens,shared_blocks,shared_with,gap_s\n"
ROWS = (
    "a,0,root,0,640,10,0,,0\n"
    "a,1,root,9,960,20,9,0,3\n"
    "a,2,helper,12,200,30,0,,0\n"
    "a,3,root,700,1300,40,15,1,600\n"
    "b,0,root,50,640,50,0,,0\n"
)
DEMAND = """\
workloads:
  - name: agent
    models: [llama-3.1-8b]
    forecast: {sessions_per_day: 3k, shape: business-hours}
    sessions:
      turns: {p50: 5, p95: 15}
      first_prompt: {p50: 2k, p95: 4k}
      appended: {p50: 200, p95: 1k}
      answers: {p50: 20, p95: 60}
      waits: {tools: {p50: 10s, p95: 1min}}
    slo: {ttft_p95: 5s, tpot_p95: 100ms}
    api: forbidden
menu: {gpus: [l40s], providers: [aws], regions: [us-east-1], quantizations: [fp8], purchase: [on-demand],
       max_deployments: 1}
baseline: openai/gpt-4o-mini
"""


@pytest.fixture(scope="module")
def plan() -> planner.Plan:
    return fleet_plan(planner.case_from_text(DEMAND))


def sourced(plan: planner.Plan, folder: Path, rows: str, at: int | None = None) -> RequestSource:
    path = folder / "sessions.csv"
    path.write_text(HEAD + rows, encoding="utf-8")
    return source_of(plan, path, "agent", at)


def test_requests_of_a_session_keep_their_distances_and_share_what_the_file_says(
    plan: planner.Plan, tmp_path: Path
) -> None:
    source = sourced(plan, tmp_path, ROWS)
    log = source.log
    of_a = np.flatnonzero(log.output != 50)
    assert log.output[of_a].tolist() == [10, 20, 30, 40]
    assert np.diff(log.time_s[of_a]).tolist() == pytest.approx([9, 3, 688])
    assert log.blocks is not None and source.block_tokens == 64
    root, goes_on, helper, later = (log.blocks[k].tolist() for k in of_a)
    assert (len(root), len(goes_on), len(helper), len(later)) == (10, 15, 3, 20)
    assert goes_on[:9] == root[:9] and later[:15] == goes_on
    assert len({*root, *goes_on, *helper, *later}) == 10 + 6 + 3 + 5
    (other,) = (blocks.tolist() for blocks in log.blocks[log.output == 50])
    assert not {*other} & {*root, *goes_on, *helper, *later}
    numbered = LoggedBlocks(64).numbered(log.blocks, log.prompt)
    assert len(numbered.ids) == 10 + 15 + 3 + 20 + 10


def test_sessions_begin_as_often_as_the_plan_counts_on(plan: planner.Plan, tmp_path: Path) -> None:
    rows = "".join(f"s{s},{k},root,{5 * k},640,10,{9 * (k > 0)},{'' if k == 0 else k - 1},5\n"
                   for s in range(2000) for k in range(8))  # fmt: skip
    source = sourced(plan, tmp_path, rows)
    assert "its sessions begin at the plan's rates" in source.name
    hourly = np.bincount((source.times_s(1.0) / 3600).astype(int), minlength=24)[:24]
    (w,) = plan.case.workloads
    whole = 3600 * np.array(w.weekday_rps)
    served = slice(0, int(source.log.time_s[-1] / 3600))
    assert hourly[served].sum() == pytest.approx(whole[served].sum(), rel=0.15)
    assert hourly[:6].sum() < 0.5 * hourly[served][-3:].sum()  # nights are quiet, as planned
    assert sourced(plan, tmp_path, ROWS, at=30).times_s(1.0)[0] >= 30 * 3600


def test_a_file_of_sessions_is_served_and_what_it_shares_is_found(plan: planner.Plan, tmp_path: Path) -> None:
    def rows(shared: int) -> str:
        return "".join(f"s{s},{k},root,{5 * k},{1280 + 64 * k},10,{(k > 0) * shared},{'' if k == 0 else k - 1},5\n"
                       for s in range(100) for k in range(8))  # fmt: skip

    options = replace(AS_PLANNED, router="prefix-aware")
    found = [verify_plan(plan, options, log=sourced(plan, tmp_path, rows(n))) for n in (20, 0)]
    assert [v.requests for v in found] == [800, 800]
    hit = [v.workloads[0].found_frac for v in found]
    assert hit[1] == 0
    assert hit[0] == pytest.approx(7 * 1280 / sum(1280 + 64 * k for k in range(8)), rel=0.02)


@for_each(
    ("rows", "words"),
    [
        ("a,0,root,0,640,10,0,,0\na,1,root,5,x,10,1,0,3\n", ":3: has a row without a number"),
        ("a,0,root,0,640,10,0,,0\na,1,root,5,1e999,10,1,0,3\n", ":3: has a row without a number"),
        ("a,0,root,0,640,10,0,,0\na,1,root,5,640,10,1,1,3\n", ":3:.*a cycle"),
        ("a,0,root,0,640,10,0,,0\na,1,root,5,640,10,1,0,3,4,5,6\n", "cannot be read as CSV"),
        ("", "has no requests"),
    ],
)
def test_a_broken_file_of_sessions_is_refused(plan: planner.Plan, tmp_path: Path, rows: str, words: str) -> None:
    with pytest.raises(InputError, match=words):
        sourced(plan, tmp_path, rows)


def test_a_column_that_is_missing_is_to_be_named_in_the_file(plan: planner.Plan, tmp_path: Path) -> None:
    path = tmp_path / "other.csv"
    path.write_text("session,t_s,input_tokens,output_tokens\na,0,10,10\n")
    with pytest.raises(InputError) as error:
        source_of(plan, path, "agent", None)
    assert "Call it 'time' in a copy of the file" in str(error.value)
    assert "--columns" not in str(error.value)
