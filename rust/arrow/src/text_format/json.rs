//! Writers and a validator of JSON.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::scan::plain_prefix;

/// Selects which bytes that are valid JSON are written as nested JSON instead of as a string.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Embed {
    /// Written as text.
    Never,
    /// Objects and arrays are embedded. Scalars such as `12` are written as the text `"12"`, so that scalars always
    /// have the same JSON type.
    Containers,
}

/// Writes `,"name":…`, or `,"name_base64":"…"` for bytes that are not UTF-8.
pub(super) fn member(name: &str, bytes: Option<&[u8]>, embed: Embed, out: &mut Vec<u8>) {
    out.extend_from_slice(b",\"");
    out.extend_from_slice(name.as_bytes());
    let Some(bytes) = bytes else { return out.extend_from_slice(b"\":null") };
    match simdutf8::basic::from_utf8(bytes) {
        Ok(text) => {
            out.extend_from_slice(b"\":");
            if embed == Embed::Containers && is_container(bytes) {
                flat(bytes, out);
            } else {
                string(text, out);
            }
        }
        Err(_) => {
            out.extend_from_slice(b"_base64\":");
            base64(Some(bytes), out);
        }
    }
}

/// Writes a string, in which invalid UTF-8 is replaced by U+FFFD, or null.
pub(super) fn text_or_null(bytes: Option<&[u8]>, out: &mut Vec<u8>) {
    match bytes {
        Some(bytes) => string(&String::from_utf8_lossy(bytes), out),
        None => out.extend_from_slice(b"null"),
    }
}

/// Writes a string in quotes, with escapes.
pub(crate) fn string(text: &str, out: &mut Vec<u8>) {
    out.push(b'"');
    let mut rest = text.as_bytes();
    loop {
        let (plain, from) = rest.split_at(plain_prefix(rest));
        out.extend_from_slice(plain);
        let Some((&special, after)) = from.split_first() else { break };
        match special {
            b'"' => out.extend_from_slice(b"\\\""),
            b'\\' => out.extend_from_slice(b"\\\\"),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            b'\t' => out.extend_from_slice(b"\\t"),
            control => out.extend_from_slice(format!("\\u{control:04x}").as_bytes()),
        }
        rest = after;
    }
    out.push(b'"');
}

/// Writes the bytes as a base64 string, or null.
pub(super) fn base64(bytes: Option<&[u8]>, out: &mut Vec<u8>) {
    let Some(bytes) = bytes else { return out.extend_from_slice(b"null") };
    out.push(b'"');
    let start = out.len();
    // Each three bytes, and an incomplete group at the end, become four characters.
    out.resize(start + bytes.len().div_ceil(3) * 4, 0);
    let written = out.get_mut(start..).map_or(0, |target| STANDARD.encode_slice(bytes, target).unwrap_or(0));
    out.truncate(start + written);
    out.push(b'"');
}

/// Writes JSON on one line: removes line breaks, which can only occur as whitespace between tokens.
fn flat(json: &[u8], out: &mut Vec<u8>) {
    let start = out.len();
    out.extend_from_slice(json.trim_ascii());
    // Assigns each byte, since a loop without branches is vector code.
    for byte in out.get_mut(start..).unwrap_or_default() {
        *byte = if matches!(byte, b'\n' | b'\r') { b' ' } else { *byte };
    }
}

/// Maximum nesting of objects and arrays, since many readers reject deeper JSON.
const MAX_DEPTH: u32 = 128;

/// Tokens allowed next.
#[derive(Clone, Copy)]
enum Next {
    Value,
    ValueOrEnd,
    Name,
    NameOrEnd,
    Colon,
    CommaOrEnd,
}

/// Returns true if the bytes, which are UTF-8, are one JSON object or array. Works without recursion, so that deep
/// nesting cannot overflow the stack.
pub(super) fn is_container(json: &[u8]) -> bool {
    let mut at = skip_space(json, 0);
    if !matches!(json.get(at), Some(b'{' | b'[')) {
        return false;
    }
    // One bit per open container, which is set for an object and unset for an array.
    let (mut objects, mut depth) = (0_u128, 0);
    let mut next = Next::Value;
    while let Some(&byte) = json.get(at) {
        match (next, byte) {
            (Next::Value | Next::ValueOrEnd, b'{' | b'[') => {
                if depth == MAX_DEPTH {
                    return false;
                }
                (objects, depth) = (objects << 1 | u128::from(byte == b'{'), depth + 1);
                (next, at) = (if byte == b'{' { Next::NameOrEnd } else { Next::ValueOrEnd }, at + 1);
            }
            (Next::CommaOrEnd | Next::NameOrEnd, b'}') | (Next::CommaOrEnd | Next::ValueOrEnd, b']') => {
                if (objects & 1 == 1) != (byte == b'}') {
                    return false;
                }
                (objects, depth, at) = (objects >> 1, depth - 1, at + 1);
                if depth == 0 {
                    return skip_space(json, at) == json.len();
                }
                next = Next::CommaOrEnd;
            }
            (Next::CommaOrEnd, b',') => {
                (next, at) = (if objects & 1 == 1 { Next::Name } else { Next::Value }, at + 1);
            }
            (Next::Colon, b':') => (next, at) = (Next::Value, at + 1),
            (Next::Name | Next::NameOrEnd, b'"') => match skip_string(json, at + 1) {
                Some(end) => (next, at) = (Next::Colon, end),
                None => return false,
            },
            (Next::Value | Next::ValueOrEnd, _) => match skip_scalar(json, at) {
                Some(end) => (next, at) = (Next::CommaOrEnd, end),
                None => return false,
            },
            _ => return false,
        }
        at = skip_space(json, at);
    }
    false
}

