//! The authorities that are trusted.

use std::path::{Path, PathBuf};

use rustls::RootCertStore;
use rustls::pki_types::CertificateDer;

use super::stores::Source;
use super::{pem, x509};
use crate::config::TlsOptions;
use crate::error::{Error, Result};

/// Whom to trust.
pub(super) enum Roots {
    /// Whom the system trusts.
    System,
    /// These, and nobody else.
    Given(Vec<CertificateDer<'static>>),
}

/// What the options say.
///
/// # Errors
/// A store cannot be read, or has no certificate.
pub(super) fn read(options: &TlsOptions) -> Result<Roots> {
    let source = |option, path| Source {
        option,
        path,
        password_option: "ssl.truststore.password",
        password: options.truststore_password.as_ref(),
        said: options.truststore_type,
    };
    match (&options.truststore_location, &options.truststore_certificates) {
        (Some(_), Some(_)) => Err(Error::configuration(
            "ssl.truststore.location and ssl.truststore.certificates both say whom to trust: set one",
        )),
        (None, None) => Ok(Roots::System),
        (Some(probe), None) if probe == "probe" => Ok(Roots::System),
        (Some(location), None) => {
            let path = Path::new(location);
            let source = source("ssl.truststore.location", Some(path));
            let found = if path.is_dir() { folder(&source, path)? } else { file(&source, path)? };
            given(&source, found)
        }
        (None, Some(text)) => {
            let source = source("ssl.truststore.certificates", None);
            let found = source.open_pem(text.as_bytes(), None)?.certificates;
            given(&source, found)
        }
    }
}

fn file(source: &Source<'_>, path: &Path) -> Result<Vec<Vec<u8>>> {
    let mut opened = source.open(&source.read(path)?, None)?;
    // A store with a key is somebody's own: only its authorities are trusted, as far as they can be identified.
    if opened.key.is_some() {
        opened.certificates.retain(|one| x509::Certificate::parse(one).is_some_and(|one| one.is_ca));
    }
    Ok(opened.certificates)
}

/// All files of PEM in a folder, as OpenSSL's `c_rehash` keeps them or as somebody put them there.
fn folder(source: &Source<'_>, path: &Path) -> Result<Vec<Vec<u8>>> {
    let mut found: Vec<Vec<u8>> = Vec::new();
    for path in files(path).map_err(|error| source.error(format!("cannot be read: {error}")))? {
        let of_file = Source { path: Some(&path), said: None, ..*source };
        let bytes = of_file.read(&path)?;
        if pem::is_pem(&bytes) {
            found.extend(of_file.open_pem(&bytes, None)?.certificates);
        }
    }
    // Links by hash name the same files again.
    found.sort();
    found.dedup();
    Ok(found)
}

/// The files in a folder, in order.
pub(super) fn files(folder: &Path) -> std::io::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        // Empty ones are somebody's markers.
        if std::fs::metadata(&path).is_ok_and(|of| of.is_file() && of.len() > 0) {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

fn given(source: &Source<'_>, found: Vec<Vec<u8>>) -> Result<Roots> {
    if found.is_empty() {
        return Err(source.error("has no certificate: no broker could be trusted"));
    }
    Ok(Roots::Given(found.into_iter().map(CertificateDer::from).collect()))
}

/// As rustls has them. Those that it cannot read are left out, unless none is left.
pub(super) fn store(certificates: &[CertificateDer<'static>]) -> Result<RootCertStore> {
    let mut store = RootCertStore::empty();
    let (added, ignored) = store.add_parsable_certificates(certificates.iter().cloned());
    if ignored > 0 {
        tracing::warn!(added, ignored, "certificates of authorities were left out: they cannot be read");
    }
    if added > 0 {
        return Ok(store);
    }
    let old = certificates.iter().any(|one| x509::Certificate::parse(one).is_some_and(|one| one.version < 3));
    let hint = if old { ": it is of version 1, reissue it as version 3" } else { "" };
    Err(Error::configuration(format!("no certificate of an authority can be used{hint}")))
}
