//! Options of writes, and the columns that a write needs.

use std::collections::BTreeMap;

use samsarrow_client::config::{ClientKind, Options, RegistryOptions, Secret};
use samsarrow_client::schema_registry::Registry;

use crate::columns::Column;
pub use crate::columns::Field;
use crate::error::{Error, Result};
use crate::kafka::{self, KafkaOptions};
use crate::option_values::{RawOptions, boolean, get, natural};
use crate::suggest;
use crate::tokens;
use crate::typed::{Written, take_written};

const KNOWN: &[&str] = &[
    "topic",
    "exactlyOnce",
    "transactionalIdPrefix",
    "allowReplayMismatch",
    "delegationToken",
    "delegationTokenMechanism",
];
/// Default prefix of transactional ids, and of the groups that store commit markers.
const PREFIX: &str = "samsarrow-spark";
/// Default transaction timeout. Kafka's own default of 1 minute is too short for a micro-batch, and brokers allow up to
/// 15 minutes by default.
const TRANSACTION_TIMEOUT: (&str, &str) = ("transaction.timeout.ms", "300000");
const RESERVED: &kafka::Reserved = &[
    ("key.serializer", "the column key is sent as it is, binary or string"),
    ("value.serializer", "the column value is sent as it is, binary or string"),
    ("partitioner.class", "partitioners are Java classes; give the column partition, or kafka.partitioner"),
    ("transactional.id", "use exactlyOnce=true, which names its transactions itself"),
];
/// Beginning and end of the text of Spark's headers type. The type of the header keys is between them.
const HEADERS: (&str, &str) = ("array<struct<key:", ",value:binary>>");
/// Columns that can be sent, in the order in which rows contain them, and the types that each column may have.
const COLUMN_TYPES: [(Column, &str); 6] = [
    (Column::Topic, "string"),
    (Column::Key, "binary or string"),
    (Column::Value, "binary or string"),
    (Column::Headers, "array<struct<key:string,value:binary>>"),
    (Column::Partition, "int"),
    (Column::Timestamp, "timestamp"),
];

/// Checked options of a write.
#[derive(Debug, Clone)]
pub struct WriteOptions {
    /// Options of the producer, without the prefix `kafka.`.
    kafka: KafkaOptions,
    /// Topic for all rows. It overrides the column `topic`.
    pub topic: Option<String>,
    /// Columns of the DataFrame that are sent.
    pub columns: Vec<Column>,
    /// True if a streaming query writes each micro-batch exactly once, in transactions.
    pub exactly_once: bool,
    /// Prefix of the transactional ids, if the user set one.
    pub prefix: Option<String>,
    /// Number of the micro-batch that may have different rows when it is repeated.
    pub allow_replay_mismatch: Option<u64>,
    /// SASL mechanism with which tasks log in with delegation tokens. If it is `None`, tasks use the driver's login.
    pub token_mechanism: Option<&'static str>,
    /// Columns that are encoded as keys or values.
    pub written: Vec<Written>,
    /// Options of the schema registry.
    registry: Option<RegistryOptions>,
}

impl WriteOptions {
    /// Checks the options and the columns before anything is sent.
    ///
    /// # Errors
    /// Fails if an option is missing or invalid, if a required column is missing, or if a column has a type that cannot
    /// be sent.
    pub fn parse(input: &BTreeMap<String, String>, fields: &[Field]) -> Result<WriteOptions> {
        let mut options: RawOptions = input.iter().map(|(name, value)| (name.to_lowercase(), value.clone())).collect();
        let (written, registry) = take_written(&mut options, fields)?;
        suggest::reject_misspelled(&options, KNOWN)?;
        let mut kafka = kafka::kafka_options(&options, RESERVED)?;
        kafka.entry("client.id".into()).or_insert_with(|| Secret::from("samsarrow-spark".to_owned()));
        let topic = get(&options, "topic").map(str::trim).filter(|topic| !topic.is_empty()).map(str::to_owned);
        Ok(WriteOptions {
            exactly_once: boolean(&options, "exactlyOnce", false)?,
            prefix: get(&options, "transactionalIdPrefix").filter(|prefix| !prefix.is_empty()).map(str::to_owned),
            allow_replay_mismatch: natural(&options, "allowReplayMismatch")?,
            token_mechanism: tokens::mechanism(&options, &kafka)?,
            columns: columns_to_send(fields, topic.as_deref(), &written)?,
            topic,
            kafka,
            written,
            registry,
        })
    }

