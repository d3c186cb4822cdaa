"""Every limit of a case: budget, quotas, what the team accepts, and what each workload asks for."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator
from dataclasses import replace
from functools import partial
from itertools import product

from planner.candidates.screen import REPLICA_SIZES
from planner.case.api_limits import limits_by_api
from planner.case.apis import is_too_small
from planner.case.boxes import MOST_BOXES, models_without_a_box, most_boxes, with_boxes
from planner.case.case import Case, LatencyTarget, Workload
from planner.case.changes import (
    Change,
    one_after_the_other,
    with_limits,
    with_purchase,
    with_quota,
    with_vendors,
    with_workload,
)
from planner.case.demand.schema import MOST_DEPLOYMENTS
from planner.case.drafts import methods_to_try, with_drafts
from planner.case.length_buckets import SMALLEST_SHARE, given_lengths, spread_lengths, too_long_share
from planner.case.menu import sellable
from planner.case.quality import quality_of
from planner.case.support import support_of
from planner.case.vendors import VENDOR_NAMES, vendors_bought_of
from planner.catalog.entries import Offer
from planner.catalog.variant import PARALLELISMS, TENSOR, Variant
from planner.explanations.relaxations import (
    Alternatives,
    Budget,
    Limit,
    PeriodBudget,
    Shedding,
    SteppedLimit,
)
from planner.io.formatting import percent
from planner.optimization.replan import Experiment

MORE_THAN_ANYONE_NEEDS = 1_000_000
OBJECTIVES = {"ttft": "TTFT", "tpot": "TPOT", "e2e": "E2E", "e2e_per_token": "E2E per token"}
FACTORS = (2.0, 10.0)
"""how far an objective is relaxed to see whether that helps, near ones first: a loose TPOT may break TTFT"""
FAR_FACTORS = (*FACTORS, 100.0, 1000.0)
"""for workloads that nothing can serve"""
DIGITS = 2
"""an objective is relaxed to a figure of so many digits"""
ONE_MORE_FRAC = {"budget": 0.01, "objective": 0.1, "quality": 0.01}
SHED_FACTOR, LEAST_REQUEST_USD = 1000.0, 1e-5
"""penalty of a shed request, in API prices of a request, or in this price where the API is free"""


def every_limit(case: Case, unserved: Collection[str] = ()) -> list[Limit]:
    """Limits of the whole case, then of each workload, the least negotiable last.

    `unserved` are the workloads that nothing can serve.
    """
    found = [*_money(case), *_power(case), *_api_minutes(case), *_quotas(case), *_kinds(case), *_purchases(case)]
    for w in case.workloads:
        factors = FAR_FACTORS if w.name in unserved else FACTORS
        found += [
            *_objectives(w, factors),
            *_quality(case, w),
            *_api(case, w),
            *_residency(case, w),
            *_length(case, w),
            *_shedding(case, w),
        ]
    return found


def _money(case: Case) -> Iterator[Limit]:
    budget = case.limits.budget_usd_per_month
    if budget is not None:
        more = budget * (1 + ONE_MORE_FRAC["budget"])
        label = f"raise the budget by {percent(ONE_MORE_FRAC['budget'])} (policy.budget_usd_per_month)"
        step = Experiment(label, with_limits(budget_usd_per_month=more))
        yield Budget(key="policy.budget_usd_per_month", one_more=step, usd_per_month=budget)
    amount, months = case.limits.budget_usd, case.limits.budget_months
    if amount is not None and months is not None:
        label = f"raise the budget by {percent(ONE_MORE_FRAC['budget'])} (policy.budget)"
        step = Experiment(label, with_limits(budget_usd=amount * (1 + ONE_MORE_FRAC["budget"])))
        yield PeriodBudget(key="policy.budget", one_more=step, amount_usd=amount, months=months)


def _power(case: Case) -> Iterator[Limit]:
    """In round figures up to ten times as much."""
    now = case.limits.power_kw
    if now is not None:

        def to(most: float) -> Experiment:
            return Experiment(f"allow {most:g} kW instead of {now:g} (policy.power_kw)", with_limits(power_kw=most))

        yield _amount("policy.power_kw", now, to)


def _api_minutes(case: Case) -> Iterator[Limit]:
    """What APIs take in a minute, up to ten times as much."""
    most_of = case.limits.api_per_minute or {}
    for api, kind, now in limits_by_api(case):
        key, where = f"{api} {kind}", f"api_limits.{api}.{kind}_per_minute"

        def to(most: float, key: str = key, where: str = where, now: float = now) -> Experiment:
            label = f"get {most:,.0f} a minute instead of {now:,.0f} ({where})"
            return Experiment(label, with_limits(api_per_minute={**most_of, key: most}))

        yield _amount(where, now, to)


def _amount(key: str, now: float, to: Callable[[float], Experiment]) -> Limit:
    """A limit that is raised in round figures up to ten times as much."""
    values = round_figures_above(now, FACTORS[-1])

    def rung(k: int) -> Experiment:
        return to(values[k])

    probes = tuple(max(k for k, most in enumerate(values) if most <= now * f * (1 + 1e-9)) for f in FACTORS)
    more = float(f"{now * (1 + ONE_MORE_FRAC['objective']):.4g}")
    return SteppedLimit(key=key, rung=rung, probes=probes, one_more=to(more))


def _quotas(case: Case) -> Iterator[Limit]:
    for gpu, most in sorted(case.limits.max_gpus.items()):
        boxes = [o.gpus for o in case.offers.values() if o.gpu == gpu and sellable(case, o)]
        if boxes:
            yield _quota("max_gpus", gpu, most, " in total", min(boxes))
    for offer, most in sorted(case.limits.max_instances.items()):
        if sellable(case, case.offers[offer]):
            yield _quota("max_instances", offer, most, "", 1)


def _quota(kind: str, name: str, most: int, within: str, one_more: int) -> Limit:
    def more(n: int) -> Experiment:
        label = f"allow {n} more {name}{within} (policy.{kind}.{name}: {most + n})"
        return Experiment(label, with_quota(kind, name, most + n))

    def rung(k: int) -> Experiment:
        if k == MORE_THAN_ANYONE_NEEDS:
            return Experiment(f"remove the limit on {name} (policy.{kind}.{name})", with_quota(kind, name, None))
        return more(k + 1)

    key = f"policy.{kind}.{name}"
    return SteppedLimit(key=key, rung=rung, probes=(MORE_THAN_ANYONE_NEEDS,), one_more=more(one_more))


def _kinds(case: Case) -> Iterator[Limit]:
    """Counts that the team accepts: kinds of GPU, deployments of a workload, GPUs and number of replicas."""
    limits = case.limits
    kinds = len({o.gpu for o in case.offers.values() if sellable(case, o)})
    if limits.max_gpu_types is not None and limits.max_gpu_types < kinds:
        label = "allow {n} types of GPU instead of {now} (policy.max_gpu_types)"
        yield _count("max_gpu_types", label, limits.max_gpu_types, range(limits.max_gpu_types + 1, kinds + 1))
    yield from _vendors(case)
    if limits.min_replicas > 1:
        label = "lower the minimum number of replicas from {now} to {n} (policy.min_replicas)"
        yield _count("min_replicas", label, limits.min_replicas, range(limits.min_replicas - 1, 0, -1))
    if limits.spread and limits.min_replicas > 1 and any(o.gpus > 1 for o in case.offers.values() if sellable(case, o)):
        label = "let all replicas of a deployment run on one instance (policy.spread: false)"
        step = Experiment(label, with_limits(spread=None))
        yield _permission("policy.spread", step, one_more=step)
    larger = [n for n in REPLICA_SIZES if n > limits.max_gpus_per_replica]
    if larger:
        label = "allow {n} GPUs per replica instead of {now} (menu.max_gpus_per_replica)"
        yield _count("max_gpus_per_replica", label, limits.max_gpus_per_replica, larger, where="menu")
    yield from _boxes(case)
    yield from _parallelism(case)
    yield from _speculation(case)
    at_once = any(w.deadline_h is None for w in case.workloads)  # work that may wait has one deployment
    if limits.max_deployments < MOST_DEPLOYMENTS and at_once:
        label = "allow {n} deployments for a workload instead of {now} (menu.max_deployments)"
        yield _count("max_deployments", label, limits.max_deployments, [limits.max_deployments + 1], where="menu")


def _boxes(case: Case) -> Iterator[Limit]:
    """More boxes for replicas of models that one does not hold."""
    models = models_without_a_box(case)
    now = min((most_boxes(case, model) for model in models), default=MOST_BOXES)
    if now < MOST_BOXES:
        label = f"let a replica span up to {MOST_BOXES} boxes instead of {now} (menu.max_boxes_per_replica)"
        step = Experiment(label, partial(with_boxes, models=models, most=MOST_BOXES))
        yield _permission("menu.max_boxes_per_replica", step, one_more=step)


def _parallelism(case: Case) -> Iterator[Limit]:
    """Ways to share a mixture of experts that the menu leaves out and the engine is not known to lack."""
    now = case.limits.parallelism or (TENSOR,)
    models = [name for name, model in case.models.items() if model.moe]
    variants = [Variant(*names) for names in product(models, case.quantizations, case.gpus)]
    for way in PARALLELISMS if case.limits.max_gpus_per_replica > 1 else ():
        able = (support_of(case, replace(v, parallelism=way)).verdict != "fails" for v in variants)
        if way not in now and any(able):
            ways = tuple(w for w in PARALLELISMS if w in (*now, way))
            measured = "" if way == TENSOR else ", once you have measured it"
            label = f"let GPUs share experts as {way} parallel{measured} (menu.parallelism)"
            step = Experiment(label, with_limits(parallelism=ways))
            yield _permission(f"menu.parallelism.{way}", step, one_more=step)


def _speculation(case: Case) -> Iterator[Limit]:
    """Methods of drafting that the menu leaves out, for models of which somebody published what is accepted."""
    for method in methods_to_try(case):
        label = f"let replicas draft by {method}, once you have measured what is accepted (menu.speculation)"
        step = Experiment(label, partial(with_drafts, method=method))
        yield _permission(f"menu.speculation.{method}", step, one_more=step)


def _vendors(case: Case) -> Iterator[Limit]:
    """How many providers, regions and APIs may be in use, up to all that are on the menu."""
    offers = [key for key, offer in case.offers.items() if sellable(case, offer)]
    every = [kind for kind, _ in vendors_bought_of(case, offers, case.menu_apis)]
    for kind, now in sorted((case.limits.max_vendors or {}).items()):
        values = range(now + 1, every.count(kind) + 1)
        if values:
            yield _one_kind_of_vendor(case, kind, now, values)


def _one_kind_of_vendor(case: Case, kind: str, now: int, values: range) -> Limit:
    key = f"policy.vendors.at_most.{kind}"

    def rung(k: int) -> Experiment:
        label = f"allow {values[k]} {VENDOR_NAMES[kind]}s in use instead of {now} ({key})"
        return Experiment(label, with_vendors(kind, values[k]))

    return SteppedLimit(key=key, rung=rung, probes=(len(values) - 1,), one_more=rung(0))


def _count(field: str, label: str, now: int, values: range | list[int], where: str = "policy") -> Limit:
    def rung(k: int) -> Experiment:
        return Experiment(label.format(n=values[k], now=now), with_limits(**{field: values[k]}))

    return SteppedLimit(key=f"{where}.{field}", rung=rung, probes=(len(values) - 1,), one_more=rung(0))


def _purchases(case: Case) -> Iterator[Limit]:
    for option in sorted({option for offer in case.offers.values() for option in _ways_to_buy(offer)}):
        if option not in case.purchase:
            step = Experiment(f"buy {option} as well (menu.purchase)", with_purchase(option))
            yield _permission(f"menu.purchase.{option}", step)


def _ways_to_buy(offer: Offer) -> Iterator[str]:
    prices = offer.prices
    yield from (name for name, price in (("on-demand", prices.on_demand), ("spot", prices.spot)) if price is not None)
    yield from prices.reserved()


def _permission(key: str, step: Experiment, workload: str | None = None, one_more: Experiment | None = None) -> Limit:
    return SteppedLimit(key=key, workload=workload, rung=lambda k: step, one_more=one_more)


def _api(case: Case, w: Workload) -> Iterator[Limit]:
    missing = not case.menu_apis
    if w.api_allowed and not missing:
        yield from _smaller_apis(case, w)
        return
    changes: list[Change] = [] if w.api_allowed else [with_workload(w.name, api_allowed=True)]
    if missing:
        changes.append(lambda case: case.model_copy(update={"menu_apis": (case.baseline,)}))
    where = " and ".join([*([] if w.api_allowed else ["api: allowed"]), *(["menu.apis"] if missing else [])])
    step = Experiment(f"let {w.name} use an API ({where})", one_after_the_other(changes))
    yield _permission(f"{w.name}.api", step, w.name, one_more=step)


def _smaller_apis(case: Case, w: Workload) -> Iterator[Limit]:
    if not any(is_too_small(case, w, api) for api in case.menu_apis):
        return
    changes = [with_workload(w.name, smaller_apis_forbidden=None), with_limits(smaller_apis_forbidden=None)]
    step = Experiment(
        f"let {w.name} use an API of a lower tier (api, policy.smaller_apis)", one_after_the_other(changes)
    )
    yield _permission(f"{w.name}.api", step, w.name, one_more=step)


def _quality(case: Case, w: Workload) -> Iterator[Limit]:
    """Each loss of a model and a quantization on the menu that is too much now."""
    losses = {
        choice.quality_loss_frac + quality_of(case, w, choice.model, key).loss_frac
        for choice in w.models
        for key in case.quantizations
    }
    now = w.max_quality_loss_frac
    levels = sorted({min(1.0, math.ceil(1e3 * loss - 1e-6) / 1e3) for loss in losses if loss > now + 1e-12})
    if not levels:
        return

    def to(loss: float) -> Experiment:
        label = f"accept {percent(loss, 1)} quality loss of {w.name} instead of {percent(now, 1)} (quality.max_loss)"
        return Experiment(label, with_workload(w.name, max_quality_loss_frac=loss))

    nearby = now + ONE_MORE_FRAC["quality"]
    yield SteppedLimit(
        key=f"{w.name}.quality.max_loss",
        workload=w.name,
        rung=lambda k: to(levels[k]),
        probes=(len(levels) - 1,),
        one_more=to(nearby) if levels[0] <= nearby else None,
    )


def _objectives(w: Workload, factors: tuple[float, ...]) -> Iterator[Limit]:
    for kind, name in OBJECTIVES.items():
        objective: LatencyTarget | None = getattr(w, kind)
        binds = kind != "ttft" or w.deadline_h is None
        if objective is not None and binds:
            yield _objective(w, kind, name, objective, factors)


def _objective(w: Workload, kind: str, name: str, objective: LatencyTarget, factors: tuple[float, ...]) -> Limit:
    now = objective.seconds
    values = round_figures_above(now, factors[-1])
    where = f"slo.{kind}_p{100 * objective.percentile:g}"

    def to(seconds: float) -> Experiment:
        label = f"relax {w.name}'s {name} from {duration(now)} to {duration(seconds)} ({where})"
        return Experiment(label, with_workload(w.name, **{kind: objective.model_copy(update={"seconds": seconds})}))

    return SteppedLimit(
        key=f"{w.name}.{where}",
        workload=w.name,
        rung=lambda k: to(values[k]),
        probes=tuple(max(k for k, s in enumerate(values) if s <= now * f * (1 + 1e-9)) for f in factors),
        one_more=to(float(f"{now * (1 + ONE_MORE_FRAC['objective']):.3g}")),
    )


def _residency(case: Case, w: Workload) -> Iterator[Limit]:
    for field in ("regions", "providers"):
        allowed: tuple[str, ...] | None = getattr(w, field)
        if allowed is None:
            continue
        there = {getattr(o, field.removesuffix("s")) for o in case.offers.values() if sellable(case, o)}
        more = sorted(there - set(allowed))
        ways = tuple(
            Experiment(f"let {w.name} run in {x} as well ({field})", with_workload(w.name, **{field: (*allowed, x)}))
            for x in more
        )
        anywhere = Experiment(
            f"let {w.name} run anywhere on the menu ({field})", with_workload(w.name, **{field: None})
        )
        if ways:
            yield Alternatives(
                key=f"{w.name}.{field}", workload=w.name, ways=ways, all_at_once=anywhere, one_more=anywhere
            )


def _length(case: Case, w: Workload) -> Iterator[Limit]:
    """Requests that are longer than any of its models holds are let in."""
    longest = max(case.models[choice.model].max_context_tokens for choice in w.models)
    share = too_long_share(w, longest)
    if share < SMALLEST_SHARE:
        return
    if w.input_spread is not None and w.output_spread is not None:
        lengths = spread_lengths(w.input_spread, w.output_spread, (*(w.length_cuts or ()), longest), longest)
    else:
        lengths = given_lengths(w.buckets, (longest,), longest)
    if lengths.buckets:
        label = f"refuse {percent(share, 2)} of {w.name}, longer than {longest:,} tokens (tokens.longest: {longest})"
        step = Experiment(label, with_workload(w.name, **lengths.fields))
        yield _permission(f"{w.name}.tokens.longest", step, w.name)


def _shedding(case: Case, w: Workload) -> Iterator[Limit]:
    if w.shed_usd_per_request is not None or w.deadline_h is not None:
        return
    price = case.apis[case.baseline].usd
    dearest = max(price(b.input_tokens, 0.0, b.output_tokens) for b in w.buckets)
    penalty = float(f"{SHED_FACTOR * max(dearest, LEAST_REQUEST_USD):.2g}")
    yield Shedding(key=f"{w.name}.shed", workload=w.name, usd_per_request=penalty)


def round_figures_above(now: float, most_factor: float) -> list[float]:
    """Figures of two digits above a number, up to a multiple of it: 1.9, 2, 2.1 ... 9.9, 10, 11, 12 ..."""
    most = now * most_factor * (1 + 1e-9)
    decades = range(math.floor(math.log10(now)), math.floor(math.log10(most)) + 1)
    figures = (float(f"{n}e{decade - DIGITS + 1}") for decade in decades for n in range(10 ** (DIGITS - 1), 10**DIGITS))
    return [figure for figure in figures if now < figure <= most]


def duration(seconds: float) -> str:
    if seconds >= 600:
        return f"{seconds / 60:.3g} min"
    return f"{seconds:.3g} s" if seconds >= 1 else f"{1e3 * seconds:.3g} ms"
