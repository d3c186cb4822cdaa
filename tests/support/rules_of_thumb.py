"""Rules of thumb about the cost of serving, each put to the test: the rows of docs/evidence/rules-of-thumb.md.

Figures and verdicts are worked out here, by planning; the page is written with `python tests/refresh.py`.
"""

from __future__ import annotations

import math
import re
import statistics
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache

import planner
from planner.catalog.entries import shipped_catalog
from planner.catalog.variant import Variant
from planner.performance.closed_loop import closed_loop
from planner.performance.machine_by_name import machine_for
from planner.performance.memory import kv_bytes
from planner.plan.plan import Plan
from planner.studies.break_even import break_even
from planner.studies.study import providers
from planner.studies.waterfall import waterfall
from problems.constants import HOURS_PER_MONTH
from tests.support.places import ROOT
from tests.support.shared_plans import example_plan, fleet_plan

PAGE = ROOT / "docs" / "evidence" / "rules-of-thumb.md"
ARTICLE_USD_PER_H = {"h100": 4.50, "a100-80gb": 2.21, "a10g": 1.01, "l4": 0.54, "t4": 0.38}
TABLE = re.compile(r"(<!-- table: (\S+) -->\n)(.*?)(<!-- end -->)", re.DOTALL)


@dataclass(frozen=True)
class Rule:
    claim: str
    found: str
    verdict: str
    """confirmed, refuted, or what it depends on"""

    def row(self) -> str:
        return f"| {self.claim} | {self.found} | {self.verdict} |"


# -- right-sizing at the prices of the articles ---------------------------------------------------------------------


def flat(models: str, gpus: list[str], quantizations: str, requests_per_day: float, hours: int = 24) -> str:
    """A case at the articles' prices; all its requests come within some hours of the day."""
    offers = "".join(
        f"    art/{gpu}-{n}@here: {{provider: art, instance: {gpu}-{n}, region: here, gpu: {gpu}, gpus: {n}, "
        f"prices: {{on_demand: {{usd_per_h: {n * ARTICLE_USD_PER_H[gpu]}}}, "
        f"reserved_1y: {{usd_per_h: {n * ARTICLE_USD_PER_H[gpu]}}}}}}}\n"
        for gpu in gpus
        for n in (1, 2, 4, 8)
    )
    hourly = [requests_per_day / hours if h < hours else 0 for h in range(24)]
    return f"""
workloads:
  - name: w
    models: [{models}]
    forecast: {{hourly: {hourly}, variation: 0%}}
    tokens: {{input: 256, output: 256}}
    slo: {{ttft_p95: 5s, tpot_p95: 100ms}}
    quality: {{max_loss: 2%}}
    api: forbidden
menu: {{gpus: [{", ".join(gpus)}], providers: [art], quantizations: {quantizations}, purchase: [on-demand],
        max_deployments: 1}}
catalog:
  offers:
{offers}policy: {{min_replicas: 1, startup: 0s}}
baseline: openai/gpt-4o-mini
"""


@cache
def plan_of(text: str) -> Plan:
    return planner.plan_fleet(planner.case_from_text(text))


def by_gpu(models: str, gpus: list[str], quantizations: str, requests_per_day: float = 20e6) -> dict[str, float]:
    """$/1M tokens of the best deployment on each GPU alone, the cheapest first."""
    plan = plan_of(flat(models, gpus, quantizations, requests_per_day))
    costs: dict[str, float] = {}
    for o in plan.options:
        if o.gpu is not None and o.cost_usd_per_month is not None:
            usd = 1e6 * o.cost_usd_per_month / plan.tokens_per_month
            costs[o.gpu] = min(usd, costs.get(o.gpu, usd))
    return dict(sorted(costs.items(), key=lambda item: item[1]))


def ranked(costs: dict[str, float]) -> str:
    return ", ".join(f"{gpu} ${usd:.3f}" for gpu, usd in costs.items())


