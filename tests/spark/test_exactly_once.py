"""The sink writes micro-batches exactly once even if Spark repeats them."""

import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException

from samsarrow import Admin
from support.exactly_once import SINKS, Copy
from support.kafka import KafkaServer
from support.streams import produce

NewTopicName = Callable[..., str]


@pytest.fixture(params=SINKS)
def copy(
    request: pytest.FixtureRequest, spark: Any, kafka: KafkaServer, new_topic: NewTopicName, tmp_path: Path
) -> Copy:
    if request.param == "samsarrow-jvm":
        request.getfixturevalue("built")
    return Copy(spark, kafka, new_topic, tmp_path / "checkpoint", request.param)


def test_repeated_batch_is_skipped(copy: Copy, kafka: KafkaServer) -> None:
    produce(kafka, copy.come, {0: ["a", "b"], 1: ["c"]})
    copy.run()
    copy.forget(copy.first)
    copy.run()
    produce(kafka, copy.come, {0: ["d"]})
    copy.run()
    assert copy.values() == Counter("abcd")


def test_partly_written_batch_is_completed(copy: Copy, kafka: KafkaServer, tmp_path: Path) -> None:
    produce(kafka, copy.come, {0: ["a", "b"], 1: ["c", "bad"]})
    with pytest.raises(StreamingQueryException):
        copy.run("key", "if(cast(value as string) = 'bad', raise_error('on purpose'), cast(value as string)) value")
    copy.run()
    assert copy.values() == Counter({"a": 1, "b": 1, "c": 1, "bad": 1})


def test_replay_with_other_rows_is_an_error(copy: Copy, kafka: KafkaServer) -> None:
    produce(kafka, copy.come, {0: ["a", "b"], 1: ["c"]})
    copy.run()
    copy.forget(copy.first)
    with pytest.raises(StreamingQueryException, match=rf"micro-batch {copy.first} .*the same rows in the same tasks"):
        copy.run(where="offset = 0")


def test_restored_older_checkpoint_is_an_error(copy: Copy, kafka: KafkaServer, tmp_path: Path) -> None:
    produce(kafka, copy.come, {0: ["a"]})
    copy.run()
    shutil.copytree(copy.folder, older := tmp_path / "older")
    for value in "bc":
        produce(kafka, copy.come, {0: [value]})
        copy.run()
    produce(kafka, copy.come, {0: ["d"]})
    shutil.rmtree(copy.folder)
    older.rename(copy.folder)
    with pytest.raises(
        StreamingQueryException, match=rf"at micro-batch {copy.first + 1}, but .* micro-batch {copy.first + 2} already"
    ):
        copy.run()
    assert copy.values() == Counter("abc")


def test_restored_older_checkpoint_fails_tasks_without_marker(copy: Copy, kafka: KafkaServer, tmp_path: Path) -> None:
    """Partition 1 has no rows before the checkpoint is restored. Only the driver's marker shows that its rows are
    outdated.
    """
    produce(kafka, copy.come, {0: ["a"], 1: ["b"]})
    copy.run(where="partition = 0")
    shutil.copytree(copy.folder, older := tmp_path / "older")
    for value in "cd":
        produce(kafka, copy.come, {0: [value]})
        copy.run(where="partition = 0")
    produce(kafka, copy.come, {1: ["e"]})
    shutil.rmtree(copy.folder)
    older.rename(copy.folder)
    with pytest.raises(StreamingQueryException, match=rf"micro-batch {copy.first + 2} already"):
        copy.run(where="partition = 1")
    assert copy.values() == Counter("acd")


def test_tasks_without_rows_write_no_marker(copy: Copy, kafka: KafkaServer) -> None:
    produce(kafka, copy.come, {0: ["a"], 1: ["b"]})
    copy.run(where="partition = 0")
    copy.forget(copy.first)
    copy.run(where="partition = 0")
    assert copy.values() == Counter("a")
    with Admin(bootstrap_servers=kafka.bootstrap_servers) as admin:
        groups = [name for name in admin.list_groups() if name.startswith("samsarrow-spark-")]
        notes = [admin.fetch_offsets(name) for name in groups]
    mine = [at for note in notes for tp, at in note.items() if tp.topic == copy.gone and at]
    assert {at.offset for at in mine} == {copy.first + 1}
    # One marker is from the task with rows, the other from the driver.
    assert sorted("tasks" in at.metadata for at in mine) == [False, True]


def test_write_outside_of_a_micro_batch_is_rejected() -> None:
    from samsarrow.exceptions import KafkaError
    from samsarrow.spark.exactly_once import TaskId

    with pytest.raises(KafkaError, match=r"the number of the micro-batch here\. Nothing was written"):
        TaskId.current()


def test_foreach_batch_with_two_sinks(copy: Copy, spark: Any, kafka: KafkaServer) -> None:
    """Two sinks write one micro-batch with different prefixes. The micro-batch is repeated after the first sink has
    written it.
    """
    servers = {"kafka.bootstrap.servers": kafka.bootstrap_servers}
    failing = [True]

    def write(batch: Any, _: int) -> None:
        for name, column in (("plain", "value"), ("upper", "upper(cast(value as string)) value")):
            writer = batch.selectExpr("key", column).write.format(copy.sink).options(**servers, topic=copy.gone)
            writer.options(exactlyOnce="true", transactionalIdPrefix=name).mode("append").save()
            if failing:
                raise RuntimeError(failing.pop())

    produce(kafka, copy.come, {0: ["a", "b"], 1: ["c"]})
    for _ in range(2):
        frame = spark.readStream.format("samsarrow-python").options(**servers, subscribe=copy.come)
        writer = frame.option("startingOffsets", "earliest").load().writeStream.foreachBatch(write)
        query = writer.option("checkpointLocation", str(copy.folder)).trigger(availableNow=True).start()
        if failing:
            with pytest.raises(StreamingQueryException):
                query.awaitTermination(120)
        else:
            assert query.awaitTermination(120)
    assert copy.values() == Counter("abcABC")
