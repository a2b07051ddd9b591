"""A share group with members of Java's client, confluent-kafka and ours, in both acknowledgement modes."""

from __future__ import annotations

import logging
import os
import time
from collections import Counter
from collections.abc import Iterator

import pytest

from samsarrow import Admin, ShareConsumer
from support.fixtures import create_topic
from support.kafka import DEFAULT_VERSION, QUICK_COMPILER, KafkaServer, KafkaUnavailableError, classpath
from support.share_cases import LONG_LOCK, earliest, send
from support.share_members import MODES, members
from support.waiting import until

RECORDS = int(os.environ.get("SAMSARROW_SHARE_RECORDS", "4000"))
VERSIONS = os.environ.get("SAMSARROW_SHARE_VERSIONS", DEFAULT_VERSION).split()
PARTITIONS = 3
_log = logging.getLogger(__name__)
CLIENTS = ("Java", "confluent-kafka", "ours", "ours on asyncio")


@pytest.fixture(scope="module", params=VERSIONS)
def server(request: pytest.FixtureRequest) -> Iterator[KafkaServer]:
    try:
        classpath(request.param)
    except KafkaUnavailableError as error:
        pytest.skip(str(error))
    with KafkaServer(request.param, jvm=QUICK_COMPILER) as server:
        yield server


@pytest.mark.timeout(120 + RECORDS / 100)
def test_each_record_is_accepted_once(server: KafkaServer) -> None:
    """Members accept, release, reject and renew. Each record is finished once, whichever members get it."""
    topic = create_topic(server, PARTITIONS)
    group, servers = f"group-of-{topic}", server.bootstrap_servers
    earliest(servers, group, share_record_lock_duration_ms=LONG_LOCK)
    with members(server, group, topic) as ledger:
        sent = 0
        deadline = time.monotonic() + 60 + RECORDS / 100
        # Java's client and confluent-kafka join after seconds, so that records keep arriving.
        while not ledger.stop.is_set() and time.monotonic() < deadline:
            if sent < RECORDS or not _all_have_rows(ledger.counts):
                send(servers, topic, 200, first=sent)
                sent += 200
            elif ledger.finished() >= sent:
                # A second delivery would arrive now.
                time.sleep(1)
                break
            time.sleep(0.05)
    report = {f"{member}: {kind}": count for (member, kind), count in sorted(ledger.counts.items())}
    _log.info("Kafka %s, %s records: %s", server.version, sent, report)
    assert not ledger.failures, (ledger.failures, report)
    assert _all_have_rows(ledger.counts), report
    assert sorted(ledger.types) == list(range(sent)), report
    wrong = {
        number: types
        for number, types in ledger.types.items()
        if types.count("accept") + types.count("reject") != 1 or types.count("release") > 1
    }
    assert not wrong, wrong
    accepted, rejected = (sum(types.count(kind) for types in ledger.types.values()) for kind in ("accept", "reject"))
    assert accepted + rejected == sent
    with Admin(bootstrap_servers=servers) as admin:
        # Brokers store the progress of a group after a delay.
        until(lambda: sum(_lags(admin, group)) == 0, lambda: _lags(admin, group))
    with ShareConsumer(bootstrap_servers=servers, group_id=group) as consumer:
        consumer.subscribe([topic])
        assert consumer.poll(3).num_rows == 0


def _lags(admin: Admin, group: str) -> list[int]:
    return [at.lag or 0 for at in admin.list_share_offsets([group])[group].values() if at is not None]


def _all_have_rows(counts: Counter[tuple[str, str]]) -> bool:
    explicit = [(f"{client}, explicit", kind) for client in CLIENTS for kind in ("accept", "release", "reject")]
    return all(counts[f"{client}, {mode}", "accept"] for client in CLIENTS for mode in MODES) and all(
        counts[key] for key in explicit
    )
