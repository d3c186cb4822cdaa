"""The reference of public names, made from the names themselves: docs/reference/api.md."""

from __future__ import annotations

import inspect
import re

import planner

HEAD = """\
# Public names

Made from the package by `tests/refresh.py`: what `import planner` offers, with signatures and what each says of itself.
These names stay; everything else may move ([formats](formats.md)). How they are used: [python](python.md).
"""


def page() -> str:
    functions = [name for name in planner.__all__ if inspect.isfunction(planner.public(name))]
    types = [name for name in planner.__all__ if name not in functions]
    parts = [HEAD, "## Functions\n", *map(_entry, functions), "## Results, inputs and errors\n", *map(_entry, types)]
    return "\n".join(parts)


def _entry(name: str) -> str:
    thing = planner.public(name)
    said = inspect.getdoc(thing) or ""
    signature = f"```python\nplanner.{name}{_signature(thing)}\n```\n\n" if inspect.isfunction(thing) else ""
    return f"### {name}\n\n{signature}{_as_markdown(said)}\n"


def _signature(function: object) -> str:
    """As written, one parameter a line; defaults that are functions are left out."""
    lines, starred = [], False
    signature = inspect.signature(function)  # type: ignore[arg-type]
    for p in signature.parameters.values():
        if p.kind is inspect.Parameter.KEYWORD_ONLY and not starred:
            starred = True
            lines.append("    *,")
        default = (
            "" if p.default is inspect.Parameter.empty else " = ..." if callable(p.default) else f" = {p.default!r}"
        )
        lines.append(f"    {p.name}: {p.annotation}{default},")
    inside = "\n" + "\n".join(lines) + "\n" if lines else ""
    return f"({inside}) -> {signature.return_annotation}"


def _as_markdown(text: str) -> str:
    """Docstrings are prose; what would be markup is not meant as such."""
    return re.sub(r"[<>*]", lambda m: "\\" + m[0], text)
