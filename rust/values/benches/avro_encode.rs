//! Encoding of Arrow columns into Avro values, compared with arrow-avro. The results are checked: they can be decoded,
//! and they equal those of arrow-avro.
#![allow(clippy::expect_used, clippy::print_stdout, missing_docs)]

use std::collections::HashMap;
use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

use arrow_array::types::Int32Type;
use arrow_array::{
    Array, ArrayRef, BinaryArray, BooleanArray, DictionaryArray, Float64Array, Int32Array, Int64Array, RecordBatch,
    StringArray, StructArray, TimestampMillisecondArray,
};
use arrow_avro::schema::{FingerprintStrategy, SCHEMA_METADATA_KEY};
use arrow_avro::writer::WriterBuilder;
use arrow_avro::writer::format::AvroSoeFormat;
use arrow_schema::{Field, Schema as ArrowSchema};
use samsarrow_values::avro::Schema;
use samsarrow_values::{Decoder, Encoder, Framing, Options, SchemaId};

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

const KINDS: [&str; 3] = ["click", "view", "purchase"];

/// Returns events. The column `kind` is text, or a dictionary of all symbols, which arrow-avro requires.
fn events(dictionary: bool) -> RecordBatch {
    let rows = || 0..ROWS as i64;
    let kinds = StringArray::from(KINDS.to_vec());
    let keys: Int32Array = rows().map(|row| Some((row % 3) as i32)).collect();
    let kind: ArrayRef = if dictionary {
        Arc::new(DictionaryArray::<Int32Type>::try_new(keys, Arc::new(kinds)).expect("a dictionary"))
    } else {
        Arc::new(rows().map(|row| Some(KINDS[(row % 3) as usize])).collect::<StringArray>())
    };
    let at: TimestampMillisecondArray = rows().map(|row| Some(1_790_000_000_000 + row * 1000)).collect();
    let columns: [(&str, ArrayRef); 8] = [
        ("id", Arc::new(rows().map(|row| Some(row * 31 + 100_000)).collect::<Int64Array>())),
        (
            "user",
            Arc::new(rows().map(|row| Some(format!("user-{:06}", row * 7919 % 1_000_000))).collect::<StringArray>()),
        ),
        ("amount", Arc::new(rows().map(|row| Some(row as f64 * 0.25)).collect::<Float64Array>())),
        ("note", Arc::new(rows().map(|row| (row % 4 != 0).then_some("a note of some words")).collect::<StringArray>())),
        ("count", Arc::new(rows().map(|row| Some((row % 1000) as i32)).collect::<Int32Array>())),
        ("active", Arc::new(rows().map(|row| Some(row % 2 == 1)).collect::<BooleanArray>())),
        ("at", Arc::new(at.with_timezone("+00:00"))),
        ("kind", kind),
    ];
    let field = |(name, column): &(&str, ArrayRef)| {
        let field = Field::new(*name, column.data_type().clone(), *name == "note");
        let symbols = serde_json::to_string(&KINDS).expect("JSON");
        if *name == "kind" {
            field.with_metadata(HashMap::from([("avro.enum.symbols".to_owned(), symbols)]))
        } else {
            field
        }
    };
    let schema = ArrowSchema::new(columns.iter().map(field).collect::<Vec<_>>());
    let schema = schema.with_metadata(HashMap::from([(SCHEMA_METADATA_KEY.to_owned(), EVENT.to_owned())]));
    RecordBatch::try_new(Arc::new(schema), columns.map(|(_, column)| column).to_vec()).expect("a batch")
}

fn encoder(rows: &StructArray) -> Encoder {
    let schema = Schema::parse(EVENT).expect("a schema");
    Encoder::avro(&schema, rows.data_type(), Framing::Confluent, Some(SchemaId::Id(1))).expect("columns that fit")
}

fn check(values: &BinaryArray, rows: &StructArray) {
    let schema = Schema::parse(EVENT).expect("a schema");
    let mut decoder = Decoder::avro(&schema, &Options::default()).expect("types");
    decoder.add_writer(SchemaId::Id(1), &schema);
    values.iter().for_each(|value| decoder.push(value, None).expect("a good value"));
    let read = decoder.finish().expect("columns");
    let read = StructArray::from(read.to_data());
    for at in [0, 1, 2, 3, 4, 5, 7] {
        assert_eq!(read.column(at), rows.column(at), "column {at}");
    }
}

fn main() {
    let (texts, dictionaries) = (events(false), events(true));
    let rows = StructArray::from(texts.clone());
    let (ours, theirs_too) = (encoder(&rows), StructArray::from(dictionaries.clone()));
    let values = ours.encode(&rows).expect("values").remove(0);
    check(&values, &rows);
    let builder = WriterBuilder::new((*dictionaries.schema()).clone()).with_row_capacity(64).with_capacity(64 * ROWS);
    let builder = builder.with_fingerprint_strategy(FingerprintStrategy::Id(1));
    let mut peer = builder.build_encoder::<AvroSoeFormat>().expect("an encoder");
    peer.encode(&dictionaries).expect("values");
    let theirs = peer.flush();
    assert!((0..ROWS).all(|row| *theirs.row(row).expect("a row") == *values.value(row)), "the peer writes other bytes");
    assert_eq!(ours.encode(&theirs_too).expect("values").remove(0), values);

    let mut rounds: [(&str, &mut dyn FnMut()); 3] = [
        ("ours", &mut || drop(black_box(ours.encode(&rows)))),
        ("ours, enums as arrow-avro takes them", &mut || drop(black_box(ours.encode(&theirs_too)))),
        ("arrow-avro", &mut || {
            peer.encode(&dictionaries).expect("values");
            drop(black_box(peer.flush()));
        }),
    ];
    // Take the fastest of many rounds, since other load on the machine can only slow rounds down.
    let mut best = [f64::MAX; 3];
    for _ in 0..600 {
        for ((_, round), best) in rounds.iter_mut().zip(&mut best) {
            let start = Instant::now();
            round();
            *best = best.min(start.elapsed().as_nanos() as f64 / ROWS as f64);
        }
    }
    for ((name, _), time) in rounds.iter().zip(best) {
        println!("{name}: {time:.1} ns a record, {:.2} x ours", time / best[0]);
    }
}
