//! Options of typed keys and values.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use samsarrow_client::config::{Kind, RegistryOptions, is_glue_url};
use samsarrow_client::error::Error as ClientError;
use samsarrow_values::path::listed;
use samsarrow_values::primitive_serdes::Plain;
use samsarrow_values::{Framing, Part, RegistryKind};
use serde_json::Value;

use super::{FormatName, OnError, Typed, written_options};
use crate::columns::TextLayout;
use crate::error::{Error, Result};
use crate::kafka::{missing_file, spec};
use crate::option_values::{RawOptions, get, json_object, quoted};
use crate::suggest;

/// Prefix of the options of the registry client.
pub(crate) const REGISTRY: &str = "schema.registry.";
pub(super) const PARTS: [Part; 2] = [Part::Key, Part::Value];
const FORMATS: [&str; 3] = ["avro", "json", "protobuf"];
const PLAIN: [&str; 8] = ["string", "short", "int", "long", "float", "double", "boolean", "uuid"];
const SCHEMA_OPTIONS: [&str; 6] = ["schema", "subject", "version", "framing", "fields", "ignore.rules"];
/// Option that only the formats Avro and Protobuf have.
const RECURSION: &str = "recursion";
/// Options that only the format Protobuf has.
const PROTOBUF: [&str; 2] = ["message", "imports"];
/// The option `onError`. All option names arrive in lower case.
const ON_ERROR: &str = "onerror";
const DEAD_LETTER_TOPIC: &str = "deadletter.topic";
/// Options that determine whether a newer schema ends a streaming query.
const EVOLUTION: [&str; 2] = ["evolution", "evolution.interval.ms"];
/// Default interval between checks for newer schemas.
const EVOLUTION_INTERVAL: Duration = Duration::from_secs(10);

/// Prefixes of options whose spelling is checked.
const PREFIXES: [&str; 3] = ["key.", "value.", "schema."];

/// Returns the name of an option in the spelling of the documentation.
fn shown(option: &str) -> String {
    option.replace(ON_ERROR, "onError")
}

pub(super) fn known_options() -> impl Iterator<Item = String> {
    let all = ["format", ON_ERROR, DEAD_LETTER_TOPIC]
        .into_iter()
        .chain(SCHEMA_OPTIONS)
        .chain([RECURSION])
        .chain(PROTOBUF)
        .chain(EVOLUTION);
    all.flat_map(|name| PARTS.map(|part| format!("{}.{name}", part.name())))
}

/// Removes the options of typed keys and values and of the registry from `options`, and parses them.
///
/// # Errors
/// Fails if one of these options is misspelled, has no effect or has an invalid value.
pub(crate) fn take_typed(options: &mut RawOptions) -> Result<(Vec<Typed>, Option<RegistryOptions>)> {
    let known: Vec<String> = known_options().collect();
    let (own, registry) = split(options, &known, &written_options::known_options(), "writes")?;
    let topics = named_topics(options);
    let kind = registry_kind(&registry);
    let typed = PARTS.into_iter().filter_map(|part| parse_part(part, &own, kind, &topics).transpose());
    let typed = typed.collect::<Result<Vec<_>>>()?;
    let is_used = typed.iter().any(|part| part.registry.exists());
    Ok((typed, registry_options(registry, is_used)?))
}

/// Removes options from `options`: those with names in `known`, and the options of the registry without their prefix.
/// Options in `opposite` are valid only in `direction`.
///
/// # Errors
/// Fails if an option is misspelled or for the other direction, or if the registry has no URL.
pub(super) fn split(
    options: &mut RawOptions,
    known: &[String],
    opposite: &[String],
    direction: &str,
) -> Result<(RawOptions, RawOptions)> {
    let url = format!("{REGISTRY}url");
    let is_checked = |name: &&String| PREFIXES.iter().any(|prefix| name.starts_with(prefix));
    for name in options.keys().filter(is_checked) {
        if known.contains(name) || name.starts_with(REGISTRY) {
            continue;
        }
        if opposite.contains(name) {
            return Err(Error::configuration(format!("option {} is for {direction}", shown(name))));
        }
        if let Some(suggestion) = suggest::closest(name, known.iter().chain([&url]).map(String::as_str)) {
            return Err(Error::configuration(format!("option {name} is unknown; did you mean {}?", shown(suggestion))));
        }
    }
    let mut own = RawOptions::new();
    let mut registry = RawOptions::new();
    for (name, value) in std::mem::take(options) {
        if let Some(name) = name.strip_prefix(REGISTRY) {
            registry.insert(name.to_owned(), value);
        } else if known.contains(&name) {
            own.insert(name, value);
        } else {
            options.insert(name, value);
        }
    }
    if !registry.is_empty() && registry.get("url").is_none_or(|url| url.trim().is_empty()) {
        return Err(Error::configuration(format!("option {url} must be given, for example http://localhost:8081")));
    }
    Ok((own, registry))
}

