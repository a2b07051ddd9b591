//! `sasl.jaas.config`: credentials in Java's form, as a single entry of a JAAS configuration.
//!
//! The entry is parsed as in Java and converted to this client's options. No class is ever loaded. Known login modules
//! are recognised by name, and all others are errors (CVE-2023-25194). No error quotes the entry, because it may be
//! part of a password.

#[cfg(test)]
#[allow(clippy::type_complexity, reason = "a table of cases")]
mod tests;
mod tokens;

use std::path::PathBuf;

use self::tokens::{Token, Tokens};
use crate::config::security_options::{KerberosOptions, Mechanism, SaslOptions};
use crate::error::{Error, Result};
use crate::secret::Secret;

const NAME: &str = "sasl.jaas.config";

/// Supported login modules.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Module {
    Plain,
    Scram,
    OAuth,
    Krb5,
    Iam,
}

impl Module {
    /// Package prefixes of the classes as relocated by Databricks and in MSK's jar.
    const SHADED_PREFIXES: [&str; 2] = ["kafkashaded.", "shadedmskiam."];

    fn from_class(class: &str) -> Option<Self> {
        let unshaded = Self::SHADED_PREFIXES.iter().find_map(|prefix| class.strip_prefix(prefix));
        Some(match unshaded.unwrap_or(class) {
            "org.apache.kafka.common.security.plain.PlainLoginModule" => Self::Plain,
            "org.apache.kafka.common.security.scram.ScramLoginModule" => Self::Scram,
            "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule" => Self::OAuth,
            "com.sun.security.auth.module.Krb5LoginModule" | "com.ibm.security.auth.module.Krb5LoginModule" => {
                Self::Krb5
            }
            "software.amazon.msk.auth.iam.IAMLoginModule" => Self::Iam,
            _ => return None,
        })
    }

    fn name(self) -> &'static str {
        match self {
            Self::Plain => "PlainLoginModule",
            Self::Scram => "ScramLoginModule",
            Self::OAuth => "OAuthBearerLoginModule",
            Self::Krb5 => "Krb5LoginModule",
            Self::Iam => "IAMLoginModule",
        }
    }

    /// Returns the mechanisms for which Java uses this login module.
    fn mechanisms(self) -> &'static [Mechanism] {
        match self {
            Self::Plain => &[Mechanism::Plain],
            Self::Scram => &[Mechanism::ScramSha256, Mechanism::ScramSha512],
            Self::OAuth => &[Mechanism::OAuthBearer],
            Self::Krb5 => &[Mechanism::Gssapi],
            Self::Iam => &[Mechanism::AwsMskIam],
        }
    }

    /// Returns the names of the module's options. A trailing `*` matches any suffix.
    fn options(self) -> &'static [&'static str] {
        match self {
            Self::Plain => &["username", "password"],
            Self::Scram => &["username", "password", "tokenauth"],
            Self::OAuth => &["clientId", "clientSecret", "scope", "extension_*", "unsecuredLogin*"],
            Self::Krb5 => &[
                "principal",
                "keyTab",
                "useKeyTab",
                "useTicketCache",
                "ticketCache",
                "serviceName",
                "storeKey",
                "doNotPrompt",
                "renewTGT",
                "refreshKrb5Config",
                "isInitiator",
                "debug",
            ],
            Self::Iam => &["aws*"],
        }
    }

    fn has_option(self, option: &str) -> bool {
        self.options().iter().any(|known| match known.strip_suffix('*') {
            Some(start) => option.len() > start.len() && option.starts_with(start),
            None => *known == option,
        })
    }
}

fn jaas_error(problem: impl std::fmt::Display) -> Error {
    Error::configuration(format!("option {NAME}: {problem}"))
}

/// A JAAS entry.
#[derive(Debug)]
pub(super) struct Entry {
    module: Module,
    options: Vec<(String, Secret)>,
}

