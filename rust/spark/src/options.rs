//! Options of reads. They have the names and rules of Spark's own Kafka connector, with additional options.

use std::collections::BTreeMap;
use std::time::Duration;

use regex::Regex;
use samsarrow_client::config::{ClientKind, Options, RegistryOptions, Secret};
use samsarrow_client::schema_registry::Registry;

use crate::bounds::{Bound, OffsetSpec, ending, starting};
use crate::columns::{self, Column, OutputColumn, TextLayout};
use crate::error::{Error, Result};
use crate::kafka::{self, KafkaOptions};
use crate::option_values::{RawOptions, boolean, duration, get, json_object, natural, positive, quoted};
use crate::suggest;
use crate::tokens;
use crate::typed::{self, Typed};

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

const RESERVED: &kafka::Reserved = &[
    ("auto.offset.reset", "use the option startingOffsets; the source keeps track of offsets itself"),
    ("key.deserializer", "keys are read as binary, or with layout=string as text"),
    ("value.deserializer", "values are read as binary, or with layout=string as text"),
    ("enable.auto.commit", "the source never commits on its own; see the option commitOffsets"),
    ("interceptor.classes", "interceptors are Java classes"),
];

/// Purpose for which the options are parsed. It determines which options are checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reading {
    /// Options are parsed to determine the schema or to run a task. The options of start and end are not checked.
    Any,
    /// A batch read.
    Batch,
    /// A streaming read.
    Stream,
}

/// Selection of the partitions to read.
#[derive(Debug, Clone)]
pub enum TopicSelection {
    /// All partitions of these topics.
    Topics(Vec<String>),
    /// These partitions, by topic name.
    Assigned(BTreeMap<String, Vec<i32>>),
    /// All partitions of the topics whose names match this expression.
    Pattern(Regex),
}

/// Checked options of a read.
#[derive(Debug, Clone)]
pub struct ReadOptions {
    /// Client options without the prefix `kafka.`.
    kafka: KafkaOptions,
    pub selection: TopicSelection,
    /// Start offsets of a batch or of a new query.
    pub starting: Bound,
    /// End offsets of a batch.
    pub ending: Bound,
    /// True if a partition that has no record at or after its starting timestamp is read from its end.
    pub start_at_end_without_match: bool,
    /// True if lost records cause an error.
    pub fail_on_data_loss: bool,
    /// Selected columns of Spark's connector, in the order of the output.
    pub columns: Vec<Column>,
    /// All output columns, in order.
    pub output: Vec<OutputColumn>,
    /// Determines which of the columns key and value have the type string.
    pub text: TextLayout,
    /// Options of typed keys and values. Empty for the Python source, which decodes keys and values itself and does not
    /// pass these options.
    pub typed: Vec<Typed>,
    /// Options of the schema registry that contains the writer schemas.
    registry: Option<RegistryOptions>,
    /// Minimum number of Spark tasks.
    pub min_partitions: Option<u64>,
    /// Maximum number of offsets per Spark task.
    pub max_records_per_partition: Option<u64>,
    /// Maximum number of offsets per micro-batch.
    pub max_offsets: Option<u64>,
    /// Minimum number of new offsets before a micro-batch starts.
    pub min_offsets: Option<u64>,
    /// Maximum delay of a micro-batch that waits for `min_offsets`.
    pub max_delay: Duration,
    /// Time without progress after which a task fails.
    pub poll_timeout: Duration,
    /// Maximum number of retries of a broker request of the driver.
    pub retries: u64,
    /// Delay between retries.
    pub retry_interval: Duration,
    /// True if the offsets of finished micro-batches are committed to the group.
    pub commit_offsets: bool,
    /// SASL mechanism with which tasks log in with delegation tokens. If it is `None`, tasks use the driver's login.
    pub token_mechanism: Option<&'static str>,
}

