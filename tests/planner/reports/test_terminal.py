"""What a user sees: the headline first, every figure of the plan, and nothing a name can smuggle in."""

from __future__ import annotations

import re

import pytest

import planner
from planner.io.formatting import counted, percent, span, tokens, usd
from planner.judgement.concerns import concerns_of
from planner.plan.plan import Binding, Plan
from planner.plan.serve_commands import serve_commands
from planner.reports.progress import closed_frac, describe
from planner.reports.tables.plan import spot_replicas
from planner.reports.text import sparkline
from solvers.search.fleet_solution import Progress
from tests.support.lever_plans import lever_plan
from tests.support.report_plans import big_plan
from tests.support.rows import for_each
from tests.support.shared_plans import example_plan
from tests.support.shown import first_screen, plan_text

HOSTILE = "\x1b[31m[bold]x[/bold]<script>alert(1)</script>=cmd()"

ALL_SHED = """\
workloads:
  - name: w0
    models: [qwen3-14b]
    forecast: {requests_per_day: 15k, shape: flat}
    tokens: {input: 1635, output: 215}
    quality: {max_loss: 1%}
    shed: {priority: low}
    api: forbidden
menu: {gpus: [h100], quantizations: [fp8]}
baseline: openai/gpt-4o
"""
"""the only quantization loses more than is allowed"""


def small_plan(name: str = "chat", extra: str = "") -> Plan:
    quoted = '"' + name.replace("\x1b", "\\e") + '"'
    return planner.plan_fleet(
        planner.case_from_text(
            f"workloads:\n  - name: {quoted}\n    models: [llama-3.1-8b]\n    forecast: {{requests_per_day: 300k}}\n"
            f"menu: {{gpus: [l40s, l4]}}\nbaseline: openai/gpt-4o-mini\n{extra}"
        )
    )


@pytest.fixture(scope="module")
def plan() -> Plan:
    return small_plan()


def test_the_answer_comes_first(plan: Plan) -> None:
    lines = plan_text(plan, seconds=1.234).splitlines()
    assert "proved optimal in 1.2 s" in lines[0]
    assert lines[1].split()[0] == usd(plan.cost_usd_per_month)
    assert f"saves {percent(plan.baseline.savings_frac)}" in lines[1]
    assert usd(plan.baseline.cost_usd_per_month) in lines[1]


SCREEN_LINES = 45


@for_each("name", ["together", "mixed", "waiting", "shedding", "quickstart", "many"])
def test_the_first_screen_is_one_screen(name: str) -> None:
    """The answer, what to sign, what moves it, workloads and where to read on; of many workloads and concerns some."""
    several = {"quickstart": lambda: example_plan("examples/quickstart.yaml"), "many": lambda: big_plan(100, 3)}
    plan = several[name]() if name in several else lever_plan(name)
    screen = first_screen(plan)
    assert len(screen.splitlines()) <= SCREEN_LINES
    for words in ("/ month", "o sign", "What could change the cost", "workload ", "read on: --verbose"):
        assert words in screen, words
    assert "not used, and why" not in screen and "options for" not in screen
    assert all(c.sentence.split()[0] in screen for c in concerns_of(plan)[:3])
    assert "(--verbose)" in screen or name != "many"
    assert "(--verbose)" not in plan_text(plan, verbose=True)


def noted(*lines: str, forecast: str = "") -> str:
    """What the demand and the comparison rest on."""
    below = "".join(f"    {line}\n" for line in lines)
    text = (
        "workloads:\n  - name: code\n    models: [llama-3.1-8b]\n"
        f"    forecast: {{requests_per_day: 100k{forecast}}}\n{below}"
        "menu: {gpus: [l40s, h100], quantizations: [fp8], purchase: [on-demand]}\nbaseline: openai/gpt-4o-mini\n"
    )
    return (
        plan_text(planner.plan_fleet(planner.case_from_text(text)))
        .partition("comparison rest on")[2]
        .partition("assumed, since")[0]
    )


def test_means_that_are_assumed_are_said() -> None:
    shapes = ("{p50: 1020, p95: 4083}", "{p50: 1020, p95: 4083, mean: 1155}")
    guessed, known = (noted(f"tokens: {{input: {shape}, output: 40}}") for shape in shapes)
    assert "code: mean lengths are assumed from p50 and p95 alone (prompts 1,455 tokens); add 'mean'" in guessed
    assert "mean lengths" not in known


