//! A schema as a tree.

use std::collections::HashSet;
use std::sync::Arc;

use arrow_schema::TimeUnit;
use serde_json::Value;

use super::recursion::Named;
use super::{canonical, parse, project, recursion};
use crate::error::SchemaError;

/// An Avro schema.
#[derive(Debug, Clone)]
pub struct Schema {
    pub(crate) root: Arc<Node>,
    /// What contains itself.
    pub(crate) named: Arc<Named>,
}

impl Schema {
    /// Reads a schema's JSON text.
    ///
    /// # Errors
    /// The text is no schema; the error names the field.
    pub fn parse(text: &str) -> Result<Schema, SchemaError> {
        Self::parse_with(text, &[])
    }

    /// The same where the text names types of other schemas, as references in a registry are. Each of these may name those
    /// of the ones before it.
    ///
    /// # Errors
    /// As [`Self::parse`], of any of them.
    pub fn parse_with(text: &str, needed: &[String]) -> Result<Schema, SchemaError> {
        let (root, named) = parse::parse(text, needed)?;
        Ok(Schema { root, named: Arc::new(named) })
    }

    /// The same with these fields only: `id`, `user.city`. A path goes through lists to their items and through maps to
    /// their values.
    ///
    /// # Errors
    /// There is no such field.
    pub fn project(&self, fields: &[String]) -> Result<Schema, SchemaError> {
        Ok(Schema { root: project::project(&self.root, fields, &self.named)?, named: Arc::clone(&self.named) })
    }

    /// The same with what contains itself followed so many times, as an Arrow type has to be: what is deeper has no columns.
    ///
    /// # Errors
    /// It contains itself, and is not to be followed; or it is too large then.
    pub fn unrolled(&self, times: usize) -> Result<Schema, SchemaError> {
        Ok(Schema { root: recursion::unrolled(&self.root, &self.named, times)?, named: Arc::clone(&self.named) })
    }

    /// The name with its namespace, if it is a record, an enum or a fixed.
    pub fn name(&self) -> Option<&str> {
        self.root.name().map(|name| &*name.full)
    }

    /// CRC-64-AVRO of the schema's canonical form.
    pub fn fingerprint(&self) -> u64 {
        canonical::fingerprint(&self.canonical())
    }

    /// What is left of the text when all is gone that makes no difference to the bytes of values.
    pub fn canonical(&self) -> String {
        let mut out = String::new();
        canonical::write(&self.root, &mut HashSet::new(), &mut out);
        out
    }
}

/// A type, and what is below it.
#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) kind: Kind,
    pub(crate) logical: Option<Logical>,
    /// How many types there are with this one and below, those of a name counted wherever it stands.
    pub(crate) types: usize,
    /// How many types are above each other.
    pub(crate) depth: usize,
    /// The fewest bytes of a value. If it is 0, no value has any.
    pub(crate) min: usize,
    /// Whether a name is below that stands for what it is within.
    pub(crate) recursive: bool,
}

/// Avro's types.
#[derive(Debug)]
pub(crate) enum Kind {
    Null,
    Boolean,
    Int,
    Long,
    Float,
    Double,
    Bytes,
    String,
    Fixed(Name, usize),
    Enum(Enum),
    Array(Arc<Node>),
    Map(Arc<Node>),
    Record(Record),
    Union(Box<[Arc<Node>]>),
    /// A record that this is within.
    Again(Name),
    /// One that is deeper than what is read, and how deep that is.
    Deeper(Name, usize),
}

/// The names of a record, enum or fixed.
#[derive(Debug, Clone)]
pub(crate) struct Name {
    /// With its namespace.
    pub(crate) full: Arc<str>,
    /// The same, of what it was called elsewhere.
    pub(crate) aliases: Box<[Box<str>]>,
}

/// A name without its namespace.
pub(crate) fn short(full: &str) -> &str {
    full.rsplit('.').next().unwrap_or(full)
}

impl Name {
    pub(crate) fn short(&self) -> &str {
        short(&self.full)
    }

    /// Whether a writer's type has this name, whatever its namespace, or one of its aliases.
    pub(crate) fn stands_for(&self, writer: &Name) -> bool {
        self.short() == writer.short()
            || self.aliases.iter().any(|alias| **alias == *writer.full || short(alias) == writer.short())
    }
}

#[derive(Debug)]
pub(crate) struct Enum {
    pub(crate) name: Name,
    pub(crate) symbols: Box<[Box<str>]>,
    pub(crate) default: Option<Box<str>>,
}

