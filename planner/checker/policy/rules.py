"""What checking a plan against a policy comes to, as data. Versioned JSON: keys are added, never changed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import date
from functools import cached_property
from typing import Any, Literal

from planner.case.support import is_unproven
from planner.catalog.entries import day_of, is_of_unknown_day
from planner.checker.policy.schema import ChangeSpec, HeadroomSpec, Policy
from planner.checker.proof import BoundCheck
from planner.checker.remarks import BOUND, Remark, remarks_in
from planner.io.errors import input_error
from planner.io.formatting import percent, usd
from planner.io.result import Result
from planner.io.validation import Strict
from planner.plan.account.account import Account, account_of
from planner.plan.horizon.horizon_plan import HorizonPlan
from planner.plan.plan import DeploymentPlan, Plan
from planner.plan.signing import signed_on_no_quote

CHECK_FORMAT = "fleetplan-check/1"
NO_RULES = Policy.model_construct()
"""where there is no policy; a file without rules is refused"""
Basis = Literal["recorded", "recomputed"]
Unit = Literal["usd_per_month", "usd", "usd_per_1m_tokens", "frac", "days", "names", "kw", "kg"]


class Rule(Strict):
    """One rule, judged."""

    rule: str
    """its key in the policy"""
    said: str
    """what is looked at"""
    passed: bool
    value: float | tuple[str, ...] | None
    """None where there is nothing that it could be taken of"""
    limit: float | tuple[str, ...]
    at_least: bool = False
    """whether the limit is the least that will do, not the most"""
    unit: Unit
    detail: str = ""
    rests_on: Basis | None = None
    """of a rule about what a search proved or found: the figure in the file, or one that was worked out again"""


class Check(Result, Strict):
    format: str = CHECK_FORMAT
    plan: str
    against: str | None
    as_of: str | None
    """the day on which the age of prices is taken; None where no rule asks for it"""
    as_of_is_today: bool
    """because nobody gave a day"""
    passed: bool
    """every rule is kept, and the bound is not refuted"""
    rules: tuple[Rule, ...]
    """none where there is no policy"""
    bound: BoundCheck | None = None
    """None: nothing was planned again"""
    unverified: tuple[Remark, ...] = ()
    """what of the plan could not be worked out again"""

    def as_json(self) -> dict[str, Any]:
        return self.model_dump(mode="json")


def checked(
    plan: Plan | HorizonPlan,
    against: Plan | HorizonPlan | None,
    policy: Policy | None,
    as_of: date | None,
    bound: BoundCheck | None,
    judge: Callable[[Policy, date], Iterable[Rule]],
) -> Check:
    """What a policy's rules come to. The age of prices is that on `as_of`, else on the policy's date, else today."""
    policy = policy or NO_RULES
    if policy.max_change is not None and against is None:
        message = "must be given: the policy's max_change compares with the previous plan"
        raise input_error("--against", message, "Give --against OLD.json, or delete the rule")
    day = as_of or (date.fromisoformat(policy.as_of) if policy.as_of else date.today())
    rules = tuple(judge(policy, day))
    confirmed = bound is not None and bound.verdict == "confirmed"
    return Check(
        plan=plan.name,
        against=None if against is None else against.name,
        as_of=day.isoformat() if policy.max_price_age is not None else None,
        as_of_is_today=policy.max_price_age is not None and as_of is None and policy.as_of is None,
        passed=all(rule.passed for rule in rules) and (bound is None or bound.verdict != "refuted"),
        rules=rules,
        bound=bound,
        unverified=tuple(r for r in remarks_in(plan.as_json()) if not (confirmed and r is BOUND)),
    )


REL, ABS = 1e-6, 1e-9
"""a figure may exceed its limit by rounding"""
MEASURED = ("measured", "interpolated")
"""bases of throughput that are benchmarks of this very deployment, at these lengths or around them"""
NAMES_SHOWN = 3


@dataclass(frozen=True, eq=False)
class Judged:
    """A plan and what it is held against."""

    plan: Plan
    policy: Policy
    against: Plan | None
    as_of: date
    bound: BoundCheck | None = None
    """what planning again says of the plan's bound"""

    @cached_property
    def account(self) -> Account:
        return account_of(self.plan)


