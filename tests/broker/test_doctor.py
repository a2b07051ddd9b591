"""`samsarrow.doctor` and `samsarrow doctor` name the cause of broken set-ups, on the embedded broker."""

import http.server
import json
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from samsarrow import Admin, Assignor, Consumer, NewTopic, Producer, TopicPartition
from samsarrow.cluster_types import BrokerDescription, ClusterDescription
from samsarrow.doctor import Finding, Status, _cluster, check
from samsarrow.doctor._connect import Connected
from samsarrow.doctor._network import Server
from samsarrow.doctor._run import Run
from samsarrow.testing import Broker
from support.certificates import Authority, days, self_signed
from support.fences import ROOT, fences, shell
from support.kafka import free_ports
from support.proxy import Network
from support.tls_front import Front


def problems(found: list[Finding]) -> dict[str, Finding]:
    """Returns the failed findings and the warnings by the name of their check."""
    return {finding.check: finding for finding in found if finding.status in (Status.FAILED, Status.WARNING)}


def only_failure(found: list[Finding]) -> Finding:
    """Returns the failed finding, which must be the only one and have a remedy."""
    (failed,) = [finding for finding in found if finding.status is Status.FAILED]
    assert failed.remedy
    return failed


def test_healthy_cluster(broker: Broker) -> None:
    before = broker.requests()
    found = check(broker.client_options(), topic="t", group="g", auto_offset_reset="earliest")
    assert problems(found) == {}
    assert [finding.check for finding in found] == [
        "options", "dns", "tcp", "versions", "cluster", "advertised", "clock", "topic", "acl", "offsets", "read",
        "coordinator", "lag",
    ]  # fmt: skip
    writes = {"Produce", "OffsetCommit", "JoinGroup", "CreateTopics", "InitProducerId", "FindCoordinator"}
    assert not writes & {api for api, count in broker.requests().items() if count > before.get(api, 0)}


@pytest.mark.parametrize(
    ("server", "name", "cause", "remedy"),
    [
        ("no-such-host.invalid:9092", "dns", "cannot be resolved", "getent hosts no-such-host.invalid"),
        ("kafka://127.0.0.1:9092", "options", "without kafka://", "correct it"),
        ("127.0.0.1:{port}", "tcp", "connection refused", "listeners"),
    ],
)
def test_wrong_host_and_port(server: str, name: str, cause: str, remedy: str) -> None:
    found = check(bootstrap_servers=server.format(port=free_ports(1)[0]), timeout=5)
    failed = only_failure(found)
    assert failed is found[-1], "nothing can be checked after it"
    assert failed.check == name
    assert cause in failed.detail
    assert remedy in failed.remedy


def test_wrong_server_beside_right_one_is_a_warning(broker: Broker) -> None:
    found = check(bootstrap_servers=f"127.0.0.1:{free_ports(1)[0]},{broker.bootstrap_servers}")
    assert problems(found).keys() == {"tcp"}
    assert problems(found)["tcp"].status is Status.WARNING
    assert "connection refused" in problems(found)["tcp"].detail


def test_tls_client_on_plain_port(broker: Broker) -> None:
    failed = only_failure(check(bootstrap_servers=broker.bootstrap_servers, security_protocol="SSL"))
    assert (failed.check, failed.subject) == ("tls", broker.bootstrap_servers)
    assert "does not use TLS" in failed.detail
    assert "security.protocol=PLAINTEXT" in failed.remedy


@pytest.mark.parametrize("front", [True, False])
def test_plain_client_on_tls_port(broker: Broker, front: bool) -> None:
    """A Front closes the connection without a word, the embedded broker sends an alert."""
    with (
        Front(Authority().issue(), broker.bootstrap_servers) as closing,
        Broker(security="SSL") as alerting,
    ):
        address = closing.address if front else alerting.bootstrap_servers
        failed = only_failure(check(bootstrap_servers=address))
    assert failed.check == "tls"
    assert "the listener uses TLS" in failed.detail
    assert "security.protocol=SSL" in failed.remedy
    assert "ssl.truststore.location" in failed.remedy


