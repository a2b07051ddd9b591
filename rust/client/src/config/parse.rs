//! Parsing and validation of options.

use std::collections::BTreeMap;

use samsarrow_wire::messages::ApiKey;
use zeroize::Zeroize;

use super::foreign_options::{FOREIGN_INTERNALS, FOREIGN_OPTIONS, canonical};
use super::providers::{self, Providers};
use super::share::{SHARE_OPTIONS, group_config, is_of_share_consumers};
use super::table::{Kind, OPTIONS, OptionSpec, UNSUPPORTED};
use super::value::OptionValue;
use super::values::{Setting, Values};
use super::{ClientKind, Options, message_format, nearest};
use crate::error::{Error, Result};
use crate::secret::Secret;

impl Options {
    /// Parses the options of a client of `kind`. The dotted and the snake_case form of a name refer to the same option.
    ///
    /// # Errors
    /// Fails with [`Error::Configuration`] if a name is unknown (the error then suggests a name) or given twice, if a
    /// value is invalid, or if an option belongs to another client or is not supported.
    pub fn parse(kind: ClientKind, pairs: impl IntoIterator<Item = (String, OptionValue)>) -> Result<Options> {
        let (mut provider_settings, mut rest) = (BTreeMap::new(), Vec::new());
        for (name_given, value) in pairs {
            match provider_setting(&name_given) {
                Some(name) => {
                    let OptionValue::Str(text) = value else {
                        return Err(Error::configuration(format!("option {name_given} must be text, not {value}")));
                    };
                    if provider_settings.insert(name, text).is_some() {
                        return Err(duplicate_error(&name_given));
                    }
                }
                None => rest.push((name_given, value)),
            }
        }
        let list = rest.iter().find_map(|(name_given, value)| match value {
            OptionValue::Str(text) if name_given.replace('_', ".") == providers::NAME => Some(text.as_str()),
            _ => None,
        });
        let providers = Providers::new(list.unwrap_or_default(), provider_settings)?;
        let mut values = Values::default();
        let mut api_versions = BTreeMap::new();
        for (name_given, value) in rest {
            let dotted = name_given.replace('_', ".");
            let (mut value, from_provider) =
                if dotted == providers::NAME { (value, false) } else { providers.resolve(&name_given, value)? };
            if let Some(api) = api_name(&dotted) {
                let (name, version) = api_version(&name_given, api, &value, from_provider)?;
                if api_versions.insert(name, version).is_some() {
                    return Err(duplicate_error(&name_given));
                }
                continue;
            }
            let spec = find(kind, &name_given, &dotted)?;
            if value == OptionValue::Default {
                continue;
            }
            let accepted = spec.kind.accept(&value).ok_or_else(|| {
                let hidden = spec.kind == Kind::Secret || from_provider;
                let displayed = if hidden { Secret::MASK.to_owned() } else { value.to_string() };
                Error::configuration(format!(
                    "option {} must be {}, not {displayed}",
                    spec.name,
                    spec.kind.expected(&value)
                ))
            })?;
            if let OptionValue::Str(text) = &mut value {
                text.zeroize();
            }
            let accepted = canonical(spec.name, accepted);
            if values.texts.insert(spec.name, accepted).is_some() {
                return Err(duplicate_error(spec.name));
            }
            values.set.insert(spec.name, Setting { spelling: name_given, from_provider });
        }
        values.check_agreement()?;
        values.into_options(kind, api_versions)
    }
}

/// Checks that a client of `kind` has an option of this name.
///
/// # Errors
/// Fails with [`Error::Configuration`] if there is no such option. The error names the replacement or the nearest name.
pub fn check_name(kind: ClientKind, name_given: &str) -> Result<()> {
    let dotted = name_given.replace('_', ".");
    if api_name(&dotted).is_some() || provider_setting(name_given).is_some() {
        return Ok(());
    }
    find(kind, name_given, &dotted).map(drop)
}

