//! Options of typed keys and values.

use std::collections::BTreeSet;
use std::path::Path;

use samsarrow_client::config::{Kind, OptionValue, RegistryOptions};
use samsarrow_client::error::Error as ClientError;
use samsarrow_values::Part;
use samsarrow_values::path::listed;
use samsarrow_values::primitive_serdes::Plain;
use serde_json::Value;

use super::{Named, Typed};
use crate::columns::Text;
use crate::error::{Error, Result};
use crate::kafka::{missing_file, spec};
use crate::near;
use crate::values::{Given, get, json_object, quoted};

/// What the options of the registry's client begin with.
pub(crate) const REGISTRY: &str = "schema.registry.";
const PARTS: [Part; 2] = [Part::Key, Part::Value];
const FORMATS: [&str; 3] = ["avro", "json", "protobuf"];
const PLAIN: [&str; 8] = ["string", "short", "int", "long", "float", "double", "boolean", "uuid"];
const SCHEMED: [&str; 6] = ["schema", "subject", "version", "framing", "fields", "ignore.rules"];
/// Of Avro and Protobuf.
const RECURSION: &str = "recursion";
/// Of Protobuf alone.
const PROTOBUF: [&str; 2] = ["message", "imports"];
/// `onError`: names of options arrive in lower case.
const ON_ERROR: &str = "onerror";
/// What the source in Python has, and the JVM has not.
const ELSEWHERE: [&str; 3] = [".deadletter.topic", ".evolution", ".evolution.interval.ms"];

/// Returns the name of an option as the documentation spells it.
fn shown(option: &str) -> String {
    option.replace(ON_ERROR, "onError")
}

fn known() -> impl Iterator<Item = String> {
    let all = ["format", ON_ERROR].into_iter().chain(SCHEMED).chain([RECURSION]).chain(PROTOBUF);
    all.flat_map(|name| PARTS.map(|part| format!("{}.{name}", part.name())))
}

/// Takes the options of keys and values that are decoded out of what was given, and those of the registry.
///
/// # Errors
/// One is misspelled, has no effect, or has an invalid value.
pub(crate) fn take(given: &mut Given) -> Result<(Vec<Typed>, Option<RegistryOptions>)> {
    let known: Vec<String> = known().collect();
    for name in given.keys().filter(|name| name.starts_with("key.") || name.starts_with("value.")) {
        if known.contains(name) {
            continue;
        }
        if ELSEWHERE.iter().any(|other| name.ends_with(other)) {
            return Err(elsewhere(name));
        }
        if let Some(meant) = near::meant(name, known.iter().map(String::as_str)) {
            return Err(Error::configuration(format!("option {name} is unknown; did you mean {}?", shown(meant))));
        }
    }
    let mut own = Given::new();
    let mut registry = Given::new();
    for (name, value) in std::mem::take(given) {
        if let Some(name) = name.strip_prefix(REGISTRY) {
            registry.insert(name.to_owned(), value);
        } else if known.contains(&name) {
            own.insert(name, value);
        } else {
            given.insert(name, value);
        }
    }
    let by_registry = !registry.is_empty();
    if by_registry && registry.get("url").is_none_or(|url| url.trim().is_empty()) {
        return Err(Error::configuration(format!(
            "option {REGISTRY}url must be given, for example http://localhost:8081"
        )));
    }
    let topic = topic(given);
    let typed = PARTS.into_iter().filter_map(|part| one(part, &own, by_registry, topic.as_deref()).transpose());
    let typed = typed.collect::<Result<Vec<_>>>()?;
    if !by_registry {
        return Ok((typed, None));
    }
    if !typed.iter().any(|one| one.by_registry) {
        return Err(Error::configuration(format!(
            "option {REGISTRY}url has no effect without value.format={}",
            FORMATS.join(" or ")
        )));
    }
    Ok((typed, Some(client(registry)?)))
}

