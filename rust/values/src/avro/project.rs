//! Projection of a schema to some of its fields.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use super::parse::join;
use super::recursion::Named;
use super::schema::{Field, Kind, Members, Node, Record, members};
use crate::error::SchemaError;
use crate::path;

/// Selected field names and the selection below each; an empty selection selects everything.
#[derive(Debug, Default)]
pub(crate) struct Wanted<'a>(BTreeMap<Cow<'a, str>, Wanted<'a>>);

impl<'a> Wanted<'a> {
    pub(crate) fn of(fields: &'a [String]) -> Result<Self, SchemaError> {
        let mut wanted = Wanted::default();
        for field in fields {
            wanted.add(path::names(field)?.into_iter());
        }
        if wanted.is_all() {
            return Err(SchemaError::new("", "fields names none: leave it out to have all"));
        }
        Ok(wanted)
    }

    pub(crate) fn is_all(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the selection below a field, if it is selected.
    pub(crate) fn below(&self, name: &str) -> Option<&Self> {
        self.0.get(name)
    }

    fn add(&mut self, mut names: std::vec::IntoIter<Cow<'a, str>>) {
        // All of it is wanted, whatever else is of its parts.
        let Some(name) = names.next() else { return self.0.clear() };
        let known = self.0.contains_key(&name);
        let below = self.0.entry(name).or_default();
        if !known || !below.is_all() {
            below.add(names);
        }
    }
}

pub(super) fn project(node: &Arc<Node>, fields: &[String], named: &Named) -> Result<Arc<Node>, SchemaError> {
    pruned(node, &Wanted::of(fields)?, named, "")
}

fn pruned(node: &Arc<Node>, wanted: &Wanted<'_>, named: &Named, path: &str) -> Result<Arc<Node>, SchemaError> {
    if wanted.is_all() {
        return Ok(Arc::clone(node));
    }
    // Recursive types are expanded as deep as the paths lead.
    if let Kind::Again(name) = &node.kind
        && let Some(definition) = named.get(&name.full)
    {
        return pruned(definition, wanted, named, path);
    }
    let kind = match &node.kind {
        Kind::Array(item) => Kind::Array(pruned(item, wanted, named, path)?),
        Kind::Map(value) => Kind::Map(pruned(value, wanted, named, path)?),
        Kind::Record(record) => {
            known(wanted, record.fields.iter().map(|field| &*field.name), path)?;
            let kept = record.fields.iter().filter_map(|field| {
                let below = wanted.below(&field.name)?;
                let node = pruned(&field.node, below, named, &join(path, &field.name));
                Some(node.map(|node| Field { node, ..field.clone() }))
            });
            Kind::Record(Record { name: record.name.clone(), fields: kept.collect::<Result<_, _>>()? })
        }
        Kind::Union(branches) => match members(branches) {
            (Members::One(one), _) => {
                let kept = pruned(one, wanted, named, path)?;
                let branch = |branch: &Arc<Node>| Arc::clone(if Arc::ptr_eq(branch, one) { &kept } else { branch });
                Kind::Union(branches.iter().map(branch).collect())
            }
            _ => return Err(SchemaError::new(path, "a union of several types is read as a whole")),
        },
        _ => return Err(SchemaError::new(path, format!("{} has no fields", node.described()))),
    };
    Ok(Arc::new(Node::new(kind, node.logical)))
}

pub(crate) fn known<'a>(
    wanted: &Wanted<'_>,
    names: impl Iterator<Item = &'a str>,
    at: &str,
) -> Result<(), SchemaError> {
    let names: Vec<_> = names.collect();
    match wanted.0.keys().find(|name| !names.contains(&&***name)) {
        None => Ok(()),
        Some(name) => {
            let names: Vec<_> = names.into_iter().map(path::part).collect();
            let text = format!("there is no such field; there are {}", names.join(", "));
            Err(SchemaError::new(&join(at, &path::part(name)), text))
        }
    }
}
