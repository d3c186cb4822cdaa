"""Settings of a case around what its file says, planned beforehand, so that a page can answer for those between.

A setting moves sliders: demand, prices of instances and APIs, TTFT and TPOT, commitments, a budget. At most two are
away from the file's values. Every setting is written as the changes of a what-if, so the page can name the command that
plans it. What holds between settings is said in `Grid` and used by the page (planner/reports/html/explore.js):

* What a plan costs is linear in prices, and whether it is allowed does not depend on them. So a plan made at one price
  is a plan at every other, at a cost known exactly, and the least cost is concave in prices: a mean of lower bounds is
  a lower bound at the mean of their prices.
* A fleet that carries some demand carries less of it: counts of replicas never fall with the load, and what is sent to
  an API or shed falls with it. So the least cost never falls with demand.
* More ways to buy, or a larger budget, leave every plan allowed. Where requests may be shed, one search gives plans for
  all budgets and lines that bound them all: (1 + worth) x cost + penalty of every plan is so much or more.
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
from planner.catalog.terms import is_term, term_months
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
BUDGETS, AT_OTHER_PRICES = (0.3, 0.45, 0.6, 0.75, 0.9, 1.05, 1.2), (0.15, 0.22, *(1.5, 1.8, 2.4))
"""for which prices of a search are worked out where requests may be shed, of what the best plan of the file's values
costs in its dearest month; those beyond the slider's are budgets where prices are half or twice as high"""
Detail = Literal["few", "normal", "many"]
OnDone = Callable[[int, int], None]


@dataclass(frozen=True)
class Density:
    """How many points a slider has by itself, and beside another one."""

    demands: int
    beside: int
    prices: int
    targets: tuple[float, ...]
    places: int
    """of the demand slider where requests may be shed: a budget is worth much there, so each of them is planned"""
    step_frac: float
    """of cost + penalty, between plans within budgets"""


