//! Zero-copy encoder of Fetch responses: it encodes the fields and sends the records as slices of the log. The general
//! encoder would copy all records into one buffer.

use bytes::{BufMut, Bytes, BytesMut};
use samsarrow_wire::batch::AbortedTransaction;
use samsarrow_wire::error_code::ErrorCode;
use samsarrow_wire::messages::Uuid;

use super::{Call, Outcome};
use crate::log::Slices;
use crate::state::Node;

/// Minimum size in bytes of records that are sent as a separate slice. Copying smaller records between the fields is
/// cheaper.
const COPIED_BELOW: usize = 2048;
const FIRST_WITH_TRANSACTIONS: i16 = 4;
const FIRST_FLEXIBLE: i16 = 12;
const FIRST_WITH_IDS: i16 = 13;
const FIRST_WITH_ENDPOINTS: i16 = 16;

/// Current leader, returned if the partition was fetched from another node.
pub(crate) struct Leader {
    pub(crate) id: i32,
    pub(crate) epoch: i32,
}

/// Fetch response for one partition.
pub(crate) struct Fetched {
    pub(crate) partition: i32,
    pub(crate) code: ErrorCode,
    pub(crate) high_watermark: i64,
    pub(crate) last_stable: i64,
    /// Aborted transactions in the offset range of the records; only for `read_committed`.
    pub(crate) aborted: Option<Vec<AbortedTransaction>>,
    pub(crate) log_start: i64,
    pub(crate) leader: Option<Leader>,
    /// Preferred read replica (KIP-392).
    pub(crate) preferred: Option<i32>,
    /// Epoch and end offset at which the logs diverge (KIP-320).
    pub(crate) diverging: Option<(i32, i64)>,
    pub(crate) records: Slices,
}

impl Fetched {
    /// Returns true if an incremental fetch response must include the partition.
    pub(crate) fn must_include(&self) -> bool {
        self.code != ErrorCode::NONE || self.records.bytes > 0 || self.preferred.is_some() || self.diverging.is_some()
    }
}

/// Fetch response for one topic.
pub(crate) struct FetchedTopic<'a> {
    pub(crate) name: &'a str,
    pub(crate) id: Uuid,
    pub(crate) partitions: Vec<Fetched>,
}

struct Writer {
    flexible: bool,
    done: Vec<Bytes>,
    fields: BytesMut,
    bytes: usize,
}

/// Converts a length to the protocol's type. The conversion never saturates, because the limits of a fetch keep all
/// lengths far below 2^32.
fn narrow(length: usize) -> u32 {
    u32::try_from(length).unwrap_or(u32::MAX)
}

fn put_unsigned_varint(out: &mut BytesMut, mut value: u32) {
    while value >= 0x80 {
        out.put_u8(value.to_le_bytes()[0] | 0x80);
        value >>= 7;
    }
    out.put_u8(value.to_le_bytes()[0]);
}

fn put_compact_string(out: &mut BytesMut, text: &str) {
    put_unsigned_varint(out, narrow(text.len() + 1));
    out.put_slice(text.as_bytes());
}

impl Writer {
    /// Writes the length of an array or a bytes field.
    fn length(&mut self, length: usize) {
        if self.flexible {
            put_unsigned_varint(&mut self.fields, narrow(length + 1));
        } else {
            self.fields.put_u32(narrow(length));
        }
    }

    fn null_array(&mut self) {
        if self.flexible {
            self.fields.put_u8(0);
        } else {
            self.fields.put_i32(-1);
        }
    }

    fn string(&mut self, text: &str) {
        if self.flexible {
            put_compact_string(&mut self.fields, text);
        } else {
            self.fields.put_u16(u16::try_from(text.len()).unwrap_or(u16::MAX));
            self.fields.put_slice(text.as_bytes());
        }
    }

    fn no_tags(&mut self) {
        if self.flexible {
            self.fields.put_u8(0);
        }
    }

    /// Writes a tagged-fields section with a single field.
    fn tag(&mut self, tag: u8, value: &[u8]) {
        self.fields.put_u8(1);
        self.fields.put_u8(tag);
        put_unsigned_varint(&mut self.fields, narrow(value.len()));
        self.fields.put_slice(value);
    }

