"""Fixtures for Apache Kafka with TLS and authentication."""

from collections.abc import Iterator

import pytest

from support.kdc import Kdc, gssapi_library
from support.oidc import Issuer
from support.peers.java_api import JavaPeer
from support.secure import SecureKafka, where_java_is


@pytest.fixture(scope="session")
def secure_kdc() -> Iterator[Kdc]:
    """A Kerberos server for the whole run."""
    with where_java_is():
        gssapi_library()
        server = Kdc()
    with server:
        yield server


@pytest.fixture(scope="session")
def secure_issuer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Issuer]:
    """A token issuer for the whole run."""
    with Issuer(tmp_path_factory.mktemp("issuer")) as issuer:
        yield issuer


@pytest.fixture(scope="session")
def secure(secure_kdc: Kdc, secure_issuer: Issuer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureKafka]:
    """One node of Apache Kafka with a listener for each security protocol, for the whole run."""
    with SecureKafka(tmp_path_factory.mktemp("secure"), kdc=secure_kdc, issuer=secure_issuer) as server:
        yield server


@pytest.fixture(scope="session")
def secure_java(secure: SecureKafka) -> Iterator[JavaPeer]:
    """The Java clients of `secure`."""
    with JavaPeer(secure) as peer:
        yield peer


@pytest.fixture
def kerberos(secure_kdc: Kdc, monkeypatch: pytest.MonkeyPatch) -> None:
    """Environment of the Kerberos library: our KDC, and no tickets of the current user."""
    monkeypatch.setenv("KRB5_CONFIG", str(secure_kdc.krb5_conf()))
    monkeypatch.setenv("KRB5CCNAME", str(secure_kdc.directory / "nobody's"))
    monkeypatch.setenv("SAMSARROW_GSSAPI", gssapi_library())
