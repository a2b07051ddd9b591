//! Encoding of DataFrame columns as typed keys and values. The driver resolves schemas, and tasks encode.

use std::collections::BTreeMap;

use arrow_schema::DataType;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use samsarrow_client::schema_registry::{Link, NewSchema, RegisteredSchema, Registry, SchemaKey};
use samsarrow_values::avro::{Schema, derive};
use samsarrow_values::{Encoder, Framing, Part, RegistryKind, SchemaError, SchemaId, json, proto};
use serde_json::{Value, json as value};

use super::FormatName;
use super::json_text::JsonTextEncoder;
use super::options::REGISTRY;
use super::value_encoder::ValueEncoder;
use super::written_options::Strategy;
use crate::error::{Error, Result};

/// Options for encoding a column as keys or values.
#[derive(Debug, Clone)]
pub struct Written {
    /// Key or value, to which these options apply.
    pub part: Part,
    /// Type of the column.
    pub data_type: DataType,
    pub(super) format: FormatName,
    /// Name of the format, as the option has it.
    pub(super) kind: String,
    pub(super) schema: Option<String>,
    /// Name of the derived Avro record.
    pub(super) record_name: Option<String>,
    pub(super) subject: Option<String>,
    pub(super) version: Option<i32>,
    pub(super) strategy: Strategy,
    pub(super) message: Option<String>,
    /// Texts of the files that the schema imports.
    pub(super) imports: Vec<String>,
    pub(super) framing: Framing,
    pub(super) framing_name: String,
    pub(super) ignore_rules: bool,
    pub(super) auto_register: bool,
    pub(super) use_latest: bool,
    /// Registry in which schemas are registered.
    pub(super) registry: RegistryKind,
    /// Topic of all rows; `None` if the column `topic` has the topics.
    pub(super) topic: Option<String>,
}

/// Schemas to write with, by the name of the key or value.
pub type WriterSchemas = BTreeMap<String, WriterSchema>;

/// Schema to write with. The driver passes it to tasks, so that these send no requests to the registry.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct WriterSchema {
    /// Text of the schema; `None` if values are written without a schema.
    text: Option<String>,
    needed: Vec<String>,
    links: Vec<Link>,
    /// Id in the registry, if values or headers identify the schema.
    id: Option<u64>,
    /// UUID of the version in AWS Glue Schema Registry, which has no ids.
    guid: Option<[u8; 16]>,
    /// Subject in which the schema was registered or looked up by its text.
    subject: Option<String>,
    /// Value of the record header that identifies the schema.
    header: Option<Vec<u8>>,
}

impl WriterSchema {
    /// Formats the schema as JSON, which [`Self::from_json`] parses.
    pub fn json(&self) -> Value {
        let header = self.header.as_ref().map(|header| STANDARD.encode(header));
        value!({
            "text": self.text, "needed": self.needed, "links": self.links, "id": self.id, "subject": self.subject,
            "header": header, "guid": self.guid.map(|guid| STANDARD.encode(guid)),
        })
    }

    /// Parses the text of [`Self::json`].
    ///
    /// # Errors
    /// Fails if the text is not that of a schema.
    pub fn parse(text: &str) -> Result<WriterSchema> {
        let json = serde_json::from_str(text).ok();
        let malformed = || Error::configuration(format!("malformed request: {text} is no schema"));
        json.as_ref().and_then(WriterSchema::from_json).ok_or_else(malformed)
    }

    /// Parses the JSON of [`Self::json`].
    pub fn from_json(json: &Value) -> Option<WriterSchema> {
        let text = |name: &str| json.get(name).and_then(Value::as_str);
        let needed = json.get("needed")?.as_array()?.iter().map(|text| Some(text.as_str()?.to_owned()));
        let index = |value: &Value| usize::try_from(value.as_u64()?).ok();
        let link =
            |value: &Value| Some((index(value.get(0)?)?, value.get(1)?.as_str()?.to_owned(), index(value.get(2)?)?));
        Some(WriterSchema {
            text: text("text").map(str::to_owned),
            needed: needed.collect::<Option<_>>()?,
            links: json.get("links")?.as_array()?.iter().map(link).collect::<Option<_>>()?,
            id: json.get("id").and_then(Value::as_u64),
            guid: text("guid").and_then(|guid| STANDARD.decode(guid).ok()?.try_into().ok()),
            subject: text("subject").map(str::to_owned),
            header: text("header")
                .map(|header| STANDARD.decode(header).ok())
                .map_or(Some(None), |header| header.map(Some))?,
        })
    }

