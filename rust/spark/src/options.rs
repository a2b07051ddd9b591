//! Options of reads: the names and rules of Spark's own Kafka connector, and a few more.

use std::collections::BTreeMap;
use std::time::Duration;

use regex::Regex;
use samsarrow_client::config::{ClientKind, Options, RegistryOptions, Secret};
use samsarrow_client::schema_registry::Registry;

use crate::bounds::{At, Bound, ending, starting};
use crate::columns::{self, Column, Served, Text};
use crate::error::{Error, Result};
use crate::kafka::{self, Kafka};
use crate::near;
use crate::tokens;
use crate::typed::{self, Typed};
use crate::values::{Given, boolean, duration, get, json_object, natural, positive, quoted};

const BATCH_ONLY: &[&str] = &["endingOffsets", "endingOffsetsByTimestamp", "endingTimestamp"];
const KNOWN: &[&str] = &[
    "assign",
    "subscribe",
    "subscribePattern",
    "startingOffsets",
    "startingOffsetsByTimestamp",
    "startingOffsetsByTimestampStrategy",
    "startingTimestamp",
    "failOnDataLoss",
    "includeHeaders",
    "columns",
    "layout",
    "isolation.level",
    "minPartitions",
    "maxRecordsPerPartition",
    "kafkaConsumer.pollTimeoutMs",
    "fetchOffset.numRetries",
    "fetchOffset.retryIntervalMs",
    "groupIdPrefix",
    "delegationToken",
    "delegationTokenMechanism",
    "maxOffsetsPerTrigger",
    "minOffsetsPerTrigger",
    "maxTriggerDelay",
    "commitOffsets",
    "endingOffsets",
    "endingOffsetsByTimestamp",
    "endingTimestamp",
];

const REFUSED: &kafka::Refused = &[
    ("auto.offset.reset", "use the option startingOffsets; the source keeps track of offsets itself"),
    ("key.deserializer", "keys are read as binary, or with layout=string as text"),
    ("value.deserializer", "values are read as binary, or with layout=string as text"),
    ("enable.auto.commit", "the source never commits on its own; see the option commitOffsets"),
    ("interceptor.classes", "interceptors are Java classes"),
];

/// What the options are checked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reading {
    /// The schema, or a task: where reading starts and ends is not looked at.
    Any,
    /// A batch.
    Batch,
    /// A stream.
    Stream,
}

/// Which partitions are read.
#[derive(Debug, Clone)]
pub enum What {
    /// All of these topics.
    Topics(Vec<String>),
    /// These, by topic.
    Assigned(BTreeMap<String, Vec<i32>>),
    /// All of the topics whose names it finds.
    Pattern(Regex),
}

/// Checked options of a read.
#[derive(Debug, Clone)]
pub struct ReadOptions {
    /// Options of the client, the prefix `kafka.` taken off.
    kafka: Kafka,
    /// Which partitions.
    pub what: What,
    /// Where a batch or a new query starts.
    pub starting: Bound,
    /// Where a batch ends.
    pub ending: Bound,
    /// Whether a partition without a record at or after its starting time starts at its end.
    pub no_match_is_latest: bool,
    /// Whether records that are gone end the query.
    pub fail_on_data_loss: bool,
    /// The connector's that are served, in their order.
    pub columns: Vec<Column>,
    /// All that are served, in their order.
    pub served: Vec<Served>,
    /// Which of key and value are served as text.
    pub text: Text,
    /// Keys and values that are decoded. The source in Python decodes its own, and takes their options out.
    pub typed: Vec<Typed>,
    /// Of the registry that says what they were written with.
    registry: Option<RegistryOptions>,
    /// The least number of Spark tasks wanted.
    pub min_partitions: Option<u64>,
    /// The most offsets in one Spark task.
    pub max_records_per_partition: Option<u64>,
    /// The most offsets in a micro-batch.
    pub max_offsets: Option<u64>,
    /// Below which no micro-batch starts.
    pub min_offsets: Option<u64>,
    /// After which one starts all the same.
    pub max_delay: Duration,
    /// Without progress for this long a task fails.
    pub poll_timeout: Duration,
    /// Of what the driver asks the brokers.
    pub retries: u64,
    /// Between those.
    pub retry_interval: Duration,
    /// Whether offsets of finished micro-batches are committed to the group.
    pub commit: bool,
    /// What tasks log in with, by delegation tokens; without it they log in as the driver does.
    pub token_mechanism: Option<&'static str>,
}

