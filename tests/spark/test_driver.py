"""The planner of the Python source, and the choice of the class for the installed version of Spark."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable
from pyspark.sql.types import StringType, StructType

from samsarrow import Admin, Producer
from samsarrow.exceptions import ClosedError, ConfigurationError, ForkError, UnknownTopicOrPartitionError
from samsarrow.spark import versions
from samsarrow.spark.datasource import KafkaDataSource
from samsarrow.spark.driver import Driver
from samsarrow.spark.options import ReadOptions
from samsarrow.spark.stream import KafkaStreamReader
from samsarrow.spark.stream_spark40 import Spark40StreamReader
from samsarrow.testing import Broker
from support.streams import wait_until

GIVEN = {"kafka.bootstrap.servers": "localhost:1", "subscribe": "t"}


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker(topics={"t": 2}) as broker:
        with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
            for n in range(14):
                producer.send("t", b"v", partition=n % 2)
        yield broker


def options(broker: Broker, *, streaming: bool = False, **more: str) -> ReadOptions:
    config = {"kafka.bootstrap.servers": broker.bootstrap_servers, "subscribe": "t", **more}
    return ReadOptions.parse(config, streaming=streaming)


def ends(a: int, b: int) -> dict[str, dict[str, int]]:
    return {"t": {"0": a, "1": b}}


def committed(broker: Broker) -> dict[int, int]:
    with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        return {tp.partition: at.offset for tp, at in admin.fetch_offsets("g").items() if at is not None}


def test_group_commits_do_not_block_the_query(broker: Broker) -> None:
    group = {"commitOffsets": "true", "kafka.group.id": "g", "startingOffsets": "earliest"}
    reader = KafkaStreamReader(options(broker, streaming=True, **group))
    assert reader.initialOffset() == ends(0, 0)
    broker.fail("OffsetCommit", delay=3)
    # The start of a query is not committed to the group.
    for end in (ends(0, 0), ends(1, 1)):
        reader.commit(end)
    wait_until(lambda: broker.requests("OffsetCommit") == 1)
    for end in (ends(1, 3), ends(2, 1)):
        reader.commit(end)
    assert committed(broker) == {}
    reader.stop()
    assert committed(broker) == {0: 2, 1: 1}, "it waited for what was under way"
    assert broker.requests("OffsetCommit") == 2, "of those that came meanwhile, the last one"


def test_spark40_reader_returns_all_available(broker: Broker) -> None:
    reader = Spark40StreamReader(options(broker, streaming=True))
    assert reader.latestOffset() == ends(7, 7)
    assert reader.initialOffset() == ends(7, 7)
    with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
        producer.send("t", b"v", partition=1)
    assert reader.latestOffset() == ends(7, 8)
    reader.stop()


def test_planner_raises_client_errors(broker: Broker) -> None:
    with pytest.raises(
        UnknownTopicOrPartitionError, match="option subscribe names topics or partitions that do not exist: u"
    ) as caught:
        Driver(options(broker, subscribe="t,u")).ranges("batch")
    assert caught.value.code == 3
    with (
        pytest.raises(ConfigurationError, match="t-1 would be read from offset 8"),
        Driver(options(broker, startingOffsets='{"t":{"0":1,"1":8}}')) as driver,
    ):
        driver.ranges("batch")
    with pytest.raises(ConfigurationError, match=r"there is no file /no/ca.pem on .*--files") as missing:
        Driver(options(broker, **{"kafka.security.protocol": "SSL", "kafka.ssl.ca.location": "/no/ca.pem"}))
    assert missing.value.__notes__[0].startswith("This is about ")


def test_planner_is_bound_to_its_process(broker: Broker) -> None:
    driver = Driver(options(broker))
    assert [len(item) for item in driver.ranges("batch")] == [7, 7]
    child = os.fork()
    if child == 0:
        code = 1
        try:
            driver.ranges("batch")
        except ForkError:
            code = 0
        finally:
            os._exit(code)
    assert os.waitpid(child, 0)[1] == 0
    driver.close()
    with pytest.raises(ClosedError):
        driver.ranges("batch")


def test_end_offsets_are_retried_after_failed_prefetch(broker: Broker) -> None:
    broker.fail("ListOffsets", error="TOPIC_AUTHORIZATION_FAILED", times=1)
    reader = KafkaStreamReader(options(broker, streaming=True, **{"fetchOffset.retryIntervalMs": "1"}))
    assert reader.latestOffset(ends(0, 0), ReadAllAvailable()) == ends(7, 7)
    reader.stop()


def test_broken_import_is_not_taken_for_spark40(monkeypatch: pytest.MonkeyPatch) -> None:
    assert versions.has_admission_control()
    source = KafkaDataSource({**GIVEN, "topic": "t"})
    schema = StructType().add("value", StringType())
    for module in ("stream", "stream_writer"):
        monkeypatch.setitem(sys.modules, f"samsarrow.spark.{module}", None)
    with pytest.raises(ImportError):
        source.streamReader(schema)
    with pytest.raises(ImportError):
        source.streamWriter(schema, overwrite=False)


def test_spark40_gets_compatible_classes(monkeypatch: pytest.MonkeyPatch) -> None:
    import pyspark.sql.datasource
    import pyspark.sql.streaming.datasource

    from samsarrow.spark.stream_writer_spark40 import Spark40StreamWriter

    source = KafkaDataSource({**GIVEN, "topic": "t"})
    schema = StructType().add("value", StringType())
    monkeypatch.delattr(pyspark.sql.streaming.datasource, "SupportsTriggerAvailableNow")
    monkeypatch.delattr(pyspark.sql.datasource, "DataSourceStreamArrowWriter")
    assert isinstance(source.streamReader(schema), Spark40StreamReader)
    assert isinstance(source.streamWriter(schema, overwrite=False), Spark40StreamWriter)
