//! Conversion of JSON Schemas, and inference of types from values.

use arrow_schema::{DataType, Field, TimeUnit};
use samsarrow_values::Decoder;
use samsarrow_values::json::{Inference, Schema, is_omitted};
use serde_json::{Value, json};

use crate::bare;
use crate::json::{any, field, list, struct_of};

fn parsed(schema: &Value, references: &[Value]) -> Result<DataType, String> {
    linked(schema, references, &[])
}

/// Parses a schema with links. A link consists of the index of the referring schema, the name, and the index of the
/// referenced schema.
fn linked(schema: &Value, references: &[Value], links: &[(usize, &str, usize)]) -> Result<DataType, String> {
    let links: Vec<_> = links.iter().map(|(by, name, to)| (*by, (*name).to_owned(), *to)).collect();
    let references: Vec<_> = references.iter().map(Value::to_string).collect();
    let schema = Schema::parse(&schema.to_string(), &references, &links).map_err(|error| error.to_string())?;
    Decoder::json(&schema, &bare()).map(|decoder| decoder.data_type().clone()).map_err(|error| error.to_string())
}

/// Returns the field for a required property with this schema.
fn property(schema: &Value) -> Field {
    let schema = json!({"type": "object", "properties": {"f": schema}, "required": ["f"]});
    match parsed(&schema, &[]) {
        Ok(DataType::Struct(fields)) => fields[0].as_ref().clone(),
        other => panic!("{schema}: {other:?}"),
    }
}

#[test]
fn converts_json_schema_types() {
    let utc = |unit| DataType::Timestamp(unit, Some("UTC".into()));
    let text = DataType::Utf8;
    let connect = |kind: &str, name: &str| json!({"type": kind, "title": format!("org.apache.kafka.connect.data.{name}"), "connect.type": "x"});
    let entries =
        struct_of(vec![Field::new("key", DataType::Utf8, false), Field::new("value", DataType::Int64, false)]);
    let map = DataType::Map(Field::new("entries", entries, false).into(), false);
    let strings = DataType::List(Field::new("item", DataType::Utf8, false).into());
    for (schema, kind, nullable) in [
        (json!({"type": "string"}), text.clone(), false),
        (json!({"type": "integer"}), DataType::Int64, false),
        (json!({"type": "integer", "connect.type": "int8"}), DataType::Int8, false),
        (json!({"type": "integer", "connect.type": "int16"}), DataType::Int16, false),
        (json!({"type": "integer", "connect.type": "int32"}), DataType::Int32, false),
        (json!({"type": "integer", "connect.type": "int64"}), DataType::Int64, false),
        (json!({"type": "number"}), DataType::Float64, false),
        (json!({"type": "number", "connect.type": "float32"}), DataType::Float32, false),
        (json!({"type": "boolean"}), DataType::Boolean, false),
        (json!({"type": "null"}), DataType::Null, true),
        (json!({"type": ["null", "integer"]}), DataType::Int64, true),
        (json!({"type": ["integer", "number"]}), DataType::Float64, false),
        (json!({"type": "integer", "nullable": true}), DataType::Int64, true),
        (json!({"type": "string", "format": "date-time"}), utc(TimeUnit::Microsecond), false),
        (json!({"type": "string", "format": "date"}), DataType::Date32, false),
        (json!({"type": "string", "format": "time"}), DataType::Time64(TimeUnit::Microsecond), false),
        (json!({"type": "string", "format": "uuid"}), text.clone(), false),
        (json!({"type": "string", "contentEncoding": "base64"}), DataType::Binary, false),
        (json!({"type": "string", "connect.type": "bytes"}), DataType::Binary, false),
        (connect("integer", "Date"), DataType::Date32, false),
        (connect("integer", "Time"), DataType::Time32(TimeUnit::Millisecond), false),
        (connect("integer", "Timestamp"), utc(TimeUnit::Millisecond), false),
        (connect("number", "Decimal"), DataType::Decimal128(38, 0), false),
        (json!({"type": "array", "items": {"type": "string"}}), strings.clone(), false),
        (json!({"items": {"type": "string"}}), strings, false),
        (json!({"type": "array"}), list(text.clone()), false),
        (json!({"type": "array", "items": [{"type": "string"}]}), text.clone(), false),
        (json!({"type": "object", "additionalProperties": {"type": "integer"}}), map, false),
        (json!({"type": "object"}), text.clone(), false),
        (json!({"properties": {"a": {"type": "string"}}}), struct_of(vec![field("a", text.clone())]), false),
        (json!({"oneOf": [{"type": "null"}, {"type": "integer"}]}), DataType::Int64, true),
        (json!({"anyOf": [{"type": "integer"}, {"type": "null"}]}), DataType::Int64, true),
        (json!({"oneOf": [{"type": "string"}, {"type": "integer"}]}), text.clone(), false),
        (json!({"allOf": [{"type": "integer"}]}), DataType::Int64, false),
        (json!({"enum": ["a", "b"]}), text.clone(), false),
        (json!({"enum": ["a", 1]}), text.clone(), false),
        (json!({"const": "a"}), text.clone(), false),
        (json!({"type": ["string", "integer"]}), text.clone(), false),
        (json!(true), text.clone(), true),
        (json!({}), text, false),
    ] {
        let found = property(&schema);
        assert_eq!((found.data_type(), found.is_nullable()), (&kind, nullable), "{schema}");
    }
}