impl Entry {
    /// Parses the configuration, which must be a single entry.
    ///
    /// # Errors
    /// Fails with [`Error::Configuration`] if the entry is invalid or contains an unknown module. The error contains no
    /// secrets.
    pub(super) fn parse(text: &str) -> Result<Self> {
        let mut tokens = Tokens::new(text);
        let module = match tokens.next()? {
            Some(Token::Word(class)) => module(&class)?,
            _ => {
                return Err(jaas_error(
                    "it must begin with the name of a login module, for example \
                     org.apache.kafka.common.security.plain.PlainLoginModule required username=\"…\" password=\"…\";",
                ));
            }
        };
        match tokens.next()? {
            Some(Token::Word(flag))
                if ["required", "requisite", "sufficient", "optional"]
                    .iter()
                    .any(|known| known.eq_ignore_ascii_case(&flag)) => {}
            _ => return Err(jaas_error("`required` must follow the login module")),
        }
        let mut options: Vec<(String, Secret)> = Vec::new();
        loop {
            let position = options.len() + 1;
            let name = match tokens.next()? {
                Some(Token::Word(name) | Token::Quoted(name)) => name,
                Some(Token::Sign(';')) => break,
                Some(Token::Sign(_)) => {
                    return Err(jaas_error(format!("option {position} is not name=\"value\"")));
                }
                None => return Err(jaas_error("it must end with a semicolon")),
            };
            let value = match (tokens.next()?, tokens.value()?) {
                (Some(Token::Sign('=')), Some(value)) => Secret::from(String::clone(&value)),
                _ => {
                    return Err(jaas_error(format!(
                        "option {position} of {} has no value, or the value before it no quotes: write values in quotes, in \
                         which \\ and \" are written \\\\ and \\\"",
                        module.name()
                    )));
                }
            };
            if !module.has_option(&name) {
                return Err(jaas_error(format!(
                    "option {position} of {} is not one of the known options: {}",
                    module.name(),
                    module.options().join(", ")
                )));
            }
            if options.iter().any(|(known, _)| *known == **name) {
                return Err(jaas_error(format!("{} is given twice", *name)));
            }
            options.push((String::clone(&name), value));
        }
        if tokens.next()?.is_some() {
            return Err(jaas_error(
                "it has more than one login module, or something after its semicolon: one is allowed",
            ));
        }
        Ok(Self { module, options })
    }

