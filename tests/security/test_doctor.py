"""`samsarrow.doctor` names the cause of broken set-ups at Apache Kafka with TLS, logins and ACLs."""

import threading
import time
from collections.abc import Iterator
from uuid import uuid4

import pytest

from samsarrow import Admin, Consumer, NewTopic, TopicPartition
from samsarrow.access import AclBinding, AclOperation, ResourceType
from samsarrow.doctor import Finding, Status, _cluster, check
from support.certificates import days
from support.fixtures import create_topic
from support.kafka import KafkaUnavailableError, free_ports
from support.secure import SecureKafka
from support.waiting import until

LISTENER = "SASL_PLAINTEXT"


class BrokenKafka(SecureKafka):
    """A broker with two additional listeners: EXPIRED has an expired certificate, and CONTAINER advertises a name that
    cannot be resolved.
    """

    def _addresses(self) -> dict[str, str]:
        self.expired, self.container = free_ports(2)
        settings = super()._addresses()
        own = f",EXPIRED://127.0.0.1:{self.expired},CONTAINER://127.0.0.1:{self.container}"
        settings["listeners"] += own
        settings["advertised.listeners"] += own.replace(f"127.0.0.1:{self.container}", "kafka-0.invalid:9092")
        settings["listener.security.protocol.map"] += ",EXPIRED:SSL,CONTAINER:PLAINTEXT"
        return settings

    def _stores(self) -> dict[str, str]:
        issued = self.authority.issue("expired", names=["127.0.0.1"], start=-days(3), end=-days(1))
        store = issued.write(self.folder / "expired.pem")
        return super()._stores() | {
            "listener.name.expired.ssl.keystore.type": "PEM",
            "listener.name.expired.ssl.keystore.location": str(store),
        }


@pytest.fixture(scope="module")
def broken(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokenKafka]:
    try:
        server = BrokenKafka(tmp_path_factory.mktemp("broken"))
        server.start()
    except KafkaUnavailableError as reason:
        pytest.skip(str(reason))
    with server:
        yield server


def only_failure(found: list[Finding]) -> Finding:
    """Returns the failed finding, which must be the only one and have a remedy."""
    (failed,) = [finding for finding in found if finding.status is Status.FAILED]
    assert failed.remedy
    return failed


def test_healthy_cluster(broken: BrokenKafka) -> None:
    topic = create_topic(broken)
    for login in (
        broken.mutual_tls(),
        broken.password("PLAIN"),
        broken.password("SCRAM-SHA-512"),
        broken.password("SCRAM-SHA-256", LISTENER),
    ):
        found = check(login.ours, topic=topic, group="healthy", write=True, auto_offset_reset="earliest")
        wrong = [f for f in found if f.status in (Status.FAILED, Status.WARNING)]
        assert [f for f in wrong if "in the clear" not in f.detail] == []
        (clock,) = [f for f in found if f.check == "clock"]
        assert "differs from the controller by 0.0" in clock.detail
    assert any("API versions of Kafka 4.3" in f.detail for f in found)


def test_lookups_create_no_topic_for_offsets(tmp_path: object) -> None:
    """FindCoordinator would create it, so it is not sent before there is a group."""
    from support.kafka import QUICK_COMPILER, KafkaServer

    with KafkaServer(jvm=QUICK_COMPILER) as kafka, Admin(bootstrap_servers=kafka.bootstrap_servers) as admin:
        check(bootstrap_servers=kafka.bootstrap_servers, group="new", topic="missing")
        assert list(admin.list_topics()) == []


def test_tls_on_plain_port_and_reverse(broken: BrokenKafka) -> None:
    failed = only_failure(check(bootstrap_servers=broken.bootstrap_servers, security_protocol="SSL"))
    assert failed.check == "tls"
    assert "does not use TLS" in failed.detail
    failed = only_failure(check(bootstrap_servers=broken.servers("SASL_SSL")))
    assert failed.check == "tls"
    assert "the listener uses TLS" in failed.detail


def test_certificates(broken: BrokenKafka) -> None:
    trusted = {"security.protocol": "SSL", "ssl.truststore.location": str(broken.ca), "ssl.truststore.type": "PEM"}
    failed = only_failure(check(trusted, bootstrap_servers=f"127.0.0.1:{broken.expired}"))
    assert failed.check == "tls"
    assert "expired on" in failed.detail
    failed = only_failure(check(trusted, bootstrap_servers=broken.servers("SSL")))
    assert "requires a client certificate" in failed.detail
    failed = only_failure(check(bootstrap_servers=broken.servers("SASL_SSL"), security_protocol="SSL"))
    assert "ssl.truststore.location" in failed.remedy


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256"])
def test_wrong_password(broken: BrokenKafka, mechanism: str) -> None:
    failed = only_failure(check(broken.password(mechanism, password="hunter2").ours))
    assert failed.check == "login"
    assert "failed" in failed.detail
    assert "sasl.password" in failed.remedy
    assert "hunter2" not in repr(failed)


