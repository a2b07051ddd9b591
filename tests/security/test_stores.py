"""Trust stores and key stores in all formats that Java and OpenSSL write."""

import shutil
import subprocess

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.serialization import pkcs12

from samsarrow import Consumer, Producer
from samsarrow.exceptions import ConfigurationError, TlsError
from samsarrow.testing import Broker

PASSWORD, OTHER = "pässwörd", "of the key"
# `keytool -importkeystore` writes stores with ASCII passwords only, and keys use the password of the store.
ASCII = "changeit"


def run(*command):
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture(scope="module")
def broker():
    with Broker(topics={"t": 1}, security="SSL", client_auth="required") as broker:
        yield broker


@pytest.fixture(scope="module")
def stores(broker, tmp_path_factory):
    """A folder with the same authority, certificate and key in every format."""
    for tool in ("keytool", "openssl"):
        assert shutil.which(tool), f"stores are made with {tool}: install a JDK 17 and OpenSSL 3"
    folder = tmp_path_factory.mktemp("stores")
    own = broker.client_certificate("alice")
    (folder / "ca.pem").write_text(broker.ca_pem)
    (folder / "cert.pem").write_text(own.certificate)
    (folder / "key.pem").write_text(own.key)
    (folder / "both.pem").write_text(own.key + own.certificate)
    key = serialization.load_pem_private_key(own.key.encode(), None)
    certificate = x509.load_pem_x509_certificate(own.certificate.encode())
    ca = x509.load_pem_x509_certificate(broker.ca_pem.encode())
    encrypted = serialization.BestAvailableEncryption(PASSWORD.encode())
    form = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, encrypted
    (folder / "encrypted.pem").write_bytes(key.private_bytes(*form))
    encrypted = serialization.BestAvailableEncryption(ASCII.encode())
    (folder / "own.p12").write_bytes(pkcs12.serialize_key_and_certificates(b"me", key, certificate, [ca], encrypted))

    def keytool(*arguments):
        run("keytool", "-storepass", ASCII, "-noprompt", *arguments)

    def path(name):
        return str(folder / name)

    source = "-importkeystore", "-srckeystore", path("own.p12"), "-srcstorepass", ASCII, "-srcalias", "me"
    trusted = "-importcert", "-alias", "ca", "-file", path("ca.pem")
    for kind in ("pkcs12", "jks"):
        keytool(*trusted, "-keystore", path(f"ca.{kind}"), "-storetype", kind)
        keytool(*source, "-destkeystore", path(f"own.{kind}"), "-deststoretype", kind)
    keytool("-keypasswd", "-alias", "me", "-keypass", ASCII, "-new", OTHER, "-keystore", path("own.jks"))
    keytool(*trusted, "-keystore", path("ca.jceks"), "-storetype", "jceks")
    openssl = "openssl", "pkcs12", "-export", "-legacy", "-passout", f"pass:{ASCII}"
    run(*openssl, "-in", path("both.pem"), "-certfile", path("ca.pem"), "-out", path("own.legacy"))
    run(*openssl, "-nokeys", "-in", path("ca.pem"), "-out", path("ca.legacy"))
    (folder / "certificates").mkdir()
    (folder / "certificates" / "one.crt").write_text(broker.ca_pem)
    (folder / "certificates" / "README").write_text("Nothing to see here.")
    (folder / "certificates" / ".empty").touch()
    run("openssl", "rehash", path("certificates"))
    run("openssl", "x509", "-in", path("ca.pem"), "-outform", "DER", "-out", path("ca.der"))
    old = "-aes128", "-passout", f"pass:{ASCII}", "-traditional"
    run("openssl", "pkey", "-in", path("key.pem"), "-out", path("old.pem"), *old)
    return folder


def trust(stores):
    return {
        "PEM file": {"ssl.truststore.location": stores / "ca.pem", "ssl.truststore.type": "PEM"},
        "PEM inline": {"ssl.truststore.certificates": (stores / "ca.pem").read_text()},
        "folder": {"ssl.ca.location": stores / "certificates"},
        "DER": {"ssl.truststore.location": stores / "ca.der"},
        "PKCS12": {"ssl.truststore.location": stores / "ca.pkcs12", "ssl.truststore.password": ASCII},
        "old PKCS12": {"ssl.truststore.location": stores / "ca.legacy", "ssl.truststore.password": ASCII},
        "JKS": {
            "ssl.truststore.location": stores / "ca.jks",
            "ssl.truststore.password": ASCII,
            "ssl.truststore.type": "JKS",
        },
        "JKS without a password": {"ssl.truststore.location": stores / "ca.jks"},
    }


