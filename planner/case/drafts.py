"""Speculative decoding as a case has it: what drafts for each model, and how much each workload accepts of it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from planner.case.case import Accepted, Case, Drafter, Workload
from planner.catalog.drafts import EAGLE3, METHODS, MTP, NGRAM, OTHER_MODEL, Domain, known_draft
from planner.catalog.entries import Model, shipped_catalog
from planner.catalog.variant import Variant
from planner.performance.speculation import MOST_DRAFTS, Speculation, acceptance, eagle_head, geometric, mtp_module

NO_DRAFTS = "none"
"""on a menu: steps of one token"""
ENGINES = ("vllm", "sglang", "tensorrt-llm")
"""that draft, by how their names begin"""
NO_ADAPTERS, NO_RANKS = "drafts of adapters were never measured", "ranks would wait for each other's drafts"
NO_ENGINE = "it drafts nothing"
SAME_WORDS = 0.01
"""share by which vocabularies may differ in length and still have the same words: some are padded"""


def drafter_key(model: str, method: str) -> str:
    return f"{model} {method}"


def drafter_of(models: dict[str, Model], name: str, method: str) -> Drafter | str:
    """What drafts for a model; else why nothing does."""
    model, known = models[name], known_draft(name, method)
    if method == NGRAM:
        return Drafter(source="drafts are looked up in the prompt")
    if method == MTP:
        if known is None:
            return "no layers for MTP are known of its weights"
        return Drafter(shape=mtp_module(model), shares_head=True, as_quantized=True, source=known.source)
    if method == EAGLE3:
        shaped = known is not None and known.head is not None
        return Drafter(
            shape=eagle_head(model, known.head if known else None),
            checkpoint=known.checkpoint if known else None,
            source=known.source if known and shaped else "a head as wide as its model: its shape is not known",
        )
    other = models[method.removeprefix(OTHER_MODEL)]
    if abs(other.vocab - model.vocab) > SAME_WORDS * model.vocab:
        return f"{other.vocab:,} words of the one and {model.vocab:,} of the other are not the same"
    if other.parameters_b >= model.parameters_b / 2:
        return "a model that drafts for another must be much smaller"
    return Drafter(shape=other, checkpoint=other.checkpoint, source=other.source)


def own_acceptance(accepted: float, tokens: int) -> tuple[float, ...]:
    """Of what a user measured with so many drafts a step: each is as likely as the one before to be accepted."""
    return geometric(accepted, min(tokens, MOST_DRAFTS))


def known_acceptance(model: str, method: str, domain: Domain | None) -> tuple[tuple[float, ...], str] | None:
    """The chances for a kind of prompts, and their source; without a kind, those of the kind that accepts least."""
    known = known_draft(model, method)
    curves = {of: acceptance(lengths) for of, lengths in (known.accepted if known else {}).items()}
    if domain is not None:
        curves = {of: chances for of, chances in curves.items() if of == domain}
    if known is None or not curves:
        return None
    of = min(curves, key=lambda of: sum(curves[of]))
    return curves[of][:MOST_DRAFTS], f"{of} prompts: {known.source}, {known.date}"


def methods_of(case: Case) -> tuple[str, ...]:
    """On the menu, besides none."""
    return tuple(method for method in case.limits.speculation or () if method != NO_DRAFTS)


def chances_of(members: Iterable[Workload], model: str, method: str) -> tuple[float, ...]:
    """What all of them accept at least, place by place; empty where that of one is not known."""
    found: list[tuple[float, ...]] = []
    for w in members:
        own = next((a.chances for a in w.drafts or () if (a.model, a.method) == (model, method)), ())
        found.append(own)
    return tuple(min(place) for place in zip(*found, strict=False))


def methods_to_try(case: Case) -> list[str]:
    """Where the menu says nothing: methods by which something drafts for a model, with a published acceptance."""
    if case.limits.speculation is not None or not case.engine_name.startswith(ENGINES):
        return []
    known = ((method, known_draft(model, method)) for method in METHODS for model in case.models)
    return list(dict.fromkeys(method for method, draft in known if draft is not None and draft.accepted))


def with_drafts(case: Case, method: str) -> Case:
    """A case without drafts in which a method is on the menu too, at the lowest acceptance that is published."""

    def accepting(w: Workload) -> Workload:
        known = {c.model: known_acceptance(c.model, method, None) for c in w.models}
        found = [
            Accepted(model=model, method=method, chances=curve[0], source=curve[1])
            for model, curve in known.items()
            if curve is not None
        ]
        return w.model_copy(update={"drafts": tuple(found) or None})

    made = {model: drafter_of(case.models, model, method) for model in case.models}
    drafters = {drafter_key(model, method): d for model, d in made.items() if isinstance(d, Drafter)}
    limits = case.limits.model_copy(update={"speculation": (NO_DRAFTS, method)})
    workloads = tuple(map(accepting, case.workloads))
    return case.model_copy(update={"limits": limits, "drafters": drafters or None, "workloads": workloads})


def speculation_of(case: Case, variant: Variant, members: Iterable[Workload]) -> Speculation | None:
    """How replicas of a variant draft for some workloads; None where they do not."""
    drafts = variant.drafts
    if drafts is None:
        return None
    method, tokens = drafts
    drafter = (case.drafters or {})[drafter_key(variant.model, method)]
    chances = chances_of(members, variant.model, method)[:tokens]
    return Speculation(method, chances, drafter.shape, drafter.shares_head, drafter.as_quantized)


def against_drafts(case: Case, variant: Variant, method: str, members: Iterable[Workload]) -> Iterator[tuple[str, str]]:
    """Why replicas of a variant cannot draft so for some workloads, and what to do about it."""
    members = tuple(members)
    if not case.engine_name.startswith(ENGINES):
        yield NO_ENGINE, case.engine_name
    if len(members) > 1 and any(w.adapter_gb is not None for w in members):
        yield NO_ADAPTERS, "no adapters"
    if variant.parallelism == "data":
        yield NO_RANKS, "tensor or expert parallelism"
    if drafter_key(variant.model, method) not in (case.drafters or {}):
        yield _nothing_drafts(case, variant.model, method), method
    elif not chances_of(members, variant.model, method):
        name = next(w.name for w in members if not chances_of([w], variant.model, method))
        yield (
            f"nobody measured how many {method} drafts of {variant.model} are accepted on such prompts",
            f"measure 1 + accepted / drafts (vllm:spec_decode_*), and write workloads.{name}.speculation.accepted",
        )


def _nothing_drafts(case: Case, model: str, method: str) -> str:
    models = shipped_catalog().models | case.models
    other = method.removeprefix(OTHER_MODEL)
    why = drafter_of(models, model, method) if other in models or not method.startswith(OTHER_MODEL) else ""
    return why if isinstance(why, str) and why else f"{method} cannot draft for {model}"
