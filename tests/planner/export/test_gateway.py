"""The gateway as exported: LiteLLM loads it, and its router sends requests where the plan does."""

from __future__ import annotations

import asyncio
import importlib.util
import io
import json
import os
import urllib.error
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from email.message import Message
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import yaml

from planner.export.export import export_plan
from planner.export.hosted import HostedFleet, Settings, hosted_fleet
from planner.export.inference_gateway import objectives
from planner.export.litellm import PROVIDERS, busiest_minute, to_api
from planner.export.queue import done_rps
from planner.export.routing import SHED, destinations, routes
from planner.export.scripts import fleetplan_queue
from planner.plan.plan import Plan
from tests.support.lever_plans import lever_plan
from tests.support.rows import for_each
from tests.support.shared_plans import example_plan

PLANS = [
    "examples/quickstart.yaml", "examples/two-models.yaml", "examples/hourly-rates.yaml", "examples/budgets.yaml",
    "examples/levers/two-deployments.yaml", "mixed", "shedding", "waiting", "together",
]  # fmt: skip
MONDAY, SATURDAY = datetime(2026, 11, 16, tzinfo=UTC), datetime(2026, 11, 21, tzinfo=UTC)
WORD = "plan "
"""a token of LiteLLM's tokenizer"""


def plan_of(name: str) -> Plan:
    return example_plan(name) if "/" in name else lever_plan(name)


@cache
def fleet_of(name: str) -> HostedFleet:
    return hosted_fleet(plan_of(name), Settings())


@cache
def exported(name: str) -> dict[str, str]:
    return export_plan(plan_of(name), "gateway", Settings())


def hours() -> Iterator[tuple[str, int, float]]:
    for day, first in (("weekday", MONDAY), ("weekend", SATURDAY)):
        yield from ((day, hour, first.replace(hour=hour).timestamp()) for hour in range(24))


# -- routes -----------------------------------------------------------------------------------------------


@for_each("name", PLANS)
def test_by_the_routes_no_deployment_has_more_load_than_planned(name: str) -> None:
    """Shares by prompt and hour: of what each deployment carries in the plan, and of what is sent elsewhere."""
    fleet = fleet_of(name)
    for s in fleet.view.served:
        mine = [r for r in routes(fleet) if r.workload == s.w.name]
        planned, whole = destinations(fleet, s), s.demand
        for h in (h for h in fleet.hosted if s.w.name in h.pool.workloads and len(h.pool.workloads) == 1):
            seconds = [x or 0.0 for x in h.plan.deployment.seconds_per_request]
            for k, t in enumerate(fleet.slots):
                slot = fleet.plan.slots[t]
                sent = 0.0
                for b, bucket in enumerate(s.w.buckets):
                    (r,) = [
                        r for r in mine
                        if r.more_than < bucket.input_tokens and (r.up_to is None or bucket.input_tokens <= r.up_to)
                    ]  # fmt: skip
                    sent += whole[t, b] * r.by_hour[slot.day][slot.hour].get(h.name, 0.0) * seconds[b]
                load = float(planned[h.name][t] @ seconds)
                assert sent <= load * 1.01 + 1e-9, (name, h.name, k)
                assert sent >= load * 0.99 - 1e-9, (name, h.name, k)


def test_shares_of_each_hour_add_up() -> None:
    bad = [
        (name, r.workload, r.up_to)
        for name in PLANS
        for r in routes(fleet_of(name))
        for shares in [r.to, *(each for hours in r.by_hour.values() for each in hours)]
        if shares and abs(sum(shares.values()) - 1) > 1e-4
    ]
    assert bad == []


