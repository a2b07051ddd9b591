//! Finds TLS versions, cipher suites and curves by their names in Java and OpenSSL.

use rustls::SupportedProtocolVersion;
use rustls::crypto::{CryptoProvider, SupportedKxGroup, aws_lc_rs};

use crate::config::TlsOptions;
use crate::error::{Error, Result};

/// Returns the crypto provider with the configured cipher suites and curves.
///
/// # Errors
/// Fails if none of the configured names is supported.
pub(super) fn provider(options: &TlsOptions) -> Result<CryptoProvider> {
    let mut provider = aws_lc_rs::default_provider();
    if !options.cipher_suites.is_empty() {
        let all = aws_lc_rs::ALL_CIPHER_SUITES;
        provider.cipher_suites = select(
            "ssl.cipher.suites",
            &options.cipher_suites,
            |name| {
                let selected = all.iter().find(|suite| {
                    let (iana, openssl) = suite_names(&format!("{:?}", suite.suite()));
                    name.eq_ignore_ascii_case(&iana) || name.eq_ignore_ascii_case(&openssl)
                });
                selected.copied()
            },
            || all.iter().map(|suite| suite_names(&format!("{:?}", suite.suite())).0).collect(),
        )?;
    }
    if !options.curves.is_empty() {
        provider.kx_groups = select("ssl.curves.list", &options.curves, group, || {
            aws_lc_rs::ALL_KX_GROUPS.iter().map(|group| format!("{:?}", group.name())).collect()
        })?;
    }
    Ok(provider)
}

/// Returns the cipher suites or curves with these names. Unsupported names are skipped with a warning, because lists
/// are often copied from clients that still support obsolete algorithms.
fn select<T>(
    option: &str,
    names: &[String],
    find: impl Fn(&str) -> Option<T>,
    all: impl Fn() -> Vec<String>,
) -> Result<Vec<T>> {
    let (mut selected, mut missing) = (Vec::new(), Vec::new());
    for name in names {
        match find(name) {
            Some(item) => selected.push(item),
            None => missing.push(name.as_str()),
        }
    }
    let missing = missing.join(", ");
    if selected.is_empty() {
        let all = all().join(", ");
        return Err(Error::configuration(format!("{option}: none of {missing} is supported; supported are {all}")));
    }
    if !missing.is_empty() {
        tracing::warn!(option, missing, "ignored unsupported or unknown names");
    }
    Ok(selected)
}

/// Returns the IANA and the OpenSSL name of the cipher suite that rustls calls `name`.
fn suite_names(name: &str) -> (String, String) {
    let iana = name.replacen("TLS13_", "TLS_", 1);
    let openssl = match iana.strip_prefix("TLS_ECDHE_").and_then(|rest| rest.split_once("_WITH_")) {
        Some((authentication, cipher)) => {
            let cipher = cipher.replace("AES_128", "AES128").replace("AES_256", "AES256");
            let cipher = cipher.replace("CHACHA20_POLY1305_SHA256", "CHACHA20-POLY1305").replace('_', "-");
            format!("ECDHE-{authentication}-{cipher}")
        }
        // For TLS 1.3, OpenSSL uses the IANA names.
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

/// Returns the enabled TLS versions.
///
/// # Errors
/// Fails if none of the configured versions is supported.
pub(super) fn versions(options: &TlsOptions) -> Result<Vec<&'static SupportedProtocolVersion>> {
    let find = |name: &str| match name {
        "TLSv1.2" => Some(&rustls::version::TLS12),
        "TLSv1.3" => Some(&rustls::version::TLS13),
        _ => None,
    };
    select("ssl.enabled.protocols", &options.enabled_protocols, find, || vec!["TLSv1.2".into(), "TLSv1.3".into()])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(suites: &[&str], curves: &[&str], protocols: &[&str]) -> TlsOptions {
        let owned = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
        TlsOptions {
            cipher_suites: owned(suites),
            curves: owned(curves),
            enabled_protocols: owned(protocols),
            ..TlsOptions::default()
        }
    }

    #[test]
    fn accepts_iana_and_openssl_suite_names() {
        for (name, expected) in [
            ("TLS_AES_128_GCM_SHA256", "TLS13_AES_128_GCM_SHA256"),
            ("TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384", "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384"),
            ("ECDHE-RSA-AES256-GCM-SHA384", "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384"),
            ("ECDHE-ECDSA-CHACHA20-POLY1305", "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256"),
            ("ecdhe-ecdsa-aes128-gcm-sha256", "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256"),
        ] {
            let selected = provider(&options(&[name, "AES128-SHA"], &[], &[])).unwrap().cipher_suites;
            assert_eq!(selected.iter().map(|item| format!("{:?}", item.suite())).collect::<Vec<_>>(), [expected]);
        }
        let error = provider(&options(&["AES128-SHA", "HIGH"], &[], &[])).err().unwrap().to_string();
        assert!(error.contains("ssl.cipher.suites") && error.contains("AES128-SHA, HIGH"), "{error}");
        assert!(error.contains("TLS_AES_256_GCM_SHA384"), "{error}");
    }

    #[test]
    fn accepts_all_curve_names() {
        for (name, expected) in [
            ("X25519", "X25519"),
            ("P-256", "secp256r1"),
            ("prime256v1", "secp256r1"),
            ("secp384r1", "secp384r1"),
            ("X25519MLKEM768", "X25519MLKEM768"),
        ] {
            let selected = provider(&options(&[], &[name], &[])).unwrap().kx_groups;
            assert_eq!(selected.iter().map(|item| format!("{:?}", item.name())).collect::<Vec<_>>(), [expected]);
        }
        assert!(provider(&options(&[], &["sect571r1"], &[])).is_err());
    }

    #[test]
    fn ignores_old_versions() {
        assert_eq!(versions(&options(&[], &[], &["TLSv1.2", "TLSv1.1", "TLSv1"])).unwrap(), [&rustls::version::TLS12]);
        let error = versions(&options(&[], &[], &["TLSv1.1"])).unwrap_err().to_string();
        assert!(error.contains("TLSv1.1") && error.contains("TLSv1.3"), "{error}");
    }
}
