//! Records for both benches: 256 KiB of each kind, generated from a fixed seed.
use std::sync::Arc;

use arrow_array::{ArrayRef, BinaryArray, RecordBatch, TimestampMillisecondArray};
use samsarrow_arrow::{Columns, EncodeOptions, encode_batches};
use samsarrow_wire::compression::Codec;

/// Size of the data that is decoded or encoded repeatedly. It fits into the L2 cache.
pub(crate) const HOT_BYTES: usize = 256 * 1024;
const FIRST_TIMESTAMP: i64 = 1_700_000_000_000;

/// Size and contents of the generated records.
#[derive(Clone, Copy)]
pub(crate) struct Kind {
    pub(crate) name: &'static str,
    key_len: Option<usize>,
    value_len: usize,
    values: Values,
}

#[derive(Clone, Copy)]
enum Values {
    Random,
    /// Random values with random lengths up to twice `value_len`.
    Varied,
    Json,
}

pub(crate) const KINDS: [Kind; 5] = [
    Kind { name: "100B", key_len: None, value_len: 100, values: Values::Random },
    Kind { name: "1KB", key_len: None, value_len: 1000, values: Values::Random },
    Kind { name: "20B+8Bkey", key_len: Some(8), value_len: 20, values: Values::Random },
    Kind { name: "0-128B+8Bkey", key_len: Some(8), value_len: 64, values: Values::Varied },
    Kind { name: "JSON", key_len: None, value_len: 180, values: Values::Json },
];

/// A random number generator with the same output on all machines.
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let x = self.0 ^ (self.0 >> 33);
        x.wrapping_mul(0xff51_afd7_ed55_8ccd) ^ (x >> 29)
    }

    fn bytes(&mut self, len: usize) -> Vec<u8> {
        (0..len).map(|_| self.next() as u8).collect()
    }

    fn json(&mut self) -> Vec<u8> {
        const WORDS: [&str; 8] = ["view", "click", "buy", "search", "login", "logout", "share", "refund"];
        let (a, b, c) = (self.next(), self.next(), self.next());
        let mut text = format!(
            r#"{{"id":{},"user":"u{:06}","event":"{}","page":"/shop/{}/{}","price":{}.{:02},"ok":{}"#,
            a % 10_000_000_000,
            b % 1_000_000,
            WORDS[(c % 8) as usize],
            WORDS[(c / 8 % 8) as usize],
            c / 64 % 5000,
            a / 7 % 900,
            b / 11 % 100,
            c & 1 == 0
        );
        if c & 2 == 0 {
            text.push_str(&format!(
                r#","ref":"https://example.com/{}/{:x}","tag":"{:x}""#,
                WORDS[(b % 8) as usize],
                a,
                b
            ));
        }
        text.push('}');
        text.into_bytes()
    }
}

impl Kind {
    /// Returns rows with about 1 MiB of wire bytes.
    pub(crate) fn table(self) -> RecordBatch {
        let rows = HOT_BYTES / (self.value_len + self.key_len.unwrap_or(0) + 10);
        let mut numbers = Numbers(42);
        let keys = BinaryArray::from_iter((0..rows).map(|_| self.key_len.map(|len| numbers.bytes(len))));
        let values = BinaryArray::from_iter_values((0..rows).map(|_| match self.values {
            Values::Random => numbers.bytes(self.value_len),
            Values::Varied => {
                let len = numbers.next() as usize % (2 * self.value_len + 1);
                numbers.bytes(len)
            }
            Values::Json => numbers.json(),
        }));
        let times = TimestampMillisecondArray::from_iter_values((0..rows).map(|i| FIRST_TIMESTAMP + i as i64 / 4));
        let columns: [(&str, ArrayRef); 3] =
            [("key", Arc::new(keys)), ("value", Arc::new(values)), ("timestamp", Arc::new(times))];
        RecordBatch::try_from_iter(columns).expect("columns of one length")
    }
}

pub(crate) fn columns() -> Columns {
    Columns { timestamp: Some("timestamp".to_owned()), ..Columns::default() }
}

/// Encodes the table as batches of 64 KiB.
pub(crate) fn wire(table: &RecordBatch, codec: Codec) -> Vec<u8> {
    let options = EncodeOptions { codec, batch_size: 64 * 1024, ..EncodeOptions::default() };
    encode_batches(table, &columns(), &options).expect("valid columns")
}