    /// Returns the options of a task that reads, and sends dead letters with these client options.
    pub fn for_dead_letters(kafka: KafkaOptions) -> WriteOptions {
        WriteOptions {
            kafka,
            topic: None,
            columns: vec![Column::Key, Column::Value, Column::Headers, Column::Timestamp],
            exactly_once: false,
            prefix: None,
            allow_replay_mismatch: None,
            token_mechanism: None,
            written: Vec::new(),
            registry: None,
        }
    }

    /// Returns options that only name transactions and markers.
    pub(crate) fn for_markers(prefix: Option<String>, allow_replay_mismatch: Option<u64>) -> WriteOptions {
        let prefix = prefix.filter(|prefix| !prefix.is_empty());
        WriteOptions { prefix, allow_replay_mismatch, ..WriteOptions::for_dead_letters(KafkaOptions::new()) }
    }

    /// Checks the options of a batch write.
    ///
    /// # Errors
    /// Fails if a batch write is exactly once but has no transactional id prefix of its own.
    pub fn check_batch(&self) -> Result<()> {
        if self.exactly_once && self.prefix.is_none() {
            return Err(Error::configuration(
                "exactlyOnce in a batch write is for foreachBatch, and needs the option transactionalIdPrefix there: a name \
                 for this write and no other, since one micro-batch may be written to several places",
            ));
        }
        Ok(())
    }

    /// Creates a client of the schema registry, if one is configured.
    ///
    /// # Errors
    /// Fails if a URL, a credential or a certificate is invalid.
    pub(crate) fn registry(&self) -> Result<Option<Registry>> {
        Ok(self.registry.as_ref().map(Registry::new).transpose()?)
    }

    /// Returns the group of the driver's commit marker. The groups of tasks have the same name with the index of the
    /// task appended.
    pub(crate) fn group(&self, query: &str) -> String {
        format!("{}-{query}", self.prefix.as_deref().unwrap_or(PREFIX))
    }

    /// Returns the transactional id of a task, which is also the group of its commit marker.
    pub(crate) fn task_group(&self, query: &str, task: u64) -> String {
        format!("{}-{task}", self.group(query))
    }

    /// Returns the options of the producer, without the prefix `kafka.`.
    pub fn kafka(&self) -> impl Iterator<Item = (&str, &Secret)> {
        self.kafka.iter().map(|(name, value)| (name.as_str(), value))
    }

    /// Returns the options for a client of this process. The options in `overrides` take precedence.
    ///
    /// # Errors
    /// Fails if an option is invalid or names a file that does not exist on this machine.
    pub fn client(&self, kind: ClientKind, overrides: &[(&str, String)]) -> Result<Options> {
        kafka::check_files(&self.kafka)?;
        kafka::client_options(kind, ClientKind::Producer, &self.kafka, overrides)
    }

    /// Returns the options for a producer that has this transactional id.
    ///
    /// # Errors
    /// Fails if [`client`](Self::client) fails.
    pub fn transactional(&self, id: &str) -> Result<Options> {
        self.client(ClientKind::Producer, &WriteOptions::transactional_overrides(self.kafka.keys(), id))
    }

    /// Returns the options that a producer with this transactional id has in addition to those with the names `given`.
    pub(crate) fn transactional_overrides<'a>(
        mut given: impl Iterator<Item = &'a String>,
        id: &str,
    ) -> Vec<(&'static str, String)> {
        let (timeout, ms) = TRANSACTION_TIMEOUT;
        let mut overrides = vec![("transactional.id", id.to_owned())];
        if !given.any(|name| kafka::kafka_name(name) == timeout) {
            overrides.push((timeout, ms.to_owned()));
        }
        overrides
    }
}

