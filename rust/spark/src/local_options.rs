//! Adapts options to a process: finds files that Spark shipped, and replaces the login by a delegation token.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use samsarrow_client::config::Kind;

use crate::kafka::spec;
use crate::tokens::{Token, is_login};

/// Replacements for options in this process: paths for the names of shipped files, and a delegation token for the login
/// options.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LocalOptions {
    /// Folders in which Spark stores shipped files.
    pub folders: Vec<PathBuf>,
    /// Delegation token that replaces the login options.
    pub token: Option<Token>,
}

impl LocalOptions {
    /// Returns the options for clients of this process. Option names are in lower case.
    pub fn apply(&self, mut options: BTreeMap<String, String>) -> BTreeMap<String, String> {
        for (name, value) in &mut options {
            let bare = name.strip_prefix("kafka.").or_else(|| name.strip_prefix("schema.registry."));
            let is_file = bare.and_then(spec).is_some_and(|spec| spec.kind == Kind::Path);
            if let Some(path) = is_file.then(|| self.shipped_file(value)).flatten() {
                *value = path;
            }
        }
        if let Some(token) = &self.token {
            options.retain(|name, _| !is_login(name));
            options.extend(token.login());
        }
        options
    }

    /// Returns the path of a shipped file that an option names without a folder. Returns `None` if the file is in the
    /// working directory or was not shipped.
    fn shipped_file(&self, name: &str) -> Option<String> {
        let path = Path::new(name);
        if path.file_name() != Some(path.as_os_str()) || path.exists() {
            return None;
        }
        let path = self.folders.iter().map(|folder| folder.join(path)).find(|path| path.exists())?;
        Some(path.to_string_lossy().into_owned())
    }
}

#[cfg(test)]
mod tests {
    use samsarrow_client::config::Secret;

    use super::*;
    use crate::tokens::login_options;

    fn raw(options: &[(&str, &str)]) -> BTreeMap<String, String> {
        options.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn finds_shipped_files_by_bare_name() {
        let source = concat!(env!("CARGO_MANIFEST_DIR"), "/src");
        let local = LocalOptions { folders: vec!["/no/such".into(), source.into()], token: None };
        let resolve = |option: &str, file: &str| local.apply(raw(&[(option, file)]))[option].clone();
        for option in [
            "kafka.ssl.truststore.location",
            "kafka.ssl_cafile",
            "kafka.sasl.kerberos.keytab",
            "schema.registry.ssl.ca.location",
        ] {
            assert_eq!(resolve(option, "local_options.rs"), format!("{source}/local_options.rs"));
        }
        for other in [
            "Cargo.toml",
            "src/local_options.rs",
            "./local_options.rs",
            "no.rs",
            "/no/such/local_options.rs",
            "probe",
            "",
        ] {
            assert_eq!(resolve("kafka.ssl.ca.location", other), other);
        }
        assert_eq!(resolve("kafka.client.id", "local_options.rs"), "local_options.rs");
    }

    #[test]
    fn token_replaces_login_options() {
        let token = Token {
            id: r#"a"token"#.to_owned(),
            hmac: Secret::from("aGk=".to_owned()),
            mechanism: "SCRAM-SHA-256".to_owned(),
        };
        let local = LocalOptions { folders: Vec::new(), token: Some(token) };
        let login = [
            ("kafka.sasl.mechanisms", "GSSAPI"),
            ("kafka.sasl_plain_username", "alice"),
            ("kafka.sasl.pasword", "hunter2"),
            ("kafka.enable.sasl.oauthbearer.unsecure.jwt", "true"),
            ("kafka.sasl.kerberos.keytab", "alice.keytab"),
        ];
        let mut options = raw(&login);
        assert_eq!(login_options(&options).len(), login.len());
        let others = raw(&[("kafka.security.protocol", "SASL_SSL"), ("subscribe", "sasl.t")]);
        options.extend(others.clone());
        let jaas = r#"org.apache.kafka.common.security.scram.ScramLoginModule required username="a\"token" password="aGk=" tokenauth="true";"#;
        let mut expected = raw(&[("kafka.sasl.mechanism", "SCRAM-SHA-256"), ("kafka.sasl.jaas.config", jaas)]);
        expected.extend(others);
        assert_eq!(local.apply(options), expected);
        assert!(!format!("{local:?}").contains("aGk="));
    }
}
