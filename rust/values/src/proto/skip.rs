//! Parser of tags, and functions that skip fields which are not decoded.

use crate::byte_reader::ByteReader;
use crate::error::{Fault, Reason, Step};

/// Maximum nesting of groups, which is the same as in Protobuf's own decoders.
const MAX_DEPTH: usize = 100;

const START: u32 = 3;
const END: u32 = 4;

/// Reads a tag, which consists of the field number and, in the lowest three bits, the wire type.
#[inline(always)]
pub(super) fn tag(input: &mut ByteReader<'_>) -> Step<u32> {
    let tag = input.varint()?;
    match u32::try_from(tag) {
        Ok(tag) if tag >= 8 => Ok(tag),
        _ => Err(odd(tag)),
    }
}

#[cold]
fn odd(tag: u64) -> Box<Fault> {
    Reason::Other(format!("there is no field {}", tag >> 3).into()).into()
}

#[cold]
pub(super) fn too_deep() -> Box<Fault> {
    Reason::Other(format!("messages or groups are nested more than {MAX_DEPTH} deep").into()).into()
}

/// Skips a field whose tag was already read.
pub(super) fn field(input: &mut ByteReader<'_>, tag: u32) -> Step {
    if tag & 7 == START { group(input, tag).map(drop) } else { simple(input, tag) }
}

#[inline(always)]
fn simple(input: &mut ByteReader<'_>, tag: u32) -> Step {
    match tag & 7 {
        0 => input.skip_varint(),
        1 => input.bytes(8).map(drop),
        2 => input.delimited().map(drop),
        5 => input.bytes(4).map(drop),
        END => Err(Reason::Other(format!("group {} ends, and none has begun", tag >> 3).into()).into()),
        other => {
            Err(Reason::Other(format!("field {} has wire type {other}, which does not exist", tag >> 3).into()).into())
        }
    }
}

/// Returns the content of a group whose start tag was already read.
pub(super) fn group<'a>(input: &mut ByteReader<'a>, start: u32) -> Step<&'a [u8]> {
    let from = input.rest();
    let mut open = vec![start >> 3];
    while let Some(&number) = open.last() {
        let before = input.len();
        let tag = self::tag(input)?;
        match tag & 7 {
            START if open.len() >= MAX_DEPTH => return Err(too_deep()),
            START => open.push(tag >> 3),
            END if tag >> 3 == number => {
                open.pop();
                if open.is_empty() {
                    return Ok(from.get(..from.len() - before).unwrap_or_default());
                }
            }
            END => {
                let text = format!("group {} ends within group {number}", tag >> 3);
                return Err(Reason::Other(text.into()).into());
            }
            _ => simple(input, tag)?,
        }
    }
    Ok(&[])
}