@pytest.mark.parametrize(
    ("case", "cause", "remedy"),
    [
        ("expired", "expired on", "needs a new one"),
        ("future", "not valid before", "compare the clocks"),
        ("other name", "is for other.example.com, not for 127.0.0.1", "san=ip:127.0.0.1"),
        ("self-signed", "self-signed and not trusted", "ssl.truststore.location"),
        ("unknown authority", "not signed with the key", "newest certificate"),
    ],
)
def test_certificates(broker: Broker, case: str, cause: str, remedy: str) -> None:
    authority = Authority()
    own = {
        "expired": lambda: authority.issue(start=-days(3), end=-days(1)),
        "future": lambda: authority.issue(start=days(1), end=days(3)),
        "other name": lambda: authority.issue(names=["other.example.com"]),
        "self-signed": self_signed,
        "unknown authority": Authority().issue,
    }[case]()
    with Front(own, broker.bootstrap_servers) as front:
        found = check(bootstrap_servers=front.address, security_protocol="SSL", ssl_ca_pem=authority.pem)
    failed = only_failure(found)
    assert failed.check == "tls"
    assert cause in failed.detail
    assert remedy in failed.remedy


def test_certificate_that_expires_soon(broker: Broker) -> None:
    authority = Authority()
    with Front(authority.issue(start=-days(90), end=days(5)), broker.bootstrap_servers) as front:
        found = check(bootstrap_servers=front.address, security_protocol="SSL", ssl_ca_pem=authority.pem)
    assert problems(found)["tls"].status is Status.WARNING
    assert "expires in 4 days" in problems(found)["tls"].detail
    # The embedded broker advertises its own port, which has no TLS.
    assert "advertised.listeners of broker 0" in problems(found)["advertised"].remedy


def test_missing_client_certificate() -> None:
    with Broker(security="SSL", client_auth="required") as broker:
        options = {"bootstrap.servers": broker.bootstrap_servers, "security.protocol": "SSL"}
        failed = only_failure(check(options, ssl_ca_pem=broker.ca_pem))
        assert problems(check(broker.client_options())) == {}
    assert "requires a client certificate" in failed.detail
    assert "ssl.keystore.location" in failed.remedy


def test_logins() -> None:
    users = {"alice": "secret"}
    with Broker(security="SASL_SSL", users=users, sasl_mechanisms=["SCRAM-SHA-256"]) as broker:
        options = broker.client_options("alice")
        found = check(options)
        assert problems(found) == {}
        assert [f.detail for f in found if f.check == "login"] == ["logged in with SCRAM-SHA-256 as alice"]
        found = check(options | {"sasl.password": "hunter2"})
        failed = only_failure(found)
        assert failed.check == "login"
        assert "sasl.username=alice" in failed.detail
        assert "sasl.password" in failed.remedy
        assert [f.status for f in found if f.check == "tls"] == [Status.OK]
        assert "hunter2" not in repr(found)
        failed = only_failure(check(options | {"sasl.mechanism": "PLAIN"}))
        assert "it accepts SCRAM-SHA-256" in failed.detail
        assert "set sasl.mechanism" in failed.remedy
        without = {k: v for k, v in options.items() if not k.startswith("sasl.")} | {"security.protocol": "SSL"}
        assert "security.protocol=SASL_SSL" in only_failure(check(without)).remedy


def test_options(broker: Broker) -> None:
    found = check(bootstrap_servers=broker.bootstrap_servers, lingre_ms=5)
    assert only_failure(found).check == "options"
    assert "lingre" in only_failure(found).detail
    assert found[-1].check == "clock", "the other checks run without the unknown option"
    assert "given twice" in only_failure(check({"bootstrap.servers": "a:1"}, bootstrap_servers="b:1")).detail
    assert "bootstrap.servers" in only_failure(check({})).detail
    ignored = problems(check(bootstrap_servers=broker.bootstrap_servers, sasl_username="alice"))["options"]
    assert "sasl.username is ignored" in ignored.detail
    assert "SASL_SSL" in ignored.remedy
    found = check(bootstrap_servers=broker.bootstrap_servers, on_event=print, partition_assignment_strategy=[Assignor])
    assert problems(found) == {}, "objects are ignored"
    with pytest.raises(ValueError, match="needs a topic"):
        check(bootstrap_servers=broker.bootstrap_servers, write=True)
    with pytest.raises(ValueError, match="timeout"):
        check(bootstrap_servers=broker.bootstrap_servers, timeout=0)
    for argument in ("topic", "group"):
        names: dict = {argument: ["orders"]}
        with pytest.raises(TypeError, match=f"^{argument} is the name of one {argument}, not list"):
            check(bootstrap_servers="localhost:1", **names)
        names[argument] = ""
        with pytest.raises(ValueError, match=f"^{argument} is empty"):
            check(bootstrap_servers="localhost:1", **names)


