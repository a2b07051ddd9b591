//! What takes bytes off the wire or off a disk, and what must hold whatever the bytes are.
mod member;
pub(crate) mod secure;
mod segment;

use std::cell::RefCell;
use std::path::PathBuf;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{Array, RecordBatch};
use bytes::Bytes;
use samsarrow_arrow::{AbortedTransaction, AbortedTransactions, DecodeOptions, Decoder, Layout, Projection, Window};
use samsarrow_wire::batch::{Batch, BatchHeader, RawRecord, RecordVisitor, batches, walk};
use samsarrow_wire::compression::{Codec, CompressionError, Compressor, Decompressor, Limits};
use samsarrow_wire::frame;
use samsarrow_wire::messages::formats::{Again, Format, formats};

/// What the inputs of a target are made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Input {
    /// A format's index, then a frame.
    Frame,
    /// A format's index, then a message.
    Message,
    /// What it is, then what consumers send each other within a group.
    Member,
    /// Flags, then batches of a format, or of all.
    Batches(Option<u8>),
    /// A count, then records.
    Records,
    /// Flags, the length of an index in two bytes, the index, and its log.
    Index,
    /// Flags, then a compressed stream.
    Stream(Stream),
    /// Flags, then what a login or its options are made of.
    Secure(Secure),
}

/// What logins, and their options, are made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Secure {
    /// What brokers say.
    Login,
    /// `sasl.jaas.config`.
    Jaas,
    /// Java's stores.
    Jks,
    /// PKCS12.
    Pkcs12,
    /// PEM.
    Pem,
}

/// The ways in which compressed bytes are framed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "names of codecs")]
pub enum Stream {
    Gzip,
    Snappy,
    Xerial,
    Lz4,
    Zstd,
}

/// Something that is handed bytes.
#[derive(Debug, Clone, Copy)]
pub struct Target {
    /// Its name, that of its corpus too.
    pub name: &'static str,
    /// What its inputs are made of.
    pub input: Input,
    /// Panics if a promise is broken.
    pub run: fn(&[u8]),
    /// The most bytes that it may allocate: this many times the input, and `constant`.
    pub memory: usize,
    /// What any input may allocate.
    pub constant: usize,
}

impl Target {
    /// The most bytes that an input of `len` bytes may make it allocate.
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

/// Codec contexts, blocks and the smallest buffers; decompressed bytes are capped far below it.
const CONSTANT: usize = 1 << 20;
/// The text that says what 64 KiB of the smallest records hold, twice while it grows.
const TEXT: usize = 16 << 20;

/// All of them.
pub const TARGETS: &[Target] = &[
    // A message may take 16 times its bytes (wire::messages::types), is there twice here, and so are its texts.
    Target { name: "frame", input: Input::Frame, run: frames, memory: 20, constant: CONSTANT },
    Target { name: "message", input: Input::Message, run: messages, memory: 48, constant: CONSTANT },
    Target { name: "member", input: Input::Member, run: member::told, memory: 48, constant: CONSTANT },
    Target { name: "header", input: Input::Batches(None), run: headers, memory: 4, constant: CONSTANT },
    Target { name: "records", input: Input::Records, run: records, memory: 4, constant: CONSTANT },
    // Decoded twice: some 110 bytes of columns for a record of seven, and as much again while they grow.
    Target { name: "batches", input: Input::Batches(Some(2)), run: partition, memory: 32, constant: CONSTANT },
    Target { name: "message_set_v0", input: Input::Batches(Some(0)), run: partition, memory: 32, constant: CONSTANT },
    Target { name: "message_set_v1", input: Input::Batches(Some(1)), run: partition, memory: 32, constant: CONSTANT },
    Target { name: "mixed", input: Input::Batches(None), run: partition, memory: 32, constant: CONSTANT },
    Target { name: "segment", input: Input::Batches(None), run: segment::read, memory: 24, constant: CONSTANT },
    Target { name: "dump", input: Input::Batches(None), run: segment::dump, memory: 24, constant: TEXT },
    Target { name: "index", input: Input::Index, run: segment::index, memory: 24, constant: TEXT },
    stream("gzip", Stream::Gzip, gzip),
    stream("snappy", Stream::Snappy, snappy),
    stream("xerial", Stream::Xerial, snappy),
    stream("lz4", Stream::Lz4, lz4),
    stream("zstd", Stream::Zstd, zstd),
    secured("login", Secure::Login, secure::login),
    secured("jaas", Secure::Jaas, secure::jaas),
    secured("jks", Secure::Jks, secure::jks),
    secured("pkcs12", Secure::Pkcs12, secure::pkcs12),
    secured("pem", Secure::Pem, secure::pem),
];

/// The target of a name.
pub fn target(name: &str) -> Option<&'static Target> {
    TARGETS.iter().find(|target| target.name == name)
}

/// Where the committed inputs are, a folder for each target.
pub fn corpus_folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("corpus")
}

/// The most that batches may decompress to here: enough to come through, little to allocate.
pub(crate) const MAX_DECOMPRESSED: usize = 1 << 16;

