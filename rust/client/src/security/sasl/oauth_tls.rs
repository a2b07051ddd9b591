//! Whom to trust at the other end of an HTTPS connection to an issuer of tokens.

use std::sync::Arc;

use crate::config::{OAuthOptions, TlsOptions};
use crate::error::{Error, Result};
use crate::security::tls::{Tls, tls_errors};

/// Those whom `https.ca.*` names, else those of `ssl.truststore.*`, else the system's. Whatever brokers are forgiven, an
/// issuer's certificate is always checked: it gets the client's secret.
///
/// # Errors
/// The certificates cannot be read.
pub(super) fn of(oauth: &OAuthOptions) -> Result<Arc<Tls>> {
    let own = oauth.https_ca_location.is_some() || oauth.https_ca_pem.is_some();
    // No key: an issuer knows clients by their secrets.
    let mut options = TlsOptions {
        keystore_location: None,
        keystore_certificate_chain: None,
        keystore_key: None,
        keystore_password: None,
        certificate_location: None,
        key_location: None,
        check_hostname: true,
        verify: true,
        ..oauth.tls.clone()
    };
    if own {
        options.truststore_location.clone_from(&oauth.https_ca_location);
        options.truststore_certificates.clone_from(&oauth.https_ca_pem);
        (options.truststore_password, options.truststore_type) = (None, None);
    }
    let made = Tls::new(&options);
    made.map(Arc::new).map_err(|error| match error {
        Error::Configuration(text) if own => Error::Configuration(renamed(&text)),
        other => other,
    })
}

/// Why a handshake with an issuer failed, in the words that are used of brokers.
pub(super) fn explained(error: &rustls::Error) -> String {
    renamed(&tls_errors::handshake(error, &[], false, "")).replace("the broker", "the issuer")
}

fn renamed(text: &str) -> String {
    text.replace("ssl.truststore.location", "https.ca.location").replace("ssl.truststore.certificates", "https.ca.pem")
}
