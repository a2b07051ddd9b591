//! Creates the TLS and login options from option values, without reading files or connecting.

use std::path::PathBuf;
use std::time::Duration;

use super::jaas::Entry;
use super::security_options::{
    KerberosOptions, Mechanism, OAuthOptions, Protocol, RefreshOptions, SaslOptions, SecurityOptions, StoreType,
    TlsOptions,
};
use super::values::Values;
use crate::error::{Error, Result};
use crate::secret::Secret;

impl Values {
    pub(super) fn security(&self) -> Result<SecurityOptions> {
        let protocol = match self.text("security.protocol") {
            "SSL" => Protocol::Ssl,
            "SASL_PLAINTEXT" => Protocol::SaslPlaintext,
            "SASL_SSL" => Protocol::SaslSsl,
            _ => Protocol::Plaintext,
        };
        let tls = matches!(protocol, Protocol::Ssl | Protocol::SaslSsl).then(|| self.tls()).transpose()?;
        let sasl = matches!(protocol, Protocol::SaslPlaintext | Protocol::SaslSsl).then(|| self.sasl()).transpose()?;
        Ok(SecurityOptions { protocol, tls, sasl })
    }

    pub(super) fn tls(&self) -> Result<TlsOptions> {
        let algorithm = self.text("ssl.endpoint.identification.algorithm");
        let identified = match algorithm.to_ascii_lowercase().as_str() {
            "https" => true,
            "" | "none" => false,
            _ => {
                return Err(Error::configuration(format!(
                    "option ssl.endpoint.identification.algorithm must be https, none or empty, not {algorithm:?}"
                )));
            }
        };
        Ok(TlsOptions {
            truststore_location: self.non_empty("ssl.truststore.location"),
            truststore_certificates: self.non_empty("ssl.truststore.certificates"),
            truststore_password: self.secret("ssl.truststore.password"),
            truststore_type: self.store_type("ssl.truststore.type"),
            keystore_location: self.path("ssl.keystore.location"),
            keystore_certificate_chain: self.non_empty("ssl.keystore.certificate.chain"),
            keystore_key: self.secret("ssl.keystore.key"),
            keystore_password: self.secret("ssl.keystore.password"),
            keystore_type: self.store_type("ssl.keystore.type"),
            certificate_location: self.path("ssl.certificate.location"),
            key_location: self.path("ssl.key.location"),
            key_password: self.secret("ssl.key.password"),
            check_hostname: identified && self.flag("ssl.check.hostname"),
            verify: self.flag("enable.ssl.certificate.verification"),
            enabled_protocols: self.list("ssl.enabled.protocols", ','),
            cipher_suites: self
                .list("ssl.cipher.suites", if self.text("ssl.cipher.suites").contains(':') { ':' } else { ',' }),
            curves: self.list("ssl.curves.list", if self.text("ssl.curves.list").contains(':') { ':' } else { ',' }),
            crl_location: self.path("ssl.crl.location"),
        })
    }

    fn sasl(&self) -> Result<SaslOptions> {
        let mechanism = match self.text("sasl.mechanism") {
            "PLAIN" => Mechanism::Plain,
            "SCRAM-SHA-256" => Mechanism::ScramSha256,
            "SCRAM-SHA-512" => Mechanism::ScramSha512,
            "OAUTHBEARER" => Mechanism::OAuthBearer,
            "AWS_MSK_IAM" => Mechanism::AwsMskIam,
            _ => Mechanism::Gssapi,
        };
        let mut sasl = SaslOptions {
            mechanism,
            username: self.non_empty("sasl.username"),
            password: self.secret("sasl.password"),
            delegation_token: false,
            jaas: self.secret("sasl.jaas.config"),
            login_callback_handler: self.non_empty("sasl.login.callback.handler.class"),
            client_callback_handler: self.non_empty("sasl.client.callback.handler.class"),
            kerberos: KerberosOptions {
                service_name: self.text("sasl.kerberos.service.name").to_owned(),
                domain_name: self.non_empty("sasl.kerberos.domain.name"),
                principal: self.non_empty("sasl.kerberos.principal"),
                keytab: self.path("sasl.kerberos.keytab"),
                refresh: RefreshOptions {
                    window_factor: self.float("sasl.kerberos.ticket.renew.window.factor"),
                    window_jitter: self.float("sasl.kerberos.ticket.renew.jitter"),
                    min_period: self.millis("sasl.kerberos.min.time.before.relogin"),
                    buffer: Duration::ZERO,
                },
            },
            oauth: self.oauth()?,
            aws: Vec::new(),
            refresh: RefreshOptions {
                window_factor: self.float("sasl.login.refresh.window.factor"),
                window_jitter: self.float("sasl.login.refresh.window.jitter"),
                min_period: self.seconds("sasl.login.refresh.min.period.seconds"),
                buffer: self.seconds("sasl.login.refresh.buffer.seconds"),
            },
            connect_timeout: self.millis("sasl.login.connect.timeout.ms"),
            read_timeout: self.millis("sasl.login.read.timeout.ms"),
            retry_backoff: self.millis("sasl.login.retry.backoff.ms"),
            retry_backoff_max: self.millis("sasl.login.retry.backoff.max.ms"),
        };
        if let Some(jaas) = sasl.jaas.take() {
            Entry::parse(jaas.reveal())?.merge(&mut sasl, |name| self.is_set(name))?;
            sasl.jaas = Some(jaas);
        }
        Ok(sasl)
    }

