//! Invalid and malicious JSON values.

use arrow_array::Array;
use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_schema::DataType;
use samsarrow_values::json::Inference;
use serde_json::Value;

use crate::json::{any, decode_error, decoder, field, list, map, struct_of};
use crate::random::Random;
use crate::{decode, push};

/// Returns whether a value is accepted when it is decoded as JSON text, when it is skipped, and when its type is
/// inferred.
fn accepted_by_each(text: &[u8]) -> [bool; 3] {
    let with = |kind: DataType, before: &[u8], after: &[u8]| {
        push(&mut decoder(&kind), Some(&[before, text, after].concat())).is_ok()
    };
    let infer = Inference::default().push(Some(text)).is_ok();
    [with(struct_of(vec![any("a")]), b"{\"a\":", b"}"), with(struct_of(vec![]), b"{\"a\":", b"}"), infer]
}

fn assert_agrees_with_serde_json(text: &[u8]) {
    let expected = match serde_json::from_slice::<Value>(text) {
        // `serde_json` rejects numbers that are out of the range of double, although they are valid JSON.
        Err(error) if error.to_string().starts_with("number out of range") => return,
        oracle => oracle.is_ok(),
    };
    assert_eq!(accepted_by_each(text), [expected; 3], "{:?}", String::from_utf8_lossy(text));
}

#[test]
fn validity_agrees_with_serde_json() {
    for text in [
        "{}",
        "[]",
        " { } ",
        "[1,2]",
        "[1,]",
        "[,1]",
        "{\"a\":1}",
        "{\"a\":1,}",
        "{\"a\"}",
        "{\"a\":}",
        "{a:1}",
        "{1:2}",
        "01",
        "-01",
        "-0.5e+3",
        "-",
        ".5",
        "1.",
        "1e",
        "1e5",
        "+1",
        "1e+",
        "0x1",
        "true",
        "tru",
        "truE",
        "nul",
        "nulll",
        "NaN",
        "Infinity",
        "-Infinity",
        "\"\\u00e4\\n\"",
        "\"\\u00g4\"",
        "\"\\x\"",
        "\"a\nb\"",
        "\"unended",
        "\"\\",
        "\"\\u12",
        "{\"a\":[{}]}",
        "[}",
        "{]",
        "[]]",
        "[] []",
        "",
        " ",
        "'a'",
        "[1 2]",
        "{\"a\":1 \"b\":2}",
        "{,}",
        "[[],[]]",
        "[1]\n",
        "\"\\ud800\"",
        "\"\\udc00\"",
        "\"\\ud800\\u0041\"",
        "\"\\ud800x\"",
        "\"\\ud83d\\ude00\"",
        "\"\\uD83D\\uDE0\"",
        "\u{feff}1",
        "\"\u{7f}\"",
        "/* */1",
        "1//",
        "\u{a0}1",
        "\"\\/\"",
        "\"\\a\"",
    ] {
        assert_agrees_with_serde_json(text.as_bytes());
    }
    for text in [
        &b"\"\xff\""[..],
        b"\"\xc3\"",
        b"\"abcdefgh\xc3\x28ijklmnop\"",
        b"\"\xed\xa0\x80\"",
        b"\xff",
        b"1\xff",
        b"\"\0\"",
        b"\x0b1",
        b"1\x0c",
    ] {
        assert_agrees_with_serde_json(text);
    }
}

#[test]
fn random_texts_agree_with_serde_json() {
    const PARTS: [&str; 34] = [
        "{", "}", "[", "]", ",", ":", "\"", "\"a\"", "\"b\":", "\\", "\\u", "d83d", "\\ude00", "0", "1", "-", ".", "e",
        "E", "+", "true", "null", "false", "n", " ", "\n", "\t", "é", "\u{1}", "12345678", "abcdefgh", "\\n", "[]",
        "{}",
    ];
    let mut random = Random(11);
    for _ in 0..20_000 {
        let text: String = (0..1 + random.below(9)).map(|_| PARTS[random.below(PARTS.len())]).collect();
        assert_agrees_with_serde_json(text.as_bytes());
        assert_agrees_with_serde_json(format!("[{text}]").as_bytes());
        assert_agrees_with_serde_json(format!("\"{text}\"").as_bytes());
    }
}

