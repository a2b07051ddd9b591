//! Verification of brokers' certificates.

use std::path::Path;
use std::sync::Arc;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::verify_server_name;
use rustls::crypto::{CryptoProvider, WebPkiSupportedAlgorithms, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, CertificateRevocationListDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, DigitallySignedStruct, OtherError, SignatureScheme};

use super::roots::{self, Roots};
use super::stores::Source;
use super::tls_errors;
use super::tls_errors::RejectedCertificate;
use super::x509::Certificate;
use super::{pem, x509};
use crate::config::TlsOptions;
use crate::error::{Error, Result};

/// Verifier of brokers' certificates.
#[derive(Debug)]
pub(super) struct Verifier {
    inner: Option<Arc<dyn ServerCertVerifier>>,
    /// Configured certificates. A broker may present one of these as its own certificate, even if it is an authority's
    /// certificate.
    trusted: Vec<CertificateDer<'static>>,
    check_hostname: bool,
    provider: Arc<CryptoProvider>,
}

impl Verifier {
    /// Creates a verifier from the options.
    ///
    /// # Errors
    /// Fails if no authority is trusted or if the revocation lists cannot be used.
    pub(super) fn new(options: &TlsOptions, provider: &Arc<CryptoProvider>) -> Result<Self> {
        let verifier = |inner, trusted| Self {
            inner,
            trusted,
            check_hostname: options.check_hostname,
            provider: Arc::clone(provider),
        };
        if !options.verify {
            return Ok(verifier(None, Vec::new()));
        }
        match roots::read(options)? {
            Roots::System if options.crl_location.is_some() => Err(Error::configuration(
                "ssl.crl.location needs ssl.truststore.location: the system's trust store checks revocation itself",
            )),
            Roots::System => {
                let system = rustls_platform_verifier::Verifier::new(Arc::clone(provider)).map_err(|error| {
                    Error::configuration(format!(
                        "the system has no authorities to trust ({error}): install its package ca-certificates, or set \
                         ssl.truststore.location to a file of them, for example that of Python's package certifi \
                         (certifi.where())"
                    ))
                })?;
                Ok(verifier(Some(Arc::new(system)), Vec::new()))
            }
            Roots::Configured(trusted) => {
                let roots = Arc::new(roots::store(&trusted)?);
                let mut builder = WebPkiServerVerifier::builder_with_provider(roots, Arc::clone(provider));
                if let Some(path) = &options.crl_location {
                    // As in OpenSSL with CRL_CHECK, only the broker's own certificate is checked, and a current
                    // revocation list of its issuer is required.
                    builder = builder
                        .with_crls(read_crls(path)?)
                        .only_check_end_entity_revocation()
                        .enforce_revocation_expiration();
                }
                let inner = builder
                    .build()
                    .map_err(|error| Error::configuration(format!("certificates cannot be checked: {error}")))?;
                Ok(verifier(Some(inner), trusted))
            }
        }
    }

    fn rejection(
        &self,
        error: &rustls::Error,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: Option<&ServerName<'_>>,
    ) -> rustls::Error {
        let trusts_system = self.trusted.is_empty();
        let text = tls_errors::certificate(error, end_entity, intermediates, name, trusts_system);
        rustls::Error::InvalidCertificate(CertificateError::Other(OtherError(Arc::new(RejectedCertificate(text)))))
    }

    /// Verifies the signature of the handshake, unless verification of certificates is disabled.
    fn check_signature(
        &self,
        cert: &CertificateDer<'_>,
        verify: impl FnOnce(&WebPkiSupportedAlgorithms) -> std::result::Result<HandshakeSignatureValid, rustls::Error>,
    ) -> std::result::Result<HandshakeSignatureValid, rustls::Error> {
        if self.inner.is_none() {
            return Ok(HandshakeSignatureValid::assertion());
        }
        verify(&self.provider.signature_verification_algorithms)
            .map_err(|error| self.rejection(&error, cert, &[], None))
    }

    /// Returns true if the certificate is identical to a configured certificate and is currently valid. The host name
    /// is not checked.
    fn is_trusted_leaf(&self, end_entity: &CertificateDer<'_>) -> bool {
        let is_current =
            |certificate: Certificate<'_>| (certificate.not_before..=certificate.not_after).contains(&x509::now());
        self.trusted.iter().any(|certificate| certificate == end_entity)
            && Certificate::parse(end_entity).is_some_and(is_current)
    }
}

/// Reads the certificate revocation lists in a PEM file.
fn read_crls(path: &Path) -> Result<Vec<CertificateRevocationListDer<'static>>> {
    let source = Source {
        option: "ssl.crl.location",
        path: Some(path),
        password_option: "",
        password: None,
        declared_type: None,
    };
    let bytes = source.read(path)?;
    let text = std::str::from_utf8(&bytes).map_err(|_| source.error("is no PEM: it is not text"))?;
    let lists: Vec<_> = pem::sections(text)
        .map_err(|reason| source.error(reason))?
        .into_iter()
        .filter(|section| section.label == "X509 CRL")
        .map(|section| CertificateRevocationListDer::from(section.der.to_vec()))
        .collect();
    if lists.is_empty() { Err(source.error("has no list of revoked certificates (BEGIN X509 CRL)")) } else { Ok(lists) }
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> std::result::Result<ServerCertVerified, rustls::Error> {
        let Some(inner) = &self.inner else { return Ok(ServerCertVerified::assertion()) };
        // The platform's verifier may check the host name first. If host name checks are disabled, a name from the
        // certificate is passed so that this check succeeds.
        let substitute = (!self.check_hostname && self.trusted.is_empty()).then(|| any_name(end_entity)).flatten();
        let name = substitute.as_ref().unwrap_or(server_name);
        let error = match inner.verify_server_cert(end_entity, intermediates, name, ocsp_response, now) {
            Ok(verified) => return Ok(verified),
            Err(error) => error,
        };
        let error = match error {
            // rustls checks the host name last, so everything else is valid.
            rustls::Error::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
            ) if !self.check_hostname && !self.trusted.is_empty() => return Ok(ServerCertVerified::assertion()),
            // In small clusters, a broker may use the certificate of a trusted authority as its own certificate.
            error if tls_errors::is_authority(&error) && self.is_trusted_leaf(end_entity) => {
                let name_check =
                    ParsedCertificate::try_from(end_entity).and_then(|leaf| verify_server_name(&leaf, server_name));
                match name_check {
                    Err(error) if self.check_hostname => error,
                    _ => return Ok(ServerCertVerified::assertion()),
                }
            }
            error => error,
        };
        Err(self.rejection(&error, end_entity, intermediates, Some(server_name)))
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> std::result::Result<HandshakeSignatureValid, rustls::Error> {
        self.check_signature(cert, |algorithms| verify_tls12_signature(message, cert, dss, algorithms))
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> std::result::Result<HandshakeSignatureValid, rustls::Error> {
        self.check_signature(cert, |algorithms| verify_tls13_signature(message, cert, dss, algorithms))
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

/// Returns a name for which the certificate is valid.
fn any_name(certificate: &CertificateDer<'_>) -> Option<ServerName<'static>> {
    let names = Certificate::parse(certificate)?.names;
    names.into_iter().find_map(|name| ServerName::try_from(name.replacen('*', "any", 1)).ok())
}
