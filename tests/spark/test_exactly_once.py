"""Micro-batches that Spark repeats, into a sink that must have them once."""

import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException

from samsarrow import Admin, Consumer
from support.kafka import KafkaServer
from support.streams import produce

NewTopicName = Callable[..., str]


class Copy:
    """A query that copies one topic into another, exactly once.

    Attributes:
        come: topic of two partitions that is read.
        gone: topic of two partitions that is written.
    """

    def __init__(self, spark: Any, kafka: KafkaServer, new_topic: NewTopicName, folder: Path) -> None:
        self.come, self.gone = new_topic(2), new_topic(2)
        self._spark, self._kafka, self.folder = spark, kafka, folder

    def run(self, *expressions: str, where: str = "true") -> None:
        servers = {"kafka.bootstrap.servers": self._kafka.bootstrap_servers}
        frame = self._spark.readStream.format("samsarrow").options(**servers, subscribe=self.come)
        frame = frame.option("startingOffsets", "earliest").load().where(where)
        frame = frame.selectExpr(*(expressions or ("key", "value")))
        writer = frame.writeStream.format("samsarrow").options(**servers, topic=self.gone, exactlyOnce="true")
        query = writer.option("checkpointLocation", str(self.folder)).trigger(availableNow=True).start()
        assert query.awaitTermination(60)

    def forget(self, batch: int) -> None:
        """Spark finds the micro-batch planned, and nobody knows whether it was done."""
        (self.folder / "commits" / str(batch)).unlink()
        (self.folder / "commits" / f".{batch}.crc").unlink(missing_ok=True)

    def values(self, isolation: str = "read_committed") -> Counter[str]:
        config = {"isolation.level": isolation, "auto.offset.reset": "earliest"}
        with Consumer(config, bootstrap_servers=self._kafka.bootstrap_servers) as consumer:
            consumer.assign(consumer.partitions_for(self.gone))
            return Counter(v.decode() for v in consumer.reader().read_all().column("value").to_pylist())


@pytest.fixture
def copy(spark: Any, kafka: KafkaServer, new_topic: NewTopicName, tmp_path: Path) -> Copy:
    return Copy(spark, kafka, new_topic, tmp_path / "checkpoint")


def test_a_repeated_batch_is_passed_over(copy: Copy, kafka: KafkaServer) -> None:
    produce(kafka, copy.come, {0: ["a", "b"], 1: ["c"]})
    copy.run()
    copy.forget(0)
    copy.run()
    produce(kafka, copy.come, {0: ["d"]})
    copy.run()
    assert copy.values() == Counter("abcd")


def test_a_batch_that_was_written_in_part_is_completed(copy: Copy, kafka: KafkaServer, tmp_path: Path) -> None:
    produce(kafka, copy.come, {0: ["a", "b"], 1: ["c", "bad"]})
    with pytest.raises(StreamingQueryException):
        copy.run("key", "if(cast(value as string) = 'bad', raise_error('on purpose'), cast(value as string)) value")
    copy.run()
    assert copy.values() == Counter({"a": 1, "b": 1, "c": 1, "bad": 1})


def test_other_rows_in_the_repetition_are_an_error(copy: Copy, kafka: KafkaServer) -> None:
    produce(kafka, copy.come, {0: ["a", "b"], 1: ["c"]})
    copy.run()
    copy.forget(0)
    with pytest.raises(StreamingQueryException, match=r"micro-batch 0 .*the same rows in the same tasks"):
        copy.run(where="offset = 0")


def test_a_checkpoint_restored_from_an_older_copy_is_an_error(copy: Copy, kafka: KafkaServer, tmp_path: Path) -> None:
    produce(kafka, copy.come, {0: ["a"]})
    copy.run()
    shutil.copytree(copy.folder, older := tmp_path / "older")
    for value in "bc":
        produce(kafka, copy.come, {0: [value]})
        copy.run()
    produce(kafka, copy.come, {0: ["d"]})
    shutil.rmtree(copy.folder)
    older.rename(copy.folder)
    with pytest.raises(StreamingQueryException, match=r"at micro-batch 1, but its task 0 has written micro-batch 2"):
        copy.run()
    assert copy.values() == Counter("abc")


def test_tasks_without_rows_leave_no_trace(copy: Copy, kafka: KafkaServer) -> None:
    produce(kafka, copy.come, {0: ["a"], 1: ["b"]})
    copy.run(where="partition = 0")
    copy.forget(0)
    copy.run(where="partition = 0")
    assert copy.values() == Counter("a")
    with Admin(bootstrap_servers=kafka.bootstrap_servers) as admin:
        groups = [name for name in admin.list_groups() if name.startswith("samsarrow-spark-")]
        notes = [admin.fetch_offsets(name) for name in groups]
    mine = [note for note in notes if any(tp.topic == copy.gone for tp in note)]
    assert [[at.offset for at in note.values() if at] for note in mine] == [[1]]


def test_outside_of_a_query_nothing_is_written() -> None:
    from samsarrow.exceptions import KafkaError
    from samsarrow.spark.exactly_once import Place

    with pytest.raises(KafkaError, match=r"does not tell here. Nothing was written"):
        Place.here()


def test_in_foreach_batch_too(copy: Copy, spark: Any, kafka: KafkaServer) -> None:
    """Two sinks of one micro-batch, by names of their own; the micro-batch is repeated after the first is written."""
    servers = {"kafka.bootstrap.servers": kafka.bootstrap_servers}
    failing = [True]

    def write(batch: Any, _: int) -> None:
        for name, column in (("plain", "value"), ("upper", "upper(cast(value as string)) value")):
            writer = batch.selectExpr("key", column).write.format("samsarrow").options(**servers, topic=copy.gone)
            writer.options(exactlyOnce="true", transactionalIdPrefix=name).mode("append").save()
            if failing:
                raise RuntimeError(failing.pop())

    produce(kafka, copy.come, {0: ["a", "b"], 1: ["c"]})
    for _ in range(2):
        frame = spark.readStream.format("samsarrow").options(**servers, subscribe=copy.come)
        writer = frame.option("startingOffsets", "earliest").load().writeStream.foreachBatch(write)
        query = writer.option("checkpointLocation", str(copy.folder)).trigger(availableNow=True).start()
        if failing:
            with pytest.raises(StreamingQueryException):
                query.awaitTermination(60)
        else:
            assert query.awaitTermination(60)
    assert copy.values() == Counter("abcABC")
