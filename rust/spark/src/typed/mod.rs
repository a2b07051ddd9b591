//! Typed keys and values: their options, their Spark types and their decoders.

mod evolution;
mod json_text;
mod options;
mod python_columns;
mod registry_lookup;
mod select;
mod types;
mod value_encoder;
mod written;
mod written_options;
mod written_types;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use samsarrow_client::schema_registry::{Link, Registry};
use samsarrow_values::avro::Schema;
use samsarrow_values::primitive_serdes::Plain;
use samsarrow_values::{Format, Options, Part, RegistryKind, SchemaError, Writers, json, proto};
use serde_json::{Value, json as value};

pub(crate) use self::evolution::Evolution;
pub(crate) use self::options::{take_typed, text_layout};
pub use self::python_columns::{ReadColumns, WrittenColumns};
pub use self::registry_lookup::lookup_schemas;
pub use self::select::selected;
pub use self::types::SparkType;
pub use self::value_encoder::ValueEncoder;
pub(crate) use self::written::resolve_schemas;
pub use self::written::{WriterSchema, WriterSchemas, Written};
pub(crate) use self::written_options::take_written;
use crate::columns::{Column, OutputColumn};
use crate::error::{Error, Result};
use crate::options::ReadOptions;

/// Schema type of JSON schemas in registries.
const JSON: &str = "JSON";

/// Options for decoding keys or values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Typed {
    /// Key or value, to which these options apply.
    pub part: Part,
    /// Effect of a key or value that cannot be decoded.
    pub on_error: OnError,
    /// True if schemas with rules are accepted and their rules are ignored.
    pub ignore_rules: bool,
    format: FormatName,
    schema: Option<String>,
    subject: Option<String>,
    version: Option<i32>,
    message: Option<String>,
    /// Texts of the schemas that the schema imports.
    imports: Vec<String>,
    /// Maximum depth to which a recursive type is expanded.
    recursion: usize,
    /// Interval between checks for newer schemas, if a newer schema ends a streaming query.
    pub(crate) evolution: Option<Duration>,
    framing: String,
    fields: Option<Vec<String>>,
    /// Registry with the writer schemas.
    registry: RegistryKind,
    /// Topic, if exactly one topic is read.
    topic: Option<String>,
}

/// Effect of a key or value that cannot be decoded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OnError {
    /// It is an error.
    Raise,
    /// It becomes null, and its error is in a column of its own.
    Null,
    /// Its record is sent to this topic and left out.
    DeadLetter(Arc<str>),
}

/// Format of a key or value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FormatName {
    Avro,
    Json,
    Protobuf,
    Plain(Plain),
}

/// Schemas from the registry that determine the types of the columns `key` and `value`.
pub type ReaderSchemas = BTreeMap<String, ReaderSchema>;

/// Reader schema that was fetched from the registry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReaderSchema {
    text: String,
    /// Subject and version, if the registry returned the version.
    version: Option<(String, i32)>,
    needed: Vec<String>,
    links: Vec<Link>,
}

impl ReaderSchema {
    /// Formats the schema as JSON, which [`Self::from_json`] parses.
    pub fn json(&self) -> Value {
        let (subject, version) = self.version.as_ref().map(|(subject, version)| (subject, version)).unzip();
        value!({"text": self.text, "needed": self.needed, "links": self.links, "subject": subject, "version": version})
    }

    /// Parses the text of [`Self::json`].
    ///
    /// # Errors
    /// Fails if the text is not that of a schema.
    pub fn parse(text: &str) -> Result<ReaderSchema> {
        let json = serde_json::from_str(text).ok();
        let malformed = || Error::configuration(format!("malformed request: {text} is no schema"));
        json.as_ref().and_then(ReaderSchema::from_json).ok_or_else(malformed)
    }

