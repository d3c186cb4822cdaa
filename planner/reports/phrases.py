"""Sentences about a plan that several reports share, as plain text: whoever shows them makes them safe to show."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from planner.case.allowances import allowance_of
from planner.case.apis import api_context, baseline_of, holds, is_too_small
from planner.case.case import HOURS_OF_DAYS, Allowance, Workload
from planner.case.demand.load_workloads import DEFAULT_BURSTINESS, MOST_KNOWN_BURSTINESS, TIGHT_TTFT_S
from planner.case.length_buckets import too_long_share
from planner.case.slots import MONTHS_OF_A_QUARTER
from planner.case.support import is_unproven
from planner.case.vendors import apis_usd, vendor_usd, vendors_bought_of
from planner.catalog.apis import is_below, tier_of_api, tier_of_model
from planner.catalog.entries import day_of, is_of_unknown_day
from planner.catalog.terms import in_words, is_bought, term_months
from planner.io.errors import listed
from planner.io.formatting import counted, percent, tokens, usd, usd_small
from planner.judgement.spending import SoldForLess, sold_for_less
from planner.plan.account.account import account_of
from planner.plan.account.showback import held_usd_by_workload
from planner.plan.horizon.horizon_plan import HorizonPlan
from planner.plan.lengths import TooLong, late_answers, late_lengths, passed_on_requests, refused_requests
from planner.plan.plan import AllowancePlan, BaselineBill, Binding, Commitment, DeploymentRecord, Plan, RejectionRecord
from planner.plan.quality_notes import quality_notes
from planner.plan.sellers import cheapest_elsewhere, having_usd, sold_cheaper, there_usd
from planner.plan.simpler import Reduction, reductions_of
from planner.plan.study_records import ProviderBill
from problems.constants import HOURS_PER_MONTH

NAMES_SHOWN = 3
PROVED = {
    "optimal": "proved optimal",
    "within-gap": "proved within {gap}",
    "feasible": "a checked plan, proved only within {gap}",
    "interrupted": "INTERRUPTED: a checked plan, proved only within {gap}",
}
NOT_PROVED = {
    "feasible": "a checked plan; time ran out before a useful bound was proved",
    "interrupted": "INTERRUPTED: a checked plan; no useful bound had been proved yet",
}
"""where nothing worth the name was proved"""
PARTS = {
    "options": "what other options would cost",
    "if_throughput_is_off": "what the plan costs if throughput is off",
    "assumed_limits": "what assumed limits cost",
    "simpler": "the simplest plan of about this cost",
    "sampled": "whether the promises hold in a sample of requests",
    "verified": "whether the plan keeps its promises when it is served",
    "operation": "the controller that was to be tuned",
}
REASONS = {"time-limit": "the time limit was reached", "interrupted": "the work was interrupted"}
ASSUMED = "assumed, since the demand file does not say"
NOTHING_USD = 0.005
"""less than this a month is nothing"""
NO_BOUND_FRAC = 0.995
"""gap from which on a bound says nothing"""
ALARM_FRAC = 0.001
"""of a workload's requests, or of the cost as a penalty: what is shed below that is a remark, and above an alarm"""


def facts(plan: Plan) -> list[str]:
    """How large the plan is, and of when its prices are."""
    return [*sizes(plan), counted(len(plan.slots), "slot"), *price_date(plan)]


def sizes(plan: Plan) -> list[str]:
    return [counted(len(plan.workloads), "workload")]


def price_date(plan: Plan) -> list[str]:
    """The one date of prices that every report shows: that of the oldest price which the plan pays or compares with."""
    apis = [plan.case.apis[api].date for api in {w.api for w in plan.workloads if w.api}]
    dates = {plan.baseline.date, *apis, *(line.price_date for line in plan.fleet)} - {None}
    known = [date for date in dates if date and day_of(date)]
    later, unknown = " or later" * (len(known) > 1), len(known) < len(dates)
    if not known:
        return ["prices of unknown date"] if unknown else []
    return [f"prices of {min(known)}{later}{', some of unknown date' * unknown}"]


def proof(plan: Plan | HorizonPlan) -> str:
    if plan.status in NOT_PROVED and not bounded(plan):
        return NOT_PROVED[plan.status]
    return PROVED[plan.status].format(gap=percent(plan.gap_frac, 2))


