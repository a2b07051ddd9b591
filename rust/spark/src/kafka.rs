//! The options with the prefix `kafka.`, from which clients are created.

use std::collections::BTreeMap;

use samsarrow_client::config::{ClientKind, Kind, OPTIONS, OptionSpec, OptionValue, Options, Secret};

use crate::error::{Error, Result};
use crate::option_values::{RawOptions, get};

/// Options of the client, without the prefix `kafka.`. All values are treated as secrets, because any of them may be a
/// password whose option name is misspelled.
pub(crate) type KafkaOptions = BTreeMap<String, Secret>;

/// Options that the source or sink sets itself, each with the option to use instead.
pub(crate) type Reserved = [(&'static str, &'static str)];

/// Options that the driver itself reads. References to config providers are not resolved in these options.
const DRIVER_OPTIONS: &[&str] = &["group.id", "isolation.level", "max.block.ms", "security.protocol"];

/// Returns the options with the prefix `kafka.`, without this prefix.
///
/// # Errors
/// Fails if the bootstrap servers are missing, or if an option is one of `reserved`.
pub(crate) fn kafka_options(options: &RawOptions, reserved: &Reserved) -> Result<KafkaOptions> {
    let bare = options.iter().filter_map(|(name, value)| Some((name.strip_prefix("kafka.")?.to_owned(), value)));
    let mut kafka: KafkaOptions = bare.map(|(name, value)| (name, Secret::from(value.clone()))).collect();
    if kafka.keys().any(|name| kafka_name(name) == "config.providers") {
        let reference = |(name, value): &(&String, &Secret)| {
            DRIVER_OPTIONS.contains(&&*kafka_name(name)) && value.reveal().contains("${")
        };
        if let Some((name, _)) = kafka.iter().find(reference) {
            return Err(Error::configuration(format!(
                "option kafka.{name} cannot be a reference: the driver looks at it itself"
            )));
        }
    }
    for name in kafka.keys() {
        if let Some((_, reason)) = reserved.iter().find(|(reserved, _)| kafka_name(name) == *reserved) {
            return Err(Error::configuration(format!("option kafka.{name} is not supported: {reason}")));
        }
    }
    // The client id appears in the brokers' logs and quotas. It is derived from `groupIdPrefix`, because the source
    // joins no group.
    let name = get(options, "groupIdPrefix").unwrap_or("samsarrow-spark");
    kafka.entry("client.id".into()).or_insert_with(|| Secret::from(name.to_owned()));
    if kafka.get("bootstrap.servers").is_none_or(|servers| servers.reveal().is_empty()) {
        return Err(Error::configuration("option kafka.bootstrap.servers must be given, for example localhost:9092"));
    }
    Ok(kafka)
}

/// Returns checked options for a client of kind `kind`: the options `kafka`, overridden by `overrides`. `kafka`
/// contains the options of a client of kind `owner`. A client of this kind rejects unknown options; for a client of
/// another kind, options that it does not have are left out.
pub(crate) fn client_options(
    kind: ClientKind,
    owner: ClientKind,
    kafka: &KafkaOptions,
    overrides: &[(&str, String)],
) -> Result<Options> {
    let owns = kind == owner;
    let replaced = |name: &str| overrides.iter().any(|(other, _)| kafka_name(name) == *other);
    let supported = kafka.iter().filter(|(name, _)| (owns || has_option(kind, name)) && !replaced(name));
    let pairs = supported.map(|(name, value)| (name.clone(), value.reveal().to_owned()));
    let overrides = overrides.iter().map(|(name, value)| ((*name).to_owned(), value.clone()));
    Ok(Options::parse(kind, pairs.chain(overrides).map(|(name, value)| (name, OptionValue::Str(value))))?)
}

/// Returns the options that a client of kind `kind` has.
pub(crate) fn supported(kind: ClientKind, kafka: &KafkaOptions) -> KafkaOptions {
    let supported = kafka.iter().filter(|(name, _)| has_option(kind, name));
    supported.map(|(name, value)| (name.clone(), value.clone())).collect()
}

fn has_option(kind: ClientKind, name: &str) -> bool {
    match spec(name) {
        Some(spec) => spec.clients.contains(&kind),
        None => ["config.providers.", "api.version."].iter().any(|prefix| dotted(name).starts_with(prefix)),
    }
}

/// Checks that all files named by options exist on this machine. Does not check references to config providers.
///
/// # Errors
/// Fails if a file does not exist.
pub(crate) fn check_files(kafka: &KafkaOptions) -> Result<()> {
    let protocol = |(name, value): (&String, &Secret)| {
        (kafka_name(name) == "security.protocol").then(|| value.reveal().trim().to_uppercase())
    };
    if kafka.iter().find_map(protocol).is_none_or(|protocol| protocol == "PLAINTEXT") {
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

/// Returns the error for an option that names a file that does not exist on this machine.
pub(crate) fn missing_file(prefix: &str, name: &str, path: &str) -> Error {
    Error::configuration(format!(
        "option {prefix}{name}: there is no file {path} on {}. Ship it with --files (spark.files, SparkContext.addFile) \
         and give its bare name, put it there on every machine, or give its text in place of its name",
        host()
    ))
}

/// Returns the host name of this machine. Errors about missing files contain it, because a file may be missing on only
/// one of many machines.
fn host() -> String {
    std::fs::read_to_string("/proc/sys/kernel/hostname").map_or_else(|_| "this machine".into(), |n| n.trim().to_owned())
}

fn dotted(name: &str) -> String {
    name.replace('_', ".")
}

/// Returns the specification of a client option, whose name may have any spelling.
pub(crate) fn spec(name: &str) -> Option<&'static OptionSpec> {
    let name = dotted(name);
    let matches = |known: &str| dotted(known) == name;
    OPTIONS.iter().find(|spec| matches(spec.name) || spec.aliases.iter().any(|alias| matches(alias)))
}

/// Returns Kafka's name for an option whose name may have any spelling. In an unknown name, underscores are replaced by
/// dots.
pub(crate) fn kafka_name(name: &str) -> String {
    spec(name).map_or_else(|| dotted(name), |spec| spec.name.to_owned())
}
