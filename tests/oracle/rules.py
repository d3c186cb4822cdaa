"""The rules of serving, one number at a time: replicas for a load, firm replicas, routing, work that waits.

Nothing here knows recipes. Staffing is searched count by count and by bisection; routing is a linear program solved by
trying every vertex of its dual; work that waits is a flow, found from every cut.
"""

from __future__ import annotations

import itertools
import math
from functools import cache

import numpy as np

from problems.recipes.pools import Deployment, Pool
from problems.staffing import Staffing

TINY = 1e-9


def in_slot(staffing: Staffing, slot: int, slots: int) -> Staffing:
    """The rule in one slot: the rate may vary more in some slots than in others."""
    s = staffing
    v = float(np.broadcast_to(np.asarray(s.rate_cv, dtype=float), (slots,))[slot])
    return Staffing(s.z, s.arrival_scv, v, s.batch, s.min_replicas, s.max_utilization, s.routing)


def busy_enough(s: Staffing, n: int) -> float:
    """The mean load of each of n replicas that TTFT allows, by the formula as it is written down."""
    r, lone = s.routing, s.max_utilization
    if r is None or lone >= 1:
        return lone
    root = r.prompt_share**0.5
    limit = (1 - (1 - root * lone) / n**r.exponent) / root
    c = s.arrival_scv / n if r.exponent else s.arrival_scv
    if c > 2:
        limit = min(limit, c * (r.burst_room * math.gamma(1 + 1 / c)) ** c / r.prompt_share)
    return min(1.0, 0.95 * limit)


@cache
def replicas_for(staffing: Staffing, load: float) -> int:
    """The first count that covers the mean and z standard deviations, with no replica too busy."""
    if load <= 0:
        return 0
    n = staffing.min_replicas
    while load + spread(staffing, load) > n + TINY or load > n * busy_enough(staffing, n) + TINY:
        n += 1
    return n


def spread(s: Staffing, load: float) -> float:
    """By requests, a log-normal rate has its mean at 1 + v^2 and the same spread of logarithms."""
    arrivals = load * (1 + s.arrival_scv) / 2 / s.batch
    v2 = float(s.rate_cv) ** 2
    by_requests = (1 + v2) / math.sqrt(1 + v2) * math.exp(s.z * math.sqrt(math.log(1 + v2)))
    return math.sqrt(s.z**2 * arrivals + ((by_requests - 1) * load) ** 2)


@cache
def max_utilization(staffing: Staffing, n: int) -> float:
    """The largest load that n replicas cover, by bisection; none for fewer than the minimum."""
    if n < staffing.min_replicas:
        return 0.0
    low, high = 0.0, n * busy_enough(staffing, n)
    if high + spread(staffing, high) <= n:
        return high
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (middle, high) if middle + spread(staffing, middle) <= n else (low, middle)
    return low


def firm_count(pool: Pool, d: Deployment, staffing: Staffing, load: float, n: int) -> int:
    """Replicas that must not be spot: a reclaim takes one zone, and what is left must hold the critical load."""
    if not pool.spot_allowed:
        return n
    if not d.spot_allowed and pool.critical_share > 0:
        return n
    needed = min(n, replicas_for(staffing, pool.critical_share * load))
    return max(0, n - d.spot_zones * (n - needed))


def least_outlet_cost(
    rates: list[float], seconds: list[list[float]], rooms: np.ndarray, prices: list[float] | None
) -> np.ndarray:
    """What leaving costs, per second, when deployments have room for these loads [row, deployment]; inf: impossible.

    Requests of bucket b take seconds[d][b] of a replica (inf: cannot be served there) or leave at prices[b]; without
    prices none may leave. Linear duality: the cost is the largest of

        sum_b rate_b min(price_b, seconds_1b m_1, seconds_2b m_2) - room_1 m_1 - room_2 m_2    over m >= 0,

    and without prices all can be served if that is never above zero. It is largest at a vertex, so all are tried.
    """
    asked = [b for b, rate in enumerate(rates) if rate > 0]
    if prices is None:
        if any(all(math.isinf(of[b]) for of in seconds) for b in asked):
            return np.full(len(rooms), math.inf)
        worst = np.full(len(rooms), -math.inf)
        for m in _directions(seconds, asked):
            demand = sum(rates[b] * min(_times(of[b], m[d]) for d, of in enumerate(seconds)) for b in asked)
            worst = np.maximum(worst, demand - rooms @ np.array(m))
        return np.where(worst <= TINY, 0.0, math.inf)
    best = np.zeros(len(rooms))
    for m in _vertices(seconds, prices, asked):
        value = sum(rates[b] * min([prices[b], *(_times(of[b], m[d]) for d, of in enumerate(seconds))]) for b in asked)
        best = np.maximum(best, value - rooms @ np.array(m))
    return best


