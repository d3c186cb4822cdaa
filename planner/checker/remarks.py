"""Remarks: what a saved plan says that the checker cannot work out again.

Everything else follows from the case inside and is worked out from it. What stands here was found by a search or is
known to nobody but the writer. No rule of a policy reads it but one that says so. Tests change every leaf of plans: one
that can be changed unnoticed must stand here.
"""

from __future__ import annotations

from typing import Any

from planner.io.validation import Strict


class Remark(Strict):
    what: str
    why: str
    """it is not verified"""
    figures: tuple[str, ...]
    """where it stands: * is any entry of a list, a last .** whatever lies below"""
    read_by: str | None = None
    """the rule of a policy that rests on it"""

    def covers(self, kind: str) -> bool:
        """Whether places of a kind, such as options.*.option, are among these figures."""
        inner = kind.removeprefix(OF_A_QUARTER)
        return any(f"{inner}.".startswith(f[:-2]) if f.endswith(".**") else inner == f for f in self.figures)


OF_A_QUARTER = "quarters.*.plan."
"""where the plans of the quarters of a horizon stand"""
SEARCHED = "found by a separate search"
WRITTEN = "known only to what wrote the plan"
BOUND = Remark(
    what="bound, gap and status",
    why="found by a search; --prove plans again and compares",
    figures=("bound_usd_per_month", "bound_usd", "gap_frac", "status"),
    read_by="max_gap",
)
REGRET = Remark(
    what="regret, and plans with foresight",
    why=SEARCHED,
    figures=("scenarios.*.if_known_usd", "scenarios.*.if_known_bound_usd", "scenarios.*.regret_usd"),
    read_by="max_regret",
)
REMARKS = (
    BOUND,
    REGRET,
    Remark(
        what="which options are listed, and what deployments cost by themselves",
        why=SEARCHED,
        figures=(
            *("options.*", "options.*.workload", "options.*.cost_usd_per_month", "options.*.peak_replicas"),
            "options.*.api_share_frac",
        ),
    ),
    Remark(
        what="cost if throughput is off",
        why=SEARCHED,
        figures=("if_throughput_is_off.low_usd_per_month", "if_throughput_is_off.high_usd_per_month"),
    ),
    Remark(what="cost without assumed limits", why=SEARCHED, figures=("assumed_limits.**",)),
    Remark(what="the simplest plan of about this cost", why=SEARCHED, figures=("simpler.**",)),
    Remark(what="waterfall", why=SEARCHED, figures=("studies.waterfall.**",)),
    Remark(what="break-even", why=SEARCHED, figures=("studies.break_even.**",)),
    Remark(
        what="other providers of the same model",
        why="from price lists that are not in the case",
        figures=("studies.providers.*", "studies.providers.*.prices.**"),
    ),
    Remark(what="other points of the commitment curve", why=SEARCHED, figures=("curve.**",)),
    Remark(what="committing for the middle scenario", why=SEARCHED, figures=("middle.**",)),
    Remark(what="savings by long terms over the horizon", why=SEARCHED, figures=("long_terms_would_save_usd",)),
    Remark(what="result of serving a sample", why="'fleetplan verify' serves the plan", figures=("sampled.**",)),
    Remark(
        what="the controller that was tuned, and what it showed",
        why="'fleetplan verify --autoscaler plan' serves it again",
        figures=("operation.**",),
    ),
    Remark(what="result of serving the plan", why="'fleetplan verify' serves it again", figures=("verified.**",)),
    Remark(what="how the proof was found", why=WRITTEN, figures=("proof.**",)),
    Remark(what="which parts were left out", why=WRITTEN, figures=("left_out.**",)),
    Remark(what="notes on the horizon", why=WRITTEN, figures=("notes.**",)),
    Remark(what="version of fleetplan", why=WRITTEN, figures=("fleetplan_version",)),
)


def remarks_in(plan: dict[str, Any]) -> tuple[Remark, ...]:
    """Those that a saved plan, or the plan of a horizon, has."""
    return tuple(r for r in REMARKS if any(_is_there(plan, f.removesuffix(".**").split(".")) for f in r.figures))


def _is_there(node: Any, steps: list[str]) -> bool:
    if not steps:
        return node not in (None, [], {})
    if steps[0] == "*":
        return any(_is_there(entry, steps[1:]) for entry in node or ())
    return isinstance(node, dict) and _is_there(node.get(steps[0]), steps[1:])
