//! Projection of a schema: only selected fields are decoded.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use super::parse::join;
use super::recursion::Named;
use super::schema::{Field, Kind, Members, Node, Record, members};
use crate::error::SchemaError;
use crate::path;

/// Names of the selected fields, with the selection within each field. An empty selection selects everything.
#[derive(Debug, Default)]
pub(crate) struct Projection<'a>(BTreeMap<Cow<'a, str>, Projection<'a>>);

impl<'a> Projection<'a> {
    pub(crate) fn of(fields: &'a [String]) -> Result<Self, SchemaError> {
        let mut projection = Projection::default();
        for field in fields {
            projection.add(path::names(field)?.into_iter());
        }
        if projection.is_all() {
            return Err(SchemaError::new("", "fields is empty: leave it out to read all"));
        }
        Ok(projection)
    }

    pub(crate) fn is_all(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the selection within a field; `None` if the field is not selected.
    pub(crate) fn below(&self, name: &str) -> Option<&Self> {
        self.0.get(name)
    }

    fn add(&mut self, mut names: std::vec::IntoIter<Cow<'a, str>>) {
        // The path selects the whole field, even if other paths select only parts of the field.
        let Some(name) = names.next() else { return self.0.clear() };
        let known = self.0.contains_key(&name);
        let below = self.0.entry(name).or_default();
        if !known || !below.is_all() {
            below.add(names);
        }
    }
}

pub(super) fn project(node: &Arc<Node>, fields: &[String], named: &Named) -> Result<Arc<Node>, SchemaError> {
    prune(node, &Projection::of(fields)?, named, "")
}

fn prune(node: &Arc<Node>, projection: &Projection<'_>, named: &Named, path: &str) -> Result<Arc<Node>, SchemaError> {
    if projection.is_all() {
        return Ok(Arc::clone(node));
    }
    // Expand a recursive type as deep as the paths require.
    if let Kind::Again(name) = &node.kind
        && let Some(definition) = named.get(&name.full)
    {
        return prune(definition, projection, named, path);
    }
    let kind = match &node.kind {
        Kind::Array(item) => Kind::Array(prune(item, projection, named, path)?),
        Kind::Map(value) => Kind::Map(prune(value, projection, named, path)?),
        Kind::Record(record) => {
            check_names(projection, record.fields.iter().map(|field| &*field.name), path)?;
            let kept = record.fields.iter().filter_map(|field| {
                let below = projection.below(&field.name)?;
                let node = prune(&field.node, below, named, &join(path, &field.name));
                Some(node.map(|node| Field { node, ..field.clone() }))
            });
            Kind::Record(Record { name: record.name.clone(), fields: kept.collect::<Result<_, _>>()? })
        }
        Kind::Union(branches) => match members(branches) {
            (Members::One(one), _) => {
                let kept = prune(one, projection, named, path)?;
                let branch = |branch: &Arc<Node>| Arc::clone(if Arc::ptr_eq(branch, one) { &kept } else { branch });
                Kind::Union(branches.iter().map(branch).collect())
            }
            _ => return Err(SchemaError::new(path, "a union of several types is read as a whole")),
        },
        _ => return Err(SchemaError::new(path, format!("{} has no fields", node.described()))),
    };
    Ok(Arc::new(Node::new(kind, node.logical)))
}

pub(crate) fn check_names<'a>(
    projection: &Projection<'_>,
    names: impl Iterator<Item = &'a str>,
    at: &str,
) -> Result<(), SchemaError> {
    let names: Vec<_> = names.collect();
    match projection.0.keys().find(|name| !names.contains(&&***name)) {
        None => Ok(()),
        Some(name) => {
            let names: Vec<_> = names.into_iter().map(path::part).collect();
            let text = format!("there is no such field; there are {}", names.join(", "));
            Err(SchemaError::new(&join(at, &path::part(name)), text))
        }
    }
}
