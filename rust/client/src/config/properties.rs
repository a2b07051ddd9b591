//! Parser of Java properties files.

use zeroize::Zeroizing;

use crate::secret::Secret;

/// Returns the value of `key` in a properties file. If the key occurs several times, the last value counts.
///
/// # Errors
/// Returns the reason why the file is invalid, without any of its content.
pub(super) fn lookup(text: &str, key: &str) -> Result<Option<Zeroizing<String>>, &'static str> {
    let mut result = None;
    for line in logical_lines(text) {
        let (name, value) = split(&line);
        if *unescape(name)? == key {
            result = Some(unescape(value)?);
        }
    }
    Ok(result)
}

/// Returns all names and values of a properties file, in order. The values are treated as secrets.
///
/// # Errors
/// Returns the reason why the file is invalid, without any of its content.
pub fn properties(text: &str) -> Result<Vec<(String, Secret)>, &'static str> {
    let pair = |line: Zeroizing<String>| {
        let (name, value) = split(&line);
        Ok((unescape(name)?.to_string(), Secret::from(unescape(value)?.to_string())))
    };
    logical_lines(text).into_iter().map(pair).collect()
}

/// Splits the text into logical lines: removes comments and blank lines, and joins continued lines.
fn logical_lines(text: &str) -> Vec<Zeroizing<String>> {
    let mut lines = Vec::new();
    let mut open: Option<Zeroizing<String>> = None;
    // CR LF counts as one line end, not two.
    let natural_lines = text.split('\n').flat_map(|line| line.strip_suffix('\r').unwrap_or(line).split('\r'));
    for natural in natural_lines {
        let trimmed = natural.trim_start_matches([' ', '\t', '\x0c']);
        if open.is_none() && (trimmed.is_empty() || trimmed.starts_with(['#', '!'])) {
            continue;
        }
        let mut line = open.take().unwrap_or_default();
        let continues = trimmed.bytes().rev().take_while(|byte| *byte == b'\\').count() % 2 == 1;
        line.push_str(if continues { trimmed.strip_suffix('\\').unwrap_or(trimmed) } else { trimmed });
        if continues {
            open = Some(line);
        } else {
            lines.push(line);
        }
    }
    lines.extend(open);
    lines
}

/// Splits a line into key and value at the first unescaped `=`, `:` or whitespace character.
fn split(line: &str) -> (&str, &str) {
    let mut escaped = false;
    let end = line.char_indices().find(|(_, c)| {
        let ends = !escaped && matches!(c, '=' | ':' | ' ' | '\t' | '\x0c');
        escaped = *c == '\\' && !escaped;
        ends
    });
    let (key, rest) = line.split_at(end.map_or(line.len(), |(index, _)| index));
    let blanks = [' ', '\t', '\x0c'];
    let rest = rest.trim_start_matches(blanks);
    (key, rest.strip_prefix(['=', ':']).unwrap_or(rest).trim_start_matches(blanks))
}

fn unescape(text: &str) -> Result<Zeroizing<String>, &'static str> {
    const MALFORMED: &str = "it has a \\u without four hexadecimal digits";
    let mut units = Zeroizing::new(Vec::with_capacity(text.len()));
    let mut chars = text.chars();
    let mut buffer = [0; 2];
    while let Some(c) = chars.next() {
        let c = match (c, if c == '\\' { chars.next() } else { None }) {
            ('\\', Some('t')) => '\t',
            ('\\', Some('n')) => '\n',
            ('\\', Some('r')) => '\r',
            ('\\', Some('f')) => '\x0c',
            ('\\', Some('u')) => {
                let digits: String = chars.by_ref().take(4).collect();
                let plain = digits.len() == 4 && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
                units.push(u16::from_str_radix(&digits, 16).ok().filter(|_| plain).ok_or(MALFORMED)?);
                continue;
            }
            ('\\', Some(other)) => other,
            ('\\', None) => continue,
            (plain, _) => plain,
        };
        units.extend_from_slice(c.encode_utf16(&mut buffer));
    }
    // A character outside the basic multilingual plane is written as two escapes, a surrogate pair.
    String::from_utf16(&units).map(Zeroizing::new).map_err(|_| "it has half of a surrogate pair")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_files_as_java() {
        // The expected values were produced by java.util.Properties in JDK 17.
        let file = "# comment = no \\\n! another\n\n a=1\n  b : 2\nc 3\nd\ne=one \\\n    two\nf\\=g\\ h = x\ni=\\u00e4\\t\\q\n\
                    j==k\nl=\\\\\nm=last \r\nn=\\ud83d\\ude00\na=again\no=p\\";
        for (key, expected) in [
            ("a", Some("again")),
            ("b", Some("2")),
            ("c", Some("3")),
            ("d", Some("")),
            ("e", Some("one two")),
            ("f=g h", Some("x")),
            ("i", Some("ä\tq")),
            ("j", Some("=k")),
            ("l", Some("\\")),
            ("m", Some("last ")),
            ("n", Some("😀")),
            ("o", Some("p")),
            ("comment", None),
            ("! another", None),
            ("", None),
        ] {
            let result = lookup(file, key).unwrap();
            assert_eq!(result.as_deref().map(String::as_str), expected, "{key}");
        }
    }

    #[test]
    fn properties_keeps_order_with_all_line_ends() {
        for end in ["\n", "\r\n", "\r"] {
            let file =
                ["# mine", "", "b.c=1", "jaas = Login required \\", "    user=\"a\";", "b.c=2", "empty"].join(end);
            let read = properties(&file).unwrap();
            let read: Vec<_> = read.iter().map(|(name, value)| (name.as_str(), value.reveal())).collect();
            let expected = [("b.c", "1"), ("jaas", "Login required user=\"a\";"), ("b.c", "2"), ("empty", "")];
            assert_eq!(read, expected, "{end:?}");
        }
        assert!(!properties("k=hunter2\\u12").unwrap_err().contains("hunter2"));
    }

    #[test]
    fn invalid_files_are_rejected_without_content() {
        for file in ["k=hunter2\\u12", "k=hunter2\\u12g4", "k=\\u+123", "k=hunter2\\ud83d"] {
            assert!(!lookup(file, "k").unwrap_err().contains("hunter2"));
        }
        assert_eq!(lookup("other=\\u12", "k").unwrap(), None, "values of other keys are not parsed");
    }
}
