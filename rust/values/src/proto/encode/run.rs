//! Encoding of rows.

use samsarrow_wire::varint::{put_unsigned_varint, put_unsigned_varlong, size_of_unsigned_varlong};

use super::json;
use super::source::{Field, Names, Rule, Source, Value};
use crate::error::{Reason, Step};
use crate::layout::{beyond, range};

impl Source {
    /// Appends the encoded message of a row.
    ///
    /// # Errors
    /// Fails if a required field is null, or if a value cannot be represented. The error contains the field.
    pub(crate) fn run(&self, row: usize, out: &mut Vec<u8>) -> Step {
        for members in &self.oneofs {
            let mut set = members.iter().filter_map(|at| self.fields.get(*at)).filter(|field| !field.is_null(row));
            if let (Some(one), Some(other)) = (set.next(), set.next()) {
                let text = format!("{} and {} are set, of which one may be", one.name, other.name);
                return Err(Reason::Other(text.into()).into());
            }
        }
        for field in &self.fields {
            field.run(row, out).map_err(|fault| fault.within(&field.name))?;
        }
        Ok(())
    }
}

impl Field {
    fn is_null(&self, row: usize) -> bool {
        self.nulls.as_ref().is_some_and(|nulls| nulls.is_null(row))
    }

    fn run(&self, row: usize, out: &mut Vec<u8>) -> Step {
        match &self.rule {
            Rule::Required if self.is_null(row) => Err(Reason::Other("the field is required, and null".into()).into()),
            _ if self.is_null(row) => Ok(()),
            Rule::Present | Rule::Required => self.one(row, out),
            Rule::Implicit if self.value.is_default(row) => Ok(()),
            Rule::Implicit => self.one(row, out),
            Rule::List(ranges) => {
                for (number, item) in ranges.of(row)?.enumerate() {
                    let put = self.item(item).and_then(|()| self.one(item, out));
                    put.map_err(|fault| fault.at(number))?;
                }
                Ok(())
            }
            Rule::Packed(ranges) => {
                let items = ranges.of(row)?;
                if items.is_empty() {
                    return Ok(());
                }
                put_unsigned_varint(out, self.tag);
                sized(out, |out| {
                    for (number, item) in items.enumerate() {
                        let put = self.item(item).and_then(|()| self.value.put(item, out));
                        put.map_err(|fault| fault.at(number))?;
                    }
                    Ok(())
                })
            }
            Rule::Map(offsets, keys) => {
                for (number, entry) in range(offsets, row)?.enumerate() {
                    put_unsigned_varint(out, self.tag);
                    let written = sized(out, |out| {
                        keys.one(entry, out)?;
                        self.item(entry)?;
                        put_unsigned_varint(out, 2 << 3 | self.value.wire());
                        self.value.put(entry, out)
                    });
                    written.map_err(|fault| fault.at(number))?;
                }
                Ok(())
            }
        }
    }

    /// Returns an error if an item of a list or map is null.
    fn item(&self, item: usize) -> Step {
        match &self.item_nulls {
            Some(nulls) if nulls.is_null(item) => {
                Err(Reason::Other("Protobuf has no null in lists and maps".into()).into())
            }
            _ => Ok(()),
        }
    }

    #[inline]
    fn one(&self, row: usize, out: &mut Vec<u8>) -> Step {
        put_unsigned_varint(out, self.tag);
        self.value.put(row, out)?;
        if self.value.wire() == 3 {
            put_unsigned_varint(out, self.tag + 1);
        }
        Ok(())
    }
}

/// Appends what `write` writes, preceded by the length of these bytes.
pub(super) fn sized(out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>) -> Step) -> Step {
    let at = out.len();
    // Reserve one byte, which is enough for most lengths.
    out.push(0);
    write(out)?;
    let len = out.len() - at - 1;
    let more = size_of_unsigned_varlong(len as u64) - 1;
    if more > 0 {
        out.resize(out.len() + more, 0);
        out.copy_within(at + 1..at + 1 + len, at + 1 + more);
    }
    let mut left = len;
    for byte in out.iter_mut().skip(at).take(more + 1) {
        *byte = left as u8 & 0x7f | 0x80;
        left >>= 7;
    }
    if let Some(last) = out.get_mut(at + more) {
        *last &= 0x7f;
    }
    Ok(())
}

pub(super) fn bytes(value: &[u8], out: &mut Vec<u8>) {
    put_unsigned_varlong(out, value.len() as u64);
    out.extend_from_slice(value);
}

