"""gpuhunt's catalog: <provider>.csv, one row for each type, region and way to buy."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from planner.catalog.importing.files import rows_of
from planner.catalog.importing.instances import provider_called
from planner.catalog.importing.quotes import Gathering, Quote
from planner.io.errors import shown

COLUMNS = ("instance_name", "location", "price", "gpu_count", "gpu_name", "gpu_memory", "spot")
SPOT = {"true": True, "false": False}


def read(file: Path, gathering: Gathering) -> Iterator[Quote]:
    provider, day = provider_called(file.name.split(".")[0]), gathering.day(None, file)
    for number, row in rows_of(file, COLUMNS, gathering):
        if not row["gpu_name"] or not gathering.wants(row["location"]):
            continue
        spot = SPOT.get(row["spot"].lower())
        if spot is None:
            gathering.complain(file, number, "spot", f"expected True or False, got {shown(row['spot'])}")
        try:
            gpus, memory_gib = float(row["gpu_count"]), float(row["gpu_memory"]) if row["gpu_memory"] else None
        except ValueError:
            gathering.complain(file, number, "gpu_count", f"expected numbers, got {shown(row['gpu_count'])}")
            continue
        yield Quote(
            provider=provider,
            instance=row["instance_name"],
            region=row["location"],
            way="spot" if spot else "on_demand",
            usd_per_h=gathering.price(row["price"], file, number, "price"),
            source=f"gpuhunt catalog, {file.name}",
            date=day,
            gpu=row["gpu_name"],
            gpus=gpus,
            memory_gib=memory_gib,
        )
