//! Delegation tokens (KIP-48). The driver requests a token from the brokers, and tasks log in with it instead of a
//! password.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use samsarrow_client::admin::{Admin, DelegationToken};
use samsarrow_client::config::{ClientKind, Secret};
use samsarrow_client::error::Result as ClientResult;
use samsarrow_wire::sync::lock;
use serde_json::{Value, json};

use crate::error::{Error, Result};
use crate::kafka::{KafkaOptions, check_files, client_options, kafka_name, kafka_options};
use crate::option_values::{RawOptions, boolean, get, quoted};

const MECHANISMS: [&str; 2] = ["SCRAM-SHA-256", "SCRAM-SHA-512"];
/// Maximum time until all brokers know a new token, and the interval at which this is checked.
const PROPAGATION_TIMEOUT: Duration = Duration::from_secs(5);
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// Delegation token for the login of a task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Token {
    /// Public id of the token.
    pub id: String,
    /// Secret of the token, in Base64.
    pub hmac: Secret,
    /// SASL mechanism for the login of the task.
    pub mechanism: String,
}

impl Token {
    /// Parses `{"id","hmac","mechanism"}`.
    pub fn from_json(json: &Value) -> Option<Token> {
        let text = |name: &str| Some(json.get(name)?.as_str()?.to_owned());
        Some(Token { id: text("id")?, hmac: Secret::from(text("hmac")?), mechanism: text("mechanism")? })
    }

    /// Returns the options of a client that logs in with this token.
    pub(crate) fn login(&self) -> [(String, String); 2] {
        let id = self.id.replace('\\', "\\\\").replace('"', "\\\"");
        let jaas = format!(
            "org.apache.kafka.common.security.scram.ScramLoginModule required username=\"{id}\" password=\"{}\" \
             tokenauth=\"true\";",
            self.hmac.reveal()
        );
        [("kafka.sasl.mechanism".to_owned(), self.mechanism.clone()), ("kafka.sasl.jaas.config".to_owned(), jaas)]
    }
}

/// Returns the names of the login options. Tasks that use a delegation token must not get these options.
pub(crate) fn login_options(options: &RawOptions) -> Vec<&str> {
    options.keys().map(String::as_str).filter(|name| is_login(name)).collect()
}

/// Returns true if the option with this name is a login option.
pub(crate) fn is_login(name: &str) -> bool {
    let login = |name: String| ["sasl.", "enable.sasl."].iter().any(|prefix| name.starts_with(prefix));
    name.strip_prefix("kafka.").map(kafka_name).is_some_and(login)
}

/// Returns the SASL mechanism with which tasks log in, if `delegationToken` is set.
///
/// # Errors
/// Fails if the mechanism or the security protocol does not support delegation tokens.
pub(crate) fn mechanism(options: &RawOptions, kafka: &KafkaOptions) -> Result<Option<&'static str>> {
    if !boolean(options, "delegationToken", false)? {
        return Ok(None);
    }
    let requested = get(options, "delegationTokenMechanism").unwrap_or("SCRAM-SHA-512");
    let Some(chosen) = MECHANISMS.into_iter().find(|known| requested.trim().eq_ignore_ascii_case(known)) else {
        return Err(Error::configuration(format!(
            "option delegationTokenMechanism must be one of {}, not {}",
            MECHANISMS.join(", "),
            quoted(requested)
        )));
    };
    let protocol = kafka.iter().find(|(name, _)| kafka_name(name) == "security.protocol");
    let protocol = protocol.map_or("PLAINTEXT".to_owned(), |(_, value)| value.reveal().trim().to_uppercase());
    if !protocol.starts_with("SASL_") {
        return Err(Error::configuration(format!(
            "delegationToken=true needs kafka.security.protocol=SASL_SSL, not {protocol}: tasks log in with {chosen}"
        )));
    }
    Ok(Some(chosen))
}

