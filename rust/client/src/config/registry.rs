//! The options of a schema registry's client: a few of its own, and those of TLS that every client has.

use std::collections::BTreeMap;
use std::time::Duration;

use super::parse::find;
use super::table::{Kind, OptionSpec};
use super::values::{Given, Values};
use super::{ClientKind, OptionValue, TlsOptions, nearest};
use crate::error::{Error, Result};
use crate::secret::Secret;

const MAX: i64 = i32::MAX as i64;

/// Those of its own, by Confluent's names where there are such.
const OWN: &[(&str, Kind, &str)] = &[
    ("basic.auth.user.info", Kind::Secret, ""),
    ("bearer.auth.token", Kind::Secret, ""),
    ("max.retries", Kind::Int(0, 100), "3"),
    ("retries.wait.ms", Kind::Millis(0, MAX), "1000"),
    ("retries.max.wait.ms", Kind::Millis(0, MAX), "20000"),
    ("http.connect.timeout.ms", Kind::Millis(1, MAX), "10000"),
    ("http.read.timeout.ms", Kind::Millis(1, MAX), "30000"),
    ("missing.id.retries.wait.ms", Kind::Millis(0, MAX), "1000"),
    ("missing.id.cache.ttl.sec", Kind::Int(0, MAX), "60"),
];

/// How a registry is logged in to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RegistryLogin {
    /// Not at all.
    None,
    /// `name:password`.
    Basic(Secret),
    /// A token.
    Bearer(Secret),
}

/// Checked options.
#[derive(Debug, Clone)]
pub struct RegistryOptions {
    /// Where the registry is; several are of one.
    pub urls: Vec<String>,
    /// `:.name:` before each subject; empty for the default context.
    pub context: String,
    /// How it is logged in to.
    pub login: RegistryLogin,
    /// After the first attempt.
    pub max_retries: u32,
    /// Before the first of them, at most.
    pub retry_wait: Duration,
    /// Before any of them.
    pub retry_wait_max: Duration,
    /// For a connection.
    pub connect_timeout: Duration,
    /// For an answer.
    pub read_timeout: Duration,
    /// Before a schema that is not there is asked for again.
    pub missing_wait: Duration,
    /// How long it counts as not there then.
    pub missing_kept: Duration,
    /// Of `https:` urls.
    pub tls: TlsOptions,
}

impl RegistryOptions {
    /// Checks what a user gave. Dotted and snake_case names reach the same option.
    ///
    /// # Errors
    /// [`Error::Configuration`] for an unknown name, a value that cannot be, or a name given twice.
    pub fn parse(
        urls: Vec<String>,
        context: Option<String>,
        pairs: impl IntoIterator<Item = (String, OptionValue)>,
    ) -> Result<Self> {
        let (mut own, mut values) = (BTreeMap::new(), Values::default());
        for (given, value) in pairs {
            let dotted = given.replace('_', ".");
            let (spec, row) = match OWN.iter().find(|(name, _, _)| *name == dotted) {
                Some(row) => (None, Some(row)),
                None => (Some(of_tls(&given, &dotted)?), None),
            };
            let (name, kind) = match (spec, row) {
                (_, Some((name, kind, _))) => (*name, *kind),
                (Some(spec), None) => (spec.name, spec.kind),
                (None, None) => continue,
            };
            let accepted = kind.accept(&value).ok_or_else(|| {
                let shown = if kind == Kind::Secret { Secret::MASK.to_owned() } else { value.to_string() };
                Error::configuration(format!("option {name} must be {}, not {shown}", kind.describe()))
            })?;
            let before = match row {
                Some(_) => own.insert(name, Secret::from(accepted)).is_some(),
                None => values.texts.insert(name, accepted).is_some(),
            };
            if before {
                return Err(Error::configuration(format!("option {name} is given twice, under two spellings")));
            }
            values.given.insert(name, Given { spelled: given, kept_elsewhere: false });
        }
        values.check_agreement()?;
        let default = |name: &str| OWN.iter().find(|row| row.0 == name).map_or("", |row| row.2);
        let text = |name: &str| own.get(name).map_or_else(|| default(name), Secret::reveal);
        let number = |name: &str| text(name).parse::<u64>().unwrap_or_default();
        let millis = |name: &str| Duration::from_millis(number(name));
        let secret = |name: &str| own.get(name).filter(|value| !value.reveal().is_empty()).cloned();
        let login = match (secret("basic.auth.user.info"), secret("bearer.auth.token")) {
            (Some(_), Some(_)) => {
                return Err(Error::configuration(
                    "options basic.auth.user.info and bearer.auth.token are two ways to log in: leave one of them out",
                ));
            }
            (Some(user), None) if !user.reveal().contains(':') => {
                return Err(Error::configuration("option basic.auth.user.info must be name:password, not [hidden]"));
            }
            (Some(user), None) => RegistryLogin::Basic(user),
            (None, Some(token)) => RegistryLogin::Bearer(token),
            (None, None) => RegistryLogin::None,
        };
        Ok(Self {
            urls,
            context: prefix(context)?,
            login,
            max_retries: u32::try_from(number("max.retries")).unwrap_or_default(),
            retry_wait: millis("retries.wait.ms"),
            retry_wait_max: millis("retries.max.wait.ms"),
            connect_timeout: millis("http.connect.timeout.ms"),
            read_timeout: millis("http.read.timeout.ms"),
            missing_wait: millis("missing.id.retries.wait.ms"),
            missing_kept: Duration::from_secs(number("missing.id.cache.ttl.sec")),
            tls: values.tls()?,
        })
    }
}

