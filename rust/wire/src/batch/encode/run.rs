//! Encoder of runs of records without headers.
use super::plain::{EqualLengthRows, MAX_EQUAL_LENGTH_ROWS, PlainRecord, PlainRows};
use super::template::{Shape, Template};
use super::varint_word::{VarintWord, write_word, zigzag};
use super::{Append, BatchBuilder, EncodeError, SLACK};

/// Number of consecutive records with equal shapes after which the template encoder is tried.
const MIN_EQUAL_SHAPES: u32 = 3;

/// Maximum number of bytes that are zeroed at a time. The limit keeps them in the L1 cache until the records overwrite
/// them.
const WINDOW: usize = 16 * 1024;

/// Maximum length of the key and of the value. Up to this length, a record's length field has at most three bytes.
const MAX_LEN: usize = 1 << 18;

impl BatchBuilder {
    /// Appends the records of `rows` until one does not fit, and returns the number of appended records. The encoded
    /// bytes are the same as with [`append_short_bytes`](Self::append_short_bytes), but encoding is faster.
    #[inline]
    pub fn append_run(&mut self, rows: &impl PlainRows, range: std::ops::Range<usize>) -> Result<usize, EncodeError> {
        let mut row = range.start;
        let (mut shape, mut equal_shapes) = (None, 0);
        while row < range.end {
            if equal_shapes >= MIN_EQUAL_SHAPES {
                let repeated = self.append_template(rows, row, range.end - row, shape);
                row += repeated;
                if repeated > 0 {
                    continue;
                }
                equal_shapes = 0;
            }
            let record = rows.record(row);
            if !self.append_plain(&record)
                && self.append_short_bytes(record.timestamp, record.key, record.value, std::iter::empty())?
                    == Append::Full
            {
                break;
            }
            row += 1;
            let before = std::mem::replace(&mut shape, Shape::of(&record));
            equal_shapes = if shape.is_some() && shape == before { equal_shapes + 1 } else { 0 };
        }
        Ok(row - range.start)
    }

    /// Appends records of `shape` with a template, in which all bytes except deltas, keys and values are constant.
    /// Returns the number of appended records. If the number is 0, the caller uses the general encoder for the next
    /// record.
    #[inline]
    fn append_template(&mut self, rows: &impl PlainRows, row: usize, left: usize, shape: Option<Shape>) -> usize {
        let Some(shape) = shape else { return 0 };
        let Some(run) = rows.equal_length_rows(row, left.min(MAX_EQUAL_LENGTH_ROWS), shape.key_len, shape.value_len)
        else {
            return 0;
        };
        self.append_equal_length(shape, &run)
    }

    #[inline(never)]
    fn append_equal_length(&mut self, shape: Shape, rows: &EqualLengthRows<'_>) -> usize {
        let Some(first) = rows.timestamps.first() else { return 0 };
        let Some(template) = Template::of(shape, first.wrapping_sub(self.base_timestamp), self.count) else { return 0 };
        let capacity = self.limit().saturating_sub(self.size()).min(WINDOW);
        let records = (capacity / template.size()).min(rows.timestamps.len()).min(template.same_width(self.count));
        let start = self.buffer.len();
        self.buffer.resize(start + records * template.size(), 0);
        // The range is always valid, because the buffer was resized above. An empty slice would only mean that no
        // record is written.
        let out = self.buffer.get_mut(start..).unwrap_or_default();
        let written = template.write(out, rows, self.base_timestamp, self.count);
        self.buffer.truncate(start + written * template.size());
        let timestamps = rows.timestamps.get(..written).unwrap_or_default();
        self.max_timestamp = timestamps.iter().fold(self.max_timestamp, |max, timestamp| max.max(*timestamp));
        self.count += written as i32;
        written
    }

    /// Appends a record whose lengths and deltas are short varints to a batch that is not empty. Returns false if the
    /// record needs the general encoder.
    #[inline(always)]
    fn append_plain(&mut self, record: &PlainRecord<'_>) -> bool {
        let PlainRecord { timestamp, key, value } = *record;
        let (key_len, value_len) = (key.map_or(0, |key| key.len()), value.map_or(0, |value| value.len()));
        let timestamp_delta = zigzag(timestamp.wrapping_sub(self.base_timestamp));
        if !(1..1 << 20).contains(&self.count) || key_len.max(value_len) > MAX_LEN || timestamp_delta >= 1 << 21 {
            return false;
        }
        let (timestamp_part, offset_part) =
            (VarintWord::new(timestamp_delta), VarintWord::new((self.count as u64) << 1));
        let (key_part, value_part) =
            (VarintWord::of_len(key.map(|key| key.len())), VarintWord::of_len(value.map(|value| value.len())));
        let numbers = timestamp_part.size() + offset_part.size() + key_part.size() + value_part.size();
        let body = 1 + numbers + key_len + value_len + 1;
        let length_part = VarintWord::new((body as u64) << 1);
        let size = length_part.size() + body;
        if self.size() + size > self.limit() {
            return false;
        }
        self.max_timestamp = self.max_timestamp.max(timestamp);
        self.buffer.reserve(size + SLACK);
        // The record's attributes are a single zero byte.
        let head = length_part.then(VarintWord::ZERO).then(timestamp_part);
        match key {
            None => write_word(&mut self.buffer, head, offset_part.then(key_part).then(value_part)),
            Some(key) => {
                write_word(&mut self.buffer, head, offset_part.then(key_part));
                key.append_to(&mut self.buffer);
                write_word(&mut self.buffer, value_part, VarintWord::NONE);
            }
        }
        if let Some(value) = value {
            value.append_to(&mut self.buffer);
        }
        self.buffer.push(0);
        self.count += 1;
        true
    }

    /// Returns the maximum size of the batch, which only the first record may exceed.
    #[inline(always)]
    fn limit(&self) -> usize {
        self.options.max_bytes.min(i32::MAX as usize)
    }
}
