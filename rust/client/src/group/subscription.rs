//! A subscription of a group member: topic names or a pattern.

use std::collections::BTreeSet;

use regex::Regex;

use crate::cluster::metadata::Metadata;
use crate::error::{Error, Result};

/// Topics to consume, by name or by a pattern that matches the whole name.
#[derive(Debug, Clone)]
pub enum Wanted {
    /// Topics by name.
    Topics(BTreeSet<String>),
    /// Topics whose whole name matches the pattern.
    Pattern(Regex),
}

impl Wanted {
    /// Subscribes to topics by name.
    ///
    /// # Errors
    /// [`Error::Configuration`] for an empty name.
    pub fn topics(names: impl IntoIterator<Item = String>) -> Result<Wanted> {
        let names: BTreeSet<String> = names.into_iter().collect();
        if names.contains("") {
            return Err(Error::configuration("cannot subscribe to a topic with an empty name"));
        }
        Ok(Wanted::Topics(names))
    }

    /// Subscribes to every topic whose whole name matches `pattern`, in RE2 syntax.
    ///
    /// # Errors
    /// [`Error::Configuration`] for a pattern that cannot be read.
    pub fn pattern(pattern: &str) -> Result<Wanted> {
        let whole = Regex::new(&format!("^(?:{pattern})$"));
        let bad = |error| Error::configuration(format!("cannot subscribe to the pattern {pattern:?}: {error}"));
        // Compiles the original pattern first, so that the error shows the caller's text.
        Regex::new(pattern).map_err(bad)?;
        Ok(Wanted::Pattern(whole.map_err(bad)?))
    }

    /// Returns the pattern as the caller wrote it.
    pub fn given_pattern(&self) -> Option<&str> {
        match self {
            Wanted::Topics(_) => None,
            Wanted::Pattern(whole) => whole.as_str().strip_prefix("^(?:").and_then(|rest| rest.strip_suffix(")$")),
        }
    }

    /// Returns the names of the subscribed topics according to `metadata`.
    pub(crate) fn names(&self, metadata: &Metadata, exclude_internal: bool) -> BTreeSet<String> {
        match self {
            Wanted::Topics(names) => names.clone(),
            Wanted::Pattern(whole) => metadata
                .topics()
                .filter(|topic| !(exclude_internal && topic.internal) && whole.is_match(&topic.name))
                .map(|topic| topic.name.clone())
                .collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_whole_names_and_tell_what_is_wrong_with_them() {
        let wanted = Wanted::pattern("orders|pay.*").unwrap();
        assert_eq!(wanted.given_pattern(), Some("orders|pay.*"));
        let Wanted::Pattern(whole) = wanted else { panic!("a pattern") };
        for (name, matches) in [("orders", true), ("payments", true), ("orders2", false), ("my-orders", false)] {
            assert_eq!(whole.is_match(name), matches, "{name}");
        }
        let error = Wanted::pattern("a(").unwrap_err().to_string();
        assert!(error.contains("\"a(\""), "{error}");
        assert!(Wanted::topics([String::new()]).is_err());
    }
}
