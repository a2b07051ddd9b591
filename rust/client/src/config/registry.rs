//! Options of a schema registry client: the registry's own options, and the TLS options of all clients.

use std::collections::BTreeMap;
use std::time::Duration;

use super::parse::find;
use super::table::{Kind, OptionSpec};
use super::url::{domain, percent_decode, region_of_environment};
use super::values::{Setting, Values};
use super::{ClientKind, OptionValue, TlsOptions, nearest};
use crate::error::{Error, Result};
use crate::secret::Secret;

const MAX: i64 = i32::MAX as i64;

/// The registry's own options. They have the names of Confluent's client where it has the same option.
const REGISTRY_OPTIONS: &[(&str, Kind, &str)] = &[
    ("basic.auth.user.info", Kind::Secret, ""),
    ("bearer.auth.token", Kind::Secret, ""),
    ("max.retries", Kind::Int(0, 100), "3"),
    ("retries.wait.ms", Kind::Millis(0, MAX), "1000"),
    ("retries.max.wait.ms", Kind::Millis(0, MAX), "20000"),
    ("http.connect.timeout.ms", Kind::Millis(1, MAX), "10000"),
    ("http.read.timeout.ms", Kind::Millis(1, MAX), "30000"),
    ("missing.id.retries.wait.ms", Kind::Millis(0, MAX), "1000"),
    ("missing.id.cache.ttl.sec", Kind::Seconds(0, MAX), "60"),
];

/// Credentials for the registry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RegistryLogin {
    /// No login.
    None,
    /// HTTP basic authentication, `name:password`.
    Basic(Secret),
    /// Bearer token.
    Bearer(Secret),
}

/// Validated options.
#[derive(Debug, Clone)]
pub struct RegistryOptions {
    /// URLs of a single registry.
    pub urls: Vec<String>,
    /// Prefix of all subjects in the registry context, such as `:.name:`; empty for the default context.
    pub context: String,
    /// Credentials for the registry.
    pub login: RegistryLogin,
    /// Maximum number of retries after the first attempt.
    pub max_retries: u32,
    /// Maximum delay before the first retry.
    pub retry_wait: Duration,
    /// Maximum delay before any retry.
    pub retry_wait_max: Duration,
    /// Timeout for connecting to the registry.
    pub connect_timeout: Duration,
    /// Timeout for the registry's response.
    pub read_timeout: Duration,
    /// Delay before a schema that was not found is requested again.
    pub missing_wait: Duration,
    /// Time for which a not-found result stays in the cache.
    pub missing_kept: Duration,
    /// TLS settings for `https:` URLs.
    pub tls: TlsOptions,
    /// Options of AWS Glue Schema Registry; `None` for a registry with Confluent's API.
    pub glue: Option<GlueOptions>,
}

/// Options of a client of AWS Glue Schema Registry.
#[derive(Debug, Clone)]
pub struct GlueOptions {
    /// AWS region.
    pub region: String,
    /// Name of the registry.
    pub registry: String,
    /// Compatibility mode of new schemas, such as `BACKWARD`.
    pub compatibility: String,
    /// Options that select credentials, with the names of MSK's login module.
    pub aws: Vec<(String, Secret)>,
}

/// Compatibility modes of AWS Glue Schema Registry.
const COMPATIBILITIES: [&str; 8] =
    ["NONE", "DISABLED", "BACKWARD", "BACKWARD_ALL", "FORWARD", "FORWARD_ALL", "FULL", "FULL_ALL"];

/// Options of AWS Glue, and the arguments of `GlueSchemaRegistry` with the same meaning.
const GLUE_ARGUMENTS: [(&str, &str); 4] = [
    ("aws.profile", "profile"),
    ("aws.role.arn", "role_arn"),
    ("aws.endpoint.url", "endpoint_url"),
    ("aws.compatibility", "compatibility"),
];

impl GlueOptions {
    /// Creates the options. The region defaults to that of the environment.
    ///
    /// # Errors
    /// Fails if the region is unknown, or if a name or the compatibility mode is invalid.
    pub fn new(
        region: Option<String>,
        registry: &str,
        compatibility: &str,
        aws: Vec<(String, Secret)>,
    ) -> Result<Self> {
        let region = region.or_else(|| region_of_environment(|name| std::env::var(name).ok()));
        let region = region.ok_or_else(|| {
            Error::configuration("AWS Glue Schema Registry needs a region: pass region, or set AWS_REGION")
        })?;
        let is_label = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        if region.is_empty() || !region.bytes().all(is_label) {
            return Err(Error::configuration(format!("region must be a name such as eu-central-1, not {region:?}")));
        }
        let compatibility = compatibility.to_ascii_uppercase();
        if !COMPATIBILITIES.contains(&&*compatibility) {
            let known = COMPATIBILITIES.join(", ");
            return Err(Error::configuration(format!("compatibility must be one of {known}, not {compatibility:?}")));
        }
        if registry.is_empty() {
            return Err(Error::configuration(
                "registry_name must not be empty; the default registry of AWS is default-registry",
            ));
        }
        Ok(Self { region, registry: registry.to_owned(), compatibility, aws })
    }