def identity(stores):
    return {
        "PEM files": {"ssl.certificate.location": stores / "cert.pem", "ssl.key.location": stores / "key.pem"},
        "PEM inline": {
            "ssl.keystore.certificate.chain": (stores / "cert.pem").read_text(),
            "ssl.keystore.key": (stores / "key.pem").read_text().replace("\n", "\\n"),
        },
        "one PEM file": {"ssl.keystore.location": stores / "both.pem", "ssl.keystore.type": "PEM"},
        "certificate and key in one": {"ssl_certfile": stores / "both.pem"},
        "encrypted PKCS8": {
            "ssl.certificate.location": stores / "cert.pem",
            "ssl.key.location": stores / "encrypted.pem",
            "ssl.key.password": PASSWORD,
        },
        "PKCS12": {"ssl.keystore.location": stores / "own.pkcs12", "ssl.keystore.password": ASCII},
        "PKCS12 under the name of JKS": {
            "ssl.keystore.location": stores / "own.pkcs12",
            "ssl.keystore.password": ASCII,
            "ssl.keystore.type": "JKS",
        },
        "old PKCS12": {"ssl.keystore.location": stores / "own.legacy", "ssl.keystore.password": ASCII},
        "JKS": {
            "ssl.keystore.location": stores / "own.jks",
            "ssl.keystore.password": ASCII,
            "ssl.key.password": OTHER,
        },
    }


def send(broker, *options):
    """Sends a record with these options."""
    config = {name: str(value) for some in options for name, value in some.items()}
    with Producer({"bootstrap.servers": broker.bootstrap_servers, "security.protocol": "SSL", **config}) as producer:
        return producer.send("t", b"x").result(20)


TRUST = ["PEM file", "PEM inline", "folder", "DER", "PKCS12", "old PKCS12", "JKS", "JKS without a password"]
IDENTITY = [
    "PEM files", "PEM inline", "one PEM file", "certificate and key in one", "encrypted PKCS8", "PKCS12",
    "PKCS12 under the name of JKS", "old PKCS12", "JKS",
]  # fmt: skip


@pytest.mark.parametrize("name", TRUST)
def test_trust_stores(broker, stores, name):
    assert send(broker, identity(stores)["PEM files"], trust(stores)[name]).offset >= 0


@pytest.mark.parametrize("name", IDENTITY)
def test_key_stores(broker, stores, name):
    assert send(broker, trust(stores)["PEM file"], identity(stores)[name]).offset >= 0


def test_all_formats_are_covered(stores):
    assert (list(trust(stores)), list(identity(stores))) == (TRUST, IDENTITY)


def test_store_contents_are_enforced(broker, stores, tmp_path):
    """Checks that stores are used, because the tests above would also pass if any authority or no client certificate
    were accepted.
    """
    own = identity(stores)["PEM files"]
    with Broker(security="SSL") as stranger:
        (tmp_path / "ca.pem").write_text(stranger.ca_pem)
    with pytest.raises(TlsError, match=r"whom ssl\.truststore\.location does not have"):
        send(broker, own, {"ssl.truststore.location": tmp_path / "ca.pem"})
    with pytest.raises(TlsError, match="requires a client certificate"):
        send(broker, trust(stores)["PEM file"])


