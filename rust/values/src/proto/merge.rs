//! Merging of repeated fields. In the result, each singular field occurs only once, and the meaning of the message is
//! the same.

use std::collections::HashMap;

use samsarrow_wire::varint::{put_unsigned_varint, put_unsigned_varlong};

use super::decode::zigzag;
use super::plan::{Entry, Op, Plan};
use super::skip;
use crate::byte_reader::ByteReader;
use crate::error::Step;

/// Part of the merged message: unchanged bytes including the tag, or a message that is merged from several pieces.
enum Part<'a> {
    Whole(&'a [u8]),
    Message(u32, Vec<&'a [u8]>),
    Gone,
}

/// Returns the merged message; `None` if nothing has to be merged.
pub(super) fn merged(plan: &Plan, message: &[u8]) -> Step<Option<Vec<u8>>> {
    let mut parts: Vec<Part<'_>> = Vec::new();
    // Index of the part for each field, and for each key of a map.
    let mut fields: HashMap<u16, usize> = HashMap::new();
    let mut keys: HashMap<(u16, Key<'_>), usize> = HashMap::new();
    let mut changed = false;
    let mut input = ByteReader::new(message);
    while input.len() > 0 {
        let from = input.rest();
        let tag = skip::tag(&mut input)?;
        let entry = plan.find(tag);
        let pieces = match entry {
            Some(Entry {
                op: Op::Message(_) | Op::Wrapper(_) | Op::Timestamp(_) | Op::Duration(_) | Op::Json(..),
                ..
            }) => Some(input.delimited()?.0),
            Some(Entry { op: Op::Group(_), .. }) => Some(skip::group(&mut input, tag)?),
            _ => {
                skip::field(&mut input, tag)?;
                None
            }
        };
        let whole = from.get(..from.len() - input.len()).unwrap_or_default();
        let Some(entry) = entry else { continue };
        if let Op::Entry(_, _, of) = &entry.op {
            let key = key(of, whole)?;
            if let Some(before) = keys.insert((entry.field, key), parts.len()) {
                remove(&mut parts, before);
                changed = true;
            }
        }
        if !entry.single {
            parts.push(Part::Whole(whole));
            continue;
        }
        for members in plan.oneofs.iter().filter(|members| members.contains(&entry.field)) {
            for other in members.iter().filter(|other| **other != entry.field) {
                if let Some(before) = fields.remove(other) {
                    remove(&mut parts, before);
                    changed = true;
                }
            }
        }
        match (fields.get(&entry.field).copied(), pieces) {
            (Some(before), Some(piece)) => {
                changed = true;
                if let Some(Part::Message(_, pieces)) = parts.get_mut(before) {
                    pieces.push(piece);
                }
                continue;
            }
            (Some(before), None) => {
                changed = true;
                remove(&mut parts, before);
                parts.push(Part::Whole(whole));
            }
            (None, Some(piece)) => parts.push(Part::Message(tag, vec![piece])),
            (None, None) => parts.push(Part::Whole(whole)),
        }
        fields.insert(entry.field, parts.len() - 1);
    }
    Ok(changed.then(|| written(&parts, message.len())))
}

fn remove(parts: &mut [Part<'_>], at: usize) {
    if let Some(part) = parts.get_mut(at) {
        *part = Part::Gone;
    }
}

fn written(parts: &[Part<'_>], len: usize) -> Vec<u8> {
    let mut out = Vec::with_capacity(len);
    for part in parts {
        match part {
            Part::Gone => (),
            Part::Whole(bytes) => out.extend_from_slice(bytes),
            Part::Message(tag, pieces) => {
                put_unsigned_varint(&mut out, *tag);
                let group = tag & 7 == 3;
                if !group {
                    put_unsigned_varlong(&mut out, pieces.iter().map(|piece| piece.len() as u64).sum());
                }
                pieces.iter().for_each(|piece| out.extend_from_slice(piece));
                if group {
                    put_unsigned_varint(&mut out, tag + 1);
                }
            }
        }
    }
    out
}

/// Key of a map entry. Keys are compared by value, so different encodings of the same key are equal.
#[derive(PartialEq, Eq, Hash)]
enum Key<'a> {
    Number(i64),
    Text(&'a [u8]),
}

/// Returns the key of an encoded map entry, which includes the tag of the entry.
fn key<'a>(plan: &Plan, whole: &'a [u8]) -> Step<Key<'a>> {
    let mut outer = ByteReader::new(whole);
    skip::tag(&mut outer)?;
    let mut input = ByteReader::new(outer.delimited()?.0);
    let mut last = None;
    while input.len() > 0 {
        let tag = skip::tag(&mut input)?;
        let Some(entry) = plan.find(tag).filter(|_| tag >> 3 == 1) else {
            skip::field(&mut input, tag)?;
            continue;
        };
        last = Some(match &entry.op {
            Op::Int(_) => Key::Number(i64::from(input.varint()? as i32)),
            Op::ZigzagInt(_) => Key::Number(zigzag(u64::from(input.varint()? as u32))),
            Op::FixedInt(_) => Key::Number(i64::from(i32::from_le_bytes(input.chunk()?))),
            Op::Long(_) => Key::Number(input.varint()? as i64),
            Op::ZigzagLong(_) => Key::Number(input.long()?),
            Op::FixedLong(_) => Key::Number(i64::from_le_bytes(input.chunk()?)),
            Op::Boolean(_) => Key::Number(i64::from(input.varint()? != 0)),
            _ => Key::Text(input.delimited()?.0),
        });
    }
    Ok(last.unwrap_or(match plan.entries.first().map(|entry| &entry.op) {
        Some(Op::Text(_)) => Key::Text(&[]),
        _ => Key::Number(0),
    }))
}
