"""Changed copies of a case, planned again: one rule for limits, interruptions and progress, and each case once.

An `Experiment` is such a copy with a name. Who knows all of them beforehand hands over a list, and those that were not
reached are known by their labels; who decides by what was found asks for one after the other.
Whoever compares costs asks for solutions, which nobody assembles; whoever shows plans says how they are made. What is
compared is limited by work alone, so no figure depends on how busy the machine is: a time limit ends all cases
together, and the case that it ends counts as not tried.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from math import inf
from typing import Any, Protocol, TypeVar

from planner.candidates.enumerate import enumerate_candidates
from planner.candidates.screen import Excluded
from planner.case.case import Case
from planner.case.changes import Change
from planner.case.quarters import held_usd_per_month
from planner.case.slots import slots_of
from planner.optimization.formulate import average_left, budget_left, formulate, power_limit
from problems.fleet_problem import FleetProblem
from solvers.backends.clock import Limit, Stopped, TimeIsUp, check, limited_to, why_stopped
from solvers.heuristics.incumbent import Incumbent, usd_by_month
from solvers.search.fleet_solution import COLD_START, FleetSolution, Options, Progress
from solvers.search.fleet_solver import solve_fleet

NODES, ROUNDS, ANY_PLAN_NODES = 1_000, 25, 200
"""of a program, and of prices, for one case"""
ANY_PLAN_GAP_FRAC = 0.5
"""where the only question is whether there is a plan; just below the least that will do, a proof can take very long"""
OnProgress = Callable[[Progress], None]


class Made(Protocol):
    """A solution or a plan."""

    @property
    def interrupted(self) -> bool: ...


M = TypeVar("M", bound=Made)


@dataclass(frozen=True)
class Experiment:
    """A changed copy of a case, of which a user can read what is changed."""

    label: str
    change: Change
    without: Excluded = frozenset()
    """deployments that may not serve a workload then"""


@dataclass(frozen=True)
class Solutions:
    """Of experiments, in their order, as far as time allowed."""

    found: tuple[FleetSolution, ...]
    not_tried: tuple[str, ...]
    """labels of the rest"""
    why_not: str | None


def to_compare(options: Options) -> Options:
    """The options of a search whose plan nobody runs: less work, and no clock."""
    return replace(options, time_limit_s=None, node_limit=min(NODES, options.node_limit), round_limit=ROUNDS)


class Replanner:
    """Plans changed copies of a case, one after the other, each once.

    Raises Stopped from the first time on that it cannot go on: half a search is no result.
    """

    def __init__(
        self,
        case: Case,
        options: Options,
        on_progress: OnProgress = lambda progress: None,
        *,
        total_s: float | None = None,
        most_cases: float = inf,
        fleet: FleetProblem | None = None,
        look_at: int | None = None,
    ) -> None:
        """`options` hold for each case, `total_s` for all of them together; `fleet` is that of the case.

        `look_at`: of how many variants candidates are made, where a good plan is an answer (candidates/shortlist.py).
        """
        self.look_at = look_at
        self.case, self.options, self.on_progress, self.most_cases = case, options, on_progress, most_cases
        self._fleet, self._limit = fleet, Limit.of(total_s)
        self._stop: Stopped | None = None
        self._part = ""
        self._made: dict[Hashable, Any] = {}
        self._searched: dict[Hashable, tuple[FleetProblem, FleetSolution]] = {}
        """the last search of a changed case: another one with other options goes on from it"""

    @property
    def stopped(self) -> str:
        """Why it cannot go on; empty while it can."""
        return "" if self._stop is None else why_stopped(self._stop)

    @property
    def fleet(self) -> FleetProblem:
        """The problem of the case itself."""
        self._fleet = self._fleet or _formulated(self.case)
        return self._fleet

    def run(self, experiments: Sequence[Experiment]) -> Solutions:
        """One after the other; a wish to stop keeps what is known."""
        found: list[FleetSolution] = []
        try:
            for k, experiment in enumerate(experiments):
                with self.part(f"{k + 1} of {len(experiments)}: "):
                    changed = experiment.change(self.case)
                    found.append(self.solve(changed, experiment.label, without=experiment.without))
        except Stopped as stop:
            self._stop = stop
        left = tuple(experiment.label for experiment in experiments[len(found) :])
        return Solutions(tuple(found), left, self.stopped if left else None)

    @contextmanager
    def part(self, which: str) -> Iterator[None]:
        """Progress of what is asked meanwhile begins with this: which part of how many it is."""
        before, self._part = self._part, self._part + which
        try:
            yield
        finally:
            self._part = before

    def possible(self, case: Case, phase: str) -> FleetSolution:
        """Any plan, whatever it costs, or the proof that there is none."""
        return self.solve(case, phase, replace(self.options, gap_frac=ANY_PLAN_GAP_FRAC, node_limit=ANY_PLAN_NODES))

    def solve(
        self, case: Case, phase: str, options: Options | None = None, without: Excluded = frozenset()
    ) -> FleetSolution:
        """What the cheapest plan costs, and what is proved about that."""
        options, changed = options or self.options, (case.hash(), without)

        def search(limited: Options, tell: OnProgress) -> FleetSolution:
            fleet, known = self._searched.get(changed) or (self.fleet_of(case, without), None)
            found = solve_fleet(fleet, limited, tell, COLD_START if known is None else known.to_go_on_from())
            if known is not None:
                found.raise_bound(known.bound_usd_per_month)
                found.withdraw_bound_refuted_by(found.objective)
            self._searched[changed] = fleet, found
            return found

        return self.once((*changed, options), phase, search, options)

    def plan(self, case: Case, phase: str, make: Callable[[Case, Options, OnProgress], M], part: str = "") -> M:
        """The plan of a changed case, as `make` makes it; a part of what is made of it elsewhere has a name."""
        whole = case.hash()
        key = (whole, part) if part and whole not in self._made else whole
        return self.once(key, phase, lambda options, tell: make(case, options, tell), self.options)

    def know(self, case: Case, made: Made) -> None:
        """Take as the plan of a case what is planned already."""
        self._made[case.hash()] = made

    def once(self, key: Hashable, phase: str, make: Callable[[Options, OnProgress], M], options: Options) -> M:
        """What is made of a changed case, the first time that its key is asked for."""
        if key not in self._made:
            try:
                if self._stop is not None:
                    raise self._stop
                if len(self._made) >= self.most_cases:
                    raise Stopped(f"the search ended after {self.most_cases} changed cases")
                self._made[key] = self._whole(phase, make, options)
            except Stopped as stop:
                self._stop = stop
                raise
        made: M = self._made[key]
        return made

    def _whole(self, phase: str, make: Callable[[Options, OnProgress], M], options: Options) -> M:
        left_s = self._limit.left_s
        if left_s <= 0:
            raise TimeIsUp(self._limit.deadline)
        with limited_to(left_s):
            made = make(options, lambda p: self.on_progress(replace(p, phase=f"{self._part}{phase}, {p.phase}")))
        if made.interrupted:
            raise Stopped
        return made

    def fleet_of(self, case: Case, without: Excluded = frozenset()) -> FleetProblem:
        """The problem of a changed case; what changes quotas and the budget only keeps the recipes of the case."""
        if without or not _differ_in_quotas_only(case, self.case):
            return _formulated(case, without, self.look_at)
        return _within(self.fleet, case)

    def dearest_month_usd(self, case: Case, best: Incumbent) -> float:
        """What a budget must allow for this plan of a changed case, and for what is held."""
        months = usd_by_month(self.fleet_of(case), best)
        return float(months.max()) + held_usd_per_month(case)


def _formulated(case: Case, without: Excluded = frozenset(), look_at: int | None = None) -> FleetProblem:
    return formulate(case, enumerate_candidates(case, without, check, look_at), slots_of(case))


def _differ_in_quotas_only(a: Case, b: Case) -> bool:
    others = (name for name in Case.model_fields if name != "limits")
    return all(getattr(a, name) is getattr(b, name) for name in others) and _recipes_by(a) == _recipes_by(b)


def _recipes_by(case: Case) -> tuple[object, ...]:
    """The limits that decide which recipes and offers there are: where an API has a price of its own, GPUs do without
    it too."""
    limits = case.limits
    replicas = (limits.min_replicas, limits.spread, limits.max_gpus_per_replica, limits.parallelism, limits.speculation)
    allowed = (limits.unproven_forbidden, limits.smaller_apis_forbidden, limits.max_boxes_per_replica)
    vendors = (limits.max_vendors, limits.vendor_usd_per_month)
    minutes = (limits.api_per_minute, limits.api_cached_weight, limits.api_minute_peak)
    return (*replicas, *minutes, limits.max_deployments, limits.power_kw is None, *allowed, *vendors)


def _within(fleet: FleetProblem, case: Case) -> FleetProblem:
    """Keep the recipes, under other quotas and another budget."""
    limits = case.limits
    return replace(
        fleet,
        offers={key: replace(o, max_instances=limits.max_instances.get(key)) for key, o in fleet.offers.items()},
        max_gpus=limits.max_gpus,
        max_gpu_types=limits.max_gpu_types,
        budget_usd_per_month=budget_left(case),
        budget_usd_on_average=average_left(case),
        power=power_limit(case),
    )