impl ReadOptions {
    /// Parses the options of `spark.read` or `spark.readStream`. As in Spark, option names are case-insensitive.
    ///
    /// # Errors
    /// Fails if an option is missing, contradicts another option or has an invalid value.
    pub fn parse(input: &BTreeMap<String, String>, reading: Reading) -> Result<ReadOptions> {
        let mut options: RawOptions = input.iter().map(|(name, value)| (name.to_lowercase(), value.clone())).collect();
        let (typed, registry) = typed::take_typed(&mut options)?;
        suggest::reject_misspelled(&options, KNOWN)?;
        if reading == Reading::Any {
            // It is not known yet whether the read is a batch or a stream, so options that depend on this are checked
            // later.
            let bounds = ["startingoffsets", "startingtimestamp", "ending", "commitoffsets"];
            options.retain(|name, _| !bounds.iter().any(|bound| name.starts_with(bound)));
        }
        let mut kafka = kafka::kafka_options(&options, RESERVED)?;
        if let Some(level) = get(&options, "isolation.level") {
            kafka.insert("isolation.level".into(), Secret::from(level.to_owned()));
        }
        let streaming = reading == Reading::Stream;
        if let Some(name) = BATCH_ONLY.iter().find(|name| streaming && get(&options, name).is_some()) {
            return Err(Error::configuration(format!(
                "option {name} cannot be used in a streaming query, which has no end"
            )));
        }
        let strategy = get(&options, "startingOffsetsByTimestampStrategy").unwrap_or("error").trim().to_lowercase();
        if strategy != "error" && strategy != "latest" {
            return Err(Error::configuration(format!(
                "option startingOffsetsByTimestampStrategy must be error or latest, not {}",
                quoted(&strategy)
            )));
        }
        let (columns, output) = columns::output(&mut options, &typed)?;
        let parsed = ReadOptions {
            selection: selection(&options)?,
            starting: starting(&options, streaming)?,
            ending: ending(&options)?,
            start_at_end_without_match: strategy == "latest",
            fail_on_data_loss: boolean(&options, "failOnDataLoss", true)?,
            columns,
            output,
            text: typed::text_layout(&options, &typed, columns::layout(&options)?)?,
            typed,
            registry,
            min_partitions: positive(&options, "minPartitions")?,
            max_records_per_partition: positive(&options, "maxRecordsPerPartition")?,
            max_offsets: positive(&options, "maxOffsetsPerTrigger")?,
            min_offsets: positive(&options, "minOffsetsPerTrigger")?,
            max_delay: duration(&options, "maxTriggerDelay", Duration::from_secs(900))?,
            poll_timeout: Duration::from_millis(positive(&options, "kafkaConsumer.pollTimeoutMs")?.unwrap_or(120_000)),
            retries: natural(&options, "fetchOffset.numRetries")?.unwrap_or(3),
            retry_interval: duration(&options, "fetchOffset.retryIntervalMs", Duration::from_secs(1))?,
            commit_offsets: boolean(&options, "commitOffsets", false)?,
            token_mechanism: tokens::mechanism(&options, &kafka)?,
            kafka,
        };
        parsed.check(reading)?;
        Ok(parsed)
    }

    fn check(&self, reading: Reading) -> Result<()> {
        if let (Some(min), Some(max)) = (self.min_offsets, self.max_offsets)
            && min > max
        {
            return Err(Error::configuration(format!(
                "option minOffsetsPerTrigger ({min}) cannot be larger than maxOffsetsPerTrigger ({max})"
            )));
        }
        if (self.commit_offsets || self.starting.spec == OffsetSpec::Group) && self.group().is_none() {
            let setting = if self.commit_offsets { "commitOffsets=true" } else { "startingOffsets=group" };
            return Err(Error::configuration(format!(
                "{setting} needs the option kafka.group.id, which names the group"
            )));
        }
        if self.commit_offsets && reading == Reading::Batch {
            return Err(Error::configuration(
                "option commitOffsets is for streaming queries: Spark does not report when the rows of a batch read are processed",
            ));
        }
        if let Some(typed) = self.typed.iter().find(|typed| typed.evolution.is_some())
            && reading == Reading::Batch
        {
            return Err(Error::configuration(format!(
                "option {}.evolution is for streaming queries: a batch asks for the schema as it is loaded",
                typed.part.name()
            )));
        }
        Ok(())
    }

