//! Keys and values that are decoded: what is asked for, what Spark sees of them, and what tasks decode them with.

mod asked;
mod options;
mod select;
mod types;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use samsarrow_client::schema_registry::{Link, Registry};
use samsarrow_values::avro::Schema;
use samsarrow_values::primitive_serdes::Plain;
use samsarrow_values::{Format, Framing, Options, Part, SchemaError, Writers, json, proto};
use serde_json::{Value, json as value};

pub use self::asked::ask;
pub(crate) use self::options::{take, text_beside};
pub use self::select::selected;
pub use self::types::SparkType;
use crate::columns::{Column, Served};
use crate::error::{Error, Result};
use crate::options::ReadOptions;

/// What registries call the schemas of JSON.
const JSON: &str = "JSON";

/// A key or a value that is decoded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Typed {
    /// Which of them.
    pub part: Part,
    /// Whether the row of one that is bad is null, and not an error.
    pub nulls_bad: bool,
    /// Whether values are taken whose schema has rules.
    pub ignores_rules: bool,
    format: Named,
    schema: Option<String>,
    subject: Option<String>,
    version: Option<i32>,
    message: Option<String>,
    /// Texts that the schema imports.
    imports: Vec<String>,
    /// Levels to which a type that contains itself is followed.
    recursion: usize,
    framing: String,
    fields: Option<Vec<String>>,
    /// Whether a registry says what they were written with.
    by_registry: bool,
    /// That is read, where it is one.
    topic: Option<String>,
}

/// A format by its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Named {
    Avro,
    Json,
    Protobuf,
    Plain(Plain),
}

/// What a registry says that rows look like, of `key` and `value`.
pub type Found = BTreeMap<String, Registered>;

/// A schema of a registry's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Registered {
    text: String,
    needed: Vec<String>,
    links: Vec<Link>,
}

impl Registered {
    /// As [`Self::read`] takes it.
    pub(crate) fn json(&self) -> Value {
        value!({"text": self.text, "needed": self.needed, "links": self.links})
    }

    /// From `{"text","needed":[...],"links":[[...]]}`.
    pub fn read(told: &Value) -> Option<Registered> {
        let needed = told.get("needed")?.as_array()?.iter().map(|one| Some(one.as_str()?.to_owned()));
        let place = |one: &Value| usize::try_from(one.as_u64()?).ok();
        let link = |one: &Value| Some((place(one.get(0)?)?, one.get(1)?.as_str()?.to_owned(), place(one.get(2)?)?));
        let links = match told.get("links") {
            Some(links) => links.as_array()?.iter().map(link).collect::<Option<_>>()?,
            None => Vec::new(),
        };
        let text = told.get("text")?.as_str()?.to_owned();
        Some(Registered { text, needed: needed.collect::<Option<_>>()?, links })
    }
}

/// What rows look like, for which a registry may have to be asked; and what that says. `wanted` are types that
/// `.schema(...)` gives to columns.
///
/// # Errors
/// A schema cannot be read, or has a type that Spark has not; the registry cannot be asked; or what is wanted is no
/// choice of what is there.
pub(crate) async fn asked(
    options: &ReadOptions,
    wanted: &BTreeMap<String, SparkType>,
) -> Result<(BTreeMap<&'static str, SparkType>, Found)> {
    let (mut types, mut found) = (BTreeMap::new(), Found::new());
    let registry = options.registry()?;
    for typed in &options.typed {
        let name = typed.part.name();
        let registered = typed.ask(registry.as_ref()).await?;
        let there = typed.spark_type(registered.as_ref())?;
        for column in [Served::Column(column_of(typed.part))].into_iter().chain(typed.more()) {
            let there = match column {
                Served::Column(_) => &there,
                Served::Raw(_) => &SparkType::Plain("binary".to_owned()),
                Served::Error(_) => &SparkType::Plain("string".to_owned()),
            };
            if let Some(wanted) = wanted.get(column.name()).filter(|wanted| *wanted != there) {
                selected(there, wanted, column.name())?;
            }
        }
        types.insert(name, there);
        found.extend(registered.map(|registered| (name.to_owned(), registered)));
    }
    if let Some(registry) = registry {
        registry.close();
    }
    Ok((types, found))
}

fn column_of(part: Part) -> Column {
    match part {
        Part::Key => Column::Key,
        Part::Value => Column::Value,
    }
}

impl Typed {
    /// The columns that come with it.
    pub fn more(&self) -> Vec<Served> {
        if self.nulls_bad { vec![Served::Raw(self.part), Served::Error(self.part)] } else { Vec::new() }
    }

    /// Whether it has to be decoded for these columns.
    pub fn is_wanted(&self, columns: &[Served]) -> bool {
        columns.iter().any(|column| column.part() == Some(self.part) && *column != Served::Raw(self.part))
    }

