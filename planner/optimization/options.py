"""The options: every way to serve each workload by itself with one deployment or an API, and what was chosen."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from planner.candidates.candidate import Candidate
from planner.candidates.enumerate import Candidates
from planner.optimization.serving import ServedPool
from planner.plan.plan import OptionRecord, WorkloadPlan
from problems.fleet_problem import FleetProblem
from problems.recipes.deferral import left_over
from problems.recipes.pools import load_by_slot
from problems.recipes.recipe import Recipe
from problems.recipes.vendors import NO_VENDORS
from solvers.backends.clock import check
from solvers.heuristics.incumbent import alone
from solvers.pricing.routing import flows_of

NOBODY = "shed"
SAME = 1e-9


@dataclass(frozen=True, eq=False)
class Options:
    """Ways to serve each workload by itself."""

    records: list[OptionRecord]
    """workload by workload, cheapest first"""
    cheapest: list[Recipe]
    """of each workload the cheapest one, with its counts of replicas; none where a workload has none"""


def all_options(
    candidates: Candidates, fleet: FleetProblem, pools: tuple[ServedPool, ...], workloads: tuple[WorkloadPlan, ...]
) -> Options:
    """Every way to serve each workload by itself with one deployment or an API."""
    offers = {key: replace(offer, max_instances=None) for key, offer in fleet.offers.items()}
    bare = replace(
        fleet, team_usd_per_month=0.0, budget_usd_per_month=None, budget_usd_on_average=None, max_gpus={},
        max_gpu_types=None, offers=offers,
        vendors=NO_VENDORS, power=None, api_limits=(), allowances=(),
    )  # fmt: skip
    placed = {(pool, c.key): c for pool, accepted in candidates.accepted.items() for c in accepted}
    records, cheapest = [], []
    for planned in workloads:
        served = next(p for p in pools if planned.name in p.group.workloads)
        entries: dict[tuple[str, str], OptionRecord] = {}
        least, path = np.inf, None
        for recipe in fleet.recipes:
            if recipe.workloads == (planned.name,) and len(recipe.uses) <= 1 and _serves_everything(bare, recipe):
                check()
                cost = _cost_by_itself(bare, recipe)
                on = placed[recipe.pool, recipe.deployments[0]] if recipe.deployments else None
                found = _record(recipe, on, candidates.pools[recipe.pool].caching[0], planned, cost)
                known = entries.get((recipe.pool, found.option))
                if known is None or _cheapest_first(found) < _cheapest_first(known):
                    entries[recipe.pool, found.option] = found
                if cost is not None and cost.usd_per_month < least:
                    least, path = cost.usd_per_month, cost.path
        records += sorted(_with_the_chosen(entries, served, planned), key=_cheapest_first)
        cheapest += [path] if path is not None else []
    return Options(records, cheapest if len(cheapest) == len(workloads) else [])


def _serves_everything(bare: FleetProblem, recipe: Recipe) -> bool:
    """Whether it can do so, with its API: one that is too slow for some lengths cannot by itself."""
    return len(np.unique(recipe.slot[recipe.shed_frac == 0])) == len(bare.slot_hours)


def chosen_options(pools: tuple[ServedPool, ...], workloads: tuple[WorkloadPlan, ...]) -> list[OptionRecord]:
    """What was chosen for each workload, at its cost in the plan."""
    served = {w: pool for pool in pools for w in pool.group.workloads}
    return [option for planned in workloads for option in _with_the_chosen({}, served[planned.name], planned)]


def _cheapest_first(o: OptionRecord) -> tuple[bool, float, str, str]:
    return (o.cost_usd_per_month is None, o.cost_usd_per_month or 0.0, o.option, o.caching)


def _name(deployments: tuple[str, ...], api: str | None) -> str:
    return " + ".join(deployments) or (f"api {api}" if api else NOBODY)


def _record(
    recipe: Recipe, candidate: Candidate | None, caching: str, planned: WorkloadPlan, cost: _ByItself | None
) -> OptionRecord:
    return OptionRecord(
        workload=planned.name,
        option=_name(recipe.deployments, recipe.api),
        caching=caching,
        shared_with=(),
        model=candidate.model_key if candidate else None,
        quantization=candidate.quantization_key if candidate else None,
        gpu=candidate.offer.gpu if candidate else None,
        gpus_per_replica=candidate.machine.gpus if candidate else 0,
        parallelism=candidate.on_gpus.other_parallelism if candidate else None,
        boxes_per_replica=candidate.on_gpus.several_boxes if candidate else None,
        speculation=(candidate.speculation or None) if candidate else None,
        offer=candidate.offer_key if candidate else None,
        deployments=recipe.deployments,
        api=None if recipe.deployments else recipe.api,
        cost_usd_per_month=cost.usd_per_month if cost else None,
        peak_replicas=cost.peak_replicas if cost else 0,
        api_share_frac=cost.api_requests_per_month / planned.requests_per_month if cost else 0.0,
        chosen=False,
    )


@dataclass(frozen=True)
class _ByItself:
    """What a recipe comes to where nothing else is bought: without engineers and limits, and nothing is shed."""

    usd_per_month: float
    peak_replicas: int
    api_requests_per_month: float
    path: Recipe


def _cost_by_itself(bare: FleetProblem, recipe: Recipe) -> _ByItself | None:
    recipe = recipe.only(recipe.shed_frac == 0)
    done = alone(bare, recipe)
    if done and recipe.uses and not done.paths[0].uses[0].replicas.any():
        # The API alone would be cheaper; what this deployment costs is seen when it carries everything.
        done = alone(bare, _everything_on_gpus(bare, recipe))
    if done is None:
        return None
    (path,) = done.paths
    return _ByItself(
        usd_per_month=done.cost_usd_per_month,
        peak_replicas=max((int(use.replicas.max()) for use in path.uses), default=0),
        api_requests_per_month=3600 * float(bare.weight @ _sent_rps(bare, recipe, path)) if path.api else 0.0,
        path=path,
    )


def _sent_rps(bare: FleetProblem, recipe: Recipe, path: Recipe) -> np.ndarray:
    """Requests a second that the API answers [slot]; of work that may wait, those that find no room in time."""
    pool, deferral = bare.pools[path.pool], recipe.deferral
    if deferral is None or not path.uses:
        return flows_of(pool, path, bare.slot_hours).api.sum(axis=1)
    work = deferral.load * deferral.hours
    left = left_over(work, path.uses[0].load * deferral.hours, deferral)
    return pool.rate_rps.sum(axis=1) * np.divide(left, work, out=np.zeros_like(work), where=work > 0)


def _everything_on_gpus(bare: FleetProblem, recipe: Recipe) -> Recipe:
    """Everything that it can serve; work that may wait has all hours for it."""
    if recipe.deferral is not None:
        return replace(recipe, api=None, deferral=replace(recipe.deferral, api_usd_per_load_h=None))
    pool, (use,) = bare.pools[recipe.pool], recipe.uses
    deployment = next(d for d in pool.deployments if d.key == use.deployment)
    return recipe.only(use.load >= load_by_slot(pool, deployment)[recipe.slot] * (1 - 1e-9))


def _with_the_chosen(
    entries: dict[tuple[str, str], OptionRecord], served: ServedPool, planned: WorkloadPlan
) -> list[OptionRecord]:
    """The chosen one is marked.

    What is no option by itself is added at its cost in the plan. So is work that waits, whose cost by itself is rough.
    """
    deployments = tuple(h.candidate.placed_key for h in served.hosted)
    name = _name(deployments, planned.api)
    key = (served.key, name)
    if key in entries and served.pool.window is None:
        chosen = entries[key].model_copy(update={"chosen": True})
        if not deployments and planned.cost_usd_per_month < (chosen.cost_usd_per_month or 0.0) * (1 - SAME):
            covered = {"cost_usd_per_month": planned.cost_usd_per_month}  # provisioned units take some of its bill
            chosen = chosen.model_copy(update=covered)
        return [*(o for k, o in entries.items() if k != key), chosen]
    alone_on = served.hosted[0].candidate if len(served.hosted) == 1 else None
    chosen = OptionRecord(
        workload=planned.name,
        option=name,
        caching=planned.caching,
        shared_with=tuple(other for other in served.group.workloads if other != planned.name),
        model=alone_on.model_key if alone_on else None,
        quantization=alone_on.quantization_key if alone_on else None,
        gpu=alone_on.offer.gpu if alone_on else None,
        gpus_per_replica=alone_on.machine.gpus if alone_on else 0,
        parallelism=alone_on.on_gpus.other_parallelism if alone_on else None,
        boxes_per_replica=alone_on.on_gpus.several_boxes if alone_on else None,
        speculation=(alone_on.speculation or None) if alone_on else None,
        offer=alone_on.offer_key if alone_on else None,
        deployments=deployments,
        api=None if deployments else planned.api,
        cost_usd_per_month=planned.cost_usd_per_month,
        peak_replicas=max(map(sum, zip(*(h.use.replicas.tolist() for h in served.hosted), strict=True)), default=0),
        api_share_frac=planned.api_share_frac,
        chosen=True,
    )
    return [*(o for k, o in entries.items() if k != key), chosen]
