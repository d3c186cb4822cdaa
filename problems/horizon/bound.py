"""What is proved of blocks, put together: a program whose optimum no plan of a horizon costs less than.

Let V[b](n) be the least that a block costs, a month, besides commitments, where n[g] instances of each offer are
committed to in it. It takes a search to know it for one n, so the program has theta[b] <= V[b] in its place:

    min   sum_k usd[k] x[k]  +  sum_b months[b] theta[b]

    priced blocks        theta[b] >= least - sum_g mu[g] n[b,g]                               for all prices mu tried
    planned blocks       theta[b] >= least - sum_g by_hour[g] max(0, n[b,g] - at[g])          for all n tried, `at`

with n[b,g] = sum_{k of g, lasts in b} lots[k] x[k], x whole, and the limits on commitments. The first family is weak
duality: a block was planned with commitments for sale at mu. The second says that what is committed to replaces no more
than instances that are bought by the hour, a lot of an allowance no more than the most it can cover, and that fewer of
them save nothing. Where that is not so it holds for the n
that was tried and no other: other instances of a GPU whose number is limited may be in the way, an offer may not be
for sale by the hour, and a budget counts what was paid for commitments.

For the worst case it has (1 - e) w + e times the above as its objective (risk.py), and

    the worst case       w >= sum_k usd[k,s] x[k] + sum_b months[b,s] theta[b]                for all scenarios s

where the first block, which scenarios share, has a theta[s] for each of them. What is proved of it with some weights of
scenarios is about their mean: sum_s weight[s] months[s] theta[s] / sum_s weight[s] months[s] stands for theta.

Budgets over several quarters are rows of it, over theta; a block that scenarios share has one for each of them then.

Its solution signs what could cost the least as far as anything is known. So it is what to try next.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from math import inf

from problems.horizon.horizon_problem import ROUNDING, HorizonProblem
from problems.horizon.master import limits_on_commitments
from problems.horizon.risk import Weights
from problems.model import Column, Model, Row, build_model
from problems.recipes.vendors import NO_VENDORS

CHANGE_FRAC = 0.1
"""share of its price that a commitment costs besides which is signed though it was not, or the other way round"""
Commitments = tuple[int, ...]
"""some of a horizon's"""


@dataclass(frozen=True, eq=False)
class PricedBlock:
    """What no plan of a block has less than at prices of commitments."""

    usd_per_month: dict[str, float]
    """mu of each offer"""
    least_usd_per_month: float
    weights: Weights = field(default_factory=dict)
    """of scenarios that share the block; none: their probabilities"""


@dataclass(frozen=True)
class Count:
    """How many of some commitments were signed where a block was planned, and what others could save."""

    of: Commitments
    signed: int
    more_saves_usd: float
    """at most, each, a month; infinite where nothing is known of more"""
    fewer_may_save: bool


@dataclass(frozen=True, eq=False)
class PlannedBlock:
    """What no plan of a block costs less than, a month, where so many commitments are signed; infinite: it has none."""

    counts: tuple[Count, ...]
    least_usd_per_month: float
    weights: Weights = field(default_factory=dict)
    """of scenarios that share the block; none: their probabilities"""


@dataclass(eq=False)
class Proved:
    """All that is proved of one block."""

    priced: list[PricedBlock] = field(default_factory=list)
    planned: dict[tuple[tuple[Count, ...], tuple[float, ...]], PlannedBlock] = field(default_factory=dict)
    """by counts and weights"""

    def learn(self, planned: PlannedBlock) -> None:
        key = planned.counts, tuple(planned.weights.values())
        before = self.planned.get(key)
        if before is None or planned.least_usd_per_month > before.least_usd_per_month:
            self.planned[key] = planned


def counts_of(problem: HorizonProblem, b: int, x: Sequence[int], weights: Weights | None = None) -> tuple[Count, ...]:
    """What the plan of a block depends on, with scenarios that count so much in it."""
    fleet = problem.blocks[b].at(weights or {}).fleet
    paid = [k for k, c in enumerate(problem.commitments) if b in c.blocks]
    here = [k for k in paid if problem.blocks[b].sells(problem.commitments[k].offer)]
    if fleet.budget_usd_per_month is not None:
        alike: dict[tuple[str, float], list[int]] = {}
        for k in paid:
            alike.setdefault((problem.commitments[k].offer, problem.commitments[k].usd_per_month), []).append(k)
        return tuple(Count(tuple(of), _lots(problem, of, x), inf, True) for of in alike.values())
    counts = []
    for g in problem.offers_of[b]:
        of = tuple(k for k in here if problem.commitments[k].offer == g)
        signed = _lots(problem, of, x)
        if g in problem.blocks[b].lots:
            counts.append(Count(of, signed, problem.blocks[b].lot_saves_usd(g), False))
            continue
        offer = fleet.offers[g]
        alone = fleet.vendors == NO_VENDORS and offer.gpu not in fleet.max_gpus
        too_many = offer.max_instances is not None and offer.on_hand + signed > offer.max_instances
        by_hour = offer.on_demand_usd_per_h if alone else None
        saves = inf if by_hour is None else by_hour * float(fleet.weight.sum())
        draws = fleet.power is not None  # also where nothing runs on it, so that fewer may make room
        counts.append(Count(of, signed, saves, not alone or too_many or draws))
    return tuple(counts)