DENSITIES: dict[Detail, Density] = {
    "few": Density(13, 5, 3, (0.5, 1.0, 2.0), 25, 0.06),
    "normal": Density(25, 13, 5, (0.5, 0.75, 1.0, 1.5, 2.0), 49, 0.04),
    "many": Density(49, 25, 9, (0.5, 0.6, 0.75, 0.9, 1.0, 1.25, 1.5, 2.0), 97, 0.02),
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
    without: tuple[str, ...] = ()
    """commitments in dollars or units that are not signed there, as what-if names them"""


@dataclass(frozen=True)
class Point:
    """A setting with what was planned there."""

    setting: Setting
    result: Result
    lines: tuple[tuple[float, float], ...] = ()
    """of a setting without a budget: a dollar's worth, and what (1 + worth) x cost + penalty of a plan is at least"""

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
    budgets = dict(settings_of(grid, dearest_month(first)))
    jobs = {s: _job(case_of(source, grid, s), options, some, grid.density.step_frac) for s, some in budgets.items()}
    unique = list({job.key: job for job in jobs.values()}.values())
    found = run_jobs(plan_settings, unique, executor, journal, lambda job, result, done, total: on_done(done, total))
    errors = tuple(str(found[job.key]["error"]) for job in jobs.values() if failed(found[job.key]))
    points, within = [Point(Setting(), first)], []
    for setting, job in jobs.items():
        result = found[job.key]
        lines = tuple((worth, usd) for worth, usd in result.get("lines", ()))
        for k, each in enumerate(result.get("points", ())):
            if k > 0:
                within.append(Point(replace(setting, budget_usd_per_month=result["budgets"][k]), each))
            elif setting == Setting():
                points[0] = replace(points[0], lines=lines)
            else:
                points.append(Point(setting, each, lines))
    points += within
    own_budget = source.case.limits.budget_usd_per_month
    return Exploration(base_case, grid, tuple(points), options.gap_frac, own_budget, file, errors)


def _base(case: Case, options: Options, on_progress: OnProgress) -> Result:
    """The plan of the file's own values; planned as `plan` does it where it has none, for its message."""
    from planner.pipeline import plan_fleet
    from planner.studies.executing.jobs import outcome_of

    result = outcome_of(plan_settings, _job(case, options).payload)
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
    linear = True
    if case.limits.api_per_minute:
        monotone = linear = False
        why_not.append("what APIs take in a minute depends on how many requests come: costs need not rise with demand")
    if case.allowances:
        monotone = linear = False
        why_not.append("savings plans and provisioned units are paid whatever they cover: costs do not follow prices")
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
    by_the_hour = tuple(p for p in case.purchase if not is_term(p))
    listed = [p for p in case.purchase if is_term(p)]
    sold = {term for offer in case.offers.values() for term in offer.prices.reserved()}
    of_a_year = [p for p in listed if term_months(p) == 12]
    signed = [a for a in case.allowances or () if not a.held]
    kinds = {"savings-plans": any(a.api is None for a in signed), "provisioned": any(a.api for a in signed)}
    without = tuple(kind for kind, some in kinds.items() if some)
    levels = [Level(NONE, by_the_hour, without)] if by_the_hour else []
    if listed or without:
        if of_a_year and len(of_a_year) < len(listed):
            levels.append(Level(ONE_YEAR, (*by_the_hour, *of_a_year), without))
        levels.append(Level(AS_LISTED, case.purchase))
        return tuple(levels), len(levels) - 1
    if "reserved-1y" in sold:
        levels.append(Level(ONE_YEAR, (*by_the_hour, "reserved-1y")))
    return tuple(levels), 0


def scenario_of(grid: Grid, setting: Setting) -> Scenario:
    """The changes of a what-if that plan a setting, but for its budget."""
    changes = [Override("scale", key, f"{factor:.6g}") for key, factor in setting.scales]
    if setting.commitments is not None and setting.commitments != grid.own_level:
        level = grid.levels[setting.commitments]
        if level.purchase != grid.levels[grid.own_level].purchase:
            changes.append(Override("only", "purchase", ",".join(level.purchase)))
        changes += [Override("without", what, "yes") for what in level.without]
    return Scenario(tuple(changes))


def case_of(source: Source, grid: Grid, setting: Setting) -> Case:
    """The case of a setting; without a budget unless the setting has one."""
    case = source.changed(scenario_of(grid, setting))
    return with_limits(budget_usd_per_month=setting.budget_usd_per_month)(case)


def settings_of(grid: Grid, dearest_usd: float) -> Iterator[tuple[Setting, tuple[float, ...]]]:
    """Every slider by itself, and every pair of them, more coarsely; with the budgets around which plans are made.

    Plans at one price are plans at every other, budgets included: they are made once.
    """
    alone, beside = _moves(grid, fine=True), _moves(grid, fine=False)
    if grid.sheds:
        yield Setting(), _budgets(grid, dearest_usd, None)
    for key in alone:
        yield from ((move(Setting()), _budgets(grid, dearest_usd, key)) for move in alone[key])
    keys = list(beside)
    for k, key in enumerate(keys):
        for other in keys[k + 1 :]:
            yield from ((second(first(Setting())), ()) for first in beside[key] for second in beside[other])


def _budgets(grid: Grid, dearest_usd: float, moved: Key | None) -> tuple[float, ...]:
    if not grid.sheds or moved in ("gpu-prices", "api-prices"):
        return ()
    shares = sorted((*BUDGETS, *AT_OTHER_PRICES)) if moved is None else BUDGETS
    return tuple(float(f"{share * dearest_usd:.4g}") for share in shares)


def dearest_month(planned: Result) -> float:
    """What a plan costs in its dearest month, with what is held."""
    return float(max(sum(month) for month in planned["months"]))


Move = Callable[[Setting], Setting]


def _moves(grid: Grid, fine: bool) -> dict[Key, list[Move]]:
    """By slider, the places to which it is moved."""
    density, moves = grid.density, dict[Key, list[Move]]()
    alone = density.places if grid.sheds else density.demands
    demands = ladder(alone if fine else density.beside)
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


def _job(case: Case, options: Options, budgets: Sequence[float] = (), step_frac: float = 0.0) -> Job:
    searching = {"solver": options.solver, "gap_frac": options.gap_frac, "time_limit_s": options.time_limit_s}
    payload: dict[str, Any] = {"case": case.as_json(), "budgets": list(budgets), "options": searching}
    payload |= {"step_frac": step_frac} if budgets else {}
    text = json.dumps(["explore", payload], sort_keys=True, separators=(",", ":"))
    return Job(hashlib.sha256(text.encode()).hexdigest(), payload)


def plans(points: Iterable[Point]) -> Sequence[Point]:
    """Those that have one."""
    return [p for p in points if p.result["cost"] is not None]


def unlimited(points: Iterable[Point]) -> Sequence[Point]:
    """Those without a budget."""
    return [p for p in points if p.setting.budget_usd_per_month is None]
