//! Parser of single messages of formats v0 and v1.
use crate::batch::header::{
    CODEC_BITS, LEGACY_CRC_END, LENGTH_END, MIN_LEGACY_LENGTH, V0_FIXED_LEN, V1_FIXED_LEN, offset_and_length,
};
use crate::crc::crc32;

/// A parsed message with the positions of its key and value in the input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Message {
    /// The offset as stored, which may be relative to the offset of a wrapper.
    pub offset: i64,
    /// 0 or 1.
    pub magic: i8,
    /// Codec and timestamp type.
    pub attributes: u8,
    /// Milliseconds since 1970; -1 in v0.
    pub timestamp: i64,
    /// CRC-32 of the bytes from the magic on, as stored.
    pub crc: u32,
    /// Start of the message, which begins with its offset field.
    pub start: usize,
    /// Start of the key; undefined for a null key.
    pub key_start: usize,
    /// Length of the key, -1 for null.
    pub key_len: i32,
    /// Start of the value; undefined for a null value.
    pub value_start: usize,
    /// Length of the value, -1 for null.
    pub value_len: i32,
    /// End of the message.
    pub end: usize,
}

impl Message {
    /// Parses the message at `start` of `data`. Returns `None` if the data ends within the message. Fails with the name
    /// of the malformed field, also if `start` is past the end of the data.
    #[inline]
    pub fn read(data: &[u8], start: usize) -> Result<Option<Message>, &'static str> {
        let rest = data.get(start..).ok_or("start")?;
        let Some(prefix) = rest.first_chunk::<LENGTH_END>() else { return Ok(None) };
        let (offset, length) = offset_and_length(prefix);
        if length < MIN_LEGACY_LENGTH {
            return Err("length");
        }
        let Some(message) = rest.get(..LENGTH_END + length as usize) else { return Ok(None) };
        let Some(&[c0, c1, c2, c3, magic, attributes]) = message.get(LENGTH_END..V0_FIXED_LEN) else {
            return Err("length");
        };
        let (timestamp, fixed) = match magic {
            0 => (-1, V0_FIXED_LEN),
            1 => match message.get(V0_FIXED_LEN..).and_then(<[u8]>::first_chunk) {
                Some(bytes) => (i64::from_be_bytes(*bytes), V1_FIXED_LEN),
                None => return Err("length"),
            },
            _ => return Err("magic"),
        };
        let (key_start, key_len, key_end) = field(message, fixed).ok_or("key length")?;
        let (value_start, value_len, value_end) = field(message, key_end).ok_or("value length")?;
        if value_end != message.len() {
            return Err("end (bytes are left over)");
        }
        Ok(Some(Message {
            offset,
            magic: magic as i8,
            attributes,
            timestamp,
            crc: u32::from_be_bytes([c0, c1, c2, c3]),
            start,
            key_start: start + key_start,
            key_len,
            value_start: start + value_start,
            value_len,
            end: start + message.len(),
        }))
    }

    /// Returns the codec bits of the attributes.
    pub fn codec_id(&self) -> i16 {
        i16::from(self.attributes) & CODEC_BITS
    }

    /// Computes the checksum of the message in `data`, for comparison with [`crc`](Self::crc).
    pub fn compute_crc(&self, data: &[u8]) -> u32 {
        data.get(self.start + LEGACY_CRC_END..self.end).map_or(0, crc32)
    }

    /// Returns the key from `data`, which must be the bytes that were parsed.
    pub fn key<'a>(&self, data: &'a [u8]) -> Option<&'a [u8]> {
        usize::try_from(self.key_len).ok().and_then(|len| data.get(self.key_start..self.key_start + len))
    }

    /// Returns the value from `data`, which must be the bytes that were parsed.
    pub fn value<'a>(&self, data: &'a [u8]) -> Option<&'a [u8]> {
        usize::try_from(self.value_len).ok().and_then(|len| data.get(self.value_start..self.value_start + len))
    }
}

/// Parses a bytes field, whose length field is at `at`; the length -1 means null. Returns the start, length and end of
/// the field's bytes.
#[inline]
fn field(message: &[u8], at: usize) -> Option<(usize, i32, usize)> {
    let len = i32::from_be_bytes(*message.get(at..)?.first_chunk()?);
    let start = at + 4;
    let end = match len {
        -1 => start,
        _ => start + usize::try_from(len).ok()?,
    };
    (end <= message.len()).then_some((start, len, end))
}
