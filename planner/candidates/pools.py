"""Who is served together: every workload by itself, and groups that may share the replicas of one model.

A group comes with a choice of caching for each member. Of all groups that could share a model only some are
considered: all of them where at most four workloads may share; else all together, all but the largest, those with equal
objectives, and from the loosest objectives upward.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, combinations, groupby, zip_longest

from planner.candidates.rejection import Rejection
from planner.candidates.traffic import Traffic, traffic_of
from planner.case.apis import cache_usd_per_h, on_gpus
from planner.case.case import Case, Workload, kinds_of
from planner.case.menu import allowed_offers
from planner.case.slots import Slot, requests_per_month

ALL_SETS_OF = 4
"""workloads that may share a model, up to which every set of them is considered"""
MOST_SETS = 12
"""sets of workloads that are considered for a model, where there are more"""
NAMES_IN_A_KEY = 4


@dataclass(frozen=True, eq=False)
class PoolSpec:
    """Workloads that are served together, each with a choice of caching: a pool before anyone serves it."""

    key: str
    members: tuple[Workload, ...]
    """as the case has them, in its order"""
    caching: tuple[str, ...]
    """the option of each member"""
    models: tuple[str, ...]
    """that may serve it: those of a workload by itself, or the one that is shared"""
    traffic: Traffic
    """what comes to the replicas"""

    @property
    def workloads(self) -> tuple[str, ...]:
        return tuple(w.name for w in self.members)

    @property
    def shared(self) -> bool:
        return len(self.members) > 1

    @property
    def deadline_h(self) -> float | None:
        """of work that may wait, which is never shared"""
        return None if self.shared else self.members[0].deadline_h

    @cached_property
    def seen(self) -> tuple[Workload, ...]:
        """The members as GPUs and APIs see them: without the requests whose answers are found."""
        return tuple(w.with_caching(option) for w, option in zip(self.members, self.caching, strict=True))

    @property
    def caching_name(self) -> str:
        options = dict.fromkeys(self.caching)
        return next(iter(options)) if len(options) == 1 else "by workload"

    @property
    def critical_share(self) -> float:
        return max(w.critical_share_frac for w in self.members)

    def may_mix(self, case: Case) -> bool:
        """Whether several deployments may serve it, each the lengths that suit it.

        Not where a promise is kept by the lengths together that a deployment gets: sessions, and times per token.
        """
        alone = not self.shared and self.deadline_h is None
        by_length = self.members[0].sessions is None and self.members[0].e2e_per_token is None
        return case.limits.max_deployments >= 2 and alone and by_length


def groups_alone(case: Case) -> list[PoolSpec]:
    """Each workload by itself, once for each of its options of caching; the first one goes by the workload's name."""
    taken: set[str] = {w.name for w in case.workloads}
    groups = []
    for w in case.workloads:
        by_kind: dict[str, Traffic] = {}
        for k, option in enumerate(w.caching):
            key = w.name if k == 0 else _unique(f"{w.name} [{option}]", taken)
            kept = on_gpus(option)
            if kept not in by_kind:
                by_kind[kept] = traffic_of(w.with_caching(kept))
            groups.append(PoolSpec(key, (w,), (option,), tuple(c.model for c in w.models), by_kind[kept]))
    return groups


def shared_groups(case: Case, slots: tuple[Slot, ...], taken: set[str]) -> tuple[list[PoolSpec], list[Rejection]]:
    """Groups that are worth considering for each model, under keys that are not taken, and why others are not."""
    groups: list[PoolSpec] = []
    rejected: list[Rejection] = []
    on_replicas = {
        (w.name, kept): w.with_caching(kept)
        for w in case.workloads
        if w.sharing
        for kept in dict.fromkeys(on_gpus(option) for option in w.caching)
    }
    for model in case.models:
        able = [w for w in case.workloads if _may_share(w, model)]
        for members in _sets(able, case.tenancy.adapters_per_replica, slots):
            name = f"{model} shared by {_names(members)}"
            why = _against_sharing(case, members, name)
            if why is not None:
                rejected.append(why)
                continue
            for k, caching in enumerate(_caching_of(case, members, slots)):
                key = _unique(name if k == 0 else f"{name} [semantic]", taken)
                traffic = Traffic(
                    tuple(on_replicas[w.name, on_gpus(option)] for w, option in zip(members, caching, strict=True)),
                    _request_shares(members, caching, slots),
                )
                groups.append(PoolSpec(key, members, caching, (model,), traffic))
    return groups, rejected