def small_models() -> Iterator[Rule]:
    every = list(ARTICLE_USD_PER_H)
    for model, claim in (("llama-2-7b", "7B"), ("llama-2-13b", "13B")):
        costs = by_gpu(model, every, "[fp16]")
        first = next(iter(costs))
        verdict = "confirmed" if first == "a100-80gb" else f"refuted at these prices: {first}"
        yield Rule(f"A100 80GB is often the cheapest per token at {claim} (FP16, the articles' prices)",
                   f"{ranked(costs)} per 1M tokens", verdict)  # fmt: skip
    costs = by_gpu("qwen3-4b", every, "[int8, fp16]")
    first = next(iter(costs))
    verdict = "confirmed" if first == "l4" else f"refuted at these prices: {first}"
    yield Rule("L4 with INT8 is the cheapest under 7B", f"Qwen3 4B: {ranked(costs)} per 1M tokens", verdict)


def large_models() -> Iterator[Rule]:
    for quantizations, said in (("[fp16]", "FP16"), ("[fp16, fp8, int4-awq]", "any precision within 2% loss")):
        costs = by_gpu("llama-2-70b", ["h100", "a100-80gb"], quantizations, 5e6)
        first = next(iter(costs))
        verdict = "confirmed" if first == "h100" else "refuted at these prices"
        yield Rule(f"H100 is ahead of A100 at 70B and more ({said})", f"{ranked(costs)} per 1M tokens", verdict)


def small_on_large() -> Iterator[Rule]:
    small = by_gpu("llama-2-7b", ["h100"], "[fp16]")["h100"]
    big = by_gpu("llama-2-70b", ["l4"], "[int4-awq, int8]", 2e6)["l4"]
    verdict = "confirmed" if small < big else "refuted"
    yield Rule("A smaller model on a high-end GPU is cheaper than a big one on a cheap GPU",
               f"7B on H100 ${small:.3f}, 70B on L4 ${big:.3f} per 1M tokens", verdict)  # fmt: skip


def bursts() -> Iterator[Rule]:
    """The same requests a day, all day long or in three hours; the fleet kept on all day, or rented by the hour."""
    found = {}
    for hours in (24, 3):
        text = flat("llama-2-7b", ["a100-80gb"], "[fp16]", 5e6, hours)
        found[hours] = plan_of(text).usd_per_1m_tokens
        found[-hours] = plan_of(text.replace("purchase: [on-demand]", "purchase: [reserved-1y]")).usd_per_1m_tokens
    verdict = f"depends on who pays for idle hours: kept on, {found[-3] / found[-24]:.1f} times as expensive"
    yield Rule("Steady load is cheaper than bursts of the same requests",
               f"kept on: steady ${found[-24]:.3f}, three hours a day ${found[-3]:.3f}; "
               f"rented by the hour: ${found[24]:.3f} and ${found[3]:.3f} per 1M tokens", verdict)  # fmt: skip


# -- figures --------------------------------------------------------------------------------------------------------


def unit_economics() -> Iterator[Rule]:
    group = 2400 * 0.70 * 3600 * HOURS_PER_MONTH
    usd = 4 * 2.21 * HOURS_PER_MONTH / group * 1e6
    groups = math.ceil(10e9 / group)
    yield Rule("4 x A100 at $2.21, 2,400 tok/s and 70% busy: $1.46 per 1M tokens", f"${usd:.3f}",
               "confirmed" if round(usd, 2) == 1.46 else "refuted")  # fmt: skip
    yield Rule("4 x A100 cost $6,453 a month at 1B and at 10B tokens",
               f"${4 * 2.21 * HOURS_PER_MONTH:,.0f} for up to {group / 1e9:.1f}B tokens; 10B need {groups} such groups",
               "confirmed at 1B, refuted at 10B" if group < 10e9 else "confirmed")  # fmt: skip
    kv = float(kv_bytes(shipped_catalog().models["llama-2-7b"], shipped_catalog().quantizations["fp16"], 2048)) / 1e9
    yield Rule("The KV cache of 2,048 tokens takes about 0.8 GB on a 7B model in FP16", f"{kv:.2f} GB",
               "confirmed" if abs(kv - 0.8) < 0.05 else "refuted")  # fmt: skip


