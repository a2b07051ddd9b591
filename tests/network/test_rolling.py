"""A rolling restart of three Apache Kafka brokers under load, behind proxies that count requests."""

from __future__ import annotations

import logging
import os
import time

import pytest

from samsarrow import Admin, NewTopic
from support.cluster import KafkaCluster
from support.proxy import Network
from support.resilience import Clients, warned
from support.waiting import until

ROUNDS = int(os.environ.get("SAMSARROW_ROLLING_ROUNDS", "1"))


def in_sync(cluster: KafkaCluster) -> list[int]:
    """Returns the number of in-sync replicas of each partition."""
    with Admin(bootstrap_servers=cluster.bootstrap_servers) as admin:
        return [len(partition.isr) for partition in admin.describe_topics(["four"])["four"].partitions]


@pytest.mark.timeout(300 + 300 * ROUNDS)
def test_rolling_restart_under_load(cluster: KafkaCluster, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "samsarrow")
    with Admin(bootstrap_servers=cluster.bootstrap_servers) as admin:
        admin.create_topics([NewTopic("four", 4, 3, {"min.insync.replicas": "2"})])
    with Network(cluster.bootstrap_servers) as network:
        clients = Clients(network.bootstrap_servers, ["classic", "consumer"])
        began = time.monotonic()
        try:
            clients.wait(more=20)
            for _ in range(ROUNDS):
                for number in cluster.brokers:
                    cluster.restart(number)
                    # Waits until this broker is in sync again before the next one restarts.
                    until(lambda: in_sync(cluster) == [3] * 4, lambda: in_sync(cluster), 120, 0.5)
                    clients.wait(seconds=120)
        finally:
            clients.end()
        took = time.monotonic() - began
        clients.check()
        requests = network.requests()
    # A client sends a few requests after each change of leaders.
    assert requests["Metadata"] <= 150 + 10 * took, requests
    assert requests["FindCoordinator"] <= 100 + 5 * took, requests
    assert requests["JoinGroup"] <= 60 * ROUNDS, requests
    assert network.accepted() <= 150 + 10 * took
    warnings = warned(caplog.records)
    assert sum(warnings.values()) <= 60 * ROUNDS, warnings
