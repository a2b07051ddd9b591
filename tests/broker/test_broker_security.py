"""TLS and logins of the embedded broker, with samsarrow and librdkafka."""

import base64
import json
import time

import pytest
from confluent_kafka import Producer as Librdkafka
from confluent_kafka.admin import AdminClient

from samsarrow import Admin, Consumer, Producer, TopicPartition
from samsarrow.exceptions import AuthenticationError, KafkaError, TlsError
from samsarrow.testing import Broker, Logins
from support.waiting import until

USERS = {"alice": "secret", "bob,=": "hidden"}


@pytest.fixture
def secured():
    with Broker(topics={"t": 1}, security="SASL_PLAINTEXT", users=USERS) as broker:
        yield broker


def login(mechanism="PLAIN", username="alice", password="secret"):
    return {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": mechanism,
        "sasl.username": username,
        "sasl.password": password,
    }


def librdkafka_sends(broker, options):
    """Sends a record with librdkafka. Returns True if it was delivered, and the texts of all errors."""
    errors = []
    options = {"bootstrap.servers": broker.bootstrap_servers, **options, "error_cb": lambda e: errors.append(e.str())}
    producer = Librdkafka({**options, "message.timeout.ms": 20_000})
    producer.produce("t", b"x", on_delivery=lambda error, _: errors.append(error and error.str()))
    deadline = time.monotonic() + 20
    while not errors and time.monotonic() < deadline:
        producer.poll(0.1)
    producer.purge()
    return errors == [None], [error for error in errors if error]


def test_login(secured):
    with Producer(bootstrap_servers=secured.bootstrap_servers, **login()) as producer:
        assert producer.send("t", b"x").result(20).offset == 0
    logins = secured.logins()
    assert logins.succeeded >= 1
    assert logins == Logins(logins.succeeded, 0, 0, 0)


def test_wrong_password(secured):
    with (
        Producer(bootstrap_servers=secured.bootstrap_servers, **login(password="guess")) as producer,
        pytest.raises(AuthenticationError, match="Invalid username or password") as caught,
    ):
        producer.send("t", b"x").result(20)
    assert "guess" not in str(caught.value)
    assert secured.logins().succeeded == 0
    assert secured.logins().failed >= 1


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
@pytest.mark.parametrize("name", USERS)
def test_librdkafka_login(secured, mechanism, name):
    assert librdkafka_sends(secured, login(mechanism, name, USERS[name])) == (True, [])
    assert secured.logins().failed == 0
    arrived, errors = librdkafka_sends(secured, login(mechanism, name, "guess"))
    assert not arrived
    assert "invalid credentials" in errors[0] or "Invalid username or password" in errors[0]
    assert secured.logins().failed >= 1


def unsecured_token(**claims):
    def part(value):
        return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")

    return f"{part({'alg': 'none'})}.{part(claims)}."


def test_librdkafka_unsecured_oauthbearer_token(secured):
    options = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "OAUTHBEARER"}
    expires = time.time() + 600

    def fresh(_):
        return unsecured_token(sub="carol", exp=expires), expires

    admin = AdminClient({"bootstrap.servers": secured.bootstrap_servers, "oauth_cb": fresh, **options})
    admin.poll(1)
    assert set(admin.list_topics(timeout=20).topics) == {"t"}
    assert secured.logins().failed == 0


def test_enabled_mechanisms():
    broker = Broker(security="sasl_plaintext", users=USERS, sasl_mechanisms=["SCRAM-SHA-512"])
    with broker, Producer(bootstrap_servers=broker.bootstrap_servers, **login()) as producer:
        with pytest.raises(AuthenticationError, match="it accepts SCRAM-SHA-512"):
            producer.send("t", b"x").result(20)
        assert librdkafka_sends(broker, login("SCRAM-SHA-512"))[0]


