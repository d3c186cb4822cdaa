"""The restricted master of a horizon, over the plans of each block that are known; horizon_problem.py has it whole."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import floor, inf

from problems.horizon.horizon_problem import ROUNDING, BlockPlan, HorizonProblem
from problems.model import Column, Model, Row, build_model

WHOLE = 1e-6


@dataclass(frozen=True)
class Trade:
    """Instances that the master may buy in a block, or sell there, besides commitments."""

    usd: float
    most: float = inf
    sold: bool = False


Trades = dict[tuple[int, str], Sequence[Trade]]
"""(block, offer) -> what may be bought and sold"""


def horizon_master(
    problem: HorizonProblem, plans: Sequence[Sequence[BlockPlan]], relaxed: bool, trades: Trades | None = None
) -> Model:
    """The restricted master over the plans of each block that are known, commitments first.

    Until enough plans are known, some may lack what they need at a price that is never worth it. Where `trades` are
    given there are those instead: they keep its duals near to other prices.
    """
    mean = problem.risk.mean_frac
    columns = [
        Column(("sign", k), mean * c.usd, fewest, most, integer=not relaxed)
        for k, (c, (fewest, most)) in enumerate(zip(problem.commitments, problem.bounds, strict=True))
    ]
    at: list[list[int]] = []
    traded: dict[tuple[int, str], list[tuple[int, float]]] = {}
    spent: list[tuple[int, int, float]] = []
    """block, column, and what it costs in each of the block's scenarios"""
    for b, offers in enumerate(problem.offers_of):
        for g in offers:
            traded[b, g] = []
            for t, trade in enumerate((Trade(problem.too_much_usd),) if trades is None else trades[b, g]):
                sign = -1.0 if trade.sold else 1.0
                traded[b, g].append((len(columns), sign))
                usd = sign * trade.usd
                if trades is not None and problem.risk.worst_case:
                    likely = sum(problem.risk.probabilities[s] for s in problem.blocks[b].times)
                    spent.append((b, len(columns), usd / likely))
                    usd *= mean
                columns.append(Column(("traded", b, g, t), usd, upper=trade.most))
    for b, known in enumerate(plans):
        at.append([])
        for p, plan in enumerate(known):
            at[b].append(len(columns))
            usd = mean * problem.blocks[b].months * plan.usd_per_month
            columns.append(Column(("plan", b, p), usd, upper=1, integer=not relaxed))
    rows = _rows(problem, plans, at, traded, relaxed)
    rows += quarters_keep_to_their_budget(problem, plans, at) if trades is None else ()
    if problem.risk.worst_case:
        rows += no_scenario_costs_more_than_the_worst(problem, plans, at, spent, len(columns))
        columns.append(Column(("worst",), (1 - mean) * problem.too_much_usd))
    return build_model(columns, rows)


def no_scenario_costs_more_than_the_worst(
    problem: HorizonProblem,
    plans: Sequence[Sequence[BlockPlan]],
    at: list[list[int]],
    spent: list[tuple[int, int, float]],
    worst: int,
) -> Iterator[Row]:
    """The worst case is at least what each scenario costs; both sides over `too_much_usd`, so that they are near one.

    w - sum_k usd[k,s] x[k] - sum_{b,p} usd[p,s] y[b,p] >= 0        for all scenarios s        [too_much_usd]
    """
    unit = problem.too_much_usd
    for s in problem.risk.probabilities:
        signed = [(k, problem.usd_in(c, s)) for k, c in enumerate(problem.commitments)]
        planned = [
            (column, plan.usd_in[s])
            for of_block, known in zip(at, plans, strict=True)
            for column, plan in zip(of_block, known, strict=True)
            if s in plan.usd_in
        ]
        traded = [(column, usd) for b, column, usd in spent if s in problem.blocks[b].times]
        terms = [(column, -usd / unit) for column, usd in (*signed, *planned, *traded) if usd]
        yield Row(("worst", s), [(worst, 1.0), *terms], ">=", 0.0)


