//! Projection of a type to selected fields.

use std::sync::Arc;

use arrow_schema::{DataType, Field, FieldRef, Fields};

use super::plan::join;
use crate::avro::project::{Projection, check_names};
use crate::error::SchemaError;

pub(super) fn project(root: &FieldRef, fields: &[String]) -> Result<FieldRef, SchemaError> {
    prune(root, &Projection::of(fields)?, "")
}

fn prune(field: &FieldRef, projection: &Projection<'_>, path: &str) -> Result<FieldRef, SchemaError> {
    if projection.is_all() {
        return Ok(Arc::clone(field));
    }
    let kind = match field.data_type() {
        DataType::List(item) => DataType::List(prune(item, projection, path)?),
        DataType::LargeList(item) => DataType::LargeList(prune(item, projection, path)?),
        DataType::Map(entries, sorted) => match entries.data_type() {
            DataType::Struct(pair) => {
                let [key, value] = &**pair else { return Ok(Arc::clone(field)) };
                let pair = Fields::from(vec![Arc::clone(key), prune(value, projection, path)?]);
                let entries = Field::new(entries.name(), DataType::Struct(pair), false);
                DataType::Map(Arc::new(entries), *sorted)
            }
            _ => return Ok(Arc::clone(field)),
        },
        DataType::Struct(fields) => {
            check_names(projection, fields.iter().map(|field| field.name().as_str()), path)?;
            let kept = fields.iter().filter_map(|field| {
                let below = projection.below(field.name())?;
                Some(prune(field, below, &join(path, field.name())))
            });
            DataType::Struct(kept.collect::<Result<_, _>>()?)
        }
        other => return Err(SchemaError::new(path, format!("{other} has no fields"))),
    };
    Ok(Arc::new(Field::clone(field).with_data_type(kind)))
}
