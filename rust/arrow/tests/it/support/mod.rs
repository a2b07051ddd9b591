//! Record batches from the test suites and encoders of other clients, and conversion of rows to the JSON form of their
//! expected records.

#![allow(dead_code, unreachable_pub, reason = "each test file uses its part")]
use std::path::PathBuf;

use arrow_array::cast::AsArray;
use arrow_array::types::{Int8Type, Int64Type, TimestampMillisecondType};
use arrow_array::{Array, ArrayRef, RecordBatch};
use samsarrow_wire::batch::ControlType;
use serde_json::{Value, json};

/// Returns the test cases; `None` if the file does not exist.
pub fn cases() -> Option<Vec<Value>> {
    let folder = std::env::var_os("SAMSARROW_CONFORMANCE").map_or_else(
        || PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/conformance")),
        PathBuf::from,
    );
    let text = std::fs::read_to_string(folder.join("records.jsonl")).ok()?;
    Some(text.lines().map(|line| serde_json::from_str(line).unwrap()).collect())
}

pub fn unhex(text: &str) -> Vec<u8> {
    (0..text.len() / 2).map(|i| u8::from_str_radix(&text[2 * i..2 * i + 2], 16).unwrap()).collect()
}

pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

/// Returns the encoded bytes of a test case.
pub fn data_of(case: &Value) -> Vec<u8> {
    if let Some(text) = case["hex"].as_str() {
        return unhex(text);
    }
    let parts = case["parts"].as_array().unwrap();
    parts.iter().flat_map(|p| unhex(p[0].as_str().unwrap()).repeat(p[1].as_u64().unwrap() as usize)).collect()
}

/// Returns the expected records of a test case.
pub fn expected(case: &Value) -> Vec<Value> {
    let records = case["expect"]["records"].as_array().unwrap();
    let mut records = match case["expect_repeat"].as_u64() {
        Some(times) => vec![records[0].clone(); times as usize],
        None => records.clone(),
    };
    for record in &mut records {
        let record = record.as_object_mut().unwrap();
        if record["timestamp"] == json!(-1) {
            record["timestamp"] = Value::Null;
        }
    }
    records
}

fn bytes_at(array: &ArrayRef, row: usize) -> Value {
    if array.is_null(row) {
        return Value::Null;
    }
    match array.as_binary_opt::<i32>() {
        Some(array) => hex(array.value(row)).into(),
        None => hex(array.as_binary_view().value(row)).into(),
    }
}

/// Converts rows to the JSON form of the expected records.
pub fn rows(batch: &RecordBatch) -> Vec<Value> {
    let column = |name| batch.column_by_name(name).unwrap();
    let headers = column("headers").as_list::<i32>();
    let timestamps = column("timestamp").as_primitive::<TimestampMillisecondType>();
    let types = column("timestamp_type").as_primitive::<Int8Type>();
    (0..batch.num_rows())
        .map(|row| {
            let entries = headers.value(row);
            let entries = entries.as_struct();
            let names = entries.column(0).as_string::<i32>();
            let headers: Vec<_> =
                (0..entries.len()).map(|i| json!([names.value(i), bytes_at(entries.column(1), i)])).collect();
            json!({
                "offset": column("offset").as_primitive::<Int64Type>().value(row),
                "timestamp": timestamps.is_valid(row).then(|| timestamps.value(row)),
                "timestamp_type": types.is_valid(row).then(|| types.value(row)),
                "key_hex": bytes_at(column("key"), row),
                "value_hex": bytes_at(column("value"), row),
                "headers": headers,
            })
        })
        .collect()
}

pub fn same(got: &[Value], expected_rows: &[Value]) -> Result<(), String> {
    if got.len() != expected_rows.len() {
        return Err(format!("{} records, want {}", got.len(), expected_rows.len()));
    }
    for (i, (got, expected_rows)) in got.iter().zip(expected_rows).enumerate() {
        for (name, value) in got.as_object().unwrap() {
            if value != &expected_rows[name] {
                return Err(format!("record {i}: {name} is {value}, want {}", expected_rows[name]));
            }
        }
        if let Some(control_type) = expected_rows["control_type"].as_str() {
            let key = unhex(expected_rows["key_hex"].as_str().unwrap());
            assert_eq!(ControlType::from_key(&key).unwrap().name(), control_type);
        }
    }
    Ok(())
}
