//! The schemas that a schema needs: those that it refers to, those that these refer to, and so on.

use std::collections::HashMap;
use std::sync::Arc;

use super::{Inner, RegisteredSchema};
use crate::error::{Error, Result};

/// The most of them.
const MOST: usize = 256;

type Version = (String, i32);

/// One whose references are being followed.
struct Open {
    of: Option<Version>,
    schema: Arc<RegisteredSchema>,
    next: usize,
}

/// Their texts, each after those that it needs itself.
///
/// # Errors
/// One is not there, there are too many, or one needs itself.
pub(super) async fn needed(inner: &Arc<Inner>, root: &RegisteredSchema) -> Result<Vec<String>> {
    if root.references.is_empty() {
        return Ok(Vec::new());
    }
    let mut needed = Vec::new();
    // Whether it is complete.
    let mut met: HashMap<Version, bool> = HashMap::new();
    let mut open = vec![Open { of: None, schema: Arc::new(root.clone()), next: 0 }];
    while let Some(top) = open.last_mut() {
        let Some(reference) = top.schema.references.get(top.next) else {
            if let Some(done) = open.pop()
                && let Some(version) = done.of
            {
                met.insert(version, true);
                needed.push(done.schema.text.clone());
            }
            continue;
        };
        let version = (reference.subject.clone(), reference.version);
        top.next += 1;
        match met.get(&version) {
            Some(true) => continue,
            Some(false) => return Err(circle(&open, &version)),
            None if met.len() >= MOST => {
                return Err(Error::SchemaNotFound(format!("the schema needs more than {MOST} others")));
            }
            None => (),
        }
        met.insert(version.clone(), false);
        let schema = inner.by_version(&version.0, version.1).await?;
        open.push(Open { of: Some(version), schema, next: 0 });
    }
    Ok(needed)
}

fn circle(open: &[Open], again: &Version) -> Error {
    let names = open.iter().filter_map(|open| open.of.as_ref()).chain([again]);
    let names: Vec<String> = names.map(|(subject, version)| format!("{subject} version {version}")).collect();
    Error::SchemaNotFound(format!("the schema's references make a circle: {}", names.join(" → ")))
}
