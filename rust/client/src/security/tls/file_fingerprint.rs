//! Whether the files with certificates and keys have changed.

use std::fs::Metadata;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use super::roots;
use crate::config::TlsOptions;

/// What files look like from outside.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Stamps(Vec<(PathBuf, Option<Stamp>)>);

/// Two files that differ have different ones: a new file has another number, and one that is written anew has changed.
#[derive(Debug, PartialEq, Eq)]
struct Stamp {
    len: u64,
    modified: Option<SystemTime>,
    number: (u64, i64, i64),
}

impl Stamps {
    /// Of all files that the options name, and of those in a folder.
    pub(super) fn of(options: &TlsOptions) -> Self {
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
        let stamped = |path: PathBuf| {
            let stamp = std::fs::metadata(&path).ok().map(|of| Stamp::of(&of));
            (path, stamp)
        };
        Self(paths.into_iter().map(stamped).collect())
    }
}

impl Stamp {
    fn of(file: &Metadata) -> Self {
        Self { len: file.len(), modified: file.modified().ok(), number: number(file) }
    }
}

/// Number of the file, and when anything about it changed.
#[cfg(unix)]
fn number(file: &Metadata) -> (u64, i64, i64) {
    use std::os::unix::fs::MetadataExt;
    (file.ino(), file.ctime(), file.ctime_nsec())
}

#[cfg(not(unix))]
fn number(_: &Metadata) -> (u64, i64, i64) {
    (0, 0, 0)
}
