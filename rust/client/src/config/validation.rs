//! Detects options that conflict, and options that have no effect.

use super::providers;
use super::table::OPTIONS;
use super::values::Values;
use crate::error::{Error, Result};

/// Pairs of options that exclude each other, because both set the same thing.
const EXCLUSIVE: &[(&str, &str)] = &[
    ("bootstrap.servers", "bootstrap.controllers"),
    ("ssl.truststore.location", "ssl.truststore.certificates"),
    ("ssl.endpoint.identification.algorithm", "ssl.check.hostname"),
    ("ssl.keystore.location", "ssl.keystore.key"),
    ("ssl.keystore.location", "ssl.keystore.certificate.chain"),
    ("ssl.keystore.location", "ssl.key.location"),
    ("ssl.keystore.location", "ssl.certificate.location"),
    ("ssl.key.location", "ssl.keystore.key"),
    ("ssl.certificate.location", "ssl.keystore.certificate.chain"),
    ("sasl.oauthbearer.assertion.private.key.file", "sasl.oauthbearer.assertion.private.key.pem"),
    ("sasl.oauthbearer.assertion.file", "sasl.oauthbearer.assertion.private.key.file"),
    ("sasl.oauthbearer.assertion.file", "sasl.oauthbearer.assertion.private.key.pem"),
    ("https.ca.location", "https.ca.pem"),
];

impl Values {
    /// # Errors
    /// Fails with [`Error::Configuration`] if two options that exclude each other are set.
    pub(super) fn check_agreement(&self) -> Result<()> {
        // For this option an empty text is a value, which disables the host name check.
        let has_value = |name: &str| match name {
            "ssl.endpoint.identification.algorithm" => self.is_set(name),
            _ => self.is_set(name) && !self.text(name).is_empty(),
        };
        match EXCLUSIVE.iter().find(|(first, second)| has_value(first) && has_value(second)) {
            None => Ok(()),
            Some((first, second)) => Err(Error::configuration(format!(
                "options {} and {} are mutually exclusive: leave one of them out",
                self.spelling(first),
                self.spelling(second)
            ))),
        }
    }

    /// Returns remarks on settings that are valid but probably unintended.
    pub(super) fn remarks(&self) -> Vec<String> {
        let protocol = self.text("security.protocol");
        let (tls, sasl) = (protocol.ends_with("SSL"), protocol.starts_with("SASL"));
        let is_sasl = |name: &str| ["sasl.", "enable.sasl.", "https.ca."].iter().any(|start| name.starts_with(start));
        let is_tls = |name: &str| ["ssl.", "enable.ssl."].iter().any(|start| name.starts_with(start));
        // The truststore is also used for connections to token issuers.
        let is_used_for_tokens = |name: &str| sasl && name.starts_with("ssl.truststore.");
        let set_options = |matches: &dyn Fn(&str) -> bool| -> Vec<&str> {
            let rows = OPTIONS.iter().filter(|spec| matches(spec.name) && !self.text(spec.name).is_empty());
            rows.filter(|spec| self.is_set(spec.name)).map(|spec| self.spelling(spec.name)).collect()
        };
        let unused_tls = if tls { Vec::new() } else { set_options(&|name| is_tls(name) && !is_used_for_tokens(name)) };
        let unused_sasl = if sasl { Vec::new() } else { set_options(&is_sasl) };
        let mut remarks = Vec::new();
        if !unused_tls.is_empty() || !unused_sasl.is_empty() {
            let required = match (sasl || !unused_sasl.is_empty(), tls || !unused_tls.is_empty()) {
                (true, true) => "SASL_SSL",
                (true, false) => "SASL_PLAINTEXT or SASL_SSL",
                _ => "SSL",
            };
            let names = [unused_tls, unused_sasl].concat().join(", ");
            remarks.push(format!(
                "with security.protocol={protocol} these options are ignored: {names}; they are for {required}"
            ));
        }
        if !self.is_set(providers::NAME) {
            let unresolved = set_options(&|name| providers::looks_like_a_reference(self.text(name))).join(", ");
            if !unresolved.is_empty() {
                remarks.push(format!(
                    "what looks like a reference in {unresolved} is taken as it is, because option {} is not given",
                    providers::NAME
                ));
            }
        }
        remarks
    }
}

#[cfg(test)]
mod tests {
    use crate::config::{ClientKind, OptionValue, Options};
    use crate::error::Result;

