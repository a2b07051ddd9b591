//! A schema with some of its fields only.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::parse::join;
use super::schema::{Field, Kind, Members, Node, Record, members};
use crate::error::SchemaError;

/// The names that are wanted, and what of them; nothing below is all of it.
#[derive(Debug, Default)]
pub(crate) struct Wanted<'a>(BTreeMap<&'a str, Wanted<'a>>);

impl<'a> Wanted<'a> {
    /// Of these paths.
    pub(crate) fn of(fields: &'a [String]) -> Result<Wanted<'a>, SchemaError> {
        let mut wanted = Wanted::default();
        fields.iter().for_each(|field| wanted.add(field));
        if wanted.all() {
            return Err(SchemaError::new("", "fields names none: leave it out to have all"));
        }
        Ok(wanted)
    }

    /// Whether nothing is left out.
    pub(crate) fn all(&self) -> bool {
        self.0.is_empty()
    }

    /// What is wanted of this field.
    pub(crate) fn get(&self, name: &str) -> Option<&Wanted<'a>> {
        self.0.get(name)
    }

    /// All that are wanted are among these.
    pub(crate) fn check<'n>(&self, names: impl Iterator<Item = &'n str>, path: &str) -> Result<(), SchemaError> {
        known(self, names, path)
    }

    fn add(&mut self, path: &'a str) {
        let (name, rest) = path.split_once('.').unwrap_or((path, ""));
        let known = self.0.contains_key(name);
        let below = self.0.entry(name).or_default();
        match rest {
            // All of it is wanted, whatever else is of its parts.
            "" => below.0.clear(),
            rest if !known || !below.0.is_empty() => below.add(rest),
            _ => (),
        }
    }
}

pub(super) fn project(node: &Arc<Node>, fields: &[String]) -> Result<Arc<Node>, SchemaError> {
    pruned(node, &Wanted::of(fields)?, "")
}

fn pruned(node: &Arc<Node>, wanted: &Wanted<'_>, path: &str) -> Result<Arc<Node>, SchemaError> {
    if wanted.0.is_empty() {
        return Ok(Arc::clone(node));
    }
    let kind = match &node.kind {
        Kind::Array(item) => Kind::Array(pruned(item, wanted, path)?),
        Kind::Map(value) => Kind::Map(pruned(value, wanted, path)?),
        Kind::Record(record) => {
            known(wanted, record.fields.iter().map(|field| &*field.name), path)?;
            let kept = record.fields.iter().filter_map(|field| {
                let below = wanted.0.get(&*field.name)?;
                let node = pruned(&field.node, below, &join(path, &field.name));
                Some(node.map(|node| Field { node, ..field.clone() }))
            });
            Kind::Record(Record { name: record.name.clone(), fields: kept.collect::<Result<_, _>>()? })
        }
        Kind::Union(branches) => match members(branches) {
            (Members::One(one), _) => {
                let kept = pruned(one, wanted, path)?;
                let branch = |branch: &Arc<Node>| Arc::clone(if Arc::ptr_eq(branch, one) { &kept } else { branch });
                Kind::Union(branches.iter().map(branch).collect())
            }
            _ => return Err(SchemaError::new(path, "a union of several types is read as a whole")),
        },
        _ => return Err(SchemaError::new(path, format!("{} has no fields", node.described()))),
    };
    Ok(Arc::new(Node::new(kind, node.logical)))
}

fn known<'a>(wanted: &Wanted<'_>, names: impl Iterator<Item = &'a str>, path: &str) -> Result<(), SchemaError> {
    let names: Vec<_> = names.collect();
    match wanted.0.keys().find(|name| !names.contains(name)) {
        None => Ok(()),
        Some(name) => {
            let text = format!("there is no such field; there are {}", names.join(", "));
            Err(SchemaError::new(&join(path, name), text))
        }
    }
}
