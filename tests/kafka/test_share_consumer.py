"""Share consumers on Apache Kafka. tests/broker/test_share_consumer.py runs the same cases on the embedded broker."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from samsarrow import ShareConsumer
from support.commands import runner
from support.fixtures import create_topic
from support.kafka import QUICK_COMPILER, KafkaServer, KafkaUnavailableError, classpath
from support.share_cases import (
    CASES,
    LOCK_S,
    LONG_LOCK,
    earliest,
    numbers_of,
    poll_rows,
    send,
    transactions_leave_no_gaps_behind,
)


@pytest.fixture(scope="module")
def kafka() -> Iterator[KafkaServer]:
    """A broker with short locks, which are a group config only from 15 seconds on."""
    try:
        classpath()
    except KafkaUnavailableError as error:
        pytest.skip(str(error))
    lock = str(int(1000 * LOCK_S))
    properties = {"group.share.record.lock.duration.ms": lock, "group.share.min.record.lock.duration.ms": lock}
    with KafkaServer(jvm=QUICK_COMPILER, properties=properties) as server:
        yield server


@pytest.mark.parametrize("case", [*CASES, transactions_leave_no_gaps_behind], ids=lambda case: case.__name__)
def test_case(kafka: KafkaServer, case: Callable[[str, str, str], None]) -> None:
    topic = create_topic(kafka)
    case(kafka.bootstrap_servers, topic, f"group-of-{topic}")


def test_first_row_arrives_soon(kafka: KafkaServer) -> None:
    topic = create_topic(kafka, partitions=3)
    group = f"group-of-{topic}"
    earliest(kafka.bootstrap_servers, group)
    send(kafka.bootstrap_servers, topic, 30)
    times = []
    for _ in range(3):
        with ShareConsumer(bootstrap_servers=kafka.bootstrap_servers, group_id=group, acknowledgement="explicit") as c:
            begin = time.monotonic()
            c.subscribe([topic])
            poll_rows(c)
            times.append(time.monotonic() - begin)
    # The coordinator assigns partitions once a second; a regular heartbeat follows only after five seconds.
    assert min(times) < 1.5, times


def test_command_line(
    kafka: KafkaServer, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    topic = create_topic(kafka)
    group = f"group-of-{topic}"
    earliest(kafka.bootstrap_servers, group, share_record_lock_duration_ms=LONG_LOCK)
    numbers = [str(number) for number in send(kafka.bootstrap_servers, topic, 10)]
    command = runner(kafka.bootstrap_servers, monkeypatch, capsys, tmp_path)
    assert command("consume", topic, "-g", group, "--ack", "release").out.split() == numbers
    assert command("consume", topic, "-g", group, "--ack", "accept", "-n", "3").out.split() == numbers[:3]
    assert command("consume", topic, "-g", group, "--ack", "accept").out.split() == numbers[3:]
    assert "a share group is read with --ack" in command("consume", topic, "-g", group, code=1).err


def test_a_restarted_broker_delivers_again(kafka: KafkaServer) -> None:
    topic = create_topic(kafka)
    group = f"group-of-{topic}"
    earliest(kafka.bootstrap_servers, group)
    sent = send(kafka.bootstrap_servers, topic, 10)
    with ShareConsumer(bootstrap_servers=kafka.bootstrap_servers, group_id=group, acknowledgement="explicit") as c:
        c.subscribe([topic])
        batch = poll_rows(c)
        kafka.kill()
        kafka.start()
        c.acknowledge(batch)
        outcomes = c.commit(30)
        assert outcomes
        assert all(error is not None for error in outcomes.values())
        again = poll_rows(c, 60)
        assert numbers_of(again) == sent
        c.acknowledge(again)
        assert set(c.commit(30).values()) == {None}
