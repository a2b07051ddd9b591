//! Detects changes of certificate and key files.

use std::fs::Metadata;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use super::roots;
use crate::config::TlsOptions;

/// Fingerprints of all files from which a configuration is read.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct FileFingerprints(Vec<(PathBuf, Option<FileFingerprint>)>);

/// Fingerprint of a file. It changes if the file is replaced (inode) or rewritten (times and size).
#[derive(Debug, PartialEq, Eq)]
struct FileFingerprint {
    len: u64,
    modified: Option<SystemTime>,
    inode_and_ctime: (u64, i64, i64),
}

impl FileFingerprints {
    /// Takes the fingerprints of all files named by the options, including the files in a directory.
    pub(super) fn take(options: &TlsOptions) -> Self {
        let mut paths: Vec<PathBuf> = Vec::new();
        if let Some(location) = options.truststore_location.as_deref().filter(|location| *location != "probe") {
            let location = Path::new(location);
            match roots::files(location) {
                Ok(files) => paths.extend(files),
                Err(_) => paths.push(location.to_owned()),
            }
        }
        let others =
            [&options.keystore_location, &options.certificate_location, &options.key_location, &options.crl_location];
        paths.extend(others.into_iter().flatten().cloned());
        let with_fingerprint = |path: PathBuf| {
            let fingerprint = std::fs::metadata(&path).ok().map(|metadata| FileFingerprint::new(&metadata));
            (path, fingerprint)
        };
        Self(paths.into_iter().map(with_fingerprint).collect())
    }
}

impl FileFingerprint {
    fn new(file: &Metadata) -> Self {
        Self { len: file.len(), modified: file.modified().ok(), inode_and_ctime: inode_and_ctime(file) }
    }
}

/// Returns the inode and the change time of a file.
#[cfg(unix)]
fn inode_and_ctime(file: &Metadata) -> (u64, i64, i64) {
    use std::os::unix::fs::MetadataExt;
    (file.ino(), file.ctime(), file.ctime_nsec())
}

#[cfg(not(unix))]
fn inode_and_ctime(_: &Metadata) -> (u64, i64, i64) {
    (0, 0, 0)
}
