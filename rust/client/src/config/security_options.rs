//! How connections are made secure, as options say it.

use std::path::PathBuf;
use std::time::Duration;

use crate::config::credentials::{AwsProvider, Provider};
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
