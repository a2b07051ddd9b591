"""Random seeks, pauses and assignments during prefetching: each row returned is the next row of its partition."""

import random
from collections.abc import Callable

import pyarrow as pa
import pytest

from samsarrow import Consumer, Producer, TopicPartition
from support.kafka import KafkaServer

PARTITIONS = 30


def produce(kafka: KafkaServer, topic: str, choose: random.Random) -> None:
    """Values contain their partition, so that misplaced rows are detected."""
    with Producer(bootstrap_servers=kafka.bootstrap_servers, compression_type=choose.choice(["none", "lz4"])) as p:
        for _ in range(20):
            partitions = [choose.randrange(PARTITIONS) for _ in range(choose.randrange(1, 2000))]
            values = [b"%d " % partition * choose.randrange(1, 40) for partition in partitions]
            table = pa.table({"v": pa.array(values, pa.binary()), "p": pa.array(partitions, pa.int32())})
            p.send_batch(topic, table, value="v", partition="p").result(30)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"max_partition_fetch_bytes": 1000, "fetch_max_bytes": 5000},
        {"max_poll_records": 37, "queued_max_bytes": 20_000},
        # This Fetch version has neither sessions nor topic ids.
        {"api_version_fetch": 6, "layout": "view"},
    ],
    ids=["default", "small fetches", "small queue", "old fetch"],
)
def test_random_operations_return_each_row_once(
    kafka: KafkaServer, new_topic: Callable[..., str], options: dict[str, object]
) -> None:
    topic, choose = new_topic(PARTITIONS), random.Random(7)
    produce(kafka, topic, choose)
    all_of_them = [TopicPartition(topic, p) for p in range(PARTITIONS)]
    following = dict.fromkeys(all_of_them, 0)
    basic = {"auto_offset_reset": "earliest", "fetch_max_wait_ms": 20}
    with Consumer(bootstrap_servers=kafka.bootstrap_servers, **basic, **options) as consumer:
        ends = consumer.end_offsets(all_of_them)

        def poll(timeout: float) -> None:
            batch = consumer.poll(timeout)
            paused, assigned = consumer.paused(), consumer.assignment()
            columns = [batch.column(name).to_pylist() for name in ("partition", "offset", "value")]
            for partition, offset, value in zip(*columns, strict=True):
                tp = TopicPartition(topic, partition)
                assert (offset, int(value.split()[0])) == (following[tp], partition)
                assert tp in assigned
                assert tp not in paused
                following[tp] += 1

        def assign(partitions: list[TopicPartition]) -> None:
            back = set(partitions) - consumer.assignment()
            consumer.assign(partitions)
            for tp in back:
                consumer.seek(tp, following[tp])

        assign(all_of_them)
        for _ in range(200):
            tp = choose.choice(sorted(consumer.assignment()))
            match choose.choice(["seek", "seek", "pause", "resume", "assign", "", "", "", ""]):
                case "seek":
                    following[tp] = choose.randrange(following[tp] + 1)
                    consumer.seek(tp, following[tp])
                case "pause":
                    consumer.pause(tp)
                case "resume":
                    consumer.resume(*consumer.paused())
                case "assign":
                    assign(choose.sample(all_of_them, choose.randrange(5, PARTITIONS)))
            poll(0.02)
        assign(all_of_them)
        consumer.resume(*consumer.paused())
        for _ in range(100_000):
            if following == ends:
                break
            poll(10)
        assert following == ends
        assert {tp: consumer.position(tp) for tp in all_of_them} == ends
