//! Writer's schemas that the application has given or a registry has returned.

use std::collections::{HashMap, HashSet};

use crate::decoder::Decoder;
use crate::error::SchemaError;
use crate::framing::SchemaId;
use crate::{avro, proto};

/// Maximum number of missing ids that are remembered. It is limited, because arbitrary bytes may contain any id.
const MAX_MISSING: usize = 10_000;

/// Type of a schema in a registry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Avro.
    Avro,
    /// Protobuf.
    Protobuf,
}

impl Kind {
    /// Returns the name that registries use for the type.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Avro => "AVRO",
            Kind::Protobuf => "PROTOBUF",
        }
    }

    /// Parses a schema together with the schemas that it refers to.
    ///
    /// # Errors
    /// Fails if the text or a reference is not a valid schema.
    pub fn parse(self, text: &str, references: &[String]) -> Result<Written, SchemaError> {
        match self {
            Kind::Avro => avro::Schema::parse_with(text, references).map(Written::Avro),
            Kind::Protobuf => proto::Schema::parse_with(text, references).map(Written::Protobuf),
        }
    }
}

/// A writer's schema.
#[derive(Debug)]
pub enum Written {
    /// Avro schema.
    Avro(avro::Schema),
    /// Protobuf schema.
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

/// Result of the lookup of an id in a registry.
#[derive(Debug)]
pub enum Found {
    /// The schema.
    Schema(Written),
    /// The schema can never be read, for this reason.
    Rejected(String),
    /// The registry does not know the id at present, for this reason.
    Missing(String),
}

/// Writer's schemas in the order in which they were learned. Instead of a schema, there may be the reason why its
/// values cannot be read.
#[derive(Debug, Default)]
pub struct Writers {
    learned: Vec<(SchemaId, Result<Written, String>)>,
    /// Ids that do not have to be looked up again.
    settled: HashSet<SchemaId>,
    /// Ids that the registry did not know, with the reason.
    missing: HashMap<SchemaId, String>,
}

impl Writers {
    /// Adds a schema that the application has passed, under its fingerprint and, if known, under its id.
    pub fn add_known(&mut self, id: Option<SchemaId>, writer: &avro::Schema) {
        let print = SchemaId::Fingerprint(writer.fingerprint());
        for id in id.into_iter().chain([print]) {
            self.settled.insert(id);
            self.learned.push((id, Ok(Written::Avro(writer.clone()))));
        }
    }

    /// Adds the result of a lookup in the registry.
    pub fn learn(&mut self, id: SchemaId, found: Found) {
        match found {
            Found::Schema(_) | Found::Rejected(_) if !self.settled.insert(id) => (),
            Found::Schema(schema) => self.learned.push((id, Ok(schema))),
            Found::Rejected(reason) => self.learned.push((id, Err(reason))),
            Found::Missing(reason) => {
                if self.missing.len() < MAX_MISSING && self.missing.get(&id) != Some(&reason) {
                    self.learned.push((id, Err(reason.clone())));
                    self.missing.insert(id, reason);
                }
            }
        }
    }

    /// Returns true if the id does not have to be looked up again.
    pub fn settles(&self, id: SchemaId) -> bool {
        self.settled.contains(&id)
    }

    /// Adds all schemas learned since `known` to a decoder. Returns the number of all learned schemas, for the next
    /// call.
    pub fn catch_up(&self, decoder: &mut Decoder, known: usize) -> usize {
        for (id, writer) in self.learned.iter().skip(known) {
            match writer {
                Ok(writer) => writer.add_to(decoder, *id),
                Err(reason) => decoder.refuse_writer(*id, reason),
            }
        }
        self.learned.len()
    }
}
