"""`fleetplan verify` and `plan --verify`, run for real on small plans."""

from __future__ import annotations

import gzip
import itertools
import json
from dataclasses import replace
from math import ceil, inf
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("numba", reason="verify needs numba: pip install fleetplan[verify]")

import planner
from planner.case.case import LoadFactor
from planner.io.errors import InputError
from planner.pipeline import attempt
from planner.plan.plan import Plan
from planner.plan.serve_commands import engine_settings
from planner.reports import phrases
from planner.reports.text import as_text
from planner.reports.verification import verification_document
from planner.studies import verified_plan
from planner.verification.records import Verification, VerificationReport
from planner.verification.request_logs import bucket_of, read_request_log, source_of
from planner.verification.serving import AS_PLANNED, ServeOptions, verify_plan
from planner.verification.slack import slack_of
from solvers.backends.clock import Stopped, TimeIsUp
from solvers.search.fleet_solution import Options
from tests.support.command_line import Command
from tests.support.rows import for_each
from tests.support.shared_plans import fleet_plan

TINY = """\
workloads:
  - name: chat
    models: [llama-3.1-8b]
    forecast: {requests_per_day: 100k, shape: flat}
    tokens: {input: {p50: 1000, p95: 3000}, output: {p50: 20, p95: 60}}
    api: forbidden
menu: {gpus: [l4], quantizations: [fp8], purchase: [on-demand]}
baseline: openai/gpt-4o-mini
"""
"""a few replicas, and a day of it takes a second to serve"""


@pytest.fixture(scope="module")
def plan() -> Plan:
    return fleet_plan(planner.case_from_text(TINY))


@pytest.fixture(scope="module")
def served(plan: Plan) -> Verification:
    return verify_plan(plan, replace(AS_PLANNED, days=3))


@pytest.fixture
def fleetplan(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path, plan: Plan
) -> Command:
    monkeypatch.chdir(tmp_path)
    Path("tiny.yaml").write_text(TINY, encoding="utf-8")
    Path("plan.json").write_text(plan.to_json(), encoding="utf-8")
    return Command(monkeypatch, capsys)


# -- a plan that is served ------------------------------------------------------------------------------------------


def test_every_request_is_counted_once_and_promises_are_kept(served: Verification) -> None:
    (w,) = served.workloads
    assert w.served + w.api + w.shed + w.refused + w.unfinished == w.requests == served.requests
    assert w.requests == pytest.approx(3 * 100_000, rel=0.05)
    assert (w.refused, w.shed, w.unfinished) == (0, 0, 0)
    assert served.kept
    assert {p.what for p in w.promises} == {"TTFT", "TPOT"}
    for p in w.promises:
        assert p.low_frac <= p.within_frac <= p.high_frac
        assert p.at_percentile_s is not None
        assert p.at_percentile_s <= p.target_s * 1.03  # percentiles are read from steps of 2%


