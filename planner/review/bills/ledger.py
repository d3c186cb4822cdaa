"""What each row of a bill is of, and the sums of a bill: every charge is put somewhere once."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from functools import lru_cache
from typing import Any, NamedTuple

from planner.catalog.entries import Offer
from planner.catalog.importing.focus import (
    DETAILS,
    METERS,
    NAMING,
    OTHER_SYSTEM,
    SERVICES,
    counted_by,
    described,
    instance_of,
    is_compute,
    is_on_top,
    is_spot,
    runs_linux,
)
from planner.catalog.importing.instances import gpus_in, has_gpus, provider_called
from planner.review.bills.cells import HOURS, TOKENS, ZERO, Amount, Row, unit_size
from planner.review.bills.records import BoughtAs, ChargeKind

NOT_ON_MENU = "not on the plan's menu"
NO_GPUS = "an instance without GPUs"
NO_SUCH_API = "no API of the plan"
NO_TYPE = "no column says which instance type"
NO_MACHINE = "part of a machine of unknown type"
NOT_OURS = "other"
"""in place of an instance or API, for what is no part of the plan"""
MATCHED_BY = (*NAMING, "SkuId", "SkuPriceId", "ResourceId", "RegionId", "PublisherName", *SERVICES)
MODEL_NAMES = ("x_ModelId", "ModelId", "x_Model", "Model", "ModelName")
TOKEN_NAMES = ("SkuMeter", "ChargeDescription", "SkuId", "SkuPriceId", "ResourceId")
API_PROVIDERS = {"gcp": "google"}
"""whose models go by another name than its instances"""
_DAY = re.compile(r"[-@](\d{8}|\d{4}-\d{2}-\d{2})$")
_KIND_OF_TOKEN = re.compile(
    r"(?i)[-_.:,/\s]+(cached|cache[-_ ]?(read|write|hit)s?|input|output|prompt|completion)(tokens?)?(?=[-_.:,/\s]|$).*"
)
"""at the end of a SKU such as gpt-4o-mini-cached-input"""
_GPU_NAME = re.compile(r"(?i)nvidia.*?\bgpus?\b")
_FAMILY = re.compile(r"\b([A-Z]\d+[A-Z]?)\b")
"""of Google Cloud's machines, as in "G2 Instance Core running in Netherlands\""""


class Target(NamedTuple):
    """What a charge is for."""

    kind: ChargeKind
    name: str
    why: str = ""

    @property
    def is_named(self) -> bool:
        """Whether the row says itself which instance or model it is of."""
        return self.kind != "other services" or self.why == NO_GPUS


class Matching:
    """Offers and APIs by the names that bills have for them."""

    def __init__(self, offers: Mapping[str, Offer], apis: Collection[str], skus: Mapping[str, str]) -> None:
        self.offers, self.skus = offers, skus
        self.apis = {key.lower(): key for key in apis}
        self.instances = {key.partition("@")[0] for key in offers}

    def target(self, row: Row, details: dict[str, Any]) -> Target:
        provider = provider_called(row["ProviderName"])
        instance, on_top = instance_of(row, provider, details), is_on_top(row, provider)
        resource = row.get("ResourceId", "")
        if on_top and self.skus.get(resource) in self.offers:
            resource = ""  # disks, addresses and fees go by the name of the instance that they are for
        for name in (resource, row.get("SkuId"), row.get("SkuPriceId"), instance):
            if name and name in self.skus:
                named = self.skus[name]
                if named == NOT_OURS:
                    return Target("other services", row.get("ServiceName") or "(no name)", NOT_OURS)
                return Target("instances" if named in self.offers else "apis", named)
        units = tuple(TOKENS.items())
        if any(unit_size(row.get(unit, ""), units) is not None for unit in ("PricingUnit", "ConsumedUnit")):
            return self._api(row, provider, details)
        if on_top:
            return Target("other services", row.get("ServiceName") or "(no name)")
        if instance:
            return self._instance(provider, instance, row, details)
        return _unnamed(row, provider)

    def instance_hours(self, row: Row, details: dict[str, Any], target: Target, hours: Decimal) -> Decimal:
        """Hours of whole instances: where a row counts GPUs, theirs divided by how many of them an instance has."""
        provider = provider_called(row["ProviderName"])
        counted = counted_by(row, provider)
        if counted == "instances":
            return hours
        if counted == "GPUs" and target.name in self.offers:
            return hours / self.offers[target.name].gpus
        known = gpus_in(provider, instance_of(row, provider, details))
        return hours / known if counted == "GPUs" and known else ZERO

    def _instance(self, provider: str, instance: str, row: Row, details: dict[str, Any]) -> Target:
        named = f"{provider}/{instance}"
        key = f"{named}@{row.get('RegionId', '')}"
        if key in self.offers:
            return Target("instances", key) if runs_linux(row, details) else Target("no offer", key, OTHER_SYSTEM)
        if details.get("GpuCount") or has_gpus(provider, instance):
            why = "the menu has it in other regions" if named in self.instances else NOT_ON_MENU
            return Target("no offer", key, why)
        return Target("other services", f"instances without GPUs ({provider})", NO_GPUS)

    def _api(self, row: Row, provider: str, details: dict[str, Any]) -> Target:
        sellers = [provider, API_PROVIDERS.get(provider, provider), provider_called(row.get("PublisherName", ""))]
        for model in _models(row, details):
            for seller in sellers:
                key = self.apis.get(f"{seller}/{model}".lower())
                if key is not None:
                    return Target("apis", key)
        first = next(_models(row, details), None)
        return Target("no offer", f"{provider}/{first}" if first else provider, NO_SUCH_API)


