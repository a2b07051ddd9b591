//! Decoding of Protobuf values into Arrow. The results are checked.
#![allow(clippy::expect_used, clippy::print_stdout, missing_docs)]

use std::hint::black_box;
use std::time::{Duration, Instant};

use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, Int32Type, Int64Type, TimestampMicrosecondType};
use arrow_array::{Array, ArrayRef};
use criterion::{Criterion, Throughput};
use samsarrow_values::proto::Schema;
use samsarrow_values::{Decoder, Framing, Options};
use samsarrow_wire::varint::put_unsigned_varlong;

const ROWS: usize = 8192;

const EVENT: &str = r#"syntax = "proto3";
    message Event { int64 id = 1; string user = 2; double amount = 3; optional string note = 4; int32 count = 5;
        bool active = 6; int64 at = 7; Kind kind = 8; enum Kind { CLICK = 0; VIEW = 1; PURCHASE = 2; } }
    message Nested { int64 id = 1; google.protobuf.Timestamp at = 2; repeated Item items = 3; map<string, int64> tags = 4;
        message Item { string sku = 1; int32 count = 2; } }"#;

/// Encoded values, concatenated as in a batch, and the end offset of each value.
struct Values {
    data: Vec<u8>,
    ends: Vec<usize>,
}

impl Values {
    fn new(write: impl Fn(usize, &mut Vec<u8>)) -> Values {
        let mut values = Values { data: Vec::new(), ends: vec![0] };
        for row in 0..ROWS {
            write(row, &mut values.data);
            values.ends.push(values.data.len());
        }
        values
    }

    fn iter(&self) -> impl Iterator<Item = &[u8]> {
        self.ends.windows(2).map(|ends| &self.data[ends[0]..ends[1]])
    }
}

fn number(tag: u8, value: u64, out: &mut Vec<u8>) {
    if value != 0 {
        out.push(tag);
        put_unsigned_varlong(out, value);
    }
}

fn text(tag: u8, value: &[u8], out: &mut Vec<u8>) {
    out.push(tag);
    put_unsigned_varlong(out, value.len() as u64);
    out.extend(value);
}

fn event(row: usize, out: &mut Vec<u8>) {
    out.extend([0, 0, 0, 0, 1, 0]);
    let row = row as u64;
    number(0x08, row * 31 + 100_000, out);
    text(0x12, format!("user-{:06}", row * 7919 % 1_000_000).as_bytes(), out);
    if row > 0 {
        out.push(0x19);
        out.extend((row as f64 * 0.25).to_le_bytes());
    }
    if !row.is_multiple_of(4) {
        text(0x22, b"a note of some words", out);
    }
    number(0x28, row % 1000, out);
    number(0x30, row % 2, out);
    number(0x38, 1_790_000_000_000 + row * 1000, out);
    number(0x40, row % 3, out);
}

/// Writes an event that contains `id` twice, so that the decoder has to merge it first.
fn twice(row: usize, out: &mut Vec<u8>) {
    event(row, out);
    number(0x08, row as u64 * 31 + 100_000, out);
}

fn nested(row: usize, out: &mut Vec<u8>) {
    out.extend([0, 0, 0, 0, 1, 2, 2]);
    number(0x08, row as u64 + 1, out);
    text(0x12, b"\x08\x80\x80\x80\xd0\x06\x10\xd0\x0f", out);
    for item in 0..3 {
        text(0x1a, &[0x0a, 4, b's', b'k', b'u', b'0' + item, 0x10, 1 + item], out);
    }
    text(0x22, b"\x0a\x04city\x10\x07", out);
    text(0x22, b"\x0a\x03zip\x10\x09", out);
}

fn decoder(message: &str, fields: Option<&[&str]>) -> Decoder {
    let schema = Schema::parse(EVENT).expect("a schema");
    let fields = fields.map(|fields| fields.iter().map(|&field| field.to_owned()).collect());
    let options = Options { framing: Framing::Auto, fields, ..Options::default() };
    Decoder::protobuf(&schema, Some(message), false, &options).expect("types")
}

