"""The sinks of examples/delta and examples/iceberg, killed around commits: the tables have each record once."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from samsarrow import Consumer, Producer, TopicPartition
from samsarrow.testing import Broker
from support.examples import Program, copied, module

PARTITIONS = 3
# Number of kills at random times, in addition to those around commits.
KILLS = int(os.environ.get("SAMSARROW_KILLS", "0"))
FASTER = ("ROWS, SECONDS = 1_000_000, 30.0", "ROWS, SECONDS = 5000, 0.05")
# The first run of the sink is killed after writing data but before its commit, and the second run directly after its
# commit.
DELTA = """
import os, pathlib, signal

def die():
    os.kill(os.getpid(), signal.SIGKILL)

life = pathlib.Path(os.environ["LIVES"])
number = int(life.read_text())
life.write_text(str(number + 1))
real, calls = write_deltalake, []

def write_deltalake(table, rows, **options):
    calls.append(rows.num_rows)
    if number == 0 and len(calls) == 2:
        folder, parts = pathlib.Path(sys.argv[3]), rows.to_batches()
        before = len(list(folder.glob("*.parquet")))
        def batches():
            while len(list(folder.glob("*.parquet"))) == before:
                yield from parts
            die()
        rows = pa.RecordBatchReader.from_batches(rows.schema, batches())
        options["target_file_size"] = 1000
    real(table, rows, **options)
    if number == 1:
        die()
"""
ICEBERG = """
import os, pathlib, signal
from pyiceberg.catalog.sql import SqlCatalog

def die():
    os.kill(os.getpid(), signal.SIGKILL)

life = pathlib.Path(os.environ["LIVES"])
number = int(life.read_text())
life.write_text(str(number + 1))
real, calls = SqlCatalog.commit_table, []

def commit_table(self, *arguments):
    calls.append(1)
    if number == 0 and len(calls) == 2:
        die()
    done = real(self, *arguments)
    if number == 1:
        die()
    return done

