//! Metadata that the consumers of a group exchange. The leader of the group decodes bytes sent by any member.
use std::fmt::Debug;

use bytes::Bytes;
use samsarrow_wire::messages::{
    ConsumerProtocolAssignment, ConsumerProtocolSubscription, DecodeError, EncodeError, StickyUserData,
};

use super::broken;

pub(super) fn metadata(input: &[u8]) {
    let Some((&what, bytes)) = input.split_first() else { return };
    let bytes = Bytes::copy_from_slice(bytes);
    match what % 3 {
        0 => again(bytes, ConsumerProtocolSubscription::from_bytes, ConsumerProtocolSubscription::to_bytes),
        1 => again(bytes, ConsumerProtocolAssignment::from_bytes, ConsumerProtocolAssignment::to_bytes),
        _ => again(bytes, |bytes| StickyUserData::from_bytes(&bytes), StickyUserData::to_bytes),
    }
}

/// Checks that a decoded structure is the same after encoding and decoding it again.
fn again<M: PartialEq + Debug>(
    bytes: Bytes,
    read: fn(Bytes) -> Result<M, DecodeError>,
    write: fn(&M) -> Result<Bytes, EncodeError>,
) {
    let Ok(decoded) = read(bytes) else { return };
    match write(&decoded).map(read) {
        Ok(Ok(again)) if again == decoded => {}
        other => broken(&format!("{decoded:?} came back as {other:?}")),
    }
}
