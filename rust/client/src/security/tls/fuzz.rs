//! Parsers of key stores and certificates, for rust/fuzz.

use crate::error::Result;
use crate::secret::Secret;

use super::stores::{KeyPassword, Source};
use super::{keystore, x509};

/// Opens a store. Returns the size of its key and the total size of its certificates, in bytes.
///
/// # Errors
/// Fails if the store cannot be opened or its key cannot be used.
pub fn store(bytes: &[u8], password: Option<&str>, key_password: Option<&str>) -> Result<(usize, usize)> {
    let secret = |text: &str| Secret::from(text.to_owned());
    let (password, key_password) = (password.map(secret), key_password.map(secret));
    let source = Source {
        option: "ssl.keystore.location",
        path: None,
        password_option: "ssl.keystore.password",
        password: password.as_ref(),
        declared_type: None,
    };
    let contents = source.open(bytes, Some(KeyPassword { password: key_password.as_ref() }))?;
    let key = contents.key.as_ref().map_or(0, |key| key.len());
    let mut certificates = 0;
    for certificate in contents.chain.iter().chain(&contents.certificates) {
        certificates += certificate.len();
        if let Some(parsed) = x509::Certificate::parse(certificate) {
            let _ = (parsed.common_name(), parsed.issuer_name(), parsed.self_issued());
        }
    }
    if key != 0 {
        keystore::certified_key(contents, &rustls::crypto::aws_lc_rs::default_provider())?;
    }
    Ok((key, certificates))
}
