"""Replicas that span several boxes of an offer: what connects these, and for which models they are considered."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache

from planner.case.case import Case, Workload
from planner.catalog.entries import BoxLink, Catalog, Gpu, Model, Offer, Quantization, shipped_entries
from planner.catalog.variant import Variant
from planner.performance.memory import kv_room_bytes

MOST_BOXES = 4
"""of a replica, where the demand file does not say: the largest open models need two to four"""
BOX_SIZES = (1, 2, 4, 8)
"""GPUs of boxes that a replica may span: those that its slices of a layer are made for"""


@cache
def known_links() -> dict[str, BoxLink]:
    return {key: BoxLink.model_validate(entry, strict=False) for key, entry in shipped_entries("interconnects").items()}


def with_interconnect(offer: Offer) -> Offer:
    """The offer with what connects its boxes, where somebody published it and the offer does not say."""
    known = known_links().get(f"{offer.provider}/{offer.instance}")
    if offer.interconnect is not None or known is None:
        return offer
    return offer.model_copy(update={"interconnect": known})


def boxes_by_model(
    given: int | None,
    workloads: Iterable[Workload],
    offers: Mapping[str, Offer],
    catalog: Catalog,
    quantizations: Iterable[str],
    most_gpus: int,
) -> dict[str, int] | None:
    """Boxes that a replica of a model may span: as the file says, or a few of what no single box holds."""
    models = dict.fromkeys(choice.model for w in workloads for choice in w.models)
    if given is not None:
        return dict.fromkeys(models, given) if given > 1 else None
    sizes = _replica_sizes(offers, catalog.gpus, most_gpus)
    if not sizes:
        return None
    schemes = [catalog.quantizations[q] for q in quantizations]
    too_large = _without_a_box({m: catalog.models[m] for m in models}, sizes, schemes)
    return dict.fromkeys(too_large, MOST_BOXES) or None


def models_without_a_box(case: Case) -> list[str]:
    """Models of a case that no single box of it holds in any of its quantizations."""
    sizes = _replica_sizes(case.offers, case.gpus, case.limits.max_gpus_per_replica)
    return _without_a_box(case.models, sizes, list(case.quantizations.values()))


def _replica_sizes(offers: Mapping[str, Offer], gpus: Mapping[str, Gpu], most_gpus: int) -> list[tuple[Gpu, int]]:
    """The most GPUs that a replica in one box may have, by the kinds of boxes on a menu."""
    kinds = sorted({(offer.gpu, min(offer.gpus, most_gpus)) for offer in offers.values()})
    return [(gpus[gpu], n) for gpu, n in kinds if gpu in gpus]


def _without_a_box(
    models: Mapping[str, Model], sizes: Iterable[tuple[Gpu, int]], schemes: Sequence[Quantization]
) -> list[str]:
    return [name for name, model in models.items() if not any(fits_one_box(model, g, n, schemes) for g, n in sizes)]


def with_boxes(case: Case, models: Iterable[str], most: int) -> Case:
    """The case where replicas of these models may span so many boxes."""
    allowed = {**(case.limits.max_boxes_per_replica or {}), **dict.fromkeys(models, most)}
    limits = case.limits.model_copy(update={"max_boxes_per_replica": allowed})
    offers = {key: with_interconnect(offer) for key, offer in case.offers.items()}
    return case.model_copy(update={"limits": limits, "offers": offers})


def fits_one_box(model: Model, gpu: Gpu, gpus: int, schemes: Iterable[Quantization]) -> bool:
    """Whether so many GPUs hold its weights in some quantization that they can compute in."""
    able = (scheme for scheme in schemes if not scheme.lacked_by(gpu))
    return any(kv_room_bytes(model, gpu, gpus, scheme) > 0 for scheme in able)


def most_boxes(case: Case, model: str) -> int:
    return (case.limits.max_boxes_per_replica or {}).get(model, 1)


def joins_boxes(offer: Offer) -> bool:
    """Whether replicas may span several of its boxes at all."""
    return offer.interconnect is not None and offer.interconnect.is_fast and offer.gpus in BOX_SIZES


def reaches(offer: Offer, boxes: int) -> bool:
    """Whether so many of its boxes are in one domain of what connects them."""
    link = offer.interconnect
    return link is not None and (link.domain_gpus is None or boxes * offer.gpus <= link.domain_gpus)


def offers_for(offers: Mapping[str, Offer], variant: Variant) -> dict[str, Offer]:
    """Those of some offers that a replica over several boxes, or in one, may stand on."""
    if variant.boxes == 1:
        return {key: o for key, o in offers.items() if o.gpu == variant.gpu and variant.gpus_per_replica <= o.gpus}
    return dict(_that_join(offers, variant))


def _that_join(offers: Mapping[str, Offer], variant: Variant) -> Iterator[tuple[str, Offer]]:
    for key, offer in offers.items():
        same = offer.gpu == variant.gpu and offer.gpus == variant.gpus_of_a_box
        if same and joins_boxes(offer) and reaches(offer, variant.boxes):
            yield key, offer


def link_gb_per_s(case: Case, variant: Variant) -> float | None:
    """Per GPU, between boxes of a replica: the slowest on the menu for such boxes. None where it stands in one box.

    What a link takes is little beside a step, and one replica then stands for all of its offers.
    """
    if variant.boxes == 1:
        return None
    links = [o.interconnect for o in offers_for(case.offers, variant).values()]
    return min((link.gb_per_s for link in links if link is not None), default=None)
