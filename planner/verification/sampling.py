"""Which hours of the week are served, in what order, and what those that were say of all.

Up to a number of requests every hour is. Beyond it whole hours are drawn: hours are sorted by their requests and cut
into strata with as many requests each, and two hours are drawn from every stratum; an hour in which there are more
requests than in any other, or more load on each replica, is always among them. Each is served after a warm-up, so that
replicas, queues and caches are in the state that they would be in. A sampled hour stands for its stratum, in proportion
to requests. The interval of a share is that of a stratified ratio estimate whose clusters are hours, since requests of
one hour are late together, with some doubt about hours that nobody has seen.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from planner.verification.arrivals import HOURS

MOST_REQUESTS = 30_000_000
"""that a run serves unless it is told otherwise: two to ten minutes of one core, by the number of replicas"""
SAMPLED_HOURS, LEAST_MINUTES, MOST_MINUTES, LEAST_WARM_UP_MIN = 5, 2, 60, 2
"""of a sample that is served with a plan: minutes of each hour that count, and minutes before them"""
FEWEST_STRATA = 3
DRAWN = 2
"""hours of each stratum: the fewest that tell how much hours differ"""
WARM_UP_MIN = 30
"""minutes before a sampled hour that are served and not counted: several times what swings and most answers last"""
UNSEEN_FRAC = 0.95
"""share of good requests in an hour that nobody has seen: quickstart's week has 10 hours of 83 to 95% for TPOT. With it
93 to 100% of the intervals of 6 to 32 hours of that week hold its share, where 37 to 89% did without"""
Z_95 = 1.96
T_95 = (
    12.71, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26, 2.23, 2.20, 2.18, 2.16, 2.14, 2.13, 2.12, 2.11, 2.10, 2.09,
    2.09, 2.08, 2.07, 2.07, 2.06, 2.06, 2.06, 2.05, 2.05, 2.05, 2.04,
)  # fmt: skip
"""quantiles of Student's t for a 95% interval [degrees of freedom - 1]"""


@dataclass(frozen=True)
class Stretch:
    """Hours in a row that are served by replicas which have nothing to do at first."""

    hours: range
    """that count"""
    warm_up_min: int = 0
    """served before them"""
    goes_on: bool = False
    """whether requests keep coming afterwards until those that count are done"""
    minutes: int = 60
    """of its last hour"""


