"""Invalid broker certificates cause an immediate error, which names the fault and the remedy."""

import re
import socket
import ssl
import threading
import time
from collections.abc import Mapping

import pytest

from samsarrow import Admin
from samsarrow.exceptions import KafkaError, TlsError
from samsarrow.testing import Broker
from support.certificates import CLIENT, Authority, days, self_signed
from support.kafka import QUICK_COMPILER, KafkaServer, free_ports
from support.tls_front import Front
from support.weak_certificates import signed_with_sha1


class Material:
    """The certificates of this module, created once."""

    def __init__(self):
        self.ca = Authority()
        other = Authority("somebody else")
        self.good = self.ca.issue()
        self.self_signed = self_signed()
        self.self_signed_ca = self_signed(is_ca=True)
        self.revoked = self.ca.issue()
        self.revocations = self.ca.revocations(self.revoked)
        self.by_name = {
            "expired": self.ca.issue(start=days(-9), end=days(-2)),
            "future": self.ca.issue(start=days(2), end=days(9)),
            "wrong host": self.ca.issue(names=["kafka.example.com", "10.1.2.3"]),
            "CN only": self.ca.issue("127.0.0.1", names=()),
            "self-signed": self.self_signed,
            "self-signed CA": self.self_signed_ca,
            "unknown CA": other.issue(),
            "revoked": self.revoked,
            "RSA 1024": self.ca.issue(rsa_bits=1024),
            "SHA-1": signed_with_sha1(self.ca),
            "client only": self.ca.issue(usages=(CLIENT,)),
        }


# Required parts of the error: the fault, then the remedy.
FAULTS = {
    "expired": (r'certificate "broker" expired on 20\d\d-\d\d-\d\d', r"the broker needs a new one"),
    "future": (r"is not valid before 20\d\d-\d\d-\d\d", r"compare the clocks"),
    "wrong host": (
        r"is for kafka\.example\.com, 10\.1\.2\.3, not for 127\.0\.0\.1",
        r"ssl\.endpoint\.identification\.algorithm=none",
    ),
    "CN only": (r"names no host: a CN does not count", r"keytool -ext san=ip:127\.0\.0\.1"),
    "self-signed": (r'"alone" is self-signed and not trusted', r"ssl\.truststore\.location"),
    "self-signed CA": (r'"alone" is self-signed and not trusted|is that of an authority', r"ssl\.truststore\.location"),
    "unknown CA": (r'issued by "somebody else"', r"set ssl\.truststore\.location to the certificate of that authority"),
    "revoked": (r"is revoked", r"ssl\.crl\.location"),
    "RSA 1024": (r"RSA key of 1024 bits", r"reissue it with at least 2048"),
    "SHA-1": (r"signed with SHA-1", r"reissue it with SHA-256"),
    "client only": (r"is not for servers", r"serverAuth"),
}


@pytest.fixture(scope="module")
def material():
    return Material()


@pytest.fixture(scope="module")
def broker():
    with Broker(topics={"t": 1}) as broker:
        yield broker


@pytest.fixture
def options(material, tmp_path):
    (tmp_path / "revoked.pem").write_text(material.revocations)
    return {
        "security_protocol": "SSL",
        "ssl_ca_pem": material.ca.pem,
        "ssl_crl_location": str(tmp_path / "revoked.pem"),
    }


def topics(address, **options):
    with Admin(bootstrap_servers=address, **options) as admin:
        return admin.list_topics(timeout=20)


def refusal(address, **options):
    """Returns the text of the error, which must be raised immediately instead of at the timeout."""
    started = time.monotonic()
    with pytest.raises(TlsError) as caught:
        topics(address, **options)
    assert time.monotonic() - started < 10
    assert not caught.value.retriable
    return str(caught.value)


def test_accepts_valid_certificate(material, broker, options):
    with Front(material.good, broker.bootstrap_servers) as front:
        assert set(topics(front.address, **options)) == {"t"}
        assert front.handshakes >= 1


@pytest.mark.parametrize("fault", FAULTS)
def test_rejects_invalid_certificate(material, broker, options, fault):
    with Front(material.by_name[fault], broker.bootstrap_servers) as front:
        text = refusal(front.address, **options)
        assert front.handshakes == 0 or fault in {"RSA 1024"}
    assert front.address in text
    for expected in FAULTS[fault]:
        assert re.search(expected, text), text


@pytest.mark.parametrize("fault", FAULTS)
def test_verification_can_be_disabled(material, broker, fault):
    options = {"security_protocol": "SSL", "enable_ssl_certificate_verification": False}
    with Front(material.by_name[fault], broker.bootstrap_servers) as front:
        assert set(topics(front.address, **options)) == {"t"}


@pytest.mark.parametrize("switch", [{"ssl_endpoint_identification_algorithm": ""}, {"ssl_check_hostname": False}])
def test_disabled_hostname_verification_checks_the_rest(material, broker, options, switch):
    for fault in FAULTS:
        with Front(material.by_name[fault], broker.bootstrap_servers) as front:
            if fault in {"wrong host", "CN only"}:
                assert set(topics(front.address, **options, **switch)) == {"t"}
            else:
                refusal(front.address, **options, **switch)