def _times(seconds: float, price: float) -> float:
    return math.inf if math.isinf(seconds) else seconds * price


def _directions(seconds: list[list[float]], asked: list[int]) -> list[tuple[float, ...]]:
    """Ratios of the prices of one or two deployments at which a bucket changes sides."""
    if len(seconds) == 1:
        return [(1.0,)]
    both = [b for b in asked if math.isfinite(seconds[0][b]) and math.isfinite(seconds[1][b])]
    return [(1.0, 0.0), (0.0, 1.0), *((seconds[1][b], seconds[0][b]) for b in both)]


def _vertices(seconds: list[list[float]], prices: list[float], asked: list[int]) -> list[tuple[float, ...]]:
    """Where a bucket is indifferent between leaving and a deployment, for each deployment, or between the two."""
    steps = [[0.0, *(prices[b] / of[b] for b in asked if math.isfinite(of[b]))] for of in seconds]
    found = list(itertools.product(*steps))
    if len(seconds) == 2:
        one, two = seconds
        for b in asked:
            if math.isfinite(one[b]) and math.isfinite(two[b]):
                found += [(m, m * one[b] / two[b]) for m in steps[0]]
                found += [(m * two[b] / one[b], m) for m in steps[1]]
    return found


SIZES = (1, 2, 4, 8)
"""of replicas, in GPUs"""


def boxes_for(gpus: np.ndarray, box: int, fewest: int = 1, apart: bool = False) -> np.ndarray:
    """Boxes that replicas of each size take, so many GPUs in each: the largest first, each where there is room.

    Where any is taken, so many are at least; apart: those of no size of two or more all stand in one.
    [way, size] -> [way]
    """
    boxes = [_apart(tuple(way), box) if apart else _packed(tuple(way), box) for way in gpus.tolist()]
    return np.array([max(n, fewest) if n else 0 for n in boxes], dtype=int)


@cache
def _packed(gpus: tuple[int, ...], box: int) -> int:
    room: list[int] = []
    for size, used in reversed(list(zip(SIZES, gpus, strict=True))):
        for _ in range(used // size):
            if size > box:  # whole boxes
                assert size % box == 0
                room += [0] * (size // box)
                continue
            at = next((k for k, left in enumerate(room) if left >= size), None)
            if at is None:
                room.append(box)
                at = len(room) - 1
            room[at] -= size
    return len(room)


@cache
def _apart(gpus: tuple[int, ...], box: int) -> int:
    """The fewest boxes of all placements in which those of no size of two or more all stand in one."""
    replicas = [(size, used // size) for size, used in zip(SIZES, gpus, strict=True) if used and size <= box]
    whole = sum(used // box for size, used in zip(SIZES, gpus, strict=True) if size > box)
    boxes = _packed(gpus, box)
    while not _placed(tuple(replicas), (box,) * (boxes - whole)):
        boxes += 1
    return boxes


@cache
def _placed(replicas: tuple[tuple[int, int], ...], room: tuple[int, ...]) -> bool:
    if not replicas:
        return True
    (size, count), *others = replicas
    most = count - 1 if count > 1 else 1
    for stand in itertools.product(*(range(min(most, left // size) + 1) for left in room)):
        if sum(stand) == count:
            left_over = tuple(sorted(left - n * size for left, n in zip(room, stand, strict=True)))
            if _placed(tuple(others), left_over):
                return True
    return False


def work_done(work: np.ndarray, window: np.ndarray, room: list[np.ndarray]) -> np.ndarray:
    """The most of the waiting work that can be done in time, given room slot by slot (arrays that broadcast).

    The largest flow is the smallest cut: for every set of arrivals, the others and the room that the set can reach.
    """
    slots = range(len(work))
    least: np.ndarray = np.array(math.inf)
    for size in range(len(work) + 1):
        for held in itertools.combinations(slots, size):
            cut: np.ndarray = np.array(float(sum(work[s] for s in slots if s not in held)))
            for t in slots:
                if any(window[s, t] for s in held):
                    cut = cut + room[t]
            least = np.minimum(least, cut)
    return least
