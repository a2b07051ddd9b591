"""Transactions across coordinator restarts, and across the upgrade of a cluster to transaction version 2."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from samsarrow import ConsumerGroupMetadata, Producer, TopicPartition
from samsarrow.exceptions import IllegalStateError, KafkaTimeoutError
from support.fixtures import create_topic
from support.kafka import QUICK_COMPILER, KafkaServer, new_cluster_id
from support.peers.java_api import JavaPeer
from support.segments import stored
from support.streams import wait_for_markers


class Cautious(KafkaServer):
    """A broker that supports transaction version 2, but has version 1 finalized."""

    def _prepare(self, config: Path) -> None:
        self.format(config, new_cluster_id(), "--feature", "transaction.version=1")

    def step_up(self) -> None:
        self.tool(
            "org.apache.kafka.tools.FeatureCommand",
            "--bootstrap-server", self.bootstrap_servers, "upgrade", "--feature", "transaction.version=2",
        )  # fmt: skip

    def restart(self) -> None:
        self.kill()
        self.start()


@pytest.fixture(scope="module")
def cautious() -> Iterator[Cautious]:
    # Sessions are short, because a killed broker can register again only after its session has expired.
    session = {"broker.session.timeout.ms": "2000", "broker.heartbeat.interval.ms": "200"}
    with Cautious(properties=session, heap="512m", jvm=QUICK_COMPILER) as server:
        yield server


def epochs(server: KafkaServer, topic: str) -> list[int]:
    results = [batch.epoch for batch in stored(server.segments(topic)) if not batch.control]
    return [epoch - results[0] for epoch in results]


# The broker is started five times.
@pytest.mark.timeout(600)
def test_coordinator_restarts_and_upgrade_to_version_2(cautious: Cautious) -> None:
    topic, group = create_topic(cautious), "restarts"
    tp, nobody = TopicPartition(topic, 0), ConsumerGroupMetadata(group, "", -1, None)
    expected: list[str] = []
    # The timeout is longer than the restarts take.
    options = {"transactional_id": "restarts", "transaction_timeout_ms": 600_000}
    with Producer(bootstrap_servers=cautious.bootstrap_servers, **options) as producer:

        def write(value: str) -> None:
            producer.send(topic, value).result()
            producer.send_offsets_to_transaction({tp: len(expected) + 1}, nobody)
            expected.append(value)

        for i in range(3):
            with producer.transaction():
                write(f"{i}")
        # EndTxn v5 is supported, but transaction version 1 is used.
        assert epochs(cautious, topic) == [0, 0, 0]

        def across(restart_at: int) -> None:
            producer.begin_transaction()
            write(f"before {restart_at}")
            cautious.kill()
            late = producer.send(topic, "while it was down")
            expected.append("while it was down")
            with pytest.raises(KafkaTimeoutError, match="call commit_transaction again"):
                producer.commit_transaction(0.5)
            for call in (producer.abort_transaction, producer.begin_transaction):
                with pytest.raises(IllegalStateError, match="call commit_transaction again"):
                    call()
            cautious.start()
            producer.commit_transaction()
            assert late.result(0).offset > 0

        across(1)
        cautious.step_up()
        producer.begin_transaction()
        write("of the first protocol")
        # New connections report version 2; the open transaction continues with version 1.
        cautious.restart()
        producer.commit_transaction()
        for i in range(3):
            with producer.transaction():
                write(f"of the second {i}")
        actual = epochs(cautious, topic)
        assert len(set(actual[:-3])) == 1, actual
        assert [epoch - actual[-4] for epoch in actual[-3:]] == [1, 2, 3], actual
        across(2)
        producer.begin_transaction()
        producer.send(topic, "aborted").result()
        cautious.restart()
        producer.abort_transaction()
        with producer.transaction():
            write("the end")
    wait_for_markers(cautious.bootstrap_servers, topic)
    with JavaPeer(cautious) as java:
        ends = java.ends(topic, [0], isolation_level="read_committed")
        polls = java.polls(topic, [0], ends, isolation_level="read_committed")
        assert [(record.value or b"").decode() for poll in polls for _, record in poll.records] == expected
        [offset] = java.committed(group, topic, [0])
        assert offset == (len(expected), "")