def _request_shares(
    members: tuple[Workload, ...], caching: tuple[str, ...], slots: tuple[Slot, ...]
) -> tuple[float, ...]:
    """Share of each member in the requests that reach the replicas over the horizon."""
    pairs = zip(members, caching, strict=True)
    requests = [requests_per_month(w.with_caching(option), slots) for w, option in pairs]
    return tuple(r / sum(requests) for r in requests)


def _may_share(w: Workload, model: str) -> bool:
    return w.sharing and w.deadline_h is None and any(c.model == model for c in w.models)


def _against_sharing(case: Case, members: tuple[Workload, ...], name: str) -> Rejection | None:
    most, adapters = case.tenancy.adapters_per_replica, sum(w.adapter_gb is not None for w in members)
    if adapters > most:
        return Rejection(members[0].name, name, "too many adapters for a replica", str(most), str(adapters))
    if not allowed_offers(case, members):
        return Rejection(members[0].name, name, "no offer where the data of all of them may go", "one offer", "none")
    return None


def _sets(able: list[Workload], most_adapters: int, slots: tuple[Slot, ...]) -> list[tuple[Workload, ...]]:
    """The sets of at least two workloads that are considered, the largest first where all are."""
    if len(able) <= ALL_SETS_OF:
        return [found for size in range(len(able), 1, -1) for found in combinations(able, size)]
    loosest_first = sorted(able, key=lambda w: (*(-seconds for seconds in _slo(w)), w.name))
    requests = {w.name: requests_per_month(w, slots) for w in able}
    largest = sorted(requests, key=lambda name: (-requests[name], name))
    without_largest = ([w for w in loosest_first if w.name not in largest[:k]] for k in (1, 2))
    classes = [list(same) for _, same in groupby(loosest_first, key=_slo)]
    nested = ([w for same in classes[: k + 1] for w in same] for k in range(1, len(classes)))
    by_size = sorted(classes, key=len, reverse=True)
    alternating = (some for pair in zip_longest(by_size, nested) for some in pair if some is not None)
    place = {w.name: k for k, w in enumerate(able)}
    found: dict[tuple[str, ...], tuple[Workload, ...]] = {}
    for some in chain([loosest_first], without_largest, alternating):
        for part in _with_few_adapters(some, most_adapters):
            in_order = tuple(sorted(part, key=lambda w: place[w.name]))
            if len(in_order) > 1:
                found.setdefault(tuple(w.name for w in in_order), in_order)
    return list(found.values())[:MOST_SETS]


def _with_few_adapters(workloads: list[Workload], most: int) -> Iterator[list[Workload]]:
    """One after the other, a new part wherever a replica has no room for one more adapter."""
    part: list[Workload] = []
    for w in workloads:
        if w.adapter_gb is not None and sum(m.adapter_gb is not None for m in part) == most:
            yield part
            part = []
        part.append(w)
    yield part


def _slo(w: Workload) -> tuple[float, float]:
    return (w.tpot.seconds, w.ttft.seconds)


def _caching_of(case: Case, members: tuple[Workload, ...], slots: tuple[Slot, ...]) -> list[tuple[str, ...]]:
    """At most two choices: as much as each member may cache on the GPUs, and that with answers found whole as well."""

    def fullest(w: Workload, options: Iterable[str]) -> str:
        usd = {option: float(cache_usd_per_h(case, w, option, slots).sum()) for option in options}
        return min(usd, key=lambda option: (-len(kinds_of(option)), usd[option], option))

    choices = []
    for semantic in (False, True):
        choice = tuple(fullest(w, [o for o in w.caching if semantic or o == on_gpus(o)] or w.caching) for w in members)
        if choice not in choices:
            choices.append(choice)
    return choices


def _names(members: tuple[Workload, ...]) -> str:
    names = [w.name for w in members]
    if len(names) <= NAMES_IN_A_KEY:
        return " + ".join(names)
    return " + ".join(names[: NAMES_IN_A_KEY - 1]) + f" + {len(names) - NAMES_IN_A_KEY + 1} more"


def _unique(key: str, taken: set[str]) -> str:
    candidates: Iterator[str] = chain([key], (f"{key} #{k}" for k in range(2, len(taken) + 3)))
    free = next(c for c in candidates if c not in taken)
    taken.add(free)
    return free
