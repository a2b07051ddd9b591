//! TLS: whom to trust, who we are, and what of it goes into a handshake.

mod awslc;
mod file_fingerprint;
#[cfg(feature = "fuzz")]
pub(crate) mod fuzz;
mod jks;
mod kdf_limits;
mod keystore;
mod pem;
mod roots;
mod stores;
mod suites;
pub(crate) mod tls_errors;
mod verify;
mod x509;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustls::ClientConfig;
use rustls::client::Resumption;
use rustls::pki_types::ServerName;
use rustls::sign::SingleCertAndKey;
use zeroize::Zeroizing;

use self::file_fingerprint::Stamps;
use self::stores::{KeyPassword, Source};
use self::verify::Verifier;
use crate::config::TlsOptions;
use crate::error::{Error, Result};
use crate::secret::Secret;

/// Sessions that are remembered, for all brokers of a client: with one the next handshake needs no certificates.
const SESSIONS: usize = 256;
/// Files that could not be used, though they did not change since, are tried again after this.
const TRY_AGAIN: Duration = Duration::from_secs(1);

/// TLS as one client's options have it.
#[derive(Debug)]
pub(crate) struct Tls {
    options: TlsOptions,
    current: Mutex<Current>,
}

/// What was read last.
#[derive(Debug)]
struct Current {
    config: Arc<ClientConfig>,
    /// Of the files that it was read from.
    stamps: Stamps,
    /// What could not be used after that, and when.
    failed: Option<(Stamps, Instant)>,
}

impl Tls {
    /// Reads certificates and keys.
    ///
    /// # Errors
    /// One of them cannot be read or used.
    pub(crate) fn new(options: &TlsOptions) -> Result<Self> {
        if !options.verify {
            tracing::warn!(
                "enable.ssl.certificate.verification=false: any server can impersonate a broker, and read and change \
                 everything"
            );
        } else if !options.check_hostname {
            tracing::warn!(
                "ssl.endpoint.identification.algorithm is switched off: anyone with a certificate of a trusted \
                 authority can impersonate a broker"
            );
        }
        let stamps = Stamps::of(options);
        let current = Current { config: configure(options)?, stamps, failed: None };
        Ok(Self { options: options.clone(), current: Mutex::new(current) })
    }

    /// For a handshake now: with what is in the files now, if that can be used.
    pub(crate) async fn config(self: &Arc<Self>) -> Arc<ClientConfig> {
        let tls = Arc::clone(self);
        // Files may lie in a network.
        match tokio::task::spawn_blocking(move || tls.refreshed()).await {
            Ok(config) => config,
            Err(_) => Arc::clone(&self.current.lock().unwrap_or_else(PoisonError::into_inner).config),
        }
    }

    fn refreshed(&self) -> Arc<ClientConfig> {
        let stamps = Stamps::of(&self.options);
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        if stamps == current.stamps {
            current.failed = None;
            return Arc::clone(&current.config);
        }
        let known = current.failed.as_ref().filter(|(failed, _)| *failed == stamps).map(|(_, at)| *at);
        if known.is_some_and(|at| at.elapsed() < TRY_AGAIN) {
            return Arc::clone(&current.config);
        }
        match configure(&self.options) {
            Ok(config) => {
                tracing::info!("certificates or keys have changed: connections from now on use the new ones");
                *current = Current { config, stamps, failed: None };
            }
            Err(error) => {
                if known.is_none() {
                    tracing::warn!(%error, "certificates or keys have changed and cannot be used: the old ones stay");
                }
                current.failed = Some((stamps, Instant::now()));
            }
        }
        Arc::clone(&current.config)
    }
}

/// What the options and the files that they name say.
fn configure(options: &TlsOptions) -> Result<Arc<ClientConfig>> {
    let cannot = |error: rustls::Error| Error::configuration(format!("TLS cannot be set up: {error}"));
    let provider = Arc::new(suites::provider(options)?);
    let verifier = Verifier::new(options, &provider)?;
    let own = keystore::read(options, &provider)?;
    let builder = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&suites::versions(options)?)
        .map_err(cannot)?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(verifier));
    let mut config = match own {
        Some(own) => builder.with_client_cert_resolver(Arc::new(SingleCertAndKey::from(own))),
        None => builder.with_no_client_auth(),
    };
    config.resumption = Resumption::in_memory_sessions(SESSIONS);
    Ok(Arc::new(config))
}

