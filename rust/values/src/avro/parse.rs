//! Parser of Avro schemas.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use serde_json::{Map, Value};

use super::logical;
use super::recursion::Named;
use super::schema::{Enum, Field, Kind, Name, Node, Record, short};
use crate::error::SchemaError;

/// Maximum length of a schema's text in bytes.
const MAX_TEXT: usize = 16 << 20;
/// Maximum number of types in a schema. Each use of a named type counts, because each use has columns of its own.
pub(super) const MAX_TYPES: usize = 100_000;
/// Maximum depth of nested types.
pub(super) const MAX_DEPTH: usize = 128;

/// Parses a schema that may refer to types of the schemas in `references`. Each reference may itself refer to the
/// references before it.
pub(super) fn parse(text: &str, references: &[String]) -> Result<(Arc<Node>, Named), SchemaError> {
    let mut parser = Parser::default();
    for other in references {
        parser.text(other)?;
    }
    let root = parser.text(text)?;
    let Parser { named, again } = parser;
    let recursive = named.into_iter().filter(|(name, _)| again.contains(name));
    Ok((root, recursive.filter_map(|(name, node)| Some((name, node?))).collect()))
}

fn read(text: &str) -> Result<Value, SchemaError> {
    if text.len() > MAX_TEXT {
        return Err(SchemaError::new(
            "",
            format!("the schema has {} bytes, and at most {MAX_TEXT} may be", text.len()),
        ));
    }
    // The name of a primitive type is also a schema. Registries return it without quotation marks.
    if primitive(text.trim()).is_some() {
        return Ok(Value::String(text.trim().to_owned()));
    }
    serde_json::from_str(text).map_err(|error| SchemaError::new("", format!("the schema is no JSON: {error}")))
}

#[derive(Debug, Default)]
struct Parser {
    /// Types by full name; `None` for an enclosing type that is still being parsed.
    named: HashMap<Arc<str>, Option<Arc<Node>>>,
    /// Names of types that refer to themselves.
    again: HashSet<Arc<str>>,
}

impl Parser {
    fn text(&mut self, text: &str) -> Result<Arc<Node>, SchemaError> {
        self.node(&read(text)?, "", "")
    }

    fn node(&mut self, json: &Value, namespace: &str, path: &str) -> Result<Arc<Node>, SchemaError> {
        match json {
            Value::String(name) => match primitive(name) {
                Some(kind) => checked(Node::new(kind, None), path),
                None => self.reference(name, namespace, path),
            },
            Value::Array(branches) => self.union(branches, namespace, path),
            Value::Object(object) => self.object(object, namespace, path),
            other => Err(SchemaError::new(path, format!("{other} is no type"))),
        }
    }

    fn reference(&mut self, name: &str, namespace: &str, path: &str) -> Result<Arc<Node>, SchemaError> {
        let full = full_name(name, namespace);
        match self.named.get_key_value(&*full).or_else(|| self.named.get_key_value(name)) {
            Some((_, Some(node))) => Ok(Arc::clone(node)),
            Some((full, None)) => {
                let full = Arc::clone(full);
                self.again.insert(Arc::clone(&full));
                checked(Node::new(Kind::Again(Name { full, aliases: Box::default() }), None), path)
            }
            None => Err(SchemaError::new(path, format!("there is no type {full}"))),
        }
    }

    fn union(&mut self, branches: &[Value], namespace: &str, path: &str) -> Result<Arc<Node>, SchemaError> {
        let nodes: Vec<_> =
            branches.iter().map(|branch| self.node(branch, namespace, path)).collect::<Result<_, _>>()?;
        if nodes.is_empty() {
            return Err(SchemaError::new(path, "a union has no types"));
        }
        for (at, node) in nodes.iter().enumerate() {
            if matches!(node.kind, Kind::Union(_)) {
                return Err(SchemaError::new(path, "a union is directly within a union"));
            }
            if nodes.iter().take(at).any(|other| other.type_name() == node.type_name()) {
                return Err(SchemaError::new(path, format!("a union has {} twice", node.type_name())));
            }
        }
        checked(Node::new(Kind::Union(nodes.into()), None), path)
    }

    fn object(&mut self, object: &Map<String, Value>, namespace: &str, path: &str) -> Result<Arc<Node>, SchemaError> {
        let name = match object.get("type") {
            Some(Value::String(name)) => name.as_str(),
            Some(nested @ (Value::Object(_) | Value::Array(_))) => return self.node(nested, namespace, path),
            _ => return Err(SchemaError::new(path, "a type has no \"type\"")),
        };
        let kind = match name {
            "array" => Kind::Array(self.below(object, "items", namespace, path)?),
            "map" => Kind::Map(self.below(object, "values", namespace, path)?),
            "record" | "error" | "enum" | "fixed" => return self.definition(name, object, namespace, path),
            _ => match primitive(name) {
                Some(kind) => kind,
                None => return self.reference(name, namespace, path),
            },
        };
        let logical = logical::of(&kind, object, path)?;
        checked(Node::new(kind, logical), path)
    }

    fn below(
        &mut self,
        object: &Map<String, Value>,
        key: &str,
        namespace: &str,
        path: &str,
    ) -> Result<Arc<Node>, SchemaError> {
        match object.get(key) {
            Some(json) => self.node(json, namespace, path),
            None => Err(SchemaError::new(path, format!("a type has no {key:?}"))),
        }
    }

