//! Tests of reads, truncation and lookups by time.

use super::*;

const END: i64 = i64::MAX;

fn filled(sizes: &[usize]) -> Log {
    let mut log = Log::default();
    for (number, size) in sizes.iter().enumerate() {
        let byte = u8::try_from(number % 251).unwrap();
        log.append(&vec![byte; *size], 2, i64::try_from(number).unwrap() * 10, |_, _| ());
    }
    log
}

#[test]
fn reads_whole_batches_across_segments() {
    let log = filled(&[600_000, 500_000, 100, 700_000]);
    assert_eq!(log.next_offset(), 8);
    assert_eq!(log.segments.len(), 3);
    let all = log.read(0, END, usize::MAX, true);
    assert_eq!(all.bytes, 1_800_100);
    assert_eq!(log.bytes_between(0, END), 1_800_100);
    assert_eq!(log.bytes_between(3, END), 1_200_100);
    // A read from an offset inside a batch returns the whole batch.
    let middle = log.read(5, END, usize::MAX, true);
    assert_eq!(middle.bytes, 700_100);
    assert_eq!(middle.chunks[0][0], 2);
    // The limit never cuts a batch.
    assert_eq!(log.read(0, END, 1_099_999, true).bytes, 600_000);
    assert_eq!(log.read(0, END, 1_100_099, true).bytes, 1_100_000);
    assert_eq!(log.read(0, END, 1_100_100, true).bytes, 1_100_100);
    assert_eq!(log.read(2, END, 500_100, true).bytes, 500_100);
}

#[test]
fn read_returns_at_least_one_batch_on_request() {
    let log = filled(&[1000, 10]);
    assert_eq!(log.read(0, END, 999, true).bytes, 1000);
    assert_eq!(log.read(0, END, 999, false).bytes, 0);
    assert_eq!(log.read(0, END, 0, true).bytes, 1000);
    assert_eq!(log.read(4, END, 999, true).bytes, 0);
    assert_eq!(log.read(-1, END, 999, true).bytes, 0);
}

/// Compares the log with a plain list of batches. The sizes make segments freeze at various offsets.
#[test]
fn read_matches_a_plain_list() {
    let mut random = fastrand::Rng::with_seed(7);
    for _ in 0..30 {
        let mut log = Log::default();
        let mut list: Vec<(i64, i64, usize)> = Vec::new();
        for _ in 0..random.usize(1..60) {
            let size = if random.bool() { random.usize(61..3000) } else { random.usize(61..600_000) };
            let count = random.i64(1..50);
            let base = log.append(&vec![0; size], count, 0, |_, _| ());
            assert_eq!(base, list.last().map_or(0, |(base, count, _)| base + count));
            list.push((base, count, size));
        }
        for _ in 0..300 {
            let offset = random.i64(-1..=log.next_offset());
            let max_bytes = if random.bool() { random.usize(0..5000) } else { random.usize(0..4_000_000) };
            let at_least_one = random.bool();
            let after = list.iter().filter(|(base, count, _)| offset >= 0 && base + count > offset);
            let sizes: Vec<usize> = after.map(|(_, _, size)| *size).collect();
            let mut expected = 0;
            for size in &sizes {
                if expected + size > max_bytes && !(at_least_one && expected == 0) {
                    break;
                }
                expected += size;
            }
            let slices = log.read(offset, END, max_bytes, at_least_one);
            assert_eq!(slices.bytes, expected, "{offset} {max_bytes} {at_least_one} {list:?}");
            assert_eq!(slices.chunks.iter().map(Bytes::len).sum::<usize>(), expected);
            assert_eq!(log.bytes_between(offset, END), sizes.iter().sum::<usize>());
        }
    }
}

#[test]
fn read_stops_at_end_offset() {
    let log = filled(&[600_000, 500_000, 100, 700_000]);
    for (until, bytes) in [(8, 1_800_100), (7, 1_800_100), (6, 1_100_100), (4, 1_100_000), (2, 600_000), (0, 0)] {
        assert_eq!(log.bytes_between(0, until), bytes, "{until}");
        let read = log.read(0, until, usize::MAX, true);
        assert_eq!((read.bytes, read.until), (bytes, (until + until % 2)), "{until}");
    }
    assert_eq!(log.bytes_between(4, 2), 0);
    assert_eq!((log.read(4, 2, 10, true).bytes, log.read(4, 2, 10, true).until), (0, 4));
}

#[test]
fn read_cut_cuts_to_the_byte() {
    let log = filled(&[600_000, 500_000, 100, 700_000]);
    for (offset, size, expected) in
        [(0, 1, 1), (0, 600_001, 600_001), (1, 1_100_050, 1_100_050), (2, 9_000_000, 1_200_100), (7, 3, 3), (8, 3, 0)]
    {
        let cut = log.read_cut(offset, size);
        assert_eq!((cut.bytes, cut.chunks.iter().map(Bytes::len).sum::<usize>()), (expected, expected));
    }
    assert_eq!(log.read_cut(0, 0).bytes, 0);
}

#[test]
fn truncate_removes_whole_batches() {
    for (offset, end, bytes) in [(9, 8, 1_800_100), (7, 6, 1_100_100), (4, 4, 1_100_000), (3, 2, 600_000), (0, 0, 0)] {
        let mut log = filled(&[600_000, 500_000, 100, 700_000]);
        log.truncate(offset);
        assert_eq!((log.next_offset(), log.bytes_between(0, END)), (end, bytes), "{offset}");
        // The next batch is appended at the truncated log end.
        assert_eq!(log.append(&[9; 50], 1, 5, |_, _| ()), end);
        assert_eq!(log.read(end, END, 1000, true).chunks[0][0], 9);
        assert_eq!(log.bytes_between(0, END), bytes + 50);
    }
}

#[test]
fn batch_at_time_finds_first_batch() {
    let log = filled(&[100, 100, 100]);
    assert_eq!(log.batch_at_time(5).unwrap()[0], 1);
    assert_eq!(log.batch_at_time(20).unwrap()[0], 2);
    assert!(log.batch_at_time(21).is_none());
    assert_eq!(log.batch_at_max_time().unwrap()[0], 2);
    assert!(Log::default().batch_at_max_time().is_none());
}
