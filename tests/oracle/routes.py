"""Who serves which lengths, for given replicas of up to three deployments: a linear program, by corners of its dual.

Requests of bucket b take seconds[d, b] of a replica (inf: cannot be served there), or leave at prices[b]. What leaving
costs is the largest, over m >= 0, of

    sum_b rate[b] min(price[b], min_d seconds[d, b] m[d]) - sum_d room[d] m[d].

It is largest where as many of its pieces meet as there are deployments.
Which points these are depends neither on the rates nor on the rooms.
"""

from __future__ import annotations

import itertools
import math
from functools import cached_property

import numpy as np

FITS = 1e-9
"""of a load: what rounding may add to it"""


class Routes:
    """The routing of one set of deployments beside one outlet; prices None: no request may leave."""

    def __init__(self, seconds: np.ndarray, prices: np.ndarray | None) -> None:
        self.seconds, self.prices = seconds, prices

    def bills(self, rates: np.ndarray, rooms: np.ndarray) -> np.ndarray:
        """USD/s of what leaves where there is room for these loads [row, deployment]; inf: not all can be served."""
        if self.prices is not None:
            return np.maximum(self._value(rates, rooms), 0.0)
        if not np.isfinite(self.seconds[:, rates > 0]).any(axis=0).all():
            return np.full(len(rooms), math.inf)
        short = np.full(len(rooms), -math.inf)
        for m in self._directions():
            short = np.maximum(short, self._demand(rates, m) - rooms @ m)
        return np.where(short <= FITS * (1 + rooms.sum(axis=1)), 0.0, math.inf)

    def _value(self, rates: np.ndarray, rooms: np.ndarray) -> np.ndarray:
        corners = self._corners
        demand = np.array([self._demand(rates, m) for m in corners])
        value = np.full(len(rooms), -math.inf)
        for at in range(0, len(rooms), 20_000):
            part = slice(at, at + 20_000)
            value[part] = (demand[None, :] - rooms[part] @ corners.T).max(axis=1)
        return value

    def _demand(self, rates: np.ndarray, m: np.ndarray) -> float:
        can = np.isfinite(self.seconds)
        each = np.where(can, np.where(can, self.seconds, 0.0) * m[:, None], math.inf).min(axis=0)
        if self.prices is not None:
            each = np.minimum(each, self.prices)
        return float(rates[rates > 0] @ each[rates > 0])

    def _planes(self) -> list[tuple[np.ndarray, float]]:
        """Where a deployment has no price, a bucket may as well leave, or may as well be on another deployment."""
        several, buckets = self.seconds.shape
        unit, can = np.eye(several), np.isfinite(self.seconds)
        planes = [(unit[d], 0.0) for d in range(several)]
        for b in range(buckets):
            on = [d for d in range(several) if can[d, b]]
            if self.prices is not None:
                planes += [(unit[d], self.prices[b] / self.seconds[d, b]) for d in on]
            for d, e in itertools.combinations(on, 2):
                ratio = self.seconds[e, b] / self.seconds[d, b]
                planes.append((unit[d] - ratio * unit[e], 0.0))
        return planes

    @cached_property
    def _corners(self) -> np.ndarray:
        return _meeting(self._planes(), len(self.seconds))

    def _directions(self) -> np.ndarray:
        """Rays along which the dual may grow without end, of length one."""
        several = len(self.seconds)
        whole = (np.ones(several), 1.0)
        return _meeting(self._planes(), several - 1, (whole,))


def _meeting(
    planes: list[tuple[np.ndarray, float]], many: int, always: tuple[tuple[np.ndarray, float], ...] = ()
) -> np.ndarray:
    """The points >= 0 where so many planes, and those named always, meet in one point [point, dimension]."""
    chosen = [[*some, *always] for some in itertools.combinations(planes, many)]
    normals = np.array([[a for a, _ in some] for some in chosen])
    right = np.array([[c for _, c in some] for some in chosen])
    apart = np.abs(np.linalg.det(normals)) > 1e-9
    points = np.linalg.solve(normals[apart], right[apart][:, :, None])[:, :, 0]
    scale = 1e-9 * (1e-12 + np.abs(points).max(axis=1, initial=0.0))
    points = np.maximum(points[(points >= -scale[:, None]).all(axis=1)], 0.0)
    return np.unique(points, axis=0)
