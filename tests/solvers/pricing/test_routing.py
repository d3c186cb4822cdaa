"""Flows behind a path: they add up to the demand, no replica carries too much, and the bill is the path's."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest

from problems.recipes.pairs import member_of, pair_recipe
from problems.recipes.pools import Api, Deployment, Pool
from problems.recipes.recipe import Deferral, Recipe
from problems.recipes.singles import recipes_of
from problems.staffing import Staffing
from solvers.pricing.routing import flows_of, work_moved
from tests.oracle.cases import lever_case
from tests.support.fleets import Case, random_case
from tests.support.rows import for_each

EXACT = Staffing(z=0.0, arrival_scv=1.0, rate_cv=0.0, batch=8.0, min_replicas=1)
SEEDS = [*range(600, 610), *range(1000, 1030)]


def case_of(seed: int) -> Case:
    return random_case(seed) if seed < 1000 else lever_case(seed).case


def recipes_and_mixes(case: Case, pool: Pool) -> list[Recipe]:
    found = list(recipes_of(pool, case.slot_hours))
    if pool.max_deployments > 1 and pool.window is None:
        members = [m for m in (member_of(pool, d) for d in pool.deployments) if m is not None]
        apis: tuple[Api | None, ...] = pool.apis or (None,)
        two = [(a, b) for a, b in itertools.combinations(members, 2) if a.deployment.variant == b.deployment.variant]
        mixes = (pair_recipe(pool, a, b, api) for a, b in two for api in apis)
        found += [mix for mix in mixes if mix is not None]
    return found


def random_path(rng: np.random.Generator, recipe: Recipe) -> Recipe:
    return recipe.only(recipe.first_of_each_slot(rng.random(len(recipe.slot))))


@for_each("seed", SEEDS)
def test_flows_add_up_and_capacities_are_kept(seed: int) -> None:
    """For a few random paths of every recipe and mix of every pool where work does not wait."""
    case, rng = case_of(seed), np.random.default_rng(seed)
    for pool in case.pools:
        if pool.window is not None:
            continue
        for recipe in recipes_and_mixes(case, pool):
            path = random_path(rng, recipe)
            flows = flows_of(pool, path, case.slot_hours)
            assert sum(flows.uses, flows.api + flows.shed) == pytest.approx(pool.rate_rps, rel=1e-7, abs=1e-9)
            assert min(float(f.min()) for f in (*flows.uses, flows.api, flows.shed)) >= 0
            by_key = {d.key: d for d in pool.deployments}
            for use, flow in zip(path.uses, flows.uses, strict=True):
                seconds = by_key[use.deployment].seconds_per_request
                can = np.isfinite(seconds)
                assert not flow[:, ~can].any()
                assert (flow[:, can] @ seconds[can] <= use.load * (1 + 1e-6) + 1e-9).all()
                assert not flow[use.replicas == 0].any()
            usd = next((a.usd_per_request for a in pool.apis if a.key == path.api), np.zeros(pool.rate_rps.shape[1]))
            bill = 3600 * flows.api @ usd + pool.fixed_by_slot
            assert bill == pytest.approx(path.usd_per_h, rel=1e-6, abs=1e-6)
            if pool.shed_usd_per_request is not None:
                penalty = 3600 * flows.shed @ pool.shed_usd_per_request
                assert penalty == pytest.approx(path.penalty_usd_per_h, rel=1e-6, abs=1e-6)
            else:
                assert not flows.shed.any()


def test_mixes_outlets_and_sharing_are_among_them() -> None:
    seen = {lever for seed in SEEDS if seed >= 1000 for lever in lever_case(seed).levers}
    assert seen >= {"mix", "partial", "overflow", "sharing", "shedding", "caching"}


def pool_of(**changes: object) -> Pool:
    """Short and long requests; half a replica of each."""
    pool = Pool(
        "w", ("w",), np.array([[1.0, 0.25]]), 1.0, False,
        (Deployment("d", "g", 1, np.array([0.5, 2.0]), EXACT),), (Api("api", np.array([0.001, 0.002])),),
    )  # fmt: skip
    return replace(pool, **changes)


def test_what_is_dear_at_the_api_stays_on_the_gpus() -> None:
    """0.001 for half a second of a replica against 0.002 for two: the short ones stay."""
    pool = pool_of(rate_rps=np.array([[2.0, 0.5]]))
    recipe = next(r for r in recipes_of(pool, np.ones(1)) if r.self_hosted)
    one_replica = recipe.only(recipe.uses[0].replicas == 1)
    flows = flows_of(pool, one_replica, np.ones(1))
    assert flows.uses[0].tolist() == [pytest.approx([2.0, 0.0])]
    assert flows.api.tolist() == [pytest.approx([0.0, 0.5])]


def test_a_share_may_be_shed_without_gpus() -> None:
    pool = pool_of(shed_usd_per_request=np.array([0.001, 0.001]))
    recipe = next(r for r in recipes_of(pool, np.ones(1)) if not r.self_hosted)
    path = replace(recipe.only(np.array([0])), shed_frac=np.array([0.25]))
    flows = flows_of(pool, path, np.ones(1))
    assert flows.shed.tolist() == [pytest.approx([0.25, 0.0625])]
    assert flows.api.tolist() == [pytest.approx([0.75, 0.1875])]


@for_each("seed", range(12))
def test_work_is_moved_within_its_window_and_what_fits_is_done(seed: int) -> None:
    """As much as there is room for (by Hall's theorem), and no more than that anywhere."""
    rng = np.random.default_rng(seed)
    hours, load = rng.uniform(50, 400, 4), rng.uniform(0, 2, 4) * (rng.random(4) < 0.8)
    window = np.eye(4, dtype=bool) | (rng.random((4, 4)) < 0.4)
    room = rng.integers(0, 4, 4).astype(float)
    moved = work_moved(Deferral(load, window, hours, 1.0), room)
    assert moved is not None
    assert not moved[~window].any()
    assert (moved.sum(axis=1) <= 1 + 1e-9).all()
    work = load * hours
    assert (work @ moved <= room * hours * (1 + 1e-8) + 1e-6).all()
    left = max(
        float(work[list(some)].sum() - (room * hours)[window[list(some)].any(axis=0)].sum())
        for size in range(5)
        for some in itertools.combinations(range(4), size)
    )
    assert float(work @ (1 - moved.sum(axis=1))) == pytest.approx(left, rel=1e-6, abs=1e-3)
    without_api = work_moved(Deferral(load, window, hours, None), room)
    assert (without_api is None) == (left > 1e-6 * work.sum())


def test_work_that_need_not_move_stays() -> None:
    deferral = Deferral(np.array([0.5, 0.5]), np.ones((2, 2), dtype=bool), np.ones(2), None)
    moved = work_moved(deferral, np.ones(2))
    assert moved is not None
    assert moved == pytest.approx(np.eye(2))


@pytest.mark.parametrize("with_api", [False, True])
def test_work_that_may_wait_is_told_by_when_it_arrives(with_api: bool) -> None:
    """One replica in the second slot for three halves: two of them fit, the API has the rest."""
    pool = Pool(
        "w", ("w",), np.array([[0.5], [0.5], [0.5]]), 1.0, False, (Deployment("d", "g", 1, np.ones(1), EXACT),),
        (Api("api", np.array([0.001])),) if with_api else (),
        window=np.array([[1, 1, 0], [0, 1, 0], [0, 1, 1]], dtype=bool),
    )  # fmt: skip
    recipe = next(r for r in recipes_of(pool, np.ones(3)) if r.self_hosted)
    at = [int(np.flatnonzero((recipe.slot == t) & (recipe.uses[0].replicas == n))[0]) for t, n in enumerate((0, 1, 0))]
    path = recipe.only(np.array(at))
    if not with_api:
        with pytest.raises(RuntimeError, match="does not fit"):
            flows_of(pool, path, np.ones(3))
        return
    flows = flows_of(pool, path, np.ones(3))
    assert flows.uses[0] + flows.api == pytest.approx(pool.rate_rps)
    assert float(flows.api.sum()) == pytest.approx(0.5)
    assert flows.moved is not None
    assert flows.moved[1, 1] == pytest.approx(1.0)
    assert flows.moved.sum() == pytest.approx(2.0)
