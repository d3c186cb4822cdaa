"""What a new user starts from: a commented demand file that runs, and its schema."""

from __future__ import annotations

import json
from importlib import resources
from pathlib import Path

from planner.io.errors import InputError, input_error
from planner.io.files import check_targets, write_whole
from planner.io.input_files import read_input

SCHEMA_FILE = "fleetplan.schema.json"


def starter_text() -> str:
    return (resources.files("planner.data") / "starter.yaml").read_text(encoding="utf-8")


def demand_schema_text() -> str:
    """The shipped JSON schema of demand files."""
    return (resources.files("planner.data") / "demand.schema.json").read_text(encoding="utf-8")


def make_demand_schema() -> str:
    """Make the schema anew from the classes; `python -m planner.case.demand.starter` writes it."""
    from planner.case.demand.schema import DemandFile
    from planner.io.validation import WithDescriptions

    schema = DemandFile.model_json_schema(schema_generator=WithDescriptions)
    schema = {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema, "title": "fleetplan demand file"}
    return json.dumps(schema, indent=1) + "\n"


def write_starter(path: Path, force: bool) -> list[Path]:
    """Write the demand file and, beside it, the schema that its first line names; a schema like it stays as it is."""
    schema = path.parent / SCHEMA_FILE
    check_targets({"the demand file": path, "the schema": schema}, [])
    texts = {path: starter_text(), schema: demand_schema_text()}
    if _holds(schema, texts[schema]):
        del texts[schema]
    for file in texts:
        if file.exists() and not force:
            remedy = "Choose another name, or add --force" if file == path else "Move it away, or add --force"
            raise input_error(file, "exists already", remedy)
    for file, text in texts.items():
        write_whole(file, text)
    return list(texts)


def _holds(path: Path, text: str) -> bool:
    try:
        return read_input(path, 2 * len(text)) == text.encode("utf-8")
    except (OSError, InputError):
        return False


if __name__ == "__main__":
    write_whole(Path(__file__).parents[2] / "data" / "demand.schema.json", make_demand_schema())
