"""Measures the seconds that the first query of a session takes: `python first.py SOURCE BOOTSTRAP RECORDS`."""

import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent.parent / "tests")]

import prebuilt  # noqa: E402
from pyspark import cloudpickle  # noqa: E402
from shapes import PREBUILT, VALUE_BYTES  # noqa: E402

from support.spark import local_session  # noqa: E402


def main(source: str, servers: str, records: int) -> None:
    cloudpickle.register_pickle_by_value(prebuilt)
    with tempfile.TemporaryDirectory() as folder:
        spark = local_session(Path(folder), spark_ui_showConsoleProgress="false")
        # Runs a query first, so that the start of the session is not measured.
        spark.range(1_000).selectExpr("sum(id)").collect()
        if source == PREBUILT:
            spark.dataSource.register(prebuilt.Prebuilt)
        start = time.perf_counter()
        options = {"kafka.bootstrap.servers": servers, "subscribe": "bench-plain"}
        options["endingOffsets"] = '{"bench-plain":{"0":1000,"1":1000}}'
        if source == PREBUILT:
            options = {"rows": str(min(records, 2_000))}
        frame = spark.read.format(source).options(**options).load()
        result = frame.selectExpr("sum(length(value)) s").collect()[0].s
        took = time.perf_counter() - start
        assert result == min(records, 2_000) * VALUE_BYTES, result
        spark.stop()
    print(took)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
