"""`fleetplan catalog add-model`: from a config.json to a file that a demand file takes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from planner.case.demand.load import load_case
from planner.catalog.entries import Model
from planner.io.named_files import NamedFiles
from tests.support.command_line import SMALL, Command
from tests.support.model_configs import DEEPSEEK_V3, LLAMA_8B, NEMOTRON_NANO, Config
from tests.support.rows import for_each


@pytest.fixture
def fleetplan(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Command:
    monkeypatch.chdir(tmp_path)
    return Command(monkeypatch, capsys)


def config_file(config: Config, name: str = "config.json") -> str:
    Path(name).parent.mkdir(parents=True, exist_ok=True)
    Path(name).write_text(json.dumps(config), encoding="utf-8")
    return name


def test_what_it_writes_can_be_planned_with(fleetplan: Command) -> None:
    added = fleetplan("catalog", "add-model", config_file(LLAMA_8B), "--name", "acme/chat-8B", "--out", "models.yaml")
    assert added.code == 0
    assert "wrote models.yaml" in added.err and "models: [chat-8b]" in added.err
    assert "8.03 B" in added.out and "16.1 GB" in added.out and "131.1 kB a token" in added.out
    entry = yaml.safe_load(Path("models.yaml").read_text())["models"]["chat-8b"]
    assert entry["source"] == "config.json of acme/chat-8B"
    assert len(entry["date"]) == len("2026-11-17")
    Path("demand.yaml").write_text("catalog: models.yaml\n" + SMALL.replace("llama-3.1-8b", "chat-8b"))
    planned = fleetplan("plan", "demand.yaml", "--format", "json", "-q")
    assert planned.code == 0
    assert json.loads(planned.out)["case"]["models"]["chat-8b"]["checkpoint"] == "acme/chat-8B"


def test_estimate_and_calibrate_take_the_file(fleetplan: Command) -> None:
    fleetplan("catalog", "add-model", config_file(LLAMA_8B), "--name", "chat-8B", "--out", "models.yaml")
    shape = ("--gpu", "h100", "--input", "1000", "--output", "100", "--concurrency", "8", "--format", "json")
    mine = json.loads(fleetplan("estimate", "--model", "chat-8b", "--catalog", "models.yaml", *shape).out)
    shipped = json.loads(fleetplan("estimate", "--model", "llama-3.1-8b", *shape).out)
    assert mine | {"model": "llama-3.1-8b"} == shipped
    head = "model,gpu,gpus_per_replica,quantization,input_tokens,output_tokens,concurrency,tpot_ms"
    rows = "".join(f"chat-8b,h100,1,fp16,{500 * n},100,{n},{8 + n / 4}\n" for n in (1, 2, 4, 8, 16))
    Path("measured.csv").write_text(f"{head}\n{rows}")
    ran = fleetplan("calibrate", "measured.csv", "--catalog", "models.yaml", "--out", "profile.yaml")
    assert ran.code == 0
    assert "chat-8b" in Path("profile.yaml").read_text()


def test_without_out_it_prints_the_file(fleetplan: Command) -> None:
    ran = fleetplan("catalog", "add-model", config_file(DEEPSEEK_V3), "--name", "my-deepseek")
    (entry,) = yaml.safe_load(ran.out)["models"].values()
    assert Model.model_validate_json(json.dumps(entry)).mla is not None
    assert (ran.code, ran.err) == (0, "")


def test_entries_are_added_to_a_file_that_keeps_its_comments(fleetplan: Command) -> None:
    Path("own.yaml").write_text("# ours\ngpus: {}\nmodels:  # two of them\n  chat-8b:\n    # tuned\n    layers: 3\n")
    config = config_file(NEMOTRON_NANO)
    assert fleetplan("catalog", "add-model", config, "--name", "nano", "--out", "own.yaml").code == 0
    text = Path("own.yaml").read_text()
    assert list(yaml.safe_load(text)["models"]) == ["nano", "chat-8b"]
    assert all(comment in text for comment in ("# ours", "# two of them", "# tuned"))
    again = fleetplan("catalog", "add-model", config, "--name", "nano", "--out", "own.yaml")
    assert again.code == 2 and "has an entry 'nano' already. Add --replace" in again.err
    assert Path("own.yaml").read_text() == text
    assert fleetplan("catalog", "add-model", config, "--name", "nano", "--out", "own.yaml", "--replace").code == 0
    assert Path("own.yaml").read_text() == text


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("workloads: []\n", "is not a catalog file: it has the key 'workloads'"),
        ("models: {chat-8b: {layers: 3}}\n", "has a layout to which an entry cannot be added"),
        ("models:\n      chat-8b:\n        layers: 3\n", "has a layout to which an entry cannot be added"),
    ],
)
def test_a_file_that_cannot_take_it_is_left_alone(text: str, words: str, fleetplan: Command) -> None:
    Path("own.yaml").write_text(text)
    ran = fleetplan("catalog", "add-model", config_file(LLAMA_8B), "--name", "new", "--out", "own.yaml")
    assert (ran.code, ran.out) == (2, "")
    assert words in ran.err
    assert Path("own.yaml").read_text() == text


@pytest.mark.parametrize(
    ("path", "key", "checkpoint"),
    [
        ("models--acme--Chat-8B/snapshots/0123/config.json", "chat-8b", "acme/Chat-8B"),
        ("acme--Chat-8B_config.json", "chat-8b", "acme/Chat-8B"),
        ("Chat-8B.json", "chat-8b", None),
    ],
)
def test_the_name_is_that_of_the_file_or_its_folder(
    path: str, key: str, checkpoint: str | None, fleetplan: Command
) -> None:
    data = json.loads(fleetplan("catalog", "add-model", config_file(LLAMA_8B, path), "--format", "json").out)
    assert (data["key"], data["entry"].get("checkpoint")) == (key, checkpoint)
    assert data["kv_bytes_per_token"] == 131072


def test_counts_are_checked_against_name_and_publication(fleetplan: Command) -> None:
    config = config_file(LLAMA_8B)
    named = fleetplan("catalog", "add-model", config, "--name", "chat-70B")
    assert named.code == 0
    assert "the name says 70B parameters, the shapes in the config add up to 8.03B" in named.err
    right = fleetplan("catalog", "add-model", config, "--name", "chat", "--parameters", "8.03B", "--out", "m.yaml")
    assert right.code == 0 and "+0.0% from 8.03B published" in right.out
    assert "8.03B parameters published" in Path("m.yaml").read_text()
    wrong = fleetplan("catalog", "add-model", config, "--name", "chat", "--parameters", "70.6B")
    assert (wrong.code, wrong.out) == (2, "")
    assert "--parameters: the shapes in the config add up to 8.03B, -88.6% from 70.6B" in wrong.err
    assert "Write one such as" in fleetplan("catalog", "add-model", config, "--parameters", "70.6").err


def test_a_missing_value_can_be_given(fleetplan: Command) -> None:
    config = config_file({key: value for key, value in LLAMA_8B.items() if key != "num_key_value_heads"})
    asked = fleetplan("catalog", "add-model", config, "--name", "chat")
    assert (asked.code, asked.out) == (2, "")
    assert "config.json: num_key_value_heads: is missing. Give it with --set num_key_value_heads=8." in asked.err
    given = fleetplan("catalog", "add-model", config, "--name", "chat", "--set", "num_key_value_heads=8")
    assert given.code == 0
    assert "by hand: num_key_value_heads=8" in given.out


@for_each(
    ("content", "words"),
    [
        ("{", "config.json:1:2: is not JSON"),
        ("[1]", "config.json: expected an object with keys, got a list"),
        ("\x00\xff", "config.json"),
        ("[" * 100_000, "config.json: cannot be read"),
        (json.dumps(LLAMA_8B), "config.json: the model has no name. Give one with --name"),
    ],
)
def test_a_bad_config_exits_with_2(content: str, words: str, fleetplan: Command) -> None:
    Path("config.json").write_text(content, encoding="latin-1")
    ran = fleetplan("catalog", "add-model", "config.json")
    assert (ran.code, ran.out) == (2, "")
    assert words in ran.err


@for_each(
    ("arguments", "words"),
    [
        (("missing.json",), "missing.json: there is no such file"),
        ((".",), "this is a directory. Name the config.json in it"),
        (("config.json", "--set", "layers"), "--set: expected key=value, got 'layers'"),
        (("config.json", "--name", "///"), "--name: has no letters or digits"),
        (("config.json", "--name", "a", "--out", "config.json"), "--out would overwrite the input config.json"),
    ],
)
def test_bad_arguments_exit_with_2(arguments: tuple[str, ...], words: str, fleetplan: Command) -> None:
    config_file(LLAMA_8B)
    ran = fleetplan("catalog", "add-model", *arguments)
    assert (ran.code, ran.out) == (2, "")
    assert words in ran.err


def test_an_unknown_model_gets_the_hint(fleetplan: Command) -> None:
    hint = "dd it from its config.json: fleetplan catalog add-model config.json"
    Path("demand.yaml").write_text(SMALL.replace("llama-3.1-8b", "zz-top-3000"))
    assert hint in fleetplan("validate", "demand.yaml").err
    shape = ("--gpu", "h100", "--input", "100", "--output", "10", "--concurrency", "1")
    assert hint in fleetplan("estimate", "--model", "zz-top-3000", *shape).err
    head, row = (
        "model,gpu,gpus_per_replica,quantization,input_tokens,output_tokens,concurrency,tpot_ms",
        "h100,1,fp8,1000,100",
    )
    Path("measured.csv").write_text(f"{head}\nzz-top-3000,{row},8,12\n")
    assert hint in fleetplan("calibrate", "measured.csv", "--out", "profile.yaml").err
    Path("demand.yaml").write_text(SMALL.replace("llama-3.1-8b", "lama-3.1-8b"))
    close = fleetplan("validate", "demand.yaml").err
    assert "Did you mean 'llama-3.1-8b'? If not, a" + hint in close


def test_a_shipped_model_is_overridden_with_a_note(fleetplan: Command) -> None:
    config = config_file(LLAMA_8B | {"max_position_embeddings": 8192})
    ran = fleetplan("catalog", "add-model", config, "--name", "Llama-3.1-8B", "--out", "models.yaml")
    assert "the shipped catalog already has llama-3.1-8b; in a demand file this entry overrides it" in ran.err
    Path("demand.yaml").write_text("catalog: models.yaml\n" + SMALL)
    case = load_case(Path("demand.yaml"), NamedFiles(None))
    assert case.models["llama-3.1-8b"].max_context_tokens == 8192
