//! The client's certificate and private key.

use std::path::Path;
use std::sync::Arc;

use rustls::crypto::CryptoProvider;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::{CertifiedKey, SigningKey};

use super::awslc::StoreContents;
use super::stores::{KeyPassword, Source};
use super::x509;
use crate::config::{StoreType, TlsOptions};
use crate::error::{Error, Result};

/// Returns the certificate chain and the private key that the client presents to brokers that request a certificate.
/// Returns `None` if no certificate is configured.
///
/// # Errors
/// Fails if a file cannot be read or used, or if certificate and key do not match.
pub(super) fn read(options: &TlsOptions, provider: &CryptoProvider) -> Result<Option<Arc<CertifiedKey>>> {
    let is_separate = options.keystore_certificate_chain.is_some()
        || options.keystore_key.is_some()
        || options.certificate_location.is_some()
        || options.key_location.is_some();
    let key = KeyPassword { password: options.key_password.as_ref() };
    let contents = match &options.keystore_location {
        Some(_) if is_separate => {
            return Err(Error::configuration(
                "ssl.keystore.location has certificate and key: remove the options that set them separately \
                 (ssl.keystore.certificate.chain, ssl.keystore.key, ssl.certificate.location, ssl.key.location)",
            ));
        }
        Some(path) => {
            let source = Source {
                option: "ssl.keystore.location",
                path: Some(path),
                password_option: "ssl.keystore.password",
                password: options.keystore_password.as_ref(),
                declared_type: options.keystore_type,
            };
            let contents = source.open(&source.read(path)?, Some(key))?;
            if contents.key.is_none() {
                return Err(source.error("has no private key"));
            }
            contents
        }
        None if is_separate => read_separate(options, key)?,
        None if options.keystore_password.is_some() => {
            return Err(Error::configuration("ssl.keystore.password is set, but not ssl.keystore.location"));
        }
        None => return Ok(None),
    };
    certified_key(contents, provider).map(|key| Some(Arc::new(key)))
}

fn pem<'a>(option: &'static str, path: Option<&'a Path>) -> Source<'a> {
    Source { option, path, password_option: "ssl.key.password", password: None, declared_type: Some(StoreType::Pem) }
}

/// Reads the certificate and the key from separate options.
fn read_separate(options: &TlsOptions, key: KeyPassword<'_>) -> Result<StoreContents> {
    let both = |first: &str, second: &str| {
        Error::configuration(format!("{first} and {second} set the same value: set only one"))
    };
    let file = |option, path: &Path, key| {
        let source = pem(option, Some(path));
        source.open(&source.read(path)?, key)
    };
    let text = |option, text: &str, key| pem(option, None).open_pem(text.as_bytes(), key);
    // If no key is configured, the file with the certificate also contains the key.
    let in_one = options.keystore_key.is_none() && options.key_location.is_none();
    let key_in_chain = in_one.then_some(key);
    let mut contents = match (&options.keystore_certificate_chain, &options.certificate_location) {
        (Some(_), Some(_)) => return Err(both("ssl.keystore.certificate.chain", "ssl.certificate.location")),
        (Some(chain), None) => text("ssl.keystore.certificate.chain", chain, key_in_chain)?,
        (None, Some(path)) => file("ssl.certificate.location", path, key_in_chain)?,
        (None, None) => {
            return Err(Error::configuration(
                "the private key has no certificate: set ssl.keystore.certificate.chain or \
                 ssl.certificate.location",
            ));
        }
    };
    match (&options.keystore_key, &options.key_location) {
        (Some(_), Some(_)) => return Err(both("ssl.keystore.key", "ssl.key.location")),
        (Some(pem), None) => contents.key = text("ssl.keystore.key", pem.reveal(), Some(key))?.key,
        (None, Some(path)) => contents.key = file("ssl.key.location", path, Some(key))?.key,
        (None, None) => {}
    }
    if contents.key.is_none() {
        let reason = match (&options.keystore_key, &options.key_location) {
            (None, None) => "the client's certificate has no private key: set ssl.keystore.key or ssl.key.location",
            (Some(_), _) => "ssl.keystore.key: has no private key",
            (None, Some(_)) => "ssl.key.location: has no private key",
        };
        return Err(Error::configuration(reason));
    }
    Ok(contents)
}

/// Returns the private key with its certificate chain, leaf first.
pub(super) fn certified_key(contents: StoreContents, provider: &CryptoProvider) -> Result<CertifiedKey> {
    let key_error = |reason: String| Error::configuration(format!("the client's private key cannot be used: {reason}"));
    let der = contents.key.as_deref().map(Vec::as_slice).unwrap_or_default();
    let der = PrivateKeyDer::try_from(der)
        .map_err(|_| key_error("it is neither PKCS8 nor PKCS1 nor SEC1".into()))?
        .clone_key();
    let key = provider.key_provider.load_private_key(der).map_err(|error| {
        key_error(format!("{error} (RSA of 2048 to 8192 bits, ECDSA with P-256, P-384 or P-521, and Ed25519 can)"))
    })?;
    let all: Vec<CertificateDer<'static>> =
        contents.chain.into_iter().chain(contents.certificates).map(CertificateDer::from).collect();
    if all.is_empty() {
        return Err(Error::configuration("the private key has no certificate"));
    }
    chain(all, &key).map(|chain| CertifiedKey::new(chain, key)).ok_or_else(|| {
        Error::configuration(
            "the client's private key does not match its certificate: use a pair that was issued together",
        )
    })
}

/// Returns the certificate of `key`, followed by the certificates of its issuers that are present.
fn chain(mut all: Vec<CertificateDer<'static>>, key: &Arc<dyn SigningKey>) -> Option<Vec<CertificateDer<'static>>> {
    let belongs = |certificate: &CertificateDer<'static>| {
        let pair = CertifiedKey::new(vec![certificate.clone()], Arc::clone(key));
        // A key that does not reveal its public half is assumed to match.
        matches!(pair.keys_match(), Ok(()) | Err(rustls::Error::InconsistentKeys(rustls::InconsistentKeys::Unknown)))
    };
    let leaf = all.iter().position(belongs)?;
    let mut chain = vec![all.remove(leaf)];
    while let Some(issuer) = chain.last().and_then(|last| x509::Certificate::parse(last)) {
        let issued = |candidate: &CertificateDer<'_>| {
            x509::Certificate::parse(candidate).is_some_and(|c| c.subject == issuer.issuer)
        };
        let next = if issuer.self_issued() { None } else { all.iter().position(issued) };
        let Some(next) = next else { break };
        chain.push(all.remove(next));
    }
    Some(chain)
}
