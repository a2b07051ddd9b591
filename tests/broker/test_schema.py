"""The schema of polled batches is the same with and without rows."""

import pyarrow as pa
import pytest

from samsarrow import Consumer, Producer, TopicPartition

TP = TopicPartition("t", 0)
BASE = ["key", "value", "topic", "partition", "offset", "timestamp", "timestamp_type"]


@pytest.mark.parametrize("layout", ["binary", "view"])
@pytest.mark.parametrize(
    ("options", "names"),
    [
        ({}, BASE),
        ({"include_headers": True}, [*BASE, "headers"]),
        ({"include_leader_epoch": True}, [*BASE, "leader_epoch"]),
        ({"include_headers": True, "include_leader_epoch": True}, [*BASE, "headers", "leader_epoch"]),
    ],
    ids=lambda value: "+".join(value) if isinstance(value, dict) else "",
)
def test_empty_and_full_batches_have_one_schema(servers, options, names, layout):
    with (
        Producer(bootstrap_servers=servers) as producer,
        Consumer(bootstrap_servers=servers, auto_offset_reset="earliest", layout=layout, **options) as consumer,
    ):
        consumer.assign([TP])
        empty = consumer.poll(0.05)
        producer.send("t", b"v", headers=[("h", b"1"), ("h", None)]).result(10)
        full = consumer.poll(10)
        full.validate(full=True)
        assert (empty.num_rows, full.num_rows) == (0, 1)
        assert empty.schema == full.schema == consumer.schema
        assert sorted(full.schema.names) == sorted(names)
        kind = pa.binary_view() if layout == "view" else pa.binary()
        assert [full.schema.field(n).type for n in ("key", "value")] == [kind, kind]
        assert full["value"].to_pylist() == [b"v"]
        if "headers" in names:
            assert full["headers"].to_pylist() == [[{"key": "h", "value": b"1"}, {"key": "h", "value": None}]]
        if "leader_epoch" in names:
            assert full["leader_epoch"].type == pa.int32()
            assert full["leader_epoch"].to_pylist()[0] >= 0


def test_rows_have_headers_if_the_schema_has(servers):
    with (
        Producer(bootstrap_servers=servers) as producer,
        Consumer(bootstrap_servers=servers, auto_offset_reset="earliest", include_headers=True) as consumer,
    ):
        producer.send("t", None, key=b"", headers=[("h", b"1"), ("h", None)], timestamp=5).result(10)
        consumer.assign([TP])
        (row,) = consumer.records(10)
    assert row == ("t", 0, 0, 5, 0, b"", None, [("h", b"1"), ("h", None)], None, None)


def test_batches_outlive_their_consumer(servers):
    with Producer(bootstrap_servers=servers) as producer:
        for i in range(100):
            producer.send("t", f"value {i} of those that are not inlined")
    with Consumer(bootstrap_servers=servers, auto_offset_reset="earliest", layout="view") as consumer:
        consumer.assign([TP])
        batches = []
        while sum(b.num_rows for b in batches) < 100:
            batches.append(consumer.poll(10))
    table = pa.Table.from_batches(batches)
    assert table["value"].to_pylist() == [f"value {i} of those that are not inlined".encode() for i in range(100)]