    fn parse(pairs: &[(&str, &str)]) -> Result<Options> {
        let servers = ("bootstrap.servers", "h:1");
        let pairs = std::iter::once(&servers).chain(pairs);
        let text = |(name, value): &(&str, &str)| ((*name).to_owned(), OptionValue::Str((*value).to_owned()));
        Options::parse(ClientKind::Consumer, pairs.map(text))
    }

    #[test]
    fn rejects_exclusive_options_by_spelling() {
        for (first, second) in [
            (("ssl_check_hostname", "false"), ("ssl.endpoint.identification.algorithm", "")),
            (("ssl.ca.pem", "x"), ("ssl.truststore.location", "/y")),
            (("ssl.keystore.location", "/x"), ("ssl_keyfile", "/y")),
            (("ssl.key.pem", "hunter2"), ("ssl.key.location", "/y")),
            (("https.ca.pem", "hunter2"), ("sasl.oauthbearer.https.ca.location", "/y")),
        ] {
            let error = parse(&[first, second]).unwrap_err().to_string();
            assert!(error.contains(first.0) && error.contains(second.0), "{error}");
            assert!(error.contains("mutually exclusive") && !error.contains("hunter2"), "{error}");
        }
        parse(&[("ssl.truststore.location", ""), ("ssl.truststore.certificates", "x")]).unwrap();
        parse(&[("ssl.certificate.location", "/x"), ("ssl.key.location", "/y")]).unwrap();
    }

    #[test]
    fn remarks_list_options_without_effect() {
        let remark = |pairs: &[(&str, &str)]| parse(pairs).unwrap().remarks().join("|");
        assert_eq!(
            remark(&[("sasl_plain_username", "u"), ("sasl.password", "hunter2"), ("ssl_cafile", "/x")]),
            "with security.protocol=PLAINTEXT these options are ignored: ssl_cafile, sasl_plain_username, sasl.password; \
             they are for SASL_SSL"
        );
        assert_eq!(
            remark(&[("security.protocol", "ssl"), ("sasl.mechanism", "PLAIN")]),
            "with security.protocol=SSL these options are ignored: sasl.mechanism; they are for SASL_SSL"
        );
        assert!(remark(&[("sasl.username", "u")]).ends_with("they are for SASL_PLAINTEXT or SASL_SSL"));
        let in_the_clear = [("security.protocol", "SASL_PLAINTEXT"), ("ssl.truststore.location", "/x")];
        assert_eq!(remark(&in_the_clear), "", "tokens are fetched over TLS all the same");
        assert_eq!(remark(&[("ssl.keystore.location", "")]), "");
        let secure = [("security.protocol", "SASL_SSL"), ("ssl.keystore.location", "/x"), ("sasl.username", "u")];
        assert_eq!(remark(&secure), "");
    }

    #[test]
    fn remarks_list_unresolved_references() {
        let settings = [("security.protocol", "SASL_SSL"), ("sasl.password", "${env:HOME}")];
        assert_eq!(
            parse(&settings).unwrap().remarks(),
            [
                "what looks like a reference in sasl.password is taken as it is, because option config.providers is not given"
            ]
        );
    }

    #[test]
    fn provided_values_are_hidden_in_output() {
        let providers = ("config.providers", "env");
        let options = parse(&[providers, ("client.id", "${env:CARGO_PKG_NAME}")]).unwrap();
        assert_eq!(options.common.client_id, "samsarrow-client");
        assert!(!options.to_string().contains("samsarrow-client"), "{options}");
        for name in ["fetch.min.bytes", "auto.offset.reset", "acks", "bootstrap_servers", "broker.version.fallback"] {
            let settings = [providers, (name, "${env:CARGO_PKG_NAME}")];
            let error = parse(&settings).unwrap_err().to_string();
            assert!(!error.contains("samsarrow-client"), "{error}");
        }
        let secret = parse(&[providers, ("sasl_password", "${env:CARGO_PKG_NAME}"), ("sasl.username", "u")]).unwrap();
        assert!(!format!("{secret:?}").contains("samsarrow-client"), "{secret:?}");
        let error = parse(&[providers, ("sasl.password", "${env:NO_SUCH_VARIABLE}")]).unwrap_err().to_string();
        assert_eq!(
            error,
            "option sasl.password: provider env has no NO_SUCH_VARIABLE: there is no such environment variable here"
        );
        let error = parse(&[("config.providers.env.class", "x")]).unwrap_err().to_string();
        assert!(error.contains("config.providers.env.class"), "{error}");
    }
}
