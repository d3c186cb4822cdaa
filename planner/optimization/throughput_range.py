"""How far the cost moves if replicas are slower or faster than estimated, each by its own error.

The choice of pools and deployments is kept, since it would be made before anyone knows; replicas, routing, API overflow
and purchases are planned again.
"""

from __future__ import annotations

from dataclasses import replace

from planner.candidates.enumerate import Candidates
from planner.case.case import Case
from planner.optimization.replan import Replanner
from planner.plan.plan import CostRange
from problems.fleet_problem import FleetProblem
from problems.recipes.pools import Pool
from problems.recipes.recipe import Recipe
from problems.recipes.singles import recipes_of
from solvers.backends.trouble import MachineTrouble
from solvers.heuristics.incumbent import Incumbent
from solvers.search.fleet_solution import Options
from solvers.search.fleet_solver import solve_fleet

QUICK = Options(solver="highs", gap_frac=0.005, node_limit=200, round_limit=25)


def quick(asked: Options) -> Options:
    """Of a search that is worth a glance: no closer than the plan itself."""
    return replace(QUICK, gap_frac=max(QUICK.gap_frac, asked.gap_frac))


def cost_range(
    case: Case,
    candidates: Candidates,
    fleet: FleetProblem,
    best: Incumbent,
    objective: float,
    asked: Options,
) -> CostRange:
    """The cost if every replica is faster, and if every replica is slower, by the error of its own throughput.

    A fleet for slower replicas serves with faster ones too. So what a quick search finds on the wrong side of the plan
    is a finer plan, no range: it is cut off there. It is searched no closer than the gap that was asked for. Raises
    TimeIsUp where the time limit would cut a search short.
    """
    options = quick(asked)
    replanner = Replanner(case, options, total_s=asked.time_limit_s, fleet=fleet)

    def cost_if(slower: bool) -> float | None:
        changed = _off(candidates, fleet, best, slower)
        try:
            moved = replanner.once(slower, "throughput", lambda o, tell: solve_fleet(changed, o, tell), options)
        except MachineTrouble:
            return None
        return moved.best.objective if moved.best and not moved.cut_short else None

    low, high = cost_if(slower=False), cost_if(slower=True)
    return CostRange(
        low_usd_per_month=None if low is None else min(low, objective),
        mid_usd_per_month=objective,
        high_usd_per_month=None if high is None else max(high, objective),
    )


def _off(candidates: Candidates, fleet: FleetProblem, best: Incumbent, slower: bool) -> FleetProblem:
    """The fleet with the recipes of a plan alone, on replicas that are slower or faster."""
    pools = [_scaled(candidates, fleet.pools[path.pool], path, slower) for path in best.paths]
    recipes = tuple(
        recipe
        for pool, path in zip(pools, best.paths, strict=True)
        for recipe in recipes_of(pool, fleet.slot_hours)
        if recipe.self_hosted == path.self_hosted
    )
    return replace(fleet, pools={pool.key: pool for pool in pools}, recipes=recipes)


def _scaled(candidates: Candidates, pool: Pool, path: Recipe, slower: bool) -> Pool:
    """The pool with the deployments of its path alone, all of them off in the same direction."""
    errors = {c.key: c.replica.error_frac for c in candidates.accepted[pool.key]}
    deployments = []
    for d in pool.deployments:
        if d.key in path.deployments:
            factor = 1 + errors[d.key]
            seconds = d.seconds_per_request * (factor if slower else 1 / factor)
            deployments.append(replace(d, seconds_per_request=seconds))
    return replace(
        pool,
        deployments=tuple(deployments),
        apis=tuple(api for api in pool.apis if api.key == path.api),
        max_deployments=min(pool.max_deployments, max(1, len(deployments))),
    )
