//! Recursive types.

use std::cell::{Cell, OnceCell};
use std::collections::BTreeMap;
use std::sync::Arc;

use super::parse::{MAX_DEPTH, MAX_TYPES, checked, join};
use super::schema::{Field, Kind, Node, Record};
use super::skip::Skip;
use crate::error::SchemaError;

/// Recursive types of a schema, by full name.
pub(crate) type Named = BTreeMap<Arc<str>, Arc<Node>>;

/// Expands recursive types to a depth of `times` levels. Values below this depth have no columns.
pub(super) fn unrolled(root: &Arc<Node>, named: &Named, times: usize) -> Result<Arc<Node>, SchemaError> {
    Unrolling { named, times, types: 0, level: 0 }.node(root, times, "")
}

struct Unrolling<'a> {
    named: &'a Named,
    times: usize,
    types: usize,
    level: usize,
}

impl Unrolling<'_> {
    fn node(&mut self, node: &Arc<Node>, left: usize, path: &str) -> Result<Arc<Node>, SchemaError> {
        if !node.recursive {
            return Ok(Arc::clone(node));
        }
        self.types += 1;
        if self.types > MAX_TYPES || self.level > MAX_DEPTH {
            let text = format!("with {} levels it has more than {MAX_TYPES} types, or is too deep", self.times);
            return Err(SchemaError::new(path, text));
        }
        self.level += 1;
        let kind = match &node.kind {
            Kind::Array(item) => Kind::Array(self.node(item, left, path)?),
            Kind::Map(value) => Kind::Map(self.node(value, left, path)?),
            Kind::Record(record) => {
                let fields = record.fields.iter().map(|field| {
                    let node = self.node(&field.node, left, &join(path, &field.name))?;
                    Ok(Field { node, ..field.clone() })
                });
                let fields = fields.collect::<Result<_, SchemaError>>()?;
                Kind::Record(Record { name: record.name.clone(), fields })
            }
            Kind::Union(branches) => {
                Kind::Union(branches.iter().map(|branch| self.node(branch, left, path)).collect::<Result<_, _>>()?)
            }
            Kind::Again(name) if self.times == 0 => {
                let text = format!("{} contains itself, which no Arrow type does", name.full);
                let advice = "leave it out of `fields`, or give `recursion` the depth to which it is read";
                return Err(SchemaError::new(path, format!("{text}: {advice}")));
            }
            Kind::Again(name) => match (left.checked_sub(1), self.named.get(&name.full)) {
                (Some(left), Some(definition)) => {
                    let made = self.node(definition, left, path);
                    self.level -= 1;
                    return made;
                }
                _ => Kind::Deeper(name.clone(), self.times),
            },
            _ => return Ok(Arc::clone(node)),
        };
        self.level -= 1;
        checked(Node::new(kind, node.logical), path)
    }
}

/// Recursive types of the writer's schema, and the state of the schema resolution.
#[derive(Debug)]
pub(super) struct Definitions<'a> {
    named: &'a Named,
    places: BTreeMap<&'a str, usize>,
    /// Plan for skipping a value of each type.
    steps: OnceCell<Arc<[Skip]>>,
    /// Recursive types of the reader's schema, which defaults may need.
    pub(super) of_reader: &'a Named,
    attempts: Cell<usize>,
}

/// Maximum number of pairs of records whose fields are compared. Unions within records multiply the number of pairs.
const MAX_ATTEMPTS: usize = 100_000;

impl<'a> Definitions<'a> {
    pub(super) fn new(named: &'a Named, of_reader: &'a Named) -> Self {
        let places = named.keys().enumerate().map(|(at, name)| (&**name, at)).collect();
        Definitions { named, places, steps: OnceCell::new(), of_reader, attempts: Cell::new(0) }
    }

    /// Counts a pair of records whose fields are compared. Returns an error if there are too many pairs.
    pub(super) fn attempt(&self, path: &str) -> Result<(), SchemaError> {
        self.attempts.set(self.attempts.get().saturating_add(1));
        self.attempts_left().map_err(|error| SchemaError::new(path, error.text))
    }

    /// Returns an error if too many pairs of records were compared.
    pub(super) fn attempts_left(&self) -> Result<(), SchemaError> {
        if self.attempts.get() <= MAX_ATTEMPTS {
            return Ok(());
        }
        let text = "the unions of writer and reader have too many records of different full names to compare: give the \
                    reader's records the writer's names as aliases";
        Err(SchemaError::new("", text))
    }

    pub(super) fn get(&self, name: &str) -> Option<&'a Arc<Node>> {
        self.named.get(name)
    }

    pub(super) fn place(&self, name: &str) -> Option<usize> {
        self.places.get(name).copied()
    }

    pub(super) fn steps(&self) -> Arc<[Skip]> {
        Arc::clone(self.steps.get_or_init(|| self.named.values().map(|node| Skip::of(node, self)).collect()))
    }
}
