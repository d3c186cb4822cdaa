"""What replicas in operation cost: instances from their order until they are given back, hour by hour of the week."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from planner.case.prices import HELD, price_of
from planner.catalog.terms import is_term
from planner.plan.account.account import PlanAccount
from planner.plan.plan import DeploymentPlan
from planner.verification.arrivals import HOURS
from planner.verification.operation import Setting


@dataclass(frozen=True, eq=False)
class Prices:
    """Instances of a deployment's offer [hour of the week]: committed to, bought by the plan, and others."""

    committed: np.ndarray
    """paid for in any case"""
    by_the_hour: np.ndarray
    """that the plan buys besides"""
    usd_per_h: np.ndarray
    """of these, on demand and spot as the plan mixes them"""
    more_usd_per_h: float
    """of any more"""
    hours_per_month: np.ndarray
    """that an hour of the week stands for"""

    def usd(self, instances: np.ndarray) -> np.ndarray:
        """Of each hour of the week, by so many instances in each of its ticks; nothing of what is paid in any case."""
        each = instances.reshape(HOURS, -1)
        paid = np.maximum(0.0, each - self.committed[:, None])
        planned = np.minimum(paid, self.by_the_hour[:, None])
        usd = planned * self.usd_per_h[:, None] + (paid - planned) * self.more_usd_per_h
        return np.asarray(usd.mean(axis=1))

    def a_month(self, by_hour: np.ndarray, weights: np.ndarray) -> float:
        """What amounts by the hour come to in a month, where some hours stand for others."""
        stands_for = self.hours_per_month * weights
        total = float(stands_for.sum())
        return float(by_hour @ stands_for) * float(self.hours_per_month.sum()) / total if total else 0.0


def prices_of(view: PlanAccount, deployed: DeploymentPlan, setting: Setting, week: np.ndarray) -> Prices:
    """Of a deployment that shares its offer, its part by the GPUs that it has in the plan."""
    plan, offer = view.plan, deployed.deployment.offer
    share = np.ones(len(view.slots))
    if not setting.alone:
        together = [
            (np.array(d.replicas_by_slot) * d.deployment.gpus_per_replica, d is deployed)
            for pool in plan.pools for d in pool.deployments if d.deployment.offer == offer
        ]  # fmt: skip
        whole = np.maximum(1, sum(gpus for gpus, _ in together))
        share = next(gpus for gpus, mine in together if mine) / whole
    committed, hourly, paid = (np.zeros(len(view.slots)) for _ in range(3))
    for line in plan.fleet:
        if line.offer == offer:
            counts = share * np.array(line.instances_by_slot)
            if is_term(line.purchase) or line.purchase == HELD:
                committed += counts
            else:
                hourly, paid = hourly + counts, paid + counts * line.usd_per_h
    sold = view.case.offers[offer].prices.reserved()
    prices = (price_of(view.case, offer, way) for way in ("on-demand", "spot", *sold))
    more = next((price.usd_per_h for price in prices if price is not None), 0.0)
    mixed = np.divide(paid, hourly, out=np.full(len(paid), more), where=hourly > 0)
    of_slot = np.array([s.hours_per_month for s in view.slots]) / np.bincount(week, minlength=len(view.slots)).clip(1)
    return Prices(committed[week], hourly[week], mixed[week], more, of_slot[week])


def planned_usd(prices: Prices, setting: Setting) -> np.ndarray:
    """Of each hour of the week, as the plan counts it."""
    there = prices.committed + prices.by_the_hour
    new = np.maximum(0.0, prices.by_the_hour - np.roll(prices.by_the_hour, 1))
    used = prices.usd(np.repeat(there, setting.ticks_per_h))
    return np.asarray(used + new * setting.machine_s / 3600 * prices.usd_per_h)