def bounded(plan: Plan | HorizonPlan) -> bool:
    """Whether anything worth the name was proved."""
    return plan.gap_frac < NO_BOUND_FRAC


def monthly(cost_usd: float, held_usd: float) -> str:
    """What a plan costs a month, and what is paid beside it."""
    held = f", plus {usd(held_usd)} for what is already held or signed" if held_usd else ""
    return f"{usd(cost_usd)} / month{held}"


def best_so_far(plan: Plan | HorizonPlan) -> str:
    """What an interruption leaves: of the search, or of what came after it."""
    if plan.status != "interrupted":
        return "interrupted: the plan is checked, but parts of this report are missing"
    near = f"proved within {percent(plan.gap_frac, 2)}" if bounded(plan) else "not proved to be near the optimum"
    return f"interrupted: this is the best checked plan so far, {near}"


def served(plan: Plan) -> str:
    """Whether the plan was served request by request, and what it took to keep its promises."""
    found = plan.verified
    if found is None and plan.sampled is not None:
        requests, missed = counted(plan.sampled.requests, "request"), plan.sampled.missed
        said = f"missed {', '.join(missed)}" if missed else "every promise kept"
        return f"served a sample of {requests} from the busiest hours: {said}; 'fleetplan verify' serves the rest"
    if found is None:
        return "not served yet: 'fleetplan verify' serves a saved plan request by request (needs fleetplan[verify])"
    requests = counted(found.requests, "request")
    if not found.kept:
        return f"served {requests} in {counted(found.rounds, 'round')} and missed {', '.join(found.missed)}"
    tightened = ""
    if found.rounds > 1:
        before = f"{usd(found.first_cost_usd_per_month)} / month, lower bound {usd(found.first_bound_usd_per_month)}"
        tightened = f"; {counted(found.rounds - 1, 'earlier plan')} missed a promise (the first: {before})"
    return f"verified by {requests}, every promise kept{tightened}{_tightened_hours(plan)}"


def served_in_short(plan: Plan) -> str:
    """The same in few words, for a headline."""
    if plan.verified is not None:
        return "served: kept" if plan.verified.kept else f"served: MISSED {', '.join(plan.verified.missed)}"
    if plan.sampled is not None:
        missed = plan.sampled.missed
        return f"sample served: MISSED {missed[0]}" + _and_more(len(missed)) if missed else "sample served: kept"
    return "not served" if any(pool.deployments for pool in plan.pools) else ""


def _and_more(count: int) -> str:
    return f" and {count - 1} more" if count > 1 else ""


def _tightened_hours(plan: Plan) -> str:
    """In how many hours replicas carry less than the staffing rule says."""
    factors = plan.case.load_factors or ()
    hours = {h for f in factors for h in f.hours or ()}
    if not factors or any(f.hours is None for f in factors):
        return ""
    return f"; replicas were added in {len(hours)} of the {HOURS_OF_DAYS} hours of a weekday and a weekend day"


def saving(plan: Plan) -> str:
    """Against the API baseline."""
    b = plan.baseline
    saves = b.savings_usd_per_month
    verdict = f"saves {percent(b.savings_frac)}" if saves >= 0 else f"costs {percent(-b.savings_frac)} more"
    if part := beside_what_apis_may_serve(plan):
        return f"{part.said} for what it may serve"
    if no_api_is_allowed(plan) and saves >= NOTHING_USD:
        return f"costs {percent(b.savings_frac)} less ({usd(saves)} / month), but no API is allowed"
    if abs(saves) < NOTHING_USD:
        return "costs the same as this API"
    return f"{verdict} ({usd(abs(saves))} / month)"


def beside_sellers(plan: Plan) -> tuple[str, str] | None:
    """What the same models cost at the cheapest sellers that are counted on, and how much more the plan does; None
    where nobody sells them for less."""
    less = sold_for_less(plan)
    if less is None:
        return None
    models = counted_models(less)
    all_of_it = len(less.workloads) == len(plan.workloads)
    of = "" if all_of_it else f", {alike(less.workloads)} alone"
    team = ", without engineers" if plan.costs.engineers_usd_per_month else ""
    here = "costs" if all_of_it else f"{usd(less.here_usd)} here:"
    most = "up to " if less.shares_machines else ""
    return (
        f"{models} at {less.sellers} {usd(less.there_usd)} / month{of}",
        f"{here} {most}{percent(less.more_frac)} more ({usd(less.more_usd)} / month){team}",
    )


