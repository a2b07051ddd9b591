"""Every partitioner chooses the same partition for each key as the Java client and librdkafka."""

import random
import struct
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import confluent_kafka as ck
import pyarrow as pa
import pytest

from samsarrow import Admin, Consumer, Producer
from samsarrow.testing import Broker
from support.kafka import DEFAULT_VERSION, KafkaServer, KafkaUnavailableError, classpath

PARTITIONS = 97
PROGRAM = Path(__file__).parent.parent / "support" / "java" / "Partitions.java"


def random_keys() -> list[bytes]:
    """10,000 keys: all lengths up to 40 bytes, including the empty key, and every byte value."""
    rng = random.Random(11)
    return [b"", *(rng.randbytes(rng.randrange(41)) for _ in range(9_999))]


KEYS = random_keys()
Placed = dict[int, int]


@pytest.fixture(scope="module")
def servers() -> Iterator[str]:
    with Broker() as broker:
        yield broker.bootstrap_servers


@pytest.fixture
def topic(servers: str, request: pytest.FixtureRequest) -> str:
    name = "t" + "".join(c if c.isalnum() else "-" for c in request.node.name)
    with Admin(bootstrap_servers=servers) as admin:
        admin.create_topics([name], num_partitions=PARTITIONS)
    return name


def placed(servers: str, topic: str, count: int) -> Placed:
    """Returns the partition of each record by the number in its value."""
    results: Placed = {}
    with Consumer(bootstrap_servers=servers, auto_offset_reset="earliest") as consumer:
        consumer.assign(consumer.partitions_for(topic))
        while len(results) < count:
            batch = consumer.poll(10)
            assert batch.num_rows, f"{len(results)} of {count} records"
            values = [struct.unpack(">I", value)[0] for value in batch["value"].to_pylist()]
            results.update(zip(values, batch["partition"].to_pylist(), strict=True))
    return results


def numbers(count: int) -> list[bytes]:
    return [struct.pack(">I", number) for number in range(count)]


def ours(servers: str, topic: str, partitioner: str, keys: list[bytes | None], *, arrow: bool) -> Placed:
    with Producer(bootstrap_servers=servers, partitioner=partitioner) as producer:
        if arrow:
            data = pa.record_batch(
                {"key": pa.array(keys, pa.binary()), "value": pa.array(numbers(len(keys)), pa.binary())}
            )
            producer.send_batch(topic, data).result(30)
        else:
            for key, value in zip(keys, numbers(len(keys)), strict=True):
                producer.send(topic, value, key)
    return placed(servers, topic, len(keys))


def librdkafka(servers: str, topic: str, partitioner: str, keys: list[bytes | None]) -> Placed:
    producer = ck.Producer({"bootstrap.servers": servers, "partitioner": partitioner})
    for key, value in zip(keys, numbers(len(keys)), strict=True):
        producer.produce(topic, value, key)
    assert producer.flush(30) == 0
    return placed(servers, topic, len(keys))


@pytest.mark.parametrize("arrow", [True, False], ids=["arrow", "rows"])
def test_partitions_match_java(servers: str, topic: str, arrow: bool) -> None:
    try:
        classpath(DEFAULT_VERSION)
    except KafkaUnavailableError as reason:
        pytest.skip(str(reason))
    command = KafkaServer().java(str(PROGRAM), str(PARTITIONS))
    lines = "".join(key.hex() + "\n" for key in KEYS)
    output = subprocess.run(command, input=lines, capture_output=True, text=True, timeout=120, check=True).stdout
    java = dict(enumerate(int(line) for line in output.split()))
    assert len(java) == len(KEYS)
    assert ours(servers, topic, "murmur2", list(KEYS), arrow=arrow) == java


@pytest.mark.parametrize("arrow", [True, False], ids=["arrow", "rows"])
@pytest.mark.parametrize("partitioner", ["consistent", "consistent_random", "murmur2_random", "fnv1a", "fnv1a_random"])
def test_partitions_match_librdkafka(servers: str, topic: str, partitioner: str, arrow: bool) -> None:
    # `consistent_random` treats an empty key as no key, and partitioners that are not random send null keys to one
    # partition.
    keys: list[bytes | None] = [key for key in KEYS if key or partitioner != "consistent_random"]
    if not partitioner.endswith("random"):
        keys += [None] * 3
    mine = ours(servers, topic, partitioner, keys, arrow=arrow)
    with Admin(bootstrap_servers=servers) as admin:
        admin.create_topics([topic + "-theirs"], num_partitions=PARTITIONS)
    assert mine == librdkafka(servers, topic + "-theirs", partitioner, keys)


@pytest.mark.parametrize("arrow", [True, False], ids=["arrow", "rows"])
def test_round_robin_ignores_keys(servers: str, topic: str, arrow: bool) -> None:
    count = PARTITIONS * 20
    result = ours(servers, topic, "round_robin", [b"same"] * count, arrow=arrow)
    assert set(Counter(result.values()).values()) == {20}


@pytest.mark.parametrize("arrow", [True, False], ids=["arrow", "rows"])
def test_partitioner_ignore_keys(servers: str, topic: str, arrow: bool) -> None:
    with Producer(bootstrap_servers=servers, partitioner_ignore_keys=True, linger_ms=50) as producer:
        if arrow:
            keys = pa.array(KEYS[:1000], pa.binary())
            producer.send_batch(topic, pa.record_batch({"key": keys, "value": pa.array(numbers(1000), pa.binary())}))
        else:
            for key, value in zip(KEYS[:1000], numbers(1000), strict=True):
                producer.send(topic, value, key)
    result = placed(servers, topic, 1000)
    # If the keys were hashed, the records would be spread over all partitions. Without keys, a whole batch goes to one
    # partition.
    assert len(set(result.values())) < 10
