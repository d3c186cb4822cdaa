"""What a plan needs to have and to run: providers, regions and APIs that it buys of, and kinds of GPU."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from planner.case.vendors import VENDOR_NAMES, vendors_of_api, vendors_of_offer
from planner.plan.plan import Plan

Kind = Literal["provider", "region", "gpu", "deployment", "api"]


@dataclass(frozen=True)
class Part:
    """One of the things of a kind that a plan uses."""

    kind: Kind
    name: str
    usd_per_month: float
    """paid to it, or for it"""
    is_the_only_one: bool
    """of its kind; an API is one more thing wherever GPUs are rented"""

    @property
    def what(self) -> str:
        """As people call it."""
        return f"GPU {self.name}" if self.kind == "gpu" else f"{VENDOR_NAMES.get(self.kind, self.kind)} {self.name}"


def parts_of(plan: Plan) -> Iterator[Part]:
    """Every one of them; a region that is all there is of its provider is that provider."""
    paid: dict[tuple[Kind, str], float] = {}
    for line in plan.fleet:
        for kind, name in (*vendors_of_offer(plan.case.offers[line.offer]), ("gpu", line.gpu)):
            paid[kind, name] = paid.get((kind, name), 0.0) + line.cost_usd_per_month  # type: ignore[index, arg-type]
    for w in plan.workloads:
        for vendor in vendors_of_api(plan.case.apis[w.api]) if w.api and w.api_share_frac else ():
            paid[vendor] = paid.get(vendor, 0.0) + w.api_cost_usd_per_month  # type: ignore[index, arg-type]
    for (kind, name), usd in sorted(paid.items()):
        others = [n for k, n in paid if k == kind and n != name]
        if kind == "region" and not [n for n in others if n.split()[0] == name.split()[0]]:
            continue
        alone = not others and (kind != "api" or not plan.fleet)
        yield Part(kind, name, usd, alone)
