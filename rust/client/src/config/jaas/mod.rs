//! Java's way to give credentials: `sasl.jaas.config`, one entry of a JAAS configuration.
//!
//! It is read as Java reads it and becomes options of ours. Nothing is ever loaded: a module is a name that is known
//! here, or an error (CVE-2023-25194). No error repeats what it found, which may be a piece of a password.

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

/// What an entry may be for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Module {
    Plain,
    Scram,
    OAuth,
    Krb5,
    Iam,
}

impl Module {
    /// Databricks and MSK's own jar have them under names of their own.
    const SHADES: [&str; 2] = ["kafkashaded.", "shadedmskiam."];

    fn named(class: &str) -> Option<Self> {
        let shaded = Self::SHADES.iter().find_map(|shade| class.strip_prefix(shade));
        Some(match shaded.unwrap_or(class) {
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

    /// The mechanisms that it is for.
    fn mechanisms(self) -> &'static [Mechanism] {
        match self {
            Self::Plain => &[Mechanism::Plain],
            Self::Scram => &[Mechanism::ScramSha256, Mechanism::ScramSha512],
            Self::OAuth => &[Mechanism::OAuthBearer],
            Self::Krb5 => &[Mechanism::Gssapi],
            Self::Iam => &[Mechanism::AwsMskIam],
        }
    }

    /// Its options; a `*` at the end stands for any name that begins so.
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

    fn has(self, option: &str) -> bool {
        self.options().iter().any(|known| match known.strip_suffix('*') {
            Some(start) => option.len() > start.len() && option.starts_with(start),
            None => *known == option,
        })
    }
}

fn wrong(what: impl std::fmt::Display) -> Error {
    Error::configuration(format!("option {NAME}: {what}"))
}

/// The entry.
#[derive(Debug)]
pub(super) struct Entry {
    module: Module,
    options: Vec<(String, Secret)>,
}

impl Entry {
    /// Reads the one entry that there must be.
    ///
    /// # Errors
    /// [`Error::Configuration`], which repeats nothing that may be secret.
    pub(super) fn parse(text: &str) -> Result<Self> {
        let mut tokens = Tokens::new(text);
        let module = match tokens.next()? {
            Some(Token::Word(class)) => module(&class)?,
            _ => {
                return Err(wrong(
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
            _ => return Err(wrong("`required` must stand after the login module")),
        }
        let mut options: Vec<(String, Secret)> = Vec::new();
        loop {
            let place = options.len() + 1;
            let name = match tokens.next()? {
                Some(Token::Word(name) | Token::Quoted(name)) => name,
                Some(Token::Sign(';')) => break,
                Some(Token::Sign(_)) => {
                    return Err(wrong(format!("what stands in place of option {place} is not name=\"value\"")));
                }
                None => return Err(wrong("a semicolon must stand at its end")),
            };
            let value = match (tokens.next()?, tokens.value()?) {
                (Some(Token::Sign('=')), Some(value)) => Secret::from(String::clone(&value)),
                _ => {
                    return Err(wrong(format!(
                        "option {place} of {} has no value, or the value before it no quotes: values stand in quotes, in \
                         which \\ and \" are written \\\\ and \\\"",
                        module.name()
                    )));
                }
            };
            if !module.has(&name) {
                return Err(wrong(format!(
                    "option {place} of {} is none of those that are known: {}",
                    module.name(),
                    module.options().join(", ")
                )));
            }
            if options.iter().any(|(known, _)| *known == **name) {
                return Err(wrong(format!("{} is given twice", *name)));
            }
            options.push((String::clone(&name), value));
        }
        if tokens.next()?.is_some() {
            return Err(wrong("it has more than one login module, or something after its semicolon: one is allowed"));
        }
        Ok(Self { module, options })
    }

    /// Puts what the entry says into the options that it stands for; `given` says which of those were named.
    ///
    /// # Errors
    /// [`Error::Configuration`] where it is for another mechanism, where something is given twice, or where options of a
    /// module contradict each other.
    pub(super) fn merge(self, sasl: &mut SaslOptions, given: impl Fn(&str) -> bool) -> Result<()> {
        let module = self.module;
        if !module.mechanisms().contains(&sasl.mechanism) {
            let mechanisms: Vec<_> = module.mechanisms().iter().map(|known| known.name()).collect();
            let is = if given("sasl.mechanism") {
                format!("sasl.mechanism is {}", sasl.mechanism.name())
            } else {
                format!("sasl.mechanism is not given, which stands for {}", sasl.mechanism.name())
            };
            return Err(wrong(format!(
                "{} is for {1}, but {is}: set sasl.mechanism={1}",
                module.name(),
                mechanisms.join(" or ")
            )));
        }
        let once = |names: &[&str], key: &str| match names.iter().find(|name| given(name)) {
            Some(name) => Err(wrong(format!("{key} is given twice: there and by option {name}"))),
            None => Ok(()),
        };
        let (mut use_keytab, mut use_cache) = (false, false);
        for (key, value) in self.options {
            let text = || value.reveal().to_owned();
            match key.as_str() {
                "username" => {
                    once(&["sasl.username"], &key)?;
                    sasl.username = Some(text());
                }
                "password" => {
                    once(&["sasl.password"], &key)?;
                    sasl.password = Some(value);
                }
                "tokenauth" => sasl.delegation_token = flag(&key, &value)?,
                "clientId" => {
                    once(&["sasl.oauthbearer.client.credentials.client.id"], &key)?;
                    sasl.oauth.client_id = Some(text());
                }
                "clientSecret" => {
                    once(&["sasl.oauthbearer.client.credentials.client.secret"], &key)?;
                    sasl.oauth.client_secret = Some(value);
                }
                "scope" => {
                    once(&["sasl.oauthbearer.scope"], &key)?;
                    sasl.oauth.scope = Some(text());
                }
                "principal" => {
                    once(&["sasl.kerberos.principal"], &key)?;
                    sasl.kerberos.principal = Some(text());
                }
                "serviceName" => {
                    once(&["sasl.kerberos.service.name"], &key)?;
                    sasl.kerberos.service_name = text();
                }
                "keyTab" => {
                    once(&["sasl.kerberos.keytab"], &key)?;
                    let file = text();
                    sasl.kerberos.keytab = Some(PathBuf::from(file.strip_prefix("file:").unwrap_or(&file)));
                }
                "ticketCache" => {
                    return Err(wrong(
                        "ticketCache is not taken: name the cache in the environment variable KRB5CCNAME",
                    ));
                }
                "useKeyTab" => use_keytab = flag(&key, &value)?,
                "useTicketCache" => use_cache = flag(&key, &value)?,
                "isInitiator" if !flag(&key, &value)? => {
                    return Err(wrong("isInitiator=false is for brokers"));
                }
                // Java's own affair: how it keeps tickets, and whether it asks the terminal.
                "storeKey" | "doNotPrompt" | "renewTGT" | "refreshKrb5Config" | "isInitiator" | "debug" => {
                    flag(&key, &value)?;
                }
                _ if key.starts_with("aws") => sasl.aws.push((key, value)),
                _ => match (key.strip_prefix("extension_"), key.strip_prefix("unsecuredLogin")) {
                    (Some(name), _) => {
                        once(&["sasl.oauthbearer.extensions"], &key)?;
                        sasl.oauth.extensions.push((name.to_owned(), text()));
                    }
                    (None, Some(name)) => {
                        once(&["sasl.oauthbearer.config"], &key)?;
                        sasl.oauth.unsecured_login.push((name.to_owned(), text()));
                    }
                    (None, None) => {}
                },
            }
        }
        if module == Module::Krb5 {
            sasl.kerberos.check(use_keytab, use_cache, given("sasl.kerberos.keytab"))?;
        }
        Ok(())
    }
}

impl KerberosOptions {
    /// Java's module takes keys only if it is asked to, and asks a person for a password if it finds nothing.
    fn check(&self, use_keytab: bool, use_cache: bool, keytab_by_option: bool) -> Result<()> {
        if use_keytab && self.keytab.is_none() {
            return Err(wrong("useKeyTab=true needs keyTab"));
        }
        if !use_keytab && self.keytab.is_some() && !keytab_by_option {
            return Err(wrong("keyTab needs useKeyTab=true"));
        }
        if self.keytab.is_none() && !use_cache {
            return Err(wrong("Krb5LoginModule needs useKeyTab=true with keyTab, or useTicketCache=true"));
        }
        Ok(())
    }
}

fn module(class: &str) -> Result<Module> {
    let known = "this client knows Kafka's Plain-, Scram- and OAuthBearerLoginModule, Krb5LoginModule and AWS MSK's \
                 IAMLoginModule, under their full names, and loads nothing";
    // Only what looks like a class is repeated.
    let is_class = class.ends_with("LoginModule")
        && class.contains('.')
        && class.chars().all(|char| char.is_ascii_alphanumeric() || "._$".contains(char));
    Module::named(class).ok_or_else(|| match is_class {
        true => wrong(format!("{class} is refused: {known}")),
        false => wrong(format!("it does not begin with the name of a login module: {known}")),
    })
}

fn flag(key: &str, value: &Secret) -> Result<bool> {
    match value.reveal().to_ascii_lowercase().as_str() {
        "true" | "yes" => Ok(true),
        "false" | "no" => Ok(false),
        _ => Err(wrong(format!("{key} must be true or false"))),
    }
}
