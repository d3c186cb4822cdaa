"""What allowances cover of a plan, hour by hour, and whose cost they are.

Each is paid in every hour. What it costs is shared by what it covers, by how much of it that takes over the months; so
the lines of a plan add up, and what is lost is part of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from planner.case.allowances import allowance_of, beyond_usd, covers_of, share_of_months
from planner.case.slots import MONTHS_OF_A_QUARTER
from planner.plan.account.flows import Flows
from planner.plan.plan import AllowancePlan
from problems.allowance import Allowances, Item
from problems.constants import HOURS_PER_MONTH

Usage = dict[str, np.ndarray]
"""instances on demand by offer, and bills by workload [slot]"""


@dataclass(frozen=True, eq=False)
class Covered:
    """What is covered of some usage."""

    account: Flows
    usage: Usage
    api_of: Mapping[str, str | None]
    """workload -> the API that is asked for it"""

    def of(self, usage: Usage) -> Covered:
        """What the same allowances cover of other usage."""
        return Covered(self.account, usage, self.api_of)

    @cached_property
    def net_usd_per_month(self) -> float:
        """What allowances add to a cost at list prices: what is signed of them, less what they cover."""
        signed = (a.usd_per_h * self.units.get(a.name, 0.0) for a in self.account.case.allowances or () if not a.held)
        covered = sum(self.account.a_month(part) * self.all.usd_of[of] for (_, of), part in self.parts.items())
        return HOURS_PER_MONTH * sum(signed) - covered

    @cached_property
    def units(self) -> dict[str, float]:
        return dict(self.account.decided.signed)

    @cached_property
    def all(self) -> Allowances:
        case = self.account.case
        each = covers_of(case, lambda api, w: [w.name] if self.api_of.get(w.name) == api else [])
        usd_of = {}
        for item in {item for a in each for item in a.takes}:
            offer = case.offers.get(str(item))
            on_demand = offer.prices.on_demand if offer is not None else None
            usd_of[item] = on_demand.usd_per_h if on_demand is not None else 1.0
        return Allowances(each, usd_of)

    @cached_property
    def parts(self) -> dict[tuple[str, str], np.ndarray]:
        """Usage that each allowance covers of each offer and bill [slot]."""
        if not self.units:
            return {}
        usage: dict[Item, np.ndarray] = {}
        usage.update(self.usage)
        covered = self.all.covered(self.units, usage)
        return {(name, str(item)): part for (name, item), part in covered.items()}

    def covers(self, item: str) -> bool:
        """Whether an allowance that is signed or held may cover it."""
        return any(item in a.takes for a in self.all.each if self.units.get(a.key)) if self.units else False

    def more_usd_per_h(self, item: str) -> np.ndarray:
        """What allowances add to the cost of an offer or a bill: a share of their own, less what they cover [slot]."""
        more = np.zeros(len(self.account.slots))
        for (name, of), part in self.parts.items():
            if of == item:
                more += self._share_of_cost(name, item) - part * self.all.usd_of[item]
        return more

    def _share_of_cost(self, name: str, item: str) -> float:
        """USD an hour; none of what is held, which is paid in any case."""
        a = allowance_of(self.account.case, name)
        return 0.0 if a.held else self.paid_usd_per_month(name, item) / HOURS_PER_MONTH

    def paid_usd_per_month(self, name: str, item: str) -> float:
        """What is paid for an allowance, used or not, as a share of what it covers; held ones too."""
        taken = {of: self._taken(name, of) for of_name, of in self.parts if of_name == name}
        a = allowance_of(self.account.case, name)
        whole = sum(taken.values())
        hours = HOURS_PER_MONTH * share_of_months(self.account.case, a)
        return a.usd_per_h * self.units[name] * hours * taken[item] / whole if whole else 0.0

    def _taken(self, name: str, item: str) -> float:
        """Of an allowance by what it covers, in a month."""
        takes = next(a for a in self.all.each if a.key == name).takes
        return self.account.a_month(self.parts[name, item]) * takes[item]

    @cached_property
    def records(self) -> tuple[AllowancePlan, ...] | None:
        """None where nothing is signed or held."""
        return tuple(self._record(name) for name in self.units) or None

    def _record(self, name: str) -> AllowancePlan:
        account, units = self.account, self.units[name]
        a = allowance_of(account.case, name)
        cover = next(cover for cover in self.all.each if cover.key == name)
        hours = HOURS_PER_MONTH * share_of_months(account.case, a)
        usd = units * a.usd_per_h * hours
        mine = [item for of, item in self.parts if of == name]
        covered = sum(account.a_month(self.parts[name, item]) * self.all.usd_of[item] for item in mine)
        may = sum(account.a_month(self.usage[i]) * self.all.usd_of[i] for i in map(str, cover.takes) if i in self.usage)
        taken = sum(self._taken(name, item) for item in mine)
        return AllowancePlan(
            name=name,
            units=units,
            held=bool(a.held),
            usd_per_month=usd,
            covered_usd_per_month=covered,
            saved_usd_per_month=covered - usd,
            used_frac=taken / (cover.covers * units * hours),
            covered_frac=covered / may if may else 0.0,
            beyond_horizon_usd=0.0 if a.held else beyond_usd(a, units, MONTHS_OF_A_QUARTER),
            source=a.source,
            date=a.date,
        )