def test_priorities_are_in_the_order_in_which_requests_give_way() -> None:
    (free,) = [h for h in fleet_of("examples/budgets.yaml").hosted if h.name == "free-tier"]
    (paid,) = [h for h in fleet_of("examples/budgets.yaml").hosted if h.name == "assistant"]
    assert max(objectives(fleet_of("examples/budgets.yaml"), free).values()) < 0
    assert max(objectives(fleet_of("examples/budgets.yaml"), paid).values()) < 0, "it may be shed too, after the other"
    (shared,) = fleet_of("together").hosted
    ranks = objectives(fleet_of("together"), shared)
    assert {name: rank > 0 for name, rank in ranks.items()} == {name: name.endswith("-critical") for name in ranks}, (
        "of what runs on spot, all but the critical requests give way"
    )
    (night,) = fleet_of("waiting").hosted
    assert list(objectives(fleet_of("waiting"), night).values()) == [-1]


# -- the router -------------------------------------------------------------------------------------------


@pytest.fixture
def litellm() -> ModuleType:
    os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"
    return pytest.importorskip("litellm", reason="litellm is not installed: pip install 'fleetplan[deep]'")


def hook_of(name: str, folder: Path, now: list[float]) -> Any:
    """The hook as the proxy would load it from the exported folder, with a clock that the test sets."""
    for path in ("litellm/fleetplan_router.py", "litellm/routes.json"):
        (folder / path.split("/")[1]).write_text(exported(name)[path], encoding="utf-8")
    spec = importlib.util.spec_from_file_location(f"hook_{abs(hash(name))}", folder / "fleetplan_router.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.hook.plan.now = lambda: now[0]
    return module.hook


def router_of(litellm: ModuleType, name: str, monkeypatch: pytest.MonkeyPatch) -> Any:
    config = yaml.safe_load(exported(name)["litellm/config.yaml"])
    text = json.dumps(config)
    for word in text.replace('"', " ").split():
        if word.startswith("os.environ/"):
            monkeypatch.setenv(word.removeprefix("os.environ/"), "http://stub.invalid/v1")
    return litellm.Router(model_list=config["model_list"], **config["router_settings"])


@pytest.mark.parametrize("name", ["examples/quickstart.yaml", "mixed", "shedding"])
def test_litellms_router_sends_requests_in_the_shares_of_the_plan(
    name: str, litellm: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Stub backends answer; an hour in which most goes elsewhere and one in which least does, for each range."""
    now, each = [0.0], 100
    hook, router = hook_of(name, tmp_path, now), router_of(litellm, name, monkeypatch)
    monkeypatch.setattr(litellm, "callbacks", [hook])

    async def send(workload: str, tokens: int) -> str:
        data = {"model": workload, "messages": [{"role": "user", "content": WORD * tokens}]}
        try:
            await hook.async_pre_call_hook(None, None, data, "completion")
        except litellm.exceptions.RateLimitError:
            return SHED
        answer = await router.acompletion(**data, mock_response="yes")
        return str(answer._hidden_params["model_id"]).partition("/")[2]

    async def check() -> None:
        for r in routes(fleet_of(name)):
            tokens = min(r.more_than + 50, r.up_to or r.more_than + 50)
            by_load = sorted(hours(), key=lambda h: max(r.by_hour[h[0]][h[1]].values(), default=1))
            for day, hour, at in (by_load[0], by_load[-1]):
                now[0] = at
                sent = Counter([await send(r.workload, tokens) for _ in range(each)])
                planned = r.by_hour[day][hour]
                for to in {*sent, *planned}:
                    off = abs(sent[to] / each - planned.get(to, 0.0))
                    assert off <= 0.01 or not planned, (r.workload, r.up_to, day, hour, sent, planned)

    asyncio.run(check())


@for_each("name", PLANS)
def test_every_hour_and_range_is_dealt_out_as_planned(name: str, litellm: ModuleType, tmp_path: Path) -> None:
    now = [0.0]
    plan, each = hook_of(name, tmp_path, now).plan, 400
    waits = {w.name for w in fleet_of(name).plan.case.workloads if w.deadline_h is not None}
    for r in routes(fleet_of(name)):
        there = {str(to) for to in plan.workloads[r.workload]["otherwise"]}
        tokens = r.up_to or r.more_than + 1
        for day, hour, at in hours():
            now[0] = at
            planned = r.to if r.workload in waits or not r.by_hour[day][hour] else r.by_hour[day][hour]
            sent = Counter(
                SHED if plan.is_shed(r.workload, tokens) else plan.goes_to(r.workload, tokens, 0, there)
                for _ in range(each)
            )
            off = max(abs(sent[to] / each - planned.get(to, 0.0)) for to in {*sent, *planned})
            assert off <= 0.01, (r.workload, r.up_to, day, hour, sent, planned)


def test_a_pool_at_zero_is_answered_by_the_others(litellm: ModuleType, tmp_path: Path) -> None:
    hook = hook_of("mixed", tmp_path, [MONDAY.timestamp()])
    short, long = 300, 110_000
    everywhere = {"documents-l4", "documents-2x-l4", "openai/gpt-4o"}
    away = [hook.plan.goes_to("documents", short, 0, everywhere - {"documents-l4"}) for _ in range(50)]
    assert set(away) == {"openai/gpt-4o"}, "the other pool has no room for what the missing one had"
    assert hook.plan.goes_to("documents", short, 0, {"openai/gpt-4o"}) == "openai/gpt-4o"
    for _ in range(50):
        assert hook.plan.goes_to("documents", long, 0, everywhere) != "documents-l4"
    holds = hook.plan.workloads["documents"]["holds"]["documents-l4"]
    for _ in range(50):
        to = hook.plan.goes_to("documents", short, holds, everywhere)
        assert to != "documents-l4", "an answer that the client allows to be so long does not fit"


def dealer(litellm: ModuleType, shares: dict[str, float], **more: Any) -> Any:
    """The hook's plan for one workload with the same shares in every hour."""
    spec = importlib.util.spec_from_loader("fleetplan_router", None)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    module.__file__ = "fleetplan_router.py"
    exec(exported("mixed")["litellm/fleetplan_router.py"], module.__dict__)
    ranges = [{"up_to": None, "shares": [shares], "by_hour": {day: [0] * 24 for day in ("weekday", "weekend")}}]
    whole = {"ranges": ranges, "holds": {"a": 1000, "b": 1000}, "otherwise": ["a", "b", "api"]} | more
    return module.Plan({"time_zone": "UTC", "workloads": {"w": whole, "w (critical)": {"critical_of": "w"}}})


def test_what_a_missing_pool_would_have_had_goes_to_the_api_and_not_to_the_next_pool(litellm: ModuleType) -> None:
    plan = dealer(litellm, {"a": 0.5, "b": 0.4, "api": 0.1})
    sent = Counter(plan.goes_to("w", 10, 0, {"b", "api"}) for _ in range(1000))
    assert sent == {"b": 400, "api": 600}, "b has the load of the plan and no more"
    without = dealer(litellm, {"a": 0.5, "b": 0.5}, otherwise=["a", "b"])
    assert {without.goes_to("w", 10, 0, {"b"}) for _ in range(9)} == {"b"}, "where there is no API the other has all"
    assert plan.goes_to("w", 10, 0, set()) is None


def test_small_shares_have_their_part_however_few_requests_an_hour_has(litellm: ModuleType) -> None:
    """Three an hour, 5% to an API: an hour that began anew would send it none."""
    plan, clock = dealer(litellm, {"a": 0.95, "api": 0.05}), Clock(MONDAY.timestamp())
    plan.now = lambda: clock.at
    sent: Counter[str] = Counter()
    for _ in range(400):
        sent.update(plan.goes_to("w", 10, 0, {"a", "api"}) for _ in range(3))
        clock.sleep(3600)
    assert sent["api"] == pytest.approx(0.05 * 1200, abs=1)


def test_requests_that_are_marked_critical_are_not_shed(litellm: ModuleType) -> None:
    plan = dealer(litellm, {"a": 0.7, SHED: 0.3})
    assert sum(plan.is_shed("w", 10) for _ in range(100)) == 30
    assert sum(plan.is_shed("w (critical)", 10) for _ in range(100)) == 0
    assert {plan.goes_to("w (critical)", 10, 0, {"a"}) for _ in range(5)} == {"a"}


def test_tools_count_and_images_are_not_fetched(litellm: ModuleType, tmp_path: Path) -> None:
    """An agent's tools are part of its prompt; an address in a message is nobody's to call."""
    hook = hook_of("mixed", tmp_path, [MONDAY.timestamp()])
    first, _ = hook.plan.workloads["documents"]["ranges"]
    function = {"name": "find", "description": WORD * 8_000, "parameters": {"type": "object", "properties": {}}}
    short = [{"role": "user", "content": "hello"}]
    assert hook.tokens("documents", short, {}) <= first["up_to"]
    assert hook.tokens("documents", short, {"tools": [{"type": "function", "function": function}]}) > first["up_to"]
    image = {"type": "image_url", "image_url": {"url": "http://stub.invalid/x.png", "detail": "high"}}
    seen = [{"role": "user", "content": [{"type": "text", "text": WORD * 5_000}, image]}]
    assert 5_000 <= hook.tokens("documents", seen, {}) <= 7_000
    assert hook.tokens("documents", [{"role": "user", "content": [{"type": "odd"}, WORD * 5_000]}], {}) > 0


def test_names_of_objectives_differ_whatever_workloads_are_called() -> None:
    plan = plan_of("together")
    (pool,) = plan.pools
    for names in (("chat", "Chat!"), ("chat", "chat critical"), ("a" * 70 + "1", "a" * 70 + "2")):
        by_name = dict(zip(pool.workloads, names, strict=True))
        case = plan.case.model_copy(
            update={"workloads": tuple(w.model_copy(update={"name": by_name[w.name]}) for w in plan.case.workloads)}
        )
        renamed = plan.model_copy(
            update={
                "case": case,
                "pools": (pool.model_copy(update={"key": " + ".join(names), "workloads": names}),),
                "workloads": tuple(w.model_copy(update={"name": by_name[w.name]}) for w in plan.workloads),
            }
        )
        fleet = hosted_fleet(renamed, Settings())
        found = objectives(fleet, fleet.hosted[0])
        assert len(found) == sum(1 + (0 < w.critical_share_frac < 1) for w in case.workloads), names
        assert all(len(name) <= 63 for name in found)


def test_routes_of_many_workloads_fit_into_a_config_map() -> None:
    """A ConfigMap holds a megabyte: a range of prompts takes less than 4 kB with three destinations in every hour."""
    for name in PLANS:
        planned = json.loads(exported(name)["litellm/routes.json"])["workloads"]
        ranges = sum(len(w.get("ranges", ())) for w in planned.values())
        hours = len(exported(name)["litellm/routes.json"]) / ranges
        assert hours < 6000, (name, hours)


def test_what_the_proxy_promises_has_a_query_each() -> None:
    text = exported("examples/quickstart.yaml")["README.md"]
    assert 'model_id=~"support\\\\-chat/openai/gpt\\\\-4o\\\\-mini"' in text
    assert "share sent to openai/gpt-4o-mini" in text and "requests that fell back: none" in text
    assert (
        'litellm_proxy_failed_requests_metric_total{requested_model="chat",exception_status="429"}'
        in (exported("shedding")["README.md"])
    )


def test_litellm_falls_back_to_the_api_of_the_plan(
    litellm: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A backend that fails: the request is answered by the API all the same."""
    name = "examples/quickstart.yaml"
    hook, router = hook_of(name, tmp_path, [MONDAY.timestamp()]), router_of(litellm, name, monkeypatch)
    monkeypatch.setattr(litellm, "callbacks", [hook])
    for entry in router.model_list:
        if entry["model_info"]["fleetplan_to"] == "openai/gpt-4o-mini":
            entry["litellm_params"]["mock_response"] = "from the API"
        else:
            entry["litellm_params"]["mock_response"] = "litellm.InternalServerError"
    router.set_model_list(router.model_list)
    router.num_retries = 0
    messages = [{"role": "user", "content": "hello"}]
    answer = asyncio.run(router.acompletion(model="support-chat", messages=messages))
    assert answer.choices[0].message.content == "from the API"


def test_litellm_knows_the_providers(litellm: ModuleType) -> None:
    known = {str(getattr(p, "value", p)) for p in litellm.provider_list}
    assert [ours for ours, theirs in PROVIDERS.items() if theirs not in known] == []
    assert to_api("own/mini")["model"] == "openai/mini", "what nobody knows speaks OpenAI's language"


def test_the_readme_says_which_limits_an_api_must_grant() -> None:
    fleet = fleet_of("examples/quickstart.yaml")
    ((api, (requests, tokens)),) = busiest_minute(fleet).items()
    (w,) = fleet.plan.workloads
    assert requests == pytest.approx(60 * max(sum(f.requests_per_s) for f in w.api_flows))
    assert (
        f"limits of {api}: the plan sends it up to {requests:,.0f} requests"
        in exported("examples/quickstart.yaml")["README.md"]
    )
    assert tokens > requests


def test_without_the_hook_the_proxy_has_the_shares_of_the_month() -> None:
    """As the README's way back leaves the config."""
    name = "examples/quickstart.yaml"
    assert "sed -i '/fleetplan_router.hook/d' litellm/config.yaml" in exported(name)["README.md"]
    lines = exported(name)["litellm/config.yaml"].split("\n")
    config = yaml.safe_load("\n".join(line for line in lines if "fleetplan_router.hook" not in line))
    assert config["litellm_settings"]["callbacks"] == ["prometheus"]
    weights = {e["model_info"]["fleetplan_to"]: e["litellm_params"]["weight"] for e in config["model_list"]
               if e["model_name"] == "support-chat"}  # fmt: skip
    planned = {"support-chat": 0.0, "openai/gpt-4o-mini": 0.0}
    for r in routes(fleet_of(name)):
        for to, share in r.to.items():
            planned[to] += r.share_frac * share
    assert weights == pytest.approx(planned, abs=1e-5)


# -- the queue --------------------------------------------------------------------------------------------


class SortedSets:
    """As much of Redis as a queue needs."""

    def __init__(self) -> None:
        self.sets: dict[str, dict[str, float]] = {}
        self.kept: dict[str, str] = {}
        self.lists: dict[str, list[str]] = {}

    def zadd(self, key: str, items: dict[str, float]) -> None:
        self.sets.setdefault(key, {}).update(items)

    def zcard(self, key: str) -> int:
        return len(self.sets.get(key, {}))

    def zcount(self, key: str, low: str, high: float) -> int:
        return sum(score <= high for score in self.sets.get(key, {}).values())

    def zrange(self, key: str, first: int, last: int) -> list[str]:
        ordered = sorted(self.sets.get(key, {}).items(), key=lambda item: item[1])
        return [item for item, _ in ordered[first : last + 1]]

    def zrem(self, key: str, item: str) -> None:
        self.sets.get(key, {}).pop(item, None)

    def zrangebyscore(self, key: str, low: str, high: float) -> list[str]:
        return [item for item, score in self.sets.get(key, {}).items() if score <= high]

    def set(self, key: str, value: str, ex: int) -> None:
        self.kept[key] = value

    def delete(self, key: str) -> None:
        self.lists.pop(key, None)

    def rpush(self, key: str, *items: str) -> None:
        self.lists[key] = list(items)


class Clock:
    def __init__(self, at: float) -> None:
        self.at = at

    def sleep(self, seconds: float) -> None:
        self.at += seconds


def queue_plan() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(exported("waiting")["queue/queue.json"])["workloads"]["night"]
    return found


def test_the_queue_works_at_the_rate_of_the_plan_in_its_hours() -> None:
    fleet, plan = fleet_of("waiting"), queue_plan()
    (s,) = fleet.view.served
    rates = done_rps(fleet, s)
    day = [float(rates[t]) for t in fleet.slots if fleet.plan.slots[t].day == "weekday"]
    assert plan["requests_per_s"]["weekday"] == pytest.approx(day, abs=1e-6)
    assert sum(day) == pytest.approx(sum(float(s.demand[t].sum()) for t in fleet.slots[:24])), "all is done on its day"
    hour = max(range(24), key=lambda h: day[h])
    clock = Clock(MONDAY.replace(hour=hour, minute=50).timestamp())
    queue = fleetplan_queue.Queue(SortedSets(), "night")
    for _ in range(5_000):
        queue.put({"messages": []}, clock.at + 86_400)
    pace = fleetplan_queue.Pace(plan | {"at_once": 64}, lambda: clock.at)
    done = fleetplan_queue.work(queue, pace, lambda body: "{}", clock.sleep)
    assert done == pytest.approx(600 * day[hour], rel=0.01)
    assert queue.waiting() == 5_000 - done


def test_what_would_be_late_begins_in_any_hour_and_nothing_else_does() -> None:
    plan = queue_plan() | {"requests_per_s": {"weekday": [0.0] * 24, "weekend": [0.0] * 24}, "at_once": 4}
    clock, redis = Clock(MONDAY.timestamp()), SortedSets()
    queue = fleetplan_queue.Queue(redis, "night")
    for number in range(10):
        queue.put({"n": number}, clock.at + plan["start_s"] + 1)
    for number in range(10):
        queue.put({"n": number}, clock.at + 86_400)
    pace = fleetplan_queue.Pace(plan, lambda: clock.at)
    assert fleetplan_queue.work(queue, pace, lambda body: "{}", clock.sleep) == 10
    assert (queue.waiting(), len(redis.kept)) == (10, 10)
    assert redis.lists == {}, "nothing is announced as due any more"


def test_what_a_gateway_refuses_or_a_lost_worker_had_waits_again() -> None:
    plan = queue_plan() | {"at_once": 2}
    clock, redis = Clock(MONDAY.replace(hour=12).timestamp()), SortedSets()
    queue = fleetplan_queue.Queue(redis, "night")
    queue.put({"n": 1}, clock.at + 60)

    def busy(body: Any) -> str:
        raise OSError("429")

    fleetplan_queue.work(queue, fleetplan_queue.Pace(plan, lambda: clock.at), busy, clock.sleep)
    assert queue.waiting() == 1
    queue.take(1, clock.at)  # and the worker is gone
    assert queue.waiting() == 0
    queue.recover(clock.at + fleetplan_queue.TIMEOUT_S + 1)
    assert queue.waiting() == 1


def test_a_request_that_is_never_taken_does_not_wait_for_ever() -> None:
    """A prompt that is too long is refused (400) each time, and would be the most urgent one from its deadline on."""
    plan, clock, redis = queue_plan() | {"at_once": 2}, Clock(MONDAY.replace(hour=12).timestamp()), SortedSets()
    queue = fleetplan_queue.Queue(redis, "night")
    queue.put({"n": 1}, clock.at + 60)

    def refuse(body: Any) -> str:
        raise urllib.error.HTTPError("http://stub", 400, "Bad Request", Message(), io.BytesIO(b"too long"))

    assert fleetplan_queue.work(queue, fleetplan_queue.Pace(plan, lambda: clock.at), refuse, clock.sleep) == 1
    assert (queue.waiting(), redis.sets.get("fleetplan:night:taken")) == (0, {})
    (answer,) = redis.kept.values()
    assert json.loads(answer) == {"error": {"code": 400, "message": "too long"}}


def test_nothing_is_put_where_a_line_is_broken() -> None:
    redis = SortedSets()
    with pytest.raises(ValueError, match="Expecting"):
        fleetplan_queue.put(fleetplan_queue.Queue(redis, "night"), ['{"n": 1}', "{"], queue_plan())
    assert redis.sets == {}


def test_a_plan_in_which_nothing_waits_has_no_queue() -> None:
    assert [path for path in exported("mixed") if path.startswith("queue/")] == []
