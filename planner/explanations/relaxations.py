"""Limits of a case that a user could move, and the smallest move of one that makes room for a plan."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass

from planner.case.case import Case
from planner.case.changes import Change, last_month, with_limits, with_workload
from planner.case.quarters import held_usd_per_month
from planner.case.slots import requests_per_month, slots_of
from planner.io.errors import escaped
from planner.io.formatting import percent, usd
from planner.io.units import PERIOD_NAMES
from planner.optimization.replan import Experiment, Replanner
from planner.plan.horizon.horizon_plan import HorizonPlan
from solvers.backends.clock import Stopped
from solvers.search.fleet_solution import FleetSolution, Outcome

CLOSE_FRAC = 0.01
"""a budget that is proved to be the smallest within this share is called so"""
MOST_SHED_FRAC = 0.5
"""shedding more than this is no remedy"""


@dataclass(frozen=True)
class Relaxation:
    """A change after which there is a plan."""

    limit: str
    said: str
    change: Change
    cost_usd_per_month: float
    """of a plan that the change makes possible"""
    proved_smallest: bool
    """whether it was proved that one step less does not do"""


class Infeasible(Exception):
    """No fleet meets the demand, the SLOs and the limits. `reasons` say which of them to move, `remedies` move them.

    `beyond` is a checked plan that breaks only a budget over several months, as one for the budget that it keeps.
    """

    def __init__(
        self,
        name: str,
        reasons: tuple[str, ...],
        proved: bool = True,
        remedies: tuple[Relaxation, ...] = (),
        beyond: HorizonPlan | None = None,
    ) -> None:
        self.name, self.proved, self.remedies, self.beyond = name, proved, remedies, beyond
        self.reasons = tuple(escaped(reason) for reason in reasons)
        super().__init__("\n".join(self.reasons))


@dataclass(frozen=True, kw_only=True)
class Limit(ABC):
    """Something that the case demands or forbids."""

    key: str
    workload: str | None = None
    one_more: Experiment | None = None
    """the step whose worth is told; None: moving it a little cannot change anything"""

    @property
    @abstractmethod
    def loosest(self) -> Change: ...

    @abstractmethod
    def smallest(self, replanner: Replanner, case: Case, none_yet: bool = True) -> Relaxation | None:
        """The least that must be moved for a plan; None where no plan was found however far it is moved.

        `none_yet`: whether it is proved that there is no plan without moving it.
        """

    def _remedy(self, step: Experiment, cost_usd_per_month: float, proved: bool) -> Relaxation:
        return Relaxation(self.key, step.label, step.change, cost_usd_per_month, proved)


@dataclass(frozen=True, kw_only=True)
class SteppedLimit(Limit):
    """A limit with steps, each looser than the one before."""

    rung: Callable[[int], Experiment]
    probes: tuple[int, ...] = (0,)
    """rungs to try, until one does; most limits do best at their loosest, so that is the only one"""

    @property
    def loosest(self) -> Change:
        return self.rung(self.probes[-1]).change

    def smallest(self, replanner: Replanner, case: Case, none_yet: bool = True) -> Relaxation | None:
        low, proved = -1, none_yet
        for high in self.probes:
            found = self._tried(replanner, case, high)
            if found.best is not None:
                break
            low, proved = high, found.outcome is Outcome.INFEASIBLE
        else:
            return None
        cost, jump = found.cost_usd_per_month, 1
        try:
            while high - low > 1:
                k = min(low + jump, (low + high) // 2)
                tried = self._tried(replanner, case, k)
                if tried.best is None:
                    low, proved, jump = k, tried.outcome is Outcome.INFEASIBLE, 2 * jump
                else:
                    high, cost = k, tried.cost_usd_per_month
            step = self.rung(high)
            cost = min(cost, replanner.solve(step.change(case), step.label).cost_usd_per_month)
        except Stopped:
            proved = proved and high - low == 1
        return self._remedy(self.rung(high), cost, proved)

    def _tried(self, replanner: Replanner, case: Case, k: int) -> FleetSolution:
        step = self.rung(k)
        return replanner.possible(step.change(case), step.label)


@dataclass(frozen=True, kw_only=True)
class Alternatives(Limit):
    """A limit that can be moved in several ways, none of which is less than another; the cheapest is taken."""

    ways: tuple[Experiment, ...]
    all_at_once: Experiment

    @property
    def loosest(self) -> Change:
        return self.all_at_once.change

    def smallest(self, replanner: Replanner, case: Case, none_yet: bool = True) -> Relaxation | None:
        everything = replanner.solve(self.all_at_once.change(case), self.all_at_once.label)
        if everything.best is None:
            return None
        found = [(way, replanner.solve(way.change(case), way.label)) for way in self.ways]
        possible = [(way, solution) for way, solution in found if solution.best is not None]
        if not possible:
            proved = all(solution.outcome is Outcome.INFEASIBLE for _, solution in found)
            return self._remedy(self.all_at_once, everything.cost_usd_per_month, proved)
        way, solution = min(possible, key=lambda pair: pair[1].cost_usd_per_month)
        return self._remedy(way, solution.cost_usd_per_month, none_yet)


@dataclass(frozen=True, kw_only=True)
class Budget(Limit):
    """What the dearest month may cost."""

    usd_per_month: float

    @property
    def loosest(self) -> Change:
        return with_limits(budget_usd_per_month=None)

    def smallest(self, replanner: Replanner, case: Case, none_yet: bool = True) -> Relaxation | None:
        """Raise the budget to the most expensive month of the cheapest plan, bounded as others may need less."""
        found = replanner.solve(self.loosest(case), "without the budget")
        if found.best is None:
            return None
        needed = replanner.dearest_month_usd(case, found.best)
        enough = float(math.ceil(needed))
        held = held_usd_per_month(case)
        at_least = max(self.usd_per_month, held + max(self._bounds(replanner, case, found, needed - held)))
        proved = needed <= at_least * (1 + CLOSE_FRAC)
        said = f"raise the budget from {usd(self.usd_per_month)} to {usd(enough)} a month (policy.budget_usd_per_month"
        said += f"; {usd(held)} of it for what is held" if held else ""
        said += ")" if proved else f"; at least {usd(at_least)} is needed)"
        step = Experiment(said, with_limits(budget_usd_per_month=enough))
        return self._remedy(step, found.cost_usd_per_month, proved)

    def _bounds(self, replanner: Replanner, case: Case, found: FleetSolution, needed: float) -> list[float]:
        """Bound the most expensive month of any plan from below: by the mean of the months, or the last month alone."""
        if any(w.shed_usd_per_request is not None for w in case.workloads):
            return [0.0]  # bounds count penalties, months do not
        if needed <= found.bound_usd_per_month * (1 + CLOSE_FRAC):
            return [found.bound_usd_per_month]
        last = replanner.solve(last_month(self.loosest(case)), "the last month without the budget")
        return [found.bound_usd_per_month, last.bound_usd_per_month]


@dataclass(frozen=True, kw_only=True)
class PeriodBudget(Limit):
    """What the plan may spend of a budget for a quarter or a year."""

    amount_usd: float
    months: int

    @property
    def loosest(self) -> Change:
        return with_limits(budget_usd=None, budget_months=None)

    def smallest(self, replanner: Replanner, case: Case, none_yet: bool = True) -> Relaxation | None:
        """Raise the budget to what the cheapest plan spends, bounded as others may need less."""
        found = replanner.solve(self.loosest(case), "without the budget")
        if found.best is None:
            return None
        held = held_usd_per_month(case)
        may_shed = any(w.shed_usd_per_request is not None for w in case.workloads)
        needed = self.months * (found.cost_usd_per_month + held)
        at_least = 0.0 if may_shed else self.months * (found.bound_usd_per_month + held)
        enough = float(math.ceil(needed))
        proved = needed <= max(self.amount_usd, at_least) * (1 + CLOSE_FRAC)
        raised = f"from {usd(self.amount_usd)} to {usd(enough)} a {PERIOD_NAMES[self.months]}"
        said = f"raise the budget {raised} (policy.budget"
        said += ")" if proved else f"; at least {usd(at_least)} is needed)"
        return self._remedy(Experiment(said, with_limits(budget_usd=enough)), found.cost_usd_per_month, proved)


@dataclass(frozen=True, kw_only=True)
class Shedding(Limit):
    """Every request of a workload must be served."""

    workload: str
    usd_per_request: float
    """a penalty so high that only what cannot be served is shed"""

    @property
    def loosest(self) -> Change:
        return with_workload(self.workload, shed_usd_per_request=self.usd_per_request)

    def smallest(self, replanner: Replanner, case: Case, none_yet: bool = True) -> Relaxation | None:
        """Estimate what is shed with one deployment for each workload, which is quick: the figure is rough."""
        simpler = with_limits(max_deployments=1)(self.loosest(case))
        found = replanner.solve(simpler, f"shedding requests of {self.workload}")
        if found.best is None:
            return None
        spec = next(w for w in case.workloads if w.name == self.workload)
        path = next(p for p in found.best.paths if self.workload in p.workloads)
        requests = float(replanner.fleet.weight[path.slot] @ path.penalty_usd_per_h) / self.usd_per_request
        shed = requests / requests_per_month(spec, slots_of(case))
        if shed > MOST_SHED_FRAC:
            return None
        where = f"shed: {{penalty_per_1k_requests: ${1e3 * self.usd_per_request:g}}}"
        said = f"let {self.workload} shed load ({where}): about {percent(shed)} would be shed"
        return self._remedy(Experiment(said, self.loosest), found.cost_usd_per_month, proved=False)
