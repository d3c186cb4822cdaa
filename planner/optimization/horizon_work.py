"""A horizon as the optimizer sees it: blocks out of its quarters and scenarios, and commitments in time.

Each quarter of each scenario is an ordinary case (planner/case/quarters.py), whose fleet problem is a block of the
horizon's (problems/horizon). What is signed stands in the plans of its quarters as held.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from planner.candidates.enumerate import Candidates, enumerate_candidates
from planner.case.allowances import LIKE, allowance_of, lasts_for_quarters, units_in, units_of_a_lot, with_held
from planner.case.case import Allowance, Case, Future, Holding, Scenario
from planner.case.dates import last_day_after, quarter_days
from planner.case.prices import price_of
from planner.case.quarters import Block as QuarterBlock
from planner.case.quarters import (
    block_case,
    block_name,
    blocks_of,
    budget_periods,
    case_in,
    case_when_signed,
    future_of,
    held_usd,
    is_held_in,
    month_groups,
)
from planner.case.slots import MONTHS_OF_A_QUARTER, slots_of
from planner.case.terms import beyond_months, counted_months, inside_months, liability_usd, undepreciated_usd
from planner.catalog.terms import is_bought, term_months
from planner.optimization.assemble import assemble_plan
from planner.optimization.formulate import formulate
from planner.plan.horizon.horizon_plan import QuarterPlan, SignedAllowance, SignedCommitment
from problems.constants import HOURS_PER_MONTH
from problems.fleet_problem import FleetProblem
from problems.horizon.horizon_problem import Block, CommitmentColumn, HorizonProblem, SpendLimit
from problems.horizon.risk import Risk, worst_case_of
from solvers.backends.clock import check
from solvers.heuristics.incumbent import Incumbent, penalty_by_month, usd_by_month
from solvers.search.fleet_solution import Options
from solvers.search.horizon.solution import HorizonSolution

SAME = 1e-9
FEWEST_MOST = 8
"""commitments to an offer that may be signed at least, however few instances are known to be of use"""


@dataclass(frozen=True, eq=False)
class Quarter:
    """A block with all that its plan is made from."""

    of: QuarterBlock
    case: Case
    candidates: Candidates
    block: Block


class HorizonWork:
    """A horizon, or one scenario of it that is taken to be known: its blocks and commitments."""

    def __init__(
        self,
        case: Case,
        scenarios: Sequence[Scenario] | None = None,
        known: HorizonWork | None = None,
        on_quarter: Callable[[int, int], None] = lambda done, of: None,
    ) -> None:
        """`known` has later quarters that are the same; `on_quarter` hears how many are worked out."""
        future = future_of(case)
        some = tuple(scenarios or future.scenarios)
        total = sum(s.probability_frac for s in some)
        certain = tuple(s.model_copy(update={"probability_frac": s.probability_frac / total}) for s in some)
        self.case = case.model_copy(update={"future": future.model_copy(update={"scenarios": certain})})
        later = {(q.of.quarter, q.of.scenario): q for q in known.quarters} if known else {}
        blocks = blocks_of(self.case)
        planned: list[Quarter | None] = []
        for of in blocks:
            on_quarter(len(planned), len(blocks))
            planned.append(self._quarter(of, later.get((of.quarter, of.scenario)) if of.quarter else None))
        self.quarters: tuple[Quarter, ...] = tuple(quarter for quarter in planned if quarter is not None)

    @property
    def future(self) -> Future:
        return future_of(self.case)

    def _quarter(self, of: QuarterBlock, known: Quarter | None) -> Quarter | None:
        """None where nothing comes: there is nothing to plan."""
        if known is not None:
            return replace(known, of=of, block=replace(known.block, months=of.months))
        scenarios = [s for s in self.future.scenarios if of.scenario in (None, s.name)]
        groups = month_groups(self.case, of.quarter, scenarios)
        times = {s.name: tuple(g.count if s.name in g.scenarios else 0.0 for g in groups) for s in scenarios}
        case = block_case(self.case, of)
        if not case.workloads:
            return None
        candidates = enumerate_candidates(case, on_step=check)
        fleet = formulate(case, candidates, slots_of(case))
        bare = {g: replace(offer, reserved_usd_per_h={}) for g, offer in fleet.offers.items()}
        lots = {a.name: units_of_a_lot(a) for a in case.allowances or () if lasts_for_quarters(a) and not a.held}
        unpaid = tuple(replace(a, usd_per_h=0.0) if a.key in lots else a for a in fleet.allowances)
        name = block_name(of.quarter, of.scenario)
        return Quarter(
            of, case, candidates, Block(replace(fleet, offers=bare, allowances=unpaid), of.months, name, times, lots)
        )

    def problem(self, long_terms: bool = False) -> HorizonProblem:
        """`long_terms`: those that outlast the horizon may be signed too, worth their price after it."""
        offers = {g for q in self.quarters for g in q.case.offers}
        columns = [column for g in sorted(offers) for column in self._columns_of(g, long_terms)]
        for a in self.case.allowances or ():
            columns += self._columns_of_allowance(a, len(columns))
        blocks = tuple(q.block for q in self.quarters)
        spending = tuple(self._spending(columns))
        return HorizonProblem(blocks, tuple(columns), self.future.max_liability_usd, spending, risk=self._risk())

    def _spending(self, columns: Sequence[CommitmentColumn]) -> Iterable[SpendLimit]:
        """Budgets of several months, in each scenario; commitments count by the month that they last."""
        for period in budget_periods(self.case):
            for s in self.future.scenarios:
                signed: dict[int, float] = {}
                for k, c in enumerate(columns):
                    if c.scenario in (None, s.name):
                        lasts = range(c.quarter, c.quarter + term_months(as_offers(c.term)) // MONTHS_OF_A_QUARTER)
                        inside = len(set(lasts) & set(period.quarters))
                        signed[k] = MONTHS_OF_A_QUARTER * inside * c.usd_per_month
                blocks = tuple(
                    b
                    for b, q in enumerate(self.quarters)
                    if q.of.quarter in period.quarters and s.name in q.block.times
                )
                yield SpendLimit(s.name, blocks, {k: usd for k, usd in signed.items() if usd}, period.left_usd)

    def _risk(self) -> Risk:
        probabilities = {s.name: s.probability_frac for s in self.future.scenarios}
        return worst_case_of(probabilities) if self.future.risk == "worst-case" else Risk(probabilities)

    def _columns_of(self, g: str, long_terms: bool) -> Iterable[CommitmentColumn]:
        """Every term of an offer from every quarter on, but those that another one is no worse than."""
        for quarter in range(self.future.quarters):
            scenarios: list[Scenario | None] = [None] if quarter == 0 else list(self.future.scenarios)
            for s in scenarios:
                case, found = case_in(self.case, quarter, s), list[CommitmentColumn]()
                prices = case.offers[g].prices.reserved() if g in case.offers else {}
                for term in (term for term in case.purchase if term in prices and not is_bought(term)):
                    months = counted_months(self.case, term, quarter)
                    if months is None and long_terms:
                        months = float(inside_months(self.case, term, quarter))
                    if months is None:
                        continue
                    column = self._column(g, term, quarter, s, prices[term].usd_per_h, months)
                    if column.blocks and not any(_no_worse(other, column) for other in found):
                        found = [other for other in found if not _no_worse(column, other)] + [column]
                yield from found
                yield from self._bought_column(g, quarter, s)

    def _bought_column(self, g: str, ordered: int, s: Scenario | None) -> Iterable[CommitmentColumn]:
        """A server that is ordered in a quarter, at its price, and serves after its lead time; none that would not."""
        case = case_in(self.case, ordered, s)
        price = case.offers[g].prices.bought if g in case.offers else None
        if price is None or price.term not in case.purchase or ordered + price.lead_quarters >= self.future.quarters:
            return
        quarter = ordered + price.lead_quarters
        usd_per_h, months = price.spread().usd_per_h, float(inside_months(self.case, price.term, quarter))
        column = self._column(g, price.term, quarter, s, usd_per_h, months)
        if column.blocks:
            yield replace(column, owed_usd=undepreciated_usd(self.case, price, quarter))

    def _column(
        self, g: str, term: str, quarter: int, s: Scenario | None, usd_per_h: float, months: float
    ) -> CommitmentColumn:
        ends = quarter + term_months(term) // MONTHS_OF_A_QUARTER
        blocks = tuple(
            b
            for b, q in enumerate(self.quarters)
            if quarter <= q.of.quarter < ends and (s is None or q.of.scenario == s.name) and g in q.block.fleet.offers
        )
        each, likely = usd_per_h * HOURS_PER_MONTH, s.probability_frac if s else 1.0
        upfront = None if is_bought(term) else case_in(self.case, quarter, s).offers[g].prices.upfront().get(term)
        return CommitmentColumn(
            offer=g,
            term=term,
            quarter=quarter,
            scenario=s.name if s else None,
            blocks=blocks,
            usd=likely * each * months,
            usd_per_month=each,
            owed_usd=liability_usd(self.case, term, upfront.usd_per_h if upfront else usd_per_h, quarter),
            most=_most_of([self.quarters[b].block.fleet for b in blocks], g),
        )

    def _columns_of_allowance(self, a: Allowance, after: int) -> list[CommitmentColumn]:
        """From every quarter on in which none of it is held: its fewest units, and lots on top of them; `after` so many
        columns of others."""
        found: list[CommitmentColumn] = []
        if not lasts_for_quarters(a):
            return found
        term, lot = LIKE[a.term], units_of_a_lot(a)
        fewest = round(a.fewest / lot)
        for quarter in range(self.future.quarters):
            months = counted_months(self.case, term, quarter)
            if months is None or is_held_in(self.case, a, quarter):
                continue
            scenarios: list[Scenario | None] = [None] if quarter == 0 else list(self.future.scenarios)
            for s in scenarios:
                column = self._column_of_lots(a, lot, quarter, s, months)
                if column.blocks and column.most > 0:
                    if fewest:
                        found.append(_times(column, fewest))
                        column = replace(column, begins_with=after + len(found) - 1)
                    found.append(column)
        return found

    def _column_of_lots(
        self, a: Allowance, lot: float, quarter: int, s: Scenario | None, months: float
    ) -> CommitmentColumn:
        term, likely = LIKE[a.term], s.probability_frac if s else 1.0
        ends = quarter + term_months(term) // MONTHS_OF_A_QUARTER
        blocks = tuple(
            b
            for b, q in enumerate(self.quarters)
            if quarter <= q.of.quarter < ends and (s is None or q.of.scenario == s.name) and a.name in q.block.lots
        )
        covers = [next(c for c in self.quarters[b].block.fleet.cover.each if c.key == a.name) for b in blocks]
        most = max((self.quarters[b].block.fleet.cover.most_units(c) for b, c in zip(blocks, covers, strict=True)),
                   default=0.0)  # fmt: skip
        each = lot * a.usd_per_h * HOURS_PER_MONTH
        return CommitmentColumn(
            offer=a.name,
            term=a.term,
            quarter=quarter,
            scenario=s.name if s else None,
            blocks=blocks,
            usd=likely * each * months,
            usd_per_month=each,
            owed_usd=liability_usd(self.case, term, lot * a.usd_per_h, quarter),
            most=int(np.ceil(most / lot - SAME)) if any(c.takes for c in covers) else 0,
        )

    def cost_in(self, problem: HorizonProblem, solution: HorizonSolution, scenario: str) -> ScenarioCost:
        """What a plan of this horizon costs in one of its scenarios."""
        by_quarter, penalty = np.zeros(self.future.quarters), 0.0
        for q, found in zip(self.quarters, solution.blocks, strict=True):
            if q.of.scenario in (None, scenario) and found.best is not None:
                usd, shed = self._quarter_usd(q, found.best, scenario)
                by_quarter[q.of.quarter] += usd
                penalty += shed
        beyond = 0.0
        for c, n in zip(problem.commitments, solution.signed, strict=True):
            if n and c.scenario in (None, scenario):
                months = inside_months(self.case, as_offers(c.term), c.quarter)
                lasts = months // MONTHS_OF_A_QUARTER
                by_quarter[c.quarter : c.quarter + lasts] += MONTHS_OF_A_QUARTER * n * c.usd_per_month
                beyond += n * (self._counted_usd(c) - c.usd_per_month * months)
        return ScenarioCost(tuple(by_quarter.tolist()), penalty, beyond)

    def _quarter_usd(self, q: Quarter, best: Incumbent, scenario: str) -> tuple[float, float]:
        """Cost and penalty of a quarter in one scenario, besides commitments."""
        fleet = q.block.fleet
        months, shed = usd_by_month(fleet, best), penalty_by_month(fleet, best.paths)
        return q.block.usd_in(months)[scenario], q.block.usd_in(shed)[scenario]

    def signed(self, problem: HorizonProblem, solution: HorizonSolution) -> tuple[SignedCommitment, ...]:
        each = zip(problem.commitments, solution.signed, strict=True)
        return tuple(self._signed(c, n) for c, n in each if n and c.term not in LIKE)

    def signed_allowances(
        self, problem: HorizonProblem, solution: HorizonSolution
    ) -> tuple[SignedAllowance, ...] | None:
        """What is signed of each from a quarter on, its fewest units and what comes on top together; None: nothing."""
        found: dict[tuple[str, int, str | None], list[tuple[CommitmentColumn, int]]] = {}
        for c, n in zip(problem.commitments, solution.signed, strict=True):
            if n and c.term in LIKE:
                found.setdefault((c.offer, c.quarter, c.scenario), []).append((c, n))
        return tuple(map(self._signed_allowance, found.values())) or None

    def _signed_allowance(self, each: Sequence[tuple[CommitmentColumn, int]]) -> SignedAllowance:
        c = each[0][0]
        a, months = allowance_of(self.case, c.offer), term_months(LIKE[c.term])
        first = quarter_days(self.future.starts, c.quarter)[0]
        usd = sum(n * c.usd_per_month for c, n in each)
        return SignedAllowance(
            name=c.offer,
            term=a.term,
            units=units_in(a, sum(n * c.lots for c, n in each)),
            quarter=c.quarter,
            scenario=c.scenario,
            first_day=first,
            last_day=last_day_after(first, months),
            usd_per_month=usd,
            inside_usd=usd * inside_months(self.case, LIKE[c.term], c.quarter),
            beyond_usd=usd * beyond_months(self.case, LIKE[c.term], c.quarter),
            counted_usd=sum(n * self._counted_usd(c) for c, n in each),
        )

    def _counted_usd(self, c: CommitmentColumn) -> float:
        """What one of a commitment counts for in a scenario in which it is signed."""
        return c.usd / next((s.probability_frac for s in self.future.scenarios if s.name == c.scenario), 1.0)

    def _signed(self, c: CommitmentColumn, n: int) -> SignedCommitment:
        first = quarter_days(self.future.starts, c.quarter)[0]
        scenario = next((s for s in self.future.scenarios if s.name == c.scenario), None)
        price = price_of(case_when_signed(self.case, c.offer, c.term, c.quarter, scenario), c.offer, c.term)
        return SignedCommitment(
            offer=c.offer,
            term=c.term,
            instances=n,
            quarter=c.quarter,
            scenario=c.scenario,
            first_day=first,
            last_day=last_day_after(first, term_months(c.term)),
            usd_per_h=c.usd_per_month / HOURS_PER_MONTH,
            upfront_usd=n * price.upfront_usd if price else 0.0,
            inside_usd=n * c.usd_per_month * inside_months(self.case, c.term, c.quarter),
            beyond_usd=n * c.usd_per_month * beyond_months(self.case, c.term, c.quarter),
            counted_usd=n * self._counted_usd(c),
        )

    def plans(self, problem: HorizonProblem, solution: HorizonSolution, options: Options) -> tuple[QuarterPlan, ...]:
        """The plan of each block, with what is signed as held."""
        plans = []
        for b, (q, found) in enumerate(zip(self.quarters, solution.blocks, strict=True)):
            held = tuple(
                self._held(c, n)
                for c, n in zip(problem.commitments, solution.signed, strict=True)
                if n and b in c.blocks and c.term not in LIKE
            )
            case = q.case.model_copy(update={"held": (*(q.case.held or ()), *held) or None})
            lots = problem.committed_in(b, solution.signed)
            there = (allowance_of(self.case, name) for name in q.block.lots)
            case = with_held(case, {a.name: units_in(a, lots[a.name]) for a in there if a.name in lots})
            fleet = problem.fleet_with(b, solution.signed)
            plan = assemble_plan(case, q.candidates, fleet, found, options, long_terms=False)
            plans.append(QuarterPlan(quarter=q.of.quarter, scenario=q.of.scenario, plan=plan))
        return tuple(plans)

    def _held(self, c: CommitmentColumn, n: int) -> Holding:
        signed = self._signed(c, n)
        return Holding(
            offer=c.offer,
            purchase=c.term,
            instances=n,
            usd_per_h=signed.usd_per_h,
            first_day=signed.first_day,
            last_day=signed.last_day,
        )

    @cached_property
    def held_usd(self) -> float:
        return sum(held_usd(self.case, quarter) for quarter in range(self.future.quarters))


@dataclass(frozen=True)
class ScenarioCost:
    by_quarter_usd: tuple[float, ...]
    """plans and commitments; what was held before is not in it"""
    penalty_usd: float
    beyond_usd: float
    """what commitments are not worth after the horizon"""

    @property
    def counted_usd(self) -> float:
        return sum(self.by_quarter_usd) + self.penalty_usd + self.beyond_usd


def as_offers(term: str) -> str:
    """The term of a commitment to instances that runs as long."""
    return LIKE.get(term, term)


def _times(c: CommitmentColumn, lots: int) -> CommitmentColumn:
    """So many lots that are signed together or not at all."""
    return replace(
        c, usd=lots * c.usd, usd_per_month=lots * c.usd_per_month, owed_usd=lots * c.owed_usd, most=1, lots=lots
    )


def _no_worse(a: CommitmentColumn, b: CommitmentColumn) -> bool:
    """Whether a does what b does for no more, now and later."""
    return a.blocks == b.blocks and a.usd <= b.usd and a.usd_per_month <= b.usd_per_month and a.owed_usd <= b.owed_usd


def _most_of(fleets: Sequence[FleetProblem], g: str) -> int:
    """Instances of an offer beyond those held that no plan needs more of, and that each block's quota leaves."""
    needed = max((max(fleet.most_instances.get(g, 0), FEWEST_MOST) for fleet in fleets), default=0)
    offers = [fleet.offers[g] for fleet in fleets]
    left = [o.max_instances - o.on_hand for o in offers if o.max_instances is not None]
    return max(0, min(left if len(left) == len(offers) else [*left, needed], default=0))
