//! What rows look like.

use std::sync::Arc;

use arrow_schema::{DataType, Field, FieldRef};

use super::{json_schema, project};
use crate::error::SchemaError;

/// The key of a field's metadata that names its extension type.
const EXTENSION: &str = "ARROW:extension:name";
/// The extension type of a value of any kind, as its text.
pub(crate) const JSON: &str = "arrow.json";
/// That a decimal's text is base64 of its digits' bytes.
const DECIMAL: &str = "samsarrow:decimal";
/// That a member may be missing, and may not be null.
const OMITTED: &str = "samsarrow:omitted";
/// The key of fields of times that have an offset from UTC.
const FULL_TIME: &str = "samsarrow:full-time";
/// Keys that say how a field is read and written, and are not for columns.
const OWN: [&str; 3] = [DECIMAL, OMITTED, FULL_TIME];

/// The type that values are read as.
#[derive(Debug, Clone)]
pub struct Schema {
    pub(crate) root: FieldRef,
}

impl Schema {
    /// An Arrow type. A string field of the extension type `arrow.json` takes values of any kind, as their texts.
    pub fn from_arrow(data_type: DataType) -> Schema {
        Schema { root: Arc::new(Field::new("", data_type, true)) }
    }

    /// A JSON Schema's text. Of what it says only types count: fields, items, and what is required. Each of `needed` is one
    /// that it, or another one of them, refers to by the name that `links` has, or by its `$id`. A link is the place of
    /// the schema that refers, the name, and the place of the other one; the schema itself is behind the last.
    ///
    /// # Errors
    /// The text is no JSON Schema, or refers to what is not there.
    pub fn parse(text: &str, needed: &[String], links: &[(usize, String, usize)]) -> Result<Schema, SchemaError> {
        let root = json_schema::field(text, needed, links)?.with_nullable(true);
        Ok(Schema { root: Arc::new(root) })
    }

    /// The rows as a field; [`is_omitted`] says more about those in it.
    pub fn field(&self) -> &Field {
        &self.root
    }

    /// The same with these fields only: `id`, `user.city`. A path goes through lists to their items and through maps to
    /// their values.
    ///
    /// # Errors
    /// There is no such field.
    pub fn project(&self, fields: &[String]) -> Result<Schema, SchemaError> {
        Ok(Schema { root: project::project(&self.root, fields)? })
    }
}

pub(crate) fn is_base64(field: &Field) -> bool {
    field.metadata().contains_key(DECIMAL)
}

/// Whether a member may be missing and may not be null, by the JSON Schema of the field: a null is written as nothing.
pub fn is_omitted(field: &Field) -> bool {
    field.metadata().contains_key(OMITTED)
}

/// Returns whether a field takes values of any kind, as their texts.
pub fn is_json(field: &Field) -> bool {
    field.extension_type_name() == Some(JSON)
}

/// Returns whether a field's times have an offset from UTC, by `"format": "time"` of its JSON Schema.
pub fn is_full_time(field: &Field) -> bool {
    field.metadata().contains_key(FULL_TIME)
}

/// The same field for times with an offset.
pub(crate) fn full_time(mut field: Field) -> Field {
    field.metadata_mut().insert(FULL_TIME, "");
    field
}

/// The same field for a member that may be missing and may not be null.
pub(crate) fn omitted(mut field: Field) -> Field {
    field.metadata_mut().insert(OMITTED, "");
    field
}

/// A field for values of any kind, as their texts.
pub(crate) fn json_field(name: &str, nullable: bool) -> Field {
    Field::new(name, DataType::Utf8, nullable).with_metadata([(EXTENSION, JSON)])
}

/// The same field for a decimal of base64.
pub(crate) fn base64_decimal(field: Field) -> Field {
    field.with_metadata([(DECIMAL, "base64")])
}

/// The field of a column that is read as another: without what says how.
pub(crate) fn output(field: &Field, data_type: &DataType) -> FieldRef {
    let mut metadata = field.metadata().clone();
    metadata.retain(|key, _| !key.starts_with("ARROW:extension:") && !OWN.contains(&key.as_ref()));
    Arc::new(Field::new(field.name(), data_type.clone(), field.is_nullable()).with_metadata(metadata))
}