def judged_rules(j: Judged) -> Iterator[Rule]:
    """Apply the rules that the policy has, always in the same order."""
    for rule in RULES:
        if getattr(j.policy, rule.__name__) is not None:
            yield from rule(j)
    yield from horizon_rules(j)


def at_most(rule: str, said: str, unit: Unit, value: float | None, limit: float, detail: str = "") -> Rule:
    passed = value is None or value <= limit + max(REL * abs(limit), ABS)
    return Rule(rule=rule, said=said, unit=unit, value=value, limit=limit, passed=passed, detail=detail)


def at_least(rule: str, said: str, unit: Unit, value: float | None, limit: float, detail: str = "") -> Rule:
    passed = value is None or value >= limit - max(REL * abs(limit), ABS)
    return Rule(rule=rule, said=said, unit=unit, value=value, limit=limit, passed=passed, detail=detail, at_least=True)


def budget_usd_per_month(j: Judged) -> Iterator[Rule]:
    by_month = [j.account.money.month_usd(month) for month in range(j.account.months)]
    dearest = max(by_month)
    detail = f"month {by_month.index(dearest) + 1} of {len(by_month)}" if len(by_month) > 1 else ""
    limit = j.policy.budget_usd_per_month or 0.0
    yield at_most("budget_usd_per_month", "cost of the most expensive month", "usd_per_month", dearest, limit, detail)


def max_change(j: Judged) -> Iterator[Rule]:
    assert j.against is not None and j.policy.max_change is not None
    limit, before, after = j.policy.max_change, j.against.cost_usd_per_month, j.plan.cost_usd_per_month
    detail = f"{usd(before)} to {usd(after)} / month"
    if not before and after:
        most = limit if not isinstance(limit, ChangeSpec) else limit.rise or 0.0
        yield Rule(rule="max_change", said="change of the cost", unit="frac", value=None, limit=most,
                   passed=isinstance(limit, ChangeSpec) and limit.rise is None, detail=detail)  # fmt: skip
        return
    change = (after - before) / before if before else 0.0
    unsure = sum(p.objective_usd_per_month * p.gap_frac for p in (j.against, j.plan))
    if 0 < abs(after - before) <= unsure:
        detail += f"; the proofs leave {usd(unsure)} open"
    yield from change_rules(limit, change, "the cost", detail)


def change_rules(limit: float | ChangeSpec, change: float, of: str, detail: str) -> Iterator[Rule]:
    """Both ways together, or a rise and a fall each by itself."""
    if not isinstance(limit, ChangeSpec):
        yield at_most("max_change", f"change of {of}, up or down", "frac", abs(change), limit, detail)
        return
    if limit.rise is not None:
        yield at_most("max_change.rise", f"rise of {of}", "frac", max(change, 0.0), limit.rise, detail)
    if limit.fall is not None:
        yield at_most("max_change.fall", f"fall of {of}", "frac", max(-change, 0.0), limit.fall, detail)


def max_usd_per_1m_tokens(j: Judged) -> Iterator[Rule]:
    """What is held counts too: it is paid in any case."""
    value, limit = j.plan.total_usd_per_1m_tokens, j.policy.max_usd_per_1m_tokens or 0.0
    yield at_most("max_usd_per_1m_tokens", "cost of a million tokens", "usd_per_1m_tokens", value, limit)


def min_savings(j: Judged) -> Iterator[Rule]:
    """What is held counts too: it is paid in any case."""
    b = j.plan.baseline
    detail = f"against {usd(b.cost_usd_per_month)} / month from {b.provider}/{b.model}"
    limit = j.policy.min_savings or 0.0
    yield at_least("min_savings", "savings on the API bill", "frac", b.savings_frac, limit, detail)


