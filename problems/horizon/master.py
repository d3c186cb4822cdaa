"""The restricted master of a horizon, over the plans of each block that are known; horizon_problem.py has it whole."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from problems.horizon.horizon_problem import BlockPlan, HorizonProblem
from problems.model import Column, Model, Row, build_model


def horizon_master(problem: HorizonProblem, plans: Sequence[Sequence[BlockPlan]], relaxed: bool) -> Model:
    """The restricted master over the plans of each block that are known, commitments first.

    Until enough plans are known, some may lack what they need at a price that is never worth it.
    """
    mean = problem.risk.mean_frac
    columns = [
        Column(("sign", k), mean * c.usd, fewest, most, integer=not relaxed)
        for k, (c, (fewest, most)) in enumerate(zip(problem.commitments, problem.bounds, strict=True))
    ]
    at: list[list[int]] = []
    lacking = {}
    for b, offers in enumerate(problem.offers_of):
        for g in offers:
            lacking[b, g] = len(columns)
            columns.append(Column(("lacking", b, g), problem.too_much_usd, integer=False))
    for b, known in enumerate(plans):
        at.append([])
        for p, plan in enumerate(known):
            at[b].append(len(columns))
            usd = mean * problem.blocks[b].months * plan.usd_per_month
            columns.append(Column(("plan", b, p), usd, upper=1, integer=not relaxed))
    rows = _rows(problem, plans, at, lacking, relaxed)
    if problem.risk.worst_case:
        rows += no_scenario_costs_more_than_the_worst(problem, plans, at, len(columns))
        columns.append(Column(("worst",), (1 - mean) * problem.too_much_usd))
    return build_model(columns, rows)


def no_scenario_costs_more_than_the_worst(
    problem: HorizonProblem, plans: Sequence[Sequence[BlockPlan]], at: list[list[int]], worst: int
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
        terms = [(column, -usd / unit) for column, usd in (*signed, *planned) if usd]
        yield Row(("worst", s), [(worst, 1.0), *terms], ">=", 0.0)


def _rows(
    problem: HorizonProblem,
    plans: Sequence[Sequence[BlockPlan]],
    at: list[list[int]],
    lacking: dict[tuple[int, str], int],
    relaxed: bool,
) -> list[Row]:
    rows = [Row(("one-plan", b), [(c, 1.0) for c in known], "==", 1.0) for b, known in enumerate(at)]
    for b, offers in enumerate(problem.offers_of):
        for g in offers:
            signed = [(k, 1.0) for k, c in enumerate(problem.commitments) if c.offer == g and b in c.blocks]
            used = [
                (column, -float(plan.committed[g]))
                for column, plan in zip(at[b], plans[b], strict=True)
                if plan.committed.get(g)
            ]
            rows.append(Row(("committed", b, g), [*signed, *used, (lacking[b, g], 1.0)], ">=", 0.0))
        for gpu, left in sorted(problem.left_of_quota(b).items()) if not relaxed else ():
            fleet = problem.blocks[b].fleet
            terms = [
                (k, float(fleet.offers[c.offer].box))
                for k, c in enumerate(problem.commitments)
                if b in c.blocks and c.offer in fleet.offers and fleet.offers[c.offer].gpu == gpu
            ]
            if terms:
                rows.append(Row(("gpus-committed", b, gpu), terms, "<=", float(left)))
    for scenario in problem.scenarios if problem.max_owed_usd is not None else ():
        if owed := problem.owed_in(scenario):
            rows.append(Row(("owed", scenario), owed, "<=", problem.max_owed_usd or 0.0))
    return rows
