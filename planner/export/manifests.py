"""YAML in which whatever users wrote is a quoted string: plain ASCII, read alike by YAML 1.1 and 1.2."""

from __future__ import annotations

import re
from typing import Any

import yaml

WORD = re.compile(r"[A-Za-z][A-Za-z0-9./_-]+")
"""strings that need no quotes, unless YAML has a meaning for them"""
MEANINGS = {"true", "false", "null", "none", "yes", "no", "on", "off"}
"""words that are no strings to YAML 1.1 or 1.2"""
WIDTH = 10_000
"""long strings stay on one line"""


class _Dumper(yaml.SafeDumper):
    """Two spaces before the items of a list, and quotes around all but plain words."""

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:
        super().increase_indent(flow, False)

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    if "\n" in text and text.isascii() and all(line == line.rstrip() for line in text.split("\n")):
        return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|")
    style = None if WORD.fullmatch(text) and text.lower() not in MEANINGS else '"'
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _text)


def documents(header: str, *objects: dict[str, Any]) -> str:
    """Objects of a file, one after the other, below a comment of one line."""
    texts = [yaml.dump(o, Dumper=_Dumper, sort_keys=False, width=WIDTH, default_flow_style=False) for o in objects]
    return f"# {header}\n" + "---\n".join(texts)
