"""Sends each request where the plan sends it: by the length of its prompt and by the hour, in the plan's shares.

LiteLLM's proxy loads this file by `litellm_settings: {callbacks: fleetplan_router.hook}`; routes.json lies beside it.
Without it the proxy still works, by the month's shares alone. Shares are dealt out evenly, not drawn: where 5% go to an
API, one request of each twenty does. Each worker of the proxy deals for itself, and goes on where the last hour ended.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import litellm
from litellm.exceptions import RateLimitError
from litellm.integrations.custom_logger import CustomLogger

ROUTES = Path(__file__).with_name("routes.json")
SHED = "shed"
MOST_CHARACTERS, LEAST_CHARACTERS = 8, 1
"""of a token: where all lengths between go the same way, nobody counts tokens"""


class Plan:
    """What the plan does with a request."""

    def __init__(self, routes: Mapping[str, Any], now: Callable[[], float] = time.time) -> None:
        told = routes["workloads"]
        self.critical = {name for name, found in told.items() if "critical_of" in found}
        self.workloads: Mapping[str, Any] = {
            name: told[found["critical_of"]] if name in self.critical else found for name, found in told.items()
        }
        self.zone, self.now = ZoneInfo(routes["time_zone"]), now
        self.dealt: dict[tuple[object, ...], dict[str, float]] = {}

    def shares(self, workload: str, tokens: int) -> tuple[tuple[object, ...], Mapping[str, float]]:
        """Which deal a request belongs to, and the shares of this hour."""
        at = datetime.fromtimestamp(self.now(), self.zone)
        day = "weekend" if at.weekday() >= 5 else "weekday"
        number, found = self._range(workload, tokens)
        return (workload, number), found["shares"][found["by_hour"][day][at.hour]]

    def _range(self, workload: str, tokens: int) -> tuple[int, Any]:
        ranges = self.workloads[workload]["ranges"]
        for number, found in enumerate(ranges):
            if found["up_to"] is None or tokens <= found["up_to"]:
                return number, found
        return len(ranges) - 1, ranges[-1]

    def alike(self, workload: str, shortest: int, longest: int) -> bool:
        """Whether prompts of these lengths go the same way."""
        holds = self.workloads[workload]["holds"].values()
        fits = all(limit is None or longest < limit for limit in holds)
        return fits and self._range(workload, shortest)[0] == self._range(workload, longest)[0]

    def is_shed(self, workload: str, tokens: int) -> bool:
        key, shares = self.shares(workload, tokens)
        shed = 0.0 if workload in self.critical else shares.get(SHED, 0.0)
        return shed > 0 and self._deal((*key, SHED), {SHED: shed, "": 1.0 - shed}) == SHED

    def goes_to(self, workload: str, tokens: int, answer: int, there: set[str]) -> str | None:
        """One of the destinations that are there; the planned one unless it is missing or the request does not fit.

        What a missing one would have had goes to the API where there is one: the others have all that they can take.
        """
        holds, otherwise = self.workloads[workload]["holds"], self.workloads[workload]["otherwise"]
        may = {to for to in there if holds.get(to) is None or tokens + answer <= holds[to]} or there
        key, shares = self.shares(workload, tokens)
        planned = {to: share for to, share in shares.items() if to in may and share > 0}
        missing = sum(share for to, share in shares.items() if to != SHED and to not in there)
        apis = [to for to in otherwise if to in may and to not in holds]
        if missing and apis:
            planned[apis[0]] = planned.get(apis[0], 0.0) + missing
        if planned:
            return self._deal(key, planned)
        others = [to for to in otherwise if to in may]
        return others[0] if others else None

    def _deal(self, key: tuple[object, ...], shares: Mapping[str, float]) -> str:
        credit = self.dealt.setdefault(key, {})
        whole = sum(shares.values())
        for to, share in shares.items():
            credit[to] = credit.get(to, 0.0) + share / whole
        first = max(shares, key=lambda to: credit[to])
        credit[first] -= 1.0
        return first


class FleetplanRouter(CustomLogger):
    """The plan as LiteLLM asks for it."""

    def __init__(self, plan: Plan) -> None:
        super().__init__()
        self.plan = plan

    async def async_pre_call_hook(
        self, user_api_key_dict: Any, cache: Any, data: dict[str, Any], call_type: Any
    ) -> None:
        """Turn away what the plan sheds, before anything is retried."""
        workload = str(data.get("model", ""))
        if workload in self.plan.workloads:
            tokens = self.tokens(workload, data.get("messages"), data)
            if self.plan.is_shed(workload, tokens):
                message = f"{workload} is over what is planned for this hour"
                raise RateLimitError(message, llm_provider="fleetplan", model=workload)

    async def async_filter_deployments(
        self,
        model: str,
        healthy_deployments: list[Any],
        messages: list[Any] | None,
        request_kwargs: dict[str, Any] | None = None,
        parent_otel_span: Any = None,
    ) -> list[dict[str, Any]]:
        """Of the deployments of a workload the one that this request goes to."""
        if model not in self.plan.workloads or not isinstance(healthy_deployments, list):
            return healthy_deployments
        asked = request_kwargs or {}
        there = {str(d.get("model_info", {}).get("fleetplan_to")): d for d in healthy_deployments}
        answer = int(asked.get("max_completion_tokens") or asked.get("max_tokens") or 0)
        to = self.plan.goes_to(model, self.tokens(model, messages, asked), answer, set(there))
        return healthy_deployments if to is None else [there[to]]

    def tokens(self, workload: str, messages: list[Any] | None, asked: Mapping[str, Any]) -> int:
        """Of the prompt, by LiteLLM's own count; not counted where it makes no difference."""
        text = asked.get("prompt") or asked.get("input") or ""
        parts = (
            messages if messages else [{"role": "user", "content": text if isinstance(text, str) else json.dumps(text)}]
        )
        tools = asked.get("tools")
        characters = len(json.dumps([parts, tools or []], default=str))
        if self.plan.alike(workload, characters // MOST_CHARACTERS, characters // LEAST_CHARACTERS):
            return characters // 4
        try:  # images count as many tokens each: nobody fetches them to look how large they are
            return int(litellm.token_counter("", messages=parts, tools=tools, use_default_image_token_count=True))
        except Exception:  # a request that LiteLLM cannot read is the engine's to refuse
            return characters // 4


hook = FleetplanRouter(Plan(json.loads(ROUTES.read_text(encoding="utf-8")))) if ROUTES.exists() else None