def _unnamed(row: Row, provider: str) -> Target:
    """What a row is of that names no instance type: a part of a machine, compute of some kind, or something else."""
    service = row.get("ServiceName") or "(no name)"
    counted, region = counted_by(row, provider), row.get("RegionId", "")
    if counted == "GPUs":
        match = _GPU_NAME.search(described(row))
        return Target("no offer", f"{provider}/{match[0] if match else service}@{region}", NO_MACHINE)
    if counted == "other parts":
        family = _FAMILY.search(described(row))
        if family is None or not has_gpus(provider, family[1].lower()):
            return Target("other services", service)
        return Target("no offer", f"{provider}/{family[1]} machines@{region}", NO_MACHINE)
    if is_compute(row) and row["ChargeCategory"] == "Usage" and row.get("CommitmentDiscountStatus") != "Unused":
        by_the_hour = any(unit_size(row.get(u, ""), tuple(HOURS.items())) for u in ("PricingUnit", "ConsumedUnit"))
        if by_the_hour and not any(row.get(name) for name in (*METERS, *DETAILS)):
            return Target("no offer", service, NO_TYPE)
    return Target("other services", service)


def _models(row: Row, details: dict[str, Any]) -> Iterator[str]:
    """Names that a model may have here."""
    named = (details.get(name) for name in MODEL_NAMES if details)
    for model in (*named, row.get("ResourceId"), row.get("SkuId"), row.get("SkuPriceId")):
        if isinstance(model, str) and model:
            yield from _spellings(model)


@lru_cache(maxsize=4096)
def _spellings(model: str) -> tuple[str, ...]:
    """A name with and without the kind of its tokens and the day of its version."""
    bare = _KIND_OF_TOKEN.sub("", model)
    return tuple(dict.fromkeys((model, _DAY.sub("", model), bare, _DAY.sub("", bare))))


def bought_as(row: Row) -> BoughtAs:
    if row.get("CommitmentDiscountId") or row.get("PricingCategory") == "Committed":
        return "reserved"
    return "spot" if is_spot(row, provider_called(row["ProviderName"])) else "on-demand"


def token_kind(row: Row, details: dict[str, Any]) -> str:
    """cached, input, output or other, by the first of its texts that says one."""
    for words in (details.get("x_TokenType"), *(row.get(name) for name in TOKEN_NAMES)):
        text = str(words or "").lower()
        if "cach" in text:
            return "cached"
        if "output" in text or "completion" in text:
            return "output"
        if "input" in text or "prompt" in text:
            return "input"
    return "other"


ELSEWHERE = Target("other accounts", "")
UNUSED = "(not used)"
"""whose the unused part of a commitment is"""
USED_BY_NOTHING = "a commitment that nothing in the bill used"
SMALLEST = Decimal("1e-10")
BY_SPEND = ("savingsplan", "spendbased", "flexible")
"""in the type of commitments to spend so much, or else in their identifier, where their category is not given"""


@dataclass
class Line:
    """Instances of one offer, bought in one way."""

    used: Decimal = ZERO
    unused: Decimal = ZERO
    hours: Decimal = ZERO


@dataclass
class ApiLine:
    paid: Decimal = ZERO
    tokens: defaultdict[str, Decimal] = field(default_factory=lambda: defaultdict(Decimal))


@dataclass
class Commitment:
    """A commitment: what it was used for, and what of it was not."""

    key: str
    name: str = ""
    type: str = ""
    category: str = ""
    used: defaultdict[Target, Decimal] = field(default_factory=lambda: defaultdict(Decimal))
    hours: defaultdict[Target, Decimal] = field(default_factory=lambda: defaultdict(Decimal))
    unused: Decimal = ZERO
    open: Amount = field(default_factory=Amount)
    """of what was not used, what no row says where it belongs"""
    elsewhere: bool = False
    """whether other accounts hold it"""
    bought: Amount = field(default_factory=Amount)
    bought_for: Target | None = None

    @property
    def by_spend(self) -> bool:
        """Whether dollars are committed, not instances: a savings plan."""
        if self.category:
            return self.category.strip().lower() == "spend"
        spelled = re.sub(r"[\s_-]", "", (self.type or self.key).lower())
        return any(word in spelled for word in BY_SPEND)


