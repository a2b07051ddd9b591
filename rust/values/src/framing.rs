//! Framing of values: the id of the writer's schema, in a record header or before the value.

use std::fmt;
use std::io::Read;

use flate2::read::ZlibDecoder;

/// First byte of the frames of AWS Glue Schema Registry.
const GLUE_VERSION: u8 = 3;
/// Second byte of a frame of AWS Glue Schema Registry before a payload that is compressed with zlib.
const GLUE_ZLIB: u8 = 5;
/// Length of a frame of AWS Glue Schema Registry.
const GLUE_LEN: usize = 18;
/// Maximum size of a decompressed payload. A payload of a few kilobytes could otherwise expand to gigabytes.
const MAX_INFLATED: u64 = 64 << 20;

/// Location and format of the id of the writer's schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Framing {
    /// In a record header or, if there is none, in the prefix of Confluent's serializers.
    #[default]
    Auto,
    /// In a record header. The value has no prefix.
    Header,
    /// Byte 0 and a 4-byte id before the value, as Confluent's serializers write them.
    Confluent,
    /// Byte 0 and an 8-byte id before the value, as Apicurio's serializers before version 3 write them.
    Apicurio,
    /// Avro single-object encoding: the bytes C3 01 and the fingerprint of the schema before the value.
    SingleObject,
    /// Byte 3, the compression (0 none, 5 zlib) and the UUID of a schema version before the value, as the serializers of
    /// AWS Glue Schema Registry write them.
    Glue,
    /// No schema id.
    Bare,
}

impl Framing {
    /// Returns the framing with the name `name`.
    pub fn from_name(name: &str) -> Option<Framing> {
        match name {
            "auto" => Some(Framing::Auto),
            "header" => Some(Framing::Header),
            "confluent" => Some(Framing::Confluent),
            "apicurio8" => Some(Framing::Apicurio),
            "single-object" => Some(Framing::SingleObject),
            "glue" => Some(Framing::Glue),
            "none" => Some(Framing::Bare),
            _ => None,
        }
    }

    /// Returns true for the framings of Confluent's serializers. With these framings, a value whose whole type is bytes
    /// has no length prefix.
    pub(crate) fn is_confluents(self) -> bool {
        matches!(self, Framing::Auto | Framing::Header | Framing::Confluent)
    }

    /// Returns true if the schema id is in the first five bytes of values without a header.
    pub(crate) fn has_prefix(self) -> bool {
        matches!(self, Framing::Auto | Framing::Confluent)
    }

    /// Returns the framing with the name `name`, which must be one of `names`.
    ///
    /// # Errors
    /// Fails if the name is unknown.
    pub fn among(names: &[&str], name: &str) -> Result<Framing, String> {
        let known = names.contains(&name).then(|| Framing::from_name(name)).flatten();
        let (last, others) = names.split_last().map_or(("", &[][..]), |(last, others)| (*last, others));
        known.ok_or_else(|| format!("framing must be {} or {last}, not {name:?}", others.join(", ")))
    }
}

/// Part of a record that has a schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum Part {
    /// The key.
    Key,
    /// The value.
    #[default]
    Value,
}

impl Part {
    /// Returns the name of the part: `key` or `value`.
    pub fn name(self) -> &'static str {
        match self {
            Part::Key => "key",
            Part::Value => "value",
        }
    }

    /// Returns the name of the header in which Confluent's serializers write the schema id for this part.
    pub fn header(self) -> &'static str {
        match self {
            Part::Key => "__key_schema_id",
            Part::Value => "__value_schema_id",
        }
    }

    /// Returns the name of the header in which Apicurio's serializers write the content id for this part.
    pub(crate) fn content_header(self) -> &'static str {
        match self {
            Part::Key => "apicurio.key.contentId",
            Part::Value => "apicurio.value.contentId",
        }
    }
}

/// Identifier of the schema that a value was written with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SchemaId {
    /// No id. It stands for the schema of values without a frame.
    Bare,
    /// Id assigned by a registry.
    Id(u64),
    /// Globally unique id, which is the same in all registries.
    Guid([u8; 16]),
    /// CRC-64-AVRO of the schema's canonical form.
    Fingerprint(u64),
}

impl fmt::Display for SchemaId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SchemaId::Bare => f.write_str("the reader's schema"),
            SchemaId::Id(id) => write!(f, "schema id {id}"),
            SchemaId::Guid(guid) => write!(f, "schema {}", hyphened(guid)),
            SchemaId::Fingerprint(print) => write!(f, "schema with fingerprint {print:016x}"),
        }
    }
}

