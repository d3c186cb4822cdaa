"""GPUs: memory, rates and links."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from planner.catalog.entries.sourced import Named
from planner.io.validation import Strict


class Interconnect(Strict):
    kind: Literal["nvlink", "pcie", "infinity-fabric"]
    gb_per_s: float = Field(gt=0)
    """Per GPU, both directions added, as vendors quote it."""


class Gpu(Named):
    """An accelerator."""

    vendor: str = "unknown"
    architecture: str = "unknown"
    vram_gb: float = Field(gt=0)
    memory: Literal["hbm", "gddr"] = "gddr"
    """Vendors count HBM in units of 2^30 bytes; what error correction leaves of GDDR comes to about 10^9."""
    bandwidth_gb_per_s: float = Field(gt=0)
    dense_tflops: dict[Literal["fp16", "fp8", "int8", "fp4"], Annotated[float, Field(gt=0)]]
    """Dense rates of the precisions that the hardware has natively."""
    interconnect: Interconnect
