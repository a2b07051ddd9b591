//! What a registry says of schemas.

use serde_json::Value;

/// A schema that another one uses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reference {
    /// Under which name it is used.
    pub name: String,
    /// Where it is registered.
    pub subject: String,
    /// As which version there.
    pub version: i32,
}

/// A reference: the place in `needed` of the schema that has it, its name there, and the place of the schema that it
/// leads to. The place behind the last is that of the schema itself.
pub type Link = (usize, String, usize);

/// A schema as it is registered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RegisteredSchema {
    /// Its text.
    pub text: String,
    /// `AVRO`, `JSON` or `PROTOBUF`.
    pub kind: String,
    /// In this registry.
    pub id: Option<u64>,
    /// In every registry, where the registry knows of such.
    pub guid: Option<String>,
    /// Where it is a version; an id says nothing of that.
    pub subject: Option<String>,
    /// Which.
    pub version: Option<i32>,
    /// What it uses itself.
    pub references: Vec<Reference>,
    /// The texts of all schemas that it needs, each after those that it needs itself.
    pub needed: Vec<String>,
    /// The references between `needed` and this schema.
    pub links: Vec<Link>,
    /// Whether it has rules, which a registry's own serializers would run.
    pub has_rules: bool,
}

/// A schema to be registered or checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewSchema {
    /// Its text.
    pub text: String,
    /// `AVRO`, `JSON` or `PROTOBUF`.
    pub kind: String,
    /// What it uses.
    pub references: Vec<Reference>,
}

impl NewSchema {
    /// As registries take it.
    pub(super) fn body(&self) -> Value {
        let mut body = serde_json::Map::new();
        body.insert("schema".to_owned(), self.text.clone().into());
        // Registries before Confluent Platform 5.5 know nothing else, and no such field.
        if self.kind != "AVRO" {
            body.insert("schemaType".to_owned(), self.kind.clone().into());
        }
        if !self.references.is_empty() {
            let one = |reference: &Reference| {
                serde_json::json!({
                    "name": reference.name, "subject": reference.subject, "version": reference.version,
                })
            };
            body.insert("references".to_owned(), self.references.iter().map(one).collect());
        }
        Value::Object(body)
    }
}

impl RegisteredSchema {
    /// An answer's, whose references are still to be resolved; none if it is no such.
    pub(super) fn of(answer: &Value) -> Option<Self> {
        let text = |name: &str| answer.get(name).and_then(Value::as_str).map(str::to_owned);
        let references = match answer.get("references") {
            None | Some(Value::Null) => Vec::new(),
            Some(Value::Array(all)) => all.iter().map(reference).collect::<Option<_>>()?,
            Some(_) => return None,
        };
        Some(Self {
            text: text("schema")?,
            kind: text("schemaType").unwrap_or_else(|| "AVRO".to_owned()),
            id: answer.get("id").and_then(Value::as_u64),
            guid: text("guid"),
            subject: text("subject"),
            version: answer.get("version").and_then(version),
            references,
            needed: Vec::new(),
            links: Vec::new(),
            has_rules: answer.get("ruleSet").is_some_and(has_rules),
        })
    }
}

/// A version's number.
pub(super) fn version(value: &Value) -> Option<i32> {
    value.as_i64().and_then(|number| i32::try_from(number).ok())
}

fn reference(value: &Value) -> Option<Reference> {
    let text = |name: &str| value.get(name).and_then(Value::as_str).map(str::to_owned);
    Some(Reference { name: text("name")?, subject: text("subject")?, version: version(value.get("version")?)? })
}

fn has_rules(set: &Value) -> bool {
    let of = |name: &str| set.get(name).and_then(Value::as_array).is_some_and(|rules| !rules.is_empty());
    of("domainRules") || of("migrationRules") || of("encodingRules")
}
