//! ISO 8601 timestamps.

/// Writer of times, which keeps the text of the last second, because neighbouring records often have the same.
#[derive(Debug)]
pub(super) struct IsoWriter {
    second: Option<i64>,
    text: Vec<u8>,
    /// Character between date and time.
    mark: u8,
}

impl Default for IsoWriter {
    fn default() -> Self {
        IsoWriter { second: None, text: Vec::new(), mark: b'T' }
    }
}

impl IsoWriter {
    /// Returns a writer of times with a space between date and time, which is the form of pyarrow.
    pub(super) fn of_csv() -> Self {
        IsoWriter { mark: b' ', ..Default::default() }
    }

    /// Writes the time as `2026-11-01T10:00:00.000Z`. Years with more than four digits have a sign.
    #[inline]
    pub(super) fn write(&mut self, ms: i64, out: &mut Vec<u8>) {
        let (second, fraction) = (ms.div_euclid(1000), ms.rem_euclid(1000).unsigned_abs());
        if self.second != Some(second) {
            self.second = Some(second);
            self.text.clear();
            to_seconds(second, self.mark, &mut self.text);
        }
        out.extend_from_slice(&self.text);
        let digit = |unit: u64| b'0' + (fraction / unit % 10) as u8;
        out.extend_from_slice(&[b'.', digit(100), digit(10), digit(1), b'Z']);
    }
}

/// Writes one time as [`IsoWriter`] does.
pub(super) fn iso(ms: i64, out: &mut Vec<u8>) {
    IsoWriter::default().write(ms, out);
}

/// Writes a time in seconds since 1970 as `2026-11-01T10:00:00`, with `mark` for the T.
fn to_seconds(second: i64, mark: u8, out: &mut Vec<u8>) {
    let (days, in_day) = (second.div_euclid(86_400), second.rem_euclid(86_400).unsigned_abs());
    let (year, month, day) = civil(days);
    if (0..=9999).contains(&year) {
        padded(year.unsigned_abs(), 4, out);
    } else {
        out.push(if year < 0 { b'-' } else { b'+' });
        padded(year.unsigned_abs(), 6, out);
    }
    for (before, value) in
        [(b'-', month), (b'-', day), (mark, in_day / 3600), (b':', in_day / 60 % 60), (b':', in_day % 60)]
    {
        out.extend_from_slice(&[before, b'0' + (value / 10) as u8, b'0' + (value % 10) as u8]);
    }
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