def counted_models(less: SoldForLess) -> str:
    """The very model that a plan hosts, or that a workload lists and something else answers for; or several."""
    one = len({m for models in less.models_by_seller.values() for m in models}) == 1
    return f"{'same' if less.hosted else 'listed'} model{'' if one else 's'}"


def shed_sentence(plan: Plan) -> str:
    """What is shed, at which penalty, and which limit stands in the way of serving it; nothing where nothing is."""
    shed = [w for w in plan.workloads if w.shed_requests_per_month]
    if not shed:
        return ""
    each = ((w.name, percent(w.shed_share_frac), tokens(w.shed_requests_per_month)) for w in shed)
    parts = (f"{share} of {name} ({count} requests)" for name, share, count in each)
    penalty = f"a penalty of {usd(plan.penalty_usd_per_month)} / month, not part of the cost"
    if not sheds_much(plan):
        return f"shed every month: {', '.join(parts)}; {penalty}"
    because = _no_room(plan)
    why = f"; {because}" if because else ""
    return f"SHED every month: {', '.join(parts)}; {penalty}{why}; figures are for the rest"


def refused_sentence(plan: Plan) -> str:
    """What is refused because it is longer than is let in; nothing where nothing is."""
    each = [f"{_too_long(r)})" for r in refused_requests(plan)]
    if not each:
        return ""
    how = "REFUSED" if refuses_much(plan) else "refused"
    return f"{how} every month: {', '.join(each)}; figures are for the rest"


def refuses_much(plan: Plan) -> bool:
    """Whether so much is refused that nobody may overlook it."""
    return any(r.share_frac >= ALARM_FRAC for r in refused_requests(plan))


def passed_on(plan: Plan) -> Iterator[str]:
    """Requests that are longer than the deployments of their workload admit, and where they go."""
    for r in passed_on_requests(plan):
        where = f"go to {r.to}" if r.to else "are shed"
        yield f"{_too_long(r)}, the most its deployments accept) {where}"


def given_up(plan: Plan) -> Iterator[str]:
    """Lengths that get their first token late, even alone, and answers that may wait too long between tokens."""
    for late in late_lengths(plan):
        why = "nothing on the menu is faster for them" if late.apart else (
            f"the objective covers {late.percentile:.0%} of all requests"
        )  # fmt: skip
        yield (f"late: {percent(late.share_frac, 1)} of {late.workload} (prompts of about {late.input_tokens:,.0f} "
               f"tokens or more) wait {late.ttft_s:.1f} s or longer for their first token on {late.deployment}, "
               f"against a target of {late.target_s:g} s; {why}")  # fmt: skip
    for slow in late_answers(plan):
        share, whose = percent(slow.share_frac, 1), alike(slow.workloads)
        yield (f"at risk: by a cautious estimate, only {share} of the answers of {whose} keep the TPOT of "
               f"{1e3 * slow.target_s:g} ms in the busiest hour on {slow.deployment} ({slow.percentile:.0%} promised), "
               "because prompts that take many steps slow them down; 'fleetplan verify' serves the plan")  # fmt: skip


def assumed_traffic(plan: Plan) -> Iterator[str]:
    """What is assumed of lengths and bursts that decides how many replicas are bought: a line for a workload, the rest
    of many counted."""
    assumed = {a.key: a.value for a in plan.assumptions}
    for say in (_assumed_means, _assumed_bursts):
        lines = [line for w in plan.case.workloads if (line := say(w, assumed))]
        yield from lines[:NAMES_SHOWN]
        if (more := len(lines) - NAMES_SHOWN) > 0:
            yield f"the same for {counted(more, 'other workload')}: see the assumptions below"


def _assumed_means(w: Workload, assumed: Mapping[str, str]) -> str | None:
    """Means of a log-normal, where the file gives two percentiles alone."""
    sides = (("input", "prompts"), ("output", "answers"))
    means = ((what, assumed.get(f"workloads.{w.name}.tokens.{side}.mean")) for side, what in sides)
    said = [f"{what} {mean}" for what, mean in means if mean]
    if not said:
        return None
    return (f"{w.name}: mean lengths are assumed from p50 and p95 alone ({', '.join(said)}); add 'mean', or run "
            "'fleetplan demand' on a log")  # fmt: skip


