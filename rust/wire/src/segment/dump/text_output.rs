//! Output lines of a dump. The names are the same as in Kafka's tool, because scripts search and parse its output.
use std::fmt::Write;

use super::text::{json_bytes, json_string};
use super::{Format, Problem, kraft};
use crate::batch::{BatchHeader, ControlType, Headers, TimestampType};
use crate::compression::Codec;
use crate::segment::index::{AbortedEntry, OffsetEntry, TimeEntry};

/// Writes formatted text to a `String`, which never fails.
macro_rules! put {
    ($out:expr, $($arg:tt)*) => {
        let _ = write!($out, $($arg)*);
    };
}

/// The contents of a record's line.
pub(super) struct RecordLine<'a> {
    pub(super) offset: i64,
    /// `None` in format v0, which has no timestamps.
    pub(super) timestamp_type: Option<TimestampType>,
    pub(super) timestamp: i64,
    pub(super) key: Option<&'a [u8]>,
    pub(super) value: Option<&'a [u8]>,
    /// `None` in formats before v2, which have no sequence numbers.
    pub(super) sequence: Option<i32>,
    pub(super) headers: Option<Headers<'a>>,
    /// True if the checksum of the message is correct, and the checksum itself; `None` from format v2 on.
    pub(super) legacy_crc: Option<(bool, u32)>,
    pub(super) control: bool,
    pub(super) print_data: bool,
}

/// Returns the sequence number of the record at `delta`. Sequence numbers wrap around to 0.
pub(super) fn sequence(header: &BatchHeader, delta: i32) -> i32 {
    if header.base_sequence < 0 {
        return -1;
    }
    ((i64::from(header.base_sequence) + i64::from(delta)) & i64::from(i32::MAX)) as i32
}

fn timestamp_name(kind: Option<TimestampType>) -> &'static str {
    match kind {
        None => "NoTimestampType",
        Some(TimestampType::CreateTime) => "CreateTime",
        Some(TimestampType::LogAppendTime) => "LogAppendTime",
    }
}

fn codec_name(header: &BatchHeader) -> &'static str {
    Codec::from_attributes(header.codec_id()).map_or("unknown", Codec::name)
}

pub(super) fn batch(format: Format, out: &mut String, header: &BatchHeader, size: usize, position: u64, valid: bool) {
    let h = header;
    let (last_offset, kind) = (h.last_offset(), timestamp_name((h.magic > 0).then(|| h.timestamp_type())));
    let (max_timestamp, magic, codec, crc) = (h.max_timestamp, h.magic, codec_name(h), h.crc);
    let horizon = h.has_delete_horizon().then_some(h.base_timestamp);
    match format {
        Format::Text => {
            if magic >= 2 {
                put!(out, "baseOffset: {} lastOffset: {last_offset} count: {}", h.base_offset, h.record_count);
                put!(out, " baseSequence: {}", h.base_sequence);
                put!(out, " lastSequence: {}", sequence(h, h.last_offset_delta));
                put!(out, " producerId: {} producerEpoch: {}", h.producer_id, h.producer_epoch);
                put!(out, " partitionLeaderEpoch: {}", h.partition_leader_epoch);
                put!(out, " isTransactional: {} isControl: {}", h.is_transactional(), h.is_control());
                match horizon {
                    Some(ms) => {
                        put!(out, " deleteHorizonMs: OptionalLong[{ms}]");
                    }
                    None => out.push_str(" deleteHorizonMs: OptionalLong.empty"),
                }
            } else {
                put!(out, "offset: {last_offset}");
            }
            put!(out, " position: {position} {kind}: {max_timestamp} size: {size} magic: {magic}");
            put!(out, " compresscodec: {codec} crc: {crc} isvalid: {valid}\n");
        }
        Format::Json => {
            out.push_str("{\"type\":\"batch\"");
            if magic >= 2 {
                put!(out, ",\"baseOffset\":{},\"lastOffset\":{last_offset}", h.base_offset);
                put!(out, ",\"count\":{},\"baseSequence\":{}", h.record_count, h.base_sequence);
                put!(out, ",\"lastSequence\":{}", sequence(h, h.last_offset_delta));
                put!(out, ",\"producerId\":{},\"producerEpoch\":{}", h.producer_id, h.producer_epoch);
                put!(out, ",\"partitionLeaderEpoch\":{}", h.partition_leader_epoch);
                put!(out, ",\"isTransactional\":{},\"isControl\":{}", h.is_transactional(), h.is_control());
                match horizon {
                    Some(ms) => {
                        put!(out, ",\"deleteHorizonMs\":{ms}");
                    }
                    None => out.push_str(",\"deleteHorizonMs\":null"),
                }
            } else {
                put!(out, ",\"offset\":{last_offset}");
            }
            put!(out, ",\"position\":{position},\"timestampType\":\"{kind}\",\"maxTimestamp\":{max_timestamp}");
            put!(
                out,
                ",\"size\":{size},\"magic\":{magic},\"compresscodec\":\"{codec}\",\"crc\":{crc},\"isvalid\":{valid}}}\n"
            );
        }
    }
}

