"""What each team bears of a whole horizon: the mean over its scenarios, to the cent."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

from planner.case.teams import NO_TEAM, TEAM
from planner.plan.account.account import account_of
from planner.plan.account.showback import HELD, PARTS, Bearer, borne_by, in_cents, in_order
from planner.plan.horizon.horizon_plan import MONTHS_OF_A_QUARTER, HorizonPlan


@dataclass(frozen=True)
class TeamShare:
    """Of the expected cost of a horizon."""

    kind: str
    team: str | None
    workloads: tuple[str, ...]
    instances_usd: float
    apis_usd: float
    caching_usd: float
    committed_usd: float
    """its share of what is paid in any case: held before, or signed in the horizon"""
    other_usd: float
    usd: float


def horizon_showback(horizon: HorizonPlan) -> tuple[TeamShare, ...]:
    """Teams by what they cost, then who has none, what is shared and what is not used; nothing where nobody has one.

    Months of a quarter's plan stand in it with their probability, so that the quarters add up to the expected cost.
    """
    of = {w.name: w.team for w in horizon.case.workloads}
    if not any(of.values()):
        return ()
    likely = {s.name: s.probability_frac for s in horizon.scenarios}
    usd: defaultdict[Bearer, list[float]] = defaultdict(lambda: [0.0] * PARTS)
    for q in horizon.quarters:
        weight = MONTHS_OF_A_QUARTER * (1.0 if q.scenario is None else likely[q.scenario])
        for who, parts in borne_by(account_of(q.plan), q.plan.workloads).items():
            usd[who] = [total + weight * part for total, part in zip(usd[who], parts, strict=True)]
    rows = in_order(usd)
    whole = in_cents(list(rows.values()), HELD)
    return tuple(_share(of, kind, name, cents) for (kind, name), cents in zip(rows, whole, strict=True))


def _share(of: dict[str, str | None], kind: str, name: str | None, cents: list[int]) -> TeamShare:
    theirs = tuple(w for w, team in of.items() if team == name) if kind in (TEAM, NO_TEAM) else ()
    return TeamShare(kind, name, theirs, *(each / 100 for each in (*cents, sum(cents))))
