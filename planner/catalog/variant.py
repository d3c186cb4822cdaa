"""A replica by the names of the catalog: a model in a quantization on some GPUs, and how these share it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

Parallelism = Literal["tensor", "expert", "data"]
"""tensor: every GPU has a slice of every layer; expert: the same, but whole experts; data: whole experts, and all of
attention on every GPU, each for its own requests"""
PARALLELISMS: tuple[Parallelism, ...] = ("tensor", "expert", "data")
TENSOR: Parallelism = "tensor"


IN_A_KEY = re.compile(r"(\d+)x(?:-(\d+)-boxes)?(?:-(expert|data))?(?:-(.+))?")
"""GPUs of a replica, and how they share the model"""


@dataclass(frozen=True, order=True)
class Variant:
    """A model in a quantization on replicas of a GPU."""

    model: str
    quantization: str
    gpu: str
    gpus_per_replica: int = 0
    """0: of any number"""
    parallelism: Parallelism = TENSOR
    speculation: str = ""
    """how its tokens are drafted, as method:tokens; empty: they are not"""
    boxes: int = 1
    """that a replica spans, as stages of a pipeline: each has as many of its GPUs, and of the model's layers"""

    def __str__(self) -> str:
        return f"{self.model} {self.quantization} on {self.gpus}"

    @property
    def gpus(self) -> str:
        """Those of a replica, and how they share the model where they do not simply slice it."""
        gpus = f"{self.gpus_of_a_box} x {self.gpu}" if self.gpus_per_replica else self.gpu
        gpus = f"{self.boxes} boxes of {gpus}" if self.boxes > 1 else gpus
        gpus = f"{gpus}, {self.other_parallelism} parallel" if self.other_parallelism else gpus
        if self.drafts is None:
            return gpus
        method, tokens = self.drafts
        return f"{gpus}, {tokens} drafts by {method}" if tokens else f"{gpus}, drafts by {method}"

    @property
    def gpus_of_a_box(self) -> int:
        """Those of a replica in one box."""
        return self.gpus_per_replica // self.boxes

    @property
    def several_boxes(self) -> int | None:
        """None for one, as plans store it."""
        return self.boxes if self.boxes > 1 else None

    @property
    def drafts(self) -> tuple[str, int] | None:
        """The method, and the tokens that a step drafts of a request; None where none are."""
        method, _, tokens = self.speculation.rpartition(":")
        return (method, int(tokens)) if method else None

    @property
    def other_parallelism(self) -> Parallelism | None:
        """None for tensor parallelism, as plans and profiles store it."""
        return None if self.parallelism == TENSOR else self.parallelism

    def key_on(self, place: str) -> str:
        """Of a deployment on an offer, or of its replicas on a GPU."""
        how = f"-{self.boxes}-boxes" if self.boxes > 1 else ""
        how += f"-{self.other_parallelism}" if self.other_parallelism else ""
        how += f"-{self.speculation}" if self.speculation else ""
        return f"{self.model}/{self.quantization}/{self.gpus_per_replica}x{how}/{place}"


def of_key(key: str) -> tuple[Variant, str]:
    """What `key_on` made a key of, but for the GPU, and the place."""
    model, quantization, replica, place = key.split("/", 3)
    found = IN_A_KEY.fullmatch(replica)
    if found is None:
        raise ValueError(f"{key} is no deployment")
    gpus, boxes, sharing, speculation = found.groups()
    way = next((way for way in PARALLELISMS if way == sharing), TENSOR)
    return Variant(model, quantization, "", int(gpus), way, speculation or "", int(boxes or 1)), place
