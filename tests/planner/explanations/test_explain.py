"""What limits cost and levers save: every figure is that of a plan made anew, and no more is claimed than is proved."""

from __future__ import annotations

import json
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import planner
from planner.candidates.enumerate import enumerate_candidates
from planner.candidates.rejection import RejectionKind
from planner.case.case import Case
from planner.case.changes import with_limits
from planner.explanations.explain import explain
from planner.explanations.limits import every_limit, round_figures_above
from planner.explanations.records import Explanation, RunnerUp, extra_cost, lever_value, saving
from planner.levers import levers_in_use, unquantized
from planner.optimization import replan as bench
from planner.plan.plan import Plan
from planner.plan.why_not import menu_judged, why_not
from planner.reports.explanation import explanation_document
from planner.reports.text import as_text
from problems.fleet_problem import FleetProblem
from solvers.backends.clock import Stopped
from solvers.search.fleet_solution import FleetSolution, Options, Outcome, Progress
from solvers.search.fleet_solver import solve_fleet
from tests.support.command_line import SMALL, Command
from tests.support.lever_plans import lever_plan
from tests.support.rows import for_each
from tests.support.shared_plans import fleet_plan

EXACT = Options(gap_frac=0.0)
TIGHT = SMALL.replace("400k", "800k").replace("menu: {", "menu: {max_gpus_per_replica: 1, max_deployments: 1, ") + (
    "policy: {max_gpus: {l40s: 3}, max_instances: {aws/g6e.48xlarge: 1}}\n"
)
"""more GPUs would be cheaper than the API"""


@pytest.fixture(scope="module")
def plan() -> Plan:
    return planner.plan_fleet(planner.case_from_text(TIGHT), EXACT)


@pytest.fixture(scope="module")
def explanation(plan: Plan) -> Explanation:
    return explain(plan.case, plan, EXACT)


def cost_of(case: Case) -> float:
    return fleet_plan(case, EXACT).cost_usd_per_month


def test_a_step_more_of_a_limit_saves_what_planning_again_says(plan: Plan, explanation: Explanation) -> None:
    steps = {limit.key: limit.one_more for limit in every_limit(plan.case) if limit.one_more is not None}
    assert {x.limit for x in explanation.limits} == set(steps)
    for worth in explanation.limits[:4]:
        step = steps[worth.limit]
        saves = plan.cost_usd_per_month - cost_of(step.change(plan.case))
        assert worth.saves_usd_per_month == pytest.approx(saves, abs=0.01), worth.step
        assert worth.step == step.label


def test_the_quota_that_binds_is_told_from_the_one_that_does_not(explanation: Explanation) -> None:
    worth = {x.limit: x for x in explanation.limits}
    assert worth["policy.max_gpus.l40s"].verdict == "proved"
    assert worth["policy.max_gpus.l40s"].saves_usd_per_month > 1
    assert worth["policy.max_instances.aws/g6e.48xlarge@us-east-1"].verdict == "nothing"
    order = [x.saves_usd_per_month for x in explanation.limits]
    assert order == sorted(order, reverse=True)


def test_a_lever_is_worth_what_the_plan_without_it_costs_more(plan: Plan, explanation: Explanation) -> None:
    without = {lever.key: lever.without for lever in levers_in_use(plan)}
    assert {"commitments", "quantization", "API"} <= {x.lever for x in explanation.levers} == set(without)
    for worth in explanation.levers:
        if worth.feasible:
            cost = cost_of(without[worth.lever](plan.case))
            assert worth.cost_usd_per_month == pytest.approx(cost, abs=0.01), worth.lever
            assert worth.dearer_by_usd_per_month == pytest.approx(cost - plan.cost_usd_per_month, abs=0.01)
            assert worth.dearer_by_frac == pytest.approx(cost / plan.cost_usd_per_month - 1, abs=1e-5)
    assert [x.lever for x in explanation.levers if not x.feasible] == ["API"]


def test_a_lever_without_which_there_is_no_plan_comes_first() -> None:
    text = SMALL.replace("llama-3.1-8b", "llama-3.1-405b").replace("gpt-4o-mini", "gpt-4o")
    found = planner.plan_fleet(planner.case_from_text(text))
    worth = explain(found.case, found).levers
    assert [(x.lever, x.feasible, x.cost_usd_per_month) for x in worth] == [("API", False, None)]


