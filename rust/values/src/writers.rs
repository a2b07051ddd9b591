//! What values were written with: what a program says, and what a registry says.

use std::collections::{HashMap, HashSet};

use crate::decoder::Decoder;
use crate::error::SchemaError;
use crate::frame::SchemaId;
use crate::{avro, proto};

/// Ids that are not there and whose reason is kept: bytes that are no frames may name any.
const MOST_MISSING: usize = 10_000;

/// A kind of schemas, as registries name it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Avro's.
    Avro,
    /// Protobuf's.
    Protobuf,
}

impl Kind {
    /// What registries call it.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Avro => "AVRO",
            Kind::Protobuf => "PROTOBUF",
        }
    }

    /// The schema of a text, and of the texts that it needs.
    ///
    /// # Errors
    /// It is none.
    pub fn parse(self, text: &str, needed: &[String]) -> Result<Written, SchemaError> {
        match self {
            Kind::Avro => avro::Schema::parse_with(text, needed).map(Written::Avro),
            Kind::Protobuf => proto::Schema::parse_with(text, needed).map(Written::Protobuf),
        }
    }
}

/// A schema that values were written with.
#[derive(Debug)]
pub enum Written {
    /// Of Avro values.
    Avro(avro::Schema),
    /// Of Protobuf values.
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

/// What a registry says of an id.
#[derive(Debug)]
pub enum Found {
    /// What it stands for.
    Schema(Written),
    /// It is nothing that can be read, and stays so.
    Refused(String),
    /// There is none now.
    Missing(String),
}

/// What values were written with, or why they cannot be read; in the order in which that was learned.
#[derive(Debug, Default)]
pub struct Writers {
    learned: Vec<(SchemaId, Result<Written, String>)>,
    /// What need not be asked for again.
    settled: HashSet<SchemaId>,
    /// What a registry had none for.
    missing: HashMap<SchemaId, String>,
}

impl Writers {
    /// Takes what a program says, by an id if it says one, and by the schema's fingerprint.
    pub fn given(&mut self, id: Option<SchemaId>, writer: &avro::Schema) {
        let print = SchemaId::Fingerprint(writer.fingerprint());
        for id in id.into_iter().chain([print]) {
            self.settled.insert(id);
            self.learned.push((id, Ok(Written::Avro(writer.clone()))));
        }
    }

    /// Takes what a registry says.
    pub fn learn(&mut self, id: SchemaId, found: Found) {
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
    pub fn settles(&self, id: SchemaId) -> bool {
        self.settled.contains(&id)
    }

    /// Has a decoder, which knows the first `known` of them, know all; gives how many these are.
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
