//! Wire encoding of Kafka's primitive types.

use bytes::{Buf, BufMut, Bytes};

use super::error::{DecodeError, DecodeErrorKind, EncodeError};
use super::message_buf::MessageBuf;
use super::reader::Reader;

/// A UUID, which has 16 bytes on the wire. All zeroes stand for no UUID.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, PartialOrd, Ord)]
pub struct Uuid(pub [u8; 16]);

impl Uuid {
    /// The zero id, which stands for none.
    pub const ZERO: Uuid = Uuid([0; 16]);

    /// Returns true if this is the zero id.
    pub fn is_zero(&self) -> bool {
        *self == Self::ZERO
    }
}

impl std::fmt::Debug for Uuid {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.iter().try_for_each(|b| write!(f, "{b:02x}"))
    }
}

/// Secret bytes, whose debug output is `[hidden]`. They are encoded like ordinary bytes.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Hidden(pub Bytes);

impl std::fmt::Debug for Hidden {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("[hidden]")
    }
}

/// The message version and the encoding that apply to a field.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Cx {
    pub(crate) version: i16,
    pub(crate) flexible: bool,
}

impl Cx {
    pub(crate) const PLAIN: Cx = Cx { version: 0, flexible: false };
}

/// A type with a wire encoding.
pub(crate) trait Wire: Sized {
    fn write(&self, cx: Cx, out: &mut MessageBuf) -> Result<(), EncodeError>;
    fn read(cx: Cx, input: &mut Reader) -> Result<Self, DecodeError>;
    fn is_null(&self) -> bool {
        false
    }
    /// Returns the value of the field `throttle_time_ms`, or 0 if the message does not have this field.
    fn throttle_time_ms(&self) -> i32 {
        0
    }
    /// Sets the field `throttle_time_ms` if the message has it.
    fn set_throttle_time_ms(&mut self, _: i32) {}
    /// Decodes the fields up to `throttle_time_ms`, and returns it, or 0 if the message does not have this field.
    fn read_throttle_time_ms(_: Cx, _: &mut Reader) -> Result<i32, DecodeError> {
        Ok(0)
    }
}

pub(crate) fn put_unsigned_varint(mut value: u32, out: &mut MessageBuf) {
    while value >= 0x80 {
        out.put_u8((value & 0x7f) as u8 | 0x80);
        value >>= 7;
    }
    out.put_u8(value as u8);
}

/// Writes a length, or null.
fn put_length(
    length: Option<usize>,
    what: &'static str,
    compact: bool,
    short: bool,
    out: &mut MessageBuf,
) -> Result<(), EncodeError> {
    let signed = match length {
        None => -1,
        Some(length) => i32::try_from(length).map_err(|_| EncodeError::TooLong { what, length })?,
    };
    // Compact strings could be longer, but Kafka's own readers enforce the same maximum for them.
    let too_long = |_| EncodeError::TextTooLong { field: "", length: length.unwrap_or(0) };
    let short = short.then(|| i16::try_from(signed).map_err(too_long)).transpose()?;
    match (compact, short) {
        (true, _) => put_unsigned_varint(signed.wrapping_add(1).cast_unsigned(), out),
        (false, Some(short)) => out.put_i16(short),
        (false, None) => out.put_i32(signed),
    }
    Ok(())
}

macro_rules! numbers {
    ($($type:ty, $get:ident, $put:ident, $size:literal;)*) => {$(
        impl Wire for $type {
            fn write(&self, _: Cx, out: &mut MessageBuf) -> Result<(), EncodeError> {
                out.$put(*self);
                Ok(())
            }
            fn read(_: Cx, input: &mut Reader) -> Result<Self, DecodeError> {
                input.need($size)?;
                Ok(input.bytes.$get())
            }
        }
    )*};
}

numbers! {
    i8, get_i8, put_i8, 1;
    i16, get_i16, put_i16, 2;
    u16, get_u16, put_u16, 2;
    i32, get_i32, put_i32, 4;
    i64, get_i64, put_i64, 8;
    f64, get_f64, put_f64, 8;
}

impl Wire for bool {
    fn write(&self, _: Cx, out: &mut MessageBuf) -> Result<(), EncodeError> {
        out.put_u8(u8::from(*self));
        Ok(())
    }
    fn read(cx: Cx, input: &mut Reader) -> Result<Self, DecodeError> {
        Ok(i8::read(cx, input)? != 0)
    }
}

