//! Stores of keys and certificates, for rust/fuzz.

use crate::error::Result;
use crate::secret::Secret;

use super::stores::{KeyPassword, Source};
use super::{keystore, x509};

/// Bytes that a store gave: a key, and certificates.
///
/// # Errors
/// It cannot be opened, or its key cannot be used.
pub fn store(bytes: &[u8], password: Option<&str>, key_password: Option<&str>) -> Result<(usize, usize)> {
    let secret = |text: &str| Secret::from(text.to_owned());
    let (password, key_password) = (password.map(secret), key_password.map(secret));
    let source = Source {
        option: "ssl.keystore.location",
        path: None,
        password_option: "ssl.keystore.password",
        password: password.as_ref(),
        said: None,
    };
    let opened = source.open(bytes, Some(KeyPassword { password: key_password.as_ref() }))?;
    let key = opened.key.as_ref().map_or(0, |key| key.len());
    let mut certificates = 0;
    for certificate in opened.chain.iter().chain(&opened.certificates) {
        certificates += certificate.len();
        if let Some(read) = x509::Certificate::parse(certificate) {
            let _ = (read.common_name(), read.issuer_name(), read.self_issued());
        }
    }
    if key != 0 {
        keystore::certified(opened, &rustls::crypto::aws_lc_rs::default_provider())?;
    }
    Ok((key, certificates))
}