    /// Returns the URL of AWS Glue in the region.
    fn url(&self) -> String {
        format!("https://glue.{}.{}", self.region, domain(&self.region))
    }
}

/// Returns true if a URL names AWS Glue Schema Registry.
pub fn is_glue_url(url: &str) -> bool {
    url.trim_start().to_ascii_lowercase().starts_with("glue:")
}

/// Returns the arguments of a client of the registry that the URL `glue://REGION/REGISTRY` names, or `None` for another
/// URL. Without REGION, the region is that of the environment; without REGISTRY, the registry is `default-registry`.
/// `options` have no prefix.
///
/// # Errors
/// Fails if the URL is invalid, or if an option does not apply to this kind of registry.
pub fn glue_arguments(url: &str, options: &BTreeMap<String, String>) -> Result<Option<BTreeMap<String, String>>> {
    if !is_glue_url(url) {
        let own = GLUE_ARGUMENTS.iter().find(|(name, _)| options.contains_key(*name));
        return own.map_or(Ok(None), |(name, _)| {
            Err(Error::configuration(format!(
                "option schema.registry.{name} is for AWS Glue: its URL is glue://REGION/REGISTRY"
            )))
        });
    }
    let invalid = || Error::configuration("the URL of AWS Glue Schema Registry is glue://REGION/REGISTRY");
    let rest = url.trim().get("glue:".len()..).and_then(|rest| rest.strip_prefix("//")).ok_or_else(invalid)?;
    let (region, registry) = rest.split_once('/').unwrap_or((rest, ""));
    let registry = percent_decode(registry.trim_matches('/')).ok_or_else(invalid)?;
    if registry.contains('/') || rest.contains(['?', '#', '@', ',']) {
        return Err(invalid());
    }
    if options.contains_key("context") {
        return Err(Error::configuration(
            "option schema.registry.context has no effect with AWS Glue, which has no contexts",
        ));
    }
    let renamed = |name: &str| {
        let argument = GLUE_ARGUMENTS.iter().find(|(option, _)| *option == name);
        argument.map_or(name, |(_, argument)| *argument).to_owned()
    };
    let mut arguments: BTreeMap<String, String> =
        options.iter().map(|(name, value)| (renamed(name), value.clone())).collect();
    for (name, value) in [("region", region), ("registry_name", &*registry)] {
        if !value.is_empty() {
            arguments.insert(name.to_owned(), value.to_owned());
        }
    }
    Ok(Some(arguments))
}

impl RegistryOptions {
    /// Parses the options of the registry with a URL, or with several separated by commas; `glue://REGION/REGISTRY` is a
    /// registry of AWS Glue. `options` have no prefix.
    ///
    /// # Errors
    /// Fails like [`Self::parse`] and [`glue_arguments`], and if an option is for another kind of registry.
    pub fn from_url(url: &str, mut options: BTreeMap<String, String>) -> Result<Self> {
        let pairs = |options: BTreeMap<String, String>| {
            options.into_iter().map(|(name, value)| (name, OptionValue::Str(value))).collect::<Vec<_>>()
        };
        let Some(mut arguments) = glue_arguments(url, &options)? else {
            let context = options.remove("context");
            let urls = url.split(',').map(|url| url.trim().to_owned()).filter(|url| !url.is_empty()).collect();
            return Self::parse(urls, context, pairs(options));
        };
        let mut take = |name: &str| arguments.remove(name);
        let (region, registry, compatibility) = (take("region"), take("registry_name"), take("compatibility"));
        let (profile, role, endpoint) = (take("profile"), take("role_arn"), take("endpoint_url"));
        let sts = role.as_ref().and(region.clone());
        let aws = [("awsProfileName", profile), ("awsRoleArn", role), ("awsStsRegion", sts)];
        let aws = aws.into_iter().filter_map(|(name, value)| Some((name.to_owned(), Secret::from(value?)))).collect();
        let registry = registry.as_deref().unwrap_or("default-registry");
        let glue = GlueOptions::new(region, registry, compatibility.as_deref().unwrap_or("BACKWARD"), aws)?;
        Self::glue(glue, endpoint, pairs(arguments))
    }