# Options, and the text that the error must contain; `{}` is the folder of the stores.
REFUSED = [
    ({"ssl.truststore.location": "{}/ca.jceks"}, "JCEKS.*keytool -importkeystore .*-srcstoretype JCEKS"),
    ({"ssl.truststore.location": "{}/missing.pem"}, "ssl.truststore.location .*missing.pem.* cannot be read"),
    ({"ssl.truststore.location": "{}/key.pem"}, "has no certificate: no broker could be trusted"),
    ({"ssl.truststore.location": "{}/ca.pkcs12"}, "needs a password: set ssl.truststore.password"),
    ({"ssl.truststore.location": "{}/ca.pkcs12", "ssl.truststore.password": "wrong"}, "cannot be opened"),
    ({"ssl.truststore.location": "{}/ca.legacy", "ssl.truststore.password": "wrong"}, "cannot be opened"),
    ({"ssl.truststore.location": "{}/ca.jks", "ssl.truststore.password": "wrong"}, "cannot be opened"),
    (
        {"ssl.truststore.location": "{}/ca.jks", "ssl.truststore.type": "PKCS12"},
        "is JKS, but .*type=PKCS12",
    ),
    ({"ssl.truststore.location": "{}/ca.pem", "ssl.truststore.certificates": "x"}, "mutually exclusive"),
    ({"ssl.truststore.location": "{}/bcfks"}, "keytool -importkeystore .*-srcstoretype BCFKS"),
    ({"ssl.truststore.location": "{}/noise"}, "is no PEM, PKCS12 or JKS"),
    ({"ssl.truststore.location": "{}/cut.pkcs12", "ssl.truststore.password": ASCII}, "PKCS12 that cannot be used"),
    ({"ssl.truststore.location": "{}/cut.jks"}, "JKS that cannot be used: it is truncated"),
    ({"ssl.truststore.location": "{}/huge"}, "larger than 16 MiB"),
    ({"ssl.keystore.location": "{}/ca.pem"}, "ssl.keystore.location .* has no private key"),
    ({"ssl.keystore.location": "{}/own.jks", "ssl.keystore.password": ASCII}, "set ssl.key.password"),
    ({"ssl.keystore.location": "{}/own.pkcs12", "ssl.keystore.password": "wrong"}, "password in ssl.keystore.password"),
    ({"ssl.keystore.location": "{}/both.pem", "ssl.key.location": "{}/key.pem"}, "mutually exclusive"),
    ({"ssl.keystore.password": "x"}, "not ssl.keystore.location"),
    ({"ssl.certificate.location": "{}/cert.pem"}, "has no private key: set ssl.keystore.key or ssl.key.location"),
    ({"ssl.key.location": "{}/key.pem"}, "the private key has no certificate"),
    ({"ssl.certificate.location": "{}/cert.pem", "ssl.key.location": "{}/encrypted.pem"}, "set ssl.key.password"),
    (
        {
            "ssl.certificate.location": "{}/cert.pem",
            "ssl.key.location": "{}/encrypted.pem",
            "ssl.key.password": "wrong",
        },
        "cannot be decrypted with the password in ssl.key.password",
    ),
    (
        {"ssl.certificate.location": "{}/cert.pem", "ssl.key.location": "{}/old.pem", "ssl.key.password": ASCII},
        "Proc-Type: 4,ENCRYPTED.*openssl pkcs8 -topk8 -in .*old.pem",
    ),
    (
        {"ssl.certificate.location": "{}/own.pkcs12", "ssl.key.location": "{}/key.pem"},
        "set ssl.keystore.location",
    ),
    ({"ssl.certificate.location": "{}/ca.pem", "ssl.key.location": "{}/key.pem"}, "does not match its certificate"),
    ({"ssl.crl.location": "{}/ca.pem", "ssl.truststore.location": "{}/ca.pem"}, "BEGIN X509 CRL"),
    ({"ssl.crl.location": "{}/ca.pem"}, "ssl.crl.location needs ssl.truststore.location"),
    ({"ssl.enabled.protocols": "TLSv1.1"}, "ssl.enabled.protocols: none of TLSv1.1 is supported"),
    ({"ssl.cipher.suites": "AES128-SHA"}, "ssl.cipher.suites: none of .*TLS_AES_256_GCM_SHA384"),
    ({"ssl.curves.list": "sect571r1"}, "ssl.curves.list: none of .*X25519"),
]


@pytest.mark.parametrize(("options", "text"), REFUSED, ids=lambda value: value if isinstance(value, str) else "")
def test_unusable_stores_fail_in_the_constructor(stores, options, text):
    (stores / "cut.pkcs12").write_bytes((stores / "ca.pkcs12").read_bytes()[:-100])
    (stores / "cut.jks").write_bytes((stores / "ca.jks").read_bytes()[:-100])
    (stores / "bcfks").write_bytes(b"\x30\x05\x30\x03\x04\x01x")
    (stores / "noise").write_bytes(bytes(range(256)))
    with (stores / "huge").open("wb") as huge:
        huge.truncate(1 << 34)
    config = {name: value.format(stores) for name, value in options.items()}
    with pytest.raises(ConfigurationError, match=text) as caught:
        Consumer({"bootstrap.servers": "127.0.0.1:1", "security.protocol": "SSL", **config})
    for secret in (ASCII, "wrong"):
        assert secret not in str(caught.value)


def test_system_without_certificates(monkeypatch, tmp_path):
    """The system has no certificates, as in container images without the package ca-certificates."""
    empty = tmp_path / "empty.pem"
    empty.touch()
    monkeypatch.setenv("SSL_CERT_FILE", str(empty))
    monkeypatch.setenv("SSL_CERT_DIR", str(tmp_path))
    with pytest.raises(ConfigurationError, match=r"package ca-certificates.*certifi"):
        Consumer({"bootstrap.servers": "127.0.0.1:1", "security.protocol": "SSL", "ssl.ca.location": "probe"})


@pytest.mark.parametrize(
    "options",
    [
        {"ssl.enabled.protocols": "TLSv1.2", "ssl.cipher.suites": "ECDHE-ECDSA-AES128-GCM-SHA256"},
        {"ssl.enabled.protocols": "TLSv1.3,TLSv1.1", "ssl.cipher.suites": "TLS_CHACHA20_POLY1305_SHA256"},
        {"ssl.curves.list": "X25519:P-256"},
        {"ssl.curves.list": "X25519MLKEM768"},
    ],
)
def test_tls_versions_suites_and_curves(broker, stores, options):
    assert send(broker, trust(stores)["PEM file"], identity(stores)["PEM files"], options).offset >= 0
