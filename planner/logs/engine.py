"""Where expressions run: DuckDB inside this process, or Spark on this machine or a cluster; both read staged Parquet.

Logs are read in pieces by one process and staged as Parquet, so that every engine sees the same whole numbers; what
needs sorting and grouping of all requests is left to the engine, which may use the disk.
"""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from planner.io.errors import input_error, shown
from planner.logs.reading.requests import NO_ID, Requests
from solvers.backends.clock import Stopped, check, stop_is_asked

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd

LOOK_EVERY_S = 0.1
"""at the clock, while a query runs"""
DUCKDB_MEMORY = "900MB"
SPARK_MEMORY, SPARK_PARTITIONS = "2g", 64
"""of local mode: the heap of its one process, and parts of a sort, of which small ones are put together"""
FILE_ROWS = 2_000_000
MONDAY_US = 4 * 86_400_000_000
"""the first Monday after 1970 began, where a log without dates is taken to start"""
MINUTE_US = 60_000_000
DUCKDB, SPARK = "duckdb", "spark"


def check_engine(name: str) -> None:
    """Refuse an engine that is not known or not installed, before anything is read."""
    if name != DUCKDB and name != SPARK and not re.fullmatch(r"spark://[\w.-]+(:\d+)?|local\[[\d*]+\]", name):
        raise input_error("--engine", f"there is no engine {shown(name)}", "Use duckdb, spark or spark://host:port")
    try:
        import duckdb  # noqa: F401
        import ibis  # noqa: F401
        import pyarrow  # noqa: F401
    except ImportError as error:
        message = f"reading demand from logs needs {error.name}, which is not installed"
        raise input_error("fleetplan demand", message, "Install it: pip install 'fleetplan[logs]'") from None
    if name != DUCKDB:
        try:
            import pyspark  # noqa: F401
        except ImportError:
            message = "needs pyspark, which is not installed"
            raise input_error("--engine spark", message, "Install it: pip install 'fleetplan[spark]'") from None
        from shutil import which

        if not os.environ.get("JAVA_HOME") and which("java") is None:
            message = "needs Java 17, and there is no command 'java'"
            raise input_error("--engine spark", message, "Install it, such as openjdk-17-jre-headless") from None


@contextmanager
def connected(name: str, work: Path) -> Iterator[Any]:
    """A connection whose temporary files stay in the work folder."""
    import ibis

    if name == DUCKDB:
        options = {"memory_limit": DUCKDB_MEMORY, "temp_directory": str(work), "preserve_insertion_order": False}
        connection = ibis.duckdb.connect(":memory:", **options)
        try:
            with _stopped_with_us(connection.con):
                yield connection
        except Exception as error:
            if stop_is_asked():  # DuckDB has an error of its own for a query that is ended
                raise Stopped from error
            raise
        finally:
            connection.disconnect()
        return
    from pyspark.sql import SparkSession

    master = "local[*]" if name == SPARK else name
    builder = SparkSession.builder.master(master).appName("fleetplan demand")
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.execution.arrow.pyspark.enabled": "true",  # else rows come and go one by one, and joins are sorted
        "spark.local.dir": str(work),
        "spark.log.level": "ERROR",
    }
    if name == SPARK:
        settings |= {"spark.driver.memory": SPARK_MEMORY, "spark.sql.shuffle.partitions": str(SPARK_PARTITIONS)}
    try:
        for key, value in settings.items():
            builder = builder.config(key, value)
        session = builder.getOrCreate()
    except Exception as error:  # whatever Java says, in its own words
        reason = str(error).split("\n")[0][:160]
        raise input_error("--engine", f"Spark at {shown(master)} does not start: {reason}", "Check it") from None
    try:
        yield ibis.pyspark.connect(session)
    finally:
        session.stop()


@contextmanager
def _stopped_with_us(duckdb: Any) -> Iterator[None]:
    """End a query where somebody wants all work to end: it cannot look for itself."""
    over = threading.Event()

    def watch() -> None:
        while not over.wait(LOOK_EVERY_S):
            if stop_is_asked():
                duckdb.interrupt()

    threading.Thread(target=watch, daemon=True).start()
    try:
        yield
    finally:
        over.set()


def _give_back_memory() -> None:
    """Hand what reading has freed to the system, before the engine asks for its own."""
    import ctypes

    import pyarrow as pa

    pa.default_memory_pool().release_unused()
    with suppress(OSError, AttributeError):  # of the C library of most Linux systems
        ctypes.CDLL(None).malloc_trim(0)


class Stage:
    """Requests on their way to Parquet files that engines read; names are staged as numbers."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.rows = 0
        self.codes: dict[str, int] = {}
        """numbers of models and of what logs are split by"""
        self.spans: dict[int, tuple[int, int]] = {}
        """first and last time of the requests without an id, by file"""
        self._writer: Any = None

    def add(self, part: Requests) -> None:
        check()
        import numpy as np
        import pyarrow as pa
        import pyarrow.parquet as pq

        count = len(part.time_us)
        if not count:
            return
        time_us = part.time_us if part.dated else part.time_us + MONDAY_US
        table = pa.table({
            "row": np.arange(self.rows, self.rows + count, dtype=np.int64),
            "time_us": time_us,
            "minute": time_us // MINUTE_US,
            "prompt": part.prompt,
            "output": part.output,
            "cached": part.cached,
            "id": part.id,
            "file": np.full(count, part.file, dtype=np.int32),
            "key": self._coded(part.key),
            "model": self._coded(part.model),
        })  # fmt: skip
        without_id = time_us[part.id == NO_ID]
        if len(without_id):
            low, high = self.spans.get(part.file, (without_id[0], without_id[0]))
            self.spans[part.file] = (min(low, int(without_id.min())), max(high, int(without_id.max())))
        if self._writer is None or self.rows % FILE_ROWS + count > FILE_ROWS:
            self.close()
            self._writer = pq.ParquetWriter(self.folder / f"requests-{self.rows:012d}.parquet", table.schema)
        self._writer.write_table(table)
        self.rows += count

    def _coded(self, values: pd.Series) -> np.ndarray:
        import numpy as np
        import pandas as pd

        places, names = pd.factorize(values)
        codes: np.ndarray = np.array([self.code(str(name)) for name in names], dtype=np.int32)[places]
        return codes

    def code(self, name: str) -> int:
        return self.codes.setdefault(name, len(self.codes))

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()
            self._writer = None

    def table(self, connection: Any) -> Any:
        self.close()
        _give_back_memory()
        return connection.read_parquet(str(self.folder / "requests-*.parquet"))
