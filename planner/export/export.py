"""A plan becomes the files of a target, README included."""

from __future__ import annotations

import pkgutil
import re
from importlib import import_module
from types import ModuleType

from planner.export import targets
from planner.export.hosted import Settings, hosted_fleet
from planner.export.readme import readme
from planner.export.record import Export
from planner.export.weights import KINDS
from planner.io.errors import did_you_mean, input_error, listed, shown
from planner.io.units import is_time_zone
from planner.plan.plan import Plan

README = "README.md"
NAMESPACE = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")
REGISTRY = re.compile(r"[A-Za-z0-9][A-Za-z0-9.-]*(:[0-9]{1,5})?(/[a-z0-9][a-z0-9._-]*)*")
IMAGE = re.compile(
    r"[A-Za-z0-9][A-Za-z0-9._-]*(:[0-9]{1,5}(?=/))?(/[a-z0-9._-]+)*(:[A-Za-z0-9_][A-Za-z0-9._-]*)?(@sha256:[0-9a-f]{64})?"
)
MOST_HEADROOM_FRAC = 10.0
"""more than this is a slip of the pen"""


def target_names() -> list[str]:
    return sorted(found.name.replace("_", "-") for found in pkgutil.iter_modules(targets.__path__))


def export_plan(plan: Plan, target: str, settings: Settings) -> dict[str, str]:
    """Files by their path in the folder; equal plans give equal bytes. Raises InputError where there is nothing."""
    check_settings(plan, settings)
    over_boxes = [d.deployment for pool in plan.pools for d in pool.deployments if d.deployment.boxes_per_replica]
    if over_boxes and not getattr(_module(target), "OVER_BOXES", False):
        able = [name for name in target_names() if getattr(_module(name), "OVER_BOXES", False)]
        what = f"{target} has no way to run a replica on several instances, as {over_boxes[0].key} does"
        raise input_error("--to", what, f"Export to {listed(able)}" if able else "Use the serve commands of the plan")
    fleet = hosted_fleet(plan, settings)
    if not fleet.hosted:
        apis = listed(sorted({w.api for w in plan.workloads if w.api}), "and")
        sentence = f"it hosts nothing: {apis} serves all requests" if apis else "it hosts nothing in this month"
        raise input_error("--to", f"the plan has nothing to export, because {sentence}", "Point your gateway there")
    module = _module(target)
    ways: tuple[str, ...] = getattr(module, "WEIGHTS_FROM", KINDS)
    if settings.weights.kind not in ways:
        remedy = f"Give {listed(list(ways), 'or')}"
        raise input_error("--weights", f"{target} cannot take weights from {settings.weights.kind}", remedy)
    made: Export = module.export(fleet)
    return {README: readme(fleet, target, made)} | dict(sorted(made.files.items()))


def _module(target: str) -> ModuleType:
    if target not in target_names():
        raise input_error("--to", f"there is no target {shown(target)}", did_you_mean(target, target_names()))
    return import_module(f"{targets.__name__}.{target.replace('-', '_')}")


def check_settings(plan: Plan, settings: Settings) -> None:
    months = len({slot.month for slot in plan.slots})
    if not 0 <= settings.month < months:
        few = "1, since nothing grows in it" if months == 1 else f"1 to {months}"
        raise input_error("--month", f"the plan has no month {settings.month + 1}", f"Give {few}")
    if not 0 <= settings.headroom_frac <= MOST_HEADROOM_FRAC:
        most = f"{MOST_HEADROOM_FRAC:.0%}"
        raise input_error(
            "--headroom", f"{settings.headroom_frac:.0%} is not from 0% to {most}", "Write one such as 20%"
        )
    if settings.namespace is not None and not NAMESPACE.fullmatch(settings.namespace):
        remedy = "Write small letters, digits and hyphens, at most 63"
        raise input_error("--namespace", f"{shown(settings.namespace)} cannot be the name of a namespace", remedy)
    if settings.registry is not None and not REGISTRY.fullmatch(settings.registry):
        remedy = "Write it as registry.internal:5000/mirror, without https://"
        raise input_error("--registry", f"{shown(settings.registry)} is not a registry", remedy)
    if settings.image is not None and not IMAGE.fullmatch(settings.image):
        remedy = "Write one such as registry.internal/vllm:1"
        raise input_error("--image", f"{shown(settings.image)} is not an image", remedy)
    if not is_time_zone(settings.time_zone):
        remedy = "Write one such as Europe/Berlin or UTC"
        raise input_error("--time-zone", f"there is no time zone {shown(settings.time_zone)}", remedy)
