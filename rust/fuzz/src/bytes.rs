//! Mutations of bytes without a known structure, and updates of checksums.
use samsarrow_wire::crc::{crc32, crc32c};
use twox_hash::XxHash32;

use crate::random::Random;

pub(crate) fn lz4_header_checksum(covered: &[u8]) -> u8 {
    (XxHash32::oneshot(0, covered) >> 8) as u8
}

/// Applies one to eight mutations.
pub(crate) fn havoc(bytes: &mut Vec<u8>, random: &mut Random) {
    for _ in 0..=random.below(8) {
        change(bytes, random);
        if random.one_in(2) {
            return;
        }
    }
}

fn change(bytes: &mut Vec<u8>, random: &mut Random) {
    let len = bytes.len();
    // Mutate the first bytes more often, because headers matter more than the rest.
    let at = if random.one_in(3) { random.below(len.min(64)) } else { random.below(len) };
    let to = at + random.below(len - at + 1);
    match random.below(10) {
        _ if len == 0 => *bytes = random.bytes(64),
        0 => bytes.truncate(at),
        1 => drop(bytes.drain(at..to)),
        2 => {
            let part = bytes.get(at..to).unwrap_or_default().to_vec();
            let target = random.below(len);
            bytes.splice(target..target, part);
        }
        3 => {
            let with = random.bytes(32);
            bytes.splice(at..at, with);
        }
        4 => put_number(bytes, at, random),
        5 => put_varint(bytes, at, random),
        6 => {
            let part = bytes.get(at..to).unwrap_or_default().to_vec();
            let target = random.below(len);
            for (old, new) in bytes.iter_mut().skip(target).zip(part) {
                *old = new;
            }
        }
        7 | 8 => {
            if let Some(byte) = bytes.get_mut(at) {
                *byte ^= 1 << random.below(8);
            }
        }
        _ => {
            if let Some(byte) = bytes.get_mut(at) {
                *byte = random.next() as u8;
            }
        }
    }
}

/// Overwrites the bytes at `at` with a boundary value of a random width.
pub(crate) fn put_number(bytes: &mut [u8], at: usize, random: &mut Random) {
    let width = random.pick(&[1, 2, 4, 4, 8]).unwrap_or(4);
    let mut number = random.edge(0).to_be_bytes();
    if random.one_in(4) {
        number.reverse();
        number.rotate_right(width);
    }
    let number = number.get(8 - width..).unwrap_or_default();
    for (old, new) in bytes.iter_mut().skip(at).zip(number) {
        *old = *new;
    }
}

/// Replaces the varint at `at`. The new varint may have another length.
pub(crate) fn put_varint(bytes: &mut Vec<u8>, at: usize, random: &mut Random) {
    let at = at.min(bytes.len());
    let rest = bytes.get(at..).unwrap_or_default();
    let old = rest.iter().take(10).position(|byte| byte & 0x80 == 0).map_or(0, |last| last + 1);
    let mut new = Vec::new();
    let mut value = random.edge(0) as u64;
    if random.one_in(2) {
        value &= u64::from(u32::MAX);
    }
    while value >= 0x80 {
        new.push(value as u8 | 0x80);
        value >>= 7;
    }
    new.push(value as u8);
    if random.one_in(6) {
        // Use a longer encoding than necessary, or even longer than allowed.
        if let Some(last) = new.last_mut() {
            *last |= 0x80;
        }
        new.extend(std::iter::repeat_n(0x80, random.below(8)));
        new.push(random.below(2) as u8);
    }
    bytes.splice(at..at + old, new);
}

/// Updates the checksums of all batches and messages whose length is valid.
pub(crate) fn fix_batches(bytes: &mut [u8]) {
    let mut rest = bytes;
    while let Some(length) =
        rest.get(8..12).and_then(|field| field.first_chunk()).map(|field| i32::from_be_bytes(*field))
    {
        let Ok(length) = usize::try_from(length) else { return };
        let size = (length + 12).min(rest.len());
        let (batch, after) = rest.split_at_mut(size);
        let (from, crc) = match batch.get(16) {
            Some(2) => (17, batch.get(21..).map(crc32c)),
            _ => (12, batch.get(16..).map(crc32)),
        };
        if let (Some(target), Some(crc)) = (batch.get_mut(from..from + 4), crc) {
            target.copy_from_slice(&crc.to_be_bytes());
        }
        rest = after;
    }
}

/// Updates the checksum of the lz4 frame header.
pub(crate) fn fix_lz4(bytes: &mut [u8]) {
    let end = match bytes.get(4) {
        Some(flags) => 6 + if flags & 8 != 0 { 8 } else { 0 } + if flags & 1 != 0 { 4 } else { 0 },
        None => return,
    };
    let checksum = bytes.get(4..end).map(lz4_header_checksum);
    if let (Some(target), Some(checksum)) = (bytes.get_mut(end), checksum) {
        *target = checksum;
    }
}
