//! The part of a frame that identifies the message type within a schema. This part follows the schema id.

use samsarrow_wire::varint::put_unsigned_varlong;

use crate::byte_reader::ByteReader;
use crate::framing::{FrameError, Framing, SchemaId};

/// Maximum number of message indexes, which is the maximum nesting of messages.
const MAX_INDEXES: i64 = 100;

/// Tag of field 1, whose value has a length prefix.
const NAME_KEY: u64 = 1 << 3 | 2;

/// Encoded message indexes: the index of a top-level message in the file, then the index of a message nested in it, and
/// so on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MessageIndexes<'a>(pub(super) &'a [u8]);

impl MessageIndexes<'_> {
    /// Returns the indexes. An encoded empty list stands for the first message of the file.
    pub(super) fn numbers(self) -> Option<Vec<i64>> {
        let mut input = ByteReader::new(self.0);
        let count = input.long().ok()?;
        if count == 0 {
            return Some(vec![0]);
        }
        (0..count).map(|_| input.long().ok()).collect()
    }
}

/// Identifies the message type of a value within its schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Which<'a> {
    /// Message indexes, as Confluent's serializers write them.
    At(MessageIndexes<'a>),
    /// Name of the message without the package, as Apicurio's serializers write it.
    Named(&'a str),
    /// Index among the full names of all messages of the file in lexicographic order, as the serializers of AWS Glue
    /// Schema Registry write it.
    Sorted(usize),
}

/// Splits a value into its schema id, message type and payload. If Confluent's serializers write the id into a header,
/// the header also contains the message indexes.
///
/// # Errors
/// Fails if the value has no schema id or no message type, or if its header is malformed.
pub fn split<'a>(
    framing: Framing,
    value: &'a [u8],
    header: Option<&'a [u8]>,
) -> Result<(SchemaId, Which<'a>, &'a [u8]), FrameError> {
    if let (Framing::Auto | Framing::Header, Some(header)) = (framing, header) {
        let len = if header.first() == Some(&1) { 17 } else { 5 };
        let (head, indexes) = header.split_at_checked(len).ok_or(FrameError::Header(header.len()))?;
        let (id, _) = crate::framing::split(framing, &[], Some(head))?;
        let (indexes, rest) = split_indexes(indexes).ok_or(FrameError::Indexes)?;
        return if rest.is_empty() {
            Ok((id, Which::At(indexes), value))
        } else {
            Err(FrameError::Header(header.len()))
        };
    }
    let (id, rest) = crate::framing::split(framing, value, None)?;
    match framing {
        _ if id == SchemaId::Bare => Ok((id, Which::At(MessageIndexes(&[0])), rest)),
        Framing::Apicurio => {
            let (name, rest) = split_name(rest).ok_or(FrameError::Name)?;
            Ok((id, Which::Named(name), rest))
        }
        Framing::Glue => {
            let mut input = ByteReader::new(rest);
            let index = input.varint().ok().and_then(|index| usize::try_from(index).ok());
            Ok((id, Which::Sorted(index.ok_or(FrameError::Index)?), input.rest()))
        }
        _ => {
            let (indexes, rest) = split_indexes(rest).ok_or(FrameError::Indexes)?;
            Ok((id, Which::At(indexes), rest))
        }
    }
}

/// Returns the schema id of a value, or `None` if it has none. In values of AWS Glue Schema Registry, which may be
/// compressed, the message type is not checked.
pub(crate) fn id(framing: Framing, value: &[u8], header: Option<&[u8]>) -> Option<SchemaId> {
    if framing == Framing::Glue {
        return crate::framing::split(framing, value, None).ok().map(|(id, _)| id);
    }
    split(framing, value, header).ok().map(|(id, ..)| id)
}

/// Parses the message name that Apicurio's serializers write: a message with a length prefix, which contains the name
/// in field 1. Returns the name and the rest of the value.
fn split_name(bytes: &[u8]) -> Option<(&str, &[u8])> {
    let mut input = ByteReader::new(bytes);
    let len = usize::try_from(input.varint().ok()?).ok()?;
    let mut named = ByteReader::new(input.bytes(len).ok()?);
    if named.varint().ok()? != NAME_KEY {
        return None;
    }
    let len = usize::try_from(named.varint().ok()?).ok()?;
    let name = std::str::from_utf8(named.bytes(len).ok()?).ok()?;
    (named.len() == 0).then_some((name, input.rest()))
}