pub(super) fn record(format: Format, out: &mut String, record: &RecordLine<'_>) {
    match format {
        Format::Text => text_record(out, record),
        Format::Json => json_record(out, record),
    }
}

fn size_of(data: Option<&[u8]>) -> i64 {
    data.map_or(-1, |data| data.len() as i64)
}

fn text_record(out: &mut String, record: &RecordLine<'_>) {
    put!(out, "| offset: {} {}: {}", record.offset, timestamp_name(record.timestamp_type), record.timestamp);
    put!(out, " keySize: {} valueSize: {}", size_of(record.key), size_of(record.value));
    if let Some(sequence) = record.sequence {
        put!(out, " sequence: {sequence} headerKeys: [");
        for (index, (key, _)) in record.headers.clone().into_iter().flatten().enumerate() {
            if index > 0 {
                out.push(',');
            }
            out.push_str(&String::from_utf8_lossy(key));
        }
        out.push(']');
    }
    if let Some((valid, crc)) = record.legacy_crc {
        put!(out, " isValid: {valid} crc: {crc}");
    }
    if record.control {
        match control(record) {
            (kind, _, Some(Contents::Epoch(epoch))) => {
                put!(out, " endTxnMarker: {} coordinatorEpoch: {epoch}", kind.name());
            }
            (_, _, Some(Contents::KRaft(label, json))) => {
                put!(out, " {label} {json}");
            }
            (kind, id, None) => {
                put!(out, " controlType: {}({id})", kind.name());
            }
        }
    } else if record.print_data {
        if let Some(key) = record.key {
            put!(out, " key: {}", String::from_utf8_lossy(key));
        }
        if let Some(value) = record.value {
            put!(out, " payload: {}", String::from_utf8_lossy(value));
        }
    }
    out.push('\n');
}

fn json_record(out: &mut String, record: &RecordLine<'_>) {
    put!(out, "{{\"type\":\"record\",\"offset\":{}", record.offset);
    put!(out, ",\"timestampType\":\"{}\",\"timestamp\":{}", timestamp_name(record.timestamp_type), record.timestamp);
    put!(out, ",\"keySize\":{},\"valueSize\":{}", size_of(record.key), size_of(record.value));
    if let Some(sequence) = record.sequence {
        put!(out, ",\"sequence\":{sequence},\"headerKeys\":[");
        for (index, (key, _)) in record.headers.clone().into_iter().flatten().enumerate() {
            if index > 0 {
                out.push(',');
            }
            json_string(out, &String::from_utf8_lossy(key));
        }
        out.push(']');
    }
    if let Some((valid, crc)) = record.legacy_crc {
        put!(out, ",\"isValid\":{valid},\"crc\":{crc}");
    }
    if record.control {
        let (kind, id, contents) = control(record);
        put!(out, ",\"controlType\":\"{}\",\"controlTypeId\":{id}", kind.name());
        match contents {
            Some(Contents::Epoch(epoch)) => {
                put!(out, ",\"coordinatorEpoch\":{epoch}");
            }
            Some(Contents::KRaft(_, json)) => {
                put!(out, ",\"controlRecord\":{json}");
            }
            None => {}
        }
    } else if record.print_data {
        out.push_str(",\"key\":");
        json_bytes(out, record.key);
        out.push_str(",\"payload\":");
        json_bytes(out, record.value);
        if let Some(headers) = &record.headers {
            out.push_str(",\"headers\":[");
            for (index, (key, value)) in headers.clone().enumerate() {
                out.push_str(if index > 0 { ",[" } else { "[" });
                json_string(out, &String::from_utf8_lossy(key));
                out.push(',');
                json_bytes(out, value);
                out.push(']');
            }
            out.push(']');
        }
    }
    out.push_str("}\n");
}