def test_librdkafka_reauthenticates():
    with Broker(topics={"t": 1}, security="SASL_PLAINTEXT", users=USERS, session_lifetime=5) as broker:
        # librdkafka re-authenticates after nine tenths of the session lifetime.
        producer = Librdkafka({"bootstrap.servers": broker.bootstrap_servers, **login("SCRAM-SHA-256")})
        deadline = time.monotonic() + 60
        while broker.logins().repeated < 2 and time.monotonic() < deadline:
            producer.produce("t", b"x")
            assert producer.flush(20) == 0
            time.sleep(0.05)
        assert broker.logins().repeated >= 2
        assert broker.logins().expired == 0


def test_reauthentication():
    with Broker(topics={"t": 1}, security="SASL_SSL", users=USERS, session_lifetime=5) as broker:
        with Producer(**broker.client_options()) as producer:
            deadline = time.monotonic() + 60
            while broker.logins().repeated < 3 and time.monotonic() < deadline:
                producer.send("t", b"x").result(20)
                time.sleep(0.05)
            connected = broker.logins().succeeded
        logins = broker.logins()
        assert logins.repeated >= 3
        assert logins == Logins(connected, 0, logins.repeated, 0), "nobody connects again"
        assert connected <= 3


def test_alter_logins(secured):
    servers = secured.bootstrap_servers
    secured.alter_logins(step=1, error="SASL_AUTHENTICATION_FAILED", message="not today")
    with (
        Producer(bootstrap_servers=servers, **login()) as producer,
        pytest.raises(AuthenticationError, match="not today"),
    ):
        producer.send("t", b"x").result(20)
    assert secured.logins().failed == 1
    secured.alter_logins(replace=("v=.*", b"v=AAAA"), times=None)
    arrived, errors = librdkafka_sends(secured, login("SCRAM-SHA-256"))
    assert not arrived
    assert "ServerSignature mismatch" in errors[0], "librdkafka looks at the server's signature"
    secured.heal("SaslAuthenticate")
    assert librdkafka_sends(secured, login("SCRAM-SHA-256")) == (True, [])


def topics(options):
    """Lists the topics with samsarrow and with librdkafka, and checks that the lists are equal."""
    with Admin(**options) as admin:
        ours = set(admin.list_topics())
    theirs = set(AdminClient(options).list_topics(timeout=20).topics)
    assert ours == theirs
    return ours


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_logins_over_tls(mechanism, read):
    with Broker(brokers=2, topics={"t": 2}, security="sasl_ssl", users=USERS) as broker:
        options = broker.client_options("alice", mechanism)
        assert topics(options) == {"t"}
        with Producer(**options) as producer:
            for i in range(100):
                producer.send("t", b"%d" % i, partition=i % 2)
        with Consumer(**options, group_id="g", auto_offset_reset="earliest") as consumer:
            consumer.subscribe(["t"])
            assert read(consumer, 100).num_rows == 100
            consumer.commit()
            assert sum(o.offset for o in consumer.committed([TopicPartition("t", i) for i in range(2)]).values()) == 100
        connections = broker.connections()
        assert connections.accepted > connections.resumed > 0
        assert connections.with_certificate == 0
        assert librdkafka_sends(broker, options) == (True, [])
        # There may be fewer logins than connections, since a client may close a connection before the login.
        logins = broker.logins()
        assert logins == Logins(logins.succeeded, 0, 0, 0)
        assert 5 < logins.succeeded <= broker.connections().accepted


@pytest.mark.parametrize("client_auth", ["requested", "required"])
def test_client_certificates(client_auth):
    with Broker(topics={"t": 1}, security="SSL", client_auth=client_auth) as broker:
        assert topics(broker.client_options()) == {"t"}
        connections = broker.connections()
        assert connections.with_certificate >= 2
        without = {k: v for k, v in broker.client_options().items() if k not in ("ssl.certificate.pem", "ssl.key.pem")}
        if client_auth == "requested":
            assert topics(without) == {"t"}
            return
        with Admin(**without) as admin, pytest.raises(TlsError, match="certificate"):
            admin.list_topics()
        # The broker counts a failed handshake only when its own side of the connection has ended.
        until(lambda: broker.connections().refused >= 1)
        # The client certificate is passed with the option names of Java's client.
        shown = broker.client_certificate("bob")
        java = {
            "ssl.truststore.certificates": broker.ca_pem,
            "ssl.keystore.certificate.chain": shown.certificate,
            "ssl.keystore.key": shown.key,
        }
        with Admin(bootstrap_servers=broker.bootstrap_servers, security_protocol="SSL", **java) as admin:
            assert set(admin.list_topics()) == {"t"}
    assert "PRIVATE" not in repr(shown)


