//! Types that JSON values are decoded into.

use arrow_array::cast::AsArray;
use arrow_array::types::*;
use arrow_array::{Array, ArrayRef};
use arrow_buffer::i256;
use arrow_schema::{DataType, Field, TimeUnit};
use samsarrow_values::json::Schema;
use samsarrow_values::{Decoder, Framing, Options};

use crate::json::{any, decode_error, decode_one, decoder, field, list, map, projecting_decoder, string, struct_of};
use crate::{bare, decode};

#[test]
fn integers_are_exact() {
    macro_rules! edges {
        ($($kind:ty => $arrow:ident),*) => {$(
            for value in [<$kind>::MIN, <$kind>::MAX, 0, 1, 17] {
                let kind = DataType::$arrow;
                let read = |text: &str| decode_one(&kind, text);
                let expected = |array: ArrayRef, text: &str| {
                    assert_eq!(array.data_type(), &kind);
                    assert_eq!(arrow_cast::display::array_value_to_string(&array, 0).unwrap(), value.to_string(), "{text}");
                };
                for text in [format!("{value}"), format!(" {value}\n"), format!("{value}.000"), format!("{value}.0e0"), format!("{value}E+0")] {
                    expected(read(&text), &text);
                }
            }
            for beyond in [i128::from(<$kind>::MIN) - 1, i128::from(<$kind>::MAX) + 1, i128::MAX] {
                let reason = decode_error(&DataType::$arrow, beyond.to_string().as_bytes()).1;
                assert!(reason.starts_with("the number is out of the range of"), "{reason}");
            }
        )*};
    }
    edges!(i8 => Int8, i16 => Int16, i32 => Int32, i64 => Int64, u8 => UInt8, u16 => UInt16, u32 => UInt32, u64 => UInt64);
    for text in ["1.5", "1e-1", "0.1", "12345678901234567.8"] {
        assert_eq!(decode_error(&DataType::Int64, text.as_bytes()).1, "the number is not an integer");
    }
    for text in ["1e999999999999999999999", "-1e99", "99999999999999999999999999999999999999999"] {
        assert_eq!(decode_error(&DataType::Int64, text.as_bytes()).1, "the number is out of the range of int64");
    }
    assert_eq!(decode_one(&DataType::Int64, "0e999999999999").as_primitive::<Int64Type>().value(0), 0);
    assert_eq!(decode_one(&DataType::Int64, "-0").as_primitive::<Int64Type>().value(0), 0);
    assert_eq!(decode_one(&DataType::Int64, "12e2").as_primitive::<Int64Type>().value(0), 1200);
    assert_eq!(decode_error(&DataType::Int64, b"\"1\"").1, "expected a whole number, found a string at byte 0");
}

#[test]
fn doubles_match_the_standard_library() {
    let mut random = crate::random::Random(3);
    let mut texts: Vec<String> = [
        "0",
        "-0",
        "-0.0",
        "1e22",
        "1e23",
        "9007199254740993",
        "5e-324",
        "2.2250738585072011e-308",
        "1.7976931348623157e308",
        "0.1",
        "123456789.123456789",
        "1234567890123456789.5",
        "8.5e0",
        "1E+2",
        "10.0e-5",
    ]
    .map(str::to_owned)
    .into();
    for _ in 0..20_000 {
        texts.push(format!("{:e}", f64::from_bits(random.next())));
        texts.push(format!("{}.{}", random.next() >> random.below(64), random.next() >> random.below(64)));
        texts.push(format!("{:?}", (random.next() >> random.below(64)) as f64 / 1000.0));
    }
    for text in texts.iter().filter(|text| !text.contains("inf") && !text.contains("NaN")) {
        let got = decode_one(&DataType::Float64, text).as_primitive::<Float64Type>().value(0);
        assert_eq!(got.to_bits(), text.parse::<f64>().unwrap().to_bits(), "{text}");
        if text.parse::<f32>().unwrap().is_finite() {
            let got = decode_one(&DataType::Float32, text).as_primitive::<Float32Type>().value(0);
            assert_eq!(got.to_bits(), text.parse::<f32>().unwrap().to_bits(), "{text}");
        }
    }
    for text in ["1e309", "-1e400"] {
        assert_eq!(decode_error(&DataType::Float64, text.as_bytes()).1, "the number is out of the range of double");
    }
    assert_eq!(decode_error(&DataType::Float32, b"1e39").1, "the number is out of the range of float");
}

