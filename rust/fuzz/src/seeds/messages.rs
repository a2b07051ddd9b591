//! Generator of requests and responses of all APIs in all versions.
use bytes::Bytes;
use samsarrow_wire::message_matrix::{Format, formats};
use samsarrow_wire::messages::{DecodeError, DecodeErrorKind};

use crate::bytes::{havoc, put_number, put_varint};
use crate::random::Random;

/// Number of samples per message format. More samples cover more shapes, but each of them has to be probed once.
const SAMPLES: usize = 6;

#[derive(Debug)]
pub(super) struct Messages {
    formats: Vec<Format>,
    samples: Vec<Vec<Sample>>,
}

#[derive(Debug, Clone)]
struct Sample {
    body: Vec<u8>,
    /// Positions of the last bytes of all lengths and counts.
    lengths: Vec<usize>,
}

impl Default for Messages {
    fn default() -> Self {
        let formats = formats();
        let samples = vec![Vec::new(); formats.len()];
        Messages { formats, samples }
    }
}

impl Messages {
    /// Returns the index of a format in two bytes, followed by a message or a frame.
    pub(super) fn input(&mut self, frame: bool, valid: bool, random: &mut Random) -> Vec<u8> {
        let index = random.below(self.formats.len());
        let Some(format) = self.formats.get(index).copied() else { return Vec::new() };
        let mut out = (index as u16).to_be_bytes().to_vec();
        if frame {
            header(&format, random, &mut out);
        }
        let sample = self.sample(index, &format, random);
        let mut body = sample.body;
        if !valid {
            for _ in 0..=random.below(3) {
                match random.pick(&sample.lengths) {
                    Some(at) if random.one_in(2) => lie(&mut body, at, random),
                    _ => havoc(&mut body, random),
                }
            }
        }
        out.extend_from_slice(&body);
        if frame && !valid && random.one_in(4) {
            let tail = out.split_off(2);
            let mut tail = tail;
            havoc(&mut tail, random);
            out.extend_from_slice(&tail);
        }
        out
    }

    fn sample(&mut self, index: usize, format: &Format, random: &mut Random) -> Sample {
        let which = random.below(SAMPLES);
        let Some(kept) = self.samples.get_mut(index) else { return Sample { body: Vec::new(), lengths: Vec::new() } };
        // Samples are added in order and from separate seeds, so that they do not depend on earlier calls.
        while kept.len() <= which {
            let body = format.sample(kept.len() as u64).map(|body| body.to_vec()).unwrap_or_default();
            let lengths = probe(format, &body);
            kept.push(Sample { body, lengths });
        }
        kept.get(which).cloned().unwrap_or(Sample { body: Vec::new(), lengths: Vec::new() })
    }
}

/// Finds lengths and counts in a message by incrementing each byte: if a byte belongs to a length, the decoder fails
/// because bytes are missing or left over.
fn probe(format: &Format, body: &[u8]) -> Vec<usize> {
    let of_length = |error: DecodeError| {
        matches!(
            error.kind,
            DecodeErrorKind::Truncated { .. }
                | DecodeErrorKind::Count { .. }
                | DecodeErrorKind::Length(_)
                | DecodeErrorKind::Trailing { .. }
        )
    };
    (0..body.len().min(1000))
        .filter(|&at| {
            let mut changed = body.to_vec();
            if let Some(byte) = changed.get_mut(at) {
                *byte = byte.wrapping_add(1);
            }
            format.decode(Bytes::from(changed)).is_err_and(of_length)
        })
        .collect()
}

/// Overwrites the length that ends at `at` with a boundary value.
fn lie(body: &mut Vec<u8>, at: usize, random: &mut Random) {
    match random.below(3) {
        0 => put_varint(body, at, random),
        1 => put_number(body, at.saturating_sub(3), random),
        _ => put_number(body, at.saturating_sub(1), random),
    }
}

fn header(format: &Format, random: &mut Random, out: &mut Vec<u8>) {
    let correlation_id = (random.next() as i32).to_be_bytes();
    if format.response {
        out.extend_from_slice(&correlation_id);
    } else {
        out.extend_from_slice(&format.api.code().to_be_bytes());
        out.extend_from_slice(&format.version.to_be_bytes());
        out.extend_from_slice(&correlation_id);
        match random.below(3) {
            0 => out.extend_from_slice(&[0xff, 0xff]),
            _ => out.extend_from_slice(b"\0\x02me"),
        }
    }
    // All ApiVersions responses have a header of version 0, so that clients can read them without knowing the broker's
    // versions.
    let api_versions = format.response && format.api.name() == "ApiVersions";
    if format.api.is_flexible(format.version) && !api_versions {
        match random.below(4) {
            0 => out.extend_from_slice(&[1, 9, 2, 0xaa, 0xbb]),
            _ => out.push(0),
        }
    }
}
