"""A port that is forwarded to another broker or cluster: the client never writes to it or reads from it (KIP-1242)."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from samsarrow import Admin, Consumer, NewTopic, Producer, TopicPartition
from samsarrow.exceptions import KafkaTimeoutError
from samsarrow.testing import Broker
from support.cluster import KafkaCluster
from support.proxy import Network
from support.waiting import until

OPTIONS = {"reconnect_backoff_max_ms": 300, "retry_backoff_max_ms": 300, "metadata_max_age_ms": 1000}
# The first Apache Kafka that checks connections.
FIRST_WITH_CHECK = "4.4.0"


@pytest.fixture(scope="module", params=["embedded", FIRST_WITH_CHECK])
def servers(request: pytest.FixtureRequest) -> Iterator[str]:
    """Two brokers of one cluster."""
    if request.param == "embedded":
        with Broker(brokers=2) as broker:
            yield broker.bootstrap_servers
    else:
        with KafkaCluster(2, version=request.param) as cluster:
            yield cluster.bootstrap_servers


@pytest.fixture
def topic(servers: str, request: pytest.FixtureRequest) -> str:
    """A topic with a partition on each broker."""
    name = f"t-{abs(hash(request.node.nodeid))}"
    with Admin(bootstrap_servers=servers) as admin:
        ids = sorted(broker.id for broker in admin.describe_cluster().brokers)
        admin.create_topics([NewTopic(name, assignment=[[ids[0]], [ids[1]]])])
        until(lambda: name in admin.list_topics([name]))
    return name


def counts(network: Network, api: str) -> list[int]:
    return [proxy.requests()[api] for proxy in network.proxies]


def test_producer_and_consumer_wait_for_the_right_broker(servers: str, topic: str) -> None:
    with Network(servers) as network:
        first, second = network.proxies
        second.route_to(servers.split(",")[0])
        with Producer(bootstrap_servers=first.address, **OPTIONS) as producer:
            right, wrong = (producer.send(topic, b"%d" % partition, partition=partition) for partition in (0, 1))
            assert right.result(30).offset == 0
            with pytest.raises(KafkaTimeoutError):
                wrong.result(3)
            assert counts(network, "Produce")[1] == 0
            # Each attempt is one connection; the number of attempts is limited by `reconnect.backoff.max.ms`.
            assert network.accepted() < 60
            second.route_to(None)
            assert wrong.result(30).offset == 0
        assert counts(network, "Produce")[1] > 0
        second.route_to(servers.split(",")[0])
        second.reset()
        before = counts(network, "Fetch")[1]
        with Consumer(bootstrap_servers=first.address, auto_offset_reset="earliest", **OPTIONS) as consumer:
            consumer.assign([TopicPartition(topic, 0), TopicPartition(topic, 1)])
            values: list[bytes] = []

            def poll() -> list[bytes]:
                values.extend(consumer.poll(0.2)["value"].to_pylist())
                return values

            until(lambda: poll() == [b"0"])
            deadline = time.monotonic() + 2
            while time.monotonic() < deadline:
                assert poll() == [b"0"]
            assert counts(network, "Fetch")[1] == before
            second.route_to(None)
            until(lambda: poll() == [b"0", b"1"])


def test_other_cluster_behind_the_address(servers: str, topic: str) -> None:
    """The metadata names a broker whose address belongs to another cluster with the same broker ids."""
    with Admin(bootstrap_servers=servers) as admin:
        ids = sorted(broker.id for broker in admin.describe_cluster().brokers)
    with Broker(brokers=max(ids) + 1, topics={topic: 2}) as other, Network(servers) as network:
        network.proxies[1].route_to(other.bootstrap_servers.split(",")[ids[1]])
        with Producer(bootstrap_servers=network.proxies[0].address, **OPTIONS) as producer:
            sent = [producer.send(topic, b"v", partition=partition) for partition in (0, 1)]
            assert sent[0].result(30).offset == 0
            with pytest.raises(KafkaTimeoutError):
                sent[1].result(2)
            assert "Produce" not in network.proxies[1].requests()
            network.proxies[1].route_to(None)
            assert sent[1].result(30).offset == 0


@pytest.mark.parametrize("options", [{"metadata_cluster_check_enable": False}, {"metadata_recovery_strategy": "none"}])
def test_check_can_be_switched_off(servers: str, topic: str, options: dict[str, object]) -> None:
    with Network(servers) as network:
        first, second = network.proxies
        second.route_to(servers.split(",")[0])
        with Producer(bootstrap_servers=first.address, **OPTIONS, **options) as producer:
            delivery = producer.send(topic, b"v", partition=1)
            # The wrong broker rejects the record itself.
            with pytest.raises(KafkaTimeoutError):
                delivery.result(2)
            assert counts(network, "Produce")[1] > 0
            second.route_to(None)
            second.reset()
            assert delivery.result(30).offset == 0


def test_error_names_the_cause_and_the_option(servers: str, topic: str) -> None:
    with Network(servers) as network:
        first, second = network.proxies
        second.route_to(servers.split(",")[0])
        producer = Producer(
            bootstrap_servers=first.address, delivery_timeout_ms=2000, request_timeout_ms=1000, linger_ms=0
        )
        delivery = producer.send(topic, b"v", partition=1)
        with pytest.raises(Exception, match=r"leads to another broker or cluster.*metadata\.cluster\.check\.enable"):
            delivery.result(20)
        producer.close(errors="log")