SqlCatalog.commit_table = commit_table
"""


@pytest.fixture
def servers() -> Iterator[str]:
    with Broker(topics={"t": PARTITIONS, "other": 1}) as broker:
        yield broker.bootstrap_servers


class Feeder:
    """Sends 0, 1, 2 and so on in transactions, of which every third is aborted, until it is stopped."""

    def __init__(self, servers: str) -> None:
        self._servers, self.committed = servers, []
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Feeder:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    committed: list[int]

    def _run(self) -> None:
        with Producer(bootstrap_servers=self._servers, transactional_id="feeds") as producer:
            number = 0
            while not self._stop.wait(0.02):
                producer.begin_transaction()
                numbers = list(range(number, number + 40))
                rows = {"value": [str(i) for i in numbers], "partition": [i % PARTITIONS for i in numbers]}
                producer.send_batch("t", pa.table(rows), partition="partition")
                if number % 120 == 80:
                    producer.abort_transaction()
                else:
                    producer.commit_transaction()
                    self.committed += numbers
                number += 40

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()


def check(program: Program, servers: str, count: Callable[[], int], rows: Callable[[], pa.Table], lives: Path) -> None:
    """Kills the sink around two commits, then at random times, and checks the final table."""
    lives.write_text("0")
    with Feeder(servers) as feeder:
        program.start()
        for _ in range(2):
            # It kills itself.
            assert program.wait() == -9, program.output()
            program.start()
        for _ in range(KILLS):
            before = count()
            program.until(lambda before=before: count() > before)  # type: ignore[misc]
            program.restart()
        feeder.stop()
        try:
            program.until(lambda: count() >= len(feeder.committed), pause=0.1)
        finally:
            program.close()
    table = rows()
    assert sorted(int(v) for v in table["value"].to_pylist()) == feeder.committed
    for partition in range(PARTITIONS):
        mine = table.filter(pc.equal(table["partition"], partition))
        assert len(mine["offset"].unique()) == mine.num_rows
    assert lives.read_text() == str(3 + KILLS)


def example_rows(schema: pa.Schema, first: int) -> pa.Table:
    """Returns two rows of partition 0, with offsets from `first`."""
    rows = [
        {"value": b"%d" % i, "partition": 0, "offset": i, "timestamp": None, "key": None} for i in (first, first + 1)
    ]
    return pa.Table.from_pylist(rows, schema)


class TestDelta:
    @pytest.fixture
    def delta(self) -> Any:
        pytest.importorskip("deltalake", reason="deltalake is not installed")
        return module("delta/sink.py")

    def test_exactly_once_across_kills(
        self, delta: Any, servers: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        path = tmp_path / "table"
        monkeypatch.setenv("LIVES", str(tmp_path / "lives"))

        def count() -> int:
            return int(delta.DeltaTable(path).count())

        def rows() -> pa.Table:
            return delta.DeltaTable(path).to_pyarrow_table()

        script = copied("delta/sink.py", tmp_path, FASTER, first=DELTA)
        check(
            Program(script, servers, "t", str(path), imports=["samsarrow.consumer", "deltalake"]),
            servers,
            count,
            rows,
            tmp_path / "lives",
        )
        # Files of the interrupted commit are still in the folder.
        files = {file.name for file in path.glob("*.parquet")}
        assert files > {Path(uri).name for uri in delta.DeltaTable(path).file_uris()}

    def test_second_writer_is_rejected(self, delta: Any, tmp_path: Path) -> None:
        path, tp = str(tmp_path / "table"), TopicPartition("t", 0)
        delta.append(delta.open_table(path), example_rows(delta.SCHEMA, 0), {tp: 2})
        one, other, third = (delta.DeltaTable(path) for _ in range(3))
        delta.append(one, example_rows(delta.SCHEMA, 2), {tp: 4})
        with pytest.raises(Exception, match="Concurrent transaction"):
            delta.append(other, example_rows(delta.SCHEMA, 2), {tp: 4})
        # Commits of another topic, and table maintenance, cause no conflict.
        delta.append(third, example_rows(delta.SCHEMA, 0), {TopicPartition("u", 0): 2})
        kept = delta.DeltaTable(path)
        kept.optimize.compact()
        kept.create_checkpoint()
        result = delta.DeltaTable(path)
        assert result.to_pyarrow_table()["offset"].to_pylist().count(2) == 1
        assert [result.transaction_version(delta.application(TopicPartition(t, 0))) for t in "tuv"] == [4, 2, None]


class TestIceberg:
    @pytest.fixture
    def iceberg(self) -> Any:
        pytest.importorskip("pyiceberg.catalog.sql", reason="pyiceberg[sql-sqlite] is not installed")
        return module("iceberg/sink.py")

    @pytest.fixture
    def catalog(self, iceberg: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
        options = {"uri": f"sqlite:///{tmp_path}/catalog.db", "warehouse": f"file://{tmp_path}"}
        for name, value in options.items():
            # pyiceberg reads these variables when the programs import it.
            monkeypatch.setenv(f"PYICEBERG_CATALOG__DEFAULT__{name.upper()}", value)
        catalog = iceberg.load_catalog("default", **options)
        yield catalog
        catalog.close()

    def test_exactly_once_across_kills(
        self, iceberg: Any, catalog: Any, servers: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("LIVES", str(tmp_path / "lives"))

        def count() -> int:
            return int(catalog.load_table("shop.t").current_snapshot().summary["total-records"])

        def rows() -> pa.Table:
            return catalog.load_table("shop.t").scan().to_arrow()

        script = copied("iceberg/sink.py", tmp_path, FASTER, first=ICEBERG)
        program = Program(script, servers, "t", "shop.t", imports=["samsarrow.consumer", "pyiceberg.catalog.sql"])
        check(program, servers, count, rows, tmp_path / "lives")
        # Files of the interrupted commit are still in the folder.
        table = catalog.load_table("shop.t")
        files = {file.name for file in tmp_path.rglob("*.parquet")}
        assert files > {Path(task.file.file_path).name for task in table.scan().plan_files()}
        assert "commit.retry.num-retries" not in table.properties
        text = table.current_snapshot().summary["samsarrow.offsets.t"]
        with Consumer(bootstrap_servers=servers) as consumer:
            ends = consumer.end_offsets(consumer.partitions_for("t"))
        assert {int(p): o <= ends[TopicPartition("t", int(p))] for p, o in json.loads(text).items()} == dict.fromkeys(
            range(PARTITIONS), True
        )

    def test_second_writer_is_rejected(self, iceberg: Any, catalog: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        tp = TopicPartition("t", 0)
        first, second, third = (example_rows(iceberg.SCHEMA, offset) for offset in (0, 2, 4))
        iceberg.append(iceberg.open_table(catalog, "shop.t"), "t", first, {}, {tp: 2})
        one, other = catalog.load_table("shop.t"), catalog.load_table("shop.t")
        iceberg.append(one, "t", second, {tp: 2}, {tp: 4})
        with pytest.raises(RuntimeError, match=r"another program writes t to shop\.t"):
            iceberg.append(other, "t", second, {tp: 2}, {tp: 4})
        # Unrelated commits neither conflict nor hide the offsets.
        late = catalog.load_table("shop.t")
        catalog.load_table("shop.t").append(first)
        iceberg.append(late, "t", third, {tp: 4}, {tp: 6})
        table = catalog.load_table("shop.t")
        assert sorted(table.scan().to_arrow()["offset"].to_pylist()) == [0, 0, 1, 1, 2, 3, 4, 5]
        assert iceberg.next_to_read(table, "t") == {tp: 6}
        assert iceberg.next_to_read(table, "u") == {}

    def test_offsets_survive_expired_snapshots_and_follow_rollback(self, iceberg: Any, catalog: Any) -> None:
        table, tp = iceberg.open_table(catalog, "shop.t"), TopicPartition("t", 0)
        iceberg.append(table, "t", example_rows(iceberg.SCHEMA, 0), {}, {tp: 2})
        first = table.current_snapshot().snapshot_id
        iceberg.append(table, "t", example_rows(iceberg.SCHEMA, 2), {tp: 2}, {tp: 4})
        second = table.current_snapshot().snapshot_id
        table.manage_snapshots().rollback_to_snapshot(first).commit()
        assert iceberg.next_to_read(catalog.load_table("shop.t"), "t") == {tp: 2}
        iceberg.append(table, "t", example_rows(iceberg.SCHEMA, 2), {tp: 2}, {tp: 4})
        third = table.current_snapshot().snapshot_id
        table.append(example_rows(iceberg.SCHEMA, 0))
        table.maintenance.expire_snapshots().by_ids([first, second, third]).commit()
        result = catalog.load_table("shop.t")
        assert len(result.snapshots()) == 1
        assert iceberg.next_to_read(result, "t") == {tp: 4}