    fn definition(
        &mut self,
        kind: &str,
        object: &Map<String, Value>,
        namespace: &str,
        path: &str,
    ) -> Result<Arc<Node>, SchemaError> {
        let name = name_of(object, namespace, path)?;
        if primitive(&name.full).is_some() || self.named.insert(Arc::clone(&name.full), None).is_some() {
            return Err(SchemaError::new(path, format!("the name {} is taken", name.full)));
        }
        let full = Arc::clone(&name.full);
        let inner = full.rsplit_once('.').map_or("", |(space, _)| space);
        let kind = match kind {
            "fixed" => Kind::Fixed(name, size_of(object, path)?),
            "enum" => Kind::Enum(enum_of(name, object, path)?),
            _ => {
                let fields = self.fields(object, inner, path)?;
                Kind::Record(Record { name, fields })
            }
        };
        let logical = logical::of(&kind, object, path)?;
        let node = checked(Node::new(kind, logical), path)?;
        self.named.insert(full, Some(Arc::clone(&node)));
        Ok(node)
    }

    fn fields(
        &mut self,
        object: &Map<String, Value>,
        namespace: &str,
        path: &str,
    ) -> Result<Box<[Field]>, SchemaError> {
        let Some(Value::Array(fields)) = object.get("fields") else {
            return Err(SchemaError::new(path, "a record has no \"fields\""));
        };
        let mut read: Vec<Field> = Vec::new();
        let mut names = HashSet::new();
        for field in fields {
            let Some(name) = field.get("name").and_then(Value::as_str).filter(|name| !name.is_empty()) else {
                return Err(SchemaError::new(path, "a field has no name"));
            };
            let at = join(path, name);
            if !names.insert(name) {
                return Err(SchemaError::new(&at, "a record has two fields of this name"));
            }
            let Some(of) = field.get("type") else { return Err(SchemaError::new(&at, "a field has no type")) };
            // Some writers produce fields such as `{"name": "a", "type": "array", "items": "int"}`, which Avro has
            // never allowed.
            let loose = matches!(of.as_str(), Some("array" | "map" | "record" | "enum" | "fixed"));
            let node = self.node(if loose { field } else { of }, namespace, &at)?;
            let aliases = texts(field.get("aliases"));
            read.push(Field { name: name.into(), aliases, node, default: field.get("default").cloned() });
        }
        Ok(read.into())
    }
}

/// Returns the path of the field `name` below `path`.
pub(super) fn join(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
}

/// Checks that a type does not exceed the limits of nesting and size.
pub(super) fn checked(node: Node, path: &str) -> Result<Arc<Node>, SchemaError> {
    if node.types > MAX_TYPES {
        return Err(SchemaError::new(path, format!("the schema has more than {MAX_TYPES} types")));
    }
    if node.depth > MAX_DEPTH {
        return Err(SchemaError::new(path, format!("the schema is more than {MAX_DEPTH} types deep")));
    }
    Ok(Arc::new(node))
}

fn primitive(name: &str) -> Option<Kind> {
    Some(match name {
        "null" => Kind::Null,
        "boolean" => Kind::Boolean,
        "int" => Kind::Int,
        "long" => Kind::Long,
        "float" => Kind::Float,
        "double" => Kind::Double,
        "bytes" => Kind::Bytes,
        "string" => Kind::String,
        _ => return None,
    })
}

fn full_name(name: &str, namespace: &str) -> Box<str> {
    match name.strip_prefix('.') {
        // All leading dots are removed. If one remained, the name would change when the canonical form is parsed.
        Some(bare) => bare.trim_start_matches('.').into(),
        None if name.contains('.') || namespace.is_empty() => name.into(),
        None => format!("{namespace}.{name}").into(),
    }
}

fn name_of(object: &Map<String, Value>, namespace: &str, path: &str) -> Result<Name, SchemaError> {
    let Some(name) = object.get("name").and_then(Value::as_str).filter(|name| !short(name).is_empty()) else {
        return Err(SchemaError::new(path, "a record, enum or fixed has no name"));
    };
    let own = object.get("namespace").and_then(Value::as_str).unwrap_or(namespace).trim_start_matches('.');
    let full = full_name(name, own);
    let space = full.rsplit_once('.').map_or("", |(space, _)| space);
    let aliases = texts(object.get("aliases")).iter().map(|alias| full_name(alias, space)).collect();
    Ok(Name { full: full.into(), aliases })
}

fn texts(json: Option<&Value>) -> Box<[Box<str>]> {
    let texts = json.and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    texts.iter().filter_map(Value::as_str).map(Box::from).collect()
}

fn size_of(object: &Map<String, Value>, path: &str) -> Result<usize, SchemaError> {
    let size = object.get("size").and_then(Value::as_u64).and_then(|size| i32::try_from(size).ok());
    size.map(|size| size as usize).ok_or_else(|| SchemaError::new(path, "a fixed has no size, or one that cannot be"))
}

fn enum_of(name: Name, object: &Map<String, Value>, path: &str) -> Result<Enum, SchemaError> {
    let symbols = texts(object.get("symbols"));
    let given = object.get("symbols").and_then(Value::as_array).map_or(0, Vec::len);
    if symbols.is_empty() || symbols.len() != given {
        return Err(SchemaError::new(path, "an enum has no symbols, or some that are no texts"));
    }
    let mut seen = HashSet::new();
    if let Some(twice) = symbols.iter().find(|symbol| !seen.insert(&***symbol)) {
        return Err(SchemaError::new(path, format!("an enum has the symbol {twice} twice")));
    }
    let default = match object.get("default") {
        None => None,
        Some(Value::String(default)) if symbols.iter().any(|symbol| **symbol == **default) => {
            Some(default.as_str().into())
        }
        Some(other) => {
            return Err(SchemaError::new(path, format!("the enum's default {other} is not one of its symbols")));
        }
    };
    Ok(Enum { name, symbols, default })
}
