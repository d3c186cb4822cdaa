"""Plans to report on: real ones, changed copies of them, and studies written by hand."""

from __future__ import annotations

from functools import cache

import planner
from planner.candidates.rejection import RejectionKind
from planner.case.case import Month
from planner.plan.plan import Plan, RejectionRecord
from planner.plan.study_records import BreakEven, Crossing, ProviderBill, StepRecord, Studies, VolumePoint, Waterfall
from tests.support.lever_plans import lever_plan
from tests.support.shared_plans import plan_of

HOSTILE = (
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "]]></style></title><svg onload=alert(1)>",
    "W" * 80,
    "مرحبا بالعالم ‮ 🦙🦙",
    "' onmouseover='alert(1)",
)
"""names of workloads"""


@cache
def hostile_plan() -> Plan:
    """A workload for each hostile name, two of which share replicas."""
    workloads = "".join(
        f"  - name: {_quoted(name)}\n    models: [llama-3.1-8b]\n    forecast: {{requests_per_day: {100 + k}k}}\n"
        f"    tenancy: {'shared' if k < 2 else 'dedicated'}\n    api: {'allowed' if k == 4 else 'forbidden'}\n"
        for k, name in enumerate(HOSTILE)
    )
    text = f"name: {_quoted(HOSTILE[0])}\nworkloads:\n{workloads}menu: {{gpus: [l40s, l4], quantizations: [fp8, fp16], "
    text += "max_deployments: 1}\nbaseline: openai/gpt-4o-mini\n"
    return plan_of(planner.case_from_text(text), planner.Options(gap_frac=0.3, node_limit=50))


def _quoted(name: str) -> str:
    return '"' + name.replace("\\", "\\\\").replace('"', '\\"').replace("‮", "\\u202E") + '"'


def studied(plan: Plan) -> Plan:
    """With studies by hand: a step without a plan, a step that is dearer, and two crossings."""
    steps, cost = [], plan.cost_usd_per_month
    before: float | None = None
    for key, factor in (("naive", 9.0), ("batching", 3.0), ("right-sizing", None), ("quantization", 1.8),
                        ("caching", 1.9), ("everything", 1.0)):  # fmt: skip
        usd = None if factor is None else factor * cost
        saves = before - usd if usd is not None and before is not None else None
        steps.append(
            StepRecord(
                key=key,
                title=key.capitalize(),
                said=f"what {key} may do",
                status="optimal" if usd else "infeasible",
                cost_usd_per_month=usd,
                bound_usd_per_month=usd,
                usd_per_1m_tokens=factor,
                saves_usd_per_month=saves,
                saves_frac=None if saves is None or before is None else saves / before,
                fleet=("3 x aws/p5 (h100)",),
            )
        )
        before = usd if usd is not None else before
    waterfall = Waterfall(
        steps=tuple(steps), saves_usd_per_month=8 * cost, saves_frac=8 / 9, notes=("a note on the waterfall",)
    )
    return plan.model_copy(
        update={"studies": Studies(waterfall=waterfall, break_even=_break_even(plan), providers=_bills(plan))}
    )


def _break_even(plan: Plan) -> BreakEven:
    volume, api = plan.tokens_per_month, plan.baseline.cost_usd_per_month
    points = tuple(
        VolumePoint(
            multiple=m, tokens_per_month=m * volume, api_usd_per_month=m * api,
            self_hosted_usd_per_month=None if m < 0.02 else 0.4 * api * m**0.5,
            self_hosted_bound_usd_per_month=None if m < 0.02 else 0.39 * api * m**0.5,
            mixed_usd_per_month=min(m * api, 0.4 * api * m**0.5), mixed_bound_usd_per_month=0.0,
        )
        for m in (0.01, 0.1, 0.5, 1.0, 3.0, 10.0)
    )  # fmt: skip
    crossings = tuple(
        Crossing(multiple=m, tokens_per_month=m * volume, usd_per_month=m * api, between_multiples=(0.9 * m, 1.1 * m),
                 cheaper_from_here=way)
        for m, way in ((0.16, "self-hosted"), (0.3, "api"))
    )  # fmt: skip
    return BreakEven(
        provider="openai", model="gpt-4o-mini", engineers_usd_per_month=25_000.0, points=points, crossings=crossings,
        mixed_crossings=crossings[:1], notes=("nothing was looked at above 10 times",),
    )  # fmt: skip


def _bills(plan: Plan) -> tuple[ProviderBill, ...]:
    names = tuple(w.name for w in plan.workloads)
    return tuple(
        ProviderBill(provider=provider, model="m", role=role, workloads=names[:n], cost_usd_per_month=usd,
                     without_discounts_usd_per_month=1.2 * usd, usd_per_1m_tokens=0.5, source="a list",
                     prices=plan.case.apis[plan.case.baseline])
        for provider, role, n, usd in (("one", "baseline", len(names), 4321.0), ("two", "same model", 1, 1234.0))
    )  # fmt: skip


def big_plan(workloads: int = 100, months: int = 3) -> Plan:
    """As many workloads, each with its own pool, options and rejections, and as many months."""
    small = lever_plan("mixed")
    w, pool, case_w = small.workloads[0], small.pools[0], small.case.workloads[0]
    days = len(small.slots)
    slots = tuple(s.model_copy(update={"month": m}) for m in range(months) for s in small.slots)

    def longer(values: tuple[int, ...] | tuple[float, ...]) -> tuple[float, ...]:
        return tuple(v for _ in range(months) for v in values)

    by_slot = ("replicas_by_slot", "firm_replicas_by_slot", "load_by_slot")
    deployments = tuple(d.model_copy(update={k: longer(getattr(d, k)) for k in by_slot}) for d in pool.deployments)
    names = [f"workload-number-{k}-of-a-large-company" for k in range(workloads)]
    flows = tuple(
        tuple(f.model_copy(update={"slot": f.slot + m * days}) for m in range(months) for f in of)
        for of in w.deployment_flows
    )
    options = tuple(
        o.model_copy(update={"workload": n, "cost_usd_per_month": 100.0 + j + k, "chosen": o.chosen and j == 0})
        for k, n in enumerate(names)
        for j in range(40)
        for o in small.options[:2]
    )
    rejected = tuple(
        RejectionRecord(workload=n, candidate=f"llama-3.1-8b fp8 on {j} x h100 for {n}", reason=f"reason {j % 20}",
                        limit=f"{j % 20} ms", value=f"{j} ms", kind=RejectionKind.UNABLE, model="llama-3.1-8b",
                        quantization="fp8", gpu="h100", gpus_per_replica=j) for n in names for j in range(60)
    )  # fmt: skip
    return small.model_copy(
        update={
            "slots": slots,
            "case": small.case.model_copy(
                update={
                    "workloads": tuple(case_w.model_copy(update={"name": n}) for n in names),
                    "months": tuple(Month(label=f"month {m + 1}") for m in range(months)),
                }
            ),
            "workloads": tuple(w.model_copy(update={"name": n, "pool": n, "deployment_flows": flows}) for n in names),
            "pools": tuple(
                pool.model_copy(update={"key": n, "workloads": (n,), "deployments": deployments}) for n in names
            ),
            "fleet": tuple(
                f.model_copy(update={"instances_by_slot": longer(f.instances_by_slot), "gpu": f"gpu-{k}"})
                for k in range(8)
                for f in small.fleet
            ),
            "options": options,
            "rejected": rejected,
        }
    )
