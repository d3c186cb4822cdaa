"""A limit on power: what boxes draw while they are there, and GPUs besides while replicas use them.

A GPU in use counts at the most that it can draw, so that the limit holds whatever the load. Then it is linear in
instances and in GPUs in use, and a GPU in use has one more price.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

KEPT_FRAC = 5e-7
"""share of the limit by which plans may exceed it: solvers keep rows up to a millionth"""
SAME = 1e-12


@dataclass(frozen=True, eq=False)
class PowerLimit:
    """By offer: kW of the whole site."""

    box_kw: dict[str, float]
    """of an instance whose GPUs no replica uses"""
    gpu_kw: dict[str, float]
    """of a GPU in use, besides"""
    most_kw: float
    """at any time"""

    def no_more(self, a: str, box: int, b: str, other_box: int) -> bool:
        """Whether all that stands on offer b draws no more if it stands on offer a, by GPU."""
        mine, theirs = (self.box_kw[a] / box, self.gpu_kw[a]), (self.box_kw[b] / other_box, self.gpu_kw[b])
        return all(x <= y * (1 + SAME) for x, y in zip(mine, theirs, strict=True))

    def kw(self, g: str, boxes: np.ndarray, gpus: np.ndarray) -> np.ndarray:
        """Of so many boxes of an offer and GPUs in use in them [slot]"""
        return np.asarray(self.box_kw[g] * boxes + self.gpu_kw[g] * gpus)
