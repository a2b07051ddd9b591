//! Comparison of the text formats with a writer that formats rows one by one, and validation by serde_json.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

/// Topic, partition, offset and timestamp of a row.
type Position = (Option<usize>, i32, i64, Option<i64>);
type Bytes = Option<Vec<u8>>;
type Header<'a> = (&'a str, Option<&'a [u8]>);
/// Position, headers, key and value.
type Row = (Position, Vec<(String, Bytes)>, Bytes, Bytes);

const TOPICS: [&str; 2] = ["orders", "t\"1\\\u{1}ä"];

fn string(text: &str) -> String {
    let escaped = |c: char| match c {
        '"' => "\\\"".to_owned(),
        '\\' => "\\\\".to_owned(),
        '\n' => "\\n".to_owned(),
        '\r' => "\\r".to_owned(),
        '\t' => "\\t".to_owned(),
        '\0'..' ' => format!("\\u{:04x}", u32::from(c)),
        _ => c.to_string(),
    };
    format!("\"{}\"", text.chars().map(escaped).collect::<String>())
}

fn optional<T: ToString>(value: Option<T>) -> String {
    value.map_or("null".to_owned(), |value| value.to_string())
}

fn base64(bytes: Option<&Vec<u8>>) -> String {
    optional(bytes.map(|bytes| format!("\"{}\"", STANDARD.encode(bytes))))
}

fn list(items: impl Iterator<Item = String>) -> String {
    format!("[{}]", items.collect::<Vec<_>>().join(","))
}

fn member(name: &str, bytes: Option<&Vec<u8>>, embed: bool) -> String {
    let Some(bytes) = bytes else { return format!("\"{name}\":null") };
    let Ok(text) = std::str::from_utf8(bytes) else { return format!("\"{name}_base64\":{}", base64(Some(bytes))) };
    let embed = embed
        && text.trim_ascii_start().starts_with(['{', '['])
        && serde_json::from_str::<serde::de::IgnoredAny>(text).is_ok();
    let written = if embed { text.trim_ascii().replace(['\n', '\r'], " ") } else { string(text) };
    format!("\"{name}\":{written}")
}

fn start(((topic, partition, offset, _), ..): &Row) -> String {
    let topic = optional(topic.map(|topic| string(TOPICS[topic])));
    format!("{{\"topic\":{topic},\"partition\":{partition},\"offset\":{offset},\"timestamp\":")
}

fn object(row: &Row) -> String {
    let ((.., timestamp), headers, key, value) = row;
    let mut time = Vec::new();
    if let Some(ms) = timestamp {
        time::iso(*ms, &mut time);
    }
    let time = optional(timestamp.map(|_| format!("\"{}\"", String::from_utf8(time).unwrap())));
    let headers = list(headers.iter().map(|(name, value)| {
        let text = value.as_ref().map(|bytes| match std::str::from_utf8(bytes) {
            Ok(text) => string(text),
            Err(_) => format!("{{\"base64\":{}}}", base64(Some(bytes))),
        });
        format!("[{},{}]", string(name), optional(text))
    }));
    let (key, value) = (member("key", key.as_ref(), false), member("value", value.as_ref(), true));
    format!("{}{time},\"headers\":{headers},{key},{value}}}", start(row))
}

fn envelope(row: &Row) -> String {
    let ((.., timestamp), headers, key, value) = row;
    let (time, key, value) = (optional(*timestamp), base64(key.as_ref()), base64(value.as_ref()));
    let pair = |(name, value): &(String, Bytes)| format!("[{},{}]", string(name), base64(value.as_ref()));
    let headers = list(headers.iter().map(pair));
    format!("{}{time},\"timestamp_type\":0,\"headers\":{headers},\"key\":{key},\"value\":{value}}}\n", start(row))
}