def _assumed_bursts(w: Workload, assumed: Mapping[str, str]) -> str | None:
    """A burstiness that nobody gave and that decides, or one that is larger than known ones."""
    key = f"workloads.{w.name}.forecast.burstiness"
    if f"{key}.window" in assumed:
        return (f"{w.name}: burstiness {w.arrival_scv:g} is taken to apply to gaps inside a minute; that is larger "
                f"than in public traces (code completion: {MOST_KNOWN_BURSTINESS:g}) and decides the size of the "
                "fleet; check it with 'fleetplan demand'")  # fmt: skip
    if key not in assumed or w.deadline_h is not None:
        return None
    if w.arrival_scv > DEFAULT_BURSTINESS:
        kind = f"burstiness {w.arrival_scv:g} is assumed for its kind of traffic"
        return f"{w.name}: {kind}; 'fleetplan demand' measures yours"
    if w.ttft.seconds > TIGHT_TTFT_S:
        return None
    return (f"{w.name}: burstiness {w.arrival_scv:g} is assumed, and it decides whether its tight TTFT is kept; run "
            "'fleetplan demand' on a log, or write 'kind: completion' for code completion")  # fmt: skip


def _too_long(r: TooLong) -> str:
    count = f"{tokens(r.requests_per_month)} requests longer than {r.tokens:,} tokens"
    return f"{percent(r.share_frac, 2)} of {r.workload} ({count}"


def sheds_much(plan: Plan) -> bool:
    """Whether so much is shed that nobody may overlook it."""
    share = max((w.shed_share_frac for w in plan.workloads), default=0.0)
    return share >= ALARM_FRAC or plan.penalty_usd_per_month > ALARM_FRAC * plan.cost_usd_per_month


def _no_room(plan: Plan) -> str:
    """The limits under which no more can be served."""
    quotas = [b for b in plan.binding if b.limit not in ("min_replicas", "budget_usd_per_month", "budget")]
    reasons = [f"{b.limit} {b.value:,.0f}{f' of {b.name}' if b.name else ''} is reached" for b in quotas]
    budget = plan.case.limits.budget_usd_per_month
    if budget is not None:
        reached = any(b.limit == "budget_usd_per_month" for b in plan.binding)
        room = budget - plan.total_usd_per_month
        one_more = [line.usd_per_h * HOURS_PER_MONTH for line in plan.fleet]
        if reached:
            reasons.insert(0, f"the budget of {usd(budget)} a month is used up")
        elif one_more and room < min(one_more):
            more = f"has {usd(room)} left, and one more instance costs at least {usd(min(one_more))}"
            reasons.insert(0, f"the budget of {usd(budget)} a month {more}")
    return ", ".join(reasons)


def held_sentence(plan: Plan) -> str:
    """What is paid in any case for what was signed before; nothing where nothing is held."""
    held, b = plan.held_usd_per_month, plan.baseline
    if not held:
        return ""
    new = usd(plan.cost_usd_per_month)
    left = f"all at {baseline_name(plan)} now: {usd(held + b.cost_usd_per_month)} / month until that lapses"
    return f"{usd(held)} / month is paid in any case for what is held, {new} is new (all that workloads show); {left}"


def left_out(plan: Plan) -> str:
    """What the report lacks, and why; nothing where it is complete."""
    if not plan.left_out:
        return ""
    parts = listed([PARTS[part.what] for part in plan.left_out], "and")
    return f"not worked out, because {REASONS[plan.left_out[0].why]}: {parts}"


def simpler_plan(plan: Plan) -> Iterator[str]:
    """The simplest plan near the cheapest one, and what each thing that the cheapest has saves."""
    found = plan.simpler
    if found is None:
        return
    cut = [r for r in found.reductions if r.done]
    more = sum(r.saves_usd_per_month or 0.0 for r in cut)
    near = f"the simplest plan within {percent(found.within_frac)}"
    if found.chosen:
        yield f"this is {near} of the cheapest, which would save {usd(max(0.0, more))} / month {_with(cut)}"
    elif cut:
        cost = f"{usd(found.cost_usd_per_month)} / month, {usd(max(0.0, more))} more"
        yield f"{near} costs {cost}; 'policy: {{choose: simplest}}' chooses it"
    for r in reductions_of(found):
        what = f"{'also ' if r.after else ''}without {' and '.join(r.without)}"
        if r.more_usd is None:
            yield f"{what}: no plan was found"
        elif not (r.done and found.chosen):
            kept = "" if r.done else f", which is over {percent(found.within_frac)}"
            yield f"{what}: at most {usd(r.more_usd)} / month more{kept}"