#[test]
fn keeps_untyped_values_as_json_text() {
    let schema = json!({"type": "object", "properties": {"a": {"oneOf": [{"type": "string"}, {"type": "integer"}]}, "b": {"type": "object"}}});
    let mut decoder = Decoder::json(&Schema::parse(&schema.to_string(), &[], &[]).unwrap(), &bare()).unwrap();
    decoder.push(Some(br#"{"a": "x", "b": {"c": [1]}}"#), None).unwrap();
    let array = decoder.finish().unwrap();
    let text = |at: usize| {
        arrow_cast::display::array_value_to_string(arrow_array::cast::AsArray::as_struct(&array).column(at), 0).unwrap()
    };
    assert_eq!((text(0).as_str(), text(1).as_str()), ("\"x\"", "{\"c\": [1]}"));
}

#[test]
fn resolves_references() {
    let schema = json!({
        "$defs": {"user/one": {"type": "object", "properties": {"name": {"type": "string"}, "friend": {"$ref": "#/$defs/user~1one"}}}},
        "definitions": {"id": {"type": "integer"}},
        "type": "object",
        "properties": {"z": {"$ref": "#/$defs/user~1one"}, "a": {"$ref": "#/definitions/id"}, "self": {"$ref": "#"},
            "list": {"type": "array", "items": {"$ref": "#/definitions/id"}}},
        "required": ["a"],
    });
    // The columns have the order of the properties in the text, which `serde_json` has sorted alphabetically.
    let ids = DataType::List(Field::new("item", DataType::Int64, false).into());
    let user = struct_of(vec![field("friend", DataType::Utf8), field("name", DataType::Utf8)]);
    let expected = struct_of(vec![
        Field::new("a", DataType::Int64, false),
        field("list", ids),
        field("self", DataType::Utf8),
        field("z", user),
    ]);
    assert_eq!(parsed(&schema, &[]), Ok(expected));
    let city = json!({"$id": "http://x.y/city.json", "type": "string"});
    let ids = json!({"$id": "ids.json", "$defs": {"id": {"type": "integer"}, "other": {"$ref": "#/$defs/id"}}});
    let uses = json!({"type": "object", "properties": {"city": {"$ref": "city.json"}, "id": {"$ref": "ids.json#/$defs/other"}}});
    let expected = struct_of(vec![field("city", DataType::Utf8), field("id", DataType::Int64)]);
    assert_eq!(parsed(&uses, &[city.clone(), ids]), Ok(expected));
    let by_any_name = json!({"type": "object", "properties": {"city": {"$ref": "registered-as.json"}}});
    assert!(parsed(&by_any_name, std::slice::from_ref(&city)).unwrap_err().contains("leads to nothing"));
    let expected = Ok(struct_of(vec![field("city", DataType::Utf8)]));
    assert_eq!(linked(&by_any_name, &[city], &[(1, "registered-as.json", 0)]), expected);
}

#[test]
fn resolves_references_by_name_then_id() {
    let kind = |kind: &str| json!({"type": kind});
    let refers = |to: &str| json!({"type": "object", "properties": {"f": {"$ref": to}}});
    let f = |kind| Ok(struct_of(vec![field("f", kind)]));
    // Neither of the referenced schemas has an `$id`.
    let two = [kind("string"), kind("integer")];
    let links = [(2, "person.json", 0), (2, "address.json", 1)];
    assert_eq!(linked(&refers("person.json"), &two, &links), f(DataType::Utf8));
    assert_eq!(linked(&refers("address.json"), &two, &links), f(DataType::Int64));
    // A name only applies to references in one schema. Another schema uses the same name for a different schema.
    let all = [kind("string"), refers("common.json"), kind("integer")];
    let links = [(1, "common.json", 0), (3, "child.json", 1), (3, "common.json", 2)];
    assert_eq!(linked(&refers("child.json"), &all, &links), f(struct_of(vec![field("f", DataType::Utf8)])));
    assert_eq!(linked(&refers("common.json"), &all, &links), f(DataType::Int64));
    // Names take precedence over `$id`. A name also matches if the reference is resolved against the `$id` of its
    // schema.
    let ids = [json!({"$id": "http://h/s/a.json", "type": "string"}), kind("integer")];
    assert_eq!(linked(&refers("http://h/s/a.json"), &ids, &[(2, "http://h/s/a.json", 1)]), f(DataType::Int64));
    let mut root = refers("a.json");
    root["$id"] = json!("http://h/s/root.json");
    assert_eq!(parsed(&root, &ids), f(DataType::Utf8));
    assert_eq!(linked(&root, &ids, &[(2, "http://h/s/a.json", 1)]), f(DataType::Int64));
    // A reference to the schema itself is found, although another schema has the same path.
    let other = json!({"definitions": {"line": {"type": "integer"}}});
    let mut root = refers("order.json#/definitions/line");
    root["$id"] = json!("http://h/order.json");
    root["definitions"] = json!({"line": {"type": "string"}});
    assert_eq!(linked(&root, std::slice::from_ref(&other), &[(1, "other.json", 0)]), f(DataType::Utf8));
    // A reference may be the last segment of an `$id`, if only one schema has such an `$id`.
    let ends =
        [json!({"$id": "http://h/a/x.json", "type": "string"}), json!({"$id": "http://h/b/x.json", "type": "integer"})];
    assert_eq!(parsed(&refers("x.json"), &ends[1..]), f(DataType::Int64));
    assert!(parsed(&refers("x.json"), &ends).unwrap_err().contains("leads to nothing"));
    // Anchors in the new syntax (`$anchor`) and the old one (`$id`).
    let mut root = refers("#here");
    root["$defs"] = json!({"a": {"const": {"$anchor": "here"}}, "b": {"$anchor": "here", "type": "integer"}});
    assert_eq!(parsed(&root, &[]), f(DataType::Int64));
    root["$defs"] = json!({"b": {"$id": "#here", "type": "string"}});
    assert_eq!(parsed(&root, &[]), f(DataType::Utf8));
    let anchored = json!({"$defs": {"x y": {"$anchor": "it", "type": "integer"}}});
    for to in ["o.json#it", "o.json#/$defs/x%20y"] {
        assert_eq!(linked(&refers(to), std::slice::from_ref(&anchored), &[(1, "o.json", 0)]), f(DataType::Int64));
    }
}

#[test]
fn properties_keep_the_schema_order() {
    let names = |text: &str| match Decoder::json(&Schema::parse(text, &[], &[]).unwrap(), &bare()).unwrap().data_type()
    {
        DataType::Struct(fields) => fields.iter().map(|field| field.name().clone()).collect::<Vec<_>>().join(""),
        other => panic!("{other}"),
    };
    assert_eq!(
        names(r#"{"properties": {"z": {"type": "string"}, "a": {"type": "string"}, "m": {"type": "string"}}}"#),
        "zam"
    );
    assert_eq!(
        names(
            r#"{"properties": {"a": {"type": "string", "connect.index": 2}, "b": {"oneOf": [{"type": "null"}, {"type": "string"}], "connect.index": 0}, "c": {"type": "string", "connect.index": 1}}}"#
        ),
        "bca"
    );
}

#[test]
fn reads_connect_decimals() {
    let title = "org.apache.kafka.connect.data.Decimal";
    let parameters = json!({"scale": "2", "connect.decimal.precision": "10"});
    for (kind, text) in [("string", "\"MDk=\""), ("number", "123.45")] {
        let schema = json!({"type": kind, "title": title, "connect.type": "bytes", "connect.parameters": parameters});
        let mut decoder = Decoder::json(&Schema::parse(&schema.to_string(), &[], &[]).unwrap(), &bare()).unwrap();
        decoder.push(Some(text.as_bytes()), None).unwrap();
        let array = decoder.finish().unwrap();
        assert_eq!(array.data_type(), &DataType::Decimal128(10, 2));
        assert_eq!(arrow_cast::display::array_value_to_string(&array, 0).unwrap(), "123.45");
    }
}

#[test]
fn rejects_invalid_schemas() {
    for (schema, why) in [
        (json!(7), "a schema is an object"),
        (json!({"$ref": "#/nothing"}), "leads to nothing"),
        (json!({"$ref": "other.json"}), "leads to nothing"),
        (json!({"properties": {"a": {"properties": {"b": 3}}}}), "field a.b: a schema is an object"),
    ] {
        let error = parsed(&schema, &[]).unwrap_err();
        assert!(error.contains(why), "{schema}: {error}");
    }
    let error = Schema::parse("{\"a\": }", &[], &[]).unwrap_err().to_string();
    assert_eq!(error, "the schema is no JSON: expected a value, found '}' at byte 6");
    // Each definition uses the previous definition twice.
    let mut definitions = serde_json::Map::new();
    definitions.insert("d0".into(), json!({"type": "string"}));
    for at in 1..40 {
        let below = json!({"$ref": format!("#/definitions/d{}", at - 1)});
        definitions.insert(format!("d{at}"), json!({"properties": {"a": below, "b": below}}));
    }
    let error = parsed(&json!({"definitions": definitions, "$ref": "#/definitions/d39"}), &[]).unwrap_err();
    assert!(error.contains("at most 100000 types"), "{error}");
}

fn inferred(values: &[Value]) -> DataType {
    let mut inference = Inference::default();
    values.iter().for_each(|value| inference.push(Some(value.to_string().as_bytes())).unwrap());
    struct_of(inference.finish().unwrap().fields().iter().map(|field| field.as_ref().clone()).collect())
}

#[test]
fn infers_common_types() {
    let kind = |values: &[Value]| {
        let rows: Vec<_> = values.iter().map(|value| json!({"f": value})).collect();
        match inferred(&rows) {
            DataType::Struct(fields) => fields[0].as_ref().clone(),
            other => panic!("{other}"),
        }
    };
    for (values, expected) in [
        (vec![json!(1), json!(-2), json!(null)], field("f", DataType::Int64)),
        (vec![json!(1), json!(2.5)], field("f", DataType::Float64)),
        (vec![json!(u64::MAX), json!(1)], field("f", DataType::UInt64)),
        (vec![json!(u64::MAX), json!(-1)], field("f", DataType::Float64)),
        (vec![json!(true)], field("f", DataType::Boolean)),
        (vec![json!("a"), json!(null)], field("f", DataType::Utf8)),
        (vec![json!("a"), json!(1)], any("f")),
        (vec![json!(true), json!(1)], any("f")),
        (vec![json!({"a": 1}), json!([1])], any("f")),
        (vec![json!(null)], any("f")),
        (vec![json!({})], any("f")),
        (vec![json!([1]), json!([null, 2.5]), json!([])], field("f", list(DataType::Float64))),
        (
            vec![json!({"a": 1}), json!({"b": ["x"], "a": 2}), json!({})],
            field("f", struct_of(vec![field("a", DataType::Int64), field("b", list(DataType::Utf8))])),
        ),
    ] {
        assert_eq!(kind(&values), expected, "{values:?}");
    }
    let nothing = kind(&[json!([])]);
    assert_eq!(nothing.data_type(), &DataType::List(any("item").into()));
}

#[test]
fn bounds_inference() {
    let wide = |names: usize| Value::Object((0..names).map(|at| (format!("k{at}"), json!(at))).collect());
    match inferred(&[json!({"few": wide(1000), "many": wide(1001)})]) {
        DataType::Struct(fields) => {
            assert!(matches!(fields[0].data_type(), DataType::Struct(_)));
            assert_eq!(fields[1].as_ref(), &any("many"));
        }
        other => panic!("{other}"),
    }
    let deep = (0..60).fold(json!(1), |below, _| json!({"a": below}));
    assert!(matches!(inferred(&[deep]), DataType::Struct(_)));
    let mut inference = Inference::default();
    (0..200).for_each(|at| inference.push(Some(json!({format!("k{at}"): wide(900)}).to_string().as_bytes())).unwrap());
    assert!(inference.finish().unwrap_err().to_string().contains("more than 10000 types"));
    for (values, why) in [
        (vec![], "no value has a field"),
        (vec!["null", "{}"], "no value has a field"),
        (vec!["[1]"], "not all values are objects"),
        (vec!["{\"a\": 1}", "1"], "not all values"),
    ] {
        let mut inference = Inference::default();
        values.iter().for_each(|value| inference.push(Some(value.as_bytes())).unwrap());
        assert!(inference.finish().unwrap_err().to_string().contains(why));
    }
    let mut inference = Inference::default();
    inference.push(None).unwrap();
    inference.push(Some(b"\0\0\0\0\x01{\"a\": 1}")).unwrap();
    let bad = inference.push(Some(b"{\"a\": ")).unwrap_err();
    assert_eq!((bad.row, bad.reason.as_str()), (2, "the value ends too early"));
}

/// If a member may be missing, but its schema does not clearly accept null, a null is omitted.
#[test]
fn marks_members_omitted_when_null() {
    let text = json!({"type": "string"});
    let text_or_null = json!({"type": ["string", "null"]});
    for (schema, omitted) in [
        (text.clone(), true),
        (json!({"type": "array", "items": text}), true),
        (json!({"type": "object", "additionalProperties": text}), true),
        (json!({"type": ["string", "integer"]}), true),
        (json!({"oneOf": [{"type": "string"}, {"type": "integer"}]}), true),
        (json!({"allOf": [{"type": "string"}]}), true),
        (json!({"enum": ["a", "b"]}), true),
        (json!({"const": "a"}), true),
        (json!({"type": ["string", "null"], "enum": ["a"]}), true),
        (json!({"$ref": "#/definitions/text"}), true),
        (json!({"$ref": "#/definitions/self"}), true),
        (json!({"type": ["string", "null"], "enum": ["a", null]}), false),
        (json!({"enum": ["a", null]}), false),
        (text_or_null, false),
        (json!({"type": "null"}), false),
        (json!({"type": "string", "nullable": true}), false),
        (json!({"oneOf": [{"type": "null"}, {"type": "string"}]}), false),
        (json!({"oneOf": [{"type": "null"}, {"enum": ["a"]}]}), false),
        (json!({"anyOf": [{"type": "null"}, {"type": "string"}, {"type": "integer"}]}), false),
        (json!({"oneOf": [{"type": "null"}, {"$ref": "#/definitions/text"}]}), false),
        (json!({"$ref": "#/definitions/null"}), false),
        (json!({}), false),
        (json!(true), false),
        (json!({"properties": {"a": text}}), false),
    ] {
        for required in [false, true] {
            let whole = json!({
                "properties": {"f": schema},
                "required": if required { vec!["f"] } else { vec![] },
                "definitions": {
                    "text": text,
                    "null": {"type": ["integer", "null"]},
                    "self": {"type": "object", "properties": {"of": {"$ref": "#/definitions/self"}}},
                },
            });
            let parsed = Schema::parse(&whole.to_string(), &[], &[]).unwrap();
            let DataType::Struct(fields) = parsed.field().data_type() else { panic!("{whole}") };
            assert_eq!(is_omitted(&fields[0]), omitted && !required, "{whole}");
            let decoder = Decoder::json(&parsed, &bare()).unwrap();
            let DataType::Struct(read) = decoder.data_type() else { panic!("{whole}") };
            assert!(read[0].metadata().is_empty(), "{whole}");
        }
    }
}
