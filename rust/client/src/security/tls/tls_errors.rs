//! What is wrong with a certificate or a handshake, and what to do about it.

use std::fmt;

use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{AlertDescription, CertificateError, InvalidMessage, PeerIncompatible};

use super::x509;
use super::x509::{Certificate, moment};

/// The shortest RSA keys that are accepted, here as in OpenSSL, Java and browsers.
const RSA_BITS: usize = 2048;

/// Why a certificate is not accepted, in full.
#[derive(Debug)]
pub(super) struct Explained(pub(super) String);

impl fmt::Display for Explained {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Explained {}

/// Whether a certificate is refused because it is one of an authority. Rustls gives that no name of its own.
pub(super) fn is_authority(error: &rustls::Error) -> bool {
    matches!(error, rustls::Error::InvalidCertificate(CertificateError::Other(other))
        if format!("{:?}", other.0).contains("CaUsedAsEndEntity"))
}

/// Why a broker's certificate is not accepted.
pub(super) fn certificate(
    error: &rustls::Error,
    end_entity: &CertificateDer<'_>,
    intermediates: &[CertificateDer<'_>],
    name: Option<&ServerName<'_>>,
    trusts_system: bool,
) -> String {
    let Some(own) = Certificate::parse(end_entity) else {
        return format!("the broker's certificate cannot be read ({error})");
    };
    let rustls::Error::InvalidCertificate(fault) = error else {
        return format!("the broker's certificate cannot be checked: {error}");
    };
    let all: Vec<Certificate<'_>> =
        [own.clone()].into_iter().chain(intermediates.iter().filter_map(|one| Certificate::parse(one))).collect();
    let now = x509::now();
    // Whatever is wrong in the chain, the certificate that it is wrong with is named.
    let culprit = |is: &dyn Fn(&Certificate<'_>) -> bool| all.iter().find(|one| is(one)).unwrap_or(&own);
    match fault {
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
            let of = culprit(&|one| one.not_after < now);
            format!(
                "{} expired on {} (it is {} here): the broker needs a new one",
                of.called(&own),
                moment(of.not_after),
                moment(now)
            )
        }
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
            let of = culprit(&|one| one.not_before > now);
            format!(
                "{} is not valid before {} (it is {} here): compare the clocks of this machine and of its issuer",
                of.called(&own),
                moment(of.not_before),
                moment(now)
            )
        }
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => wrong_name(&own, name),
        CertificateError::Revoked => {
            format!("{} is revoked, says ssl.crl.location: the broker needs a new one", own.called(&own))
        }
        CertificateError::UnknownRevocationStatus => format!(
            "whether {} is revoked cannot be known: ssl.crl.location has no list of its issuer, {}",
            own.called(&own),
            quoted(own.issuer_name())
        ),
        CertificateError::ExpiredRevocationList | CertificateError::ExpiredRevocationListContext { .. } => format!(
            "whether {} is revoked cannot be known: the list in ssl.crl.location is out of date, put the newest there",
            own.called(&own)
        ),
        CertificateError::InvalidPurpose | CertificateError::InvalidPurposeContext { .. } => {
            format!("{} is not for servers: reissue it with the extended key usage serverAuth", own.called(&own))
        }
        _ if all.iter().any(|one| one.broken_signature && !one.self_issued()) => {
            let of = culprit(&|one| one.broken_signature);
            format!("{} is signed with SHA-1 or MD5, which can be forged: reissue it with SHA-256", of.called(&own))
        }
        _ if all.iter().any(|one| one.rsa_bits.is_some_and(|bits| bits < RSA_BITS)) => {
            let of = culprit(&|one| one.rsa_bits.is_some_and(|bits| bits < RSA_BITS));
            format!(
                "{} has an RSA key of {} bits, which can be broken: reissue it with at least {RSA_BITS}",
                of.called(&own),
                of.rsa_bits.unwrap_or_default()
            )
        }
        CertificateError::BadSignature => format!(
            "{} is not signed with the key that ssl.truststore.location has of {}: set it to the newest certificate of \
             that authority",
            own.called(&own),
            quoted(own.issuer_name())
        ),
        _ if own.version < 3 => {
            format!("{} is of X.509 version {}: reissue it with extensions (version 3)", own.called(&own), own.version)
        }
        CertificateError::UnknownIssuer if own.self_issued() => format!(
            "{} is self-signed and not trusted: put it into ssl.truststore.location if it is the broker's",
            own.called(&own)
        ),
        CertificateError::UnknownIssuer => {
            let whom =
                if trusts_system { "the system does not trust" } else { "ssl.truststore.location does not have" };
            let missing =
                if intermediates.is_empty() { "; or the broker does not send the certificates in between" } else { "" };
            format!(
                "{} is issued by {}, whom {whom}: set ssl.truststore.location to the certificate of that \
                 authority{missing}",
                own.called(&own),
                quoted(own.issuer_name()),
            )
        }
        _ if is_authority(error) => format!(
            "{} is that of an authority (CA:TRUE): trust exactly this one in ssl.truststore.location, or reissue it \
             without CA:TRUE",
            own.called(&own)
        ),
        _ => format!("{} is not accepted: {error}", own.called(&own)),
    }
}

impl Certificate<'_> {
    /// How it is spoken of where the broker's own is `own`.
    fn called(&self, own: &Certificate<'_>) -> String {
        let whose = if self == own { "the broker's certificate" } else { "a certificate above the broker's," };
        match self.common_name().or_else(|| self.names.first().cloned()) {
            Some(name) => format!("{whose} {}", quoted(Some(name))),
            None => whose.to_owned(),
        }
    }
}

