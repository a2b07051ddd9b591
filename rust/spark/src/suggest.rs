//! Suggestions for misspelled option names. Only close matches are errors, because Spark and other libraries pass
//! options of their own.

use crate::error::{Error, Result};
use crate::option_values::RawOptions;

/// Minimum similarity of two names, between 0 and 1.
const MIN_SIMILARITY: f64 = 0.85;

/// Rejects an option whose name is close but not equal to a known name.
pub(crate) fn reject_misspelled(options: &RawOptions, known: &[&str]) -> Result<()> {
    for name in options.keys().filter(|name| !name.starts_with("kafka.")) {
        if known.iter().any(|known| known.eq_ignore_ascii_case(name)) {
            continue;
        }
        if let Some(suggestion) = closest(name, known.iter().copied()) {
            return Err(Error::configuration(format!("option {name} is unknown; did you mean {suggestion}?")));
        }
    }
    Ok(())
}

/// Returns the name that is most similar to `option`, if its similarity is high enough.
pub(crate) fn closest<'a>(option: &str, names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let option: Vec<char> = option.to_lowercase().chars().collect();
    let similar = names.filter_map(|name| {
        let other: Vec<char> = name.to_lowercase().chars().collect();
        let ratio = 2.0 * matching_chars(&option, &other) as f64 / (option.len() + other.len()) as f64;
        (ratio >= MIN_SIMILARITY).then_some((ratio, name))
    });
    similar.max_by(|(a, _), (b, _)| a.total_cmp(b)).map(|(_, name)| name)
}

/// Counts the common characters of two names by the method of Ratcliff and Obershelp: the characters of the longest
/// common substring and, recursively, those of the texts before and after it.
fn matching_chars(a: &[char], b: &[char]) -> usize {
    let (mut best, mut position) = (0, (0, 0));
    for i in 0..a.len() {
        for j in 0..b.len() {
            let length = a.iter().skip(i).zip(b.iter().skip(j)).take_while(|(x, y)| x == y).count();
            if length > best {
                (best, position) = (length, (i, j));
            }
        }
    }
    if best == 0 {
        return 0;
    }
    let ((before_a, rest_a), (before_b, rest_b)) = (a.split_at(position.0), b.split_at(position.1));
    best + matching_chars(before_a, before_b) + matching_chars(rest_a.split_at(best).1, rest_b.split_at(best).1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suggests_only_close_names() {
        let names = ["startingOffsets", "endingOffsets", "assign"];
        assert_eq!(closest("startingoffset", names.into_iter()), Some("startingOffsets"));
        assert_eq!(closest("asign", names.into_iter()), Some("assign"));
        for other in ["path", "offsets", "starting", ""] {
            assert_eq!(closest(other, names.into_iter()), None, "{other}");
        }
    }
}
