"""How many replicas a load needs: the one place where queueing risk is paid for.

The load R of a pool is counted in replicas kept busy (rate x seconds of a replica per request). What varies
around it, within the hour that a slot stands for:

* arrivals: with B requests in flight per replica and arrivals whose gaps have a squared coefficient of
  variation c2, the requests in flight of an infinite-server system have variance R B (1 + c2) / 2
  (peakedness), that is R (1 + c2) / (2 B) in replicas;
* the rate itself: days differ from the representative day and minutes from their hour, by a factor that is taken as
  log-normal, of mean 1 and coefficient of variation v. An objective counts requests, not minutes, and more of them
  arrive while the rate is high: of the rates that requests meet, the one at z standard deviations is

      1 + w = exp(z sigma + sigma^2 / 2),    sigma^2 = ln(1 + v^2)

  times the mean. (Of the rates by the clock it is sigma^2 less in the exponent, and z v is less still.)

Replicas cover the mean and both, z standard deviations of the one and w of the other, which add up as variances do;
z is taken from the percentile of the SLO. That keeps places free; a
tight TTFT objective may need replicas that are less busy on average: the larger of the two counts.

How busy they may be on average grows with their number n, if a router sends each request to the replica with the
fewest. With L1 the mean load up to which a lone replica keeps its TTFT, and s2 the share of that load that is prefill,

    L(n) = (1 - (1 - s L1) / n^gamma) / s

gamma falls to 0 as the room for waiting shrinks. Bursts come first: of n replicas all are busy with prompts where n
requests arrive within one prefill, so arrivals count as bursts of c2 / n; where that is above BURSTS, each of them

    u(c) = c (q Gamma(1 + 1/c))^c,    c = c2 / n

is the most time that replicas may spend on prefill, if a request may find another one ahead with probability q. Fitted
to simulated limits, of which CAUTION keeps both below (benchmarks/routing.py). n L(n) is neither concave nor convex, so
counts are tried one by one wherever it matters.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from statistics import NormalDist

import numpy as np

CAUTION = 0.95
"""share of a load limit behind a router that is planned with"""
BURSTS = 2.0
"""squared coefficient of variation of gaps from which on arrivals come in bursts"""
ROUNDING = 1e-9
"""replicas that a load may be off by"""
SAME = 1e-12
MOST_REPLICAS = 10**7
"""where the search for a count ends: nobody rents so many"""
_log_gamma = np.vectorize(math.lgamma, otypes=[float])


def z_of(percentile: float) -> float:
    """Standard deviations that a percentile of a normal distribution covers, at least none."""
    return max(0.0, NormalDist().inv_cdf(percentile))


def staffing_z(percentile: float) -> float:
    """z for staffing, at least that of the 90th percentile: a fleet that is full half the time queues without end."""
    return z_of(max(percentile, 0.90))


def swing_met(z: float, rate_cv: float | np.ndarray) -> np.ndarray:
    """How far above its mean the rate is that a request meets, at z standard deviations: w [-]."""
    variance = np.log1p(np.square(rate_cv))
    return np.asarray(np.expm1(z * np.sqrt(variance) + variance / 2))


@dataclass(frozen=True, slots=True)
class Routing:
    """How the load that replicas may carry grows with their number behind one router."""

    exponent: float
    """gamma; 0 where the router does not look at requests in flight [-]"""
    prompt_share: float
    """share of the load that is prefill, s2 (0 to 1]"""
    burst_room: float
    """probability with which the next request may arrive within a prefill, q (0 to 1]"""

    def most_load(self, alone: float, arrival_scv: float, replicas: np.ndarray) -> np.ndarray:
        """The mean load of each of n replicas up to which TTFT holds, L(n); `alone` is that of a lone one, L1."""
        n, root = np.maximum(np.asarray(replicas, dtype=float), 1.0), math.sqrt(self.prompt_share)
        if alone >= 1:
            return np.ones_like(n)
        routed = (1 - (1 - root * alone) / n**self.exponent) / root
        bursts = arrival_scv / n if self.exponent else np.full_like(n, arrival_scv)
        most: np.ndarray = np.minimum(1.0, CAUTION * np.minimum(routed, self.most_load_in_bursts(bursts)))
        return most

    def most_load_in_bursts(self, scv: np.ndarray) -> np.ndarray:
        """u(c) as a load; no limit where arrivals do not come in bursts."""
        if not np.any(scv > BURSTS):
            return np.full(np.shape(scv), np.inf)
        c = np.maximum(scv, BURSTS)
        log_u = np.log(c) + c * (math.log(self.burst_room) + _log_gamma(1 + 1 / c))
        return np.where(scv > BURSTS, np.exp(log_u) / self.prompt_share, np.inf)

    def figures(self, alone: float) -> tuple[float, float, float, float]:
        """(L1, gamma, s2, q), by which kinds of replica are compared."""
        return alone, self.exponent, self.prompt_share, self.burst_room

    def lone_load(self, load: float, replicas: int) -> float:
        """The mean load of a lone replica whose prompts wait as long as those of n at a mean load: most_load undone."""
        root = math.sqrt(self.prompt_share)
        return max(0.0, (1 - (1 - root * min(load / CAUTION, 1.0)) * math.pow(replicas, self.exponent)) / root)


def carries_no_less(a: np.ndarray, b: np.ndarray, arrival_scv: float) -> np.ndarray:
    """Whether L(n) of one kind of replica is at least that of another for every n; each is (L1, gamma, s2, q) [4, ...].

    Without bursts, the difference of the two is that of two powers of n, which has one extremum at most; beyond the n
    at which the first carries all it can, nothing needs to be compared. The limit in bursts is linear in c but for a
    logarithm, so its ends suffice.
    """
    (alone, gamma, share, room), (alone_b, gamma_b, share_b, room_b) = a, b
    most, most_b = 1 / np.sqrt(share), 1 / np.sqrt(share_b)
    loss, loss_b = most - alone, most_b - alone_b
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        full = np.where((most > 1 / CAUTION) & (gamma > 0), (loss / (most - 1 / CAUTION)) ** (1 / gamma), np.inf)
        extremum = (loss * gamma / (loss_b * gamma_b)) ** (1 / (gamma - gamma_b))

    def more(n: np.ndarray) -> np.ndarray:
        return np.asarray(most - loss / n**gamma - most_b + loss_b / n**gamma_b)

    end = np.minimum(full, MOST_REPLICAS)
    inside = np.where(np.isfinite(extremum) & (gamma > 0) & (gamma_b > 0), np.clip(extremum, 1.0, end), 1.0)
    no_less = (more(np.ones_like(end)) >= -SAME) & (more(end) >= -SAME) & (more(inside) >= -SAME)
    if arrival_scv > BURSTS:
        no_less &= (gamma > 0) | (gamma_b == 0)  # else bursts meet all replicas of one and each of the other
        for c in (BURSTS, arrival_scv):
            no_less &= c * np.log(room) - np.log(share) >= c * np.log(room_b) - np.log(share_b) - SAME
    return np.asarray((alone >= 1) | (no_less & (alone_b < 1)))


@dataclass(frozen=True, slots=True)
class Staffing:
    """The staffing rule of one pool on one deployment."""

    z: float
    """standard deviations covered [-]"""
    arrival_scv: float
    """squared coefficient of variation of the gaps between arrivals, c2 [-]"""
    rate_cv: float | np.ndarray
    """coefficient of variation of the rate around the slot's mean, v [-]; of several workloads together [slot]"""
    batch: float
    """requests in flight per replica, B [-]"""
    min_replicas: int
    """replicas below which the pool is never run, when it is run at all"""
    max_utilization: float = 1.0
    """mean load of a lone replica beyond which its own queue of prompts breaks the TTFT objective, L1"""
    routing: Routing | None = None
    """how much more each of several carries; None: no more, as for work that may wait"""
    load_factor: float | np.ndarray = 1.0
    """share of the load of this rule that replicas carry: below 1 where serving a plan showed that it is too much; of
    some hours [slot]"""

    def in_slots(self, slot: np.ndarray) -> Staffing:
        """The rule for loads of these slots, one after the other."""
        by_slot = {"rate_cv": self.rate_cv, "load_factor": self.load_factor}
        chosen = {name: x[slot] for name, x in by_slot.items() if isinstance(x, np.ndarray)}
        return replace(self, **chosen) if chosen else self

    @property
    def in_worst_slot(self) -> Staffing:
        """The rule with the least load factor of any slot."""
        return replace(self, load_factor=float(np.min(self.load_factor)))

    def margin(self, load: np.ndarray) -> np.ndarray:
        """Replicas on top of the mean load: sqrt(z^2 R (1 + c2) / (2 B) + (w R)^2)."""
        arrivals = self.z**2 * load * (1 + self.arrival_scv) / (2 * self.batch)
        margin: np.ndarray = np.sqrt(arrivals + (swing_met(self.z, self.rate_cv) * load) ** 2)
        return margin

    def most_load(self, replicas: np.ndarray) -> np.ndarray:
        """The mean load of each of so many replicas that TTFT allows, L(n)."""
        if self.routing is None:
            return np.full(np.shape(replicas), self.max_utilization)
        return self.routing.most_load(self.max_utilization, self.arrival_scv, replicas)

    def replicas(self, load: np.ndarray) -> np.ndarray:
        """Whole replicas for a load: max(minimum, ceil(R + margin), the first n with n L(n) >= R); none for no load.

        The margin and the limit on a replica's mean load answer different risks, a full fleet and a busy replica, so
        the larger counts, never their sum.
        """
        load = np.asarray(load, dtype=float) / self.load_factor
        full = np.ceil(load + self.margin(load) - ROUNDING).astype(int)
        return np.where(load > 0, np.maximum(self._not_too_busy(load, full), self.min_replicas), 0)

    def _not_too_busy(self, load: np.ndarray, fewest: np.ndarray) -> np.ndarray:
        """The first count from the fewest on with n L(n) >= R: n L(n) rises, so it is found by halving."""
        high: np.ndarray = np.maximum(fewest, 1)
        low = high - 1
        while (short := (high * self.most_load(high) < load - ROUNDING) & (high < MOST_REPLICAS)).any():
            low, high = np.where(short, high, low), np.where(short, np.minimum(2 * high, MOST_REPLICAS), high)
        while (apart := high - low > 1).any():
            middle = (low + high) // 2
            enough = middle * self.most_load(middle) >= load - ROUNDING
            low, high = np.where(apart & ~enough, middle, low), np.where(apart & enough, middle, high)
        return high

    def carried_load(self, replicas: np.ndarray) -> np.ndarray:
        """The largest load that so many replicas may carry: the inverse of R + margin(R), at most n L(n).

        R + sqrt(k R + w^2 R^2) = n with k = z^2 (1 + c2) / (2 B) is a quadratic in R. Its root in the form that loses
        no digits is n^2 / (n + k/2 + sqrt(k n + k^2/4 + (w n)^2)).
        """
        n = np.asarray(replicas, dtype=float)
        k = self.z**2 * (1 + self.arrival_scv) / (2 * self.batch)
        below = n + k / 2 + np.sqrt(k * n + k**2 / 4 + (swing_met(self.z, self.rate_cv) * n) ** 2)
        load = np.minimum(np.divide(n**2, below, out=np.zeros_like(n), where=below > 0), n * self.most_load(n))
        return np.where(n >= self.min_replicas, self.load_factor * load, 0.0)
