//! Recursive types, which are skipped or decoded to a limited depth.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Int32Type, Int64Type};
use arrow_array::{Array, ArrayRef, Int32Array, ListArray, NullArray, StructArray};
use arrow_buffer::OffsetBuffer;
use arrow_schema::DataType;
use samsarrow_values::avro::Schema;
use samsarrow_values::{Decoder, Encoder, Framing, Options, SchemaId, proto};

use crate::{bare, decode};

const LIST: &str = r#"{"type": "record", "name": "L", "fields": [{"name": "v", "type": "int"},
    {"name": "next", "type": ["null", "L"]}, {"name": "end", "type": "long"}]}"#;
const TREE: &str = r#"{"type": "record", "name": "n.T", "fields": [{"name": "id", "type": "long"},
    {"name": "below", "type": {"type": "array", "items": "T"}}, {"name": "by", "type": {"type": "map", "values": ["T", "string"]}},
    {"name": "end", "type": "string"}]}"#;

fn schema(text: &str) -> Schema {
    Schema::parse(text).unwrap()
}

fn unframed_decoder(text: &str, fields: Option<&[&str]>, recursion: usize) -> Result<Decoder, String> {
    let fields = fields.map(|fields| fields.iter().map(|&field| field.to_owned()).collect());
    Decoder::avro(&schema(text), &Options { fields, recursion, ..bare() }).map_err(|error| error.to_string())
}

/// Returns a decoder for values that have schema ids.
fn framed_decoder(text: &str, recursion: usize) -> Decoder {
    Decoder::avro(&schema(text), &Options { recursion, ..Options::default() }).unwrap()
}

/// Encodes nested records, which are numbered from the outermost one.
fn chain(records: usize) -> Vec<u8> {
    let mut out = Vec::new();
    for at in 0..records {
        out.extend([(at % 50) as u8 * 2, if at + 1 < records { 2 } else { 0 }]);
    }
    out.extend(std::iter::repeat_n(14, records));
    out
}

/// Encodes a tree with the fields id, below, by and end. Its lists consist of blocks with and without their size.
fn tree(depth: u8) -> Vec<u8> {
    let mut out = vec![depth * 2];
    if depth > 0 {
        let below = tree(depth - 1);
        // The first block is preceded by its size in bytes, the second block is not.
        out.extend([1]);
        samsarrow_wire::varint::put_varlong(&mut out, below.len() as i64);
        out.extend(&below);
        out.extend([2]);
        out.extend(&below);
        out.extend([0, 4, 2, b'a', 0]);
        out.extend(&below);
        out.extend([2, b'b', 2, 2, b'x', 0]);
    } else {
        out.extend([0, 0]);
    }
    out.extend([4, b'e', b'n']);
    out
}

#[test]
fn skips_recursive_fields_at_any_depth() {
    let mut decoder = unframed_decoder(LIST, Some(&["v", "end"]), 0).unwrap();
    let values = [chain(1), chain(2), chain(1_000_000), chain(3)];
    let mut cut = chain(1000);
    cut.truncate(500);
    let rows = values.iter().chain([&cut, &values[0]]);
    let (array, bad) = decode(&mut decoder, rows.map(|value| Some(&value[..])));
    assert_eq!(bad.iter().map(|bad| (bad.row, &*bad.path)).collect::<Vec<_>>(), [(4, "next")]);
    assert_eq!(array.len(), 6);
    assert_eq!(array.as_struct().column(1).as_primitive::<Int64Type>().value(2), 7);
    let mut decoder = unframed_decoder(TREE, Some(&["end", "id"]), 0).unwrap();
    let (array, bad) = decode(&mut decoder, (0..6).map(tree).collect::<Vec<_>>().iter().map(|value| Some(&value[..])));
    assert_eq!(bad, []);
    let ids = array.as_struct().column(0).as_primitive::<Int64Type>();
    assert_eq!(ids.values(), &[0, 1, 2, 3, 4, 5]);
}

#[test]
fn projects_paths_into_recursive_types() {
    let mut decoder = unframed_decoder(LIST, Some(&["next.next.v"]), 0).unwrap();
    let values = [chain(1), chain(2), chain(3), chain(9)];
    let (array, bad) = decode(&mut decoder, values.iter().map(|value| Some(&value[..])));
    assert_eq!(bad, []);
    let below = |array: &ArrayRef| array.as_struct().column(0).clone();
    let second = below(&below(&array));
    assert_eq!((0..4).map(|row| second.is_valid(row)).collect::<Vec<_>>(), [false, false, true, true]);
    assert_eq!(below(&second).as_primitive::<Int32Type>().value(3), 2);
}

#[test]
fn recursive_types_require_a_depth() {
    let advice = "leave it out of `fields`, or give `recursion` the depth to which it is read";
    let error = unframed_decoder(LIST, None, 0).unwrap_err();
    assert_eq!(error, format!("field next: L contains itself, which no Arrow type does: {advice}"));
    assert!(unframed_decoder(LIST, Some(&["next"]), 0).unwrap_err().starts_with("field next: L contains itself"));
}

