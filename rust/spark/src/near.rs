//! Which option somebody may have meant. Spark and others pass options of their own: only what is very near is a mistake.

use crate::error::{Error, Result};
use crate::values::Given;

/// How alike two names must be, from 0 to 1.
const LIKE: f64 = 0.85;

/// Raises for a name that is nearly a known one.
pub(crate) fn refuse_misspelt(given: &Given, known: &[&str]) -> Result<()> {
    for name in given.keys().filter(|name| !name.starts_with("kafka.")) {
        if known.iter().any(|known| known.eq_ignore_ascii_case(name)) {
            continue;
        }
        if let Some(meant) = meant(name, known.iter().copied()) {
            return Err(Error::configuration(format!("option {name} is unknown; did you mean {meant}?")));
        }
    }
    Ok(())
}

/// The one of `names` that is most like `given`, if one is.
pub(crate) fn meant<'a>(given: &str, names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let given: Vec<char> = given.to_lowercase().chars().collect();
    let alike = names.filter_map(|name| {
        let other: Vec<char> = name.to_lowercase().chars().collect();
        let ratio = 2.0 * common(&given, &other) as f64 / (given.len() + other.len()) as f64;
        (ratio >= LIKE).then_some((ratio, name))
    });
    alike.max_by(|(a, _), (b, _)| a.total_cmp(b)).map(|(_, name)| name)
}

/// Characters in common: those of the longest stretch in both, and of what is before and behind it (Ratcliff and
/// Obershelp).
fn common(a: &[char], b: &[char]) -> usize {
    let (mut best, mut at) = (0, (0, 0));
    for i in 0..a.len() {
        for j in 0..b.len() {
            let length = a.iter().skip(i).zip(b.iter().skip(j)).take_while(|(x, y)| x == y).count();
            if length > best {
                (best, at) = (length, (i, j));
            }
        }
    }
    if best == 0 {
        return 0;
    }
    let ((before_a, rest_a), (before_b, rest_b)) = (a.split_at(at.0), b.split_at(at.1));
    best + common(before_a, before_b) + common(rest_a.split_at(best).1, rest_b.split_at(best).1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_very_near_is_meant() {
        let names = ["startingOffsets", "endingOffsets", "assign"];
        assert_eq!(meant("startingoffset", names.into_iter()), Some("startingOffsets"));
        assert_eq!(meant("asign", names.into_iter()), Some("assign"));
        for other in ["path", "offsets", "starting", ""] {
            assert_eq!(meant(other, names.into_iter()), None, "{other}");
        }
    }
}
