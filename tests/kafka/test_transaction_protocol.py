"""Kafka's responses to sequences of transaction requests; the embedded broker returns the same responses.

No client sends most of these sequences, but a broker must handle them.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from samsarrow.testing import Broker
from support.fixtures import create_topic
from support.kafka import KafkaServer
from support.raw import Raw, batch, error

Producer = tuple[int, int]
NO_PRODUCER: Producer = (-1, -1)
# Errors of requests while the coordinator is unknown or is loading its state.
NOT_YET = {"NotCoordinatorError", "CoordinatorNotAvailableError", "CoordinatorLoadInProgressError"}
BUSY = NOT_YET | {"ConcurrentTransactionsError"}
_names = itertools.count()


class Script:
    """Sends requests to one broker. `lines` describes the responses; producer ids in it are numbered by first
    appearance.
    """

    def __init__(self, address: str, topic: str) -> None:
        self._raw = Raw(address)
        self._topic = topic
        self._id = f"{topic}-id"
        self._group = f"{topic}-group"
        self._producers: dict[int, int] = {-1: -1}
        self.lines: list[tuple[object, ...]] = []

    def close(self) -> None:
        self._raw.close()

    def ready(self) -> bool:
        """Returns true if the broker knows the topic, leads it, and has found the coordinators."""
        response = self._raw.call("Metadata", 8, topics=[{"name": self._topic}], allow_auto_topic_creation=False)
        partitions = [{"partition_index": part, "timestamp": -1} for part in (0, 1)]
        led = self._raw.call(
            "ListOffsets", 8, replica_id=-1, isolation_level=0, topics=[{"name": self._topic, "partitions": partitions}]
        )
        results = [
            self._raw.call("FindCoordinator", 4, key_type=kind, coordinator_keys=[key])["coordinators"][0]
            for kind, key in ((0, self._group), (1, self._id))
        ]
        codes = [item["error_code"] for topic in response["topics"] for item in (topic, *topic["partitions"])]
        codes += [item["error_code"] for item in (*led["topics"][0]["partitions"], *results)]
        return len(codes) == 7 and not any(codes) and error(self._state()["error_code"]) not in NOT_YET

    def _number(self, producer: int) -> int:
        return self._producers.setdefault(producer, len(self._producers) - 1)

    def _ask(self, code: Callable[[Any], int], api: str, version: int, wait: set[str], **fields: Any) -> Any:
        """Repeats a request until the broker returns an error other than those in `wait`."""
        end = time.monotonic() + 20
        while True:
            answer = self._raw.call(api, version, **fields)
            if error(code(answer)) not in wait or time.monotonic() > end:
                return answer
            time.sleep(0.05)

    def init(
        self,
        was: Producer = NO_PRODUCER,
        *,
        version: int = 5,
        name: str | None = None,
        timeout: int = 60_000,
        busy: bool = True,
    ) -> Producer:
        fields = {"producer_id": was[0], "producer_epoch": was[1]} if version >= 3 else {}
        answer = self._ask(
            lambda a: a["error_code"], "InitProducerId", version, NOT_YET if busy else BUSY,
            transactional_id=self._id if name is None else name, transaction_timeout_ms=timeout, **fields,
        )  # fmt: skip
        producer = (answer["producer_id"], answer["producer_epoch"])
        self.lines.append(("init", error(answer["error_code"]), self._number(producer[0]), producer[1]))
        self.settle()
        return producer

    def add(self, p: Producer, *partitions: int, version: int = 3, name: str | None = None, topic: str = "") -> None:
        answer = self._raw.call(
            "AddPartitionsToTxn", version, v3_and_below_transactional_id=self._id if name is None else name,
            v3_and_below_producer_id=p[0], v3_and_below_producer_epoch=p[1],
            v3_and_below_topics=[{"name": topic or self._topic, "partitions": list(partitions or (0,))}],
        )  # fmt: skip
        results = [r for t in answer["results_by_topic_v3_and_below"] for r in t["results_by_partition"]]
        codes = sorted((r["partition_index"], error(r["partition_error_code"])) for r in results)
        self.lines.append(("add", codes))

    def add_many(self, *asked: tuple[Producer, str, bool, list[int]]) -> None:
        """Sends AddPartitionsToTxn v4 and v5 as brokers do: with several producers, partitions, and the verify-only
        flag.
        """
        for version in (4, 5):
            one = [
                {
                    "transactional_id": f"{self._id}{name}", "producer_id": p[0], "producer_epoch": p[1],
                    "verify_only": verify, "topics": [{"name": self._topic, "partitions": partitions}],
                }
                for p, name, verify, partitions in asked
            ]  # fmt: skip
            answer = self._raw.call("AddPartitionsToTxn", version, transactions=one)
            collected = []
            for result in sorted(answer["results_by_transaction"], key=lambda result: result["transactional_id"]):
                results = [r for t in result["topic_results"] for r in t["results_by_partition"]]
                collected.append(sorted((r["partition_index"], error(r["partition_error_code"])) for r in results))
            self.lines.append(("add many", answer["error_code"], collected))

    def send(
        self, p: Producer, sequence: int, count: int = 1, *, part: int = 0, version: int = 11, plain: bool = False
    ) -> None:
        records = batch(p, sequence, count, transactional=not plain)
        answer = self._raw.call(
            "Produce", version, transactional_id=self._id, acks=-1, timeout_ms=10_000,
            topic_data=[{"name": self._topic, "partition_data": [{"index": part, "records": records}]}],
        )  # fmt: skip
        one = answer["responses"][0]["partition_responses"][0]
        self.lines.append(("send", error(one["error_code"]), one["base_offset"]))

    def end(self, p: Producer, committed: bool, version: int = 4) -> Producer:
        answer = self._raw.call(
            "EndTxn", version, transactional_id=self._id, producer_id=p[0], producer_epoch=p[1], committed=committed
        )
        next_one = (answer.get("producer_id", -1), answer.get("producer_epoch", -1))
        self.lines.append(("end", error(answer["error_code"]), self._number(next_one[0]), next_one[1]))
        self.settle()
        return next_one

    def _state(self) -> Any:
        return self._raw.call("DescribeTransactions", 0, transactional_ids=[self._id])["transaction_states"][0]

    def settle(self) -> None:
        """Waits for markers, which Kafka writes after its response."""
        end = time.monotonic() + 20
        while self._state()["transaction_state"].startswith("Prepare") and time.monotonic() < end:
            time.sleep(0.02)

    def until(self, state: str) -> None:
        end = time.monotonic() + 20
        while self._state()["transaction_state"] != state and time.monotonic() < end:
            time.sleep(0.05)

    def describe(self) -> None:
        state = self._state()
        # Omits the partition that stores the group's offsets, because it depends on the number of partitions of the
        # offsets topic.
        topics = sorted(
            ("own", sorted(t["partitions"])) if t["topic"] == self._topic else (t["topic"], len(t["partitions"]))
            for t in state["topics"]
        )
        producer = -1 if state["error_code"] else state["producer_id"]
        self.lines.append((
            "describe", error(state["error_code"]), state["transaction_state"], self._number(producer),
            state["producer_epoch"], state["transaction_timeout_ms"], state["transaction_start_time_ms"] > 0, topics,
        ))  # fmt: skip

    def list(self, **filters: Any) -> None:
        filters.setdefault("transactional_id_pattern", f"{self._id}.*")
        answer = self._raw.call("ListTransactions", 2, **filters)
        states = [(self._number(t["producer_id"]), t["transaction_state"]) for t in answer["transaction_states"]]
        self.lines.append(("list", answer["error_code"], answer["unknown_state_filters"], sorted(states)))

    def read(self, part: int = 0, start: int = 0) -> None:
        """Reads everything at each isolation level, with as many requests as needed."""
        for level in (0, 1):
            batches: list[tuple[object, ...]] = []
            aborted: set[tuple[int, int]] = set()
            ends: tuple[int, ...] = ()
            offset, more = start, True
            while more:
                answer = self._raw.call(
                    "Fetch", 12, replica_id=-1, max_wait_ms=0, min_bytes=0, max_bytes=50 << 20, isolation_level=level,
                    session_id=0, session_epoch=-1,
                    topics=[{"topic": self._topic, "partitions": [
                        {"partition": part, "fetch_offset": offset, "partition_max_bytes": 1 << 20},
                    ]}],
                )  # fmt: skip
                one = answer["responses"][0]["partitions"][0]
                assert one["error_code"] == 0
                result = one["aborted_transactions"]
                assert (result is None) == (level == 0)
                aborted |= {(self._number(a["producer_id"]), a["first_offset"]) for a in result or ()}
                ends = (one["high_watermark"], one["last_stable_offset"], one["log_start_offset"])
                records = bytes(one["records"] or b"")
                more = bool(records)
                for head, control in _heads(records):
                    base, last, attributes, producer, epoch, sequence = head
                    batches.append((base, attributes, self._number(producer), epoch, sequence, control))
                    offset = last + 1
            self.lines.append(("read", level, ends, sorted(aborted), batches))

    def ends(self, timestamp: int = -1) -> None:
        results = []
        for level in (0, 1):
            answer = self._raw.call(
                "ListOffsets", 8, replica_id=-1, isolation_level=level,
                topics=[{"name": self._topic, "partitions": [{"partition_index": 0, "timestamp": timestamp}]}],
            )  # fmt: skip
            one = answer["topics"][0]["partitions"][0]
            results.append((error(one["error_code"]), one["offset"], one["timestamp"]))
        self.lines.append(("ends", *results))

    def producers(self) -> None:
        topics = [{"name": self._topic, "partition_indexes": [0, 99]}]
        answer = self._raw.call("DescribeProducers", 0, topics=topics)
        for partition in sorted(answer["topics"][0]["partitions"], key=lambda partition: partition["partition_index"]):
            fields = ("producer_epoch", "last_sequence", "current_txn_start_offset")
            active = sorted(partition["active_producers"], key=lambda p: p["producer_id"])
            # Records only the presence of the coordinator's epoch, because the epoch rises with every restart of Kafka.
            producers = [
                (self._number(p["producer_id"]), *(p[f] for f in fields), p["coordinator_epoch"] >= 0) for p in active
            ]
            self.lines.append(("producers", error(partition["error_code"]), sorted(producers)))

    def group(self, p: Producer, version: int = 3) -> None:
        answer = self._ask(
            lambda a: a["error_code"], "AddOffsetsToTxn", version, NOT_YET, transactional_id=self._id,
            producer_id=p[0], producer_epoch=p[1], group_id=self._group,
        )  # fmt: skip
        self.lines.append(("group", error(answer["error_code"])))

    def offset(
        self, p: Producer, offset: int, *, version: int = 4, generation: int = -1, member: str = "", part: int = 0
    ) -> None:
        one = {"partition_index": part, "committed_offset": offset, "committed_leader_epoch": -1}
        answer = self._ask(
            lambda a: a["topics"][0]["partitions"][0]["error_code"], "TxnOffsetCommit", version, NOT_YET,
            transactional_id=self._id, group_id=self._group, producer_id=p[0], producer_epoch=p[1],
            generation_id=generation, member_id=member, group_instance_id=None,
            topics=[{"name": self._topic, "partitions": [{**one, "committed_metadata": "m"}]}],
        )  # fmt: skip
        self.lines.append(("offset", error(answer["topics"][0]["partitions"][0]["error_code"])))

    def plain_offset(self, offset: int) -> None:
        """Commits offsets without a transaction."""
        one = {"partition_index": 0, "committed_offset": offset, "committed_leader_epoch": -1, "committed_metadata": ""}
        answer = self._raw.call(
            "OffsetCommit", 8, group_id=self._group, generation_id_or_member_epoch=-1, member_id="",
            group_instance_id=None, topics=[{"name": self._topic, "partitions": [one]}],
        )  # fmt: skip
        self.lines.append(("plain offset", error(answer["topics"][0]["partitions"][0]["error_code"])))

    def committed(self) -> None:
        for stable in (False, True):
            answer = self._ask(
                lambda a: a["groups"][0]["error_code"], "OffsetFetch", 8, NOT_YET, require_stable=stable,
                groups=[{"group_id": self._group, "topics": [{"name": self._topic, "partition_indexes": [0]}]}],
            )  # fmt: skip
            one = answer["groups"][0]["topics"][0]["partitions"][0]
            self.lines.append(("committed", one["committed_offset"], one["metadata"], error(one["error_code"])))

    def mark(self, p: Producer, committed: bool, version: int, transaction_version: int = 0) -> None:
        more = {"transaction_version": transaction_version} if version >= 2 else {}
        # Uses the epoch of the current coordinator, because an older epoch is rejected.
        answer = self._raw.call("DescribeProducers", 0, topics=[{"name": self._topic, "partition_indexes": [0]}])
        known = answer["topics"][0]["partitions"][0]["active_producers"]
        coordinator_epoch = max([0, *(producer["coordinator_epoch"] for producer in known)])
        answer = self._raw.call("WriteTxnMarkers", version, markers=[{
            "producer_id": p[0], "producer_epoch": p[1], "transaction_result": committed,
            "coordinator_epoch": coordinator_epoch, **more,
            "topics": [{"name": self._topic, "partition_indexes": [0, 99]}],
        }])  # fmt: skip
        results = [r for m in answer["markers"] for t in m["topics"] for r in t["partitions"]]
        self.lines.append(("mark", sorted((r["partition_index"], error(r["error_code"])) for r in results)))


def _heads(records: bytes) -> Iterator[tuple[tuple[int, ...], str]]:
    """Yields the first and last offset, attributes, producer, epoch and sequence of each batch, and a marker's
    record.
    """
    at = 0
    while at < len(records):
        number = lambda start, size, at=at: int.from_bytes(records[at + start : at + start + size], "big", signed=True)  # noqa: E731
        end = at + 12 + number(8, 4)
        attributes = number(21, 2)
        # Leaves out the coordinator's epoch, which rises with every restart of Kafka, and the header count.
        control = records[at + 61 : end - 5].hex() if attributes & 0x20 else ""
        base = number(0, 8)
        yield (base, base + number(23, 4), attributes, number(43, 8), number(51, 2), number(53, 4)), control
        at = end


def first_version(s: Script) -> None:
    """Partitions are added before records are written to them, and the epoch is constant."""
    s.describe()
    s.add((5, 0))
    s.end((5, 0), True)
    p = s.init()
    s.describe()
    s.end(p, True)
    s.end(p, False)
    s.send(p, 0)
    s.send(p, 0, version=10)
    s.add(p, 0, 1)
    s.add(p, 0)
    s.describe()
    s.send(p, 0, 3)
    s.send(p, 0, 3)
    s.send(p, 4)
    s.send(p, 3, plain=True)
    s.read()
    for timestamp in (-1, -2, -3, 1_700_000_000_001):
        s.ends(timestamp)
    s.producers()
    s.end(p, True)
    s.describe()
    s.read()
    s.read(1)
    s.ends()
    s.end(p, True)
    s.end(p, False)
    s.send(p, 3)
    s.add(p)
    s.send(p, 3, 2)
    s.end(p, False)
    s.end(p, False)
    s.end(p, True)
    for start in (0, 4, 6, 7):
        s.read(start=start)
    s.producers()


def idempotence(s: Script) -> None:
    """Idempotent producers without transactions. Their ids were not assigned by a broker."""
    p = (900_000_001, 0)
    s.send(p, 7, plain=True)
    for sequence in (8, 9, 10, 11, 12):
        s.send(p, sequence, plain=True)
    for sequence in (12, 8, 7, 99, 6, 0):
        s.send(p, sequence, plain=True)
    s.send(p, 12, 2, plain=True)
    s.send((p[0], 1), 13, plain=True)
    s.send((p[0], 1), 0, plain=True)
    s.send(p, 13, plain=True)
    s.send((p[0], 1), 0, plain=True)
    last = 2**31 - 1
    p = (900_000_002, 0)
    for sequence, count in ((last, 1), (0, 1), (last, 1), (2, 1), (1, 1)):
        s.send(p, sequence, count, plain=True)
    p = (900_000_003, 0)
    for sequence, count in ((last - 1, 4), (2, 1), (last - 1, 4), (3, 2)):
        s.send(p, sequence, count, plain=True)
    # Without a transaction, the first sequence number is not verified.
    s.send((900_000_004, 3), 17, plain=True, version=12)
    s.producers()
    s.read()


def versions_requested_by_brokers(s: Script) -> None:
    p = s.init()
    s.add_many((p, "", True, [0, 1]))
    s.add_many((p, "", False, [0]))
    s.add_many((p, "", True, [0, 1]), (p, "-other", True, [0]))
    s.add_many(((p[0], p[1] + 1), "", True, [0]))
    s.add_many((p, "", False, [0, 99]), ((p[0], p[1] + 1), "-other", False, [1]))
    s.describe()


def rejections(s: Script) -> None:
    p = s.init()
    s.add(p, 0, 77)
    s.add(p, topic="there-is-no-such-topic")
    s.describe()
    for other in ((p[0], p[1] + 1), (p[0], p[1] - 1), (p[0] + 99, p[1])):
        for version in (1, 3):
            s.add(other, version=version)
            s.end(other, True, version=version)
    s.add(p, name="")
    s.list()
    s.add(p)
    s.list()
    s.list(state_filters=["Ongoing", "Nonsense"])
    s.list(state_filters=["Empty"])
    s.list(state_filters=["Nonsense"])
    s.list(duration_filter=60_000)
    s.list(transactional_id_pattern="(")
    s.list(transactional_id_pattern="-id")


def epochs(s: Script) -> None:
    """Producers that initialize, and producers that resume after an error (KIP-360)."""
    p = s.init((7, 3))
    q = s.init()
    s.init(p)
    r = s.init(q)
    s.init(q)
    s.init(r)
    s.init(p)
    s.init(p, version=3)
    s.init((p[0], -1))
    s.init(name="")
    s.init(timeout=900_001)
    s.init(timeout=0)


def fenced_by_another(s: Script) -> None:
    p = s.init()
    s.add(p)
    s.send(p, 0, 2)
    s.init()
    s.describe()
    s.send(p, 2)
    s.add(p)
    s.end(p, False)
    s.end(p, True)
    s.end(p, False, version=5)
    s.end(p, True, version=5)
    q = s.init()
    s.read()
    s.producers()
    # The producer itself initializes again while its transaction is open.
    s.add(q)
    s.send(q, 0, 2)
    s.init(q)
    s.describe()
    s.init(q)
    s.init()


def offsets(s: Script) -> None:
    p = s.init()
    s.offset(p, 5)
    s.offset(p, 5, version=3)
    s.group(p)
    s.describe()
    s.offset(p, 5)
    s.offset(p, 5, generation=3, member="x")
    s.committed()
    s.end(p, False)
    s.committed()
    s.group(p)
    s.offset(p, 6)
    s.offset(p, 7)
    s.end(p, True)
    s.committed()
    s.offset(p, 9, part=88)
    s.offset((p[0], p[1] - 1), 9)
    # From version 5 on, TxnOffsetCommit itself adds the group to the transaction.
    p = s.init()
    s.offset(p, 20, version=5)
    s.describe()
    s.committed()
    q = s.end(p, True, version=5)
    s.committed()
    s.offset(p, 21, version=5)
    s.offset(q, 22, version=5)
    s.end(q, False, version=5)
    s.committed()
    # A later commit outside of the transaction supersedes its offset, although the transaction ends after this commit.
    p = s.init()
    s.offset(p, 30, version=5)
    s.plain_offset(31)
    s.committed()
    p = s.end(p, True, version=5)
    s.committed()
    s.offset(p, 32, version=5)
    s.plain_offset(33)
    s.offset(p, 34, version=5)
    s.end(p, True, version=5)
    s.committed()


def second_version(s: Script) -> None:
    """The epoch rises with the end of each transaction, and writes add partitions to a transaction (KIP-890)."""
    p = s.init()
    s.end(p, True, version=5)
    p1 = s.end(p, False, version=5)
    s.describe()
    s.end(p, False, version=5)
    p = s.end(p1, False, version=5)
    s.end(p, True, version=5)
    s.send(p, 5, version=12)
    s.send(p, 0, 2, version=12)
    s.describe()
    s.send(p, 2, version=12)
    s.send(p, 0, 2, version=12)
    s.read()
    q = s.end(p, True, version=5)
    s.describe()
    s.read()
    s.end(p, True, version=5)
    s.end(p, False, version=5)
    s.send(p, 3, version=12)
    s.add(p)
    s.send(q, 0, 2, version=12)
    s.end(q, False, version=5)
    s.end(q, False, version=5)
    r = s.end(q, True, version=5)
    s.producers()
    s.read()
    # A new producer fences the first, which then tries to end the open transaction.
    p = s.init()
    s.send(p, 0, 2, version=12)
    s.init()
    s.describe()
    s.end(p, False, version=5)
    s.end(p, True, version=5)
    s.send(p, 2, version=12)
    s.init(p)
    r = s.init()
    s.end(p, False, version=5)
    # The versions mixed.
    s.send(r, 0, version=12)
    s.end(r, True)
    s.describe()
    s.add(r)
    s.send(r, 1)
    q = s.end(r, True, version=5)
    s.end(r, True)
    s.end(q, True)
    s.end(q, False)
    s.mark(q, True, 1)
    s.mark((q[0], q[1] - 1), True, 1)
    s.mark(q, True, 2, 2)
    s.read(start=13)
    s.send((q[0], q[1]), 0, version=12)
    s.mark(q, True, 2, 2)
    s.mark((q[0], q[1] + 1), False, 2, 2)
    s.producers()
    s.read(start=13)


def timeouts(s: Script) -> None:
    # The timeout is longer than the following requests take.
    p = s.init(timeout=1500)
    s.add(p)
    s.send(p, 0)
    s.until("CompleteAbort")
    s.describe()
    s.end(p, True)
    s.end(p, False)
    s.send(p, 1)
    s.add(p)
    s.init(p)
    p = s.init(timeout=1500)
    s.send(p, 0, version=12)
    s.until("CompleteAbort")
    s.describe()
    s.end(p, True, version=5)
    s.end(p, False, version=5)
    s.send(p, 1, version=12)
    s.init(p)
    s.init()
    s.read()


SCRIPTS = [
    first_version,
    idempotence,
    versions_requested_by_brokers,
    rejections,
    epochs,
    fenced_by_another,
    offsets,
    second_version,
    timeouts,
]


def lines(script: Callable[[Script], None], address: str, topic: str) -> list[tuple[object, ...]]:
    running = Script(address, topic)
    try:
        end = time.monotonic() + 30
        while not running.ready() and time.monotonic() < end:
            time.sleep(0.1)
        script(running)
    finally:
        running.close()
    return running.lines


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.__name__)
def test_embedded_broker_matches_kafka(kafka: KafkaServer, script: Callable[[Script], None]) -> None:
    expected = lines(script, kafka.bootstrap_servers, create_topic(kafka, 2))
    topic = f"t{next(_names)}"
    with Broker(topics={topic: 2}, auto_create_topics=False) as broker:
        given = lines(script, broker.bootstrap_servers, topic)
    assert len(expected) > 10
    for number, (theirs, ours) in enumerate(itertools.zip_longest(expected, given)):
        assert ours == theirs, f"line {number}, after {expected[:number]}"
