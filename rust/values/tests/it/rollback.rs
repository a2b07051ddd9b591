//! Bad values only make their own row null, and do not affect other rows.

use arrow_array::Array;
use arrow_array::cast::AsArray;
use samsarrow_values::avro::Schema;
use samsarrow_values::{Decoder, Options};
use serde_json::Value;

use crate::random::{Random, Schemas, value};
use crate::{bare, decode, decoder};

const SEEDS: u64 = 400;
const ROWS: usize = 12;

fn case(seed: u64) -> (Random, Value, Vec<Vec<u8>>) {
    let mut random = Random(seed);
    let schema = Schemas::default().record(&mut random, 3);
    let values = (0..ROWS).map(|_| {
        let mut out = Vec::new();
        value(&schema, &mut random, &mut out);
        out
    });
    let values = values.collect();
    (random, schema, values)
}

#[test]
fn truncated_values_do_not_affect_other_rows() {
    for seed in 0..SEEDS {
        let (mut random, schema, values) = case(seed);
        let text = schema.to_string();
        let mut decoder = decoder(&text);
        let (_, bad) = decode(&mut decoder, values.iter().map(|value| Some(value.as_slice())));
        assert_eq!(bad, [], "{text}");
        let at = random.below(ROWS);
        let (expected, _) =
            decode(&mut decoder, values.iter().enumerate().map(|(row, value)| (row != at).then_some(value.as_slice())));
        for cut in 0..values[at].len() {
            let cut = &values[at][..cut];
            let rows =
                values.iter().enumerate().map(|(row, value)| Some(if row == at { cut } else { value.as_slice() }));
            let (got, bad) = decode(&mut decoder, rows);
            assert_eq!(bad.len(), 1, "{text}");
            assert_eq!(bad[0].row, at);
            assert_eq!(got.to_data(), expected.to_data(), "{text}");
            assert!(got.is_null(at));
        }
    }
}

#[test]
fn mutated_values_do_not_affect_other_rows() {
    for seed in 0..SEEDS {
        let (mut random, schema, values) = case(seed);
        let mut decoder = decoder(&schema.to_string());
        for _ in 0..20 {
            let at = random.below(ROWS);
            let mut changed = values[at].clone();
            if changed.is_empty() {
                continue;
            }
            for _ in 0..1 + random.below(3) {
                let place = random.below(changed.len());
                changed[place] = random.next() as u8;
            }
            let rows = |changed| {
                values
                    .iter()
                    .enumerate()
                    .map(move |(row, value)| if row == at { changed } else { Some(value.as_slice()) })
            };
            let (got, bad) = decode(&mut decoder, rows(Some(&changed)));
            let (expected, _) = decode(&mut decoder, rows(None));
            assert!(bad.len() <= 1);
            assert_eq!(got.slice(0, at).to_data(), expected.slice(0, at).to_data());
            let rest = ROWS - at - 1;
            assert_eq!(got.slice(at + 1, rest).to_data(), expected.slice(at + 1, rest).to_data());
        }
    }
}

#[test]
fn projected_fields_equal_full_decoding() {
    for seed in 0..SEEDS {
        let (mut random, schema, values) = case(seed);
        let parsed = Schema::parse(&schema.to_string()).unwrap();
        let names: Vec<String> = schema["fields"]
            .as_array()
            .unwrap()
            .iter()
            .map(|field| field["name"].as_str().unwrap().to_owned())
            .collect();
        let expected = &names[random.below(names.len())];
        let fields = Some(vec![expected.clone()]);
        let mut some = Decoder::avro(&parsed, &Options { fields, ..bare() }).unwrap();
        let values = || values.iter().map(|value| Some(value.as_slice()));
        let (some, bad) = decode(&mut some, values());
        assert_eq!(bad, []);
        let (all, _) = decode(&mut decoder(&schema.to_string()), values());
        assert_eq!(some.as_struct().num_columns(), 1);
        let (got, expected) = (some.as_struct().column(0), all.as_struct().column_by_name(expected).unwrap());
        assert_eq!(got.to_data(), expected.to_data());
    }
}

#[test]
fn rejects_trailing_bytes() {
    for seed in 0..SEEDS {
        let (_, schema, values) = case(seed);
        let longer = [values[0].as_slice(), &[0]].concat();
        let (_, bad) = decode(&mut decoder(&schema.to_string()), [Some(longer.as_slice())]);
        assert!(bad[0].reason.starts_with("1 bytes follow the value"), "{}", bad[0].reason);
    }
}