/// Determines which of the columns key and value are strings. A column is a string if the option `layout` says so and
/// the column is not decoded.
///
/// # Errors
/// Fails if the option `layout` names a column that is decoded.
pub(crate) fn text_layout(options: &RawOptions, typed: &[Typed], text: TextLayout) -> Result<TextLayout> {
    let mut undecoded = text;
    for part in typed {
        let (is_text, column) = match part.part {
            Part::Key => (text.key, &mut undecoded.key),
            Part::Value => (text.value, &mut undecoded.value),
        };
        if is_text && get(options, "layout").is_some_and(|layout| layout.contains(':')) {
            let name = part.part.name();
            return Err(Error::configuration(format!(
                "options layout and {name}.format both set the type of {name}s: set only one of them"
            )));
        }
        *column = false;
    }
    Ok(undecoded)
}

fn parse_part(
    part: Part,
    options: &RawOptions,
    registry: RegistryKind,
    topics: &BTreeSet<String>,
) -> Result<Option<Typed>> {
    let name = part.name();
    let get = |option: &str| options.get(&format!("{name}.{option}"));
    let all = [ON_ERROR, DEAD_LETTER_TOPIC]
        .into_iter()
        .chain(SCHEMA_OPTIONS)
        .chain([RECURSION])
        .chain(PROTOBUF)
        .chain(EVOLUTION);
    let kind = get("format").map(|kind| kind.trim().to_lowercase()).unwrap_or_default();
    if kind.is_empty() {
        return match SCHEMA_OPTIONS
            .into_iter()
            .chain([RECURSION])
            .chain(PROTOBUF)
            .chain(EVOLUTION)
            .chain([ON_ERROR, DEAD_LETTER_TOPIC])
            .find(|option| get(option).is_some())
        {
            Some(first) => {
                Err(Error::configuration(format!("option {name}.{} has no effect without {name}.format", shown(first))))
            }
            None => Ok(None),
        };
    }
    let format = format_name(name, &kind, get("format"))?;
    let on_error = get(ON_ERROR).map_or("raise", String::as_str);
    let letters = get(DEAD_LETTER_TOPIC).map(|topic| topic.trim()).filter(|topic| !topic.is_empty());
    let on_error = match on_error.trim().to_lowercase().as_str() {
        "raise" => OnError::Raise,
        "null" => OnError::Null,
        "deadletter" => OnError::DeadLetter(dead_letter_topic(name, letters, topics)?),
        _ => {
            return Err(Error::configuration(format!(
                "option {name}.onError must be raise, null or deadletter, not {}",
                quoted(on_error)
            )));
        }
    };
    if letters.is_some() && !matches!(on_error, OnError::DeadLetter(_)) {
        return Err(Error::configuration(format!(
            "option {name}.{DEAD_LETTER_TOPIC} has no effect without {name}.onError=deadletter"
        )));
    }
    let has_schema = !matches!(format, FormatName::Plain(_));
    let applies = |option: &str| match option {
        ON_ERROR | DEAD_LETTER_TOPIC => true,
        RECURSION => matches!(format, FormatName::Avro | FormatName::Protobuf),
        option if PROTOBUF.contains(&option) => format == FormatName::Protobuf,
        _ => has_schema,
    };
    if let Some(other) = all.into_iter().find(|option| get(option).is_some() && !applies(option)) {
        return Err(Error::configuration(format!(
            "option {name}.{} has no effect with {name}.format={kind}",
            shown(other)
        )));
    }
    if has_schema && get("schema").is_none() && !registry.exists() {
        return Err(Error::configuration(format!(
            "{name}.format={kind} needs the option {name}.schema or {REGISTRY}url"
        )));
    }
    let lower = |option: &str| get(option).map(|text| text.trim().to_lowercase());
    let version = version(name, get("version"))?;
    let ignore_rules = flag(&format!("{name}.ignore.rules"), get("ignore.rules"))?.unwrap_or(false);
    let recursion = match lower(RECURSION) {
        Some(text) => usize::try_from(number(&text).unwrap_or(-1)).map_err(|_| {
            let shown = quoted(get(RECURSION).map_or("", String::as_str));
            Error::configuration(format!("option {name}.recursion must be a whole number, not {shown}"))
        })?,
        None => 0,
    };
    let evolution = evolution(name, &get, version.is_some(), registry.exists())?;
    let imports = get("imports").map(|text| imports(&format!("{name}.imports"), text)).transpose()?;
    let fields = get("fields").map(|fields| listed(fields).into_iter().map(str::to_owned).collect());
    Ok(Some(Typed {
        part,
        on_error,
        ignore_rules,
        format,
        schema: get("schema").cloned(),
        subject: get("subject").cloned(),
        version,
        message: get("message").cloned(),
        imports: imports.unwrap_or_default(),
        recursion,
        evolution,
        framing: framing_name(registry, lower("framing"))?,
        fields,
        registry: if has_schema { registry } else { RegistryKind::None },
        topic: topics.first().filter(|_| topics.len() == 1).cloned(),
    }))
}

