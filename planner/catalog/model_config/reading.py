"""A config.json as a set of named values; what is missing is collected, so that all of it is asked for at once."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from planner.io.errors import Diagnostic, InputError, input_error, shown
from planner.io.formatting import counted
from planner.io.input_files import read_input

MOST_BYTES = 20_000_000
MOST = 10**12
TEXT_PARTS = ("text_config", "llm_config", "language_config")
"""where configs of models that also see or hear keep the language model"""
OTHER_PARTS = ("vision_config", "audio_config")


class ModelConfig:
    """Values by their names in the file, those of the language model first, and what is wrong with them."""

    def __init__(self, file: str, data: dict[str, Any], given: dict[str, Any] | None = None) -> None:
        part: dict[str, Any] = next((data[name] for name in TEXT_PARTS if isinstance(data.get(name), dict)), {})
        self.file, self.given = file, given or {}
        self.whole_type = str(data.get("model_type"))
        """the kind of the model with all of its parts"""
        self.values: dict[str, Any] = data | part | self.given
        if data.get("quantization_config") and not part.get("quantization_config"):
            self.values["quantization_config"] = data["quantization_config"]
        self.diagnostics: list[Diagnostic] = []
        self.notes: list[str] = []

    @property
    def model_type(self) -> str:
        """The kind of model, without the suffix of a part."""
        return str(self.get("model_type") or "unknown").removesuffix("_text")

    def get(self, *names: str) -> Any:
        """The first of these values that is there and not null."""
        return next((self.values[name] for name in names if self.values.get(name) is not None), None)

    def count(
        self, *names: str, default: int | None = None, example: int | str = 8, least: int = 1, most: int = MOST
    ) -> int:
        """A whole number under one of its names; asked for by the first where it is missing and has no default."""
        for name in names:
            value = self.values.get(name)
            if value is None:
                continue
            whole = isinstance(value, int | float) and not isinstance(value, bool) and value == value // 1
            if whole and least <= value <= most:
                return int(value)
            wanted = f"expected a whole number from {least} to {most:,}" if whole else "expected a whole number"
            self.complain(name, f"{wanted}, got {shown(value)}", f"--set {name}={example}")
            return 1
        if default is None:
            self.ask(names[0], example)
            return 1
        return default

    def list_of(self, name: str, length: int | None = None) -> Sequence[Any] | None:
        """A list with a value for each layer; None where there is none."""
        value = self.values.get(name)
        if value is None or value == []:
            return None
        if not isinstance(value, list) or (length is not None and len(value) != length):
            size = counted(len(value), "value") if isinstance(value, list) else shown(value)
            self.complain(name, f"expected a list with a value for each of the {length} layers, got {size}")
            return None
        return value

    def mapping(self, name: str) -> dict[str, Any]:
        value = self.values.get(name)
        return value if isinstance(value, dict) else {}

    def ask(self, name: str, example: int | str, why: str = "") -> None:
        """Ask for a value that nothing in the file implies."""
        self.complain(name, f"is missing{', ' + why if why else ''}", f"Give it with --set {name}={example}")

    def complain(self, name: str, message: str, remedy: str = "") -> None:
        if remedy.startswith("--set"):
            remedy = f"Correct the file, or give it with {remedy}"
        self.diagnostics.append(Diagnostic(self.file, None, None, name, message, remedy))

    def check(self) -> None:
        if self.diagnostics:
            raise InputError(self.diagnostics)


def read_config(path: Path, given: dict[str, Any] | None = None) -> ModelConfig:
    """Read a config.json; `given` are values that it leaves open, by their names in it."""
    fix = "Give the config.json of a model on the Hugging Face Hub"
    try:
        text = read_input(path, MOST_BYTES, fix).decode("utf-8-sig")
        data = json.loads(text)
    except FileNotFoundError:
        raise input_error(path, "there is no such file", fix) from None
    except IsADirectoryError:
        raise input_error(path, "this is a directory", "Name the config.json in it") from None
    except json.JSONDecodeError as error:
        raise input_error(path, f"is not JSON: {error.msg}", fix, error.lineno, error.colno) from None
    except (OSError, ValueError, RecursionError) as error:
        reason = getattr(error, "strerror", None) or "it is not JSON text"
        raise input_error(path, f"cannot be read: {reason}", fix) from None
    if not isinstance(data, dict):
        raise input_error(path, f"expected an object with keys, got {shown(data)}", fix)
    return ModelConfig(str(path), data, given)


def parse_given(settings: Sequence[str]) -> dict[str, Any]:
    """Values of the form key=value; a value is JSON where it can be, else text."""
    given = {}
    for setting in settings:
        name, equals, value = setting.partition("=")
        if not equals or not name.strip():
            raise input_error("--set", f"expected key=value, got {shown(setting)}", "Write --set num_key_value_heads=8")
        try:
            given[name.strip()] = json.loads(value)
        except ValueError:
            given[name.strip()] = {"True": True, "False": False, "None": None}.get(value, value)
    return given
