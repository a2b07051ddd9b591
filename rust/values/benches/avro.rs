//! Decoding of Avro values into Arrow, compared with arrow-avro. The results of both are checked.
#![allow(clippy::expect_used, clippy::print_stdout, missing_docs)]

use std::hint::black_box;
use std::time::{Duration, Instant};

use arrow_array::cast::AsArray;
use arrow_array::types::Int32Type;
use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_avro::reader::ReaderBuilder;
use arrow_avro::schema::{AvroSchema, Fingerprint, FingerprintAlgorithm, SchemaStore};
use criterion::{Criterion, Throughput};
use samsarrow_values::avro::Schema;
use samsarrow_values::{Decoder, Enums, Options, SchemaId};
use samsarrow_wire::varint::put_varlong;

const ROWS: usize = 8192;

const EVENT: &str = r#"{"type": "record", "name": "Event", "fields": [
    {"name": "id", "type": "long"},
    {"name": "user", "type": "string"},
    {"name": "amount", "type": "double"},
    {"name": "note", "type": ["null", "string"], "default": null},
    {"name": "count", "type": "int"},
    {"name": "active", "type": "boolean"},
    {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
    {"name": "kind", "type": {"type": "enum", "name": "Kind", "symbols": ["click", "view", "purchase"]}}]}"#;

/// Older version of the event schema. It has no `note`, a smaller type for `id`, and another order of the fields.
const EARLIER: &str = r#"{"type": "record", "name": "Event", "fields": [
    {"name": "user", "type": "string"},
    {"name": "id", "type": "int"},
    {"name": "amount", "type": "double"},
    {"name": "count", "type": "int"},
    {"name": "active", "type": "boolean"},
    {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
    {"name": "kind", "type": {"type": "enum", "name": "Kind", "symbols": ["click", "view", "purchase"]}}]}"#;

fn text(value: &str, out: &mut Vec<u8>) {
    put_varlong(out, value.len() as i64);
    out.extend(value.as_bytes());
}

/// Encoded values, concatenated as in a batch, and the end offset of each value.
struct Values {
    data: Vec<u8>,
    ends: Vec<usize>,
}

impl Values {
    fn new(earlier: impl Fn(usize) -> bool) -> Values {
        let mut values = Values { data: Vec::new(), ends: vec![0] };
        for row in 0..ROWS {
            event(row, earlier(row), &mut values.data);
            values.ends.push(values.data.len());
        }
        values
    }

    fn iter(&self) -> impl Iterator<Item = &[u8]> {
        self.ends.windows(2).map(|ends| &self.data[ends[0]..ends[1]])
    }
}

fn event(row: usize, earlier: bool, out: &mut Vec<u8>) {
    out.extend([0, 0, 0, 0, if earlier { 2 } else { 1 }]);
    let user = format!("user-{:06}", row * 7919 % 1_000_000);
    if earlier {
        text(&user, out);
        put_varlong(out, row as i64 * 31 + 100_000);
    } else {
        put_varlong(out, row as i64 * 31 + 100_000);
        text(&user, out);
    }
    out.extend((row as f64 * 0.25).to_le_bytes());
    if !earlier {
        if row.is_multiple_of(4) {
            out.push(0);
        } else {
            out.push(2);
            text("a note of some words", out);
        }
    }
    put_varlong(out, (row % 1000) as i64);
    out.push((row % 2) as u8);
    put_varlong(out, 1_790_000_000_000 + row as i64 * 1000);
    put_varlong(out, (row % 3) as i64);
}

fn decoder(fields: Option<&[&str]>, enums: Enums) -> Decoder {
    let schema = Schema::parse(EVENT).expect("a schema");
    let fields = fields.map(|fields| fields.iter().map(|&field| field.to_owned()).collect());
    let mut decoder = Decoder::avro(&schema, &Options { fields, enums, ..Options::default() }).expect("types");
    decoder.add_writer(SchemaId::Id(1), &schema);
    decoder.add_writer(SchemaId::Id(2), &Schema::parse(EARLIER).expect("a schema"));
    decoder
}

