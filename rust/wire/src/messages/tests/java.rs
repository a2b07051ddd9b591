//! Comparison with Kafka's own Java classes, which must decode our bytes and encode the same bytes again.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use super::*;

/// Version of the Java client, the newest release in the table of releases.
const VERSION: &str = "4.4.0";
const SEEDS: u64 = 8;

/// Messages as lines for the Java program, each with the API, the version and our bytes.
#[derive(Default)]
struct Samples(Vec<(ApiKey, Kind, i16, String)>);

fn to_hex(bytes: &Bytes) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

impl Check for Samples {
    fn message<M: Tested>(&mut self, api: ApiKey, kind: Kind, flexible: i16, versions: RangeInclusive<i16>) {
        for version in versions {
            for seed in 0..SEEDS {
                let bytes = sample::<M>(version, flexible, seed).bytes(version);
                self.0.push((api, kind, version, to_hex(&bytes)));
            }
        }
    }
}

/// Returns the class path of the Java client, from Maven's local repository.
fn jars() -> Option<String> {
    let repository = std::env::var_os("MAVEN_REPOSITORY").map(PathBuf::from);
    let repository = repository.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".m2/repository")))?;
    let slf4j = repository.join("org/slf4j/slf4j-api/1.7.36/slf4j-api-1.7.36.jar");
    let client = repository.join(format!("org/apache/kafka/kafka-clients/{VERSION}/kafka-clients-{VERSION}.jar"));
    (slf4j.exists() && client.exists()).then(|| format!("{}:{}", client.display(), slf4j.display()))
}

#[test]
fn java_agrees() {
    let Some(jars) = jars() else {
        eprintln!("skipped: kafka-clients {VERSION} is not in Maven's local repository");
        return;
    };
    let program = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/support/java/Recode.java");
    let mut java = Command::new("java");
    java.args(["-cp", &jars]).arg(program).stdin(Stdio::piped()).stdout(Stdio::piped());
    let Ok(mut running) = java.spawn() else {
        eprintln!("skipped: there is no java on PATH");
        return;
    };
    let mut samples = Samples::default();
    check_all(&mut samples);
    let mut input = running.stdin.take().unwrap();
    let lines: Vec<String> = samples
        .0
        .iter()
        .map(|(api, kind, version, hex)| {
            let kind = if *kind == Kind::Request { "request" } else { "response" };
            format!("{} {kind} {version} {hex}\n", api.code())
        })
        .collect();
    let writer = std::thread::spawn(move || lines.iter().try_for_each(|line| input.write_all(line.as_bytes())));
    let output = running.wait_with_output().unwrap();
    writer.join().unwrap().unwrap();
    let output = String::from_utf8(output.stdout).unwrap();
    let results: Vec<&str> = output.lines().collect();
    assert_eq!(results.len(), samples.0.len());
    let mut agreed = 0;
    let mut newest: BTreeMap<ApiKey, (i16, i16)> = BTreeMap::new();
    for ((api, kind, version, hex), result) in samples.0.iter().zip(results) {
        // Kafka 4 has removed the oldest versions.
        if result == "unsupported" {
            continue;
        }
        let (theirs, last) = result.split_once(' ').unwrap();
        assert_eq!(theirs, hex, "{api:?} {kind:?} v{version}: {last}");
        let last: i16 = last.parse().unwrap();
        newest.entry(*api).and_modify(|(ours, _)| *ours = (*ours).max(*version)).or_insert((*version, last));
        agreed += 1;
    }
    let behind: Vec<_> = newest.iter().filter(|(_, (ours, theirs))| ours < theirs).collect();
    eprintln!("Kafka {VERSION} agrees on {agreed} messages; later versions that are not defined here: {behind:?}");
    assert!(agreed > 4000, "only {agreed}");
}
