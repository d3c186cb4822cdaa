"""Every bad demand file gets a message that names the mistake and its place, and exit code 2; nothing else.

The files are in tests/bad. Their first lines say what to expect: `# expect LINE:COLUMN part of the message`.
"""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest

import planner
from planner.io.errors import LINE_LIMIT
from tests.support.command_line import SMALL, Command, Ran, no_control_characters, run_script
from tests.support.places import TESTS
from tests.support.rows import for_each

BAD = TESTS / "bad"
FILES = sorted(path.name for path in BAD.iterdir())
WITHOUT_HEADER = {
    "binary.yaml": [("", "is not a text file")],
    "empty.yaml": [("1:1", "the file is empty")],
    "latin1.yaml": [("2:14", "is not UTF-8 text (byte 0xe9)")],
    "utf16.yaml": [("", "is encoded as UTF-16")],
}
SCREEN_LINES = 24


@pytest.fixture
def fleetplan(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    monkeypatch.chdir(BAD)
    return Command(monkeypatch, capsys)


def expected(name: str) -> list[tuple[str, str]]:
    """(line:column, part of the message) of every mistake in a file."""
    if name in WITHOUT_HEADER:
        return WITHOUT_HEADER[name]
    text = (BAD / name).read_text(encoding="utf-8")
    return [(place, words) for place, words in re.findall(r"^# expect (\d+:\d+) (.+)$", text, re.MULTILINE)]


def is_one_polite_message(ran: Ran, file: str) -> None:
    lines = ran.err.splitlines()
    assert ran.code == 2
    assert 1 <= len(lines) <= SCREEN_LINES
    assert max(len(line.partition(": ")[2]) for line in lines) <= LINE_LIMIT
    assert file in ran.err
    assert "Traceback" not in ran.err
    assert no_control_characters(ran.err)


def test_there_are_enough_of_them() -> None:
    assert len(FILES) >= 100
    assert [name for name in FILES if not expected(name)] == []


@for_each(("name", "verb"), [(name, verb) for name in FILES for verb in ("plan", "validate")])
def test_each_mistake_is_named_at_its_place(name: str, verb: str, fleetplan: Command) -> None:
    ran = fleetplan(verb, name)
    is_one_polite_message(ran, name)
    assert ran.out == ""
    lines, mistakes = ran.err.splitlines(), expected(name)
    assert len(lines) == len(mistakes), ran.err
    for line, (place, words) in zip(lines, mistakes, strict=True):
        assert line.startswith(f"{name}:{place}: " if place else f"{name}: ")
        assert words in line


def test_sentences_are_whole(tmp_path: Path) -> None:
    """What users wrote may be cut, in quotes and in paths; what the program says may not, however long the path is."""
    deep = tmp_path / ("a-long-folder-name-" * 5)
    shutil.copytree(BAD, deep)
    cut = []
    for name in FILES:
        with pytest.raises(planner.InputError) as error:
            planner.load_case(deep / name)
        cut += [line for line in str(error.value).splitlines() if " …" in line or line.endswith(("…", "…."))]
    assert cut == []


def test_unknown_keys_and_unknown_names_are_said_together(tmp_path: Path) -> None:
    file = tmp_path / "demand.yaml"
    file.write_text(
        "workloads:\n"
        "  - name: chat\n"
        "    models: [lama-3.1-8b, {name: qwen2.5-7bb}, 3]\n"
        "    forcast: {requests_per_day: 1M}\n"
        "menu: {gpus: [h1000, 7], quantization: [fp8], quantizations: [fp88], apis: [openai/gpt-4o-minni]}\n"
        "baseline: openai/gpt-4o-minni\n",
        encoding="utf-8",
    )
    with pytest.raises(planner.InputError) as error:
        planner.load_case(file)
    said = "\n".join(f"{d.line}: {d.message}" for d in error.value.diagnostics)
    for words in (
        "3: there is no model 'lama-3.1-8b'", "3: there is no model 'qwen2.5-7bb'", "4: unknown key 'forcast'",
        "5: there is no GPU 'h1000'", "5: unknown key 'quantization'", "5: there is no quantization 'fp88'",
        "5: there is no API model", "6: there is no API model 'openai/gpt-4o-minni'",
    ):  # fmt: skip
        assert words in said, said


def test_names_of_a_catalog_that_cannot_be_read_are_not_called_unknown(tmp_path: Path) -> None:
    file = tmp_path / "demand.yaml"
    file.write_text(
        "catlog: {models: {mine: {}}}\nworkloads: [{name: chat, models: [mine]}]\nbaseline: openai/gpt-4o\n"
    )
    with pytest.raises(planner.InputError) as error:
        planner.load_case(file)
    assert [d.message for d in error.value.diagnostics if "mine" in d.message] == []


@for_each("name", FILES)
def test_validate_can_say_it_in_json(name: str, fleetplan: Command) -> None:
    ran = fleetplan("validate", name, "--format", "json")
    is_one_polite_message(ran, name)
    data = json.loads(ran.out)
    assert data["ok"] is False
    found = [(f"{e['line']}:{e['column']}" if e["line"] else "", e["message"]) for e in data["errors"]]
    assert [place for place, _ in found] == [place for place, _ in expected(name)]
    assert all(error["file"] == name and error["message"] for error in data["errors"])
    assert no_control_characters("".join(e["message"] + e["where"] + e["remedy"] for e in data["errors"]))


@pytest.mark.process
@for_each(
    "name", ["binary.yaml", "catalog_unknown_kind.yaml", "key_with_escape.yaml", "many_mistakes.yaml", "ttft_zero.yaml"]
)
def test_the_installed_command_says_the_same(name: str, fleetplan: Command) -> None:
    assert run_script("plan", name, cwd=BAD) == fleetplan("plan", name)


# -- did you mean ---------------------------------------------------------------------------------------------------


@for_each(
    ("name", "meant"),
    [
        ("unknown_key.yaml", "Did you mean 'models'?"),
        ("unknown_slo_key.yaml", "Did you mean 'ttft_p"),
        ("unknown_baseline.yaml", "Did you mean 'openai/gpt-4o-mini'?"),
        ("baseline_without_provider.yaml", "/gpt-4o-mini'?"),
        ("unknown_purchase.yaml", "Did you mean 'reserved-"),
        ("unknown_instance_limit.yaml", "Did you mean 'aws/g6e.xlarge"),
        ("catalog_unknown_kind.yaml", "Did you mean 'gpus'?"),
        ("catalog_unknown_field.yaml", "Did you mean 'vram_gb'?"),
        ("catalog_bad_link.yaml", "Did you mean 'nvlink'?"),
        ("ttft_without_unit.yaml", 'Write "1.5s" or "1.5ms".'),
        ("growth_without_percent.yaml", 'Write "8%".'),
        ("price_without_unit.yaml", 'Write a price such as "$48/h"'),
        ("models_not_a_list.yaml", "Write [llama-3.1-8b]."),
    ],
)
def test_the_remedy_says_what_to_write(name: str, meant: str, fleetplan: Command) -> None:
    assert meant in fleetplan("validate", name).err


# -- what is no file at all, or too much of one ---------------------------------------------------------------------


def test_a_missing_file_suggests_its_neighbour(fleetplan: Command) -> None:
    ran = fleetplan("plan", "two_document.yaml")
    is_one_polite_message(ran, "two_document.yaml")
    assert "there is no such file" in ran.err
    assert "Did you mean 'two_documents.yaml' in the same folder?" in ran.err


def test_a_directory_is_no_demand_file(fleetplan: Command, tmp_path: Path) -> None:
    ran = fleetplan("plan", tmp_path)
    is_one_polite_message(ran, tmp_path.name)
    assert "this is a directory" in ran.err


def test_no_file_given(fleetplan: Command) -> None:
    ran = fleetplan("plan")
    assert (ran.code, ran.out) == (2, "")
    assert "DEMAND.yaml" in ran.err


def too_much() -> dict[str, tuple[str, str]]:
    """Files that attack the reader, too large to store."""
    laughs = "".join(f"a{k}: &a{k} [{', '.join([f'*a{k - 1}'] * 9)}]\n" for k in range(1, 10))
    return {
        "brackets": ("workloads: " + "[" * 60_000, "is nested more than"),
        "braces": ("{a: " * 60_000, "is nested more than"),
        "indentation": ("".join(" " * k + "a:\n" for k in range(1_500)), "is nested more than"),
        "laughs": ("a0: &a0 [1, 2, 3, 4, 5, 6, 7, 8, 9]\n" + laughs, "holds more than"),
        "aliases": ("a: &a 1\nb: [" + ", ".join(["*a"] * 500) + "]\n", "more than 100 aliases"),
        "values": ("workloads: [" + "1, " * 250_000 + "]\n", "holds more than"),
        "bytes": (SMALL + "# " + "x" * 2_100_000, "is larger than 2 MB"),
        "digits": (f"baseline: {'7' * 100_000}\n", "the number '777"),
        "unknown keys": (SMALL + "".join(f"key{k}: 1\n" for k in range(3_000)), "... and"),
        "unknown models": (SMALL.replace("llama-3.1-8b", ", ".join(f"m{k}" for k in range(300))), "... and 285 more"),
        "long line": (SMALL.replace("chat", "c" * 500_000), "must have at most 80 characters"),
    }


@for_each("kind", too_much())
def test_attacks_end_in_one_message(kind: str, fleetplan: Command, tmp_path: Path) -> None:
    text, words = too_much()[kind]
    file = tmp_path / "attack.yaml"
    file.write_text(text, encoding="utf-8")
    ran = fleetplan("plan", file)
    is_one_polite_message(ran, "attack.yaml")
    assert words in ran.err
    assert ran.out == ""


def test_a_path_may_hold_anything(fleetplan: Command, tmp_path: Path) -> None:
    file = tmp_path / "[bold]\x1b[31m\n.yaml"
    file.write_text("workloads: []\n", encoding="utf-8")
    ran = fleetplan("validate", file)
    is_one_polite_message(ran, r"[bold]\x1b[31m\n.yaml:1:")


# -- texts that are allowed, but must not reach the terminal as they are ----------------------------------------------


@for_each("verb", ["plan", "validate"])
@for_each(
    ("name", "printed"),
    [
        (r'"\e[31mred\e[0m"', r"\x1b[31mred\x1b[0m"),
        (r'"[bold red]boo[/]"', "[bold red]boo[/]"),
        (r'"\e]0;owned\a"', r"\x1b]0;owned\x07"),
        ('"right-to-\u202eleft"', r"right-to-\u202eleft"),
        ('"日本語 ünïcode"', "日本語 ünïcode"),
    ],
)
def test_names_are_printed_harmlessly(name: str, printed: str, verb: str, fleetplan: Command, tmp_path: Path) -> None:
    file = tmp_path / "case.yaml"
    file.write_text(f"name: {name}\n" + SMALL.replace("name: chat", f"name: {name}"), encoding="utf-8")
    ran = fleetplan(verb, file)
    assert ran.code == 0, ran.err
    assert no_control_characters(ran.out + ran.err)
    assert ran.out.startswith(printed)
    assert ran.out.count(printed) >= 2  # the case and the workload


def test_names_in_reasons_are_printed_harmlessly(fleetplan: Command, tmp_path: Path) -> None:
    file = tmp_path / "case.yaml"
    hard = SMALL.replace("name: chat", r'name: "\e[2Jchat"') + "policy: {max_gpus: {l40s: 0}}\n"
    file.write_text(hard.replace("    quality:", "    api: forbidden\n    quality:"), encoding="utf-8")
    ran = fleetplan("plan", file)
    assert ran.code == 3
    assert no_control_characters(ran.err)
    file.write_text(file.read_text(encoding="utf-8").replace("8b]", "405b]"), encoding="utf-8")
    ran = fleetplan("plan", file)
    assert ran.code == 3
    assert r"\x1b[2Jchat" in ran.err
    assert no_control_characters(ran.err)


def test_names_of_own_offers_are_printed_harmlessly(fleetplan: Command, tmp_path: Path) -> None:
    own = r"""
catalog:
  offers:
    "\e[2Jown/box@z":
      provider: own
      instance: box
      region: z
      gpu: l40s
      gpus: 1
      prices: {reserved_1y: {usd_per_h: 0.2, assumption: a guess}}
"""
    menu = "menu: {regions: [z], purchase: [reserved-1y], "
    file = tmp_path / "case.yaml"
    text = SMALL.replace("menu: {", menu).replace(", purchase: [on-demand, spot, reserved-1y]", "")
    file.write_text(text.replace("    quality:", "    api: forbidden\n    quality:") + own)
    ran = fleetplan("plan", file, "--verbose")
    assert ran.code == 0, ran.err
    assert ran.out.count(r"\x1b[2Jown/box@z") >= 4  # fleet, commitment, assumed price, option
    assert no_control_characters(ran.out + ran.err)
