"""Which GPUs an instance type has, and what catalogs of others call providers and GPUs."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Annotated

from pydantic import BeforeValidator

from planner.catalog.entries import Catalog, Sourced, shipped_catalog, shipped_entries
from planner.catalog.importing.quotes import FRACTION, OTHER_MEMORY, UNKNOWN_GPU, UNKNOWN_INSTANCE, Quote
from planner.catalog.names import find_gpu

MEMORY_TOLERANCE_FRAC = 0.12
"""what drivers report of a GPU's memory is up to a tenth below what its vendor calls it"""
MOST_GPUS = 1024
PROVIDERS = {
    "lambdalabs": "lambda",
    "datacrunch": "verda",
    "amazon": "aws",
    "amazon web services": "aws",
    "amazon web services emea sarl": "aws",
    "amazon web services, inc.": "aws",
    "microsoft": "azure",
    "microsoft azure": "azure",
    "google": "gcp",
    "google cloud": "gcp",
    "google cloud platform": "gcp",
    "oracle": "oci",
    "oracle cloud": "oci",
}
_WITH_GPUS = {
    "aws": re.compile(r"(p|gr?)\d"),
    "azure": re.compile(r"Standard_N[CDGV]"),
    "gcp": re.compile(r"[ag]\d"),
}
_SIZE = r"(?:\d*x?large|metal(?:-\d+xl)?|nano|micro|small|medium)"
_TYPE_IN_WORDS = {
    "aws": re.compile(rf"(?<![\w.-])[a-z][a-z0-9-]*\d[a-z0-9-]*\.{_SIZE}(?![\w-]|\.\w)"),
    "gcp": re.compile(r"(?<![\w-])[a-z]\d[a-z]?-[a-z]+-\d+[a-z]*(?![\w-])"),
}
"""a type of instance, not one of a database or a notebook such as db.r5.large or ml.g5.xlarge"""


def _counted(text: object) -> object:
    count, _, gpu = str(text).partition(" x ")
    return int(count), gpu


class InstanceTypes(Sourced):
    """Instance types of a provider."""

    types: dict[str, Annotated[tuple[int, str], BeforeValidator(_counted)]] = {}
    """Written as "8 x h100"."""
    names: dict[str, str] = {}
    """What price files call GPUs of this provider."""
    accelerator_names: dict[str, str] = {}
    """Types whose accelerators have a price of their own, under this name."""


@cache
def instance_types() -> dict[str, InstanceTypes]:
    return {name: InstanceTypes.model_validate(entry) for name, entry in shipped_entries("instances").items()}


def has_gpus(provider: str, instance: str) -> bool:
    """Whether the name is that of an instance with GPUs, whichever they are."""
    return provider not in _WITH_GPUS or bool(_WITH_GPUS[provider].match(instance))


@lru_cache(maxsize=4096)
def instance_in(provider: str, words: str) -> str:
    """The instance type that a description names; empty where it names none."""
    if provider in _TYPE_IN_WORDS:
        match = _TYPE_IN_WORDS[provider].search(words)
        return match[0] if match else ""
    if provider == "azure":
        spelled = _spelled(words)
        named = [instance for of, instance in _known_types() if of == provider and _spelled(instance) in spelled]
        return max(named, key=len, default="")
    return ""


def _spelled(words: str) -> str:
    """As one word: Azure's meters say "ND96isr H100 v5" of Standard_ND96isr_H100_v5."""
    return re.sub(r"[^a-z0-9]", "", words.lower()).removeprefix("standard")


def gpus_in(provider: str, instance: str) -> int | None:
    """How many GPUs an instance type is known to have."""
    known = _known_types().get((provider, instance))
    return known[0] if known is not None else None


@lru_cache(maxsize=1024)
def provider_called(name: str) -> str:
    """The catalog's name of a provider."""
    return PROVIDERS.get(name.strip().lower(), name.strip().lower())


@dataclass(frozen=True)
class NotKnown:
    """Why the GPUs of an instance are not known, and what to call it."""

    why: str
    name: str


def gpus_of(quote: Quote, catalog: Catalog | None = None) -> tuple[str, int] | NotKnown:
    """GPU and number of them in the instance of a quote, or why they are not known.

    A type that is known is taken as known: files call an H100 NVL an H100, and count 12 GPUs where there are 8.
    """
    catalog = catalog or shipped_catalog()
    known = _known_types().get((quote.provider, quote.instance))
    if known is not None:
        gpus, gpu = known
        return (gpu, gpus) if gpu in catalog.gpus else NotKnown(UNKNOWN_GPU, gpu)
    if not quote.gpu or quote.gpus is None:
        return NotKnown(UNKNOWN_INSTANCE, f"{quote.provider}/{quote.instance}")
    named = _gpu_called(quote.gpu, quote.provider, quote.memory_gib, catalog.gpus)
    if named is None:
        return NotKnown(UNKNOWN_GPU, quote.gpu)
    if quote.memory_gib and abs(quote.memory_gib / catalog.gpus[named].vram_gb - 1) > MEMORY_TOLERANCE_FRAC:
        return NotKnown(OTHER_MEMORY, f"{quote.gpu} of {quote.memory_gib:g} GiB ({quote.provider}/{quote.instance})")
    if not (1 <= quote.gpus <= MOST_GPUS and quote.gpus.is_integer()):
        return NotKnown(FRACTION, f"{quote.provider}/{quote.instance}")
    return named, int(quote.gpus)


@cache
def _known_types() -> dict[tuple[str, str], tuple[int, str]]:
    offers = shipped_catalog().offers.values()
    of_offers = {(offer.provider, offer.instance): (offer.gpus, offer.gpu) for offer in offers}
    return of_offers | {
        (provider, instance): counted
        for provider, known in instance_types().items()
        for instance, counted in known.types.items()
    }


def _gpu_called(name: str, provider: str, memory_gib: float | None, gpus: Mapping[str, object]) -> str | None:
    """A GPU by a provider's own name for it, by the catalog's, or by either without its memory."""
    for known in (instance_types().get(provider), instance_types()["any"]):
        if known is not None and name in known.names:
            return known.names[name] if known.names[name] in gpus else None
    if name.lower() == "a100":
        return "a100-80gb" if memory_gib and memory_gib > 60 else "a100-40gb"
    spelled = re.sub(r"(?i)(\d+)g(?=-|$)", r"\1GB", name)
    short = re.sub(r"(?i)-\d+gb", "", spelled)
    return (
        find_gpu(name, gpus) or find_gpu(spelled, gpus) or (None if "a100" in short.lower() else find_gpu(short, gpus))
    )
