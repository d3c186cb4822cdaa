"""Settings of a case around what its file says, planned beforehand, so that a page can answer for those between.

A setting moves sliders: demand, prices of instances and APIs, TTFT and TPOT, commitments, a budget. At most two are
away from the file's values. Every setting is written as the changes of a what-if, so the page can name the command that
plans it. What holds between settings is said in `Grid` and used by the page (planner/reports/html/explore.js):

* What a plan costs is linear in prices, and whether it is allowed does not depend on them. So a plan made at one price
  is a plan at every other, at a cost known exactly, and the least cost is concave in prices: a mean of lower bounds is
  a lower bound at the mean of their prices.
* A fleet that carries some demand carries less of it: counts of replicas never fall with the load, and what is sent to
  an API or shed falls with it. So the least cost never falls with demand.
* More ways to buy, or a larger budget, leave every plan allowed.
* A replica's steps are chosen for its TTFT and TPOT, and the choice is not monotone: nothing is said between those.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from planner.case.case import Case
from planner.case.changes import may_use_an_api, with_limits
from planner.case.quarters import held_usd_per_month
from planner.catalog.entries import TERM_MONTHS
from planner.io import result as results
from planner.io.errors import input_error
from planner.optimization.replan import OnProgress
from planner.studies.executing.jobs import Executor, Job, Result, failed
from planner.studies.executing.run import run_jobs
from planner.studies.explore_job import figures_of, plan_settings
from planner.studies.overrides import Override, Scenario, Source
from solvers.search.fleet_solution import Options

Key = Literal["demand", "gpu-prices", "api-prices", "ttft", "tpot", "commitments", "budget"]
SCALED: tuple[Key, ...] = ("demand", "gpu-prices", "api-prices", "ttft", "tpot")
LOW, HIGH = 0.5, 2.0
"""of what is multiplied"""
NONE, ONE_YEAR, AS_LISTED = "none", "1 year", "as in the file"
SCARCE, SCARCE_BESIDE = (0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0), (0.4, 0.6, 0.8, 1.0)
"""budgets that are planned where requests may be shed, of what the plan without one costs in its dearest month: for the
file's own values, and beside another slider"""
DEARER = (3.0, 5.0, 8.0, 16.0, 32.0)
"""times all prices, where requests may be shed: what a dollar of a budget is worth at most"""
Detail = Literal["few", "normal", "many"]
OnDone = Callable[[int, int], None]


@dataclass(frozen=True)
class Density:
    """How many points a slider has by itself, and beside another one."""

    demands: int
    beside: int
    prices: int
    targets: tuple[float, ...]


DENSITIES: dict[Detail, Density] = {
    "few": Density(13, 5, 3, (0.5, 1.0, 2.0)),
    "normal": Density(25, 9, 5, (0.5, 0.75, 1.0, 1.5, 2.0)),
    "many": Density(49, 17, 9, (0.5, 0.6, 0.75, 0.9, 1.0, 1.25, 1.5, 2.0)),
}


@dataclass(frozen=True)
class Setting:
    """Where the sliders are; the file's values by default."""

    scales: tuple[tuple[Key, float], ...] = ()
    """those that are not 1, in the order of SCALED"""
    commitments: int | None = None
    """of the levels; None: as in the file"""
    budget_usd_per_month: float | None = None

    def of(self, key: Key) -> float:
        return dict(self.scales).get(key, 1.0)

    def at(self, key: Key, factor: float) -> Setting:
        scales = {**dict(self.scales), key: factor}
        return replace(self, scales=tuple((k, scales[k]) for k in SCALED if scales.get(k, 1.0) != 1.0))


@dataclass(frozen=True)
class Level:
    """Which commitments may be signed."""

    name: str
    purchase: tuple[str, ...]


@dataclass(frozen=True)
class Point:
    """A setting with what was planned there."""

    setting: Setting
    result: Result

    @property
    def status(self) -> str:
        return str(self.result["status"])


@dataclass(frozen=True)
class Grid:
    """What can be moved, and what holds between the settings that are planned."""

    sliders: tuple[Key, ...]
    levels: tuple[Level, ...]
    """of commitments, each with all that the one before may buy"""
    own_level: int
    """the file's"""
    density: Density
    demand_is_monotone: bool
    costs_are_linear: bool
    sheds: bool
    """whether requests may be shed, so that a budget changes how many are"""
    why_not: tuple[str, ...] = ()
    """what of this does not hold in this case"""