/// The private key in PEM text as DER of whatever kind, decrypted if it is encrypted.
///
/// # Errors
/// There is none, or it cannot be decrypted. The text names `option`, and `ssl.key.password` for the password.
pub(crate) fn private_key(option: &'static str, pem: &Secret, password: Option<&Secret>) -> Result<Zeroizing<Vec<u8>>> {
    let source = Source { option, path: None, password_option: "ssl.key.password", password: None, said: None };
    let opened = source.open_pem(pem.reveal().as_bytes(), Some(KeyPassword { password }))?;
    opened.key.ok_or_else(|| source.error("has no private key (PEM: -----BEGIN PRIVATE KEY-----)"))
}

/// Whom `address` (`host:port`) claims to be.
///
/// # Errors
/// No certificate can name that.
pub(crate) fn server_name(address: &str) -> Result<ServerName<'static>> {
    let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
    let host = host.trim_start_matches('[').trim_end_matches(']').trim_end_matches('.');
    ServerName::try_from(host.to_owned())
        .map_err(|_| Error::configuration(format!("{address}: no certificate can name the host {host:?}")))
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use rcgen::{CertificateParams, KeyPair};

    use super::*;

    /// Files in a folder that goes with it.
    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Self {
            let path = std::env::temp_dir().join(format!("samsarrow-{name}-{}", std::process::id()));
            std::fs::create_dir_all(&path).unwrap();
            Self(path)
        }

        fn write(&self, name: &str, text: &str) -> PathBuf {
            let path = self.0.join(name);
            std::fs::write(&path, text).unwrap();
            path
        }

        /// A new certificate that is its own authority, with its key.
        fn own(&self) -> (String, String) {
            let key = KeyPair::generate().unwrap();
            let own = CertificateParams::new(vec!["localhost".to_owned()]).unwrap().self_signed(&key).unwrap();
            (own.pem(), key.serialize_pem())
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    fn options(folder: &Folder) -> TlsOptions {
        let (certificate, key) = folder.own();
        TlsOptions {
            truststore_location: Some(folder.write("ca.pem", &certificate).to_str().unwrap().to_owned()),
            certificate_location: Some(folder.write("own.pem", &certificate)),
            key_location: Some(folder.write("key.pem", &key)),
            check_hostname: true,
            verify: true,
            enabled_protocols: vec!["TLSv1.2".to_owned(), "TLSv1.3".to_owned()],
            ..TlsOptions::default()
        }
    }

    #[test]
    fn one_config_serves_until_a_file_changes() {
        let folder = Folder::new("rotation");
        let tls = Tls::new(&options(&folder)).unwrap();
        let first = tls.refreshed();
        assert!(Arc::ptr_eq(&first, &tls.refreshed()));
        let (certificate, key) = folder.own();
        // Between the two they do not belong together: the old ones stay.
        folder.write("own.pem", &certificate);
        assert!(Arc::ptr_eq(&first, &tls.refreshed()));
        assert!(Arc::ptr_eq(&first, &tls.refreshed()));
        folder.write("key.pem", &key);
        let second = tls.refreshed();
        assert!(!Arc::ptr_eq(&first, &second) && Arc::ptr_eq(&second, &tls.refreshed()));
        std::fs::remove_file(folder.0.join("ca.pem")).unwrap();
        assert!(Arc::ptr_eq(&second, &tls.refreshed()));
        folder.write("ca.pem", &certificate);
        assert!(!Arc::ptr_eq(&second, &tls.refreshed()));
    }

    #[test]
    fn files_in_a_folder_count_too() {
        let folder = Folder::new("rotation-of-folders");
        let mut options = options(&folder);
        let authorities = folder.0.join("authorities");
        std::fs::create_dir_all(&authorities).unwrap();
        std::fs::write(authorities.join("one.pem"), folder.own().0).unwrap();
        options.truststore_location = Some(authorities.to_str().unwrap().to_owned());
        let tls = Tls::new(&options).unwrap();
        let first = tls.refreshed();
        std::fs::write(authorities.join("two.pem"), folder.own().0).unwrap();
        assert!(!Arc::ptr_eq(&first, &tls.refreshed()));
    }

    #[test]
    fn names_are_those_of_hosts() {
        for (address, name) in [
            ("kafka-1.example.com:9092", "kafka-1.example.com"),
            ("[::1]:9092", "::1"),
            ("a.b.:1", "a.b"),
            ("under_score:1", "under_score"),
        ] {
            assert_eq!(server_name(address).unwrap().to_str(), name);
        }
        assert!(server_name("not a host:1").is_err());
    }
}