/// Formats a UUID.
pub(crate) fn hyphened(bytes: &[u8; 16]) -> String {
    let mut text = String::with_capacity(36);
    for (at, byte) in bytes.iter().enumerate() {
        if matches!(at, 4 | 6 | 8 | 10) {
            text.push('-');
        }
        for digit in [byte >> 4, byte & 15] {
            text.push(char::from_digit(u32::from(digit), 16).unwrap_or('0'));
        }
    }
    text
}

/// Parses the text of a UUID.
pub(crate) fn unhyphened(text: &[u8]) -> Option<[u8; 16]> {
    let (mut bytes, mut digits) = ([0; 16], 0_usize);
    for (at, byte) in text.iter().enumerate() {
        match (at, byte) {
            (8 | 13 | 18 | 23, b'-') => (),
            (8 | 13 | 18 | 23, _) => return None,
            _ => {
                let digit = char::from(*byte).to_digit(16)? as u8;
                let to = bytes.get_mut(digits / 2)?;
                *to = *to << 4 | digit;
                digits += 1;
            }
        }
    }
    (text.len() == 36).then_some(bytes)
}

/// Returns the reason why values with an unknown id cannot be read.
#[cold]
pub(crate) fn unknown(id: SchemaId) -> String {
    let why = format!("no writer's schema is known for {id}");
    // Id 0 is probably the first half of an 8-byte id.
    if id == SchemaId::Id(0) { format!("{why}: ids of 8 bytes are read with framing \"apicurio8\"") } else { why }
}

/// Returns the prefix for values with this schema id.
///
/// # Errors
/// Fails if the framing requires an id of another kind, or if the id does not fit into the prefix.
pub fn prefix(framing: Framing, id: Option<SchemaId>) -> Result<Vec<u8>, FrameError> {
    match (framing, id) {
        (Framing::Bare | Framing::Header, _) => Ok(Vec::new()),
        (Framing::Auto | Framing::Confluent, Some(SchemaId::Id(id))) => {
            let id = u32::try_from(id).map_err(|_| FrameError::Long(id))?;
            Ok([&[0][..], &id.to_be_bytes()].concat())
        }
        (Framing::Apicurio, Some(SchemaId::Id(id))) => Ok([&[0][..], &id.to_be_bytes()].concat()),
        (Framing::SingleObject, Some(SchemaId::Fingerprint(print))) => {
            Ok([&[0xc3, 0x01][..], &print.to_le_bytes()].concat())
        }
        (Framing::Glue, Some(SchemaId::Guid(version))) => Ok([&[GLUE_VERSION, 0][..], &version].concat()),
        (Framing::Glue, _) => Err(FrameError::Uuid),
        _ => Err(FrameError::Id),
    }
}

/// Reason why a frame cannot be read or written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// There is neither a header nor a prefix.
    #[error(
        "no schema id: neither a header nor byte 0 with an id before the value (values without one are read with framing \
         \"none\")"
    )]
    None,
    /// The value has a frame of AWS Glue's registry.
    #[error(
        "no schema id: the value has a frame of AWS Glue Schema Registry (03, the compression, the UUID of a schema version): \
         read it with framing \"glue\", or with a GlueSchemaRegistry"
    )]
    Glue,
    /// The record has no header with a schema id.
    #[error("no schema id: the record has no header with it")]
    NoHeader,
    /// The value does not begin with the prefix that the framing requires.
    #[error("no schema id: the value does not begin with {0}")]
    Prefix(&'static str),
    /// Malformed header.
    #[error("the header with the schema's id has {0} bytes, or is of another kind")]
    Header(usize),
    /// No message indexes.
    #[error("no message indexes follow the schema's id")]
    Indexes,
    /// No message index.
    #[error("no index of the message follows the UUID of the schema version")]
    Index,
    /// No message name.
    #[error("the message's name, which Apicurio's serializers write behind the schema's id, is missing or cut short")]
    Name,
    /// Invalid zlib data.
    #[error("the frame of AWS Glue Schema Registry says zlib, and the payload is not valid zlib data")]
    Zlib,
    /// Bytes after the zlib data.
    #[error("bytes follow the zlib data of the payload")]
    AfterZlib,
    /// The decompressed payload is too large.
    #[error("the payload decompresses to more than {MAX_INFLATED} bytes")]
    Inflated,
    /// The framing requires a schema id, but none is known.
    #[error("the framing has the schema's id, and none is known")]
    Id,
    /// The framing requires the UUID of a schema version, but none is known.
    #[error(
        "the framing \"glue\" has the UUID of a schema version, and none is known: writers={{uuid: schema}} names it"
    )]
    Uuid,
    /// The id is too large for the framing.
    #[error("the framing has 4 bytes for the schema's id, and {0} does not fit into them")]
    Long(u64),
}

