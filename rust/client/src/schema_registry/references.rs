//! The schemas that a schema needs: those that it refers to, those that these refer to, and so on.

use std::collections::HashMap;
use std::sync::Arc;

use super::schema::Link;
use super::{Inner, Reference, RegisteredSchema};
use crate::error::{Error, Result};

/// The most of them.
const MOST: usize = 256;

type Version = (String, i32);

/// The schemas that a schema needs.
#[derive(Debug, Default)]
pub(super) struct Needed {
    /// Their texts, each after those that it needs itself.
    pub(super) texts: Vec<String>,
    /// The references between these; the schema itself has the place behind the last.
    pub(super) links: Vec<Link>,
}

/// One whose references are being followed.
struct Open {
    of: Option<Version>,
    schema: Arc<RegisteredSchema>,
    next: usize,
}

/// Returns the schemas that `root` needs; `subject` is where it is registered, or empty for an id.
///
/// A reference is asked for although its subject was deleted: registries still answer ids that need it.
///
/// # Errors
/// One is not there, there are too many, or one needs itself.
pub(super) async fn needed(inner: &Arc<Inner>, root: &RegisteredSchema, subject: &str) -> Result<Needed> {
    let mut needed = Needed::default();
    if root.references.is_empty() {
        return Ok(needed);
    }
    // Its place, once it is complete.
    let mut met: HashMap<Version, Option<usize>> = HashMap::new();
    let mut open = vec![Open { of: None, schema: Arc::new(root.clone()), next: 0 }];
    while let Some(top) = open.last_mut() {
        let own = top.of.as_ref().map_or(subject, |(subject, _)| subject);
        let version = |reference: &Reference| (in_context_of(own, &reference.subject), reference.version);
        let Some(reference) = top.schema.references.get(top.next) else {
            let at = needed.texts.len();
            for reference in &top.schema.references {
                let Some(Some(to)) = met.get(&version(reference)) else {
                    return Err(Error::SchemaNotFound(format!("reference {} was not followed", reference.name)));
                };
                needed.links.push((at, reference.name.clone(), *to));
            }
            if let Some(Open { of: Some(version), schema, .. }) = open.pop() {
                met.insert(version, Some(at));
                needed.texts.push(schema.text.clone());
            }
            continue;
        };
        let version = version(reference);
        top.next += 1;
        match met.get(&version) {
            Some(Some(_)) => continue,
            Some(None) => return Err(circle(&open, &version)),
            None if met.len() >= MOST => {
                return Err(Error::SchemaNotFound(format!("the schema needs more than {MOST} others")));
            }
            None => (),
        }
        met.insert(version.clone(), None);
        let schema = inner.by_version(&version.0, version.1, true).await?;
        open.push(Open { of: Some(version), schema, next: 0 });
    }
    Ok(needed)
}

/// Returns a reference's subject, which is in the context of the schema that has it unless it names one.
fn in_context_of(subject: &str, reference: &str) -> String {
    match context_of(subject) {
        Some(context) if !reference.starts_with(":.") => format!("{context}{reference}"),
        _ => reference.to_owned(),
    }
}

/// Returns the context that a subject names, as `:.staging:`.
pub(super) fn context_of(subject: &str) -> Option<&str> {
    let end = subject.strip_prefix(":.")?.find(':')? + 3;
    subject.get(..end)
}

fn circle(open: &[Open], again: &Version) -> Error {
    let names = open.iter().filter_map(|open| open.of.as_ref()).chain([again]);
    let names: Vec<String> = names.map(|(subject, version)| format!("{subject} version {version}")).collect();
    Error::SchemaNotFound(format!("the schema's references make a circle: {}", names.join(" → ")))
}