def test_bursts_that_are_assumed_and_decide_are_said() -> None:
    tight, lengths = "slo: {ttft_p95: 1s}", "tokens: {input: 1469, output: 28}"
    assert "burstiness" not in noted(lengths)
    assert "code: burstiness 2 is assumed, and it decides whether its tight TTFT is kept" in noted(lengths, tight)
    assert "code: burstiness 23 is assumed for its kind of traffic" in noted(lengths, tight, "kind: completion")
    assert "burstiness" not in noted(lengths, tight, forecast=", burstiness: 6")
    harsh = noted(lengths, tight, forecast=", burstiness: 89")
    assert "code: burstiness 89 is taken to apply to gaps inside a minute" in harsh


def test_a_workload_that_is_wholly_shed_has_no_cost_per_token() -> None:
    plan = planner.plan_fleet(planner.case_from_text(ALL_SHED))
    assert plan.workloads[0].tokens_per_month == 0
    row = next(line for line in plan_text(plan).splitlines() if line.strip().startswith("w0"))
    assert row.split()[-3:] == ["-", "list", "price"]


def test_one_option_is_ticked_and_every_default_is_listed(plan: Plan) -> None:
    text = plan_text(plan, verbose=True)
    assert text.count("✓") == 1
    assert all(f"{a.key.removeprefix('workloads.chat.')} " in text and a.why in text for a in plan.assumptions)
    assert all(o.offer in text for o in plan.options if o.offer)


def test_a_dearer_plan_does_not_claim_a_saving() -> None:
    plan = small_plan(extra="policy: {engineers: {count: 3, usd_per_year: 200k}}\n").as_json()
    plan["baseline"]["savings_usd_per_month"], plan["baseline"]["savings_frac"] = -120.0, -0.25
    assert "costs 25% more ($120 / month)" in plan_text(Plan.model_validate_json(__import__("json").dumps(plan)))


@pytest.mark.parametrize("status", ["interrupted", "feasible"])
def test_an_unproved_plan_says_so(plan: Plan, status: str) -> None:
    first = plan_text(plan.model_copy(update={"status": status, "gap_frac": 0.031})).splitlines()[0]
    assert "3.10%" in first
    assert "optimal" not in first.replace("optimum", "")


def test_names_cannot_reach_the_terminal() -> None:
    text = plan_text(small_plan(HOSTILE), verbose=True)
    assert "\x1b" not in text
    assert re.search(r"[\x00-\x08\x0b-\x1f\x7f]", text) is None
    assert "[bold]" in text


# -- what plans with several deployments, workloads, caches... say ----------------------------------------------------


def line_with(words: str, text: str) -> str:
    return next(line for line in text.splitlines() if words in line)


def test_a_mix_shows_each_deployment_and_its_share() -> None:
    plan = lever_plan("mixed")
    text = plan_text(plan)
    first, second = plan.pools[0].deployments
    assert f"1 x {first.deployment.gpu}, 9" in line_with("documents ", text.split("workload  ")[1])
    assert second.deployment.basis in line_with(f"+ {second.deployment.model}", text)
    assert "documents on 1 x l4" in text
    assert "documents on 2 x l4" in text
    assert text.count("✓") == 1
    assert "✓ 2 deployments" in text
    shares = re.findall(r"([\d.]+)% of requests", text)
    assert sum(map(float, shares)) == pytest.approx(100, abs=1)


def test_a_shared_pool_shows_what_each_workload_pays() -> None:
    plan = lever_plan("together")
    text = plan_text(plan)
    assert "chat + tuned" in text
    rows = [line_with(f"    {w.name} ", text).split() for w in plan.workloads]
    for row, w in zip(rows, plan.workloads, strict=True):
        assert f"{w.cost_usd_per_month:,.0f}" in row
    assert "prefix+semantic, 30% found" in text
    assert f"{plan.costs.caching_usd_per_month:,.0f}" in line_with("caches ", text).split()
    assert "shared with tuned" in text
    starting = sum(line.starting_usd_per_month for line in plan.fleet)
    assert f"{usd(starting)} / month of the cost pays for instances while they start" in text


