"""The checker on plans that use every lever: what they must keep is refused in words when it is not kept."""

from __future__ import annotations

import copy
from collections.abc import Callable

import pytest

import planner
from planner.case.case import case_from_json
from tests.support.lever_plans import DEMANDS, lever_plan
from tests.support.rows import for_each
from tests.support.tampering import Json, of_each_kind, passes_unlisted, refused_with, rehashed, with_value

LEAVES_OF_A_KIND = 1
Lie = tuple[str, Callable[[Json], None], str]


@pytest.fixture(params=DEMANDS)
def honest(request: pytest.FixtureRequest) -> Json:
    return lever_plan(request.param).as_json()


def workload(plan: Json, k: int = 0) -> Json:
    return plan["workloads"][k]


def asked(plan: Json, k: int = 0) -> Json:
    """A workload of the case."""
    return plan["case"]["workloads"][k]


def hosted(plan: Json, k: int = 0) -> Json:
    return plan["pools"][0]["deployments"][k]


def flow(plan: Json, what: str) -> list[float]:
    return workload(plan)[what][0]["requests_per_s"]


# -- what the plans below show, so that the lies have something to lie about ------------------------------------------


def test_every_lever_is_used() -> None:
    together, mixed, waiting, shedding = (lever_plan(name) for name in DEMANDS)
    assert together.pools[0].workloads == ("chat", "tuned")
    assert together.workloads[0].caching == "prefix+semantic"
    assert {line.purchase for line in together.fleet} == {"on-demand", "spot"}
    assert all(line.starting_usd_per_month for line in together.fleet)
    assert together.pools[0].deployments[0].deployment.spot_zones == 2
    assert len(mixed.pools[0].deployments) == 2
    assert any(None in d.deployment.seconds_per_request for d in mixed.pools[0].deployments)
    assert mixed.workloads[0].api_flows
    assert waiting.workloads[0].moves
    assert waiting.workloads[0].api_flows
    assert shedding.workloads[0].shed_flows
    assert shedding.commitments[0].upfront_usd
    assert shedding.binding


def test_plans_of_every_lever_pass(honest: Json) -> None:
    assert planner.check_plan(honest) == []


def test_no_leaf_can_be_changed_unseen(honest: Json) -> None:
    assert passes_unlisted(honest, LEAVES_OF_A_KIND) == set()


def test_a_case_that_makes_no_sense_never_raises() -> None:
    """Its hash is made to fit wherever it still is a case, so that the arithmetic meets it."""
    plan = lever_plan("waiting").as_json()
    for place in of_each_kind(plan["case"], 1):
        for junk in (0, -1, 1e300, []):
            case = with_value(plan["case"], place, junk)
            try:
                digest = case_from_json(case).hash()
            except ValueError:
                digest = plan["case_hash"]
            assert all(isinstance(p, str) for p in planner.check_plan(plan | {"case": case, "case_hash": digest}))


# -- workloads that share replicas ------------------------------------------------------------------------------------


def not_shareable(plan: Json) -> None:
    asked(plan)["sharing"] = False


def one_is_too_much_of_it(plan: Json) -> None:
    plan["case"]["tenancy"]["max_share_frac"] = 0.3


def too_many_adapters(plan: Json) -> None:
    asked(plan)["adapter_gb"] = 0.1
    plan["case"]["tenancy"]["adapters_per_replica"] = 1


def one_may_wait(plan: Json) -> None:
    asked(plan)["deadline_h"] = 3.0


def swings_that_go_together(plan: Json) -> None:
    plan["case"]["tenancy"]["correlation"] = 1.0


def one_is_tighter(plan: Json) -> None:
    asked(plan, 1)["tpot"]["seconds"] *= 0.9


def one_needs_a_faster_start(plan: Json) -> None:
    asked(plan, 1)["ttft"]["seconds"] = 0.01


def one_overflows(plan: Json) -> None:
    workload(plan)["shed_flows"] = [{"slot": 0, "requests_per_s": [0.01]}]
    asked(plan)["shed_usd_per_request"] = 1.0


def all_is_critical(plan: Json) -> None:
    asked(plan, 1)["critical_share_frac"] = 1.0


def too_slow_for_spot(plan: Json) -> None:
    plan["case"]["start"]["spot_within_s"] = 1.0