def quarters_keep_to_their_budget(
    problem: HorizonProblem, plans: Sequence[Sequence[BlockPlan]], at: list[list[int]]
) -> Iterator[Row]:
    """What quarters of a scenario cost together, commitments included, stays within their budget.

    sum_k usd[k,i] x[k] + sum_{b of i, p} usd[p,s] y[b,p] <= most[i]        for all budgets i        [too_much_usd]
    """
    unit = problem.too_much_usd
    for i, limit in enumerate(problem.spending):
        planned = [
            (column, plan.usd_in[limit.scenario])
            for b in limit.blocks
            for column, plan in zip(at[b], plans[b], strict=True)
            if limit.scenario in plan.usd_in
        ]
        terms = [(column, usd / unit) for column, usd in (*limit.signed_usd.items(), *planned) if usd]
        if terms:
            yield Row(("spent", i), terms, "<=", limit.most_usd * (1 + ROUNDING) / unit)


def _rows(
    problem: HorizonProblem,
    plans: Sequence[Sequence[BlockPlan]],
    at: list[list[int]],
    traded: dict[tuple[int, str], list[tuple[int, float]]],
    relaxed: bool,
) -> list[Row]:
    rows = [Row(("one-plan", b), [(c, 1.0) for c in known], "==", 1.0) for b, known in enumerate(at)]
    for b, offers in enumerate(problem.offers_of):
        for g in offers:
            signed = [(k, float(c.lots)) for k, c in enumerate(problem.commitments) if c.offer == g and b in c.blocks]
            used = [
                (column, -float(plan.committed[g]))
                for column, plan in zip(at[b], plans[b], strict=True)
                if plan.committed.get(g)
            ]
            rows.append(Row(("committed", b, g), [*signed, *used, *traded[b, g]], ">=", 0.0))
    rows += limits_on_commitments(problem, gpus=not relaxed)
    return rows


def limits_on_commitments(problem: HorizonProblem, gpus: bool = True) -> Iterator[Row]:
    """Commitments leave quotas of GPU types intact, and no more is owed than may be; they are the first columns."""
    for b, block in enumerate(problem.blocks) if gpus else ():
        for gpu, left in sorted(problem.left_of_quota(b).items()):
            offers = block.fleet.offers
            terms = [
                (k, float(offers[c.offer].box))
                for k, c in enumerate(problem.commitments)
                if b in c.blocks and c.offer in offers and offers[c.offer].gpu == gpu
            ]
            if terms:
                yield Row(("gpus-committed", b, gpu), terms, "<=", float(max(0, left)))
        for g in problem.offers_of[b]:
            offer = block.fleet.offers.get(g)
            if offer is not None and offer.max_instances is not None:
                signed = [(k, 1.0) for k, c in enumerate(problem.commitments) if b in c.blocks and c.offer == g]
                left = max(0, offer.max_instances - offer.on_hand)
                yield Row(("instances-committed", b, g), signed, "<=", float(left))
    yield from allowances_keep_to_their_limits(problem)
    for scenario in problem.scenarios if problem.max_owed_usd is not None else ():
        if owed := problem.owed_in(scenario):
            yield Row(("owed", scenario), owed, "<=", problem.max_owed_usd or 0.0)


def allowances_keep_to_their_limits(problem: HorizonProblem) -> Iterator[Row]:
    """No more of an allowance is in force in a block than may be signed, and each signing begins with its fewest units.

    sum_{k of a, lasts in b} lots[k] x[k] <= most[a]        for all b, a with a limit            [lot]
    x[k] - most[k] x[first of k] <= 0                       for all k beyond the fewest units    [lot]
    """
    for b, block in enumerate(problem.blocks):
        for a in (a for a in block.fleet.allowances if a.key in block.lots and a.most < inf):
            signed = [
                (k, float(c.lots)) for k, c in enumerate(problem.commitments) if c.offer == a.key and b in c.blocks
            ]
            if signed:
                yield Row(("allowance-committed", b, a.key), signed, "<=", floor(a.most / block.lots[a.key] + WHOLE))
    for k, c in enumerate(problem.commitments):
        if c.begins_with is not None:
            yield Row(("begins-with", k), [(k, 1.0), (c.begins_with, -float(max(1, c.most)))], "<=", 0.0)
