"""The checker refuses a plan when any one thing in it is not so, and says which."""

from __future__ import annotations

import ast
import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import planner
from planner.plan.saved import plan_from_json
from tests.support.rows import for_each
from tests.support.tampering import (
    Json,
    holder,
    is_a_remark,
    is_refused,
    of_each_kind,
    passes_unlisted,
    refused_with,
    rehashed,
    with_value,
)

DEMAND = """\
workloads:
  - name: chat
    models: [llama-3.1-8b, {name: qwen2.5-7b, quality_loss: 1%}]
    forecast: {requests_per_day: 2M, growth_per_month: 5%}
    tokens: {input: {p50: 900, p95: 4000}, output: {p50: 180, p95: 600}}
    quality: {max_loss: 2%}
    spot: {critical_share: 50%}
  - name: search
    models: [llama-3.1-8b]
    forecast: {requests_per_day: 900k, shape: consumer}
    tokens: {input: 1000, output: 200}
    quality: {max_loss: 2%}
    api: forbidden
menu:
  gpus: [l40s, a10g]
  quantizations: [fp8, fp16]
  purchase: [on-demand, spot, reserved-1y]
  apis: [openai/gpt-4o-mini]
baseline: openai/gpt-4o
policy: {max_gpus: {l40s: 400}, budget_usd_per_month: 900k, engineers: {count: 1, usd_per_year: 120k}}
"""


@pytest.fixture(scope="module")
def good() -> Json:
    plan = planner.plan_fleet(planner.case_from_text(DEMAND)).as_json()
    # What the tampering below needs is there: every way to buy, spot replicas, and API flows of `chat`.
    assert {line["purchase"] for line in plan["fleet"]} == {"on-demand", "spot", "reserved-1y"}
    assert plan["workloads"][0]["api_flows"]
    return plan


@pytest.fixture(scope="module")
def bought_from_an_api() -> Json:
    """So few requests that no GPU is worth its price."""
    few = DEMAND.replace("2M", "200").replace("900k, shape", "90, shape").replace("api: forbidden", "api: allowed")
    plan = planner.plan_fleet(planner.case_from_text(few)).as_json()
    assert not plan["fleet"]
    return plan


def chat(plan: Json) -> Json:
    return plan["workloads"][0]


def hosted(plan: Json) -> Json:
    """What serves `chat`, hour by hour."""
    return plan["pools"][0]["deployments"][0]


def deployment(plan: Json) -> Json:
    return hosted(plan)["deployment"]


def line_of(plan: Json, purchase: str) -> Json:
    return next(line for line in plan["fleet"] if line["purchase"] == purchase)


def peak(counts: list[int]) -> int:
    return counts.index(max(counts))


# -- one lie each: a function that changes the plan, and a part of what must be said ----------------------------------


def fewer_replicas(plan: Json) -> None:
    replicas, firm = hosted(plan)["replicas_by_slot"], hosted(plan)["firm_replicas_by_slot"]
    t = peak(replicas)
    replicas[t] -= 1
    firm[t] = min(firm[t], replicas[t])


def fewer_firm_replicas(plan: Json) -> None:
    t = peak(hosted(plan)["replicas_by_slot"])
    hosted(plan)["firm_replicas_by_slot"][t] = 0


def more_firm_than_replicas(plan: Json) -> None:
    hosted(plan)["firm_replicas_by_slot"][0] = hosted(plan)["replicas_by_slot"][0] + 1


def one_instance_less(plan: Json) -> None:
    counts = line_of(plan, "on-demand")["instances_by_slot"]
    counts[peak(counts)] -= 1


def firm_on_spot(plan: Json) -> None:
    """As many instances, but all of what was on demand is spot: a reclaim takes too much."""
    line_of(plan, "on-demand")["purchase"] = "spot"


def half_an_instance(plan: Json) -> None:
    line_of(plan, "on-demand")["instances_by_slot"][0] += 0.5


def negative_instances(plan: Json) -> None:
    line_of(plan, "spot")["instances_by_slot"][0] = -1


def reserved_varies(plan: Json) -> None:
    line_of(plan, "reserved-1y")["instances_by_slot"][0] += 1


