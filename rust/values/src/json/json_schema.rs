//! Conversion of JSON Schema into an Arrow type. Supports the common subset of drafts 4 to 2020-12, and Kafka Connect's
//! extensions.

use std::sync::Arc;

use arrow_schema::{DataType, Field, Fields, TimeUnit};

use super::plan::{MAX_TYPES, join};
use super::schema::{base64_decimal, full_time, json_field, omitted};
use super::uri;
use super::value::JsonValue;
use crate::arrow_types::NARROW_DIGITS;
use crate::error::SchemaError;

const MAX_DEPTH: usize = 128;

/// Index of the referring schema, name of the reference in the registry, and index of the referenced schema.
type Link = (usize, String, usize);

/// Returns the field that a schema describes. Values without an equivalent Arrow type are stored as JSON text.
pub(super) fn field(text: &str, references: &[String], links: &[Link]) -> Result<Field, SchemaError> {
    let texts = references.iter().map(String::as_str).chain([text]);
    let documents = texts.map(JsonValue::parse).collect::<Result<Vec<_>, _>>()?;
    let Some(root) = documents.last() else { return Err(SchemaError::new("", "there is no schema")) };
    let at = SchemaRef { schema: root, document: references.len() };
    Converter { documents: &documents, links, open: vec![root], types: 0 }.field("", at, Presence::REQUIRED, "", 0)
}

/// Specifies whether a value may be missing or null.
#[derive(Clone, Copy)]
struct Presence {
    /// True if the member may be missing.
    optional: bool,
    /// True if the column is nullable.
    null: bool,
    /// True if null is also a valid value. For example, `{"type": ["string", "null"], "enum": ["a"]}` has the type
    /// null, but does not accept null.
    valid: bool,
}

impl Presence {
    const REQUIRED: Presence = Presence { optional: false, null: false, valid: false };

    fn or(self, null: bool, valid: bool) -> Presence {
        Presence { null: self.null || null, valid: self.valid || valid, ..self }
    }

    fn nullable(self) -> bool {
        self.optional || self.null
    }

    /// Marks a field whose null must be omitted from objects instead of being written as null.
    fn mark(self, field: Field) -> Field {
        if self.optional && !self.valid { omitted(field) } else { field }
    }
}

/// A schema, and the index of its document.
#[derive(Clone, Copy)]
struct SchemaRef<'a> {
    schema: &'a JsonValue,
    document: usize,
}

impl<'a> SchemaRef<'a> {
    fn of(self, schema: &'a JsonValue) -> SchemaRef<'a> {
        SchemaRef { schema, ..self }
    }
}

struct Converter<'a> {
    /// The referenced schemas, followed by the schema itself.
    documents: &'a [JsonValue],
    links: &'a [Link],
    /// Schemas that are being converted. A reference to one of them is recursive.
    open: Vec<&'a JsonValue>,
    types: usize,
}

impl<'a> Converter<'a> {
    fn field(
        &mut self,
        name: &str,
        at: SchemaRef<'a>,
        presence: Presence,
        path: &str,
        depth: usize,
    ) -> Result<Field, SchemaError> {
        self.types += 1;
        if self.types > MAX_TYPES || depth > MAX_DEPTH {
            let text = format!("a schema has at most {MAX_TYPES} types, nested {MAX_DEPTH} deep");
            return Err(SchemaError::new(path, text));
        }
        let schema = at.schema;
        match schema {
            JsonValue::Object(_) => (),
            JsonValue::Bool(_) => return Ok(json_field(name, true)),
            _ => return Err(SchemaError::new(path, "a schema is an object, true or false")),
        }
        if let Some(reference) = schema.get("$ref").and_then(JsonValue::text) {
            let to = self.resolve(reference, at, path)?;
            if self.open.iter().any(|open| std::ptr::eq(*open, to.schema)) {
                return Ok(presence.mark(json_field(name, presence.nullable())));
            }
            self.open.push(to.schema);
            let found = self.field(name, to, presence, path, depth + 1);
            self.open.pop();
            return found;
        }
        let types: Vec<&str> = match schema.get("type") {
            Some(JsonValue::String(one)) => vec![one],
            Some(JsonValue::List(many)) => many.iter().filter_map(JsonValue::text).collect(),
            _ => Vec::new(),
        };
        let null = types.contains(&"null") || schema.get("nullable") == Some(&JsonValue::Bool(true));
        let presence = presence.or(null, accepts_null(schema, &types));
        let kinds: Vec<&str> = types.iter().copied().filter(|kind| *kind != "null").collect();
        let kind = match &*kinds {
            [] if !types.is_empty() => return Ok(Field::new(name, DataType::Null, true)),
            [one] => *one,
            ["integer", "number"] | ["number", "integer"] => "number",
            [] => match self.implied(schema) {
                Implied::Kind(kind) => kind,
                Implied::Branch(branch, null) => {
                    return self.field(name, at.of(branch), presence.or(null, null), path, depth + 1);
                }
                Implied::Any => "",
            },
            _ => "",
        };
        let data_type = match kind {
            "object" => self.object(at, path, depth)?,
            "array" => match schema.get("items") {
                Some(JsonValue::List(_)) => None,
                _ if schema.get("prefixItems").is_some() => None,
                Some(items) => {
                    let item = self.field("item", at.of(items), Presence::REQUIRED, path, depth + 1)?;
                    Some(DataType::List(Arc::new(item)))
                }
                None => Some(DataType::List(Arc::new(json_field("item", true)))),
            },
            "string" | "integer" | "number" | "boolean" => {
                let field = scalar(name, kind, schema, presence.nullable(), path)?;
                return Ok(presence.mark(field));
            }
            _ => None,
        };
        Ok(presence.mark(match data_type {
            Some(data_type) => Field::new(name, data_type, presence.nullable()),
            None => json_field(name, presence.nullable()),
        }))
    }

