//! Times at which credentials expire, in the format of RFC 3339.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Parses a time such as `2026-11-28T20:00:00Z` or `2026-11-28T21:00:00.5+01:00`. Fractions are dropped.
pub(super) fn parse(text: &str) -> Option<SystemTime> {
    let text = text.trim();
    let number = |from: usize, to: usize| {
        let digits = text.get(from..to)?;
        digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.parse::<i64>().ok())?
    };
    let separators = [(4, b'-'), (7, b'-'), (13, b':'), (16, b':')];
    let is_time = separators.iter().all(|(at, byte)| text.as_bytes().get(*at) == Some(byte))
        && matches!(text.as_bytes().get(10), Some(b'T' | b't' | b' '));
    let (year, month, day) = (number(0, 4)?, number(5, 7)?, number(8, 10)?);
    let (hour, minute, second) = (number(11, 13)?, number(14, 16)?, number(17, 19)?);
    if !is_time || !(1..=12).contains(&month) || !(1..=31).contains(&day) || hour > 23 || minute > 59 || second > 60 {
        return None;
    }
    let zone = text.get(19..)?.trim_start_matches(|c: char| c == '.' || c.is_ascii_digit());
    // Howard Hinnant's algorithm to convert a date to days, with years that begin in March.
    let (shifted_year, shifted_month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let (era, year_of_era) = (shifted_year.div_euclid(400), shifted_year.rem_euclid(400));
    let day_of_year = (153 * shifted_month + 2) / 5 + day - 1;
    let days = era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719_468;
    let seconds = days * 86_400 + hour * 3600 + minute * 60 + second - offset(zone)?;
    UNIX_EPOCH.checked_add(Duration::from_secs(u64::try_from(seconds).ok()?))
}

/// Parses an offset from UTC, in seconds.
fn offset(zone: &str) -> Option<i64> {
    if matches!(zone, "Z" | "z" | "UTC") {
        return Some(0);
    }
    let sign = match zone.as_bytes().first()? {
        b'+' => 1,
        b'-' => -1,
        _ => return None,
    };
    let (hours, minutes) = (zone.get(1..3)?, zone.get(3..)?.trim_start_matches(':'));
    let (hours, minutes) = (hours.parse::<i64>().ok()?, minutes.parse::<i64>().ok()?);
    (hours < 24 && (0..60).contains(&minutes) && hours >= 0).then_some(sign * (hours * 3600 + minutes * 60))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_times_of_aws() {
        for (text, seconds) in [
            ("1970-01-01T00:00:00Z", Some(0)),
            ("2000-02-29T00:00:00Z", Some(951_782_400)),
            ("2025-12-31T23:59:59.999Z", Some(1_767_225_599)),
            ("2026-01-01T01:30:00+01:30", Some(1_767_225_600)),
            ("2025-12-31T19:00:00-0500", Some(1_767_225_600)),
            ("2021-05-01T10:00:00UTC", Some(1_619_863_200)),
            ("2026-01-01T00:00:00", None),
            ("2026-13-01T00:00:00Z", None),
            ("2026-01-01", None),
            ("1960-01-01T00:00:00Z", None),
            ("+026-01-01T00:00:00Z", None),
            ("soon", None),
            ("", None),
        ] {
            let expected = seconds.map(|seconds| UNIX_EPOCH + Duration::from_secs(seconds));
            assert_eq!(parse(text), expected, "{text}");
        }
    }
}