    fn flush(&mut self) {
        let fields = self.fields.split().freeze();
        self.bytes += fields.len();
        self.done.push(fields);
    }

    fn records(&mut self, records: Slices) {
        self.length(records.bytes);
        for chunk in records.chunks {
            if chunk.len() < COPIED_BELOW {
                self.fields.put_slice(&chunk);
            } else {
                self.flush();
                self.bytes += chunk.len();
                self.done.push(chunk);
            }
        }
    }

    fn partition(&mut self, fetched: Fetched, version: i16) {
        self.fields.put_i32(fetched.partition);
        self.fields.put_i16(fetched.code.code());
        self.fields.put_i64(fetched.high_watermark);
        if version >= FIRST_WITH_TRANSACTIONS {
            self.fields.put_i64(fetched.last_stable);
        }
        if version >= 5 {
            self.fields.put_i64(fetched.log_start);
        }
        match &fetched.aborted {
            _ if version < FIRST_WITH_TRANSACTIONS => {}
            Some(aborted) => {
                self.length(aborted.len());
                for transaction in aborted {
                    self.fields.put_i64(transaction.producer_id);
                    self.fields.put_i64(transaction.first_offset);
                    self.no_tags();
                }
            }
            None => self.null_array(),
        }
        if version >= 11 {
            self.fields.put_i32(fetched.preferred.unwrap_or(-1));
        }
        self.records(fetched.records);
        match (fetched.diverging, fetched.leader) {
            (Some((epoch, end_offset)), _) if self.flexible => {
                let mut value = BytesMut::with_capacity(13);
                value.put_i32(epoch);
                value.put_i64(end_offset);
                value.put_u8(0);
                self.tag(0, &value);
            }
            (_, Some(leader)) if self.flexible => {
                let mut value = BytesMut::with_capacity(9);
                value.put_i32(leader.id);
                value.put_i32(leader.epoch);
                value.put_u8(0);
                self.tag(1, &value);
            }
            _ => self.no_tags(),
        }
    }

    fn endpoints(&mut self, endpoints: &[(i32, &Node)]) {
        let mut value = BytesMut::new();
        put_unsigned_varint(&mut value, narrow(endpoints.len() + 1));
        for (id, node) in endpoints {
            value.put_i32(*id);
            put_compact_string(&mut value, &node.host);
            value.put_i32(node.port.into());
            // The rack is null, and the tagged fields are empty.
            value.put_slice(&[0, 0]);
        }
        self.tag(0, &value);
    }
}

/// Encodes the whole response frame.
pub(crate) fn write(
    call: &Call<'_>,
    session_id: i32,
    topics: Vec<FetchedTopic<'_>>,
    endpoints: &[(i32, &Node)],
) -> Outcome {
    let version = call.version;
    let flexible = version >= FIRST_FLEXIBLE;
    let mut out = Writer { flexible, done: Vec::new(), fields: BytesMut::with_capacity(512), bytes: 0 };
    out.fields.put_i32(call.correlation_id);
    out.no_tags();
    if version >= 1 {
        out.fields.put_i32(call.throttle_ms());
    }
    if version >= 7 {
        out.fields.put_i16(ErrorCode::NONE.code());
        out.fields.put_i32(session_id);
    }
    out.length(topics.len());
    for topic in topics {
        if version >= FIRST_WITH_IDS {
            out.fields.put_slice(&topic.id.0);
        } else {
            out.string(topic.name);
        }
        out.length(topic.partitions.len());
        for fetched in topic.partitions {
            out.partition(fetched, version);
        }
        out.no_tags();
    }
    if version >= FIRST_WITH_ENDPOINTS && !endpoints.is_empty() {
        out.endpoints(endpoints);
    } else {
        out.no_tags();
    }
    out.flush();
    let Ok(length) = i32::try_from(out.bytes) else {
        return Outcome::Close(format!("a response of {} bytes exceeds the maximum frame size", out.bytes));
    };
    let mut chunks = Vec::with_capacity(out.done.len() + 1);
    chunks.push(Bytes::copy_from_slice(&length.to_be_bytes()));
    chunks.append(&mut out.done);
    Outcome::Reply(chunks)
}
