"""Profile files: read, their names resolved in the catalog, every figure held against the datasheet."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from planner.catalog.entries import Catalog, names_of
from planner.catalog.names import find_gpu, find_model, unknown_model
from planner.catalog.profile import Profile, ProfileFile
from planner.io.errors import Diagnostic, InputError, did_you_mean, shown
from planner.io.strict_yaml import Document, parse_yaml, read_yaml
from planner.io.validation import validate
from planner.performance.calibration.datasheet_limits import (
    beyond_limits,
    in_other_units,
    rate_beyond_limits,
    replica_of,
    too_large,
)
from planner.performance.calibration.make_profiles import CHECK_DEPLOYMENT, CHECK_UNITS
from planner.performance.machine_by_name import cannot_share


def read_profiles(path: Path | str, catalog: Catalog) -> tuple[Profile, ...]:
    """The profiles of a YAML file; raises InputError with everything that is wrong with it."""
    return _checked(read_yaml(path), catalog)


def profiles_from_text(text: str, catalog: Catalog, file: str = "<text>") -> tuple[Profile, ...]:
    """Read a profile from YAML text."""
    return _checked(parse_yaml(text, file), catalog)


def _checked(document: Document, catalog: Catalog) -> tuple[Profile, ...]:
    written = validate(ProfileFile, document).profiles
    diagnostics: list[Diagnostic] = []
    resolved: list[Profile] = []
    for k, profile in enumerate(written):
        found, wrong = _resolved(profile, k, document, catalog)
        diagnostics += wrong
        if not wrong:
            if any(found.variant == other.variant for other in resolved):
                message = f"there are two profiles of {found.name}"
                diagnostics.append(document.diagnostic(("profiles", k), message, "Put all points into one of them"))
            diagnostics += _implausible(found, k, document, catalog)
        resolved.append(found)
    if diagnostics:
        raise InputError(diagnostics)
    return tuple(resolved)


def _resolved(profile: Profile, k: int, document: Document, catalog: Catalog) -> tuple[Profile, list[Diagnostic]]:
    kinds: dict[str, tuple[str, Mapping[str, Any]]] = {
        "model": ("model", catalog.models),
        "quantization": ("quantization", catalog.quantizations),
        "gpu": ("GPU", catalog.gpus),
    }
    keys: dict[str, str] = {}
    diagnostics = []
    for name, (what, entries) in kinds.items():
        value = getattr(profile, name)
        key = (find_gpu if name == "gpu" else find_model)(value, entries)
        if key is None:
            message = f"there is no {what} {shown(value)} in the catalog"
            remedy = unknown_model(value, entries) if name == "model" else did_you_mean(value, names_of(entries))
            diagnostics.append(document.diagnostic(("profiles", k, name), message, remedy))
        else:
            keys[name] = key
    return profile.model_copy(update=keys), diagnostics


def _implausible(profile: Profile, k: int, document: Document, catalog: Catalog) -> list[Diagnostic]:
    replica = replica_of(profile.variant, catalog)
    cannot = cannot_share(profile.variant, replica.model)
    if cannot:
        where = ("profiles", k, "parallelism") if profile.parallelism else ("profiles", k)
        return [document.diagnostic(where, cannot, "Check model, gpus_per_replica and parallelism")]
    reason = too_large(replica)
    if reason:
        return [document.diagnostic(("profiles", k), reason, "Check gpu, gpus_per_replica and quantization")]
    found = []
    for i, point in enumerate(profile.points):
        for name, arithmetic in beyond_limits(replica, point):
            found.append(document.diagnostic(("profiles", k, "points", i, name), arithmetic, CHECK_DEPLOYMENT))
        for name, arithmetic in in_other_units(replica, point):
            found.append(document.diagnostic(("profiles", k, "points", i, name), arithmetic, CHECK_UNITS))
    for i, rate in enumerate(profile.max_rates):
        for name, arithmetic in rate_beyond_limits(replica, rate):
            found.append(document.diagnostic(("profiles", k, "max_rates", i, name), arithmetic, CHECK_DEPLOYMENT))
    return found