#[test]
fn round_trips_at_the_expansion_depth() {
    for times in 1..4 {
        for (text, values) in
            [(LIST, (1..=times + 1).map(chain).collect::<Vec<_>>()), (TREE, (0..=times as u8).map(tree).collect())]
        {
            let mut decoder = unframed_decoder(text, None, times).unwrap();
            let (array, bad) = decode(&mut decoder, values.iter().map(|value| Some(&value[..])));
            assert_eq!(bad, []);
            let encoder = Encoder::avro(&schema(text), array.data_type(), Framing::Bare, None).unwrap();
            let written = encoder.encode(&array).unwrap().remove(0);
            if text == LIST {
                assert_eq!(written.iter().flatten().collect::<Vec<_>>(), values);
            }
            let (again, bad) = decode(&mut decoder, written.iter());
            assert_eq!((&again, bad), (&array, vec![]));
        }
    }
    // If an item is at the end of the expansion, encoding fails instead of writing an empty item.
    let mut decoder = unframed_decoder(TREE, None, 1).unwrap();
    let (array, _) = decode(&mut decoder, [Some(&tree(1)[..])]);
    let encoder = Encoder::avro(&schema(TREE), array.data_type(), Framing::Bare, None).unwrap();
    let rows = array.as_struct();
    let below = rows.column(1).as_list::<i32>();
    let items = below.values().as_struct();
    let (fields, mut columns, nulls) = items.clone().into_parts();
    let DataType::List(item) = fields[1].data_type() else { panic!("{}", fields[1]) };
    let offsets = OffsetBuffer::from_lengths(vec![1; items.len()]);
    columns[1] = Arc::new(ListArray::new(Arc::clone(item), offsets, Arc::new(NullArray::new(items.len())), None));
    let items: ArrayRef = Arc::new(StructArray::new(fields, columns, nulls));
    let (fields, mut columns, nulls) = rows.clone().into_parts();
    let DataType::List(item) = below.data_type() else { panic!("{}", below.data_type()) };
    columns[1] = Arc::new(ListArray::new(Arc::clone(item), below.offsets().clone(), items, None));
    let bad = encoder.encode(&StructArray::new(fields, columns, nulls)).unwrap_err().to_string();
    assert_eq!(bad, "row 0, field below[0].below[0]: it is null, and the schema has no null here");
}