/// Parses the option `format`, which is `kind` in lower case.
pub(super) fn format_name(part: &str, kind: &str, text: Option<&String>) -> Result<FormatName> {
    match kind {
        "avro" => Ok(FormatName::Avro),
        "json" => Ok(FormatName::Json),
        "protobuf" => Ok(FormatName::Protobuf),
        other => Plain::from_name(other).map(FormatName::Plain).ok_or_else(|| {
            let names = FORMATS.into_iter().chain(PLAIN).collect::<Vec<_>>().join(", ");
            let shown = quoted(text.map_or("", String::as_str));
            Error::configuration(format!("option {part}.format must be one of {names}, not {shown}"))
        }),
    }
}

/// Parses the option `version`. `None` is the latest version.
pub(super) fn version(part: &str, text: Option<&String>) -> Result<Option<i32>> {
    match text.map(|text| text.trim().to_lowercase()) {
        Some(number_text) if number_text != "latest" => number(&number_text).map(Some).ok_or_else(|| {
            let shown = quoted(text.map_or("", String::as_str));
            Error::configuration(format!("option {part}.version must be a number or latest, not {shown}"))
        }),
        _ => Ok(None),
    }
}

/// Parses `true` or `false`.
pub(super) fn flag(option: &str, text: Option<&String>) -> Result<Option<bool>> {
    let Some(text) = text else { return Ok(None) };
    match text.trim().to_lowercase().as_str() {
        "false" => Ok(Some(false)),
        "true" => Ok(Some(true)),
        _ => Err(Error::configuration(format!("option {option} must be true or false, not {}", quoted(text)))),
    }
}

/// Returns the interval between checks for newer schemas, or `None` if newer schemas do not end a query.
fn evolution<'a>(
    part: &str,
    get: &impl Fn(&str) -> Option<&'a String>,
    is_fixed: bool,
    uses_registry: bool,
) -> Result<Option<Duration>> {
    let [mode, interval] = EVOLUTION.map(get);
    let restarts = match mode.map_or("ignore", |mode| mode.trim()).to_lowercase().as_str() {
        "ignore" => false,
        "restart" => true,
        _ => {
            let shown = quoted(mode.map_or("", String::as_str));
            return Err(Error::configuration(format!(
                "option {part}.evolution must be ignore or restart, not {shown}"
            )));
        }
    };
    let millis = match interval {
        Some(text) => Some(Duration::from_millis(text.trim().parse().map_err(|_| {
            let shown = quoted(text);
            Error::configuration(format!("option {part}.evolution.interval.ms must be a whole number, not {shown}"))
        })?)),
        None => None,
    };
    if !restarts {
        return match millis {
            Some(_) => Err(Error::configuration(format!(
                "option {part}.evolution.interval.ms has no effect without {part}.evolution=restart"
            ))),
            None => Ok(None),
        };
    }
    for (option, is_set) in [("schema", get("schema").is_some()), ("version", is_fixed)] {
        if is_set {
            return Err(Error::configuration(format!(
                "options {part}.evolution=restart and {part}.{option} contradict each other: only the latest version of \
                 a subject has newer ones"
            )));
        }
    }
    if !uses_registry {
        return Err(Error::configuration(format!("option {part}.evolution has no effect without {REGISTRY}url")));
    }
    Ok(Some(millis.unwrap_or(EVOLUTION_INTERVAL)))
}

/// Returns the kind of the registry with these options, which have no prefix.
pub(super) fn registry_kind(options: &RawOptions) -> RegistryKind {
    match options.get("url") {
        None => RegistryKind::None,
        Some(url) if is_glue_url(url) => RegistryKind::Glue,
        Some(_) => RegistryKind::Confluent,
    }
}

