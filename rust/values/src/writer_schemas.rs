//! Writer's schemas, from the application and from a registry.

use std::collections::{HashMap, HashSet};

use crate::decoder::Decoder;
use crate::error::SchemaError;
use crate::framing::SchemaId;
use crate::{avro, proto};

/// Maximum number of missing ids that are remembered; arbitrary bytes may contain any id.
const MAX_MISSING: usize = 10_000;

/// Schema type of a registry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Avro.
    Avro,
    /// Protobuf.
    Protobuf,
}

impl Kind {
    /// Returns the registry's name of the type.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Avro => "AVRO",
            Kind::Protobuf => "PROTOBUF",
        }
    }

    /// Parses a schema with the schemas it refers to.
    ///
    /// # Errors
    /// The text is not a valid schema.
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
    /// The schema cannot be read; this is permanent.
    Refused(String),
    /// The id is unknown at present.
    Missing(String),
}

/// Writer's schemas, or the reasons why values cannot be read, in the order they were learned.
#[derive(Debug, Default)]
pub struct Writers {
    learned: Vec<(SchemaId, Result<Written, String>)>,
    /// Ids that need no further lookup.
    settled: HashSet<SchemaId>,
    /// Ids unknown to the registry, with the reason.
    missing: HashMap<SchemaId, String>,
}

impl Writers {
    /// Adds a schema from the application, under its id if given, and under its fingerprint.
    pub fn given(&mut self, id: Option<SchemaId>, writer: &avro::Schema) {
        let print = SchemaId::Fingerprint(writer.fingerprint());
        for id in id.into_iter().chain([print]) {
            self.settled.insert(id);
            self.learned.push((id, Ok(Written::Avro(writer.clone()))));
        }
    }

    /// Adds the result of a lookup.
    pub fn learn(&mut self, id: SchemaId, found: Found) {
        match found {
            Found::Schema(_) | Found::Refused(_) if !self.settled.insert(id) => (),
            Found::Schema(schema) => self.learned.push((id, Ok(schema))),
            Found::Refused(reason) => self.learned.push((id, Err(reason))),
            Found::Missing(reason) => {
                if self.missing.len() < MAX_MISSING && self.missing.get(&id) != Some(&reason) {
                    self.learned.push((id, Err(reason.clone())));
                    self.missing.insert(id, reason);
                }
            }
        }
    }

    /// Returns true if an id needs no further lookup.
    pub fn settles(&self, id: SchemaId) -> bool {
        self.settled.contains(&id)
    }

    /// Adds all schemas learned since `known` to a decoder; returns the number of learned schemas.
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
