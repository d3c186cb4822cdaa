"""Cells of a log as numbers: times in whatever unit and zone they are written, token counts, and which say nothing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from planner.logs.reading.ledger import Ledger

if TYPE_CHECKING:
    import pandas as pd

MOST_TOKENS, MOST_REQUESTS = 10**8, 10**10
BEYOND_FLOATS = r"^\s*[+-]?\d{309,}\s*$"
EARLIEST_US, LATEST_US = 1_262_304_000_000_000, 4_102_444_800_000_000
"""2010 and 2100: a time outside of these is a slip"""
OUTSIDE, UNDATED = "time before 2010 or after 2100", "time without a date, beside dates"
UNITS = {"s": 1e6, "ms": 1e3, "us": 1.0, "ns": 1e-3}
BLANK = ("", "nan", "na", "n/a", "null", "none", "-", "nat")
WITH_ZONE = r"(?:[zZ]|[+-]\d\d:?\d\d)\s*$"


@dataclass(frozen=True, eq=False)
class Cells:
    """Values of a column [row], and why some are none."""

    values: np.ndarray
    """int64; 0 where there is none"""
    wrong: dict[str, np.ndarray]
    """flags by reason; no row has two"""

    @property
    def good(self) -> np.ndarray:
        good: np.ndarray = ~np.logical_or.reduce(list(self.wrong.values()))
        return good


def _blank(raw: pd.Series) -> np.ndarray:
    """Whether there is nothing, in a series that is numbered from 0."""
    import pandas as pd

    blank: np.ndarray = raw.isna().to_numpy(copy=True)
    if not pd.api.types.is_numeric_dtype(raw) and not pd.api.types.is_datetime64_any_dtype(raw):
        text = raw[~blank].astype(str)
        short = text[text.str.len() <= 4]
        empty = short.str.strip().str.lower().isin(BLANK)
        blank[empty.index[empty].to_numpy()] = True
    return blank


def counts(raw: pd.Series, what: str, least: int = 0, whole: bool = True) -> Cells:
    """Whole numbers of tokens or, of requests by time, which rates turn into fractions, numbers as they are."""
    import pandas as pd

    raw = raw.reset_index(drop=True)
    blank = _blank(raw)
    number = np.full(len(raw), np.nan) if pd.api.types.is_bool_dtype(raw) else numbers(raw)
    most, limit = (MOST_TOKENS, "100 million") if whole else (MOST_REQUESTS, "10 billion")
    unreadable = ~blank & np.isnan(number)
    with np.errstate(invalid="ignore"):
        negative = number < 0
        huge = number > most
        few = ~negative & (number < least)
    ok = ~(blank | unreadable | negative | huge | few)
    values = np.where(ok, np.rint(number) if whole else number, 0).astype(np.int64 if whole else float)
    wrong = {
        f"no {what}": blank,
        f"unreadable {what}": unreadable,
        f"negative {what}": negative,
        f"{what} above {limit}": huge,
        f"0 {what}": few,
    }
    return Cells(values, {reason: flags for reason, flags in wrong.items() if flags.any() or reason == f"no {what}"})


def numbers(raw: pd.Series) -> np.ndarray:
    """Numbers; NaN where there is none."""
    import pandas as pd

    try:
        parsed = pd.to_numeric(raw, errors="coerce")
    except OverflowError:  # of a whole number beyond all floats, which is no text for pandas to coerce
        parsed = pd.to_numeric(raw.astype(str).str.replace(BEYOND_FLOATS, "inf", regex=True), errors="coerce")
    number: np.ndarray = parsed.to_numpy(dtype=float, na_value=np.nan, copy=True)
    return number


def times(raw: pd.Series, unit: str | None, ledger: Ledger, name: str) -> Cells:
    """Microseconds since 1970 in UTC; of a log without dates, since its own beginning.

    Numbers are seconds, milliseconds, microseconds or nanoseconds since 1970 by their size; too small ones are
    counted from the beginning of the log, in `unit` or seconds.
    """
    import pandas as pd

    raw = raw.reset_index(drop=True)
    blank = _blank(raw)
    if pd.api.types.is_datetime64_any_dtype(raw):
        number, us, read = np.full(len(raw), np.nan), _as_us(pd.to_datetime(raw, utc=True)), ~blank
    else:
        number = _numbers_among(raw)
        us, read = _from_numbers(number, unit, ledger, name)
        text = ~blank & np.isnan(number)
        if text.any():
            stamps = pd.to_datetime(raw[text].astype(str), errors="coerce", utc=True, format="ISO8601")
            us[text], read[text] = _as_us(stamps), stamps.notna().to_numpy()
            _note_zones(raw[text][stamps.notna()], ledger, name)
            late = text & ~read
            if late.any() and np.isnan(number).all():  # numbers further down
                number[late] = numbers(raw[late])
                us[late], read[late] = _from_numbers(number[late], unit, ledger, name)
    dated = np.isnan(number) | (np.abs(us) > 1e14)
    outside = read & dated & ((us < EARLIEST_US) | (us >= LATEST_US)) | read & ~dated & (us < 0)
    unreadable = ~blank & ~read
    undated = read & ~dated & ~outside
    undated &= (read & dated & ~outside).any()
    us[blank | unreadable | outside | undated] = 0
    return Cells(us, {"no time": blank, "unreadable time": unreadable, OUTSIDE: outside, UNDATED: undated})


def _numbers_among(raw: pd.Series) -> np.ndarray:
    """Numbers; NaN for all where the first rows are none, since trying them all takes as long as reading them."""
    import pandas as pd

    if np.isfinite(numbers(raw.head(200))).any() or pd.api.types.is_numeric_dtype(raw):
        return numbers(raw)
    return np.full(len(raw), np.nan)


def _as_us(stamps: pd.Series) -> np.ndarray:
    us: np.ndarray = stamps.dt.tz_localize(None).to_numpy().astype("datetime64[us]").astype(np.int64)
    return us


def _from_numbers(number: np.ndarray, unit: str | None, ledger: Ledger, name: str) -> tuple[np.ndarray, np.ndarray]:
    with np.errstate(invalid="ignore"):
        size = np.abs(number)
        read = np.isfinite(number) & (size < 4.2e18)
        by_size = {"ns": size >= 1e17, "us": (size >= 1e14) & (size < 1e17), "ms": (size >= 1e11) & (size < 1e14)}
        by_size["s"] = (size >= 1e9) & (size < 1e11)
    scaled = np.where(read, number, 0.0) * UNITS[unit or "s"]
    seen = []
    for name_of_unit, flags in by_size.items():
        flags = flags & read
        if unit is None and flags.any():
            scaled[flags] = number[flags] * UNITS[name_of_unit]
            seen.append(name_of_unit)
    if len(seen) > 1:
        ledger.note(f"{name}: times in {' and '.join(seen)} are mixed; each is read by its size")
    return np.rint(scaled).astype(np.int64), read


def _note_zones(text: pd.Series, ledger: Ledger, name: str) -> None:
    with_zone = text.head(2000).astype(str).str.contains(WITH_ZONE, regex=True)
    if with_zone.all():
        return
    if with_zone.any():
        ledger.note(f"{name}: times with and without a time zone are mixed; those without count as UTC")
    else:
        ledger.note(f"{name}: times have no time zone and count as UTC")