impl Value {
    #[inline]
    fn put(&self, row: usize, out: &mut Vec<u8>) -> Step {
        match self {
            Value::Int(of) => put_unsigned_varlong(out, i64::from(of.value(row)) as u64),
            Value::Uint(of) => put_unsigned_varint(out, of.value(row)),
            Value::Long(of) => put_unsigned_varlong(out, of.value(row) as u64),
            Value::Ulong(of) => put_unsigned_varlong(out, of.value(row)),
            Value::ZigzagInt(of) => put_unsigned_varint(out, (of.value(row) << 1 ^ of.value(row) >> 31) as u32),
            Value::ZigzagLong(of) => put_unsigned_varlong(out, (of.value(row) << 1 ^ of.value(row) >> 63) as u64),
            Value::FixedInt(of) => out.extend_from_slice(&of.value(row).to_le_bytes()),
            Value::FixedUint(of) => out.extend_from_slice(&of.value(row).to_le_bytes()),
            Value::FixedLong(of) => out.extend_from_slice(&of.value(row).to_le_bytes()),
            Value::FixedUlong(of) => out.extend_from_slice(&of.value(row).to_le_bytes()),
            Value::Float(of) => out.extend_from_slice(&of.value(row).to_le_bytes()),
            Value::Double(of) => out.extend_from_slice(&of.value(row).to_le_bytes()),
            Value::Boolean(of) => out.push(of.value(row).into()),
            Value::Bytes(of) => bytes(of.get(row)?, out),
            Value::Name(of, names) => put_unsigned_varlong(out, i64::from(names.number(of.get(row)?)?) as u64),
            Value::Message(of) => sized(out, |out| of.run(row, out))?,
            Value::Group(of) => of.run(row, out)?,
            Value::Timestamp(of, per_second) => {
                let value = of.value(row);
                sized(out, |out| {
                    let nanos = value.rem_euclid(*per_second) * (1_000_000_000 / per_second);
                    time(value.div_euclid(*per_second), nanos, out);
                    Ok(())
                })?;
            }
            Value::Duration(of) => {
                let micros = of.value(row);
                sized(out, |out| {
                    time(micros / 1_000_000, micros % 1_000_000 * 1000, out);
                    Ok(())
                })?;
            }
            Value::Wrapper(field) => sized(out, |out| field.run(row, out))?,
            Value::Json(of, what) => sized(out, |out| json::put(*what, of.get(row)?, out))?,
            Value::Keys(keys, of) => of.put(*keys.get(row).ok_or_else(beyond)?, out)?,
        }
        Ok(())
    }

    /// Returns true if the value is the default of its type, which is not written for fields with implicit presence.
    fn is_default(&self, row: usize) -> bool {
        match self {
            Value::Int(of) | Value::ZigzagInt(of) | Value::FixedInt(of) => of.value(row) == 0,
            Value::Uint(of) | Value::FixedUint(of) => of.value(row) == 0,
            Value::Long(of) | Value::ZigzagLong(of) | Value::FixedLong(of) => of.value(row) == 0,
            Value::Ulong(of) | Value::FixedUlong(of) => of.value(row) == 0,
            // Negative zero differs from the default, so the bits are compared.
            Value::Float(of) => of.value(row).to_bits() == 0,
            Value::Double(of) => of.value(row).to_bits() == 0,
            Value::Boolean(of) => !of.value(row),
            Value::Bytes(of) => of.get(row).is_ok_and(<[u8]>::is_empty),
            Value::Name(of, names) => {
                of.get(row).and_then(|name| names.number(name)).is_ok_and(|number| number == names.default)
            }
            Value::Keys(keys, of) => keys.get(row).is_some_and(|key| of.is_default(*key)),
            _ => false,
        }
    }

    pub(super) fn wire(&self) -> u32 {
        match self {
            Value::FixedLong(_) | Value::FixedUlong(_) | Value::Double(_) => 1,
            Value::FixedInt(_) | Value::FixedUint(_) | Value::Float(_) => 5,
            Value::Group(_) => 3,
            Value::Bytes(_) | Value::Message(_) | Value::Timestamp(..) | Value::Duration(_) => 2,
            Value::Wrapper(_) | Value::Json(..) => 2,
            Value::Keys(_, of) => of.wire(),
            _ => 0,
        }
    }
}

/// Writes the fields 1 (seconds) and 2 (nanos) of a Timestamp or Duration.
fn time(seconds: i64, nanos: i64, out: &mut Vec<u8>) {
    for (tag, value) in [(0x08, seconds), (0x10, nanos)] {
        if value != 0 {
            out.push(tag);
            put_unsigned_varlong(out, value as u64);
        }
    }
}

impl Names {
    /// Returns the number of an enum value. The decoder returns unknown values as digits, so digits are accepted as
    /// well.
    fn number(&self, name: &[u8]) -> Step<i32> {
        let name = String::from_utf8_lossy(name);
        match self.numbers.get(&*name) {
            Some(number) => Ok(*number),
            None => name.parse().map_err(|_| Reason::Other(format!("enum {} has no {name}", self.name).into()).into()),
        }
    }
}
