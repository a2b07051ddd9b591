//! What the options say about TLS and logins, put in order; nothing is read or connected to here.

use std::path::PathBuf;
use std::time::Duration;

use super::jaas::Entry;
use super::values::Values;
use crate::credentials::{AwsProvider, Provider};
use crate::error::{Error, Result};
use crate::secret::Secret;

/// How brokers are spoken to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Protocol {
    /// In the clear.
    #[default]
    Plaintext,
    /// Over TLS.
    Ssl,
    /// In the clear, with a login.
    SaslPlaintext,
    /// Over TLS, with a login.
    SaslSsl,
}

/// What kind of store a file is said to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StoreType {
    /// Java's own, or PKCS12.
    Jks,
    /// PKCS12.
    Pkcs12,
    /// PEM.
    Pem,
}

/// A login's mechanism.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "the mechanisms' own names")]
pub enum Mechanism {
    Gssapi,
    Plain,
    ScramSha256,
    ScramSha512,
    OAuthBearer,
    AwsMskIam,
}

impl Mechanism {
    /// Its name on the wire.
    pub fn name(self) -> &'static str {
        match self {
            Self::Gssapi => "GSSAPI",
            Self::Plain => "PLAIN",
            Self::ScramSha256 => "SCRAM-SHA-256",
            Self::ScramSha512 => "SCRAM-SHA-512",
            Self::OAuthBearer => "OAUTHBEARER",
            Self::AwsMskIam => "AWS_MSK_IAM",
        }
    }
}

/// The options that begin with `ssl.`.
#[derive(Debug, Clone, Default)]
pub struct TlsOptions {
    /// A store, a folder of PEM files, or `probe`.
    pub truststore_location: Option<String>,
    /// PEM text.
    pub truststore_certificates: Option<String>,
    /// Of the truststore.
    pub truststore_password: Option<Secret>,
    /// Of the truststore.
    pub truststore_type: Option<StoreType>,
    /// A store with key and certificates.
    pub keystore_location: Option<PathBuf>,
    /// PEM text.
    pub keystore_certificate_chain: Option<String>,
    /// PEM text.
    pub keystore_key: Option<Secret>,
    /// Of the keystore.
    pub keystore_password: Option<Secret>,
    /// Of the keystore.
    pub keystore_type: Option<StoreType>,
    /// A PEM file.
    pub certificate_location: Option<PathBuf>,
    /// A PEM file.
    pub key_location: Option<PathBuf>,
    /// Of the private key.
    pub key_password: Option<Secret>,
    /// Whether a certificate must name the host.
    pub check_hostname: bool,
    /// Whether certificates are looked at.
    pub verify: bool,
    /// Names as given: `TLSv1.2`, `TLSv1.3`.
    pub enabled_protocols: Vec<String>,
    /// IANA or OpenSSL names.
    pub cipher_suites: Vec<String>,
    /// Names as given.
    pub curves: Vec<String>,
    /// A PEM file.
    pub crl_location: Option<PathBuf>,
}

/// When credentials that run out are renewed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RefreshOptions {
    /// The part of their life after which they are.
    pub window_factor: f64,
    /// The random part of that.
    pub window_jitter: f64,
    /// The least time between two.
    pub min_period: Duration,
    /// The time before their end.
    pub buffer: Duration,
}

/// The options that begin with `sasl.kerberos.`.
#[derive(Debug, Clone)]
pub struct KerberosOptions {
    /// Of the brokers.
    pub service_name: String,
    /// In the brokers' principals.
    pub domain_name: Option<String>,
    /// The client's own.
    pub principal: Option<String>,
    /// With the client's keys.
    pub keytab: Option<PathBuf>,
    /// When tickets are renewed.
    pub refresh: RefreshOptions,
}

/// The options that begin with `sasl.oauthbearer.`.
#[derive(Debug, Clone)]
#[allow(missing_docs, reason = "each is described in the table of options under its own name")]
pub struct OAuthOptions {
    pub oidc: bool,
    pub token_endpoint_url: Option<String>,
    pub grant_type: Option<String>,
    pub client_id: Option<String>,
    pub client_secret: Option<Secret>,
    pub scope: Option<String>,
    pub extensions: Vec<(String, String)>,
    pub config: Option<Secret>,
    pub unsecured: bool,
    /// What Java's module has for unsecured tokens, by its name without `unsecuredLogin`: `StringClaim_sub`.
    pub unsecured_login: Vec<(String, String)>,
    pub header_urlencode: bool,
    pub scope_claim_name: String,
    pub sub_claim_name: String,
    pub assertion_algorithm: String,
    pub assertion_private_key_file: Option<PathBuf>,
    pub assertion_private_key_pem: Option<Secret>,
    pub assertion_private_key_passphrase: Option<Secret>,
    pub assertion_file: Option<PathBuf>,
    pub assertion_template_file: Option<PathBuf>,
    pub assertion_aud: Option<String>,
    pub assertion_iss: Option<String>,
    pub assertion_sub: Option<String>,
    pub assertion_expires: Duration,
    pub assertion_not_before: Duration,
    pub assertion_jti: bool,
    pub https_ca_location: Option<String>,
    pub https_ca_pem: Option<String>,
    /// Whom else to trust at the other end of HTTPS, also where brokers are spoken to in the clear.
    pub tls: TlsOptions,
    /// What options cannot say: code of the program's own.
    pub provider: Option<Provider>,
    pub provider_name: Option<String>,
}

