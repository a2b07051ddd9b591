//! Arguments of formats as Python gives them.

use pyo3::prelude::*;
use samsarrow_values::{Enums, SchemaError, SchemaId, proto};

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

    pub(crate) fn named(self) -> SchemaId {
        match self {
            Id::Number(id) => SchemaId::Id(id),
            Id::Guid(guid) => SchemaId::Guid(guid),
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

pub(crate) fn enums_of(name: &str) -> Result<Enums, String> {
    match name {
        "string" => Ok(Enums::Strings),
        "dictionary" => Ok(Enums::Dictionary),
        other => Err(format!("enums must be string or dictionary, not {other:?}")),
    }
}