def _with(cut: list[Reduction]) -> str:
    return f"by using {alike([what for r in cut for what in r.without])}"


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
    unproven = is_unproven(plan.case, d.variant)
    return f"{d.basis}, unproven" if unproven else d.basis


def owed(c: Commitment) -> str:
    parts = [f"{usd(c.upfront_usd)} in cash at signing"] if c.upfront_usd else []
    if c.beyond_horizon_usd or not parts:
        parts.append(f"{usd(c.beyond_horizon_usd)} is still owed after this quarter")
    return f"{c.instances} x {c.offer} {in_words(c.term)}: {', '.join(parts)}"


def long_terms(plan: Plan) -> str:
    """What terms would save that outlast the plan, where they are not bought; nothing where they would save nothing."""
    some = plan.long_terms or ()
    saved = sum(t.saves_usd_per_month for t in some)
    if saved < NOTHING_USD:
        return ""
    what = alike([f"{t.instances} x {t.offer} {in_words(t.term)}" for t in some])
    cash, owed = sum(t.upfront_usd for t in some), sum(t.beyond_horizon_usd for t in some)
    paid = [f"{usd(cash)} in cash at signing"] if cash else []
    paid += [f"{usd(owed)} owed after this quarter"] if owed else []
    months = max(t.months_to_pay for t in some)
    return (
        f"not bought, because they outlast the plan: {what}; for the same instances they would save {usd(saved)} / "
        f"month (an estimate, not planned again), with {' and '.join(paid)}, and pay off after {months:,.1f} months of "
        "such demand; 'starts' with 'unused_after_horizon: {worth: 50%}', or 'policy: {max_liability: $200k}', allows "
        "them"
    )


def allowance_amount(plan: Plan, a: AllowancePlan) -> str:
    """What is signed of a savings plan or of provisioned units."""
    return amount_of(allowance_of(plan.case, a.name), a.units)


def amount_of(a: Allowance, units: float) -> str:
    """Of provisioned units, or dollars an hour."""
    return amount(units, a.api is not None)


def amount(units: float, of_api: bool) -> str:
    return counted(int(units), "unit") if of_api else f"{usd_small(units)}/h"


def allowance(plan: Plan, a: AllowancePlan) -> str:
    """What a savings plan or provisioned units cover, and what is lost of them."""
    lost = f", {percent(1 - a.used_frac)} of it lost" if round(a.used_frac, 3) < 1 else ""
    way = "held" if a.held else "signed"
    covers = f"covers {usd(a.covered_usd_per_month)} / month, {percent(a.covered_frac)} of what it may cover"
    owed_then = f"; {usd(a.beyond_horizon_usd)} is still owed after the quarter" if a.beyond_horizon_usd else ""
    return f"{a.name}, {allowance_amount(plan, a)} {way} for {usd(a.usd_per_month)} / month{lost}, {covers}{owed_then}"


def power(plan: Plan) -> str | None:
    """Power, energy and carbon of the fleet in a line; None where nothing is known of them."""
    found = plan.power
    if found is None or not found.places:
        return None
    each = f", {found.joules_per_token:.2g} J a token" if found.joules_per_token else ""
    a_month = f"{found.kwh_per_month:,.0f} kWh and {found.co2_kg_per_month:,.0f} kg CO2e a month"
    doubtful = " (carbon of the grid doubtful)" if any(place.doubt for place in found.places) else ""
    without = f", without {', '.join(found.not_known)}, whose power is not known" if found.not_known else ""
    return f"power: {found.peak_kw:,.1f} kW in the busiest hour, {a_month}{doubtful}{each}{without}"


def power_notes(plan: Plan) -> Iterator[str]:
    """What power and carbon are of, and what is not in them."""
    found = plan.power
    if found is None:
        return
    line = power(plan)
    if line is not None:
        yield line.removeprefix("power: ")
        yield (
            f"at most {found.rated_kw:,.1f} kW, and {found.rated_co2_kg_per_month:,.0f} kg CO2e in the month with the "
            "most, with every GPU in use at the most that it can draw: what limits count"
        )
        yield (
            f"what GPUs draw was off by {percent(found.error_frac)} on average where it was measured, on H100 and "
            "B200; what other GPUs and APIs draw was not measured"
        )
    for place in found.places:
        if place.doubt is not None:
            yield f"{place.place}: {DOUBTS[place.doubt]}"
    if found.not_known:
        yield f"{', '.join(found.not_known)}: nobody published the power: give tdp_w under catalog.gpus"


