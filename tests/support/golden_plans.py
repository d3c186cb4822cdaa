"""What is kept of an example's plan: the decisions and the money, not every number in the file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from planner.io.formatting import span
from planner.plan.plan import Plan
from tests.support.places import ROOT, TESTS

OF_A_HORIZON = ("growth",)
"""examples over several quarters, which have plans of another kind"""
EXAMPLES = sorted(path for path in (ROOT / "examples").glob("*.yaml") if path.stem not in OF_A_HORIZON)
FOLDER = TESTS / "golden" / "plans"


def digest(plan: Plan) -> dict[str, Any]:
    return {
        "status": plan.status,
        "cost_usd_per_month": round(plan.cost_usd_per_month, 2),
        "baseline_usd_per_month": round(plan.baseline.cost_usd_per_month, 2),
        "fleet": [[f.offer, f.purchase, span(f.instances_by_slot), round(f.cost_usd_per_month, 2)] for f in plan.fleet],
        "workloads": [
            {
                "name": w.name,
                "served_with": [name for name in plan.pool_of(w.name).workloads if name != w.name],
                "deployments": {d.deployment.key: span(d.replicas_by_slot) for d in plan.pool_of(w.name).deployments},
                "caching": w.caching,
                "api_share": round(w.api_share_frac, 4),
                "usd_per_1m_tokens": round(w.usd_per_1m_tokens, 4),
            }
            for w in plan.workloads
        ],
        "rejected": len(plan.rejected),
        "options": len(plan.options),
        "assumptions": [a.key for a in plan.assumptions],
    }


def golden_file(example: Path) -> Path:
    return FOLDER / f"{example.stem}.json"


def as_text(data: dict[str, Any]) -> str:
    return json.dumps(data, indent=1) + "\n"