def batching() -> Iterator[Rule]:
    machine = machine_for(shipped_catalog(), Variant("llama-2-7b", "fp16", "h100", 1), "vllm")
    rates = {n: float(closed_loop(machine, n, 128, 128).requests_per_s) * 128 for n in (1, 64, 256)}
    times = rates[64] / rates[1]
    yield Rule("7B on an H100: about 90 tok/s alone, 4,800 at batch 64 (53 times), flat beyond 64 to 128",
               f"{rates[1]:.0f} alone, {rates[64]:,.0f} at 64 ({times:.0f} times), {rates[256]:,.0f} at 256",
               "confirmed in size" + ("; refuted: not yet flat" if rates[256] > 1.3 * rates[64] else ""))  # fmt: skip


def spot_prices() -> Iterator[Rule]:
    cheaper = [
        1 - o.prices.spot.p50_usd_per_h / o.prices.on_demand.usd_per_h
        for o in shipped_catalog().offers.values()
        if o.prices.spot and o.prices.on_demand
    ]
    median = statistics.median(cheaper)
    inside = sum(0.60 <= c <= 0.70 for c in cheaper) / len(cheaper)
    yield Rule("Spot is 60 to 70% cheaper",
               f"{median:.0%} at the median of {len(cheaper)} offers, from {min(cheaper):.0%} to {max(cheaper):.0%}; "
               f"{inside:.0%} of them inside the range",
               "confirmed" if 0.6 <= median <= 0.7 else "depends on the instance")  # fmt: skip


def levers() -> Iterator[Rule]:
    """Figures that docs/reference/levers.md has; its own tests plan them."""
    text = (ROOT / "docs" / "reference" / "levers.md").read_text(encoding="utf-8")

    def saves(lever: str) -> tuple[str, str, str]:
        row = re.search(rf"^\| {lever} \|.*\| ([^|]+) \| ([^|]+) \| ([^|]+) \|$", text, re.MULTILINE)
        assert row is not None, lever
        return row[1], row[2], row[3]

    def told(lever: str) -> str:
        without, with_it, share = saves(lever)
        return f"{without} without, {with_it} with: {share}"

    yield Rule("A base on demand and spot above it saves 20% (30 to 40% by the text)", told("spot"),
               "confirmed like for like; 20% is against a fleet that carries less")  # fmt: skip
    yield Rule("A cached system prompt takes off 75.6% of the prompt tokens", told("prefix at an API"), "confirmed")
    yield Rule("Prefix and semantic caches together take 40 to 60% off", f"on GPUs, prefix: {told('prefix cache')}; "
               f"semantic: {told('semantic cache')}",
               "depends on the share of prefill and on hits: less in these examples")  # fmt: skip
    yield Rule("Ten tenants at 40% share hardware at 85 to 90%: half the cost", told("LoRA adapters"),
               "nearly: their peaks fall together, their swings do not")  # fmt: skip


# -- build or buy ---------------------------------------------------------------------------------------------------


@cache
def example(name: str) -> Plan:
    return example_plan(f"examples/{name}.yaml")


