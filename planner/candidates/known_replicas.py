"""Replicas that are worked out already: a changed copy of a case has most of them in common with it.

What a replica does depends on its machine, on the engine and measurements of it, and on the lengths, objectives and
bursts of the requests. It does not depend on how many there are, nor on what an API would cost, unless requests reuse
prompts: what is found of them depends on how busy replicas are in the busiest hour.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from copy import copy

from planner.candidates.replica import Replica, busiest_rps
from planner.candidates.traffic import Traffic
from planner.case.boxes import link_gb_per_s
from planner.case.case import Case
from planner.catalog.variant import Variant
from planner.performance.kv_tiers import KvTier

MOST_KNOWN = 8192
Key = tuple[Variant, tuple[KvTier, ...], str, tuple[float, ...], float | None, tuple[int, ...]]


class KnownReplicas:
    """The replicas that were asked for last, by what they depend on."""

    def __init__(self, most: int = MOST_KNOWN) -> None:
        self.most = most
        self._known: OrderedDict[Key, tuple[tuple[object, ...], Replica]] = OrderedDict()
        """with the parts of the case, so that no other object takes the identity of one of them"""

    def of(
        self,
        case: Case,
        traffics: Sequence[Traffic],
        variant: Variant,
        tiers: tuple[KvTier, ...],
        work_out: Callable[[Sequence[Traffic]], Iterator[Replica]],
    ) -> Iterator[Replica]:
        """Yield the replica for each traffic, in their order; those that are not known are worked out together."""
        parts, link = _parts(case, variant), link_gb_per_s(case, variant)
        keys = [(variant, tiers, *_like(case, traffic), link, tuple(map(id, parts))) for traffic in traffics]
        known = [self._known.get(key) for key in keys]
        missing = [traffic for traffic, found in zip(traffics, known, strict=True) if found is None]
        new = work_out(missing) if missing else iter(())
        for key, traffic, found in zip(keys, traffics, known, strict=True):
            replica = next(new) if found is None else _with_traffic(found[1], traffic)
            self._known[key] = parts, replica
            self._known.move_to_end(key)
            if len(self._known) > self.most:
                self._known.popitem(last=False)
            yield replica


def _parts(case: Case, v: Variant) -> tuple[object, ...]:
    """What a replica depends on beside its traffic; a changed copy of a case has the same objects."""
    what = (case.models[v.model], case.quantizations[v.quantization], case.gpus[v.gpu], case.efficiency[v.gpu])
    return (*what, case.engine, case.engine_name, case.profiles, case.limits.routing, case.drafters)


def _like(case: Case, traffic: Traffic) -> tuple[str, tuple[float, ...]]:
    """What of the requests matters, and how many there are where that does."""
    if not any(w.reuses for w in traffic.members):
        return traffic.likeness, ()
    return traffic.likeness, (busiest_rps(case, traffic.members), case.limits.min_replicas)


def _with_traffic(replica: Replica, traffic: Traffic) -> Replica:
    """The same with other numbers of requests; what is worked out of it stays."""
    if replica.traffic is traffic:
        return replica
    same = copy(replica)
    object.__setattr__(same, "traffic", traffic)
    return same
