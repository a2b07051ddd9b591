//! Fetches the schemas that a schema references, directly or indirectly.

use std::sync::Arc;

use super::schema::Link;
use super::{Inner, Reference, RegisteredSchema};
use crate::collections::HashMap;
use crate::error::{Error, Result};

/// Maximum number of schemas that a schema may reference, directly or indirectly.
const MAX_REFERENCES: usize = 256;

type Version = (String, i32);

/// All schemas that a schema references, directly or indirectly.
#[derive(Debug, Default)]
pub(super) struct Needed {
    /// Schema texts in dependency order: each text comes after the texts that it references.
    pub(super) texts: Vec<String>,
    /// References between these texts. The schema itself has the index `texts.len()`.
    pub(super) links: Vec<Link>,
}

/// Schema whose references are being resolved.
struct PendingSchema {
    version: Option<Version>,
    schema: Arc<RegisteredSchema>,
    next: usize,
}

/// Returns the schemas that `root` references. `subject` is the subject under which `root` is registered, or empty if
/// `root` was looked up by id.
///
/// References to soft-deleted subjects are resolved too, because registries still return schemas that use them.
///
/// # Errors
/// Fails if a referenced schema does not exist, if there are too many, or if they reference each other in a cycle.
pub(super) async fn needed(inner: &Arc<Inner>, root: &RegisteredSchema, subject: &str) -> Result<Needed> {
    let mut needed = Needed::default();
    if root.references.is_empty() {
        return Ok(needed);
    }
    // Index of each visited schema; `None` until all of its references are resolved.
    let mut visited: HashMap<Version, Option<usize>> = HashMap::default();
    let mut open = vec![PendingSchema { version: None, schema: Arc::new(root.clone()), next: 0 }];
    while let Some(top) = open.last_mut() {
        let own_subject = top.version.as_ref().map_or(subject, |(subject, _)| subject);
        let version = |reference: &Reference| (in_context_of(own_subject, &reference.subject), reference.version);
        let Some(reference) = top.schema.references.get(top.next) else {
            let index = needed.texts.len();
            for reference in &top.schema.references {
                let Some(Some(to)) = visited.get(&version(reference)) else {
                    return Err(Error::SchemaNotFound(format!("reference {} was not followed", reference.name)));
                };
                needed.links.push((index, reference.name.clone(), *to));
            }
            if let Some(PendingSchema { version: Some(version), schema, .. }) = open.pop() {
                visited.insert(version, Some(index));
                needed.texts.push(schema.text.clone());
            }
            continue;
        };
        let version = version(reference);
        top.next += 1;
        match visited.get(&version) {
            Some(Some(_)) => continue,
            Some(None) => return Err(cycle_error(&open, &version)),
            None if visited.len() >= MAX_REFERENCES => {
                return Err(Error::SchemaNotFound(format!("the schema needs more than {MAX_REFERENCES} others")));
            }
            None => (),
        }
        visited.insert(version.clone(), None);
        let schema = inner.by_version(&version.0, version.1, true).await?;
        open.push(PendingSchema { version: Some(version), schema, next: 0 });
    }
    Ok(needed)
}

/// Returns the full subject of a reference. Unless the reference names a context, it is in the context of the
/// referencing schema.
fn in_context_of(subject: &str, reference: &str) -> String {
    match context_of(subject) {
        Some(context) if !reference.starts_with(":.") => format!("{context}{reference}"),
        _ => reference.to_owned(),
    }
}

/// Returns the context prefix of a subject, such as `:.staging:`.
pub(super) fn context_of(subject: &str) -> Option<&str> {
    let end = subject.strip_prefix(":.")?.find(':')? + 3;
    subject.get(..end)
}

fn cycle_error(open: &[PendingSchema], repeated: &Version) -> Error {
    let names = open.iter().filter_map(|open| open.version.as_ref()).chain([repeated]);
    let names: Vec<String> = names.map(|(subject, version)| format!("{subject} version {version}")).collect();
    Error::SchemaNotFound(format!("the schema's references make a circle: {}", names.join(" → ")))
}
