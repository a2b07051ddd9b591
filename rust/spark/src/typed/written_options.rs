//! Options for encoding columns as keys and values.

use arrow_schema::DataType;
use samsarrow_client::config::RegistryOptions;
use samsarrow_values::{Framing, Part, RegistryKind};

use super::options::{
    PARTS, REGISTRY, flag, format_name, framing_name, imports, known_options as read_options, registry_kind,
    registry_options, split, version,
};
use super::written_types::arrow_type;
use super::{FormatName, Written};
use crate::columns::Field;
use crate::error::{Error, Result};
use crate::option_values::{RawOptions, get, quoted};

/// Options of all formats with schemas.
const SCHEMA_OPTIONS: [&str; 6] = ["schema", "subject", "version", "framing", "ignore.rules", "auto.register"];
const AVRO: [&str; 3] = ["name", "use.latest", "subject.strategy"];
const PROTOBUF: [&str; 3] = ["message", "imports", "use.latest"];
const STRATEGIES: [&str; 3] = ["topic", "record", "topic-record"];
/// Options that have no effect without a registry.
const REGISTRY_ONLY: [&str; 5] = ["subject", "version", "auto.register", "use.latest", "subject.strategy"];

/// Subject name strategy of a schema registry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Strategy {
    Topic,
    Record,
    TopicRecord,
}

pub(super) fn known_options() -> Vec<String> {
    let names = || ["format"].into_iter().chain(SCHEMA_OPTIONS).chain(AVRO).chain(["message", "imports"]);
    PARTS.into_iter().flat_map(|part| names().map(move |name| format!("{}.{name}", part.name()))).collect()
}

/// Removes the options of typed keys and values and of the registry from `options`, and parses them. `fields` are the
/// columns of the DataFrame.
///
/// # Errors
/// Fails if one of these options is misspelled, has no effect or has an invalid value, or if a column is missing or of
/// a type that no format supports.
pub(crate) fn take_written(
    options: &mut RawOptions,
    fields: &[Field],
) -> Result<(Vec<Written>, Option<RegistryOptions>)> {
    let topic = get(options, "topic").map(str::trim).filter(|topic| !topic.is_empty()).map(str::to_owned);
    let opposite: Vec<String> = read_options()
        .chain(PARTS.map(|part| format!("{}.deadletter.topic", part.name())))
        .filter(|name| !known_options().contains(name))
        .collect();
    let (own, registry) = split(options, &known_options(), &opposite, "reads")?;
    let kind = registry_kind(&registry);
    let parse = |part: Part| parse_part(part, &own, kind, topic.as_deref(), fields).transpose();
    let written = PARTS.into_iter().filter_map(parse).collect::<Result<Vec<_>>>()?;
    let is_used = written.iter().any(|part| part.registry.exists());
    Ok((written, registry_options(registry, is_used)?))
}

fn parse_part(
    part: Part,
    options: &RawOptions,
    registry: RegistryKind,
    topic: Option<&str>,
    fields: &[Field],
) -> Result<Option<Written>> {
    let name = part.name();
    let get = |option: &str| options.get(&format!("{name}.{option}"));
    let all =
        || SCHEMA_OPTIONS.into_iter().chain(AVRO).chain(["message", "imports"]).filter(|name| get(name).is_some());
    let kind = get("format").map(|kind| kind.trim().to_lowercase()).unwrap_or_default();
    if kind.is_empty() {
        return match all().next() {
            Some(first) => {
                Err(Error::configuration(format!("option {name}.{first} has no effect without {name}.format")))
            }
            None => Ok(None),
        };
    }
    let format = format_name(name, &kind, get("format"))?;
    let applies = |option: &str| match format {
        FormatName::Avro => SCHEMA_OPTIONS.contains(&option) || AVRO.contains(&option),
        FormatName::Json => SCHEMA_OPTIONS.contains(&option),
        FormatName::Protobuf => SCHEMA_OPTIONS.contains(&option) || PROTOBUF.contains(&option),
        FormatName::Plain(_) => false,
    };
    if let Some(other) = all().find(|option| !applies(option)) {
        return Err(Error::configuration(format!("option {name}.{other} has no effect with {name}.format={kind}")));
    }
    let strategy = match get("subject.strategy").map(|text| text.trim().to_lowercase()).as_deref() {
        None | Some("topic") => Strategy::Topic,
        Some("record") => Strategy::Record,
        Some("topic-record") => Strategy::TopicRecord,
        Some(_) => {
            let shown = quoted(get("subject.strategy").map_or("", String::as_str));
            let names = STRATEGIES.join(", ");
            let text = format!("option {name}.subject.strategy must be one of {names}, not {shown}");
            return Err(Error::configuration(text));
        }
    };
    let framing = framing_name(registry, get("framing").map(|text| text.trim().to_lowercase()))?;
    let imports = get("imports").map(|text| imports(&format!("{name}.imports"), text)).transpose()?;
    let written = Written {
        part,
        format,
        kind: kind.clone(),
        schema: get("schema").cloned(),
        record_name: get("name").cloned(),
        subject: get("subject").cloned(),
        version: version(name, get("version"))?,
        strategy,
        message: get("message").cloned(),
        imports: imports.unwrap_or_default(),
        framing: framing_of(format, &framing)?,
        framing_name: framing,
        ignore_rules: flag(&format!("{name}.ignore.rules"), get("ignore.rules"))?.unwrap_or(false),
        auto_register: flag(&format!("{name}.auto.register"), get("auto.register"))?.unwrap_or(true),
        use_latest: flag(&format!("{name}.use.latest"), get("use.latest"))?.unwrap_or(false),
        registry: if matches!(format, FormatName::Plain(_)) { RegistryKind::None } else { registry },
        topic: topic.map(str::to_owned),
        data_type: column_type(name, &kind, fields)?,
    };
    if !matches!(format, FormatName::Plain(_)) {
        check_subject(&written, &|option| get(option).is_some())?;
    }
    Ok(Some(written))
}