/// Contents of a control record other than its type.
enum Contents {
    /// The epoch of the coordinator that ended the transaction.
    Epoch(i32),
    /// The label that Kafka's tool prints, and the contents as JSON.
    KRaft(&'static str, String),
}

/// Returns the type of a control record, the numeric id of the type, and the contents, or `None` if they are malformed.
fn control(record: &RecordLine<'_>) -> (ControlType, i16, Option<Contents>) {
    let key = record.key.unwrap_or_default();
    let id = match key {
        [_, _, high, low, ..] => i16::from_be_bytes([*high, *low]),
        _ => -1,
    };
    let kind = ControlType::from_key(key).unwrap_or(ControlType::Unknown(id));
    let contents = match (kind, record.value.unwrap_or_default()) {
        (ControlType::Abort | ControlType::Commit, [_, _, e0, e1, e2, e3, ..]) => {
            Some(Contents::Epoch(i32::from_be_bytes([*e0, *e1, *e2, *e3])))
        }
        (kind, value) => kraft::describe(kind, value).map(|(label, json)| Contents::KRaft(label, json)),
    };
    (kind, id, contents)
}

pub(super) fn offset_entry(format: Format, out: &mut String, entry: OffsetEntry) {
    let OffsetEntry { offset, position } = entry;
    match format {
        Format::Text => {
            put!(out, "offset: {offset} position: {position}\n");
        }
        Format::Json => {
            put!(out, "{{\"type\":\"offsetIndexEntry\",\"offset\":{offset},\"position\":{position}}}\n");
        }
    }
}

pub(super) fn time_entry(format: Format, out: &mut String, entry: TimeEntry) {
    let TimeEntry { timestamp, offset } = entry;
    match format {
        Format::Text => {
            put!(out, "timestamp: {timestamp} offset: {offset}\n");
        }
        Format::Json => {
            put!(out, "{{\"type\":\"timeIndexEntry\",\"timestamp\":{timestamp},\"offset\":{offset}}}\n");
        }
    }
}

pub(super) fn aborted_entry(format: Format, out: &mut String, entry: AbortedEntry) {
    let AbortedEntry { version, producer_id, first_offset, last_offset, last_stable_offset } = entry;
    match format {
        Format::Text => {
            put!(out, "version: {version} producerId: {producer_id} firstOffset: {first_offset}");
            put!(out, " lastOffset: {last_offset} lastStableOffset: {last_stable_offset}\n");
        }
        Format::Json => {
            put!(out, "{{\"type\":\"abortedTransaction\",\"version\":{version},\"producerId\":{producer_id}");
            put!(out, ",\"firstOffset\":{first_offset},\"lastOffset\":{last_offset}");
            put!(out, ",\"lastStableOffset\":{last_stable_offset}}}\n");
        }
    }
}

/// Writes a problem as a line of JSON. Writes nothing in the text format, in which problems are reported separately.
pub(super) fn problem(format: Format, out: &mut String, problem: &Problem) {
    if format == Format::Json {
        put!(out, "{{\"type\":\"problem\",\"position\":{},\"offset\":{},\"cause\":", problem.position, problem.offset);
        json_string(out, &problem.cause);
        out.push_str("}\n");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sequence_numbers_wrap_around() {
        let header = BatchHeader { base_sequence: i32::MAX - 1, ..empty() };
        assert_eq!([0, 1, 2, 3].map(|delta| sequence(&header, delta)), [i32::MAX - 1, i32::MAX, 0, 1]);
        assert_eq!(sequence(&empty(), 5), -1);
    }

    fn empty() -> BatchHeader {
        BatchHeader {
            base_offset: 0,
            batch_length: 49,
            partition_leader_epoch: -1,
            magic: 2,
            crc: 0,
            attributes: 0,
            last_offset_delta: 0,
            base_timestamp: -1,
            max_timestamp: -1,
            producer_id: -1,
            producer_epoch: -1,
            base_sequence: -1,
            record_count: 0,
        }
    }
}
