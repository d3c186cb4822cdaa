"""One time limit for all of a plan, interruptions that cost nothing, and candidates that do not hold."""

from __future__ import annotations

import json
import os
import signal
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import planner
from planner import pipeline
from planner.io.errors import OutOfTime
from planner.optimization.assemble import assemble_plan, with_all_options
from planner.plan.plan import Plan
from planner.plan.saved import plan_from_json
from planner.reports.html import html_report
from problems.fleet import master
from problems.fleet_problem import FleetProblem, Offer, fleet_of
from problems.recipes.pools import Deployment, Pool
from problems.staffing import Staffing
from solvers.backends.clock import (
    INTERRUPTED,
    Stopped,
    TimeIsUp,
    ask_to_stop,
    check,
    limited_to,
    stop_is_asked,
    stoppable,
    undisturbed,
    why_stopped,
)
from solvers.heuristics.columns import from_solution
from solvers.heuristics.incumbent import is_covered
from solvers.search.fleet_solution import FleetSolution, Options, Outcome, Progress
from solvers.search.fleet_solver import solve_fleet
from tests.support.command_line import SMALL, Command
from tests.support.shown import plan_markdown, plan_text


@pytest.fixture(autouse=True)
def handler() -> Iterator[None]:
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


# -- the clock ------------------------------------------------------------------------------------------------------


def forever() -> None:
    while True:
        check()


def test_work_is_given_up_where_it_looks_at_the_clock() -> None:
    with limited_to(0.0):
        pass  # it did not look
    with pytest.raises(TimeIsUp), limited_to(0.02):
        forever()
    check()


def test_of_nested_limits_the_earliest_counts_and_says_whose_it_was() -> None:
    with limited_to(60) as outer:
        with pytest.raises(TimeIsUp) as stop, limited_to(0.02) as inner:
            forever()
        assert inner.ended(stop.value) and not outer.ended(stop.value)
    with limited_to(0.02) as outer:
        with pytest.raises(TimeIsUp) as stop, limited_to(60) as inner:
            forever()
        assert outer.ended(stop.value) and not inner.ended(stop.value)


def test_a_larger_limit_still_counts_after_a_smaller_one_has_ended() -> None:
    with pytest.raises(TimeIsUp) as stop, limited_to(0.05) as outer:
        with pytest.raises(TimeIsUp), limited_to(0.01):
            forever()
        forever()
    assert outer.ended(stop.value)


def test_no_limit_ends_nothing() -> None:
    with limited_to(None) as none:
        check()
    assert none.left_s == float("inf")


def test_a_limit_holds_in_its_own_thread_alone() -> None:
    ended: list[type[BaseException]] = []

    def in_a_thread() -> None:
        check()
        try:
            with limited_to(0.01):
                forever()
        except TimeIsUp as stop:
            ended.append(type(stop))

    thread = threading.Thread(target=in_a_thread)
    with limited_to(0.0):
        thread.start()
        thread.join()
    assert ended == [TimeIsUp]


def test_what_is_finishing_is_not_given_up() -> None:
    with stoppable(), pytest.raises(Stopped) as stop, limited_to(0.0):
        ask_to_stop()
        with undisturbed(), limited_to(0.0):
            check()
        check()
    assert why_stopped(stop.value) == INTERRUPTED


def test_ctrl_c_asks_to_stop_and_raises_nothing() -> None:
    with stoppable():
        os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGINT)
        assert stop_is_asked()
        with pytest.raises(Stopped):
            check()
    check()
    with pytest.raises(KeyboardInterrupt):
        os.kill(os.getpid(), signal.SIGINT)


def test_an_application_that_handles_ctrl_c_is_left_alone() -> None:
    heard: list[int] = []
    signal.signal(signal.SIGINT, lambda number, frame: heard.append(number))
    with stoppable(), stoppable():
        os.kill(os.getpid(), signal.SIGINT)
        check()
    assert heard == [signal.SIGINT]


def test_a_search_that_does_not_end_in_time_is_given_up_and_keeps_its_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("solvers.search.search.Search._close_in", lambda *_: forever())
    monkeypatch.setattr("solvers.search.fleet_solver.GRACE_S", 0.0)
    found = solve_fleet(one_workload(), Options(time_limit_s=0.5))
    assert found.outcome is Outcome.FEASIBLE
    assert found.best is not None


