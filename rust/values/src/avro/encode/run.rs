//! Encoding of rows.

use arrow_buffer::{ArrowNativeType, IntervalMonthDayNano, NullBuffer, i256};
use samsarrow_wire::ShortBytes;
use samsarrow_wire::varint::put_varlong;

use super::source::{Branch, Decimal, Entries, Field, Member, Members, Scaled, Source};
use crate::error::{Reason, Step};
use crate::framing::{hyphened, unhyphened};
use crate::layout::{Ranges, beyond, range};

impl Source {
    /// Encodes a row. After an error, the caller truncates the output.
    ///
    /// The recursion is as deep as the schema.
    pub(crate) fn run(&self, row: usize, out: &mut Vec<u8>) -> Step {
        self.step(row, out)
    }

    /// Encodes the most frequent types inline.
    #[inline(always)]
    fn step(&self, row: usize, out: &mut Vec<u8>) -> Step {
        match self {
            Source::Int(values) => put_long(out, at(values, row)?.into()),
            Source::Long(values) => put_long(out, at(values, row)?),
            Source::Double(values) => out.extend_from_slice(&at(values, row)?.to_le_bytes()),
            Source::Float(values) => out.extend_from_slice(&at(values, row)?.to_le_bytes()),
            Source::Boolean(values) if row < values.len() => out.push(values.value(row).into()),
            Source::Text(offsets, data) => text(offsets, data, row, out)?,
            Source::Branch(of) => {
                let Branch { nulls, null, value, of } = &**of;
                if nulls.as_ref().is_some_and(|nulls| nulls.is_null(row)) {
                    put_long(out, null.ok_or(Reason::Null)?);
                } else {
                    put_long(out, *value);
                    match of {
                        Source::Text(offsets, data) => text(offsets, data, row, out)?,
                        other => other.run(row, out)?,
                    }
                }
            }
            other => other.run_rare(row, out)?,
        }
        Ok(())
    }

    #[inline(never)]
    fn run_rare(&self, row: usize, out: &mut Vec<u8>) -> Step {
        match self {
            Source::Record(fields) => {
                for Field { name, source } in fields {
                    source.step(row, out).map_err(|fault| fault.within(name))?;
                }
            }
            Source::Nothing => (),
            Source::Constant(bytes) => out.extend_from_slice(bytes),
            Source::Required(of) if of.0.is_null(row) => return Err(Reason::Null.into()),
            Source::Required(of) => of.1.run(row, out)?,
            Source::Keys(of) => of.1.run(at(&of.0, row)?, out)?,
            Source::Symbols(of) => {
                let symbol = of.0.get(row)?;
                put_long(out, of.1.number(symbol).ok_or_else(|| unknown(symbol))?);
            }
            Source::Numbers(of) => match at(&of.0, row)? {
                ..0 => of.1.run(row, out)?,
                number => put_long(out, number),
            },
            Source::Scaled(of) => put_long(out, scaled(of, row)?),
            Source::Bytes(of) => prefixed(of.get(row)?, out),
            Source::Fixed(of) => match of.0.get(row)? {
                bytes if bytes.len() == of.1 => out.extend_from_slice(bytes),
                bytes => return Err(Reason::Size(bytes.len(), of.1).into()),
            },
            Source::Uuid(of) => match of.get(row)?.try_into() {
                Ok(bytes) => prefixed(hyphened(bytes).as_bytes(), out),
                Err(_) => return Err(Reason::Uuid.into()),
            },
            Source::UuidBytes(of) => out.extend(unhyphened(of.get(row)?).ok_or(Reason::Uuid)?),
            Source::Duration(values) => duration(at(values, row)?, out)?,
            Source::Decimal(of) => {
                let value = at(&of.values, row)?;
                within(value, value.wrapping_neg(), of)?;
                decimal(&value.to_be_bytes(), of.size, out);
            }
            Source::WideDecimal(of) => {
                let value: i256 = at(&of.values, row)?;
                within(value, value.wrapping_neg(), of)?;
                decimal(&value.to_be_bytes(), of.size, out);
            }
            Source::List(of) => list(&of.0, &of.1, row, out)?,
            Source::Map(of) => map(of, row, out)?,
            Source::Members(of) => members(of, row, out)?,
            Source::Boolean(_) => return Err(beyond()),
            // The other types are handled by `step`.
            _ => return self.run(row, out),
        }
        Ok(())
    }
}

/// Encodes bytes or text without the length prefix.
pub(crate) fn unprefixed(source: &Source, row: usize, out: &mut Vec<u8>) -> Step {
    let start = out.len();
    source.run(row, out)?;
    let more = out.iter().skip(start).take_while(|byte| **byte >= 0x80).count();
    drop(out.drain(start..(start + more + 1).min(out.len())));
    Ok(())
}

#[inline(always)]
pub(crate) fn at<T: Copy>(values: &[T], row: usize) -> Step<T> {
    match values.get(row) {
        Some(value) => Ok(*value),
        None => Err(beyond()),
    }
}

