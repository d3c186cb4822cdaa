"""Candidates: every deployment that could serve a pool, and a reason for each one that cannot.

A deployment is (model, quantization, offer, GPUs per replica). A pool is a workload by itself, or several that share
replicas, under one choice of caching.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from planner.candidates.candidate import Candidate
from planner.candidates.dominance import beaten_options
from planner.candidates.pools import PoolSpec, groups_alone, shared_groups
from planner.candidates.rejection import Rejection, RejectionKind
from planner.candidates.screen import Excluded, Screen, Screening
from planner.case.apis import api_context, holds, is_of_another_model, is_too_small
from planner.case.case import Case
from planner.case.length_buckets import too_long_share
from planner.case.slots import slots_of
from planner.catalog.apis import tier_of_api, tier_of_model
from planner.io.formatting import percent


@dataclass(frozen=True)
class Candidates:
    """Who may be served together, and what may and what may not serve them."""

    pools: dict[str, PoolSpec]
    accepted: dict[str, tuple[Candidate, ...]]
    """by the key of the pool"""
    rejected: tuple[Rejection, ...]


def enumerate_candidates(
    case: Case,
    without: Excluded = frozenset(),
    on_step: Callable[[], None] = lambda: None,
    look_at: int | None = None,
) -> Candidates:
    """Screen every combination on the menu for every pool, then keep the choices of caching that are not dominated.

    `on_step` is called now and then, and may raise what gives the work up. `look_at`: how many of each rank are looked
    at where any good plan answers a question; then nothing is rejected for a reason (shortlist.py).
    """
    slots = slots_of(case)
    alone = groups_alone(case)
    shared, refused = shared_groups(case, slots, {group.key for group in alone})
    # Groups that differ in what is found before the GPUs come to the same replicas: judged once.
    judged_as = {id(group.traffic): group.key for group in reversed(alone)}
    judged = [g for g in alone if judged_as[id(g.traffic)] == g.key] + shared
    verdicts = Screen(case, judged, without, on_step, look_at).verdicts()
    pools: dict[str, PoolSpec] = {}
    accepted: dict[str, tuple[Candidate, ...]] = {}
    rejected: list[Rejection] = []
    options: dict[str, list[PoolSpec]] = {w.name: [] for w in case.workloads}
    for group in alone:
        found = verdicts[judged_as[id(group.traffic)]].accepted
        accepted[group.key] = tuple(replace(c, pool=group) for c in found)
        options[group.members[0].name].append(group)
    for groups in options.values():
        beaten = beaten_options(case, groups, accepted, slots)
        kept = [group for group in groups if group.key not in beaten]
        pools |= {group.key: group for group in kept}
        rejected += _against_every_option([verdicts[judged_as[id(group.traffic)]] for group in kept])
        rejected += [_against_the_option(group, beaten[group.key]) for group in groups if group.key in beaten]
    against: dict[tuple[str, ...], list[Rejection]] = {}
    for group in shared:
        verdict = verdicts[group.key]
        if verdict.accepted:
            pools[group.key], accepted[group.key] = group, tuple(verdict.accepted)
        else:
            against.setdefault((*group.models, *group.workloads), verdict.against_sharing(group))
    rejected += [r for reasons in against.values() for r in reasons]
    return Candidates(pools, {key: accepted[key] for key in pools}, (*rejected, *refused, *_against_apis(case)))


def _against_every_option(verdicts: list[Screening]) -> list[Rejection]:
    """Reasons against what serves the whole workload under none of its choices of caching, each once."""
    whole = {c.name for v in verdicts for c in v.accepted if c.replica.serves_all}
    first: dict[str, Rejection] = {}
    for rejection in (r for v in verdicts for r in v.rejected):
        first.setdefault(rejection.candidate, rejection)
    return [r for r in first.values() if r.candidate not in whole]


def _against_apis(case: Case) -> Iterator[Rejection]:
    """APIs that sell a smaller model than a workload asks for, where that is forbidden, or a shorter context."""
    for w in case.workloads:
        first = w.models[0].model
        for api in case.menu_apis if w.api_allowed else ():
            if is_of_another_model(case, w, api):
                continue
            if is_too_small(case, w, api):
                asked, there = f"{tier_of_model(case.models[first])}, as {first}", f"{tier_of_api(api)}"
                yield Rejection(w.name, f"api {api}", "sells a model of a lower tier", asked, there)
            elif not holds(case, w, api, case.apis[api]):
                context = api_context(case, api, case.apis[api]) or 0
                longer = f"{percent(too_long_share(w, context), 2)} of requests are longer"
                yield Rejection(w.name, f"api {api}", "context too short", f"{context:,} tokens", longer)


def _against_the_option(group: PoolSpec, better: PoolSpec) -> Rejection:
    reason = "costs no less and serves no faster than another choice"
    candidate, kind = f"caching: {group.caching[0]}", RejectionKind.DOMINATED
    return Rejection(group.members[0].name, candidate, reason, better.caching[0], "dominated", kind)