DOUBTS = {
    "filled": "its source has this carbon of the grid for unrelated regions: give yours under sites",
    "zero": "the provider reports no carbon at all, which is not the grid: give yours under sites",
    "assumed": "no source has its PUE and grid, so that usual ones are taken: give yours under sites",
}


def fleet_notes(plan: Plan) -> Iterator[str]:
    """What a reader of the fleet should know besides."""
    spent = sum(line.starting_usd_per_month for line in plan.fleet)
    if spent:
        minutes, times = f"{plan.case.start.instance_s / 60:g} min", counted(plan.starts_per_month, "start")
        yield (
            f"{usd(spent)} / month of the cost pays for instances while they start ({times} a month of {minutes} each)"
        )
    yield from (owed(c) for c in plan.commitments)
    yield from (allowance(plan, a) for a in plan.allowances or ())
    if sentence := long_terms(plan):
        yield sentence
    if risk := spot_risk(plan):
        yield risk
        yield (
            "spot needs a gateway that sheds non-critical requests at once, by priority, while instances are reclaimed"
        )
    deployments = [d.deployment for pool in plan.pools for d in pool.deployments]
    unproven = sorted(
        {str(replace(d.variant, gpus_per_replica=0)) for d in deployments if is_unproven(plan.case, d.variant)}
    )
    if unproven:
        yield f"unproven; try it before you sign: {plan.case.engine_name} is not known to run {', '.join(unproven)}"
    guesses = sorted({f.offer for f in plan.fleet if f.price_assumption})
    if guesses:
        yield f"assumed prices; replace them with your own under 'prices:': {', '.join(guesses)}"
    if old := sorted(set(_stale(plan))):
        yield f"stale prices; ask for today's before you sign: {', '.join(old)}"
    yield from quality_notes(plan)


def _stale(plan: Plan) -> Iterator[str]:
    """Stale prices that the plan pays, each with its date."""
    listed = {(key, way): p for key, offer in plan.case.offers.items() for way, p in offer.prices.by_way().items()}
    paid = [(f.offer, f.price_date, listed.get((f.offer, f.purchase))) for f in plan.fleet]
    for offer, written, price in paid:
        if price is not None and price.is_stale:
            yield f"{offer} (of {'unknown date' if is_of_unknown_day(written) else written})"
    for api in {w.api for w in plan.workloads if w.api and w.api_share_frac}:
        if is_of_unknown_day(plan.case.apis[api].date):
            yield f"{api} (of unknown date)"


def rejection(r: RejectionRecord) -> tuple[str, str]:
    """The reason, and the candidate with its figure; dominated ones name what dominates them."""
    if r.dominated:
        return r.reason, f"{r.candidate} (than {r.limit})"
    return f"{r.reason} (limit {r.limit})", f"{r.candidate} ({r.value})"


def within_budget(plan: Plan) -> str:
    """What a quarter spends of a budget over several months, by the month; nothing where there is none."""
    limits = plan.case.limits
    if limits.budget_usd is None or limits.budget_months is None:
        return ""
    part = limits.budget_usd * MONTHS_OF_A_QUARTER / limits.budget_months
    of_it = f"{usd(MONTHS_OF_A_QUARTER * plan.total_usd_per_month)} of {usd(part)} in a quarter"
    cash = sum(c.upfront_usd for c in plan.commitments)
    beside = f"; {usd(cash)} in cash at signing is spread over its term" if cash else ""
    return f"budget of {usd(limits.budget_usd)} a {limits.budget_period}: {of_it}{beside}"


