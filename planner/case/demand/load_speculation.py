"""Speculative decoding in a demand file: methods of the menu, what drafts by them, and what workloads accept."""

from __future__ import annotations

from planner.case.case import Accepted, Drafter, ModelChoice, Workload
from planner.case.demand.notes import Notes
from planner.case.demand.schema import MenuSpec
from planner.case.demand.workload_schema import WorkloadSpec
from planner.case.drafts import NO_DRAFTS, drafter_key, drafter_of, known_acceptance, own_acceptance
from planner.catalog.drafts import METHODS, OTHER_MODEL
from planner.catalog.entries import Catalog, find, names_of
from planner.io.errors import did_you_mean, listed

ALL_METHODS = (NO_DRAFTS, *METHODS)


def methods_on_menu(menu: MenuSpec, catalog: Catalog, notes: Notes | None = None) -> tuple[str, ...] | None:
    """By the catalog's names, each once; None where nothing drafts. Notes are told of names that nobody knows."""
    found: dict[str, None] = {}
    for k, name in enumerate(menu.speculation or ()):
        method = name.strip().lower()
        if method.startswith(OTHER_MODEL):
            other = find(name.strip()[len(OTHER_MODEL) :].strip(), catalog.models)
            if other is None and notes is not None:
                notes.unknown(("menu", "speculation", k), "model", name[len(OTHER_MODEL) :], names_of(catalog.models))
            method = f"{OTHER_MODEL}{other}" if other is not None else ""
        elif method not in ALL_METHODS:
            if notes is not None:
                remedy = did_you_mean(method, ALL_METHODS) or f"Use {listed([*ALL_METHODS, 'draft:MODEL'])}"
                notes.complain(("menu", "speculation", k), f"there is no method '{name}'", remedy)
            method = ""
        found[method] = None
    methods = tuple(method for method in found if method)
    return methods if any(method != NO_DRAFTS for method in methods) else None


def drafts_of(
    w: WorkloadSpec, models: list[ModelChoice], menu: MenuSpec, catalog: Catalog, notes: Notes
) -> tuple[Accepted, ...] | None:
    """What a workload accepts by each method of the menu, as far as it says so or the catalog knows it."""
    methods, own = methods_on_menu(menu, catalog), w.speculation
    found = []
    for choice in models if methods else ():
        for method in methods or ():
            if own is not None and own.accepted is not None and own.method in (None, method) and method != NO_DRAFTS:
                chances, source = own_acceptance(own.accepted, own.tokens), "measured on its own requests"
            elif known := known_acceptance(choice.model, method, own.domain if own else None):
                chances, source = known
                where = f"workloads.{w.name}.speculation.{choice.model}.{method}"
                what = f"{1 + sum(chances[:3]):.2f} tokens in a step of {min(3, len(chances))} drafts"
                why = "prompts decide it: measure yours, or say of which domain they are"
                notes.assume(where, what, f"{source}; {why}")
            else:
                continue
            found.append(Accepted(model=choice.model, method=method, chances=chances, source=source))
    return tuple(found) or None


def drafters(
    methods: tuple[str, ...] | None, workloads: tuple[Workload, ...], catalog: Catalog
) -> dict[str, Drafter] | None:
    """What drafts for each model by each method; where nothing can, a rejection says why."""
    found = {}
    for model in dict.fromkeys(choice.model for w in workloads for choice in w.models):
        for method in methods or ():
            drafter = drafter_of(catalog.models, model, method) if method != NO_DRAFTS else ""
            if isinstance(drafter, Drafter):
                found[drafter_key(model, method)] = drafter
    return found or None
