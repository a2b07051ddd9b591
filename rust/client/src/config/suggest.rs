//! Suggestions for misspelled names.

/// Returns the name with the smallest edit distance to `input`, ignoring case, if the name is close to `input` or
/// starts with it.
pub fn nearest<'a>(input: &str, names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let input = input.to_lowercase();
    let length = input.chars().count();
    let edits_if_close = |name: &&str| {
        let edits = strsim::levenshtein(&name.to_lowercase(), &input);
        // A name is close if it needs at most one edit per three characters.
        (edits * 3 <= length || length > 2 && name.to_lowercase().starts_with(&input)).then_some(edits)
    };
    let edits = names.filter_map(|name| Some((edits_if_close(&name)?, name)));
    edits.min_by_key(|(edits, _)| *edits).map(|(_, name)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nearest_has_fewest_edits() {
        let names = ["OffsetCommit", "OffsetFetch", "Fetch"];
        for (input, expected) in [("OfsetComit", "OffsetCommit"), ("FETCH", "Fetch"), ("offsetsfetch", "OffsetFetch")] {
            assert_eq!(nearest(input, names.into_iter()), Some(expected));
        }
        assert_eq!(nearest("x", std::iter::empty()), None);
        assert_eq!(nearest("Heartbeat", names.into_iter()), None);
        assert_eq!(nearest("linger", ["acks", "linger.ms"].into_iter()), Some("linger.ms"));
    }
}
