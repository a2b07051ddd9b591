"""Differences between the defaults of other clients and the defaults of samsarrow."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple


class Difference(NamedTuple):
    """An option whose default in another client differs from the default in samsarrow.

    Attributes:
        name: Kafka's name of the option.
        theirs: default of the other client.
        ours: default of samsarrow.
        meaning: effect of samsarrow's default, compared with the other client's.
        keep: whether samsarrow accepts the other client's default as a value.
    """

    name: str
    theirs: str
    ours: str
    meaning: str
    keep: bool = True


_CLIENT_ID = "brokers' quotas and logs see another name"
_FETCH = Difference("max.partition.fetch.bytes", "1048576", "16777216", "one partition may fill more of a response")
# tests/interop/test_defaults.py compares both tables with librdkafka 2.x and with the Java client 4.3.
LIBRDKAFKA = (
    Difference("partitioner", "consistent_random", "murmur2",
               "equal keys go to other partitions than those that librdkafka's producers write"),
    Difference("isolation.level", "read_committed", "read_uncommitted",
               "records of aborted transactions are read, too"),
    Difference("enable.idempotence", "false", "true", "retries neither duplicate nor reorder records"),
    Difference("delivery.timeout.ms", "300000", "120000", "records fail sooner"),
    Difference("request.timeout.ms", "60000", "30000", "requests time out sooner"),
    Difference("max.in.flight.requests.per.connection", "1000000", "5",
               "fewer requests wait on one connection, as in librdkafka with enable.idempotence", keep=False),
    Difference("check.crcs", "false", "true", "damaged records are an error"),
    Difference("partition.assignment.strategy", "range,roundrobin", "range,cooperative-sticky",
               "members of one group need a strategy in common: range is"),
    _FETCH,
    Difference("client.id", "rdkafka", "samsarrow", _CLIENT_ID),
)  # fmt: skip
JAVA = (
    Difference("max.poll.records", "500", "65536", "a poll returns columns, not objects"),
    _FETCH,
    Difference("batch.size", "16384", "1000000", "batches are larger where many records wait for one partition"),
    Difference("allow.auto.create.topics", "true", "false",
               "subscribing to a topic that is missing does not create it"),
    Difference("client.id", "", "samsarrow", _CLIENT_ID, keep=False),
)  # fmt: skip
BY_KIND = {"librdkafka": LIBRDKAFKA, "kcat": LIBRDKAFKA, "java": JAVA}


def differences(kind: str, options: Mapping[str, str]) -> list[tuple[str, str]]:
    """Returns the options that are not set and whose defaults differ, with the effects of the difference."""
    return [(entry.name, _text(entry)) for entry in BY_KIND.get(kind, ()) if entry.name not in options]


def _text(entry: Difference) -> str:
    keeps = f"; {entry.name}={entry.theirs} keeps it" if entry.keep else ""
    return f"by default {entry.theirs or 'generated'} there and {entry.ours} here: {entry.meaning}{keeps}"