def test_ports_of_other_programs() -> None:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), http.server.BaseHTTPRequestHandler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        failed = only_failure(check(bootstrap_servers=f"127.0.0.1:{server.server_port}", timeout=2))
        server.shutdown()
    assert "HTTP server" in failed.detail
    with socket.create_server(("127.0.0.1", 0)) as silent:
        began = time.monotonic()
        failed = only_failure(check(bootstrap_servers=f"127.0.0.1:{silent.getsockname()[1]}", timeout=1))
        assert time.monotonic() - began < 5
    assert "does not respond" in failed.detail


def test_servers_of_different_clusters(broker: Broker) -> None:
    with Broker() as other:
        found = check(bootstrap_servers=f"{broker.bootstrap_servers},{other.bootstrap_servers}", topic="t")
    failed = only_failure(found)
    assert failed is found[-1]
    assert "belong to different clusters" in failed.detail
    assert other.bootstrap_servers in failed.detail


def test_missing_topic(broker: Broker) -> None:
    broker.create_topic("orders")
    failed = only_failure(check(broker.client_options(), topic="order"))
    assert failed.check == "topic"
    assert failed.detail == "the topic does not exist"
    assert "did you mean orders?" in failed.remedy
    assert f"samsarrow topics create order -b {broker.bootstrap_servers}" in failed.remedy
    with Admin(broker.client_options()) as admin:
        assert "order" not in admin.list_topics(), "the doctor creates no topic"


def test_missing_acl_for_topic(broker: Broker) -> None:
    for api in ("DescribeTopicPartitions", "Metadata"):
        broker.fail(api, error="TOPIC_AUTHORIZATION_FAILED", times=None)
    failed = only_failure(check(broker.client_options(), topic="t"))
    assert (failed.check, failed.subject) == ("acl", "topic t")
    assert "samsarrow acls add --principal User:NAME --topic t --consumer" in failed.remedy
    broker.heal()
    broker.fail("Fetch", error="TOPIC_AUTHORIZATION_FAILED", times=None)
    failed = only_failure(check(broker.client_options(), topic="t"))
    assert (failed.check, failed.detail) == ("read", "this client may not read the topic")


def test_missing_acl_for_group(broker: Broker) -> None:
    with Admin(broker.client_options()) as admin:
        admin.commit_offsets("g", {TopicPartition("t", 0): 0})
    broker.fail("FindCoordinator", error="GROUP_AUTHORIZATION_FAILED", times=None)
    failed = only_failure(check(broker.client_options(), group="g"))
    assert (failed.check, failed.subject) == ("acl", "group g")
    assert "samsarrow acls add --principal User:NAME --group g" in failed.remedy


def test_unreachable_advertised_address() -> None:
    with Broker(brokers=2, topics={"t": 2}) as broker, Network(broker.bootstrap_servers) as network:
        first, second = network.proxies
        second.close()
        found = problems(check(bootstrap_servers=first.address, topic="t", group="g", timeout=3))
    assert found["advertised"].subject == "broker 1"
    assert second.address in found["advertised"].detail
    assert "connection refused" in found["advertised"].detail
    assert "set advertised.listeners of broker 1" in found["advertised"].remedy
    assert "the leaders of partition 1 of 2 are brokers that cannot be used" in found["topic"].detail


def test_under_replicated_partitions() -> None:
    with Broker(brokers=2, topics={"t": 2}) as broker:
        broker.stop_broker(1)
        found = problems(check(broker.client_options(), topic="t", timeout=3))
    assert found["topic"].status is Status.WARNING
    assert found["topic"].detail.startswith("partitions 0, 1 of 2 are under-replicated")


def test_advertised_name_of_container(broker: Broker) -> None:
    server = Server("kafka.example.com", 9092)
    run = Run({"bootstrap.servers": str(server)}, None, None, False, 5.0)
    brokers = (
        BrokerDescription(1, "kafka-0.invalid", 9092, None, False),
        BrokerDescription(2, "localhost", 1, None, False),
    )
    cluster = ClusterDescription("id", 1, brokers)
    found, good = _cluster.check_advertised(run, cluster, {server: Connected([], cluster)})
    assert good == set()
    assert "kafka-0.invalid:9092 cannot be used from here: the host name cannot be resolved" in found[0].detail
    assert "NAME://kafka.example.com:9092" in found[0].remedy
    assert "advertises itself as this machine" in found[1].detail


