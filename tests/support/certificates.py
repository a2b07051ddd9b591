"""Certificate authorities and certificates for tests, valid ones and some that clients or brokers must reject.

ca = Authority()
broker = ca.issue(names=["localhost"], end=days(-1))
broker.write(folder)
"""

from __future__ import annotations

import datetime
import ipaddress
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

NAMES = ("localhost", "127.0.0.1")
PAST, DAY, TEN_DAYS = (datetime.timedelta(days=count) for count in (-1, 1, 10))
Key = ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey
SERVER, CLIENT = ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH


def days(count: float) -> datetime.timedelta:
    return datetime.timedelta(days=count)


def named(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def new_key(rsa_bits: int | None = None) -> Key:
    """Returns a P-256 key, or an RSA key if `rsa_bits` is given."""
    if rsa_bits is None:
        return ec.generate_private_key(ec.SECP256R1())
    return rsa.generate_private_key(public_exponent=65537, key_size=rsa_bits)


@dataclass(frozen=True)
class Issued:
    """A certificate with its key and the certificates of its issuers."""

    certificate: x509.Certificate
    key: Key
    above: tuple[x509.Certificate, ...] = ()

    @property
    def chain_pem(self) -> str:
        return "".join(pem(one) for one in (self.certificate, *self.above))

    @property
    def key_pem(self) -> str:
        return self.encoded(serialization.NoEncryption())

    def encoded(self, encryption: serialization.KeySerializationEncryption) -> str:
        form = serialization.PrivateFormat.PKCS8
        return self.key.private_bytes(serialization.Encoding.PEM, form, encryption).decode()

    def write(self, path: Path) -> Path:
        """Writes the key and the certificates into one file, the format of Kafka's PEM keystores."""
        path.write_text(self.key_pem + self.chain_pem)
        return path


def pem(certificate: x509.Certificate) -> str:
    return certificate.public_bytes(serialization.Encoding.PEM).decode()


def make(
    name: str,
    key: Key,
    *,
    issuer: x509.Name | None = None,
    signer: Key | None = None,
    names: Sequence[str] = NAMES,
    start: datetime.timedelta = PAST,
    end: datetime.timedelta = DAY,
    is_ca: bool | None = False,
    usages: Iterable[x509.ObjectIdentifier] = (SERVER, CLIENT),
) -> x509.Certificate:
    """Returns a signed certificate, which is valid by default."""
    now = datetime.datetime.now(datetime.UTC)
    builder = (
        x509.CertificateBuilder()
        .subject_name(named(name))
        .issuer_name(issuer or named(name))
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now + start)
        .not_valid_after(now + end)
    )
    if names:
        builder = builder.add_extension(x509.SubjectAlternativeName([general(one) for one in names]), critical=False)
    if is_ca is not None:
        builder = builder.add_extension(x509.BasicConstraints(ca=is_ca, path_length=None), critical=True)
    if usages:
        builder = builder.add_extension(x509.ExtendedKeyUsage(usages), critical=False)
    return builder.sign(signer or key, hashes.SHA256())


def general(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def self_signed(name: str = "alone", **options: object) -> Issued:
    key = new_key()
    return Issued(make(name, key, **options), key)  # type: ignore[arg-type]


@dataclass
class Authority:
    """A certificate authority that issues and revokes certificates."""

    name: str = "authority of tests"
    key: Key = field(default_factory=new_key)

    def __post_init__(self) -> None:
        self.certificate = make(self.name, self.key, names=(), is_ca=True, usages=(), end=TEN_DAYS)

    @property
    def pem(self) -> str:
        return pem(self.certificate)

    def issue(self, name: str = "broker", rsa_bits: int | None = None, **options: object) -> Issued:
        key = new_key(rsa_bits)
        made = make(name, key, issuer=self.certificate.subject, signer=self.key, **options)  # type: ignore[arg-type]
        return Issued(made, key, (self.certificate,))

    def revocations(self, *revoked: Issued, end: datetime.timedelta = DAY) -> str:
        """Returns a certificate revocation list in PEM format."""
        now = datetime.datetime.now(datetime.UTC)
        builder = (
            x509.CertificateRevocationListBuilder()
            .issuer_name(self.certificate.subject)
            .last_update(now - days(2))
            .next_update(now + end)
            .add_extension(x509.CRLNumber(1), critical=False)
        )
        for one in revoked:
            entry = x509.RevokedCertificateBuilder().serial_number(one.certificate.serial_number)
            builder = builder.add_revoked_certificate(entry.revocation_date(now - days(1)).build())
        return builder.sign(self.key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM).decode()
