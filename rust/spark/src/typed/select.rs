//! The fields that `.schema(...)` chooses of typed keys and values.

use std::collections::BTreeSet;

use super::types::SparkType;
use crate::error::{Error, Result};

/// The paths of the fields that are chosen of a type, each without the column's name.
///
/// # Errors
/// It is no choice of what is there.
pub fn selected(there: &SparkType, wanted: &SparkType, path: &str) -> Result<Vec<String>> {
    match (there, wanted) {
        (SparkType::Struct(known), SparkType::Struct(fields)) => {
            let names: BTreeSet<&str> = fields.iter().map(|(name, ..)| name.as_str()).collect();
            if names.is_empty() || names.len() < fields.len() {
                return Err(Error::configuration(format!(
                    "{path} in .schema(...) needs fields, each of them once: {}",
                    wanted.shown()
                )));
            }
            let mut paths = Vec::new();
            for (name, kind, nullable) in fields {
                let Some((_, there, _)) = known.iter().find(|(known, ..)| known == name) else {
                    let names: Vec<&str> = known.iter().map(|(name, ..)| name.as_str()).collect();
                    let names = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
                    return Err(Error::configuration(format!("there is no field {path}.{name}, only {names}")));
                };
                if !nullable {
                    return Err(Error::configuration(format!(
                        "{path}.{name} cannot be NOT NULL in .schema(...): all fields are nullable"
                    )));
                }
                paths.extend(selected(there, kind, &format!("{path}.{name}"))?);
            }
            Ok(paths)
        }
        (SparkType::Array(there, _), SparkType::Array(wanted, true)) => selected(there, wanted, path),
        (SparkType::Map(key, there, _), SparkType::Map(other, wanted, true)) if key == other => {
            selected(there, wanted, path)
        }
        (there, wanted) if there == wanted => Ok(vec![path.split_once('.').map_or("", |(_, rest)| rest).to_owned()]),
        (there, wanted) => Err(Error::configuration(format!(
            "{path} is {}, not {}: .schema(...) may choose fields; cast others in the DataFrame",
            there.shown(),
            wanted.shown()
        ))),
    }
}
