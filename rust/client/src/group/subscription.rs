//! What a member of a group wants to read.

use std::collections::BTreeSet;

use regex::Regex;

use crate::cluster::metadata::Metadata;
use crate::error::{Error, Result};

/// Topics by name, or all whose whole name matches a pattern.
#[derive(Debug, Clone)]
pub enum Wanted {
    /// These.
    Topics(BTreeSet<String>),
    /// All that match.
    Pattern(Regex),
}

impl Wanted {
    /// These topics.
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

    /// Every topic whose whole name matches `pattern`, in the syntax of RE2.
    ///
    /// # Errors
    /// [`Error::Configuration`] for a pattern that cannot be read.
    pub fn pattern(pattern: &str) -> Result<Wanted> {
        let whole = Regex::new(&format!("^(?:{pattern})$"));
        let bad = |error| Error::configuration(format!("cannot subscribe to the pattern {pattern:?}: {error}"));
        // The pattern by itself first, for an error that shows what was given.
        Regex::new(pattern).map_err(bad)?;
        Ok(Wanted::Pattern(whole.map_err(bad)?))
    }

    /// The pattern as it was given.
    pub fn given_pattern(&self) -> Option<&str> {
        match self {
            Wanted::Topics(_) => None,
            Wanted::Pattern(whole) => whole.as_str().strip_prefix("^(?:").and_then(|rest| rest.strip_suffix(")$")),
        }
    }

    /// The names that are wanted now.
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
