"""Sessions of five seconds under load: clients re-authenticate on open connections, as the broker's metrics show."""

from __future__ import annotations

import os
import threading
import time
from dataclasses import dataclass, field

import pytest

from samsarrow import Consumer, Producer, TopicPartition
from samsarrow.exceptions import AuthenticationError
from support.fixtures import create_topic
from support.secure import LIFETIME_MS, Login, SecureKafka
from support.waiting import until

# Seconds of load; `make test-security` sets more.
SECONDS = float(os.environ.get("SAMSARROW_REAUTHENTICATION_SECONDS", "15"))
LISTENER = "EXPIRING"


@dataclass
class Load:
    """Writes and reads a partition until it is stopped, and keeps the values read, in order."""

    login: Login
    topic: str
    stopped: threading.Event = field(default_factory=threading.Event)
    sent: int = 0
    read: list[bytes] = field(default_factory=list)
    failures: list[Exception] = field(default_factory=list)
    committed: bool = False

    def write(self) -> None:
        with Producer(**self.login.ours, linger_ms=5) as producer:
            while not self.stopped.is_set():
                deliveries = [producer.send(self.topic, b"%d" % (self.sent + i)) for i in range(100)]
                self.sent += 100
                # Waits for one delivery, so that memory stays bounded while some records are in flight at every
                # re-authentication.
                deliveries[0].result(30)
                time.sleep(0.01)
            producer.flush(30)

    def follow(self) -> None:
        with Consumer(**self.login.ours, group_id=self.topic) as consumer:
            partition = TopicPartition(self.topic, 0)
            consumer.assign([partition])
            consumer.seek_to_beginning(partition)
            while not self.stopped.is_set() or len(self.read) < self.sent:
                batch = consumer.poll(0.5)
                self.read += batch.column("value").to_pylist()
                if batch.num_rows and not self.committed:
                    consumer.commit()
                    self.committed = True
                elif batch.num_rows:
                    consumer.commit_async()

    def run(self, job: str) -> None:
        try:
            getattr(self, job)()
        except Exception as error:
            self.failures.append(error)


def test_sessions_are_reauthenticated_in_place(secure: SecureKafka) -> None:
    ways = [secure.password("SCRAM-SHA-512", LISTENER), secure.password("PLAIN", LISTENER)]
    loads = [Load(way, create_topic(secure)) for way in ways]
    jobs = [threading.Thread(target=load.run, args=(job,)) for load in loads for job in ("write", "follow")]
    for job in jobs:
        job.start()
    try:
        # Waits until all connections are open and those used only at the start are closed.
        until(lambda: all(load.committed or load.failures for load in loads))
        time.sleep(1.5)
        before = secure.counted(LISTENER)
        time.sleep(SECONDS)
        after = secure.counted(LISTENER)
    finally:
        for load in loads:
            load.stopped.set()
        for job in jobs:
            job.join(60)
    assert not any(job.is_alive() for job in jobs)
    assert [load.failures for load in loads] == [[], []]
    for load in loads:
        assert load.sent > 1000
        assert load.read == [b"%d" % i for i in range(load.sent)]
    for total in ("connection-creation-total", "connection-close-total"):
        assert after[total] == before[total], "nobody connects again"
    assert after["expired-connections-killed-count"] == 0
    assert after["failed-reauthentication-total"] == 0
    # A client has at least two connections, and each re-authenticates before its session ends.
    renewed = after["successful-reauthentication-total"] - before["successful-reauthentication-total"]
    assert renewed >= SECONDS * 1000 // LIFETIME_MS * len(jobs)
    assert renewed >= 15 or SECONDS < 60


def test_failed_attempts_are_limited(secure: SecureKafka) -> None:
    before = secure.counted("SASL_PLAINTEXT")["failed-authentication-total"]
    login = secure.password("SCRAM-SHA-256", "SASL_PLAINTEXT", password="guess")
    with Consumer(**login.ours, group_id="g") as consumer:
        consumer.subscribe(["t"])
        until = time.monotonic() + 10
        while time.monotonic() < until:
            with pytest.raises(AuthenticationError):
                consumer.poll(10)
            time.sleep(0.2)
    assert 1 <= secure.counted("SASL_PLAINTEXT")["failed-authentication-total"] - before <= 4
