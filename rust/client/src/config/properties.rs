//! Java's properties files, as far as one value of them is wanted.

use zeroize::Zeroizing;

use crate::secret::Secret;

/// The value of `key` in the text of a properties file; the last one, where there are several.
///
/// # Errors
/// What is wrong with the file, without a word of it.
pub(super) fn lookup(text: &str, key: &str) -> Result<Option<Zeroizing<String>>, &'static str> {
    let mut found = None;
    for line in logical_lines(text) {
        let (name, value) = split(&line);
        if *unescape(name)? == key {
            found = Some(unescape(value)?);
        }
    }
    Ok(found)
}

/// All names and values of a properties file, in its order. What a value is for is not known here: each may be a secret.
///
/// # Errors
/// What is wrong with the file, without a word of it.
pub fn properties(text: &str) -> Result<Vec<(String, Secret)>, &'static str> {
    let pair = |line: Zeroizing<String>| {
        let (name, value) = split(&line);
        Ok((unescape(name)?.to_string(), Secret::from(unescape(value)?.to_string())))
    };
    logical_lines(text).into_iter().map(pair).collect()
}

/// Lines without comments and blanks, those that end in a backslash joined with the next.
fn logical_lines(text: &str) -> Vec<Zeroizing<String>> {
    let mut lines = Vec::new();
    let mut open: Option<Zeroizing<String>> = None;
    // Of Windows' two characters the first alone would end a line, and the second another.
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

/// Key and value, which the first `=`, `:` or blank parts that no backslash stands before.
fn split(line: &str) -> (&str, &str) {
    let mut escaped = false;
    let end = line.char_indices().find(|(_, c)| {
        let ends = !escaped && matches!(c, '=' | ':' | ' ' | '\t' | '\x0c');
        escaped = *c == '\\' && !escaped;
        ends
    });
    let (key, rest) = line.split_at(end.map_or(line.len(), |(at, _)| at));
    let blanks = [' ', '\t', '\x0c'];
    let rest = rest.trim_start_matches(blanks);
    (key, rest.strip_prefix(['=', ':']).unwrap_or(rest).trim_start_matches(blanks))
}

fn unescape(text: &str) -> Result<Zeroizing<String>, &'static str> {
    const MALFORMED: &str = "it has a \\u that four hexadecimal digits do not follow";
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
    // Characters beyond the first plane are written as two escapes.
    String::from_utf16(&units).map(Zeroizing::new).map_err(|_| "it has half of a surrogate pair")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_read_as_java_reads_them() {
        // Each value as java.util.Properties of JDK 17 has it.
        let file = "# comment = no \\\n! another\n\n a=1\n  b : 2\nc 3\nd\ne=one \\\n    two\nf\\=g\\ h = x\ni=\\u00e4\\t\\q\n\
                    j==k\nl=\\\\\nm=last \r\nn=\\ud83d\\ude00\na=again\no=p\\";
        for (key, wanted) in [
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
            let found = lookup(file, key).unwrap();
            assert_eq!(found.as_deref().map(String::as_str), wanted, "{key}");
        }
    }

    #[test]
    fn a_whole_file_is_read_in_its_order_with_any_line_ends() {
        for end in ["\n", "\r\n", "\r"] {
            let file =
                ["# mine", "", "b.c=1", "jaas = Login required \\", "    user=\"a\";", "b.c=2", "empty"].join(end);
            let read = properties(&file).unwrap();
            let read: Vec<_> = read.iter().map(|(name, value)| (name.as_str(), value.reveal())).collect();
            let wanted = [("b.c", "1"), ("jaas", "Login required user=\"a\";"), ("b.c", "2"), ("empty", "")];
            assert_eq!(read, wanted, "{end:?}");
        }
        assert!(!properties("k=hunter2\\u12").unwrap_err().contains("hunter2"));
    }

    #[test]
    fn what_java_refuses_is_refused_without_a_word_of_the_file() {
        for file in ["k=hunter2\\u12", "k=hunter2\\u12g4", "k=\\u+123", "k=hunter2\\ud83d"] {
            assert!(!lookup(file, "k").unwrap_err().contains("hunter2"));
        }
        assert_eq!(lookup("other=\\u12", "k").unwrap(), None, "values of other keys are not looked at");
    }
}