@dataclass(frozen=True, repr=False)
class Exploration(results.Result):
    """All settings that were planned."""

    case: Case
    grid: Grid
    points: tuple[Point, ...]
    gap_frac: float
    budget_usd_per_month: float | None
    """the file's own; the settings are planned without it"""
    file: str = "demand.yaml"
    """as it was named on the command line"""
    failures: tuple[str, ...] = ()
    """of searches that failed by themselves"""

    @property
    def base(self) -> Point:
        return self.points[0]


def explore(
    source: Source,
    options: Options,
    executor: Executor,
    *,
    detail: Detail = "normal",
    file: str = "demand.yaml",
    journal: Path | None = None,
    on_done: OnDone = lambda done, total: None,
    on_progress: OnProgress = lambda progress: None,
) -> Exploration:
    """Plan the case as it is, then all other settings; raises Infeasible or OutOfTime where it has no plan."""
    if source.case.future is not None:
        remedy = "Give a file without 'horizon' and 'scenarios', or use 'fleetplan what-if', which plans horizons"
        raise input_error(source.case.name, "has a horizon or scenarios, but explore plans one quarter", remedy)
    grid = grid_of(source.case, DENSITIES[detail])
    base_case = case_of(source, grid, Setting())
    first = _base(base_case, options, on_progress)
    budgets: dict[Setting, list[float]] = {}
    for setting in settings_of(grid, first, source.case):
        own = budgets.setdefault(replace(setting, budget_usd_per_month=None), [])
        own += [] if setting.budget_usd_per_month is None else [setting.budget_usd_per_month]
    jobs = {s: _job(case_of(source, grid, s), some, options) for s, some in budgets.items()}
    unique = list({job.key: job for job in jobs.values()}.values())
    found = run_jobs(plan_settings, unique, executor, journal, lambda job, result, done, total: on_done(done, total))
    errors = tuple(str(found[job.key]["error"]) for job in jobs.values() if failed(found[job.key]))
    points = [Point(Setting(), first)]
    for setting, job in jobs.items():
        results = found[job.key].get("points", [])
        points += [
            Point(replace(setting, budget_usd_per_month=budget), result)
            for budget, result in zip([None, *budgets[setting]], results, strict=False)
            if setting != Setting() or budget is not None
        ]
    own_budget = source.case.limits.budget_usd_per_month
    return Exploration(base_case, grid, tuple(points), options.gap_frac, own_budget, file, errors)


def _base(case: Case, options: Options, on_progress: OnProgress) -> Result:
    """The plan of the file's own values; planned as `plan` does it where it has none, for its message."""
    from planner.pipeline import plan_fleet
    from planner.studies.executing.jobs import outcome_of

    result = outcome_of(plan_settings, _job(case, [], options).payload)
    if failed(result):
        raise RuntimeError(str(result["error"]))
    first: Result = result["points"][0]
    return first if first["cost"] is not None else figures_of(plan_fleet(case, options, on_progress))


def grid_of(case: Case, density: Density) -> Grid:
    """The sliders that matter in a case, and which properties hold there."""
    why_not = []
    monotone = not any(w.prefix_reuse is not None for w in case.workloads)
    if not monotone:
        why_not.append("replicas find less of prompts where there are more of them: costs need not rise with demand")
    if case.limits.least_vendor_share_frac:
        monotone = False
        why_not.append("a vendor's least share of requests binds at less demand: costs need not rise with demand")
    linear = not (case.limits.vendor_cap_usd_per_month or case.limits.new_api_cap_usd_per_month is not None)
    if not linear:
        why_not.append("caps on what vendors are paid depend on prices: plans do not hold at other prices")
    levels, own = _levels(case)
    apis = may_use_an_api(case)
    answered_at_once = any(w.deadline_h is None for w in case.workloads)
    sliders: list[Key] = ["demand", "gpu-prices"]
    sliders += ["api-prices"] if apis else []
    sliders += ["ttft", "tpot"] if answered_at_once else []
    sliders += ["commitments"] if len(levels) > 1 else []
    sheds = any(w.shed_usd_per_request is not None for w in case.workloads)
    return Grid((*sliders, "budget"), levels, own, density, monotone, linear, sheds, tuple(why_not))


