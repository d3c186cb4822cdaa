"""Demand that differs from the forecast: whole days that are off, and a spike."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from planner.io.errors import input_error, shown
from planner.plan.account.account import PlanAccount
from planner.verification.arrivals import HOURS

SPIKE_H = 1
_ERROR = re.compile(r"([+-]?)(\d{1,3}(?:\.\d+)?)%")
_SPIKE = re.compile(r"(\d{1,2}(?:\.\d+)?)x?")
DAYS = 7


@dataclass(frozen=True)
class Differs:
    error_frac: float = 0.0
    """by which each day is off"""
    sign: int = 0
    """1: every day has more, -1: less, 0: one or the other by chance, as many of each as can be"""
    spike: float = 1.0
    """times the demand in the busiest hour of the week"""

    def __str__(self) -> str:
        signs = {1: "more on every day", -1: "less on every day", 0: "more or less from day to day"}
        error = f"{self.error_frac:.4g}".rstrip("0")
        parts = [f"{100 * self.error_frac:g}% {signs[self.sign]}"] if float(error) else []
        parts += [f"{self.spike:g} times as much in the busiest hour"] if self.spike != 1 else []
        return ", ".join(parts)

    def factors(self, view: PlanAccount, week: np.ndarray, seed: int) -> np.ndarray:
        """Times the forecast [hour of the week]."""
        signs = np.full(DAYS, self.sign)
        if not self.sign:
            rng = np.random.default_rng([seed, 7])
            more = DAYS // 2 + int(rng.integers(2))
            signs = rng.permutation(np.where(np.arange(DAYS) < more, 1, -1))
        factors = np.repeat(1.0 + signs * self.error_frac, HOURS // DAYS)
        if self.spike != 1:
            rates = sum((view.arriving_rps(s.w) for s in view.served), np.zeros(len(view.slots)))[week]
            busiest = int(np.argmax(rates))
            factors[busiest : busiest + SPIKE_H] *= self.spike
        return factors


def differs_from(error: str | None, spike: str | None) -> Differs | None:
    """What the options say; None where demand is as forecast. Raises InputError with the remedy."""
    if error is None and spike is None:
        return None
    sign, frac, times = 0, 0.0, 1.0
    if error is not None:
        found = _ERROR.fullmatch(error.strip())
        if found is None or not float(found[2]) < 100:
            message = f"expected a percentage below 100%, got {shown(error)}"
            raise input_error("--forecast-error", message, "Write 15%, +20% or -20%")
        sign, frac = {"+": 1, "-": -1, "": 0}[found[1]], float(found[2]) / 100
    if spike is not None:
        found = _SPIKE.fullmatch(spike.strip())
        if found is None or not 0.1 <= float(found[1]) <= 20:
            raise input_error("--spike", f"expected a factor from 0.1 to 20, got {shown(spike)}", "Write 2x")
        times = float(found[1])
    return Differs(frac, sign, times)
