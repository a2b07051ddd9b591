//! Error texts for rejected certificates and failed TLS handshakes, with causes and remedies.

use std::fmt;

use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{AlertDescription, CertificateError, InvalidMessage, PeerIncompatible};

use super::x509;
use super::x509::{Certificate, format_utc};

/// Minimum size of RSA keys in bits, as in OpenSSL, Java and browsers.
const RSA_BITS: usize = 2048;

/// Error for a rejected certificate, with the complete error text.
#[derive(Debug)]
pub(super) struct RejectedCertificate(pub(super) String);

impl fmt::Display for RejectedCertificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for RejectedCertificate {}

/// Returns true if a broker's certificate is rejected because it is an authority's certificate. rustls has no error
/// variant for this case.
pub(super) fn is_authority(error: &rustls::Error) -> bool {
    matches!(error, rustls::Error::InvalidCertificate(CertificateError::Other(other))
        if format!("{:?}", other.0).contains("CaUsedAsEndEntity"))
}

/// Returns the reason why a broker's certificate is rejected.
pub(super) fn certificate(
    error: &rustls::Error,
    end_entity: &CertificateDer<'_>,
    intermediates: &[CertificateDer<'_>],
    name: Option<&ServerName<'_>>,
    trusts_system: bool,
) -> String {
    let Some(leaf) = Certificate::parse(end_entity) else {
        return format!("the broker's certificate cannot be read ({error})");
    };
    let rustls::Error::InvalidCertificate(problem) = error else {
        return format!("the broker's certificate cannot be checked: {error}");
    };
    let all: Vec<Certificate<'_>> = [leaf.clone()]
        .into_iter()
        .chain(intermediates.iter().filter_map(|certificate| Certificate::parse(certificate)))
        .collect();
    let now = x509::now();
    // Finds the faulty certificate in the chain.
    let find_faulty =
        |is: &dyn Fn(&Certificate<'_>) -> bool| all.iter().find(|certificate| is(certificate)).unwrap_or(&leaf);
    match problem {
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
            let faulty = find_faulty(&|certificate| certificate.not_after < now);
            format!(
                "{} expired on {} (it is {} here): the broker needs a new one",
                faulty.label(&leaf),
                format_utc(faulty.not_after),
                format_utc(now)
            )
        }
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
            let faulty = find_faulty(&|certificate| certificate.not_before > now);
            format!(
                "{} is not valid before {} (it is {} here): compare the clocks of this machine and of its issuer",
                faulty.label(&leaf),
                format_utc(faulty.not_before),
                format_utc(now)
            )
        }
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            name_mismatch(&leaf, name)
        }
        CertificateError::Revoked => {
            format!("{} is revoked according to ssl.crl.location: the broker needs a new one", leaf.label(&leaf))
        }
        CertificateError::UnknownRevocationStatus => format!(
            "whether {} is revoked cannot be known: ssl.crl.location has no list of its issuer, {}",
            leaf.label(&leaf),
            quoted(leaf.issuer_name())
        ),
        CertificateError::ExpiredRevocationList | CertificateError::ExpiredRevocationListContext { .. } => format!(
            "whether {} is revoked cannot be known: the list in ssl.crl.location is out of date: replace it by the newest",
            leaf.label(&leaf)
        ),
        CertificateError::InvalidPurpose | CertificateError::InvalidPurposeContext { .. } => {
            format!("{} is not for servers: reissue it with the extended key usage serverAuth", leaf.label(&leaf))
        }
        _ if all.iter().any(|certificate| certificate.weak_signature && !certificate.self_issued()) => {
            let faulty = find_faulty(&|certificate| certificate.weak_signature);
            format!("{} is signed with SHA-1 or MD5, which can be forged: reissue it with SHA-256", faulty.label(&leaf))
        }
        _ if all.iter().any(|certificate| certificate.rsa_bits.is_some_and(|bits| bits < RSA_BITS)) => {
            let faulty = find_faulty(&|certificate| certificate.rsa_bits.is_some_and(|bits| bits < RSA_BITS));
            format!(
                "{} has an RSA key of {} bits, which can be broken: reissue it with at least {RSA_BITS}",
                faulty.label(&leaf),
                faulty.rsa_bits.unwrap_or_default()
            )
        }
        CertificateError::BadSignature => format!(
            "{} is not signed with the key that ssl.truststore.location has of {}: set it to the newest certificate of \
             that authority",
            leaf.label(&leaf),
            quoted(leaf.issuer_name())
        ),
        _ if leaf.version < 3 => {
            format!(
                "{} is of X.509 version {}: reissue it with extensions (version 3)",
                leaf.label(&leaf),
                leaf.version
            )
        }
        CertificateError::UnknownIssuer if leaf.self_issued() => format!(
            "{} is self-signed and not trusted: put it into ssl.truststore.location if it is the broker's",
            leaf.label(&leaf)
        ),
        CertificateError::UnknownIssuer => {
            let unknown_to =
                if trusts_system { "the system does not trust" } else { "ssl.truststore.location does not have" };
            let missing =
                if intermediates.is_empty() { "; or the broker does not send the certificates in between" } else { "" };
            format!(
                "{} is issued by {}, whom {unknown_to}: set ssl.truststore.location to the certificate of that \
                 authority{missing}",
                leaf.label(&leaf),
                quoted(leaf.issuer_name()),
            )
        }
        _ if is_authority(error) => format!(
            "{} is that of an authority (CA:TRUE): trust exactly this one in ssl.truststore.location, or reissue it \
             without CA:TRUE",
            leaf.label(&leaf)
        ),
        _ => format!("{} is not accepted: {error}", leaf.label(&leaf)),
    }
}