def limits_reached(plan: Plan) -> Iterator[str]:
    """Each limit once, with what it limits and for how long."""
    grouped: dict[tuple[str, float], list[Binding]] = {}
    for b in plan.binding:
        grouped.setdefault((b.limit, b.value), []).append(b)
    for (limit, value), of in grouped.items():
        if limit == "budget_usd_per_month":
            yield f"the budget of {usd(value)} a month"
            continue
        if limit == "budget":
            yield f"the budget of {usd(value)} a {plan.case.limits.budget_period}"
            continue
        if limit == "power_kw":
            yield f"{limit} {value:,.4g} ({of[0].hours_per_month:,.0f} h a month)"
            continue
        names = [b.name for b in of[:NAMES_SHOWN] if b.name]
        more = f" and {len(of) - len(names)} more" if len(of) > NAMES_SHOWN else ""
        hours = ("up to " if len(of) > 1 else "") + f"{max(b.hours_per_month for b in of):,.0f} h a month"
        yield f"{limit} {value:,.0f}" + (f" ({', '.join(names)}{more}, {hours})" if names else "")


def cheaper_providers(plan: Plan) -> Iterator[str]:
    """Who sells the model that the plan hosts for the least, if that is less: a plan may use it if the menu says so.

    Where somebody who is counted on does, it is a concern instead.
    """
    if cheapest_elsewhere(plan) is not None:
        return
    cheaper: dict[tuple[str, ...], list[ProviderBill]] = {}
    for bill in sold_cheaper(plan):
        cheaper.setdefault(bill.workloads, []).append(bill)
    here = {w.name: w.cost_usd_per_month for w in plan.workloads}
    for workloads, bills in cheaper.items():
        least = min(bills, key=lambda bill: there_usd(plan, bill))
        fixed = having_usd(plan, least)
        had = f" including its fixed cost of {usd(fixed)}" if fixed else ""
        paid = sum(here[name] for name in workloads)
        there = f"would cost {usd(there_usd(plan, least))} / month there{had}, against {usd(paid)} here"
        more = len(bills) - 1
        others = (
            f" ({counted(more, 'other provider')} also {'sells' if more == 1 else 'sell'} it for less)" if more else ""
        )
        offer = f"cheaper at an API: {_api(least)} sells this model, and all of {alike(workloads)} {there}{others}"
        yield f"{offer}; name it under menu.apis to let a plan use it"


def baseline_name(plan: Plan) -> str:
    """The API model of the baseline, or that there are several."""
    several = {bill.api for bill in plan.baseline.by_workload or ()}
    if len(several) > 1:
        return f"{len(several)} API baselines"
    return f"{plan.baseline.provider} {plan.baseline.model}" if not several else several.pop().replace("/", " ", 1)


def baseline_notes(plan: Plan) -> Iterator[str]:
    """What the comparison with an API rests on, where workloads have baselines of their own or may not use an API."""
    bills = plan.baseline.by_workload or ()
    if len({bill.api for bill in bills}) > 1:
        each = [f"{bill.workload} {bill.api} {usd(bill.cost_usd_per_month)}" for bill in bills]
        yield f"baselines, $/month: {alike(each)}"
    apis = {baseline_of(plan.case, w) for w in plan.case.workloads}
    if fixed := apis_usd(plan.case, apis):
        yield f"the baseline leaves out {usd(fixed)} / month, the fixed cost of {_owners(plan, apis)}"
    yield from _baselines_too_large(plan)
    yield from _baselines_too_small(plan)
    yield from _baselines_too_short(plan)
    barred = [bill for bill in bills if not bill.may_use_an_api]
    if not barred:
        return
    names = alike([bill.workload for bill in barred])
    price = f"{usd(sum(bill.cost_usd_per_month for bill in barred))} / month of the baseline"
    part = beside_what_apis_may_serve(plan)
    if part is None:
        yield "no API may serve any workload, so the baseline is for comparison only"
        return
    team = ", all engineers included" if plan.costs.engineers_usd_per_month else ""
    rest = f"{usd(part.own_usd)} here{team}, {usd(part.there_usd)} at their baseline"
    yield f"no API may serve {names} ({price}); the others: {rest if part.there_usd else 'nothing at an API'}"


@dataclass(frozen=True)
class BesideBaseline:
    """What a plan costs for the workloads that an API may serve, engineers included, and what their baseline does."""

    own_usd: float
    there_usd: float

    @property
    def saves_usd(self) -> float:
        return self.there_usd - self.own_usd

    @property
    def said(self) -> str:
        if self.saves_usd < 0 or not self.there_usd:
            return f"costs {usd(-self.saves_usd)} / month more"
        return f"saves {percent(self.saves_usd / self.there_usd)} ({usd(self.saves_usd)} / month)"


