//! Schemas in the form in which a registry represents them.

use serde_json::Value;

/// Reference from a schema to another schema.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reference {
    /// Name by which the schema text refers to the other schema.
    pub name: String,
    /// Subject of the referenced schema.
    pub subject: String,
    /// Version of the referenced schema.
    pub version: i32,
}

/// Resolved reference: index of the referencing schema in `needed`, name of the reference, and index of the referenced
/// schema.
///
/// The schema that has these references itself has the index `needed.len()`.
pub type Link = (usize, String, usize);

/// Registered schema.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RegisteredSchema {
    /// Schema text.
    pub text: String,
    /// Schema type: `AVRO`, `JSON` or `PROTOBUF`.
    pub kind: String,
    /// Id in the registry's context.
    pub id: Option<u64>,
    /// GUID; `None` if the registry does not support GUIDs.
    pub guid: Option<String>,
    /// Subject; `None` if the schema was looked up by id, because an id may belong to several subjects.
    pub subject: Option<String>,
    /// Version number within the subject.
    pub version: Option<i32>,
    /// Direct references.
    pub references: Vec<Reference>,
    /// Texts of all directly and indirectly referenced schemas, in dependency order.
    pub needed: Vec<String>,
    /// References among `needed` and this schema.
    pub links: Vec<Link>,
    /// True if the schema has rules. Confluent's serializers apply these rules.
    pub has_rules: bool,
}

impl RegisteredSchema {
    /// Returns the GUID as bytes.
    pub fn guid_bytes(&self) -> Option<[u8; 16]> {
        self.guid.as_deref().and_then(super::parse_uuid)
    }
}

/// Schema to register or to check for compatibility.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewSchema {
    /// Schema text.
    pub text: String,
    /// Schema type: `AVRO`, `JSON` or `PROTOBUF`.
    pub kind: String,
    /// References.
    pub references: Vec<Reference>,
}

impl NewSchema {
    /// Returns the body of a request that registers or checks the schema.
    pub(super) fn body(&self) -> Value {
        let mut body = serde_json::Map::new();
        body.insert("schema".to_owned(), self.text.clone().into());
        // The field is left out for Avro, because registries before Confluent Platform 5.5 support only Avro and reject
        // the field.
        if self.kind != "AVRO" {
            body.insert("schemaType".to_owned(), self.kind.clone().into());
        }
        if !self.references.is_empty() {
            let reference = |reference: &Reference| {
                serde_json::json!({
                    "name": reference.name, "subject": reference.subject, "version": reference.version,
                })
            };
            body.insert("references".to_owned(), self.references.iter().map(reference).collect());
        }
        Value::Object(body)
    }
}

impl RegisteredSchema {
    /// Parses a registry's response without resolving references. Returns `None` if the response is invalid.
    pub(super) fn from_json(response: &Value) -> Option<Self> {
        let text = |name: &str| response.get(name).and_then(Value::as_str).map(str::to_owned);
        let references = match response.get("references") {
            None | Some(Value::Null) => Vec::new(),
            Some(Value::Array(all)) => all.iter().map(reference).collect::<Option<_>>()?,
            Some(_) => return None,
        };
        Some(Self {
            text: text("schema")?,
            kind: text("schemaType").unwrap_or_else(|| "AVRO".to_owned()),
            id: response.get("id").and_then(Value::as_u64),
            guid: text("guid"),
            subject: text("subject"),
            version: response.get("version").and_then(version),
            references,
            needed: Vec::new(),
            links: Vec::new(),
            has_rules: response.get("ruleSet").is_some_and(has_rules),
        })
    }
}

/// Parses a version number.
pub(super) fn version(value: &Value) -> Option<i32> {
    value.as_i64().and_then(|number| i32::try_from(number).ok())
}

fn reference(value: &Value) -> Option<Reference> {
    let text = |name: &str| value.get(name).and_then(Value::as_str).map(str::to_owned);
    Some(Reference { name: text("name")?, subject: text("subject")?, version: version(value.get("version")?)? })
}

fn has_rules(set: &Value) -> bool {
    let has = |name: &str| set.get(name).and_then(Value::as_array).is_some_and(|rules| !rules.is_empty());
    has("domainRules") || has("migrationRules") || has("encodingRules")
}