def purchase_not_on_the_menu(plan: Json) -> None:
    line_of(plan, "reserved-1y")["purchase"] = "reserved-3y"


def less_to_the_api(plan: Json) -> None:
    flows = chat(plan)["api_flows"]
    flows[:] = flows[1:]


def more_than_the_demand_to_the_api(plan: Json) -> None:
    flow = chat(plan)["api_flows"][0]["requests_per_s"]
    flow[:] = [rate * 1e3 + 1 for rate in flow]


def api_not_on_the_menu(plan: Json) -> None:
    chat(plan)["api"] = "openai/gpt-4o"


def api_forbidden(plan: Json) -> None:
    plan["case"]["workloads"][0]["api_allowed"] = False
    rehashed(plan)


def cheaper_case_price(plan: Json) -> None:
    offer = line_of(plan, "on-demand")["offer"]
    plan["case"]["offers"][offer]["prices"]["on_demand"]["usd_per_h"] /= 2
    rehashed(plan)


def lower_cost_everywhere(plan: Json) -> None:
    """Parts and workloads add up to the wrong total."""
    for part in plan["costs"]:
        plan["costs"][part] *= 0.5
    for workload in plan["workloads"]:
        workload["cost_usd_per_month"] *= 0.5
    plan["cost_usd_per_month"] *= 0.5
    plan["bound_usd_per_month"] *= 0.5


def part_moved_to_another(plan: Json) -> None:
    plan["costs"]["on_demand_usd_per_month"] -= 50
    plan["costs"]["spot_usd_per_month"] += 50


def costs_moved_between_workloads(plan: Json) -> None:
    chat(plan)["cost_usd_per_month"] -= 50
    plan["workloads"][1]["cost_usd_per_month"] += 50


def engineers_forgotten(plan: Json) -> None:
    paid = plan["costs"]["engineers_usd_per_month"]
    plan["costs"]["engineers_usd_per_month"] = 0.0
    plan["cost_usd_per_month"] -= paid


def bound_above_cost(plan: Json) -> None:
    plan["bound_usd_per_month"] = plan["cost_usd_per_month"] * 1.01


def negative_bound(plan: Json) -> None:
    plan["bound_usd_per_month"] = -100.0


def optimal_with_a_gap(plan: Json) -> None:
    plan["bound_usd_per_month"] = 0.9 * plan["cost_usd_per_month"]
    plan["gap_frac"] = 0.1
    plan["status"] = "optimal"


def model_that_was_not_asked_for(plan: Json) -> None:
    models = plan["case"]["models"]
    models["gemma-2-9b"] = models["llama-3.1-8b"]
    deployment(plan)["model"] = "gemma-2-9b"
    rehashed(plan)


def quality_forbids_it(plan: Json) -> None:
    plan["case"]["workloads"][0]["max_quality_loss_frac"] = 0.001
    for choice in plan["case"]["workloads"][0]["models"]:
        choice["quality_loss_frac"] += 0.01
    rehashed(plan)


def gpu_lacks_the_precision(plan: Json) -> None:
    scheme = plan["case"]["quantizations"][deployment(plan)["quantization"]]
    scheme["needs"] = "fp4"
    rehashed(plan)


def replicas_that_do_not_pack(plan: Json) -> None:
    deployment(plan)["gpus_per_replica"] = 3


def stricter_ttft(plan: Json) -> None:
    plan["case"]["workloads"][0]["ttft"]["seconds"] = 0.001
    rehashed(plan)


def stricter_tpot(plan: Json) -> None:
    plan["case"]["workloads"][0]["tpot"]["seconds"] /= 2
    rehashed(plan)


def budget_below_cost(plan: Json) -> None:
    plan["case"]["limits"]["budget_usd_per_month"] = plan["cost_usd_per_month"] * 0.5
    rehashed(plan)


def fewer_gpus_allowed(plan: Json) -> None:
    plan["case"]["limits"]["max_gpus"] = {line["gpu"]: 1 for line in plan["fleet"]}
    rehashed(plan)


def fewer_instances_allowed(plan: Json) -> None:
    plan["case"]["limits"]["max_instances"] = {line["offer"]: 0 for line in plan["fleet"]}
    rehashed(plan)