/// What stands before subjects: `:.name:`, as Confluent's registry has it.
fn prefix(context: Option<String>) -> Result<String> {
    let Some(context) = context else { return Ok(String::new()) };
    let name = context.trim_matches(':').trim_start_matches('.');
    match name {
        "" => Ok(String::new()),
        _ if name.contains(':') || name.chars().any(char::is_control) => {
            Err(Error::configuration(format!("context must be a name such as .staging, not {context:?}")))
        }
        _ => Ok(format!(":.{name}:")),
    }
}

fn of_tls(given: &str, dotted: &str) -> Result<&'static OptionSpec> {
    let unknown = || {
        let meant = nearest(dotted, OWN.iter().map(|row| row.0));
        let meant = meant.map(|name| format!("; did you mean {name}?")).unwrap_or_default();
        let text = format!("option {given} is not a schema registry option: use its own options and ssl.*{meant}");
        Error::configuration(text)
    };
    if !dotted.starts_with("ssl.") && !dotted.starts_with("enable.ssl.") {
        return Err(unknown());
    }
    find(ClientKind::Admin, given, dotted)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(pairs: &[(&str, &str)]) -> Result<RegistryOptions> {
        let text = |(name, value): &(&str, &str)| ((*name).to_owned(), OptionValue::Str((*value).to_owned()));
        RegistryOptions::parse(vec!["http://h".to_owned()], None, pairs.iter().map(text))
    }

    #[test]
    fn names_and_defaults_are_confluents() {
        let options = parse(&[("retries_wait_ms", "5"), ("ssl.ca.location", "/x")]).unwrap();
        assert_eq!((options.max_retries, options.retry_wait), (3, Duration::from_millis(5)));
        assert_eq!(options.retry_wait_max, Duration::from_secs(20));
        assert_eq!(options.tls.truststore_location.as_deref(), Some("/x"));
        assert!(options.tls.verify && options.tls.check_hostname);
    }

    #[test]
    fn what_cannot_be_is_named_and_secrets_are_not_shown() {
        for (pairs, wanted) in [
            (&[("max.retry", "1")][..], "did you mean max.retries?"),
            (&[("acks", "1")][..], "is not a schema registry option"),
            (&[("max.retries", "many")][..], "option max.retries must be"),
            (&[("max.retries", "1"), ("max_retries", "1")][..], "given twice"),
            (&[("basic.auth.user.info", "hunter2")][..], "must be name:password"),
            (&[("basic.auth.user.info", "u:hunter2"), ("bearer.auth.token", "hunter2")][..], "two ways to log in"),
        ] {
            let error = parse(pairs).unwrap_err().to_string();
            assert!(error.contains(wanted) && !error.contains("hunter2"), "{error}");
        }
        let options = parse(&[("basic.auth.user.info", "u:hunter2")]).unwrap();
        assert!(!format!("{options:?}").contains("hunter2"));
    }

    #[test]
    fn a_context_is_a_prefix_of_subjects() {
        for (given, wanted) in
            [("staging", ":.staging:"), (".staging", ":.staging:"), (":.staging:", ":.staging:"), (".", "")]
        {
            assert_eq!(prefix(Some(given.to_owned())).unwrap(), wanted);
        }
        assert!(prefix(Some("a:b".to_owned())).is_err());
    }
}