def test_a_search_that_is_part_of_something_larger_is_not_half_a_result(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("solvers.search.search.Search._close_in", lambda *_: forever())
    with pytest.raises(TimeIsUp), limited_to(0.5):
        solve_fleet(one_workload(), Options(time_limit_s=60))


# -- a plan in time -------------------------------------------------------------------------------------------------


@pytest.fixture
def fleetplan(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Command:
    monkeypatch.chdir(tmp_path)
    Path("small.yaml").write_text(SMALL, encoding="utf-8")
    return Command(monkeypatch, capsys)


def test_no_plan_within_the_limit_says_so_and_what_would_be_needed() -> None:
    with pytest.raises(OutOfTime) as stop:
        planner.plan_fleet(planner.case_from_text(SMALL), Options(time_limit_s=1e-3))
    assert stop.value.doing == pipeline.COMPARING
    assert "try --time-limit 10s" in str(stop.value)


def test_no_plan_within_the_limit_is_exit_code_4_and_nothing_is_written(fleetplan: Command) -> None:
    ran = fleetplan("plan", "small.yaml", "--time-limit", "1ms", "--out", "plan.json")
    assert (ran.code, ran.out) == (4, "")
    assert "the time limit of 0.001 s was reached while reading the demand file" in ran.err
    assert not Path("plan.json").exists()


def cut_off(*_: object) -> Plan:
    raise TimeIsUp(float("inf"))


def test_what_the_limit_cuts_off_is_left_out_and_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipeline, "with_all_options", cut_off)
    plan = planner.plan_fleet(planner.case_from_text(SMALL), Options(time_limit_s=600))
    assert [(part.what, part.why) for part in plan.left_out or ()] == [
        ("options", "time-limit"),
        ("if_throughput_is_off", "time-limit"),
        ("assumed_limits", "time-limit"),
        ("simpler", "time-limit"),
    ]
    assert not plan.interrupted
    assert all(option.chosen for option in plan.options)
    assert plan.if_throughput_is_off.low_usd_per_month is None
    said = "ot worked out, because the time limit was reached: what other options would cost, what the plan costs if"
    text = plan_text(plan)
    for report in (text, plan_markdown(plan)):
        assert said in report
    page = html_report(plan)
    assert "what other options would cost" in page and "plan again with a longer --time-limit" in page
    assert "faster or slower" not in text
    assert planner.check_plan(plan.as_json()) == []
    assert plan_from_json(plan.to_json()) == plan


def test_a_plan_without_a_limit_is_complete(fleetplan: Command) -> None:
    plan = planner.plan_fleet(planner.case_from_text(SMALL))
    assert plan.left_out is None
    assert plan.has("options") and plan.has("if_throughput_is_off")


def test_a_limit_that_is_not_reached_changes_no_figure() -> None:
    case = planner.case_from_text(SMALL)
    free, limited = planner.plan_fleet(case), planner.plan_fleet(case, Options(time_limit_s=600))
    assert limited.cost_usd_per_month == pytest.approx(free.cost_usd_per_month, rel=2e-6)
    assert limited.status == free.status
    assert limited.left_out is None


def test_studies_end_with_the_limit_and_say_so(monkeypatch: pytest.MonkeyPatch) -> None:
    from planner.studies import waterfall
    from planner.studies.study import study

    plan = planner.plan_fleet(planner.case_from_text(SMALL))
    monkeypatch.setattr(waterfall, "attempt", cut_off)
    studied, _ = study(plan, Options(time_limit_s=600))
    assert studied.studies is not None
    assert studied.studies.stopped == {"time-limit"} and not studied.studies.interrupted
    assert studied.studies.waterfall is not None
    said = [
        n for n in studied.studies.waterfall.notes if n.startswith("the time limit was reached: these were not planned")
    ]
    assert len(said) == 1
    assert studied.studies.break_even is None


def test_studies_that_the_limit_cuts_short_are_no_interruption(
    monkeypatch: pytest.MonkeyPatch, fleetplan: Command
) -> None:
    from planner.studies import waterfall

    monkeypatch.setattr(waterfall, "attempt", cut_off)
    ran = fleetplan("plan", "small.yaml", "--study", "--explain", "--out", "plan.json")
    assert ran.code == 0, ran.err
    assert "interrupted" not in ran.err
    assert "the time limit was reached: these were not planned" in ran.out
    assert "(menu.max_deployments)" in ran.out.split("these were not planned")[1]


def test_a_limit_before_anything_is_known_is_no_interruption(
    monkeypatch: pytest.MonkeyPatch, fleetplan: Command
) -> None:
    from planner.studies import study

    assert fleetplan("plan", "small.yaml", "--out", "plan.json").code == 0
    before = Path("plan.json").read_bytes()
    monkeypatch.setattr(study, "other_demand", cut_off)
    ran = fleetplan("study", "plan.json", "--out", "plan.json", "--time-limit", "600s")
    assert ran.code == 4, ran.err
    assert "the time limit was reached before anything was known" in ran.err
    assert Path("plan.json").read_bytes() == before


def test_only_a_proof_says_that_no_fleet_can_do_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from planner.cli.command import _failed
    from planner.explanations.relaxations import Infeasible

    assert _failed(Infeasible("a case", ("Not everything was tried: the time limit was reached.",), proved=False)) == 4
    assert capsys.readouterr().err.startswith("no plan was found:\n")
    assert _failed(Infeasible("a case", ("the quota is too small",))) == 3
    assert capsys.readouterr().err.startswith("no fleet can meet this demand:\n")


def test_what_the_limit_leaves_out_of_the_studies_is_named(monkeypatch: pytest.MonkeyPatch, fleetplan: Command) -> None:
    from planner.explanations import explain

    monkeypatch.setattr(explain, "explain", cut_off)
    ran = fleetplan("plan", "small.yaml", "--explain", "--out", "plan.json")
    assert ran.code == 0, ran.err
    assert "--explain was skipped: the time limit was reached" in ran.err


def test_a_log_has_a_line_of_progress_now_and_then(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from planner.reports.progress import progress_on_stderr

    said = Progress("step 1 of 7: without \x1b[2Jspot", 2000.0, 1500.0)
    for every, lines in (("0", 2), ("inf", 0)):
        monkeypatch.setenv("FLEETPLAN_PROGRESS_S", every)
        with progress_on_stderr(False) as tell:
            tell(said)
            tell(said)
        line = "step 1 of 7: without \\x1b[2Jspot  best $2,000/month  bound $1,500"
        assert capsys.readouterr().err.count(line) == lines


# -- nothing is lost ------------------------------------------------------------------------------------------------


def interrupting(then: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a function so that somebody presses Ctrl-C while it runs, once."""
    left = [signal.SIGINT]

    def work(*arguments: Any, **options: Any) -> Any:
        if left:
            os.kill(os.getpid(), left.pop())
        return then(*arguments, **options)

    return work


@pytest.mark.parametrize(
    ("where", "what"),
    [
        ("with_cost_range", ["if_throughput_is_off", "assumed_limits", "simpler"]),
        ("with_all_options", ["options", "if_throughput_is_off", "assumed_limits", "simpler"]),
    ],
)
def test_an_interruption_after_the_search_writes_the_plan_and_exits_with_130(
    fleetplan: Command, monkeypatch: pytest.MonkeyPatch, where: str, what: list[str]
) -> None:
    monkeypatch.setattr(pipeline, where, interrupting(getattr(pipeline, where)))
    ran = fleetplan("plan", "small.yaml", "--out", "plan.json", "--study")
    assert ran.code == 130
    assert "interrupted: the plan is checked" in ran.err
    written = json.loads(Path("plan.json").read_text(encoding="utf-8"))
    assert planner.check_plan(written) == []
    assert [(part["what"], part["why"]) for part in written["left_out"]] == [(w, "interrupted") for w in what]
    assert written["studies"] is None


def test_an_interruption_while_the_plan_is_put_together_loses_nothing(
    fleetplan: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pipeline, "assemble_plan", interrupting(assemble_plan))
    ran = fleetplan("plan", "small.yaml", "--out", "plan.json")
    assert ran.code == 130
    assert planner.check_plan(json.loads(Path("plan.json").read_text(encoding="utf-8"))) == []


def test_an_interruption_while_a_plan_of_a_study_is_put_together_ends_the_study(
    fleetplan: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert fleetplan("plan", "small.yaml", "--out", "plan.json").code == 0
    monkeypatch.setattr(pipeline, "assemble_plan", interrupting(assemble_plan))
    ran = fleetplan("study", "plan.json", "--only", "waterfall", "--out", "studied.json")
    assert ran.code == 130, ran
    assert "interrupted: these were not planned" in ran.out


def test_an_interruption_while_a_report_is_written_is_heard_when_all_is_written(
    fleetplan: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    from planner.io import files

    monkeypatch.setattr(files, "write_whole", interrupting(files.write_whole))
    ran = fleetplan("plan", "small.yaml", "--out", "plan.json", "--markdown", "plan.md")
    assert ran.code == 130
    assert Path("plan.json").exists() and Path("plan.md").exists()
    assert "$/month" in ran.out


def test_what_is_whole_when_somebody_wants_it_to_stop_is_put_out(
    fleetplan: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    from planner.cli import planning

    shown: list[str] = []
    monkeypatch.setattr(planning, "put", interrupting(shown.append))
    with stoppable():
        assert fleetplan("schema").code == 130
    assert shown and fleetplan("schema").code == 0


def test_plans_that_are_kept_on_the_way_pass_their_check_and_say_what_they_lack(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(pipeline, "KEEP_AFTER_S", 0.0)
    monkeypatch.setattr(pipeline, "KEEP_FRAC", float("inf"))
    kept: list[pipeline.Kept] = []
    plan = pipeline.plan_fleet(planner.case_from_text(SMALL), Options(time_limit_s=600), on_kept=kept.append)
    assert kept[0].searching and not kept[-1].searching
    assert kept[-1].missing == ("simpler",) and kept[0].missing == (
        *("options", "if_throughput_is_off", "assumed_limits", "simpler"),
    )
    assert kept[-1].plan.options == plan.options
    for each in kept:
        for why in ("interrupted", "time-limit"):
            ended = each.ended(why)
            assert planner.check_plan(ended.as_json()) == []
            assert plan_from_json(ended.to_json()) == ended
            assert [(part.what, part.why) for part in ended.left_out or ()] == [(what, why) for what in each.missing]
            assert ended.interrupted is (why == "interrupted")
            assert (ended.status == "interrupted") is (each.searching and why == "interrupted")


# -- candidates that do not hold ------------------------------------------------------------------------------------


def one_workload(rate: float = 2.5) -> FleetProblem:
    """One workload on one offer with spot, one slot with counts of 1, 2 and more replicas."""
    staffing = Staffing(z=0.0, arrival_scv=1.0, rate_cv=0.0, batch=8.0, min_replicas=1)
    on = Deployment("on a", "a", 1, np.array([1.0]), staffing)
    pool = Pool("w", ("w",), np.array([[rate]]), 0.4, True, (on,), (), shed_usd_per_request=np.array([1.0]))
    offers = {"a": Offer("a", "x", 1, on_demand_usd_per_h=1.0, spot_usd_per_h=0.4)}
    return fleet_of(("w",), [pool], offers, np.array([730.0]), np.zeros(1, dtype=int))


def test_a_plan_out_of_mixed_servings_buys_what_it_uses() -> None:
    """The crash: what was bought for the mix was kept for the largest serving of it, and looked cheaper than it is."""
    fleet = one_workload(rate=9.0)
    model, v = master(fleet)
    (r,) = (r for r, recipe in enumerate(fleet.recipes) if recipe.uses)
    replicas = fleet.recipes[r].uses[0].replicas
    many, few = int(np.argmax(replicas)), int(np.argmin(replicas))
    x = np.zeros(model.n_columns)
    x[v.pick[r]] = 1.0
    x[v.serve[r, many]], x[v.serve[r, few]] = 0.55, 0.45
    x[v.on_demand["a", 0]] = 1.0
    x[v.spot["a", 0]] = 0.55 * replicas[many] + 0.45 * replicas[few] - 1.0
    plan = from_solution(fleet, v, x)
    assert plan is not None
    assert plan.paths[0].uses[0].replicas.max() == replicas[many]
    assert is_covered(fleet, plan)


def with_half_of_it_missing(solution: FleetSolution) -> FleetSolution:
    """Add a best plan that is cheaper because it lacks an instance that it uses."""
    best = solution.best
    assert best is not None
    purchases = {g: replace(p, reserved={k: n - 1 for k, n in p.reserved.items()}) for g, p in best.purchases.items()}
    solution.offer(replace(best, purchases=purchases, cost_usd_per_month=0.9 * best.cost_usd_per_month))
    return solution


def test_a_candidate_that_fails_verification_is_dropped_for_the_best_that_holds(
    fleetplan: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = planner.case_from_text(SMALL)
    sound = planner.plan_fleet(case)
    assert sound.costs.reserved_usd_per_month > 0
    monkeypatch.setattr(pipeline, "solve_fleet", lambda *given: with_half_of_it_missing(solve_fleet(*given)))
    plan = planner.plan_fleet(case)
    assert plan.cost_usd_per_month == sound.cost_usd_per_month
    assert plan.status == sound.status
    (said,) = (note for note in plan.proof.notes if "failed the check and was dropped" in note)
    ran = fleetplan("plan", "small.yaml", "--out", "plan.json", "--verbose")
    assert ran.code == 0
    assert said in ran.out


def test_all_options_are_added_to_a_plan_that_has_the_chosen_ones() -> None:
    case = planner.case_from_text(SMALL)
    tried = pipeline.attempt(case, Options())
    assert tried.plan is not None
    assert [option.chosen for option in tried.plan.options] == [True]
    found = solve_fleet(tried.fleet, Options())  # type: ignore[arg-type]
    whole, cheapest = with_all_options(tried.plan, tried.candidates, tried.fleet, found.best)  # type: ignore[arg-type]
    assert len(whole.options) > 1
    assert len(cheapest) == 1
    assert [o.option for o in whole.options if o.chosen] == [tried.plan.options[0].option]