#[test]
fn unescapes_strings() {
    for (text, expected) in [
        (r#""""#, ""),
        (r#""plain""#, "plain"),
        (r#""exactly8""#, "exactly8"),
        (r#""a string of more than sixteen bytes""#, "a string of more than sixteen bytes"),
        (r#""\"\\\/\b\f\n\r\t""#, "\"\\/\u{8}\u{c}\n\r\t"),
        (r#""\u00e4\u00E4\u8a9e\u0000""#, "ää語\0"),
        (r#""\ud83d\ude00!""#, "😀!"),
        (r#""añ 語 😀 and more""#, "añ 語 😀 and more"),
        ("\"\u{7f}\"", "\u{7f}"),
        (r#""behind eight bytes \"quoted\" and more""#, "behind eight bytes \"quoted\" and more"),
    ] {
        assert_eq!(string(text), expected, "{text}");
    }
    // The special character is at each position within a word of eight bytes.
    for len in 0..40 {
        for what in ["\\n", "é", "", "\\ud83d\\ude00"] {
            let text = format!("{}{what}{}", "x".repeat(len), "y".repeat(39 - len));
            let expected: String = serde_json::from_str(&format!("\"{text}\"")).unwrap();
            assert_eq!(string(&format!("\"{text}\"")), expected);
        }
    }
}

#[test]
fn reads_times_from_texts_and_numbers() {
    let utc = |unit| DataType::Timestamp(unit, Some("UTC".into()));
    let number = |kind: &DataType, text: &str| {
        let array = decode_one(kind, text);
        assert_eq!(array.data_type(), kind);
        match kind {
            DataType::Date32 | DataType::Time32(_) => i64::from(array.to_data().buffers()[0].typed_data::<i32>()[0]),
            _ => array.to_data().buffers()[0].typed_data::<i64>()[0],
        }
    };
    let text = r#""2026-11-23T17:03:59.250+01:00""#;
    for (unit, expected) in [
        (TimeUnit::Second, 1_795_449_839),
        (TimeUnit::Millisecond, 1_795_449_839_250),
        (TimeUnit::Microsecond, 1_795_449_839_250_000),
        (TimeUnit::Nanosecond, 1_795_449_839_250_000_000),
    ] {
        assert_eq!(number(&utc(unit), text), expected);
        assert_eq!(number(&DataType::Timestamp(unit, None), text), expected);
        assert_eq!(number(&utc(unit), &expected.to_string()), expected);
    }
    assert_eq!(number(&DataType::Date32, "\"1970-01-02\""), 1);
    assert_eq!(number(&DataType::Date32, "-3"), -3);
    assert_eq!(number(&DataType::Time32(TimeUnit::Millisecond), "\"00:00:01.5\""), 1500);
    assert_eq!(number(&DataType::Time64(TimeUnit::Nanosecond), "\"00:00:01.5Z\""), 1_500_000_000);
    assert_eq!(number(&DataType::Time32(TimeUnit::Second), "86399"), 86_399);
    assert_eq!(
        decode_error(&DataType::Time32(TimeUnit::Second), b"86400").1,
        "the number is out of the range of a time of day"
    );
    assert!(decode_error(&utc(TimeUnit::Second), b"\"yesterday\"").1.starts_with("the text is no time of RFC 3339"));
    assert_eq!(decode_error(&DataType::Date32, b"\"2026-02-29\"").1, "the text is no date, as 2026-11-23 is");
}

#[test]
fn decimals_are_exact() {
    let narrow = |text: &str| decode_one(&DataType::Decimal128(38, 2), text).as_primitive::<Decimal128Type>().value(0);
    for (text, expected) in [
        ("1", 100),
        ("-1.5", -150),
        ("\"0.01\"", 1),
        ("1.2500", 125),
        ("125e-2", 125),
        ("\"1E+3\"", 100_000),
        ("0.000", 0),
        ("0e99", 0),
        ("0.00012e4", 120),
    ] {
        assert_eq!(narrow(text), expected, "{text}");
    }
    let digits = "9".repeat(36);
    assert_eq!(narrow(&format!("{digits}.99")).to_string(), "9".repeat(38));
    let kind = DataType::Decimal128(38, 2);
    assert_eq!(
        decode_error(&kind, b"0.001").1,
        "the number has more digits after the decimal point than the 2 of its column"
    );
    assert_eq!(decode_error(&kind, b"1e37").1, "the number has more than 38 digits");
    assert_eq!(decode_error(&kind, b"1e9999999999").1, "the number has more than 38 digits");
    assert_eq!(decode_error(&kind, b"\"1.\"").1, "the text is no number");
    let wide = "9".repeat(76);
    let got = decode_one(&DataType::Decimal256(76, 0), &format!("-{wide}")).as_primitive::<Decimal256Type>().value(0);
    assert_eq!(got, i256::from_string(&format!("-{wide}")).unwrap());
    let got = decode_one(&DataType::Decimal256(60, 20), "1234567890.5").as_primitive::<Decimal256Type>().value(0);
    assert_eq!(got, i256::from_string("123456789050000000000000000000").unwrap());
    assert_eq!(decode_one(&DataType::Decimal128(5, -2), "12300").as_primitive::<Decimal128Type>().value(0), 123);
    assert!(decode_error(&DataType::Decimal128(5, -2), b"12345").1.contains("more digits after the decimal point"));
}

#[test]
fn reads_base64() {
    for text in [r#""aGk+/w==""#, r#""aGk-_w""#, r#""aGk+\/w==""#] {
        assert_eq!(decode_one(&DataType::Binary, text).as_binary::<i32>().value(0), b"hi>\xff");
        assert_eq!(decode_one(&DataType::FixedSizeBinary(4), text).as_fixed_size_binary().value(0), b"hi>\xff");
    }
    assert_eq!(decode_error(&DataType::Binary, b"\"a\"").1, "the text is no base64");
    assert_eq!(decode_error(&DataType::FixedSizeBinary(3), br#""aGk+/w==""#).1, "4 bytes are not the 3 of the column");
}

#[test]
fn keeps_untyped_values_as_text() {
    let kind = struct_of(vec![any("a")]);
    for text in ["1", "1.50", "\"\\u00e4\"", "true", "{ \"b\": [1,  2] }", "[]"] {
        let array = decode_one(&kind, &format!("{{\"a\" : {text} }}"));
        assert_eq!(array.as_struct().column(0).as_string::<i32>().value(0), text);
        assert_eq!(array.data_type(), &struct_of(vec![field("a", DataType::Utf8)]));
    }
    assert!(decode_one(&kind, "{\"a\": null}").as_struct().column(0).is_null(0));
}

#[test]
fn reads_members_in_any_order() {
    let kind = struct_of(vec![
        field("id", DataType::Int64),
        field("a name of more than sixteen bytes", DataType::Utf8),
        field("ä\"\\", DataType::Boolean),
        field("", list(map(DataType::Int32))),
    ]);
    let mut decoder = decoder(&kind);
    let texts = [
        r#"{"id":1,"a name of more than sixteen bytes":"x","ä\"\\":true,"":[{"k":1},null,{}]}"#,
        r#"{"":[{"k":1},null,{}],"\u00e4\u0022\u005c":true,"a name of more than sixteen bytes":"x","id":1}"#,
        r#" { "other" : [ { "id" : "no" } ] , "\u0069d" : 1 , "a name of more than sixteen byteS" : 2 , "a name of more than sixteen bytes" : "x" , "" : [ { "k" : 1 } , null , { } ] , "\u00E4\"\\" : true } "#,
        r#"{"id":7,"":null,"ä\"\\":false,"a name of more than sixteen bytes":"y","ä\"\\":true,"":[{"k":2}],"":[{"k":1},null,{}],"id":1,"a name of more than sixteen bytes":"x"}"#,
    ];
    for _ in 0..2 {
        let (array, bad) = decode(&mut decoder, texts.iter().map(|text| Some(text.as_bytes())));
        assert_eq!(bad, []);
        for (row, text) in texts.iter().enumerate() {
            assert_eq!(array.slice(0, 1).to_data(), array.slice(row, 1).to_data(), "{text}");
        }
    }
    let (array, _) = decode(&mut decoder, [Some(&b"{}"[..]), Some(b"null"), Some(br#"{"":null}"#), None]);
    let nulls = array.as_struct();
    assert_eq!((0..4).map(|row| nulls.is_null(row)).collect::<Vec<_>>(), [false, true, false, true]);
    assert!(nulls.columns().iter().all(|column| column.null_count() == 4));
}

#[test]
fn reads_structs_with_many_members() {
    let fields: Vec<_> = (0..300).map(|at| field(&format!("a{at}"), DataType::Int64)).collect();
    let kind = struct_of(fields);
    let members: Vec<_> = (0..300).rev().step_by(3).map(|at| format!("\"a{at}\":{at}")).collect();
    let text = format!("{{{},\"a299\":1}}", members.join(","));
    let array = decode_one(&kind, &text);
    for at in 0..300 {
        let column = array.as_struct().column(at).as_primitive::<Int64Type>();
        assert_eq!(column.is_valid(0), at % 3 == 2);
        assert_eq!(
            column.value(0),
            if at == 299 {
                1
            } else if at % 3 == 2 {
                at as i64
            } else {
                0
            }
        );
    }
}

#[test]
fn rejects_missing_required_members() {
    let user = struct_of(vec![Field::new("name", DataType::Utf8, false)]);
    let kind = struct_of(vec![Field::new("user", user, false), field("id", DataType::Int64)]);
    assert_eq!(
        decode_error(&kind, br#"{"id": 1}"#),
        ("user".into(), "it is missing, and the column is not nullable".into())
    );
    assert_eq!(
        decode_error(&kind, br#"{"user": null}"#),
        ("user".into(), "null, and the column is not nullable".into())
    );
    assert_eq!(decode_error(&kind, br#"{"user": {}}"#).0, "user.name");
    assert_eq!(
        decode_error(&kind, br#"{"user": {"name": 7}}"#),
        ("user.name".into(), "expected a string, found a number at byte 18".into())
    );
    assert_eq!(decode_one(&kind, r#"{"user": {"name": ""}}"#).len(), 1);
}

#[test]
fn projects_fields_and_validates_the_rest() {
    let user = struct_of(vec![field("city", DataType::Utf8), field("age", DataType::Int32)]);
    let kind = struct_of(vec![field("id", DataType::Int64), field("users", list(user)), field("x", DataType::Float64)]);
    let mut decoder = projecting_decoder(&kind, &["users.city"]);
    let (array, bad) = decode(
        &mut decoder,
        [
            Some(&br#"{"id": "any", "users": [{"age": {}, "city": "Rome"}, null], "x": [[]]}"#[..]),
            Some(br#"{"id": 01}"#),
        ],
    );
    assert_eq!(bad.len(), 1);
    let expected = struct_of(vec![field("users", list(struct_of(vec![field("city", DataType::Utf8)])))]);
    assert_eq!(array.data_type(), &expected);
    let items = array.as_struct().column(0).as_list::<i32>().value(0);
    assert_eq!(items.as_struct().column(0).as_string::<i32>().value(0), "Rome");
    for (name, why) in [
        ("user", "field user: there is no such field; there are id, users, x"),
        ("id.x", "field id: Int64 has no fields"),
        ("", "fields is empty"),
    ] {
        let fields = if name.is_empty() { Some(vec![]) } else { Some(vec![name.to_owned()]) };
        let error =
            Decoder::json(&Schema::from_arrow(kind.clone()), &Options { fields, ..bare() }).unwrap_err().to_string();
        assert!(error.starts_with(why), "{error}");
    }
}

#[test]
fn skips_frames() {
    let framed = |framing, value: &[u8], header: Option<&[u8]>| {
        let options = Options { framing, ..Options::default() };
        Decoder::json(&Schema::from_arrow(DataType::Int64), &options)
            .unwrap()
            .push(Some(value), header)
            .map_err(|e| e.to_string())
    };
    for (framing, value, header) in [
        (Framing::Auto, &b"\0\0\0\0\x077"[..], None),
        (Framing::Auto, b"7", None),
        (Framing::Auto, b"7", Some(&b"\0\0\0\0\x07"[..])),
        (Framing::Confluent, b"\0\0\0\0\x077", None),
        (Framing::Apicurio, b"\0\0\0\0\0\0\0\0\x077", None),
        (Framing::Bare, b" 7", None),
    ] {
        assert_eq!(framed(framing, value, header), Ok(()));
    }
    for (framing, value, header) in [
        (Framing::Auto, &b"\0\0\0"[..], None),
        (Framing::Auto, b"\0\0\0\0\x07", None),
        (Framing::Auto, b"7", Some(&b"x"[..])),
        (Framing::Confluent, b"7", None),
        (Framing::Bare, b"\0\0\0\0\x077", None),
        (Framing::Auto, b"", None),
    ] {
        assert!(framed(framing, value, header).is_err(), "{framing:?} {value:?}");
    }
    let options = Options { framing: Framing::SingleObject, ..Options::default() };
    assert!(Decoder::json(&Schema::from_arrow(DataType::Int64), &options).is_err());
}

#[test]
fn rejects_unsupported_arrow_types() {
    let keys = struct_of(vec![Field::new("key", DataType::Int32, false), field("value", DataType::Int32)]);
    let map = DataType::Map(Field::new("entries", keys, false).into(), false);
    for kind in [
        DataType::Duration(TimeUnit::Second),
        DataType::Float16,
        map,
        struct_of(vec![field("a", DataType::Int8), field("a", DataType::Int8)]),
    ] {
        let schema = Schema::from_arrow(struct_of(vec![field("f", kind)]));
        let error = Decoder::json(&schema, &bare()).unwrap_err();
        assert!(error.path.starts_with('f'), "{error}");
    }
    // Views and large types are decoded as the plain types.
    let schema = Schema::from_arrow(DataType::LargeList(Field::new("x", DataType::Utf8View, true).into()));
    let expected = DataType::List(Field::new("x", DataType::Utf8, true).into());
    assert_eq!(Decoder::json(&schema, &bare()).unwrap().data_type(), &expected);
}