def test_the_slack_of_one_replica_is_what_the_load_may_grow_by(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("planner.verification.slack.TOLERANCE", 0.5)
    monkeypatch.setattr("planner.verification.slack.DAYS", 1)
    small = TINY.replace("100k", "5k") + "policy: {min_replicas: 1}\n"
    alone = fleet_plan(planner.case_from_text(small))
    assert max(alone.pools[0].deployments[0].replicas_by_slot) == 1
    slack = slack_of(alone, AS_PLANNED, lambda what, done: None)
    assert slack.one_replica and slack.smallest_fleet_frac is None
    assert slack.busy_frac is not None and 0 < slack.busy_frac < 1
    report = VerificationReport(runs=(verify_plan(alone, replace(AS_PLANNED, days=1)),), slack=slack)
    said = as_text(verification_document(report))
    assert "no deployment ever has more than one replica" in said
    assert f"holds to {slack.holds_to_load:.2f} times the demand" in said and "of their time in steps" in said
    assert "0 / month" not in said


def test_hours_that_miss_are_on_top_with_their_reason(plan: Plan) -> None:
    found = verify_plan(plan, replace(AS_PLANNED, days=1, replica_frac=0.5))
    missed = [p for p in found.workloads[0].promises if not p.kept]
    assert missed and not found.kept
    hours = [hour for p in missed for hour in p.missed_hours]
    assert {hour.reason for hour in hours} == {"fewer replicas than planned"}
    assert all(hour.replicas < hour.planned_replicas and hour.waiting >= 0 for hour in hours)
    text = as_text(verification_document(VerificationReport(runs=(found,))))
    assert text.index("hours that miss") < text.index("promises\n")
    assert "fewer replicas than planned" in text and "replicas ran" in text
    more = verify_plan(plan, replace(AS_PLANNED, days=1, load=2.0))
    reasons = {hour.reason for w in more.workloads for p in w.promises for hour in p.missed_hours}
    assert reasons <= {"more requests than planned", "work was left over"} and reasons


@pytest.mark.parametrize(("given", "expected"), [("", 0.9), ("policy: {hours_kept: 75%}\n", 0.75)])
def test_the_demand_file_says_in_how_many_hours_a_promise_is_kept(given: str, expected: float) -> None:
    own = fleet_plan(planner.case_from_text(TINY + given))
    (w,) = verify_plan(own, replace(AS_PLANNED, days=1, load=0.2)).workloads
    assert {p.hours_promised_frac for p in w.promises} == {expected}
    assert planner.check_plan(own.as_json()) == []


def test_a_plan_without_its_margin_visibly_fails(plan: Plan) -> None:
    told = plan.pools[0].deployments[0]
    busy = max(told.load_by_slot)
    bare = ceil(busy) / max(told.replicas_by_slot)
    assert not verify_plan(plan, replace(AS_PLANNED, days=1, replica_frac=bare)).kept
    found = verify_plan(plan, replace(AS_PLANNED, days=1, replica_frac=bare, load=ceil(busy) / busy))
    assert not found.kept
    assert min(p.within_frac for p in found.workloads[0].promises) < 0.9


def test_more_load_is_carried_up_to_the_edge_that_slack_finds(plan: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("planner.verification.slack.TOLERANCE", 0.3)
    monkeypatch.setattr("planner.verification.slack.DAYS", 1)
    slack = slack_of(plan, AS_PLANNED, lambda what, done: None)
    assert slack.holds_to_load is not None
    assert slack.smallest_fleet_frac is not None
    assert slack.spare_usd_per_month is not None
    assert not verify_plan(plan, replace(AS_PLANNED, days=slack.days, load=slack.holds_to_load + 0.3)).kept
    assert 0 <= slack.spare_usd_per_month <= plan.cost_usd_per_month
    assert verify_plan(plan, replace(AS_PLANNED, days=slack.days, replica_frac=slack.smallest_fleet_frac)).kept


def test_the_command_prints_writes_and_exits_by_what_was_promised(fleetplan: Command) -> None:
    ran = fleetplan("verify", "plan.json", "--days", "1", "--out", "v.json", "--markdown", "v.md")
    assert ran.code == 0, ran.err
    assert "every promise kept" in ran.out.splitlines()[0]
    data = json.loads(Path("v.json").read_text())
    assert data["format"] == "fleetplan-verification/1"
    assert data["runs"][0]["workloads"][0]["refused"] == 0
    assert "| chat | TTFT" in Path("v.md").read_text()
    ran = fleetplan("verify", "plan.json", "--days", "1", "--load", "1,3", "--format", "json")
    runs = json.loads(ran.out)["runs"]
    assert ran.code == 0, "what is asked beyond the demand is no promise"
    assert [run["load"] for run in runs] == [1, 3]
    ran = fleetplan("verify", "plan.json", "--days", "1", "--load", "3")
    assert ran.code == 6
    assert "MISSED" in ran.out


@for_each(
    ("flags", "words"),
    [
        (("--load", "much"), "--load"),
        (("--load", "0"), "0.01 to 20"),
        (("--month", "3"), "the plan has 1 month"),
        (("--at", "3"), "works only with --log"),
        (("--workload", "chat"), "works only with --log"),
        (("--log", "absent.csv"), "absent.csv: there is no such file"),
        (("--out", "plan.json"), "plan.json"),
        (("--requests", "few"), "--requests"),
        (("--time-limit", "soon"), "--time-limit"),
    ],
)
def test_bad_flags_are_refused_with_what_to_do(fleetplan: Command, flags: tuple[str, ...], words: str) -> None:
    before = Path("plan.json").read_bytes()
    ran = fleetplan("verify", "plan.json", *flags)
    assert ran.code == 2
    assert words in ran.err
    assert Path("plan.json").read_bytes() == before


def test_without_numba_it_says_what_to_install(fleetplan: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    for command in (("verify", "plan.json"), ("plan", "tiny.yaml", "--verify")):
        ran = fleetplan(*command)
        assert ran.code == 2
        assert "fleetplan[verify]" in ran.err


# -- logs -----------------------------------------------------------------------------------------------------------


def test_logs_are_read_as_others_write_them(tmp_path: Path) -> None:
    plain = tmp_path / "plain.csv"
    plain.write_text("time,input_tokens,output_tokens\n10.5,100,20\n10,200,30\nnonsense,1,1\n12,,5\n")
    azure = tmp_path / "azure.csv.gz"
    lines = "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:15:46.6805900,374,44\n2023-11-16 18:15:50,396,109\n"
    azure.write_bytes(gzip.compress(lines.encode()))
    mooncake = tmp_path / "mooncake.jsonl"
    rows = [{"timestamp": 3000 * k, "input_length": 10 + k, "output_length": 5, "hash_ids": [0]} for k in range(3)]
    mooncake.write_text("\n".join(json.dumps(row) for row in rows))
    log = read_request_log(plain)
    assert (log.time_s.tolist(), log.prompt.tolist(), log.output.tolist()) == ([0.0, 0.5], [200, 100], [30, 20])
    assert log.dropped == 2
    log = read_request_log(azure)
    assert log.time_s[1] == pytest.approx(50 - 46.68059)
    assert log.starts is not None
    assert (log.starts.day_of_week, log.starts.hour) == (3, 18)
    assert read_request_log(mooncake).time_s.tolist() == [0.0, 3.0, 6.0]
    mooncake.write_text(mooncake.read_text() + '\n{"timestamp": 9000, "input_')
    assert (len(read_request_log(mooncake).time_s), read_request_log(mooncake).dropped) == (3, 1)


@for_each(
    ("text", "words"),
    [
        ("", "is empty"),
        ("when,tokens\n1,2\n", "has no column for"),
        (
            "time,input_tokens,output_tokens\nx,y,z\n",
            ":2: has no request that can be used: unreadable time",
        ),
        ('{"timestamp": 1}\n', "has no column for requests by time, nor for prompt"),
        ("time,requests\n2026-01-01,5\n", "holds counts and no requests"),
    ],
)
def test_what_is_no_log_is_refused(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "log.csv"
    path.write_text(text)
    with pytest.raises(InputError) as error:
        read_request_log(path)
    assert words in str(error.value)


def test_a_log_is_served_as_it_came(plan: Plan, tmp_path: Path) -> None:
    times = np.sort(np.random.default_rng(0).uniform(0, 3600, 2000))
    path = tmp_path / "log.csv"
    rows = "".join(f"{t:.3f},{200 + k % 50},{20 + k % 7}\n" for k, t in enumerate(times))
    path.write_text("time,prompt_tokens,completion_tokens\n" + rows)
    found = verify_plan(plan, log=source_of(plan, path, "chat", None))
    assert found.requests == 2000
    assert "2,000 requests in 0.999 h" in found.source
    assert found.kept


def test_replicas_are_as_busy_as_they_are_while_a_log_lasts(plan: Plan, tmp_path: Path) -> None:
    """A log of one hour, and the same hour again a day later: the day between counts, the rest of the week does not."""
    hour = np.sort(np.random.default_rng(0).uniform(0, 3600, 2000))
    path = tmp_path / "log.csv"
    busy = []
    for times in (hour, np.concatenate([hour, hour + 24 * 3600])):
        rows = "".join(f"{t:.3f},200,20\n" for t in times)
        path.write_text("time,prompt_tokens,completion_tokens\n" + rows)
        (served,) = verify_plan(plan, log=source_of(plan, path, "chat", 0)).deployments
        busy.append(served.utilization_frac * served.mean_replicas)
    assert busy[0] > 10 * busy[1] > 0


def test_requests_for_other_models_are_not_those_of_the_workload(plan: Plan, tmp_path: Path) -> None:
    (name, *_) = [w.name for w in plan.case.workloads]
    own = plan.case.workloads[0].models[0].model
    for other, expected in (("qwen2.5-0.5b-of-ours", 20), (own, 40)):
        rows = [f"{10 * k},{100 + k},20,{own if k % 2 else other}" for k in range(40)]
        (tmp_path / "two.csv").write_text("\n".join(["time,prompt_tokens,completion_tokens,model", *rows]))
        source = source_of(plan, tmp_path / "two.csv", name, None)
        assert len(source.log.time_s) == expected
        assert ("20 for other models" in source.name) == (expected == 20)
    rows = [f"{10 * k},100,20,nobody-knows" for k in range(40)]
    (tmp_path / "one.csv").write_text("\n".join(["time,prompt_tokens,completion_tokens,model", *rows]))
    assert len(source_of(plan, tmp_path / "one.csv", name, None).log.time_s) == 40


def test_of_a_long_log_the_busiest_week_is_served_and_hours_are_those_of_the_plan(plan: Plan, tmp_path: Path) -> None:
    """Three weeks from a Sunday 23h UTC on, which is a Monday 0h in Berlin; the second has twice the requests."""
    start = np.datetime64("2026-03-01T23:00")
    hours = np.concatenate([np.arange(0, 168), np.arange(168, 336, 0.5), np.arange(336, 504)])
    times = [str(start + np.timedelta64(int(60 * h), "m")) for h in hours]
    rows = [f"{t}Z,100,20" for t in times]
    (tmp_path / "long.csv").write_text("\n".join(["time,prompt_tokens,completion_tokens", *rows]))
    berlin = plan.model_copy(update={"case": plan.case.model_copy(update={"time_zone": "Europe/Berlin"})})
    (name, *_) = [w.name for w in plan.case.workloads]
    source = source_of(berlin, tmp_path / "long.csv", name, None)
    assert (len(source.log.time_s), source.start_hour) == (336, 0)
    assert "336 requests of 672, those of its busiest week" in source.name
    in_utc = source_of(plan, tmp_path / "long.csv", name, None)
    assert len(in_utc.log.time_s) == 335, "the week of UTC begins an hour later"
    assert in_utc.log.time_s[-1] < 7 * 86_400


def test_buckets_of_a_log_are_those_of_the_file() -> None:
    (w,) = planner.case_from_text(TINY).workloads
    assert w.input_spread is not None
    assert w.output_spread is not None
    prompt = np.array([1.0, w.input_spread.p50 * 1.01, w.input_spread.p95 * 1.01])
    assert bucket_of(w, prompt, np.ones(3)).tolist() == [0, 4, 12]
    assert len(w.buckets) == 16


# -- rules mended by what was seen ----------------------------------------------------------------------------------


def test_steps_are_small_enough_for_tpot() -> None:
    """An answer of 13 tokens paid for whole steps of 8,192 prompt tokens: 142 ms a token where 100 were promised."""
    demand = """
workloads:
  - name: code
    models: [llama-3.1-8b]
    forecast: {{requests_per_day: 400k, shape: flat}}
    tokens: {{input: {{p50: 1500, p95: 7000}}, output: {{p50: 13, p95: 90}}}}
    slo: {{ttft_p95: 2s, tpot_p95: {tpot}}}
    api: forbidden
menu: {{gpus: [h100], quantizations: [fp8], purchase: [on-demand]}}
baseline: openai/gpt-4o
"""
    plans = [fleet_plan(planner.case_from_text(demand.format(tpot=tpot))) for tpot in ("100ms", "2s")]
    hurried, patient = (engine_settings(p, p.pools[0], p.pools[0].deployments[0].deployment) for p in plans)
    assert (hurried.batched_tokens, patient.batched_tokens) == (4096, plans[1].case.engine.chunk_tokens)
    served = verify_plan(plans[0], ServeOptions(days=1))
    (tpot,) = (p for p in served.workloads[0].promises if p.what == "TPOT")
    assert tpot.kept


def test_the_engine_admits_what_the_model_and_its_memory_allow(plan: Plan) -> None:
    """Means of the longest bucket were the limit once: up to 28% of the promised requests were refused."""
    d = plan.pools[0].deployments[0].deployment
    settings = engine_settings(plan, plan.pools[0], d)
    longest = max(b.input_tokens + b.output_tokens for b in plan.case.workloads[0].buckets)
    assert settings.context_tokens >= 4 * longest
    assert settings.context_tokens <= plan.case.models[d.model].max_context_tokens
    assert settings.sequences >= d.requests_in_flight or d.bound_by == "KV memory"


def test_each_part_of_a_mix_admits_the_lengths_that_it_gets() -> None:
    """Both admitted as few requests as if all of them were long: 11 and 2 at a time, and every one came late."""
    demand = """
workloads:
  - name: chat
    models: [qwen3-32b]
    forecast: {requests_per_day: 700k, shape: flat}
    tokens: {input: {p50: 900, p95: 4000}, output: {p50: 200, p95: 600}}
    slo: {ttft_p95: 2s, tpot_p95: 60ms}
    api: forbidden
menu: {gpus: [h100, l40s], quantizations: [fp8], purchase: [on-demand]}
policy: {max_instances: {aws/p5.4xlarge@us-east-1: 2, aws/p5.48xlarge@us-east-1: 0}}
baseline: openai/gpt-4o-mini
"""
    plan = fleet_plan(planner.case_from_text(demand))
    assert {d.deployment.gpu for d in plan.pools[0].deployments} == {"h100", "l40s"}
    for told in plan.pools[0].deployments:
        d = told.deployment
        assert engine_settings(plan, plan.pools[0], d).sequences >= 1.5 * d.requests_in_flight
        assert d.requests_in_flight > 3 * d.staffing_in_flight, "the margin counts on the fewest"
    served = verify_plan(plan, ServeOptions(days=1))
    assert all(p.kept for p in served.workloads[0].promises)


def test_memory_is_not_full_on_average() -> None:
    """A replica whose KV memory was full on average preempted every seventh request."""
    tight = TINY.replace("input: {p50: 1000, p95: 3000}, output: {p50: 20, p95: 60}", "input: 9k, output: 500")
    tight = tight.replace("100k", "20k").replace("fp8", "fp16")
    found = verify_plan(fleet_plan(planner.case_from_text(tight)), replace(AS_PLANNED, days=2))
    assert found.workloads[0].preempted_frac < 0.05


def test_work_that_may_wait_is_done_by_its_deadline() -> None:
    """Planned to keep replicas busy all the time, a third of it came late."""
    batch = TINY.replace("    api: forbidden\n", "    deadline: 12h\n    api: forbidden\n").replace(
        "100k, shape: flat", "40k, shape: consumer"
    )
    plan = attempt(planner.case_from_text(batch), Options(gap_frac=0.05, node_limit=20)).plan
    assert plan is not None
    d = plan.pools[0].deployments[0].deployment
    assert d.most_load_frac == pytest.approx(1 / (1 + d.error_frac))
    found = verify_plan(plan, replace(AS_PLANNED, days=4))  # plans repeat weekdays: on Friday night they do not follow
    assert found.kept
    assert [p.what for p in found.workloads[0].promises] == ["deadline"]


# -- plans that are mended ------------------------------------------------------------------------------------------


def test_what_misses_is_tightened_and_planned_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first plan is taken to miss; the next has more replicas, and passes the checker by its own factors."""
    served: list[Plan] = []

    def misses_at_first(plan: Plan, *arguments: object) -> Verification:
        served.append(plan)
        result = verify_plan(plan, replace(AS_PLANNED, days=1))
        if len(served) > 1:
            return result
        (w,) = result.workloads
        promises = (w.promises[0].model_copy(update={"within_frac": 0.5}), *w.promises[1:])
        return result.model_copy(update={"workloads": (w.model_copy(update={"promises": promises}),)})

    monkeypatch.setattr(verified_plan, "verify_plan", misses_at_first)
    case = planner.case_from_text(TINY)
    plan = verified_plan.plan_and_verify(case, Options(), AS_PLANNED)
    first = served[0]
    assert plan.verified is not None
    assert (plan.verified.kept, plan.verified.rounds, plan.verified.missed) == (True, 2, ())
    assert plan.verified.first_cost_usd_per_month == first.cost_usd_per_month
    peak = max(first.pools[0].deployments[0].replicas_by_slot)
    assert max(plan.pools[0].deployments[0].replicas_by_slot) > peak
    assert plan.bound_usd_per_month >= plan.verified.first_bound_usd_per_month * (1 - 1e-6)
    assert planner.check_plan(plan.as_json()) == []
    data = plan.as_json()
    data["case"]["load_factors"][0]["factor"] /= 2
    assert any("replicas where" in problem for problem in planner.check_plan(data))


def test_only_hours_that_miss_get_replicas(monkeypatch: pytest.MonkeyPatch) -> None:
    """One hour of weekdays is taken to miss twice: each time it gets a replica, and no other hour does."""
    served: list[Plan] = []
    bad = 9

    def misses_twice(plan: Plan, *arguments: object) -> Verification:
        served.append(plan)
        result = verify_plan(plan, replace(AS_PLANNED, days=1))
        if len(served) > 2:
            return result
        (w,) = result.workloads
        missed = w.promises[0].model_copy(update={"within_frac": 0.5, "bad_hours_of_days": (bad,)})
        promises = (missed, *w.promises[1:])
        return result.model_copy(update={"workloads": (w.model_copy(update={"promises": promises}),)})

    monkeypatch.setattr(verified_plan, "verify_plan", misses_twice)
    plan = verified_plan.plan_and_verify(planner.case_from_text(TINY), Options(), AS_PLANNED)
    counts = [np.array(p.pools[0].deployments[0].replicas_by_slot) for p in served[:3]]
    for before, after in itertools.pairwise(counts):
        assert np.flatnonzero(after != before).tolist() == [bad]
        assert after[bad] == before[bad] + 1
    assert [f.hours for f in plan.case.load_factors or ()] == [(bad,)]
    assert plan.cost_usd_per_month > served[0].cost_usd_per_month
    assert "replicas were added in 1 of the 48 hours" in phrases.served(plan)
    assert planner.check_plan(plan.as_json()) == []
    data = plan.as_json()
    data["case"]["load_factors"][0]["factor"] /= 2
    assert any("replicas where" in problem for problem in planner.check_plan(data))


@pytest.mark.parametrize("api", ["forbidden", "allowed"])
def test_a_factor_of_every_hour_is_one_of_all(api: str) -> None:
    """Whether what GPUs do not carry goes to an API or not."""
    demand = TINY.replace("api: forbidden", f"api: {api}").replace("gpt-4o-mini", "gpt-4o").replace("100k", "800k")
    case = planner.case_from_text(demand.replace("flat", "consumer"))
    kind, plans = "llama-3.1-8b/fp8/1x/l4", []
    for hours in ([None], [(h,) for h in range(48)]):
        factors = tuple(LoadFactor(workloads=("chat",), replica=kind, factor=0.7, hours=h) for h in hours)
        plans.append(fleet_plan(case.model_copy(update={"load_factors": factors})))
    assert plans[0].pools[0].deployments[0].replicas_by_slot == plans[1].pools[0].deployments[0].replicas_by_slot
    assert plans[0].cost_usd_per_month == pytest.approx(plans[1].cost_usd_per_month)
    assert (plans[0].workloads[0].api_share_frac > 0) == (api == "allowed")
    some = tuple(LoadFactor(workloads=("chat",), replica=kind, factor=0.7, hours=(h,)) for h in (8, 12, 30))
    between = fleet_plan(case.model_copy(update={"load_factors": some}))
    free = fleet_plan(case).cost_usd_per_month
    assert free <= between.cost_usd_per_month * (1 + 1e-9) <= plans[0].cost_usd_per_month * (1 + 2e-9)


def test_a_plan_that_never_holds_is_the_best_so_far_and_exit_code_6(
    fleetplan: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    def always_misses(plan: Plan, *arguments: object) -> Verification:
        result = verify_plan(plan, replace(AS_PLANNED, days=1))
        (w,) = result.workloads
        promises = tuple(p.model_copy(update={"within_frac": 0.5}) for p in w.promises)
        return result.model_copy(update={"workloads": (w.model_copy(update={"promises": promises}),)})

    monkeypatch.setattr(verified_plan, "verify_plan", always_misses)
    monkeypatch.setattr(verified_plan, "ROUNDS", 2)
    ran = fleetplan("plan", "tiny.yaml", "--verify", "--out", "new.json")
    assert ran.code == 6
    assert "misses its promises: chat: TTFT, chat: TPOT" in ran.err
    assert json.loads(Path("new.json").read_text())["verified"]["kept"] is False


@pytest.mark.parametrize(
    ("stop", "code", "why"),
    [(Stopped(), 130, "interrupted"), (None, 7, "time-limit")],
)
def test_a_plan_is_written_before_it_is_served_and_says_that_it_was_not(
    fleetplan: Command, monkeypatch: pytest.MonkeyPatch, stop: Stopped | None, code: int, why: str
) -> None:
    seen = []

    def never_ends(plan: Plan, *arguments: object) -> Verification:
        seen.append(json.loads(Path("new.json").read_text()))
        raise stop or TimeIsUp(inf)

    monkeypatch.setattr(verified_plan, "verify_plan", never_ends)
    ran = fleetplan("plan", "tiny.yaml", "--verify", "--time-limit", "600s", "--quiet", "--out", "new.json")
    assert ran.code == code, ran
    written = json.loads(Path("new.json").read_text())
    assert planner.check_plan(written) == [] and written["verified"] is None
    assert [(part["what"], part["why"]) for part in written["left_out"]] == [("verified", why)]
    assert [plan["verified"] for plan in seen] == [None]
    assert "whether the plan keeps its promises when it is served" in ran.out


def test_an_interruption_of_a_later_round_keeps_what_was_served(
    fleetplan: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    rounds = []

    def misses_once(plan: Plan, *arguments: object) -> Verification:
        rounds.append(plan)
        if len(rounds) > 1:
            raise Stopped
        result = verify_plan(plan, replace(AS_PLANNED, days=1))
        (w,) = result.workloads
        promises = tuple(p.model_copy(update={"within_frac": 0.5}) for p in w.promises)
        return result.model_copy(update={"workloads": (w.model_copy(update={"promises": promises}),)})

    monkeypatch.setattr(verified_plan, "verify_plan", misses_once)
    ran = fleetplan("plan", "tiny.yaml", "--verify", "--out", "new.json")
    assert ran.code == 130, ran
    written = json.loads(Path("new.json").read_text())
    assert written["verified"]["kept"] is False and written["left_out"][-1]["why"] == "interrupted"
