//! Tests of splitting, dumping and damaging segments.

use std::io;
use std::sync::Mutex;

use bytes::Bytes;
use proptest::prelude::*;
use samsarrow_wire::batch::{BatchBuilder, BatchOptions, LegacyBuilder, LegacyOptions, batches};
use samsarrow_wire::compression::{Codec, Compressor, Limits};
use samsarrow_wire::segment::dump::{Dump, Format, IndexDump, IndexDumpOptions, LogDump, LogDumpOptions};
use samsarrow_wire::segment::index::{Index, IndexKind};
use samsarrow_wire::segment::{Run, Segment, SegmentErrorKind, Source, Tail, WINDOW};

/// A source that copies its bytes, like a file, and records the size of the largest read.
#[derive(Debug)]
struct Copied {
    bytes: Bytes,
    largest: Mutex<usize>,
}

impl Copied {
    fn new(bytes: &[u8]) -> Copied {
        Copied { bytes: Bytes::copy_from_slice(bytes), largest: Mutex::new(0) }
    }
}

impl Source for &'static Copied {
    fn size(&self) -> u64 {
        self.bytes.len() as u64
    }

    fn read(&self, position: u64, len: usize) -> io::Result<Bytes> {
        let mut largest = self.largest.lock().unwrap();
        *largest = (*largest).max(len);
        Ok(Bytes::copy_from_slice(&self.bytes.read(position, len)?))
    }
}

fn batch(magic: i8, codec: Codec, base_offset: i64, records: usize, size: usize) -> Vec<u8> {
    let mut compressor = Compressor::new(codec, None).unwrap();
    let value = vec![b'v'; size];
    if magic < 2 {
        let codec = if codec == Codec::Zstd { Codec::None } else { codec };
        let mut builder = LegacyBuilder::new(LegacyOptions { magic, base_offset, ..LegacyOptions::default() }).unwrap();
        for i in 0..records {
            builder.append(i as i64, None, Some(&value), std::iter::empty()).unwrap();
        }
        return builder.finish(&mut Compressor::new(codec, None).unwrap()).unwrap();
    }
    let mut builder = BatchBuilder::new(BatchOptions { base_offset, max_bytes: usize::MAX, ..BatchOptions::default() });
    for i in 0..records {
        let header = (i % 3 == 0).then_some((&b"h\xff"[..], Some(&b"1"[..])));
        builder.append(i as i64, (i % 2 == 0).then_some(&[0xff, b'k'][..]), Some(&value), header.into_iter()).unwrap();
    }
    builder.finish(&mut compressor).unwrap()
}

fn runs(source: Box<dyn Source>, limit: usize) -> (Vec<Run>, Segment, Option<SegmentErrorKind>) {
    let mut segment = Segment::new(source, None);
    let mut found = Vec::new();
    let error = loop {
        match segment.next_run(limit) {
            Ok(Some(run)) => found.push(run),
            Ok(None) => break None,
            Err(error) => break Some(error.kind),
        }
    };
    assert!(segment.next_run(limit).unwrap().is_none(), "it stays at its end");
    (found, segment, error)
}

fn any_batch() -> impl Strategy<Value = (i8, Codec, usize, usize)> {
    let codec = prop::sample::select(Codec::ALL.to_vec());
    (0i8..=2, codec, 1usize..40, prop::sample::select(vec![0usize, 1, 100, 3000]))
}

fn segment_of(parts: &[(i8, Codec, usize, usize)]) -> Vec<u8> {
    let mut data = Vec::new();
    let mut offset = 0;
    for &(magic, codec, records, size) in parts {
        data.extend(batch(magic, codec, offset, records, size));
        offset += records as i64 + 2;
    }
    data
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn runs_cover_the_segment(
        parts in prop::collection::vec(any_batch(), 0..12),
        limit in prop::sample::select(vec![0usize, 1, 500, 5000, 1 << 20]),
        zeros in prop::sample::select(vec![0usize, 3, 100, 5000]),
    ) {
        let data = segment_of(&parts);
        let mut file = data.clone();
        file.resize(data.len() + zeros, 0);
        let sources: [Box<dyn Source>; 2] = [
            Box::new(Bytes::from(file.clone())),
            Box::new(&*Box::leak(Box::new(Copied::new(&file)))),
        ];
        for source in sources {
            let (runs, segment, error) = runs(source, limit);
            prop_assert!(error.is_none());
            let tail = if zeros == 0 { Tail::Clean } else { Tail::Zeros(zeros as u64) };
            prop_assert_eq!(segment.tail(), Some(tail));
            let mut position = 0;
            for run in &runs {
                prop_assert_eq!(run.position, position);
                position += run.data.len() as u64;
                let compressed: Vec<_> =
                    batches(run.data.clone()).map(|batch| batch.unwrap().header.codec_id() != 0).collect();
                prop_assert!(compressed.len() == 1 || (!compressed.contains(&true) && run.data.len() <= limit));
            }
            let all: Vec<u8> = runs.iter().flat_map(|run| run.data.to_vec()).collect();
            prop_assert_eq!(&all, &data);
        }
    }

    #[test]
    fn damaged_segments_never_panic(
        parts in prop::collection::vec(any_batch(), 1..6),
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..6),
        cut in any::<prop::sample::Index>(),
        index in prop::collection::vec(any::<u8>(), 0..200),
    ) {
        let mut data = segment_of(&parts);
        for (at, byte) in damage {
            let at = at.index(data.len());
            data[at] = byte;
        }
        data.truncate(cut.index(data.len()) + 1);
        let (runs, segment, error) = runs(Box::new(Bytes::from(data.clone())), 1000);
        let good: usize = runs.iter().map(|run| run.data.len()).sum();
        prop_assert_eq!(segment.position(), good as u64);
        prop_assert!(error.is_some() || good == data.len() || segment.tail() != Some(Tail::Clean));
        for format in [Format::Text, Format::Json] {
            let options = LogDumpOptions {
                format, deep: true, print_data: true, max_bytes: None, limits: Limits::default(), base_offset: Some(0),
            };
            let text = all_of(&mut LogDump::new(Box::new(Bytes::from(data.clone())), options));
            check(format, &text);
            for kind in [IndexKind::Offset, IndexKind::Time, IndexKind::Transaction] {
                let index_under_test = Index::new(kind, Bytes::from(index.clone()), 0);
                let offsets = Index::new(IndexKind::Offset, Bytes::from(index.clone()), 0);
                let options = IndexDumpOptions { format, verify_only: false, limits: Limits::default() };
                let log = Box::new(Bytes::from(data.clone()));
                let text = all_of(&mut IndexDump::new(index_under_test, Some(log), Some(offsets), options));
                check(format, &text);
            }
        }
    }
}