def build_or_buy() -> Iterator[Rule]:
    plan, ten = example("build-or-buy"), example("build-or-buy-10b")
    bills = f"${plan.baseline.cost_usd_per_month:,.0f} and ${ten.baseline.cost_usd_per_month:,.0f}"
    verdict = "confirmed" if bills == "$6,250 and $62,500" else "refuted"
    yield Rule("1B tokens a month at GPT-4o cost $6,250, 10B $62,500", bills, verdict)
    with_team = first_crossing(plan)
    without = first_crossing(without_engineers(plan))
    verdict = "depends on the team: nearly so with 1.5 engineers, far earlier without"
    verdict = "confirmed" if 2e9 <= without <= with_team <= 5e9 else verdict
    yield Rule("Self-hosting a 70B model pays from 2 to 5B tokens a month",
               f"against GPT-4o, from {with_team / 1e9:.1f}B with 1.5 engineers and {without / 1e9:.1f}B without",
               verdict)  # fmt: skip
    cheapest = min(b.usd_per_1m_tokens for b in providers(plan) if b.role == "same model")
    own = 1e6 * (ten.cost_usd_per_month - ten.costs.engineers_usd_per_month) / ten.tokens_per_month
    yield Rule("The same, against who sells the same open model",
               f"${cheapest:.2f} per 1M tokens there; at 10B tokens a month the GPUs alone are ${own:.2f}",
               "refuted: hosting does not even pay for its GPUs" if own > cheapest else "confirmed")  # fmt: skip


def seven_b() -> Iterator[Rule]:
    text = (ROOT / "examples" / "build-or-buy.yaml").read_text(encoding="utf-8")
    text = text.replace("llama-3.3-70b", "llama-3.1-8b").replace("l40s, a100-80gb, h100", "l4, l40s")
    found = {}
    for api in ("openai/gpt-4o", "openai/gpt-4o-mini"):
        plan = fleet_plan(planner.case_from_text(text.replace("baseline: openai/gpt-4o", f"baseline: {api}")))
        found[api] = (first_crossing(plan, most=320.0), first_crossing(without_engineers(plan)))
    (big, big_alone), (mini, mini_alone) = found.values()
    yield Rule("Self-hosting a 7B model pays from about 0.5B tokens a month",
               f"8B, against GPT-4o: from {big / 1e9:.1f}B with 1.5 engineers, {big_alone / 1e9:.2f}B without; against "
               f"GPT-4o mini: {mini / 1e9:.0f}B and {mini_alone / 1e9:.1f}B",
               "depends on the API that an 8B model stands in for, and on the team")  # fmt: skip


def without_engineers(plan: Plan) -> Plan:
    return plan.model_copy(update={"case": plan.case.model_copy(update={"engineers_usd_per_month": 0.0})})


def first_crossing(plan: Plan, most: float = 32.0) -> float:
    """Tokens a month from which on hosting without an API is cheaper for the first time."""
    hosted = fleet_plan(plan.case.model_copy(update={"menu_apis": ()}))
    crossings = break_even(hosted, grid=(1 / 32, 1.0, most)).crossings
    return next(c.tokens_per_month for c in crossings if c.cheaper_from_here == "self-hosted")


# -- the stack of savings -------------------------------------------------------------------------------------------


def stack() -> str:
    """The waterfall of the quickstart as a table."""
    found, _ = waterfall(example("quickstart"))
    lines = ["| step | $/month | $/1M tokens | saves |", "|---|---|---|---|"]
    for step in found.steps:
        saved = "" if step.saves_frac is None else f"{step.saves_frac:.0%}"
        lines.append(f"| {step.title} | {step.cost_usd_per_month:,.0f} | {step.usd_per_1m_tokens:.3f} | {saved} |")
    lines.append(f"| in all | | | {found.saves_frac:.1%} |")
    return "\n".join(lines) + "\n"


def rules(*groups: Callable[[], Iterator[Rule]]) -> Callable[[], str]:
    def table() -> str:
        rows = [rule.row() for group in groups for rule in group()]
        return "\n".join(["| claim | what the tool finds | verdict |", "|---|---|---|", *rows]) + "\n"

    return table


TABLES: dict[str, Callable[[], str]] = {
    "figures": rules(unit_economics, batching, spot_prices, levers),
    "right-sizing": rules(small_models, large_models, small_on_large, bursts),
    "build-or-buy": rules(build_or_buy, seven_b),
    "stack": stack,
}


def page(text: str) -> str:
    """The page with every table written anew."""
    return TABLE.sub(lambda m: m[1] + TABLES[m[2]]() + m[4], text)


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