    fn oauth(&self) -> Result<OAuthOptions> {
        let assertion = |name: &str| self.non_empty(&format!("sasl.oauthbearer.assertion.{name}"));
        let extension = |pair: String| match pair.split_once('=') {
            Some((name, value)) => Ok((name.trim().to_owned(), value.trim().to_owned())),
            None => Err(Error::configuration(format!(
                "option sasl.oauthbearer.extensions must be name=value, separated by commas, not {pair:?}"
            ))),
        };
        Ok(OAuthOptions {
            oidc: self.text("sasl.oauthbearer.method") == "oidc",
            token_endpoint_url: self.non_empty("sasl.oauthbearer.token.endpoint.url"),
            grant_type: self.non_empty("sasl.oauthbearer.grant.type").map(|grant| match grant.rsplit_once(':') {
                Some((_, name)) => name.to_owned(),
                None => grant,
            }),
            client_id: self.non_empty("sasl.oauthbearer.client.credentials.client.id"),
            client_secret: self.secret("sasl.oauthbearer.client.credentials.client.secret"),
            scope: self.non_empty("sasl.oauthbearer.scope"),
            extensions: self
                .list("sasl.oauthbearer.extensions", ',')
                .into_iter()
                .map(extension)
                .collect::<Result<_>>()?,
            config: self.secret("sasl.oauthbearer.config"),
            unsecured: self.flag("enable.sasl.oauthbearer.unsecure.jwt"),
            unsecured_login: Vec::new(),
            header_urlencode: self.flag("sasl.oauthbearer.header.urlencode"),
            scope_claim_name: self.text("sasl.oauthbearer.scope.claim.name").to_owned(),
            sub_claim_name: self.text("sasl.oauthbearer.sub.claim.name").to_owned(),
            assertion_algorithm: self.text("sasl.oauthbearer.assertion.algorithm").to_owned(),
            assertion_private_key_file: self.path("sasl.oauthbearer.assertion.private.key.file"),
            assertion_private_key_pem: self.secret("sasl.oauthbearer.assertion.private.key.pem"),
            assertion_private_key_passphrase: self.secret("sasl.oauthbearer.assertion.private.key.passphrase"),
            assertion_file: self.path("sasl.oauthbearer.assertion.file"),
            assertion_template_file: self.path("sasl.oauthbearer.assertion.template.file"),
            assertion_aud: assertion("claim.aud"),
            assertion_iss: assertion("claim.iss"),
            assertion_sub: assertion("claim.sub"),
            assertion_expires: self.seconds("sasl.oauthbearer.assertion.claim.exp.seconds"),
            assertion_not_before: self.seconds("sasl.oauthbearer.assertion.claim.nbf.seconds"),
            assertion_jti: self.flag("sasl.oauthbearer.assertion.claim.jti.include"),
            https_ca_location: self.non_empty("https.ca.location"),
            https_ca_pem: self.non_empty("https.ca.pem"),
            tls: self.tls()?,
            provider: None,
            provider_name: self.non_empty("sasl.oauthbearer.token.provider"),
        })
    }

    fn secret(&self, name: &str) -> Option<Secret> {
        self.non_empty(name).map(Secret::from)
    }

    fn path(&self, name: &str) -> Option<PathBuf> {
        self.non_empty(name).map(PathBuf::from)
    }

    fn seconds(&self, name: &str) -> Duration {
        Duration::from_secs(self.number(name))
    }

    fn float(&self, name: &str) -> f64 {
        self.text(name).parse().unwrap_or_default()
    }

    fn list(&self, name: &str, separator: char) -> Vec<String> {
        self.text(name).split(separator).map(str::trim).filter(|part| !part.is_empty()).map(str::to_owned).collect()
    }

    fn store_type(&self, name: &str) -> Option<StoreType> {
        match self.text(name) {
            "JKS" => Some(StoreType::Jks),
            "PKCS12" => Some(StoreType::Pkcs12),
            "PEM" => Some(StoreType::Pem),
            _ => None,
        }
    }
}