def test_advertised_address_of_another_cluster(broker: Broker) -> None:
    host, port = broker.bootstrap_servers.split(":")
    bootstrap, run = Server("kafka.example.com", 9092), Run(broker.client_options(), None, None, False, 5.0)
    cluster = ClusterDescription("id", 1, (BrokerDescription(1, host, int(port), None, False),))
    found, good = _cluster.check_advertised(run, cluster, {bootstrap: Connected([], cluster)})
    assert good == set()
    assert "another cluster" in found[0].detail
    assert "set advertised.listeners of broker 1" in found[0].remedy


@pytest.mark.parametrize("hours", [1, -1, 0])
def test_clock(broker: Broker, monkeypatch: pytest.MonkeyPatch, hours: int) -> None:
    with Admin(broker.client_options()) as admin:
        admin.create_topics([NewTopic("stamped", configs={"message.timestamp.type": "LogAppendTime"})])
    monkeypatch.setattr(_cluster, "now", lambda: time.time() + 3600 * hours)
    found = check(broker.client_options(), topic="stamped", write=True)
    if not hours:
        assert problems(found) == {}
        return
    failed = problems(found)["clock"]
    assert failed.status is Status.FAILED
    assert f"clock is 1.0 hours {'ahead of' if hours > 0 else 'behind'}" in failed.detail
    assert "NTP" in failed.remedy


@pytest.mark.parametrize("hours", [1, -1])
def test_clock_of_the_controller(broker: Broker, monkeypatch: pytest.MonkeyPatch, hours: int) -> None:
    monkeypatch.setattr(_cluster, "now", lambda: time.time() + 3600 * hours)
    failed = only_failure(check(broker.client_options()))
    assert failed.check == "clock"
    assert f"clock is 1.0 hours {'ahead of' if hours > 0 else 'behind'} the controller" in failed.detail


def test_records_from_the_future(broker: Broker) -> None:
    with Producer(broker.client_options()) as producer:
        producer.send("t", b"x", timestamp=int((time.time() + 7200) * 1000)).result()
    found = problems(check(broker.client_options(), topic="t"))
    assert "the newest record is 2.0 hours in the future" in found["timestamps"].detail


def test_open_transaction(broker: Broker) -> None:
    with Producer(broker.client_options(), transactional_id="id") as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send("t", b"x").result()
        found = problems(check(broker.client_options(), topic="t"))
        producer.abort_transaction()
    assert "open transactions hold back 1 offsets" in found["offsets"].detail
    assert "samsarrow txns hanging t" in found["offsets"].remedy


def test_write(broker: Broker) -> None:
    found = check(broker.client_options(), topic="t", write=True)
    assert [f.detail for f in found if f.check == "write"] == ["wrote a record to partition 0 at offset 0"]
    broker.fail("Produce", error="TOPIC_AUTHORIZATION_FAILED", times=None)
    failed = only_failure(check(broker.client_options(), topic="t", write=True))
    assert (failed.check, failed.detail) == ("write", "this client may not write to the topic")
    assert "--producer" in failed.remedy


@contextmanager
def member(broker: Broker, name: str, **options: object) -> Iterator[Consumer]:
    options = {"group_id": "g", "client_id": name, "auto_offset_reset": "earliest", **options}
    with Consumer(broker.client_options(), **options) as consumer:  # type: ignore[arg-type]
        consumer.subscribe(["t"])
        yield consumer


def test_group_whose_rebalance_is_stuck(broker: Broker) -> None:
    """A member that does not call poll keeps the group in its rebalance."""
    with member(broker, "hanging") as hanging, member(broker, "waiting") as waiting:
        hanging.poll(5)
        assert hanging.assignment()
        ended = threading.Event()

        def poll() -> None:
            while not ended.is_set():
                waiting.poll(0.2)

        thread = threading.Thread(target=poll)
        thread.start()
        try:
            with Admin(broker.client_options()) as admin:
                while admin.describe_groups(["g"])["g"].state == "Stable":
                    time.sleep(0.05)
            failed = only_failure(check(broker.client_options(), topic="t", group="g", timeout=2))
        finally:
            ended.set()
            thread.join()
    assert (failed.check, failed.subject) == ("group", "group g")
    assert "a rebalance is stuck: PreparingRebalance" in failed.detail
    assert "hanging" in failed.detail
    assert "max.poll.interval.ms" in failed.remedy