def more_replicas_required(plan: Json) -> None:
    plan["case"]["limits"]["min_replicas"] = 1000
    rehashed(plan)


def more_demand(plan: Json) -> None:
    workload = plan["case"]["workloads"][0]
    workload["weekday_rps"] = [2 * rate for rate in workload["weekday_rps"]]
    rehashed(plan)


def case_changed_without_its_hash(plan: Json) -> None:
    plan["case"]["workloads"][0]["rate_cv"] = 0.0


def a_month_less(plan: Json) -> None:
    plan["slots"] = [slot for slot in plan["slots"] if slot["month"] < 2]


def shorter_slots(plan: Json) -> None:
    for slot in plan["slots"]:
        slot["hours_per_month"] *= 0.5


def peak_hour_relabelled(plan: Json) -> None:
    plan["slots"][12]["hour"] = 3


def workload_left_out(plan: Json) -> None:
    plan["workloads"] = plan["workloads"][:1]


def workload_swapped(plan: Json) -> None:
    plan["workloads"].reverse()


def nothing_serves_it(plan: Json) -> None:
    plan["pools"][1]["deployments"] = []


def gpu_cost_moved_to_the_api(plan: Json) -> None:
    chat(plan)["gpu_cost_usd_per_month"] -= 50
    chat(plan)["api_cost_usd_per_month"] += 50


def offer_that_is_unknown(plan: Json) -> None:
    line_of(plan, "spot")["offer"] = "nobody/nothing@nowhere"


def way_to_buy_that_is_not_sold(plan: Json) -> None:
    del plan["case"]["offers"][line_of(plan, "spot")["offer"]]["prices"]["spot"]
    rehashed(plan)


def offer_that_nothing_runs_on(plan: Json) -> None:
    line = line_of(plan, "on-demand")
    other = next(key for key in plan["case"]["offers"] if key != line["offer"])
    plan["fleet"].append(line | {"offer": other})


def line_that_is_there_twice(plan: Json) -> None:
    plan["fleet"].append(line_of(plan, "spot"))


def instances_of_too_few_slots(plan: Json) -> None:
    line_of(plan, "spot")["instances_by_slot"].pop()


def replicas_of_too_few_slots(plan: Json) -> None:
    hosted(plan)["replicas_by_slot"].pop()


def api_that_is_unknown(plan: Json) -> None:
    chat(plan)["api"] = "nobody/nothing"


def api_without_a_name(plan: Json) -> None:
    del chat(plan)["api"]


def api_without_requests(plan: Json) -> None:
    chat(plan)["api_flows"] = []


def flow_that_is_there_twice(plan: Json) -> None:
    flows = chat(plan)["api_flows"]
    flows.append(flows[0])


def flow_of_another_length(plan: Json) -> None:
    chat(plan)["api_flows"][0]["requests_per_s"].pop()


def replicas_of_no_gpus(plan: Json) -> None:
    deployment(plan)["gpus_per_replica"] = 0


def deployment_without_replicas(plan: Json) -> None:
    for what in ("replicas_by_slot", "firm_replicas_by_slot"):
        hosted(plan)[what] = [0] * len(plan["slots"])


def gpu_without_figures(plan: Json) -> None:
    plan["case"]["gpus"] = {}
    rehashed(plan)


def smaller_replicas_allowed(plan: Json) -> None:
    plan["case"]["limits"]["max_gpus_per_replica"] = 0
    rehashed(plan)


def shorter_context(plan: Json) -> None:
    plan["case"]["models"][deployment(plan)["model"]]["max_context_tokens"] = 100
    rehashed(plan)


def baseline_that_is_unknown(plan: Json) -> None:
    plan["case"]["baseline"] = "nobody/nothing"
    rehashed(plan)


def commitment_forgotten(plan: Json) -> None:
    plan["commitments"] = []


def commitment_that_is_there_twice(plan: Json) -> None:
    plan["commitments"] *= 2


def optimal_called_feasible(plan: Json) -> None:
    plan["status"] = "feasible"


def optimal_called_within_gap(plan: Json) -> None:
    plan["status"] = "within-gap"


def option_of(plan: Json, chosen: bool) -> Json:
    return next(o for o in plan["options"] if o["workload"] == "chat" and o["chosen"] is chosen)


