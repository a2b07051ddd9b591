//! A subscription of a group member: topic names or a pattern.

use std::collections::BTreeSet;

use regex::Regex;

use crate::cluster::metadata::Metadata;
use crate::error::{Error, Result};

/// Topics to consume, by name or by a pattern that matches the whole name.
#[derive(Debug, Clone)]
pub enum Subscription {
    /// Topics by name.
    Topics(BTreeSet<String>),
    /// Topics whose whole name matches the pattern.
    Pattern(Regex),
}

impl Subscription {
    /// Subscribes to topics by name.
    ///
    /// # Errors
    /// Fails with [`Error::Configuration`] if a name is empty.
    pub fn topics(names: impl IntoIterator<Item = String>) -> Result<Subscription> {
        let names: BTreeSet<String> = names.into_iter().collect();
        if names.contains("") {
            return Err(Error::configuration("cannot subscribe to a topic with an empty name"));
        }
        Ok(Subscription::Topics(names))
    }

    /// Subscribes to every topic whose whole name matches `pattern`, in RE2 syntax.
    ///
    /// # Errors
    /// Fails with [`Error::Configuration`] if the pattern is invalid.
    pub fn pattern(pattern: &str) -> Result<Subscription> {
        let whole = Regex::new(&format!("^(?:{pattern})$"));
        let invalid = |error| Error::configuration(format!("cannot subscribe to the pattern {pattern:?}: {error}"));
        // Compiles the original pattern first, so that the error shows the caller's text.
        Regex::new(pattern).map_err(invalid)?;
        Ok(Subscription::Pattern(whole.map_err(invalid)?))
    }

    /// Returns the pattern as the caller wrote it.
    pub fn pattern_text(&self) -> Option<&str> {
        match self {
            Subscription::Topics(_) => None,
            Subscription::Pattern(whole) => {
                whole.as_str().strip_prefix("^(?:").and_then(|rest| rest.strip_suffix(")$"))
            }
        }
    }

    /// Returns the names of the subscribed topics according to `metadata`.
    pub(crate) fn topic_names(&self, metadata: &Metadata, exclude_internal: bool) -> BTreeSet<String> {
        match self {
            Subscription::Topics(names) => names.clone(),
            Subscription::Pattern(whole) => metadata
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
    fn pattern_matches_whole_names_and_rejects_invalid_ones() {
        let subscription = Subscription::pattern("orders|pay.*").unwrap();
        assert_eq!(subscription.pattern_text(), Some("orders|pay.*"));
        let Subscription::Pattern(whole) = subscription else { panic!("a pattern") };
        for (name, matches) in [("orders", true), ("payments", true), ("orders2", false), ("my-orders", false)] {
            assert_eq!(whole.is_match(name), matches, "{name}");
        }
        let error = Subscription::pattern("a(").unwrap_err().to_string();
        assert!(error.contains("\"a(\""), "{error}");
        assert!(Subscription::topics([String::new()]).is_err());
    }
}