/// Writes a zig-zag varint. Most have one or two bytes.
#[inline(always)]
fn put_long(out: &mut Vec<u8>, value: i64) {
    let raw = (value << 1 ^ value >> 63) as u64;
    if raw < 0x80 {
        out.push(raw as u8);
    } else if raw < 0x4000 {
        out.extend_from_slice(&[raw as u8 | 0x80, (raw >> 7) as u8]);
    } else {
        put_varlong(out, value);
    }
}

#[inline(always)]
fn text(offsets: &[i32], data: &[u8], row: usize, out: &mut Vec<u8>) -> Step {
    let range = range(offsets, row)?;
    let piece = ShortBytes::of(data, range.start, range.len()).ok_or_else(beyond)?;
    put_long(out, range.len() as i64);
    piece.append_to(out);
    Ok(())
}

fn prefixed(bytes: &[u8], out: &mut Vec<u8>) {
    put_long(out, bytes.len() as i64);
    out.extend_from_slice(bytes);
}

fn scaled(of: &Scaled, row: usize) -> Step<i64> {
    let value = at(&of.values, row)?;
    if value % of.per != 0 {
        return Err(Reason::Inexact(value, of.per).into());
    }
    let value = (value / of.per).checked_mul(of.times).ok_or(Reason::TimeUnit)?;
    if of.narrow && i32::try_from(value).is_err() {
        return Err(Reason::TimeUnit.into());
    }
    Ok(value)
}

fn within<T: PartialOrd + ArrowNativeType>(value: T, negative: T, of: &Decimal<T>) -> Step {
    match of.beyond {
        Some(beyond) if value >= beyond || negative >= beyond => Err(Reason::Digits(of.precision).into()),
        _ => Ok(()),
    }
}

/// Writes a big-endian number in as few bytes as possible or, for a fixed, in `size` bytes.
fn decimal(bytes: &[u8], size: Option<usize>, out: &mut Vec<u8>) {
    let sign = if bytes.first().is_some_and(|byte| *byte >= 0x80) { 0xff } else { 0 };
    let mut kept = bytes;
    while let [first, next, ..] = kept
        && *first == sign
        && (*next ^ sign) < 0x80
    {
        kept = kept.get(1..).unwrap_or_default();
    }
    match size {
        None => prefixed(kept, out),
        // The number always fits, because the precision of the type is small enough for the size.
        Some(size) => {
            out.extend(std::iter::repeat_n(sign, size.saturating_sub(kept.len())));
            out.extend_from_slice(kept);
        }
    }
}

fn duration(value: IntervalMonthDayNano, out: &mut Vec<u8>) -> Step {
    let millis = value.nanoseconds / 1_000_000;
    let parts = [i64::from(value.months), i64::from(value.days), millis].map(u32::try_from);
    let [Ok(months), Ok(days), Ok(millis)] = parts else { return Err(Reason::Negated.into()) };
    if value.nanoseconds % 1_000_000 != 0 {
        return Err(Reason::Inexact(value.nanoseconds, 1_000_000).into());
    }
    for part in [months, days, millis] {
        out.extend_from_slice(&part.to_le_bytes());
    }
    Ok(())
}

fn list(ranges: &Ranges, items: &Source, row: usize, out: &mut Vec<u8>) -> Step {
    let range = ranges.of(row)?;
    let start = range.start;
    if !range.is_empty() {
        put_long(out, range.len() as i64);
        for item in range {
            items.step(item, out).map_err(|fault| fault.at(item - start))?;
        }
    }
    out.push(0);
    Ok(())
}

fn map(of: &Entries, row: usize, out: &mut Vec<u8>) -> Step {
    let range = of.ranges.of(row)?;
    if !range.is_empty() {
        put_long(out, range.len() as i64);
        for item in range {
            of.keys.step(item, out)?;
            of.values.step(item, out).map_err(|fault| match of.names.get(item) {
                Ok(key) => fault.at(format_args!("{:?}", String::from_utf8_lossy(key))),
                Err(_) => fault,
            })?;
        }
    }
    out.push(0);
    Ok(())
}

fn members(of: &Members, row: usize, out: &mut Vec<u8>) -> Step {
    let Members { nulls, null, members } = of;
    let valid = |nulls: &Option<NullBuffer>| nulls.as_ref().is_none_or(|nulls| nulls.is_valid(row));
    let mut set = members.iter().filter(|member| valid(nulls) && valid(&member.nulls));
    match (set.next(), set.next(), null) {
        (Some(Member { name, branch, of, .. }), None, _) => {
            put_long(out, *branch);
            of.run(row, out).map_err(|fault| fault.within(name))
        }
        (Some(one), Some(other), _) => Err(Reason::Members(one.name.clone(), other.name.clone()).into()),
        // Some libraries cannot write null structs, and instead write structs whose fields are all null. Such a struct
        // is encoded as null, too.
        (None, _, Some(null)) => {
            put_long(out, *null);
            Ok(())
        }
        (None, ..) => Err(Reason::Null.into()),
    }
}

#[cold]
fn unknown(symbol: &[u8]) -> Reason {
    Reason::NoSymbol(String::from_utf8_lossy(symbol).into())
}
