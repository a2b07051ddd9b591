//! Type that JSON values are read as.

use std::sync::Arc;

use arrow_schema::{DataType, Field, FieldRef};

use super::{json_schema, project};
use crate::error::SchemaError;

/// Metadata key of the Arrow extension type.
const EXTENSION: &str = "ARROW:extension:name";
/// Name of Arrow's extension type for strings that contain a JSON value of any kind.
pub(crate) const JSON: &str = "arrow.json";
/// Metadata key of a decimal that JSON contains as the base64 encoding of its unscaled value.
const DECIMAL: &str = "samsarrow:decimal";
/// Metadata key of a member that may be missing, but must not be null.
const OMITTED: &str = "samsarrow:omitted";
/// Metadata key of times of day that have an offset from UTC.
const FULL_TIME: &str = "samsarrow:full-time";
/// Metadata keys that control reading and writing. They are not in the schema of decoded columns.
const OWN: [&str; 3] = [DECIMAL, OMITTED, FULL_TIME];

/// Type that JSON values are read as.
#[derive(Debug, Clone)]
pub struct Schema {
    pub(crate) root: FieldRef,
}

impl Schema {
    /// Creates the type from an Arrow type. A string field with the extension type `arrow.json` accepts any value, and
    /// stores the value's text.
    pub fn from_arrow(data_type: DataType) -> Schema {
        Schema { root: Arc::new(Field::new("", data_type, true)) }
    }

    /// Parses a JSON Schema. Only types, items and required members are relevant. A schema refers to a schema in
    /// `references` by its `$id` or by a name in `links`. A link contains the index of the referring schema, the name,
    /// and the index of the referenced schema. The index of the schema `text` is the number of `references`.
    ///
    /// # Errors
    /// Fails if the text is not a valid JSON Schema, or if a reference cannot be resolved.
    pub fn parse(text: &str, references: &[String], links: &[(usize, String, usize)]) -> Result<Schema, SchemaError> {
        let root = json_schema::field(text, references, links)?.with_nullable(true);
        Ok(Schema { root: Arc::new(root) })
    }

    /// Returns the type of the rows as a field. [`is_omitted`] and similar functions return the properties of its
    /// children.
    pub fn field(&self) -> &Field {
        &self.root
    }

    /// Returns the type with only the selected fields, such as `id` or `user.city`. A path continues through a list to
    /// its items, and through a map to its values.
    ///
    /// # Errors
    /// Fails if a selected field does not exist.
    pub fn project(&self, fields: &[String]) -> Result<Schema, SchemaError> {
        Ok(Schema { root: project::project(&self.root, fields)? })
    }
}

pub(crate) fn is_base64(field: &Field) -> bool {
    field.metadata().contains_key(DECIMAL)
}

/// Returns true if the JSON Schema allows the field to be missing, but not to be null. A null must then be omitted.
pub fn is_omitted(field: &Field) -> bool {
    field.metadata().contains_key(OMITTED)
}

/// Returns true if the field accepts any value, and stores the value's JSON text.
pub fn is_json(field: &Field) -> bool {
    field.extension_type_name() == Some(JSON)
}

/// Returns true if the field contains times of day with an offset from UTC, because its JSON Schema has `"format":
/// "time"`.
pub fn is_full_time(field: &Field) -> bool {
    field.metadata().contains_key(FULL_TIME)
}

/// Marks a field that contains times of day with an offset from UTC.
pub(crate) fn full_time(mut field: Field) -> Field {
    field.metadata_mut().insert(FULL_TIME, "");
    field
}

/// Marks a field that may be missing, but must not be null.
pub(crate) fn omitted(mut field: Field) -> Field {
    field.metadata_mut().insert(OMITTED, "");
    field
}

/// Creates a field for values of any kind, which are stored as JSON text.
pub(crate) fn json_field(name: &str, nullable: bool) -> Field {
    Field::new(name, DataType::Utf8, nullable).with_metadata([(EXTENSION, JSON)])
}

/// Marks a decimal field whose values are the base64 encoding of the unscaled value.
pub(crate) fn base64_decimal(field: Field) -> Field {
    field.with_metadata([(DECIMAL, "base64")])
}

/// Returns the field of a decoded column, without the metadata that controls reading and writing.
pub(crate) fn output(field: &Field, data_type: &DataType) -> FieldRef {
    let mut metadata = field.metadata().clone();
    metadata.retain(|key, _| !key.starts_with("ARROW:extension:") && !OWN.contains(&key.as_ref()));
    Arc::new(Field::new(field.name(), data_type.clone(), field.is_nullable()).with_metadata(metadata))
}