    fn registered(schema: &RegisteredSchema) -> WriterSchema {
        WriterSchema {
            text: Some(schema.text.clone()),
            needed: schema.needed.clone(),
            links: schema.links.clone(),
            id: schema.id,
            guid: schema.guid_bytes().filter(|_| schema.id.is_none()),
            ..WriterSchema::default()
        }
    }

    /// Returns the id by which values or headers identify the schema.
    fn schema_id(&self) -> Option<SchemaId> {
        self.id.map(SchemaId::Id).or(self.guid.map(SchemaId::Guid))
    }

    fn local(text: Option<&str>) -> WriterSchema {
        WriterSchema { text: text.map(str::to_owned), ..WriterSchema::default() }
    }
}

/// Returns the schemas of written keys and values. Registers them if so configured. Of `earlier`, which an
/// earlier micro-batch was written with, the ids of registered schemas are used again.
///
/// # Errors
/// Fails if a column does not fit its schema, if the registry rejects a schema or does not respond, or if the options
/// do not determine the schema.
pub(crate) async fn resolve_schemas(
    written: &[Written],
    registry: Option<Registry>,
    earlier: &WriterSchemas,
) -> Result<WriterSchemas> {
    let mut schemas = WriterSchemas::new();
    for column in written {
        let name = column.part.name();
        let schema = column.resolve(registry.as_ref(), earlier.get(name)).await.map_err(|error| column.noted(error))?;
        schemas.insert(name.to_owned(), schema);
    }
    if let Some(registry) = registry {
        registry.close();
    }
    Ok(schemas)
}

impl Written {
    /// Adds the column to the error of an invalid option.
    fn noted(&self, error: Error) -> Error {
        match error {
            Error::Client(samsarrow_client::error::Error::Configuration(text)) => {
                let (name, kind) = (self.part.name(), &self.kind);
                Error::configuration(format!("{text}. This is about the column {name}, with {name}.format={kind}."))
            }
            other => other,
        }
    }

    /// Creates the encoder of the column.
    ///
    /// # Errors
    /// Fails if the column does not fit the schema.
    pub fn encoder(&self, schema: &WriterSchema) -> Result<ValueEncoder> {
        let header = schema.header.clone();
        let encoder = self.encoder_with(schema, self.framing).map_err(|error| self.noted(error))?;
        Ok(ValueEncoder { part: self.part, encoder, header })
    }

    fn encoder_with(&self, schema: &WriterSchema, framing: Framing) -> Result<super::value_encoder::Format> {
        use super::value_encoder::Format;
        let text = schema.text.as_deref().unwrap_or_default();
        Ok(match self.format {
            FormatName::Plain(plain) => Format::Arrow(Encoder::plain(plain, &self.data_type).map_err(invalid)?),
            FormatName::Avro => {
                let parsed = Schema::parse_with(text, &schema.needed).map_err(invalid)?;
                Format::Arrow(Encoder::avro(&parsed, &self.data_type, framing, schema.schema_id()).map_err(invalid)?)
            }
            FormatName::Protobuf => {
                let parsed = proto::Schema::parse_with(text, &schema.needed).map_err(invalid)?;
                let writer = proto::Writer::new(&parsed, self.message.as_deref()).map_err(invalid)?;
                Format::Arrow(Encoder::protobuf(writer, &self.data_type, framing, schema.schema_id()).map_err(invalid)?)
            }
            FormatName::Json => {
                let parsed = match &schema.text {
                    Some(text) => json::Schema::parse(text, &schema.needed, &schema.links).map_err(invalid)?,
                    None => json::Schema::from_arrow(self.data_type.clone()),
                };
                Format::Json(Box::new(JsonTextEncoder::new(&self.data_type, parsed, framing, schema.schema_id())?))
            }
        })
    }