def fewer_zones(plan: Json) -> None:
    plan["case"]["offers"][hosted(plan)["deployment"]["offer"]]["spot_zones"] = 1


def data_that_must_stay_elsewhere(plan: Json) -> None:
    asked(plan, 1)["regions"] = ["eu-west-1"]


def provider_that_may_not(plan: Json) -> None:
    asked(plan, 1)["providers"] = ["gcp"]


def pool_that_serves_half(plan: Json) -> None:
    plan["pools"][0]["workloads"].pop()


def pool_in_another_order(plan: Json) -> None:
    plan["pools"][0]["workloads"].reverse()


def another_share(plan: Json) -> None:
    workload(plan)["gpu_cost_usd_per_month"] += 50
    workload(plan, 1)["gpu_cost_usd_per_month"] -= 50


TOGETHER: list[Lie] = [
    ("together", not_shareable, "chat may not share replicas"),
    ("together", one_is_too_much_of_it, "of the load, 30.0% allowed"),
    ("together", too_many_adapters, "2 adapters on a replica, 1 allowed"),
    ("together", one_may_wait, "chat may wait, and work that waits is not shared"),
    ("together", swings_that_go_together, "replicas where"),
    ("together", one_is_tighter, "seconds_per_request[0] is"),
    ("together", one_needs_a_faster_start, "s exceeds the 0.01 s of tuned in the busiest slot"),
    ("together", one_overflows, "chat: it shares replicas, so all of its requests must go to them"),
    ("together", all_is_critical, "firm replicas, but the critical load needs"),
    ("together", too_slow_for_spot, "firm replicas, but the critical load needs"),
    ("together", fewer_zones, "deployment.spot_zones is 1, not 2"),
    ("together", data_that_must_stay_elsewhere, "the data of tuned may not go to the region us-east-1"),
    ("together", provider_that_may_not, "the data of tuned may not go to the provider aws"),
    ("together", pool_that_serves_half, "the pools do not serve the workloads of the case, each once"),
    ("together", pool_in_another_order, "the workloads of a pool are not in the order of the case"),
    ("together", another_share, "workloads[tuned].gpu_cost_usd_per_month is"),
]


# -- caches and starts ------------------------------------------------------------------------------------------------


def caching_that_is_not_allowed(plan: Json) -> None:
    asked(plan)["caching"] = ["none", "prefix"]


def fewer_answers_found(plan: Json) -> None:
    asked(plan)["semantic_hit_frac"] = 0.1


def no_prefix_found(plan: Json) -> None:
    asked(plan)["prefix_hit_frac"] = 0.01


def dearer_lookups(plan: Json) -> None:
    plan["case"]["cache_costs"]["embedding_usd_per_1m_tokens"] *= 2


def dearer_store(plan: Json) -> None:
    plan["case"]["cache_costs"]["tier_usd_per_month"] += 10


def caches_for_nothing(plan: Json) -> None:
    paid = plan["costs"]["caching_usd_per_month"]
    plan["costs"]["caching_usd_per_month"] = 0.0
    plan["cost_usd_per_month"] -= paid


def slower_start(plan: Json) -> None:
    plan["case"]["start"]["instance_s"] *= 2


def starts_forgotten(plan: Json) -> None:
    for line in plan["fleet"]:
        line["cost_usd_per_month"] -= line["starting_usd_per_month"]
        line["starting_usd_per_month"] = 0.0


CACHES: list[Lie] = [
    ("together", caching_that_is_not_allowed, "its caching is prefix+semantic, which is not among none, prefix"),
    ("together", fewer_answers_found, "workloads[chat].cache_share_frac is 0.1"),
    ("together", no_prefix_found, "seconds_per_request[0] is"),
    ("together", dearer_lookups, "workloads[chat].caching_cost_usd_per_month is"),
    ("together", dearer_store, "workloads[chat].caching_cost_usd_per_month is"),
    ("together", caches_for_nothing, "costs.caching_usd_per_month is"),
    ("together", slower_start, "starting_usd_per_month is"),
    ("together", starts_forgotten, "starting_usd_per_month is"),
]


# -- several deployments ----------------------------------------------------------------------------------------------


def long_ones_where_they_do_not_fit(plan: Json) -> None:
    """What the second deployment does not take is left to the first."""
    for part in workload(plan)["deployment_flows"][0]:
        part["requests_per_s"][1] = 0.0