/// Key and value that are text because the option `layout` says so, and are not decoded.
///
/// # Errors
/// It names one that is.
pub(crate) fn text_beside(given: &Given, typed: &[Typed], text: Text) -> Result<Text> {
    let mut left = text;
    for one in typed {
        let (both, of) = match one.part {
            Part::Key => (text.key, &mut left.key),
            Part::Value => (text.value, &mut left.value),
        };
        if both && get(given, "layout").is_some_and(|layout| layout.contains(':')) {
            let name = one.part.name();
            return Err(Error::configuration(format!(
                "options layout and {name}.format both set the type of {name}s: set only one of them"
            )));
        }
        *of = false;
    }
    Ok(left)
}

fn one(part: Part, given: &Given, by_registry: bool, topic: Option<&str>) -> Result<Option<Typed>> {
    let name = part.name();
    let get = |option: &str| given.get(&format!("{name}.{option}"));
    let all = [ON_ERROR].into_iter().chain(SCHEMED).chain([RECURSION]).chain(PROTOBUF);
    let kind = get("format").map(|kind| kind.trim().to_lowercase()).unwrap_or_default();
    if kind.is_empty() {
        return match SCHEMED
            .into_iter()
            .chain([RECURSION])
            .chain(PROTOBUF)
            .chain([ON_ERROR])
            .find(|one| get(one).is_some())
        {
            Some(first) => {
                Err(Error::configuration(format!("option {name}.{} has no effect without {name}.format", shown(first))))
            }
            None => Ok(None),
        };
    }
    let format = match kind.as_str() {
        "avro" => Named::Avro,
        "json" => Named::Json,
        "protobuf" => Named::Protobuf,
        other => Named::Plain(Plain::from_name(other).ok_or_else(|| {
            let names = FORMATS.into_iter().chain(PLAIN).collect::<Vec<_>>().join(", ");
            let shown = quoted(get("format").map_or("", String::as_str));
            Error::configuration(format!("option {name}.format must be one of {names}, not {shown}"))
        })?),
    };
    let bad = get(ON_ERROR).map_or("raise", String::as_str);
    let nulls_bad = match bad.trim().to_lowercase().as_str() {
        "raise" => false,
        "null" => true,
        "deadletter" => return Err(elsewhere(&format!("{name}.onError=deadletter"))),
        _ => {
            return Err(Error::configuration(format!(
                "option {name}.onError must be raise or null, not {}",
                quoted(bad)
            )));
        }
    };
    let schemed = !matches!(format, Named::Plain(_));
    let own = |option: &str| match option {
        ON_ERROR => true,
        RECURSION => matches!(format, Named::Avro | Named::Protobuf),
        one if PROTOBUF.contains(&one) => format == Named::Protobuf,
        _ => schemed,
    };
    if let Some(other) = all.into_iter().find(|option| get(option).is_some() && !own(option)) {
        return Err(Error::configuration(format!(
            "option {name}.{} has no effect with {name}.format={kind}",
            shown(other)
        )));
    }
    if schemed && get("schema").is_none() && !by_registry {
        return Err(Error::configuration(format!(
            "{name}.format={kind} needs the option {name}.schema or {REGISTRY}url"
        )));
    }
    let lower = |option: &str| get(option).map(|text| text.trim().to_lowercase());
    let version = match lower("version") {
        Some(text) if text != "latest" => Some(number(&text).ok_or_else(|| {
            let shown = quoted(get("version").map_or("", String::as_str));
            Error::configuration(format!("option {name}.version must be a number or latest, not {shown}"))
        })?),
        _ => None,
    };
    let ignores_rules = match lower("ignore.rules").as_deref() {
        None | Some("false") => false,
        Some("true") => true,
        Some(_) => {
            let shown = quoted(get("ignore.rules").map_or("", String::as_str));
            return Err(Error::configuration(format!("option {name}.ignore.rules must be true or false, not {shown}")));
        }
    };
    let recursion = match lower(RECURSION) {
        Some(text) => usize::try_from(number(&text).unwrap_or(-1)).map_err(|_| {
            let shown = quoted(get(RECURSION).map_or("", String::as_str));
            Error::configuration(format!("option {name}.recursion must be a whole number, not {shown}"))
        })?,
        None => 0,
    };
    let imports = get("imports").map(|text| imports(&format!("{name}.imports"), text)).transpose()?;
    let fields = get("fields").map(|fields| listed(fields).into_iter().map(str::to_owned).collect());
    Ok(Some(Typed {
        part,
        nulls_bad,
        ignores_rules,
        format,
        schema: get("schema").cloned(),
        subject: get("subject").cloned(),
        version,
        message: get("message").cloned(),
        imports: imports.unwrap_or_default(),
        recursion,
        framing: lower("framing").unwrap_or_else(|| "auto".to_owned()),
        fields,
        by_registry: by_registry && schemed,
        topic: topic.map(str::to_owned),
    }))
}