def max_commitment_usd(j: Judged) -> Iterator[Rule]:
    signed = sum(c.upfront_usd for c in j.plan.commitments)
    allowances = sum(a.beyond_horizon_usd for a in j.plan.allowances or ())
    later = sum(c.beyond_horizon_usd for c in j.plan.commitments) + allowances
    some = j.plan.commitments or allowances
    detail = f"{usd(signed)} at signing, {usd(later)} owed after the quarter" if some else ""
    limit = j.policy.max_commitment_usd or 0.0
    yield at_most("max_commitment_usd", "committed beyond the quarter", "usd", signed + later, limit, detail)


def max_guessed_commitment_usd(j: Judged) -> Iterator[Rule]:
    guessed = signed_on_no_quote(j.plan)
    detail = _named([f"{s.commitment.instances} x {s.line.offer} {s.commitment.term}, {s.doubt}" for s in guessed])
    limit = j.policy.max_guessed_commitment_usd or 0.0
    what, whole = "signed at prices that were not quoted", sum(s.whole_term_usd for s in guessed)
    yield at_most("max_guessed_commitment_usd", what, "usd", whole, limit, detail)


def max_spot_share(j: Judged) -> Iterator[Rule]:
    hours = [j.account.a_month(f.instances_by_slot) * f.gpus_per_instance for f in j.plan.fleet]
    spot = sum(h for f, h in zip(j.plan.fleet, hours, strict=True) if f.purchase == "spot")
    share, limit = _share(spot, sum(hours)), j.policy.max_spot_share or 0.0
    yield at_most("max_spot_share", "GPU-hours bought as spot", "frac", share, limit)


def max_api_share(j: Judged) -> Iterator[Rule]:
    share, detail = _of_requests(j.plan, "api_share_frac")
    yield at_most("max_api_share", "requests sent to an API", "frac", share, j.policy.max_api_share or 0.0, detail)


def max_shed_share(j: Judged) -> Iterator[Rule]:
    share, detail = _of_requests(j.plan, "shed_share_frac")
    yield at_most("max_shed_share", "requests shed", "frac", share, j.policy.max_shed_share or 0.0, detail)


def allowed_regions(j: Judged) -> Iterator[Rule]:
    allowed = j.policy.allowed_regions or ()
    used = sorted({j.plan.case.offers[line.offer].region for line in j.plan.fleet if any(line.instances_by_slot)})
    others = [region for region in used if region not in allowed]
    apis = sorted({w.api for w in j.plan.workloads if w.api and w.api_share_frac})
    notes = [f"not allowed: {_named(others)}"] if others else []
    notes += [f"where {_named(apis)} answers is not known"] if apis else []
    yield Rule(
        rule="allowed_regions", said="regions of the fleet", unit="names", value=tuple(used), limit=allowed,
        passed=not others, detail="; ".join(notes),
    )  # fmt: skip


def min_slo_headroom(j: Judged) -> Iterator[Rule]:
    """Headroom of every workload on its slowest deployment; the tightest one counts."""
    limit = j.policy.min_slo_headroom
    for kind, name, figure in LATENCIES:
        least = getattr(limit, kind) if isinstance(limit, HeadroomSpec) else limit
        value, detail = _tightest(j.plan, kind, figure)
        # What nobody has an objective for is a row only where it was asked for by name.
        if least is not None and (value is not None or isinstance(limit, HeadroomSpec) or kind == "ttft"):
            yield at_least(f"min_slo_headroom.{kind}", f"{name} objective left unused", "frac", value, least, detail)


def max_gap(j: Judged) -> Iterator[Rule]:
    objective_usd = j.plan.objective_usd_per_month
    of = "cost and penalty" if j.plan.penalty_usd_per_month else "cost"
    detail = f"{j.plan.status}: no fleet has a {of} under {{}} / month"
    yield gap_rule(j.policy, j.plan.gap_frac, objective_usd, j.plan.bound_usd_per_month, j.bound, detail)


