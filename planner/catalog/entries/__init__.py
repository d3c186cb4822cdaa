"""The catalog: facts about GPUs, instance offers, models, quantizations and APIs, each with source and date.

Shipped facts live in planner/data/*.yaml. A user's file may add entries or override parts of one; what it
overrides then names that file as its source. One file for each kind of entry; names are imported from here.
"""

from planner.catalog.entries.apis import ApiBatch, ApiModel, ApiPrices, ApiTier
from planner.catalog.entries.benchmarks import DEFAULT_BENCHMARK, benchmark_families, benchmark_family, shipped_entries
from planner.catalog.entries.catalog import (
    KINDS,
    Catalog,
    Shape,
    find,
    names_of,
    shipped_catalog,
    shipped_data,
)
from planner.catalog.entries.engines import DEFAULT_ENGINE, Backing, Basis, Efficiency, Engine, MoeKernels, Rates
from planner.catalog.entries.gpus import Gpu, Interconnect
from planner.catalog.entries.models import Linear, Mla, Model, Moe, Sliding, Sparse
from planner.catalog.entries.offers import TERM_MONTHS, HourlyPrice, Offer, OfferPrices, Price, SpotPrice, UpfrontPrice
from planner.catalog.entries.quantizations import CacheLoss, Precision, QualityLoss, Quantization
from planner.catalog.entries.sourced import OWN_FIGURE, UNKNOWN_DATE, Named, Sourced, day_of, is_of_unknown_day

__all__ = [
    "DEFAULT_BENCHMARK",
    "DEFAULT_ENGINE",
    "KINDS",
    "OWN_FIGURE",
    "TERM_MONTHS",
    "UNKNOWN_DATE",
    "ApiBatch",
    "ApiModel",
    "ApiPrices",
    "ApiTier",
    "Backing",
    "Basis",
    "CacheLoss",
    "Catalog",
    "Efficiency",
    "Engine",
    "Gpu",
    "HourlyPrice",
    "Interconnect",
    "Linear",
    "Mla",
    "Model",
    "Moe",
    "MoeKernels",
    "Named",
    "Offer",
    "OfferPrices",
    "Precision",
    "Price",
    "QualityLoss",
    "Quantization",
    "Rates",
    "Shape",
    "Sliding",
    "Sourced",
    "Sparse",
    "SpotPrice",
    "UpfrontPrice",
    "benchmark_families",
    "benchmark_family",
    "day_of",
    "find",
    "is_of_unknown_day",
    "names_of",
    "shipped_catalog",
    "shipped_data",
    "shipped_entries",
]
