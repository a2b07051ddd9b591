//! Values whose counts and lengths are wrong, and schemas that would exhaust memory.

use arrow_array::Array;
use samsarrow_values::avro::Schema;
use samsarrow_values::{Decoder, SchemaId, ValueError};

use crate::random::{Random, long, text};
use crate::{decode, decode_error, decoder};

fn written(numbers: &[i64]) -> Vec<u8> {
    let mut out = Vec::new();
    numbers.iter().for_each(|number| long(*number, &mut out));
    out
}

const ARRAY: &str = r#"{"type": "array", "items": "long"}"#;
const NULLS: &str = r#"{"type": "array", "items": "null"}"#;

#[test]
fn rejects_counts_and_lengths_beyond_the_input() {
    let reason = |schema: &str, numbers: &[i64]| decode_error(schema, &written(numbers)).1;
    assert_eq!(reason("string", &[5]), "5 bytes are announced, and 0 are there");
    assert_eq!(reason("bytes", &[-1]), "the length is -1");
    assert_eq!(reason("string", &[i64::MAX]), format!("{} bytes are announced, and 0 are there", i64::MAX));
    assert_eq!(reason(ARRAY, &[3, 1]), "a block of 3 items cannot be in the 1 bytes that are left");
    assert_eq!(
        reason(ARRAY, &[i64::MAX]),
        format!("a block of {} items cannot be in the 0 bytes that are left", i64::MAX)
    );
    assert!(reason(ARRAY, &[i64::MIN, 0]).starts_with("a block of -9223372036854775808 items"));
    assert_eq!(reason(ARRAY, &[-1, 2, 1, 0]), "a block announces 2 bytes, but has 1");
    assert_eq!(reason(ARRAY, &[-1, 9, 1, 0]), "9 bytes are announced, and 2 are there");
    assert_eq!(
        reason(r#"{"type": "map", "values": "null"}"#, &[1 << 40]).split(" items").next(),
        Some("a block of 1099511627776")
    );
    assert_eq!(reason(r#"["null", "int"]"#, &[2]), "branch 2 of a union of 2");
    assert_eq!(reason(r#"["null", "int"]"#, &[-1]), "branch -1 of a union of 2");
    assert_eq!(reason(r#"["null", "int", "string"]"#, &[i64::MIN]), format!("branch {} of a union of 3", i64::MIN));
    let colours = r#"{"type": "enum", "name": "E", "symbols": ["A", "B"]}"#;
    assert_eq!(reason(colours, &[2]), "symbol 2 of an enum of 2");
    assert_eq!(reason(colours, &[-1]), "symbol -1 of an enum of 2");
    assert_eq!(reason("int", &[1 << 40]), "a number has more bits than its type");
    assert_eq!(decode_error("long", &[0xff; 11]).1, "a number has more bits than its type");
    assert_eq!(decode_error("boolean", &[2]).1, "a boolean is the byte 2");
    assert_eq!(decode_error("string", b"\x04\xc3\x28").1, "the text is not UTF-8");
    assert_eq!(decode_error(r#"{"type": "map", "values": "int"}"#, b"\x02\x02\xff\x00\x00").1, "the text is not UTF-8");
}

#[test]
fn bounds_items_without_bytes() {
    let million = 1 << 20;
    let (array, bad) = decode(&mut decoder(NULLS), [Some(written(&[million, 0]).as_slice())]);
    assert_eq!((array.len(), bad.len()), (1, 0));
    for value in
        [written(&[1 << 62, 0]), written(&[million + 1, 0]), written(&[million, million, 0]), written(&[i64::MAX])]
    {
        assert!(decode_error(NULLS, &value).1.contains("items cannot be in"));
    }
    // Each inner list is small, but together they have too many items.
    let nested = r#"{"type": "array", "items": {"type": "array", "items": "null"}}"#;
    let mut value = written(&[3000]);
    (0..3000).for_each(|_| value.extend(written(&[1000, 0])));
    value.push(0);
    let (path, reason) = decode_error(nested, &value);
    assert!(path.starts_with("[1048]"), "{path}");
    assert!(reason.contains("1000 items cannot be in"), "{reason}");
    // If a list is skipped, it may have any number of items.
    let schema = r#"{"type": "record", "name": "R", "fields": [{"name": "a", "type": {"type": "array", "items": "null"}}, {"name": "b", "type": "int"}]}"#;
    let options = samsarrow_values::Options { fields: Some(vec!["b".to_owned()]), ..crate::bare() };
    let mut decoder = samsarrow_values::Decoder::avro(&Schema::parse(schema).unwrap(), &options).unwrap();
    assert_eq!(decode(&mut decoder, [Some(written(&[1 << 62, 0, 7]).as_slice())]).1, []);
}

#[test]
fn bounds_expansion_of_small_values() {
    // Each item has one byte, and is decoded into a thousand nulls.
    let fields: Vec<_> = (0..1000).map(|at| format!(r#"{{"name": "f{at}", "type": ["null", "long"]}}"#)).collect();
    let record = format!(r#"{{"type": "record", "name": "R", "fields": [{}]}}"#, fields.join(","));
    let schema = format!(r#"{{"type": "array", "items": ["null", {record}]}}"#);
    let items = 1 << 20;
    let mut value = written(&[items]);
    value.resize(value.len() + items as usize, 0);
    value.push(0);
    assert!(decode_error(&schema, &value).1.starts_with("it would decode to more than"));
}

#[test]
fn bounds_the_size_of_null_rows() {
    let schema = |size| {
        let fields = (0..4).map(|at| {
            format!(r#"{{"name": "f{at}", "type": ["null", {{"type": "fixed", "name": "F{at}", "size": {size}}}]}}"#)
        });
        let fields: Vec<_> = fields.collect();
        Schema::parse(&format!(r#"{{"type": "record", "name": "R", "fields": [{}]}}"#, fields.join(","))).unwrap()
    };
    let decode_error = Decoder::avro(&schema(i32::MAX), &crate::bare()).unwrap_err().to_string();
    assert!(decode_error.starts_with("a row that is null would take 8589934"), "{decode_error}");
    let options = samsarrow_values::Options { fields: Some(vec!["f0".to_owned()]), ..crate::bare() };
    for decoder in [Decoder::avro(&schema(1 << 20), &crate::bare()), Decoder::avro(&schema(4 << 20), &options)] {
        assert_eq!(decode(&mut decoder.unwrap(), [None]).0.len(), 1);
    }
}

#[test]
fn reports_full_at_the_size_limit() {
    // The items have no bytes, and each is decoded into a default.
    let [empty, full] = ["", r#"{"name": "n", "type": "long", "default": 7}"#].map(|fields| {
        format!(r#"{{"type": "array", "items": {{"type": "record", "name": "R", "fields": [{fields}]}}}}"#)
    });
    let mut decoder = Decoder::avro(&Schema::parse(&full).unwrap(), &crate::bare()).unwrap();
    decoder.add_writer(SchemaId::Bare, &Schema::parse(&empty).unwrap());
    decoder.set_limit(1 << 20);
    let value = written(&[30_000, 0]);
    let mut full = || {
        let pushed = (0..).take_while(|_| decoder.push(Some(&value), None).is_ok()).count();
        (pushed, decoder.finish().unwrap().len())
    };
    // The longs of a value take up to 360 KB including their validity bitmap. The size is reset when an array is
    // finished.
    assert_eq!([full(), full()], [(4, 4); 2]);
    // If a value is bad after its items were decoded, their size is not counted.
    let bad = [&value[..], &[1]].concat();
    assert!((0..20).all(|_| matches!(decoder.push(Some(&bad), None), Err(ValueError::Bad(_)))));
    assert_eq!(decoder.finish().unwrap().len(), 20);
    // An array accepts at least one row, even if the limit is smaller than a row.
    decoder.set_limit(1);
    assert!(decoder.push(Some(&value), None).is_ok());
    assert!(matches!(decoder.push(None, None), Err(ValueError::Full)));
    // Null rows count towards the limit, too.
    let mut decoder = Decoder::avro(&Schema::parse("long").unwrap(), &crate::bare()).unwrap();
    decoder.set_limit(1200);
    decoder.reserve(1 << 40);
    let pushed = (0..).take_while(|_| decoder.push(None, None).is_ok()).count();
    assert_eq!(pushed, 100);
}

#[test]
fn errors_name_the_field() {
    let schema = r#"{"type": "record", "name": "R", "fields": [{"name": "user", "type": {"type": "record", "name": "U",
        "fields": [{"name": "items", "type": {"type": "array", "items": {"type": "map", "values": "string"}}}]}}]}"#;
    let mut value = written(&[2, 0, 1]);
    text(b"key", &mut value);
    text(b"\xff", &mut value);
    value.extend([0, 0]);
    assert_eq!(decode_error(schema, &value), ("user.items[1][\"key\"]".to_owned(), "the text is not UTF-8".to_owned()));
}

#[test]
fn bounds_schema_size() {
    let refuse = |text: &str| Schema::parse(text).unwrap_err().to_string();
    let deep = format!("{}\"int\"{}", r#"{"type":"array","items":"#.repeat(200), "}".repeat(200));
    assert!(refuse(&deep).contains("recursion limit"), "{}", refuse(&deep));
    // Each named type is used twice in the next one, so that there would be 2^40 columns.
    let mut fields = vec![r#"{"name": "f0", "type": {"type": "record", "name": "R0", "fields": []}}"#.to_owned()];
    for at in 1..40 {
        let below = format!(r#"{{"name": "a", "type": "R{0}"}}, {{"name": "b", "type": "R{0}"}}"#, at - 1);
        fields.push(format!(
            r#"{{"name": "f{at}", "type": {{"type": "record", "name": "R{at}", "fields": [{below}]}}}}"#
        ));
    }
    let wide = format!(r#"{{"type": "record", "name": "All", "fields": [{}]}}"#, fields.join(","));
    assert!(refuse(&wide).contains("more than 100000 types"), "{}", refuse(&wide));
    let mut fields = vec![r#"{"name": "f0", "type": {"type": "record", "name": "R0", "fields": []}}"#.to_owned()];
    for at in 1..140 {
        let below = format!(r#"{{"name": "a", "type": "R{}"}}"#, at - 1);
        fields.push(format!(
            r#"{{"name": "f{at}", "type": {{"type": "record", "name": "R{at}", "fields": [{below}]}}}}"#
        ));
    }
    let deep = format!(r#"{{"type": "record", "name": "All", "fields": [{}]}}"#, fields.join(","));
    assert!(refuse(&deep).contains("more than 128 types deep"), "{}", refuse(&deep));
}

#[test]
fn rejects_invalid_schemas() {
    for (text, why) in [
        ("{", "no JSON"),
        ("nothing", "no JSON"),
        ("\"nothing\"", "there is no type nothing"),
        ("7", "7 is no type"),
        ("[]", "a union has no types"),
        (r#"["int", "int"]"#, "a union has int twice"),
        (r#"["int", ["null"]]"#, "a union is directly within a union"),
        (r#"{"type": "array"}"#, "a type has no \"items\""),
        (r#"{"items": "int"}"#, "a type has no \"type\""),
        (r#"{"type": "record", "name": "R"}"#, "a record has no \"fields\""),
        (r#"{"type": "record", "fields": []}"#, "has no name"),
        (r#"{"type": "record", "name": "int", "fields": []}"#, "the name int is taken"),
        (
            r#"{"type": "record", "name": "R", "fields": [{"name": "a", "type": "int"}, {"name": "a", "type": "int"}]}"#,
            "field a: a record has two fields",
        ),
        (r#"{"type": "enum", "name": "E", "symbols": []}"#, "an enum has no symbols"),
        (r#"{"type": "enum", "name": "E", "symbols": ["A", "A"]}"#, "the symbol A twice"),
        (r#"{"type": "enum", "name": "E", "symbols": ["A"], "default": "B"}"#, "the enum's default"),
        (r#"{"type": "fixed", "name": "F", "size": -1}"#, "a fixed has no size"),
        (r#"{"type": "fixed", "name": "F", "size": 9999999999}"#, "a fixed has no size"),
        (
            r#"{"type": "record", "name": "R", "fields": [{"name": "d", "type": {"type": "bytes", "logicalType": "decimal", "precision": 77}}]}"#,
            "field d: a decimal of 77 digits",
        ),
    ] {
        let error = Schema::parse(text).unwrap_err().to_string();
        assert!(error.contains(why), "{text}: {error}");
    }
}

#[test]
fn mutated_schemas_do_not_panic() {
    let texts = [
        r#"{"type": "record", "name": "a.R", "aliases": ["S"], "fields": [{"name": "f", "type": ["null", "int"], "default": null, "aliases": ["g"]},
            {"name": "e", "type": {"type": "enum", "name": "E", "symbols": ["A", "B"], "default": "A"}}]}"#,
        r#"{"type": "map", "values": {"type": "array", "items": {"type": "fixed", "name": "F", "size": 12, "logicalType": "duration"}}}"#,
        r#"["null", {"type": "bytes", "logicalType": "decimal", "precision": 40, "scale": 2}, {"type": "long", "logicalType": "timestamp-nanos"}]"#,
    ];
    let mut random = Random(7);
    for text in texts {
        let whole = Schema::parse(text).unwrap();
        for _ in 0..5000 {
            let mut bytes = text.as_bytes().to_vec();
            for _ in 0..1 + random.below(3) {
                let at = random.below(bytes.len());
                match random.below(3) {
                    0 => bytes[at] = b' ' + random.below(95) as u8,
                    1 => drop(bytes.remove(at)),
                    _ => bytes.insert(at, b"0{}[]\",:"[random.below(8)]),
                }
            }
            let Ok(changed) = Schema::parse(&String::from_utf8_lossy(&bytes)) else { continue };
            assert_eq!(Schema::parse(&changed.canonical()).unwrap().fingerprint(), changed.fingerprint());
            let mut decoder = Decoder::avro(&whole, &crate::bare()).unwrap();
            decoder.add_writer(SchemaId::Bare, &changed);
            let values: Vec<Vec<u8>> =
                (0..4).map(|_| (0..random.below(20)).map(|_| random.next() as u8).collect()).collect();
            let (array, bad) = decode(&mut decoder, values.iter().map(|value| Some(value.as_slice())));
            assert!(array.len() == 4 && bad.len() <= 4);
        }
    }
}