fn columns_to_send(fields: &[Field], topic: Option<&str>, written: &[Written]) -> Result<Vec<Column>> {
    let kind = |column: Column| fields.iter().find(|field| field.name == column.name()).map(|field| &*field.kind);
    if kind(Column::Value).is_none() {
        let names: Vec<&str> = fields.iter().map(|field| &*field.name).collect();
        let names = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
        return Err(Error::configuration(format!(
            "there is no column value to be written, only {names}: select(to_json(struct('*')).alias('value')) makes one \
             of all"
        )));
    }
    if topic.is_none() && kind(Column::Topic).is_none() {
        return Err(Error::configuration("no topic to write to: set the option topic or add a column topic"));
    }
    for (column, expected) in COLUMN_TYPES {
        let name = column.name();
        if fields.iter().filter(|field| field.name == name).count() > 1 {
            return Err(Error::configuration(format!(
                "column {name} is there more than once: drop or rename the others"
            )));
        }
        if column == Column::Timestamp && kind(column) == Some("timestamp_ntz") {
            return Err(Error::configuration(
                "column timestamp is a timestamp_ntz, which names no moment without a time zone: cast it, as \
                 cast(timestamp as timestamp) does in the time zone of the session",
            ));
        }
        let is_encoded = written.iter().any(|written| written.part.name() == name);
        if let Some(kind) = kind(column).filter(|kind| !is_encoded && !fits(column, kind)) {
            return Err(Error::configuration(format!("column {name} must be {expected} to be written, not {kind}")));
        }
    }
    let is_sent = |column: &Column| kind(*column).is_some() && (*column != Column::Topic || topic.is_none());
    Ok(COLUMN_TYPES.into_iter().map(|(column, _)| column).filter(is_sent).collect())
}