fn framing_of(format: FormatName, name: &str) -> Result<Framing> {
    let mut names = vec!["auto", "header", "confluent", "apicurio8"];
    if format == FormatName::Avro {
        names.push("single-object");
    }
    names.extend(["glue", "none"]);
    super::options::framing(&names, name)
}

/// Returns the Arrow type of a column of the DataFrame.
fn column_type(name: &str, kind: &str, fields: &[Field]) -> Result<DataType> {
    let Some(field) = fields.iter().find(|field| field.name == name) else {
        let names: Vec<&str> = fields.iter().map(|field| &*field.name).collect();
        let names = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
        let hint = if name == "value" { "; select(struct('*').alias('value')) makes one of all" } else { "" };
        return Err(Error::configuration(format!(
            "there is no column {name} to be written as {kind}, only {names}{hint}"
        )));
    };
    let untyped = || Error::configuration(format!("malformed request: column {name} has no type in Spark's JSON"));
    arrow_type(field.data_type.as_ref().ok_or_else(untyped)?, name)
}

/// Rejects options that have no effect on the schema or subject, and options that do not determine the subject.
fn check_subject(written: &Written, is_set: &dyn Fn(&str) -> bool) -> Result<()> {
    let (name, kind) = (written.part.name(), &written.kind);
    let fail = |text: String| Err(Error::configuration(text));
    if !written.registry.exists() {
        let is_json = written.format == FormatName::Json;
        if !is_json && !is_set("schema") {
            return fail(format!("{name}.format={kind} needs {name}.schema or {REGISTRY}url"));
        }
        if !is_json && !matches!(written.framing, Framing::Bare | Framing::SingleObject) {
            return fail(format!(
                "{name}.format={kind} writes the id of its schema, which a registry gives: give the option \
                 {REGISTRY}url, or {name}.framing=none"
            ));
        }
        return match REGISTRY_ONLY.into_iter().find(|option| is_set(option)) {
            Some(option) => fail(format!("option {name}.{option} has no effect without {REGISTRY}url")),
            None => Ok(()),
        };
    }
    let registered = written.use_latest || (written.format != FormatName::Avro && !is_set("schema"));
    for (option, is_used) in [("version", registered), ("auto.register", !registered)] {
        if is_set(option) && !is_used {
            let action = if registered { "written" } else { "not what is written" };
            let latest =
                if written.format == FormatName::Json { String::new() } else { format!(" ({name}.use.latest)") };
            return fail(format!(
                "option {name}.{option} has no effect where the subject's version is {action}{latest}"
            ));
        }
    }
    if written.topic.is_none() && !is_set("subject") && written.strategy != Strategy::Record {
        let record = if written.format == FormatName::Avro {
            format!(", or {name}.subject.strategy=record")
        } else {
            String::new()
        };
        return fail(format!(
            "schemas are registered before rows are looked at, and only those say which topics there are: give the \
             option topic or {name}.subject{record}"
        ));
    }
    Ok(())
}

#[cfg(test)]
#[path = "written_options_tests.rs"]
mod tests;