@dataclass(frozen=True, eq=False)
class Measured:
    """Hours that were served, and what each stands for [hour of the week]."""

    weights: np.ndarray
    """hours that it stands for, by their requests; 0 where it was not served"""
    strata: np.ndarray
    """hours with the same number stand for each other; -1 where an hour was not asked for"""
    sampled: bool

    @property
    def hours(self) -> np.ndarray:
        """Hours that each stands for, by their number: instances do not cost by requests [hour of the week]."""
        if not self.sampled:
            return self.weights
        hours = np.zeros(len(self.weights))
        for stratum in np.unique(self.strata[self.weights > 0]):
            here = self.strata == stratum
            served = here & (self.weights > 0)
            hours[served] = here.sum() / served.sum()
        return hours

    def share_and_error(self, good: np.ndarray, count: np.ndarray) -> tuple[float, float]:
        """The share of requests that are good, and half of its 95% interval; both are counts of the hours served."""
        total = float(self.weights @ count)
        share = float(self.weights @ good) / total
        if self.sampled:
            return share, self._error_of_sample(good, count) / total
        hours = int((count > 0).sum())
        off = self.weights * (good - share * count)
        return share, Z_95 * float((off**2).sum() * hours / max(1, hours - 1)) ** 0.5 / total

    def _error_of_sample(self, good: np.ndarray, count: np.ndarray) -> float:
        """Half of the 95% interval of the good requests of all hours.

        Hours that are rare and bad are seldom drawn, and then all that were look alike. So each stratum that was not
        served whole counts with one hour more, as bad as the worst that was served, and no better than UNSEEN_FRAC.
        """
        served = count > 0
        if served.sum() < 2:
            return float(self.weights @ count)  # one hour tells nothing of others
        worst = min(UNSEEN_FRAC, float((good[served] / count[served]).min(initial=1.0)))
        variance, freedom = 0.0, 0
        for stratum in np.unique(self.strata[served]):
            alike = self.strata == stratum
            here = alike & served
            hours, mean = int(here.sum()), float(count[here].mean())
            own_good, own_count = np.append(good[here], worst * mean), np.append(count[here], mean)
            off = (own_good - own_good.sum() / own_count.sum() * own_count) / mean
            missing = 1 - hours / float(alike.sum())
            of_stratum = float(self.weights[here] @ count[here])
            variance += missing * of_stratum**2 * float((off**2).sum()) / hours / (hours + 1)
            freedom += hours if missing else 0
        return t_95(freedom) * variance**0.5 if freedom else 0.0

    def spread(self, good: np.ndarray, count: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The same counts, where hours that were not served have those of a mean hour of their stratum."""
        if not self.sampled:
            return good, count
        good, count = good.copy(), count.copy()
        for stratum in np.unique(self.strata[self.weights > 0]):
            here = self.strata == stratum
            served = here & (self.weights > 0)
            for counts in (good, count):
                counts[here & ~served] = counts[served].mean()
        return good, count


EVERY_HOUR = Measured(np.ones(HOURS), np.zeros(HOURS, dtype=np.int64), sampled=False)


def t_95(freedom: int) -> float:
    return T_95[freedom - 1] if freedom <= len(T_95) else Z_95 + 2.4 / freedom


@dataclass(frozen=True, eq=False)
class Schedule:
    """The stretches of a pool, in the order in which they are served."""

    stretches: tuple[Stretch, ...]
    strata: np.ndarray
    """from the busiest to the quietest; -1 where an hour is not asked for [hour of the week]"""
    requests: np.ndarray
    """expected [hour of the week]"""
    sampled: bool

    @classmethod
    def whole(cls, requests: np.ndarray, days: int, at_once: bool) -> Schedule:
        """Every hour, day by day or all days at once."""
        hours, each = 24 * days, 24 * days if at_once else 24
        strata = np.where(np.arange(HOURS) < hours, 0, -1)
        return cls(tuple(Stretch(range(h, h + each)) for h in range(0, hours, each)), strata, requests, sampled=False)

    @classmethod
    def of(
        cls,
        requests: np.ndarray,
        stress: np.ndarray,
        days: int,
        most: float,
        at_once: bool,
        rng: np.random.Generator,
        warm_up_min: int = WARM_UP_MIN,
    ) -> Schedule:
        """Every hour where there are no more requests than that, else a sample of about as many.

        `stress` is the load of each replica [hour of the week].
        """
        asked = 24 * days
        if requests[:asked].sum() <= most:
            return cls.whole(requests, days, at_once)
        order = np.argsort(-requests[:asked], kind="stable")
        certain = [int(order[0]), int(np.argmax(stress[:asked]))]
        before = np.concatenate([[0.0], requests[: asked - 1]]) * warm_up_min / 60
        cost = requests[:asked] + before
        for number in range(asked // (2 * DRAWN), FEWEST_STRATA - 1, -1):
            strata = _strata(requests[order], number)
            drawn = _drawn(order, strata, certain, np.random.default_rng(rng.integers(1 << 31)))
            if sum(cost[hour] for hour in drawn) <= most or number == FEWEST_STRATA:
                break
        of_hour = np.full(HOURS, -1)
        of_hour[order] = strata
        stretches = (Stretch(range(h, h + 1), warm_up_min if h else 0, goes_on=True) for h in drawn)
        return cls(tuple(stretches), of_hour, requests, sampled=True)

    @classmethod
    def busiest(cls, requests: np.ndarray, stress: np.ndarray, days: int, most: float) -> Schedule:
        """Minutes of some of the busiest hours, on as many days as there is room for; `stress` ranks the hours."""
        hours = 24 * days
        order = np.lexsort((np.arange(hours), -requests[:hours], -np.round(stress[:hours], 6)))
        first_of_days = list({int(h) // 24: int(h) for h in order[::-1]}.values())[::-1]
        a_minute = max(1.0, float(requests[order[0]]) / 60)
        together = LEAST_MINUTES + LEAST_WARM_UP_MIN
        picked = first_of_days[: int(np.clip(most / (together * a_minute), 1, SAMPLED_HOURS))]
        minutes = int(np.clip(most / len(picked) / a_minute - LEAST_WARM_UP_MIN, LEAST_MINUTES, MOST_MINUTES))
        warm_up = LEAST_WARM_UP_MIN if minutes < MOST_MINUTES else WARM_UP_MIN
        stretches = tuple(Stretch(range(h, h + 1), warm_up if h else 0, minutes=minutes) for h in picked)
        return cls(stretches, np.where(np.arange(HOURS) < hours, 0, -1), requests, sampled=False)

    def measured(self, served: np.ndarray) -> Measured:
        """What the hours stand for that were served [hour of the week].

        Where fewer were than meant to be, strata are joined until each has enough of them.
        """
        strata, weights = self.strata.copy(), served.astype(float)
        if not self.sampled:
            return Measured(weights, strata, sampled=False)
        joined, last, enough = 0, -1, 0
        for stratum in range(int(strata.max()) + 1):
            here = self.strata == stratum
            strata[here] = joined
            enough += int((here & served).sum())
            if enough >= DRAWN:
                joined, last, enough = joined + 1, joined, 0
        if last >= 0:
            strata[strata > last] = last  # too few at the end
        for stratum in range(int(strata.max()) + 1):
            here = strata == stratum
            there = float(self.requests[here & served].sum())
            weights[here & served] = float(self.requests[here].sum()) / there if there else 1.0
        return Measured(weights, strata, sampled=True)


def _strata(requests: np.ndarray, number: int) -> np.ndarray:
    """Numbers of strata with as many requests each, at least two hours in every one; hours begin with the busiest."""
    middle = (np.cumsum(requests) - requests / 2) / max(1e-9, float(requests.sum()))
    strata = np.minimum((number * middle).astype(int), number - 1)
    given, sizes = 0, [0]
    stratum = np.zeros(len(requests), dtype=np.int64)
    for k in range(len(requests)):
        if k and strata[k] != strata[k - 1] and sizes[-1] >= DRAWN and len(requests) - k >= DRAWN:
            given += 1
            sizes.append(0)
        stratum[k] = given
        sizes[-1] += 1
    return stratum


def _drawn(order: np.ndarray, strata: np.ndarray, certain: list[int], rng: np.random.Generator) -> list[int]:
    """Hours: one of every stratum from the busiest on, then the second ones; those that must be come first."""
    picked = []
    for stratum in range(int(strata.max()) + 1):
        hours = order[strata == stratum].tolist()
        first = [h for h in dict.fromkeys(certain) if h in hours]
        others = rng.permutation([h for h in hours if h not in first]).tolist()
        picked.append([*first, *others][: max(DRAWN, len(first))])
    return [hours[k] for k in range(max(map(len, picked))) for hours in picked if k < len(hours)]


def shared_out(most: float, needs: list[float]) -> list[float]:
    """What each may have of a total, where those that need less than an even share leave the rest to the others."""
    given, left = [0.0] * len(needs), most
    for k, place in enumerate(sorted(range(len(needs)), key=lambda n: needs[n])):
        given[place] = min(needs[place], left / (len(needs) - k))
        left -= given[place]
    return given