    /// Merges the entry into the corresponding options of this client. `is_set` returns true for an option that the
    /// user set.
    ///
    /// # Errors
    /// Fails with [`Error::Configuration`] if the entry belongs to another mechanism, sets an option that is set
    /// already, or if its options contradict each other.
    pub(super) fn merge(self, sasl: &mut SaslOptions, is_set: impl Fn(&str) -> bool) -> Result<()> {
        let module = self.module;
        if !module.mechanisms().contains(&sasl.mechanism) {
            let mechanisms: Vec<_> = module.mechanisms().iter().map(|known| known.name()).collect();
            let configured = if is_set("sasl.mechanism") {
                format!("sasl.mechanism is {}", sasl.mechanism.name())
            } else {
                format!("sasl.mechanism is not given, which stands for {}", sasl.mechanism.name())
            };
            return Err(jaas_error(format!(
                "{} is for {1}, but {configured}: set sasl.mechanism={1}",
                module.name(),
                mechanisms.join(" or ")
            )));
        }
        let reject_duplicate = |names: &[&str], key: &str| match names.iter().find(|name| is_set(name)) {
            Some(name) => Err(jaas_error(format!("{key} is given twice: there and by option {name}"))),
            None => Ok(()),
        };
        let (mut use_keytab, mut use_cache) = (false, false);
        for (key, value) in self.options {
            let text = || value.reveal().to_owned();
            match key.as_str() {
                "username" => {
                    reject_duplicate(&["sasl.username"], &key)?;
                    sasl.username = Some(text());
                }
                "password" => {
                    reject_duplicate(&["sasl.password"], &key)?;
                    sasl.password = Some(value);
                }
                "tokenauth" => sasl.delegation_token = flag(&key, &value)?,
                "clientId" => {
                    reject_duplicate(&["sasl.oauthbearer.client.credentials.client.id"], &key)?;
                    sasl.oauth.client_id = Some(text());
                }
                "clientSecret" => {
                    reject_duplicate(&["sasl.oauthbearer.client.credentials.client.secret"], &key)?;
                    sasl.oauth.client_secret = Some(value);
                }
                "scope" => {
                    reject_duplicate(&["sasl.oauthbearer.scope"], &key)?;
                    sasl.oauth.scope = Some(text());
                }
                "principal" => {
                    reject_duplicate(&["sasl.kerberos.principal"], &key)?;
                    sasl.kerberos.principal = Some(text());
                }
                "serviceName" => {
                    reject_duplicate(&["sasl.kerberos.service.name"], &key)?;
                    sasl.kerberos.service_name = text();
                }
                "keyTab" => {
                    reject_duplicate(&["sasl.kerberos.keytab"], &key)?;
                    let file = text();
                    sasl.kerberos.keytab = Some(PathBuf::from(file.strip_prefix("file:").unwrap_or(&file)));
                }
                "ticketCache" => {
                    return Err(jaas_error(
                        "ticketCache is not supported: set the cache in the environment variable KRB5CCNAME",
                    ));
                }
                "useKeyTab" => use_keytab = flag(&key, &value)?,
                "useTicketCache" => use_cache = flag(&key, &value)?,
                "isInitiator" if !flag(&key, &value)? => {
                    return Err(jaas_error("isInitiator=false is for brokers"));
                }
                // These options control tickets and terminal prompts in Java. They have no effect here.
                "storeKey" | "doNotPrompt" | "renewTGT" | "refreshKrb5Config" | "isInitiator" | "debug" => {
                    flag(&key, &value)?;
                }
                _ if key.starts_with("aws") => sasl.aws.push((key, value)),
                _ => match (key.strip_prefix("extension_"), key.strip_prefix("unsecuredLogin")) {
                    (Some(name), _) => {
                        reject_duplicate(&["sasl.oauthbearer.extensions"], &key)?;
                        sasl.oauth.extensions.push((name.to_owned(), text()));
                    }
                    (None, Some(name)) => {
                        reject_duplicate(&["sasl.oauthbearer.config"], &key)?;
                        sasl.oauth.unsecured_login.push((name.to_owned(), text()));
                    }
                    (None, None) => {}
                },
            }
        }
        if module == Module::Krb5 {
            sasl.kerberos.check(use_keytab, use_cache, is_set("sasl.kerberos.keytab"))?;
        }
        Ok(())
    }
}

impl KerberosOptions {
    /// Checks the settings that Java's module requires. The module reads a keytab only with useKeyTab. Without other
    /// credentials it would prompt for a password, which this client cannot do.
    fn check(&self, use_keytab: bool, use_cache: bool, keytab_by_option: bool) -> Result<()> {
        if use_keytab && self.keytab.is_none() {
            return Err(jaas_error("useKeyTab=true needs keyTab"));
        }
        if !use_keytab && self.keytab.is_some() && !keytab_by_option {
            return Err(jaas_error("keyTab needs useKeyTab=true"));
        }
        if self.keytab.is_none() && !use_cache {
            return Err(jaas_error("Krb5LoginModule needs useKeyTab=true with keyTab, or useTicketCache=true"));
        }
        Ok(())
    }
}

fn module(class: &str) -> Result<Module> {
    let known = "this client supports Kafka's Plain-, Scram- and OAuthBearerLoginModule, Krb5LoginModule and AWS MSK's \
                 IAMLoginModule, under their full names, and loads nothing";
    // The error quotes the text only if it looks like a class name, because other text may be part of a password.
    let is_class = class.ends_with("LoginModule")
        && class.contains('.')
        && class.chars().all(|char| char.is_ascii_alphanumeric() || "._$".contains(char));
    Module::from_class(class).ok_or_else(|| match is_class {
        true => jaas_error(format!("{class} is not supported: {known}")),
        false => jaas_error(format!("it does not begin with the name of a login module: {known}")),
    })
}

fn flag(key: &str, value: &Secret) -> Result<bool> {
    match value.reveal().to_ascii_lowercase().as_str() {
        "true" | "yes" => Ok(true),
        "false" | "no" => Ok(false),
        _ => Err(jaas_error(format!("{key} must be true or false"))),
    }
}
