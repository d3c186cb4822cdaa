"""Paths into a demand file: `workloads.support-chat.slo.ttft_p95`, `prices.h100.on_demand`.

A workload is addressed by its name. Keys with dots in them, such as aws/p5.48xlarge, are taken whole where the file has
them, and where a mapping of any names ends with a known key or a value: `prices.aws/p5.48xlarge.on_demand`; else quote
them.
"""

from __future__ import annotations

import re
from typing import Any

from pydantic import BaseModel

from planner.case.demand.schema import DemandFile
from planner.io.errors import Path, close_match, did_you_mean, input_error, shown

_PART = re.compile(r"'([^']*)'|\"([^\"]*)\"|([^.'\"]+)")


def split(text: str, option: str) -> list[str]:
    """The parts of a path; quotes keep dots together."""
    parts, at = [], 0
    while at < len(text):
        match = _PART.match(text, at)
        if match is None or not (match[1] or match[2] or match[3]):
            raise input_error(option, f"{shown(text)} is no path", "Write names with dots between: policy.min_replicas")
        parts.append(next(g for g in match.groups() if g is not None))
        at = match.end()
        if at < len(text) and (text[at] != "." or at + 1 == len(text)):
            raise input_error(option, f"{shown(text)} is no path", "Write names with dots between: policy.min_replicas")
        at += 1
    if not parts:
        raise input_error(option, "the path is empty", "Write path=value, such as policy.min_replicas=3")
    return parts


def resolved(text: str, data: Any, option: str) -> Path:
    """The path in the file's data; raises InputError with the keys that exist where it goes astray."""
    parts = split(text, option)
    path: Path = ()
    said: list[str] = []
    spec: Any = DemandFile
    here = data
    while parts:
        if isinstance(here, list):
            k, rest = _entry(here, parts, said, option)
            said.append(".".join(parts[: len(parts) - len(rest)]))
            path, here, spec, parts = (*path, k), here[k], _inside(spec), rest
            continue
        if here is not None and not isinstance(here, dict):
            raise input_error(
                option, f"{shown('.'.join(said), 80)} is {shown(here)}: there is nothing below it", "Shorten the path"
            )
        key, parts, spec = _key(here or {}, parts, said, spec, option)
        said.append(key)
        path, here = (*path, key), (here or {}).get(key)
    return path


def _entry(here: list[Any], parts: list[str], said: list[str], option: str) -> tuple[int, list[str]]:
    """A list's entry by its name, or by its place from 1."""
    names = [str(e["name"]) if isinstance(e, dict) and "name" in e else str(k + 1) for k, e in enumerate(here)]
    for length in range(len(parts), 0, -1):
        if ".".join(parts[:length]) in names:
            return names.index(".".join(parts[:length])), parts[length:]
    where = ".".join(said)
    raise input_error(option, f"{where} has no {shown(parts[0])}", did_you_mean(parts[0], names) or _listed(names))


def _key(here: dict[str, Any], parts: list[str], said: list[str], spec: Any, option: str) -> tuple[str, list[str], Any]:
    fields = {f.alias or name: f for name, f in spec.model_fields.items()} if _is_model(spec) else None
    for length in range(len(parts), 0, -1):
        joined = ".".join(parts[:length])
        if joined in here or (fields is not None and joined in fields):
            below = fields[joined].annotation if fields is not None and joined in fields else _inside(spec)
            return joined, parts[length:], _model_in(below) or below
    if fields is None:
        length = _length_of_name(parts, spec)
        return ".".join(parts[:length]), parts[length:], _inside(spec)
    known = list(dict.fromkeys([*here, *fields]))
    where = ".".join(said) or "the demand file"
    match, keys = close_match(parts[0], known), _listed(known)
    told = keys if match is None else f"did you mean {shown(match)}? {keys}"
    raise input_error(option, f"there is no key {shown(parts[0])} in {where}", told)


def _length_of_name(parts: list[str], spec: Any) -> int:
    """How many parts are one key of a mapping of any names: up to a key of what it holds, or all before a value."""
    inside, held = _inside(spec), (getattr(spec, "__args__", None) or (None,))[-1]
    if _is_model(inside):
        known = {f.alias or name for name, f in inside.model_fields.items()}
        mistyped = len(parts) > 1 and close_match(parts[-1], sorted(known)) is not None
        return next((k for k in range(1, len(parts)) if parts[k] in known), len(parts) - mistyped)
    is_mapping = getattr(spec, "__origin__", None) is dict
    return len(parts) if is_mapping and held is not Any and getattr(held, "__origin__", None) is not dict else 1


def _listed(names: list[str]) -> str:
    return "There are " + ", ".join(shown(n)[1:-1] for n in names[:20]) + ("..." if len(names) > 20 else "")


def _is_model(spec: Any) -> bool:
    return isinstance(spec, type) and issubclass(spec, BaseModel)


def _model_in(annotation: Any) -> Any:
    """The one model that an annotation is about, where there is one."""
    if _is_model(annotation):
        return annotation
    args = getattr(annotation, "__args__", ())
    if getattr(annotation, "__origin__", None) in (dict, tuple, list):
        return None
    models = [m for m in (_model_in(a) for a in args) if m is not None]
    return models[0] if len(models) == 1 else None


def _inside(annotation: Any) -> Any:
    """What the values of a mapping or a list are."""
    args = [a for a in getattr(annotation, "__args__", ()) if a not in (Ellipsis, str, type(None))]
    found = [m for m in (_model_in(a) for a in args) if m is not None]
    return found[0] if found else None
