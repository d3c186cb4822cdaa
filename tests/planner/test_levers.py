"""Levers: each planned without and with it, as docs/reference/levers.md says, and its saving explained by arithmetic.

The rows of the page's tables are the cases: the example, what is changed in it, and what both plans cost. Of a plan the
arithmetic takes only what one replica can do (seconds per request, requests in flight). Prices are written down here.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from math import ceil, exp, log, sqrt
from statistics import NormalDist
from typing import Any

import pytest
import yaml

import planner
from planner.case.case import Case
from planner.case.demand.schema import DemandFile
from planner.plan.plan import DeploymentPlan, DeploymentRecord, Plan
from tests.support.places import ROOT
from tests.support.rows import for_each
from tests.support.shared_plans import example_plan, plan_of

PAGE = ROOT / "docs" / "reference" / "levers.md"
HOURS = 730.0
DAYS = HOURS / 24
Z95 = NormalDist().inv_cdf(0.95)
ROW = re.compile(
    r"^\| (?P<lever>[^|]+) \| (?P<off>[^|]*) \| (?P<on>[^|]*) \| \[[^\]]+\]\((?:\.\./)+(?P<example>[^)]+)\)"
    r" \| (?P<cost_off>\$[^|]+) \| (?P<cost_on>\$[^|]+) \| (?P<frac>[\d.]+)% \|$",
    re.MULTILINE,
)


@dataclass(frozen=True)
class Row:
    """A row of the page: a lever, and what its example costs without and with it."""

    lever: str
    example: str
    off: str
    on: str
    cost_off: float
    cost_on: float
    frac: float


def rows() -> list[Row]:
    def usd(cell: str) -> float:
        """Cost, and the penalty where there is one."""
        return sum(float(figure.replace(",", "")) for figure in re.findall(r"\$([\d,]+)", cell))

    def change(cell: str) -> str:
        return "\n".join(re.findall(r"`([^`]+)`", cell))

    return [
        Row(
            m["lever"], m["example"], change(m["off"]), change(m["on"]),
            usd(m["cost_off"]), usd(m["cost_on"]), float(m["frac"]) / 100,
        )
        for m in ROW.finditer(PAGE.read_text(encoding="utf-8"))
    ]  # fmt: skip


def case_of(example: str, change: str = "") -> Case:
    """An example with something changed: keys of a demand file, or else of each of its workloads."""
    demand = yaml.safe_load((ROOT / example).read_text(encoding="utf-8"))
    if "profiles" in demand:
        demand["profiles"] = [str((ROOT / example).parent / p) for p in demand["profiles"]]
    for line in change.splitlines():
        for key, value in yaml.safe_load(line).items():
            for part in [demand] if key in DemandFile.model_fields else demand["workloads"]:
                part[key] = laid_over(part.get(key), value)
    return planner.case_from_text(yaml.safe_dump(demand))


def laid_over(old: Any, new: Any) -> Any:
    if not isinstance(old, dict) or not isinstance(new, dict) or not new:
        return copy.deepcopy(new)
    return old | {key: laid_over(old.get(key), value) for key, value in new.items()}


@cache
def planned(example: str, change: str = "") -> Plan:
    """Checked and proved."""
    plan = plan_of(case_of(example, change)) if change else example_plan(example)
    assert plan.status in ("optimal", "within-gap")
    assert plan.gap_frac <= 1e-3
    return plan


def objective(plan: Plan) -> float:
    return plan.cost_usd_per_month + plan.penalty_usd_per_month


# What the arithmetic is made of


def deployment(plan: Plan, gpu: str | None = None, of: str | None = None) -> DeploymentPlan:
    """The only one, or the only one on a GPU or of a workload."""
    pools = [plan.pool_of(of)] if of else plan.pools
    (found,) = (d for pool in pools for d in pool.deployments if gpu in (None, d.deployment.gpu))
    return found


def seconds(plan: Plan, bucket: int = 0, gpu: str | None = None, of: str | None = None) -> float:
    """Replica-seconds of a request."""
    found = deployment(plan, gpu, of).deployment.seconds_per_request[bucket]
    assert found is not None
    return found


def replicas(d: DeploymentRecord, load: float, rate_cv: float = 0.2, scv: float = 2.0, least: int = 2) -> int:
    """The staffing rule, written once more: TTFT at p95, and the variation and burstiness that are assumed."""
    sigma = sqrt(log(1 + rate_cv**2))
    arrivals, swings = Z95**2 * load * (1 + scv) / (2 * d.staffing_in_flight), exp(Z95 * sigma + sigma**2 / 2) - 1
    n = max(least, ceil(load + sqrt(arrivals + (swings * load) ** 2) - 1e-9))
    while load > n * most_load(d, n) + 1e-9:
        n += 1
    return n


def most_load(d: DeploymentRecord, n: int) -> float:
    """The mean load of each of n that TTFT allows behind a router; with the burstiness of 2 that is assumed."""
    if d.most_load_frac >= 1 or d.routing is None:
        return d.most_load_frac
    root = sqrt(d.routing.prompt_share_frac)
    return min(1.0, 0.95 * (1 - (1 - root * d.most_load_frac) / n**d.routing.exponent) / root)


def monthly(usd_per_h: float, instances: float) -> float:
    return usd_per_h * instances * HOURS


def near(usd: float) -> Any:
    """To the cent, or to what the gap of two plans that count as optimal may hide."""
    return pytest.approx(usd, abs=0.01, rel=5e-6)


def hours(counts: Sequence[int], plan: Plan) -> float:
    """of so many instances by slot, per month"""
    return sum(n * s.hours_per_month for n, s in zip(counts, plan.slots, strict=True))


def starts(counts: Sequence[int], plan: Plan) -> float:
    """Instances started per month: those that the hour before did not have, on a day of the same kind."""
    return hours([max(0, n - counts[t - t % 24 + (t - 1) % 24]) for t, n in enumerate(counts)], plan)


# Why each lever saves what it saves


def two_deployments(off: Plan, on: Plan) -> None:
    """One deployment for all lengths is two L4s a replica. Of two, each is staffed for its own lengths.

    What the H100s have left beside the long requests takes some of the short ones, which saves five of the small GPUs.
    """
    short, long = 13e6 / 86400 * 0.9995, 13e6 / 86400 * 0.0005
    load = short * seconds(off, 0) + long * seconds(off, 1)
    assert off.cost_usd_per_month == near(monthly(2.0008, replicas(deployment(off).deployment, load)))
    both = sorted(on.pools[0].deployments, key=lambda d: d.deployment.gpu, reverse=True)
    small, large = (d.deployment for d in both)
    assert (small.gpu, small.gpus_per_replica, large.gpu, large.gpus_per_replica) == ("l4", 1, "h100", 1)
    assert small.seconds_per_request[1] is None, "no room for long requests"
    assert small.seconds_per_request[0] is not None
    assert large.seconds_per_request[1] is not None
    apart = replicas(small, short * small.seconds_per_request[0]), replicas(large, long * large.seconds_per_request[1])
    together = tuple(max(d.replicas_by_slot) for d in both)
    assert apart == (28, 3)
    assert together == (23, 3)
    assert on.cost_usd_per_month == near(monthly(0.7068, together[0]) + monthly(11.0612, together[1]))


def quantization(off: Plan, on: Plan) -> None:
    """Half the bytes on half the GPUs carry as much: fewer boxes of 8."""
    for plan, gpus in ((off, 4), (on, 2)):
        d = deployment(plan).deployment
        assert d.gpus_per_replica == gpus
        boxes = ceil(replicas(d, 2e6 / 86400 * seconds(plan)) * gpus / 8)
        assert plan.cost_usd_per_month == near(monthly(55.04, boxes))


def smaller_model(off: Plan, on: Plan) -> None:
    """The small model fits on a GPU that is bought by itself, and two of them carry everything."""
    d = deployment(on).deployment
    assert d.model == "llama-3.1-8b"
    assert replicas(d, 2e6 / 86400 * seconds(on)) == 2
    assert off.cost_usd_per_month - on.cost_usd_per_month == near(monthly(55.04, 2) - monthly(6.88, 2))


def spot(off: Plan, on: Plan) -> None:
    """Four GPUs for 100 hours and seven starts a week cost $0.73 instead of $2.21."""
    share = (100 + 7 * 411 / 3600) / 168
    assert share == pytest.approx(0.6, abs=1e-5)
    assert off.cost_usd_per_month - on.cost_usd_per_month == near(monthly(2.21 - 0.73, 4 * share))


def commitments(off: Plan, on: Plan) -> None:
    """Two instances never stop: they cost $1.20 instead of $1.86."""
    assert min(deployment(on).replicas_by_slot) == 2
    assert off.cost_usd_per_month - on.cost_usd_per_month == near(monthly(1.86 - 1.20, 2))


def paid_up_front(off: Plan, on: Plan) -> None:
    """$5,256 a year is $0.60 an hour, so they cost $1.10 instead of $1.20; the rest is owed by the hour."""
    by_the_hour = 5256 / (12 * HOURS) + 0.50
    assert by_the_hour == pytest.approx(1.10)
    assert off.cost_usd_per_month - on.cost_usd_per_month == near(monthly(1.20 - by_the_hour, 2))
    (paid,) = on.commitments
    assert (paid.instances, paid.upfront_usd) == (2, 2 * 5256)
    assert paid.beyond_horizon_usd == pytest.approx(monthly(0.50, 2) * 9)


def savings_plan(off: Plan, on: Plan) -> None:
    """A dollar covers an instance. Two never stop, and a third runs in enough hours: 57% of them at $1.86 are $1.06."""
    (line,) = on.fleet
    assert off.fleet[0].instances_by_slot == line.instances_by_slot
    running = [hours([n > k for n in line.instances_by_slot], on) / HOURS for k in range(4)]
    assert running[:2] == pytest.approx([1, 1])
    assert [1.86 * share > 1.00 for share in running] == [True, True, True, False]
    assert running[2] == pytest.approx(0.57, abs=0.005)
    covered = hours([min(n, 3) for n in line.instances_by_slot], on)
    assert off.cost_usd_per_month - on.cost_usd_per_month == near(1.86 * covered - monthly(1.00, 3))


def provisioned(off: Plan, on: Plan) -> None:
    """A unit holds 3,000 tokens a minute at $2 a million: $0.36 an hour for $0.30. Output is priced as it counts."""
    (signed,) = on.allowances or ()
    each = 60 * 3000 * 2e-6
    bills = [0.0] * len(on.slots)
    for w, (read, written) in zip(on.workloads, ((1200, 300), (6000, 400)), strict=True):
        for flow in w.api_flows:
            bills[flow.slot] += 3600 * sum(flow.requests_per_s) * (2 * read + 8 * written) / 1e6
    usd = [
        monthly(0.30, units)
        + sum(max(0.0, bill - units * each) * s.hours_per_month for bill, s in zip(bills, on.slots, strict=True))
        for units in (0, signed.units - 5, signed.units, signed.units + 5)
    ]
    assert min(usd) == usd[2]
    assert (off.cost_usd_per_month, on.cost_usd_per_month) == (near(usd[0]), near(usd[2]))


def prefix_cache(off: Plan, on: Plan) -> None:
    """Of 3,000 prompt tokens 1,350 are found: prefill falls by 45%, decoding stays."""
    fewer_gpus(off, on, (3000 - 0.9 * 1500) / 3000)


def template_cache(off: Plan, on: Plan) -> None:
    """Of the 1,650 tokens that are left, 360 more are found. A semantic cache would cost more than it saves."""
    fewer_gpus(off, on, (1650 - 0.6 * 600) / 1650)
    d, rate = deployment(on).deployment, 4e6 / 86400
    saved = monthly(1.861, replicas(d, rate * seconds(on)) - replicas(d, 0.8 * rate * seconds(on)))
    embedding = 4e6 * DAYS * 3000 * 0.02 / 1e6
    assert saved == near(monthly(1.861, 3))
    assert embedding == near(7300)
    assert "semantic" not in on.workloads[0].caching


def fewer_gpus(off: Plan, on: Plan, tokens_left: float) -> None:
    assert tokens_left < seconds(on) / seconds(off) < 1
    for plan in (off, on):
        n = replicas(deployment(plan).deployment, 4e6 / 86400 * seconds(plan))
        assert plan.cost_usd_per_month == near(monthly(1.861, n))


def semantic_cache(off: Plan, on: Plan) -> None:
    """A fifth of the bill of GPT-4o ($2.50 and $10 for a million tokens), less the store and all embeddings."""
    requests = 60e3 * DAYS
    bill = requests * (600 * 2.50 + 200 * 10) / 1e6
    assert off.cost_usd_per_month == near(bill)
    assert bill - on.cost_usd_per_month == near(0.2 * bill - 300 - requests * 600 * 0.02 / 1e6)


def prefix_at_an_api(off: Plan, on: Plan) -> None:
    """10,000 requests an hour, of which 85% find 2,048 of their 2,304 tokens: $8.70 an hour at $0.50 for a million."""
    before, found = 10_000 * 2304, 10_000 * 0.85 * 2048
    assert before == 23_040_000
    assert before - found == pytest.approx(5_632_000)
    assert found / before == pytest.approx(0.756, abs=5e-4)
    saved = (off.cost_usd_per_month - on.cost_usd_per_month) / HOURS
    assert saved == pytest.approx(found * 0.50 / 1e6)
    assert round(saved, 2) == 8.70
    assert on.costs.api_usd_per_month == on.cost_usd_per_month


def sharing(off: Plan, on: Plan) -> None:
    """Three times two replicas that are hardly busy become two; the margin for all of them fits in there."""
    assert [max(deployment(off, of=w.name).replicas_by_slot) for w in off.workloads] == [2, 2, 2]
    assert deployment(on).utilization_frac == pytest.approx(sum(d.utilization_frac for d in each(off)), rel=1e-3)
    assert off.cost_usd_per_month - on.cost_usd_per_month == near(monthly(1.861, 4))


def each(plan: Plan) -> list[DeploymentPlan]:
    return [d for pool in plan.pools for d in pool.deployments]


def ten_tenants(off: Plan, on: Plan) -> None:
    """Ten times two replicas, 44% busy, against one fleet that follows the load of all and is 77% busy.

    Ten equal tenants whose swings of 20% have a correlation of 0.3 swing by 12.2% together, so the margin is smaller;
    ten adapters on a model of 8B add 4.4% to the time of a request.
    """
    assert off.cost_usd_per_month == near(monthly(1.861, 20))
    assert {round(d.utilization_frac, 2) for d in each(off)} == {0.44}
    (shared,) = each(on)
    assert round(shared.utilization_frac, 2) == 0.77
    kept_back = [1 + d.deployment.kept_back_frac for d in (shared, each(off)[0])]
    assert seconds(on) / kept_back[0] / (seconds(off, of="alder") / kept_back[1]) == pytest.approx(1.044, abs=5e-4)
    together = 0.2 * sqrt((1 - 0.3) / 10 + 0.3)
    w = on.case.workloads[0]
    days = {"weekday": w.weekday_rps, "weekend": w.weekend_rps}
    needed = [replicas(shared.deployment, 10 * days[s.day][s.hour] * seconds(on), together) for s in on.slots]
    assert on.cost_usd_per_month == near(1.861 * (hours(needed, on) + starts(needed, on) * 300 / 3600))


def deferral(off: Plan, on: Plan) -> None:
    """In the hour in which it arrives, work needs eight GPUs; spread over the 19 hours that it may take, three."""
    load = 28e3 / 3600 * seconds(on)
    assert off.cost_usd_per_month == near(monthly(0.35, replicas(deployment(off).deployment, load)))
    assert on.cost_usd_per_month == near(
        monthly(0.35, ceil(8 * load / (19 * deployment(on).deployment.most_load_frac)))
    )
    assert hours(deployment(on).replicas_by_slot, on) >= 8 * load * DAYS


def batch_api(off: Plan, on: Plan) -> None:
    """GPT-4o mini asks $0.15 and $0.60 for a million tokens, and half of it for a batch."""
    assert off.cost_usd_per_month == near(200e3 * DAYS * (1000 * 0.15 + 200 * 0.60) / 1e6)
    assert on.cost_usd_per_month == near(off.cost_usd_per_month / 2)


def overflow(off: Plan, on: Plan) -> None:
    """Two committed GPUs less, and the API for what two do not carry in an hour a day."""
    d = deployment(on).deployment
    low, high = 0.0, 2.0
    while high - low > 1e-12:
        middle = (low + high) / 2
        low, high = (middle, high) if replicas(d, middle) <= 2 else (low, middle)
    left = 120e3 - low / seconds(on) * 3600
    bought = left * DAYS * (800 * 0.15 + 150 * 0.60) / 1e6
    assert off.cost_usd_per_month - on.cost_usd_per_month == near(monthly(1.1724, 2) - bought)


def kinds_of_gpu(off: Plan, on: Plan) -> None:
    """The small workload leaves three L4s at $0.49 for two of the A100s at $1.39 that the large one needs."""
    assert {f.gpu for f in on.fleet} == {"a100-80gb-pcie"}
    assert {f.gpu for f in off.fleet} == {"a100-80gb-pcie", "l4"}
    assert on.cost_usd_per_month - off.cost_usd_per_month == near(monthly(1.39, 2) - monthly(0.49, 3))


def budget(off: Plan, on: Plan) -> None:
    """$600 pays for two of the three GPUs: what they do not carry is shed, at $2 for a thousand."""
    assert (off.cost_usd_per_month, on.cost_usd_per_month) == (near(monthly(0.35, 3)), near(monthly(0.35, 2)))
    d, rate = deployment(on).deployment, 500e3 / 86400
    carried = deployment(on).load_by_slot[0]
    assert replicas(d, carried * (1 - 1e-9)) == 2
    assert replicas(d, carried * (1 + 1e-6)) == 3
    shed = (rate - carried / seconds(on)) * 3600 * HOURS
    assert on.workloads[0].shed_requests_per_month == pytest.approx(shed)
    assert on.penalty_usd_per_month == near(2 * shed / 1000)


def starting(off: Plan, on: Plan) -> None:
    """20 minutes of each of the instances that are started in the course of a day."""
    started = starts(deployment(off).replicas_by_slot, off)
    assert on.fleet[0].starts_per_month == pytest.approx(started)
    assert on.cost_usd_per_month - off.cost_usd_per_month == near(started * 20 / 60 * 1.861)


def residency(off: Plan, on: Plan) -> None:
    """The same two GPUs at $2.327 instead of $1.861."""
    assert (off.fleet[0].offer, on.fleet[0].offer) == ("aws/g6e.xlarge@us-east-1", "aws/g6e.xlarge@eu-central-1")
    assert on.cost_usd_per_month - off.cost_usd_per_month == near(monthly(2.327 - 1.861, 2))


def drafts(off: Plan, on: Plan) -> None:
    """Eight GPUs keep 16 ms by themselves. With drafts two do: a step takes longer, and brings more than it takes.

    Both stand on at least two boxes of eight in every hour.
    """
    for plan, gpus in ((off, 8), (on, 2)):
        planned = deployment(plan)
        d = planned.deployment
        assert d.gpus_per_replica == gpus
        counts = [replicas(d, load) for load in planned.load_by_slot]
        assert counts == list(planned.replicas_by_slot)
        boxes = [max(2, ceil(n * gpus / 8)) for n in counts]
        assert plan.cost_usd_per_month == near(55.04 * hours(boxes, plan))
    d = deployment(on).deployment
    assert deployment(off).deployment.speculation is None
    assert d.speculation is not None and d.accepted_tokens is not None
    (known,) = on.case.workloads[0].drafts or ()
    assert d.accepted_tokens == pytest.approx(1 + sum(known.chances[: int(d.speculation[-1])]))
    assert d.tpot_ms <= 16


EXPLAINED: dict[str, Callable[[Plan, Plan], None]] = {
    "drafts": drafts,
    "two deployments": two_deployments,
    "quantization": quantization,
    "a smaller model": smaller_model,
    "spot": spot,
    "commitments": commitments,
    "paid up front": paid_up_front,
    "savings plan": savings_plan,
    "provisioned throughput": provisioned,
    "prefix cache": prefix_cache,
    "template cache": template_cache,
    "semantic cache": semantic_cache,
    "prefix at an API": prefix_at_an_api,
    "sharing replicas": sharing,
    "LoRA adapters": ten_tenants,
    "waiting": deferral,
    "batch API": batch_api,
    "API overflow": overflow,
}
LIMITS: dict[str, Callable[[Plan, Plan], None]] = {
    "kinds of GPU": kinds_of_gpu,
    "budget": budget,
    "start-up": starting,
    "residency": residency,
}


def test_the_page_has_every_lever_and_every_example() -> None:
    assert [row.lever for row in rows()] == [*EXPLAINED, *LIMITS]
    files = {str(path.relative_to(ROOT)) for path in (ROOT / "examples" / "levers").glob("*.yaml")}
    assert files <= {row.example for row in rows()}


@for_each("row", rows())
def test_a_lever_costs_what_the_page_says_and_why(row: Row) -> None:
    off, on = planned(row.example, row.off), planned(row.example, row.on)
    dearer, cheaper = (off, on) if row.lever in EXPLAINED else (on, off)
    assert objective(cheaper) < objective(dearer) * (1 - dearer.gap_frac)
    for plan, said in ((off, row.cost_off), (on, row.cost_on)):
        rounding = 0.501 * (1 + (plan.penalty_usd_per_month > 0))
        assert objective(plan) == pytest.approx(said, abs=rounding + plan.gap_frac * objective(plan))
    change = (objective(off) - objective(on)) / objective(off)
    assert abs(change) == pytest.approx(row.frac, abs=5.1e-4)
    (EXPLAINED | LIMITS)[row.lever](off, on)


def test_a_base_and_spot_cost_what_the_article_says() -> None:
    """$6,453 + $1,279 = $7,732 a month: less than six on-demand GPUs, than as many as it runs, and than eight."""
    example, on_demand = "examples/spot-and-on-demand.yaml", "menu: {purchase: [on-demand]}"
    mix = planned(example)
    base, peak = mix.fleet
    assert (base.purchase, set(base.instances_by_slot)) == ("on-demand", {4})
    assert (peak.purchase, set(peak.instances_by_slot)) == ("spot", {0, 4})
    assert [round(f.cost_usd_per_month) for f in mix.fleet] == [6453, 1279]
    assert round(mix.cost_usd_per_month) == 7732
    six, eight = (planned(example, f"{on_demand}\nforecast: {{hourly: {[r] * 24}}}") for r in (20_000, 27_000))
    assert [max(p.fleet[0].instances_by_slot) for p in (six, eight)] == [6, 8]
    assert round(six.cost_usd_per_month) == 9680
    against = (six, planned(example, on_demand), eight)
    saved = [1 - mix.cost_usd_per_month / p.cost_usd_per_month for p in against]
    assert [f"{s:.1%}" for s in saved] == ["20.1%", "25.1%", "40.1%"]
    assert round(planned(example, "policy: {min_replicas: 2}").cost_usd_per_month) == 6868
    gpu_hours = mix.costs.on_demand_usd_per_month / 2.21 + mix.costs.spot_usd_per_month / 0.73
    assert gpu_hours / HOURS == pytest.approx(6.4, abs=1e-4)


def test_larger_tenants_have_less_to_share() -> None:
    """With 1.2M requests a day each, their own GPUs are 53% busy, and sharing saves 30%."""
    larger = "forecast: {requests_per_day: 1200000}"
    on, off = (planned("examples/ten-tenants.yaml", larger + more) for more in ("", "\nmenu: {tenancy: [dedicated]}"))
    assert round(each(off)[0].utilization_frac, 2) == 0.53
    assert round(1 - on.cost_usd_per_month / off.cost_usd_per_month, 2) == 0.30


def test_a_budget_without_shedding_is_too_small() -> None:
    with pytest.raises(planner.Infeasible, match="budget"):
        planner.plan_fleet(case_of("examples/levers/shedding.yaml", "shed: null"))
