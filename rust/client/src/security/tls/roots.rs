//! Trusted certificate authorities.

use std::path::{Path, PathBuf};

use rustls::RootCertStore;
use rustls::pki_types::CertificateDer;

use super::stores::Source;
use super::{pem, x509};
use crate::config::TlsOptions;
use crate::error::{Error, Result};

/// Source of the trusted authorities.
pub(super) enum Roots {
    /// The system's trust store.
    System,
    /// Only the configured certificates.
    Configured(Vec<CertificateDer<'static>>),
}

/// Reads the trusted authorities that the options set.
///
/// # Errors
/// Fails if a store cannot be read or has no certificate.
pub(super) fn read(options: &TlsOptions) -> Result<Roots> {
    let source = |option, path| Source {
        option,
        path,
        password_option: "ssl.truststore.password",
        password: options.truststore_password.as_ref(),
        declared_type: options.truststore_type,
    };
    match (&options.truststore_location, &options.truststore_certificates) {
        (Some(_), Some(_)) => Err(Error::configuration(
            "ssl.truststore.location and ssl.truststore.certificates both set the trusted certificates: set only one",
        )),
        (None, None) => Ok(Roots::System),
        (Some(probe), None) if probe == "probe" => Ok(Roots::System),
        (Some(location), None) => {
            let path = Path::new(location);
            let source = source("ssl.truststore.location", Some(path));
            let certificates = if path.is_dir() { folder(&source, path)? } else { file(&source, path)? };
            configured(&source, certificates)
        }
        (None, Some(text)) => {
            let source = source("ssl.truststore.certificates", None);
            let certificates = source.open_pem(text.as_bytes(), None)?.certificates;
            configured(&source, certificates)
        }
    }
}

fn file(source: &Source<'_>, path: &Path) -> Result<Vec<Vec<u8>>> {
    let mut contents = source.open(&source.read(path)?, None)?;
    // A store with a key belongs to a client or broker, so only those of its certificates are trusted that are
    // recognised as CA certificates.
    if contents.key.is_some() {
        contents.certificates.retain(|der| x509::Certificate::parse(der).is_some_and(|certificate| certificate.is_ca));
    }
    Ok(contents.certificates)
}

/// Reads all PEM files of a directory, which need not have the layout of OpenSSL's `c_rehash`.
fn folder(source: &Source<'_>, path: &Path) -> Result<Vec<Vec<u8>>> {
    let mut certificates: Vec<Vec<u8>> = Vec::new();
    for path in files(path).map_err(|error| source.error(format!("cannot be read: {error}")))? {
        let file_source = Source { path: Some(&path), declared_type: None, ..*source };
        let bytes = file_source.read(&path)?;
        if pem::is_pem(&bytes) {
            certificates.extend(file_source.open_pem(&bytes, None)?.certificates);
        }
    }
    // In the layout of `c_rehash`, hash links name the same files again.
    certificates.sort();
    certificates.dedup();
    Ok(certificates)
}

/// Returns the files in a directory, sorted by path.
pub(super) fn files(folder: &Path) -> std::io::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        // Empty files are skipped, because they are only markers.
        if std::fs::metadata(&path).is_ok_and(|metadata| metadata.is_file() && metadata.len() > 0) {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

fn configured(source: &Source<'_>, certificates: Vec<Vec<u8>>) -> Result<Roots> {
    if certificates.is_empty() {
        return Err(source.error("has no certificate: no broker could be trusted"));
    }
    Ok(Roots::Configured(certificates.into_iter().map(CertificateDer::from).collect()))
}

/// Builds rustls' root store. Unreadable certificates are ignored unless all certificates are unreadable.
pub(super) fn store(certificates: &[CertificateDer<'static>]) -> Result<RootCertStore> {
    let mut store = RootCertStore::empty();
    let (added, ignored) = store.add_parsable_certificates(certificates.iter().cloned());
    if ignored > 0 {
        tracing::warn!(added, ignored, "ignored certificates of authorities that cannot be read");
    }
    if added > 0 {
        return Ok(store);
    }
    let old =
        certificates.iter().any(|der| x509::Certificate::parse(der).is_some_and(|certificate| certificate.version < 3));
    let hint = if old { ": it is of version 1, reissue it as version 3" } else { "" };
    Err(Error::configuration(format!("no certificate of an authority can be used{hint}")))
}
