//! What the broker asks of a record batch beyond its header.

use samsarrow_wire::batch::BatchHeader;

/// Bytes before those that a batch's length counts.
const LENGTH_PREFIX: usize = 12;

/// `sequence + delta`; sequences wrap from `i32::MAX` to 0.
pub(crate) fn next_sequence(sequence: i32, delta: i32) -> i32 {
    let room = i32::MAX - sequence.max(0);
    if delta > room { delta - room - 1 } else { sequence + delta }
}

/// The sequence of the last record.
pub(crate) fn last_sequence(header: &BatchHeader) -> i32 {
    next_sequence(header.base_sequence, header.last_offset_delta)
}

/// The magic of the batch or message set at the front; it sits at the same place in every format.
pub(crate) fn magic(data: &[u8]) -> Option<i8> {
    data.get(16).map(|byte| byte.cast_signed())
}

/// The whole size of the batch at the front of `data`, as its length field claims it.
pub(crate) fn size(data: &[u8]) -> Option<usize> {
    let length = i32::from_be_bytes(data.get(8..12)?.try_into().ok()?);
    usize::try_from(length).ok().map(|length| length + LENGTH_PREFIX)
}
