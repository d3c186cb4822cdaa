"""At which volumes the best self-hosted plan and the API bill cost the same: every crossing, found by planning again.

First a coarse grid of volumes. Then every interval at whose ends different ways are proved cheaper is halved until it
is narrow. Then intervals with the same answer at both ends are walked through, as far at a time as costs that never
fall with volume prove that the answer stays the same; what stays unproved is said.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import chain, pairwise

from planner.case.changes import has_quotas
from planner.io.formatting import usd
from planner.optimization.replan import Replanner, to_compare
from planner.pipeline import why
from planner.plan.plan import Plan
from planner.plan.study_records import BreakEven, Crossing, VolumePoint, Why
from planner.studies.own_or_rent import OwnOrRent
from planner.studies.volumes import Volumes, Way
from solvers.backends.clock import Stopped, why_stopped
from solvers.search.fleet_solution import Options, Progress

GRID = (1 / 32, 1 / 10, 1 / 4, 1 / 2, 1.0, 2.0, 4.0, 10.0, 32.0)
NARROW = 1.02
"""how far apart the ends of a crossing may be"""
MOST_VOLUMES, MOST_UNKNOWN = 60, 4
"""tried beyond the grid, for each way; and those of them for which the proofs cannot tell, before that is accepted"""
WIDE_FRAC = 0.05
Interval = tuple[float, float]


def break_even(
    plan: Plan,
    options: Options | None = None,
    on_progress: Callable[[Progress], None] = lambda progress: None,
    grid: tuple[float, ...] = GRID,
) -> BreakEven:
    """Plan again at other volumes of the same demand, quotas and budget lifted. A wish to stop keeps what is known."""
    options = options or Options()
    replanner = Replanner(plan.case, to_compare(options), on_progress, total_s=options.time_limit_s)
    volumes = Volumes(plan, replanner)
    servers, notes = OwnOrRent(volumes), list[str]()
    stopped: Why | None = None
    try:
        first = [(way, m) for way in volumes.cases for m in sorted(grid, key=lambda m: abs(math.log(m)))]
        for k, (way, multiple) in enumerate(first):
            with replanner.part(f"break-even, volume {k + 1} of {len(first)}: "):
                volumes.at(way, multiple)
        for way in volumes.cases:
            _settle(volumes, way, notes)
        servers.settle()
    except Stopped as stop:
        stopped = why(stop)
        notes.append(f"{why_stopped(stop)}: not all volumes were tried")
    notes = [*_premises(plan, volumes), *notes, *_far_from_proved(volumes)]
    return _recorded(plan, volumes, servers, notes, stopped)


def _settle(volumes: Volumes, way: Way, notes: list[str]) -> None:
    """Narrow every crossing, then prove the rest, where more crossings may come up; a note for what is left."""
    for n in range(MOST_VOLUMES):
        narrower = (m for change in _changes(volumes, way) if (m := _nearer(volumes, way, change)))
        further = (m for i in _unproved(volumes, way) if (m := volumes.proved_as_far_as(way, *i, NARROW)))
        volume = next(chain(narrower, further, _beside_unknown(volumes, way)), None)
        if volume is None:
            break
        with volumes.replanner.part(f"break-even, volume {n + 1} of at most {MOST_VOLUMES} in between: "):
            volumes.at(way, volume)
    said = "the self-hosted plan" if way == "self-hosted" else "the plan with APIs"
    open_changes = [i for i in _changes(volumes, way) if i[1] / i[0] > NARROW]
    notes += [
        f"between {low:.3g} and {high:.3g} times the volume {said} and the API bill are too close for the proofs to "
        "tell apart: there may be more crossings"
        for low, high in _together(sorted([*_unproved(volumes, way), *open_changes]))
    ]


def _known(volumes: Volumes, way: Way) -> list[float]:
    """Volumes at which it is proved which way is cheaper."""
    return [m for m in sorted(volumes.found[way]) if volumes.cheaper(way, m) is not None]


def _changes(volumes: Volumes, way: Way) -> list[Interval]:
    known = _known(volumes, way)
    return [(a, b) for a, b in pairwise(known) if volumes.cheaper(way, a) != volumes.cheaper(way, b)]


def _unproved(volumes: Volumes, way: Way) -> list[Interval]:
    """Neighbours between which more may happen than one change."""
    tried, changes = sorted(volumes.found[way]), _changes(volumes, way)
    return [
        (a, b)
        for a, b in pairwise(tried)
        if not any(low <= a and b <= high for low, high in changes) and not volumes.same_between(way, a, b)
    ]


def _nearer(volumes: Volumes, way: Way, change: Interval) -> float | None:
    """A volume that narrows a crossing from one of its ends; None where it is narrow, or the proofs cannot tell."""
    tried = [m for m in sorted(volumes.found[way]) if change[0] <= m <= change[1]]
    at_the_ends = sorted({(tried[0], tried[1]), (tried[-2], tried[-1])}, key=lambda i: i[0] / i[1])
    return _middle(at_the_ends[0])


def _beside_unknown(volumes: Volumes, way: Way) -> list[float]:
    """Volumes beside the few for which the proofs cannot tell, where the next ones are far away."""
    unknown = [m for m in volumes.found[way] if volumes.cheaper(way, m) is None]
    wide = [i for i in pairwise(sorted(volumes.found[way])) if set(i) & set(unknown)]
    return [m for i in wide if (m := _middle(i))] if len(unknown) <= MOST_UNKNOWN else []


def _middle(interval: Interval) -> float | None:
    """A volume between the two, in few digits; None where they are close."""
    low, high = interval
    middle = float(f"{math.sqrt(low * high):.4g}")
    return middle if high / low > NARROW and low < middle < high else None


def _together(intervals: list[Interval]) -> list[Interval]:
    """Intervals that touch, as one."""
    joined: list[Interval] = []
    for low, high in intervals:
        if joined and joined[-1][1] >= low:
            joined[-1] = (joined[-1][0], max(joined[-1][1], high))
        else:
            joined.append((low, high))
    return joined


def _premises(plan: Plan, volumes: Volumes) -> list[str]:
    case, tried = plan.case, sorted(volumes.found["self-hosted"])
    notes = []
    if tried:
        notes.append(f"tried from {tried[0]:.3g} to {tried[-1]:.3g} times the volume of the case, not beyond")
    if has_quotas(case):
        notes.append("quotas and the budget are lifted, because they are set for one volume")
    if any(w.shed_usd_per_request is not None for w in case.workloads):
        notes.append("nothing is shed, so that both plans answer the same requests")
    if volumes.api_fixed_usd:
        notes.append(
            f"the API bill includes {usd(volumes.api_fixed_usd)} / month that its provider costs at any volume"
        )
    if not case.engineers_usd_per_month:
        notes.append(
            "engineers are not counted; to count them, write policy: {engineers: {count: 1.5, usd_per_year: 200k}}"
        )
    if tried and all(found.usd is None for found in volumes.found["self-hosted"].values()):
        notes.append("no self-hosted plan was found at any of these volumes")
    if "mixed" not in volumes.cases:
        notes.append("no workload may use an API, so there is no plan with APIs as well")
    return notes


def _far_from_proved(volumes: Volumes) -> list[str]:
    """Where a search ended with a wide gap, the curve may lie too high."""
    wide = sorted(
        {m for some in volumes.found.values() for m, found in some.items()
         if found.usd and found.bound_usd is not None and found.usd - found.bound_usd > WIDE_FRAC * found.usd}
    )  # fmt: skip
    if not wide:
        return []
    at = ", ".join(f"{m:.3g}" for m in wide)
    return [f"at {at} times the volume cheaper plans may exist: proved within more than {WIDE_FRAC:.0%} only"]


def _recorded(plan: Plan, volumes: Volumes, servers: OwnOrRent, notes: list[str], stopped: Why | None) -> BreakEven:
    api = plan.case.apis[plan.case.baseline]
    return BreakEven(
        provider=api.provider,
        model=api.model,
        engineers_usd_per_month=plan.case.engineers_usd_per_month,
        points=tuple(_point(volumes, m) for m in sorted({m for some in volumes.found.values() for m in some})),
        crossings=tuple(_crossing(volumes, "self-hosted", i) for i in _changes(volumes, "self-hosted")),
        mixed_crossings=tuple(_crossing(volumes, "mixed", i) for i in _changes(volumes, "mixed")),
        own=servers.points,
        notes=tuple(notes),
        stopped=stopped,
    )


def _point(volumes: Volumes, multiple: float) -> VolumePoint:
    own, mixed = (volumes.found[way].get(multiple) for way in ("self-hosted", "mixed"))
    return VolumePoint(
        multiple=multiple,
        tokens_per_month=volumes.tokens_at_1 * multiple,
        api_usd_per_month=volumes.api_usd(multiple),
        self_hosted_usd_per_month=own.usd if own else None,
        self_hosted_bound_usd_per_month=own.bound_usd if own else None,
        mixed_usd_per_month=mixed.usd if mixed else None,
        mixed_bound_usd_per_month=mixed.bound_usd if mixed else None,
    )


def _crossing(volumes: Volumes, way: Way, interval: Interval) -> Crossing:
    low, high = interval
    multiple = _where_equal(volumes, way, interval)
    cheaper = volumes.cheaper(way, high)
    assert cheaper is not None
    return Crossing(
        multiple=multiple,
        tokens_per_month=volumes.tokens_at_1 * multiple,
        usd_per_month=volumes.api_usd(multiple),
        between_multiples=(low, high),
        cheaper_from_here=cheaper,
    )


def _where_equal(volumes: Volumes, way: Way, interval: Interval) -> float:
    """On straight lines between the ends, where both have a plan and the plans found lie on both sides of the bill."""
    low, high = interval
    at_low, at_high = volumes.at(way, low).usd, volumes.at(way, high).usd
    if at_low is not None and at_high is not None:
        over_low, over_high = at_low - volumes.api_usd(low), at_high - volumes.api_usd(high)
        if over_low * over_high < 0:
            return low + (high - low) * over_low / (over_low - over_high)
    return math.sqrt(low * high)
