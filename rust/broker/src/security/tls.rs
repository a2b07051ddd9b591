//! Server side of TLS. The CA is generated when the broker starts, and dropped with the broker.

use std::fmt;
use std::io;
use std::sync::Arc;

use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::server::{NoClientAuth, WebPkiClientVerifier};
use rustls::{HandshakeKind, RootCertStore, ServerConfig};
use tokio_rustls::TlsAcceptor;

use super::counts::{Counts, add};
use super::options::ClientAuth;
use super::stream::Stream;
use crate::socket::TcpStream;

/// A certificate and its private key as PEM.
#[derive(Clone, PartialEq, Eq)]
pub struct Identity {
    /// Certificate.
    pub certificate: String,
    /// Private key, PKCS #8.
    pub key: String,
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Identity").field("certificate", &self.certificate).finish_non_exhaustive()
    }
}

/// TLS acceptor and CA of a broker.
pub(crate) struct Tls {
    acceptor: TlsAcceptor,
    issuer: Issuer<'static, KeyPair>,
    ca_pem: String,
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tls").finish_non_exhaustive()
    }
}

fn params(names: Vec<String>, common_name: &str) -> Result<CertificateParams, rcgen::Error> {
    let mut params = CertificateParams::new(names)?;
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, common_name);
    Ok(params)
}

fn create_ca() -> Result<(Issuer<'static, KeyPair>, String, CertificateDer<'static>), rcgen::Error> {
    // Each CA has a unique name, because a client that trusts two CAs with the same name may verify with the wrong key.
    let number: String = std::iter::repeat_with(fastrand::alphanumeric).take(8).collect();
    let mut params = params(Vec::new(), &format!("CA {number} of an embedded broker of samsarrow"))?;
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign, KeyUsagePurpose::DigitalSignature];
    let key = KeyPair::generate()?;
    let certificate = params.self_signed(&key)?;
    Ok((Issuer::new(params, key), certificate.pem(), certificate.der().clone()))
}

fn issue(
    issuer: &Issuer<'_, KeyPair>,
    mut params: CertificateParams,
    usage: ExtendedKeyUsagePurpose,
) -> Result<(rcgen::Certificate, KeyPair), rcgen::Error> {
    params.use_authority_key_identifier_extension = true;
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![usage];
    let key = KeyPair::generate()?;
    Ok((params.signed_by(&key, issuer)?, key))
}

fn other(error: impl fmt::Display) -> io::Error {
    io::Error::other(format!("TLS of the embedded broker: {error}"))
}

impl Tls {
    /// Creates the CA and the server certificate for a broker that advertises `host`.
    pub(crate) fn new(host: &str, client_auth: ClientAuth) -> io::Result<Self> {
        let (issuer, ca_pem, ca) = create_ca().map_err(other)?;
        let mut names: Vec<String> = ["localhost", "127.0.0.1", "::1"].map(str::to_owned).into();
        if !names.iter().any(|name| name == host) {
            names.push(host.to_owned());
        }
        let server_params = params(names, host).map_err(other)?;
        let (certificate, key) = issue(&issuer, server_params, ExtendedKeyUsagePurpose::ServerAuth).map_err(other)?;
        let provider = Arc::new(aws_lc_rs::default_provider());
        let verifier = match client_auth {
            ClientAuth::None => Arc::new(NoClientAuth),
            ClientAuth::Requested | ClientAuth::Required => {
                let mut roots = RootCertStore::empty();
                roots.add(ca).map_err(other)?;
                let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider.clone());
                let optional = client_auth == ClientAuth::Requested;
                let verifier = if optional { verifier.allow_unauthenticated() } else { verifier };
                verifier.build().map_err(other)?
            }
        };
        let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(key.serialize_der()));
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .and_then(|config| {
                config.with_client_cert_verifier(verifier).with_single_cert(vec![certificate.der().clone()], key)
            })
            .map_err(other)?;
        Ok(Self { acceptor: TlsAcceptor::from(Arc::new(config)), issuer, ca_pem })
    }

    /// Returns the CA certificate, for the trust store of clients.
    pub(crate) fn ca_pem(&self) -> &str {
        &self.ca_pem
    }

    /// Issues a client certificate for `name`, signed by the CA.
    pub(crate) fn client_certificate(&self, name: &str) -> io::Result<Identity> {
        let issued = params(Vec::new(), name)
            .and_then(|params| issue(&self.issuer, params, ExtendedKeyUsagePurpose::ClientAuth));
        let (certificate, key) = issued.map_err(other)?;
        Ok(Identity { certificate: certificate.pem(), key: key.serialize_pem() })
    }

    /// Performs the TLS handshake, and counts its outcome.
    pub(crate) async fn accept(&self, stream: TcpStream, counts: &Counts) -> io::Result<Stream> {
        let stream = self.acceptor.accept(stream).await.inspect_err(|_| add(&counts.refused))?;
        let connection = stream.get_ref().1;
        if connection.handshake_kind() == Some(HandshakeKind::Resumed) {
            add(&counts.resumed);
        }
        if connection.peer_certificates().is_some() {
            add(&counts.with_certificate);
        }
        Ok(Stream::Tls(Box::new(stream)))
    }
}