fn all_of(dump: &mut dyn Dump) -> String {
    let mut out = String::new();
    for _ in 0..100_000 {
        if !dump.step(&mut out) {
            assert!(dump.position() <= dump.size());
            return out;
        }
    }
    panic!("a dump does not end");
}

fn check(format: Format, text: &str) {
    if format == Format::Json {
        for line in text.split_terminator('\n') {
            let parsed: Result<serde_json::Value, _> = serde_json::from_str(line);
            assert!(parsed.is_ok_and(|value| value["type"].is_string()), "{line}");
        }
    }
}

#[test]
fn reads_batch_larger_than_window() {
    let mut data = batch(2, Codec::None, 0, 10, 100);
    data.extend(batch(2, Codec::None, 10, 5, WINDOW));
    data.extend(batch(2, Codec::None, 15, 10, 100));
    let source: &'static Copied = Box::leak(Box::new(Copied::new(&data)));
    let (runs, _, error) = runs(Box::new(source), 1 << 20);
    assert!(error.is_none());
    assert_eq!(runs.len(), 3);
    assert_eq!(runs[1].data.len(), data.len() - runs[0].data.len() - runs[2].data.len());
}

#[test]
fn excessive_length_allocates_nothing() {
    let mut data = batch(2, Codec::None, 0, 10, 100);
    let good = data.len();
    data.extend(batch(2, Codec::None, 10, 10, 100));
    data[good + 8..good + 12].copy_from_slice(&i32::MAX.to_be_bytes());
    let source: &'static Copied = Box::leak(Box::new(Copied::new(&data)));
    let (runs, segment, error) = runs(Box::new(source), 1 << 20);
    assert_eq!((runs.len(), segment.position()), (1, good as u64));
    let left = (data.len() - good) as u64;
    let needed = i32::MAX as u64 + 12;
    assert!(
        matches!(error, Some(SegmentErrorKind::Truncated { left: l, needed: n }) if (l, n) == (left, needed)),
        "{error:?}"
    );
    assert!(*source.largest.lock().unwrap() <= data.len());
}

#[test]
fn max_bytes_limits_the_read() {
    let data = [batch(2, Codec::None, 0, 10, 100), batch(2, Codec::None, 10, 10, 100)].concat();
    for (max_bytes, expected, tail) in [
        (data.len() as u64, 2, Tail::Clean),
        (data.len() as u64 - 1, 1, Tail::Limit),
        (5, 0, Tail::Limit),
        (0, 0, Tail::Limit),
    ] {
        let mut segment = Segment::new(Box::new(Bytes::from(data.clone())), Some(max_bytes));
        let mut count = 0;
        while let Some(run) = segment.next_run(0).unwrap() {
            count += batches(run.data).count();
        }
        assert_eq!((count, segment.tail()), (expected, Some(tail)), "{max_bytes}");
    }
}

#[test]
fn shrinking_file_is_an_error() {
    #[derive(Debug)]
    struct Shrunk(Bytes);
    impl Source for Shrunk {
        fn size(&self) -> u64 {
            self.0.len() as u64 + 10
        }
        fn read(&self, position: u64, len: usize) -> io::Result<Bytes> {
            self.0.read(position, len)
        }
    }
    let (_, _, error) = runs(Box::new(Shrunk(batch(2, Codec::None, 0, 10, 100).into())), 0);
    assert!(matches!(error, Some(SegmentErrorKind::Io(_))), "{error:?}");
}

#[test]
fn large_batch_is_dumped_in_steps() {
    let data = batch(2, Codec::Zstd, 0, 200_000, 0);
    assert!(data.len() < 1 << 20);
    let options = LogDumpOptions {
        format: Format::Json,
        deep: true,
        print_data: true,
        max_bytes: None,
        limits: Limits::default(),
        base_offset: None,
    };
    let mut dump = LogDump::new(Box::new(Bytes::from(data)), options);
    let (mut lines, mut largest, mut more) = (0, 0, true);
    while more {
        let mut out = String::new();
        more = dump.step(&mut out);
        lines += out.matches("\"type\":\"record\"").count();
        largest = largest.max(out.len());
    }
    assert_eq!(lines, 200_000);
    assert!(largest < 2 << 20, "{largest}");
    assert_eq!(dump.findings().problem_count, 0);
}