/// The texts of files by their names.
fn imports(option: &str, text: &str) -> Result<Vec<String>> {
    let files = json_object(text, option, r#"{"shop/user.proto":"syntax = ..."}"#)?;
    let one = |(name, text): (String, Value)| match text {
        Value::String(text) => Ok(text),
        other => Err(Error::configuration(format!("option {option}: {} must be a text, not {other}", quoted(&name)))),
    };
    files.into_iter().map(one).collect()
}

fn number(text: &str) -> Option<i32> {
    text.parse().ok().filter(|_| text.bytes().all(|byte| byte.is_ascii_digit()))
}

/// The topic that is read, if it is clear that it is one.
fn topic(given: &Given) -> Option<String> {
    let listed = get(given, "subscribe").unwrap_or_default().split(',').map(|topic| topic.trim().to_owned());
    let mut topics: BTreeSet<String> = listed.filter(|topic| !topic.is_empty()).collect();
    if let Some(assigned) = get(given, "assign") {
        // What is wrong with it is said where it is read.
        let Ok(Value::Object(assigned)) = serde_json::from_str(assigned) else { return None };
        topics.extend(assigned.into_iter().map(|(topic, _)| topic));
    }
    topics.pop_first().filter(|_| topics.is_empty())
}

fn client(mut given: Given) -> Result<RegistryOptions> {
    let (url, context) = (given.remove("url").unwrap_or_default(), given.remove("context"));
    match (given.remove("username"), given.remove("password")) {
        (None, None) => {}
        (Some(name), Some(_)) if name.contains(':') => {
            return Err(Error::configuration("the name in auth has a colon, which ends names in HTTP"));
        }
        (Some(name), Some(password)) => {
            given.insert("basic.auth.user.info".to_owned(), format!("{name}:{password}"));
        }
        _ => {
            return Err(Error::configuration(format!(
                "options {REGISTRY}username and {REGISTRY}password must be set together"
            )));
        }
    }
    for (name, path) in &given {
        let is_file = spec(name).is_some_and(|spec| spec.kind == Kind::Path) && !path.is_empty() && path != "probe";
        if is_file && !Path::new(path).exists() {
            return Err(missing_file(REGISTRY, name, path));
        }
    }
    let urls = url.split(',').map(|url| url.trim().to_owned()).filter(|url| !url.is_empty()).collect();
    let pairs = given.into_iter().map(|(name, value)| (name, OptionValue::Str(value)));
    RegistryOptions::parse(urls, context, pairs).map_err(|error| match error {
        ClientError::Configuration(text) => {
            Error::configuration(format!("{text}. This is about the options {REGISTRY}*."))
        }
        other => other.into(),
    })
}

fn elsewhere(option: &str) -> Error {
    Error::configuration(format!(
        "option {option} works in format(\"samsarrow-python\") only: use that name, or bad=null, which gives rows \
         value_error and raw_value"
    ))
}

#[cfg(test)]
#[path = "options_tests.rs"]
mod tests;
