//! Reads small external files: tokens, assertions, keys.

use std::io::{self, Read};
use std::path::{Path, PathBuf};

use crate::config::url::percent_decode;
use crate::error::{Error, Result};

/// Maximum size of a file: larger than any token or key, and enough for a large set of certificates.
const MAX_SIZE: u64 = 4 << 20;

/// Returns the text of a file. Fails if the file exceeds the maximum size.
pub(in crate::security) fn read_text(path: &Path) -> io::Result<String> {
    let file = std::fs::File::open(path)?;
    let mut text = String::new();
    let size = file.take(MAX_SIZE + 1).read_to_string(&mut text)?;
    if size as u64 > MAX_SIZE {
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, format!("it has more than {MAX_SIZE} bytes")));
    }
    Ok(text)
}

/// Like [`read_text`], but does not block the runtime, and removes leading and trailing whitespace.
///
/// # Errors
/// Fails with [`Error::Authentication`] if the file cannot be read.
pub(in crate::security) async fn read_trimmed(name: &str, path: &Path) -> Result<String> {
    let owned = path.to_owned();
    let read = tokio::task::spawn_blocking(move || read_text(&owned)).await;
    let read = read.unwrap_or_else(|_| Err(io::Error::other("reading was cancelled")));
    let text =
        read.map_err(|error| Error::authentication(name, format!("{} cannot be read: {error}", path.display())))?;
    Ok(text.trim().to_owned())
}

/// Returns the path in a `file:` URL. `rest` is the part of the URL after the colon.
pub(super) fn path_of_url(rest: &str) -> Option<PathBuf> {
    let path = match rest.strip_prefix("//") {
        Some(rest) => rest.strip_prefix("localhost").unwrap_or(rest),
        None => rest,
    };
    percent_decode(path).filter(|path| path.starts_with('/')).map(PathBuf::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_urls_become_paths() {
        for (rest, path) in [
            ("///etc/a%20b", Some("/etc/a b")),
            ("//localhost/etc/a", Some("/etc/a")),
            ("/etc/a", Some("/etc/a")),
            ("//host/etc/a", None),
            ("etc/a", None),
            ("///a%2", None),
            ("///a%zz", None),
            ("", None),
        ] {
            assert_eq!(path_of_url(rest), path.map(PathBuf::from), "{rest}");
        }
    }

    #[test]
    fn read_text_rejects_large_files() {
        let path = std::env::temp_dir().join(format!("samsarrow-large-{}", std::process::id()));
        std::fs::write(&path, vec![b'a'; MAX_SIZE as usize + 1]).unwrap();
        let error = read_text(&path).unwrap_err();
        std::fs::remove_file(&path).unwrap();
        assert_eq!(error.kind(), io::ErrorKind::FileTooLarge);
        assert!(read_text(Path::new("/")).is_err());
        assert!(read_text(Path::new("/nowhere")).is_err());
    }
}
