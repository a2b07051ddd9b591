//! What somebody may have meant.

/// The name that takes the fewest edits, if it is near or goes on from what was given; large and small letters are the
/// same.
pub fn nearest<'a>(given: &str, names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let given = given.to_lowercase();
    let length = given.chars().count();
    let near = |name: &&str| {
        let edits = distance(&name.to_lowercase(), &given);
        // What takes more edits than a third of the letters was not meant.
        (edits * 3 <= length || length > 2 && name.to_lowercase().starts_with(&given)).then_some(edits)
    };
    let edits = names.filter_map(|name| Some((near(&name)?, name)));
    edits.min_by_key(|(edits, _)| *edits).map(|(_, name)| name)
}

/// Edits that turn one name into the other (Levenshtein).
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut diagonal = i;
        let mut left = i + 1;
        for (cell, y) in row.iter_mut().skip(1).zip(&b) {
            let best = (diagonal + usize::from(x != *y)).min(left + 1).min(*cell + 1);
            diagonal = std::mem::replace(cell, best);
            left = best;
        }
        if let Some(first) = row.first_mut() {
            *first = i + 1;
        }
    }
    row.last().copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fewest_edits_win() {
        let names = ["OffsetCommit", "OffsetFetch", "Fetch"];
        for (given, wanted) in [("OfsetComit", "OffsetCommit"), ("FETCH", "Fetch"), ("offsetsfetch", "OffsetFetch")] {
            assert_eq!(nearest(given, names.into_iter()), Some(wanted));
        }
        assert_eq!(nearest("x", std::iter::empty()), None);
        assert_eq!(nearest("Heartbeat", names.into_iter()), None);
        assert_eq!(nearest("linger", ["acks", "linger.ms"].into_iter()), Some("linger.ms"));
    }
}
