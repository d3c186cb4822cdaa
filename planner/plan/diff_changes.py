"""Differences of two plans, part by part: costs, fleet, workloads, limits and inputs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from planner.case.case import Case, LatencyTarget, PrefixReuse, Workload
from planner.catalog.variant import TENSOR
from planner.plan.account.account import account_of
from planner.plan.diff_records import CostChange, FleetChange, ValueChange
from planner.plan.plan import FleetLine, Plan, WorkloadPlan

Value = str | float | None
HELD, PAID_ANYWAY = "held", "paid in any case, $/month"
"""of what is held, which is no part of the costs that are compared"""
NEAR = 1e-9
"""two figures that differ by less than this share are equal"""


def cost_changes(before: Plan, after: Plan) -> Iterator[CostChange]:
    then, now = dict(before.costs), dict(after.costs)
    for key in then:
        if then[key] is None and now[key] is None:
            continue
        part = key.removesuffix("_usd_per_month").replace("_", " ")
        yield _cost(part, then[key] or 0.0, now[key] or 0.0)
    yield _cost("total", before.cost_usd_per_month, after.cost_usd_per_month)


def _cost(part: str, then: float, now: float) -> CostChange:
    return CostChange(part=part, before_usd_per_month=then, after_usd_per_month=now, change_usd_per_month=now - then)


def fleet_changes(before: Plan, after: Plan) -> Iterator[FleetChange]:
    """Lines that were added, removed, or have other counts or another cost."""
    then = {(f.offer, f.purchase): f for f in before.fleet}
    now = {(f.offer, f.purchase): f for f in after.fleet}
    for key in dict.fromkeys([*then, *now]):
        a, b = then.get(key), now.get(key)
        hours = _hours(before, a), _hours(after, b)
        peaks = _peak(a), _peak(b)
        usd = (a.cost_usd_per_month if a else 0.0), (b.cost_usd_per_month if b else 0.0)
        if peaks[0] == peaks[1] and _near(*hours) and _near(*usd):
            continue
        line = a or b
        assert line is not None
        yield FleetChange(
            what="added" if a is None else "removed" if b is None else "changed",
            offer=line.offer, purchase=line.purchase, gpu=line.gpu, peak_before=peaks[0], peak_after=peaks[1],
            instance_hours_before=hours[0], instance_hours_after=hours[1], usd_before=usd[0], usd_after=usd[1],
        )  # fmt: skip


def _peak(line: FleetLine | None) -> int:
    return max(line.instances_by_slot) if line else 0


def _hours(plan: Plan, line: FleetLine | None) -> float:
    """Instance-hours a month."""
    return account_of(plan).a_month(line.instances_by_slot) if line else 0.0


def workload_changes(before: Plan, after: Plan) -> Iterator[ValueChange]:
    then, now = (_described(plan) for plan in (before, after))
    for name in dict.fromkeys([*then, *now]):
        if name not in now or name not in then:
            there = "removed" if name in then else "added"
            figures = then.get(name) or now[name]
            tokens = figures["tokens per month"]
            yield ValueChange(
                of=name, key=f"{there}, tokens per month",
                before=tokens if name in then else None, after=tokens if name in now else None,
            )  # fmt: skip
        else:
            yield from _changed(name, then[name], now[name])


def _described(plan: Plan) -> dict[str, dict[str, Value]]:
    asked = {w.name: w for w in plan.case.workloads}
    return {w.name: {**_told(plan, w), **_asked(asked[w.name])} for w in plan.workloads}


def _told(plan: Plan, w: WorkloadPlan) -> dict[str, Value]:
    """What the plan does with a workload."""
    hosted = [d.deployment for d in plan.pool_of(w.name).deployments]
    names = [f"{d.model} on {d.variant.gpus}, {d.offer}" for d in hosted]
    others = [name for name in plan.pool_of(w.name).workloads if name != w.name]
    return {
        "requests per month": w.requests_per_month,
        "tokens per month": w.tokens_per_month,
        "deployment": " + ".join(names) or None,
        "quantization": " + ".join(w.quantizations) or None,
        "shared with": ", ".join(others) or None,
        "caching": w.caching,
        "api": w.api,
        "api share": w.api_share_frac,
        "shed": w.shed_share_frac,
        "refused share": w.refused_share_frac or 0.0,
        "cost, $/month": w.cost_usd_per_month,
        "cost, $/1M tokens": w.usd_per_1m_tokens,
    }


def _curve(reuse: PrefixReuse) -> str:
    """A curve of reuse by its ends: what the largest cache finds, and at what rate it was measured."""
    last = reuse.points[-1]
    return f"up to {last.hit_frac:.1%} in {last.cache_tokens:,.0f} tokens, at {reuse.tokens_per_s:,.0f} tokens/s"


def _asked(w: Workload) -> dict[str, Value]:
    """What a workload asks for."""
    tokens = [sum(b.share_frac * getattr(b, f"{end}_tokens") for b in w.buckets) for end in ("input", "output")]
    return {
        "models": ", ".join(c.model for c in w.models),
        "input tokens": tokens[0],
        "output tokens": tokens[1],
        "longest request, tokens": w.length_limit.tokens if w.length_limit else None,
        "peak requests per s": max(*w.weekday_rps, *w.weekend_rps),
        "growth per month": w.growth_per_month_frac,
        "variation": w.rate_cv,
        "burstiness": w.arrival_scv,
        "shared prefix tokens": w.shared_prefix_tokens,
        "prefix hit share": w.prefix_hit_frac,
        "prefix reuse": None if w.prefix_reuse is None else _curve(w.prefix_reuse),
        "semantic hit share": w.semantic_hit_frac,
        "adapter, GB": w.adapter_gb,
        "slo ttft": _objective(w.ttft),
        "slo tpot": _objective(w.tpot),
        "slo e2e": _objective(w.e2e),
        "slo e2e per token": _objective(w.e2e_per_token),
        "quality max loss": w.max_quality_loss_frac,
        "critical share": w.critical_share_frac,
        "deadline, h": w.deadline_h,
        "api allowed": ("no smaller" if w.smaller_apis_forbidden else "yes") if w.api_allowed else "no",
        "baseline": w.baseline,
        "may share": "yes" if w.sharing else "no",
        "may cache": ", ".join(w.caching),
        "regions": ", ".join(w.regions) if w.regions else None,
        "providers": ", ".join(w.providers) if w.providers else None,
        "penalty of a request, $": w.shed_usd_per_request,
    }


def _objective(objective: LatencyTarget | None) -> Value:
    return f"{objective.seconds:g} s at p{100 * objective.percentile:g}" if objective else None


def limit_changes(before: Plan, after: Plan) -> Iterator[ValueChange]:
    yield from _changed("policy", *(_limits(plan.case) for plan in (before, after)))


def _limits(case: Case) -> dict[str, Value]:
    found: dict[str, Value] = {}
    for key, value in case.limits:
        if isinstance(value, dict):
            found |= {f"{key}.{name}": float(most) for name, most in value.items()}
        elif key == "parallelism":
            found[key] = ", ".join(value or (TENSOR,))
        elif key == "speculation":
            found[key] = ", ".join(value) if value else None
        else:
            found[key] = value if value is None or isinstance(value, str) else float(value)
    return found


def input_changes(before: Plan, after: Plan) -> Iterator[ValueChange]:
    """What was on the menu, entries of the catalog that read otherwise now, and the version."""
    a, b = before.case, after.case
    yield from _menu(a, b)
    for kind in ("gpus", "models", "quantizations", "efficiency"):
        then, now = getattr(a, kind), getattr(b, kind)
        edited = [key for key in then if key in now and then[key] != now[key]]
        if edited:
            yield ValueChange(of="catalog", key=kind, before=None, after=f"other figures: {', '.join(edited)}")
    for key in ("engine", "start", "tenancy", "profiles"):
        if getattr(a, key) != getattr(b, key):
            yield ValueChange(
                of="catalog" if key == "engine" else "inputs", key=key, before=None, after="other figures"
            )
    yield from _changed(HELD, {PAID_ANYWAY: before.held_usd_per_month}, {PAID_ANYWAY: after.held_usd_per_month})
    for of, of_plan in (("signed", _signed), ("allowances", _allowances)):
        yield from _changed(of, of_plan(before), of_plan(after))
    yield from _changed("fleetplan", {"version": before.fleetplan_version}, {"version": after.fleetplan_version})


def _signed(plan: Plan) -> dict[str, Value]:
    """Units of savings plans and provisioned throughput that a plan signs or holds."""
    return {f"{a.name}, units": a.units for a in plan.allowances or ()}


def _allowances(plan: Plan) -> dict[str, Value]:
    """What may be signed or is held, and its price."""
    found: dict[str, Value] = {}
    for a in plan.case.allowances or ():
        found[f"{a.name}, $/h of a unit"] = a.usd_per_h
        found[f"{a.name}, held units"] = a.held
        found |= {f"{a.name}, {offer}, $/h": rate for offer, rate in (a.rates or {}).items()}
        if a.tokens_per_minute is not None:
            found[f"{a.name}, tokens per minute of a unit"] = a.tokens_per_minute
    return found


def _menu(before: Case, after: Case) -> Iterator[ValueChange]:
    """Show what was removed from and added to each list, and both values of everything else."""
    lists: dict[str, tuple[Iterable[str], Iterable[str]]] = {
        "gpus": (before.gpus, after.gpus),
        "quantizations": (before.quantizations, after.quantizations),
        "offers": (before.offers, after.offers),
        "purchase": (before.purchase, after.purchase),
        "apis": (before.menu_apis, after.menu_apis),
    }
    for key, (then, now) in lists.items():
        went, came = ([name for name in some if name not in others] for some, others in ((then, now), (now, then)))
        if went or came:
            yield ValueChange(of="menu", key=key, before=", ".join(went) or None, after=", ".join(came) or None)
    sides: list[dict[str, Value]] = [{"baseline": c.baseline, "engine": c.engine_name} for c in (before, after)]
    yield from _changed("menu", *sides)


def _changed(of: str, then: dict[str, Value], now: dict[str, Value]) -> Iterator[ValueChange]:
    for key in dict.fromkeys([*then, *now]):
        a, b = then.get(key), now.get(key)
        numbers = isinstance(a, int | float) and isinstance(b, int | float)
        if not (_near(a, b) if numbers else a == b):
            yield ValueChange(of=of, key=key, before=a, after=b)


def _near(a: Value, b: Value) -> bool:
    assert isinstance(a, int | float) and isinstance(b, int | float)
    return abs(a - b) <= NEAR * max(abs(a), abs(b), 1.0)