    /// Parses `{"text","needed":[...],"links":[[...]],"subject","version"}`.
    pub fn from_json(json: &Value) -> Option<ReaderSchema> {
        let needed = json.get("needed")?.as_array()?.iter().map(|text| Some(text.as_str()?.to_owned()));
        let index = |value: &Value| usize::try_from(value.as_u64()?).ok();
        let link =
            |value: &Value| Some((index(value.get(0)?)?, value.get(1)?.as_str()?.to_owned(), index(value.get(2)?)?));
        let links = match json.get("links") {
            Some(links) => links.as_array()?.iter().map(link).collect::<Option<_>>()?,
            None => Vec::new(),
        };
        let text = json.get("text")?.as_str()?.to_owned();
        let subject = json.get("subject").and_then(Value::as_str);
        let version = json.get("version").and_then(Value::as_i64).and_then(|version| i32::try_from(version).ok());
        let version = subject.map(str::to_owned).zip(version);
        Some(ReaderSchema { text, version, needed: needed.collect::<Option<_>>()?, links })
    }
}

/// Returns the Spark types of keys and values, and the schemas from the registry if they were needed. `requested`
/// contains the types that `.schema(...)` sets.
///
/// # Errors
/// Fails if a schema cannot be parsed or has a type that Spark does not support, if the registry does not respond, or
/// if `requested` selects fields that are not available.
pub(crate) async fn resolve_types(
    options: &ReadOptions,
    requested: &BTreeMap<String, SparkType>,
) -> Result<(BTreeMap<&'static str, SparkType>, ReaderSchemas)> {
    let (mut types, mut schemas) = (BTreeMap::new(), ReaderSchemas::new());
    let registry = options.registry()?;
    for typed in &options.typed {
        let name = typed.part.name();
        let schema = typed.reader_schema(registry.as_ref()).await?;
        let available = typed.spark_type(schema.as_ref())?;
        for column in [OutputColumn::Column(column_of(typed.part))].into_iter().chain(typed.extra_columns()) {
            let available = match column {
                OutputColumn::Column(_) => &available,
                OutputColumn::Raw(_) => &SparkType::Plain("binary".to_owned()),
                OutputColumn::Error(_) => &SparkType::Plain("string".to_owned()),
            };
            if let Some(requested) = requested.get(column.name()).filter(|requested| *requested != available) {
                selected(available, requested, column.name())?;
            }
        }
        types.insert(name, available);
        schemas.extend(schema.map(|schema| (name.to_owned(), schema)));
    }
    if let Some(registry) = registry {
        registry.close();
    }
    Ok((types, schemas))
}

fn column_of(part: Part) -> Column {
    match part {
        Part::Key => Column::Key,
        Part::Value => Column::Value,
    }
}

impl Typed {
    /// Returns the columns that are added to the output for this key or value.
    pub fn extra_columns(&self) -> Vec<OutputColumn> {
        match self.on_error {
            OnError::Null => vec![OutputColumn::Raw(self.part), OutputColumn::Error(self.part)],
            OnError::Raise | OnError::DeadLetter(_) => Vec::new(),
        }
    }

    /// Returns the dead letter topic, if there is one.
    pub fn dead_letter_topic(&self) -> Option<&Arc<str>> {
        match &self.on_error {
            OnError::DeadLetter(topic) => Some(topic),
            OnError::Raise | OnError::Null => None,
        }
    }

    /// Returns true if any of these columns needs the decoded key or value, or if there is a dead letter topic, to
    /// which bad records are sent whatever columns are read.
    pub fn needs_decoding(&self, columns: &[OutputColumn]) -> bool {
        self.dead_letter_topic().is_some()
            || columns.iter().any(|column| column.part() == Some(self.part) && *column != OutputColumn::Raw(self.part))
    }

    /// Returns true if record headers may contain the ids of writer schemas.
    pub fn reads_headers(&self) -> bool {
        matches!(self.format, FormatName::Avro | FormatName::Protobuf)
            && ["auto", "header"].contains(&self.framing.as_str())
    }

