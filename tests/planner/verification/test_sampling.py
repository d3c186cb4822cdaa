"""Samples of hours: which are served, what they say of the week, and what is kept when time runs out."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("numba", reason="the simulator is compiled by numba: install fleetplan[verify]")


import planner
from planner.plan.account.account import account_of
from planner.plan.plan import Plan
from planner.reports.markdown import as_markdown
from planner.reports.page import as_page
from planner.reports.tables.verification import coverage, headline, hour_names
from planner.reports.verification import verification_document
from planner.verification import serving, traffic
from planner.verification.arrivals import HOURS, MINUTES, slots_of_week
from planner.verification.records import VerificationReport
from planner.verification.sampling import DRAWN, Measured, Schedule, shared_out, t_95
from planner.verification.serving import AS_PLANNED, ServeOptions, verify_plan
from planner.verification.traffic import Traffic
from solvers.backends.clock import OUT_OF_TIME, Stopped, TimeIsUp
from tests.planner.verification.test_verify_command import TINY
from tests.support.command_line import Command
from tests.support.lever_plans import lever_plan
from tests.support.rows import for_each
from tests.support.shared_plans import fleet_plan

DAY = 1000.0 * (1.2 + np.sin((np.arange(24) - 8) / 24 * 2 * np.pi))
WEEK = np.tile(DAY, 7) * np.where(np.arange(HOURS) // 24 < 5, 1.0, 0.6)


@pytest.fixture(scope="module")
def plan() -> Plan:
    return fleet_plan(planner.case_from_text(TINY))


# -- which hours ------------------------------------------------------------------------------------------------------


def drawn(most: float, seed: int = 1, days: int = 7) -> Schedule:
    stress = np.zeros(HOURS)
    stress[30] = 1.0
    return Schedule.of(WEEK, stress, days, most, False, np.random.default_rng(seed))


def test_every_hour_is_served_up_to_a_number_of_requests() -> None:
    schedule = drawn(WEEK.sum())
    assert not schedule.sampled
    assert [h for stretch in schedule.stretches for h in stretch.hours] == list(range(HOURS))
    assert drawn(0.9 * WEEK.sum()).sampled


@for_each("share", [0.1, 0.25, 0.6])
@for_each("days", [2, 7])
def test_a_sample_has_the_busiest_hours_and_no_more_requests_than_asked_for(share: float, days: int) -> None:
    total = WEEK[: 24 * days].sum()
    schedule = drawn(share * total, days=days)
    hours = [stretch.hours.start for stretch in schedule.stretches]
    assert len(set(hours)) == len(hours) and max(hours) < 24 * days
    assert hours[0] in (int(np.argmax(WEEK)), 30), "first, in case that time runs out"
    assert {int(np.argmax(WEEK)), 30} <= set(hours)
    assert WEEK[hours].sum() <= max(share * total, 6 * WEEK.max())
    served = np.zeros(HOURS, dtype=bool)
    served[hours] = True
    measured = schedule.measured(served)
    assert measured.weights @ WEEK == pytest.approx(total)
    assert all((measured.strata[served] == s).sum() >= DRAWN for s in np.unique(measured.strata[: 24 * days]))


def test_fewer_hours_than_meant_to_be_stand_for_all_as_well() -> None:
    schedule = drawn(0.3 * WEEK.sum())
    served = np.zeros(HOURS, dtype=bool)
    for n, stretch in enumerate(schedule.stretches, 1):
        served[stretch.hours.start] = True
        assert schedule.measured(served).weights @ WEEK == pytest.approx(WEEK.sum()), n
    none = schedule.measured(np.zeros(HOURS, dtype=bool))
    assert not none.weights.any()


def test_an_interval_of_a_sample_holds_the_share_of_the_week() -> None:
    """Requests are late together, more of them in busy hours, by chance of the hour."""
    inside, covered = [], 0
    for seed in range(300):
        rng = np.random.default_rng(seed)
        late = np.clip(0.1 * (WEEK / WEEK.max()) ** 3 * rng.gamma(2.0, 0.5, HOURS), 0, 1)
        good = (1 - late) * WEEK
        schedule = drawn(0.25 * WEEK.sum(), seed)
        served = np.zeros(HOURS, dtype=bool)
        served[[s.hours.start for s in schedule.stretches]] = True
        share, error = schedule.measured(served).share_and_error(good * served, WEEK * served)
        truth = good.sum() / WEEK.sum()
        inside.append(share - truth)
        covered += abs(share - truth) <= error
    assert 0.9 <= covered / 300 <= 1.0
    assert abs(np.mean(inside)) < 0.002


def test_hours_that_all_look_alike_leave_a_doubt_about_others() -> None:
    """Five hours of the week are bad, and most samples hold none of them."""
    covered = 0
    for seed in range(300):
        rng = np.random.default_rng(seed)
        good = np.where(np.isin(np.arange(HOURS), rng.choice(HOURS, 5, replace=False)), 0.85, 1.0) * WEEK
        schedule = drawn(0.1 * WEEK.sum(), seed)
        served = np.zeros(HOURS, dtype=bool)
        served[[s.hours.start for s in schedule.stretches]] = True
        share, error = schedule.measured(served).share_and_error(good * served, WEEK * served)
        assert error > 0
        covered += abs(share - good.sum() / WEEK.sum()) <= error
    assert covered / 300 >= 0.9


def test_one_hour_alone_has_no_interval() -> None:
    served = np.zeros(HOURS, dtype=bool)
    served[15] = True
    share, error = Measured(served.astype(float), np.zeros(HOURS, dtype=int), sampled=True).share_and_error(
        0.9 * WEEK * served, WEEK * served
    )
    assert (share, error) == (pytest.approx(0.9), 1.0)
    assert t_95(1) > t_95(5) > t_95(30) > t_95(31) > t_95(500) > 1.96


def test_pools_that_need_little_leave_the_rest_to_others() -> None:
    assert shared_out(30, [100, 1, 4]) == [25, 1, 4]
    assert shared_out(30, [1, 2, 3]) == [1, 2, 3]
    assert shared_out(float("inf"), [5.0, 7.0]) == [5.0, 7.0]


def test_hours_in_a_row_are_named_as_one() -> None:
    assert hour_names((0, 1, 2, 30, 167)) == "Mon 00h to Mon 02h, Tue 06h, Sun 23h"


# -- served -----------------------------------------------------------------------------------------------------------


def test_a_sample_says_what_the_week_says(plan: Plan) -> None:
    whole = verify_plan(plan, replace(AS_PLANNED, load=1.15))
    sample = verify_plan(plan, replace(AS_PLANNED, load=1.15, most_requests=250_000))
    (hours,) = sample.hours
    assert hours.sampled and hours.of == HOURS and not whole.hours
    assert sample.requests < 250_000 < whole.requests == pytest.approx(hours.requests, rel=0.02)
    for exact, estimate in zip(whole.workloads[0].promises, sample.workloads[0].promises, strict=True):
        assert estimate.estimated and not exact.estimated
        assert estimate.low_frac - 0.003 <= exact.within_frac <= estimate.high_frac + 0.003
    deployment, other = whole.deployments[0], sample.deployments[0]
    assert other.utilization_frac == pytest.approx(deployment.utilization_frac, rel=0.05)
    lines = [*coverage(sample)]
    assert lines[0].startswith("chat: a sample, ") and "warm-up" in lines[0] and "estimates" in lines[1]
    report = VerificationReport(runs=(sample,))
    assert VerificationReport.model_validate_json(report.model_dump_json()) == report
    assert "a sample" in as_markdown(verification_document(report)) and "a sample" in as_page(
        verification_document(report)
    )


def test_an_estimate_on_both_sides_of_a_promise_says_so(plan: Plan) -> None:
    run = verify_plan(plan, replace(AS_PLANNED, most_requests=250_000, load=0.1))
    w = run.workloads[0]
    p = w.promises[0].model_copy(update={"within_frac": 0.96, "low_frac": 0.93, "high_frac": 0.99})
    assert p.kept and p.is_open is p.estimated
    near = run.model_copy(update={"workloads": (w.model_copy(update={
        "promises": (p.model_copy(update={"estimated": True}),)}),)})  # fmt: skip
    assert headline(near).endswith("every promise kept; within the interval: chat: TTFT")


def test_a_sample_says_where_replicas_fall_behind(plan: Plan) -> None:
    for load, behind in ((1.0, False), (6.0, True)):
        run = verify_plan(plan, replace(AS_PLANNED, load=load, most_requests=30_000, days=2))
        assert run.hours[0].sampled
        assert any("fell behind" in note for note in run.notes) is behind, load


def test_no_more_requests_are_in_memory_than_a_part_has(plan: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(traffic, "PART_REQUESTS", 500)
    most, let_in = [0], serving._Served.let_in

    def counted(self: serving._Served, *arguments: object) -> object:
        refused = let_in(self, *arguments)  # type: ignore[arg-type]
        most[0] = max(most[0], len(self.simulation))
        return refused

    monkeypatch.setattr(serving._Served, "let_in", counted)
    run = verify_plan(plan, replace(AS_PLANNED, days=1))
    w = run.workloads[0]
    assert w.served + w.refused == w.requests == pytest.approx(100_000, rel=0.05)
    assert run.kept and most[0] < 1500


def test_nobody_gets_in_behind_too_many(plan: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serving, "MOST_WAITING", 1000)
    run = verify_plan(plan, replace(AS_PLANNED, days=1, load=8.0))
    w = run.workloads[0]
    assert w.served + w.refused + w.unfinished == w.requests and w.unfinished > 1000
    assert not run.kept
    assert any("were waiting" in note for note in run.notes)


def test_work_that_waits_is_let_in_once() -> None:
    view = account_of(lever_plan("waiting"))
    pool = view.plan.pools[0]
    come = Traffic(view, pool, slots_of_week(view.plan, 0), np.ones((1, MINUTES)), 0.02, (1, 0), None)
    let_in = [come.part(n)[0] for n in range(HOURS * come.parts)]
    came = [come._arrived(0, hour, part) for hour in range(HOURS) for part in range(come.parts)]
    for n, part in enumerate(let_in):
        inside = (part.let_in_s >= 3600 * n / come.parts) & (part.let_in_s < 3600 * (n + 1) / come.parts)
        assert inside.all() and (np.diff(part.let_in_s) >= 0).all()
        assert (part.let_in_s >= part.stream.arrival_s).all()

    def minutes_of_week(streams: list[traffic.Arrived]) -> list[float]:
        return sorted(np.concatenate([a.stream.arrival_s for a in streams]) % (60.0 * MINUTES))

    assert minutes_of_week(let_in) == pytest.approx(minutes_of_week(came))
    expected = sum(come.requests)
    assert sum(len(a.stream) for a in let_in) == pytest.approx(expected, abs=8 * expected**0.5)


# -- interrupted ------------------------------------------------------------------------------------------------------


def stopped_after(parts: int, stop: Stopped, monkeypatch: pytest.MonkeyPatch) -> None:
    """Interrupt when so many parts of hours have been served."""
    part: Callable[[Traffic, int], list[traffic.Arrived]] = Traffic.part
    count = [0]

    def struck(self: Traffic, number: int) -> list[traffic.Arrived]:
        count[0] += 1
        if count[0] > parts:
            raise stop
        return part(self, number)

    monkeypatch.setattr(Traffic, "part", struck)


def test_what_was_served_until_an_interruption_is_kept(plan: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    day, two = (verify_plan(plan, ServeOptions(days=days, load=0.3)) for days in (1, 2))
    with monkeypatch.context() as patched:
        stopped_after(24, Stopped(), patched)
        found = verify_plan(plan, ServeOptions(days=2, load=0.3), keep_partial=True)
    assert found.stopped == "interrupted" and found.hours[0].hours == tuple(range(24))
    assert (found.workloads, found.deployments) == (day.workloads, day.deployments)
    with monkeypatch.context() as patched:
        stopped_after(40, TimeIsUp(0.0), patched)
        found = verify_plan(plan, ServeOptions(days=2, load=0.3), keep_partial=True)
    hours = found.hours[0].hours
    assert found.stopped == OUT_OF_TIME and 36 <= len(hours) <= 40 and hours == tuple(range(len(hours)))
    for ours, whole in zip(found.workloads[0].promises, two.workloads[0].promises, strict=True):
        assert ours.at_percentile_by_hour_s[: len(hours)] == whole.at_percentile_by_hour_s[: len(hours)]
        assert set(ours.at_percentile_by_hour_s[len(hours) :]) == {None}
    with monkeypatch.context() as patched:
        stopped_after(0, Stopped(), patched)
        assert verify_plan(plan, ServeOptions(days=2), keep_partial=True).requests == 0
        with pytest.raises(Stopped):
            verify_plan(plan, ServeOptions(days=2))


@for_each(
    ("stop", "load", "code"),
    [
        (TimeIsUp(0.0), "0.3", 7),
        (TimeIsUp(0.0), "3", 6),
        (Stopped(), "0.3", 130),
        (Stopped(), "3", 130),
    ],
)
def test_the_command_reports_what_was_served_and_exits_as_it_ended(
    stop: Stopped,
    load: str,
    code: int,
    plan: Plan,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("plan.json").write_text(plan.to_json(), encoding="utf-8")
    stopped_after(40, stop, monkeypatch)
    ran = Command(monkeypatch, capsys)(
        "verify", "plan.json", "--load", f"{load},0.2", "--slack", "--out", "v.json", "--html", "v.html", "-q"
    )
    assert ran.code == code, ran.err
    report = VerificationReport.model_validate_json(Path("v.json").read_text())
    assert report.stopped == report.runs[0].stopped and report.not_served == ("load 0.2", "slack")
    assert report.runs[0].requests > 0
    first = ran.out.splitlines()[0]
    assert f"not verified ({report.stopped})" in first
    assert ("MISSED" in first) is (load == "3")
    assert "Mon 00h to " in ran.out and "before this was served: load 0.2, slack" in ran.out
    assert json.loads(Path("v.json").read_text())["runs"][0]["hours"][0]["of"] == HOURS
    assert "ot verified" in Path("v.html").read_text() or load == "3"


def test_a_later_load_that_was_not_served_is_left_out_of_the_picture(
    plan: Plan, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("plan.json").write_text(plan.to_json(), encoding="utf-8")
    stopped_after(24, TimeIsUp(0.0), monkeypatch)
    ran = Command(monkeypatch, capsys)(
        "verify", "plan.json", "--days", "1", "--load", "0.3,0.4", "--html", "v.html", "--markdown", "v.md"
    )
    assert ran.code == 7, ran.err
    for text in (ran.out, Path("v.html").read_text(), Path("v.md").read_text()):
        assert "nothing was measured" in text and "no hour was served completely" in text
