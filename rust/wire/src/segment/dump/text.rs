//! JSON encoding of bytes and strings.
use std::fmt::Write;

/// Writes bytes as a JSON string if they are UTF-8, and otherwise as an object with base64, so that no data is lost.
pub(super) fn json_bytes(out: &mut String, bytes: Option<&[u8]>) {
    match bytes.map(|bytes| std::str::from_utf8(bytes).map_err(|_| bytes)) {
        None => out.push_str("null"),
        Some(Ok(text)) => json_string(out, text),
        Some(Err(bytes)) => {
            out.push_str("{\"base64\":\"");
            base64(out, bytes);
            out.push_str("\"}");
        }
    }
}

pub(super) fn json_string(out: &mut String, text: &str) {
    out.push('"');
    let mut rest = text;
    // Copy everything up to the next special character in one call, because special characters are rare.
    while let Some(at) = rest.find(|c: char| c < ' ' || matches!(c, '"' | '\\' | '\u{7f}' | '\u{2028}' | '\u{2029}')) {
        let (plain, special) = rest.split_at(at);
        out.push_str(plain);
        let mut chars = special.chars();
        match chars.next() {
            Some('"') => out.push_str("\\\""),
            Some('\\') => out.push_str("\\\\"),
            Some('\n') => out.push_str("\\n"),
            Some(other) => {
                let _ = write!(out, "\\u{:04x}", u32::from(other));
            }
            None => {}
        }
        rest = chars.as_str();
    }
    out.push_str(rest);
    out.push('"');
}

fn base64(out: &mut String, bytes: &[u8]) {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for chunk in bytes.chunks(3) {
        let group = chunk.iter().fold(0u32, |group, &byte| group << 8 | u32::from(byte)) << (8 * (3 - chunk.len()));
        for index in 0..4 {
            let digit = DIGITS.get((group >> (18 - 6 * index) & 63) as usize).copied().unwrap_or(b'=');
            out.push(if index <= chunk.len() { char::from(digit) } else { '=' });
        }
    }
}

/// Encodes an id as Kafka does, in URL-safe base64 without padding.
pub(super) fn base64_url(bytes: &[u8]) -> String {
    let mut out = String::new();
    base64(&mut out, bytes);
    out.trim_end_matches('=').replace('+', "-").replace('/', "_")
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn json(bytes: &[u8]) -> serde_json::Value {
        let mut out = String::new();
        json_bytes(&mut out, Some(bytes));
        serde_json::from_str(&out).unwrap()
    }

    #[test]
    fn json_strings_round_trip() {
        for text in ["", "plain", "\"\\\n\r\t\u{0}\u{1f}\u{7f}\u{2028}ü€😀", "ends in \\"] {
            assert_eq!(json(text.as_bytes()), serde_json::Value::from(text));
        }
    }

    #[test]
    fn non_utf8_bytes_are_base64() {
        for (bytes, expected) in
            [(&b"\xff"[..], "/w=="), (b"\xff\xfe", "//4="), (b"\xff\xfe\xfd", "//79"), (b"\x80abc", "gGFiYw==")]
        {
            assert_eq!(json(bytes)["base64"], serde_json::Value::from(expected));
        }
    }
}
