//! Small files that others write: tokens, assertions, keys.

use std::io::{self, Read};
use std::path::{Path, PathBuf};

use crate::error::{Error, Result};
use crate::security::http::unescaped;

/// Nothing that is read here is larger, but perhaps a folder's worth of certificates.
const LARGEST: u64 = 4 << 20;

/// The text of a file, which must not be large.
pub(super) fn read_text(path: &Path) -> io::Result<String> {
    let file = std::fs::File::open(path)?;
    let mut text = String::new();
    let size = file.take(LARGEST + 1).read_to_string(&mut text)?;
    if size as u64 > LARGEST {
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, format!("it has more than {LARGEST} bytes")));
    }
    Ok(text)
}

/// The same where nothing else may wait for the disk; without the space around it.
///
/// # Errors
/// [`Error::Authentication`] where it cannot be read.
pub(super) async fn read_trimmed(name: &str, path: &Path) -> Result<String> {
    let at = path.to_owned();
    let read = tokio::task::spawn_blocking(move || read_text(&at)).await;
    let read = read.unwrap_or_else(|_| Err(io::Error::other("its reading was given up")));
    let text =
        read.map_err(|error| Error::authentication(name, format!("{} cannot be read: {error}", path.display())))?;
    Ok(text.trim().to_owned())
}

/// The file that a `file:` address names: `rest` is what follows the colon.
pub(super) fn of_url(rest: &str) -> Option<PathBuf> {
    let path = match rest.strip_prefix("//") {
        Some(rest) => rest.strip_prefix("localhost").unwrap_or(rest),
        None => rest,
    };
    unescaped(path).filter(|path| path.starts_with('/')).map(PathBuf::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_files_are_paths() {
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
            assert_eq!(of_url(rest), path.map(PathBuf::from), "{rest}");
        }
    }

    #[test]
    fn large_files_are_not_read() {
        let path = std::env::temp_dir().join(format!("samsarrow-large-{}", std::process::id()));
        std::fs::write(&path, vec![b'a'; LARGEST as usize + 1]).unwrap();
        let error = read_text(&path).unwrap_err();
        std::fs::remove_file(&path).unwrap();
        assert_eq!(error.kind(), io::ErrorKind::FileTooLarge);
        assert!(read_text(Path::new("/")).is_err());
        assert!(read_text(Path::new("/nowhere")).is_err());
    }
}