    async fn resolve(&self, registry: Option<&Registry>, earlier: Option<&WriterSchema>) -> Result<WriterSchema> {
        let registry = registry.filter(|_| self.registry.exists());
        let has_id = !matches!(self.framing, Framing::Bare | Framing::SingleObject);
        let mut schema = match (self.format, registry) {
            (FormatName::Plain(_), _) => WriterSchema::default(),
            (FormatName::Avro, None) => WriterSchema::local(self.schema.as_deref()),
            (FormatName::Avro, Some(registry)) => self.resolve_avro(registry, has_id, earlier).await?,
            (FormatName::Json, None) => {
                if matches!(self.framing, Framing::Header | Framing::Confluent | Framing::Apicurio) {
                    return Err(Error::configuration(format!(
                        "framing {:?} needs the id of the written schema, which is unknown: give the option {REGISTRY}url",
                        self.framing_name
                    )));
                }
                WriterSchema::local(self.schema.as_deref())
            }
            (FormatName::Json, Some(registry)) => match &self.schema {
                None => WriterSchema::registered(&*self.latest(registry, None, "JSON", "takes").await?),
                // A schema is registered even if values do not identify it, so that readers find it by its subject.
                Some(text) => self.register(registry, text, None, "JSON", earlier).await?,
            },
            (FormatName::Protobuf, None) => {
                WriterSchema { needed: self.imports.clone(), ..WriterSchema::local(self.schema.as_deref()) }
            }
            (FormatName::Protobuf, Some(registry)) => self.resolve_protobuf(registry, has_id, earlier).await?,
        };
        if registry.is_some() && has_id && schema.schema_id().is_none() {
            return Err(Error::configuration(format!(
                "the registry returned no id for the schema of {}s, which records identify it by",
                self.part.name()
            )));
        }
        let encoder = self.encoder_with(&schema, self.framing)?;
        if let (Framing::Header, Some(registry)) = (self.framing, registry) {
            schema.header = match earlier.filter(|earlier| earlier.id == schema.id && earlier.text == schema.text) {
                Some(earlier) if earlier.header.is_some() => earlier.header.clone(),
                _ => Some([guid_header(registry, schema.id).await?, encoder.indexes().to_vec()].concat()),
            };
        }
        Ok(schema)
    }

    async fn resolve_avro(
        &self,
        registry: &Registry,
        has_id: bool,
        earlier: Option<&WriterSchema>,
    ) -> Result<WriterSchema> {
        let name_of = |text: &str| {
            let schema = Schema::parse_with(text, &[]).map_err(invalid)?;
            Ok::<_, Error>(schema.name().map(str::to_owned))
        };
        if self.use_latest {
            let record = self.schema.as_deref().map_or_else(|| Ok(self.record_name.clone()), name_of)?;
            let latest = self.latest(registry, record.as_deref(), "AVRO", "writes").await?;
            return Ok(WriterSchema::registered(&latest));
        }
        let text = match &self.schema {
            Some(text) => text.clone(),
            None => derive(&self.data_type, &self.derived_name()).map_err(invalid)?,
        };
        // Fails here if the column does not fit, so that the schema is not registered.
        self.encoder_with(&WriterSchema::local(Some(&text)), Framing::Bare)?;
        if !has_id {
            return Ok(WriterSchema::local(Some(&text)));
        }
        let record = name_of(&text)?;
        self.register(registry, &text, record.as_deref(), "AVRO", earlier).await
    }

    async fn resolve_protobuf(
        &self,
        registry: &Registry,
        has_id: bool,
        earlier: Option<&WriterSchema>,
    ) -> Result<WriterSchema> {
        let text = match &self.schema {
            Some(text) if !self.use_latest => text,
            _ => {
                let latest = self.latest(registry, None, "PROTOBUF", "writes").await?;
                let mut schema = WriterSchema::registered(&latest);
                schema.needed.extend(self.imports.iter().cloned());
                return Ok(schema);
            }
        };
        if !has_id {
            return Ok(WriterSchema { needed: self.imports.clone(), ..WriterSchema::local(Some(text)) });
        }
        if !self.imports.is_empty() {
            return Err(Error::configuration(format!(
                "a schema with imports is not registered here: register it with its references, and set \
                 {}.use.latest=true",
                self.part.name()
            )));
        }
        self.register(registry, text, None, "PROTOBUF", earlier).await
    }

