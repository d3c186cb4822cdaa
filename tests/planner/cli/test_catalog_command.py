"""`fleetplan catalog`: what is known, from where, and which prices are stale."""

from __future__ import annotations

import json

import pytest

from planner.catalog.entries import KINDS, shipped_catalog
from tests.support.command_line import Command
from tests.support.rows import for_each

FUTURE = ("--as-of", "2035-01-01")


def test_overview_counts_every_kind(fleetplan: Command) -> None:
    ran = fleetplan("catalog")
    assert (ran.code, ran.err) == (0, "")
    data = json.loads(fleetplan("catalog", "--format", "json").out)
    assert tuple(data) == KINDS
    for kind, entry in data.items():
        row = next(line for line in ran.out.splitlines() if line.startswith(f"{kind} "))
        assert row.split()[1] == str(entry["entries"])
    assert data["gpus"]["entries"] == len(shipped_catalog().gpus)


@for_each("kind", KINDS)
def test_each_kind_is_listed_and_each_listing_is_json(kind: str, fleetplan: Command) -> None:
    ran = fleetplan("catalog", kind)
    assert (ran.code, ran.err) == (0, "")
    data = json.loads(fleetplan("catalog", kind, "--format", "json").out)
    assert len(ran.out.splitlines()) == len(data) + 1
    assert [line.split()[0] for line in ran.out.splitlines()[1:]] == sorted(data)
    assert all(entry["source"] for entry in data.values())


@pytest.mark.parametrize(("part", "gpu"), [("h100", "h100"), ("H100", "h100"), ("g6e", "l40s")])
def test_offers_are_filtered_by_name_or_gpu(part: str, gpu: str, fleetplan: Command) -> None:
    data = json.loads(fleetplan("catalog", "offers", part, "--format", "json").out)
    every = json.loads(fleetplan("catalog", "offers", "--format", "json").out)
    assert 0 < len(data) < len(every)
    assert gpu in {offer["gpu"] for offer in data.values()}
    assert all(gpu in offer["gpu"] for offer in data.values())


def test_a_part_of_a_name_lists_what_contains_it(fleetplan: Command) -> None:
    data = json.loads(fleetplan("catalog", "models", "llama-3.1", "--format", "json").out)
    assert len(data) >= 3
    assert all("llama-3.1" in name for name in data)


@pytest.mark.parametrize("name", ["llama-3.1-70b", "LLAMA-3.1-70B"])
def test_one_entry_is_shown_whole_with_its_source(name: str, fleetplan: Command) -> None:
    ran = fleetplan("catalog", "models", name)
    model = shipped_catalog().models["llama-3.1-70b"]
    assert ran.code == 0
    assert ran.out.startswith("# models\nllama-3.1-70b:\n")
    assert f"layers: {model.layers}" in ran.out
    data = json.loads(fleetplan("catalog", "models", name, "--format", "json").out)["llama-3.1-70b"]
    assert (data["layers"], data["source"], data["stale"]) == (model.layers, model.source, False)


def test_an_api_model_has_its_price_and_the_package_it_comes_from(fleetplan: Command) -> None:
    data = json.loads(fleetplan("catalog", "apis", "openai/gpt-4o-mini", "--format", "json").out)
    (entry,) = data.values()
    assert entry["source"].startswith("genai-prices ")
    assert entry["tiers"][0]["input_usd_per_1m"] < entry["tiers"][0]["output_usd_per_1m"]


def test_old_prices_are_flagged_and_specifications_are_not(fleetplan: Command) -> None:
    data = json.loads(fleetplan("catalog", "--format", "json", *FUTURE).out)
    assert data["offers"]["stale"] == data["offers"]["entries"]
    assert data["apis"]["stale"] == data["apis"]["entries"]
    assert data["gpus"]["stale"] == data["models"]["stale"] == 0
    listing = fleetplan("catalog", "offers", "h100", *FUTURE).out.splitlines()[1:]
    assert listing and all("STALE" in line for line in listing)
    assert "STALE" not in fleetplan("catalog", "gpus", *FUTURE).out


def test_staleness_follows_the_day_and_the_limit(fleetplan: Command) -> None:
    key = next(iter(shipped_catalog().offers))
    day = json.loads(fleetplan("catalog", "--format", "json").out)["offers"]["oldest_price"]

    def stale(*options: str) -> bool:
        return json.loads(fleetplan("catalog", "offers", key, "--format", "json", *options).out)[key]["stale"]

    assert not stale("--as-of", day)
    assert stale(*FUTURE)
    assert not stale(*FUTURE, "--stale-after", "20000d")
    assert "# STALE: older than 180 days" in fleetplan("catalog", "offers", key, *FUTURE).out.replace("  #", "#", 1)


def test_prices_that_were_old_when_entered_are_stale_on_any_day(fleetplan: Command) -> None:
    key = "azure/Standard_ND96isr_H100_v5@eastus"
    options = ("--as-of", "2025-09-12", "--stale-after", "20000d")
    assert "STALE" in fleetplan("catalog", "offers", key[:-7], *options).out
    assert "# STALE: over a year old when it was entered" in " ".join(
        fleetplan("catalog", "offers", key, *options).out.split()
    )
    data = json.loads(fleetplan("catalog", "--format", "json", *options).out)["offers"]
    assert 0 < data["stale"] < data["entries"]


def test_payments_up_front_are_listed_by_the_hour(fleetplan: Command) -> None:
    head, *rows = fleetplan("catalog", "offers", "aws/p5.48xlarge").out.splitlines()
    at = head.index("3y upfront") + len("3y upfront")
    east = next(row for row in rows if row.startswith("aws/p5.48xlarge@us-east-1"))
    assert east[:at].endswith(" 20.70")


def test_assumed_prices_are_marked(fleetplan: Command) -> None:
    row = next(r for r in fleetplan("catalog", "offers").out.splitlines() if r.startswith("aws/p5.48xlarge@us-east-1"))
    assert "(assumed reserved)" in row


@for_each(
    ("arguments", "words"),
    [
        (("gpu",), "there is no kind 'gpu'. Did you mean 'gpus'?"),
        (("models", "lama-3.1-8b-instrukt"), "no entry of models is called or contains 'lama-3.1-8b-instrukt'."),
        (("gpus", "\x1b[2J"), r"'\x1b[2J'"),
        (("--as-of", "tomorrow"), "--as-of: expected a date, got 'tomorrow'. Write one such as 2027-01-31."),
        (("--as-of", "2026-02-30"), "--as-of: expected a date"),
        (("--stale-after", "3"), '--stale-after: needs a unit, got \'3\'. Write "3s" or "3ms".'),
        (("gpus", "l4", "extra"), "unexpected extra argument"),
        (("--format", "xml"), "'--format'"),
    ],
)
def test_bad_arguments_exit_with_2(arguments: tuple[str, ...], words: str, fleetplan: Command) -> None:
    ran = fleetplan("catalog", *arguments)
    assert (ran.code, ran.out) == (2, "")
    assert words in ran.err
    assert "\x1b" not in ran.err


def test_quantizations_show_what_an_8_bit_cache_needs_and_loses(fleetplan: Command) -> None:
    ran = fleetplan("catalog", "quantizations")
    cells = {line.split()[0]: line.split()[1:] for line in ran.out.splitlines() if line}
    assert cells["int4-awq"][1:4] == ["none", "5.7%", "1.1%"]
    assert cells["int4-awq-kv8"][1:4] == ["fp8", "6.2%", "1.6%"]
    assert cells["fp16-kv8"][1:5] == ["fp16,", "fp8", "0.5%", "0.5%"]