def _lots(problem: HorizonProblem, of: Iterable[int], x: Sequence[int]) -> int:
    return sum(problem.commitments[k].lots * x[k] for k in of)


def bound_program(problem: HorizonProblem, proved: Sequence[Proved], near: Sequence[int] | None = None) -> Model:
    """The program; its first columns are the commitments.

    `near`: what is to be tried next is looked for near to what is signed already, so every commitment more or less
    costs a share of its price. The optimum is no bound then.
    """
    mean = problem.risk.mean_frac
    columns = [
        Column(("sign", k), mean * c.usd, fewest, most, integer=True)
        for k, (c, (fewest, most)) in enumerate(zip(problem.commitments, problem.bounds, strict=True))
    ]
    theta = _Thetas(problem, columns)
    rows = list(limits_on_commitments(problem))
    rows += quarters_keep_to_their_budget(problem, theta)
    if problem.risk.worst_case:
        rows += no_scenario_costs_more_than_the_worst(problem, theta, len(columns))
        columns.append(Column(("worst",), (1 - mean) * problem.too_much_usd))
    made = _Counts(problem, columns, rows)
    for b, of_block in enumerate(proved):
        offers = problem.offers_of[b]
        for i, priced in enumerate(of_block.priced):
            worth = [
                (k, c.lots * priced.usd_per_month[c.offer])
                for k, c in enumerate(problem.commitments)
                if b in c.blocks and c.offer in offers and priced.usd_per_month[c.offer] > 0
            ]
            mean_of = theta.mean(b, priced.weights)
            rows.append(Row(("priced", b, i), [*mean_of, *worth], ">=", priced.least_usd_per_month))
        for i, planned in enumerate(of_block.planned.values()):
            rows += _of_planned(("planned", b, i), theta.mean(b, planned.weights), planned, made)
    for k, signed in enumerate(near or ()):
        change_usd = CHANGE_FRAC * problem.commitments[k].usd
        changed = [(len(columns), -1.0), (len(columns) + 1, 1.0)]
        columns += [Column(("added", k), change_usd), Column(("dropped", k), change_usd)]
        rows.append(Row(("changed", k), [(k, 1.0), *changed], "==", float(signed)))
    return build_model(columns, rows)


class _Thetas:
    """Columns for what blocks cost, a month: one for each, or one for each scenario that shares it."""

    def __init__(self, problem: HorizonProblem, columns: list[Column]) -> None:
        self.problem = problem
        self.of: list[dict[str | None, int]] = []
        mean, p = problem.risk.mean_frac, problem.risk.probabilities
        for b, block in enumerate(problem.blocks):
            self.of.append({})
            if not block.differs or not (problem.risk.worst_case or problem.spending):
                self.of[b][None] = len(columns)
                columns.append(Column(("theta", b), mean * block.months))
                continue
            for s, times in block.times.items():
                self.of[b][s] = len(columns)
                columns.append(Column(("theta", b, s), mean * p[s] * sum(times)))

    def mean(self, b: int, weights: Weights) -> list[tuple[int, float]]:
        """What a block costs, with scenarios that count so much."""
        if None in self.of[b]:
            return [(self.of[b][None], 1.0)]
        some, times = weights or self.problem.risk.probabilities, self.problem.blocks[b].times
        months = self.problem.blocks[b].months_at(some)
        return [(column, some[s] * sum(times[s]) / months) for s, column in self.of[b].items() if s is not None]

    def usd_in(self, s: str, only: int | None = None) -> list[tuple[int, float]]:
        """What all blocks, or one, cost in a scenario."""
        each = [(b, of, self.problem.blocks[b]) for b, of in enumerate(self.of) if only in (None, b)]
        return [(of[s if s in of else None], sum(block.times[s])) for _, of, block in each if s in block.times]


