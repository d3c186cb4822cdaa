"""Tiny random horizons: two quarters, two scenarios, commitments of both lengths; their optimum by trying everything.

The first quarter is one block, the second one block for each scenario. Each is a tiny fleet, whose least cost with any
number of instances on hand is known by brute force; then every number of every commitment is tried. Where the first
quarter has months of each scenario, who serves is the same in all of them: every choice is tried with every month.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from problems.fleet_problem import FleetProblem, fleet_of
from problems.horizon.horizon_problem import Block, CommitmentColumn, HorizonProblem, SpendLimit
from problems.horizon.risk import Risk, worst_case_of
from tests.oracle.brute_force import brute_force, cheapest_by_choices
from tests.oracle.cases import lever_case
from tests.support.fleets import Case, random_case

MONTHS = 3.0
MOST = 2
"""instances of a commitment that are tried"""
SCENARIOS = ("low", "high")
NEXT_TO_NOTHING = 1e-9
"""how much the month of the other scenario counts"""


@dataclass(frozen=True, eq=False)
class TinyHorizon:
    problem: HorizonProblem
    """of the expected cost"""
    cases: tuple[Case, ...]
    """of each block"""

    @property
    def worst_case(self) -> HorizonProblem:
        """The same horizon, with the worst case to be minimized."""
        return replace(self.problem, risk=worst_case_of(self.problem.risk.probabilities))


def tiny_horizon(seed: int, amended: bool = False) -> TinyHorizon:
    """One of every kind of commitment to one offer or two, some of which are held already; the first quarter is alike
    in both scenarios.

    `amended`: each scenario has prices of its own in the second quarter, and the high one a quota.
    """
    rng = np.random.default_rng([seed, 7])
    case = lever_case(seed).case
    names = sorted(case.offers)
    for_sale = names[: int(rng.integers(1, 3))]
    held = {g: int(rng.choice([0, 0, 1])) for g in names}
    offers = {g: replace(o, reserved_usd_per_h={}, on_hand=held[g], max_instances=None) for g, o in case.offers.items()}
    case = replace(case, offers=offers, max_gpus={}, budget_usd_per_month=None)
    likely = float(rng.uniform(0.2, 0.8))
    cases = tuple(_scaled(case, float(factor)) for factor in (1.0, rng.uniform(0.2, 0.9), rng.uniform(1.0, 1.8)))
    signed_later = (1.0, 1.0)
    if amended:
        cases = (cases[0], *(_repriced(c, rng) for c in cases[1:]))
        low, high = rng.uniform(0.5, 1.5, 2).tolist()
        signed_later = (low, high)
        g = for_sale[0]
        few = {**cases[2].offers, g: replace(cases[2].offers[g], max_instances=held[g] + 1)}
        cases = (*cases[:2], replace(cases[2], offers=few))
    commitments = _commitments(rng, case, for_sale, likely, signed_later)
    owed = float(rng.uniform(0, 1.5e4)) if rng.random() < 0.3 else None
    alike = _each_month(case)
    return _horizon(cases, cases[0].fleet, {"low": alike, "high": alike}, commitments, likely, owed)


def tiny_horizon_apart(seed: int) -> TinyHorizon | None:
    """The first quarter has a month of each scenario; None where a seed has one month, or work that may wait."""
    rng = np.random.default_rng([seed, 8])
    case = (random_case(seed) if seed % 2 else lever_case(seed).case).without_limits()
    if case.slot_month.max() != 1 or any(pool.window is not None for pool in case.pools):
        return None
    offers = {g: replace(o, reserved_usd_per_h={}, on_hand=int(rng.choice([0, 0, 1]))) for g, o in case.offers.items()}
    case = replace(case, offers=offers)
    likely = float(rng.uniform(0.3, 0.9))
    first = _scaled(case, rng.uniform(0.3, 1.8, 2)[case.slot_month][:, None])
    cases = (first, *(_scaled(case, float(factor)) for factor in (rng.uniform(0.1, 1.2), rng.uniform(0.4, 2.0))))
    commitments = _commitments(rng, case, sorted(offers)[:1], likely)
    months = np.array([likely, 1 - likely])
    fleet = fleet_of(
        first.workloads, first.pools, first.offers, first.slot_hours * (2 * months)[first.slot_month],
        first.slot_month, slot_before=first.slot_before, month_weight=2 * months,
        team_usd_per_month=first.team_usd_per_month, vendors=first.vendors,
    )  # fmt: skip
    return _horizon(cases, fleet, {"low": (MONTHS, 0.0), "high": (0.0, MONTHS)}, commitments, likely, None)


def _horizon(
    cases: tuple[Case, ...],
    first: FleetProblem,
    times: dict[str, tuple[float, ...]],
    commitments: tuple[CommitmentColumn, ...],
    likely: float,
    owed: float | None,
) -> TinyHorizon:
    blocks = (
        Block(first, MONTHS, "block 0", times),
        Block(cases[1].fleet, MONTHS * likely, "block 1", {"low": _each_month(cases[1])}),
        Block(cases[2].fleet, MONTHS * (1 - likely), "block 2", {"high": _each_month(cases[2])}),
    )
    risk = Risk({"low": likely, "high": 1 - likely})
    return TinyHorizon(HorizonProblem(blocks, commitments, owed, risk=risk), cases)


def _each_month(case: Case) -> tuple[float, ...]:
    count = int(case.slot_month.max()) + 1
    return (MONTHS / count,) * count


def _commitments(
    rng: np.random.Generator,
    case: Case,
    for_sale: list[str],
    likely: float,
    signed_later: tuple[float, float] = (1.0, 1.0),
) -> tuple[CommitmentColumn, ...]:
    commitments = []
    for g in for_sale:
        usual = case.offers[g].on_demand_usd_per_h or 2.0 * case.offers[g].box
        monthly = 730 * usual * float(rng.uniform(0.3, 0.8))
        long, (low, high) = monthly * float(rng.uniform(0.7, 1.0)), signed_later
        low_usd, high_usd = MONTHS * likely * low * monthly, MONTHS * (1 - likely) * high * monthly
        commitments += [
            CommitmentColumn(g, "long", 0, None, (0, 1, 2), 2 * MONTHS * long, long, float(rng.uniform(0, 9e3)), MOST),
            CommitmentColumn(g, "short", 0, None, (0,), MONTHS * monthly, monthly, most=MOST),
            CommitmentColumn(g, "short", 1, "low", (1,), low_usd, low * monthly, 2e3, MOST),
            CommitmentColumn(g, "short", 1, "high", (2,), high_usd, high * monthly, 2e3, MOST),
        ]  # fmt: skip
    return tuple(commitments)


def _scaled(case: Case, factor: float | np.ndarray) -> Case:
    return replace(case, pools=tuple(replace(pool, rate_rps=pool.rate_rps * factor) for pool in case.pools))


def _repriced(case: Case, rng: np.random.Generator) -> Case:
    """Other prices on demand and for spot, which stays below."""
    offers = {}
    for g, o in case.offers.items():
        times, spot = (float(x) for x in rng.uniform(0.5, 1.6, 2))
        usd = o.on_demand_usd_per_h and times * o.on_demand_usd_per_h
        less = o.spot_usd_per_h and min(spot * o.spot_usd_per_h, usd or np.inf)
        offers[g] = replace(o, on_demand_usd_per_h=usd, spot_usd_per_h=less)
    return replace(case, offers=offers)


@dataclass(frozen=True)
class Least:
    """Cost and penalties of the best plans, over the horizon."""

    expected_usd: float
    worst_usd: float
    """of the plan whose worst case is least"""
    expected_of_worst_usd: float
    """the least expected cost of plans whose worst case is no more than a millionth above that"""
    worst_of_expected_usd: float
    """the least worst case of plans whose expected cost is no more than a millionth above the least"""


def least_usd(horizon: TinyHorizon) -> float:
    return least_of(horizon).expected_usd


def least_of(horizon: TinyHorizon) -> Least:
    """By trying every number of every commitment with every choice of who serves in the first quarter."""
    p = horizon.problem.risk.probabilities
    found: list[tuple[float, float]] = []
    for x, by_block in every_plan(horizon):
        if keeps_to_budgets(horizon.problem, x, by_block):
            usd = {s: _paid(horizon.problem, x, s) + sum(by_block[s]) for s in SCENARIOS}
            found.append((sum(p[s] * usd[s] for s in SCENARIOS), max(usd.values())))
    if not found:
        return Least(math.inf, math.inf, math.inf, math.inf)
    expected, worst = min(e for e, _ in found), min(w for _, w in found)
    return Least(
        expected,
        worst,
        min(e for e, w in found if w <= worst * (1 + 1e-6)),
        min(w for e, w in found if e <= expected * (1 + 1e-6)),
    )


def _paid(problem: HorizonProblem, x: tuple[int, ...], s: str) -> float:
    p, signed = problem.risk.probabilities, zip(x, problem.commitments, strict=True)
    return sum(n * (c.usd / p[s] if c.scenario else c.usd) for n, c in signed if c.scenario in (None, s))


def keeps_to_budgets(problem: HorizonProblem, x: tuple[int, ...], by_block: dict[str, tuple[float, float]]) -> bool:
    """Blocks of a scenario are the first one and its own."""
    for limit in problem.spending:
        own = 1 + SCENARIOS.index(limit.scenario)
        spent = sum(usd for b, usd in zip((0, own), by_block[limit.scenario], strict=True) if b in limit.blocks)
        if spent + sum(x[k] * usd for k, usd in limit.signed_usd.items()) > limit.most_usd * (1 + 1e-9):
            return False
    return True


def with_budget(horizon: TinyHorizon, seed: int) -> TinyHorizon:
    """With a budget for the first quarter, for the second, or for both of one scenario, or of each, which the cheapest
    plan does not keep to."""
    rng, problem = np.random.default_rng([seed, 31]), horizon.problem
    p, plans = problem.risk.probabilities, [*every_plan(horizon)]

    def expected(plan: tuple[tuple[int, ...], dict[str, tuple[float, float]]]) -> float:
        x, by_block = plan
        return sum(p[s] * (_paid(problem, x, s) + sum(by_block[s])) for s in SCENARIOS)

    best = min(plans, key=expected)
    quarters = [(0,), (1,), (0, 1)][int(rng.integers(3))]
    limits = []
    for k, s in enumerate(SCENARIOS):
        blocks = tuple((0, k + 1)[q] for q in quarters)
        signed = {}
        for n, c in enumerate(problem.commitments):
            mine = [b for b in c.blocks if b in (0, k + 1)]
            if c.scenario in (None, s) and mine:
                usd = c.usd / p[s] if c.scenario else c.usd
                signed[n] = usd * len([b for b in mine if b in blocks]) / len(mine)

        def spent(
            plan: tuple[tuple[int, ...], dict[str, tuple[float, float]]],
            s: str = s,
            signed: dict[int, float] = signed,
        ) -> float:
            x, by_block = plan
            return sum(by_block[s][q] for q in quarters) + sum(x[n] * usd for n, usd in signed.items())

        least, now = min(map(spent, plans)), spent(best)
        limits.append(SpendLimit(s, blocks, signed, least + float(rng.uniform(0.1, 0.95)) * (now - least)))
    some = limits if rng.random() < 0.5 else limits[:1]
    return replace(horizon, problem=replace(problem, spending=tuple(some)))


def every_plan(horizon: TinyHorizon) -> Iterator[tuple[tuple[int, ...], dict[str, tuple[float, float]]]]:
    """What is signed, and what the quarters of each scenario cost at least besides, by who serves in the first."""
    problem = horizon.problem
    offers = sorted({c.offer for c in problem.commitments})
    first = _first_quarter(problem.blocks[0], horizon.cases[0], offers)
    later = [_least_of_block(case, offers) for case in horizon.cases[1:]]
    for x in itertools.product(*(range(few, most + 1) for few, most in problem.bounds)):
        signed = list(zip(x, problem.commitments, strict=True))
        owed = [sum(n * c.owed_usd for n, c in signed if c.scenario in (None, s)) for s in SCENARIOS]
        if problem.max_owed_usd is not None and max(owed) > problem.max_owed_usd:
            continue
        if not _keeps_to_quotas(problem, signed):
            continue
        counts = [tuple(sum(n for n, c in signed if c.offer == g and b in c.blocks) for g in offers) for b in range(3)]
        own = {s: MONTHS * later[k][counts[k + 1]] for k, s in enumerate(SCENARIOS)}
        for of_first in first[counts[0]]:
            yield x, {s: (of_first[s], own[s]) for s in SCENARIOS}


def _keeps_to_quotas(problem: HorizonProblem, signed: list[tuple[int, CommitmentColumn]]) -> bool:
    """Whether no block has more of an offer signed than there may be."""
    for b, block in enumerate(problem.blocks):
        for g, offer in block.fleet.offers.items():
            there = offer.on_hand + sum(n for n, c in signed if c.offer == g and b in c.blocks)
            if offer.max_instances is not None and there > offer.max_instances:
                return False
    return True


def _first_quarter(block: Block, case: Case, offers: list[str]) -> dict[tuple[int, ...], list[dict[str, float]]]:
    """By the instances that are committed to: what each scenario costs, for every choice of who serves."""
    if len(set(block.times.values())) == 1:
        return {n: [dict.fromkeys(SCENARIOS, MONTHS * usd)] for n, usd in _least_of_block(case, offers).items()}
    table = {}
    for n, there in _with_commitments(case, offers).items():
        by_month = [
            cheapest_by_choices(
                replace(there, slot_hours=there.slot_hours * np.where(there.slot_month == m, 2.0, NEXT_TO_NOTHING))
            )
            for m in range(2)
        ]
        table[n] = [
            {s: MONTHS * by_month[m].get(choices, math.inf) for m, s in enumerate(SCENARIOS)} for choices in by_month[0]
        ]
    return table


def _least_of_block(case: Case, offers: list[str]) -> dict[tuple[int, ...], float]:
    """By the instances of each offer that are committed to."""
    return {n: brute_force(there).objective for n, there in _with_commitments(case, offers).items()}


def _with_commitments(case: Case, offers: list[str]) -> dict[tuple[int, ...], Case]:
    table = {}
    for counts in itertools.product(range(2 * MOST + 1), repeat=len(offers)):
        more = {
            g: replace(case.offers[g], on_hand=case.offers[g].on_hand + n) for g, n in zip(offers, counts, strict=True)
        }
        table[counts] = replace(case, offers={**case.offers, **more})
    return table


def horizon_with_servers(seed: int) -> TinyHorizon:
    """One offer is a server that is bought, with a lead of a quarter or none, whose GPUs in use pay for energy.

    There is room for two. Another offer may be committed to for a quarter.
    """
    rng = np.random.default_rng([seed, 54])
    case = random_case(seed, limits=False)
    g, *others = sorted(case.offers)
    usd_per_gpu_h = {name: float(rng.choice([0.0, 0.3]) * rng.uniform(0.5, 1.5)) for name in others}
    offers = {
        name: replace(case.offers[name], reserved_usd_per_h={}, usd_per_gpu_h=usd_per_gpu_h[name]) for name in others
    }
    energy = float(rng.uniform(0.05, 0.6))
    own = replace(case.offers[g], on_demand_usd_per_h=None, spot_usd_per_h=None, reserved_usd_per_h={}, max_instances=2)
    case = replace(case, offers={g: replace(own, usd_per_gpu_h=energy)} | offers)
    likely, lead = float(rng.uniform(0.2, 0.8)), int(rng.choice([0, 1]))
    cases = tuple(_scaled(case, float(factor)) for factor in (1.0, rng.uniform(0.2, 0.9), rng.uniform(1.0, 1.8)))
    monthly = 730 * own.box * float(rng.uniform(0.3, 1.2))
    owed = [float(usd) for usd in rng.uniform(2e3, 9e3, 2)]
    serves, quarters = ((0, 1, 2), 2) if lead == 0 else ((1, 2), 1)
    term, in_all = "bought-48mo", quarters * MONTHS * monthly
    commitments = [CommitmentColumn(g, term, lead, None, serves, in_all, monthly, owed[0], MOST)]
    if lead == 0:
        chances = ((1, "low", likely), (2, "high", 1 - likely))
        commitments += [
            CommitmentColumn(g, term, 1, s, (b,), MONTHS * p * monthly, monthly, owed[1], MOST) for b, s, p in chances
        ]
    for other in others[:1]:
        usd = 730 * (offers[other].on_demand_usd_per_h or 2.0 * offers[other].box) * float(rng.uniform(0.3, 0.8))
        commitments.append(CommitmentColumn(other, "short", 0, None, (0,), MONTHS * usd, usd, most=1))
    limit = float(rng.uniform(0, 2.5e4)) if rng.random() < 0.3 else None
    alike = _each_month(case)
    return _horizon(cases, cases[0].fleet, {"low": alike, "high": alike}, tuple(commitments), likely, limit)