#[inline]
fn skip_space(json: &[u8], mut at: usize) -> usize {
    while matches!(json.get(at), Some(b' ' | b'\t' | b'\n' | b'\r')) {
        at += 1;
    }
    at
}

fn skip_scalar(json: &[u8], at: usize) -> Option<usize> {
    let rest = json.get(at..)?;
    match rest.first()? {
        b'"' => skip_string(json, at + 1),
        b't' => rest.starts_with(b"true").then_some(at + 4),
        b'f' => rest.starts_with(b"false").then_some(at + 5),
        b'n' => rest.starts_with(b"null").then_some(at + 4),
        _ => skip_number(json, at),
    }
}

/// Returns the position after the closing quote of a string whose contents begin at `at`.
fn skip_string(json: &[u8], mut at: usize) -> Option<usize> {
    loop {
        at += plain_prefix(json.get(at..)?);
        match json.get(at)? {
            b'"' => return Some(at + 1),
            b'\\' => {
                at += match json.get(at + 1)? {
                    b'u' if json.get(at + 2..at + 6)?.iter().all(u8::is_ascii_hexdigit) => 6,
                    b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' => 2,
                    _ => return None,
                }
            }
            // A control character, which JSON only allows as an escape.
            _ => return None,
        }
    }
}

fn skip_number(json: &[u8], mut at: usize) -> Option<usize> {
    let digits = |from: usize| {
        let end = from + json.get(from..).unwrap_or_default().iter().take_while(|byte| byte.is_ascii_digit()).count();
        (end > from).then_some(end)
    };
    if json.get(at) == Some(&b'-') {
        at += 1;
    }
    at = if json.get(at) == Some(&b'0') { at + 1 } else { digits(at)? };
    if json.get(at) == Some(&b'.') {
        at = digits(at + 1)?;
    }
    if matches!(json.get(at), Some(b'e' | b'E')) {
        let signed = matches!(json.get(at + 1), Some(b'+' | b'-'));
        at = digits(at + 1 + usize::from(signed))?;
    }
    Some(at)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn agrees(text: &str) {
        let oracle = serde_json::from_str::<serde_json::Value>(text);
        let container = oracle.as_ref().is_ok_and(|v| v.is_object() || v.is_array());
        assert_eq!(is_container(text.as_bytes()), container, "{text:?}: {oracle:?}");
    }

    #[test]
    fn is_container_agrees_with_serde_json() {
        for text in [
            "{}",
            "[]",
            " { } ",
            "[1,2]",
            "[1,]",
            "[,1]",
            "{\"a\":1}",
            "{\"a\":1,}",
            "{\"a\"}",
            "{\"a\":}",
            "{a:1}",
            "{1:2}",
            "[01]",
            "[-0.5e+3]",
            "[-]",
            "[.5]",
            "[1.]",
            "[1e]",
            "[1e5]",
            "[+1]",
            "[true,false,null]",
            "[tru]",
            "[nul]",
            "[\"\\u00e4\\n\"]",
            "[\"\\u00g4\"]",
            "[\"\\x\"]",
            "[\"a\nb\"]",
            "[\"unended",
            "{\"a\":[{}]}",
            "[}",
            "{]",
            "[]]",
            "[] []",
            "",
            " ",
            "12",
            "\"text\"",
            "null",
            "[1 2]",
            "{\"a\":1 \"b\":2}",
            "{\"a\" : {\"b\" : [ ] } , \"c\":\"\"}",
            "{,}",
            "[[],[]]",
            "[NaN]",
            "[\"ä😀\"]",
            "[1]\n",
            "[\"\u{7f}\"]",
        ] {
            agrees(text);
        }
    }

    #[test]
    fn depth_is_bounded() {
        let nested = |depth: usize| "[".repeat(depth) + &"]".repeat(depth);
        assert!(is_container(nested(128).as_bytes()));
        assert!(!is_container(nested(129).as_bytes()));
        assert!(!is_container(nested(1_000_000).as_bytes()));
    }

    proptest! {
        #[test]
        fn is_container_agrees_with_serde_json_on_random_text(text in r#"[\[\]{}:,"\\ueE0123.+\-\ntrfalsn ]{0,14}"#) {
            agrees(&text);
            agrees(&format!("[{text}]"));
            agrees(&format!("{{\"a\":{text}}}"));
        }

        #[test]
        fn strings_round_trip(text in any::<String>()) {
            let mut out = Vec::new();
            string(&text, &mut out);
            prop_assert_eq!(serde_json::from_slice::<String>(&out).unwrap(), text);
        }

        #[test]
        fn base64_round_trips(bytes in any::<Vec<u8>>()) {
            let mut out = Vec::new();
            base64(Some(&bytes), &mut out);
            let text: String = serde_json::from_slice(&out).unwrap();
            prop_assert_eq!(STANDARD.decode(text).unwrap(), bytes);
        }
    }
}