def test_only_levers_in_use_are_tried() -> None:
    text = SMALL.replace("fp8, fp16", "fp16").replace("on-demand, spot, reserved-1y", "on-demand")
    found = planner.plan_fleet(planner.case_from_text(text.replace("quality:", "api: forbidden\n    quality:")))
    assert levers_in_use(found) == []


@pytest.mark.parametrize(
    ("name", "levers"),
    [
        ("together", {"sharing", "spot", "quantization", "semantic caching", "prefix caching"}),
        ("waiting", {"deferral", "API", "batch prices of APIs", "quantization"}),
        ("shedding", {"shedding", "commitments", "quantization"}),
    ],
)
def test_every_lever_is_seen_and_can_be_left_out(name: str, levers: set[str]) -> None:
    found = lever_plan(name)
    in_use = {lever.key: lever for lever in levers_in_use(found)}
    assert levers <= set(in_use)
    for key, lever in in_use.items():
        case = lever.without(found.case)
        assert case != found.case
        assert not _allows(case, key), key
        assert _allows(found.case, key), key


def _allows(case: Case, lever: str) -> bool:
    """Whether a case leaves the choice at all."""
    if lever.endswith(" caching"):
        return any(lever.removesuffix(" caching") in option.split("+") for w in case.workloads for option in w.caching)
    return {
        "spot": "spot" in case.purchase,
        "commitments": any(option.startswith("reserved") for option in case.purchase),
        "quantization": any(q.quality_loss[0].loss_frac < 1 for key, q in case.quantizations.items() if key != "fp16"),
        "several deployments for a workload": case.limits.max_deployments > 1,
        "sharing": any(w.sharing for w in case.workloads),
        "API": any(w.api_allowed for w in case.workloads),
        "batch prices of APIs": any(w.api_wait_h for w in case.workloads),
        "deferral": any(w.deadline_h is not None for w in case.workloads),
        "shedding": any(w.shed_usd_per_request is not None for w in case.workloads),
    }[lever]


def test_several_deployments_of_a_pool_are_a_lever(plan: Plan) -> None:
    (pool,) = plan.pools
    mixed = plan.model_copy(update={"pools": (pool.model_copy(update={"deployments": 2 * pool.deployments}),)})
    (lever,) = (x for x in levers_in_use(mixed) if x not in levers_in_use(plan) and "several" in x.key)
    assert lever.without(plan.case).limits.max_deployments == 1


def test_without_quantization_a_model_stays_as_it_was_published() -> None:
    text = SMALL.replace("[llama-3.1-8b]", "[llama-3.1-8b, deepseek-v3]").replace("fp8, fp16", "fp8")
    case = unquantized(planner.case_from_text(text))
    loss = {
        (model, key): scheme.loss_for(case.models[model], key).loss_frac
        for model in case.models
        for key, scheme in case.quantizations.items()
    }
    assert {variant for variant, lost in loss.items() if lost < 1} == {
        ("llama-3.1-8b", "fp16"),
        ("deepseek-v3", "fp16"),
        ("deepseek-v3", "fp8"),
    }


def made(cost: float, bound: float, penalty: float = 0.0) -> Any:
    """A plan, or a solution, as far as a comparison looks at it."""
    best = SimpleNamespace(cost_usd_per_month=cost, objective=cost + penalty)
    return SimpleNamespace(
        cost_usd_per_month=cost,
        objective_usd_per_month=cost + penalty,
        best=best,
        bound_usd_per_month=bound,
        outcome=Outcome.WITHIN_GAP,
    )


@for_each(
    ("looser", "found", "proved", "verdict"),
    [
        (made(80, 79), 20, (10, 21), "proved"),
        (made(95, 88), 5, (0, 12), "within the gap"),
        (made(103, 100), 0, (0, 0), "nothing"),
        (made(103, 85), 0, (0, 15), "within the gap"),
    ],
)
def test_a_saving_smaller_than_the_gaps_is_not_claimed(
    looser: Any, found: float, proved: tuple[float, float], verdict: str
) -> None:
    told = saving(made(100, 90), looser)
    assert (told.found, (told.at_least, told.at_most), told.verdict) == (found, proved, verdict)


