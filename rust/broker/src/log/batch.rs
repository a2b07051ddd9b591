//! Fields of encoded record batches, and sequence arithmetic.

use samsarrow_wire::batch::BatchHeader;

/// Length in bytes of the base offset and the length field. The value of the length field does not include these bytes.
const LENGTH_PREFIX: usize = 12;

/// Returns the sequence `delta` records after `sequence`. Sequences wrap from `i32::MAX` to 0.
pub(crate) fn next_sequence(sequence: i32, delta: i32) -> i32 {
    let room = i32::MAX - sequence.max(0);
    if delta > room { delta - room - 1 } else { sequence + delta }
}

/// Returns the sequence of the last record in a batch.
pub(crate) fn last_sequence(header: &BatchHeader) -> i32 {
    next_sequence(header.base_sequence, header.last_offset_delta)
}

/// Returns the magic byte of the first batch or message set. Its position is the same in every format.
pub(crate) fn magic(data: &[u8]) -> Option<i8> {
    data.get(16).map(|byte| byte.cast_signed())
}

/// Returns the total size of the first batch in `data` according to its length field.
pub(crate) fn size(data: &[u8]) -> Option<usize> {
    let length = i32::from_be_bytes(data.get(8..12)?.try_into().ok()?);
    usize::try_from(length).ok().map(|length| length + LENGTH_PREFIX)
}
