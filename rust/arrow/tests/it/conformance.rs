//! Decoding of record batches from other clients' test suites and encoders, in both layouts.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "reports skipped tests")]

use std::collections::BTreeMap;

use crate::support::{cases, data_of, expected, rows, same};
use arrow_array::RecordBatch;
use samsarrow_arrow::{DecodeError, DecodeOptions, Layout, decode_batches};
use serde_json::{Value, json};

fn decode(data: &[u8], layout: Layout, include_control: bool) -> Result<RecordBatch, DecodeError> {
    let options = DecodeOptions { layout, include_headers: true, include_control, ..DecodeOptions::default() };
    decode_batches(data.to_vec().into(), options)
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
    let expected_rows = expected(case);
    same(&rows(&decoded.map_err(|e| e.to_string())?), &expected_rows)?;
    let without_control: Vec<_> = expected_rows.into_iter().filter(|r| r.get("control_type").is_none()).collect();
    same(&rows(&decode(&data, layout, false).map_err(|e| e.to_string())?), &without_control)?;
    Ok(if expected_error.is_some() { "equal, tail left out" } else { "equal" })
}

#[test]
fn decodes_records_of_other_clients() {
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