@pytest.mark.parametrize(
    ("without", "found", "proved", "verdict"),
    [
        (made(120, 115), 20, (15, 30), "proved"),
        (made(104, 92), 4, (0, 14), "within the gap"),
        (made(98, 60), 0, (0, 8), "within the gap"),
    ],
)
def test_an_extra_cost_smaller_than_the_gaps_is_not_claimed(
    without: Any, found: float, proved: tuple[float, float], verdict: str
) -> None:
    told = extra_cost(made(100, 90), without)
    assert (told.found, (told.at_least, told.at_most), told.verdict) == (found, proved, verdict)


def test_penalties_count_like_costs() -> None:
    """More GPUs cost money and turn fewer requests away: they are worth it."""
    assert saving(made(80, 110, penalty=30), made(95, 100, penalty=5)).found == 10
    assert extra_cost(made(80, 110, penalty=30), made(150, 150)).found == 40


def test_a_plan_that_was_not_found_is_not_called_impossible() -> None:
    missing = FleetSolution(outcome=Outcome.NOT_FOUND)
    assert lever_value(made(100, 90), "spot", None, missing).feasible is None
    told = saving(made(100, 90), missing)
    assert (told.found, told.at_most, told.verdict) == (0, 100, "within the gap")


def test_a_wide_gap_gives_ranges_that_hold_the_truth(plan: Plan, explanation: Explanation) -> None:
    loose = planner.plan_fleet(plan.case, Options(gap_frac=0.2, node_limit=1))
    rough = explain(loose.case, loose, Options(gap_frac=0.2, node_limit=1))
    exact = {x.limit: x.saves_usd_per_month for x in explanation.limits}
    for x in rough.limits:
        low, high = x.proved_usd_per_month
        assert low - 0.01 <= exact[x.limit] <= high + 0.01, x.step


def test_figures_of_two_digits() -> None:
    assert round_figures_above(0.0019, 1.2) == [0.002, 0.0021, 0.0022]
    assert round_figures_above(9.8, 1.3) == [9.9, 10, 11, 12]
    assert round_figures_above(1.234, 1.1) == [1.3]


def test_work_that_may_wait_has_no_limits_of_work_that_may_not() -> None:
    keys = {limit.key for limit in every_limit(lever_plan("waiting").case)}
    assert "night.slo.tpot_p95" in keys
    assert not keys & {"night.slo.ttft_p95", "night.shed", "menu.max_deployments"}


def test_the_fewest_replicas_are_a_limit_of_work_that_may_wait() -> None:
    case = lever_plan("waiting").case
    for fewest in (1, 2):
        limits = every_limit(with_limits(min_replicas=fewest)(case))
        assert ("policy.min_replicas" in {limit.key for limit in limits}) == (fewest > 1)


