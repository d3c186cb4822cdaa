"""Names that Kubernetes, SkyPilot and Docker accept, whatever users call their workloads."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Iterable

MOST_CHARACTERS = 36
"""of a name: room for what operators add within 63 characters (a subdomain of the production stack 27 with that of
spot, a component of Dynamo within 45 for both)"""
LABEL_VALUE = 63
SPOT = "-spot"
"""ends the name of what runs on spot instances"""
GROUPS_END = "-groups"
"""ends the name of a LeaderWorkerSet: its controller makes a headless Service of that name for addresses of its pods"""
ENDINGS = (SPOT, GROUPS_END, SPOT + GROUPS_END)


def plain(text: str, otherwise: str = "workload", most: int = MOST_CHARACTERS) -> str:
    """An RFC 1035 label: small letters, digits and hyphens, a letter first."""
    ascii_text = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode("ascii").lower()
    name = re.sub(r"[^a-z0-9]+", "-", ascii_text).strip("-") or otherwise
    name = name if name[0].isalpha() else f"w-{name}"
    return name[:most].rstrip("-")


def unique(wanted: Iterable[str], endings: Collection[str] = ENDINGS, most: int = MOST_CHARACTERS) -> list[str]:
    """Plain names in the same order, numbered where two would be the same, with or without an ending."""
    taken: set[str] = set()
    names = []
    for text in wanted:
        base, k = plain(text, most=most), 1
        name = base
        while any(name + ending in taken for ending in ("", *endings)):
            k += 1
            name = f"{base[: most - len(str(k)) - 1].rstrip('-')}-{k}"
        taken |= {name + ending for ending in ("", *endings)}
        names.append(name)
    return names


def label_value(text: str) -> str:
    """What a label of a node may hold; instance types and regions of the clouds stay as they are."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", text)[:LABEL_VALUE].strip("._-") or "unnamed"