def slower_replicas_below_the_bound(plan: Json) -> None:
    plan["if_throughput_is_off"]["high_usd_per_month"] = 0.9 * plan["bound_usd_per_month"]


def faster_replicas_for_less_than_nothing(plan: Json) -> None:
    plan["if_throughput_is_off"]["low_usd_per_month"] = -1.0


def no_option_chosen(plan: Json) -> None:
    option_of(plan, chosen=True)["chosen"] = False


def two_options_chosen(plan: Json) -> None:
    option_of(plan, chosen=False)["chosen"] = True


def another_option_chosen(plan: Json) -> None:
    used, other = option_of(plan, chosen=True), option_of(plan, chosen=False)
    used["chosen"], other["chosen"] = False, True


def option_of_a_stranger(plan: Json) -> None:
    plan["options"].append(option_of(plan, chosen=True) | {"workload": "stranger"})


def assumption_hidden(plan: Json) -> None:
    plan["assumptions"].pop()


def one_key_of_two_pools(plan: Json) -> None:
    """Whatever goes by the key of a pool would be that of the first one for both."""
    plan["pools"][1]["key"] = plan["workloads"][1]["pool"] = plan["pools"][0]["key"]


def line_of_no_instances(plan: Json) -> None:
    plan["fleet"].append(line_of(plan, "on-demand") | {"instances_by_slot": [0] * len(plan["slots"])})


LIES: list[tuple[Callable[[Json], None], str]] = [
    (one_key_of_two_pools, "chat: a key of several pools"),
    (line_of_no_instances, "no instances are bought in this way"),
    (fewer_replicas, "replicas where"),
    (fewer_firm_replicas, "0 firm replicas, but the critical load needs"),
    (more_firm_than_replicas, "firm replicas"),
    (one_instance_less, "in use"),
    (firm_on_spot, "safe from a spot reclaim"),
    (half_an_instance, "instances_by_slot.0: Input should be a valid integer"),
    (negative_instances, "less than no instances"),
    (reserved_varies, "reserved instances must be held all the time"),
    (purchase_not_on_the_menu, "reserved-3y is not on the menu"),
    (less_to_the_api, "cost_usd_per_month is"),
    (more_than_the_demand_to_the_api, "more or less than the demand is sent to the API"),
    (api_not_on_the_menu, "requests go to the API openai/gpt-4o, which is not on the menu"),
    (api_forbidden, "chat: requests go to an API although that is forbidden"),
    (cheaper_case_price, "on-demand].usd_per_h is"),
    (lower_cost_everywhere, "cost_usd_per_month is"),
    (part_moved_to_another, "costs.on_demand_usd_per_month is"),
    (costs_moved_between_workloads, "workloads[search].cost_usd_per_month is"),
    (engineers_forgotten, "costs.engineers_usd_per_month is 10000, not 0"),
    (bound_above_cost, "the bound"),
    (negative_bound, "the bound"),
    (optimal_with_a_gap, "it is called optimal with a gap of 10.000%"),
    (model_that_was_not_asked_for, "chat: gemma-2-9b is not one of the models of chat"),
    (quality_forbids_it, "chat: quality loss"),
    (gpu_lacks_the_precision, "has no native fp4"),
    (replicas_that_do_not_pack, "replicas of 3 GPUs do not pack"),
    (stricter_ttft, "chat: TTFT"),
    (stricter_tpot, "seconds_per_request[0] is"),
    (budget_below_cost, "the budget is"),
    (fewer_gpus_allowed, "1 allowed"),
    (fewer_instances_allowed, "more than 0 x "),
    (more_replicas_required, "1000 are needed"),
    (more_demand, "replicas where"),
    (case_changed_without_its_hash, "its hash differs"),
    (a_month_less, "the slots are not a weekday and a weekend day of each month"),
    (shorter_slots, "slots[month 1 weekday 00h].hours_per_month is"),
    (peak_hour_relabelled, "the slots are not a weekday and a weekend day of each month"),
    (workload_left_out, "does not serve the workloads of the case"),
    (workload_swapped, "does not serve the workloads of the case"),
    (nothing_serves_it, "search: slot 0: nothing serves the requests"),
    (gpu_cost_moved_to_the_api, "workloads[chat].gpu_cost_usd_per_month is"),
    (offer_that_is_unknown, "the case has no offer nobody/nothing@nowhere"),
    (way_to_buy_that_is_not_sold, "is not sold as spot"),
    (offer_that_nothing_runs_on, "nothing runs on"),
    (line_that_is_there_twice, "spot: bought in 2 lines"),
    (instances_of_too_few_slots, "143 numbers of instances for 144 slots"),
    (replicas_of_too_few_slots, "chat: replicas_by_slot has 143 entries for 144 slots"),
    (api_that_is_unknown, "chat: the case has no API nobody/nothing"),
    (api_without_a_name, "chat: requests go to an API that is not named"),
    (api_without_requests, "chat: no requests go to the API openai/gpt-4o-mini, which it names"),
    (flow_that_is_there_twice, "chat: the slots of its API flows"),
    (flow_of_another_length, "chat: its API flows do not have one rate for each request length"),
    (replicas_of_no_gpus, "chat: a replica of 0 GPUs"),
    (deployment_without_replicas, "chat: it has a deployment without replicas"),
    (gpu_without_figures, "chat: the case has no figures of the GPU l40s"),
    (smaller_replicas_allowed, "chat: replicas of 1 GPUs, 0 allowed"),
    (shorter_context, "are longer than the 100 tokens that it admits"),
    (baseline_that_is_unknown, "the case has no API nobody/nothing, its baseline"),
    (commitment_forgotten, "commitments has 1 entries, not 0; but with aws/g6e.xlarge@us-east-1 reserved-1y"),
    (commitment_that_is_there_twice, "commitments has 1 entries, not 2"),
    (optimal_called_feasible, "it is called feasible, but its bound proves it optimal"),
    (optimal_called_within_gap, "it is called within-gap, but its bound proves it optimal"),
    (slower_replicas_below_the_bound, "slower replicas cost"),
    (faster_replicas_for_less_than_nothing, "faster replicas cost -1"),
    (no_option_chosen, "but none is marked"),
    (two_options_chosen, "chat: the option chosen is"),
    (another_option_chosen, "chat: the option chosen is"),
    (option_of_a_stranger, "an option is chosen for stranger"),
    (assumption_hidden, "assumptions has 21 entries, not 20"),
]
# -- any leaf of the JSON ---------------------------------------------------------------------------------------------

