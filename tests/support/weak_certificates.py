"""Certificates with weak algorithms, which libraries no longer create but old brokers still use."""

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from support.certificates import Authority, Issued

SHA256, SHA1 = bytes.fromhex("06082a8648ce3d040302"), bytes.fromhex("06072a8648ce3d0401")


def signed_with_sha1(authority: Authority) -> Issued:
    """Returns a certificate signed with SHA-1. Clients accepted such certificates until 2017."""
    issued = authority.issue()
    assert isinstance(authority.key, ec.EllipticCurvePrivateKey)
    body = issued.certificate.tbs_certificate_bytes
    # The signature algorithm is named twice: in the signed part and after it.
    body = _sequence(_content(body).replace(_sequence(SHA256), _sequence(SHA1)))
    signature = authority.key.sign(body, ec.ECDSA(hashes.SHA1()))
    bits = b"\x03" + _length(len(signature) + 1) + b"\x00" + signature
    made = x509.load_der_x509_certificate(_sequence(body + _sequence(SHA1) + bits))
    assert made.public_bytes(serialization.Encoding.DER)
    return Issued(made, issued.key, issued.above)


def _length(count: int) -> bytes:
    if count < 0x80:
        return bytes([count])
    size = (count.bit_length() + 7) // 8
    return bytes([0x80 | size]) + count.to_bytes(size, "big")


def _sequence(content: bytes) -> bytes:
    return b"\x30" + _length(len(content)) + content


def _content(sequence: bytes) -> bytes:
    head = 2 if sequence[1] < 0x80 else 2 + (sequence[1] & 0x7F)
    return sequence[head:]
