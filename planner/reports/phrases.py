"""Sentences about a plan that several reports share, as plain text: whoever shows them makes them safe to show."""

from __future__ import annotations

from collections.abc import Iterator

from planner.case.case import OWNED, Case
from planner.case.support import is_unproven
from planner.io.formatting import percent, tokens, usd
from planner.plan.plan import Binding, Commitment, DeploymentRecord, Plan, RejectionRecord
from planner.plan.study_records import ProviderBill
from problems.constants import HOURS_PER_MONTH

NAMES_SHOWN = 3
PROVED = {
    "optimal": "proved optimal",
    "within-gap": "proved within {gap}",
    "feasible": "a verified plan, proved only within {gap}",
    "interrupted": "INTERRUPTED: a verified plan, not proved; the optimum may be {gap} lower",
}
PARTS = {
    "options": "what other options would cost",
    "if_throughput_is_off": "what the plan costs if throughput is off",
}
REASONS = {"time-limit": "the time limit was reached", "interrupted": "the work was interrupted"}
ASSUMED = "assumed, since the demand file does not say"
NOTHING_USD = 0.005
"""less than this a month is nothing"""


def facts(plan: Plan) -> list[str]:
    """How large the plan is, and of when its prices are."""
    dates = sorted({line.price_date for line in plan.fleet if line.price_date})
    sizes = [f"{len(plan.workloads)} workload{'s' * (len(plan.workloads) != 1)}", f"{len(plan.slots)} slots"]
    return sizes + ([f"prices of {' to '.join(dict.fromkeys((dates[0], dates[-1])))}"] if dates else [])


def proof(plan: Plan) -> str:
    return PROVED[plan.status].format(gap=percent(plan.gap_frac, 2))


def served(plan: Plan) -> str:
    """Whether the plan was served request by request, and what it took to keep its promises."""
    found = plan.verified
    if found is None:
        return "not served yet: fleetplan verify serves a saved plan request by request"
    if not found.kept:
        return f"served {found.requests:,} requests in {found.rounds} rounds and missed {', '.join(found.missed)}"
    tightened = ""
    if found.rounds > 1:
        before = (
            f"{usd(found.first_cost_usd_per_month)} / month, proved no less than {usd(found.first_bound_usd_per_month)}"
        )
        tightened = f"; {found.rounds - 1} plans before it missed a promise (the first: {before})"
    return f"verified by {found.requests:,} requests, every promise kept{tightened}"


def saving(plan: Plan) -> str:
    """Against the API baseline."""
    b = plan.baseline
    saves = b.savings_usd_per_month
    verdict = f"saves {percent(b.savings_frac)}" if saves >= 0 else f"costs {percent(-b.savings_frac)} more"
    if abs(saves) < NOTHING_USD:
        return "nothing is cheaper than this API"
    return f"{verdict} ({usd(abs(saves))} / month)"


def shed_sentence(plan: Plan) -> str:
    """What is shed, at which penalty, and which limit stands in the way of serving it; nothing where nothing is."""
    shed = [w for w in plan.workloads if w.shed_requests_per_month]
    if not shed:
        return ""
    each = ((w.name, percent(w.shed_share_frac), tokens(w.shed_requests_per_month)) for w in shed)
    parts = (f"{share} of {name} ({count} requests)" for name, share, count in each)
    penalty = f"a penalty of {usd(plan.penalty_usd_per_month)} / month, not part of the cost"
    because = _no_room(plan)
    why = f"; {because}" if because else ""
    return f"SHED every month: {', '.join(parts)}; {penalty}{why}; figures are for the rest"


def _no_room(plan: Plan) -> str:
    """The limits under which no more can be served."""
    quotas = [b for b in plan.binding if b.limit not in ("min_replicas", "budget_usd_per_month")]
    reasons = [f"{b.limit} {b.value:,.0f}{f' of {b.name}' if b.name else ''} is reached" for b in quotas]
    budget = plan.case.limits.budget_usd_per_month
    if budget is not None:
        reached = any(b.limit == "budget_usd_per_month" for b in plan.binding)
        room = budget - plan.cost_usd_per_month
        one_more = [line.usd_per_h * HOURS_PER_MONTH for line in plan.fleet]
        if reached:
            reasons.insert(0, f"the budget of {usd(budget)} a month is used up")
        elif one_more and room < min(one_more):
            more = f"has room for {usd(room)} more, and one more instance costs {usd(min(one_more))}"
            reasons.insert(0, f"the budget of {usd(budget)} a month {more}")
    return ", ".join(reasons)


def held_sentence(plan: Plan) -> str:
    """What is paid in any case for what was signed before; nothing where nothing is held."""
    paid = f"{usd(plan.held_usd_per_month)} / month more is paid in any case for what is held; no figure here counts it"
    return "; ".join(part for part in (paid if plan.held_usd_per_month else "", not_used(plan.case)) if part)


def not_used(case: Case) -> str:
    """Owned boxes that no plan can use, since the case has no offer for them; nothing where there are none."""
    left = [h for h in case.held or () if h.purchase == OWNED and f"{h.offer}+{OWNED}" not in case.offers]
    if not left:
        return ""
    boxes = ", ".join(f"{h.instances} x {h.offer}" for h in left)
    return f"owned boxes are not planned with yet ({boxes}), and the proof does not cover running them"


def left_out(plan: Plan) -> str:
    """What the report lacks, and why; nothing where it is complete."""
    if not plan.left_out:
        return ""
    parts = " and ".join(PARTS[part.what] for part in plan.left_out)
    return f"not worked out, because {REASONS[plan.left_out[0].why]}: {parts}"


