//! Versions, cipher suites and curves by the names that Java and OpenSSL have for them.

use rustls::SupportedProtocolVersion;
use rustls::crypto::{CryptoProvider, SupportedKxGroup, aws_lc_rs};

use crate::config::TlsOptions;
use crate::error::{Error, Result};

/// What can be chosen, with what is chosen of it.
///
/// # Errors
/// A name that nobody knows, or nothing that is left.
pub(super) fn provider(options: &TlsOptions) -> Result<CryptoProvider> {
    let mut provider = aws_lc_rs::default_provider();
    if !options.cipher_suites.is_empty() {
        let all = aws_lc_rs::ALL_CIPHER_SUITES;
        provider.cipher_suites = chosen(
            "ssl.cipher.suites",
            &options.cipher_suites,
            |name| {
                let found = all.iter().find(|suite| {
                    let (iana, openssl) = suite_names(&format!("{:?}", suite.suite()));
                    name.eq_ignore_ascii_case(&iana) || name.eq_ignore_ascii_case(&openssl)
                });
                found.copied()
            },
            || all.iter().map(|suite| suite_names(&format!("{:?}", suite.suite())).0).collect(),
        )?;
    }
    if !options.curves.is_empty() {
        provider.kx_groups = chosen("ssl.curves.list", &options.curves, group, || {
            aws_lc_rs::ALL_KX_GROUPS.iter().map(|group| format!("{:?}", group.name())).collect()
        })?;
    }
    Ok(provider)
}

/// Those of the named things that there are, if any is left. What others offer and we do not is left out with a warning:
/// lists are copied from clients that still speak what nobody should.
fn chosen<T>(
    option: &str,
    names: &[String],
    find: impl Fn(&str) -> Option<T>,
    all: impl Fn() -> Vec<String>,
) -> Result<Vec<T>> {
    let (mut found, mut missing) = (Vec::new(), Vec::new());
    for name in names {
        match find(name) {
            Some(one) => found.push(one),
            None => missing.push(name.as_str()),
        }
    }
    let missing = missing.join(", ");
    if found.is_empty() {
        let all = all().join(", ");
        return Err(Error::configuration(format!("{option}: nothing is left without {missing}; there are {all}")));
    }
    if !missing.is_empty() {
        tracing::warn!(option, missing, "left out: too old, or no name of one");
    }
    Ok(found)
}

/// The names that IANA and OpenSSL have for what rustls calls `name`.
fn suite_names(name: &str) -> (String, String) {
    let iana = name.replacen("TLS13_", "TLS_", 1);
    let openssl = match iana.strip_prefix("TLS_ECDHE_").and_then(|rest| rest.split_once("_WITH_")) {
        Some((by, cipher)) => {
            let cipher = cipher.replace("AES_128", "AES128").replace("AES_256", "AES256");
            let cipher = cipher.replace("CHACHA20_POLY1305_SHA256", "CHACHA20-POLY1305").replace('_', "-");
            format!("ECDHE-{by}-{cipher}")
        }
        // OpenSSL has no names of its own for TLS 1.3.
        None => iana.clone(),
    };
    (iana, openssl)
}

fn group(name: &str) -> Option<&'static dyn SupportedKxGroup> {
    let name = match name.to_ascii_lowercase().as_str() {
        "p-256" | "prime256v1" => "secp256r1".to_owned(),
        "p-384" => "secp384r1".to_owned(),
        other => other.to_owned(),
    };
    aws_lc_rs::ALL_KX_GROUPS.iter().find(|group| format!("{:?}", group.name()).eq_ignore_ascii_case(&name)).copied()
}

/// The versions of TLS.
///
/// # Errors
/// Only such as are not safe are named.
pub(super) fn versions(options: &TlsOptions) -> Result<Vec<&'static SupportedProtocolVersion>> {
    let find = |name: &str| match name {
        "TLSv1.2" => Some(&rustls::version::TLS12),
        "TLSv1.3" => Some(&rustls::version::TLS13),
        _ => None,
    };
    chosen("ssl.enabled.protocols", &options.enabled_protocols, find, || vec!["TLSv1.2".into(), "TLSv1.3".into()])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(suites: &[&str], curves: &[&str], protocols: &[&str]) -> TlsOptions {
        let own = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
        TlsOptions {
            cipher_suites: own(suites),
            curves: own(curves),
            enabled_protocols: own(protocols),
            ..TlsOptions::default()
        }
    }

    #[test]
    fn suites_go_by_the_names_of_iana_and_openssl() {
        for (name, wanted) in [
            ("TLS_AES_128_GCM_SHA256", "TLS13_AES_128_GCM_SHA256"),
            ("TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384", "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384"),
            ("ECDHE-RSA-AES256-GCM-SHA384", "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384"),
            ("ECDHE-ECDSA-CHACHA20-POLY1305", "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256"),
            ("ecdhe-ecdsa-aes128-gcm-sha256", "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256"),
        ] {
            let found = provider(&options(&[name, "AES128-SHA"], &[], &[])).unwrap().cipher_suites;
            assert_eq!(found.iter().map(|one| format!("{:?}", one.suite())).collect::<Vec<_>>(), [wanted]);
        }
        let error = provider(&options(&["AES128-SHA", "HIGH"], &[], &[])).err().unwrap().to_string();
        assert!(error.contains("ssl.cipher.suites") && error.contains("AES128-SHA, HIGH"), "{error}");
        assert!(error.contains("TLS_AES_256_GCM_SHA384"), "{error}");
    }

    #[test]
    fn curves_go_by_the_names_of_all() {
        for (name, wanted) in [
            ("X25519", "X25519"),
            ("P-256", "secp256r1"),
            ("prime256v1", "secp256r1"),
            ("secp384r1", "secp384r1"),
            ("X25519MLKEM768", "X25519MLKEM768"),
        ] {
            let found = provider(&options(&[], &[name], &[])).unwrap().kx_groups;
            assert_eq!(found.iter().map(|one| format!("{:?}", one.name())).collect::<Vec<_>>(), [wanted]);
        }
        assert!(provider(&options(&[], &["sect571r1"], &[])).is_err());
    }

    #[test]
    fn old_versions_are_left_out() {
        assert_eq!(versions(&options(&[], &[], &["TLSv1.2", "TLSv1.1", "TLSv1"])).unwrap(), [&rustls::version::TLS12]);
        let error = versions(&options(&[], &[], &["TLSv1.1"])).unwrap_err().to_string();
        assert!(error.contains("TLSv1.1") && error.contains("TLSv1.3"), "{error}");
    }
}
