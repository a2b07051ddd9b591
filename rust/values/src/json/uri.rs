//! URIs of schemas.

/// Resolves the URI `reference` relative to `base` (RFC 3986, section 5.2).
pub(super) fn resolve_reference(base: &str, reference: &str) -> String {
    let scheme = |text: &str| text.split_once(':').filter(|(scheme, _)| !scheme.contains('/')).map(|(it, _)| it.len());
    if scheme(reference).is_some() {
        return reference.to_owned();
    }
    let authority = match base.find("://") {
        Some(at) => base.get(at + 3..).and_then(|rest| rest.find('/')).map_or(base.len(), |end| at + 3 + end),
        None => scheme(base).map_or(0, |end| end + 1),
    };
    let (authority, path) = base.split_at_checked(authority).unwrap_or((base, ""));
    let above = path.rsplit_once('/').map_or("", |(above, _)| above);
    let whole = match reference.strip_prefix('/') {
        Some(rest) => format!("/{rest}"),
        None if above.is_empty() && !path.starts_with('/') && authority.is_empty() => reference.to_owned(),
        None => format!("{above}/{reference}"),
    };
    let mut parts: Vec<&str> = Vec::new();
    for part in whole.split('/') {
        match part {
            "." => (),
            ".." if parts.len() > 1 => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    format!("{authority}{}", parts.join("/"))
}

/// Decodes the percent-encoding of a text. Returns `None` if the result is not UTF-8.
pub(super) fn percent_decode(text: &str) -> Option<String> {
    let mut out = Vec::new();
    let mut rest = text.as_bytes();
    while let Some((byte, more)) = rest.split_first() {
        rest = more;
        let digits = (*byte == b'%').then(|| more.get(..2)).flatten().and_then(|two| std::str::from_utf8(two).ok());
        match digits.and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            Some(byte) => {
                out.push(byte);
                rest = more.get(2..)?;
            }
            None => out.push(*byte),
        }
    }
    String::from_utf8(out).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resolves_relative_references() {
        for (base, reference, expected) in [
            ("", "a.json", "a.json"),
            ("root.json", "a.json", "a.json"),
            ("http://h/x/root.json", "a.json", "http://h/x/a.json"),
            ("http://h/x/root.json", "../a.json", "http://h/a.json"),
            ("http://h/x/root.json", "./b/a.json", "http://h/x/b/a.json"),
            ("http://h/x/root.json", "/a.json", "http://h/a.json"),
            ("http://h", "a.json", "http://h/a.json"),
            ("http://h/x", "urn:a", "urn:a"),
            ("dir/root.json", "a.json", "dir/a.json"),
        ] {
            assert_eq!(resolve_reference(base, reference), expected, "{base} {reference}");
        }
        assert_eq!(percent_decode("/a%20b~1%C3%A9%").as_deref(), Some("/a b~1é%"));
        assert_eq!(percent_decode("%ff"), None);
    }
}