def test_self_signed_certificate_must_match_exactly(material, broker):
    for own in (material.self_signed, material.self_signed_ca):
        is_ca = own is material.self_signed_ca
        trusted = {"security_protocol": "SSL", "ssl_ca_pem": own.chain_pem}
        with Front(own, broker.bootstrap_servers) as front:
            assert set(topics(front.address, **trusted)) == {"t"}
        # This certificate has the same name as the trusted one, but is neither equal to it nor issued by it.
        with Front(self_signed(is_ca=is_ca), broker.bootstrap_servers) as front:
            refusal(front.address, **trusted)
    for changed in ({"start": days(-9), "end": days(-2)}, {"names": ["elsewhere"]}):
        own = self_signed(is_ca=True, **changed)
        with Front(own, broker.bootstrap_servers) as front:
            refusal(front.address, security_protocol="SSL", ssl_ca_pem=own.chain_pem)


def test_crl_must_be_of_the_issuer_and_current(material, broker, options, tmp_path):
    crl = tmp_path / "revoked.pem"
    with Front(material.good, broker.bootstrap_servers) as front:
        crl.write_text(Authority("somebody else").revocations())
        assert "has no list of its issuer" in refusal(front.address, **options)
        crl.write_text(material.ca.revocations(end=days(-1)))
        assert "out of date" in refusal(front.address, **options)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_tls_1_1_server(material, broker, options):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.MINIMUM_SUPPORTED
    context.maximum_version = ssl.TLSVersion.TLSv1_1
    with Front(material.good, broker.bootstrap_servers, context=context) as front:
        assert "TLS 1.1 or older" in refusal(front.address, **options)


@pytest.mark.parametrize("version", ["TLSv1.2", "TLSv1.3"])
def test_missing_client_certificate(material, broker, options, version):
    """In TLS 1.3 the broker's alert arrives after the client has completed the handshake."""
    options = {**options, "ssl_enabled_protocols": version}
    with Front(material.good, broker.bootstrap_servers, client_ca=material.ca.pem) as front:
        text = refusal(front.address, **options)
        assert "client certificate" in text
        assert "ssl.keystore.location" in text
        own = material.ca.issue("somebody")
        shown = {"ssl_certificate_pem": own.chain_pem, "ssl_key_pem": own.key_pem}
        assert set(topics(front.address, **options, **shown)) == {"t"}
        stranger = Authority("unheard of").issue("somebody")
        shown = {"ssl_certificate_pem": stranger.chain_pem, "ssl_key_pem": stranger.key_pem}
        assert "does not accept the client's certificate" in refusal(front.address, **options, **shown)


def test_plaintext_broker(broker, options):
    text = refusal(broker.bootstrap_servers, **options)
    assert "does not use TLS" in text
    assert "security.protocol=PLAINTEXT" in text


def test_web_server(options):
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve():
            accepted, _ = listener.accept()
            with accepted:
                accepted.recv(1000)
                accepted.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
                accepted.recv(1000)

        threading.Thread(target=serve, daemon=True).start()
        assert "HTTP" in refusal(f"127.0.0.1:{listener.getsockname()[1]}", **options)


def test_plaintext_client_at_tls_port(material, broker):
    with Front(material.good, broker.bootstrap_servers) as front, Admin(bootstrap_servers=front.address) as admin:
        with pytest.raises(KafkaError) as caught:
            admin.list_topics(timeout=3)
        assert "security.protocol=SSL" in str(caught.value)


def test_tls_sessions_are_resumed(material, broker, options):
    with (
        Front(material.good, broker.bootstrap_servers) as front,
        Admin(bootstrap_servers=front.address, **options) as a,
    ):
        a.list_topics(timeout=20)
        first = front.handshakes
        front.drop()
        deadline = time.monotonic() + 20
        while front.handshakes == first and time.monotonic() < deadline:
            a.list_topics(timeout=20)
        assert front.resumed >= 1


def test_apache_kafka(material, options, tmp_path):
    """Kafka's own TLS uses the same certificates, with a listener for each."""
    ports = dict(zip(["good", *FAULTS], free_ports(1 + len(FAULTS)), strict=True))
    properties, listeners = {}, {}
    for number, (fault, port) in enumerate(ports.items()):
        own = material.by_name.get(fault, material.good)
        listeners[f"L{number}://127.0.0.1:{port}"] = "SSL"
        prefix = f"listener.name.l{number}.ssl."
        properties[prefix + "keystore.type"] = properties[prefix + "truststore.type"] = "PEM"
        properties[prefix + "keystore.location"] = str(own.write(tmp_path / f"{number}.pem"))
        (tmp_path / "ca.pem").write_text(material.ca.pem)
        properties[prefix + "truststore.location"] = str(tmp_path / "ca.pem")
    with KafkaServer(properties=properties, heap="512m", jvm=QUICK_COMPILER, listeners=listeners) as kafka:
        assert isinstance(topics(f"127.0.0.1:{ports['good']}", **options), Mapping)
        for fault, expected in FAULTS.items():
            text = refusal(f"127.0.0.1:{ports[fault]}", **options)
            assert re.search(expected[0], text), text
        text = refusal(kafka.bootstrap_servers, **options)
        assert "does not use TLS" in text
        with Admin(bootstrap_servers=f"127.0.0.1:{ports['good']}") as admin:
            with pytest.raises(KafkaError) as caught:
                admin.list_topics(timeout=3)
            assert "security.protocol=SSL" in str(caught.value)
