"""A replica by the names of the catalog: a model in a quantization on some GPUs, and how these share it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Parallelism = Literal["tensor", "expert", "data"]
"""tensor: every GPU has a slice of every layer; expert: the same, but whole experts; data: whole experts, and all of
attention on every GPU, each for its own requests"""
PARALLELISMS: tuple[Parallelism, ...] = ("tensor", "expert", "data")
TENSOR: Parallelism = "tensor"


@dataclass(frozen=True, order=True)
class Variant:
    """A model in a quantization on replicas of a GPU."""

    model: str
    quantization: str
    gpu: str
    gpus_per_replica: int = 0
    """0: of any number"""
    parallelism: Parallelism = TENSOR

    def __str__(self) -> str:
        gpus = f"{self.gpus_per_replica} x {self.gpu}" if self.gpus_per_replica else self.gpu
        return f"{self.model} {self.quantization} on {gpus}{in_words(self.parallelism)}"

    def key_on(self, place: str) -> str:
        """Of a deployment on an offer, or of its replicas on a GPU."""
        how = "" if self.parallelism == TENSOR else f"-{self.parallelism}"
        return f"{self.model}/{self.quantization}/{self.gpus_per_replica}x{how}/{place}"


def in_words(parallelism: Parallelism) -> str:
    """What follows the GPUs of a replica in a sentence: nothing where everything is sliced."""
    return "" if parallelism == TENSOR else f", {parallelism} parallel"