def test_untrusted_broker_certificate():
    with Broker(security="SSL") as broker, Broker(security="SSL") as other:
        options = broker.client_options() | {"ssl.ca.pem": other.ca_pem}
        with Admin(**options) as admin, pytest.raises(TlsError, match="certificate"):
            admin.list_topics()
        until(lambda: broker.connections().refused >= 1)


def test_wrong_security_protocol():
    with Broker(security="SSL") as broker:
        clear = Admin(bootstrap_servers=broker.bootstrap_servers, request_timeout_ms=2000, default_api_timeout_ms=2000)
        with clear, pytest.raises(KafkaError):
            clear.list_topics()
        until(lambda: broker.connections().refused >= 1)
    with Broker() as broker, Broker(security="SSL") as other:
        options = other.client_options() | {"bootstrap.servers": broker.bootstrap_servers}
        encrypted = Admin(**options, request_timeout_ms=2000, default_api_timeout_ms=2000)
        with encrypted, pytest.raises(KafkaError):
            encrypted.list_topics()
        with pytest.raises(ValueError, match="this broker uses PLAINTEXT"):
            _ = broker.ca_pem
        with pytest.raises(ValueError, match="this broker uses PLAINTEXT"):
            broker.client_certificate()


def test_client_options_of_unknown_users():
    with Broker(security="SASL_SSL", users=USERS) as broker:
        assert broker.client_options()["sasl.username"] == "alice"
        with pytest.raises(ValueError, match="there is no user 'carol'"):
            broker.client_options("carol")
    with Broker() as broker:
        assert broker.client_options() == {
            "bootstrap.servers": broker.bootstrap_servers,
            "security.protocol": "PLAINTEXT",
        }


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"security": "SASL_PLAINTEXT", "client_auth": "required"}, "cannot have them required"),
        ({"security": "SSL", "client_auth": "maybe"}, "is unknown"),
        ({"security": "SSL", "users": USERS}, "SSL has no logins"),
        ({"security": "SASL_PLAIN"}, "security SASL_PLAIN is unknown; did you mean SASL_PLAINTEXT"),
        ({"users": USERS}, "PLAINTEXT has no logins"),
        ({"session_lifetime": 3}, "PLAINTEXT has none"),
        ({"security": "SASL_PLAINTEXT", "session_lifetime": 0}, "must be 1 ms or more"),
        ({"security": "SASL_PLAINTEXT", "session_lifetime": -1}, "it must be 0 or more"),
        ({"security": "SASL_PLAINTEXT", "sasl_mechanisms": ["SCRAM"]}, "is unknown"),
        ({"security": "SASL_PLAINTEXT", "sasl_mechanisms": []}, "needs a mechanism"),
        ({"security": "SASL_PLAINTEXT", "users": {"": "x"}}, "must not be empty"),
        ({"security": "SASL_PLAINTEXT", "kafka_version": "0.9"}, "needs a mechanism"),
        ({"security": "SASL_PLAINTEXT", "kafka_version": "2.1", "session_lifetime": 9}, "KIP-368"),
    ],
)
def test_invalid_security_arguments(options, text):
    with pytest.raises(ValueError, match=text) as caught:
        Broker(**options)
    assert "hidden" not in str(caught.value)


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({}, "changes nothing"),
        ({"error": "SASL_FAILED"}, "is unknown"),
        ({"token": b"x", "replace": ("x", b"y")}, "exclude each other"),
        ({"replace": ("(", b"y")}, "pattern"),
        ({"token": b"x", "node": 1}, "there is no node 1"),
        ({"token": b"x", "times": 0}, "must be 1 or more"),
        ({"session_lifetime": -1}, "must be 0 or more"),
    ],
)
def test_invalid_alter_logins_arguments(secured, change, text):
    with pytest.raises(ValueError, match=text):
        secured.alter_logins(**change)
