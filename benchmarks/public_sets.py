"""Two public collections of served runs, as rows in the columns that planner/performance/measurements.py reads.

    python benchmarks/public_sets.py FILES.csv[.gz]... > rows.csv && fleetplan accuracy rows.csv

ML.ENERGY v3 (configurations of vLLM 0.11.1 at steady state) and SGLang's cookbook (its benchmark client's results, and
its cells of recommended settings) are found by their columns; any other file is a table of measurements already. Runs
that say nothing about a language model served by itself are left out by name.
"""

from __future__ import annotations

import csv
import gzip
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from planner.performance.measurements import AS_PUBLISHED, Unscorable, read_rows

Row = dict[str, str]
Reader = Callable[[Mapping[str, str]], Iterator[Row]]
PROMPT_TOKENS = {"lm-arena-chat": 256, "gpqa": 256, "sourcegraph-fim": 2048}
"""ML.ENERGY states no lengths of prompts: assumed by task (chat of a few turns; a question with four answers; code
before and after the gap, and files around it)"""
CELL_MODELS = {
    ("deepseek-v4", "flash"): "deepseek-v4-flash", ("deepseek-v4", "flash-official"): "deepseek-v4-flash-0731",
    ("deepseek-v4", "pro"): "deepseek-v4-pro", ("deepseek-v4", "pro-official"): "deepseek-v4-pro-0813",
}  # fmt: skip
"""the catalog's names of models whose variants stand in a column of their own"""
CELL_PRECISIONS = {"fp4": "mxfp4", "mxfp8": "fp8"}
OFTEN_INTERRUPTED = 0.25
"""prompts that begin in a step from which the median gap between tokens is no undisturbed step any more"""


def rows_of(path: str | Path) -> tuple[list[Row], Counter[str]]:
    """The rows of a file, whichever collection it is of, and how many runs were left out by reason."""
    opened = gzip.open if str(path).endswith(".gz") else open
    with opened(path, "rt", encoding="utf-8-sig", newline="") as file:
        reader = csv.DictReader(file)
        names = set(reader.fieldnames or ())
        reads = next((reads for column, reads in COLLECTIONS.items() if column in names), None)
        if reads is not None:
            return _read(reader, reads)
    return read_rows(path), Counter()


def _read(runs: csv.DictReader[str], reads: Reader) -> tuple[list[Row], Counter[str]]:
    rows: list[Row] = []
    left_out: Counter[str] = Counter()
    for run in runs:
        try:
            rows.extend(reads(run))
        except Unscorable as why:
            left_out[str(why)] += 1
    return rows, left_out


def rows_of_mlenergy(given: Mapping[str, str]) -> Iterator[Row]:
    """Output rate, and the median gap between tokens where steps are seldom interrupted."""
    if given["task"] not in PROMPT_TOKENS:
        raise Unscorable("images or videos in prompts")
    if (given["task"], given["gpu"], given["n_gpus"]) == ("gpqa", "b200", "1"):
        raise Unscorable("the GPU waits for its host: up to five times slower than chat, at half the power")
    in_flight, output = float(given["avg_batch_size"]), float(given["output_len_mean"])
    row = _row(
        source="mlenergy-v3", model=given["model"], gpu=given["gpu"], n_gpus=given["n_gpus"], tp=given["attention_tp"],
        attention_dp=given["attention_dp"], moe_ep=given["moe_ep"] or "1", dtype_weights=given["dtype_weights"],
        engine=given["engine"], input_len=str(PROMPT_TOKENS[given["task"]]), output_len=str(output),
        batch_or_concurrency=str(max(in_flight, 1.0)),
    )  # fmt: skip
    yield row | {"metric": "output_tok_s", "value": given["output_tok_s"]}
    if in_flight / output < OFTEN_INTERRUPTED:
        yield row | {"metric": "tpot_ms", "value": given["itl_p50_ms"], "notes": "p50 per-token latency"}


def _bench_text(given: Mapping[str, str]) -> Iterator[Row]:
    """Means of a run of SGLang's benchmark client."""
    yield from _cookbook(
        given, given["concurrency_mean"] or given["max_concurrency"], given["input_len_mean"],
        given["output_len_mean"], {"ttft_ms": given["ttft_mean_ms"], "tpot_ms": given["tpot_mean_ms"]},
        int(given["dp"] or 1) if given["dp_attention"] else 1, given["quantization"], given["model"],
    )  # fmt: skip


def _cells(given: Mapping[str, str]) -> Iterator[Row]:
    """Recommended settings; time to the first token is queueing where more are sent at once than fit."""
    yield from _cookbook(
        given, given["concurrency"], given["input_len"], given["output_len"],
        {"ttft_ms": given["ttft_ms"], "tpot_ms": given["tpot_ms"]},
        int(given["dp_attention"] or 1), CELL_PRECISIONS.get(given["weights"], given["weights"]),
        CELL_MODELS.get((given["model"], given["variant"]), given["model"]),
    )  # fmt: skip


def _cookbook(
    given: Mapping[str, str],
    concurrency: str,
    input_len: str,
    output_len: str,
    measured: Mapping[str, str],
    copies: int,
    weights: str,
    name: str,
) -> Iterator[Row]:
    if given["spec_algorithm"] != "none":
        raise Unscorable("speculative decoding, or flags not known")
    gpus = given["tp"]
    row = _row(
        source="sglang-cookbook", model=given["catalog_model"] or name, gpu=given["gpu"], n_gpus=gpus,
        tp=str(int(gpus) // copies) if gpus else "", attention_dp=str(copies), moe_ep=given["ep"] or "1",
        dtype_weights=weights or _named_precision(given["model"]), engine=given["engine"], input_len=input_len,
        output_len=output_len, batch_or_concurrency=concurrency,
    )  # fmt: skip
    for metric, value in measured.items():
        yield row | {"metric": metric, "value": value}


def _named_precision(checkpoint: str) -> str:
    named = re.search(r"(?i)(nvfp4|fp8)$", checkpoint)
    return named[1].lower() if named else AS_PUBLISHED


def _row(**columns: str) -> Row:
    return {"dtype_kv": "", "notes": "", **columns}


COLLECTIONS: dict[str, Reader] = {
    "avg_batch_size": rows_of_mlenergy,
    "gpu_text": _bench_text,
    "pinned_accept_len": _cells,
}
"""by a column that only they have"""


def main() -> None:
    rows: list[Row] = []
    for path in sys.argv[1:]:
        read, left_out = rows_of(path)
        rows.extend(read)
        for why, runs in left_out.most_common():
            print(f"{path}: {runs} runs left out: {why}", file=sys.stderr)
    writer = csv.DictWriter(sys.stdout, list(dict.fromkeys(name for row in rows for name in row)), restval="")
    writer.writeheader()
    writer.writerows(rows)


if __name__ == "__main__":
    main()