def test_lag_of_members_that_do_not_commit(broker: Broker) -> None:
    with Producer(broker.client_options()) as producer:
        for _ in range(10):
            producer.send("t", b"x")
    with Admin(broker.client_options()) as admin:
        admin.commit_offsets("g", {TopicPartition("t", 0): 4})
        found = problems(check(broker.client_options(), topic="t", group="g"))
        assert found["lag"].detail == "lag 6 in 1 partitions, and the group has no member"
        with member(broker, "slow", enable_auto_commit=False) as slow:
            slow.poll(5)
            found = problems(check(broker.client_options(), topic="t", group="g", timeout=1))
            assert "no offset was committed" in found["lag"].detail
            assert found.keys() == {"lag"}
            broker.create_topic("other")
            found = problems(check(broker.client_options(), topic="other", group="g", timeout=1))
            assert found["assignment"].detail == "no member is subscribed to other"
            assert "auto.offset.reset=earliest" in found["lag"].remedy


def test_offsets_out_of_range(broker: Broker) -> None:
    with Producer(broker.client_options()) as producer:
        for _ in range(10):
            producer.send("t", b"x")
    partition = TopicPartition("t", 0)
    with Admin(broker.client_options()) as admin:
        admin.commit_offsets("g", {partition: 4})
        admin.delete_records({partition: 7})
        failed = only_failure(check(broker.client_options(), topic="t", group="g"))
        assert failed.check == "offsets"
        assert "removed by retention" in failed.detail
        assert "committed 4, available 7 to 10" in failed.detail
        assert "samsarrow offsets reset g --to-earliest --topic t --dry-run" in failed.remedy
        admin.commit_offsets("g", {partition: 44})
        assert "after the end" in only_failure(check(broker.client_options(), topic="t", group="g")).detail


@pytest.mark.parametrize("version", ["0.8.2", "0.9", "0.10.2", "2.8", "3.9", "4.4"])
def test_old_brokers(version: str) -> None:
    with Broker(topics={"t": 1}, kafka_version=version) as broker:
        found = check(broker.client_options(), topic="t", group="g", auto_offset_reset="earliest", timeout=3)
    assert problems(found) == {}
    (release,) = [finding.detail for finding in found if finding.check == "versions"]
    assert release == {
        "0.8.2": "older than Kafka 0.10", "0.9": "older than Kafka 0.10", "4.4": "API versions of Kafka 4.4 or later",
    }.get(version, f"API versions of Kafka {version}")  # fmt: skip


def test_command(command, broker: Broker) -> None:
    done = command("doctor", "--topic", "t", "-X", "auto.offset.reset=earliest")
    lines = done.out.splitlines()
    assert all(line.split()[0] in ("ok", "skip", "hint:") for line in lines[:-1]), done.out
    assert "ok   topic       topic t: 1 partition" in done.out
    assert lines[-1].endswith(" ok")
    assert done.err == ""
    failed = command("doctor", "--topic", "missing", "--json", code=1)
    rows = [json.loads(line) for line in failed.out.splitlines()]
    assert [row["check"] for row in rows if row["status"] == "failed"] == ["topic"]
    assert rows[-1].keys() == {"check", "subject", "status", "detail", "remedy", "seconds"}
    assert "FAIL topic" in command("doctor", "--topic", "missing", code=1).out
    assert "fix: " in command("doctor", "-b", "127.0.0.1:1", code=1).out
    assert "--topic" in command("doctor", "--write", code=2).err
    assert "wrote a record" in command("doctor", "--write", "--topic", "t").out
    assert "is unknown" in command("doctor", "-X", "foo=1", code=1).out


def test_commands_of_the_page(command, broker: Broker) -> None:
    broker.create_topic("orders", 4)
    with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        admin.commit_offsets("billing", {TopicPartition("orders", 0): 0})
    lines = [
        line
        for fence in fences(ROOT / "docs" / "troubleshooting.md")
        if fence.language == "sh"
        for line in fence.text.splitlines()
    ]
    assert len(lines) == 2
    for line in lines:
        shell(line.replace("localhost:9092", broker.bootstrap_servers), command)
