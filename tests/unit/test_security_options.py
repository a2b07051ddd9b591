"""TLS and login options in Python: option names of other clients, `ssl.SSLContext`, paths, and hidden secrets."""

import logging
import os
import pickle
import ssl
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from samsarrow import Admin, Consumer, Producer
from samsarrow._core import option_table
from samsarrow._ssl_context import options_of_context
from samsarrow.config import Secret, kafka_name, kind_of, merge, options_of
from samsarrow.exceptions import ConfigurationError

SERVERS = {"bootstrap.servers": "localhost:9092"}
CANARY = "canary-7f3a"


def context_options(context: Any, *names: str) -> dict[str, str | bool]:
    return dict(options_of_context(context, frozenset(names)))


@pytest.fixture(scope="session")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Creates a CA and returns its certificate as a PEM file."""
    trustme = pytest.importorskip("trustme")
    path = tmp_path_factory.mktemp("ca") / "ca.pem"
    trustme.CA().cert_pem.write_to_path(str(path))
    return path


def test_ssl_context_trust_store(authority: Path) -> None:
    context = ssl.create_default_context(cafile=str(authority))
    taken = context_options(context)
    pem = taken.pop("ssl.truststore.certificates")
    assert str(pem).split() == authority.read_text().split()
    assert taken == {"ssl.enabled.protocols": "TLSv1.2,TLSv1.3"}


def test_ssl_context_verification_and_versions(authority: Path) -> None:
    context = ssl.create_default_context(cafile=str(authority))
    context.check_hostname = False
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    taken = context_options(context)
    assert (taken["ssl.check.hostname"], taken["ssl.enabled.protocols"]) == (False, "TLSv1.3")
    context.verify_mode = ssl.CERT_NONE
    assert context_options(context) == {
        "enable.ssl.certificate.verification": False,
        "ssl.enabled.protocols": "TLSv1.3",
    }
    context.minimum_version = ssl.TLSVersion.MINIMUM_SUPPORTED
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    assert context_options(context)["ssl.enabled.protocols"] == "TLSv1.2"


def server(authority: Path) -> ssl.SSLContext:
    return ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)


def empty(authority: Path) -> ssl.SSLContext:
    return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


def capath_only(authority: Path) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(capath=str(authority.parent))
    return context


def crl_checking(authority: Path) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=str(authority))
    context.verify_flags |= ssl.VerifyFlags.VERIFY_CRL_CHECK_LEAF
    return context


def old(authority: Path) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=str(authority))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        context.options |= ssl.OP_NO_TLSv1_2 | ssl.OP_NO_TLSv1_3
    return context


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (server, "is for servers"),
        (empty, "no certificate of an authority that can be read"),
        (capath_only, "capath"),
        (crl_checking, "also set ssl_crlfile to their PEM file"),
        (old, "neither TLS 1.2 nor TLS 1.3"),
        (lambda _: {"cafile": CANARY}, "must be an ssl.SSLContext, not dict"),
    ],
)
def test_unsupported_ssl_context_is_an_error(make: Callable[[Path], Any], text: str, authority: Path) -> None:
    with pytest.raises(ConfigurationError, match=text) as caught:
        Producer(SERVERS, security_protocol="SSL", ssl_context=make(authority))
    assert CANARY not in str(caught.value)


def test_ssl_context_conflicts_with_ssl_options(authority: Path) -> None:
    context = ssl.create_default_context(cafile=str(authority))
    for name in ("ssl_cafile", "ssl.ca.location", "ssl.truststore.certificates", "ssl_check_hostname"):
        with pytest.raises(ConfigurationError, match=r"ssl_context and ssl\..* are mutually exclusive"):
            Producer(SERVERS, ssl_context=context, **{name: "x"})
    with pytest.raises(ConfigurationError, match="given twice"):
        Producer({**SERVERS, "ssl_context": context}, ssl_context=context)
    assert context_options(crl_checking(authority), "ssl.crl.location")


def test_path_objects_are_accepted() -> None:
    pairs = dict(merge({"ssl.ca.location": Path("/x/ca.pem")}, {"ssl_keyfile": Path("/x/key.pem")}))
    assert pairs == {"ssl.ca.location": "/x/ca.pem", "ssl_keyfile": "/x/key.pem"}


def test_option_names_of_other_clients() -> None:
    kafka_python = {
        "ssl_cafile": "ssl.truststore.location",
        "ssl_certfile": "ssl.certificate.location",
        "ssl_keyfile": "ssl.key.location",
        "ssl_password": "ssl.key.password",
        "ssl_crlfile": "ssl.crl.location",
        "ssl_ciphers": "ssl.cipher.suites",
        "ssl_check_hostname": "ssl.check.hostname",
        "sasl_mechanism": "sasl.mechanism",
        "sasl_plain_username": "sasl.username",
        "sasl_plain_password": "sasl.password",
        "sasl_kerberos_name": "sasl.kerberos.principal",
        "sasl_kerberos_service_name": "sasl.kerberos.service.name",
        "sasl_kerberos_domain_name": "sasl.kerberos.domain.name",
        "security_protocol": "security.protocol",
    }
    librdkafka = {
        "ssl.ca.location": "ssl.truststore.location",
        "ssl.ca.pem": "ssl.truststore.certificates",
        "ssl.certificate.location": "ssl.certificate.location",
        "ssl.certificate.pem": "ssl.keystore.certificate.chain",
        "ssl.key.location": "ssl.key.location",
        "ssl.key.pem": "ssl.keystore.key",
        "ssl.key.password": "ssl.key.password",
        "ssl.keystore.location": "ssl.keystore.location",
        "ssl.keystore.password": "ssl.keystore.password",
        "ssl.cipher.suites": "ssl.cipher.suites",
        "ssl.curves.list": "ssl.curves.list",
        "ssl.crl.location": "ssl.crl.location",
        "enable.ssl.certificate.verification": "enable.ssl.certificate.verification",
        "sasl.mechanisms": "sasl.mechanism",
        "sasl.username": "sasl.username",
        "sasl.oauthbearer.client.id": "sasl.oauthbearer.client.credentials.client.id",
        "https.ca.location": "https.ca.location",
    }
    for name, expected in (kafka_python | librdkafka).items():
        assert (name, kafka_name(name)) == (name, expected)
        assert kind_of(name) != "unknown"


def test_options_of_selects_aliases_by_client() -> None:
    options = {
        "ssl.ca.location": 1,
        "sasl_plain_password": 2,
        "group.id": 3,
        "acks": 4,
        "config.providers.env.class": 5,
    }
    assert options_of("admin", options) == {k: v for k, v in options.items() if k not in ("group.id", "acks")}
    assert options_of("consumer", options) == {k: v for k, v in options.items() if k != "acks"}


SECRETS = [name for name, _, kind, _ in option_table() if kind == "secret"]


def test_passwords_keys_and_tokens_are_secrets() -> None:
    assert {"sasl.password", "sasl.jaas.config", "ssl.key.password", "ssl.keystore.key"} <= set(SECRETS)
    names = {name for name, _, kind, _ in option_table() if kind != "secret"}
    looks_secret = {n for n in names if n.endswith((".password", ".secret", ".passphrase", ".key", ".key.pem"))}
    assert looks_secret == set()


@pytest.mark.parametrize("client", [Producer, Consumer, Admin])
@pytest.mark.parametrize("name", SECRETS)
def test_errors_do_not_contain_secrets(client: Any, name: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    spelled = name.replace(".", "_")
    for options in (
        {name: CANARY, spelled: CANARY},
        {name: [CANARY, 1]},
        {name: CANARY.encode()},
        {name: {CANARY: CANARY}},
        {name: CANARY, "fetch.min.bites": CANARY},
        {name: CANARY, "client.dns.lookup": "lunch"},
        {name: f"${{file:/no/such/file:{CANARY[:6]}}}", "config.providers": "file"},
        {name[:-1]: CANARY},
    ):
        with pytest.raises(ConfigurationError) as caught:
            client(SERVERS, **options)
        shown = "".join(traceback.format_exception(caught.value))
        assert CANARY not in shown, shown
        assert CANARY not in repr(caught.value) + repr(caught.value.__dict__)
    assert CANARY not in caplog.text


def test_secret_is_hidden_when_printed() -> None:
    secret = Secret(CANARY)
    for shown in (repr(secret), str(secret), f"{secret} {secret!r:>20}", "%s" % secret, repr({"k": (secret,)})):  # noqa: UP031
        assert CANARY not in shown
        assert "[hidden]" in shown
    assert secret == CANARY
    assert (secret.reveal(), hash(secret)) == (CANARY, hash(CANARY))
    assert type(secret.reveal()) is str
    again = pickle.loads(pickle.dumps(secret))
    assert (type(again), again) == (Secret, CANARY)
    with pytest.raises(ConfigurationError, match="given twice") as caught:
        Producer({**SERVERS, "sasl.password": secret}, sasl_password=secret)
    locals_too = traceback.TracebackException.from_exception(caught.value, capture_locals=True)
    assert "[hidden]" in "".join(locals_too.format())
    assert CANARY not in "".join(line for line in locals_too.format() if "test_security_options" not in line)


def test_ignored_options_are_warned_about_once(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        Producer(SERVERS, sasl_plain_username="u", sasl_plain_password=CANARY, ssl_cafile="/no/such").close()
    [record] = caplog.records
    assert record.getMessage() == (
        "with security.protocol=PLAINTEXT these options are ignored: ssl_cafile, sasl_plain_username, "
        "sasl_plain_password; they are for SASL_SSL"
    )


def test_config_providers_must_be_enabled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SAMSARROW_TEST_ACKS", "most")
    options = {**SERVERS, "acks": "${env:SAMSARROW_TEST_ACKS}"}
    with pytest.raises(ConfigurationError, match="acks must be"):
        Producer(options)
    with pytest.raises(ConfigurationError, match=r"acks must be one of all, -1, 0, 1, not \[hidden\]"):
        Producer(options, config_providers="env")
    monkeypatch.setenv("SAMSARROW_TEST_ACKS", "all")
    Producer(options, config_providers="env").close()
    os.environ["SAMSARROW_CONFIG_PROVIDERS"] = "file"
    try:
        with pytest.raises(ConfigurationError, match="SAMSARROW_CONFIG_PROVIDERS=file does not allow"):
            Producer(options, config_providers="env")
    finally:
        del os.environ["SAMSARROW_CONFIG_PROVIDERS"]