#[test]
fn errors_name_field_and_byte() {
    let user = struct_of(vec![field("tags", list(map(DataType::Utf8)))]);
    let kind = struct_of(vec![field("id", DataType::Int64), field("user", user)]);
    let reason = |text: &[u8]| decode_error(&kind, text);
    assert_eq!(
        reason(br#"{"user": {"tags": [{}, {"k\"": 1}]}}"#),
        (r#"user.tags[1]["k\\\""]"#.into(), "expected a string, found a number at byte 31".into())
    );
    assert_eq!(
        reason(b"{\"user\": {\"tags\": [{\"k\": \"\xff\"}]}}"),
        ("user.tags[0][\"k\"]".into(), "the text is not UTF-8".into())
    );
    assert_eq!(
        reason(b"{\"user\": {\"tags\": [{\"k\": \"a\tb\"}]}}").1,
        "a string has a control character at byte 27, which must be escaped"
    );
    assert_eq!(reason(br#"{"id": 1} {}"#), (String::new(), "2 bytes follow the value".into()));
    assert_eq!(reason(b""), (String::new(), "the value is empty, which is not JSON".into()));
    assert_eq!(reason(b" \n").1, "the value is empty, which is not JSON");
    for word in ["NaN", "nope", "trux"] {
        let text = format!(r#"{{"id": {word}}}"#);
        let expected = ("id".into(), "expected a value, found text without quotes at byte 7".into());
        assert_eq!(reason(text.as_bytes()), expected, "{word}");
    }
    assert_eq!(reason(br#"{"id": true}"#).1, "expected a whole number, found a boolean at byte 7");
    assert_eq!(reason(br#"{"id": 1, "x": "\q"}"#).1, "a string has an escape at byte 16 that JSON does not have");
    assert_eq!(reason(br#"{"id": 1, "x": "\ud800"}"#).1, "a string has half of a surrogate pair at byte 16");
    assert_eq!(reason(br#"{"id": 1; }"#).1, "expected a comma, or the end of the object or array, found ';' at byte 8");
    assert_eq!(reason(br#"[]"#).1, "expected an object, found an array at byte 0");
    assert_eq!(reason(b"{\"id\": 1, \x80").1, "expected a name in quotes, found the byte 0x80 at byte 10");
}

#[test]
fn bounds_depth() {
    let nested = |depth: usize| ["[".repeat(depth), "]".repeat(depth)].concat();
    let kind = struct_of(vec![any("a")]);
    let value = |depth| format!("{{\"a\":{}}}", nested(depth));
    assert!(push(&mut decoder(&kind), Some(value(129).as_bytes())).is_ok());
    for depth in [130, 1_000_000] {
        assert_eq!(decode_error(&kind, value(depth).as_bytes()).1, "objects and arrays are nested more than 128 deep");
        assert!(decode_error(&kind, "{\"b\":".repeat(depth).as_bytes()).1.contains("more than 128"));
        assert!(Inference::default().push(Some(nested(depth + 100).as_bytes())).is_err());
    }
}

#[test]
fn bounds_expansion_of_small_values() {
    let wide = struct_of((0..1000).map(|at| field(&format!("f{at}"), DataType::Int64)).collect());
    let items = |item: &str, count: usize| format!("[{}{item}]", format!("{item},").repeat(count - 1));
    for item in ["{}", "null"] {
        let reason = decode_error(&list(wide.clone()), items(item, 200_000).as_bytes()).1;
        assert!(reason.starts_with("it would decode to more than"), "{reason}");
        assert!(push(&mut decoder(&list(wide.clone())), Some(items(item, 1000).as_bytes())).is_ok());
    }
    // Each repetition of a member costs time, so the number of repetitions is limited.
    let member = "\"a\":null,".repeat(200_000);
    let reason = decode_error(&struct_of(vec![field("a", wide)]), format!("{{{member}\"a\":{{}}}}").as_bytes()).1;
    assert!(reason.starts_with("it would decode to more than"), "{reason}");
}

#[test]
fn long_numbers_are_fast() {
    let digits = "9".repeat(1 << 20);
    for kind in [DataType::Int64, DataType::Decimal128(38, 2), DataType::Decimal256(76, 2), DataType::Float64] {
        for text in [digits.clone(), format!("0.{digits}"), format!("1e{digits}"), format!("-1E-{digits}")] {
            push(&mut decoder(&kind), Some(text.as_bytes())).ok();
        }
    }
}

#[test]
fn mutated_values_do_not_affect_other_rows() {
    let user = struct_of(vec![
        field("name", DataType::Utf8),
        any("any"),
        field("when", DataType::Timestamp(arrow_schema::TimeUnit::Millisecond, None)),
    ]);
    let kind = struct_of(vec![
        field("id", DataType::Int64),
        field("users", list(user)),
        field("m", map(list(DataType::Float64))),
        field("d", DataType::Decimal128(10, 2)),
        field("b", DataType::Binary),
        field("ok", DataType::Boolean),
    ]);
    let text = r#"{"id": 12345678, "users": [{"name": "a \u00e4 name \n of some length", "any": {"x": [1, "y"]}}, null, {"when": "2026-11-23T17:03:59Z"}], "m": {"k": [1.5, 2e3, null], "l": []}, "d": "12.5", "b": "aGk=", "ok": true, "more": [{}]}"#;
    let mut decoder = decoder(&kind);
    let rows = |changed: Option<Vec<u8>>| [Some(text.as_bytes().to_vec()), changed, Some(text.as_bytes().to_vec())];
    let mut check = |changed: Vec<u8>, must_fail: bool| {
        let rows = rows(Some(changed));
        let (got, bad) = decode(&mut decoder, rows.iter().map(Option::as_deref));
        assert!(!must_fail || bad.len() == 1, "{:?}", rows[1]);
        got.to_data().validate_full().unwrap();
        assert_eq!(bad.len(), got.null_count());
        assert!(got.is_valid(0) && got.slice(0, 1).to_data() == got.slice(2, 1).to_data());
    };
    for cut in 0..text.len() {
        check(text.as_bytes()[..cut].to_vec(), true);
    }
    let mut random = Random(5);
    for _ in 0..10_000 {
        let mut changed = text.as_bytes().to_vec();
        for _ in 0..1 + random.below(3) {
            let at = random.below(changed.len());
            match random.below(4) {
                0 => changed[at] = random.next() as u8,
                1 => drop(changed.remove(at)),
                2 => changed.insert(at, b"0{}[]\",:\\ \n-.eu"[random.below(15)]),
                _ => changed[at] = b"0{}[]\",:\\ \n-.eu"[random.below(15)],
            }
        }
        check(changed, false);
    }
}

#[test]
fn finds_names_with_escaped_quotes() {
    let kind =
        struct_of(vec![field("q\"", DataType::Int64), field("t\tab", DataType::Int64), field("b\\", DataType::Int64)]);
    let mut decoder = decoder(&kind);
    let good = br#"{"q\"":1,"t\tab":2,"b\\":3}"#;
    let raw: [&[u8]; 3] = [br#"{"q"":1}"#, b"{\"t\tab\":2}", br#"{"b\":3}"#];
    let (got, bad) = decode(&mut decoder, [&good[..], raw[0], raw[1], raw[2], good].map(Some));
    assert_eq!(bad.len(), 3);
    assert!(got.slice(0, 1).to_data() == got.slice(4, 1).to_data());
    assert_eq!(got.as_struct().column(2).as_primitive::<Int64Type>().value(0), 3);
}