impl Certificate<'_> {
    /// Describes this certificate by its position in the broker's chain and by its name.
    fn label(&self, leaf: &Certificate<'_>) -> String {
        let role = if self == leaf { "the broker's certificate" } else { "a certificate above the broker's," };
        match self.common_name().or_else(|| self.names.first().cloned()) {
            Some(name) => format!("{role} {}", quoted(Some(name))),
            None => role.to_owned(),
        }
    }
}

fn name_mismatch(leaf: &Certificate<'_>, name: Option<&ServerName<'_>>) -> String {
    let (host, kind) = match name {
        Some(ServerName::IpAddress(address)) => (std::net::IpAddr::from(*address).to_string(), "ip"),
        Some(name) => (name.to_str().into_owned(), "dns"),
        None => ("this host".into(), "dns"),
    };
    let leaf_label = leaf.label(leaf);
    let reissue = format!("reissue it with that name (keytool -ext san={kind}:{host})");
    let switch = "or set ssl.endpoint.identification.algorithm=none, which lets anyone who has a certificate of that \
                  authority pass for the broker";
    if leaf.names.is_empty() {
        return format!(
            "{leaf_label} names no host: a CN does not count (RFC 9525), {host} must be a subject alternative name; \
             {reissue}, {switch}"
        );
    }
    let names: Vec<_> = leaf.names.iter().take(20).map(|name| name.escape_debug().to_string()).collect();
    format!(
        "{leaf_label} is for {}, not for {host}: connect by one of its names, {reissue}, {switch}",
        names.join(", ")
    )
}

/// Quotes a name taken from a certificate. The name is untrusted, so it is escaped and cannot end the quotes.
fn quoted(name: Option<String>) -> String {
    name.map_or_else(|| "an unnamed authority".into(), |name| format!("{name:?}"))
}