    /// Parses the options of a client of AWS Glue Schema Registry. `endpoint` replaces the URL of the region.
    ///
    /// # Errors
    /// Fails with [`Error::Configuration`] like [`Self::parse`], and if a login other than AWS credentials is configured.
    pub fn glue(
        glue: GlueOptions,
        endpoint: Option<String>,
        pairs: impl IntoIterator<Item = (String, OptionValue)>,
    ) -> Result<Self> {
        let options = Self::parse(vec![endpoint.unwrap_or_else(|| glue.url())], None, pairs)?;
        if options.login != RegistryLogin::None {
            return Err(Error::configuration(
                "AWS Glue Schema Registry accepts AWS credentials only: leave out basic.auth.user.info and bearer.auth.token",
            ));
        }
        Ok(Self { glue: Some(glue), ..options })
    }

    /// Parses the options. The dotted and the snake_case form of a name refer to the same option.
    ///
    /// # Errors
    /// Fails with [`Error::Configuration`] if a name is unknown or given twice, or if a value is invalid.
    pub fn parse(
        urls: Vec<String>,
        context: Option<String>,
        pairs: impl IntoIterator<Item = (String, OptionValue)>,
    ) -> Result<Self> {
        if urls.iter().any(|url| is_glue_url(url)) {
            return Err(Error::configuration(
                "a glue:// URL names AWS Glue Schema Registry: use GlueSchemaRegistry instead of SchemaRegistry, and pass the \
                 URL alone on the command line and in Spark",
            ));
        }
        let (mut own, mut values) = (BTreeMap::new(), Values::default());
        for (spelling, value) in pairs {
            let dotted = spelling.replace('_', ".");
            let (spec, row) = match REGISTRY_OPTIONS.iter().find(|(name, _, _)| *name == dotted) {
                Some(row) => (None, Some(row)),
                None => (Some(tls_option(&spelling, &dotted)?), None),
            };
            let (name, kind) = match (spec, row) {
                (_, Some((name, kind, _))) => (*name, *kind),
                (Some(spec), None) => (spec.name, spec.kind),
                (None, None) => continue,
            };
            if value == OptionValue::Default {
                continue;
            }
            let accepted = kind.accept(&value).ok_or_else(|| {
                let displayed = if kind == Kind::Secret { Secret::MASK.to_owned() } else { value.to_string() };
                Error::configuration(format!("option {name} must be {}, not {displayed}", kind.expected(&value)))
            })?;
            let is_duplicate = match row {
                Some(_) => own.insert(name, Secret::from(accepted)).is_some(),
                None => values.texts.insert(name, accepted).is_some(),
            };
            if is_duplicate {
                return Err(Error::configuration(format!("option {name} is given twice, under two spellings")));
            }
            values.set.insert(name, Setting { spelling, from_provider: false });
        }
        values.check_agreement()?;
        let default = |name: &str| REGISTRY_OPTIONS.iter().find(|row| row.0 == name).map_or("", |row| row.2);
        let text = |name: &str| own.get(name).map_or_else(|| default(name), Secret::reveal);
        let number = |name: &str| text(name).parse::<u64>().unwrap_or_default();
        let millis = |name: &str| Duration::from_millis(number(name));
        let secret = |name: &str| own.get(name).filter(|value| !value.reveal().is_empty()).cloned();
        let login = match (secret("basic.auth.user.info"), secret("bearer.auth.token")) {
            (Some(_), Some(_)) => {
                return Err(Error::configuration(
                    "options basic.auth.user.info and bearer.auth.token are mutually exclusive: leave one of them out",
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
            context: subject_prefix(context)?,
            login,
            max_retries: u32::try_from(number("max.retries")).unwrap_or_default(),
            retry_wait: millis("retries.wait.ms"),
            retry_wait_max: millis("retries.max.wait.ms"),
            connect_timeout: millis("http.connect.timeout.ms"),
            read_timeout: millis("http.read.timeout.ms"),
            missing_wait: millis("missing.id.retries.wait.ms"),
            missing_kept: Duration::from_secs(number("missing.id.cache.ttl.sec")),
            tls: values.tls()?,
            glue: None,
        })
    }
}

/// Returns the prefix of all subjects in a context, `:.name:`, in the syntax of Confluent's registry.
fn subject_prefix(context: Option<String>) -> Result<String> {
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

fn tls_option(spelling: &str, dotted: &str) -> Result<&'static OptionSpec> {
    let unknown = || {
        let suggestion = nearest(dotted, REGISTRY_OPTIONS.iter().map(|row| row.0));
        let suggestion = suggestion.map(|name| format!("; did you mean {name}?")).unwrap_or_default();
        let text =
            format!("option {spelling} is not a schema registry option: use its own options and ssl.*{suggestion}");
        Error::configuration(text)
    };
    if !dotted.starts_with("ssl.") && !dotted.starts_with("enable.ssl.") {
        return Err(unknown());
    }
    find(ClientKind::Admin, spelling, dotted)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(pairs: &[(&str, &str)]) -> Result<RegistryOptions> {
        let text = |(name, value): &(&str, &str)| ((*name).to_owned(), OptionValue::Str((*value).to_owned()));
        RegistryOptions::parse(vec!["http://h".to_owned()], None, pairs.iter().map(text))
    }

    #[test]
    fn names_and_defaults_equal_confluent() {
        let options = parse(&[("retries_wait_ms", "5"), ("ssl.ca.location", "/x")]).unwrap();
        assert_eq!((options.max_retries, options.retry_wait), (3, Duration::from_millis(5)));
        assert_eq!(options.retry_wait_max, Duration::from_secs(20));
        assert_eq!(options.tls.truststore_location.as_deref(), Some("/x"));
        assert!(options.tls.verify && options.tls.check_hostname);
    }

    #[test]
    fn rejects_invalid_options_without_secrets() {
        for (pairs, expected) in [
            (&[("max.retry", "1")][..], "did you mean max.retries?"),
            (&[("acks", "1")][..], "is not a schema registry option"),
            (&[("max.retries", "many")][..], "option max.retries must be"),
            (&[("max.retries", "1"), ("max_retries", "1")][..], "given twice"),
            (&[("basic.auth.user.info", "hunter2")][..], "must be name:password"),
            (&[("basic.auth.user.info", "u:hunter2"), ("bearer.auth.token", "hunter2")][..], "mutually exclusive"),
        ] {
            let error = parse(pairs).unwrap_err().to_string();
            assert!(error.contains(expected) && !error.contains("hunter2"), "{error}");
        }
        let options = parse(&[("basic.auth.user.info", "u:hunter2")]).unwrap();
        assert!(!format!("{options:?}").contains("hunter2"));
    }

    #[test]
    fn urls_of_glue_are_rejected() {
        let error = RegistryOptions::parse(vec!["Glue://eu-central-1".to_owned()], None, []).unwrap_err().to_string();
        assert!(error.contains("use GlueSchemaRegistry instead"), "{error}");
    }

    #[test]
    fn url_names_registry_of_glue() {
        let parse = |url: &str, options: &[(&str, &str)]| {
            let options = options.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
            RegistryOptions::from_url(url, options.collect())
        };
        let role = [("aws.role.arn", "r"), ("aws.compatibility", "full"), ("max.retries", "1")];
        let options = parse(" GLUE://cn-north-1/my%20shop/", &role).unwrap();
        let glue = options.glue.unwrap();
        assert_eq!((&*glue.region, &*glue.registry, &*glue.compatibility), ("cn-north-1", "my shop", "FULL"));
        assert_eq!(
            (options.urls, options.max_retries),
            (vec!["https://glue.cn-north-1.amazonaws.com.cn".to_owned()], 1)
        );
        let aws: Vec<(&str, &str)> = glue.aws.iter().map(|(name, value)| (&**name, value.reveal())).collect();
        assert_eq!(aws, [("awsRoleArn", "r"), ("awsStsRegion", "cn-north-1")]);
        let plain = parse("http://a, http://b", &[("context", "x")]).unwrap();
        assert_eq!((plain.urls.len(), &*plain.context), (2, ":.x:"));
        for (url, name, expected) in [
            ("glue://eu-central-1/a/b", "max.retries", "is glue://REGION/REGISTRY"),
            ("glue:eu-central-1", "max.retries", "is glue://REGION/REGISTRY"),
            ("glue://eu-central-1?x", "max.retries", "is glue://REGION/REGISTRY"),
            ("glue://Frankfurt", "max.retries", "region must be a name"),
            ("glue://eu-central-1", "context", "which has no contexts"),
            ("glue://eu-central-1", "bearer.auth.token", "AWS credentials only"),
            ("http://a", "aws.profile", "is for AWS Glue"),
        ] {
            let error = parse(url, &[(name, "1")]).unwrap_err().to_string();
            assert!(error.contains(expected), "{url}: {error}");
        }
    }

    #[test]
    fn context_becomes_subject_prefix() {
        for (spelling, expected) in
            [("staging", ":.staging:"), (".staging", ":.staging:"), (":.staging:", ":.staging:"), (".", "")]
        {
            assert_eq!(subject_prefix(Some(spelling.to_owned())).unwrap(), expected);
        }
        assert!(subject_prefix(Some("a:b".to_owned())).is_err());
    }
}
