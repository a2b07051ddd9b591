//! What values were written with: what was given, and what a registry says.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use pyo3::prelude::*;
use samsarrow_client::error::Error;
use samsarrow_client::registry::{RegisteredSchema, Registry, SchemaKey};
use samsarrow_values::{Decoder, SchemaError, SchemaId, avro, proto};
use tokio::task::JoinSet;

/// Ids that are not there and whose reason is kept: bytes that are no frames may name any.
const MOST_MISSING: usize = 10_000;

/// What a writer's schema is known by; one without an id by its fingerprint.
#[derive(FromPyObject, IntoPyObject, Debug, Clone)]
pub(crate) enum Id {
    /// A registry's.
    Number(u64),
    /// A GUID's bytes.
    Guid([u8; 16]),
}

impl Id {
    pub(crate) fn of(id: SchemaId) -> Option<Id> {
        match id {
            SchemaId::Bare => None,
            SchemaId::Id(id) | SchemaId::Fingerprint(id) => Some(Id::Number(id)),
            SchemaId::Guid(guid) => Some(Id::Guid(guid)),
        }
    }
}

/// A kind of schemas, as registries name it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Avro,
    Protobuf,
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Kind::Avro => "AVRO",
            Kind::Protobuf => "PROTOBUF",
        }
    }

    fn parse(self, schema: &RegisteredSchema) -> Result<Written, String> {
        let (text, needed) = (&schema.text, &schema.needed);
        let parsed = match self {
            Kind::Avro => avro::Schema::parse_with(text, needed).map(Written::Avro),
            Kind::Protobuf => proto::Schema::parse_with(text, needed).map(Written::Protobuf),
        };
        parsed.map_err(|error| error.to_string())
    }
}

/// A schema that values were written with.
pub(crate) enum Written {
    Avro(avro::Schema),
    Protobuf(proto::Schema),
}

impl Written {
    fn add_to(&self, decoder: &mut Decoder, id: SchemaId) {
        match self {
            Written::Avro(schema) => decoder.add_writer(id, schema),
            Written::Protobuf(schema) => decoder.add_protobuf_writer(id, schema),
        }
    }
}

/// A schema of messages, as Python has it.
#[derive(FromPyObject)]
pub(crate) enum File {
    Text(String),
    Descriptors(Vec<u8>),
}

impl File {
    pub(crate) fn parse(&self, needed: &[String]) -> Result<proto::Schema, SchemaError> {
        match self {
            File::Text(text) => proto::Schema::parse_with(text, needed),
            File::Descriptors(bytes) => proto::Schema::from_descriptors(bytes),
        }
    }
}

/// What values were written with, or why they cannot be read; in the order in which that was learned.
#[derive(Default)]
pub(crate) struct Writers {
    learned: Vec<(SchemaId, Result<Written, String>)>,
    /// What need not be asked for again.
    settled: HashSet<SchemaId>,
    /// What a registry had none for.
    missing: HashMap<SchemaId, String>,
}

impl Writers {
    /// Takes what a program says.
    pub(crate) fn given(&mut self, id: Option<Id>, writer: avro::Schema) {
        let print = SchemaId::Fingerprint(writer.fingerprint());
        let id = id.map(|id| match id {
            Id::Number(id) => SchemaId::Id(id),
            Id::Guid(guid) => SchemaId::Guid(guid),
        });
        for id in id.into_iter().chain([print]) {
            self.settled.insert(id);
            self.learned.push((id, Ok(Written::Avro(writer.clone()))));
        }
    }

    /// Takes what a registry says.
    pub(crate) fn learn(&mut self, id: SchemaId, found: Found) {
        match found {
            Found::Schema(_) | Found::Refused(_) if !self.settled.insert(id) => (),
            Found::Schema(schema) => self.learned.push((id, Ok(schema))),
            Found::Refused(reason) => self.learned.push((id, Err(reason))),
            Found::Missing(reason) => {
                if self.missing.len() < MOST_MISSING && self.missing.get(&id) != Some(&reason) {
                    self.learned.push((id, Err(reason.clone())));
                    self.missing.insert(id, reason);
                }
            }
        }
    }

    /// Whether an id need not be asked for again.
    pub(crate) fn settles(&self, id: SchemaId) -> bool {
        self.settled.contains(&id)
    }

    /// Has a decoder, which knows the first `known` of them, know all; gives how many these are.
    pub(crate) fn catch_up(&self, decoder: &mut Decoder, known: usize) -> usize {
        for (id, writer) in self.learned.iter().skip(known) {
            match writer {
                Ok(writer) => writer.add_to(decoder, *id),
                Err(reason) => decoder.refuse_writer(*id, reason),
            }
        }
        self.learned.len()
    }
}

/// What a registry says of an id.
pub(crate) enum Found {
    Schema(Written),
    /// It is nothing that can be read, and stays so.
    Refused(String),
    /// There is none now.
    Missing(String),
}

impl Found {
    fn of(answer: Result<Arc<RegisteredSchema>, Error>, kind: Kind, ignore_rules: bool) -> Result<Found, Error> {
        let schema = match answer {
            Ok(schema) => schema,
            Err(Error::SchemaNotFound(text)) => return Ok(Found::Missing(text)),
            Err(other) => return Err(other),
        };
        if schema.kind != kind.name() {
            let (found, wanted) = (&schema.kind, kind.name());
            return Ok(Found::Refused(format!("the value is written with a schema of type {found}, not {wanted}")));
        }
        if schema.has_rules && !ignore_rules {
            let text = "its schema has rules, which samsarrow does not run: ignore_rules=True takes values as they are";
            return Ok(Found::Refused(text.to_owned()));
        }
        Ok(kind.parse(&schema).map_or_else(Found::Refused, Found::Schema))
    }
}

/// What a registry says of these, all asked for at once.
pub(crate) async fn ask(
    registry: Registry,
    ids: BTreeSet<SchemaId>,
    kind: Kind,
    ignore_rules: bool,
) -> Result<Vec<(SchemaId, Found)>, Error> {
    let mut asked = JoinSet::new();
    for id in ids {
        let key = match id {
            SchemaId::Id(id) => SchemaKey::Id(id),
            SchemaId::Guid(guid) => SchemaKey::Guid(guid),
            SchemaId::Bare | SchemaId::Fingerprint(_) => continue,
        };
        let registry = registry.clone();
        asked.spawn(async move { Found::of(registry.schema(key).await, kind, ignore_rules).map(|found| (id, found)) });
    }
    let mut found = Vec::new();
    while let Some(done) = asked.join_next().await {
        found.push(done.unwrap_or_else(|_| Err(Error::closed("the schema registry's client")))?);
    }
    Ok(found)
}
