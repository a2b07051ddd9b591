//! Delegation tokens (KIP-48): the driver gets them from the brokers, tasks log in with them and see no password.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use samsarrow_client::admin::{Admin, DelegationToken};
use samsarrow_client::config::{ClientKind, Secret};
use samsarrow_client::error::Result as ClientResult;
use serde_json::{Value, json};

use crate::error::{Error, Result};
use crate::here::logins;
use crate::kafka::{Kafka, check_files, client_options, kafka_name, kafka_options};
use crate::values::{Given, boolean, get, quoted};

const MECHANISMS: [&str; 2] = ["SCRAM-SHA-256", "SCRAM-SHA-512"];
/// How long brokers have to hear of a token, and how often they are asked.
const HEARD: Duration = Duration::from_secs(5);
const ASKED: Duration = Duration::from_millis(50);

/// A delegation token as tasks log in with it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Token {
    /// Its public name.
    pub id: String,
    /// Its secret, as text.
    pub hmac: Secret,
    /// That it is logged in with.
    pub mechanism: String,
}

impl Token {
    /// From `{"id","hmac","mechanism"}`.
    pub fn read(told: &Value) -> Option<Token> {
        let text = |name: &str| Some(told.get(name)?.as_str()?.to_owned());
        Some(Token { id: text("id")?, hmac: Secret::from(text("hmac")?), mechanism: text("mechanism")? })
    }

    /// The options of a client that logs in with it.
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

/// Whether this is an option of a login.
pub(crate) fn is_login(name: &str) -> bool {
    let login = |name: String| ["sasl.", "enable.sasl."].iter().any(|prefix| name.starts_with(prefix));
    name.strip_prefix("kafka.").map(kafka_name).is_some_and(login)
}

/// What tasks log in with where `delegationToken` is set.
///
/// # Errors
/// They cannot.
pub(crate) fn mechanism(given: &Given, kafka: &Kafka) -> Result<Option<&'static str>> {
    if !boolean(given, "delegationToken", false)? {
        return Ok(None);
    }
    let wanted = get(given, "delegationTokenMechanism").unwrap_or("SCRAM-SHA-512");
    let Some(chosen) = MECHANISMS.into_iter().find(|known| wanted.trim().eq_ignore_ascii_case(known)) else {
        return Err(Error::configuration(format!(
            "option delegationTokenMechanism must be one of {}, not {}",
            MECHANISMS.join(", "),
            quoted(wanted)
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

/// What tasks are given: `{"token":{...},"login":["kafka.sasl.username",...]}`, a token and the options that they do
/// without. The token is null where it was not asked for.
///
/// # Errors
/// The brokers give none.
pub(crate) async fn answer(given: &Given) -> Result<String> {
    let kafka = kafka_options(given, &[])?;
    let Some(mechanism) = mechanism(given, &kafka)? else { return Ok(r#"{"token":null,"login":[]}"#.to_owned()) };
    let mint = mint(&kafka);
    let Minted { id, hmac, .. } = mint.token(|| create(&kafka)).await?;
    let token = json!({ "id": id, "hmac": hmac.reveal(), "mechanism": mechanism });
    Ok(json!({ "token": token, "login": logins(given) }).to_string())
}

/// The tokens of this process for one login, one after the other.
#[derive(Debug, Default)]
struct Mint {
    last: tokio::sync::Mutex<Option<Minted>>,
}

#[derive(Debug, Clone)]
struct Minted {
    id: String,
    hmac: Secret,
    until: Instant,
}

impl Mint {
    /// One that has a quarter of its life left at least.
    async fn token<F>(&self, create: impl FnOnce() -> F) -> Result<Minted>
    where
        F: Future<Output = Result<DelegationToken>>,
    {
        let mut last = self.last.lock().await;
        if let Some(minted) = last.as_ref().filter(|minted| Instant::now() < minted.until) {
            return Ok(minted.clone());
        }
        let before = Instant::now();
        let made = create().await?;
        let life = Duration::from_millis(u64::try_from(made.expires - made.issued).unwrap_or_default());
        // What is left of its life is for the tasks.
        let minted = Minted {
            id: made.token_id,
            hmac: Secret::from(BASE64_STANDARD.encode(&made.hmac.0)),
            until: before + life * 3 / 4,
        };
        Ok(last.insert(minted).clone())
    }

    /// Whether nobody needs it any more.
    fn is_over(&self) -> bool {
        let over = |last: &Option<Minted>| last.as_ref().is_none_or(|minted| minted.until <= Instant::now());
        self.last.try_lock().is_ok_and(|last| over(&last))
    }
}

/// That of this login: queries and micro-batches share its tokens.
fn mint(kafka: &Kafka) -> Arc<Mint> {
    static MINTS: Mutex<Vec<(Kafka, Arc<Mint>)>> = Mutex::new(Vec::new());
    let mut mints = MINTS.lock().unwrap_or_else(PoisonError::into_inner);
    mints.retain(|(_, mint)| Arc::strong_count(mint) > 1 || !mint.is_over());
    if let Some((_, known)) = mints.iter().find(|(login, _)| login == kafka) {
        return Arc::clone(known);
    }
    let mint = Arc::default();
    mints.push((kafka.clone(), Arc::clone(&mint)));
    mint
}

async fn create(kafka: &Kafka) -> Result<DelegationToken> {
    check_files(kafka)?;
    let admin = Admin::new(&client_options(ClientKind::Admin, ClientKind::Consumer, kafka, &[])?)?;
    let made = heard(&admin).await;
    admin.close().await;
    Ok(made?)
}

/// A new token: a broker that has not heard of it refuses it, and tasks would fail.
async fn heard(admin: &Admin) -> ClientResult<DelegationToken> {
    let timeout = admin.default_timeout();
    let made = admin.create_delegation_token(None, &[], None, timeout).await?;
    let deadline = Instant::now() + HEARD;
    while Instant::now() < deadline {
        let known = admin.describe_delegation_tokens(None, timeout).await?;
        if known.iter().any(|token| token.token_id == made.token_id) {
            break;
        }
        tokio::time::sleep(ASKED).await;
    }
    Ok(made)
}

#[cfg(test)]
#[path = "tokens_tests.rs"]
mod tests;