impl Wire for Uuid {
    fn write(&self, _: Cx, out: &mut MessageBuf) -> Result<(), EncodeError> {
        out.put_slice(&self.0);
        Ok(())
    }
    fn read(_: Cx, input: &mut Reader) -> Result<Self, DecodeError> {
        input.need(16)?;
        let mut id = [0; 16];
        input.bytes.copy_to_slice(&mut id);
        Ok(Uuid(id))
    }
}

impl Wire for Option<String> {
    fn write(&self, cx: Cx, out: &mut MessageBuf) -> Result<(), EncodeError> {
        put_length(self.as_ref().map(String::len), "text", cx.flexible, true, out)?;
        out.put_slice(self.as_deref().unwrap_or_default().as_bytes());
        Ok(())
    }
    fn read(cx: Cx, input: &mut Reader) -> Result<Self, DecodeError> {
        let Some(length) = input.length(cx.flexible, true)? else { return Ok(None) };
        let bytes = input.take(length)?;
        match std::str::from_utf8(&bytes) {
            Ok(text) => Ok(Some(text.to_owned())),
            Err(_) => Err(input.error(DecodeErrorKind::Utf8)),
        }
    }
    fn is_null(&self) -> bool {
        self.is_none()
    }
}

impl Wire for Option<Bytes> {
    fn write(&self, cx: Cx, out: &mut MessageBuf) -> Result<(), EncodeError> {
        put_length(self.as_ref().map(Bytes::len), "byte field", cx.flexible, false, out)?;
        if let Some(bytes) = self {
            out.put_field(bytes);
        }
        Ok(())
    }
    fn read(cx: Cx, input: &mut Reader) -> Result<Self, DecodeError> {
        match input.length(cx.flexible, false)? {
            None => Ok(None),
            Some(length) => Ok(Some(input.take(length)?)),
        }
    }
    fn is_null(&self) -> bool {
        self.is_none()
    }
}

impl Wire for Hidden {
    fn write(&self, cx: Cx, out: &mut MessageBuf) -> Result<(), EncodeError> {
        self.0.write(cx, out)
    }
    fn read(cx: Cx, input: &mut Reader) -> Result<Self, DecodeError> {
        Bytes::read(cx, input).map(Hidden)
    }
}

/// Reads the elements of an array; `None` means null.
fn read_array<T: Wire>(cx: Cx, input: &mut Reader) -> Result<Option<Vec<T>>, DecodeError> {
    let Some(count) = input.length(cx.flexible, false)? else { return Ok(None) };
    let left = input.remaining();
    // Each element has at least one byte. Memory is reserved only up to the memory limit of the input.
    if count > left {
        return Err(input.error(DecodeErrorKind::Count { count: count as i64, left }));
    }
    let mut elements = Vec::with_capacity(count.min(left / size_of::<T>().max(1) + 1));
    for _ in 0..count {
        input.charge(size_of::<T>())?;
        elements.push(T::read(cx, input)?);
    }
    Ok(Some(elements))
}

fn write_array<T: Wire>(elements: Option<&Vec<T>>, cx: Cx, out: &mut MessageBuf) -> Result<(), EncodeError> {
    put_length(elements.map(Vec::len), "array", cx.flexible, false, out)?;
    elements.into_iter().flatten().try_for_each(|e| e.write(cx, out))
}

impl<T: Wire> Wire for Option<Vec<T>> {
    fn write(&self, cx: Cx, out: &mut MessageBuf) -> Result<(), EncodeError> {
        write_array(self.as_ref(), cx, out)
    }
    fn read(cx: Cx, input: &mut Reader) -> Result<Self, DecodeError> {
        read_array(cx, input)
    }
    fn is_null(&self) -> bool {
        self.is_none()
    }
}

/// Writes a nullable struct, preceded by a byte that is negative for null.
pub(crate) fn write_optional<T: Wire>(value: Option<&T>, cx: Cx, out: &mut MessageBuf) -> Result<(), EncodeError> {
    out.put_i8(if value.is_some() { 1 } else { -1 });
    value.map_or(Ok(()), |value| value.write(cx, out))
}

/// Reads a nullable struct.
pub(crate) fn read_optional<T: Wire>(cx: Cx, input: &mut Reader) -> Result<Option<T>, DecodeError> {
    if i8::read(cx, input)? < 0 { Ok(None) } else { T::read(cx, input).map(Some) }
}

