//! Resolution of differences between the writer's and the reader's schema.

use arrow_array::cast::AsArray;
use arrow_array::types::{Float32Type, Float64Type, Int32Type, Int64Type};
use arrow_array::{Array, ArrayRef};
use samsarrow_values::avro::Schema;
use samsarrow_values::{BadValue, Decoder, Framing, Options, SchemaId};

use crate::decode;
use crate::random::{long, text};

fn resolved(writer: &str, reader: &str) -> Decoder {
    let mut decoder = Decoder::avro(&Schema::parse(reader).unwrap(), &Options::default()).unwrap();
    decoder.add_writer(SchemaId::Id(7), &Schema::parse(writer).unwrap());
    decoder
}

fn read(writer: &str, reader: &str, value: &[u8]) -> Result<ArrayRef, BadValue> {
    let framed = [&[0, 0, 0, 0, 7], value].concat();
    let (array, mut bad) = decode(&mut resolved(writer, reader), [Some(framed.as_slice())]);
    bad.pop().map_or(Ok(array), Err)
}

fn record(fields: &str) -> String {
    format!(r#"{{"type": "record", "name": "R", "fields": [{fields}]}}"#)
}

#[test]
fn promotes_numbers() {
    let seven = [14];
    assert_eq!(read("int", "long", &seven).unwrap().as_primitive::<Int64Type>().value(0), 7);
    assert_eq!(read("int", "float", &seven).unwrap().as_primitive::<Float32Type>().value(0), 7.0);
    assert_eq!(read("int", "double", &seven).unwrap().as_primitive::<Float64Type>().value(0), 7.0);
    assert_eq!(read("long", "float", &seven).unwrap().as_primitive::<Float32Type>().value(0), 7.0);
    assert_eq!(read("long", "double", &seven).unwrap().as_primitive::<Float64Type>().value(0), 7.0);
    assert_eq!(read("float", "double", &1.5f32.to_le_bytes()).unwrap().as_primitive::<Float64Type>().value(0), 1.5);
    assert_eq!(read("string", "bytes", b"\x02x").unwrap().as_binary::<i32>().value(0), b"x");
    for (writer, reader) in
        [("long", "int"), ("double", "float"), ("float", "long"), ("string", "int"), ("null", "int")]
    {
        let bad = read(writer, reader, &[0]).unwrap_err();
        assert_eq!(bad.reason, format!("the writer's {writer} cannot be read as {reader}"));
        assert_eq!(bad.schema, Some(SchemaId::Id(7)));
    }
}

#[test]
fn confluent_frames_omit_the_length_of_bytes() {
    assert_eq!(read("bytes", "bytes", b"\x02x").unwrap().as_binary::<i32>().value(0), b"\x02x");
    assert_eq!(read("bytes", "string", b"").unwrap().as_string::<i32>().value(0), "");
    let long = vec![b'y'; 1000];
    assert_eq!(read("bytes", r#"["null", "bytes"]"#, &long).unwrap().as_binary::<i32>().value(0), &long);
    assert!(read("bytes", "string", b"\xff").is_err());
    let options = Options { framing: Framing::Bare, ..Options::default() };
    let mut bare = Decoder::avro(&Schema::parse("bytes").unwrap(), &options).unwrap();
    assert_eq!(decode(&mut bare, [Some(&b"\x02x"[..])]).0.as_binary::<i32>().value(0), b"x");
}

#[test]
fn matches_fields_by_name_alias_or_default() {
    let writer =
        record(r#"{"name": "gone", "type": "string"}, {"name": "old", "type": "int"}, {"name": "b", "type": "long"}"#);
    let reader = record(
        r#"{"name": "b", "type": "long"}, {"name": "a", "aliases": ["b", "old"], "type": "long"},
        {"name": "c", "type": {"type": "array", "items": "string"}, "default": ["x", "y"]},
        {"name": "d", "type": ["null", {"type": "record", "name": "D", "fields": [{"name": "e", "type": "int", "default": 5}]}], "default": null}"#,
    );
    let mut value = Vec::new();
    text(b"skipped", &mut value);
    long(3, &mut value);
    long(4, &mut value);
    let row = read(&writer, &reader, &value).unwrap();
    let row = row.as_struct();
    assert_eq!(row.column(0).as_primitive::<Int64Type>().value(0), 4);
    assert_eq!(row.column(1).as_primitive::<Int64Type>().value(0), 3);
    assert_eq!(row.column(2).as_list::<i32>().value(0).as_string::<i32>().value(1), "y");
    assert!(row.column(3).is_null(0));
    let bad = read(&writer, &record(r#"{"name": "new", "type": "int"}"#), &value).unwrap_err();
    assert_eq!(
        (bad.path.as_str(), bad.reason.as_str()),
        ("new", "the writer has no such field, and the reader's has no default")
    );
    // Data that is skipped must nevertheless be complete.
    let bad = read(&writer, &record(r#"{"name": "b", "type": "long"}"#), &value[..3]).unwrap_err();
    assert_eq!(bad.path, "gone to old");
}

#[test]
fn validates_default_types() {
    let reader =
        |kind: &str, default: &str| record(&format!(r#"{{"name": "a", "type": {kind}, "default": {default}}}"#));
    let writer = record("");
    for (kind, default) in [
        ("\"int\"", "1.0"),
        ("\"double\"", "\"NaN\""),
        ("\"bytes\"", "\"\\u00ff\""),
        (r#"{"type": "map", "values": "int"}"#, r#"{"a": 1}"#),
        (r#"{"type": "fixed", "name": "F", "size": 2}"#, "\"ab\""),
        (r#"["string", "null"]"#, "null"),
        (r#"{"type": "enum", "name": "E", "symbols": ["A", "B"]}"#, "\"B\""),
        (
            r#"{"type": "record", "name": "S", "fields": [{"name": "x", "type": "int"}, {"name": "y", "type": "int", "default": 1}]}"#,
            r#"{"x": 3}"#,
        ),
    ] {
        let row = read(&writer, &reader(kind, default), &[]);
        assert!(row.is_ok(), "{kind} {default}: {row:?}");
    }
    for (kind, default) in [
        ("\"int\"", "1.5"),
        ("\"int\"", "2147483648"),
        ("\"string\"", "1"),
        ("\"bytes\"", "\"\\u0100\""),
        (r#"{"type": "fixed", "name": "F", "size": 2}"#, "\"abc\""),
        (r#"{"type": "enum", "name": "E", "symbols": ["A", "B"]}"#, "\"C\""),
        (r#"["string", "int"]"#, "null"),
    ] {
        let bad = read(&writer, &reader(kind, default), &[]).unwrap_err();
        assert!(bad.path == "a" && bad.reason.contains("default"), "{bad}");
    }
}

#[test]
fn unknown_symbols_use_the_default() {
    let of = |rest: &str| format!(r#"{{"type": "enum", "name": "E", "symbols": {rest}}}"#);
    let writer = of(r#"["A", "B", "C"]"#);
    let reader = of(r#"["C", "A"], "default": "A""#);
    assert_eq!(read(&writer, &reader, &[4]).unwrap().as_string::<i32>().value(0), "C");
    assert_eq!(read(&writer, &reader, &[2]).unwrap().as_string::<i32>().value(0), "A");
    let bad = read(&writer, &of(r#"["C", "A"]"#), &[2]).unwrap_err();
    assert_eq!(bad.reason, "the symbol B is not in the reader's enum, which has no default");
}

#[test]
fn widens_and_narrows_unions() {
    assert_eq!(read("int", r#"["null", "long"]"#, &[6]).unwrap().as_primitive::<Int64Type>().value(0), 3);
    assert_eq!(read(r#"["null", "int"]"#, "int", &[2, 6]).unwrap().as_primitive::<Int32Type>().value(0), 3);
    let bad = read(r#"["null", "int"]"#, "int", &[0]).unwrap_err();
    assert_eq!(bad.reason, "the writer's null cannot be read as int");
    // If a union has a member of the same type, the value is not promoted to another member.
    let row = read("int", r#"["double", "int", "string"]"#, &[6]).unwrap();
    assert!(row.as_struct().column_by_name("int").unwrap().is_valid(0));
    let row = read("float", r#"["double", "int", "string"]"#, &1.5f32.to_le_bytes()).unwrap();
    assert!(row.as_struct().column_by_name("double").unwrap().is_valid(0));
    let row = read(r#"["null", "string", "int"]"#, r#"["int", "string", "null"]"#, &[2, 2, b'x']).unwrap();
    assert_eq!(row.as_struct().column_by_name("string").unwrap().as_string::<i32>().value(0), "x");
    let bad = read(r#"["int", "string"]"#, r#"["int", "boolean"]"#, &[2, 0]).unwrap_err();
    assert_eq!(bad.reason, "the writer's string is not one of the reader's int, boolean");
    let bad = read(r#"["int", "string"]"#, "boolean", &[2, 0]).unwrap_err();
    assert_eq!(bad.reason, "the writer's union of int, string cannot be read as boolean");
}

#[test]
fn matches_short_names_and_aliases() {
    let of = |name: &str, rest: &str| {
        format!(r#"{{"type": "record", "name": "{name}", {rest} "fields": [{{"name": "a", "type": "int"}}]}}"#)
    };
    assert!(read(&of("x.R", ""), &of("y.R", ""), &[2]).is_ok());
    assert!(read(&of("x.R", ""), &of("y.S", r#""aliases": ["x.R"],"#), &[2]).is_ok());
    let bad = read(&of("x.R", ""), &of("y.S", ""), &[2]).unwrap_err();
    assert_eq!(
        bad.reason,
        "the writer's record x.R cannot be read as record y.S: give the reader's an alias if it is the same"
    );
}

#[test]
fn union_members_with_equal_short_names_match_by_namespace() {
    let record = |name: &str, fields: &[&str]| {
        let fields: Vec<_> = fields.iter().map(|f| format!(r#"{{"name": "{f}", "type": "int"}}"#)).collect();
        format!(r#"{{"type": "record", "name": "{name}", "fields": [{}]}}"#, fields.join(", "))
    };
    let set = |array: &ArrayRef| {
        let members = array.as_struct();
        let names = members.column_names().into_iter().zip(members.columns());
        names.filter(|(_, column)| column.is_valid(0)).map(|(name, _)| name.to_owned()).collect::<Vec<_>>()
    };
    let fixed = |name: &str| format!(r#"{{"type": "fixed", "name": "{name}", "size": 1}}"#);
    let symbols = |name: &str| format!(r#"{{"type": "enum", "name": "{name}", "symbols": ["A", "B"]}}"#);
    for (one, other, value) in [
        (record("a.Foo", &["x"]), record("b.Foo", &["x"]), &[2, 14][..]),
        (record("a.Foo", &["x"]), record("b.Foo", &["y", "x"]), &[2, 14, 16]),
        (fixed("a.Foo"), fixed("b.Foo"), &[2, 9]),
        (symbols("a.Foo"), symbols("b.Foo"), &[2, 0]),
    ] {
        let union = format!("[{one}, {other}]");
        assert_eq!(set(&read(&union, &union, value).unwrap()), ["b.Foo"], "{union}");
        // The result is the same if the reader's members are in another order, or if the writer's type is not a union.
        assert_eq!(set(&read(&union, &format!("[{other}, {one}]"), value).unwrap()), ["b.Foo"], "{union}");
        assert_eq!(set(&read(&other, &union, &value[1..]).unwrap()), ["b.Foo"], "{union}");
    }
    // An alias takes precedence over the same short name, which takes precedence over matching fields. A matching
    // record takes precedence over an error.
    let alias = record("c.Bar", &["x"]).replace(r#""fields""#, r#""aliases": ["z.Foo"], "fields""#);
    let writer = record("z.Foo", &["x"]);
    let (a, b) = (record("a.Foo", &["x"]), record("b.Other", &["x"]));
    assert_eq!(set(&read(&writer, &format!("[{a}, {alias}, {b}]"), &[14]).unwrap()), ["Bar"]);
    assert_eq!(set(&read(&writer, &format!("[{b}, {a}]"), &[14]).unwrap()), ["Foo"]);
    let (strange, like) = (record("b.Foo", &["y"]), record("d.Any", &["x"]));
    assert_eq!(set(&read(&writer, &format!("[{strange}, {a}]"), &[14]).unwrap()), ["a.Foo"]);
    assert_eq!(set(&read(&writer, &format!("[{strange}, {like}, \"int\"]"), &[14]).unwrap()), ["Any"]);
    assert!(read(&writer, &format!(r#"["null", {like}]"#), &[14]).is_ok());
    let bad = read(&writer, &format!("[{strange}, \"int\"]"), &[14]).unwrap_err();
    assert_eq!((&*bad.path, &*bad.reason), ("y", "the writer has no such field, and the reader's has no default"));
}

#[test]
fn bounds_structural_union_matching() {
    let union = |space: &str| {
        let below = |at: usize| {
            let records: Vec<_> = (0..60)
                .map(|n| format!(r#"{{"type": "record", "name": "{space}.I{at}_{n}", "fields": [{{"name": "{space}", "type": "int"}}]}}"#))
                .collect();
            format!("[{}]", records.join(", "))
        };
        let records: Vec<_> = (0..60)
            .map(|at| {
                format!(
                    r#"{{"type": "record", "name": "{space}.O{at}", "fields": [{{"name": "f", "type": {}}}]}}"#,
                    below(at)
                )
            })
            .collect();
        format!("[{}]", records.join(", "))
    };
    let bad = read(&union("a"), &union("b"), &[0, 0, 0]).unwrap_err();
    assert!(bad.reason.contains("too many records of different full names"), "{}", bad.reason);
}

#[test]
fn rejects_times_beyond_a_day() {
    let millis = r#"{"type": "int", "logicalType": "time-millis"}"#;
    let micros = r#"{"type": "long", "logicalType": "time-micros"}"#;
    for (writer, reader, end) in [
        (millis, millis, 86_400_000),
        (micros, micros, 86_400_000_000),
        (millis, micros, 86_400_000),
        ("int", millis, 86_400_000),
        ("int", micros, 1 << 31),
    ] {
        for (value, is_time) in [(-1, false), (0, true), (end - 1, true), (end, false)] {
            let mut bytes = Vec::new();
            long(value, &mut bytes);
            let found = read(writer, reader, &bytes);
            assert_eq!(found.is_ok(), is_time, "{writer} {reader} {value}");
            found.iter().for_each(|array| array.to_data().validate_full().unwrap());
        }
    }
    assert!(read(micros, millis, &[0]).is_err());
}

#[test]
fn text_default_is_not_read_as_number() {
    let reader = |of: &str, default: &str| record(&format!(r#"{{"name": "a", "type": {of}, "default": {default}}}"#));
    let row = read(&record(""), &reader(r#"["null", "double", "string"]"#, r#""NaN""#), &[]).unwrap();
    let members = row.as_struct().column(0).as_struct();
    assert_eq!(members.column_by_name("string").unwrap().as_string::<i32>().value(0), "NaN");
    let row = read(&record(""), &reader(r#"["null", "double"]"#, r#""NaN""#), &[]).unwrap();
    assert!(row.as_struct().column(0).as_primitive::<Float64Type>().value(0).is_nan());
}

#[test]
fn decodes_alternating_writers() {
    let reader = record(r#"{"name": "a", "type": "long"}, {"name": "b", "type": "string", "default": "-"}"#);
    let mut decoder = resolved(&record(r#"{"name": "a", "type": "int"}"#), &reader);
    decoder.add_writer(SchemaId::Id(8), &Schema::parse(&reader).unwrap());
    let values: [&[u8]; 5] = [
        &[0, 0, 0, 0, 7, 2],
        &[0, 0, 0, 0, 8, 4, 2, b'x'],
        &[0, 0, 0, 0, 9, 2],
        &[0, 0, 0, 0, 7, 6],
        &[0, 0, 0, 0, 8, 8, 0],
    ];
    let (array, bad) = decode(&mut decoder, values.map(Some));
    assert_eq!(bad.len(), 1);
    assert_eq!(bad[0].to_string(), "row 2, schema id 9: no writer's schema is known for schema id 9");
    let rows = array.as_struct();
    assert_eq!(
        rows.column(0).as_primitive::<Int64Type>().iter().collect::<Vec<_>>(),
        [Some(1), Some(2), Some(0), Some(3), Some(4)]
    );
    let texts: Vec<_> = rows.column(1).as_string::<i32>().iter().collect();
    assert_eq!(texts, [Some("-"), Some("x"), Some(""), Some("-"), Some("")]);
    assert_eq!(rows.nulls().unwrap().iter().collect::<Vec<_>>(), [true, true, false, true, true]);
    assert!(!decoder.knows(SchemaId::Id(9)) && decoder.knows(SchemaId::Id(8)));
}

#[test]
fn projects_field_paths() {
    let schema = record(
        r#"{"name": "id", "type": "int"}, {"name": "user", "type": ["null", {"type": "record", "name": "U", "fields": [
            {"name": "city", "type": "string"}, {"name": "age", "type": "int"}]}]},
        {"name": "items", "type": {"type": "array", "items": {"type": "map", "values": "U"}}},
        {"name": "either", "type": ["int", "U"]}"#,
    );
    let schema = Schema::parse(&schema).unwrap();
    let kind = |fields: &[&str]| {
        let fields = Some(fields.iter().map(|&field| field.to_owned()).collect());
        Decoder::avro(&schema, &Options { fields, ..Options::default() }).map(|decoder| decoder.data_type().to_string())
    };
    assert_eq!(
        kind(&["user.city", "id"]).unwrap(),
        r#"Struct("id": non-null Int32, "user": Struct("city": non-null Utf8))"#
    );
    assert_eq!(kind(&["user.city", "user"]).unwrap(), kind(&["user"]).unwrap());
    assert_eq!(kind(&["user", "user.city"]).unwrap(), kind(&["user"]).unwrap());
    assert!(kind(&["items.age"]).unwrap().contains(r#""value": non-null Struct("age": non-null Int32)"#));
    for (field, why) in [
        ("nme", "field nme: there is no such field; there are id, user, items, either"),
        ("user.x", "field user.x: there is no such field; there are city, age"),
        ("id.x", "field id: int has no fields"),
        ("either.U", "field either: a union of several types is read as a whole"),
    ] {
        assert_eq!(kind(&[field]).unwrap_err().to_string(), why);
    }
    assert!(kind(&[]).is_err());
}

#[test]
fn resolves_fingerprints() {
    let schema = Schema::parse("long").unwrap();
    let options = Options { framing: Framing::SingleObject, ..Options::default() };
    let mut decoder = Decoder::avro(&schema, &options).unwrap();
    let value = [&[0xc3, 1][..], &schema.fingerprint().to_le_bytes(), &[10]].concat();
    let (array, bad) = decode(&mut decoder, [Some(value.as_slice())]);
    assert_eq!((array.as_primitive::<Int64Type>().value(0), bad.len()), (5, 0));
}

#[test]
fn resolves_types_of_referenced_schemas() {
    let user = r#"{"type": "record", "name": "app.User", "fields": [{"name": "name", "type": "string"}]}"#.to_owned();
    let login = r#"{"type": "record", "name": "app.Login", "fields": [{"name": "user", "type": "User"}]}"#.to_owned();
    let all = r#"{"type": "array", "items": "app.Login"}"#;
    let schema = Schema::parse_with(all, &[user.clone(), login.clone()]).unwrap();
    let mut decoder = Decoder::avro(&schema, &crate::bare()).unwrap();
    decoder.push(Some(b"\x02\x06ann\x00"), None).unwrap();
    assert_eq!(decoder.finish().unwrap().len(), 1);
    for (needed, expected) in [
        (vec![login.clone(), user.clone()], "no type"),
        (vec![user.clone(), user], "taken"),
        (vec!["{".to_owned()], "no JSON"),
    ] {
        let error = Schema::parse_with(&login, &needed).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
}

#[test]
fn rejected_writer_can_be_added_later() {
    let long = Schema::parse("long").unwrap();
    let mut decoder = Decoder::avro(&long, &samsarrow_values::Options::default()).unwrap();
    let value: &[u8] = b"\0\0\0\0\x07\x02";
    decoder.refuse_writer(SchemaId::Id(7), "there is none");
    assert_eq!(decoder.refusal(SchemaId::Id(7)).unwrap().text, "there is none");
    let bad = crate::push(&mut decoder, Some(value)).unwrap_err();
    assert_eq!((bad.reason.as_str(), bad.schema), ("there is none", Some(SchemaId::Id(7))));
    decoder.add_writer(SchemaId::Id(7), &long);
    assert!(decoder.refusal(SchemaId::Id(7)).is_none());
    crate::push(&mut decoder, Some(value)).unwrap();
    assert_eq!(decoder.finish().unwrap().null_count(), 1);
}
