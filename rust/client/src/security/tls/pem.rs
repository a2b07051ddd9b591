//! PEM text (RFC 7468), as files have it and as it comes through options and environment variables.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use zeroize::Zeroizing;

/// What is between one BEGIN and its END.
pub(super) struct Section {
    /// As `CERTIFICATE`.
    pub(super) label: String,
    /// What it stands for; nothing where it is encrypted in the old way.
    pub(super) der: Zeroizing<Vec<u8>>,
    /// Whether it is encrypted in OpenSSL's old way (RFC 1421's `Proc-Type: 4,ENCRYPTED`).
    pub(super) old_encryption: bool,
}

/// Whether there is any PEM in it.
pub(super) fn is_pem(bytes: &[u8]) -> bool {
    bytes.windows(BEGIN.len()).any(|window| window == BEGIN.as_bytes())
}

const BEGIN: &str = "-----BEGIN ";
const DASHES: &str = "-----";

/// All of them in order, or what is wrong. Lines may be of any length, and broken by `\n` in two characters, as many
/// write it in properties and environment variables.
pub(super) fn sections(text: &str) -> Result<Vec<Section>, String> {
    let mut found = Vec::new();
    let mut rest = text;
    while let Some((_, after)) = rest.split_once(BEGIN) {
        let (label, after) = after.split_once(DASHES).ok_or("a BEGIN line does not end in -----")?;
        let end = format!("-----END {label}-----");
        let (body, after) = after.split_once(&end).ok_or_else(|| format!("there is no {end}"))?;
        rest = after;
        let old_encryption = body.contains("Proc-Type:") && body.contains("ENCRYPTED");
        let der = if old_encryption { Zeroizing::default() } else { decode(label, body)? };
        found.push(Section { label: label.to_owned(), der, old_encryption });
    }
    Ok(found)
}

fn decode(label: &str, body: &str) -> Result<Zeroizing<Vec<u8>>, String> {
    let body = Zeroizing::new(body.replace("\\r", "").replace("\\n", ""));
    let plain: Zeroizing<String> = Zeroizing::new(body.chars().filter(|c| !c.is_whitespace()).collect());
    let wrong = || format!("what is between BEGIN {label} and END {label} is not base64");
    STANDARD.decode(plain.as_bytes()).map(Zeroizing::new).map_err(|_| wrong())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sections_are_found_however_lines_are_broken() {
        for text in [
            "junk\n-----BEGIN A-----\nAQID\nBAUG\n-----END A-----\n",
            "-----BEGIN A----- AQIDBAUG -----END A-----",
            r"-----BEGIN A-----\nAQIDBAUG\n-----END A-----\n",
            "-----BEGIN A-----\r\nAQID\r\nBAUG\r\n-----END A-----",
        ] {
            let found = sections(text).unwrap();
            assert_eq!(found.len(), 1, "{text}");
            assert_eq!((found[0].label.as_str(), &found[0].der[..]), ("A", &[1, 2, 3, 4, 5, 6][..]));
        }
        assert!(sections("nothing").unwrap().is_empty());
        for (text, wanted) in [
            ("-----BEGIN A-----\nAQID", "there is no -----END A-----"),
            ("-----BEGIN A", "does not end"),
            ("-----BEGIN A-----\n!\n-----END A-----", "not base64"),
        ] {
            assert!(sections(text).err().unwrap().contains(wanted), "{text}");
        }
        let old = "-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,00\n\nAQID\n-----END RSA PRIVATE KEY-----";
        assert!(sections(old).unwrap()[0].old_encryption);
    }
}