/// Implements the non-nullable form of a nullable type. It has the same encoding, but reading null fails.
macro_rules! non_nullable {
    ($([$($generic:tt)*] $type:ty, |$value:ident, $cx:ident, $out:ident| $write:expr;)*) => {$(
        impl<$($generic)*> Wire for $type {
            fn write(&self, $cx: Cx, $out: &mut MessageBuf) -> Result<(), EncodeError> {
                let $value = self;
                $write
            }
            fn read(cx: Cx, input: &mut Reader) -> Result<Self, DecodeError> {
                Option::<$type>::read(cx, input)?.ok_or_else(|| input.error(DecodeErrorKind::Null))
            }
        }
    )*};
}

fn write_text(text: &str, cx: Cx, out: &mut MessageBuf) -> Result<(), EncodeError> {
    put_length(Some(text.len()), "text", cx.flexible, true, out)?;
    out.put_slice(text.as_bytes());
    Ok(())
}

fn write_bytes(bytes: &Bytes, cx: Cx, out: &mut MessageBuf) -> Result<(), EncodeError> {
    put_length(Some(bytes.len()), "byte field", cx.flexible, false, out)?;
    out.put_field(bytes);
    Ok(())
}

non_nullable! {
    [] String, |text, cx, out| write_text(text, cx, out);
    [] Bytes, |bytes, cx, out| write_bytes(bytes, cx, out);
    [T: Wire] Vec<T>, |elements, cx, out| write_array(Some(elements), cx, out);
}

/// Reads a field that is nullable only in some versions.
pub(crate) fn read_nullable<T: Wire>(nullable: bool, cx: Cx, input: &mut Reader) -> Result<T, DecodeError> {
    let value = T::read(cx, input)?;
    if value.is_null() && !nullable { Err(input.error(DecodeErrorKind::Null)) } else { Ok(value) }
}

/// Reads a field of a response that has `error_code`. Null is read as empty if the code is not 0.
pub(crate) fn read_or_empty<T: Default>(error_code: i16, cx: Cx, input: &mut Reader) -> Result<T, DecodeError>
where
    Option<T>: Wire,
{
    let value = Option::<T>::read(cx, input)?;
    let empty = (error_code != 0).then(T::default);
    value.or(empty).ok_or_else(|| input.error(DecodeErrorKind::Null))
}

/// Writes the tagged fields at the end of a flexible struct, in the order of their tags (KIP-482).
pub(crate) fn write_tagged(mut tagged: Vec<(u32, Bytes)>, unknown: &[(u32, Bytes)], out: &mut MessageBuf) {
    tagged.extend_from_slice(unknown);
    tagged.sort_by_key(|(tag, _)| *tag);
    put_unsigned_varint(tagged.len() as u32, out);
    for (tag, bytes) in tagged {
        put_unsigned_varint(tag, out);
        put_unsigned_varint(bytes.len() as u32, out);
        out.put_slice(&bytes);
    }
}

/// Reads the tagged fields at the end of a flexible struct, and returns one reader for each field. The fields are
/// sorted by tag, so that messages compare equal even if a sender violates the order that the protocol requires.
pub(crate) fn read_tagged(input: &mut Reader) -> Result<Vec<(u32, Reader)>, DecodeError> {
    let count = input.unsigned_varint()? as usize;
    let left = input.remaining();
    if count > left {
        return Err(input.error(DecodeErrorKind::Count { count: count as i64, left }));
    }
    let mut tagged = Vec::new();
    for _ in 0..count {
        input.charge(size_of::<(u32, Reader)>())?;
        let tag = input.unsigned_varint()?;
        let length = input.unsigned_varint()? as usize;
        tagged.push((tag, input.part(length)?));
    }
    tagged.sort_by_key(|(tag, _)| *tag);
    Ok(tagged)
}

/// Reads the value of a tagged field, which must use all bytes of `field`. The memory of the value counts towards the
/// limit of `message`.
pub(crate) fn read_tagged_value<T: Wire>(cx: Cx, message: &mut Reader, field: &mut Reader) -> Result<T, DecodeError> {
    field.budget = message.budget;
    let value = T::read(cx, field)?;
    message.budget = field.budget;
    field.finish()?;
    Ok(value)
}