    /// Returns the type that other keywords of a schema imply if the keyword `type` is missing.
    fn implied(&self, schema: &'a JsonValue) -> Implied<'a> {
        for name in ["oneOf", "anyOf", "allOf"] {
            let Some(JsonValue::List(branches)) = schema.get(name) else { continue };
            let is_null = |branch: &&JsonValue| branch.get("type").and_then(JsonValue::text) == Some("null");
            let mut others = branches.iter().filter(|branch| !is_null(branch));
            return match (others.next(), others.next()) {
                (Some(one), None) => Implied::Branch(one, branches.len() > 1),
                _ => Implied::Any,
            };
        }
        match schema.get("enum") {
            Some(JsonValue::List(values)) if values.iter().all(|value| value.text().is_some()) => {
                Implied::Kind("string")
            }
            None if matches!(schema.get("const"), Some(JsonValue::String(_))) => Implied::Kind("string"),
            None if schema.get("properties").is_some() => Implied::Kind("object"),
            None if schema.get("items").is_some() => Implied::Kind("array"),
            _ => Implied::Any,
        }
    }

    fn object(&mut self, at: SchemaRef<'a>, path: &str, depth: usize) -> Result<Option<DataType>, SchemaError> {
        if let Some(JsonValue::Object(properties)) = at.schema.get("properties")
            && !properties.is_empty()
        {
            let required: Vec<&str> = match at.schema.get("required") {
                Some(JsonValue::List(names)) => names.iter().filter_map(JsonValue::text).collect(),
                _ => Vec::new(),
            };
            let mut properties: Vec<_> = properties.iter().collect();
            // Restore Kafka Connect's order, because its serializer sorts the names alphabetically.
            properties.sort_by_key(|(_, schema)| number(schema.get("connect.index")).unwrap_or(i64::MAX));
            let mut fields = Vec::new();
            for (name, schema) in properties {
                let presence = Presence { optional: !required.contains(&name.as_str()), ..Presence::REQUIRED };
                fields.push(self.field(name, at.of(schema), presence, &join(path, name), depth + 1)?);
            }
            return Ok(Some(DataType::Struct(fields.into())));
        }
        match at.schema.get("additionalProperties") {
            Some(values @ JsonValue::Object(_)) => {
                let value = self.field("value", at.of(values), Presence::REQUIRED, path, depth + 1)?;
                let entries = Fields::from(vec![Field::new("key", DataType::Utf8, false), value]);
                let entries = Field::new("entries", DataType::Struct(entries), false);
                Ok(Some(DataType::Map(Arc::new(entries), false)))
            }
            _ => Ok(None),
        }
    }

    fn resolve(&self, reference: &str, at: SchemaRef<'a>, path: &str) -> Result<SchemaRef<'a>, SchemaError> {
        let (base, fragment) = reference.split_once('#').unwrap_or((reference, ""));
        let document = if base.is_empty() { Some(at.document) } else { self.document(base, at.document) };
        let found = document.and_then(|document| {
            let schema = self.documents.get(document)?;
            let schema = match fragment {
                "" => Some(schema),
                pointer if pointer.starts_with('/') => schema.at(&uri::percent_decode(pointer)?),
                anchor => schema.anchor(anchor),
            };
            Some(SchemaRef { schema: schema?, document })
        });
        found.ok_or_else(|| {
            let text = format!(
                "$ref {reference:?} leads to nothing in this schema, nor in one of its references by their names or by $id"
            );
            SchemaError::new(path, text)
        })
    }

    /// Returns the document to which a reference leads: the registered reference with this name or, if there is none,
    /// the document with this `$id`.
    fn document(&self, name: &str, from: usize) -> Option<usize> {
        let absolute = uri::resolve_reference(self.id(from).unwrap_or_default(), name);
        for name in [name, &absolute] {
            if let Some((.., to)) = self.links.iter().find(|(by, known, _)| *by == from && known == name) {
                return Some(*to);
            }
        }
        let all = || (0..self.documents.len()).filter_map(|at| Some((at, self.id(at)?)));
        if let Some((at, _)) = all().find(|(_, id)| *id == absolute) {
            return Some(at);
        }
        // The name may also be the last segment of an `$id`, if only one document has such an `$id`.
        let mut ends = all().filter(|(_, id)| id.rsplit('/').next() == Some(name));
        ends.next().filter(|_| ends.next().is_none()).map(|(at, _)| at)
    }

    fn id(&self, document: usize) -> Option<&'a str> {
        let schema = self.documents.get(document)?;
        let id = schema.get("$id").or_else(|| schema.get("id")).and_then(JsonValue::text)?;
        Some(id.trim_end_matches('#'))
    }
}

/// Returns true if the keywords of the schema itself clearly accept null.
fn accepts_null(schema: &JsonValue, types: &[&str]) -> bool {
    let listed = match (schema.get("enum"), schema.get("const")) {
        (Some(JsonValue::List(values)), _) => values.contains(&JsonValue::Null),
        (_, Some(only)) => *only == JsonValue::Null,
        _ => true,
    };
    let is_null = |branch: &JsonValue| branch.get("type").and_then(JsonValue::text) == Some("null");
    let branches: Vec<&JsonValue> =
        ["oneOf", "anyOf", "allOf", "not", "if"].iter().filter_map(|name| schema.get(name)).collect();
    let by_branches = match &*branches {
        [] => true,
        [JsonValue::List(branches)] => schema.get("allOf").is_none() && branches.iter().any(is_null),
        _ => false,
    };
    let typed = types.is_empty() || types.contains(&"null") || schema.get("nullable") == Some(&JsonValue::Bool(true));
    typed && listed && by_branches
}

enum Implied<'a> {
    Kind(&'static str),
    /// The only branch other than null, and true if null is one of the branches.
    Branch(&'a JsonValue, bool),
    Any,
}

fn scalar(name: &str, kind: &str, schema: &JsonValue, nullable: bool, path: &str) -> Result<Field, SchemaError> {
    let utc = |unit| DataType::Timestamp(unit, Some("UTC".into()));
    let text = |name: &str| schema.get(name).and_then(JsonValue::text).unwrap_or_default();
    let connect = text("title").strip_prefix("org.apache.kafka.connect.data.").unwrap_or_default();
    let data_type = match (kind, connect, text("connect.type"), text("format")) {
        ("number" | "string", "Decimal", ..) => {
            let field = Field::new(name, decimal(schema, path)?, nullable);
            return Ok(if kind == "string" { base64_decimal(field) } else { field });
        }
        ("integer", "Date", ..) => DataType::Date32,
        ("integer", "Time", ..) => DataType::Time32(TimeUnit::Millisecond),
        ("integer", "Timestamp", ..) => utc(TimeUnit::Millisecond),
        ("integer", _, "int8", _) => DataType::Int8,
        ("integer", _, "int16", _) => DataType::Int16,
        ("integer", _, "int32", _) => DataType::Int32,
        ("integer", ..) => DataType::Int64,
        ("number", _, "float32", _) => DataType::Float32,
        ("number", ..) => DataType::Float64,
        ("boolean", ..) => DataType::Boolean,
        ("string", _, "bytes", _) => DataType::Binary,
        (_, _, _, "date-time") => utc(TimeUnit::Microsecond),
        (_, _, _, "date") => DataType::Date32,
        (_, _, _, "time") => {
            return Ok(full_time(Field::new(name, DataType::Time64(TimeUnit::Microsecond), nullable)));
        }
        _ if text("contentEncoding").eq_ignore_ascii_case("base64") => DataType::Binary,
        _ => DataType::Utf8,
    };
    Ok(Field::new(name, data_type, nullable))
}

fn decimal(schema: &JsonValue, path: &str) -> Result<DataType, SchemaError> {
    let parameter = |name| number(schema.get("connect.parameters").and_then(|all| all.get(name)));
    let scale = parameter("scale").unwrap_or(0);
    let precision = parameter("connect.decimal.precision").unwrap_or(NARROW_DIGITS.into());
    match (u8::try_from(precision), i8::try_from(scale)) {
        (Ok(precision @ 1..=NARROW_DIGITS), Ok(scale)) => Ok(DataType::Decimal128(precision, scale)),
        (Ok(precision @ 1..=76), Ok(scale)) => Ok(DataType::Decimal256(precision, scale)),
        _ => Err(SchemaError::new(
            path,
            format!("a decimal of {precision} digits, {scale} of them after the decimal point"),
        )),
    }
}

/// Returns an integer that is written as a number or as a string.
fn number(schema: Option<&JsonValue>) -> Option<i64> {
    match schema? {
        JsonValue::Number(text) | JsonValue::String(text) => text.parse().ok(),
        _ => None,
    }
}
