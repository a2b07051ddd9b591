//! Lookup of writer schemas in a schema registry.

use std::collections::BTreeSet;
use std::sync::Arc;

use samsarrow_client::error::{Error, Result};
use samsarrow_client::schema_registry::{RegisteredSchema, Registry, SchemaKey};
use samsarrow_values::SchemaId;
use samsarrow_values::writer_schemas::{Found, Kind};
use tokio::task::JoinSet;

/// Looks up the schemas with these ids concurrently. `imports` are texts of schemas that the registered schemas import
/// but that are not in the registry.
///
/// # Errors
/// Fails if the registry does not respond.
pub async fn lookup_schemas(
    registry: Registry,
    ids: BTreeSet<SchemaId>,
    kind: Kind,
    ignore_rules: bool,
    imports: Arc<[String]>,
) -> Result<Vec<(SchemaId, Found)>> {
    let mut lookups = JoinSet::new();
    for id in ids {
        let key = match id {
            SchemaId::Id(id) => SchemaKey::Id(id),
            SchemaId::Guid(guid) => SchemaKey::Guid(guid),
            SchemaId::Bare | SchemaId::Fingerprint(_) => continue,
        };
        let (registry, imports) = (registry.clone(), Arc::clone(&imports));
        lookups.spawn(async move {
            writer_schema(registry.schema(key).await, kind, ignore_rules, &imports).map(|schema| (id, schema))
        });
    }
    let mut results = Vec::new();
    while let Some(done) = lookups.join_next().await {
        results.push(done.unwrap_or_else(|_| Err(Error::closed("the schema registry's client")))?);
    }
    Ok(results)
}

fn writer_schema(
    response: Result<Arc<RegisteredSchema>>,
    kind: Kind,
    ignore_rules: bool,
    imports: &[String],
) -> Result<Found> {
    let schema = match response {
        Ok(schema) => schema,
        Err(Error::SchemaNotFound(text)) => return Ok(Found::Missing(text)),
        Err(other) => return Err(other),
    };
    if schema.kind != kind.name() {
        let (actual, expected) = (&schema.kind, kind.name());
        return Ok(Found::Rejected(format!("the value is written with a schema of type {actual}, not {expected}")));
    }
    if schema.has_rules && !ignore_rules {
        let text = "its schema has rules, which samsarrow does not run: ignore_rules=True takes values as they are";
        return Ok(Found::Rejected(text.to_owned()));
    }
    let parsed = kind.parse(&schema.text, &[&*schema.needed, imports].concat());
    Ok(parsed.map_or_else(|error| Found::Rejected(error.to_string()), Found::Schema))
}