@dataclass
class Ledger:
    kinds: defaultdict[ChargeKind, Amount] = field(default_factory=lambda: defaultdict(Amount))
    lines: defaultdict[tuple[str, BoughtAs], Line] = field(default_factory=lambda: defaultdict(Line))
    apis: defaultdict[str, ApiLine] = field(default_factory=lambda: defaultdict(ApiLine))
    no_offer: defaultdict[Target, Amount] = field(default_factory=lambda: defaultdict(Amount))
    no_offer_hours: defaultdict[Target, Decimal] = field(default_factory=lambda: defaultdict(Decimal))
    no_offer_gpu_hours: defaultdict[Target, Decimal] = field(default_factory=lambda: defaultdict(Decimal))
    """of rows that count GPUs"""
    services: defaultdict[str, Amount] = field(default_factory=lambda: defaultdict(Amount))
    currencies: defaultdict[str, Amount] = field(default_factory=lambda: defaultdict(Amount))
    """in them, and in no sum; those that would not count anyway under a name that says why"""
    converted: defaultdict[str, Amount] = field(default_factory=lambda: defaultdict(Amount))
    """in them, and counted as USD"""
    commitments: dict[str, Commitment] = field(default_factory=dict)
    teams: defaultdict[str | None, dict[str, Decimal]] = field(
        default_factory=lambda: defaultdict(lambda: {"instances": ZERO, "apis": ZERO})
    )
    spot_days: defaultdict[tuple[str, str], list[Decimal]] = field(
        default_factory=lambda: defaultdict(lambda: [ZERO, ZERO])
    )
    """cost and hours by offer and day"""
    notes: list[str] = field(default_factory=list)

    def post(
        self, target: Target, way: BoughtAs, billed: Decimal, effective: Decimal, hours: Decimal = ZERO,
        team: str | None = None, unused: bool = False, rows: int = 1,
    ) -> None:  # fmt: skip
        """Put a charge where it belongs."""
        self.kinds[target.kind].add(billed, effective, rows)
        if target.kind == "instances":
            line = self.lines[target.name, way]
            line.hours += ZERO if unused else hours
            if unused:
                line.unused += effective
            else:
                line.used += effective
        elif target.kind == "apis":
            self.apis[target.name].paid += effective
        elif target.kind == "no offer":
            self.no_offer[target].add(billed, effective, rows)
            self.no_offer_hours[target] += hours
        elif target.kind == "other services":
            self.services[target.name].add(billed, effective, rows)
        if target.kind in ("instances", "apis"):
            self.teams[UNUSED if unused else team][target.kind] += effective

    def settle(self) -> None:
        """Put what commitments left unused where they were used, and purchases that nothing amortizes."""
        for key, c in sorted(self.commitments.items()):
            self._settle_unused(key, c)
            self._settle_bought(key, c)

    def _settle_unused(self, key: str, c: Commitment) -> None:
        """In proportion to what each use of it cost."""
        if not c.open.rows:
            return
        uses = [(target, used) for target, used in sorted(c.used.items()) if used > 0]
        if not uses:
            target = ELSEWHERE if c.elsewhere else Target("no offer", c.name or key, USED_BY_NOTHING)
            self.post(target, "reserved", c.open.billed, c.open.effective, unused=True, rows=c.open.rows)
            return
        total = sum((used for _, used in uses), ZERO)
        left = Amount(c.open.rows, c.open.billed, c.open.effective)
        for k, (target, used) in enumerate(uses):
            last = k == len(uses) - 1
            billed, effective = (
                rest if last else (amount * used / total).quantize(SMALLEST)
                for amount, rest in ((c.open.billed, left.billed), (c.open.effective, left.effective))
            )  # fmt: skip
            self.post(target, "reserved", billed, effective, unused=True, rows=left.rows if last else 0)
            left.add(-billed, -effective, 0)

    def _settle_bought(self, key: str, c: Commitment) -> None:
        """A purchase counts through the hours that amortize it; where there are none, its own effective cost does."""
        named = c.name or key
        amortized = sum(c.used.values(), ZERO) + c.unused
        if c.bought.rows and c.bought.effective and not amortized:
            target = c.bought_for or Target("no offer", named, USED_BY_NOTHING)
            self.post(target, "reserved", c.bought.billed, c.bought.effective, rows=c.bought.rows)
            return
        if c.bought.rows:
            self.kinds["commitments bought"].add(c.bought.billed, c.bought.effective, c.bought.rows)
        if c.bought.effective and amortized:
            self.notes.append(f"the purchase of {named} has an EffectiveCost in addition to the hours that amortize "
                              "it: the hours count, the purchase does not")  # fmt: skip
        hours = sum(c.hours.values(), ZERO)
        if hours and not amortized:
            self.notes.append(f"{named} covered {hours:,.0f} hours whose EffectiveCost is 0: their cost is not "
                              "included in what was paid")  # fmt: skip