def gap_rule(
    policy: Policy, gap_frac: float, objective_usd: float, bound_usd: float, again: BoundCheck | None, detail: str
) -> Rule:
    """What of the cost is not proved: by the bound of a new search where there was one, else by the recorded one."""
    if again is not None:
        bound_usd = again.recomputed_usd or 0.0
        gap_frac = max(0.0, 1 - bound_usd / objective_usd) if objective_usd else 0.0
    detail = f"{detail.format(usd(bound_usd))}, {'as recorded in the file' if again is None else 'worked out again'}"
    rule = at_most("max_gap", "share of the cost that is not proved", "frac", gap_frac, policy.max_gap or 0.0, detail)
    return rule.model_copy(update={"rests_on": "recorded" if again is None else "recomputed"})


def max_unmeasured_share(j: Judged) -> Iterator[Rule]:
    hours: dict[str, float] = {}
    for d in (d for pool in j.plan.pools for d in pool.deployments):
        busy = j.account.a_month(d.load_by_slot) * d.deployment.gpus_per_replica
        hours[d.deployment.basis] = hours.get(d.deployment.basis, 0.0) + busy
    total = sum(hours.values())
    share = _share(sum(h for basis, h in hours.items() if basis not in MEASURED), total)
    detail = ", ".join(f"{percent(h / total)} {basis}" for basis, h in sorted(hours.items()) if h)
    limit = j.policy.max_unmeasured_share or 0.0
    yield at_most("max_unmeasured_share", "busy GPU-hours without your own benchmark", "frac", share, limit, detail)


def max_unproven_share(j: Judged) -> Iterator[Rule]:
    hours = {True: 0.0, False: 0.0}
    unproven = set()
    for d in (d for pool in j.plan.pools for d in pool.deployments):
        r = d.deployment
        never_seen = is_unproven(j.plan.case, r.variant)
        hours[never_seen] += j.account.a_month(d.load_by_slot) * r.gpus_per_replica
        unproven |= {str(replace(r.variant, gpus_per_replica=0))} if never_seen else set()
    share = _share(hours[True], sum(hours.values()))
    what = "busy GPU-hours that the engine is not known to run"
    limit = j.policy.max_unproven_share or 0.0
    yield at_most("max_unproven_share", what, "frac", share, limit, _named(sorted(unproven)) if unproven else "")


def horizon_rules(j: Judged) -> Iterator[Rule]:
    """Rules about commitments over time: a plan of one quarter has nothing that they could be taken of."""
    detail = "this rule applies only to multi-quarter plans"
    for key in HORIZON_RULES:
        limit = getattr(j.policy, key)
        if limit is not None:
            judge = at_least if key.startswith("min") else at_most
            yield judge(key, "over a horizon", "usd" if key.endswith("usd") else "frac", None, limit, detail)


def max_power_kw(j: Judged) -> Iterator[Rule]:
    power = j.plan.power
    value = power.rated_kw if power is not None else 0.0 if not j.plan.fleet else None
    yield _of_power(j.plan, at_most("max_power_kw", "drawn at most", "kw", value, j.policy.max_power_kw or 0.0))


def max_co2_kg_per_month(j: Judged) -> Iterator[Rule]:
    power, limit = j.plan.power, j.policy.max_co2_kg_per_month or 0.0
    value = power.rated_co2_kg_per_month if power is not None else 0.0 if not j.plan.fleet else None
    yield _of_power(j.plan, at_most("max_co2_kg_per_month", "CO2e of a month at most", "kg", value, limit))


def _of_power(plan: Plan, rule: Rule) -> Rule:
    """Broken where nobody knows what some of the GPUs draw, as no limit is known to be kept then."""
    missing = plan.power.not_known if plan.power is not None else ()
    if rule.value is not None and not missing:
        return rule
    what = ", ".join(missing) or "what is rented"
    return rule.model_copy(update={"passed": False, "detail": f"nobody published what {what} draws: give tdp_w"})