/// Returns `{"token":{...},"login":["kafka.sasl.username",...]}`, which contains a token for tasks and the options that
/// the token replaces. The token is null if `delegationToken` is not set.
///
/// # Errors
/// Fails if the brokers do not create a token.
pub(crate) async fn token_response(options: &RawOptions) -> Result<String> {
    let kafka = kafka_options(options, &[])?;
    let Some(mechanism) = mechanism(options, &kafka)? else { return Ok(r#"{"token":null,"login":[]}"#.to_owned()) };
    let cache = token_cache(&kafka);
    let IssuedToken { id, hmac, .. } = cache.token(|| create(&kafka)).await?;
    let token = json!({ "id": id, "hmac": hmac.reveal(), "mechanism": mechanism });
    Ok(json!({ "token": token, "login": login_options(options) }).to_string())
}

/// Cache with the current delegation token of one login in this process.
#[derive(Debug, Default)]
struct TokenCache {
    last: tokio::sync::Mutex<Option<IssuedToken>>,
}

#[derive(Debug, Clone)]
struct IssuedToken {
    id: String,
    hmac: Secret,
    until: Instant,
}

impl TokenCache {
    /// Returns a token that has at least a quarter of its lifetime left.
    async fn token<F>(&self, create: impl FnOnce() -> F) -> Result<IssuedToken>
    where
        F: Future<Output = Result<DelegationToken>>,
    {
        let mut last = self.last.lock().await;
        if let Some(token) = last.as_ref().filter(|token| Instant::now() < token.until) {
            return Ok(token.clone());
        }
        let before = Instant::now();
        let created = create().await?;
        let lifetime = Duration::from_millis(u64::try_from(created.expires - created.issued).unwrap_or_default());
        // The last quarter of the lifetime is left for the tasks that use the token.
        let issued = IssuedToken {
            id: created.token_id,
            hmac: Secret::from(BASE64_STANDARD.encode(&created.hmac.0)),
            until: before + lifetime * 3 / 4,
        };
        Ok(last.insert(issued).clone())
    }

    /// Returns true if the cache has no token, or if its token is too old for new tasks.
    fn is_expired(&self) -> bool {
        let expired = |last: &Option<IssuedToken>| last.as_ref().is_none_or(|token| token.until <= Instant::now());
        self.last.try_lock().is_ok_and(|last| expired(&last))
    }
}

/// Returns the cache for this login. Queries and micro-batches with the same login share its token.
fn token_cache(kafka: &KafkaOptions) -> Arc<TokenCache> {
    static CACHES: Mutex<Vec<(KafkaOptions, Arc<TokenCache>)>> = Mutex::new(Vec::new());
    let mut caches = lock(&CACHES);
    caches.retain(|(_, cache)| Arc::strong_count(cache) > 1 || !cache.is_expired());
    if let Some((_, known)) = caches.iter().find(|(login, _)| login == kafka) {
        return Arc::clone(known);
    }
    let cache = Arc::default();
    caches.push((kafka.clone(), Arc::clone(&cache)));
    cache
}

async fn create(kafka: &KafkaOptions) -> Result<DelegationToken> {
    check_files(kafka)?;
    let admin = Admin::new(&client_options(ClientKind::Admin, ClientKind::Consumer, kafka, &[])?)?;
    let token = create_and_await_propagation(&admin).await;
    admin.close().await;
    Ok(token?)
}

/// Creates a token and waits until a broker lists it. A broker that does not know the token yet would reject the tasks'
/// logins.
async fn create_and_await_propagation(admin: &Admin) -> ClientResult<DelegationToken> {
    let timeout = admin.default_timeout();
    let created = admin.create_delegation_token(None, &[], None, timeout).await?;
    let deadline = Instant::now() + PROPAGATION_TIMEOUT;
    while Instant::now() < deadline {
        let known = admin.describe_delegation_tokens(None, timeout).await?;
        if known.iter().any(|token| token.token_id == created.token_id) {
            break;
        }
        tokio::time::sleep(POLL_INTERVAL).await;
    }
    Ok(created)
}

#[cfg(test)]
#[path = "tokens_tests.rs"]
mod tests;
