"""Files that an input file names: found beside it and, where a root is given, never outside of it."""

from __future__ import annotations

import os
from pathlib import Path

from planner.io.errors import InputError, input_error, shown
from planner.io.errors import Path as Keys
from planner.io.strict_yaml import Document


class NamedFiles:
    """Resolves names, and remembers in `paths` what they stand for."""

    def __init__(self, root: Path | None = None) -> None:
        self.root = root
        self.paths: list[Path] = []

    def beside(self, document: Document, keys: Keys, name: str) -> Path:
        """The file that a key of a document names; raises InputError where it lies outside of the root."""
        file = Path(document.file).parent / name
        if not self._inside(file):
            message = f"{shown(name, 60)} lies outside of {shown(str(self.root), 60)}"
            raise InputError([document.diagnostic(keys, message, "Keep it in that folder, or change --root")])
        self.paths.append(file)
        return file

    def check_given(self, file: Path | str) -> None:
        """Refuse a link that leads out of the root, where the file itself was named by the user and not by a file."""
        if self.root is None or self._inside(Path(file)):
            return
        here = Path(os.path.abspath(file))
        if any(here.is_relative_to(root) for root in (os.path.abspath(self.root), os.path.realpath(self.root))):
            message = f"is a link that leads out of {shown(str(self.root), 60)}"
            raise input_error(file, message, "Copy the file, or change --root")

    def _inside(self, file: Path) -> bool:
        if self.root is None:
            return True
        try:
            return Path(os.path.realpath(file)).is_relative_to(os.path.realpath(self.root))
        except (OSError, ValueError):  # a name that no file can have
            return False