def test_work_that_waits_says_how_much_and_how_long() -> None:
    text = plan_text(lever_plan("waiting"))
    assert re.search(r"night: \d+% of its requests wait, up to [12] h", text)
    assert "may wait" in text
    assert re.search(r"limits reached: max_gpus 1 \(l4, \d+ h a month\)", text)


def test_what_is_turned_away_has_a_line_of_its_own() -> None:
    plan = lever_plan("shedding")
    plain, coloured = plan_text(plan), plan_text(plan, color=True)
    line = line_with("SHED", plain)
    assert f"{percent(plan.workloads[0].shed_share_frac)} of chat" in line
    assert usd(plan.penalty_usd_per_month) in line
    assert f"\x1b[31m{line}\x1b[0m" in coloured
    assert coloured.replace(f"\x1b[31m{line}\x1b[0m", line) == plain
    assert "SHED" not in plan_text(lever_plan("mixed"), color=True)


def test_a_payment_up_front_is_cash_and_is_not_owed_again() -> None:
    plan = lever_plan("shedding")
    (c,) = plan.commitments
    line = line_with("reserved-1y-upfront: ", plan_text(plan))
    assert f"{usd(c.upfront_usd)} in cash at signing, {usd(c.beyond_horizon_usd)} is still owed" in line


def test_the_last_line_says_what_is_proved() -> None:
    at_most = "serve each pool with at most 2 deployments of one model variant"
    several, one = at_most, "serve each pool with one deployment"
    for name, words in (("mixed", several), ("waiting", one)):
        assert words in line_with("proved against", plan_text(lever_plan(name)))
    assert "2 of several that share replicas" in lever_plan("together").proof.covers
    assert "cost and penalties" in lever_plan("shedding").proof.covers


def test_a_limit_of_many_pools_is_said_once(plan: Plan) -> None:
    held = tuple(Binding(limit="min_replicas", name=f"w{k}", value=2, hours_per_month=10.0 * k) for k in range(5))
    held += (Binding(limit="budget_usd_per_month", value=5000, hours_per_month=730.0),)
    text = plan_text(plan.model_copy(update={"binding": held}))
    said = "limits reached: min_replicas 2 (w0, w1, w2 and 2 more, up to 40 h a month); the budget of $5,000 a month"
    assert said in text


def test_equal_workloads_are_told_once() -> None:
    """Ten tenants with the same options and the same reasons against the others."""
    text = "workloads:\n" + "".join(
        f"  - {{name: t{k}, models: [llama-3.1-8b], forecast: {{requests_per_day: 100k}}, api: forbidden}}\n"
        for k in range(5)
    )
    plan = planner.plan_fleet(
        planner.case_from_text(text + "menu: {gpus: [l40s, t4], purchase: [on-demand]}\nbaseline: openai/gpt-4o-mini\n")
    )
    shown = plan_text(plan)
    assert shown.count("options for ") == 1
    assert "options for t0, t1, t2 and 2 more, each" in shown
    reasons = [line for line in shown.splitlines() if "weights do not fit" in line]
    assert len(reasons) == 1
    assert reasons[0].startswith("    t0, t1, t2 and 2 more: ")


def test_a_deployment_of_a_mix_is_not_said_to_be_unused() -> None:
    plan = lever_plan("mixed")
    used = {f"{d.deployment.model} {d.deployment.quantization} on {d.deployment.gpus_per_replica} x {d.deployment.gpu}"
            for d in plan.pools[0].deployments}  # fmt: skip
    assert len(used) == 2
    assert not used & {r.candidate for r in plan.rejected}


def test_spot_replicas_are_those_that_are_bought() -> None:
    plan = lever_plan("mixed")
    first = plan.pools[0].deployments[0]
    bought = [f for f in plan.fleet if f.purchase == "spot" and f.offer == first.deployment.offer]
    per_instance = plan.case.offers[first.deployment.offer].gpus // first.deployment.gpus_per_replica
    counts = [per_instance * sum(f.instances_by_slot[t] for f in bought) for t in range(len(plan.slots))]
    assert any(counts)
    assert spot_replicas(plan, first) == counts
    none = plan.model_copy(update={"fleet": tuple(f for f in plan.fleet if f.purchase != "spot")})
    assert not any(spot_replicas(none, first))


