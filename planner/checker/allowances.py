"""Savings plans and provisioned units: only what is sold or held is signed, and it covers no more than it holds.

What they cover is worked out here once more: hour by hour, what saves the largest share of its price first.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from planner.case.apis import request_usd
from planner.case.case import Allowance
from planner.checker.checked import Checked
from planner.checker.figures import MONTH_HOURS, REL, differs
from planner.plan.plan import AllowancePlan

MINUTES = 60.0


def allowances_hold(checked: Checked) -> Iterator[str]:
    signed = {a.name: a for a in checked.plan.allowances or ()}
    for a in checked.case.allowances or ():
        for problem in _amount_is_sold(a, signed.get(a.name)):
            yield f"{a.name}: {problem}"
    yield from _cover_what_they_hold(checked, signed)


def _amount_is_sold(a: Allowance, plan: AllowancePlan | None) -> Iterator[str]:
    if a.held:
        if plan is None or not plan.held or abs(plan.units - a.held) > REL * a.held:
            yield f"{a.held:g} are held, whatever is planned"
        return
    if plan is None:
        return
    if plan.held:
        yield "it is not held"
    if plan.units < a.fewest * (1 - REL):
        yield f"{plan.units:g} are signed, no fewer than {a.fewest:g} are sold"
    if a.step is not None:
        steps = (plan.units - a.fewest) / a.step
        if abs(steps - round(steps)) > REL * (1 + steps):
            yield f"{plan.units:g} are signed; beyond {a.fewest:g} they are sold in steps of {a.step:g}"
    if a.most is not None and plan.units > a.most * (1 + REL):
        yield f"{plan.units:g} are signed, {a.most:g} allowed"
    if not plan.used_frac:
        yield "it is signed and covers nothing"


@dataclass
class _Line:
    """What may be covered in an hour: how much of an allowance a dollar of it takes, and the dollars left."""

    name: str
    per_usd: float
    per_unit: float
    usd: float


def _cover_what_they_hold(checked: Checked, signed: dict[str, AllowancePlan]) -> Iterator[str]:
    if not signed:
        return
    hours, case = checked.account.hours.tolist(), checked.case
    covered, used = dict.fromkeys(signed, 0.0), dict.fromkeys(signed, 0.0)
    by_way = {"on demand": 0.0, "API": 0.0}
    for t in checked.slots:
        usd = _on_demand(checked, t)
        bills = _bills(checked, t)
        left = usd | bills
        for a in case.allowances or ():
            if a.name not in signed:
                continue
            room = signed[a.name].units * (1.0 if a.tokens_per_minute is None else a.tokens_per_minute * MINUTES)
            if a.in_months is not None and checked.account.month_of[t] not in a.in_months:
                room = 0.0
            for line in sorted(_lines(checked, a, left), key=_first_covered):
                part = min(line.usd, room / line.per_usd)
                left[line.name] -= part
                room -= part * line.per_usd
                covered[a.name] += hours[t] * part
                used[a.name] += hours[t] * part * line.per_usd
                by_way["API" if a.api else "on demand"] += hours[t] * part
    for a in case.allowances or ():
        plan = signed.get(a.name)
        if plan is not None:
            holds = plan.units * (1.0 if a.tokens_per_minute is None else a.tokens_per_minute * MINUTES)
            hours_there = MONTH_HOURS * _share_of_months(checked, a)
            paid = plan.units * a.usd_per_h * hours_there
            yield from differs(f"{a.name}: what is paid for it", plan.usd_per_month, paid)
            yield from differs(f"{a.name}: what it covers", plan.covered_usd_per_month, covered[a.name], paid)
            yield from differs(f"{a.name}: what it saves", plan.saved_usd_per_month, covered[a.name] - paid, paid)
            yield from differs(f"{a.name}: the share in use", plan.used_frac, used[a.name] / (holds * hours_there))
    yield from _is_off_the_bill(checked, signed, by_way)


def _share_of_months(checked: Checked, a: Allowance) -> float:
    """Of the hours of the months, those in which what is held is there."""
    if a.in_months is None:
        return 1.0
    hours = checked.account.hours.tolist()
    return float(sum(h for t, h in enumerate(hours) if checked.account.month_of[t] in a.in_months) / sum(hours))


def _first_covered(line: _Line) -> tuple[float, float, str]:
    """The largest discount first; of equals what takes less. Quotients of the same discount differ by rounding."""
    return float(f"{line.per_usd:.9g}"), line.per_unit, line.name


def _is_off_the_bill(checked: Checked, signed: dict[str, AllowancePlan], by_way: dict[str, float]) -> Iterator[str]:
    """The plan costs what it would without, less what is covered, and what is signed."""
    costs, a_month = checked.plan.costs, checked.account.hours
    fees = {"on demand": 0.0, "API": 0.0}
    for a in checked.case.allowances or ():
        if a.name in signed and not a.held:
            fees["API" if a.api else "on demand"] += signed[a.name].units * a.usd_per_h * MONTH_HOURS
    bills = sum(hours * sum(_bills(checked, t).values()) for t, hours in enumerate(a_month.tolist()))
    starts = 0.0
    for line in checked.plan.fleet:
        if line.purchase == "on-demand":
            starts += line.starting_usd_per_month
    on_demand = sum(hours * sum(_on_demand(checked, t).values()) for t, hours in enumerate(a_month.tolist()))
    for what, claimed, listed in (
        ("on demand", costs.on_demand_usd_per_month, on_demand + starts),
        ("API", costs.api_usd_per_month, bills),
    ):
        true = listed - by_way[what] + fees[what]
        yield from differs(f"what is paid for {what} with what covers it", claimed, true, listed)


def _on_demand(checked: Checked, t: int) -> dict[str, float]:
    """USD an hour of what runs on demand, by offer."""
    lines = (line for line in checked.plan.fleet if line.purchase == "on-demand")
    return {line.offer: line.instances_by_slot[t] * line.usd_per_h for line in lines}


def _bills(checked: Checked, t: int) -> dict[str, float]:
    """USD an hour of each workload at its API."""
    usd = {}
    for planned, w in zip(checked.plan.workloads, checked.case.workloads, strict=True):
        for flow in planned.api_flows:
            if flow.slot == t and planned.api is not None:
                each = zip(flow.requests_per_s, request_usd(checked.case, w, planned.api), strict=True)
                usd[w.name] = 3600 * sum(rate * price for rate, price in each)
    return usd


def _lines(checked: Checked, a: Allowance, left: dict[str, float]) -> Iterator[_Line]:
    for offer, rate in (a.rates or {}).items():
        if offer in left:
            price = checked.case.offers[offer].prices.on_demand
            assert price is not None
            yield _Line(offer, rate / price.usd_per_h, rate, left[offer])
    for planned, w in zip(checked.plan.workloads, checked.case.workloads, strict=True):
        waits = w.deadline_h is not None or w.api_wait_h > 0
        if a.api is not None and planned.api == a.api and w.name in left and not waits:
            usd = sum(b.share_frac * x for b, x in zip(w.buckets, request_usd(checked.case, w, a.api), strict=True))
            tokens = sum(
                b.share_frac
                * (
                    b.input_tokens
                    - (1 - a.cached_weight) * w.api_cached_tokens(b.input_tokens)
                    + a.output_weight * b.output_tokens
                )
                for b in w.buckets
            )
            yield _Line(w.name, tokens / usd, tokens / usd, left[w.name])