thread_local! {
    static FORMATS: Vec<Format> = formats();
    /// Contexts are reused as they are in a client: what one input leaves behind meets the next.
    static DECOMPRESSORS: RefCell<(Decompressor, Decompressor)> =
        RefCell::new((Decompressor::new(), Decompressor::new().with_legacy_lz4()));
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
    if let Ok(Again::Different(what)) = format.decode(body) {
        broken(&format!("{format:?}: {what}"));
    }
}

/// A promise that is more than not to panic was not kept.
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

/// Flags: 1 checks checksums, 2 gives control records too, 4 leaves aborted ones out, 8 goes in small steps.
fn partition(input: &[u8]) {
    let Some((&flags, data)) = input.split_first() else { return };
    let data = Bytes::copy_from_slice(data);
    let options = |layout| DecodeOptions {
        layout,
        include_headers: flags & 16 == 0,
        include_leader_epoch: flags & 32 == 0,
        include_control: flags & 2 != 0,
        check_crcs: flags & 1 != 0,
        max_decompressed_bytes: MAX_DECOMPRESSED,
        max_decompressed_ratio: 0,
        ..DecodeOptions::default()
    };
    let aborted = || {
        let list = (0..4).map(|id| AbortedTransaction { producer_id: id, first_offset: 3 * id });
        (flags & 4 != 0).then(|| AbortedTransactions::new(list))
    };
    let all = |layout| at_once(options(layout), &data, aborted().as_mut());
    let (binary, view) = (all(Layout::Binary), all(Layout::View));
    assert_same(&binary, &view);
    counted(options(Layout::Binary), &data, aborted().as_mut(), &binary);
    if flags & 8 != 0 {
        let layout = if flags & 64 == 0 { Layout::Binary } else { Layout::View };
        let step = DecodeOptions { max_bytes: 1 + usize::from(flags >> 4) * 20, ..options(layout) };
        let (rows, failed) = in_steps(step, &data, aborted().as_mut());
        let (at_once, error) = &binary;
        // Offsets that go back are skipped by one who goes on from an offset; then only progress counts.
        // Before a bad record some of its batch may be given in steps.
        let same = if error.is_some() { failed && rows >= at_once.num_rows() } else { rows == at_once.num_rows() };
        if !same && ascending(&options(Layout::Binary), &data) {
            broken(&format!("{rows} rows in steps (failed: {failed}), at once {} ({error:?})", at_once.num_rows()));
        }
    }
}

/// Records that are only counted: as many as `decoded` has, or more where one of them is bad.
fn counted(
    options: DecodeOptions,
    data: &Bytes,
    aborted: Option<&mut AbortedTransactions>,
    decoded: &(RecordBatch, Option<String>),
) {
    let headers = batches(data.clone()).map_while(Result::ok).map(|batch| batch.header);
    let promised: usize = headers.map(|header| usize::try_from(header.record_count).unwrap_or_default()).sum();
    // Compressed records may be any number, and a row takes memory.
    if promised > data.len() / 4 {
        return;
    }
    let (rows, error) = at_once(DecodeOptions { projection: Projection::NONE, ..options }, data, aborted);
    let (found, wanted) = (rows.num_rows(), decoded.0.num_rows());
    let same = if decoded.1.is_some() { found >= wanted } else { found == wanted && error.is_none() };
    if !same {
        broken(&format!("{found} rows are counted ({error:?}), {wanted} are there ({:?})", decoded.1));
    }
}

/// Whether offsets ascend, and lie within what the batches' headers say.
fn ascending(options: &DecodeOptions, data: &Bytes) -> bool {
    let mut next = i64::MIN;
    for batch in batches(data.clone()).map_while(Result::ok) {
        let (rows, error) = at_once(options.clone(), batch.bytes(), None);
        if error.is_some() && !records_ascend(&batch) {
            return false;
        }
        let Some(offsets) = rows.column_by_name("offset").map(|column| column.as_primitive::<Int64Type>()) else {
            return false;
        };
        // A wrapper gives only its last offset.
        let first = if batch.header.is_wrapper() { i64::MIN } else { batch.header.base_offset };
        for offset in offsets.values() {
            if *offset < next.max(first) || *offset > batch.header.last_offset() {
                return false;
            }
            next = offset + 1;
        }
        if batch.header.base_offset < next && rows.num_rows() == 0 {
            return false;
        }
        next = batch.header.next_offset();
    }
    true
}

/// Whether the offsets of a batch that cannot be read to its end ascend until there; no, if they are compressed.
fn records_ascend(batch: &Batch) -> bool {
    struct Last(Option<i32>);
    impl RecordVisitor for Last {
        fn record(&mut self, _: &[u8], record: &RawRecord) -> std::ops::ControlFlow<()> {
            if self.0.is_some_and(|last| record.offset_delta <= last) {
                return std::ops::ControlFlow::Break(());
            }
            self.0 = Some(record.offset_delta);
            std::ops::ControlFlow::Continue(())
        }
    }
    // To break off is no error.
    batch.header.codec_id() == 0
        && batch.header.magic == 2
        && walk(&batch.payload(), batch.header.record_count, &mut Last(None)).is_err()
}

