//! Parsing of JSON numbers. Integers and decimals are exact, because they are not converted to double.

use arrow_buffer::i256;

use super::error::JsonError;
use super::scan::Scan;
use crate::error::{Reason, Step};

/// Powers of ten that a double represents exactly.
const POWERS: [f64; 23] = [
    1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20,
    1e21, 1e22,
];
/// Number of digits that always fit into 64 bits.
const SAFE_DIGITS: usize = 19;

/// A syntactically valid number, split into its parts.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Number<'a> {
    pub(crate) text: &'a str,
    pub(crate) negative: bool,
    whole: &'a [u8],
    fraction: &'a [u8],
    /// Digits of the exponent with the sign, if any.
    exponent: &'a [u8],
}

impl<'a> Scan<'a> {
    /// Reads an integer that has no exponent and surely fits into 64 bits. Returns `None` and consumes nothing for
    /// other values.
    #[inline(always)]
    pub(crate) fn quick_integer(&mut self) -> Option<i64> {
        let (negative, digits) = match self.rest {
            [b'-', rest @ ..] => (true, rest),
            rest => (false, rest),
        };
        let (value, after) = digits_of(digits, 0);
        let count = digits.len() - after.len();
        if count == 0
            || count >= SAFE_DIGITS
            || (count > 1 && digits.first() == Some(&b'0'))
            || matches!(after.first(), Some(b'.' | b'e' | b'E'))
        {
            return None;
        }
        self.rest = after;
        let value = value as i64;
        Some(if negative { -value } else { value })
    }

    /// Reads a number that a double represents exactly, or correctly rounded after one operation (Clinger's algorithm).
    /// Returns `None` and consumes nothing for other values.
    #[inline(always)]
    pub(crate) fn quick_double(&mut self) -> Option<f64> {
        let (negative, digits) = match self.rest {
            [b'-', rest @ ..] => (true, rest),
            rest => (false, rest),
        };
        let (whole, mut after) = digits_of(digits, 0);
        let count = digits.len() - after.len();
        if count == 0 || (count > 1 && digits.first() == Some(&b'0')) {
            return None;
        }
        let (mut value, mut places) = (whole, 0);
        if let [b'.', fraction @ ..] = after {
            (value, after) = digits_of(fraction, whole);
            places = fraction.len() - after.len();
            if places == 0 {
                return None;
            }
        }
        if count + places > SAFE_DIGITS || value > 1 << 53 || matches!(after.first(), Some(b'e' | b'E')) {
            return None;
        }
        let value = value as f64 / POWERS.get(places)?;
        self.rest = after;
        Some(if negative { -value } else { value })
    }

    /// Skips a number without exponent. Returns false and consumes nothing for other values.
    #[inline(always)]
    pub(crate) fn skip_number(&mut self) -> bool {
        let digits = match self.rest {
            [b'-', rest @ ..] => rest,
            rest => rest,
        };
        let whole = digits_len(digits);
        let mut after = digits.get(whole..).unwrap_or_default();
        if whole == 0 || (whole > 1 && digits.first() == Some(&b'0')) {
            return false;
        }
        if let [b'.', fraction @ ..] = after {
            let places = digits_len(fraction);
            if places == 0 {
                return false;
            }
            after = fraction.get(places..).unwrap_or_default();
        }
        if matches!(after.first(), Some(b'e' | b'E')) {
            return false;
        }
        self.rest = after;
        true
    }

    /// Reads any number.
    #[inline(never)]
    pub(crate) fn number(&mut self) -> Step<Number<'a>> {
        let from = self.rest;
        let mut at = *self;
        let negative = at.eat(b'-');
        let whole = at.digits()?;
        if whole.len() > 1 && whole.first() == Some(&b'0') {
            return Scan { rest: from.get(usize::from(negative) + 1..).unwrap_or_default() }
                .unexpected("no digit behind a leading zero");
        }
        let fraction = if at.eat(b'.') { at.digits()? } else { &[] };
        let exponent = if at.eat(b'e') || at.eat(b'E') {
            let start = at.rest;
            let _ = at.eat(b'+') || at.eat(b'-');
            at.digits()?;
            start.get(..start.len() - at.rest.len()).unwrap_or_default()
        } else {
            &[]
        };
        self.rest = at.rest;
        let text = from.get(..from.len() - at.rest.len()).unwrap_or_default();
        let text = std::str::from_utf8(text).unwrap_or_default();
        Ok(Number { text, negative, whole, fraction, exponent })
    }

    fn digits(&mut self) -> Step<&'a [u8]> {
        let len = self.rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        let (digits, rest) = self.rest.split_at_checked(len).unwrap_or_default();
        if digits.is_empty() {
            return self.unexpected("a digit");
        }
        self.rest = rest;
        Ok(digits)
    }
}

/// Returns the number of leading digits.
#[inline(always)]
fn digits_len(digits: &[u8]) -> usize {
    let mut rest = digits;
    while let Some((chunk, after)) = rest.split_first_chunk::<8>() {
        // The high bit of each byte that is not a digit. Only the lowest of these bits is reliable.
        let word = u64::from_le_bytes(*chunk) ^ (u64::MAX / 0xff * 0x30);
        let others = (word.wrapping_add(u64::MAX / 0xff * 0x76) | word) & (u64::MAX / 0xff * 0x80);
        if others != 0 {
            return digits.len() - rest.len() + others.trailing_zeros() as usize / 8;
        }
        rest = after;
    }
    digits.len() - rest.len() + rest.iter().take_while(|byte| byte.is_ascii_digit()).count()
}