    /// Checks that none of these topics, which are read, is a dead letter topic.
    pub(crate) fn check_dead_letter_topics<'a>(&self, mut topics: impl Iterator<Item = &'a str>) -> Result<()> {
        let letters =
            |topic: &&str| self.typed.iter().find(|typed| typed.dead_letter_topic().is_some_and(|t| **t == **topic));
        match topics.find_map(|topic| Some((topic, letters(&topic)?))) {
            Some((topic, typed)) => Err(Error::configuration(format!(
                "topic {topic} is read, and {}.deadletter.topic, too: it would grow",
                typed.part.name()
            ))),
            None => Ok(()),
        }
    }

    /// Returns the client options with which dead letters are sent: those that producers have.
    pub fn dead_letter_options(&self) -> KafkaOptions {
        kafka::supported(ClientKind::Producer, &self.kafka)
    }

    /// Returns the group that `commitOffsets` and `startingOffsets=group` use.
    pub fn group(&self) -> Option<&str> {
        self.kafka.get("group.id").map(Secret::reveal).filter(|group| !group.is_empty())
    }

    /// Creates a client of the schema registry, if one is configured.
    ///
    /// # Errors
    /// Fails if a URL, a credential or a certificate is invalid.
    pub fn registry(&self) -> Result<Option<Registry>> {
        Ok(self.registry.as_ref().map(Registry::new).transpose()?)
    }

    /// Creates a client of the schema registry that sends each request once, with these timeouts.
    ///
    /// # Errors
    /// Fails if a URL, a credential or a certificate is invalid.
    pub(crate) fn registry_within(
        &self,
        connect_timeout: Duration,
        read_timeout: Duration,
    ) -> Result<Option<Registry>> {
        let once = |options: &RegistryOptions| RegistryOptions {
            max_retries: 0,
            connect_timeout,
            read_timeout,
            ..options.clone()
        };
        Ok(self.registry.as_ref().map(once).as_ref().map(Registry::new).transpose()?)
    }

    /// Returns the client options without the prefix `kafka.`.
    pub fn kafka(&self) -> impl Iterator<Item = (&str, &Secret)> {
        self.kafka.iter().map(|(name, value)| (name.as_str(), value))
    }

    /// Returns true if the client option is set. Its name may have any spelling.
    pub fn has_client_option(&self, name: &str) -> bool {
        self.kafka.keys().any(|options| kafka::kafka_name(options) == name)
    }

    /// Returns true if only records of committed transactions are read.
    pub fn reads_committed(&self) -> bool {
        self.kafka
            .get("isolation.level")
            .is_some_and(|level| level.reveal().trim().eq_ignore_ascii_case("read_committed"))
    }

    /// Returns the options for a client of this process, which joins no group. The options in `overrides` take
    /// precedence.
    ///
    /// # Errors
    /// Fails if an option is invalid or names a file that does not exist on this machine.
    pub fn client(&self, kind: ClientKind, overrides: &[(&str, String)]) -> Result<Options> {
        kafka::check_files(&self.kafka)?;
        let mut kafka = self.kafka.clone();
        kafka.remove("group.id");
        kafka::client_options(kind, ClientKind::Consumer, &kafka, overrides)
    }
}

fn selection(options: &RawOptions) -> Result<TopicSelection> {
    match (get(options, "subscribe"), get(options, "assign"), get(options, "subscribePattern")) {
        (Some(topics), None, None) => subscribed(topics),
        (None, Some(assigned), None) => partitions(assigned),
        (None, None, Some(text)) => pattern(text.trim()),
        _ => Err(Error::configuration(
            "exactly one of the options subscribe (\"topic,topic\"), subscribePattern (\"topic.*\") and assign \
             ('{\"topic\":[0,1]}') must be given",
        )),
    }
}

fn subscribed(text: &str) -> Result<TopicSelection> {
    let mut topics: Vec<String> = Vec::new();
    for topic in text.split(',').map(str::trim).filter(|topic| !topic.is_empty()) {
        if !topics.iter().any(|known| known == topic) {
            topics.push(topic.to_owned());
        }
    }
    if topics.is_empty() {
        return Err(Error::configuration("option subscribe names no topic: give a list such as flights,trains"));
    }
    Ok(TopicSelection::Topics(topics))
}

fn pattern(text: &str) -> Result<TopicSelection> {
    if text.is_empty() {
        return Err(Error::configuration("option subscribePattern is empty: give a pattern such as flights-.*"));
    }
    let bad = |error| {
        Error::configuration(format!(
            "option subscribePattern: {} is not a valid regular expression: {error}",
            quoted(text)
        ))
    };
    Regex::new(text).map(TopicSelection::Pattern).map_err(bad)
}

fn partitions(text: &str) -> Result<TopicSelection> {
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
    Ok(TopicSelection::Assigned(assigned))
}

#[cfg(test)]
#[path = "options_tests.rs"]
mod tests;
