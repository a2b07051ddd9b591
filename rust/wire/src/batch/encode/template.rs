//! Encoder of records that differ only in their deltas and the bytes of their keys and values.
use super::plain::{EqualLengthRows, PlainRecord};
use super::varint_word::{VarintWord, zigzag};

/// The lengths of key and value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Shape {
    pub(super) key_len: Option<usize>,
    pub(super) value_len: usize,
}

impl Shape {
    /// Returns the shape of the record. Returns `None` if the value is null, or if a template would not be faster for
    /// these lengths.
    #[inline(always)]
    pub(super) fn of(record: &PlainRecord<'_>) -> Option<Shape> {
        let (key_len, value_len) = (record.key.map(|key| key.len()), record.value?.len());
        let fits = (4..256).contains(&value_len) && key_len.is_none_or(|len| (4..64).contains(&len));
        fits.then_some(Shape { key_len, value_len })
    }
}

/// The bytes that all records of one shape have in common.
pub(super) struct Template {
    shape: Shape,
    size: usize,
    /// The record's length and attributes, which precede the timestamp delta.
    head: u64,
    timestamp_shift: usize,
    timestamp: Varint,
    offset_at: usize,
    offset: Varint,
    /// Bytes after the offset delta: the length of the key and, if the key is null, also the length of the value.
    after_offset: u64,
    key_at: usize,
    value_len: u32,
    value_len_at: usize,
    value_at: usize,
}

impl Template {
    /// Returns the template for records that start with these deltas. Returns `None` if a delta has more than three
    /// bytes.
    pub(super) fn of(shape: Shape, timestamp_delta: i64, offset_delta: i32) -> Option<Template> {
        let Shape { key_len, value_len } = shape;
        let timestamp = VarintWord::new(zigzag(timestamp_delta));
        let offset = VarintWord::new(zigzag(offset_delta.into()));
        let (timestamp_varint, offset_varint) = (Varint::of(timestamp.size())?, Varint::of(offset.size())?);
        let (key, value) = (VarintWord::of_len(key_len), VarintWord::of_len(Some(value_len)));
        let numbers = timestamp.size() + offset.size() + key.size() + value.size();
        let body = 1 + numbers + key_len.unwrap_or(0) + value_len + 1;
        let length = VarintWord::new((body as u64) << 1);
        let head = length.then(VarintWord::ZERO);
        let offset_at = head.size() + timestamp.size();
        let key_at = offset_at + offset.size() + key.size();
        let value_len_at = key_at + key_len.unwrap_or(0);
        let after_offset = if key_len.is_some() { key } else { key.then(value) };
        Some(Template {
            shape,
            size: length.size() + body,
            head: head.low(),
            timestamp_shift: 8 * head.size(),
            timestamp: timestamp_varint,
            offset_at,
            offset: offset_varint,
            after_offset: after_offset.low() << (8 * offset.size()),
            key_at,
            value_len: value.low() as u32,
            value_len_at,
            value_at: value_len_at + value.size(),
        })
    }

    /// Returns the size of each record in bytes.
    pub(super) fn size(&self) -> usize {
        self.size
    }

    /// Returns how many consecutive offset deltas, starting with `offset_delta`, are encoded in the same number of
    /// bytes.
    pub(super) fn same_width(&self, offset_delta: i32) -> usize {
        let end = (self.offset.min + self.offset.span) / 2;
        usize::try_from(end - i64::from(offset_delta)).unwrap_or(0)
    }

    /// Writes records to `out`, which must be zeroed. Stops when `out` is full or when a timestamp delta needs a
    /// different number of bytes. Returns the number of written records.
    pub(super) fn write(
        &self,
        out: &mut [u8],
        rows: &EqualLengthRows<'_>,
        base_timestamp: i64,
        offset_delta: i32,
    ) -> usize {
        // Each value is copied in two possibly overlapping blocks, each at least half of its length, so that no copy
        // leaves the slot.
        match self.shape.value_len {
            ..8 => self.write_values::<4>(out, rows, base_timestamp, offset_delta),
            8..16 => self.write_values::<8>(out, rows, base_timestamp, offset_delta),
            16..32 => self.write_values::<16>(out, rows, base_timestamp, offset_delta),
            32..64 => self.write_values::<32>(out, rows, base_timestamp, offset_delta),
            64..128 => self.write_values::<64>(out, rows, base_timestamp, offset_delta),
            128.. => self.write_values::<128>(out, rows, base_timestamp, offset_delta),
        }
    }