/// The rows, up to the first bad batch, and what is wrong with that.
pub(crate) fn at_once(
    options: DecodeOptions,
    data: &Bytes,
    aborted: Option<&mut AbortedTransactions>,
) -> (RecordBatch, Option<String>) {
    let mut decoder = Decoder::new(options);
    let window = Window { from_offset: i64::MIN, until_offset: None, max_rows: None, aborted };
    let result = decoder.append(&Arc::from("t"), 0, data.clone(), window);
    let error = match result {
        Ok(appended) => {
            assert!(!appended.full && !appended.row_limit && !appended.reached_until);
            assert!(appended.consumed <= data.len());
            assert!(appended.truncated_tail || appended.consumed == data.len());
            assert_eq!(appended.rows, decoder.rows());
            None
        }
        Err(error) => Some(error.to_string()),
    };
    let rows = decoder.rows();
    let Ok(batch) = decoder.finish() else { broken("Arrow refuses the columns") };
    assert_eq!(batch.num_rows(), rows);
    for column in batch.columns() {
        if let Err(error) = column.to_data().validate_full() {
            broken(&format!("an invalid column: {error}"));
        }
    }
    (batch, error)
}

/// The same as a fetcher goes through it: a few rows at a time. Always moves on.
fn in_steps(options: DecodeOptions, data: &Bytes, mut aborted: Option<&mut AbortedTransactions>) -> (usize, bool) {
    let mut decoder = Decoder::new(options);
    let topic = Arc::from("t");
    let (mut rest, mut from, mut rows) = (data.clone(), i64::MIN, 0);
    loop {
        let window =
            Window { from_offset: from, until_offset: None, max_rows: Some(3), aborted: aborted.as_deref_mut() };
        let (appended, failed) = match decoder.append(&topic, 0, rest.clone(), window) {
            Ok(appended) => (appended, false),
            Err(error) => (error.appended, true),
        };
        rows += appended.rows;
        let _ = decoder.finish();
        if failed || !(appended.full || appended.row_limit) {
            return (rows, failed);
        }
        assert!(appended.consumed > 0 || appended.next_offset > from, "a step without progress: {appended:?}");
        from = appended.next_offset;
        rest = rest.slice(appended.consumed..);
    }
}

/// Both layouts hold the same values.
fn assert_same((binary, one): &(RecordBatch, Option<String>), (view, other): &(RecordBatch, Option<String>)) {
    assert_eq!(one, other, "errors of both layouts");
    assert_eq!(binary.num_rows(), view.num_rows());
    for (a, b) in binary.columns().iter().zip(view.columns()) {
        match (a.as_binary_opt::<i32>(), b.as_binary_view_opt()) {
            (Some(a), Some(b)) => assert!(a.iter().eq(b.iter()), "values of both layouts"),
            _ => assert_eq!(a, b),
        }
    }
}

fn decompress(codec: Codec, input: &[u8]) {
    let Some((&flags, data)) = input.split_first() else { return };
    let cap = if flags & 2 == 0 { MAX_DECOMPRESSED } else { usize::from(flags) };
    let limits = Limits { max_bytes: cap, max_ratio: if flags & 4 == 0 { 0 } else { 3 }, small: 100 };
    let mut out = b"kept".to_vec();
    let result = DECOMPRESSORS.with_borrow_mut(|(new, legacy)| {
        let decompressor = if flags & 1 == 0 { new } else { legacy };
        decompressor.decompress(codec, data, &mut out, limits)
    });
    assert!(out.starts_with(b"kept"));
    match result {
        Ok(()) => {
            assert!(out.len() - 4 <= cap);
            assert!(flags & 4 == 0 || out.len() - 4 <= (3 * data.len()).max(100));
            if flags & 8 != 0 && codec != Codec::Gzip {
                again(codec, &out);
            }
        }
        Err(CompressionError::TooLarge { .. } | CompressionError::Ratio { .. } | CompressionError::Corrupt { .. }) => {}
        Err(other) => broken(&format!("of damaged data: {other}")),
    }
}

/// What came out can be compressed, and comes out again.
fn again(codec: Codec, plain: &[u8]) {
    let mut compressed = Vec::new();
    let Ok(mut compressor) = Compressor::new(codec, None) else { return };
    let written = compressor.compress(plain, &mut compressed);
    let mut out = Vec::new();
    let read = Decompressor::new().decompress(codec, &compressed, &mut out, plain.len());
    assert_eq!((written, read), (Ok(()), Ok(())));
    assert!(out == plain, "{codec:?} gives other bytes back");
}

fn gzip(input: &[u8]) {
    decompress(Codec::Gzip, input);
}

fn snappy(input: &[u8]) {
    decompress(Codec::Snappy, input);
}

fn lz4(input: &[u8]) {
    decompress(Codec::Lz4, input);
}

fn zstd(input: &[u8]) {
    decompress(Codec::Zstd, input);
}
