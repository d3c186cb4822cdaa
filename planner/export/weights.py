"""Ways to bring weights to the engine, as `export --weights` names them, and how fast each is."""

from __future__ import annotations

import re
from dataclasses import dataclass

from planner.io.errors import did_you_mean, input_error, shown

DOWNLOAD, PVC, HOST_PATH, IMAGE, STREAM = "download", "pvc", "hostPath", "image", "stream"
KINDS = (DOWNLOAD, PVC, HOST_PATH, IMAGE, STREAM)
SYNTAX = "pvc:NAME, hostPath[:PATH], image[:REF], stream[:URI] or download"
DEFAULT_PATH = "/var/lib/weights"
BUCKET, REGISTRY = "s3://YOUR-BUCKET", "YOUR-REGISTRY"
"""in place of what the option leaves out"""
HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*", re.ASCII)
"""weights on the Hugging Face Hub; anything else is a path that the image must have"""
PLACES = {
    PVC: (
        re.compile(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?"),
        "the name of a PersistentVolumeClaim, such as pvc:weights",
    ),
    HOST_PATH: (re.compile(r"(/(?!\.\.?(/|$))[A-Za-z0-9._-]+)+"), "an absolute path, such as hostPath:/mnt/weights"),
    IMAGE: (re.compile(r"[A-Za-z0-9][A-Za-z0-9._:@/-]*"), "an image, such as image:registry.internal/weights:1"),
    STREAM: (
        re.compile(r"(s3|gs)://[a-z0-9][A-Za-z0-9._/-]*"),
        "a bucket or a folder in it, such as stream:s3://models",
    ),
}
"""what may follow each kind, and how to write it"""


@dataclass(frozen=True)
class Rate:
    """Bytes of weights from their source into GPU memory, on a node that has none of them."""

    gb_per_s: float
    source: str


READ = "tensorfuse.io/docs/blogs/reducing_gpu_cold_start: 16 GB on an L40S of AWS"
RATES = {
    DOWNLOAD: Rate(0.17, f"{READ}, downloaded in 61 s and read in 33 s"),
    PVC: Rate(0.89, f"{READ}, read in 18 s from a shared volume"),
    HOST_PATH: Rate(0.17, f"{READ}, downloaded in 61 s and read in 33 s"),
    IMAGE: Rate(0.09, "blog.zmalik.dev: 12 GB of an image pulled and unpacked in 2 to 8 min; then read from disk"),
}
"""measured by others, once each: yours will differ. Of streams from object storage no figure is at hand."""


@dataclass(frozen=True)
class Weights:
    """Where the engine takes its weights from."""

    kind: str = DOWNLOAD
    place: str = ""
    """claim, path, image or bucket; nothing: that is left to people"""

    def gb_per_s(self, planned: float) -> float:
        """On a fresh node; what the plan counts on where nobody has measured it."""
        return RATES[self.kind].gb_per_s if self.kind in RATES else planned

    @property
    def offline(self) -> bool:
        """Whether the weights are there before the engine starts, so that it needs neither the Hub nor a token."""
        return self.kind in (PVC, IMAGE)


def weights_from(text: str) -> Weights:
    """What the option says. Raises InputError with the remedy."""
    kind, colon, place = text.partition(":")
    if kind not in KINDS:
        remedy = did_you_mean(kind, KINDS) or f"Give {SYNTAX}"
        raise input_error("--weights", f"there is no way {shown(kind)} to bring weights", remedy)
    if kind == DOWNLOAD and colon:
        raise input_error("--weights", "download takes nothing after it", f"Give {SYNTAX}")
    if (colon or kind == PVC) and kind in PLACES:
        pattern, wanted = PLACES[kind]
        if not pattern.fullmatch(place):
            raise input_error("--weights", f"{shown(place)} is not right for {kind}", f"Give {wanted}")
    return Weights(kind, place.rstrip("/") or (DEFAULT_PATH if kind == HOST_PATH else ""))