def test_the_verbose_report_has_commands_that_can_be_pasted() -> None:
    plan = lever_plan("mixed")
    lines = [line.strip() for line in plan_text(plan).splitlines()]
    assert all(" ".join([*c.environment, c.command]) in lines for c in serve_commands(plan))
    assert "vllm serve" not in first_screen(plan)


def test_spot_that_never_gets_dearer_is_no_risk() -> None:
    plan = lever_plan("together")
    assert "95th percentile" in plan_text(plan)
    steady = plan.model_copy(update={"spot_at_p95_usd_per_month": plan.cost_usd_per_month})
    assert "95th percentile" not in plan_text(steady)


@for_each(
    ("limit", "reached"),
    [("max_gpus: {l4: 0}", "max_gpus 0 (l4, 730 h a month)"),
     ("max_instances: {aws/g6.xlarge: 0}", "max_instances 0 (aws/g6.xlarge@us-east-1, 730 h a month)"),
     ("max_gpus: {h200: 7}", "max_gpus 7 (h200, 730 h a month)"),
     ("max_gpus: {h200: 8}", "")],
)  # fmt: skip
def test_a_quota_that_leaves_no_room_is_a_limit_reached(limit: str, reached: str) -> None:
    """Also of what the plan does not use: an h200 is sold eight at a time."""
    plan = planner.plan_fleet(planner.case_from_text(
        "workloads: [{name: chat, models: [llama-3.1-8b], forecast: {requests_per_day: 300k}, api: forbidden}]\n"
        "menu: {gpus: [l40s, l4, h200], quantizations: [fp8], purchase: [on-demand], max_deployments: 1}\n"
        f"baseline: openai/gpt-4o-mini\npolicy: {{{limit}, min_replicas: 1}}\n"
    ))  # fmt: skip
    told = [line for line in plan_text(plan).splitlines() if "limits reached" in line]
    assert [reached in line for line in told] == [True] if reached else not any("max_gpus" in line for line in told)


def test_the_budget_is_named_where_it_sheds() -> None:
    plan = lever_plan("shedding")
    limits = plan.case.limits
    assert "max_gpus 6 of l4 is reached" in line_with("SHED", plan_text(plan))
    tight = plan.case.limits.model_copy(update={"budget_usd_per_month": plan.cost_usd_per_month + 1})
    held = plan.model_copy(update={"case": plan.case.model_copy(update={"limits": tight}), "binding": ()})
    assert "has $1.00 left, and one more instance costs at least" in line_with("SHED", plan_text(held))
    reached = (Binding(limit="budget_usd_per_month", value=900, hours_per_month=730.0),)
    held = held.model_copy(update={"binding": reached})
    assert "the budget of" in (line := line_with("SHED", plan_text(held)))
    assert "is used up" in line
    wide = limits.model_copy(update={"budget_usd_per_month": 1e6})
    free = plan.model_copy(update={"case": plan.case.model_copy(update={"limits": wide}), "binding": ()})
    assert "budget" not in line_with("SHED", plan_text(free))


def test_small_formats() -> None:
    assert [usd(x) for x in (12345.6, 9.5, -20, 0)] == ["$12,346", "$9.50", "-$20", "$0.00"]
    assert [percent(x) for x in (0.5, 0.0042, 0.9999, 0.0001, 0, 1)] == ["50%", "0.4%", ">99.9%", "<0.1%", "0%", "100%"]
    assert [percent(x, 2) for x in (0.0312, 0.00001, 0)] == ["3.12%", "<0.01%", "0.00%"]
    assert [percent(x, 1) for x in (0.99999, 1, 0.9949)] == [">99.9%", "100.0%", "99.5%"]
    assert [counted(n, "row") for n in (0, 1, 1200)] == ["0 rows", "1 row", "1,200 rows"]
    assert [tokens(x) for x in (950, 12_300, 4.4e9)] == ["950", "12.3k", "4.4B"]
    assert (span([3, 3]), span([0, 7])) == ("3", "0-7")
    assert sparkline([0, 1, 2, 4]) == "▁▂▄█"


def test_progress_says_best_bound_and_gap() -> None:
    progress = Progress("solving", 2000.0, 1900.0)
    assert describe(progress) == "solving  best $2,000/month  bound $1,900  gap 5.00%"
    assert closed_frac(progress) == pytest.approx(0.95)
    assert closed_frac(Progress("pricing", None, 0.0)) == 0.0