    fn write_values<const V: usize>(
        &self,
        out: &mut [u8],
        rows: &EqualLengthRows<'_>,
        base_timestamp: i64,
        offset_delta: i32,
    ) -> usize {
        let EqualLengthRows { timestamps, values, keys } = *rows;
        let Shape { key_len, value_len } = self.shape;
        let slots = out.chunks_exact_mut(self.size).zip(values.chunks_exact(value_len)).zip(timestamps);
        let mut written = 0;
        let Some((keys, key_len)) = keys.zip(key_len) else {
            for ((slot, value), timestamp) in slots {
                let delta = timestamp.wrapping_sub(base_timestamp);
                if self.write_head(slot, delta, offset_delta + written).is_none()
                    || self.write_value::<V>(slot, value).is_none()
                {
                    break;
                }
                written += 1;
            }
            return written as usize;
        };
        for (((slot, value), timestamp), key) in slots.zip(keys.chunks_exact(key_len)) {
            let delta = timestamp.wrapping_sub(base_timestamp);
            if self.write_head(slot, delta, offset_delta + written).is_none()
                || self.write_key(slot, key).is_none()
                || self.write_value::<V>(slot, value).is_none()
            {
                break;
            }
            written += 1;
        }
        written as usize
    }

    /// Writes the bytes before the key, or before the value if the key is null.
    #[inline(always)]
    fn write_head(&self, slot: &mut [u8], timestamp_delta: i64, offset_delta: i32) -> Option<()> {
        let timestamp = zigzag(timestamp_delta);
        if !self.timestamp.contains(timestamp) {
            return None;
        }
        let head = self.head | self.timestamp.encode(timestamp as u32) << self.timestamp_shift;
        let offset = self.offset.encode((offset_delta as u32) << 1);
        *slot.first_chunk_mut()? = head.to_le_bytes();
        *slot.get_mut(self.offset_at..)?.first_chunk_mut()? = (self.after_offset | offset).to_le_bytes();
        Some(())
    }

    #[inline(always)]
    fn write_key(&self, slot: &mut [u8], key: &[u8]) -> Option<()> {
        let target = slot.get_mut(self.key_at..self.value_len_at)?;
        match key.len() {
            ..8 => copy_halves::<4>(target, key)?,
            8..16 => copy_halves::<8>(target, key)?,
            16..32 => copy_halves::<16>(target, key)?,
            32.. => copy_halves::<32>(target, key)?,
        }
        *slot.get_mut(self.value_len_at..)?.first_chunk_mut()? = self.value_len.to_le_bytes();
        Some(())
    }

    #[inline(always)]
    fn write_value<const V: usize>(&self, slot: &mut [u8], value: &[u8]) -> Option<()> {
        copy_halves::<V>(slot.get_mut(self.value_at..self.value_at + self.shape.value_len)?, value)
    }
}

/// Copies between `N` and `2 * N` bytes to a slice of the same length, as two blocks of `N` bytes that may overlap.
#[inline(always)]
fn copy_halves<const N: usize>(target: &mut [u8], bytes: &[u8]) -> Option<()> {
    *target.first_chunk_mut::<N>()? = *bytes.first_chunk::<N>()?;
    *target.last_chunk_mut::<N>()? = *bytes.last_chunk::<N>()?;
    Some(())
}

/// A varint whose encoded width is known.
struct Varint {
    /// The smallest number that is encoded with this width, and the count of all such numbers.
    min: i64,
    span: i64,
    middle: u32,
    high: u32,
    more: u32,
}

impl Varint {
    fn of(width: usize) -> Option<Varint> {
        let (min, end, middle, high, more) = match width {
            1 => (0, 1 << 7, 0, 0, 0),
            2 => (1 << 7, 1 << 14, 0x7f00, 0, 0x80),
            3 => (1 << 14, 1 << 21, 0x7f00, 0x7f_0000, 0x8080),
            _ => return None,
        };
        Some(Varint { min, span: end - min, middle, high, more })
    }

    #[inline(always)]
    fn contains(&self, number: u64) -> bool {
        number.wrapping_sub(self.min as u64) < self.span as u64
    }

    #[inline(always)]
    fn encode(&self, number: u32) -> u64 {
        u64::from(number & 0x7f | (number << 1) & self.middle | (number << 2) & self.high | self.more)
    }
}