#[test]
fn expands_recursive_defaults() {
    let old = r#"{"type": "record", "name": "Node", "fields": [{"name": "v", "type": "int"}]}"#;
    let new = |default: &str| {
        format!(
            r#"{{"type": "record", "name": "Node", "fields": [{{"name": "v", "type": "int"}},
            {{"name": "kids", "type": {{"type": "array", "items": "Node"}}, "default": {default}}},
            {{"name": "by", "type": {{"type": "map", "values": "Node"}}, "default": {{}}}}]}}"#
        )
    };
    let read = |default: &str, times: usize, value: &[u8]| {
        let mut decoder = framed_decoder(&new(default), times);
        decoder.add_writer(SchemaId::Id(1), &schema(old));
        decoder.add_writer(SchemaId::Id(2), &schema(&new(default)));
        decode(&mut decoder, [Some(value)])
    };
    for times in 1..4 {
        let (array, bad) = read("[]", times, &[0, 0, 0, 0, 1, 14]);
        assert_eq!(bad, []);
        assert_eq!(array.as_struct().column(1).as_list::<i32>().value_length(0), 0);
        // The default contains another record, which is one level deeper.
        let (array, bad) = read(r#"[{"v": 3, "kids": []}]"#, times, &[0, 0, 0, 0, 1, 14]);
        assert_eq!(bad, []);
        let kids = array.as_struct().column(1).as_list::<i32>();
        assert_eq!(kids.values().as_struct().column(0).as_primitive::<Int32Type>().values(), &[3]);
    }
    let (array, _) = read("[]", 1, &[0, 0, 0, 0, 2, 14, 0, 0]);
    let DataType::Struct(fields) = array.data_type() else { panic!("{}", array.data_type()) };
    // A default that refers to itself is rejected.
    let endless = r#"[{"v": 1}]"#;
    let mut decoder = framed_decoder(&new(endless), 1);
    decoder.add_writer(SchemaId::Id(1), &schema(old));
    let (_, bad) = decode(&mut decoder, [Some(&[0, 0, 0, 0, 1, 14][..])]);
    assert!(bad[0].reason.contains("the default"), "{}", bad[0].reason);
    // The encoded value contains the complete default, even if it is nested deeper than the columns.
    let columns = DataType::Struct(fields.iter().filter(|field| field.name() == "v").cloned().collect());
    let text = new(r#"[{"v": 3, "kids": [{"v": 4, "kids": []}]}]"#);
    let encoder = Encoder::avro(&schema(&text), &columns, Framing::Bare, None).unwrap();
    let rows = StructArray::from(vec![(Arc::clone(&fields[0]), Arc::new(Int32Array::from(vec![7])) as ArrayRef)]);
    let written = encoder.encode(&rows).unwrap().remove(0);
    assert_eq!(written.value(0), [14, 2, 6, 2, 8, 0, 0, 0, 0, 0, 0]);
}

#[test]
fn rejects_values_beyond_the_expansion_depth() {
    for times in 1..5 {
        let mut decoder = unframed_decoder(LIST, None, times).unwrap();
        let values: Vec<_> = (1..8).map(chain).collect();
        let (array, bad) = decode(&mut decoder, values.iter().map(|value| Some(&value[..])));
        array.to_data().validate_full().unwrap();
        assert_eq!(bad.iter().map(|bad| bad.row).collect::<Vec<_>>(), (times + 1..7).collect::<Vec<_>>());
        let path = vec!["next"; times + 1].join(".");
        let reason = format!("it is nested more than {times} times, the depth that `recursion` sets");
        assert!(bad.iter().all(|bad| (&bad.path, &bad.reason) == (&path, &reason)));
        assert_eq!(array.null_count(), bad.len());
        let mut decoder = unframed_decoder(TREE, None, times).unwrap();
        let values: Vec<_> = (0..7).map(tree).collect();
        let (array, bad) = decode(&mut decoder, values.iter().map(|value| Some(&value[..])));
        array.to_data().validate_full().unwrap();
        assert_eq!(bad.iter().map(|bad| bad.row).collect::<Vec<_>>(), (times + 1..7).collect::<Vec<_>>());
    }
    assert!(unframed_decoder(TREE, None, 60).unwrap_err().contains("it has more than 100000 types, or is too deep"));
}

#[test]
fn resolves_recursive_writers_with_plain_readers() {
    let reader = r#"{"type": "record", "name": "L", "fields": [{"name": "end", "type": "double"},
        {"name": "next", "type": ["null", {"type": "record", "name": "M", "aliases": ["L"], "fields": [{"name": "v", "type": "long"}]}]}]}"#;
    let mut decoder = Decoder::avro(&schema(reader), &Options::default()).unwrap();
    decoder.add_writer(SchemaId::Id(1), &schema(LIST));
    let framed = |value: Vec<u8>| [&[0, 0, 0, 0, 1][..], &value].concat();
    let values = [1, 2, 5000].map(|records| framed(chain(records)));
    let (array, bad) = decode(&mut decoder, values.iter().map(|value| Some(&value[..])));
    assert_eq!(bad, []);
    let next = array.as_struct().column(1).as_struct();
    assert_eq!((next.is_valid(0), next.column(0).as_primitive::<Int64Type>().value(2)), (false, 1));
}

#[test]
fn rejects_types_without_values() {
    let text = r#"{"type": "record", "name": "All", "fields": [{"name": "id", "type": "int"},
        {"name": "a", "type": {"type": "record", "name": "A", "fields": [{"name": "a", "type": "A"}]}},
        {"name": "b", "type": {"type": "record", "name": "B", "fields": [{"name": "b", "type": "B"}, {"name": "c", "type": "B"}]}}]}"#;
    let mut decoder = unframed_decoder(text, Some(&["id"]), 0).unwrap();
    let (_, bad) = decode(&mut decoder, [Some(&[2, 0, 0, 0, 0, 0][..])]);
    assert_eq!(bad[0].reason, "the value ends too early");
    assert_eq!(schema(LIST).fingerprint(), schema(&schema(LIST).canonical()).fingerprint());
}

#[test]
fn expands_recursive_messages_to_a_depth() {
    let text = r#"syntax = "proto3"; message M { int32 v = 1; M m = 2; repeated M l = 3; map<string, M> k = 4; oneof o { M p = 5; } }"#;
    let schema = proto::Schema::parse(text).unwrap();
    let mut decoder = Decoder::protobuf(&schema, None, false, &Options { recursion: 2, ..bare() }).unwrap();
    let nested = |tag: u8, times: usize| {
        (0..times).fold(vec![8, 1], |below, _| {
            let field = if tag == 4 { [&[10, 1, b'k', 18, below.len() as u8][..], &below].concat() } else { below };
            [&[8, 1, tag << 3 | 2, field.len() as u8][..], &field].concat()
        })
    };
    let values: Vec<_> = [2, 3, 4, 5].into_iter().flat_map(|tag| (0..5).map(move |times| nested(tag, times))).collect();
    let (array, bad) = decode(&mut decoder, values.iter().map(|value| Some(&value[..])));
    array.to_data().validate_full().unwrap();
    let rows: Vec<_> = bad.iter().map(|bad| bad.row).collect();
    assert_eq!(rows, [3, 4, 8, 9, 13, 14, 18, 19]);
    assert!(bad.iter().all(|bad| bad.reason.starts_with("it is nested more than 2 times")));
}