/// The options that begin with `sasl.`.
#[derive(Debug, Clone)]
pub struct SaslOptions {
    /// The only one that is tried.
    pub mechanism: Mechanism,
    /// For PLAIN and SCRAM.
    pub username: Option<String>,
    /// For PLAIN and SCRAM.
    pub password: Option<Secret>,
    /// Whether these are the id and secret of a delegation token (KIP-48).
    pub delegation_token: bool,
    /// Java's way to say more.
    pub jaas: Option<Secret>,
    /// Java's, for logins.
    pub login_callback_handler: Option<String>,
    /// Java's, for clients.
    pub client_callback_handler: Option<String>,
    /// For GSSAPI.
    pub kerberos: KerberosOptions,
    /// For OAUTHBEARER.
    pub oauth: OAuthOptions,
    /// For AWS_MSK_IAM: what Java's module has, by its name there.
    pub aws: Vec<(String, Secret)>,
    /// For AWS_MSK_IAM: what options cannot say, code of the program's own.
    pub aws_provider: Option<AwsProvider>,
    /// When tokens are renewed.
    pub refresh: RefreshOptions,
    /// For a connection to where tokens come from.
    pub connect_timeout: Duration,
    /// For an answer from there.
    pub read_timeout: Duration,
    /// Before asking there again.
    pub retry_backoff: Duration,
    /// At most.
    pub retry_backoff_max: Duration,
}

/// What the options say of TLS and logins.
#[derive(Debug, Clone, Default)]
pub struct SecurityOptions {
    /// How brokers are spoken to.
    pub protocol: Protocol,
    /// Where it is over TLS.
    pub tls: Option<TlsOptions>,
    /// Where there is a login.
    pub sasl: Option<SaslOptions>,
}

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
            truststore_location: self.given("ssl.truststore.location"),
            truststore_certificates: self.given("ssl.truststore.certificates"),
            truststore_password: self.secret("ssl.truststore.password"),
            truststore_type: self.store_type("ssl.truststore.type"),
            keystore_location: self.path("ssl.keystore.location"),
            keystore_certificate_chain: self.given("ssl.keystore.certificate.chain"),
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
            username: self.given("sasl.username"),
            password: self.secret("sasl.password"),
            delegation_token: false,
            jaas: self.secret("sasl.jaas.config"),
            login_callback_handler: self.given("sasl.login.callback.handler.class"),
            client_callback_handler: self.given("sasl.client.callback.handler.class"),
            kerberos: KerberosOptions {
                service_name: self.text("sasl.kerberos.service.name").to_owned(),
                domain_name: self.given("sasl.kerberos.domain.name"),
                principal: self.given("sasl.kerberos.principal"),
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
            aws_provider: None,
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
            Entry::parse(jaas.reveal())?.merge(&mut sasl, |name| self.is_given(name))?;
            sasl.jaas = Some(jaas);
        }
        Ok(sasl)
    }

    fn oauth(&self) -> Result<OAuthOptions> {
        let assertion = |name: &str| self.given(&format!("sasl.oauthbearer.assertion.{name}"));
        let extension = |pair: String| match pair.split_once('=') {
            Some((name, value)) => Ok((name.trim().to_owned(), value.trim().to_owned())),
            None => Err(Error::configuration(format!(
                "option sasl.oauthbearer.extensions must be name=value, separated by commas, not {pair:?}"
            ))),
        };
        Ok(OAuthOptions {
            oidc: self.text("sasl.oauthbearer.method") == "oidc",
            token_endpoint_url: self.given("sasl.oauthbearer.token.endpoint.url"),
            grant_type: self.given("sasl.oauthbearer.grant.type").map(|grant| match grant.rsplit_once(':') {
                Some((_, name)) => name.to_owned(),
                None => grant,
            }),
            client_id: self.given("sasl.oauthbearer.client.credentials.client.id"),
            client_secret: self.secret("sasl.oauthbearer.client.credentials.client.secret"),
            scope: self.given("sasl.oauthbearer.scope"),
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
            https_ca_location: self.given("https.ca.location"),
            https_ca_pem: self.given("https.ca.pem"),
            tls: self.tls()?,
            provider: None,
            provider_name: self.given("sasl.oauthbearer.token.provider"),
        })
    }

    fn secret(&self, name: &str) -> Option<Secret> {
        self.given(name).map(Secret::from)
    }

    fn path(&self, name: &str) -> Option<PathBuf> {
        self.given(name).map(PathBuf::from)
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
