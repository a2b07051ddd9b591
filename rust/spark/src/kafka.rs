//! The options `kafka.*`: what the client is made from.

use std::collections::BTreeMap;

use samsarrow_client::config::{ClientKind, Kind, OPTIONS, OptionSpec, OptionValue, Options, Secret};

use crate::error::{Error, Result};
use crate::values::{Given, get};

/// Options of the client, the prefix taken off. Any of them may be a secret under a misspelt name: none shows in any text.
pub(crate) type Kafka = BTreeMap<String, Secret>;

/// Options that a read or a write decides itself, and what to do instead.
pub(crate) type Refused = [(&'static str, &'static str)];

/// What is looked at here, on the driver, where references are not resolved.
const PLAIN: &[&str] = &["group.id", "isolation.level", "max.block.ms", "security.protocol"];

/// The options `kafka.*` without their prefix.
///
/// # Errors
/// There are no bootstrap servers, or an option is one of `refused`.
pub(crate) fn kafka_options(given: &Given, refused: &Refused) -> Result<Kafka> {
    let bare = given.iter().filter_map(|(name, value)| Some((name.strip_prefix("kafka.")?.to_owned(), value)));
    let mut kafka: Kafka = bare.map(|(name, value)| (name, Secret::from(value.clone()))).collect();
    if kafka.keys().any(|name| kafka_name(name) == "config.providers") {
        let reference =
            |(name, value): &(&String, &Secret)| PLAIN.contains(&&*kafka_name(name)) && value.reveal().contains("${");
        if let Some((name, _)) = kafka.iter().find(reference) {
            return Err(Error::configuration(format!(
                "option kafka.{name} cannot be a reference: the driver looks at it itself"
            )));
        }
    }
    for name in kafka.keys() {
        if let Some((_, reason)) = refused.iter().find(|(refused, _)| kafka_name(name) == *refused) {
            return Err(Error::configuration(format!("option kafka.{name} is not supported: {reason}")));
        }
    }
    // What brokers see in their logs and quotas; the source is in no group.
    let name = get(given, "groupIdPrefix").unwrap_or("samsarrow-spark");
    kafka.entry("client.id".into()).or_insert_with(|| Secret::from(name.to_owned()));
    if kafka.get("bootstrap.servers").is_none_or(|servers| servers.reveal().is_empty()) {
        return Err(Error::configuration("option kafka.bootstrap.servers must be given, for example localhost:9092"));
    }
    Ok(kafka)
}

/// Checked options for a client: those of `kafka`, and `more`, which win. `kafka` is meant for an `owner`, which refuses
/// what it does not have; others are given what they have of it.
pub(crate) fn client_options(
    kind: ClientKind,
    owner: ClientKind,
    kafka: &Kafka,
    more: &[(&str, String)],
) -> Result<Options> {
    let owns = kind == owner;
    let has = |name: &str| match spec(name) {
        Some(spec) => spec.clients.contains(&kind),
        None => owns || ["config.providers.", "api.version."].iter().any(|p| dotted(name).starts_with(p)),
    };
    let replaced = |name: &str| more.iter().any(|(other, _)| kafka_name(name) == *other);
    let mine = kafka.iter().filter(|(name, _)| (owns || has(name)) && !replaced(name));
    let pairs = mine.map(|(name, value)| (name.clone(), value.reveal().to_owned()));
    let more = more.iter().map(|(name, value)| ((*name).to_owned(), value.clone()));
    Ok(Options::parse(kind, pairs.chain(more).map(|(name, value)| (name, OptionValue::Str(value))))?)
}

/// Files that options name must be on this machine, unless a reference stands for the name.
///
/// # Errors
/// One is not there.
pub(crate) fn check_files(kafka: &Kafka) -> Result<()> {
    let plain = |(name, value): (&String, &Secret)| {
        (kafka_name(name) == "security.protocol").then(|| value.reveal().trim().to_uppercase())
    };
    if kafka.iter().find_map(plain).is_none_or(|protocol| protocol == "PLAINTEXT") {
        return Ok(());
    }
    let references = kafka.keys().any(|name| kafka_name(name) == "config.providers");
    for (name, value) in kafka {
        let path = value.reveal();
        let is_file = spec(name).is_some_and(|spec| spec.kind == Kind::Path) && !path.is_empty() && path != "probe";
        if is_file && !(references && path.contains("${")) && !std::path::Path::new(path).exists() {
            return Err(missing_file("kafka.", name, path));
        }
    }
    Ok(())
}

/// The error of an option that names a file which is not on this machine.
pub(crate) fn missing_file(prefix: &str, name: &str, path: &str) -> Error {
    Error::configuration(format!(
        "option {prefix}{name}: there is no file {path} on {}. Ship it with --files (spark.files, SparkContext.addFile) \
         and give its bare name, put it there on every machine, or give its text in place of its name",
        host()
    ))
}

/// This machine's name, for errors about what may be missing on one of many.
fn host() -> String {
    std::fs::read_to_string("/proc/sys/kernel/hostname").map_or_else(|_| "this machine".into(), |n| n.trim().to_owned())
}

fn dotted(name: &str) -> String {
    name.replace('_', ".")
}

/// What is known of an option, in any spelling.
pub(crate) fn spec(name: &str) -> Option<&'static OptionSpec> {
    let wanted = dotted(name);
    let matches = |known: &str| dotted(known) == wanted;
    OPTIONS.iter().find(|spec| matches(spec.name) || spec.aliases.iter().any(|alias| matches(alias)))
}

/// Kafka's name for an option in any spelling; a name that is no option's comes back dotted.
pub(crate) fn kafka_name(name: &str) -> String {
    spec(name).map_or_else(|| dotted(name), |spec| spec.name.to_owned())
}
