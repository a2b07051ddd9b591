//! Selects fields of typed keys and values according to `.schema(...)`.

use std::collections::BTreeSet;

use samsarrow_values::path::part as path_part;

use super::types::SparkType;
use crate::error::{Error, Result};

/// Returns the paths of the selected fields. The paths do not contain the name of the column.
///
/// # Errors
/// Fails if `requested` selects fields that `available` does not have.
pub fn selected(available: &SparkType, requested: &SparkType, path: &str) -> Result<Vec<String>> {
    match (available, requested) {
        // Equal types are accepted before the fields are compared, because a struct may have no fields.
        (available, requested) if available == requested => {
            Ok(vec![path.split_once('.').map_or("", |(_, rest)| rest).to_owned()])
        }
        (SparkType::Struct(known), SparkType::Struct(fields)) => {
            let names: BTreeSet<&str> = fields.iter().map(|(name, ..)| name.as_str()).collect();
            if names.is_empty() || names.len() < fields.len() {
                return Err(Error::configuration(format!(
                    "{path} in .schema(...) needs fields, each of them once: {}",
                    requested.to_spark_string()
                )));
            }
            let mut paths = Vec::new();
            for (name, kind, nullable) in fields {
                let own = format!("{path}.{}", path_part(name));
                let Some((_, available, _)) = known.iter().find(|(known, ..)| known == name) else {
                    let names: Vec<_> = known.iter().map(|(name, ..)| path_part(name)).collect();
                    let names = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
                    return Err(Error::configuration(format!("there is no field {own}, only {names}")));
                };
                if !nullable {
                    return Err(Error::configuration(format!(
                        "{own} cannot be NOT NULL in .schema(...): all fields are nullable"
                    )));
                }
                paths.extend(selected(available, kind, &own)?);
            }
            Ok(paths)
        }
        (SparkType::Array(available, _), SparkType::Array(requested, true)) => selected(available, requested, path),
        (SparkType::Map(key, available, _), SparkType::Map(other, requested, true)) if key == other => {
            selected(available, requested, path)
        }
        (available, requested) => Err(Error::configuration(format!(
            "{path} is {}, not {}: .schema(...) may choose fields; cast others in the DataFrame",
            available.to_spark_string(),
            requested.to_spark_string()
        ))),
    }
}
