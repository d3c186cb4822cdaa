"""In how many steps each answer comes where drafts are verified: drawn step by step, as engines accept them."""

from __future__ import annotations

import numpy as np

SURE = 6.0
"""standard deviations of the tokens that so many steps bring which the first draw stays below what is wanted"""


def drawn_passes(output: np.ndarray, chances: tuple[float, ...], rng: np.random.Generator) -> np.ndarray:
    """Passes of answers of so many tokens: the prompt's, which gives the first one, and the steps that give the others.

    `chances` are those that the first draft of a step is accepted, that the first two are, ... Steps are independent of
    each other.
    """
    output = np.asarray(output, dtype=np.int64)
    exactly = -np.diff([1.0, *chances, 0.0])  # that no draft is accepted, one, ...
    brought = np.arange(1, len(exactly) + 1)
    mean = float(exactly @ brought)
    sd = float(np.sqrt(max(0.0, float(exactly @ brought**2) - mean**2)))
    wanted = np.maximum(output - 1, 0)
    spread = SURE * sd / np.sqrt(mean)
    steps = ((np.sqrt(wanted + spread**2 / 4) - spread / 2) ** 2 / mean).astype(np.int64)
    left = wanted - rng.multinomial(steps, exactly) @ brought
    steps, left = np.where(left < 0, 0, steps), np.where(left < 0, wanted, left)  # next to never: one by one
    going = np.flatnonzero(left > 0)
    while len(going):
        left[going] -= rng.choice(brought, size=len(going), p=exactly)
        steps[going] += 1
        going = going[left[going] > 0]
    return np.where(output > 0, 1 + steps, output)