impl ReadOptions {
    /// Checks the options of `spark.read` or `spark.readStream`; names are case-insensitive, as Spark's are.
    ///
    /// # Errors
    /// An option is missing, contradicts another or has a value that cannot be.
    pub fn parse(options: &BTreeMap<String, String>, reading: Reading) -> Result<ReadOptions> {
        let mut given: Given = options.iter().map(|(name, value)| (name.to_lowercase(), value.clone())).collect();
        let (typed, registry) = typed::take(&mut given)?;
        near::refuse_misspelt(&given, KNOWN)?;
        if reading == Reading::Any {
            // Where neither batch nor stream is known, what they differ in is checked later.
            let bounds = ["startingoffsets", "startingtimestamp", "ending", "commitoffsets"];
            given.retain(|name, _| !bounds.iter().any(|bound| name.starts_with(bound)));
        }
        let mut kafka = kafka::kafka_options(&given, REFUSED)?;
        if let Some(level) = get(&given, "isolation.level") {
            kafka.insert("isolation.level".into(), Secret::from(level.to_owned()));
        }
        let streaming = reading == Reading::Stream;
        if let Some(name) = BATCH_ONLY.iter().find(|name| streaming && get(&given, name).is_some()) {
            return Err(Error::configuration(format!(
                "option {name} cannot be used in a streaming query, which has no end"
            )));
        }
        let strategy = get(&given, "startingOffsetsByTimestampStrategy").unwrap_or("error").trim().to_lowercase();
        if strategy != "error" && strategy != "latest" {
            return Err(Error::configuration(format!(
                "option startingOffsetsByTimestampStrategy must be error or latest, not {}",
                quoted(&strategy)
            )));
        }
        let (columns, served) = columns::served(&mut given, &typed)?;
        let parsed = ReadOptions {
            what: what(&given)?,
            starting: starting(&given, streaming)?,
            ending: ending(&given)?,
            no_match_is_latest: strategy == "latest",
            fail_on_data_loss: boolean(&given, "failOnDataLoss", true)?,
            columns,
            served,
            text: typed::text_beside(&given, &typed, columns::layout(&given)?)?,
            typed,
            registry,
            min_partitions: positive(&given, "minPartitions")?,
            max_records_per_partition: positive(&given, "maxRecordsPerPartition")?,
            max_offsets: positive(&given, "maxOffsetsPerTrigger")?,
            min_offsets: positive(&given, "minOffsetsPerTrigger")?,
            max_delay: duration(&given, "maxTriggerDelay", Duration::from_secs(900))?,
            poll_timeout: Duration::from_millis(positive(&given, "kafkaConsumer.pollTimeoutMs")?.unwrap_or(120_000)),
            retries: natural(&given, "fetchOffset.numRetries")?.unwrap_or(3),
            retry_interval: duration(&given, "fetchOffset.retryIntervalMs", Duration::from_secs(1))?,
            commit: boolean(&given, "commitOffsets", false)?,
            token_mechanism: tokens::mechanism(&given, &kafka)?,
            kafka,
        };
        parsed.check(streaming)?;
        Ok(parsed)
    }

    fn check(&self, streaming: bool) -> Result<()> {
        if let (Some(least), Some(most)) = (self.min_offsets, self.max_offsets)
            && least > most
        {
            return Err(Error::configuration(format!(
                "option minOffsetsPerTrigger ({least}) cannot be larger than maxOffsetsPerTrigger ({most})"
            )));
        }
        if (self.commit || self.starting.at == At::Group) && self.group().is_none() {
            let which = if self.commit { "commitOffsets=true" } else { "startingOffsets=group" };
            return Err(Error::configuration(format!(
                "{which} needs the option kafka.group.id, which names the group"
            )));
        }
        if self.commit && !streaming {
            return Err(Error::configuration(
                "option commitOffsets is for streaming queries: a batch read cannot know when its rows are processed",
            ));
        }
        Ok(())
    }