def quarters_keep_to_their_budget(problem: HorizonProblem, theta: _Thetas) -> Iterator[Row]:
    """What quarters of a scenario cost at least, commitments included, is within their budget.

    sum_k usd[k,i] x[k] + sum_{b of i} months[b,s] theta[b] <= most[i]        for all budgets i        [too_much_usd]
    """
    unit = problem.too_much_usd
    for i, limit in enumerate(problem.spending):
        planned = (term for b in limit.blocks for term in theta.usd_in(limit.scenario, b))
        terms = [(column, usd / unit) for column, usd in (*limit.signed_usd.items(), *planned) if usd]
        if terms:
            yield Row(("spent", i), terms, "<=", limit.most_usd * (1 + ROUNDING) / unit)


def no_scenario_costs_more_than_the_worst(problem: HorizonProblem, theta: _Thetas, worst: int) -> Iterator[Row]:
    """The worst case is at least what each scenario could cost.

    w - sum_k usd[k,s] x[k] - sum_b months[b,s] theta[b] >= 0        for all scenarios s        [too_much_usd]
    """
    unit = problem.too_much_usd
    for s in problem.risk.probabilities:
        signed = [(k, problem.usd_in(c, s)) for k, c in enumerate(problem.commitments)]
        terms = [(column, -usd / unit) for column, usd in (*signed, *theta.usd_in(s)) if usd]
        yield Row(("worst", s), [(worst, 1.0), *terms], ">=", 0.0)


def _of_planned(
    key: tuple[str, int, int], theta: list[tuple[int, float]], planned: PlannedBlock, made: _Counts
) -> list[Row]:
    """theta >= least where as many are signed, less what others save; nothing is said where that is not known."""
    least = planned.least_usd_per_month
    other: list[int] = []
    saved: list[tuple[int, float]] = []
    for count in planned.counts:
        most = made.most(count)
        if count.fewer_may_save and most < count.signed:
            return []  # so many cannot be signed any more
        if count.fewer_may_save and count.signed:
            other.append(made.fewer(count))
        if count.signed < most and count.more_saves_usd == inf:
            other.append(made.more(count))
        elif count.signed < most and least < inf:
            saved.append((made.beyond(count), count.more_saves_usd))
    if least == inf and not other:  # nothing else helps: the program has no solution either
        return [Row(key, theta, "<=", -1.0)]
    if least == inf:
        return [Row(key, [(column, 1.0) for column in other], ">=", 1.0)]
    return [Row(key, [*theta, *saved, *((column, least) for column in other)], ">=", least)]


class _Counts:
    """Columns that say whether more or fewer are signed than somewhere, each made once."""

    def __init__(self, problem: HorizonProblem, columns: list[Column], rows: list[Row]) -> None:
        self.problem, self.columns, self.rows = problem, columns, rows
        self.made: dict[tuple[str, Commitments, int], int] = {}

    def _column(self, kind: str, count: Count, upper: float, integer: bool) -> tuple[int, bool]:
        key = (kind, count.of, count.signed)
        new = key not in self.made
        if new:
            self.made[key] = len(self.columns)
            self.columns.append(Column(key, 0.0, 0.0, upper, integer))
        return self.made[key], new

    def most(self, count: Count) -> int:
        """that can be signed"""
        return _lots(self.problem, count.of, [most for _, most in self.problem.bounds])

    def _each(self, count: Count, sign: float = 1.0) -> list[tuple[int, float]]:
        return [(k, sign * self.problem.commitments[k].lots) for k in count.of]

    def more(self, count: Count) -> int:
        """1 only where more are signed: sum x >= (signed + 1) more."""
        column, new = self._column("more", count, 1.0, True)
        if new:
            some = self._each(count)
            self.rows.append(Row(("more", *count.of, count.signed), [*some, (column, -count.signed - 1.0)], ">=", 0.0))
        return column

    def fewer(self, count: Count) -> int:
        """1 only where fewer are signed: sum x <= most - (most - signed + 1) fewer."""
        column, new = self._column("fewer", count, 1.0, True)
        if new:
            some = self._each(count)
            most = float(self.most(count))
            spread = most - count.signed + 1.0
            self.rows.append(Row(("fewer", *count.of, count.signed), [*some, (column, spread)], "<=", most))
        return column

    def beyond(self, count: Count) -> int:
        """How many more are signed, at most max(0, sum x - signed)."""
        more = self.more(count)
        spread = float(self.most(count) - count.signed)
        column, new = self._column("beyond", count, spread, False)
        if new:
            less = self._each(count, -1.0)
            key = (*count.of, count.signed)
            self.rows.append(Row(("beyond", *key), [(column, 1.0), (more, -spread)], "<=", 0.0))
            up_to = [(column, 1.0), *less, *([(more, float(count.signed))] if count.signed else [])]
            self.rows.append(Row(("up-to", *key), up_to, "<=", 0.0))
        return column
