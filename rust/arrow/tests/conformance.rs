//! Record batches from other clients' test suites and encoders, decoded in both layouts.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout, clippy::print_stderr)]
use std::collections::BTreeMap;
use std::path::PathBuf;

use arrow_array::cast::AsArray;
use arrow_array::types::{Int8Type, Int64Type, TimestampMillisecondType};
use arrow_array::{Array, ArrayRef, RecordBatch};
use samsarrow_arrow::{DecodeError, DecodeOptions, Layout, decode_batches};
use samsarrow_wire::batch::ControlType;
use serde_json::{Value, json};

fn cases() -> Option<Vec<Value>> {
    let folder = std::env::var_os("SAMSARROW_CONFORMANCE").map_or_else(
        || PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/conformance")),
        PathBuf::from,
    );
    let text = std::fs::read_to_string(folder.join("records.jsonl")).ok()?;
    Some(text.lines().map(|line| serde_json::from_str(line).unwrap()).collect())
}

fn unhex(text: &str) -> Vec<u8> {
    (0..text.len() / 2).map(|i| u8::from_str_radix(&text[2 * i..2 * i + 2], 16).unwrap()).collect()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

fn data_of(case: &Value) -> Vec<u8> {
    if let Some(text) = case["hex"].as_str() {
        return unhex(text);
    }
    let parts = case["parts"].as_array().unwrap();
    parts.iter().flat_map(|p| unhex(p[0].as_str().unwrap()).repeat(p[1].as_u64().unwrap() as usize)).collect()
}

fn wanted(case: &Value) -> Vec<Value> {
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

fn decode(data: &[u8], layout: Layout, include_control: bool) -> Result<RecordBatch, DecodeError> {
    let options = DecodeOptions { layout, include_headers: true, include_control, ..DecodeOptions::default() };
    decode_batches(data.to_vec().into(), options)
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

/// The rows as the records of the case's file.
fn rows(batch: &RecordBatch) -> Vec<Value> {
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

fn same(got: &[Value], want: &[Value]) -> Result<(), String> {
    if got.len() != want.len() {
        return Err(format!("{} records, want {}", got.len(), want.len()));
    }
    for (i, (got, want)) in got.iter().zip(want).enumerate() {
        for (name, value) in got.as_object().unwrap() {
            if value != &want[name] {
                return Err(format!("record {i}: {name} is {value}, want {}", want[name]));
            }
        }
        if let Some(control_type) = want["control_type"].as_str() {
            let key = unhex(want["key_hex"].as_str().unwrap());
            assert_eq!(ControlType::from_key(&key).unwrap().name(), control_type);
        }
    }
    Ok(())
}

fn check(case: &Value, layout: Layout) -> Result<&'static str, String> {
    let data = data_of(case);
    let expected_error = case["expect"]["error"].as_str();
    let decoded = decode(&data, layout, true);
    if !matches!(expected_error, None | Some("truncated")) {
        return match decoded {
            Err(_) => Ok("refused"),
            Ok(_) if case["either_way"] == json!(true) => Ok("accepted (either way is right)"),
            Ok(batch) => Err(format!("no error; {} records", batch.num_rows())),
        };
    }
    let want = wanted(case);
    same(&rows(&decoded.map_err(|e| e.to_string())?), &want)?;
    let without_control: Vec<_> = want.into_iter().filter(|r| r.get("control_type").is_none()).collect();
    same(&rows(&decode(&data, layout, false).map_err(|e| e.to_string())?), &without_control)?;
    Ok(if expected_error.is_some() { "equal, tail left out" } else { "equal" })
}

#[test]
fn records_of_other_clients() {
    let Some(cases) = cases() else {
        eprintln!("skipped: ../shared/conformance/records.jsonl is not here (see SAMSARROW_CONFORMANCE)");
        return;
    };
    let mut failures = Vec::new();
    for layout in [Layout::Binary, Layout::View] {
        let mut counts: BTreeMap<(String, &str), usize> = BTreeMap::new();
        for case in &cases {
            match check(case, layout) {
                Ok(how) => *counts.entry((format!("magic {}", case["magic"]), how)).or_default() += 1,
                Err(why) => failures.push(format!("{layout:?} {} {}: {why}", case["id"], case["name"])),
            }
        }
        println!("{layout:?}: {counts:#?}");
    }
    assert!(failures.is_empty(), "{} of {} fail:\n{}", failures.len(), 2 * cases.len(), failures.join("\n"));
}