    /// Returns the schema with the id of its registration. Checks before that the column fits.
    async fn register(
        &self,
        registry: &Registry,
        text: &str,
        record: Option<&str>,
        kind: &str,
        earlier: Option<&WriterSchema>,
    ) -> Result<WriterSchema> {
        let mut schema = WriterSchema::local(Some(text));
        self.encoder_with(&schema, Framing::Bare)?;
        let subject = self.subject(record)?;
        let known = earlier.filter(|one| one.subject.as_ref() == Some(&subject) && one.text == schema.text);
        let known = known.and_then(|known| known.schema_id());
        let key = match known {
            Some(SchemaId::Id(id)) => SchemaKey::Id(id),
            Some(SchemaId::Guid(guid)) => SchemaKey::Guid(guid),
            _ => {
                let new = NewSchema { text: text.to_owned(), kind: kind.to_owned(), references: Vec::new() };
                if self.auto_register {
                    registry.register(&subject, &new, false).await?
                } else {
                    registry.lookup(&subject, &new, false).await?
                }
            }
        };
        match key {
            SchemaKey::Id(id) => schema.id = Some(id),
            SchemaKey::Guid(guid) => schema.guid = Some(guid),
        }
        schema.subject = Some(subject);
        Ok(schema)
    }

    /// Returns the configured version of the subject, by default the latest.
    async fn latest(
        &self,
        registry: &Registry,
        record: Option<&str>,
        kind: &str,
        action: &str,
    ) -> Result<std::sync::Arc<RegisteredSchema>> {
        let subject = self.subject(record)?;
        let schema = registry.version(&subject, self.version).await?;
        if schema.kind != kind {
            let text = format!("the schema of subject {subject} is of type {}, not {kind}", schema.kind);
            return Err(Error::configuration(text));
        }
        if schema.has_rules && !self.ignore_rules {
            return Err(Error::configuration(format!(
                "the schema of subject {subject} has rules, which samsarrow does not run: {}.ignore.rules=true {action} \
                 values as they are",
                self.part.name()
            )));
        }
        Ok(schema)
    }

    /// Returns the subject of the schema. `record` is the full name of an Avro record.
    fn subject(&self, record: Option<&str>) -> Result<String> {
        let name = self.part.name();
        if let Some(subject) = &self.subject {
            return Ok(subject.clone());
        }
        let unnamed = || {
            Error::configuration(format!(
                "option {name}.subject.strategy needs the name of a record: give a schema that has one, or {name}.name"
            ))
        };
        // Options without a topic and with another strategy are rejected when they are parsed.
        let topic = self.topic.as_deref().unwrap_or_default();
        match self.strategy {
            Strategy::Topic => Ok(self.registry.subject(topic, self.part)),
            Strategy::Record => record.map(str::to_owned).ok_or_else(unnamed),
            Strategy::TopicRecord => record.map(|record| format!("{topic}-{record}")).ok_or_else(unnamed),
        }
    }

    /// Returns the name of the Avro record that is derived from the column.
    fn derived_name(&self) -> String {
        let part = self.part.name();
        match (&self.record_name, &self.topic) {
            (Some(name), _) => name.clone(),
            (None, Some(topic)) => format!("{}_{part}", record_name(topic)),
            (None, None) => match self.part {
                Part::Key => "Key".to_owned(),
                Part::Value => "Value".to_owned(),
            },
        }
    }
}

/// Converts the name of a topic to a valid name of an Avro record.
fn record_name(topic: &str) -> String {
    let name: String = topic.chars().map(|letter| if letter.is_ascii_alphanumeric() { letter } else { '_' }).collect();
    if name.starts_with(|first: char| first.is_ascii_digit()) { format!("_{name}") } else { name }
}

/// Returns the header value that identifies a schema by its GUID, as Confluent's serializers write it.
async fn guid_header(registry: &Registry, id: Option<u64>) -> Result<Vec<u8>> {
    let guid = match id {
        Some(id) => registry.schema(SchemaKey::Id(id)).await?.guid.clone(),
        None => None,
    };
    let digits: String = guid.unwrap_or_default().chars().filter(|letter| *letter != '-').collect();
    let byte = |at: usize| digits.get(2 * at..2 * at + 2).and_then(|pair| u8::from_str_radix(pair, 16).ok());
    let bytes: Option<Vec<u8>> = (0..16).map(byte).collect();
    let bytes = bytes.filter(|_| digits.len() == 32).ok_or_else(|| {
        Error::configuration("the registry has no GUIDs, which headers have: framing='confluent' takes ids")
    })?;
    Ok([&[1][..], &bytes].concat())
}

pub(super) fn invalid(error: SchemaError) -> Error {
    Error::configuration(error.to_string())
}

#[cfg(test)]
#[path = "written_tests.rs"]
mod tests;
