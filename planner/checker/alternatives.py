"""What could have served, and what could not: the options beside the chosen one, and the reasons against the rest."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from planner.candidates.enumerate import enumerate_candidates
from planner.candidates.rejection import Rejection
from planner.case.apis import cache_usd_per_h, request_usd
from planner.case.case import Case, Workload
from planner.checker.checked import Checked
from planner.checker.figures import differs, is_not
from planner.checker.serving import caching_is_allowed
from planner.plan.plan import OptionRecord, RejectionRecord

NOBODY = "shed"
MOST_SCREENED = 8
_SCREENED: dict[str, tuple[Rejection, ...]] = {}
"""by the hash of the case"""


def options_are_named(checked: Checked) -> Iterator[str]:
    """Options are of the workloads, deployments and APIs of the case, and the one that serves is marked.

    What other deployments would cost by themselves is a search of its own, which arithmetic cannot repeat.
    """
    by_name = {w.name: w for w in checked.case.workloads}
    for o in checked.plan.options:
        if o.workload in by_name:
            yield from (
                f"{o.workload}: the option {o.option}: {p}" for p in _option_holds(checked, by_name[o.workload], o)
            )
        else:
            chosen = "is chosen" if o.chosen else "is listed"
            yield f"an option {chosen} for {o.workload}, which is not a workload of the case"
    listed = Counter((o.workload, o.option, o.caching, o.shared_with) for o in checked.plan.options)
    for (workload, option, *_), times in listed.items():
        if times > 1:
            yield f"{workload}: the option {option} is listed {times} times"
    if any(part.what == "options" for part in checked.plan.left_out or ()) and not all(
        o.chosen for o in checked.plan.options
    ):
        yield "options are marked as left out, but some that were not chosen are listed"
    yield from _one_option_is_chosen(checked)


def _option_holds(checked: Checked, w: Workload, o: OptionRecord) -> Iterator[str]:
    yield from caching_is_allowed(w, o.caching)
    yield from is_not("its name", o.option, " + ".join(o.deployments) or (f"api {o.api}" if o.api else NOBODY))
    how = (o.gpus_per_replica, o.parallelism, o.boxes_per_replica, o.speculation)
    described = (o.model, o.quantization, o.gpu, o.offer, *how)
    if len(o.deployments) == 1:
        if o.variant is None or o.offer not in checked.case.offers or o.deployments != (o.variant.key_on(o.offer),):
            yield f"it is described as {o.variant} of {o.offer}"
        else:
            yield from is_not("the GPU of its offer", o.gpu, checked.case.offers[o.offer].gpu)
    elif described != (None, None, None, None, 0, None, None, None):
        yield f"it is described as one deployment, but has {len(o.deployments)}"
    if o.api is not None:
        yield from _the_api_serves_all(checked, w, o)
    elif o.chosen and (o.shared_with or len(o.deployments) != 1 or w.deadline_h is not None):
        yield from _cost_is_that_of_the_plan(checked, o)
    if not o.chosen and (o.shared_with or len(o.deployments) > 1 or o.option == NOBODY):
        yield "it is not a way to serve a workload by itself"


def _the_api_serves_all(checked: Checked, w: Workload, o: OptionRecord) -> Iterator[str]:
    """Every request that no cache answers, at the price of the case."""
    assert o.api is not None
    if o.api not in checked.case.menu_apis or not w.api_allowed:
        yield f"{o.api} may not serve it"
        return
    account = checked.account
    seen = account.by_length(w.with_caching(o.caching))
    usd_per_h = 3600 * seen @ request_usd(checked.case, w, o.api)
    usd = account.a_month(usd_per_h + cache_usd_per_h(checked.case, w, o.caching, account.slots))
    requests = 3600 * account.a_month(seen.sum(axis=1))
    if o.chosen:
        usd += account.a_month(account.money.cover.more_usd_per_h(w.name))
    yield from differs("cost_usd_per_month", o.cost_usd_per_month, usd)
    yield from differs("api_share_frac", o.api_share_frac, requests / checked.account.requests_per_month(w))
    yield from is_not("peak_replicas", o.peak_replicas, 0)


def _cost_is_that_of_the_plan(checked: Checked, o: OptionRecord) -> Iterator[str]:
    """Of what is chosen and no option by itself: several deployments, a shared pool, work that waits."""
    pool = checked.plan.pool_of(o.workload)
    planned = next(w for w in checked.plan.workloads if w.name == o.workload)
    peak = max(map(sum, zip(*(d.replicas_by_slot for d in pool.deployments), strict=True)), default=0)
    yield from differs("cost_usd_per_month", o.cost_usd_per_month, planned.cost_usd_per_month)
    yield from differs("api_share_frac", o.api_share_frac, planned.api_share_frac)
    yield from is_not("peak_replicas", o.peak_replicas, peak)


def _one_option_is_chosen(checked: Checked) -> Iterator[str]:
    for planned in checked.plan.workloads:
        pool = checked.plan.pool_of(planned.name)
        others = tuple(name for name in pool.workloads if name != planned.name)
        keys = " + ".join(d.deployment.key for d in pool.deployments)
        used = keys or (f"api {planned.api}" if planned.api else NOBODY)
        marked = [o for o in checked.plan.options if o.chosen and o.workload == planned.name]
        by = tuple(d.deployment.key for d in pool.deployments)
        right = (used, by, None if by else planned.api, planned.caching, others)
        if [(o.option, o.deployments, o.api, o.caching, o.shared_with) for o in marked] != [right]:
            found = ", ".join(f"{o.option} with caching {o.caching}" for o in marked) or "none"
            yield f"{planned.name}: the option chosen is {used} with caching {planned.caching}, but {found} is marked"


def _rejected(case: Case) -> tuple[Rejection, ...]:
    """What cannot serve, screened once for a case, however many plans of it are checked."""
    by = case.hash()
    if by not in _SCREENED:
        if len(_SCREENED) >= MOST_SCREENED:
            _SCREENED.clear()
        _SCREENED[by] = enumerate_candidates(case).rejected
    return _SCREENED[by]


def rejections_are_true(checked: Checked) -> Iterator[str]:
    """The menu is screened again: what cannot serve, and why, but for what serves a part of the requests after all."""
    used = {(name, d.name) for pool in checked.plan.pools for name in pool.workloads for d in pool.deployments}
    true = Counter(RejectionRecord.of(r) for r in _rejected(checked.case) if (r.workload, r.candidate) not in used)
    claimed = Counter(checked.plan.rejected)
    for r in claimed - true:
        yield f"{r.workload}: {r.candidate} is not rejected for '{r.reason}' ({r.value} against {r.limit})"
    for r in true - claimed:
        yield f"{r.workload}: it is not said that {r.candidate} is rejected for '{r.reason}'"
