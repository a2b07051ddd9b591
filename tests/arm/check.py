"""Prints results of encoding and decoding as a JSON object; `make test-arm` compares the results of two machines.

Requires only the wheel and pyarrow. The codecs' encoders are the same code on every machine, so encoded bytes are
compared, too. The conformance records are included if they are present (CONTRIBUTING.md).
"""

import hashlib
import json
import os
import platform
import sys
import threading
from pathlib import Path

import pyarrow as pa

import samsarrow
from samsarrow import decode_batches, encode_batches

CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]
LAYOUTS = ["binary", "view"]
ROWS = 3000
ROOT = Path(__file__).resolve().parents[2]


def digest(data: bytes) -> str:
    """Returns the first half of the SHA-256 hash."""
    return hashlib.sha256(data).hexdigest()[:32]


def table() -> pa.RecordBatch:
    """Returns rows that use all attributes of records."""
    headers = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
    return pa.record_batch(
        {
            "key": pa.array([None if i % 3 == 0 else b"k%d" % (i % 50) for i in range(ROWS)], pa.binary()),
            "value": pa.array([None if i % 7 == 0 else b"value %d" % i * (i % 40) for i in range(ROWS)], pa.binary()),
            "timestamp": pa.array(
                [None if i % 11 == 0 else 1_600_000_000_000 + i * i for i in range(ROWS)], pa.timestamp("ms", "UTC")
            ),
            "headers": pa.array(
                [[{"key": f"h{j}", "value": None if j == 1 else b"x" * j} for j in range(i % 4)] for i in range(ROWS)],
                headers,
            ),
        }
    )


def decoded(data: bytes, layout: str) -> str:
    """Returns the rows, or the text of the error."""
    try:
        batch = decode_batches(data, layout=layout, include_headers=True, include_control=True)
    except samsarrow.KafkaError as error:
        return f"{type(error).__name__}: {error}"
    batch.validate(full=True)
    # Converts timestamps to integers, because Python cannot represent all timestamps of records.
    columns = [c.cast(pa.int64()) if pa.types.is_timestamp(c.type) else c for c in batch.columns]
    return f"{batch.num_rows} rows, {digest(repr([column.to_pylist() for column in columns]).encode())}"


def conformance() -> list[dict[str, object]]:
    """Returns test cases of other clients, if present."""
    folder = Path(os.environ.get("SAMSARROW_CONFORMANCE", ROOT.parent / "shared" / "conformance"))
    try:
        return [json.loads(line) for line in (folder / "records.jsonl").read_text().splitlines()]
    except FileNotFoundError:
        return []


def case_bytes(case: dict[str, object]) -> bytes:
    """Returns the wire bytes of a case."""
    parts = case.get("parts") or [[case["hex"], 1]]
    return b"".join(bytes.fromhex(text) * times for text, times in parts)  # type: ignore[attr-defined]


def through_a_broker() -> str:
    """Tests sockets, threads and the runtime with a round trip through a broker."""
    from samsarrow import Consumer, Producer, TopicPartition
    from samsarrow.testing import Broker

    # Leaves out rows without a timestamp, which would get the current time.
    sent = table()
    sent = sent.filter(sent["timestamp"].is_valid())
    with Broker(topics={"t": 1}) as broker:
        with Producer(bootstrap_servers=broker.bootstrap_servers, compression_type="zstd") as producer:
            producer.send_batch("t", sent, timestamp="timestamp").result(60)
        with Consumer(bootstrap_servers=broker.bootstrap_servers, include_headers=True) as consumer:
            consumer.assign([TopicPartition("t", 0)])
            consumer.seek_to_beginning()
            batches = []
            while sum(b.num_rows for b in batches) < sent.num_rows:
                batches.append(consumer.poll(timeout=60.0))
        rows = pa.Table.from_batches(batches).drop_columns(["topic"]).to_pylist()
        return digest(repr(rows).encode())


def main() -> None:
    """Prints all results."""
    results: dict[str, object] = {}
    for codec in CODECS:
        data = encode_batches(table(), timestamp="timestamp", compression=codec, batch_size=16_384)
        results[f"{codec}: encoded"] = f"{len(data)} bytes, {digest(data)}"
        damaged = bytearray(data)
        damaged[len(data) // 2] ^= 0x20
        for layout in LAYOUTS:
            rows = decoded(data, layout)
            assert rows.startswith(f"{ROWS} rows"), rows
            results[f"{codec}: {layout}"] = rows
            results[f"{codec}: {layout}, damaged"] = decoded(bytes(damaged), layout)
            results[f"{codec}: {layout}, cut off"] = decoded(data[: len(data) // 2], layout)
    cases = conformance()
    for case in cases:
        for layout in LAYOUTS:
            results[f"{case['id']}: {layout}"] = decoded(case_bytes(case), layout)
    results["broker"] = through_a_broker()
    result = f"{len(cases)} conformance records" if cases else "no conformance records (they are not on this machine)"
    results["summary"] = f"{len(CODECS)} codecs, {len(LAYOUTS)} layouts, {result}, one embedded broker"
    results["machine"] = platform.machine()
    json.dump(results, sys.stdout, indent=1)
    # Only daemon threads remain, such as the thread that forwards log lines, which runs until the process ends.
    assert [thread.name for thread in threading.enumerate() if not thread.daemon] == ["MainThread"]


main()
