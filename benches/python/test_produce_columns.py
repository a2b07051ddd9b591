"""Sends an Arrow table with keys or partitions to a topic of several partitions, and measures codecs."""

import itertools
import zlib
from typing import Any

import numpy as np
import pytest

from clients import data
from clients.checksum import checksum
from clients.data import KEYS, PARTITIONS
from harness import RECORDS, cpu_us, create_topic, measured, medians, record, run_client, sections, turns
from support.kafka import KafkaServer

# samsarrow has its defaults in both cases.
CLIENTS = ("ours", "confluent", "confluent, defaults")
RUNS = 3
COUNT = RECORDS // 3
CODECS = ("none", "lz4", "zstd")
TITLES = {
    "keyed": f"{KEYS:,} keys",
    "placed": "a column of partitions",
    "placed_keyed": f"{KEYS:,} keys and a column of partitions",
}
_numbers = itertools.count()
# Clients take turns within one bench.
pytestmark = pytest.mark.timeout(900)


@pytest.mark.parametrize("codec", ["none", "lz4"])
@pytest.mark.parametrize("verb", TITLES)
def test_several_partitions(benchmark: Any, warm_kafka: KafkaServer, verb: str, codec: str) -> None:
    topics: dict[str, str] = {}

    def once() -> None:
        for client in turns(CLIENTS, RUNS):
            topics[client] = create_topic(warm_kafka, f"{verb}-{next(_numbers)}", PARTITIONS)
            result = run_client(client, verb, warm_kafka, topics[client], COUNT, codec=codec)
            assert result["rows"] == COUNT
            record(f"send_batch 100B {codec}, {TITLES[verb]}, {PARTITIONS} partitions", client, result)

    benchmark.pedantic(once, rounds=1)
    ours, *theirs = (run_client("confluent", "check_placed", warm_kafka, topics[c], COUNT) for c in CLIENTS)
    # If records have keys, librdkafka's hash determines the expected partitions.
    assert [ours] * len(theirs) == theirs
    assert ours == {"partitions": ours["partitions"], **expected(verb)}


def expected(verb: str) -> dict[str, Any]:
    sent = data.placed(data.table(COUNT))
    crcs = {name: checksum(sent.column(name).chunks)[1] for name in ("value", "key")}
    actual = {"rows": COUNT, "values": crcs["value"], "keys": crcs["key"], "ordered": True}
    if verb == "keyed":
        return actual
    where = zlib.crc32(sent.column("partition").to_numpy().astype(np.dtype("<i4")).tobytes())
    return {**actual, "keys": actual["keys"] if verb == "placed_keyed" else 0, "partitions": where}


def test_codecs(benchmark: Any, warm_kafka: KafkaServer) -> None:
    """Cost of sending with a codec, beside the cost of the codec alone, which is measured by encoding without
    sending.
    """
    kind = "json"
    sent, encoded = f"send_batch {kind}", f"encode_batches {kind}, nothing sent"

    def once() -> None:
        for codec in turns(CODECS, RUNS):
            topic = create_topic(warm_kafka, f"codec-{codec}-{next(_numbers)}")
            for verb, title in (("produce", sent), ("encode", encoded)):
                result = run_client("ours", verb, warm_kafka, topic, RECORDS, kind, codec)
                assert result["rows"] == RECORDS
                record(title, codec, result)
            rows, crc = checksum(data.table(RECORDS, kind).column("value").chunks)
            assert run_client("confluent", "check", warm_kafka, topic) == {"rows": rows, "crc": crc}

    benchmark.pedantic(once, rounds=1)
    with_send, alone = ({c: cpu_us(r) for c, r in medians(title).items()} for title in (sent, encoded))
    for codec in CODECS[1:]:
        codec_us = alone[codec] - alone["none"]
        measured["send_batch by codec"][codec] = with_send[codec] / codec_us
        sections["CPU a record by codec"].append(
            f"{kind} {codec}: the codec alone {codec_us:.3f} us; send_batch {with_send[codec]:.3f} us, "
            f"{with_send[codec] / codec_us:.2f} x that, {with_send[codec] / alone[codec]:.2f} x encode_batches; "
            f"beyond send_batch without one {(with_send[codec] - with_send['none']) / codec_us:.2f} x the codec"
        )
