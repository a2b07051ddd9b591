//! Conversions of the arguments of value formats from Python.

use pyo3::prelude::*;
use samsarrow_values::{Enums, SchemaError, SchemaId, proto};

/// Identifier of a writer's schema.
#[derive(FromPyObject, IntoPyObject, Debug, Clone)]
pub(crate) enum PySchemaId {
    /// Schema id in a registry, or fingerprint of a schema.
    Number(u64),
    /// Bytes of a GUID.
    Guid([u8; 16]),
}

impl PySchemaId {
    pub(crate) fn from_schema_id(id: SchemaId) -> Option<PySchemaId> {
        match id {
            SchemaId::Bare => None,
            SchemaId::Id(id) | SchemaId::Fingerprint(id) => Some(PySchemaId::Number(id)),
            SchemaId::Guid(guid) => Some(PySchemaId::Guid(guid)),
        }
    }

    pub(crate) fn into_schema_id(self) -> SchemaId {
        match self {
            PySchemaId::Number(id) => SchemaId::Id(id),
            PySchemaId::Guid(guid) => SchemaId::Guid(guid),
        }
    }
}

/// A Protobuf schema, given as source text or as serialized descriptors.
#[derive(FromPyObject)]
pub(crate) enum ProtobufSchema {
    Text(String),
    Descriptors(Vec<u8>),
}

impl ProtobufSchema {
    pub(crate) fn parse(&self, needed: &[String]) -> Result<proto::Schema, SchemaError> {
        match self {
            ProtobufSchema::Text(text) => proto::Schema::parse_with(text, needed),
            ProtobufSchema::Descriptors(bytes) => proto::Schema::from_descriptors(bytes),
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