/// Splits a value into its schema id and its payload.
///
/// # Errors
/// Fails if the value has no schema id, or a malformed header.
#[inline]
pub fn split<'a>(framing: Framing, value: &'a [u8], header: Option<&[u8]>) -> Result<(SchemaId, &'a [u8]), FrameError> {
    match (framing, header) {
        (Framing::Auto | Framing::Header, Some(header)) => Ok((of_header(header)?, value)),
        (Framing::Header, None) => Err(FrameError::NoHeader),
        (Framing::Auto | Framing::Confluent, _) => match value {
            [0, a, b, c, d, rest @ ..] => Ok((SchemaId::Id(u32::from_be_bytes([*a, *b, *c, *d]).into()), rest)),
            [3, 0 | 5, rest @ ..] if rest.len() >= 16 => Err(FrameError::Glue),
            _ if framing == Framing::Auto => Err(FrameError::None),
            _ => Err(FrameError::Prefix("byte 0 and 4 bytes")),
        },
        (Framing::Apicurio, _) => match value.split_first_chunk::<9>() {
            Some(([0, id @ ..], rest)) => Ok((SchemaId::Id(u64::from_be_bytes(*id)), rest)),
            _ => Err(FrameError::Prefix("byte 0 and 8 bytes")),
        },
        (Framing::SingleObject, _) => match value.split_first_chunk::<10>() {
            Some(([0xc3, 0x01, print @ ..], rest)) => Ok((SchemaId::Fingerprint(u64::from_le_bytes(*print)), rest)),
            _ => Err(FrameError::Prefix("C3 01 and 8 bytes")),
        },
        (Framing::Glue, _) => match value.split_first_chunk::<18>() {
            Some(([GLUE_VERSION, 0 | GLUE_ZLIB, version @ ..], rest)) => Ok((SchemaId::Guid(*version), rest)),
            _ => Err(FrameError::Prefix("byte 3, byte 0 or 5, and a UUID of 16 bytes")),
        },
        (Framing::Bare, _) => Ok((SchemaId::Bare, value)),
    }
}

/// Returns true if the value has a frame of AWS Glue Schema Registry and a compressed payload.
#[inline]
pub(crate) fn is_compressed(framing: Framing, value: &[u8]) -> bool {
    framing == Framing::Glue && matches!(value, [GLUE_VERSION, GLUE_ZLIB, ..])
}

/// Writes the frame and the decompressed payload of a value for which [`is_compressed`] is true.
///
/// # Errors
/// Fails if the payload is not valid zlib data, or if it is larger than [`MAX_INFLATED`].
pub(crate) fn inflate(value: &[u8], out: &mut Vec<u8>) -> Result<(), FrameError> {
    let (frame, payload) = value.split_at_checked(GLUE_LEN).ok_or(FrameError::Zlib)?;
    out.clear();
    out.extend_from_slice(frame);
    if let Some(compression) = out.get_mut(1) {
        *compression = 0;
    }
    let mut decoder = ZlibDecoder::new(payload);
    let read = decoder.by_ref().take(MAX_INFLATED + 1).read_to_end(out);
    match read {
        Ok(len) if len as u64 > MAX_INFLATED => Err(FrameError::Inflated),
        Ok(_) if decoder.total_in() < payload.len() as u64 => Err(FrameError::AfterZlib),
        Ok(_) => Ok(()),
        Err(_) => Err(FrameError::Zlib),
    }
}

