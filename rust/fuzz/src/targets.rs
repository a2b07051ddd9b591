//! Functions under test. They read bytes from the network or from files, and check invariants of the results.
mod compressed;
pub(crate) mod json;
mod member;
mod partition;
pub(crate) mod protobuf;
pub(crate) mod secure;
mod segment;
pub(crate) mod values;

use std::path::PathBuf;

use bytes::Bytes;
use samsarrow_wire::batch::{BatchHeader, RawRecord, RecordVisitor, batches, walk};
use samsarrow_wire::frame;
use samsarrow_wire::message_matrix::{Format, RoundTrip, formats};

/// Structure of a target's inputs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Input {
    /// Index of a message format, then a frame.
    Frame,
    /// Index of a message format, then a message.
    Message,
    /// Type of the metadata, then metadata that the consumers of a group exchange.
    Member,
    /// Flags, then batches of the given format, or of all formats for `None`.
    Batches(Option<u8>),
    /// A record count, then the records.
    Records,
    /// Flags, the length of an index in two bytes, the index, and the log that the index refers to.
    Index,
    /// Flags, then a compressed stream.
    Stream(Stream),
    /// Flags, then a SASL message, a JAAS entry or a key store.
    Secure(Secure),
    /// Flags, then record values. In some targets, schemas precede the values, or each value has a header.
    Values(Values),
}

/// Schemas of the values in an input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Values {
    /// One of a few Avro schemas, selected by the flags.
    Avro,
    /// The text of an Avro schema, contained in the input.
    Schema,
    /// The texts of the reader's and the writer's Avro schema, contained in the input.
    Resolve,
    /// A few Avro schemas. The framing of each value selects one of them.
    Framed,
    /// One of a few JSON Schemas, selected by the flags.
    Json,
    /// The text of a JSON Schema, contained in the input.
    JsonSchema,
    /// One of a few `.proto` files, selected by the flags.
    Protobuf,
    /// The text of a `.proto` file or encoded descriptors, contained in the input.
    ProtobufSchema,
}

/// Structure of an input that concerns logins or TLS.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Secure {
    /// SASL messages sent by brokers.
    Login,
    /// `sasl.jaas.config`.
    Jaas,
    /// Java key stores.
    Jks,
    /// PKCS12.
    Pkcs12,
    /// PEM.
    Pem,
}

/// Codecs and framings of compressed data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "names of codecs")]
pub enum Stream {
    Gzip,
    Snappy,
    Xerial,
    Lz4,
    Zstd,
}

/// A function that reads untrusted bytes, with its limits.
#[derive(Debug, Clone, Copy)]
pub struct Target {
    /// Name of the target. The folder of its corpus has the same name.
    pub name: &'static str,
    /// Structure of the target's inputs.
    pub input: Input,
    /// The function under test. It panics if an invariant is violated.
    pub run: fn(&[u8]),
    /// Maximum memory use in bytes per byte of input, in addition to `constant`.
    pub memory: usize,
    /// Memory use in bytes that is allowed for any input.
    pub constant: usize,
}

impl Target {
    /// Returns the maximum memory use in bytes for an input of `len` bytes.
    pub fn cap(&self, len: usize) -> usize {
        self.memory * len + self.constant
    }
}

const fn stream(name: &'static str, stream: Stream, run: fn(&[u8])) -> Target {
    Target { name, input: Input::Stream(stream), run, memory: 4, constant: CONSTANT }
}

const fn secured(name: &'static str, what: Secure, run: fn(&[u8])) -> Target {
    Target { name, input: Input::Secure(what), run, memory: 24, constant: CONSTANT }
}

const fn values(name: &'static str, what: Values, run: fn(&[u8]), memory: usize, constant: usize) -> Target {
    Target { name, input: Input::Values(what), run, memory, constant }
}

/// Memory for codec contexts, blocks and minimum buffers. Decompressed data is limited to much less.
const CONSTANT: usize = 1 << 20;
/// Memory for the dump of 64 KiB of the smallest records, counted twice because the text is copied while it grows.
const TEXT: usize = 16 << 20;
/// Memory for a few rows of up to 64 MiB of columns each (see `values::byte_reader`), and for 100,000 columns. Columns
/// are copied while they grow, so their size counts at least twice.
const ANY_SCHEMA: usize = 512 << 20;

