"""Unit economics: the arithmetic behind every figure per token, on its own.

A cost per token means nothing without the utilization it was taken at, so that is always an argument.
"""

from __future__ import annotations

import math

from problems.constants import HOURS_PER_MONTH

SECONDS_PER_MONTH = HOURS_PER_MONTH * 3600


def usd_per_1m_tokens(usd_per_h: float, tok_s: float, utilization_frac: float = 1.0) -> float:
    """What a million tokens cost on hardware that is paid by the hour and kept busy for a share of it."""
    return usd_per_h / 3600 / (tok_s * utilization_frac) * 1e6


def usd_per_month(usd_per_h: float, busy_frac: float = 1.0) -> float:
    """A month of an hourly price, or of the share of the hours that are paid for."""
    return usd_per_h * HOURS_PER_MONTH * busy_frac


def tokens_per_month(tok_s: float, utilization_frac: float) -> float:
    return tok_s * utilization_frac * SECONDS_PER_MONTH


def groups_needed(tokens: float, tok_s: float, utilization_frac: float) -> int:
    """Replica groups that carry so many tokens a month."""
    return math.ceil(tokens / tokens_per_month(tok_s, utilization_frac) - 1e-9)


def api_usd(tokens: float, input_frac: float, input_usd_per_1m: float, output_usd_per_1m: float) -> float:
    """Tokens bought from an API, input and output priced apart."""
    return tokens / 1e6 * (input_frac * input_usd_per_1m + (1 - input_frac) * output_usd_per_1m)


def hybrid_usd_per_month(
    base_gpus: int, base_usd_per_h: float, spot_gpus: int, spot_usd_per_h: float, spot_busy_frac: float
) -> float:
    """A steady base and spot GPUs on top for a part of the time."""
    return usd_per_month(base_gpus * base_usd_per_h) + usd_per_month(spot_gpus * spot_usd_per_h, spot_busy_frac)


def weights_only_tok_s(batch: int, weight_bytes: float, bandwidth_bytes_per_s: float, slack: float = 1.2) -> float:
    """Decode throughput if a step only read the weights: no KV reads, no arithmetic. An upper bound, no estimate."""
    return batch / (weight_bytes / bandwidth_bytes_per_s * slack)


def prefill_tokens_per_h(requests_per_h: float, prefix_tokens: float, query_tokens: float, hit_frac: float) -> float:
    """Prompt tokens that must be computed when a share of the requests finds the prefix in the cache."""
    return requests_per_h * (query_tokens + (1 - hit_frac) * prefix_tokens)
