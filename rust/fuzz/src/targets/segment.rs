//! Files of a broker's log with arbitrary contents.
use bytes::Bytes;
use samsarrow_arrow::segment::{SegmentOptions, SegmentReader, Step};
use samsarrow_arrow::{DecodeOptions, Layout};
use samsarrow_wire::compression::Limits;
use samsarrow_wire::segment::dump::{Dump, Format, IndexDump, IndexDumpOptions, LogDump, LogDumpOptions};
use samsarrow_wire::segment::index::{Index, IndexKind};

use super::partition::at_once;
use super::{MAX_DECOMPRESSED, broken};

fn limits() -> Limits {
    Limits { max_bytes: MAX_DECOMPRESSED, ..Limits::default() }
}

/// Flags: 1 verifies checksums, 2 includes control records, 4 selects views, 8 limits the rows of an Arrow batch, 16
/// limits its bytes.
pub(super) fn read(input: &[u8]) {
    let Some((&flags, data)) = input.split_first() else { return };
    let data = Bytes::copy_from_slice(data);
    let decode = DecodeOptions {
        layout: if flags & 4 == 0 { Layout::Binary } else { Layout::View },
        include_control: flags & 2 != 0,
        check_crcs: flags & 1 != 0,
        max_decompressed_bytes: MAX_DECOMPRESSED,
        max_bytes: if flags & 16 == 0 { 1 << 20 } else { 100 },
        ..DecodeOptions::default()
    };
    let limited = flags & 24 != 0;
    let options = SegmentOptions {
        decode: decode.clone(),
        topic_partition: None,
        from_offset: None,
        until_offset: None,
        max_rows: (flags & 8 != 0).then_some(5),
    };
    let mut reader = SegmentReader::new(Box::new(data.clone()), options);
    let (mut rows, mut failed, mut steps) = (0, false, 0);
    loop {
        match reader.step() {
            Ok(Step::Batch(batch)) => rows += batch.num_rows(),
            Ok(Step::More) => {}
            Ok(Step::End) => break,
            // After an error, the next step must return the end.
            Err(_) if failed => broken("a second error"),
            Err(_) => failed = true,
        }
        steps += 1;
        if steps > 4 * data.len() + 100 {
            broken(&format!("{steps} steps for {} bytes", data.len()));
        }
    }
    if !limited {
        let (batch, _) = at_once(DecodeOptions { max_bytes: i32::MAX as usize, ..decode }, &data, None);
        assert_eq!(rows, batch.num_rows(), "as a segment, and as fetched");
    }
}

/// Flags: 1 selects JSON, 2 dumps records, 4 dumps keys and values, 8 limits the bytes to read, 16 sets a base offset.
pub(super) fn dump(input: &[u8]) {
    let Some((&flags, data)) = input.split_first() else { return };
    let options = LogDumpOptions {
        format: format(flags),
        deep: flags & 2 != 0,
        print_data: flags & 4 != 0,
        max_bytes: (flags & 8 != 0).then_some(300),
        limits: limits(),
        base_offset: (flags & 16 != 0).then_some(3),
    };
    let mut dump = LogDump::new(Box::new(Bytes::copy_from_slice(data)), options);
    write_down(&mut dump, data.len());
}

fn format(flags: u8) -> Format {
    if flags & 1 == 0 { Format::Text } else { Format::Json }
}

/// Runs a dump until its end, which must be reached after a limited number of steps.
fn write_down(dump: &mut dyn Dump, len: usize) {
    let (mut out, mut steps) = (String::new(), 0);
    while dump.step(&mut out) {
        out.clear();
        steps += 1;
        assert!(dump.position() <= dump.size());
        if steps > len + 100 {
            broken(&format!("{steps} steps for {len} bytes"));
        }
    }
    assert!(dump.findings().problems.len() <= dump.findings().problem_count);
}

/// Flags: 1 selects JSON, 2 only verifies, 4 and 8 select the kind of index, 16 omits the log, 32 uses a large base
/// offset.
pub(super) fn index(input: &[u8]) {
    let Some((&[flags, l0, l1], rest)) = input.split_first_chunk::<3>() else { return };
    let len = usize::from(u16::from_be_bytes([l0, l1])).min(rest.len());
    let (data, log) = rest.split_at(len);
    let kind = match flags >> 2 & 3 {
        0 | 1 => IndexKind::Offset,
        2 => IndexKind::Time,
        _ => IndexKind::Transaction,
    };
    let base_offset = if flags & 32 == 0 { 0 } else { i64::MAX - 3 };
    let index = Index::new(kind, Bytes::copy_from_slice(data), base_offset);
    assert!(index.len() * kind.entry_len() <= data.len());
    let _ = index.sanity_check();
    for offset in [i64::MIN, 0, 7, i64::MAX] {
        index.lookup(offset);
    }
    let offsets = (kind == IndexKind::Time).then(|| Index::new(IndexKind::Offset, Bytes::copy_from_slice(data), 0));
    let log = (flags & 16 == 0).then(|| Box::new(Bytes::copy_from_slice(log)) as _);
    let options = IndexDumpOptions { format: format(flags), verify_only: flags & 2 != 0, limits: limits() };
    write_down(&mut IndexDump::new(index, log, offsets, options), input.len());
}
