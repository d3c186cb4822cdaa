"""What each team bears, of a month or of a whole horizon."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from planner.case.teams import ROW_NAMES, TOTAL
from planner.plan.horizon.horizon_showback import TeamShare
from planner.plan.plan import TeamCost
from planner.reports.table import DATA, EVERY, FILES, Cells, Format, Table
from planner.reports.table import Column as C


def showback_table(
    title: str, rows: Sequence[TeamCost | TeamShare], unit: str, paid_anyway: Mapping[str, str]
) -> Table:
    """Rows to the cent, whose amounts are in `unit`; people read the sum below."""
    amounts = {"instances": "instances $", "apis": "APIs $", "caching": "caches $", **paid_anyway, "other": "other $"}

    def shown(key: str) -> tuple[Format, ...]:
        return EVERY if any(getattr(row, key) for row in rows) else DATA

    total = Cells(team=TOTAL, share_frac=1.0)
    for key in (*(f"{name}_{unit}" for name in amounts), unit):
        total[key] = round(sum(getattr(row, key) for row in rows), 2)
    whole = float(total[unit] or 0.0)
    columns = (
        C("team", "team", get=lambda t: t.team or ROW_NAMES[t.kind]),
        C("kind", "kind", formats=FILES),
        C("workloads", "workloads", formats=FILES, get=lambda t: ", ".join(t.workloads)),
        *(C(f"{name}_{unit}", said, "price", shown(f"{name}_{unit}")) for name, said in amounts.items()),
        C(unit, "$/month" if unit == "usd_per_month" else "$", "price"),
        C("share_frac", "share", "percent", get=lambda t: getattr(t, unit) / whole if whole else None),
    )
    return Table("showback", title, columns, tuple(rows), people=(*rows, total) if rows else None)