/// Parses the header with the schema id. Headers of Confluent's serializers begin with a byte for the type of the id.
/// Headers of Apicurio's serializers are an 8-byte id, whose first byte is 0 because ids are small.
fn of_header(header: &[u8]) -> Result<SchemaId, FrameError> {
    match header {
        [0, a, b, c, d, e, f, g] => Ok(SchemaId::Id(u64::from_be_bytes([0, *a, *b, *c, *d, *e, *f, *g]))),
        [0, a, b, c, d] => Ok(SchemaId::Id(u32::from_be_bytes([*a, *b, *c, *d]).into())),
        [1, guid @ ..] => guid.try_into().map(SchemaId::Guid).map_err(|_| FrameError::Header(header.len())),
        _ => Err(FrameError::Header(header.len())),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::*;

    #[test]
    fn splits_schema_ids() {
        let id = |id| SchemaId::Id(id);
        let rest: &[u8] = b"rest";
        assert_eq!(split(Framing::Auto, b"\0\0\0\x01\x02rest", None), Ok((id(258), rest)));
        assert_eq!(split(Framing::Auto, b"rest", Some(b"\0\0\0\x01\x02")), Ok((id(258), rest)));
        assert_eq!(split(Framing::Header, b"rest", Some(b"\0\0\0\0\0\0\x01\x02")), Ok((id(258), rest)));
        // If the schema id is in a header, the value has no prefix.
        assert_eq!(split(Framing::Auto, b"\0\0\0\0\x09", Some(b"\0\0\0\0\x01")).unwrap().1.len(), 5);
        assert_eq!(
            split(Framing::Auto, b"rest", Some(b"\x010123456789abcdef")),
            Ok((SchemaId::Guid(*b"0123456789abcdef"), rest))
        );
        assert_eq!(split(Framing::Confluent, b"\0\xff\xff\xff\xffrest", None), Ok((id(u32::MAX.into()), rest)));
        assert_eq!(split(Framing::Apicurio, b"\0\0\0\0\0\0\0\x01\x02rest", None), Ok((id(258), rest)));
        let print = SchemaId::Fingerprint(1);
        assert_eq!(split(Framing::SingleObject, b"\xc3\x01\x01\0\0\0\0\0\0\0rest", None), Ok((print, rest)));
        assert_eq!(split(Framing::Bare, rest, Some(b"x")), Ok((SchemaId::Bare, rest)));
    }

    #[test]
    fn glue_frames_are_split_and_inflated() {
        use std::io::Write;

        let version = *b"0123456789abcdef";
        let value = |compression: u8, payload: &[u8]| [&[3, compression][..], &version, payload].concat();
        let id = SchemaId::Guid(version);
        assert_eq!(split(Framing::Glue, &value(0, b"rest"), None), Ok((id, &b"rest"[..])));
        assert_eq!(prefix(Framing::Glue, Some(id)), Ok(value(0, b"")));
        assert_eq!(prefix(Framing::Glue, Some(SchemaId::Id(1))), Err(FrameError::Uuid));
        for bad in [&b""[..], b"\x03", &value(1, b""), &value(0, b"")[..17], &[&[4][..], &value(0, b"")[1..]].concat()]
        {
            assert!(matches!(split(Framing::Glue, bad, None), Err(FrameError::Prefix(_))), "{bad:?}");
        }
        let zlib = |payload: &[u8]| {
            let mut encoder = flate2::write::ZlibEncoder::new(value(5, b""), flate2::Compression::fast());
            encoder.write_all(payload).unwrap();
            encoder.finish().unwrap()
        };
        let (mut out, text) = (b"earlier".to_vec(), vec![7; 100_000]);
        let compressed = zlib(&text);
        assert!(is_compressed(Framing::Glue, &compressed) && !is_compressed(Framing::Auto, &compressed));
        assert_eq!(split(Framing::Glue, &compressed, None).unwrap().0, id);
        inflate(&compressed, &mut out).unwrap();
        assert_eq!(out, value(0, &text));
        assert_eq!(inflate(&[&*compressed, b"x"].concat(), &mut out), Err(FrameError::AfterZlib));
        for len in 0..compressed.len() {
            assert_eq!(inflate(&compressed[..len], &mut out), Err(FrameError::Zlib), "{len}");
        }
        assert_eq!(inflate(&zlib(&vec![0; (64 << 20) + 1]), &mut out), Err(FrameError::Inflated));
        assert_eq!(inflate(&zlib(&vec![0; 64 << 20]), &mut out), Ok(()));
    }

    #[test]
    fn rejects_frames_without_schema_id() {
        assert_eq!(split(Framing::Auto, b"", None), Err(FrameError::None));
        assert_eq!(split(Framing::Auto, b"\0\0\0\0", None), Err(FrameError::None));
        assert_eq!(split(Framing::Auto, b"\x01\0\0\0\x01", None), Err(FrameError::None));
        let glue = |version: u8| [&[version, 5][..], b"0123456789abcdef"].concat();
        for framing in [Framing::Auto, Framing::Confluent] {
            assert_eq!(split(framing, &glue(3), None), Err(FrameError::Glue));
            assert_ne!(split(framing, &glue(2), None), Err(FrameError::Glue));
        }
        for header in [&b""[..], b"\0", b"\0\0\0\0\0\0", b"\x01short", b"\x01seven..", b"\x02\0\0\0\x01"] {
            assert_eq!(split(Framing::Auto, b"\0\0\0\0\x01", Some(header)), Err(FrameError::Header(header.len())));
        }
        for framing in [Framing::Confluent, Framing::Apicurio, Framing::SingleObject] {
            for value in [&b""[..], b"\0\0\0\0", b"\xc3\x01\0\0\0\0\0\0\0", b"\xc3\x02\0\0\0\0\0\0\0\0"] {
                assert!(matches!(split(framing, value, None), Err(FrameError::Prefix(_))));
            }
        }
    }

    #[test]
    fn formats_guids_as_uuids() {
        let guid = SchemaId::Guid([0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 255]);
        assert_eq!(guid.to_string(), "schema 00010203-0405-0607-0809-0a0b0c0d0eff");
    }
}