def beside_what_apis_may_serve(plan: Plan) -> BesideBaseline | None:
    """None where APIs may serve every workload, or none."""
    bills = plan.baseline.by_workload or ()
    barred = _named([bill for bill in bills if not bill.may_use_an_api])
    others = [bill for bill in bills if bill.may_use_an_api]
    if not barred or not others:
        return None
    held = held_usd_by_workload(account_of(plan)) if plan.held_usd_per_month else {}
    of_barred = (w.cost_usd_per_month + held.get(w.name, 0.0) for w in plan.workloads if w.name in barred)
    own = plan.total_usd_per_month - sum(of_barred)
    return BesideBaseline(own, sum(bill.cost_usd_per_month for bill in others))


def _baselines_too_large(plan: Plan) -> Iterator[str]:
    """Workloads that list a smaller model than that of their baseline: what is saved is the price of a larger one."""
    case, names = plan.case, dict[tuple[str, str], list[str]]()
    for w in case.workloads:
        tier, asked = tier_of_api(baseline_of(case, w)), tier_of_model(case.models[w.models[0].model])
        if tier is not None and is_below(asked, tier):
            names.setdefault((baseline_of(case, w), f"{tier} model, and {{}} {asked} one"), []).append(w.name)
    for (api, sizes), workloads in names.items():
        lists = f"{alike(workloads)} {'lists' if len(workloads) == 1 else 'list'} a"
        yield f"the baseline {api} is a {sizes.format(lists)}"


def longer_terms(plan: Plan) -> Iterator[str]:
    """Longer terms that the menu names, and that are not to be had for what is to be signed."""
    for signed in plan.commitments:
        listed = [term for term in plan.case.purchase if not is_bought(term)]
        longer = [term for term in listed if term_months(term) > term_months(signed.term)]
        sold = plan.case.offers[signed.offer].prices.by_way()
        missing = [term for term in longer if term not in sold]
        if missing and len(missing) == len(longer):
            terms = " or ".join(missing)
            yield f"no price is known for {signed.offer} {terms}: ask for one, and write it under 'prices:'"


def _baselines_too_small(plan: Plan) -> Iterator[str]:
    """Workloads that may use an API, and not that of their baseline, which sells a smaller model than they ask for."""
    case, names = plan.case, dict[str, list[str]]()
    for w in case.workloads:
        if w.api_allowed and is_too_small(case, w, baseline_of(case, w)):
            names.setdefault(baseline_of(case, w), []).append(w.name)
    for api, workloads in names.items():
        why = "which asks for a larger model" if len(workloads) == 1 else "which ask for a larger model"
        yield f"the baseline {api} may not answer {alike(workloads)}, {why}: it is for comparison only"


def _baselines_too_short(plan: Plan) -> Iterator[str]:
    """Workloads that may use an API, and let in requests that are longer than that of their baseline takes."""
    case = plan.case
    for w in case.workloads:
        api = baseline_of(case, w)
        context = api_context(case, api, case.apis[api])
        if context is None or not w.api_allowed or holds(case, w, api, case.apis[api]):
            continue
        longer = (
            f"{percent(too_long_share(w, context), 2)} of the requests of {w.name} are longer than the {context:,} "
            "tokens"
        )
        yield f"{longer} that {api} accepts, so the baseline is for comparison only"


def _named(bills: list[BaselineBill]) -> set[str]:
    return {bill.workload for bill in bills}


def _owners(plan: Plan, apis: set[str]) -> str:
    """Providers of some API models that have a fixed cost."""
    owners = vendors_bought_of(plan.case, (), apis)
    return " and ".join(vendor[1] for vendor in owners if vendor_usd(plan.case, vendor))


def no_api_is_allowed(plan: Plan) -> bool:
    return not any(w.api_allowed for w in plan.case.workloads)


def demand_notes(plan: Plan) -> Iterator[str]:
    """Where long requests go, what is late, and what is assumed of traffic."""
    if refused := refused_sentence(plan):
        yield refused
    yield from passed_on(plan)
    yield from given_up(plan)
    yield from assumed_traffic(plan)


def _api(bill: ProviderBill) -> str:
    return f"{bill.provider}/{bill.model}"


def alike(names: tuple[str, ...] | list[str]) -> str:
    """Some names, the rest counted."""
    more = len(names) - NAMES_SHOWN
    return ", ".join(names[:NAMES_SHOWN]) + (f" and {more} more" if more > 0 else "")
