//! Decoding of JSON values into Arrow, compared with arrow-json. The results of both are checked.
#![allow(clippy::expect_used, clippy::print_stdout, missing_docs)]

use std::fmt::Write;
use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_json::ReaderBuilder;
use arrow_schema::{DataType, Field, Schema as ArrowSchema, TimeUnit};
use criterion::{Criterion, Throughput};
use samsarrow_values::{Decoder, Framing, Options, json};

const ROWS: usize = 8192;

/// Formatting of an event, and order of its members.
#[derive(Clone, Copy, PartialEq)]
enum Style {
    /// Members in the order of the schema, without spaces.
    Plain,
    /// Members as Python's `json` writes them, with a space after each comma and colon.
    Spaced,
    /// In reverse order.
    Turned,
}

/// Encoded values, concatenated as in a batch, and the end offset of each value.
struct Values {
    data: String,
    ends: Vec<usize>,
}

impl Values {
    fn new(style: Style) -> Values {
        let mut values = Values { data: String::new(), ends: vec![0] };
        for row in 0..ROWS {
            event(row, style, &mut values.data);
            values.ends.push(values.data.len());
        }
        values
    }

    fn iter(&self) -> impl Iterator<Item = &[u8]> {
        self.ends.windows(2).map(|ends| &self.data.as_bytes()[ends[0]..ends[1]])
    }
}

fn event(row: usize, style: Style, out: &mut String) {
    let note = if row.is_multiple_of(4) { "null" } else { "\"a note of some words\"" };
    let mut members = [
        ("id", (row * 31 + 100_000).to_string()),
        ("user", format!("\"user-{:06}\"", row * 7919 % 1_000_000)),
        ("amount", format!("{:?}", row as f64 * 0.25)),
        ("note", note.to_owned()),
        ("count", (row % 1000).to_string()),
        ("active", (row % 2 == 1).to_string()),
        ("at", (1_790_000_000_000 + row * 1000).to_string()),
        ("kind", ["\"click\"", "\"view\"", "\"purchase\""][row % 3].to_owned()),
    ];
    if style == Style::Turned {
        members.reverse();
    }
    let (comma, colon) = if style == Style::Spaced { (", ", ": ") } else { (",", ":") };
    for (at, (name, value)) in members.iter().enumerate() {
        let before = if at == 0 { "{" } else { comma };
        write!(out, "{before}\"{name}\"{colon}{value}").expect("room");
    }
    out.push('}');
}

fn schema() -> Vec<Field> {
    vec![
        Field::new("id", DataType::Int64, false),
        Field::new("user", DataType::Utf8, false),
        Field::new("amount", DataType::Float64, false),
        Field::new("note", DataType::Utf8, true),
        Field::new("count", DataType::Int32, false),
        Field::new("active", DataType::Boolean, false),
        Field::new("at", DataType::Timestamp(TimeUnit::Millisecond, Some("+00:00".into())), false),
        Field::new("kind", DataType::Utf8, false),
    ]
}

fn decoder(fields: Option<&[&str]>) -> Decoder {
    let schema = json::Schema::from_arrow(DataType::Struct(schema().into()));
    let fields = fields.map(|fields| fields.iter().map(|&field| field.to_owned()).collect());
    Decoder::json(&schema, &Options { fields, framing: Framing::Auto, ..Options::default() }).expect("types")
}

fn decode(decoder: &mut Decoder, values: &Values) -> ArrayRef {
    decoder.reserve(ROWS);
    for value in values.iter() {
        decoder.push(Some(value), None).expect("a good value");
    }
    decoder.finish().expect("columns")
}

fn peer() -> arrow_json::reader::Decoder {
    let builder = ReaderBuilder::new(Arc::new(ArrowSchema::new(schema()))).with_batch_size(ROWS);
    builder.build_decoder().expect("a decoder")
}

/// Decodes all values in one call, which is the fastest way for arrow-json.
fn decode_by_peer(decoder: &mut arrow_json::reader::Decoder, values: &Values) -> RecordBatch {
    assert_eq!(decoder.decode(values.data.as_bytes()).expect("good values"), values.data.len());
    decoder.flush().expect("columns").expect("rows")
}

fn check(ours: &ArrayRef, theirs: &RecordBatch) {
    let ours = ours.as_struct();
    assert_eq!((ours.len(), ours.num_columns()), (theirs.num_rows(), 8));
    for at in 0..8 {
        assert_eq!(ours.column(at).as_ref(), theirs.column(at).as_ref(), "column {at}");
    }
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
        println!("{name}: {time:.1} ns a record, {:.2} x plain", time / best[0]);
    }
}

fn main() {
    let mut criterion = Criterion::default().configure_from_args().measurement_time(Duration::from_secs(4));
    let [plain, spaced, turned] = [Style::Plain, Style::Spaced, Style::Turned].map(Values::new);
    println!("{} bytes a record", plain.data.len() / ROWS);
    let mut group = criterion.benchmark_group("json");
    group.throughput(Throughput::Elements(ROWS as u64));

    let (mut all, mut theirs) = (decoder(None), peer());
    let batch = decode_by_peer(&mut theirs, &plain);
    for values in [&plain, &spaced, &turned] {
        check(&decode(&mut all, values), &batch);
    }
    let mut two = decoder(Some(&["id", "amount"]));
    let got = decode(&mut two, &plain);
    assert_eq!(got.as_struct().column(1), batch.column(2));
    group.bench_function("plain", |b| b.iter(|| black_box(decode(&mut all, &plain)).len()));
    group.bench_function("arrow-json", |b| b.iter(|| black_box(decode_by_peer(&mut theirs, &plain)).num_rows()));
    group.finish();
    let (mut again, mut back) = (decoder(None), decoder(None));
    best(&mut [
        ("plain", &mut || drop(black_box(decode(&mut all, &plain)))),
        ("with spaces", &mut || drop(black_box(decode(&mut again, &spaced)))),
        ("in another order", &mut || drop(black_box(decode(&mut back, &turned)))),
        ("two of eight", &mut || drop(black_box(decode(&mut two, &plain)))),
        ("arrow-json", &mut || drop(black_box(decode_by_peer(&mut theirs, &plain)))),
    ]);
    criterion.final_summary();
}
