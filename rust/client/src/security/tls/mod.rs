//! TLS: trusted authorities, the client's certificate, and the rustls configuration that is built from them.

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

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rustls::ClientConfig;
use rustls::client::Resumption;
use rustls::pki_types::ServerName;
use rustls::sign::SingleCertAndKey;
use samsarrow_wire::sync::lock;
use zeroize::Zeroizing;

use self::file_fingerprint::FileFingerprints;
use self::stores::{KeyPassword, Source};
use self::verify::Verifier;
use crate::config::TlsOptions;
use crate::error::{Error, Result};
use crate::secret::Secret;

/// Maximum number of cached TLS sessions per client. A handshake that resumes a session needs no certificates.
const MAX_SESSIONS: usize = 256;
/// Interval at which files that could not be used are read again, even if they have not changed.
const RETRY_INTERVAL: Duration = Duration::from_secs(1);

/// TLS configuration of one client. It is updated when the files change.
#[derive(Debug)]
pub(crate) struct Tls {
    options: TlsOptions,
    current: Mutex<Current>,
}

/// The configuration that is currently used.
#[derive(Debug)]
struct Current {
    config: Arc<ClientConfig>,
    /// Fingerprints of the files from which the configuration was read.
    fingerprints: FileFingerprints,
    /// Fingerprints of files that could not be used, and the time when they were read.
    last_failure: Option<(FileFingerprints, Instant)>,
}

impl Tls {
    /// Reads certificates and keys.
    ///
    /// # Errors
    /// Fails if a file cannot be read or used.
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
        let fingerprints = FileFingerprints::take(options);
        let current = Current { config: configure(options)?, fingerprints, last_failure: None };
        Ok(Self { options: options.clone(), current: Mutex::new(current) })
    }

    /// Returns the configuration for a new handshake. Reads the files again if they have changed, and keeps the
    /// previous configuration if the new files cannot be used.
    pub(crate) async fn config(self: &Arc<Self>) -> Arc<ClientConfig> {
        let tls = Arc::clone(self);
        // Runs on a blocking thread, because the files may be on a network file system.
        match tokio::task::spawn_blocking(move || tls.refresh()).await {
            Ok(config) => config,
            Err(_) => Arc::clone(&lock(&self.current).config),
        }
    }

    fn refresh(&self) -> Arc<ClientConfig> {
        let fingerprints = FileFingerprints::take(&self.options);
        let mut current = lock(&self.current);
        if fingerprints == current.fingerprints {
            current.last_failure = None;
            return Arc::clone(&current.config);
        }
        let previous_attempt = current
            .last_failure
            .as_ref()
            .filter(|(last_failure, _)| *last_failure == fingerprints)
            .map(|(_, time)| *time);
        if previous_attempt.is_some_and(|time| time.elapsed() < RETRY_INTERVAL) {
            return Arc::clone(&current.config);
        }
        match configure(&self.options) {
            Ok(config) => {
                tracing::info!("certificates or keys have changed: new connections use them");
                *current = Current { config, fingerprints, last_failure: None };
            }
            Err(error) => {
                if previous_attempt.is_none() {
                    tracing::warn!(%error, "certificates or keys have changed and cannot be used: the previous ones remain in use");
                }
                current.last_failure = Some((fingerprints, Instant::now()));
            }
        }
        Arc::clone(&current.config)
    }
}

/// Builds the configuration from the options and the files that they name.
fn configure(options: &TlsOptions) -> Result<Arc<ClientConfig>> {
    let setup_error = |error: rustls::Error| Error::configuration(format!("TLS cannot be set up: {error}"));
    let provider = Arc::new(suites::provider(options)?);
    let verifier = Verifier::new(options, &provider)?;
    let client_key = keystore::read(options, &provider)?;
    let builder = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&suites::versions(options)?)
        .map_err(setup_error)?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(verifier));
    let mut config = match client_key {
        Some(client_key) => builder.with_client_cert_resolver(Arc::new(SingleCertAndKey::from(client_key))),
        None => builder.with_no_client_auth(),
    };
    config.resumption = Resumption::in_memory_sessions(MAX_SESSIONS);
    Ok(Arc::new(config))
}

/// Returns the private key in a PEM text as DER, and decrypts it if necessary.
///
/// # Errors
/// Fails if the text has no key or if the key cannot be decrypted. The error names `option` or, for a wrong password,
/// `ssl.key.password`.
pub(crate) fn private_key(option: &'static str, pem: &Secret, password: Option<&Secret>) -> Result<Zeroizing<Vec<u8>>> {
    let source =
        Source { option, path: None, password_option: "ssl.key.password", password: None, declared_type: None };
    let contents = source.open_pem(pem.reveal().as_bytes(), Some(KeyPassword { password }))?;
    contents.key.ok_or_else(|| source.error("has no private key (PEM: -----BEGIN PRIVATE KEY-----)"))
}

/// Returns the host in `address` (`host:port`) as a TLS server name.
///
/// # Errors
/// Fails if a certificate cannot contain this host name.
pub(crate) fn server_name(address: &str) -> Result<ServerName<'static>> {
    let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
    let host = host.trim_start_matches('[').trim_end_matches(']').trim_end_matches('.');
    ServerName::try_from(host.to_owned()).map_err(|_| {
        Error::configuration(format!("{address}: {host:?} is not a host name that a certificate can have"))
    })
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use rcgen::{CertificateParams, KeyPair};

    use super::*;

    /// A directory that is removed on drop.
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

        /// Returns a new self-signed certificate and its key.
        fn self_signed(&self) -> (String, String) {
            let key = KeyPair::generate().unwrap();
            let certificate = CertificateParams::new(vec!["localhost".to_owned()]).unwrap().self_signed(&key).unwrap();
            (certificate.pem(), key.serialize_pem())
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    fn options(folder: &Folder) -> TlsOptions {
        let (certificate, key) = folder.self_signed();
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
    fn config_is_reused_until_a_file_changes() {
        let folder = Folder::new("rotation");
        let tls = Tls::new(&options(&folder)).unwrap();
        let first = tls.refresh();
        assert!(Arc::ptr_eq(&first, &tls.refresh()));
        let (certificate, key) = folder.self_signed();
        // The new certificate does not match the old key, so the previous certificate and key remain in use.
        folder.write("own.pem", &certificate);
        assert!(Arc::ptr_eq(&first, &tls.refresh()));
        assert!(Arc::ptr_eq(&first, &tls.refresh()));
        folder.write("key.pem", &key);
        let second = tls.refresh();
        assert!(!Arc::ptr_eq(&first, &second) && Arc::ptr_eq(&second, &tls.refresh()));
        std::fs::remove_file(folder.0.join("ca.pem")).unwrap();
        assert!(Arc::ptr_eq(&second, &tls.refresh()));
        folder.write("ca.pem", &certificate);
        assert!(!Arc::ptr_eq(&second, &tls.refresh()));
    }

    #[test]
    fn detects_new_files_in_a_folder() {
        let folder = Folder::new("rotation-of-folders");
        let mut options = options(&folder);
        let authorities = folder.0.join("authorities");
        std::fs::create_dir_all(&authorities).unwrap();
        std::fs::write(authorities.join("one.pem"), folder.self_signed().0).unwrap();
        options.truststore_location = Some(authorities.to_str().unwrap().to_owned());
        let tls = Tls::new(&options).unwrap();
        let first = tls.refresh();
        std::fs::write(authorities.join("two.pem"), folder.self_signed().0).unwrap();
        assert!(!Arc::ptr_eq(&first, &tls.refresh()));
    }

    #[test]
    fn server_name_is_the_host() {
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
