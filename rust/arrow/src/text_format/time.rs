//! ISO 8601 timestamps.

/// Writes the time as `2026-11-01T10:00:00.000Z`. Years with more than four digits have a sign.
pub(super) fn iso(ms: i64, out: &mut Vec<u8>) {
    let (days, in_day) = (ms.div_euclid(86_400_000), ms.rem_euclid(86_400_000));
    let (year, month, day) = civil(days);
    if (0..=9999).contains(&year) {
        padded(year.unsigned_abs(), 4, out);
    } else {
        out.push(if year < 0 { b'-' } else { b'+' });
        padded(year.unsigned_abs(), 6, out);
    }
    let in_day = in_day.unsigned_abs();
    for (mark, value, width) in [
        (b'-', month, 2),
        (b'-', day, 2),
        (b'T', in_day / 3_600_000, 2),
        (b':', in_day / 60_000 % 60, 2),
        (b':', in_day / 1000 % 60, 2),
        (b'.', in_day % 1000, 3),
    ] {
        out.push(mark);
        padded(value, width, out);
    }
    out.push(b'Z');
}

fn padded(value: u64, width: u32, out: &mut Vec<u8>) {
    let digits = value.checked_ilog10().unwrap_or(0) + 1;
    let mut unit = 10_u64.saturating_pow(digits.max(width) - 1);
    while unit > 0 {
        out.push(b'0' + (value / unit % 10) as u8);
        unit /= 10;
    }
}

/// Returns the year, month and day for a number of days since 1970, in the proleptic Gregorian calendar. The
/// calculation uses eras of 400 years that begin in March, so that the leap day is the last day of its year.
fn civil(days: i64) -> (i64, u64, u64) {
    let shifted = days + 719_468;
    let (era, of_era) = (shifted.div_euclid(146_097), shifted.rem_euclid(146_097));
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    (year, month.unsigned_abs(), day.unsigned_abs())
}
