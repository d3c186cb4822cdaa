"""What each team is shown of the whole bill, to the cent.

A workload bears its instances, API and caches, and its share of what is held (held.py). Engineers and fixed costs of
vendors are shared by all and are a row of their own, and so is what nobody uses; rows add up to the whole bill.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import accumulate

from planner.plan.account.account import Account
from planner.plan.account.held import held_usd_by_workload
from planner.plan.plan import TeamCost, WorkloadPlan

PARTS = 5
"""instances, APIs, caches, what is held, and the rest"""


def showback_of(account: Account, workloads: tuple[WorkloadPlan, ...]) -> tuple[TeamCost, ...] | None:
    """Teams by what they cost, then who has none, what is shared and what is not used; None: no workload has a team."""
    of = {w.name: w.team for w in account.case.workloads}
    if not any(of.values()):
        return None
    held = held_usd_by_workload(account)
    usd: dict[str | None, list[float]] = {}
    for w in workloads:
        mine = usd.setdefault(of[w.name], [0.0] * PARTS)
        parts = (w.gpu_cost_usd_per_month, w.api_cost_usd_per_month, w.caching_cost_usd_per_month, held[w.name])
        for k, part in enumerate(parts):
            mine[k] += part
    money = account.money
    teams = sorted((name for name in usd if name is not None), key=lambda name: (-sum(usd[name]), name))
    rows: list[tuple[str, str | None, list[float]]] = [("team", name, usd[name]) for name in teams]
    if None in usd:
        rows.append(("no team", None, usd[None]))
    if shared := money.engineers_usd + money.vendors_usd:
        rows.append(("shared", None, [0.0, 0.0, 0.0, 0.0, shared]))
    given = sum(sum(parts) for _, _, parts in rows)
    idle_held = money.held_usd - sum(held.values())
    idle = [0.0, 0.0, 0.0, idle_held, money.cost_usd + money.held_usd - given - idle_held]
    if any(abs(part) >= 0.005 for part in idle):
        rows.append(("not used", None, idle))
    cents = _in_cents([part for _, _, parts in rows for part in parts])
    return tuple(_row(account, of, kind, name, [next(cents) for _ in range(PARTS)]) for kind, name, _ in rows)


def _row(account: Account, of: dict[str, str | None], kind: str, name: str | None, cents: list[int]) -> TeamCost:
    is_workloads = kind in ("team", "no team")
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


def _in_cents(amounts: list[float]) -> Iterator[int]:
    """Whole cents that add up to the rounded sum: each the step of the rounded running sum."""
    before = 0
    for total in accumulate(amounts):
        now = round(100 * total)
        yield now - before
        before = now
