"""What each team is shown of the whole bill, to the cent.

A workload bears its instances, API and caches, and its share of what is held. Engineers and fixed costs of vendors are
shared by all and are a row of their own, and so is what nobody uses; rows add up to the whole bill, and each column to
its sum.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from planner.case.allowances import allowance_of
from planner.case.case import OWNED
from planner.case.teams import KINDS, NO_TEAM, NOT_USED, SHARED, TEAM
from planner.plan.account.account import Account
from planner.plan.plan import TeamCost, WorkloadPlan
from problems.constants import HOURS_PER_MONTH

PARTS, HELD = 5, 3
"""instances, APIs, caches, what is held, and the rest; where of these is what is held"""
Bearer = tuple[str, str | None]
"""what kind of row, and the name of a team"""
SEEN = 6
"""digits of a cent that are more than the noise of sums"""


def showback_of(account: Account, workloads: tuple[WorkloadPlan, ...]) -> tuple[TeamCost, ...] | None:
    """Teams by what they cost, then who has none, what is shared and what is not used; None: no workload has a team."""
    of = {w.name: w.team for w in account.case.workloads}
    if not any(of.values()):
        return None
    rows = borne_by(account, workloads)
    cents = in_cents(list(rows.values()), HELD)
    return tuple(_row(account, of, kind, name, each) for (kind, name), each in zip(rows, cents, strict=True))


def borne_by(account: Account, workloads: tuple[WorkloadPlan, ...]) -> dict[Bearer, list[float]]:
    """USD a month of each part, by who bears it, in the order in which they are shown."""
    of = {w.name: w.team for w in account.case.workloads}
    held = held_usd_by_workload(account)
    usd: dict[str | None, list[float]] = {}
    for w in workloads:
        mine = usd.setdefault(of[w.name], [0.0] * PARTS)
        parts = (w.gpu_cost_usd_per_month, w.api_cost_usd_per_month, w.caching_cost_usd_per_month, held[w.name])
        for k, part in enumerate(parts):
            mine[k] += part
    money = account.money
    rows: dict[Bearer, list[float]] = {(NO_TEAM if name is None else TEAM, name): usd[name] for name in usd}
    if shared := money.engineers_usd + money.vendors_usd:
        rows[SHARED, None] = [0.0, 0.0, 0.0, 0.0, shared]
    given = sum(sum(parts) for parts in rows.values())
    idle_held = money.held_usd - sum(held.values())
    idle = [0.0, 0.0, 0.0, idle_held, money.cost_usd + money.held_usd - given - idle_held]
    if any(abs(part) >= 0.005 for part in idle):
        rows[NOT_USED, None] = idle
    return in_order(rows)


def in_order(rows: Mapping[Bearer, list[float]]) -> dict[Bearer, list[float]]:
    """Teams by what they cost, then who has none, what is shared and what is not used."""
    ranked = sorted(rows, key=lambda who: (KINDS.index(who[0]), -sum(rows[who]), who[1] or ""))
    return {who: rows[who] for who in ranked}


def _row(account: Account, of: dict[str, str | None], kind: str, name: str | None, cents: list[int]) -> TeamCost:
    is_workloads = kind in (TEAM, NO_TEAM)
    return TeamCost(
        kind=kind,  # type: ignore[arg-type]
        team=name,
        workloads=tuple(w.name for w in account.case.workloads if is_workloads and of[w.name] == name),
        instances_usd_per_month=cents[0] / 100,
        apis_usd_per_month=cents[1] / 100,
        caching_usd_per_month=cents[2] / 100,
        held_usd_per_month=cents[3] / 100,
        other_usd_per_month=cents[4] / 100,
        usd_per_month=sum(cents) / 100,
    )


def in_cents(rows: Sequence[Sequence[float]], rounded_by_itself: int) -> list[list[int]]:
    """Whole cents of amounts in dollars, each its floor or one more, so that all add up to the rounded sum of all.

    So does each column, by the largest remainders, and one of them adds up to its own sum as it is rounded elsewhere.
    """
    exact = [[round(100 * amount, SEEN) for amount in row] for row in rows]
    columns = [list(column) for column in zip(*exact, strict=True)]
    sums = [math.fsum(column) for column in columns]
    fixed = _nearest(sums[rounded_by_itself])
    others = [k for k in range(len(sums)) if k != rounded_by_itself]
    totals = dict(zip(others, _shared_out([sums[k] for k in others], _nearest(math.fsum(sums)) - fixed), strict=True))
    totals[rounded_by_itself] = fixed
    cents = [_shared_out(column, totals[k]) for k, column in enumerate(columns)]
    return [list(row) for row in zip(*cents, strict=True)]


def _nearest(cents: float) -> int:
    return math.floor(round(cents, SEEN) + 0.5)


def _shared_out(amounts: Sequence[float], total: int) -> list[int]:
    """Floors, and one more where the most was cut off, until they come to the total."""
    amounts = [round(amount, SEEN) for amount in amounts]
    floors = [math.floor(amount) for amount in amounts]
    most_cut = sorted(range(len(amounts)), key=lambda k: floors[k] - amounts[k])
    for k in most_cut[: total - sum(floors)]:
        floors[k] += 1
    return floors


def held_usd_by_workload(account: Account) -> dict[str, float]:
    """USD a month of what is paid in any case, for each workload; what they lack of the whole is not used.

    Instances go to deployments on their offer by GPU-hours, as what is bought does; allowances to what they cover.
    """
    of_offer: defaultdict[str, float] = defaultdict(float)
    of_workload = {s.w.name: 0.0 for s in account.served}
    for h in account.case.held or ():
        if h.purchase != OWNED:
            of_offer[h.offer] += h.instances * h.usd_per_h * HOURS_PER_MONTH
    for item, usd in _allowances(account):
        if item in account.case.offers:
            of_offer[item] += usd
        else:
            of_workload[item] += usd
    for s in account.served:
        of_workload[s.w.name] += account.money.share_of_offers(s, of_offer.__getitem__)
    return of_workload


def _allowances(account: Account) -> Iterator[tuple[str, float]]:
    """What held ones cost, by what they cover."""
    cover = account.money.cover
    for name, item in cover.parts:
        if allowance_of(account.case, name).held:
            yield item, cover.paid_usd_per_month(name, item)