def max_price_age(j: Judged) -> Iterator[Rule]:
    dates = dict(_price_dates(j.plan))
    undated = sorted(name for name, written in dates.items() if written is None)
    unknown = sorted(name for name, written in dates.items() if is_of_unknown_day(written))
    ages = {name: (j.as_of - day).days for name, written in dates.items() if (day := day_of(written))}
    oldest = max(ages.values(), default=None)
    limit = j.policy.max_price_age or 0.0
    of_that_age = sorted(name for name, days in ages.items() if days == oldest)
    notes = [f"of {dates[of_that_age[0]]}: {_named(of_that_age)}"] if of_that_age else []
    notes += [f"of unknown date: {_named(unknown)}"] if unknown else []
    notes += [f"without a date: {_named(undated)}"] if undated else []
    value = None if oldest is None else float(oldest)
    rule = at_most("max_price_age", "age of the oldest price", "days", value, limit, "; ".join(notes))
    yield rule.model_copy(update={"passed": False}) if unknown else rule


RULES: tuple[Callable[[Judged], Iterator[Rule]], ...] = (
    *(budget_usd_per_month, max_change, max_usd_per_1m_tokens, min_savings, max_commitment_usd),
    *(
        max_guessed_commitment_usd,
        max_spot_share,
        max_api_share,
        max_shed_share,
        allowed_regions,
        min_slo_headroom,
        max_gap,
        max_unproven_share,
    ),
    *(max_unmeasured_share, max_power_kw, max_co2_kg_per_month, max_price_age),
)
"""each is named like its key in the policy"""

HORIZON_RULES = ("max_liability_usd", "max_regret", "min_coverage", "min_utilization")

LATENCIES: tuple[tuple[str, str, Callable[[DeploymentPlan], float | None]], ...] = (
    ("ttft", "TTFT", lambda d: d.deployment.ttft_ms),
    ("tpot", "TPOT", lambda d: d.deployment.tpot_ms or None),
    ("e2e", "end-to-end", lambda d: d.deployment.e2e_ms),
    ("e2e_per_token", "end-to-end per token", lambda d: d.deployment.e2e_per_token_ms),
)


def _tightest(plan: Plan, kind: str, figure: Callable[[DeploymentPlan], float | None]) -> tuple[float | None, str]:
    """The least headroom of any workload, and whose it is."""
    found: list[tuple[float, str]] = []
    for w in plan.case.workloads:
        objective = getattr(w, kind)
        for d in plan.pool_of(w.name).deployments if objective is not None else ():
            ms = figure(d)
            if ms is not None:
                limit_ms = 1e3 * objective.seconds
                found.append((1 - ms / limit_ms, f"{w.name}: {ms:,.0f} of {limit_ms:,.0f} ms"))
    return min(found, key=lambda x: x[0], default=(None, "no objective that a deployment has to keep"))


def _of_requests(plan: Plan, key: str) -> tuple[float | None, str]:
    """A share of all requests, and the workloads with the most of them."""
    total = sum(w.requests_per_month for w in plan.workloads)
    parts = [(getattr(w, key) * w.requests_per_month, w.name, getattr(w, key)) for w in plan.workloads]
    largest = sorted((p for p in parts if p[0] > 0), key=lambda p: -p[0])
    detail = ", ".join(f"{percent(share)} of {name}" for _, name, share in largest[:NAMES_SHOWN])
    return _share(sum(n for n, *_ in parts), total), detail + _more(len(largest))


def _price_dates(plan: Plan) -> Iterator[tuple[str, str | None]]:
    waits = {w.name: w.api_wait_h for w in plan.case.workloads}
    for line in plan.fleet:
        yield f"{line.offer} {line.purchase}", line.price_date
    for w in plan.workloads:
        if w.api is not None and w.api_share_frac:
            api, wait_h = plan.case.apis[w.api], waits[w.name]
            yield w.api, api.date
            if api.batch is not None and api.batch.turnaround_h <= wait_h:
                yield f"{w.api} batch", api.batch.date
    yield f"{plan.baseline.provider}/{plan.baseline.model}", plan.baseline.date


def _share(part: float, whole: float) -> float:
    return part / whole if whole else 0.0


def _named(names: list[str]) -> str:
    return ", ".join(names[:NAMES_SHOWN]) + _more(len(names))


def _more(count: int) -> str:
    return f" and {count - NAMES_SHOWN} more" if count > NAMES_SHOWN else ""
