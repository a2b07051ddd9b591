//! Paths of fields, which are names separated by dots. A name that contains a dot is enclosed in back-quotes, as in
//! Spark SQL: `` `host.name` ``.

use std::borrow::Cow;

use crate::error::SchemaError;

/// Returns a name as it is written in a path, in back-quotes if necessary.
pub fn part(name: &str) -> Cow<'_, str> {
    if name.is_empty() || name.contains(['.', ',', '`']) {
        Cow::Owned(format!("`{}`", name.replace('`', "``")))
    } else {
        Cow::Borrowed(name)
    }
}

/// Splits a path into its names.
///
/// # Errors
/// Fails if a back-quote is not closed, or if a closing back-quote within the path is not followed by a dot.
pub fn names(path: &str) -> Result<Vec<Cow<'_, str>>, SchemaError> {
    let mut names = Vec::new();
    let mut rest = path;
    loop {
        let (name, after) = first(rest, path)?;
        names.push(name);
        match after {
            Some(after) => rest = after,
            None => return Ok(names),
        }
    }
}

/// Splits a text at its commas, except for commas in back-quotes.
pub fn listed(text: &str) -> Vec<&str> {
    let mut quoted = false;
    text.split(|c: char| {
        quoted ^= c == '`';
        c == ',' && !quoted
    })
    .map(str::trim)
    .collect()
}

/// Returns the first name of a path's rest, and the text after the dot that follows the name.
fn first<'a>(rest: &'a str, path: &str) -> Result<(Cow<'a, str>, Option<&'a str>), SchemaError> {
    let refused = |what: &str| {
        let text = format!(
            "fields has {path}, in which {what}: write a name that contains a dot as `a.b`, and a back-quote in it twice"
        );
        SchemaError::new("", text)
    };
    let Some(quoted) = rest.strip_prefix('`') else {
        return Ok(match rest.split_once('.') {
            Some((name, after)) => (Cow::Borrowed(name), Some(after)),
            None => (Cow::Borrowed(rest), None),
        });
    };
    let mut name = String::new();
    let mut left = quoted;
    loop {
        let Some((before, after)) = left.split_once('`') else { return Err(refused("a back-quote is not closed")) };
        name.push_str(before);
        match after.strip_prefix('`') {
            Some(after) => {
                name.push('`');
                left = after;
            }
            None if after.is_empty() => return Ok((Cow::Owned(name), None)),
            None => {
                let after = after.strip_prefix('.').ok_or_else(|| refused("no dot follows a back-quote"))?;
                return Ok((Cow::Owned(name), Some(after)));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_the_inverse_of_names() {
        let all = ["a", "host.name", "`", "a`.b", "", "a,b", "``", "ü.ß"];
        for first in all {
            for second in all {
                let path = format!("{}.{}", part(first), part(second));
                assert_eq!(names(&path).unwrap(), [first, second], "{path}");
                assert_eq!(listed(&format!("{path}, {path}")), [path.as_str(), path.as_str()]);
            }
        }
        assert_eq!(names("a.b.c").unwrap(), ["a", "b", "c"]);
        assert_eq!(part("user"), "user");
    }

    #[test]
    fn open_quotes_are_errors() {
        for (path, what) in [("`a.b", "is not closed"), ("x.`a`b", "no dot follows"), ("`a``", "is not closed")] {
            let error = names(path).unwrap_err().to_string();
            assert!(error.contains(what) && error.contains(path), "{error}");
        }
    }
}
