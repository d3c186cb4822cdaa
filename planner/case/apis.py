"""What is paid by the request: APIs that a workload may use, the baseline that it is compared with, and caches."""

from __future__ import annotations

import numpy as np

from planner.case.case import CACHE_KINDS, Case, Workload, kinds_of
from planner.case.length_buckets import SMALLEST_SHARE, too_long_share
from planner.case.slots import Slot, rates_rps, requests_per_month
from planner.catalog.apis import is_below, tier_of_api, tier_of_model
from planner.catalog.entries import ApiModel
from planner.catalog.names import sells
from problems.constants import HOURS_PER_MONTH

SAME = 1e-12


def allowed_apis(case: Case, workload: Workload) -> tuple[str, ...]:
    """The APIs of the menu that may answer a workload."""
    if not workload.api_allowed:
        return ()
    promised = (api for api in case.menu_apis if promises_enough(workload, case.apis[api]))
    own = (api for api in promised if not is_of_another_model(case, workload, api))
    fitting = (api for api in own if not is_too_small(case, workload, api))
    return tuple(api for api in fitting if holds(case, workload, api, case.apis[api]))


def promises_enough(workload: Workload, api: ApiModel) -> bool:
    """Whether an API's service tier may answer a workload: flex promises no time, so it is for work that may wait."""
    if workload.api_tier is not None and api.service_tier != workload.api_tier:
        return False
    return api.service_tier != "flex" or workload.deadline_h is not None or workload.api_wait_h > 0


def is_of_another_model(case: Case, workload: Workload, api: str) -> bool:
    """Whether an API is on the menu for those who ask for its very model, and this workload does not."""
    return api in (case.same_model_apis or ()) and not _sells_one_of(case, workload, api)


def _sells_one_of(case: Case, workload: Workload, api: str) -> bool:
    """Whether an API sells one of the very models that a workload lists and that are good enough for it."""
    good = (c.model for c in workload.models if c.quality_loss_frac <= workload.max_quality_loss_frac + SAME)
    return any(sells(api, key, case.models[key]) for key in good)


def holds(case: Case, workload: Workload, name: str, api: ApiModel) -> bool:
    """Whether an API takes requests as long as those that a workload lets in, as far as its context is known."""
    context = api_context(case, name, api)
    return context is None or too_long_share(workload, context) < SMALLEST_SHARE


def api_context(case: Case, name: str, api: ApiModel) -> int | None:
    """Tokens of the longest request that an API takes, which no provider of a known model exceeds; None: not known."""
    of_model = [m.max_context_tokens for key, m in case.models.items() if sells(name, key, m)]
    known = [*of_model, *((api.max_context_tokens,) if api.max_context_tokens else ())]
    return min(known, default=None)


def is_too_small(case: Case, workload: Workload, api: str) -> bool:
    """Whether an API sells a smaller model than a workload asks for, and that is forbidden."""
    return forbids_smaller_apis(case, workload) and sells_a_smaller_model(case, workload, api)


def forbids_smaller_apis(case: Case, workload: Workload) -> bool:
    return bool(workload.smaller_apis_forbidden or case.limits.smaller_apis_forbidden)


def sells_a_smaller_model(case: Case, workload: Workload, api: str) -> bool:
    """Whether an API is known to sell a smaller model than a workload lists first, and none of those that it lists."""
    tier = tier_of_model(case.models[workload.models[0].model])
    return is_below(tier_of_api(api), tier) and not _sells_one_of(case, workload, api)


def request_usd(case: Case, workload: Workload, api: str) -> np.ndarray:
    """Price of one request of each bucket, at the batch price where its answer may take that long [bucket]."""
    return request_usd_at(case.apis[api], workload)


def request_usd_at(prices: ApiModel, workload: Workload) -> np.ndarray:
    """The same at the prices of an API that may be on no menu."""
    return np.array(
        [
            prices.request_usd(
                b.input_tokens,
                workload.api_cached_tokens(b.input_tokens),
                b.output_tokens,
                workload.api_wait_h,
                workload.api_written_tokens(b.input_tokens),
            )
            for b in workload.buckets
        ]
    )


NEXT_TO_NOTHING = 1e-12
"""share of the requests that rounding may leave"""


def answered_per_month(workload: Workload, slots: tuple[Slot, ...], shed_per_month: np.ndarray | float) -> np.ndarray:
    """Requests by length without those that are shed, the ones that a cache answers included [bucket]."""
    asked = requests_per_month(workload, slots) * np.array([b.share_frac for b in workload.buckets])
    answered = asked - shed_per_month
    return np.where(answered > NEXT_TO_NOTHING * asked, answered, 0.0)


def baseline_usd_per_month(case: Case, workload: Workload, answered: np.ndarray) -> float:
    """What these requests cost at the baseline, input, input that the provider caches and output priced apart."""
    return float(answered @ request_usd(case, workload, baseline_of(case, workload)))


def baseline_of(case: Case, workload: Workload) -> str:
    """The API model that a workload is compared with."""
    return workload.baseline or case.baseline


def tokens_of(workload: Workload, answered: np.ndarray) -> float:
    return float(answered @ [b.input_tokens + b.output_tokens for b in workload.buckets])


def tokens_per_request(workload: Workload) -> float:
    return tokens_of(workload, np.array([b.share_frac for b in workload.buckets]))


NONE = "none"


def on_gpus(option: str) -> str:
    """What is left of a choice on the GPUs: answers that are found whole never get there."""
    return "+".join(kind for kind in CACHE_KINDS if kind in kinds_of(option) - {"semantic"}) or NONE


def cache_usd_per_h(case: Case, workload: Workload, option: str, slots: tuple[Slot, ...]) -> np.ndarray:
    """Stores by the month, and an embedding of the prompt of every request, found or not [slot]."""
    costs, kinds = case.cache_costs, kinds_of(option)
    by_month = costs.tier_usd_per_month if on_gpus(option) != NONE else 0.0
    per_request = 0.0
    if "semantic" in kinds:
        by_month += costs.vector_store_usd_per_month
        prompt = sum(b.share_frac * b.input_tokens for b in workload.buckets)
        per_request = prompt * costs.embedding_usd_per_1m_tokens / 1e6
    return by_month / HOURS_PER_MONTH + 3600 * per_request * rates_rps(workload, slots)