/// Appends digits to a number, which wraps around on overflow. Returns the number and the rest of the text.
#[inline(always)]
fn digits_of(mut rest: &[u8], mut value: u64) -> (u64, &[u8]) {
    while let Some((chunk, after)) = rest.split_first_chunk::<8>()
        && let Some(eight) = eight_digits(*chunk)
    {
        value = value.wrapping_mul(100_000_000).wrapping_add(eight);
        rest = after;
    }
    while let [digit @ b'0'..=b'9', after @ ..] = rest {
        value = value.wrapping_mul(10).wrapping_add(u64::from(digit - b'0'));
        rest = after;
    }
    (value, rest)
}

/// Parses eight digits. Returns `None` if a byte is not a digit.
#[inline(always)]
fn eight_digits(chunk: [u8; 8]) -> Option<u64> {
    let word = u64::from_le_bytes(chunk);
    let digits = word ^ 0x3030_3030_3030_3030;
    if (digits | digits.wrapping_add(0x0606_0606_0606_0606)) & 0xf0f0_f0f0_f0f0_f0f0 != 0 {
        return None;
    }
    let pairs = digits.wrapping_mul(10).wrapping_add(digits >> 8) & 0x00ff_00ff_00ff_00ff;
    let fours = pairs.wrapping_mul(100).wrapping_add(pairs >> 16) & 0x0000_ffff_0000_ffff;
    Some(fours.wrapping_mul(10_000).wrapping_add(fours >> 32) & 0xffff_ffff)
}

impl Number<'_> {
    /// Returns the number as a double or float, correctly rounded.
    pub(crate) fn float<T: std::str::FromStr + Into<f64> + Copy>(&self, name: &'static str) -> Step<T> {
        let value = self.text.parse::<T>().ok().filter(|value| (*value).into().is_finite());
        value.ok_or_else(|| Reason::from(JsonError::Range(name)).into())
    }

    /// Returns the number as an integer, which must be within `range`.
    pub(crate) fn whole(&self, range: &std::ops::RangeInclusive<i128>, name: &'static str) -> Step<i128> {
        match self.unscaled(0, 38) {
            Ok(value) if range.contains(&value) => Ok(value),
            Err(JsonError::Scale(_)) => Err(Reason::from(JsonError::NotAnInteger).into()),
            _ => Err(Reason::from(JsonError::Range(name)).into()),
        }
    }

    /// Returns true if the number has neither a decimal point nor an exponent.
    pub(crate) fn is_plain(&self) -> bool {
        self.fraction.is_empty() && self.exponent.is_empty()
    }

    /// Returns the number multiplied by 10^`scale`. The result must be an integer with at most `precision` digits,
    /// which is at most 38.
    pub(crate) fn unscaled(&self, scale: i8, precision: u8) -> Result<i128, JsonError> {
        let (first, _) = self.shifted(scale, precision, 38)?;
        Ok(if self.negative { -first } else { first })
    }

    /// Like [`unscaled`](Self::unscaled), but the result may have up to 76 digits.
    pub(crate) fn wide_unscaled(&self, scale: i8, precision: u8) -> Result<i256, JsonError> {
        let (first, (second, digits)) = self.shifted(scale, precision, 38)?;
        let shift = i256::from_i128(10).wrapping_pow(digits);
        let value = i256::from_i128(first).wrapping_mul(shift).wrapping_add(i256::from_i128(second));
        Ok(if self.negative { value.wrapping_neg() } else { value })
    }

    /// Multiplies the number by 10^`scale`. Returns the first `split` digits of the result as a number, then the other
    /// digits as a number and their count.
    fn shifted(&self, scale: i8, precision: u8, split: usize) -> Result<(i128, (i128, u32)), JsonError> {
        let digits = || self.whole.iter().chain(self.fraction);
        let zeros = digits().take_while(|digit| **digit == b'0').count();
        let count = self.whole.len() + self.fraction.len();
        if zeros == count {
            return Ok((0, (0, 0)));
        }
        // Number of digits before the decimal point, without leading zeros; negative if zeros follow the point.
        let point = (self.whole.len() - zeros.min(self.whole.len())) as i64
            - zeros.saturating_sub(self.whole.len()) as i64
            + self.power();
        let kept = point.saturating_add(i64::from(scale));
        if kept > i64::from(precision) {
            return Err(JsonError::Digits(precision));
        }
        let kept = usize::try_from(kept).map_err(|_| JsonError::Scale(scale))?;
        if digits().skip(zeros + kept).any(|digit| *digit != b'0') {
            return Err(JsonError::Scale(scale));
        }
        let mut digits = digits().skip(zeros).chain(std::iter::repeat(&b'0')).map(|digit| i128::from(digit - b'0'));
        let mut take = |count: usize| digits.by_ref().take(count).fold(0, |value, digit| value * 10 + digit);
        let (first, behind) = (kept.min(split), kept.saturating_sub(split).min(38));
        Ok((take(first), (take(behind), behind as u32)))
    }

    /// Returns the exponent, limited to a range that exceeds every column's scale by far.
    fn power(&self) -> i64 {
        let (sign, digits) = match self.exponent {
            [b'-', digits @ ..] => (-1, digits),
            [b'+', digits @ ..] | digits => (1, digits),
        };
        let far = 1 << 40;
        sign * digits.iter().fold(0, |value: i64, digit| (value * 10 + i64::from(digit - b'0')).min(far))
    }
}

/// Parses a text that consists of a single number.
pub(crate) fn number_of(text: &[u8]) -> Option<Number<'_>> {
    let mut scan = Scan::new(text);
    scan.number().ok().filter(|_| scan.remaining() == 0)
}