/// Returns the API of an option `api.version.<API>`.
fn api_name(dotted: &str) -> Option<&str> {
    let is_foreign = replacement(dotted).is_some() || FOREIGN_INTERNALS.contains(&dotted);
    let is_option = dotted == "api.version.request" || is_foreign;
    dotted.strip_prefix("api.version.").filter(|_| !is_option)
}

/// Returns the replacement of an option of another client.
fn replacement(dotted: &str) -> Option<&'static str> {
    FOREIGN_OPTIONS.iter().find(|(name, _)| *name == dotted).map(|(_, replacement)| *replacement)
}

/// Returns the part of a name after `config.providers.`. The spelling of provider names is preserved.
fn provider_setting(name_given: &str) -> Option<String> {
    let setting = name_given.strip_prefix("config.providers.").map(str::to_owned);
    setting.or_else(|| name_given.strip_prefix("config_providers_").map(|name| name.replace('_', ".")))
}

fn duplicate_error(name: &str) -> Error {
    Error::configuration(format!(
        "option {name} is given twice, under two spellings or in the mapping and as a keyword"
    ))
}

fn api_version(name_given: &str, api: &str, value: &OptionValue, hidden: bool) -> Result<(&'static str, i16)> {
    let api_name: String = api.split('.').collect();
    let key = ApiKey::ALL.iter().find(|key| key.name().eq_ignore_ascii_case(&api_name));
    let key =
        key.ok_or_else(|| Error::configuration(format!("option {name_given} names no API that this client supports")))?;
    let version = Kind::Int(0, i64::from(i16::MAX)).accept(value).and_then(|text| text.parse().ok());
    let version = version.ok_or_else(|| {
        let displayed = if hidden { Secret::MASK.to_owned() } else { value.to_string() };
        Error::configuration(format!("option {name_given} must be a version number, not {displayed}"))
    })?;
    Ok((key.name(), version))
}

pub(super) fn find(kind: ClientKind, name_given: &str, dotted: &str) -> Result<&'static OptionSpec> {
    let matches = |name: &str| name == name_given || name == dotted || name.replace('_', ".") == dotted;
    let spec = OPTIONS.iter().find(|spec| matches(spec.name) || spec.aliases.iter().any(|alias| matches(alias)));
    if let Some(spec) = spec {
        if spec.clients.contains(&kind) {
            return Ok(spec);
        }
        let owners: Vec<_> = spec.clients.iter().map(|c| format!("{c:?}").to_lowercase()).collect();
        let text = format!("option {} belongs to a {}, not to this client ({kind:?})", spec.name, owners.join(" or "));
        return Err(Error::configuration(text));
    }
    if is_of_share_consumers(dotted) {
        return Err(Error::configuration(format!(
            "option {dotted} belongs to a share consumer, not to this client ({kind:?})"
        )));
    }
    if let Some(text) = group_config(dotted) {
        return Err(Error::configuration(text));
    }
    if UNSUPPORTED.contains(&dotted) {
        return Err(Error::configuration(format!(
            "option {name_given} configures a part of Java's client or of a broker, which this client does not have: leave it out"
        )));
    }
    if let Some(instead) = replacement(dotted) {
        return Err(Error::configuration(format!("option {name_given} is not supported by this client: {instead}")));
    }
    if FOREIGN_INTERNALS.contains(&dotted) {
        return Err(Error::configuration(format!(
            "option {name_given} configures a part of another client, which this client does not have: leave it out"
        )));
    }
    let own = OPTIONS.iter().filter(|spec| spec.clients.contains(&kind));
    let of_share_consumers = SHARE_OPTIONS.iter().filter(|_| kind == ClientKind::Consumer);
    let candidates = own.chain(of_share_consumers).map(|spec| spec.name);
    let suggestion = nearest(dotted, candidates).map(|name| format!("; did you mean {name}?"));
    Err(Error::configuration(format!("option {name_given} is unknown{}", suggestion.unwrap_or_default())))
}

