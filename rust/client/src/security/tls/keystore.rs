//! The client's own certificate and key.

use std::path::Path;
use std::sync::Arc;

use rustls::crypto::CryptoProvider;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::{CertifiedKey, SigningKey};

use super::awslc::Opened;
use super::stores::{KeyPassword, Source};
use super::x509;
use crate::config::{StoreType, TlsOptions};
use crate::error::{Error, Result};

/// What the client shows to brokers that ask for it; `None` where the options name nothing.
///
/// # Errors
/// Something cannot be read or used, or does not belong together.
pub(super) fn read(options: &TlsOptions, provider: &CryptoProvider) -> Result<Option<Arc<CertifiedKey>>> {
    let in_parts = options.keystore_certificate_chain.is_some()
        || options.keystore_key.is_some()
        || options.certificate_location.is_some()
        || options.key_location.is_some();
    let key = KeyPassword { password: options.key_password.as_ref() };
    let opened = match &options.keystore_location {
        Some(_) if in_parts => {
            return Err(Error::configuration(
                "ssl.keystore.location has certificate and key: take out the options that name them one by one \
                 (ssl.keystore.certificate.chain, ssl.keystore.key, ssl.certificate.location, ssl.key.location)",
            ));
        }
        Some(path) => {
            let source = Source {
                option: "ssl.keystore.location",
                path: Some(path),
                password_option: "ssl.keystore.password",
                password: options.keystore_password.as_ref(),
                said: options.keystore_type,
            };
            let opened = source.open(&source.read(path)?, Some(key))?;
            if opened.key.is_none() {
                return Err(source.error("has no private key"));
            }
            opened
        }
        None if in_parts => parts(options, key)?,
        None if options.keystore_password.is_some() => {
            return Err(Error::configuration("ssl.keystore.password is set, but not ssl.keystore.location"));
        }
        None => return Ok(None),
    };
    certified(opened, provider).map(|key| Some(Arc::new(key)))
}

fn pem<'a>(option: &'static str, path: Option<&'a Path>) -> Source<'a> {
    Source { option, path, password_option: "ssl.key.password", password: None, said: Some(StoreType::Pem) }
}

/// Certificate and key from options of their own.
fn parts(options: &TlsOptions, key: KeyPassword<'_>) -> Result<Opened> {
    let both = |one: &str, other: &str| Error::configuration(format!("{one} and {other} name the same thing: set one"));
    let file = |option, path: &Path, key| {
        let source = pem(option, Some(path));
        source.open(&source.read(path)?, key)
    };
    let text = |option, text: &str, key| pem(option, None).open_pem(text.as_bytes(), key);
    // Many keep both in one file.
    let in_one = options.keystore_key.is_none() && options.key_location.is_none();
    let wanted = in_one.then_some(key);
    let mut opened = match (&options.keystore_certificate_chain, &options.certificate_location) {
        (Some(_), Some(_)) => return Err(both("ssl.keystore.certificate.chain", "ssl.certificate.location")),
        (Some(chain), None) => text("ssl.keystore.certificate.chain", chain, wanted)?,
        (None, Some(path)) => file("ssl.certificate.location", path, wanted)?,
        (None, None) => {
            return Err(Error::configuration(
                "there is a private key without its certificate: set ssl.keystore.certificate.chain or \
                 ssl.certificate.location",
            ));
        }
    };
    match (&options.keystore_key, &options.key_location) {
        (Some(_), Some(_)) => return Err(both("ssl.keystore.key", "ssl.key.location")),
        (Some(pem), None) => opened.key = text("ssl.keystore.key", pem.reveal(), Some(key))?.key,
        (None, Some(path)) => opened.key = file("ssl.key.location", path, Some(key))?.key,
        (None, None) => {}
    }
    if opened.key.is_none() {
        let reason = match (&options.keystore_key, &options.key_location) {
            (None, None) => "the client's certificate has no private key: set ssl.keystore.key or ssl.key.location",
            (Some(_), _) => "ssl.keystore.key: has no private key",
            (None, Some(_)) => "ssl.key.location: has no private key",
        };
        return Err(Error::configuration(reason));
    }
    Ok(opened)
}

/// The key with its certificate first, and those above it.
pub(super) fn certified(opened: Opened, provider: &CryptoProvider) -> Result<CertifiedKey> {
    let wrong = |reason: String| Error::configuration(format!("the client's private key cannot be used: {reason}"));
    let der = opened.key.as_deref().map(Vec::as_slice).unwrap_or_default();
    let der =
        PrivateKeyDer::try_from(der).map_err(|_| wrong("it is neither PKCS8 nor PKCS1 nor SEC1".into()))?.clone_key();
    let key = provider.key_provider.load_private_key(der).map_err(|error| {
        wrong(format!("{error} (RSA of 2048 to 8192 bits, ECDSA with P-256, P-384 or P-521, and Ed25519 can)"))
    })?;
    let all: Vec<CertificateDer<'static>> =
        opened.chain.into_iter().chain(opened.certificates).map(CertificateDer::from).collect();
    if all.is_empty() {
        return Err(Error::configuration("there is a private key without a certificate"));
    }
    chain(all, &key).map(|chain| CertifiedKey::new(chain, key)).ok_or_else(|| {
        Error::configuration("the client's private key does not belong to its certificate: take both from one place")
    })
}

/// The certificate of `key`, and what it was issued by as far as that is there.
fn chain(mut all: Vec<CertificateDer<'static>>, key: &Arc<dyn SigningKey>) -> Option<Vec<CertificateDer<'static>>> {
    let belongs = |certificate: &CertificateDer<'static>| {
        let pair = CertifiedKey::new(vec![certificate.clone()], Arc::clone(key));
        // Keys that cannot show their public half are believed, as anywhere.
        matches!(pair.keys_match(), Ok(()) | Err(rustls::Error::InconsistentKeys(rustls::InconsistentKeys::Unknown)))
    };
    let own = all.iter().position(belongs)?;
    let mut chain = vec![all.remove(own)];
    while let Some(issuer) = chain.last().and_then(|last| x509::Certificate::parse(last)) {
        let above =
            |one: &CertificateDer<'_>| x509::Certificate::parse(one).is_some_and(|c| c.subject == issuer.issuer);
        let next = if issuer.self_issued() { None } else { all.iter().position(above) };
        let Some(next) = next else { break };
        chain.push(all.remove(next));
    }
    Some(chain)
}