fn wrong_name(own: &Certificate<'_>, name: Option<&ServerName<'_>>) -> String {
    let (host, kind) = match name {
        Some(ServerName::IpAddress(address)) => (std::net::IpAddr::from(*address).to_string(), "ip"),
        Some(name) => (name.to_str().into_owned(), "dns"),
        None => ("this host".into(), "dns"),
    };
    let called = own.called(own);
    let reissue = format!("reissue it with that name (keytool -ext san={kind}:{host})");
    let switch = "or set ssl.endpoint.identification.algorithm=none, which lets anyone who has a certificate of that \
                  authority pass for the broker";
    if own.names.is_empty() {
        return format!(
            "{called} names no host: a CN does not count (RFC 9525), {host} must be a subject alternative name; \
             {reissue}, {switch}"
        );
    }
    let names: Vec<_> = own.names.iter().take(20).map(|name| name.escape_debug().to_string()).collect();
    format!("{called} is for {}, not for {host}: connect by one of its names, {reissue}, {switch}", names.join(", "))
}

/// A name out of a certificate, which may be anybody's: nothing in it gets out of its quotes.
fn quoted(name: Option<String>) -> String {
    name.map_or_else(|| "an unnamed authority".into(), |name| format!("{name:?}"))
}

/// Why a handshake failed that got as far as rustls; the first bytes of what came show what the other side speaks.
/// `shows` is whether the client has a certificate of its own.
pub(crate) fn handshake(error: &rustls::Error, first: &[u8], shows: bool, in_the_clear: &str) -> String {
    match error {
        rustls::Error::InvalidCertificate(CertificateError::Other(other)) => {
            match other.0.downcast_ref::<Explained>() {
                Some(Explained(text)) => text.clone(),
                None => format!("the broker's certificate is not accepted: {error}"),
            }
        }
        rustls::Error::InvalidMessage(
            InvalidMessage::InvalidContentType
            | InvalidMessage::UnknownProtocolVersion
            | InvalidMessage::MessageTooLarge
            | InvalidMessage::InvalidEmptyPayload,
        ) if !matches!(first, [0x14..=0x17, 3, ..]) => match first {
            [b'H', b'T', b'T', b'P', ..] => "does not speak TLS: it answers in HTTP".into(),
            _ => clear(in_the_clear),
        },
        rustls::Error::PeerIncompatible(
            PeerIncompatible::ServerDoesNotSupportTls12Or13
            | PeerIncompatible::ServerTlsVersionIsDisabledByOurConfig
            | PeerIncompatible::Tls12NotOfferedOrEnabled,
        ) => old_version(),
        rustls::Error::AlertReceived(alert) => refused(*alert, shows),
        other => format!("the TLS handshake failed: {other}"),
    }
}

/// What answers does not speak TLS.
pub(crate) fn clear(protocol: &str) -> String {
    format!(
        "the broker speaks in the clear there, not TLS: use a port with TLS, or set security.protocol={protocol} if that \
         is what you want"
    )
}

fn old_version() -> String {
    "no version of TLS in common: the broker speaks TLS 1.1 or older, or none of ssl.enabled.protocols; enable TLSv1.2 or \
     TLSv1.3 there (ssl.enabled.protocols)"
        .into()
}

/// The broker gives up and says why.
pub(crate) fn refused(alert: AlertDescription, shows: bool) -> String {
    let keystore = "ssl.keystore.location (or ssl.certificate.location and ssl.key.location)";
    match alert {
        AlertDescription::ProtocolVersion | AlertDescription::InsufficientSecurity => old_version(),
        AlertDescription::CertificateRequired
        | AlertDescription::NoCertificate
        | AlertDescription::BadCertificate
        | AlertDescription::AccessDenied
            if !shows =>
        {
            format!("the broker wants a certificate of the client (alert {alert:?}): set {keystore}")
        }
        AlertDescription::HandshakeFailure => {
            let shown = if shows { "" } else { "a certificate of the client is missing (" };
            let end = if shows { "" } else { "), or " };
            let keystore = if shows { "" } else { keystore };
            format!(
                "the broker refuses the handshake (alert HandshakeFailure): {shown}{keystore}{end}there is no cipher \
                 suite or curve in common (ssl.cipher.suites, ssl.curves.list)"
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
            "the broker does not know the name that it was asked by (alert UnrecognisedName): look at bootstrap.servers"
                .into()
        }
        _ => format!("the broker ended the TLS session: alert {alert:?}"),
    }
}

/// Whether an alert is about who the client is, which does not change by trying again.
pub(crate) fn is_about_us(error: &rustls::Error) -> bool {
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
