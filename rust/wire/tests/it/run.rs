//! Tests that records appended in runs are encoded to the same bytes as records appended one by one.
use proptest::prelude::*;
use samsarrow_wire::ShortBytes;
use samsarrow_wire::batch::{Append, BatchBuilder, BatchOptions, EqualLengthRows, PlainRecord, PlainRows};
use samsarrow_wire::compression::{Codec, Compressor};

/// A column in Arrow's layout, with concatenated bytes and the end offset of each element.
#[derive(Debug, Default)]
struct Column {
    bytes: Vec<u8>,
    ends: Vec<usize>,
    nulls: Vec<bool>,
}

impl Column {
    fn push(&mut self, len: Option<usize>) {
        let number = self.ends.len();
        self.bytes.extend((0..len.unwrap_or(0)).map(|i| (number * 31 + i) as u8 | 1));
        self.ends.push(self.bytes.len());
        self.nulls.push(len.is_none());
    }

    fn piece(&self, row: usize) -> Option<ShortBytes<'_>> {
        let start = if row == 0 { 0 } else { self.ends[row - 1] };
        (!self.nulls[row]).then(|| ShortBytes::of(&self.bytes, start, self.ends[row] - start).unwrap())
    }

    fn equal_length_rows(&self, row: usize, max_rows: usize, len: Option<usize>) -> &[u8] {
        let same = |row: &usize| self.piece(*row).map(|piece| piece.len()) == len;
        let rows = (row..self.ends.len().min(row + max_rows)).take_while(same).count();
        let start = if row == 0 { 0 } else { self.ends[row - 1] };
        &self.bytes[start..start + rows * len.unwrap_or(0)]
    }
}

#[derive(Debug, Default)]
struct Rows {
    timestamps: Vec<i64>,
    keys: Column,
    values: Column,
}

impl PlainRows for Rows {
    fn record(&self, row: usize) -> PlainRecord<'_> {
        PlainRecord { timestamp: self.timestamps[row], key: self.keys.piece(row), value: self.values.piece(row) }
    }

    fn equal_length_rows(
        &self,
        row: usize,
        max_rows: usize,
        key_len: Option<usize>,
        value_len: usize,
    ) -> Option<EqualLengthRows<'_>> {
        let end = self.timestamps.len().min(row + max_rows);
        let end = (row..end).find(|row| self.keys.nulls[*row] != key_len.is_none()).unwrap_or(end);
        Some(EqualLengthRows {
            timestamps: &self.timestamps[row..end],
            keys: key_len.map(|len| self.keys.equal_length_rows(row, max_rows, Some(len))),
            values: self.values.equal_length_rows(row, max_rows, Some(value_len)),
        })
    }
}

/// A run of similar records: number of records, length of the key and of the value, first timestamp, and increment of
/// the timestamp.
type Stretch = (usize, Option<usize>, Option<usize>, i64, i64);

fn rows(stretches: &[Stretch]) -> Rows {
    let mut rows = Rows::default();
    for (count, key_len, value_len, first, step) in stretches {
        for number in 0..*count as i64 {
            rows.timestamps.push(first.wrapping_add(number * step));
            rows.keys.push(*key_len);
            rows.values.push(*value_len);
        }
    }
    rows
}

fn builder(max_bytes: usize) -> BatchBuilder {
    BatchBuilder::new(BatchOptions { max_bytes, ..BatchOptions::default() })
}

fn one_by_one(rows: &Rows, max_bytes: usize) -> Vec<u8> {
    let (mut builder, mut compressor) = (builder(max_bytes), Compressor::new(Codec::None, None).unwrap());
    for row in 0..rows.timestamps.len() {
        let PlainRecord { timestamp, key, value } = rows.record(row);
        while builder.append_short_bytes(timestamp, key, value, std::iter::empty()).unwrap() == Append::Full {
            builder.close(&mut compressor).unwrap();
        }
    }
    builder.finish(&mut compressor).unwrap()
}

fn in_runs(rows: &Rows, max_bytes: usize) -> Vec<u8> {
    let (mut builder, mut compressor) = (builder(max_bytes), Compressor::new(Codec::None, None).unwrap());
    let total = rows.timestamps.len();
    let mut row = builder.append_run(rows, 0..total).unwrap();
    while row < total {
        builder.close(&mut compressor).unwrap();
        row += builder.append_run(rows, row..total).unwrap();
    }
    builder.finish(&mut compressor).unwrap()
}

fn len(max_rows: usize) -> impl Strategy<Value = Option<usize>> {
    const BORDERS: [usize; 19] = [0, 1, 3, 4, 7, 8, 15, 16, 31, 32, 63, 64, 65, 127, 128, 129, 255, 256, 300];
    let border = prop::sample::select(BORDERS.as_slice()).prop_map(move |len| len.min(max_rows));
    prop::option::weighted(0.8, prop_oneof![border, 0..max_rows])
}

fn stretch() -> impl Strategy<Value = Stretch> {
    let count = prop_oneof![1..6usize, 50..80usize, 100..400usize];
    // The first timestamps include the smallest numbers whose varints have two, three and four bytes, and larger
    // numbers.
    let first = prop_oneof![Just(0), 50..70i64, -70..-50i64, 8100..8200i64, 1_048_000..1_048_600i64, any::<i64>()];
    let step = prop_oneof![Just(0), Just(1), -1..100i64];
    // With these lengths, most length fields of records have up to two bytes, and a few have three.
    let value = prop_oneof![9 => len(320), 1 => (8100..8200usize).prop_map(Some)];
    (count, len(130), value, first, step)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, ..ProptestConfig::default() })]

    #[test]
    fn runs_equal_single_appends(
        stretches in prop::collection::vec(stretch(), 1..8),
        keyless in any::<bool>(),
        limit in prop_oneof![Just(usize::MAX), 100..50_000usize],
    ) {
        let without_key = |(count, key, value, first, step)| (count, if keyless { None } else { key }, value, first, step);
        let rows = rows(&stretches.into_iter().map(without_key).collect::<Vec<_>>());
        prop_assert!(in_runs(&rows, limit) == one_by_one(&rows, limit));
    }

    #[test]
    fn random_lengths_equal_single_appends(lens in prop::collection::vec((len(70), len(300)), 1..200), limit in 100..20_000usize) {
        let rows = rows(&lens.into_iter().map(|(key, value)| (1, key, value, 7, 0)).collect::<Vec<_>>());
        prop_assert!(in_runs(&rows, limit) == one_by_one(&rows, limit));
    }
}

#[test]
fn offsets_of_every_width_equal_single_appends() {
    // Offset deltas have three bytes from 8,192 on, and four bytes from 1,048,576 on.
    for (count, key, value) in [(1_048_700, None, Some(4)), (8300, Some(4), Some(5)), (8300, None, Some(0))] {
        let rows = rows(&[(count, key, value, 1_700_000_000_000, 1)]);
        assert!(in_runs(&rows, usize::MAX) == one_by_one(&rows, usize::MAX));
    }
}

#[test]
fn every_length_equals_single_appends_at_a_few_limits() {
    for value in 0..300 {
        for key in [None, Some(value % 70)] {
            let rows = rows(&[(70, key, Some(value), 5, 1)]);
            for limit in [61, 500, 501, 502, 5000] {
                assert!(in_runs(&rows, limit) == one_by_one(&rows, limit), "{key:?} {value} {limit}");
            }
        }
    }
}
