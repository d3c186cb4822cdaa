"""What every result of a public function can do: say in one line what it is, give its tables to pandas, save itself."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas as pd

    from planner.reports.results import View


class Result:
    """A result shows itself as the reports do, which are imported once somebody looks at it."""

    __slots__ = ()

    def frames(self) -> list[str]:
        """Names of the tables of this result."""
        return [table.name for table in self._view().all_tables()]

    def frame(self, name: str) -> pd.DataFrame:
        """One table, with the columns and values of its CSV file."""
        from planner.reports.results import frame_of

        return frame_of(self, name)

    def save(self, path: Path | str) -> Path:
        """Write the result in the format that the name ends in: .json and .xlsx, and .html, .md where it has them."""
        from planner.reports.results import save

        return save(self, Path(path))

    def _view(self) -> View:
        from planner.reports.results import view_of

        return view_of(self)

    def _repr_html_(self) -> str:
        """For notebooks."""
        from planner.reports.results import fragment_of

        return fragment_of(self)

    def __repr__(self) -> str:
        from planner.reports.results import line_of

        return f"{type(self).__name__}({line_of(self)})"

    def __str__(self) -> str:
        return repr(self)
