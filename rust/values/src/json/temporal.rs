//! Dates and times in the format of RFC 3339.

use arrow_schema::TimeUnit;

/// Returns the number of units per second.
pub(crate) fn per_second(unit: TimeUnit) -> i64 {
    match unit {
        TimeUnit::Second => 1,
        TimeUnit::Millisecond => 1_000,
        TimeUnit::Microsecond => 1_000_000,
        TimeUnit::Nanosecond => 1_000_000_000,
    }
}

/// Parses `2026-11-23` into days since 1970.
pub(crate) fn date(text: &[u8]) -> Option<i32> {
    let (days, rest) = day(text)?;
    rest.is_empty().then_some(days)
}

/// Parses `17:03:59.25`, with or without `Z`, into the number of units since midnight.
pub(crate) fn time(text: &[u8], unit: TimeUnit) -> Option<i64> {
    let Clock { seconds, nanos, leap, rest } = clock(text)?;
    // Arrow's times of day end before a leap second.
    if leap {
        return None;
    }
    matches!(rest, b"" | b"Z" | b"z" | b"+00:00" | b"-00:00").then(|| within(seconds, nanos, unit)).flatten()
}

/// Parses `2026-11-23T17:03:59.25+01:00` into the number of units since 1970. A time without an offset is in UTC.
pub(crate) fn timestamp(text: &[u8], unit: TimeUnit) -> Option<i64> {
    let (days, rest) = day(text)?;
    let [b'T' | b't' | b' ', rest @ ..] = rest else { return None };
    let Clock { seconds, nanos, leap, rest } = clock(rest)?;
    let east = match rest {
        b"" | b"Z" | b"z" => 0,
        [sign @ (b'+' | b'-'), rest @ ..] => {
            let (hours, rest) = two_digits(rest, 23)?;
            let (minutes, rest) = two_digits(rest.strip_prefix(b":").unwrap_or(rest), 59)?;
            let east = hours * 3600 + minutes * 60;
            rest.is_empty().then_some(if *sign == b'-' { -east } else { east })?
        }
        _ => return None,
    };
    let seconds = i64::from(days) * 86_400 + seconds - east;
    // A leap second is the last second of a day in UTC. As in POSIX, it is converted to the first second of the next
    // day.
    (!leap || seconds.rem_euclid(86_400) == 0).then(|| within(seconds, nanos, unit)).flatten()
}

/// Converts a time to the unit. Finer digits are truncated.
fn within(seconds: i64, nanos: i64, unit: TimeUnit) -> Option<i64> {
    let per = per_second(unit);
    seconds.checked_mul(per)?.checked_add(nanos / (1_000_000_000 / per))
}

fn two_digits(text: &[u8], max: i64) -> Option<(i64, &[u8])> {
    match text {
        [tens @ b'0'..=b'9', ones @ b'0'..=b'9', rest @ ..] => {
            let value = i64::from(tens - b'0') * 10 + i64::from(ones - b'0');
            (value <= max).then_some((value, rest))
        }
        _ => None,
    }
}

/// Parses a date into days since 1970. Returns the days and the rest of the text.
fn day(text: &[u8]) -> Option<(i32, &[u8])> {
    let (century, rest) = two_digits(text, 99)?;
    let (year, rest) = two_digits(rest, 99)?;
    let year = century * 100 + year;
    let (month, rest) = two_digits(rest.strip_prefix(b"-")?, 12)?;
    let (day, rest) = two_digits(rest.strip_prefix(b"-")?, 31)?;
    let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let max = match month {
        2 if leap => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        1..=12 => 31,
        _ => return None,
    };
    if !(1..=max).contains(&day) {
        return None;
    }
    // Count years from March, so that a leap day is the last day of its year.
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let before = year * 365 + year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400);
    Some(((before + (153 * month + 2) / 5 + day - 1 - 719_468) as i32, rest))
}

/// Time of day, and the text that follows the time.
struct Clock<'a> {
    /// Seconds since midnight.
    seconds: i64,
    nanos: i64,
    /// True for a leap second, which has the number 60.
    leap: bool,
    rest: &'a [u8],
}

fn clock(text: &[u8]) -> Option<Clock<'_>> {
    let (hours, rest) = two_digits(text, 23)?;
    let (minutes, rest) = two_digits(rest.strip_prefix(b":")?, 59)?;
    let (seconds, rest) = two_digits(rest.strip_prefix(b":")?, 60)?;
    let leap = seconds == 60;
    let seconds = hours * 3600 + minutes * 60 + seconds;
    let Some(fraction) = rest.strip_prefix(b".") else { return Some(Clock { seconds, nanos: 0, leap, rest }) };
    let count = fraction.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let (digits, rest) = fraction.split_at_checked(count)?;
    if digits.is_empty() {
        return None;
    }
    let digits = digits.iter().copied().chain(std::iter::repeat(b'0')).take(9);
    let nanos = digits.fold(0, |nanos, digit| nanos * 10 + i64::from(digit - b'0'));
    Some(Clock { seconds, nanos, leap, rest })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn converts_dates_to_days() {
        for (text, days) in [
            (&b"1970-01-01"[..], 0),
            (b"1969-12-31", -1),
            (b"2000-02-29", 11_016),
            (b"2000-03-01", 11_017),
            (b"2026-11-23", 20_780),
            (b"0001-01-01", -719_162),
            (b"9999-12-31", 2_932_896),
        ] {
            assert_eq!(date(text), Some(days));
        }
        for text in [
            "1900-02-29",
            "2026-13-01",
            "2026-00-01",
            "2026-01-00",
            "2026-04-31",
            "26-01-01",
            "2026-1-1",
            "2026-01-01 ",
        ] {
            assert_eq!(date(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn parses_offsets_and_fractions() {
        let millis = |text: &str| timestamp(text.as_bytes(), TimeUnit::Millisecond);
        assert_eq!(millis("1970-01-01T00:00:00Z"), Some(0));
        assert_eq!(millis("1970-01-01 01:00:00.5+01:00"), Some(500));
        assert_eq!(millis("1969-12-31t23:59:59.999999999z"), Some(-1));
        assert_eq!(millis("1970-01-01T00:00:00-0130"), Some(5_400_000));
        assert_eq!(millis("2026-11-23T17:03:59.25"), Some(1_795_453_439_250));
        let after = millis("2017-01-01T00:00:00Z");
        for leap in ["2016-12-31T23:59:60Z", "2017-01-01T00:59:60+01:00", "2016-12-31T15:59:60-0800"] {
            assert_eq!(millis(leap), after, "{leap}");
        }
        assert_eq!(millis("2016-12-31T23:59:60.5Z"), after.map(|millis| millis + 500));
        assert_eq!(time(b"23:59:60Z", TimeUnit::Second), None);
        for text in [
            "2026-11-23",
            "2026-11-23T24:00:00Z",
            "2026-11-23T00:00:60Z",
            "2016-12-31T23:59:60+01:00",
            "2016-12-31T23:59:61Z",
            "2026-11-23T00:00:00.Z",
            "2026-11-23T00:00Z",
            "2026-11-23T00:00:00+1",
        ] {
            assert_eq!(millis(text), None, "{text}");
        }
        assert_eq!(timestamp(b"9999-12-31T23:59:59Z", TimeUnit::Nanosecond), None);
        assert_eq!(time(b"23:59:59.123456789", TimeUnit::Microsecond), Some(86_399_123_456));
        assert_eq!(time(b"00:00:01Z", TimeUnit::Second), Some(1));
        assert_eq!(time(b"00:00:01+02:00", TimeUnit::Second), None);
    }
}
