//! Typed options for TLS and logins.

use std::path::PathBuf;
use std::time::Duration;

use crate::config::credentials::Provider;
use crate::secret::Secret;

/// `security.protocol`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Protocol {
    /// Plaintext without a login.
    #[default]
    Plaintext,
    /// TLS without a login.
    Ssl,
    /// Plaintext with a login.
    SaslPlaintext,
    /// TLS with a login.
    SaslSsl,
}

/// Type of a store, as declared by the user.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StoreType {
    /// JKS. A PKCS12 store is accepted as well.
    Jks,
    /// PKCS12.
    Pkcs12,
    /// PEM.
    Pem,
}

/// SASL mechanism.
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
    /// Returns the mechanism's name in the protocol.
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

/// Options with the prefix `ssl.`.
#[derive(Debug, Clone, Default)]
pub struct TlsOptions {
    /// Path of a truststore, path of a directory with PEM files, or `probe` for the system's trust store.
    pub truststore_location: Option<String>,
    /// PEM text.
    pub truststore_certificates: Option<String>,
    /// Password of the truststore.
    pub truststore_password: Option<Secret>,
    /// Type of the truststore.
    pub truststore_type: Option<StoreType>,
    /// Path of a store with the client's private key and certificates.
    pub keystore_location: Option<PathBuf>,
    /// PEM text.
    pub keystore_certificate_chain: Option<String>,
    /// PEM text.
    pub keystore_key: Option<Secret>,
    /// Password of the keystore.
    pub keystore_password: Option<Secret>,
    /// Type of the keystore.
    pub keystore_type: Option<StoreType>,
    /// A PEM file.
    pub certificate_location: Option<PathBuf>,
    /// A PEM file.
    pub key_location: Option<PathBuf>,
    /// Password of the private key, if it is encrypted.
    pub key_password: Option<Secret>,
    /// True if a broker's certificate must match its host name.
    pub check_hostname: bool,
    /// True if brokers' certificates are verified.
    pub verify: bool,
    /// TLS versions by their names in the option: `TLSv1.2`, `TLSv1.3`.
    pub enabled_protocols: Vec<String>,
    /// Cipher suites by their IANA or OpenSSL names.
    pub cipher_suites: Vec<String>,
    /// Names as configured.
    pub curves: Vec<String>,
    /// A PEM file.
    pub crl_location: Option<PathBuf>,
}

/// Settings for renewing tokens or tickets before they expire.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RefreshOptions {
    /// Fraction of their lifetime after which credentials are renewed.
    pub window_factor: f64,
    /// Maximum random addition to that fraction.
    pub window_jitter: f64,
    /// Minimum time between renewals.
    pub min_period: Duration,
    /// Minimum time between a renewal and the expiry of the credentials.
    pub buffer: Duration,
}

/// Options with the prefix `sasl.kerberos.`.
#[derive(Debug, Clone)]
pub struct KerberosOptions {
    /// Service name in the brokers' principals.
    pub service_name: String,
    /// Host name in the brokers' principals, if it differs from the host of the address.
    pub domain_name: Option<String>,
    /// Principal of the client.
    pub principal: Option<String>,
    /// Path of a keytab with the client's keys.
    pub keytab: Option<PathBuf>,
    /// Renewal of tickets.
    pub refresh: RefreshOptions,
}

/// Options with the prefix `sasl.oauthbearer.`.
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
    /// Options of Java's login module for unsecured tokens, without their prefix `unsecuredLogin`: `StringClaim_sub`.
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
    /// TLS settings for HTTPS. They apply even if the connections to brokers do not use TLS.
    pub tls: TlsOptions,
    /// Token source that the application implements.
    pub provider: Option<Provider>,
    pub provider_name: Option<String>,
}

/// Options with the prefix `sasl.`.
#[derive(Debug, Clone)]
pub struct SaslOptions {
    /// The only mechanism that the client uses.
    pub mechanism: Mechanism,
    /// User name for PLAIN and SCRAM.
    pub username: Option<String>,
    /// Password for PLAIN and SCRAM.
    pub password: Option<Secret>,
    /// True if user name and password are the id and HMAC of a delegation token (KIP-48).
    pub delegation_token: bool,
    /// `sasl.jaas.config`: login settings in Java's form.
    pub jaas: Option<Secret>,
    /// Class name of the callback handler that Java's client would use for logins.
    pub login_callback_handler: Option<String>,
    /// Class name of the callback handler that Java's client would use for SASL exchanges.
    pub client_callback_handler: Option<String>,
    /// Options of GSSAPI.
    pub kerberos: KerberosOptions,
    /// Options of OAUTHBEARER.
    pub oauth: OAuthOptions,
    /// Options of AWS_MSK_IAM, by the names that they have in Java's login module.
    pub aws: Vec<(String, Secret)>,
    /// Renewal of tokens.
    pub refresh: RefreshOptions,
    /// Timeout for connecting to a token issuer.
    pub connect_timeout: Duration,
    /// Timeout for a response of a token issuer.
    pub read_timeout: Duration,
    /// Initial delay before a request to a token issuer is retried.
    pub retry_backoff: Duration,
    /// Maximum delay before a request to a token issuer is retried.
    pub retry_backoff_max: Duration,
}

/// Options for TLS and logins.
#[derive(Debug, Clone, Default)]
pub struct SecurityOptions {
    /// Security protocol.
    pub protocol: Protocol,
    /// TLS options; `None` if brokers are connected to without TLS.
    pub tls: Option<TlsOptions>,
    /// Login options; `None` if the client does not log in.
    pub sasl: Option<SaslOptions>,
}