/// All targets.
pub const TARGETS: &[Target] = &[
    // A message may use 16 times its size (see `wire::messages::reader`). The message and its debug text both exist
    // twice here.
    Target { name: "frame", input: Input::Frame, run: frames, memory: 20, constant: CONSTANT },
    Target { name: "message", input: Input::Message, run: messages, memory: 48, constant: CONSTANT },
    Target { name: "member", input: Input::Member, run: member::metadata, memory: 48, constant: CONSTANT },
    Target { name: "header", input: Input::Batches(None), run: headers, memory: 4, constant: CONSTANT },
    Target { name: "records", input: Input::Records, run: records, memory: 4, constant: CONSTANT },
    // The input is decoded twice. A record of seven bytes needs about 110 bytes of columns, and the same size again
    // while the columns grow.
    Target { name: "batches", input: Input::Batches(Some(2)), run: partition::decode, memory: 32, constant: CONSTANT },
    Target {
        name: "message_set_v0",
        input: Input::Batches(Some(0)),
        run: partition::decode,
        memory: 32,
        constant: CONSTANT,
    },
    Target {
        name: "message_set_v1",
        input: Input::Batches(Some(1)),
        run: partition::decode,
        memory: 32,
        constant: CONSTANT,
    },
    Target { name: "mixed", input: Input::Batches(None), run: partition::decode, memory: 32, constant: CONSTANT },
    Target { name: "segment", input: Input::Batches(None), run: segment::read, memory: 24, constant: CONSTANT },
    Target { name: "dump", input: Input::Batches(None), run: segment::dump, memory: 24, constant: TEXT },
    Target { name: "index", input: Input::Index, run: segment::index, memory: 24, constant: TEXT },
    stream("gzip", Stream::Gzip, compressed::gzip),
    stream("snappy", Stream::Snappy, compressed::snappy),
    stream("xerial", Stream::Xerial, compressed::snappy),
    stream("lz4", Stream::Lz4, compressed::lz4),
    stream("zstd", Stream::Zstd, compressed::zstd),
    secured("login", Secure::Login, secure::login),
    secured("jaas", Secure::Jaas, secure::jaas),
    secured("jks", Secure::Jks, secure::jks),
    secured("pkcs12", Secure::Pkcs12, secure::pkcs12),
    secured("pem", Secure::Pem, secure::pem),
    // A list item may consist of a single byte, and become a struct of several columns.
    values("avro", Values::Avro, values::avro, 128, CONSTANT),
    values("avro_schema", Values::Schema, values::schema, 400, ANY_SCHEMA),
    values("avro_resolve", Values::Resolve, values::resolve, 400, ANY_SCHEMA),
    values("values_frame", Values::Framed, values::framed, 32, CONSTANT),
    // A list item may consist of two bytes, and become a struct of three columns. The size of the columns counts twice
    // while they grow.
    values("json", Values::Json, json::json, 256, CONSTANT),
    values("json_schema", Values::JsonSchema, json::schema, 400, ANY_SCHEMA),
    values("protobuf", Values::Protobuf, protobuf::values, 128, CONSTANT),
    values("protobuf_schema", Values::ProtobufSchema, protobuf::schema, 400, ANY_SCHEMA),
];

/// Returns the target with the name `name`.
pub fn target(name: &str) -> Option<&'static Target> {
    TARGETS.iter().find(|target| target.name == name)
}

/// Returns the folder of committed inputs, with a subfolder for each target.
pub fn corpus_folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("corpus")
}

/// Maximum decompressed size of batches in targets, in bytes. The limit is high enough to test decoding, but low enough
/// to allocate quickly.
pub(crate) const MAX_DECOMPRESSED: usize = 1 << 16;

thread_local! {
    static FORMATS: Vec<Format> = formats();
}

fn format(input: &[u8]) -> Option<(Format, Bytes)> {
    let (index, body) = input.split_first_chunk::<2>()?;
    let index = usize::from(u16::from_be_bytes(*index));
    let format = FORMATS.with(|formats| formats.get(index % formats.len()).copied())?;
    Some((format, Bytes::copy_from_slice(body)))
}

fn frames(input: &[u8]) {
    let Some((format, bytes)) = format(input) else { return };
    frame::correlation_id(&bytes);
    let _ = format.decode_frame(bytes.clone());
    let _ = frame::decode_api_versions(format.version, bytes.clone());
    if let Ok((header, body)) = frame::decode_request_header(bytes.clone()) {
        assert!(body.len() < bytes.len());
        assert!(header.client_id.is_none_or(|id| id.len() < bytes.len()));
    }
}

fn messages(input: &[u8]) {
    let Some((format, body)) = format(input) else { return };
    if let Ok(RoundTrip::Different(what)) = format.decode(body) {
        broken(&format!("{format:?}: {what}"));
    }
}

/// Reports a violated invariant by panicking.
#[allow(clippy::panic, reason = "that is how a target fails")]
pub(crate) fn broken(what: &str) -> ! {
    panic!("{what}")
}

fn headers(input: &[u8]) {
    let Some((_, data)) = input.split_first() else { return };
    let _ = BatchHeader::parse(data);
    let mut iter = batches(Bytes::copy_from_slice(data));
    let mut position = 0;
    for batch in iter.by_ref() {
        let Ok(batch) = batch else { break };
        assert_eq!(batch.position, position);
        assert!(!batch.bytes().is_empty());
        position += batch.bytes().len();
        assert!(batch.header.next_offset() > batch.header.base_offset || batch.header.next_offset() == i64::MAX);
        let _ = batch.check_crc();
        assert!(batch.payload().len() < batch.bytes().len());
    }
    assert!(position <= data.len());
    assert_eq!(iter.position(), position);
}

fn records(input: &[u8]) {
    struct Sum {
        records: usize,
        bytes: usize,
    }
    impl RecordVisitor for Sum {
        fn record(&mut self, data: &[u8], record: &RawRecord) -> std::ops::ControlFlow<()> {
            self.records += 1;
            self.bytes += record.key(data).map_or(0, <[u8]>::len) + record.value(data).map_or(0, <[u8]>::len);
            let headers = record.headers(data).map(|(name, value)| {
                self.bytes += name.len() + value.map_or(0, <[u8]>::len);
            });
            assert_eq!(headers.count(), record.header_count as usize);
            assert_eq!(record.key(data).is_none(), record.key_len < 0);
            assert_eq!(record.value(data).is_none(), record.value_len < 0);
            std::ops::ControlFlow::Continue(())
        }
    }
    let Some((count, data)) = input.split_first_chunk::<4>() else { return };
    let count = i32::from_be_bytes(*count);
    let mut sum = Sum { records: 0, bytes: 0 };
    if walk(data, count, &mut sum).is_ok() {
        assert_eq!(sum.records, count as usize);
    }
    assert!(sum.bytes <= data.len());
}