fn fits(column: Column, kind: &str) -> bool {
    let text = |kind: &str| kind == "string" || kind.starts_with("string collate ");
    match column {
        Column::Key | Column::Value => text(kind) || kind == "binary",
        Column::Topic => text(kind),
        Column::Partition => kind == "int",
        Column::Timestamp => kind == "timestamp",
        Column::Headers => kind.strip_prefix(HEADERS.0).and_then(|kind| kind.strip_suffix(HEADERS.1)).is_some_and(text),
        Column::Offset | Column::TimestampType => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(options: &[(&str, &str)], fields: &[(&str, &str)]) -> Result<WriteOptions> {
        let base = [("kafka.bootstrap.servers", "localhost:9092")];
        let options =
            base.iter().chain(options).map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        let field =
            |(name, kind): &(&str, &str)| Field { name: (*name).to_owned(), kind: (*kind).to_owned(), data_type: None };
        WriteOptions::parse(&options, &fields.iter().map(field).collect::<Vec<_>>())
    }

    #[test]
    fn columns_are_sent_in_fixed_order() {
        let fields = [
            ("colour", "string"),
            ("timestamp", "timestamp"),
            ("partition", "int"),
            ("topic", "string"),
            ("headers", "array<struct<key:string collate UTF8_LCASE,value:binary>>"),
            ("value", "binary"),
            ("key", "string collate UTF8_LCASE"),
        ];
        let all = parse(&[], &fields).unwrap();
        assert_eq!((all.topic, all.columns), (None, COLUMN_TYPES.map(|(column, _)| column).to_vec()));
        let with_topic = parse(&[("TOPIC", " t ")], &fields).unwrap();
        assert_eq!(with_topic.topic.as_deref(), Some("t"));
        assert!(!with_topic.columns.contains(&Column::Topic));
        assert_eq!(with_topic.kafka["client.id"].reveal(), "samsarrow-spark");
    }

    #[test]
    fn rejects_invalid_writes() {
        let value: &[(&str, &str)] = &[("value", "string")];
        type Case<'a> = (&'a [(&'a str, &'a str)], &'a [(&'a str, &'a str)], &'a str);
        let cases: &[Case<'_>] = &[
            (&[("topic", "t"), ("kafka.bootstrap.servers", "")], value, "kafka.bootstrap.servers must be given"),
            (&[("topics", "t")], value, "option topics is unknown; did you mean topic?"),
            (
                &[("topic", "t"), ("Key.Format", "long")],
                value,
                "there is no column key to be written as long, only value",
            ),
            (
                &[("topic", "t")],
                &[("key", "string"), ("size", "int")],
                "no column value to be written, only key, size:",
            ),
            (&[("topic", "t")], &[], "only none: select(to_json"),
            (&[("topic", " ")], value, "no topic to write to"),
            (&[("topic", "t")], &[("value", "int")], "column value must be binary or string to be written, not int"),
            (&[], &[("value", "string"), ("topic", "int")], "column topic must be string to be written, not int"),
            (&[("topic", "t")], &[("value", "binary"), ("partition", "bigint")], "partition must be int to be"),
            (
                &[("topic", "t")],
                &[("value", "binary"), ("timestamp", "timestamp_ntz")],
                "column timestamp is a timestamp_ntz, which names no moment without a time zone: cast it",
            ),
            (&[("topic", "t")], &[("value", "binary"), ("timestamp", "date")], "timestamp must be timestamp to be"),
            (&[("topic", "t")], &[("value", "binary"), ("headers", "array<string>")], "array<struct<key:string,"),
            (
                &[("topic", "t")],
                &[("value", "binary"), ("headers", "array<struct<key:binary,value:binary>>")],
                "column headers must be",
            ),
            (&[("topic", "t")], &[("value", "binary"), ("value", "int")], "column value is there more than once"),
            (&[("topic", "t"), ("kafka.key.serializer", "x")], value, "option kafka.key.serializer is not supported"),
            (&[("topic", "t"), ("kafka.partitioner.class", "x")], value, "partitioners are Java classes"),
            (&[("topic", "t"), ("kafka.transactional_id", "x")], value, "kafka.transactional_id is not supported: use"),
            (
                &[("topic", "t"), ("delegationToken", "true")],
                value,
                "needs kafka.security.protocol=SASL_SSL, not PLAINTEXT",
            ),
            (&[("topic", "t"), ("exactlyOnce", "yes")], value, "exactlyOnce must be true or false, not 'yes'"),
            (&[("topic", "t"), ("allowReplayMismatch", "x")], value, "must be a whole number, at least 0, not 'x'"),
            (&[("topic", "t"), ("allowReplayMismatch", "-1")], value, "allowReplayMismatch must be a whole number"),
        ];
        for (options, fields, text) in cases {
            let error = parse(options, fields).unwrap_err();
            assert_eq!(error.kind(), "configuration");
            assert!(error.to_string().contains(text), "{error}");
        }
    }

    #[test]
    fn parses_sink_options() {
        let value: &[(&str, &str)] = &[("value", "string")];
        let plain = parse(&[("topic", "t"), ("transactionalIdPrefix", "")], value).unwrap();
        assert_eq!(
            (plain.exactly_once, plain.prefix, plain.allow_replay_mismatch, plain.token_mechanism),
            (false, None, None, None)
        );
        let once =
            [("topic", "t"), ("exactlyOnce", "True"), ("transactionalIdPrefix", "p"), ("allowReplayMismatch", "0")];
        let once = parse(&once, value).unwrap();
        assert_eq!((once.exactly_once, once.prefix.as_deref(), once.allow_replay_mismatch), (true, Some("p"), Some(0)));
        let tokens = [("topic", "t"), ("delegationToken", "true"), ("kafka.security.protocol", "SASL_SSL")];
        let tokens = parse(&tokens, value).unwrap();
        assert_eq!(tokens.token_mechanism, Some("SCRAM-SHA-512"));
    }

    #[test]
    fn transactional_options_have_id_and_timeout() {
        let parse = |more: &[(&str, &str)]| {
            let options = [&[("topic", "t"), ("exactlyOnce", "TRUE")], more].concat();
            parse(&options, &[("value", "string")]).unwrap()
        };
        let options = parse(&[]);
        assert!(options.exactly_once && options.check_batch().is_err());
        assert_eq!(options.task_group("q", 3), "samsarrow-spark-q-3");
        let producer = options.transactional("id").unwrap().producer;
        assert_eq!((producer.transactional_id.as_deref(), producer.transaction_timeout.as_secs()), (Some("id"), 300));
        let options = parse(&[("transactionalIdPrefix", "p"), ("kafka.transaction.timeout.ms", "60000")]);
        assert!(options.check_batch().is_ok());
        assert_eq!(options.group("q"), "p-q");
        assert_eq!(options.transactional("id").unwrap().producer.transaction_timeout.as_secs(), 60);
        assert_eq!(parse(&[("transactionalIdPrefix", "")]).group("q"), "samsarrow-spark-q");
    }

    #[test]
    fn clients_get_supported_options() {
        let options = parse(&[("topic", "t"), ("kafka.linger.ms", "5")], &[("value", "string")]).unwrap();
        assert!(options.client(ClientKind::Admin, &[]).is_ok());
        assert_eq!(options.client(ClientKind::Producer, &[]).unwrap().producer.linger.as_millis(), 5);
        let wrong = parse(&[("topic", "t"), ("kafka.linger", "5")], &[("value", "string")]).unwrap();
        let error = wrong.client(ClientKind::Producer, &[]).unwrap_err();
        assert!(error.to_string().contains("linger.ms"), "{error}");
        assert!(wrong.client(ClientKind::Admin, &[]).is_ok());
    }
}