fn decode(decoder: &mut Decoder, values: &Values) -> ArrayRef {
    decoder.reserve(ROWS);
    for value in values.iter() {
        decoder.push(Some(value), None).expect("a good value");
    }
    decoder.finish().expect("columns")
}

fn check(got: &ArrayRef) {
    let got = got.as_struct();
    assert_eq!((got.len(), got.num_columns()), (ROWS, 8));
    for row in 0..ROWS {
        assert_eq!(got.column(0).as_primitive::<Int64Type>().value(row), row as i64 * 31 + 100_000);
        assert_eq!(got.column(1).as_string::<i32>().value(row), format!("user-{:06}", row * 7919 % 1_000_000));
        assert_eq!(got.column(2).as_primitive::<Float64Type>().value(row).to_bits(), (row as f64 * 0.25).to_bits());
        assert_eq!(got.column(3).is_null(row), row.is_multiple_of(4));
        assert_eq!(got.column(4).as_primitive::<Int32Type>().value(row), (row % 1000) as i32);
        assert_eq!(got.column(5).as_boolean().value(row), row % 2 == 1);
        assert_eq!(got.column(6).as_primitive::<Int64Type>().value(row), 1_790_000_000_000 + row as i64 * 1000);
        assert_eq!(got.column(7).as_string::<i32>().value(row), ["CLICK", "VIEW", "PURCHASE"][row % 3]);
    }
}

fn check_nested(got: &ArrayRef) {
    let got = got.as_struct();
    assert_eq!(got.column(2).as_list::<i32>().values().len(), 3 * ROWS);
    assert_eq!(got.column(3).as_map().entries().len(), 2 * ROWS);
    assert_eq!(got.column(1).as_primitive::<TimestampMicrosecondType>().value(9) % 1_000_000, 2);
}

/// Prints the nanoseconds per record of the fastest of many rounds, since other load on the machine can only slow
/// rounds down.
fn best(rounds: &mut [(&str, &mut dyn FnMut())]) {
    let mut best = vec![f64::MAX; rounds.len()];
    for _ in 0..600 {
        for ((_, round), best) in rounds.iter_mut().zip(&mut best) {
            let start = Instant::now();
            round();
            *best = best.min(start.elapsed().as_nanos() as f64 / ROWS as f64);
        }
    }
    for ((name, _), time) in rounds.iter().zip(&best) {
        println!("{name}: {time:.1} ns a record, {:.2} x all", time / best[0]);
    }
}

fn main() {
    let mut criterion = Criterion::default().configure_from_args().measurement_time(Duration::from_secs(4));
    let (values, doubled, deep) = (Values::new(event), Values::new(twice), Values::new(nested));
    let (mut all, mut two) = (decoder("Event", None), decoder("Event", Some(&["id", "amount"])));
    let (mut merged, mut inner) = (decoder("Event", None), decoder("Nested", None));
    check(&decode(&mut all, &values));
    check(&decode(&mut merged, &doubled));
    check_nested(&decode(&mut inner, &deep));
    assert_eq!(decode(&mut two, &values).as_struct().column(1), decode(&mut all, &values).as_struct().column(2));
    println!("{} bytes a record", values.data.len() / ROWS);
    let mut group = criterion.benchmark_group("proto");
    group.throughput(Throughput::Elements(ROWS as u64));
    group.bench_function("all", |b| b.iter(|| black_box(decode(&mut all, &values)).len()));
    group.bench_function("two of eight", |b| b.iter(|| black_box(decode(&mut two, &values)).len()));
    group.bench_function("nested", |b| b.iter(|| black_box(decode(&mut inner, &deep)).len()));
    group.finish();
    best(&mut [
        ("all", &mut || drop(black_box(decode(&mut all, &values)))),
        ("two of eight", &mut || drop(black_box(decode(&mut two, &values)))),
        ("a field twice", &mut || drop(black_box(decode(&mut merged, &doubled)))),
        ("a list of three messages, a map of two entries", &mut || drop(black_box(decode(&mut inner, &deep)))),
    ]);
    criterion.final_summary();
}
