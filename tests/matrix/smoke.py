"""Smoke test for any version of Python and pyarrow with the embedded broker; run by the Python under test.

Requires only samsarrow, pyarrow and click. Raises if a check fails; prints the versions it ran on.
"""

import sys

import pyarrow as pa

import samsarrow
from samsarrow import Admin, Consumer, Producer, TopicPartition
from samsarrow.testing import Broker

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


def equal(actual: object, expected: object) -> None:
    if actual != expected:
        raise AssertionError(f"found {actual!r:.300}, expected {expected!r:.300}")


def read(consumer: Consumer, count: int) -> pa.Table:
    batches: list[pa.RecordBatch] = []
    while sum(b.num_rows for b in batches) < count:
        batch = consumer.poll(10)
        assert batch.num_rows, f"{count} rows, and no more came"
        batches.append(batch)
    return pa.Table.from_batches([b.drop_columns(["topic"]) for b in batches])


def main() -> None:
    rows = pa.table(
        {
            "key": [b"k%d" % i for i in range(100)],
            "value": [None if i % 3 == 0 else b"%d" % i for i in range(100)],
            "headers": [[{"key": "h", "value": b"x"}]] * 100,
        },
        schema=pa.schema(
            [
                ("key", pa.binary()),
                ("value", pa.binary()),
                ("headers", pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))),
            ]
        ),
    )
    with Broker(topics=dict.fromkeys(CODECS, 1) | {"t": 1}) as broker:
        servers = broker.bootstrap_servers
        for codec in CODECS:
            with Producer(bootstrap_servers=servers, compression_type=codec) as producer:
                producer.send_batch(codec, rows).result(10)
            with Consumer(bootstrap_servers=servers, include_headers=True, auto_offset_reset="earliest") as consumer:
                consumer.assign([TopicPartition(codec, 0)])
                result = read(consumer, 100)
                equal(result.select(["key", "value", "headers"]).to_pylist(), rows.to_pylist())
        with Producer(bootstrap_servers=servers, transactional_id="one") as producer:
            with producer.transaction():
                producer.send("t", b"yes")
            producer.begin_transaction()
            producer.send("t", b"no")
            producer.abort_transaction()
        for layout in ("binary", "view"):
            options = {"group_id": layout, "isolation_level": "read_committed", "layout": layout}
            with Consumer(bootstrap_servers=servers, auto_offset_reset="earliest", **options) as consumer:
                consumer.subscribe(["t"])
                equal(read(consumer, 1)["value"].to_pylist(), [b"yes"])
                consumer.commit()
        with Admin(bootstrap_servers=servers) as admin:
            equal(sorted(admin.list_groups()), ["binary", "view"])
    kept = samsarrow.decode_batches(samsarrow.encode_batches(rows, compression="zstd"))
    equal(kept["key"].to_pylist(), rows["key"].to_pylist())
    print(sys.version.split()[0], pa.__version__)


if __name__ == "__main__":
    main()
