//! ISO 8601 durations, as in `auto.offset.reset=by_duration:…`.

use std::time::Duration;

/// Parses a duration such as `P1DT2H3M4.5S`. As in Java, returns `None` for years, months and negative durations, and
/// also for invalid text.
pub(super) fn parse(text: &str) -> Option<Duration> {
    let upper = text.to_ascii_uppercase();
    let rest = upper.strip_prefix('P')?;
    let (days, time) = match rest.split_once('T') {
        Some((days, time)) if !time.is_empty() => (days, time),
        Some(_) => return None,
        None => (rest, ""),
    };
    if days.is_empty() && time.is_empty() {
        return None;
    }
    let days = if days.is_empty() { 0.0 } else { number(days.strip_suffix('D')?, false)? };
    let mut seconds = days * 86_400.0;
    let mut rest = time;
    for (unit, length) in [('H', 3600.0), ('M', 60.0), ('S', 1.0)] {
        if let Some((count, after)) = rest.split_once(unit) {
            seconds += number(count, unit == 'S')? * length;
            rest = after;
        }
    }
    if !rest.is_empty() {
        return None;
    }
    Duration::try_from_secs_f64(seconds).ok()
}

fn number(text: &str, fraction: bool) -> Option<f64> {
    let allowed = |c: char| c.is_ascii_digit() || (fraction && c == '.');
    (!text.is_empty() && text.chars().all(allowed)).then(|| text.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_durations_as_java() {
        for (text, seconds) in
            [("PT24H", 86_400.0), ("P1D", 86_400.0), ("pt1.5s", 1.5), ("P2DT3H4M5S", 183_845.0), ("PT0S", 0.0)]
        {
            assert_eq!(parse(text), Some(Duration::from_secs_f64(seconds)), "{text}");
        }
        for text in ["", "P", "PT", "1D", "P1Y", "P1DT", "PT-1S", "PT1M1H", "PT1", "P1.5D", "PTS"] {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}