def test_ctrl_c_keeps_what_is_known(plan: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[FleetProblem] = []

    def interrupted(fleet: FleetProblem, *others: Any) -> FleetSolution:
        calls.append(fleet)
        if len(calls) == 3:
            raise Stopped
        return solve_fleet(fleet, *others)

    monkeypatch.setattr(bench, "solve_fleet", interrupted)
    found = explain(plan.case, plan)
    assert len(calls) == 3
    assert len(found.limits) + len(found.levers) == 2
    tried = {f"without {x.lever}" for x in found.levers} | {x.step for x in found.limits}
    assert not tried & set(found.not_tried)
    assert "interrupted; not tried: " in as_text(explanation_document(found))


def test_nothing_is_said_of_what_was_not_tried(explanation: Explanation) -> None:
    nothing = explanation.model_copy(update={"limits": (), "levers": (), "choices": ()})
    assert as_text(explanation_document(nothing)).count("no ") == 2
    stopped = nothing.model_copy(update={"not_tried": ("without spot",)})
    _, *said = as_text(explanation_document(stopped)).splitlines()
    assert said == ["", "  interrupted; not tried: without spot"]


def test_one_workload_by_itself() -> None:
    second = "  - {name: mail, models: [llama-3.1-8b], forecast: {requests_per_day: 20k}}\nmenu: {"
    found = planner.plan_fleet(planner.case_from_text(TIGHT.replace("menu: {", second)))
    told = explain(found.case, found, workload="mail")
    assert {x.workload for x in (*told.limits, *told.levers)} == {"mail"}
    lever = next(x for x in levers_in_use(found, "mail") if x.key == "API")
    assert [w.api_allowed for w in lever.without(found.case, "mail").workloads] == [True, False]


# -- why each workload is served as it is ---------------------------------------------------------------------------


def test_the_runner_up_is_the_best_plan_without_what_serves_it(plan: Plan, explanation: Explanation) -> None:
    """Found by planning a case from whose catalog the chosen quantization is gone: nothing else can be left."""
    (choice,) = explanation.choices
    (chosen,) = (d.deployment for pool in plan.pools for d in pool.deployments)
    assert choice.workloads == ("chat",)
    assert choice.served_by.startswith(f"{chosen.model} {chosen.quantization} on 1 x l40s")
    assert choice.cost_usd_per_month == plan.workloads[0].cost_usd_per_month
    others = {key: q for key, q in plan.case.quantizations.items() if key != chosen.quantization}
    cost = cost_of(plan.case.model_copy(update={"quantizations": others}))
    assert choice.runner_up is not None
    assert choice.runner_up.served_by is not None
    assert chosen.quantization not in choice.runner_up.served_by
    assert choice.runner_up.cost_usd_per_month == pytest.approx(cost, abs=0.01)
    assert choice.runner_up.dearer_by_usd_per_month == pytest.approx(cost - plan.cost_usd_per_month, abs=0.01)
    assert choice.runner_up.verdict == "proved"


def test_what_the_chosen_one_beats_may_be_the_runner_up(plan: Plan) -> None:
    """A candidate that was dropped since another beats it comes back when that one may not serve."""
    (chosen,) = (d.deployment for pool in plan.pools for d in pool.deployments)
    name = f"{chosen.model} {chosen.quantization} on {chosen.gpus_per_replica} x {chosen.gpu}"
    before, after = (enumerate_candidates(plan.case, without) for without in (frozenset(), frozenset({("chat", name)})))
    beaten = {r.candidate for r in before.rejected if r.kind is RejectionKind.DOMINATED and r.limit == name}
    mixed = {c.name for c in before.accepted["chat"] if not c.alone}
    assert beaten | mixed
    accepted = {c.name for c in after.accepted["chat"] if c.alone}
    assert name not in {c.name for c in after.accepted["chat"]}
    assert (beaten | mixed) & accepted
    assert enumerate_candidates(plan.case, frozenset({("mail", name)})).rejected == before.rejected


def test_without_the_only_thing_that_serves_it_there_is_no_runner_up() -> None:
    text = TIGHT.replace("fp8, fp16", "fp8").replace("quality:", "api: forbidden\n    quality:")
    found = planner.plan_fleet(planner.case_from_text(text.replace("l40s: 3", "l40s: 99")))
    told = explain(found.case, found, workload="chat")
    (choice,) = told.choices
    assert choice.runner_up is not None
    assert (choice.runner_up.feasible, choice.runner_up.served_by) == (False, None)
    assert "nothing else can serve it" in as_text(explanation_document(told))


def test_where_an_api_serves_the_runner_up_is_hosted() -> None:
    text = SMALL.replace("400k", "2k").replace("fp8, fp16", "fp8")
    found = planner.plan_fleet(planner.case_from_text(text))
    told = explain(found.case, found, workload="chat")
    (choice,) = told.choices
    assert choice.served_by == "openai/gpt-4o-mini"
    assert choice.runner_up is not None and choice.runner_up.served_by is not None
    assert choice.runner_up.served_by.startswith("llama-3.1-8b fp8 on 1 x l40s")
    (gpu, _) = choice.menu
    assert "the 2 replicas that must always run cost more than the API" in gpu.why


def test_where_all_is_turned_away_instead_penalties_are_said_to_count(explanation: Explanation) -> None:
    nobody = RunnerUp(
        served_by="nothing: all of it is shed", feasible=True, cost_usd_per_month=0.0,
        dearer_by_usd_per_month=500.0, proved_usd_per_month=(500.0, 500.0), verdict="proved",
    )  # fmt: skip
    choices = tuple(c.model_copy(update={"runner_up": nobody, "ways": 1}) for c in explanation.choices)
    text = as_text(explanation_document(explanation.model_copy(update={"choices": choices})))
    assert "the only way to serve it" in text
    assert "the whole plan then costs $0.00 / month, an extra cost of $500, including penalties" in text
    assert "including penalties" not in as_text(explanation_document(explanation))


def test_steps_that_are_alike_are_told_once(explanation: Explanation) -> None:
    idle = next(x for x in explanation.limits if x.verdict == "nothing")
    steps = tuple(
        idle.model_copy(update={"workload": w, "step": f"relax {w}'s TTFT from 2 s to 2.2 s"}) for w in ("a", "b", "c")
    )
    text = as_text(explanation_document(explanation.model_copy(update={"limits": steps})))
    assert text.count("TTFT from 2 s") == 1
    assert "relax a's TTFT from 2 s to 2.2 s; same for 2 other workloads" in text


def test_equal_workloads_are_explained_once() -> None:
    text = "workloads:\n" + "".join(
        f"  - {{name: t{k}, models: [llama-3.1-8b], forecast: {{requests_per_day: 100k}}, api: forbidden}}\n"
        for k in range(3)
    )
    menu = "menu: {gpus: [l40s], quantizations: [fp8], purchase: [on-demand], max_deployments: 1}\n"
    found = planner.plan_fleet(planner.case_from_text(text + menu + "baseline: openai/gpt-4o-mini\n"))
    told = explain(found.case, found)
    assert [c.workloads for c in told.choices] == [("t0", "t1", "t2")]
    assert [c.workloads for c in explain(found.case, found, workload="t1").choices] == [("t1",)]


MENU = """\
workloads:
  - name: chat
    models: [llama-3.1-8b]
    forecast: {requests_per_day: 300k}
    quality: {max_loss: 2%}
    api: forbidden
menu:
  gpus: [l40s, l4, h200, t4]
  quantizations: [fp8, fp16, int8, int4-awq]
  purchase: [on-demand]
  max_deployments: 1
baseline: openai/gpt-4o-mini
policy: {max_gpus: {l4: 0}, min_replicas: 1}
"""


def test_every_gpu_and_quantization_of_the_menu_has_its_reason() -> None:
    found = planner.plan_fleet(planner.case_from_text(MENU), EXACT)
    told = {(x.kind, x.name): x for x in menu_judged(found, "chat")}
    assert {name for kind, name in told if kind == "gpu"} == {"l40s", "l4", "h200", "t4"}
    assert {name for kind, name in told if kind == "quantization"} == {"fp8", "fp16", "int8", "int4-awq"}
    assert {key for key, x in told.items() if x.used} == {("gpu", "l40s"), ("quantization", "fp8")}
    assert all(x.why for x in told.values() if not x.used)
    assert "8 GPUs, and the load needs" in told["gpu", "h200"].why
    assert "quality loss" in told["quantization", "int4-awq"].why
    assert "never needs fewer GPUs than another variant on l40s" in told["quantization", "fp16"].why
    for gpu in ("h200", "t4"):
        x = told["gpu", gpu]
        alone = cost_of(found.case.model_copy(update={"gpus": {gpu: found.case.gpus[gpu]}, "offers": {
            key: o for key, o in found.case.offers.items() if o.gpu == gpu}}))  # fmt: skip
        assert x.cost_usd_per_month == pytest.approx(alone, abs=0.01)
        assert x.dearer_by_usd_per_month == pytest.approx(alone - found.cost_usd_per_month, abs=0.01)
    l4 = told["gpu", "l4"]
    assert l4.dearer_by_usd_per_month is not None
    assert (l4.dearer_by_usd_per_month > 0) or "policy.max_gpus.l4 is 0" in l4.why


def test_an_option_that_is_cheaper_by_itself_names_the_limit() -> None:
    found = planner.plan_fleet(planner.case_from_text(MENU.replace("l4: 0", "l40s: 0")), EXACT)
    (best,) = [o for o in found.options if o.workload == "chat" and o.gpu == "l40s" and o.quantization == "fp8"
               and o.offer == "aws/g6e.xlarge@us-east-1" and o.gpus_per_replica == 1]  # fmt: skip
    assert "less by itself, but policy.max_gpus.l40s is 0" in why_not(found, best)


def test_progress_says_what_is_tried(plan: Plan) -> None:
    seen: list[str] = []

    def stop_at_the_second(progress: Progress) -> None:
        seen.append(progress.phase)
        if len(set(seen)) == 2:
            raise Stopped

    explain(plan.case, plan, Options(), stop_at_the_second)
    assert re.fullmatch(rf"1 of \d+: without {levers_in_use(plan)[0].key}, pricing", seen[0])


@pytest.fixture
def fleetplan(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    plan: Plan,
    explanation: Explanation,
) -> Command:
    """The command in an empty folder; what is planned and explained is at hand already."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("planner.pipeline.plan_fleet", lambda *_: plan)
    monkeypatch.setattr("planner.explanations.explain.explain", lambda *_: explanation)
    Path("tight.yaml").write_text(TIGHT, encoding="utf-8")
    Path("plan.json").write_text(plan.to_json(), encoding="utf-8")
    return Command(monkeypatch, capsys)


def test_explain_reads_a_demand_file_or_a_saved_plan(fleetplan: Command, plan: Plan) -> None:
    from_plan, from_case = (fleetplan("explain", file) for file in ("plan.json", "tight.yaml"))
    assert from_plan == from_case
    assert (from_plan.code, from_plan.err) == (0, "")
    assert "the best plan without" in from_plan.out
    data = json.loads(fleetplan("explain", "plan.json", "--format", "json").out)
    assert data["format"] == "fleetplan-explanation/1"
    assert data["case_hash"] == plan.case_hash
    assert set(data["limits"][0]) == {
        "limit", "workload", "step", "saves_usd_per_month", "proved_usd_per_month", "verdict",
    }  # fmt: skip
    assert set(data["levers"][0]) == {
        "lever", "workload", "feasible", "cost_usd_per_month", "dearer_by_usd_per_month", "dearer_by_frac",
        "proved_usd_per_month", "verdict",
    }  # fmt: skip


def test_plan_with_explain_adds_the_section(fleetplan: Command) -> None:
    plain, explained = (fleetplan("plan", "tight.yaml", *more) for more in ((), ("--explain", "--out", "out.json")))
    assert explained.code == 0
    head, section = explained.out.split("\n\n  chat: ")
    assert re.sub(r" in [\d.]+ s\n", "\n", head + "\n") == re.sub(r" in [\d.]+ s\n", "\n", plain.out)
    assert "relax a limit by one step" in section
    assert "explanation" not in json.loads(Path("out.json").read_text(encoding="utf-8"))


def test_an_interrupted_explanation_exits_with_130(
    fleetplan: Command, explanation: Explanation, monkeypatch: pytest.MonkeyPatch
) -> None:
    partly = explanation.model_copy(update={"not_tried": ("allow 1 more l40s in total",)})
    monkeypatch.setattr("planner.explanations.explain.explain", lambda *_: partly)
    ran = fleetplan("explain", "plan.json")
    assert ran.code == 130
    assert "interrupted; not tried: allow 1 more l40s in total" in ran.out


def test_a_saved_plan_that_does_not_hold_is_refused(fleetplan: Command, plan: Plan) -> None:
    cheaper = plan.model_copy(update={"cost_usd_per_month": plan.cost_usd_per_month - 100})
    Path("plan.json").write_text(cheaper.to_json(), encoding="utf-8")
    ran = fleetplan("explain", "plan.json")
    assert (ran.code, ran.out) == (2, "")
    assert "this plan fails its check" in ran.err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("explain", "tight.yaml", "--workload", "chatt"), "there is no workload 'chatt'. Did you mean 'chat'?"),
        (("explain", "nothing.json"), "cannot be read"),
        (("plan", "tight.yaml", "--explain", "--format", "json"), "--explain: works with text output only"),
    ],
)
def test_bad_use_exits_with_2(arguments: tuple[str, ...], words: str, fleetplan: Command) -> None:
    ran = fleetplan(*arguments)
    assert (ran.code, ran.out) == (2, "")
    assert words in ran.err
