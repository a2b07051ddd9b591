//! JSON text as a tree whose objects keep the order of their members, for schemas.

use super::scan::{Scan, unescape};
use crate::error::{Reason, SchemaError, Step};

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum JsonValue {
    Null,
    Bool(bool),
    Number(String),
    String(String),
    List(Vec<JsonValue>),
    Object(Vec<(String, JsonValue)>),
}

impl JsonValue {
    pub(crate) fn parse(text: &str) -> Result<JsonValue, SchemaError> {
        let whole = || {
            let mut scan = Scan::new(text.as_bytes());
            scan.skip_whitespace();
            // `skip` rejects excessive nesting, and does not use recursion itself.
            let mut end = scan.skip()?;
            end.skip_whitespace();
            if end.remaining() > 0 {
                return end.unexpected("the end");
            }
            value(&mut scan)
        };
        whole().map_err(|fault| {
            let fault = super::reader::with_position(fault, text.len());
            SchemaError::new("", format!("the schema is no JSON: {}", fault.reason))
        })
    }

    pub(crate) fn get(&self, name: &str) -> Option<&JsonValue> {
        match self {
            JsonValue::Object(members) => members.iter().rev().find(|(known, _)| known == name).map(|(_, value)| value),
            _ => None,
        }
    }

    pub(crate) fn text(&self) -> Option<&str> {
        match self {
            JsonValue::String(text) => Some(text),
            _ => None,
        }
    }

    /// Returns the schema whose `$anchor` is `name`, or whose `$id` is `#` followed by `name`, as in draft 6.
    pub(crate) fn anchor(&self, name: &str) -> Option<&JsonValue> {
        match self {
            JsonValue::Object(members) => {
                let is = |key: &str, prefix: &str| {
                    self.get(key).and_then(JsonValue::text).and_then(|text| text.strip_prefix(prefix)) == Some(name)
                };
                if is("$anchor", "") || is("$id", "#") || is("id", "#") {
                    return Some(self);
                }
                let schemas = members.iter().filter(|(key, _)| !matches!(key.as_str(), "const" | "enum" | "default"));
                schemas.map(|(_, value)| value).find_map(|value| value.anchor(name))
            }
            JsonValue::List(items) => items.iter().find_map(|item| item.anchor(name)),
            _ => None,
        }
    }

    /// Returns the value to which a JSON pointer leads.
    pub(crate) fn at(&self, pointer: &str) -> Option<&JsonValue> {
        let mut at = self;
        for part in pointer.split('/').skip(1) {
            let part = part.replace("~1", "/").replace("~0", "~");
            at = match at {
                JsonValue::List(items) => items.get(part.parse::<usize>().ok()?)?,
                other => other.get(&part)?,
            };
        }
        Some(at)
    }
}

fn value(scan: &mut Scan<'_>) -> Step<JsonValue> {
    Ok(match scan.peek() {
        Some(b'{') => {
            scan.eat(b'{');
            scan.skip_whitespace();
            let mut members = Vec::new();
            if !scan.eat(b'}') {
                loop {
                    let name = string(scan)?;
                    scan.colon()?;
                    members.push((name, value(scan)?));
                    if !scan.more(b'}')? {
                        break;
                    }
                }
            }
            JsonValue::Object(members)
        }
        Some(b'[') => {
            scan.eat(b'[');
            scan.skip_whitespace();
            let mut items = Vec::new();
            if !scan.eat(b']') {
                loop {
                    items.push(value(scan)?);
                    if !scan.more(b']')? {
                        break;
                    }
                }
            }
            JsonValue::List(items)
        }
        Some(b'"') => JsonValue::String(string(scan)?),
        _ if scan.word(b"null") => JsonValue::Null,
        _ if scan.word(b"true") => JsonValue::Bool(true),
        _ if scan.word(b"false") => JsonValue::Bool(false),
        _ => JsonValue::Number(scan.number()?.text.to_owned()),
    })
}

fn string(scan: &mut Scan<'_>) -> Step<String> {
    scan.eat(b'"');
    let mut text = Vec::new();
    unescape(scan.quoted()?.raw, &mut text)?;
    String::from_utf8(text).map_err(|_| Reason::Utf8.into())
}