LEAVES_OF_A_KIND = 1


def test_the_untouched_plan_passes(good: Json, bought_from_an_api: Json) -> None:
    assert planner.check_plan(good) == []
    assert planner.check_plan(json.loads(plan_from_json(json.dumps(good)).to_json())) == []
    assert planner.check_plan(bought_from_an_api) == []


@for_each(("lie", "words"), LIES)
def test_each_lie_is_refused_in_words(lie: Callable[[Json], None], words: str, good: Json) -> None:
    plan = copy.deepcopy(good)
    lie(plan)
    assert plan != good
    refused_with(words, plan)


@pytest.mark.parametrize("which", ["good", "bought_from_an_api"])
def test_no_leaf_can_be_changed_unseen(which: str, request: pytest.FixtureRequest) -> None:
    plan: Json = request.getfixturevalue(which)
    assert passes_unlisted(plan, LEAVES_OF_A_KIND) == set()


@for_each("junk", [None, "x", -1, True, 1e308, float("nan"), [], {}, {1}])
def test_junk_is_refused_and_never_raises(junk: Any, good: Json) -> None:
    assert planner.check_plan(junk)
    for place in of_each_kind({k: v for k, v in good.items() if k != "case"}, 1):
        before = holder(good, place)[place[-1]]
        if before != junk and not is_a_remark(place):
            assert is_refused(with_value(good, place, junk)), place


def test_a_missing_key_is_refused(good: Json) -> None:
    for place in of_each_kind({k: v for k, v in good.items() if k not in ("case", "options")}, 1):
        plan = with_value(good, place, None)
        absent_is_the_same = holder(good, place)[place[-1]] is None
        if isinstance(place[-1], str) and not is_a_remark(place) and not absent_is_the_same:
            del holder(plan, place)[place[-1]]
            assert is_refused(plan), place