def spot_risk(plan: Plan) -> str:
    more = plan.spot_at_p95_usd_per_month - plan.cost_usd_per_month
    if not plan.costs.spot_usd_per_month or more < NOTHING_USD:
        return ""
    return f"if spot stays at the 95th percentile of its price, the plan costs {usd(more)} / month more"


def throughput_error(plan: Plan) -> str:
    """The mean error of the figures behind the deployments; nothing where nothing is hosted."""
    errors = sorted({d.deployment.error_frac for pool in plan.pools for d in pool.deployments})
    return " to ".join(dict.fromkeys(percent(e) for e in (*errors[:1], *errors[-1:])))


def basis(plan: Plan, d: DeploymentRecord) -> str:
    """How far its throughput is backed, and whether anybody has seen the engine run it."""
    unproven = is_unproven(plan.case, d.model, d.quantization, d.gpu)
    return f"{d.basis}, unproven" if unproven else d.basis


def owed(c: Commitment) -> str:
    parts = [f"{usd(c.upfront_usd)} in cash when it is signed"] if c.upfront_usd else []
    if c.beyond_horizon_usd or not parts:
        parts.append(f"{usd(c.beyond_horizon_usd)} more is owed after this quarter")
    return f"{c.instances} x {c.offer} {c.term}: {', '.join(parts)}"


def fleet_notes(plan: Plan) -> Iterator[str]:
    """What a reader of the fleet should know besides."""
    spent = sum(line.starting_usd_per_month for line in plan.fleet)
    if spent:
        starts = sum(line.starts_per_month for line in plan.fleet)
        minutes, times = f"{plan.case.start.instance_s / 60:g} min", f"{starts:,.0f} times a month"
        yield f"{usd(spent)} / month of it is for the {minutes} that an instance takes to start, {times}"
    yield from (owed(c) for c in plan.commitments)
    if risk := spot_risk(plan):
        yield risk
        yield "spot counts on a gateway that sheds what is not critical, at once and by priority, while it is reclaimed"
    deployments = [d.deployment for pool in plan.pools for d in pool.deployments]
    unproven = sorted(
        {
            f"{d.model} {d.quantization} on {d.gpu}"
            for d in deployments
            if is_unproven(plan.case, d.model, d.quantization, d.gpu)
        }
    )
    if unproven:
        yield f"unproven, try it before you sign: {plan.case.engine_name} was never seen to run {', '.join(unproven)}"
    guesses = sorted({f.offer for f in plan.fleet if f.price_assumption})
    if guesses:
        yield f"assumed prices, replace them with your own under 'prices:': {', '.join(guesses)}"
    yield from cheaper_providers(plan)


def rejection(r: RejectionRecord) -> tuple[str, str]:
    """The reason, and the candidate with its figure; dominated ones name what dominates them."""
    if r.dominated:
        return r.reason, f"{r.candidate} (than {r.limit})"
    return f"{r.reason} (limit {r.limit})", f"{r.candidate} ({r.value})"


def limits_reached(plan: Plan) -> Iterator[str]:
    """Each limit once, with what it limits and for how long."""
    grouped: dict[tuple[str, float], list[Binding]] = {}
    for b in plan.binding:
        grouped.setdefault((b.limit, b.value), []).append(b)
    for (limit, value), of in grouped.items():
        if limit == "budget_usd_per_month":
            yield f"the budget of {usd(value)} a month"
            continue
        names = [b.name for b in of[:NAMES_SHOWN] if b.name]
        more = f" and {len(of) - len(names)} more" if len(of) > NAMES_SHOWN else ""
        hours = ("up to " if len(of) > 1 else "") + f"{max(b.hours_per_month for b in of):,.0f} h a month"
        yield f"{limit} {value:,.0f}" + (f" ({', '.join(names)}{more}, {hours})" if names else "")


def cheaper_providers(plan: Plan) -> Iterator[str]:
    """Who sells the model that the plan hosts for the least, if that is less: a plan may use it if the menu says so."""
    hosted = {w.name: w for w in plan.workloads if w.models}
    allowed = {w.name for w in plan.case.workloads if w.api_allowed}
    cheaper: dict[tuple[str, ...], list[ProviderBill]] = {}
    for bill in plan.studies.providers if plan.studies else ():
        if bill.role != "same model" or not bill.workloads or not set(bill.workloads) <= hosted.keys() & allowed:
            continue
        here = sum(hosted[name].cost_usd_per_month for name in bill.workloads)
        if bill.cost_usd_per_month < here - NOTHING_USD and _api(bill) not in plan.case.menu_apis:
            cheaper.setdefault(bill.workloads, []).append(bill)
    for workloads, bills in cheaper.items():
        least = min(bills, key=lambda bill: bill.cost_usd_per_month)
        here = sum(hosted[name].cost_usd_per_month for name in workloads)
        there = f"would cost {usd(least.cost_usd_per_month)} / month there, {usd(here)} here"
        others = f" ({len(bills) - 1} more sell it for less than that)" if len(bills) > 1 else ""
        offer = f"{_api(least)} sells this model: all of {alike(workloads)} {there}{others}"
        yield f"{offer}; name it under menu.apis to let a plan use it"


def _api(bill: ProviderBill) -> str:
    return f"{bill.provider}/{bill.model}"


def alike(names: tuple[str, ...] | list[str]) -> str:
    """Some names, the rest counted."""
    more = len(names) - NAMES_SHOWN
    return ", ".join(names[:NAMES_SHOWN]) + (f" and {more} more" if more > 0 else "")