    /// Whether headers of records may name the schemas that values were written with.
    pub fn reads_headers(&self) -> bool {
        matches!(self.format, Named::Avro | Named::Protobuf) && ["auto", "header"].contains(&self.framing.as_str())
    }

    /// What the registry says that rows look like; none where it need not be asked.
    ///
    /// # Errors
    /// It cannot be asked, has no such schema, or nobody knows of which subject it would be.
    pub(crate) async fn ask(&self, registry: Option<&Registry>) -> Result<Option<Registered>> {
        let name = self.part.name();
        let kind = match self.format {
            Named::Avro => "AVRO",
            Named::Json => JSON,
            Named::Protobuf => "PROTOBUF",
            Named::Plain(_) => return Ok(None),
        };
        let (None, Some(registry)) = (&self.schema, registry) else { return Ok(None) };
        let subject = match (&self.subject, &self.topic) {
            (Some(subject), _) => subject.clone(),
            (None, Some(topic)) => format!("{topic}-{name}"),
            (None, None) => {
                return Err(Error::configuration(format!(
                    "what {name}s look like is not known where several topics are read: give the option {name}.subject \
                     or {name}.schema"
                )));
            }
        };
        let found = registry.version(&subject, self.version).await?;
        if found.kind != kind {
            let text = format!("the schema of subject {subject} is of type {}, not {kind}", found.kind);
            return Err(Error::configuration(text));
        }
        if kind == JSON && found.has_rules && !self.ignores_rules {
            return Err(Error::configuration(format!(
                "the schema of subject {subject} has rules, which samsarrow does not run: {name}.ignore.rules=true takes \
                 values as they are"
            )));
        }
        Ok(Some(Registered { text: found.text.clone(), needed: found.needed.clone(), links: found.links.clone() }))
    }

    /// How they are read: as the registry says, if it was asked, and as these fields in the place of the option's.
    ///
    /// # Errors
    /// The schema cannot be read.
    pub fn format(
        &self,
        found: Option<&Registered>,
        fields: Option<Vec<String>>,
        writers: Arc<Mutex<Writers>>,
    ) -> Result<Format> {
        let refused = |error: SchemaError| Error::configuration(error.to_string());
        let framing = |names: &[&str]| Framing::among(names, &self.framing).map_err(Error::configuration);
        let (text, needed, links) = match (&self.schema, found) {
            (Some(text), _) => (text.as_str(), &[][..], &[][..]),
            (None, Some(found)) => (found.text.as_str(), found.needed.as_slice(), found.links.as_slice()),
            (None, None) => ("", &[][..], &[][..]),
        };
        let options = |framing| {
            let fields = fields.or_else(|| self.fields.clone());
            Options { framing, fields, recursion: self.recursion, ..Options::default() }
        };
        match self.format {
            Named::Plain(plain) => Ok(Format::Plain(plain)),
            Named::Avro => {
                let options = options(framing(&["auto", "header", "confluent", "apicurio8", "single-object", "none"])?);
                let schema = Schema::parse_with(text, needed).map_err(refused)?;
                Ok(Format::Avro { schema, options, writers })
            }
            Named::Json => {
                let options = options(framing(&["auto", "header", "confluent", "apicurio8", "none"])?);
                let schema = json::Schema::parse(text, needed, links).map_err(refused)?;
                Ok(Format::Json { schema, options })
            }
            Named::Protobuf => {
                let options = options(framing(&["auto", "header", "confluent", "apicurio8", "none"])?);
                let own = self.imports.iter().filter(|one| !needed.contains(one));
                let needed: Vec<String> = needed.iter().chain(own).cloned().collect();
                let schema = proto::Schema::parse_with(text, &needed).map_err(refused)?;
                let (message, by_id) = (self.message.clone(), self.by_registry);
                Ok(Format::Protobuf { schema, message, by_id, options, writers })
            }
        }
    }

    /// The type of its column.
    ///
    /// # Errors
    /// The schema cannot be read, or has a type that Spark has not.
    pub fn spark_type(&self, found: Option<&Registered>) -> Result<SparkType> {
        let name = self.part.name();
        let about = |error: String| Error::configuration(format!("{error}. This is about the options {name}.*."));
        let format = self.format(found, None, Arc::default()).map_err(|error| about(error.to_string()))?;
        let decoder = format.decoder().map_err(|error| about(error.to_string()))?;
        SparkType::of(decoder.data_type(), name)
    }

    /// The fields that `.schema(...)` chooses of it; none where that is all of them.
    ///
    /// # Errors
    /// It chooses what is not there.
    pub fn chosen(&self, there: &SparkType, wanted: &SparkType) -> Result<Option<Vec<String>>> {
        (there != wanted).then(|| selected(there, wanted, self.part.name())).transpose()
    }
}
