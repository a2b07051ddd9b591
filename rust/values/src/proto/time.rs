//! Timestamps and durations, in microseconds.

use super::skip;
use crate::byte_reader::ByteReader;
use crate::error::{Reason, Step};

const BILLION: i64 = 1_000_000_000;

/// Reads the fields `seconds` and `nanos`. If a field is repeated, its last occurrence counts.
fn parts(message: &[u8]) -> Step<(i64, i64)> {
    let (mut seconds, mut nanos) = (0, 0);
    let mut input = ByteReader::new(message);
    while input.len() > 0 {
        match skip::tag(&mut input)? {
            0x08 => seconds = input.varint()? as i64,
            0x10 => nanos = i64::from(input.varint()? as i32),
            tag => skip::field(&mut input, tag)?,
        }
    }
    Ok((seconds, nanos))
}

/// Decodes a timestamp. Nanoseconds are counted forward from the second, even before 1970. Digits finer than
/// microseconds are truncated towards the past.
pub(super) fn timestamp(message: &[u8]) -> Step<i64> {
    let (seconds, nanos) = parts(message)?;
    if !(0..BILLION).contains(&nanos) {
        return Err(Reason::Other(format!("a timestamp has {nanos} nanoseconds").into()).into());
    }
    micros(seconds, nanos)
}

/// Decodes a duration. Seconds and nanoseconds must have the same sign. Digits finer than microseconds are truncated.
pub(super) fn duration(message: &[u8]) -> Step<i64> {
    let (seconds, nanos) = parts(message)?;
    if nanos.abs() >= BILLION || seconds.signum() * nanos.signum() < 0 {
        let text = format!("a duration has {seconds} seconds and {nanos} nanoseconds");
        return Err(Reason::Other(text.into()).into());
    }
    micros(seconds, nanos)
}

fn micros(seconds: i64, nanos: i64) -> Step<i64> {
    let micros = seconds.checked_mul(1_000_000).and_then(|micros| micros.checked_add(nanos / 1000));
    micros.ok_or_else(|| Reason::TimeUnit.into())
}