def _levels(case: Case) -> tuple[tuple[Level, ...], int]:
    """Without commitments, with those of a year, and as in the file, each buying all that the one before does."""
    by_the_hour = tuple(p for p in case.purchase if p not in TERM_MONTHS)
    listed = [p for p in case.purchase if p in TERM_MONTHS]
    sold = {term for offer in case.offers.values() for term in offer.prices.reserved()}
    of_a_year = [p for p in listed if TERM_MONTHS[p] == 12]
    levels = [Level(NONE, by_the_hour)] if by_the_hour else []
    if listed:
        if of_a_year and len(of_a_year) < len(listed):
            levels.append(Level(ONE_YEAR, (*by_the_hour, *of_a_year)))
        levels.append(Level(AS_LISTED, case.purchase))
        return tuple(levels), len(levels) - 1
    if "reserved-1y" in sold:
        levels.append(Level(ONE_YEAR, (*by_the_hour, "reserved-1y")))
    return tuple(levels), 0


def scenario_of(grid: Grid, setting: Setting) -> Scenario:
    """The changes of a what-if that plan a setting, but for its budget."""
    changes = [Override("scale", key, f"{factor:.6g}") for key, factor in setting.scales]
    if setting.commitments is not None and setting.commitments != grid.own_level:
        changes.append(Override("only", "purchase", ",".join(grid.levels[setting.commitments].purchase)))
    return Scenario(tuple(changes))


def case_of(source: Source, grid: Grid, setting: Setting) -> Case:
    """The case of a setting; without a budget unless the setting has one."""
    case = source.changed(scenario_of(grid, setting))
    return with_limits(budget_usd_per_month=setting.budget_usd_per_month)(case)


def settings_of(grid: Grid, base: Result, case: Case) -> Iterator[Setting]:
    """Every slider by itself, and every pair of them, more coarsely."""
    as_it_is = Setting()
    alone, beside = _moves(grid, fine=True), _moves(grid, fine=False)
    for key in alone:
        yield from (move(as_it_is) for move in alone[key])
    keys = list(beside)
    for k, key in enumerate(keys):
        for other in keys[k + 1 :]:
            yield from (second(first(as_it_is)) for first in beside[key] for second in beside[other])
    if not grid.sheds:
        return
    dearest = max(sum(month) for month in base["months"]) + held_usd_per_month(case)
    around = [(as_it_is, SCARCE), *((move(as_it_is), SCARCE_BESIDE) for key in beside for move in beside[key])]
    for setting, shares in around:
        budgets = (float(f"{share * dearest:.3g}") for share in shares)
        yield from (replace(setting, budget_usd_per_month=budget) for budget in budgets)
    for setting in [as_it_is, *(move(as_it_is) for key in beside if "prices" not in key for move in beside[key])]:
        yield from (setting.at("gpu-prices", dear).at("api-prices", dear) for dear in DEARER)


Move = Callable[[Setting], Setting]


def _moves(grid: Grid, fine: bool) -> dict[Key, list[Move]]:
    """By slider, the places to which it is moved."""
    density, moves = grid.density, dict[Key, list[Move]]()
    demands = ladder(density.demands if fine else density.beside)
    prices = ladder(density.prices) if fine else (LOW, HIGH)
    for key in (k for k in grid.sliders if k in SCALED):
        factors = demands if key == "demand" else prices if key.endswith("prices") else density.targets
        moves[key] = [_scaling(key, factor) for factor in factors if factor != 1.0]
    if "commitments" in grid.sliders:
        others = (k for k in range(len(grid.levels)) if k != grid.own_level)
        moves["commitments"] = [_committing(k) for k in others]
    return moves


def _scaling(key: Key, factor: float) -> Move:
    return lambda setting: setting.at(key, factor)


def _committing(level: int) -> Move:
    return lambda setting: replace(setting, commitments=level)


def ladder(count: int) -> tuple[float, ...]:
    """Evenly on a logarithmic scale; an odd count has 1 in it."""
    return tuple(float(f"{LOW * (HIGH / LOW) ** (k / (count - 1)):.4g}") for k in range(count))


def _job(case: Case, budgets: Sequence[float], options: Options) -> Job:
    searching = {"solver": options.solver, "gap_frac": options.gap_frac, "time_limit_s": options.time_limit_s}
    payload: dict[str, Any] = {"case": case.as_json(), "budgets": list(budgets), "options": searching}
    text = json.dumps(["explore", payload], sort_keys=True, separators=(",", ":"))
    return Job(hashlib.sha256(text.encode()).hexdigest(), payload)


def plans(points: Iterable[Point]) -> Sequence[Point]:
    """Those that have one."""
    return [p for p in points if p.result["cost"] is not None]