    /// Returns the reader schema from the registry, or `None` if no such schema is needed.
    ///
    /// # Errors
    /// Fails if the registry does not respond or does not have the schema, or if the subject cannot be derived because
    /// several topics are read.
    pub(crate) async fn reader_schema(&self, registry: Option<&Registry>) -> Result<Option<ReaderSchema>> {
        let name = self.part.name();
        let kind = match self.format {
            FormatName::Avro => "AVRO",
            FormatName::Json => JSON,
            FormatName::Protobuf => "PROTOBUF",
            FormatName::Plain(_) => return Ok(None),
        };
        let (None, Some(registry)) = (&self.schema, registry) else { return Ok(None) };
        let subject = match (&self.subject, &self.topic) {
            (Some(subject), _) => subject.clone(),
            (None, Some(topic)) => self.registry.subject(topic, self.part),
            (None, None) => {
                return Err(Error::configuration(format!(
                    "the schema of {name}s cannot be derived from one topic, because several are read: give the option \
                     {name}.subject or {name}.schema"
                )));
            }
        };
        let schema = registry.version(&subject, self.version).await?;
        if schema.kind != kind {
            let text = format!("the schema of subject {subject} is of type {}, not {kind}", schema.kind);
            return Err(Error::configuration(text));
        }
        if kind == JSON && schema.has_rules && !self.ignore_rules {
            return Err(Error::configuration(format!(
                "the schema of subject {subject} has rules, which samsarrow does not run: {name}.ignore.rules=true takes \
                 values as they are"
            )));
        }
        Ok(Some(ReaderSchema {
            text: schema.text.clone(),
            version: schema.version.map(|version| (subject, version)),
            needed: schema.needed.clone(),
            links: schema.links.clone(),
        }))
    }

    /// Returns the format with the schema from the options or with the schema `registered`. If `fields` is given, it
    /// replaces the option `fields`.
    ///
    /// # Errors
    /// Fails if the schema cannot be parsed.
    pub fn format(
        &self,
        registered: Option<&ReaderSchema>,
        fields: Option<Vec<String>>,
        writers: Arc<Mutex<Writers>>,
    ) -> Result<Format> {
        let invalid = |error: SchemaError| Error::configuration(error.to_string());
        let framing = |names: &[&str]| options::framing(names, &self.framing);
        let (text, needed, links) = match (&self.schema, registered) {
            (Some(text), _) => (text.as_str(), &[][..], &[][..]),
            (None, Some(registered)) => {
                (registered.text.as_str(), registered.needed.as_slice(), registered.links.as_slice())
            }
            (None, None) => ("", &[][..], &[][..]),
        };
        let options = |framing| {
            let fields = fields.or_else(|| self.fields.clone());
            Options { framing, fields, recursion: self.recursion, ..Options::default() }
        };
        match self.format {
            FormatName::Plain(plain) => Ok(Format::Plain(plain)),
            FormatName::Avro => {
                let options =
                    options(framing(&["auto", "header", "confluent", "apicurio8", "single-object", "glue", "none"])?);
                let schema = Schema::parse_with(text, needed).map_err(invalid)?;
                Ok(Format::Avro { schema, options, writers })
            }
            FormatName::Json => {
                let options = options(framing(&["auto", "header", "confluent", "apicurio8", "glue", "none"])?);
                let schema = json::Schema::parse(text, needed, links).map_err(invalid)?;
                Ok(Format::Json { schema, options })
            }
            FormatName::Protobuf => {
                let options = options(framing(&["auto", "header", "confluent", "apicurio8", "glue", "none"])?);
                let own = self.imports.iter().filter(|text| !needed.contains(text));
                let needed: Vec<String> = needed.iter().chain(own).cloned().collect();
                let schema = proto::Schema::parse_with(text, &needed).map_err(invalid)?;
                let (message, by_id) = (self.message.clone(), self.registry.exists());
                Ok(Format::Protobuf { schema, message, by_id, options, writers })
            }
        }
    }

    /// Returns the Spark type of the decoded column.
    ///
    /// # Errors
    /// Fails if the schema cannot be parsed or has a type that Spark does not support.
    pub fn spark_type(&self, registered: Option<&ReaderSchema>) -> Result<SparkType> {
        let name = self.part.name();
        let with_options =
            |error: String| Error::configuration(format!("{error}. This is about the options {name}.*."));
        let format = self.format(registered, None, Arc::default()).map_err(|error| with_options(error.to_string()))?;
        let decoder = format.decoder().map_err(|error| with_options(error.to_string()))?;
        SparkType::from_arrow(decoder.data_type(), name)
    }

    /// Returns the fields that `.schema(...)` selects, or `None` if it selects all.
    ///
    /// # Errors
    /// Fails if a selected field does not exist.
    pub fn selected_fields(&self, available: &SparkType, requested: &SparkType) -> Result<Option<Vec<String>>> {
        (available != requested).then(|| selected(available, requested, self.part.name())).transpose()
    }
}
