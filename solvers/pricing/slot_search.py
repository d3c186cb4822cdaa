"""Solve the small programs of single slots: branch and bound on numbers of replicas, in this process.

There are thousands of them, of tens of columns each: a solver that is started for each takes longer to start, cut and
probe than to search. Here each node is a linear program that starts where the last one ended. Its bound is computed
from the duals alone, so it holds whatever the tolerances; its point is only a hint at numbers of replicas to try.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import count

import numpy as np

from problems.recipes.mixes import ROUNDING, Counts, SharedBoxes, SlotMix, first_answer
from problems.slot_model import slot_model
from solvers.backends import highs_child
from solvers.backends.highs import solve_lp
from solvers.backends.result import Status
from solvers.backends.solve import SolverName, solve_mip
from solvers.backends.verify import dual_bound

EXACT_FRAC = 1e-9
"""an answer this near to its bound needs no search"""
UNITS = 1000.0
"""what the answer at hand costs in a search: the tolerances of solvers suit numbers of that size"""
SMALLEST_FRAC = 1e-6
"""share of all costs together: the smallest cost that a search is scaled to; far below a cent"""
NODES = 2000
"""nodes after which the search is left to a solver"""
TOLERANCE = 1e-7
"""how far a linear program may miss its rows"""


@dataclass(frozen=True, eq=False)
class Routed:
    """Numbers of replicas that were checked to carry all that the outlet does not get."""

    replicas: np.ndarray
    """[deployment]"""
    rest: np.ndarray
    """share of each bucket with demand that goes to the outlet"""
    cost: float


@dataclass(frozen=True, eq=False)
class SolvedSlot:
    """What a slot costs at least (inf: it cannot be served), and the best answer found."""

    bound: float
    answer: Routed | None = None


def solve_slot(slot: SlotMix, most_deployments: int, solver: SolverName, gap_frac: float = EXACT_FRAC) -> SolvedSlot:
    """The bound that is proved for a slot, and an answer that was checked."""
    if not np.isfinite(slot.bound):
        return SolvedSlot(np.inf)
    first = first_answer(slot, most_deployments)
    upper = np.inf if first is None else first.cost
    bound, tried = slot.bound, [] if first is None else [first.replicas]
    if first is None or upper - bound > gap_frac * abs(upper):
        proved, replicas = _searched(slot, most_deployments, upper, solver, gap_frac)
        bound = max(bound, proved)
        tried = tried if replicas is None else [replicas, *tried]
    answers = (_routed(slot, replicas) for replicas in tried)
    return SolvedSlot(bound, next((answer for answer in answers if answer is not None), None))


def _searched(
    slot: SlotMix, most_deployments: int, upper: float, solver: SolverName, gap_frac: float
) -> tuple[float, np.ndarray | None]:
    """A proved bound, at most `upper`, and numbers of replicas that cost less than `upper` if there are any.

    A solver takes over where the search did not end, or ended with too many deployments.
    """
    unit = max(upper if upper < np.inf else slot.bound, SMALLEST_FRAC * slot.size) / UNITS or 1.0
    narrow = slot.narrowed(upper).narrowed(upper).in_units_of(unit)
    search = _Search(narrow, upper / unit, gap_frac).run()
    if search.finished and (search.replicas is None or (search.replicas > 0).sum() <= most_deployments):
        return search.bound * unit, search.replicas
    model, v = slot_model(narrow, most_deployments)
    result = solve_mip(model, solver=solver, gap_frac=gap_frac)
    bound = max(search.bound, np.inf if result.status is Status.INFEASIBLE else result.bound)
    replicas = None
    if result.x is not None:
        replicas = np.zeros(len(slot.counts), dtype=int)
        for k, column in v.count.items():
            replicas[k] = round(result.x[column])
        for k, columns in v.at.items():
            replicas[k] = round(result.x[columns] @ narrow.counts[k].replicas)
    return min(bound * unit, upper), replicas


def _routed(slot: SlotMix, replicas: np.ndarray) -> Routed | None:
    """The cheapest routing with these replicas; more of them where they could not quite carry it."""
    model, v = slot_model(slot.with_replicas(replicas))
    lp = solve_lp(model)
    if lp.x is None:
        return None
    share = np.zeros((len(slot.counts) + 1, len(slot.outlet)))
    for (k, b), column in v.share.items():
        share[k, b] = lp.x[column]
    for b, column in v.rest.items():
        share[-1, b] = lp.x[column]
    share /= share.sum(axis=0)
    load = (np.where(np.isfinite(slot.load), slot.load, 0.0) * share[:-1]).sum(axis=1)
    cost = float(share[-1][share[-1] > 0] @ slot.outlet[share[-1] > 0])
    enough = replicas.copy()
    for k, c in enumerate(slot.counts):
        at = c.replicas == replicas[k]
        if load[k] > c.carried[at][0] + ROUNDING:
            enough[k] = c.cheapest_for(load[k])
    return Routed(enough, share[-1], cost + slot.cost_of(enough))


@dataclass(frozen=True, eq=False)
class _Found:
    """What a search knows at its end."""

    bound: float
    """no answer costs less; at most what was asked for"""
    replicas: np.ndarray | None
    """numbers of replicas that cost less than what was asked for [deployment], but for the tolerance"""
    finished: bool
    """False if the nodes did not suffice, or a linear program could not be solved"""


@dataclass(frozen=True, eq=False)
class _Running:
    """A deployment that may run, and its columns."""

    k: int
    counts: Counts
    shares: np.ndarray
    loads: np.ndarray
    """[share]"""
    numbers: np.ndarray
    """the column of its number of replicas, or one for each number"""

    def of_each(self, x: np.ndarray, amounts: np.ndarray) -> float:
        """Of something that each number of replicas has [count], as much as it has in a point."""
        if self.counts.on_a_line:
            return float(x[self.numbers[0]] * amounts[-1] / self.counts.replicas[-1])
        return float(x[self.numbers] @ amounts)

    def rounded_up(self, x: np.ndarray) -> tuple[int, bool]:
        """The place of the cheapest whole number of replicas for what a point has it carry; False if none is enough."""
        share = x[self.shares]
        runs = bool((share > TOLERANCE).any())
        enough = self.counts.carried >= float(share @ self.loads) - TOLERANCE
        cost = np.where(enough & ((self.counts.replicas > 0) | (not runs)), self.counts.cost, np.inf)
        at = int(np.argmin(cost))
        return at, bool(cost[at] < np.inf)


@dataclass(frozen=True, eq=False)
class _Filled:
    """Boxes that deployments share, and the columns of the steps of what they cost."""

    gpus: list[tuple[_Running, np.ndarray]]
    """of each member that may run, by its number of replicas [count]"""
    most: np.ndarray
    """GPUs up to which a step reaches [step]"""
    cost: np.ndarray
    """[step]"""
    columns: np.ndarray
    """[step]"""

    def usd_of(self, places: dict[int, int]) -> float:
        """What boxes cost for whole replicas, by their place among the numbers of each deployment."""
        return float(self.cost[np.searchsorted(self.most, sum(int(gpus[places[r.k]]) for r, gpus in self.gpus))])

    def full(self, x: np.ndarray) -> int:
        """The last step that a point fills; -1 if none."""
        used = sum(r.of_each(x, gpus) for r, gpus in self.gpus)
        return int(np.searchsorted(self.most, used + TOLERANCE, side="right")) - 1

    def first(self, low: np.ndarray, high: np.ndarray) -> int:
        """The first step that holds the fewest GPUs of replicas between these numbers [deployment]."""
        each = (g[(r.counts.replicas >= low[r.k]) & (r.counts.replicas <= high[r.k])] for r, g in self.gpus)
        return int(np.searchsorted(self.most, sum(min(gpus.tolist(), default=0) for gpus in each)))


class _Search:
    """The cheapest answer below `upper`, proved to the gap."""

    def __init__(self, slot: SlotMix, upper: float, gap_frac: float) -> None:
        self.slot, self.gap_frac = slot, gap_frac
        self.model, v = slot_model(slot)
        self.program = highs_child.load_model(vars(self.model.relaxed()))
        self.program.setOptionValue("presolve", "off")
        self.rest = np.array(list(v.rest.values()), dtype=int)
        self.running: list[_Running] = []
        for k in (*v.count, *v.at):
            buckets = [b for j, b in v.share if j == k]
            shares = np.array([v.share[k, b] for b in buckets], dtype=int)
            numbers = np.array([v.count[k]] if k in v.count else v.at[k])
            self.running.append(_Running(k, slot.counts[k], shares, slot.load[k, buckets], numbers))
        self.filled = [self._boxes(slot.shared[g], steps) for g, steps in v.step.items()]
        self.cost = upper
        self.best: np.ndarray | None = None

    def _boxes(self, boxes: SharedBoxes, steps: dict[int, int]) -> _Filled:
        gpus = [(r, boxes.gpus(r.k, r.counts)) for r in self.running if r.k in boxes.members]
        within = list(steps)
        return _Filled(gpus, boxes.most[within], boxes.cost[within], np.array(list(steps.values())))

    def run(self) -> _Found:
        """Nodes are numbers of replicas and steps of boxes, from the fewest to the most [deployment and boxes]."""
        number = count()
        fewest = np.array([*(c.replicas[0] for c in self.slot.counts), *(0 for _ in self.filled)])
        most = np.array([*(c.replicas[-1] for c in self.slot.counts), *(len(f.columns) - 1 for f in self.filled)])
        heap = [(-np.inf, next(number), fewest, most)]
        settled = np.inf
        for _ in range(NODES):
            if not heap or heap[0][0] >= self._enough():
                break
            parent, _, low, high = heapq.heappop(heap)
            point, bound = self._relaxed(low, high)
            bound = max(bound, parent)
            split = self._try(point, low, high) if point is not None and bound < self._enough() else None
            if split is None:
                settled = min(settled, bound)
                continue
            k, n = split
            for side_low, side_high in ((low[k], n), (n + 1, high[k])):
                lows, highs = low.copy(), high.copy()
                lows[k], highs[k] = side_low, side_high
                heapq.heappush(heap, (bound, next(number), lows, highs))
        bound = min([self.cost, settled, *(item[0] for item in heap[:1])])
        return _Found(bound, self.best, finished=bound >= self._enough())

    def _enough(self) -> float:
        """The bound at which a node holds nothing that is worth a look."""
        return self.cost - self.gap_frac * abs(self.cost) if self.cost < np.inf else np.inf

    def _relaxed(self, low: np.ndarray, high: np.ndarray) -> tuple[np.ndarray | None, float]:
        """The linear program with replicas and steps between these numbers: its point, and what it proves."""
        lower, upper = self.model.lower.copy(), self.model.upper.copy()
        for r in self.running:
            if r.counts.on_a_line:
                lower[r.numbers], upper[r.numbers] = low[r.k], high[r.k]
            else:
                upper[r.numbers] = (r.counts.replicas >= low[r.k]) & (r.counts.replicas <= high[r.k])
        for g, f in enumerate(self.filled, start=len(self.slot.counts)):
            step = np.arange(len(f.columns))
            upper[f.columns] = (step >= max(low[g], f.first(low, high))) & (step <= high[g])
        self.program.changeColsBounds(len(lower), np.arange(len(lower), dtype=np.int32), lower, upper)
        self.program.run()
        status = self.program.getModelStatus().name
        if status == "kInfeasible":
            return None, np.inf
        solution = self.program.getSolution()
        bound = dual_bound(replace(self.model, lower=lower, upper=upper), np.array(solution.row_dual))
        return np.array(solution.col_value) if status == "kOptimal" else None, bound

    def _try(self, x: np.ndarray, low: np.ndarray, high: np.ndarray) -> tuple[int, int] | None:
        """Take the point with whole replicas if that is the cheapest so far; where to split the one that loses most."""
        rounded = {r.k: r.rounded_up(x) for r in self.running}
        places = {k: at for k, (at, _) in rounded.items()}
        served = all(enough for _, enough in rounded.values())
        cost = float(self.model.cost[self.rest] @ x[self.rest]) if served else np.inf
        split, most_lost = None, 0.0
        for k, columns, whole, at in self._parts(x, places):
            cost += whole
            lost = whole - float(self.model.cost[columns] @ x[columns])
            if low[k] < high[k] and (split is None or lost > most_lost):
                split, most_lost = (k, int(np.clip(at, low[k], high[k] - 1))), lost
        if cost < self.cost:
            self.cost, self.best = cost, np.zeros(len(self.slot.counts), dtype=int)
            for r in self.running:
                self.best[r.k] = r.counts.replicas[places[r.k]]
        return split

    def _parts(self, x: np.ndarray, places: dict[int, int]) -> Iterator[tuple[int, np.ndarray, float, int]]:
        """What a node is split by: its columns, what whole numbers cost, and the last number that a point reaches."""
        for r in self.running:
            above = int(np.floor(r.of_each(x, r.counts.replicas) + TOLERANCE))
            yield r.k, r.numbers, float(r.counts.own_cost[places[r.k]]), above
        for g, f in enumerate(self.filled, start=len(self.slot.counts)):
            yield g, f.columns, f.usd_of(places), f.full(x)
