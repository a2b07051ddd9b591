//! Binding of an Avro schema to the columns to encode: finds the column for each part of a value, or reports why the
//! schema and the columns do not match.

use std::collections::HashMap;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{Array, StructArray};
use arrow_buffer::NullBuffer;
use arrow_schema::DataType;

use super::source::{Entries, Field, Source};
use super::{leaf, unions};
use crate::avro::default;
use crate::avro::parse::join;
use crate::avro::recursion::Named;
use crate::avro::schema::{Kind, Node, Record};
use crate::error::SchemaError;
use crate::layout::{self, Blobs, Ranges};

/// Binds a column to an Avro type. If the type is not nullable, a null in the column is an error.
pub(crate) fn source(node: &Node, array: &dyn Array, named: &Named, path: &str) -> Result<Source, SchemaError> {
    let nulls = nulls_of(array);
    match (&node.kind, nulls) {
        (Kind::Union(branches), nulls) => unions::union(node, branches, array, nulls, named, path),
        (Kind::Null, _) | (_, None) => valid(node, array, named, path),
        (_, Some(nulls)) => Ok(Source::Required(Box::new((nulls, valid(node, array, named, path)?)))),
    }
}

/// Returns the validity of a column's rows, including nulls among the values of a dictionary; `None` if no row is null.
pub(super) fn nulls_of(array: &dyn Array) -> Option<NullBuffer> {
    array.logical_nulls().filter(|nulls| nulls.null_count() > 0)
}

/// Binds a column to an Avro type. The source must not be used for null rows.
///
/// A recursive type is followed as deep as the column is nested. At the depth at which `decode_values` stopped, the
/// type of the column is null.
pub(crate) fn valid(node: &Node, array: &dyn Array, named: &Named, path: &str) -> Result<Source, SchemaError> {
    if let Some(dictionary) = array.as_any_dictionary_opt() {
        let values = valid(node, dictionary.values(), named, path)?;
        if dictionary.values().is_empty() {
            return Ok(values);
        }
        return Ok(Source::Keys(Box::new((
            dictionary.normalized_keys().into(),
            leaf::numbered(values, dictionary.values().len()),
        ))));
    }
    match &node.kind {
        Kind::Union(branches) => unions::union(node, branches, array, None, named, path),
        Kind::Record(record) => match array.as_struct_opt() {
            Some(columns) => fields(record, columns, named, path),
            None => Err(unfit(node, array, path)),
        },
        Kind::Array(item) => match layout::items(array) {
            Some((ranges, items)) => Ok(Source::List(Box::new((ranges, source(item, items, named, path)?)))),
            None => Err(unfit(node, array, path)),
        },
        Kind::Map(value) => match array.as_map_opt() {
            Some(map) => {
                let text = Node::new(Kind::String, None);
                let (Ok(keys), Some(names)) = (source(&text, map.keys(), named, path), Blobs::texts(map.keys())) else {
                    return Err(SchemaError::new(
                        path,
                        format!("keys of a map must be string, not {}", map.key_type()),
                    ));
                };
                let values = source(value, map.values(), named, path)?;
                let ranges = Ranges::Small(map.offsets().clone());
                Ok(Source::Map(Box::new(Entries { ranges, keys, names, values })))
            }
            None => Err(unfit(node, array, path)),
        },
        // All rows of the column are null. `source` and unions check for nulls first, so the source is never read.
        Kind::Again(_) if *array.data_type() == DataType::Null => Ok(Source::Nothing),
        Kind::Again(name) => match named.get(&name.full) {
            Some(definition) => valid(definition, array, named, path),
            None => Err(SchemaError::new(path, format!("there is no type {}", name.full))),
        },
        _ => leaf::leaf(node, array, path),
    }
}

fn fields(record: &Record, columns: &StructArray, named_types: &Named, path: &str) -> Result<Source, SchemaError> {
    let mut named: HashMap<&str, &dyn Array> = HashMap::new();
    for (name, column) in columns.column_names().into_iter().zip(columns.columns()) {
        if named.insert(name, column).is_some() {
            return Err(SchemaError::new(&join(path, name), "there are two columns of this name"));
        }
    }
    let mut sources = Vec::new();
    for field in &record.fields {
        let at = join(path, &field.name);
        let source = match (named.remove(&*field.name), &field.default) {
            (Some(column), _) => source(&field.node, column, named_types, &at)?,
            (None, Some(json)) => Source::Constant(default::encoded(&field.node, json, named_types, &at)?.into()),
            (None, None) => {
                return Err(SchemaError::new(&at, "there is no such column, and the schema has no default for it"));
            }
        };
        sources.push(Field { name: Arc::clone(&field.name), source });
    }
    match columns.column_names().into_iter().find(|name| named.contains_key(name)) {
        None => Ok(Source::Record(sources.into())),
        Some(name) => {
            let there: Vec<_> = record.fields.iter().map(|field| &*field.name).collect();
            let text = format!("the schema has no field for this column; there are {}", there.join(", "));
            Err(SchemaError::new(&join(path, name), text))
        }
    }
}

#[cold]
pub(super) fn unfit(node: &Node, array: &dyn Array, path: &str) -> SchemaError {
    let expected = match (&node.kind, node.logical) {
        (Kind::Union(branches), _) => {
            let names: Vec<_> = branches.iter().map(|branch| branch.described()).collect();
            format!("a union of {}", names.join(", "))
        }
        (_, Some(logical)) => format!("{} that is {}", node.described(), leaf::logical_name(logical)),
        _ => node.described(),
    };
    let text = format!("a column of {} cannot be written as {expected}: cast it", array.data_type());
    SchemaError::new(path, text)
}
