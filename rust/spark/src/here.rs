//! Options as they hold in one process: with files that Spark brought there, and with a token in place of a login.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use samsarrow_client::config::Kind;

use crate::kafka::spec;
use crate::tokens::{Token, is_login};
use crate::values::Given;

/// What a process adds to the options that were given.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Here {
    /// Where Spark puts files.
    pub folders: Vec<PathBuf>,
    /// What is logged in with, whatever the options say.
    pub token: Option<Token>,
}

impl Here {
    /// The options for clients of this process; names are in lower case.
    pub fn options(&self, mut given: BTreeMap<String, String>) -> BTreeMap<String, String> {
        for (name, value) in &mut given {
            let bare = name.strip_prefix("kafka.").or_else(|| name.strip_prefix("schema.registry."));
            let is_file = bare.and_then(spec).is_some_and(|spec| spec.kind == Kind::Path);
            if let Some(found) = is_file.then(|| self.brought(value)).flatten() {
                *value = found;
            }
        }
        if let Some(token) = &self.token {
            given.retain(|name, _| !is_login(name));
            given.extend(token.login());
        }
        given
    }

    /// The path of a file that is given by its bare name; none where it is in the working directory, or not here.
    fn brought(&self, name: &str) -> Option<String> {
        let path = Path::new(name);
        if path.file_name() != Some(path.as_os_str()) || path.exists() {
            return None;
        }
        let found = self.folders.iter().map(|folder| folder.join(path)).find(|path| path.exists())?;
        Some(found.to_string_lossy().into_owned())
    }
}

/// The names of options that are not for tasks which log in with a token.
pub(crate) fn logins(given: &Given) -> Vec<&str> {
    given.keys().map(String::as_str).filter(|name| is_login(name)).collect()
}

#[cfg(test)]
mod tests {
    use samsarrow_client::config::Secret;

    use super::*;

    fn given(options: &[(&str, &str)]) -> BTreeMap<String, String> {
        options.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn files_are_found_by_their_bare_names() {
        let source = concat!(env!("CARGO_MANIFEST_DIR"), "/src");
        let here = Here { folders: vec!["/no/such".into(), source.into()], token: None };
        let found = |option: &str, file: &str| here.options(given(&[(option, file)]))[option].clone();
        for option in [
            "kafka.ssl.truststore.location",
            "kafka.ssl_cafile",
            "kafka.sasl.kerberos.keytab",
            "schema.registry.ssl.ca.location",
        ] {
            assert_eq!(found(option, "here.rs"), format!("{source}/here.rs"));
        }
        for other in ["Cargo.toml", "src/here.rs", "./here.rs", "no.rs", "/no/such/here.rs", "probe", ""] {
            assert_eq!(found("kafka.ssl.ca.location", other), other);
        }
        assert_eq!(found("kafka.client.id", "here.rs"), "here.rs");
    }

    #[test]
    fn a_token_takes_the_place_of_a_login() {
        let token = Token {
            id: r#"a"token"#.to_owned(),
            hmac: Secret::from("aGk=".to_owned()),
            mechanism: "SCRAM-SHA-256".to_owned(),
        };
        let here = Here { folders: Vec::new(), token: Some(token) };
        let login = [
            ("kafka.sasl.mechanisms", "GSSAPI"),
            ("kafka.sasl_plain_username", "alice"),
            ("kafka.sasl.pasword", "hunter2"),
            ("kafka.enable.sasl.oauthbearer.unsecure.jwt", "true"),
            ("kafka.sasl.kerberos.keytab", "alice.keytab"),
        ];
        let mut options = given(&login);
        assert_eq!(logins(&options).len(), login.len());
        let others = given(&[("kafka.security.protocol", "SASL_SSL"), ("subscribe", "sasl.t")]);
        options.extend(others.clone());
        let jaas = r#"org.apache.kafka.common.security.scram.ScramLoginModule required username="a\"token" password="aGk=" tokenauth="true";"#;
        let mut wanted = given(&[("kafka.sasl.mechanism", "SCRAM-SHA-256"), ("kafka.sasl.jaas.config", jaas)]);
        wanted.extend(others);
        assert_eq!(here.options(options), wanted);
        assert!(!format!("{here:?}").contains("aGk="));
    }
}