/// Returns the name of the framing of keys or values whose schemas are in the registry.
///
/// # Errors
/// Fails if the framing has ids that the registry does not have.
pub(super) fn framing_name(registry: RegistryKind, name: Option<String>) -> Result<String> {
    let name = name.unwrap_or_else(|| "auto".to_owned());
    if name == "glue" && registry != RegistryKind::Glue {
        return Err(Error::configuration(format!(
            "framing 'glue' has UUIDs of AWS Glue: set the option {REGISTRY}url=glue://REGION/REGISTRY"
        )));
    }
    registry.framing(&name).map(str::to_owned).map_err(Error::configuration)
}

/// Returns the framing with the name `name`, which must be one of `names`.
///
/// # Errors
/// Fails if the name is unknown.
pub(super) fn framing(names: &[&str], name: &str) -> Result<Framing> {
    Framing::among(names, name).map_err(Error::configuration)
}

/// Parses a JSON object of file names and file contents. Returns the contents.
pub(super) fn imports(option: &str, text: &str) -> Result<Vec<String>> {
    let files = json_object(text, option, r#"{"shop/user.proto":"syntax = ..."}"#)?;
    let content = |(name, text): (String, Value)| match text {
        Value::String(text) => Ok(text),
        other => Err(Error::configuration(format!("option {option}: {} must be a text, not {other}", quoted(&name)))),
    };
    files.into_iter().map(content).collect()
}

fn number(text: &str) -> Option<i32> {
    text.parse().ok().filter(|_| text.bytes().all(|byte| byte.is_ascii_digit()))
}

/// Checks the dead letter topic. `topics` contains the topics that are read.
fn dead_letter_topic(part: &str, topic: Option<&str>, topics: &BTreeSet<String>) -> Result<Arc<str>> {
    let option = format!("{part}.{DEAD_LETTER_TOPIC}");
    let Some(topic) = topic else {
        return Err(Error::configuration(format!(
            "{part}.onError=deadletter needs the option {option}, where bad records go"
        )));
    };
    if topics.contains(topic) {
        return Err(Error::configuration(format!(
            "option {option}: topic {topic} is read, and would grow by what is bad in it"
        )));
    }
    Ok(topic.into())
}

/// Returns the names of the topics that the options name. Empty for a pattern.
fn named_topics(options: &RawOptions) -> BTreeSet<String> {
    let listed = get(options, "subscribe").unwrap_or_default().split(',').map(|topic| topic.trim().to_owned());
    let mut topics: BTreeSet<String> = listed.filter(|topic| !topic.is_empty()).collect();
    if let Some(assigned) = get(options, "assign") {
        // An invalid value of the option is reported by its parser.
        let Ok(Value::Object(assigned)) = serde_json::from_str(assigned) else { return BTreeSet::new() };
        topics.extend(assigned.into_iter().map(|(topic, _)| topic));
    }
    topics
}

/// Parses the options of the registry, if there are any. `is_used` is true if a key or value has a schema.
///
/// # Errors
/// Fails if an option is invalid, or if no key or value has a schema.
pub(super) fn registry_options(mut options: RawOptions, is_used: bool) -> Result<Option<RegistryOptions>> {
    if options.is_empty() {
        return Ok(None);
    }
    if !is_used {
        return Err(Error::configuration(format!(
            "option {REGISTRY}url has no effect without value.format={}",
            FORMATS.join(" or ")
        )));
    }
    let url = options.remove("url").unwrap_or_default();
    match (options.remove("username"), options.remove("password")) {
        (None, None) => {}
        (Some(name), Some(_)) if name.contains(':') => {
            return Err(Error::configuration("the name in auth has a colon, which ends names in HTTP"));
        }
        (Some(name), Some(password)) => {
            options.insert("basic.auth.user.info".to_owned(), format!("{name}:{password}"));
        }
        _ => {
            return Err(Error::configuration(format!(
                "options {REGISTRY}username and {REGISTRY}password must be set together"
            )));
        }
    }
    for (name, path) in &options {
        let is_file = spec(name).is_some_and(|spec| spec.kind == Kind::Path) && !path.is_empty() && path != "probe";
        if is_file && !Path::new(path).exists() {
            return Err(missing_file(REGISTRY, name, path));
        }
    }
    RegistryOptions::from_url(&url, options).map(Some).map_err(|error| match error {
        ClientError::Configuration(text) => {
            Error::configuration(format!("{text}. This is about the options {REGISTRY}*."))
        }
        other => other.into(),
    })
}

#[cfg(test)]
#[path = "options_tests.rs"]
mod tests;