impl Values {
    fn into_options(self, kind: ClientKind, api_versions: BTreeMap<&'static str, i16>) -> Result<Options> {
        self.build(kind, api_versions).map_err(|error| self.redact_provider_values(error))
    }

    fn build(&self, kind: ClientKind, api_versions: BTreeMap<&'static str, i16>) -> Result<Options> {
        let produce = api_versions.get(ApiKey::Produce.name()).copied();
        let (producer, consumer) = (self.producer(produce)?, self.consumer()?);
        let effective = self.effective(kind, &api_versions);
        let mut common = self.common(kind, api_versions)?;
        if producer.magic < 2 {
            common.newest_api_versions.insert(ApiKey::Produce.name(), message_format::LAST_MESSAGE_VERSION);
        }
        Ok(Options { common, producer, consumer, effective, remarks: self.remarks() })
    }
}

#[cfg(test)]
#[allow(clippy::type_complexity, reason = "a table of cases")]
mod tests {
    use std::time::Duration;

    use super::super::OffsetReset;
    use super::*;

    fn parse(kind: ClientKind, pairs: &[(&str, OptionValue)]) -> Result<Options> {
        let servers = ("bootstrap.servers".to_owned(), OptionValue::Str("h:1".into()));
        let pairs = pairs.iter().map(|(name, value)| ((*name).to_owned(), value.clone()));
        Options::parse(kind, std::iter::once(servers).chain(pairs))
    }

    pub(super) fn text(value: &str) -> OptionValue {
        OptionValue::Str(value.into())
    }

    #[test]
    fn defaults_are_valid() {
        for spec in OPTIONS {
            let default = OptionValue::Str(spec.default.into());
            assert!(spec.default.is_empty() || spec.kind.accept(&default).is_some(), "{}", spec.name);
            assert_eq!(OPTIONS.iter().filter(|other| other.name == spec.name).count(), 1, "{}", spec.name);
            let names = || spec.aliases.iter().chain([&spec.name]).map(|name| name.replace('_', "."));
            let foreign =
                |name: String| FOREIGN_OPTIONS.iter().any(|row| row.0 == name) || FOREIGN_INTERNALS.contains(&&*name);
            assert!(!names().any(foreign), "{}", spec.name);
        }
    }

    #[test]
    fn defaults_equal_java() {
        let options = parse(ClientKind::Producer, &[]).unwrap();
        assert_eq!(options.producer.acks, -1);
        assert!(options.producer.enable_idempotence);
        assert_eq!(options.producer.linger, Duration::from_millis(5));
        assert_eq!(options.common.request_timeout, Duration::from_secs(30));
        assert_eq!(options.consumer.auto_offset_reset, OffsetReset::Latest);
        assert_eq!(options.consumer.max_partition_fetch_bytes, 16 << 20);
    }

    #[test]
    fn accepts_dotted_snake_case_and_aliases() {
        for name in ["fetch.max.wait.ms", "fetch_max_wait_ms", "fetch.wait.max.ms"] {
            let options = parse(ClientKind::Consumer, &[(name, OptionValue::Int(7))]).unwrap();
            assert_eq!(options.consumer.fetch_max_wait, Duration::from_millis(7));
        }
        let version = ("api_version_offset_commit", OptionValue::Int(0));
        let options = parse(ClientKind::Consumer, &[version]).unwrap();
        assert_eq!(options.common.api_versions.get("OffsetCommit"), Some(&0));
    }