/// Returns the rows as a batch.
fn table(rows: &[Row]) -> RecordBatch {
    let headers: Vec<Vec<Header<'_>>> = rows
        .iter()
        .map(|(_, headers, ..)| headers.iter().map(|(name, value)| (name.as_str(), value.as_deref())).collect())
        .collect();
    let fields: Vec<TestRow<'_>> = rows
        .iter()
        .zip(&headers)
        .map(|((.., key, value), headers)| (key.as_deref(), value.as_deref(), headers.as_slice()))
        .collect();
    let mut columns = batch(&fields).columns().to_vec();
    let positions = || rows.iter().map(|(position, ..)| *position);
    let topics = positions().map(|(topic, ..)| topic.map(|topic| topic as i32)).collect::<Int32Array>();
    let times = positions().map(|(.., timestamp)| timestamp).collect::<TimestampMillisecondArray>();
    columns[2] = Arc::new(DictionaryArray::new(topics, Arc::new(StringArray::from(TOPICS.to_vec()))));
    columns[3] = Arc::new(positions().map(|(_, partition, ..)| partition).collect::<Int32Array>());
    columns[4] = Arc::new(positions().map(|(_, _, offset, _)| offset).collect::<Int64Array>());
    columns[5] = Arc::new(times.with_timezone("UTC"));
    let schema = batch(&[]).schema();
    let fields: Vec<_> = schema.fields().iter().map(|field| field.as_ref().clone().with_nullable(true)).collect();
    RecordBatch::try_new(Arc::new(arrow_schema::Schema::new(fields)), columns).unwrap()
}

/// Returns bytes of each kind: JSON, text with characters to escape, and bytes that are no UTF-8.
fn bytes() -> impl Strategy<Value = Bytes> {
    let object = r#"[ \n\r\t]{0,2}\{"[a-zä\\"\x00-\x1f]{0,9}" ?:[ \n]?(-?[0-9]{1,3}(\.[0-9]+)?|"[ -~é\n\\]{0,20}"|\[\]|\{\}|null|tru)\}[ \n]{0,2}"#;
    prop_oneof![
        1 => Just(None),
        2 => any::<Vec<u8>>().prop_map(Some),
        3 => object.prop_map(|text| Some(text.into_bytes())),
        1 => r#"[\[\]{}:,"\\0-9eu. \n]{0,14}"#.prop_map(|text| Some(text.into_bytes())),
        2 => r#"[a-z\x00-\x1f"\\\x7fä😀]{0,30}"#.prop_map(|text| Some(text.into_bytes())),
    ]
}

fn row() -> impl Strategy<Value = Row> {
    // Ranges are narrow enough for rows to repeat the values of the row before.
    let time = prop_oneof![
        4 => (1_793_527_199_990..1_793_527_201_010_i64).prop_map(Some),
        1 => any::<i64>().prop_map(Some),
        1 => Just(None)
    ];
    let topic = prop_oneof![5 => Just(Some(0)), 2 => Just(Some(1)), 1 => Just(None)];
    let partition = prop_oneof![5 => 0..2_i32, 1 => any::<i32>()];
    let offset = prop_oneof![4 => 0..200_i64, 1 => any::<i64>()];
    ((topic, partition, offset, time), vec((any::<String>(), bytes()), 0..3), bytes(), bytes())
}

proptest! {
    #[test]
    fn text_equals_rows_formatted_anew(rows in vec(row(), 0..12), limit in 1..2000_usize) {
        let batch = table(&rows);
        let expect = |line: &dyn Fn(&Row) -> String| rows.iter().map(line).collect::<String>();
        for (format, expected) in [
            (LineFormat::Ndjson, expect(&|row| object(row) + "\n")),
            (LineFormat::JsonItems, expect(&|row| format!(",\n{}", object(row)))),
            (LineFormat::Envelope, expect(&envelope)),
        ] {
            let text = String::from_utf8(written(&batch, &format, limit)).unwrap();
            prop_assert_eq!(text, expected);
        }
        for (format, end) in [(LineFormat::Value, &b"\n"[..]), (LineFormat::Raw, b"")] {
            let lines = rows.iter().flat_map(|row| [row.3.as_deref().unwrap_or_default(), end]);
            prop_assert_eq!(written(&batch, &format, limit), lines.flatten().copied().collect::<Vec<u8>>());
        }
    }
}
