"""What every result of a public function can do: say in one line what it is, give its tables to pandas, save itself."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from planner.io import upwards

if TYPE_CHECKING:
    import pandas as pd


class Result:
    """A result shows itself as the reports do, which are imported once somebody looks at it."""

    __slots__ = ()

    def frames(self) -> list[str]:
        """Names of the tables of this result."""
        return list(upwards.reports().tables_of(self))

    def frame(self, name: str) -> pd.DataFrame:
        """One table, with the columns and values of its CSV file."""
        return upwards.reports().frame_of(self, name)

    def save(self, path: Path | str) -> Path:
        """Write the result in the format that the name ends in: .json and .xlsx, and .html, .md where it has them."""
        return upwards.reports().save(self, Path(path))

    def _repr_html_(self) -> str:
        """For notebooks."""
        return upwards.reports().fragment_of(self)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({upwards.reports().line_of(self)})"

    def __str__(self) -> str:
        return repr(self)