    #[test]
    fn errors_name_option_and_valid_values() {
        let cases: &[(ClientKind, &[(&str, OptionValue)], &str)] = &[
            (
                ClientKind::Consumer,
                &[("fetch.min.bites", OptionValue::Int(1))],
                "option fetch.min.bites is unknown; did you mean fetch.min.bytes?",
            ),
            (
                ClientKind::Consumer,
                &[("fetch.min.bytes", text("many"))],
                "option fetch.min.bytes must be a whole number, at least 0, not \"many\"",
            ),
            (ClientKind::Producer, &[("acks", OptionValue::Int(2))], "option acks must be one of all, -1, 0, 1, not 2"),
            (
                ClientKind::Producer,
                &[("linger.ms", OptionValue::Int(1)), ("linger_ms", OptionValue::Int(1))],
                "option linger.ms is given twice, under two spellings or in the mapping and as a keyword",
            ),
            (
                ClientKind::Producer,
                &[("group.id", text("g"))],
                "option group.id belongs to a consumer, not to this client (Producer)",
            ),
            (
                ClientKind::Producer,
                &[("interceptor.classes", text("x"))],
                "option interceptor.classes is not supported by this client: wrap send and poll in your own functions",
            ),
            (
                ClientKind::Consumer,
                &[("api.version.fallback.ms", OptionValue::Int(5))],
                "option api.version.fallback.ms configures a part of another client, which this client does not have: leave it \
                 out",
            ),
            (
                ClientKind::Consumer,
                &[("ssl.engine.factory.class", text("x"))],
                "option ssl.engine.factory.class configures a part of Java's client or of a broker, which this client does not \
                 have: leave it out",
            ),
            (
                ClientKind::Producer,
                &[("acks", OptionValue::Int(1)), ("enable.idempotence", OptionValue::Bool(true))],
                "enable.idempotence=true needs acks=all, not acks=1: change one of them",
            ),
            (
                ClientKind::Producer,
                &[("transactional.id", text("x")), ("acks", OptionValue::Int(1))],
                "transactional.id needs acks=all, enable.idempotence=true and retries, not acks=1: change one of them",
            ),
            (
                ClientKind::Admin,
                &[("api.version.lunch", OptionValue::Int(1))],
                "option api.version.lunch names no API that this client supports",
            ),
        ];
        for (kind, pairs, expected) in cases {
            assert_eq!(parse(*kind, pairs).unwrap_err().to_string(), *expected);
        }
        for server in ["", " , ", "nowhere", ":9092", "h:0", "h:99999"] {
            let pairs = [("bootstrap.servers".to_owned(), text(server))];
            let error = Options::parse(ClientKind::Admin, pairs).unwrap_err().to_string();
            assert!(error.contains("bootstrap.servers"), "{error}");
        }
    }

    #[test]
    fn values_of_other_clients_are_converted() {
        for (value, reset, effective) in [
            ("smallest", OffsetReset::Earliest, "earliest"),
            ("Beginning", OffsetReset::Earliest, "earliest"),
            ("largest", OffsetReset::Latest, "latest"),
            ("end", OffsetReset::Latest, "latest"),
            ("error", OffsetReset::None, "none"),
        ] {
            let options = parse(ClientKind::Consumer, &[("auto.offset.reset", text(value))]).unwrap();
            assert_eq!(options.consumer.auto_offset_reset, reset);
            assert!(options.to_string().contains(&format!("auto.offset.reset = {effective}\n")));
        }
    }

    #[test]
    fn effective_options_hide_secrets() {
        let pairs = [("fetch_max_wait_ms", OptionValue::Int(7)), ("api.version.offset_commit", OptionValue::Int(1))];
        let printed = parse(ClientKind::Consumer, &pairs).unwrap().to_string();
        for line in ["fetch.max.wait.ms = 7", "check.crcs = true", "api.version.OffsetCommit = 1"] {
            assert!(printed.lines().any(|l| l == line), "{line} in {printed}");
        }
        assert!(!printed.contains("acks"), "options of other clients are not listed");
    }

    #[test]
    fn default_idempotence_yields_to_acks() {
        let options = parse(ClientKind::Producer, &[("acks", OptionValue::Int(1))]).unwrap();
        assert!(!options.producer.enable_idempotence);
    }
}
