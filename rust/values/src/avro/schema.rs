//! Avro schema as a tree of types.

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
    /// Recursive types.
    pub(crate) named: Arc<Named>,
}

impl Schema {
    /// Parses the JSON text of a schema.
    ///
    /// # Errors
    /// Fails if the text is not a valid schema. The error contains the field.
    pub fn parse(text: &str) -> Result<Schema, SchemaError> {
        Self::parse_with(text, &[])
    }

    /// Parses a schema that refers to types of other schemas, such as the references of a schema in a registry. Each
    /// reference may itself refer to the references before it.
    ///
    /// # Errors
    /// Fails if the text or a reference is not a valid schema.
    pub fn parse_with(text: &str, references: &[String]) -> Result<Schema, SchemaError> {
        let (root, named) = parse::parse(text, references)?;
        Ok(Schema { root, named: Arc::new(named) })
    }

    /// Returns the schema with only the selected fields, such as `id` or `user.city`. A path continues through a list
    /// to its items, and through a map to its values.
    ///
    /// # Errors
    /// Fails if a selected field does not exist.
    pub fn project(&self, fields: &[String]) -> Result<Schema, SchemaError> {
        Ok(Schema { root: project::project(&self.root, fields, &self.named)?, named: Arc::clone(&self.named) })
    }

    /// Expands recursive types to a depth of `times` levels, because Arrow types cannot be recursive. Values below this
    /// depth have no columns.
    ///
    /// # Errors
    /// Fails if the schema is recursive and `times` is 0, or if the expanded schema is too large.
    pub fn unrolled(&self, times: usize) -> Result<Schema, SchemaError> {
        Ok(Schema { root: recursion::unrolled(&self.root, &self.named, times)?, named: Arc::clone(&self.named) })
    }

    /// Returns the full name, if the schema is a record, enum or fixed.
    pub fn name(&self) -> Option<&str> {
        self.root.name().map(|name| &*name.full)
    }

    /// Returns the CRC-64-AVRO of the canonical form.
    pub fn fingerprint(&self) -> u64 {
        canonical::fingerprint(&self.canonical())
    }

    /// Returns the Parsing Canonical Form.
    pub fn canonical(&self) -> String {
        let mut out = String::new();
        canonical::write(&self.root, &mut HashSet::new(), &mut out);
        out
    }
}

/// A type, including the types that it contains.
#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) kind: Kind,
    pub(crate) logical: Option<Logical>,
    /// Number of types in the tree, in which each use of a named type counts.
    pub(crate) types: usize,
    /// Depth of nested types.
    pub(crate) depth: usize,
    /// Minimum size of an encoded value in bytes. If it is 0, the encoding of each value is empty.
    pub(crate) min: usize,
    /// True if the type refers to an enclosing type.
    pub(crate) recursive: bool,
}

/// Avro types.
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
    /// Reference to an enclosing record.
    Again(Name),
    /// Recursive type at the end of the expansion, with the depth of the expansion.
    Deeper(Name, usize),
}

/// Name and aliases of a record, enum or fixed.
#[derive(Debug, Clone)]
pub(crate) struct Name {
    /// Full name, with the namespace.
    pub(crate) full: Arc<str>,
    /// Full names of aliases.
    pub(crate) aliases: Box<[Box<str>]>,
}

/// Returns a name without its namespace.
pub(crate) fn short(full: &str) -> &str {
    full.rsplit('.').next().unwrap_or(full)
}

impl Name {
    pub(crate) fn short(&self) -> &str {
        short(&self.full)
    }

    /// Returns true if a writer's type may be read as the type with this name: both have the same name in any
    /// namespaces, or the writer's name equals an alias.
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

/// Logical types.
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

    /// Returns the name, if the type is a named type.
    pub(crate) fn name(&self) -> Option<&Name> {
        match &self.kind {
            Kind::Fixed(name, _) | Kind::Enum(Enum { name, .. }) | Kind::Record(Record { name, .. }) => Some(name),
            Kind::Again(name) | Kind::Deeper(name, _) => Some(name),
            _ => None,
        }
    }

    /// Returns the name by which Avro refers to the type: the full name of a named type, otherwise the kind.
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

    /// Returns the kind and the name of the type, for error messages.
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

/// Representation of a union as a column, which depends on its branches other than null.
#[derive(Debug)]
pub(crate) enum Members<'a> {
    /// Only null.
    Null,
    /// A single type.
    One(&'a Arc<Node>),
    /// Several types other than null.
    Many(Vec<&'a Arc<Node>>),
}

/// Returns the branches other than null, and true if there is a branch null.
pub(crate) fn members(branches: &[Arc<Node>]) -> (Members<'_>, bool) {
    let values: Vec<_> = branches.iter().filter(|node| !matches!(node.kind, Kind::Null)).collect();
    let nullable = values.len() < branches.len();
    match *values {
        [] => (Members::Null, nullable),
        [one] => (Members::One(one), nullable),
        _ => (Members::Many(values), nullable),
    }
}

/// Returns the names of the fields in the struct for a union's members. A field has the name of the member's type. The
/// namespace is omitted if the name is unique without it.
pub(crate) fn member_names(members: &[&Arc<Node>]) -> Vec<String> {
    let shorts = || members.iter().map(|node| short(node.type_name()));
    let name = |node: &&Arc<Node>| {
        let own = short(node.type_name());
        if shorts().filter(|other| *other == own).count() == 1 { own } else { node.type_name() }.to_owned()
    };
    members.iter().map(name).collect()
}
