//! Whether a broker is who it should be.

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
use super::tls_errors::Explained;
use super::x509::Certificate;
use super::{pem, x509};
use crate::config::TlsOptions;
use crate::error::{Error, Result};

/// What brokers' certificates are held against.
#[derive(Debug)]
pub(super) struct Verifier {
    inner: Option<Arc<dyn ServerCertVerifier>>,
    /// A broker may show one of these as its own, though it is an authority's.
    given: Vec<CertificateDer<'static>>,
    check_hostname: bool,
    provider: Arc<CryptoProvider>,
}

impl Verifier {
    /// As the options have it.
    ///
    /// # Errors
    /// There is nobody to trust, or lists of revoked certificates cannot be used.
    pub(super) fn new(options: &TlsOptions, provider: &Arc<CryptoProvider>) -> Result<Self> {
        let verifier = |inner, given| Self {
            inner,
            given,
            check_hostname: options.check_hostname,
            provider: Arc::clone(provider),
        };
        if !options.verify {
            return Ok(verifier(None, Vec::new()));
        }
        match roots::read(options)? {
            Roots::System if options.crl_location.is_some() => Err(Error::configuration(
                "ssl.crl.location needs ssl.truststore.location: what the system revokes, it says itself",
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
            Roots::Given(given) => {
                let roots = Arc::new(roots::store(&given)?);
                let mut builder = WebPkiServerVerifier::builder_with_provider(roots, Arc::clone(provider));
                if let Some(path) = &options.crl_location {
                    // As OpenSSL does with CRL_CHECK: the broker's own certificate must be in no list, of its issuer
                    // there must be one, and one that is not too old.
                    builder = builder
                        .with_crls(revoked(path)?)
                        .only_check_end_entity_revocation()
                        .enforce_revocation_expiration();
                }
                let inner = builder
                    .build()
                    .map_err(|error| Error::configuration(format!("certificates cannot be checked: {error}")))?;
                Ok(verifier(Some(inner), given))
            }
        }
    }

    fn refused(
        &self,
        error: &rustls::Error,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: Option<&ServerName<'_>>,
    ) -> rustls::Error {
        let trusts_system = self.given.is_empty();
        let text = tls_errors::certificate(error, end_entity, intermediates, name, trusts_system);
        rustls::Error::InvalidCertificate(CertificateError::Other(OtherError(Arc::new(Explained(text)))))
    }

    /// What is found of the handshake's signature, where certificates are looked at.
    fn signed(
        &self,
        cert: &CertificateDer<'_>,
        verify: impl FnOnce(&WebPkiSupportedAlgorithms) -> std::result::Result<HandshakeSignatureValid, rustls::Error>,
    ) -> std::result::Result<HandshakeSignatureValid, rustls::Error> {
        if self.inner.is_none() {
            return Ok(HandshakeSignatureValid::assertion());
        }
        verify(&self.provider.signature_verification_algorithms).map_err(|error| self.refused(&error, cert, &[], None))
    }

    /// Whether it is, byte for byte, one that was given to be trusted, in its time. Its name was not looked at yet.
    fn is_given(&self, end_entity: &CertificateDer<'_>) -> bool {
        let in_its_time = |one: Certificate<'_>| (one.not_before..=one.not_after).contains(&x509::now());
        self.given.iter().any(|given| given == end_entity) && Certificate::parse(end_entity).is_some_and(in_its_time)
    }
}

/// The lists in a file of PEM.
fn revoked(path: &Path) -> Result<Vec<CertificateRevocationListDer<'static>>> {
    let source =
        Source { option: "ssl.crl.location", path: Some(path), password_option: "", password: None, said: None };
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
        // A platform's verifier may look at the name first: it gets one that the certificate has.
        let own = (!self.check_hostname && self.given.is_empty()).then(|| own_name(end_entity)).flatten();
        let name = own.as_ref().unwrap_or(server_name);
        let error = match inner.verify_server_cert(end_entity, intermediates, name, ocsp_response, now) {
            Ok(verified) => return Ok(verified),
            Err(error) => error,
        };
        let error = match error {
            // Names come last: everything else was in order.
            rustls::Error::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
            ) if !self.check_hostname && !self.given.is_empty() => return Ok(ServerCertVerified::assertion()),
            // The authority itself, which a small cluster may have as its certificate.
            error if tls_errors::is_authority(&error) && self.is_given(end_entity) => {
                let named = ParsedCertificate::try_from(end_entity).and_then(|of| verify_server_name(&of, server_name));
                match named {
                    Err(error) if self.check_hostname => error,
                    _ => return Ok(ServerCertVerified::assertion()),
                }
            }
            error => error,
        };
        Err(self.refused(&error, end_entity, intermediates, Some(server_name)))
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> std::result::Result<HandshakeSignatureValid, rustls::Error> {
        self.signed(cert, |algorithms| verify_tls12_signature(message, cert, dss, algorithms))
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> std::result::Result<HandshakeSignatureValid, rustls::Error> {
        self.signed(cert, |algorithms| verify_tls13_signature(message, cert, dss, algorithms))
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

/// A name that the certificate is for.
fn own_name(certificate: &CertificateDer<'_>) -> Option<ServerName<'static>> {
    let names = Certificate::parse(certificate)?.names;
    names.into_iter().find_map(|name| ServerName::try_from(name.replacen('*', "any", 1)).ok())
}