fn decode(decoder: &mut Decoder, values: &Values) -> ArrayRef {
    decoder.reserve(ROWS);
    for value in values.iter() {
        decoder.push(Some(value), None).expect("a good value");
    }
    decoder.finish().expect("columns")
}

fn peer() -> arrow_avro::reader::Decoder {
    let mut store = SchemaStore::new_with_type(FingerprintAlgorithm::Id);
    store.set(Fingerprint::Id(1), AvroSchema::new(EVENT.to_owned())).expect("a schema");
    let builder = ReaderBuilder::new().with_writer_schema_store(store).with_batch_size(ROWS);
    builder.with_active_fingerprint(Fingerprint::Id(1)).build_decoder().expect("a decoder")
}

fn decode_by_peer(decoder: &mut arrow_avro::reader::Decoder, values: &Values) -> RecordBatch {
    for value in values.iter() {
        decoder.decode(value).expect("a good value");
    }
    decoder.flush().expect("columns").expect("rows")
}

fn check(ours: &ArrayRef, theirs: &RecordBatch) {
    let ours = ours.as_struct();
    assert_eq!((ours.len(), ours.num_columns()), (theirs.num_rows(), 8));
    // The last two columns are not compared, because arrow-avro uses another name for the time zone of timestamps, and
    // dictionaries for enums.
    for at in 0..6 {
        assert_eq!(ours.column(at).to_data(), theirs.column(at).to_data(), "column {at}");
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
        println!("{name}: {time:.1} ns a record, {:.2} x all", time / best[0]);
    }
}

fn main() {
    let mut criterion = Criterion::default().configure_from_args().measurement_time(Duration::from_secs(4));
    let (values, mixed) = (Values::new(|_| false), Values::new(|row| row % 2 == 1));
    let mut group = criterion.benchmark_group("avro");
    group.throughput(Throughput::Elements(ROWS as u64));

    let (mut all, mut theirs) = (decoder(None, Enums::Strings), peer());
    check(&decode(&mut all, &values), &decode_by_peer(&mut theirs, &values));
    group.bench_function("all", |b| b.iter(|| black_box(decode(&mut all, &values)).len()));
    group.bench_function("arrow-avro", |b| b.iter(|| black_box(decode_by_peer(&mut theirs, &values)).num_rows()));

    let mut two = decoder(Some(&["id", "amount"]), Enums::Strings);
    let got = decode(&mut two, &values);
    assert_eq!(got.as_struct().column(1), decode(&mut all, &values).as_struct().column(2));
    group.bench_function("two of eight", |b| b.iter(|| black_box(decode(&mut two, &values)).len()));

    let mut again = decoder(None, Enums::Strings);
    let got = decode(&mut again, &mixed);
    assert_eq!(got.as_struct().column(1), decode(&mut all, &values).as_struct().column(1));
    group.bench_function("alternating writers", |b| b.iter(|| black_box(decode(&mut again, &mixed)).len()));
    group.finish();
    let mut dictionary = decoder(None, Enums::Dictionary);
    let (ours, theirs_too) = (decode(&mut dictionary, &values), decode_by_peer(&mut theirs, &values));
    let keys = |column: &ArrayRef| column.as_dictionary::<Int32Type>().keys().clone();
    assert_eq!(keys(ours.as_struct().column(7)), keys(theirs_too.column(7)));
    best(&mut [
        ("all", &mut || drop(black_box(decode(&mut all, &values)))),
        ("all, enums as arrow-avro has them", &mut || drop(black_box(decode(&mut dictionary, &values)))),
        ("arrow-avro", &mut || drop(black_box(decode_by_peer(&mut theirs, &values)))),
        ("two of eight", &mut || drop(black_box(decode(&mut two, &values)))),
        ("alternating writers", &mut || drop(black_box(decode(&mut again, &mixed)))),
    ]);
    criterion.final_summary();
}