/// Describes a failed handshake. The bytes received first (`first`) show whether the server uses TLS at all.
/// `has_certificate` is true if the client has a certificate.
pub(crate) fn handshake(
    error: &rustls::Error,
    first: &[u8],
    has_certificate: bool,
    plaintext_protocol: &str,
) -> String {
    match error {
        rustls::Error::InvalidCertificate(CertificateError::Other(other)) => {
            match other.0.downcast_ref::<RejectedCertificate>() {
                Some(RejectedCertificate(text)) => text.clone(),
                None => format!("the broker's certificate is not accepted: {error}"),
            }
        }
        rustls::Error::InvalidMessage(
            InvalidMessage::InvalidContentType
            | InvalidMessage::UnknownProtocolVersion
            | InvalidMessage::MessageTooLarge
            | InvalidMessage::InvalidEmptyPayload,
        ) if !matches!(first, [0x14..=0x17, 3, ..]) => match first {
            [b'H', b'T', b'T', b'P', ..] => "does not speak TLS: it responds with HTTP".into(),
            _ => not_tls(plaintext_protocol),
        },
        rustls::Error::PeerIncompatible(
            PeerIncompatible::ServerDoesNotSupportTls12Or13
            | PeerIncompatible::ServerTlsVersionIsDisabledByOurConfig
            | PeerIncompatible::Tls12NotOfferedOrEnabled,
        ) => no_common_version(),
        rustls::Error::AlertReceived(alert) => describe_alert(*alert, has_certificate),
        other => format!("the TLS handshake failed: {other}"),
    }
}

/// Returns the error for a listener that does not use TLS.
pub(crate) fn not_tls(protocol: &str) -> String {
    format!(
        "the listener does not use TLS: use a port with TLS, or set security.protocol={protocol} to connect without \
         encryption"
    )
}

fn no_common_version() -> String {
    "no version of TLS in common: the broker speaks TLS 1.1 or older, or none of ssl.enabled.protocols; enable TLSv1.2 or \
     TLSv1.3 there (ssl.enabled.protocols)"
        .into()
}

/// Describes the alert with which the broker ended the handshake.
pub(crate) fn describe_alert(alert: AlertDescription, has_certificate: bool) -> String {
    let keystore = "ssl.keystore.location (or ssl.certificate.location and ssl.key.location)";
    match alert {
        AlertDescription::ProtocolVersion | AlertDescription::InsufficientSecurity => no_common_version(),
        AlertDescription::CertificateRequired
        | AlertDescription::NoCertificate
        | AlertDescription::BadCertificate
        | AlertDescription::AccessDenied
            if !has_certificate =>
        {
            format!("the broker requires a client certificate (alert {alert:?}): set {keystore}")
        }
        AlertDescription::HandshakeFailure => {
            let shown = if has_certificate { "" } else { "a client certificate is missing (" };
            let end = if has_certificate { "" } else { "), or " };
            let keystore = if has_certificate { "" } else { keystore };
            format!(
                "the broker rejects the handshake (alert HandshakeFailure): {shown}{keystore}{end}no cipher \
                 suite or curve is common to both (ssl.cipher.suites, ssl.curves.list)"
            )
        }
        AlertDescription::UnknownCA
        | AlertDescription::BadCertificate
        | AlertDescription::CertificateUnknown
        | AlertDescription::CertificateExpired
        | AlertDescription::CertificateRevoked
        | AlertDescription::UnsupportedCertificate
        | AlertDescription::CertificateRequired
        | AlertDescription::AccessDenied => {
            format!("the broker does not accept the client's certificate (alert {alert:?}): look at {keystore}")
        }
        AlertDescription::UnrecognisedName => {
            "the broker does not know the requested server name (alert UnrecognisedName): look at bootstrap.servers"
                .into()
        }
        _ => format!("the broker ended the TLS session: alert {alert:?}"),
    }
}

/// Returns true if an alert rejects the client's identity, so a retry would fail too.
pub(crate) fn is_client_rejected(error: &rustls::Error) -> bool {
    matches!(
        error,
        rustls::Error::AlertReceived(
            AlertDescription::CertificateRequired
                | AlertDescription::NoCertificate
                | AlertDescription::BadCertificate
                | AlertDescription::UnknownCA
                | AlertDescription::CertificateUnknown
                | AlertDescription::CertificateExpired
                | AlertDescription::CertificateRevoked
                | AlertDescription::UnsupportedCertificate
                | AlertDescription::HandshakeFailure
                | AlertDescription::AccessDenied
        )
    )
}
