"""Every request goes somewhere, and only where it may: to a deployment, an API, another hour, or away."""

from __future__ import annotations

import math
from collections.abc import Iterator

from planner.case.case import Case, Workload
from planner.catalog.apis import TIERS, tier_of_api, tier_of_model
from planner.catalog.names import sells
from planner.checker.checked import Checked
from planner.checker.figures import REL, near
from planner.checker.lengths import IGNORED_FRAC, longer_share
from planner.plan.account.flows import Served
from planner.plan.plan import PoolPlan

ALMOST_NOTHING = 1e-9
"""requests a second that rounding may leave"""


def requests_go_where_they_may(checked: Checked, pool: PoolPlan, s: Served) -> Iterator[str]:
    if len(pool.workloads) > 1:
        yield from _all_of_it_is_shared(s)
    yield from _the_api_may_serve(checked, s)
    yield from _it_may_be_shed(s)
    yield from _flows_are_demand(checked, s)
    if not pool.deployments:
        yield from _nothing_is_left(checked, s)
    yield from _work_waits_in_its_window(checked, s)


def _all_of_it_is_shared(s: Served) -> Iterator[str]:
    """A shared pool carries all of its workloads."""
    decided = s.decided
    if decided.api is not None or decided.api_flows or decided.shed_flows or decided.deployment_flows or decided.moves:
        yield "it shares replicas, so all of its requests must go to them as they come"


def _the_api_may_serve(checked: Checked, s: Served) -> Iterator[str]:
    api = s.decided.api
    if api is None:
        return
    if not s.w.api_allowed:
        yield "requests go to an API although that is forbidden"
    if api not in checked.case.menu_apis:
        yield f"requests go to the API {api}, which is not on the menu"
    yield from _the_api_promises_enough(checked.case, s.w, api)
    yield from _the_api_sells_its_model(checked.case, s.w, api)
    yield from _the_api_is_large_enough(checked.case, s.w, api)
    yield from _the_api_holds_them(checked.case, s.w, api)
    if not s.decided.api_flows:
        yield f"no requests go to the API {api}, which it names"


def _the_api_promises_enough(case: Case, w: Workload, api: str) -> Iterator[str]:
    tier = case.apis[api].service_tier if api in case.apis else None
    waits = max(w.deadline_h or 0.0, w.api_wait_h) > 0
    if tier == "flex" and not waits:
        yield f"requests go to {api}, which promises no time, and {w.name} has no deadline"
    if w.api_tier is not None and tier != w.api_tier:
        yield f"requests go to {api}, although {w.name} asks for {w.api_tier}"


def _the_api_sells_its_model(case: Case, w: Workload, api: str) -> Iterator[str]:
    """Where the menu has an API for its model's sake."""
    if api in (case.same_model_apis or ()) and not _sells_what_it_lists(case, w, api):
        yield f"requests go to {api}, which is on the menu for others: it sells no model that {w.name} lists"


def _sells_what_it_lists(case: Case, w: Workload, api: str) -> bool:
    """A model that loses more quality than is accepted is none of them."""
    good_enough = {c.model for c in w.models if c.quality_loss_frac <= w.max_quality_loss_frac * (1 + REL)}
    return any(sells(api, key, case.models[key]) for key in good_enough)


def _the_api_is_large_enough(case: Case, w: Workload, api: str) -> Iterator[str]:
    if not (w.smaller_apis_forbidden or case.limits.smaller_apis_forbidden) or _sells_what_it_lists(case, w, api):
        return
    first = w.models[0].model
    asked, there = tier_of_model(case.models[first]), tier_of_api(api)
    if there is not None and TIERS.index(there) < TIERS.index(asked):
        yield f"requests go to {api}, a {there} model, although none smaller than {first} ({asked}) is allowed"


def _the_api_holds_them(case: Case, w: Workload, api: str) -> Iterator[str]:
    takes = [model.max_context_tokens for key, model in case.models.items() if sells(api, key, model)]
    if api in case.apis and (context := case.apis[api].max_context_tokens):
        takes.append(context)
    if takes and (longer := longer_share(w, min(takes))) >= IGNORED_FRAC * (1 + REL):
        yield f"requests go to {api}, which takes {min(takes)} tokens: {longer:.2%} are longer"


def _it_may_be_shed(s: Served) -> Iterator[str]:
    if s.decided.shed_flows and s.w.shed_usd_per_request is None:
        yield "requests are shed although that is not allowed"


def _flows_are_demand(checked: Checked, s: Served) -> Iterator[str]:
    ways = (s.decided.api_flows, s.decided.shed_flows, *s.decided.deployment_flows)
    flows = [checked.account.flow(s.w, flow).tolist() for flow in ways]
    for t, demand in enumerate(s.demand.tolist()):
        for bucket, rate in enumerate(demand):
            parts = [flow[t][bucket] for flow in flows]
            if min(parts) < -ALMOST_NOTHING or sum(parts) > rate * (1 + REL) + ALMOST_NOTHING:
                yield f"slot {t}: more or less than the demand is sent to the API, a deployment or away"
                break


def _nothing_is_left(checked: Checked, s: Served) -> Iterator[str]:
    for t, (rate, kept) in enumerate(zip(checked.account.rates_rps(s.seen), s.kept, strict=True)):
        if sum(kept) > REL * rate + ALMOST_NOTHING:
            yield f"slot {t}: nothing serves the requests that are not sent to the API"


def _work_waits_in_its_window(checked: Checked, s: Served) -> Iterator[str]:
    """On the same kind of day of the same month, from the hour it arrives until its deadline, around midnight too."""
    if not s.decided.moves:
        return
    if s.w.deadline_h is None:
        yield "requests wait although it has no deadline"
        return
    slots, kept = checked.plan.slots, s.kept.tolist()
    moved = [0.0] * len(slots)
    for move in s.decided.moves:
        begin, end = slots[move.from_slot], slots[move.to_slot]
        waits_h = (end.hour - begin.hour) % 24
        if (begin.month, begin.day) != (end.month, end.day) or not 0 < waits_h <= math.floor(s.w.deadline_h) - 1:
            yield f"requests of slot {move.from_slot} wait until slot {move.to_slot}, past the deadline"
        if move.requests_per_s <= 0:
            yield f"less than no requests wait from slot {move.from_slot}"
        moved[move.from_slot] += move.requests_per_s
    if len({(m.from_slot, m.to_slot) for m in s.decided.moves}) < len(s.decided.moves):
        yield "requests of a slot wait for another one twice"
    for t, demand in enumerate(s.demand.tolist()):
        if moved[t] > sum(kept[t]) * (1 + REL) + ALMOST_NOTHING:
            yield f"slot {t}: more requests wait than there are"
        shares = [k / d for k, d in zip(kept[t], demand, strict=True) if d > ALMOST_NOTHING]
        if moved[t] and not all(near(share, shares[0]) for share in shares):
            yield f"slot {t}: requests of all lengths wait alike, but not of all lengths alike go to the API"
