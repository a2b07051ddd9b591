//! Security options of a broker.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use samsarrow_wire::releases::Release;

/// Security protocol, as Kafka names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Protocol {
    /// No encryption, no authentication.
    #[default]
    Plaintext,
    /// TLS, no SASL authentication.
    Ssl,
    /// No encryption, SASL authentication.
    SaslPlaintext,
    /// TLS and SASL authentication.
    SaslSsl,
}

impl Protocol {
    /// All protocols.
    pub const ALL: &'static [Protocol] =
        &[Protocol::Plaintext, Protocol::Ssl, Protocol::SaslPlaintext, Protocol::SaslSsl];

    /// Returns the name used in `security.protocol`.
    pub fn name(&self) -> &'static str {
        match self {
            Protocol::Plaintext => "PLAINTEXT",
            Protocol::Ssl => "SSL",
            Protocol::SaslPlaintext => "SASL_PLAINTEXT",
            Protocol::SaslSsl => "SASL_SSL",
        }
    }

    /// Returns true if connections use TLS.
    pub fn is_encrypted(self) -> bool {
        matches!(self, Protocol::Ssl | Protocol::SaslSsl)
    }

    /// Returns true if clients authenticate by SASL.
    pub fn has_login(self) -> bool {
        matches!(self, Protocol::SaslPlaintext | Protocol::SaslSsl)
    }
}

/// Client authentication by certificate, like Kafka's `ssl.client.auth`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ClientAuth {
    /// No certificate is requested.
    #[default]
    None,
    /// A certificate is requested, and must be valid if sent.
    Requested,
    /// A valid certificate is required.
    Required,
}

impl ClientAuth {
    /// All values.
    pub const ALL: &'static [ClientAuth] = &[ClientAuth::None, ClientAuth::Requested, ClientAuth::Required];

    /// Returns Kafka's name.
    pub fn name(&self) -> &'static str {
        match self {
            ClientAuth::None => "none",
            ClientAuth::Requested => "requested",
            ClientAuth::Required => "required",
        }
    }
}

/// SASL mechanism.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Mechanism {
    /// Name and password in plain text (RFC 4616).
    Plain,
    /// SCRAM with SHA-256, which proves the password without sending it (RFC 5802, RFC 7677).
    ScramSha256,
    /// SCRAM with SHA-512.
    ScramSha512,
    /// Bearer token (RFC 7628): an unsecured JWT, which Kafka accepts by default.
    OAuthBearer,
}

impl Mechanism {
    /// All mechanisms.
    pub const ALL: &'static [Mechanism] =
        &[Mechanism::Plain, Mechanism::ScramSha256, Mechanism::ScramSha512, Mechanism::OAuthBearer];

    /// Returns the name on the wire.
    pub fn name(&self) -> &'static str {
        match self {
            Mechanism::Plain => "PLAIN",
            Mechanism::ScramSha256 => "SCRAM-SHA-256",
            Mechanism::ScramSha512 => "SCRAM-SHA-512",
            Mechanism::OAuthBearer => "OAUTHBEARER",
        }
    }

    /// Returns the first Kafka release that supports the mechanism (KIP-43, KIP-84, KIP-255).
    pub(crate) fn since(self) -> Release {
        match self {
            Mechanism::Plain => Release::V0_10_0,
            Mechanism::ScramSha256 | Mechanism::ScramSha512 => Release::V0_10_2,
            Mechanism::OAuthBearer => Release::V2_0,
        }
    }
}

/// Passwords by user name. `Debug` does not show them.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Users(BTreeMap<String, String>);

impl Users {
    pub(crate) fn password(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// Returns the user names.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }
}

impl<N: Into<String>, P: Into<String>> FromIterator<(N, P)> for Users {
    fn from_iter<I: IntoIterator<Item = (N, P)>>(users: I) -> Self {
        Self(users.into_iter().map(|(name, password)| (name.into(), password.into())).collect())
    }
}

impl fmt::Debug for Users {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.names()).finish()
    }
}

/// TLS and authentication options of a broker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SecurityOptions {
    /// Security protocol of every node.
    pub protocol: Protocol,
    /// Client authentication by certificate; requires TLS.
    pub client_auth: ClientAuth,
    /// Users that can log in with a password.
    pub users: Users,
    /// Enabled mechanisms, like Kafka's `sasl.enabled.mechanisms`. By default all mechanisms of the emulated Kafka
    /// release are enabled.
    pub mechanisms: Vec<Mechanism>,
    /// Time after which a client must re-authenticate, like Kafka's `connections.max.reauth.ms` (KIP-368). With `None`,
    /// clients need not re-authenticate unless their credentials expire.
    pub session_lifetime: Option<Duration>,
    /// Iteration count of SCRAM credentials.
    pub scram_iterations: u32,
}

impl Default for SecurityOptions {
    fn default() -> Self {
        SecurityOptions {
            protocol: Protocol::default(),
            client_auth: ClientAuth::default(),
            users: Users::default(),
            mechanisms: Mechanism::ALL.to_vec(),
            session_lifetime: None,
            // Minimum iteration count that Kafka accepts, and the default of its command-line tools.
            scram_iterations: 4096,
        }
    }
}

impl SecurityOptions {
    /// Rejects contradictory options.
    pub(crate) fn check(&self, kafka: Option<Release>) -> Result<(), String> {
        if self.client_auth != ClientAuth::None && !self.protocol.is_encrypted() {
            let (auth, protocol) = (self.client_auth.name(), self.protocol.name());
            return Err(format!("client certificates require SSL or SASL_SSL: {protocol} cannot have them {auth}"));
        }
        if !self.protocol.has_login() {
            if self.users.names().next().is_some() {
                let name = self.protocol.name();
                return Err(format!("users log in over SASL_PLAINTEXT or SASL_SSL: {name} has no logins"));
            }
            if self.session_lifetime.is_some() {
                return Err(format!("a session lifetime requires logins: {} has none", self.protocol.name()));
            }
            return Ok(());
        }
        if self.users.names().any(|name| name.is_empty() || name.contains('\0')) {
            return Err("the name of a user must not be empty or contain a NUL character".to_owned());
        }
        if self.session_lifetime.is_some_and(|lifetime| lifetime.as_millis() == 0) {
            return Err("a session lifetime must be 1 ms or more".to_owned());
        }
        if self.scram_iterations == 0 {
            return Err("SCRAM hashes a password once at least".to_owned());
        }
        if self.mechanisms.is_empty() {
            return Err(format!("{} needs a mechanism to log in with", self.protocol.name()));
        }
        let Some(kafka) = kafka else { return Ok(()) };
        match self.mechanisms.iter().find(|mechanism| mechanism.since() > kafka) {
            Some(mechanism) => {
                Err(format!("Kafka {kafka} has no {}: it came with {}", mechanism.name(), mechanism.since()))
            }
            None if self.session_lifetime.is_some() && kafka < Release::V2_2 => {
                Err(format!("Kafka {kafka} lets no session expire: that came with {} (KIP-368)", Release::V2_2))
            }
            None => Ok(()),
        }
    }
}