#[derive(Debug)]
pub(crate) struct Record {
    pub(crate) name: Name,
    pub(crate) fields: Box<[Field]>,
}

#[derive(Debug, Clone)]
pub(crate) struct Field {
    pub(crate) name: Arc<str>,
    pub(crate) aliases: Box<[Box<str>]>,
    pub(crate) node: Arc<Node>,
    pub(crate) default: Option<Value>,
}

/// What a type stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Logical {
    Decimal { precision: u8, scale: i8 },
    Uuid,
    Date,
    Time(TimeUnit),
    Timestamp(TimeUnit),
    LocalTimestamp(TimeUnit),
    Duration,
}

impl Node {
    pub(crate) fn new(kind: Kind, logical: Option<Logical>) -> Node {
        let below: Vec<&Arc<Node>> = match &kind {
            Kind::Array(item) | Kind::Map(item) => vec![item],
            Kind::Record(record) => record.fields.iter().map(|field| &field.node).collect(),
            Kind::Union(branches) => branches.iter().collect(),
            _ => Vec::new(),
        };
        let types = below.iter().fold(1, |sum: usize, node| sum.saturating_add(node.types));
        let depth = 1 + below.iter().map(|node| node.depth).max().unwrap_or(0);
        let min = match &kind {
            Kind::Null | Kind::Deeper(..) => 0,
            Kind::Fixed(_, size) => *size,
            Kind::Float => 4,
            Kind::Double => 8,
            Kind::Record(_) => below.iter().fold(0, |sum: usize, node| sum.saturating_add(node.min)),
            Kind::Union(_) => 1 + below.iter().map(|node| node.min).min().unwrap_or(0),
            _ => 1,
        };
        let recursive = matches!(kind, Kind::Again(_)) || below.iter().any(|node| node.recursive);
        Node { kind, logical, types, depth, min, recursive }
    }

    /// The name, if types of this kind have one.
    pub(crate) fn name(&self) -> Option<&Name> {
        match &self.kind {
            Kind::Fixed(name, _) | Kind::Enum(Enum { name, .. }) | Kind::Record(Record { name, .. }) => Some(name),
            Kind::Again(name) | Kind::Deeper(name, _) => Some(name),
            _ => None,
        }
    }

    /// What Avro calls it: the name, or that of the kind.
    pub(crate) fn type_name(&self) -> &str {
        match &self.kind {
            Kind::Null => "null",
            Kind::Boolean => "boolean",
            Kind::Int => "int",
            Kind::Long => "long",
            Kind::Float => "float",
            Kind::Double => "double",
            Kind::Bytes => "bytes",
            Kind::String => "string",
            Kind::Array(_) => "array",
            Kind::Map(_) => "map",
            Kind::Union(_) => "union",
            Kind::Fixed(..) | Kind::Enum(_) | Kind::Record(_) | Kind::Again(_) | Kind::Deeper(..) => {
                self.name().map_or("", |name| &name.full)
            }
        }
    }

    /// The kind and the name, for messages.
    pub(crate) fn described(&self) -> String {
        let kind = match &self.kind {
            Kind::Fixed(..) => "fixed ",
            Kind::Enum(_) => "enum ",
            Kind::Record(_) | Kind::Again(_) | Kind::Deeper(..) => "record ",
            _ => "",
        };
        format!("{kind}{}", self.type_name())
    }
}

/// What a union is in a column.
#[derive(Debug)]
pub(crate) enum Members<'a> {
    /// Nothing but null.
    Null,
    /// This type, or null if `nullable`.
    One(&'a Arc<Node>),
    /// One of these, which are not null.
    Many(Vec<&'a Arc<Node>>),
}

/// The branches of a union without null, and whether that is among them.
pub(crate) fn members(branches: &[Arc<Node>]) -> (Members<'_>, bool) {
    let values: Vec<_> = branches.iter().filter(|node| !matches!(node.kind, Kind::Null)).collect();
    let nullable = values.len() < branches.len();
    match *values {
        [] => (Members::Null, nullable),
        [one] => (Members::One(one), nullable),
        _ => (Members::Many(values), nullable),
    }
}

/// The names of a union's members in the struct that it becomes: of their types, without namespaces where that is clear.
pub(crate) fn member_names(members: &[&Arc<Node>]) -> Vec<String> {
    let shorts = || members.iter().map(|node| short(node.type_name()));
    let name = |node: &&Arc<Node>| {
        let own = short(node.type_name());
        if shorts().filter(|other| *other == own).count() == 1 { own } else { node.type_name() }.to_owned()
    };
    members.iter().map(name).collect()
}