def test_a_baseline_that_costs_nothing_saves_nothing(good: Json) -> None:
    plan = copy.deepcopy(good)
    for tier in plan["case"]["apis"]["openai/gpt-4o"]["tiers"]:
        tier |= {"input_usd_per_1m": 0.0, "cached_input_usd_per_1m": 0.0, "output_usd_per_1m": 0.0}
    rehashed(plan)
    assert planner.check_plan(plan)
    free = {"cost_usd_per_month": 0.0, "usd_per_1m_tokens": 0.0, "savings_frac": 0.0}
    plan["baseline"] |= free | {"savings_usd_per_month": -plan["cost_usd_per_month"]}
    for bill in plan["baseline"]["by_workload"]:
        bill["cost_usd_per_month"] = 0.0
    assert planner.check_plan(plan) == []


def test_the_checker_shares_no_code_with_what_it_checks() -> None:
    allowed = {"checker", "case", "catalog", "plan", "performance", "candidates.replica", "candidates.traffic"}
    allowed |= {
        "candidates.enumerate",
        "candidates.rejection",
        "io.validation",
        "levers",
    }  # of levers, the names of steps
    for file in sorted(Path(planner.__file__).parent.glob("checker/*.py")):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            for package, *rest in (name.split(".") for name in names):
                assert package not in ("problems", "solvers")
                known = rest[:1] and (rest[0] in allowed or ".".join(rest) in allowed)
                assert package != "planner" or known, f"{file.name} imports planner.{'.'.join(rest)}"


def test_more_than_needed_is_no_lie(good: Json) -> None:
    """Spare on-demand capacity that is paid for is a dearer plan, not a broken one.

    Only its money is refused, and the gap to the bound, which follows from it.
    """
    plan = copy.deepcopy(good)
    line_of(plan, "on-demand")["instances_by_slot"][0] += 1
    problems = planner.check_plan(plan)
    assert problems
    money = ("usd_per_", "savings_frac", "starts_per_month", "gap_frac", "it is called optimal with a gap", "power.")
    assert all(any(words in problem for words in money) for problem in problems), problems


# -- reading a saved plan ---------------------------------------------------------------------------------------------


def test_a_saved_plan_is_read_back(good: Json, tmp_path: Path) -> None:
    file = tmp_path / "plan.json"
    file.write_text(json.dumps(good), encoding="utf-8")
    assert planner.read_plan(file).as_json() == good


@for_each(
    ("text", "words"),
    [
        ("", "not a plan"),
        ("[]", "expected 'fleetplan-plan/6'"),
        ('{"format": "fleetplan-plan/99"}', "got 'fleetp"),
        ('{"format": "fleetplan-plan/6"}', "Plan it again"),
        ("[" * 100_000, "not a plan"),
        ('{"format": NaN}', "not a plan"),
        ("workloads: []", "not a plan"),
    ],
)
def test_what_is_no_plan_is_refused(text: str, words: str, tmp_path: Path) -> None:
    file = tmp_path / "plan.json"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(planner.InputError, match=r"plan\.json: ") as refused:
        planner.read_plan(file)
    assert words in str(refused.value)


def test_a_file_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    (tmp_path / "binary.json").write_bytes(bytes(range(256)))
    for file in (tmp_path, tmp_path / "missing.json", tmp_path / "binary.json"):
        with pytest.raises(planner.InputError, match="cannot be read"):
            planner.read_plan(file)


@for_each("key", ["status", "fleet", "workloads", "case", "case_hash", "slots"])
def test_a_plan_without_a_part_is_refused(key: str, good: Json) -> None:
    plan = {k: v for k, v in good.items() if k != key}
    with pytest.raises(planner.InputError, match=key):
        plan_from_json(json.dumps(plan))


def test_a_plan_with_an_unknown_status_or_key_is_refused(good: Json) -> None:
    with pytest.raises(planner.InputError, match="status"):
        plan_from_json(json.dumps(good | {"status": "perfect"}))
    with pytest.raises(planner.InputError, match="bonus"):
        plan_from_json(json.dumps(good | {"bonus": 1}))
