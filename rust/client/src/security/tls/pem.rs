//! PEM text (RFC 7468) in files, options and environment variables.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use zeroize::Zeroizing;

/// A section of a PEM text, between its BEGIN and END lines.
pub(super) struct Section {
    /// Label of the section, such as `CERTIFICATE`.
    pub(super) label: String,
    /// Decoded content; empty if `legacy_encryption` is set.
    pub(super) der: Zeroizing<Vec<u8>>,
    /// True if the section is encrypted in OpenSSL's legacy format (RFC 1421's `Proc-Type: 4,ENCRYPTED`).
    pub(super) legacy_encryption: bool,
}

/// Returns true if the bytes contain a PEM section.
pub(super) fn is_pem(bytes: &[u8]) -> bool {
    bytes.windows(BEGIN.len()).any(|window| window == BEGIN.as_bytes())
}

const BEGIN: &str = "-----BEGIN ";
const DASHES: &str = "-----";

/// Returns the sections in order, or a message that explains why the text is invalid. Lines may have any length. Line
/// breaks may also be written as the two characters `\n`, as is common in properties files and environment variables.
pub(super) fn sections(text: &str) -> Result<Vec<Section>, String> {
    let mut result = Vec::new();
    let mut rest = text;
    while let Some((_, after)) = rest.split_once(BEGIN) {
        let (label, after) = after.split_once(DASHES).ok_or("a BEGIN line does not end in -----")?;
        let end = format!("-----END {label}-----");
        let (body, after) = after.split_once(&end).ok_or_else(|| format!("{end} is missing"))?;
        rest = after;
        let legacy_encryption = body.contains("Proc-Type:") && body.contains("ENCRYPTED");
        let der = if legacy_encryption { Zeroizing::default() } else { decode(label, body)? };
        result.push(Section { label: label.to_owned(), der, legacy_encryption });
    }
    Ok(result)
}

fn decode(label: &str, body: &str) -> Result<Zeroizing<Vec<u8>>, String> {
    let body = Zeroizing::new(body.replace("\\r", "").replace("\\n", ""));
    let compact: Zeroizing<String> = Zeroizing::new(body.chars().filter(|c| !c.is_whitespace()).collect());
    let not_base64 = || format!("the content between BEGIN {label} and END {label} is not base64");
    STANDARD.decode(compact.as_bytes()).map(Zeroizing::new).map_err(|_| not_base64())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sections_accepts_all_line_breaks() {
        for text in [
            "junk\n-----BEGIN A-----\nAQID\nBAUG\n-----END A-----\n",
            "-----BEGIN A----- AQIDBAUG -----END A-----",
            r"-----BEGIN A-----\nAQIDBAUG\n-----END A-----\n",
            "-----BEGIN A-----\r\nAQID\r\nBAUG\r\n-----END A-----",
        ] {
            let result = sections(text).unwrap();
            assert_eq!(result.len(), 1, "{text}");
            assert_eq!((result[0].label.as_str(), &result[0].der[..]), ("A", &[1, 2, 3, 4, 5, 6][..]));
        }
        assert!(sections("nothing").unwrap().is_empty());
        for (text, expected) in [
            ("-----BEGIN A-----\nAQID", "-----END A----- is missing"),
            ("-----BEGIN A", "does not end"),
            ("-----BEGIN A-----\n!\n-----END A-----", "not base64"),
        ] {
            assert!(sections(text).err().unwrap().contains(expected), "{text}");
        }
        let old = "-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,00\n\nAQID\n-----END RSA PRIVATE KEY-----";
        assert!(sections(old).unwrap()[0].legacy_encryption);
    }
}