def test_login_on_plain_listener_and_reverse(broken: BrokenKafka) -> None:
    login = broken.password("PLAIN", LISTENER).ours
    failed = only_failure(check({**login, "bootstrap.servers": broken.bootstrap_servers}))
    assert failed.check == "login"
    assert "security.protocol=PLAINTEXT" in failed.remedy
    failed = only_failure(check(bootstrap_servers=broken.servers(LISTENER)))
    assert failed.check == "login"
    assert "security.protocol=SASL_PLAINTEXT" in failed.remedy


def test_missing_acls(broken: BrokenKafka) -> None:
    login = broken.password("SCRAM-SHA-256", LISTENER).ours
    topic, group = create_topic(broken), f"group-{uuid4().hex[:8]}"

    def allow(*acls: AclBinding) -> None:
        with Admin(bootstrap_servers=broken.bootstrap_servers) as admin:
            admin.create_acls(acls)
            until(lambda: set(acls) <= set(admin.describe_acls()))

    bob = AclBinding(ResourceType.TOPIC, topic, "User:bob", AclOperation.READ)
    allow(bob)
    failed = only_failure(check(login, topic=topic))
    assert (failed.check, failed.detail) == ("acl", "this client may not describe the topic")
    assert f"samsarrow acls add --principal User:alice --topic {topic} --consumer" in failed.remedy
    allow(AclBinding(ResourceType.TOPIC, topic, "User:alice", AclOperation.DESCRIBE))
    failed = only_failure(check(login, topic=topic))
    assert "may not read the topic; permitted: describe" in failed.detail
    allow(AclBinding(ResourceType.TOPIC, topic, "User:alice", AclOperation.WRITE))
    failed = only_failure(check(login, topic=topic, group=group))
    assert "may not read the topic" in failed.detail
    with Admin(bootstrap_servers=broken.bootstrap_servers) as admin:
        admin.commit_offsets(group, {TopicPartition(topic, 0): 0})
    allow(
        AclBinding(ResourceType.TOPIC, topic, "User:alice", AclOperation.READ),
        AclBinding(ResourceType.GROUP, group, "User:bob", AclOperation.READ),
    )
    failed = only_failure(check(login, topic=topic, group=group))
    assert (failed.check, failed.detail) == ("acl", "this client may not describe the group")
    allow(AclBinding(ResourceType.GROUP, group, "User:alice", AclOperation.DESCRIBE))
    failed = only_failure(check(login, topic=topic, group=group))
    assert (failed.check, failed.detail) == ("acl", "this client may not read the group")
    assert f"--group {group}" in failed.remedy


def test_advertised_name_of_container(broken: BrokenKafka) -> None:
    found = check(bootstrap_servers=f"127.0.0.1:{broken.container}", topic="t", timeout=5)
    failed = only_failure(found)
    assert (failed.check, failed.subject) == ("advertised", "broker 1")
    assert "kafka-0.invalid:9092 cannot be used from here: the host name cannot be resolved" in failed.detail
    assert "set advertised.listeners of broker 1" in failed.remedy
    assert found[-1].status is Status.SKIPPED


@pytest.mark.parametrize("hours", [1, -1])
def test_clock(broken: BrokenKafka, monkeypatch: pytest.MonkeyPatch, hours: int) -> None:
    monkeypatch.setattr(_cluster, "now", lambda: time.time() + 3600 * hours)
    failed = only_failure(check(bootstrap_servers=broken.bootstrap_servers))
    assert failed.check == "clock"
    assert f"1.0 hours {'ahead of' if hours > 0 else 'behind'} the controller" in failed.detail


def test_missing_topic(broken: BrokenKafka) -> None:
    with Admin(bootstrap_servers=broken.bootstrap_servers) as admin:
        admin.create_topics([NewTopic("shipments")])
    failed = only_failure(check(bootstrap_servers=broken.bootstrap_servers, topic="shipment"))
    assert failed.check == "topic"
    assert "did you mean shipments?" in failed.remedy


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_group_whose_rebalance_is_stuck(broken: BrokenKafka, protocol: str) -> None:
    topic, group = create_topic(broken, 4), f"stuck-{protocol}"
    options = {
        "bootstrap.servers": broken.bootstrap_servers,
        "group.id": group,
        "group.protocol": protocol,
        "auto.offset.reset": "earliest",
    }
    with Consumer(options, client_id="hanging") as hanging, Consumer(options, client_id="waiting") as waiting:
        hanging.subscribe([topic])
        until(lambda: hanging.poll(0.2) is not None and hanging.assignment())
        waiting.subscribe([topic])
        ended = threading.Event()

        def poll() -> None:
            while not ended.is_set():
                waiting.poll(0.2)

        thread = threading.Thread(target=poll)
        thread.start()
        try:
            with Admin(bootstrap_servers=broken.bootstrap_servers) as admin:
                until(lambda: admin.describe_groups([group])[group].state != "Stable")
            found = check(bootstrap_servers=broken.bootstrap_servers, topic=topic, group=group, timeout=3)
        finally:
            ended.set()
            thread.join()
    failed = only_failure(found)
    assert failed.check == "group"
    assert "a rebalance is stuck" in failed.detail
    assert "hanging" in failed.detail
