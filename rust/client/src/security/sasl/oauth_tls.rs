//! TLS settings for HTTPS connections to token issuers.

use std::sync::Arc;

use crate::config::{OAuthOptions, TlsOptions};
use crate::error::{Error, Result};
use crate::security::tls::{Tls, tls_errors};

/// Creates the TLS settings. Trusted certificates are those of `https.ca.*`, otherwise of `ssl.truststore.*`, otherwise
/// of the system. An issuer's certificate is verified even if verification of brokers is disabled, because the issuer
/// receives the client's secret.
///
/// # Errors
/// Fails if the certificates cannot be read.
pub(super) fn issuer_tls(oauth: &OAuthOptions) -> Result<Arc<Tls>> {
    let has_own_ca = oauth.https_ca_location.is_some() || oauth.https_ca_pem.is_some();
    // No client certificate is presented, because clients identify themselves to an issuer by their secrets.
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
    if has_own_ca {
        options.truststore_location.clone_from(&oauth.https_ca_location);
        options.truststore_certificates.clone_from(&oauth.https_ca_pem);
        (options.truststore_password, options.truststore_type) = (None, None);
    }
    let tls = Tls::new(&options);
    tls.map(Arc::new).map_err(|error| match error {
        Error::Configuration(text) if has_own_ca => Error::Configuration(with_https_options(&text)),
        other => other,
    })
}

/// Describes a failed TLS handshake with an issuer.
pub(super) fn describe_tls_error(error: &rustls::Error) -> String {
    with_https_options(&tls_errors::handshake(error, &[], false, "")).replace("the broker", "the issuer")
}

fn with_https_options(text: &str) -> String {
    text.replace("ssl.truststore.location", "https.ca.location").replace("ssl.truststore.certificates", "https.ca.pem")
}