/// Writes the message name like Apicurio's serializers.
pub(super) fn put_name(name: &str, out: &mut Vec<u8>) {
    let mut named = Vec::new();
    put_unsigned_varlong(&mut named, NAME_KEY);
    put_unsigned_varlong(&mut named, name.len() as u64);
    named.extend_from_slice(name.as_bytes());
    put_unsigned_varlong(out, named.len() as u64);
    out.extend_from_slice(&named);
}

/// Splits off the message indexes, which are a count and as many zig-zag varints. The count 0 stands for the single
/// index 0.
fn split_indexes(bytes: &[u8]) -> Option<(MessageIndexes<'_>, &[u8])> {
    let mut input = ByteReader::new(bytes);
    let count = input.long().ok()?;
    if !(0..=MAX_INDEXES).contains(&count) {
        return None;
    }
    for _ in 0..count {
        input.skip_varint().ok()?;
    }
    let (indexes, rest) = bytes.split_at_checked(bytes.len() - input.len())?;
    Some((MessageIndexes(indexes), rest))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]
    use super::*;

    fn auto<'a>(value: &'a [u8], header: Option<&'a [u8]>) -> Result<(SchemaId, Vec<i64>, &'a [u8]), FrameError> {
        split(Framing::Auto, value, header).map(|(id, which, rest)| {
            let Which::At(indexes) = which else { panic!("indexes, not {which:?}") };
            (id, indexes.numbers().unwrap(), rest)
        })
    }

    #[test]
    fn splits_apicurio_message_names() {
        fn named(value: &[u8]) -> Result<(SchemaId, Which<'_>, &[u8]), FrameError> {
            split(Framing::Apicurio, value, None)
        }
        for name in ["Order".to_owned(), "Ä".repeat(100)] {
            let mut value = vec![0, 0, 0, 0, 0, 0, 0, 0, 7];
            put_name(&name, &mut value);
            let frame = value.len();
            value.extend_from_slice(b"rest");
            assert_eq!(named(&value), Ok((SchemaId::Id(7), Which::Named(&name), &b"rest"[..])));
            for len in 9..frame {
                assert_eq!(named(&value[..len]), Err(FrameError::Name), "{len}");
            }
        }
        // The message has another field, trailing bytes, invalid UTF-8 or no field.
        for name in [&b"\x03\x12\x01a"[..], b"\x04\x0a\x01ab", b"\x03\x0a\x01\xff", b"\0"] {
            assert_eq!(named(&[&[0, 0, 0, 0, 0, 0, 0, 0, 7][..], name].concat()), Err(FrameError::Name));
        }
    }

    #[test]
    fn splits_message_indexes() {
        let id = SchemaId::Id(7);
        assert_eq!(auto(b"\0\0\0\0\x07\0rest", None), Ok((id, vec![0], &b"rest"[..])));
        assert_eq!(auto(b"\0\0\0\0\x07\x02\x02rest", None), Ok((id, vec![1], &b"rest"[..])));
        assert_eq!(auto(b"\0\0\0\0\x07\x04\x00\x80\x01", None), Ok((id, vec![0, 64], &b""[..])));
        assert_eq!(auto(b"rest", Some(b"\0\0\0\0\x07\x02\x02")), Ok((id, vec![1], &b"rest"[..])));
        let guid = SchemaId::Guid(*b"0123456789abcdef");
        assert_eq!(auto(b"rest", Some(b"\x010123456789abcdef\0")), Ok((guid, vec![0], &b"rest"[..])));
        let bare = split(Framing::Bare, b"\0\0", None).unwrap();
        assert_eq!((bare.0, bare.2), (SchemaId::Bare, &b"\0\0"[..]));
    }

    #[test]
    fn rejects_frames_without_message() {
        for value in [&b"\0\0\0\0\x07"[..], b"\0\0\0\0\x07\x02", b"\0\0\0\0\x07\x01", b"\0\0\0\0\x07\xca\x01"] {
            assert_eq!(auto(value, None), Err(FrameError::Indexes));
        }
        assert_eq!(auto(b"", Some(b"\0\0\0\0\x07")), Err(FrameError::Indexes));
        assert_eq!(auto(b"", Some(b"\0\0\0\0\x07\0\0")), Err(FrameError::Header(7)));
        assert_eq!(auto(b"", Some(b"\x02\0\0\0\x07\0")), Err(FrameError::Header(5)));
        assert_eq!(auto(b"\x01", None), Err(FrameError::None));
    }
}