def sent_twice(plan: Json) -> None:
    part = workload(plan)["deployment_flows"][0][0]["requests_per_s"]
    part[:] = [1000.0 * rate for rate in part]


def flows_forgotten(plan: Json) -> None:
    workload(plan)["deployment_flows"] = []


def one_deployment_allowed(plan: Json) -> None:
    plan["case"]["limits"]["max_deployments"] = 1


def the_same_twice(plan: Json) -> None:
    hosted(plan, 1)["deployment"] = hosted(plan)["deployment"]


def fewer_of_the_second(plan: Json) -> None:
    counts = hosted(plan, 1)["replicas_by_slot"]
    t = counts.index(max(counts))
    counts[t] -= 1


def staffed_as_if_alone(plan: Json) -> None:
    hosted(plan)["deployment"]["requests_in_flight"] *= 2


def fewer_firm_of_the_second(plan: Json) -> None:
    hosted(plan, 1)["firm_replicas_by_slot"] = [0] * len(plan["slots"])


def answers_of_two_models(plan: Json) -> None:
    plan["case"]["quantizations"]["fp9"] = plan["case"]["quantizations"]["fp8"]
    hosted(plan, 1)["deployment"]["quantization"] = "fp9"


def another_kind_of_gpu(plan: Json) -> None:
    plan["case"]["limits"]["max_gpu_types"] = 1
    plan["case"]["gpus"]["l5"] = plan["case"]["gpus"]["l4"]
    plan["case"]["efficiency"]["l5"] = plan["case"]["efficiency"]["l4"]
    plan["case"]["offers"][hosted(plan)["deployment"]["offer"]]["gpu"] = "l5"


MIXED: list[Lie] = [
    ("mixed", long_ones_where_they_do_not_fit, "is sent requests of a length that it cannot serve"),
    ("mixed", sent_twice, "more or less than the demand is sent"),
    ("mixed", flows_forgotten, "documents: it has flows to 0 more deployments, its pool has 1"),
    ("mixed", one_deployment_allowed, "2 deployments, 1 allowed"),
    ("mixed", the_same_twice, "a deployment serves it twice"),
    ("mixed", fewer_of_the_second, "replicas where"),
    ("mixed", staffed_as_if_alone, "requests_in_flight is"),
    ("mixed", fewer_firm_of_the_second, "0 firm replicas, but the critical load needs"),
    ("mixed", answers_of_two_models, "its answers depend on who gives them: llama-3.1-8b fp8 or llama-3.1-8b fp9"),
    ("mixed", another_kind_of_gpu, "2 kinds of GPU are used (l4, l5), 1 allowed"),
]


# -- work that waits --------------------------------------------------------------------------------------------------


def move(plan: Json) -> Json:
    return workload(plan)["moves"][0]


def waits_too_long(plan: Json) -> None:
    asked(plan)["deadline_h"] = 0.5


def never_asked_to_wait(plan: Json) -> None:
    del asked(plan)["deadline_h"]


def waits_for_the_weekend(plan: Json) -> None:
    move(plan)["to_slot"] = 24 + move(plan)["to_slot"] % 24
    move(plan)["from_slot"] %= 24


def done_before_it_comes(plan: Json) -> None:
    move(plan)["from_slot"], move(plan)["to_slot"] = move(plan)["to_slot"], move(plan)["from_slot"]


def waits_twice(plan: Json) -> None:
    workload(plan)["moves"].append(move(plan))


def more_than_there_is(plan: Json) -> None:
    move(plan)["requests_per_s"] *= 1000


def less_than_nothing(plan: Json) -> None:
    move(plan)["requests_per_s"] *= -1


def work_left_undone(plan: Json) -> None:
    workload(plan)["moves"].pop()


def a_slot_of_no_plan(plan: Json) -> None:
    move(plan)["to_slot"] = 48


def long_ones_to_the_api(plan: Json) -> None:
    """Of the requests of an hour, those that wait and those that are sent must be of all lengths alike."""
    h = move(plan)["from_slot"]
    workload(plan)["api_flows"] = [f for f in workload(plan)["api_flows"] if f["slot"] != h]
    workload(plan)["api_flows"].append({"slot": h, "requests_per_s": [0.0, 0.1]})


def no_time_for_the_batch_price(plan: Json) -> None:
    asked(plan)["api_wait_h"] = 1.0


