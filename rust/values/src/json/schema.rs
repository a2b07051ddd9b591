//! Type of JSON rows.

use std::sync::Arc;

use arrow_schema::{DataType, Field, FieldRef};

use super::{json_schema, project};
use crate::error::SchemaError;

/// Metadata key of the extension type.
const EXTENSION: &str = "ARROW:extension:name";
/// Extension type of a value of any kind, stored as JSON text.
pub(crate) const JSON: &str = "arrow.json";
/// Metadata key of a decimal that is base64 of its unscaled value.
const DECIMAL: &str = "samsarrow:decimal";
/// Metadata key of a member that may be missing but not null.
const OMITTED: &str = "samsarrow:omitted";
/// Metadata key of times with an offset from UTC.
const FULL_TIME: &str = "samsarrow:full-time";
/// Metadata keys that control reading and writing, removed from columns.
const OWN: [&str; 3] = [DECIMAL, OMITTED, FULL_TIME];

/// Type that JSON values are read as.
#[derive(Debug, Clone)]
pub struct Schema {
    pub(crate) root: FieldRef,
}

impl Schema {
    /// Creates the type from an Arrow type. A string field of the extension type `arrow.json` accepts any value and
    /// stores its text.
    pub fn from_arrow(data_type: DataType) -> Schema {
        Schema { root: Arc::new(Field::new("", data_type, true)) }
    }

    /// Parses a JSON Schema. Only types, items and required members matter. Each schema of `references` is referred to by a
    /// name in `links`, or by its `$id`. A link has the index of the referring schema, the name, and the index of the
    /// referenced one; the schema itself has the index after the last of `references`.
    ///
    /// # Errors
    /// The text is not a valid JSON Schema, or a reference cannot be resolved.
    pub fn parse(text: &str, references: &[String], links: &[(usize, String, usize)]) -> Result<Schema, SchemaError> {
        let root = json_schema::field(text, references, links)?.with_nullable(true);
        Ok(Schema { root: Arc::new(root) })
    }

    /// Returns the rows as a field; see [`is_omitted`] for its children.
    pub fn field(&self) -> &Field {
        &self.root
    }

    /// Returns the type with only the given fields, such as `id` or `user.city`. A path continues through lists to
    /// their items and through maps to their values.
    ///
    /// # Errors
    /// A field does not exist.
    pub fn project(&self, fields: &[String]) -> Result<Schema, SchemaError> {
        Ok(Schema { root: project::project(&self.root, fields)? })
    }
}

pub(crate) fn is_base64(field: &Field) -> bool {
    field.metadata().contains_key(DECIMAL)
}

/// Returns true if the JSON Schema of the field allows it to be missing but not null, so that a null has to be omitted.
pub fn is_omitted(field: &Field) -> bool {
    field.metadata().contains_key(OMITTED)
}

/// Returns true if a field accepts any value and stores its JSON text.
pub fn is_json(field: &Field) -> bool {
    field.extension_type_name() == Some(JSON)
}

/// Returns true if the times of a field have an offset from UTC, by `"format": "time"` of its JSON Schema.
pub fn is_full_time(field: &Field) -> bool {
    field.metadata().contains_key(FULL_TIME)
}

/// Marks a field for times with an offset.
pub(crate) fn full_time(mut field: Field) -> Field {
    field.metadata_mut().insert(FULL_TIME, "");
    field
}

/// Marks a field for a member that may be missing but not null.
pub(crate) fn omitted(mut field: Field) -> Field {
    field.metadata_mut().insert(OMITTED, "");
    field
}

/// Creates a field for any value, stored as JSON text.
pub(crate) fn json_field(name: &str, nullable: bool) -> Field {
    Field::new(name, DataType::Utf8, nullable).with_metadata([(EXTENSION, JSON)])
}

/// Marks a field for a base64 decimal.
pub(crate) fn base64_decimal(field: Field) -> Field {
    field.with_metadata([(DECIMAL, "base64")])
}

/// Returns the field of a column, without the metadata that controls reading.
pub(crate) fn output(field: &Field, data_type: &DataType) -> FieldRef {
    let mut metadata = field.metadata().clone();
    metadata.retain(|key, _| !key.starts_with("ARROW:extension:") && !OWN.contains(&key.as_ref()));
    Arc::new(Field::new(field.name(), data_type.clone(), field.is_nullable()).with_metadata(metadata))
}