    /// The group that offsets are committed to or started from.
    pub fn group(&self) -> Option<&str> {
        self.kafka.get("group.id").map(Secret::reveal).filter(|group| !group.is_empty())
    }

    /// A client of the registry, where there is one.
    ///
    /// # Errors
    /// An address, the login or a certificate cannot be.
    pub fn registry(&self) -> Result<Option<Registry>> {
        Ok(self.registry.as_ref().map(Registry::new).transpose()?)
    }

    /// Options of the client, the prefix `kafka.` taken off.
    pub fn kafka(&self) -> impl Iterator<Item = (&str, &Secret)> {
        self.kafka.iter().map(|(name, value)| (name.as_str(), value))
    }

    /// Whether the option of the client is given, in any spelling.
    pub fn gives(&self, name: &str) -> bool {
        self.kafka.keys().any(|given| kafka::kafka_name(given) == name)
    }

    /// Whether only records of committed transactions are read.
    pub fn reads_committed(&self) -> bool {
        self.kafka
            .get("isolation.level")
            .is_some_and(|level| level.reveal().trim().eq_ignore_ascii_case("read_committed"))
    }

    /// Options for a client of this process, which is in no group; `more` win.
    ///
    /// # Errors
    /// An option cannot be, or names a file that is not on this machine.
    pub fn client(&self, kind: ClientKind, more: &[(&str, String)]) -> Result<Options> {
        kafka::check_files(&self.kafka)?;
        let mut kafka = self.kafka.clone();
        kafka.remove("group.id");
        kafka::client_options(kind, ClientKind::Consumer, &kafka, more)
    }
}

fn what(given: &Given) -> Result<What> {
    match (get(given, "subscribe"), get(given, "assign"), get(given, "subscribePattern")) {
        (Some(topics), None, None) => subscribed(topics),
        (None, Some(assigned), None) => partitions(assigned),
        (None, None, Some(text)) => pattern(text.trim()),
        _ => Err(Error::configuration(
            "exactly one of the options subscribe (\"topic,topic\"), subscribePattern (\"topic.*\") and assign \
             ('{\"topic\":[0,1]}') must be given",
        )),
    }
}

fn subscribed(text: &str) -> Result<What> {
    let mut topics: Vec<String> = Vec::new();
    for topic in text.split(',').map(str::trim).filter(|topic| !topic.is_empty()) {
        if !topics.iter().any(|known| known == topic) {
            topics.push(topic.to_owned());
        }
    }
    if topics.is_empty() {
        return Err(Error::configuration("option subscribe names no topic: give a list such as flights,trains"));
    }
    Ok(What::Topics(topics))
}

fn pattern(text: &str) -> Result<What> {
    if text.is_empty() {
        return Err(Error::configuration("option subscribePattern is empty: give a pattern such as flights-.*"));
    }
    let bad = |error| Error::configuration(format!("option subscribePattern: {} is no pattern: {error}", quoted(text)));
    Regex::new(text).map(What::Pattern).map_err(bad)
}

fn partitions(text: &str) -> Result<What> {
    let mut assigned = BTreeMap::new();
    for (topic, numbers) in json_object(text, "assign", r#"{"topic":[0,1]}"#)? {
        let number = |number: &serde_json::Value| i32::try_from(number.as_u64()?).ok();
        let numbers: Option<Vec<i32>> = numbers.as_array().and_then(|numbers| numbers.iter().map(number).collect());
        let mut numbers = numbers.unwrap_or_default();
        numbers.sort_unstable();
        numbers.dedup();
        assigned.insert(topic, numbers);
    }
    if assigned.is_empty() || assigned.values().any(Vec::is_empty) {
        return Err(Error::configuration(format!(
            "option assign must be JSON like {{\"topic\":[0,1]}}, not {}",
            quoted(text)
        )));
    }
    Ok(What::Assigned(assigned))
}

#[cfg(test)]
#[path = "options_tests.rs"]
mod tests;
