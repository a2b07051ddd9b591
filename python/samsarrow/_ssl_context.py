"""Conversion of an `ssl.SSLContext` to options for the Rust client, whose TLS implementation has no contexts."""

from __future__ import annotations

import ssl
from collections.abc import Iterator

from samsarrow.exceptions import ConfigurationError

_VERSIONS = (
    (ssl.TLSVersion.TLSv1_2, ssl.OP_NO_TLSv1_2, "TLSv1.2"),
    (ssl.TLSVersion.TLSv1_3, ssl.OP_NO_TLSv1_3, "TLSv1.3"),
)
_REVOCATION = ssl.VerifyFlags.VERIFY_CRL_CHECK_LEAF | ssl.VerifyFlags.VERIFY_CRL_CHECK_CHAIN


def options_of_context(context: object, names: frozenset[str]) -> Iterator[tuple[str, str | bool]]:
    """Yields the options that are equivalent to the readable settings of `context`.

    A setting that cannot be read is an error if security would be weaker without the setting.

    Args:
        context: an SSL context for clients.
        names: Kafka's names of the other options that are set.

    Raises:
        ConfigurationError: the context is not for clients, contradicts or repeats another option, or has a setting that
            cannot be read.
    """
    if not isinstance(context, ssl.SSLContext):
        raise ConfigurationError(f"option ssl_context must be an ssl.SSLContext, not {type(context).__name__}")
    if context.protocol == ssl.PROTOCOL_TLS_SERVER:
        raise ConfigurationError("option ssl_context is for servers: make one with ssl.create_default_context()")
    conflicting = sorted(names & _COVERED)
    if conflicting:
        raise ConfigurationError(
            f"options ssl_context and {', '.join(conflicting)} are mutually exclusive: set only one of them"
        )
    if context.verify_mode == ssl.CERT_NONE:
        yield "enable.ssl.certificate.verification", False
    else:
        yield "ssl.truststore.certificates", _trusted_certificates(context)
        if not context.check_hostname:
            yield "ssl.check.hostname", False
    if context.verify_flags & _REVOCATION and "ssl.crl.location" not in names:
        raise ConfigurationError(
            "option ssl_context requires lists of revoked certificates, which cannot be read from it: also set "
            "ssl_crlfile to their PEM file"
        )
    yield "ssl.enabled.protocols", ",".join(_versions(context))


_COVERED = frozenset(
    {
        "enable.ssl.certificate.verification",
        "ssl.check.hostname",
        "ssl.enabled.protocols",
        "ssl.endpoint.identification.algorithm",
        "ssl.truststore.certificates",
        "ssl.truststore.location",
    }
)


def _trusted_certificates(context: ssl.SSLContext) -> str:
    authorities = context.get_ca_certs(binary_form=True)
    if not authorities:
        raise ConfigurationError(
            "option ssl_context has no certificate of an authority that can be read (those of a folder, capath, "
            "cannot): give ssl_cafile instead, or load a file into it with load_verify_locations(cafile=...)"
        )
    return "".join(map(ssl.DER_cert_to_PEM_cert, authorities))


def _versions(context: ssl.SSLContext) -> list[str]:
    minimum, maximum = context.minimum_version, context.maximum_version
    # MINIMUM_SUPPORTED and MAXIMUM_SUPPORTED are special values, both less than every version.
    highest = ssl.TLSVersion.TLSv1_3 if maximum == ssl.TLSVersion.MAXIMUM_SUPPORTED else maximum
    allowed = [name for version, off, name in _VERSIONS if minimum <= version <= highest and not context.options & off]
    if not allowed:
        raise ConfigurationError(
            "option ssl_context allows neither TLS 1.2 nor TLS 1.3: older versions are insecure and not supported"
        )
    return allowed
