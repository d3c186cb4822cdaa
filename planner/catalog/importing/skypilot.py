"""SkyPilot's catalog: <cloud>/vms.csv, one row for each type and zone."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from planner.catalog.importing.files import rows_of
from planner.catalog.importing.instances import has_gpus, instance_types, provider_called
from planner.catalog.importing.quotes import UNKNOWN_INSTANCE, UNKNOWN_PRICE, Gathering, Quote, Way
from planner.io.errors import shown

COLUMNS = ("InstanceType", "AcceleratorName", "AcceleratorCount", "Price", "SpotPrice", "Region")
PRICES: dict[Way, str] = {"on_demand": "Price", "spot": "SpotPrice"}
_MEMORY = re.compile(r"'SizeInMiB': (\d+)")


@dataclass(frozen=True)
class _Line:
    number: int
    cells: dict[str, str]
    prices: dict[Way, float]

    @property
    def zone(self) -> tuple[str, str]:
        return self.cells["Region"], self.cells.get("AvailabilityZone", "")


def read(file: Path, gathering: Gathering) -> Iterator[Quote]:
    cloud = provider_called(file.parent.name if file.name.startswith("vms.") else file.name.split(".")[0])
    source, day = f"SkyPilot catalog, {cloud}/{file.name}", gathering.day(None, file)
    lines = _lines(file, gathering)
    if cloud == "gcp":
        yield from _added_up(lines, source, day, file, gathering)
        return
    for line in lines:
        row = line.cells
        if not row["AcceleratorName"]:
            continue
        memory = _MEMORY.search(row.get("GpuInfo", ""))
        for way, usd_per_h in line.prices.items():
            yield Quote(
                provider=cloud,
                instance=row["InstanceType"],
                region=row["Region"],
                way=way,
                usd_per_h=usd_per_h,
                source=source,
                date=day,
                gpu=row["AcceleratorName"],
                gpus=_count(line, file, gathering),
                memory_gib=int(memory[1]) / 1024 if memory else None,
            )


def _lines(file: Path, gathering: Gathering) -> Iterator[_Line]:
    """Rows of the regions that are wanted."""
    for number, row in rows_of(file, COLUMNS, gathering):
        if gathering.wants(row["Region"]) and (row["AcceleratorName"] or row["InstanceType"]):
            is_priced = bool(row["AcceleratorName"]) or has_gpus("gcp", row["InstanceType"])
            prices = {
                way: gathering.price(row[column], file, number, column) if is_priced else 0.0
                for way, column in PRICES.items()
            }
            yield _Line(number, row, prices)


def _count(line: _Line, file: Path, gathering: Gathering) -> float | None:
    text = line.cells["AcceleratorCount"]
    try:
        return float(text)
    except ValueError:
        gathering.complain(file, line.number, "AcceleratorCount", f"expected a number, got {shown(text)}")
        return None


def _added_up(lines: Iterator[_Line], source: str, day: str, file: Path, gathering: Gathering) -> Iterator[Quote]:
    """Instances of Google Cloud: the price of the host in a zone plus that of the accelerators in it."""
    known = instance_types()["gcp"]
    accelerator_of = {gpu: name for name, gpu in known.names.items()}
    hosts: list[_Line] = []
    accelerators: dict[tuple[tuple[str, str], str, float | None], _Line] = {}
    for line in lines:
        name = line.cells["AcceleratorName"]
        if name:
            accelerators[line.zone, name, _count(line, file, gathering)] = line
        elif line.cells["InstanceType"] in known.types:
            hosts.append(line)
        elif has_gpus("gcp", line.cells["InstanceType"]):
            gathering.leave_out(UNKNOWN_INSTANCE, f"gcp/{line.cells['InstanceType']}")
    for host in hosts:
        instance = host.cells["InstanceType"]
        gpus, gpu = known.types[instance]
        name = known.accelerator_names.get(instance) or accelerator_of[gpu]
        beside = accelerators.get((host.zone, name, float(gpus)))
        if beside is None:
            gathering.leave_out(UNKNOWN_PRICE, f"gcp/{instance}@{host.cells['Region']}: no row for {gpus} x {name}")
            continue
        for way, usd_per_h in host.prices.items():
            both = usd_per_h and beside.prices[way] and usd_per_h + beside.prices[way]
            yield Quote(
                provider="gcp",
                instance=instance,
                region=host.cells["Region"],
                way=way,
                usd_per_h=round(both, 6),
                source=f"{source}: host plus {gpus} x {name}, without local disks",
                date=day,
                gpu=gpu,
                gpus=float(gpus),
            )
