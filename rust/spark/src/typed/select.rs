//! The fields that `.schema(...)` chooses of typed keys and values.

use std::collections::BTreeSet;

use samsarrow_values::path;

use super::types::SparkType;
use crate::error::{Error, Result};

/// The paths of the fields that are chosen of a type, each without the column's name.
///
/// # Errors
/// It is no choice of what is there.
pub fn selected(there: &SparkType, wanted: &SparkType, at: &str) -> Result<Vec<String>> {
    match (there, wanted) {
        // Before fields are looked at: a struct may have none.
        (there, wanted) if there == wanted => Ok(vec![at.split_once('.').map_or("", |(_, rest)| rest).to_owned()]),
        (SparkType::Struct(known), SparkType::Struct(fields)) => {
            let names: BTreeSet<&str> = fields.iter().map(|(name, ..)| name.as_str()).collect();
            if names.is_empty() || names.len() < fields.len() {
                return Err(Error::configuration(format!(
                    "{at} in .schema(...) needs fields, each of them once: {}",
                    wanted.shown()
                )));
            }
            let mut paths = Vec::new();
            for (name, kind, nullable) in fields {
                let own = format!("{at}.{}", path::part(name));
                let Some((_, there, _)) = known.iter().find(|(known, ..)| known == name) else {
                    let names: Vec<_> = known.iter().map(|(name, ..)| path::part(name)).collect();
                    let names = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
                    return Err(Error::configuration(format!("there is no field {own}, only {names}")));
                };
                if !nullable {
                    return Err(Error::configuration(format!(
                        "{own} cannot be NOT NULL in .schema(...): all fields are nullable"
                    )));
                }
                paths.extend(selected(there, kind, &own)?);
            }
            Ok(paths)
        }
        (SparkType::Array(there, _), SparkType::Array(wanted, true)) => selected(there, wanted, at),
        (SparkType::Map(key, there, _), SparkType::Map(other, wanted, true)) if key == other => {
            selected(there, wanted, at)
        }
        (there, wanted) => Err(Error::configuration(format!(
            "{at} is {}, not {}: .schema(...) may choose fields; cast others in the DataFrame",
            there.shown(),
            wanted.shown()
        ))),
    }
}
