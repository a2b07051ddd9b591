//! Replay of the committed inputs, and a short session; `make fuzz` runs a long one.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stderr)]
use std::time::{Duration, Instant};

use samsarrow_fuzz::memory::Counting;
use samsarrow_fuzz::session::{self, Plan};
use samsarrow_fuzz::{Input, Seeds, TARGETS, Target, corpus_folder, target};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

#[test]
fn corpus_replays_without_failures() {
    let existing_inputs = session::existing_inputs();
    for (target, path, input) in &existing_inputs {
        if let Err(failure) = session::run_one(target, input) {
            panic!("{}: {}: {}", target.name, path.display(), failure.what);
        }
    }
    let committed = existing_inputs.iter().filter(|(_, path, _)| path.starts_with(corpus_folder())).count();
    eprintln!("{committed} committed inputs, {} conformance cases", existing_inputs.len() - committed);
    assert!(committed >= TARGETS.len(), "only {committed} committed inputs");
}

#[test]
fn every_folder_of_the_corpus_has_a_target() {
    for folder in std::fs::read_dir(corpus_folder()).unwrap() {
        let name = folder.unwrap().file_name().into_string().unwrap();
        assert!(target(&name).is_some(), "{name}");
    }
}

#[test]
fn short_session() {
    let deadline = Some(Instant::now() + Duration::from_secs(4));
    let plan = Plan { targets: Vec::new(), seed: 7, start: 0, stride: 1, runs: 20_000, deadline };
    let (done, failures) = session::run(&plan, |_| {}, |failure| eprintln!("{}: {}", failure.target, failure.what));
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/fuzz-failures");
    for failure in &failures {
        eprintln!("{}: {} ({:?})", failure.target, failure.what, session::keep(failure, &folder));
    }
    assert!(failures.is_empty(), "{} of {done} inputs failed", failures.len());
    eprintln!("{done} inputs");
    assert!(done > 1000, "only {done} inputs");
}

/// The mutator is only useful if the decoder accepts many of its inputs.
#[test]
fn inputs_are_deterministic_and_often_valid() {
    let (mut one, mut other) = (Seeds::default(), Seeds::default());
    for target in TARGETS {
        let mut lengths = 0;
        for seed in (0..200).rev() {
            let input = one.input(target.name, target.input, seed);
            lengths += input.len();
            if seed % 40 == 0 {
                assert_eq!(input, Seeds::default().input(target.name, target.input, seed), "{}", target.name);
            }
        }
        assert!(lengths > 200 * 10, "{}", target.name);
    }
    let rows = |input: &[u8]| {
        let options = samsarrow_arrow::DecodeOptions { max_decompressed_bytes: 1 << 16, ..Default::default() };
        let mut decoder = samsarrow_arrow::Decoder::new(options);
        let data = input[1..].to_vec().into();
        let _ = decoder.append(&std::sync::Arc::from("t"), 0, data, samsarrow_arrow::Window::from(i64::MIN));
        decoder.rows()
    };
    for name in ["batches", "message_set_v0", "message_set_v1"] {
        let Target { input, .. } = target(name).unwrap();
        assert!(matches!(input, Input::Batches(Some(_))));
        let deep = (0..1000).filter(|seed| rows(&other.input(name, *input, *seed)) > 0).count();
        eprintln!("{name}: {deep} of 1000 inputs gave rows, with checksums checked");
        assert!((300..990).contains(&deep), "{name}: {deep}");
    }
}

/// Many inputs must contain a valid schema and a valid value.
#[test]
fn many_schemas_and_values_are_valid() {
    use samsarrow_values::{Decoder, Framing, Options, avro::Schema};
    let cut = |rest: &[u8]| {
        let (len, rest) = rest.split_first_chunk::<2>()?;
        rest.split_at_checked(usize::from(u16::from_be_bytes(*len))).map(|(part, rest)| (part.to_vec(), rest.to_vec()))
    };
    let options = Options { framing: Framing::Bare, ..Options::default() };
    let (mut seeds, mut schemas, mut values) = (Seeds::default(), 0, 0);
    let Target { input, .. } = target("avro_schema").unwrap();
    for seed in 0..1000 {
        let bytes = seeds.input("avro_schema", *input, seed);
        let Some((text, rest)) = bytes.get(1..).and_then(cut) else { continue };
        let Ok(schema) = Schema::parse(&String::from_utf8_lossy(&text)) else { continue };
        schemas += 1;
        let (Ok(mut decoder), Some((value, _))) = (Decoder::avro(&schema, &options), cut(&rest)) else { continue };
        values += usize::from(!value.is_empty() && decoder.push(Some(&value), None).is_ok());
    }
    eprintln!("{schemas} of 1000 inputs had a schema, and {values} a value of it");
    assert!((300..990).contains(&schemas), "{schemas}");
    assert!((100..900).contains(&values), "{values}");
}

/// Panics and excessive memory use are detected.
#[test]
fn detects_panics_and_excessive_memory() {
    let target = |run| Target { name: "test", input: Input::Records, run, memory: 4, constant: 1 << 20 };
    let failure = session::run_one(&target(|_| panic!("of course")), b"x").unwrap_err();
    assert_eq!(failure.what, "panicked: of course");
    let hungry = |input: &[u8]| drop(std::hint::black_box(vec![0u8; (1 << 20) + 10 * input.len()]));
    let failure = session::run_one(&target(hungry), &[0; 100]).unwrap_err();
    assert!(failure.what.starts_with("allocated 10495"), "{}", failure.what);
    let modest = |input: &[u8]| drop(std::hint::black_box(vec![0u8; 1000 * input.len()]));
    session::run_one(&target(modest), &[0; 100]).unwrap();
}

/// Each target must have a file and an entry in the manifest, with which `cargo fuzz` finds it.
#[test]
fn cargo_fuzz_has_every_target() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz");
    let manifest = std::fs::read_to_string(folder.join("Cargo.toml")).unwrap();
    for Target { name, .. } in TARGETS {
        let file = std::fs::read_to_string(folder.join(format!("fuzz_targets/{name}.rs"))).unwrap();
        assert!(
            file.contains(&format!("run(\"{name}\"")) && manifest.contains(&format!("name = \"{name}\"")),
            "{name}"
        );
    }
    assert_eq!(std::fs::read_dir(folder.join("fuzz_targets")).unwrap().count(), TARGETS.len());
}