def a_slower_batch(plan: Json) -> None:
    plan["case"]["apis"]["own/mini"]["batch"]["turnaround_h"] = 3.0


WAITING: list[Lie] = [
    ("waiting", waits_too_long, "past the deadline"),
    ("waiting", never_asked_to_wait, "night: requests wait although it has no deadline"),
    ("waiting", waits_for_the_weekend, "past the deadline"),
    ("waiting", done_before_it_comes, "past the deadline"),
    ("waiting", waits_twice, "night: requests of a slot wait for another one twice"),
    ("waiting", more_than_there_is, "more requests wait than there are"),
    ("waiting", less_than_nothing, "less than no requests wait"),
    ("waiting", work_left_undone, "load_by_slot["),
    ("waiting", a_slot_of_no_plan, "night: requests wait from or until a slot that is none of the plan"),
    ("waiting", long_ones_to_the_api, "not of all lengths alike go to the API"),
    ("waiting", no_time_for_the_batch_price, "workloads[night].api_cost_usd_per_month is"),
    ("waiting", a_slower_batch, "workloads[night].api_cost_usd_per_month is"),
]


# -- what is shed, payments up front, limits -------------------------------------------------------------------


def everything_must_be_served(plan: Json) -> None:
    del asked(plan)["shed_usd_per_request"]


def shed_without_a_word(plan: Json) -> None:
    workload(plan)["shed_flows"] = []


def cheaper_to_turn_away(plan: Json) -> None:
    workload(plan)["penalty_usd_per_month"] /= 2
    plan["penalty_usd_per_month"] /= 2


def penalty_in_the_cost(plan: Json) -> None:
    plan["cost_usd_per_month"] += plan["penalty_usd_per_month"]


def bound_without_the_penalty(plan: Json) -> None:
    plan["gap_frac"] = max(0.0, 1 - plan["bound_usd_per_month"] / plan["cost_usd_per_month"])


def tokens_of_those_turned_away(plan: Json) -> None:
    plan["tokens_per_month"] *= 1.1
    plan["usd_per_1m_tokens"] /= 1.1


def cash_forgotten(plan: Json) -> None:
    plan["commitments"][0]["upfront_usd"] = 0.0


def owed_again(plan: Json) -> None:
    plan["commitments"][0]["beyond_horizon_usd"] += plan["commitments"][0]["upfront_usd"]


def hourly_part_alone(plan: Json) -> None:
    line = next(line for line in plan["fleet"] if line["purchase"] == "reserved-1y-upfront")
    line["usd_per_h"] = 0.05


def limit_not_told(plan: Json) -> None:
    plan["binding"] = []


def limit_told_twice(plan: Json) -> None:
    plan["binding"].append(plan["binding"][0])


def limit_that_is_far(plan: Json) -> None:
    plan["case"]["limits"]["max_gpus"] = {"l4": 60}


SHEDDING: list[Lie] = [
    ("shedding", everything_must_be_served, "chat: requests are shed although that is not allowed"),
    ("shedding", shed_without_a_word, "replicas where"),
    ("shedding", cheaper_to_turn_away, "penalty_usd_per_month is"),
    ("shedding", penalty_in_the_cost, "cost_usd_per_month is"),
    ("shedding", bound_without_the_penalty, "gap_frac is"),
    ("shedding", tokens_of_those_turned_away, "tokens_per_month is"),
    ("shedding", cash_forgotten, "reserved-1y-upfront].upfront_usd is"),
    ("shedding", owed_again, "reserved-1y-upfront].beyond_horizon_usd is"),
    ("shedding", hourly_part_alone, "reserved-1y-upfront].usd_per_h is"),
    ("shedding", limit_not_told, "binding has 2 entries, not 0; but with max_gpus l4"),
    ("shedding", limit_told_twice, "binding has 2 entries, not 3"),
    ("shedding", limit_that_is_far, "binding has 1 entries, not 2; without max_gpus l4"),
]
LIES = TOGETHER + CACHES + MIXED + WAITING + SHEDDING


@for_each(("name", "lie", "words"), LIES)
def test_each_lie_is_refused_in_words(name: str, lie: Callable[[Json], None], words: str) -> None:
    honest = lever_plan(name).as_json()
    plan = copy.deepcopy(honest)
    lie(plan)
    assert plan != honest
    rehashed(plan)
    refused_with(words, plan)
