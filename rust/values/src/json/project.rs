//! Projection of a type to some of its fields.

use std::sync::Arc;

use arrow_schema::{DataType, Field, FieldRef, Fields};

use super::plan::join;
use crate::avro::project::{Wanted, known};
use crate::error::SchemaError;

pub(super) fn project(root: &FieldRef, fields: &[String]) -> Result<FieldRef, SchemaError> {
    pruned(root, &Wanted::of(fields)?, "")
}

fn pruned(field: &FieldRef, wanted: &Wanted<'_>, path: &str) -> Result<FieldRef, SchemaError> {
    if wanted.is_all() {
        return Ok(Arc::clone(field));
    }
    let kind = match field.data_type() {
        DataType::List(item) => DataType::List(pruned(item, wanted, path)?),
        DataType::LargeList(item) => DataType::LargeList(pruned(item, wanted, path)?),
        DataType::Map(entries, sorted) => match entries.data_type() {
            DataType::Struct(pair) => {
                let [key, value] = &**pair else { return Ok(Arc::clone(field)) };
                let pair = Fields::from(vec![Arc::clone(key), pruned(value, wanted, path)?]);
                let entries = Field::new(entries.name(), DataType::Struct(pair), false);
                DataType::Map(Arc::new(entries), *sorted)
            }
            _ => return Ok(Arc::clone(field)),
        },
        DataType::Struct(fields) => {
            known(wanted, fields.iter().map(|field| field.name().as_str()), path)?;
            let kept = fields.iter().filter_map(|field| {
                let below = wanted.below(field.name())?;
                Some(pruned(field, below, &join(path, field.name())))
            });
            DataType::Struct(kept.collect::<Result<_, _>>()?)
        }
        other => return Err(SchemaError::new(path, format!("{other} has no fields"))),
    };
    Ok(Arc::new(Field::clone(field).with_data_type(kind)))
}
