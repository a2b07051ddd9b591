//! The SCRAM mechanisms: both sides prove that they know the password without sending it (RFC 5802, RFC 7677).
//!
//! As in Kafka, SASLprep and channel binding are not supported.

use std::num::NonZeroU32;
use std::sync::{Arc, Mutex};

use aws_lc_rs::{constant_time, digest, hmac, pbkdf2, rand};
use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use bytes::Bytes;
use samsarrow_wire::sync::lock;
use zeroize::Zeroizing;

use super::{BoxFuture, Exchange, Mechanism};
use crate::config::SaslOptions;
use crate::error::{Error, Result};
use crate::secret::Secret;

/// Minimum number of iterations (RFC 7677). With fewer iterations, the password could easily be guessed from a captured
/// exchange.
const MIN_ITERATIONS: u32 = 4096;
/// Maximum number of iterations. Kafka stores at most 16,384, and a larger number would only cost the client time.
const MAX_ITERATIONS: u32 = 1_000_000;
const MAX_SALT: usize = 1024;
/// Maximum length of a broker's message, which contains a nonce, a salt and a number, or a signature.
const MAX_MESSAGE: usize = 16 * 1024;
/// Size of the nonce before base64 encoding, in bytes.
const NONCE_SIZE: usize = 24;

/// Header of the first message. It means: no channel binding and no authorization id.
const GS2_HEADER: &str = "n,,";

const UNVERIFIED: &str = "the response is not from a broker that knows your password";

/// Hash function of the mechanism.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Hash {
    Sha256,
    Sha512,
}

impl Hash {
    fn pbkdf2(self) -> pbkdf2::Algorithm {
        match self {
            Self::Sha256 => pbkdf2::PBKDF2_HMAC_SHA256,
            Self::Sha512 => pbkdf2::PBKDF2_HMAC_SHA512,
        }
    }

    fn hmac(self) -> hmac::Algorithm {
        match self {
            Self::Sha256 => hmac::HMAC_SHA256,
            Self::Sha512 => hmac::HMAC_SHA512,
        }
    }

    fn digest(self) -> &'static digest::Algorithm {
        match self {
            Self::Sha256 => &digest::SHA256,
            Self::Sha512 => &digest::SHA512,
        }
    }
}

/// Keys derived from the password. They are stored because the derivation is slow.
struct Keys {
    salt: Vec<u8>,
    iterations: NonZeroU32,
    client: Zeroizing<Vec<u8>>,
    server: Zeroizing<Vec<u8>>,
}

impl Keys {
    fn derive(hash: Hash, password: &Secret, salt: Vec<u8>, iterations: NonZeroU32) -> Self {
        let mut salted = Zeroizing::new(vec![0; hash.digest().output_len()]);
        pbkdf2::derive(hash.pbkdf2(), iterations, &salt, password.reveal().as_bytes(), &mut salted);
        let key = hmac::Key::new(hash.hmac(), &salted);
        let derive = |name: &str| Zeroizing::new(hmac::sign(&key, name.as_bytes()).as_ref().to_vec());
        Self { client: derive("Client Key"), server: derive("Server Key"), salt, iterations }
    }
}

/// The SCRAM mechanism with a user's credentials.
pub(super) struct Scram {
    hash: Hash,
    /// User name, with `=` and `,` escaped.
    name: String,
    password: Secret,
    /// True if user name and password are the id and HMAC of a delegation token (KIP-48).
    delegation_token: bool,
    /// Keys of the last login. The next login can reuse them, because all brokers have the same salt for a user.
    keys: Arc<Mutex<Option<Arc<Keys>>>>,
}

impl std::fmt::Debug for Scram {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Scram").field("hash", &self.hash).field("name", &self.name).finish_non_exhaustive()
    }
}

impl Scram {
    pub(super) fn new(hash: Hash, options: &SaslOptions) -> Result<Self> {
        let mechanism = options.mechanism.name();
        let missing = |option| {
            Error::configuration(format!("sasl.mechanism={mechanism} needs option {option}, or sasl.jaas.config"))
        };
        let username = options.username.as_ref().filter(|name| !name.is_empty());
        let name = username.ok_or_else(|| missing("sasl.username"))?;
        let password = options.password.clone().ok_or_else(|| missing("sasl.password"))?;
        Ok(Self {
            hash,
            name: name.replace('=', "=3D").replace(',', "=2C"),
            password,
            delegation_token: options.delegation_token,
            keys: Arc::default(),
        })
    }

    fn exchange(&self, nonce: String) -> ScramExchange {
        ScramExchange {
            hash: self.hash,
            password: self.password.clone(),
            keys: Arc::clone(&self.keys),
            client_first_bare: format!(
                "n={},r={nonce}{}",
                self.name,
                if self.delegation_token { ",tokenauth=true" } else { "" }
            ),
            nonce,
            state: State::First,
        }
    }
}

impl Mechanism for Scram {
    fn name(&self) -> &'static str {
        match self.hash {
            Hash::Sha256 => "SCRAM-SHA-256",
            Hash::Sha512 => "SCRAM-SHA-512",
        }
    }

    fn begin<'a>(&'a self, _: &'a str) -> BoxFuture<'a, Box<dyn Exchange>> {
        let mut random = [0; NONCE_SIZE];
        let exchange = match rand::fill(&mut random) {
            Ok(()) => Ok(Box::new(self.exchange(BASE64.encode(random))) as Box<dyn Exchange>),
            Err(_) => Err(Error::State("the system provides no random numbers".into())),
        };
        Box::pin(std::future::ready(exchange))
    }
}

enum State {
    /// The client waits for the server-first message, with salt and iterations.
    First,
    /// The client waits for the server-final message, which must contain this signature.
    Final(Vec<u8>),
    Done,
}

pub(super) struct ScramExchange {
    hash: Hash,
    password: Secret,
    keys: Arc<Mutex<Option<Arc<Keys>>>>,
    /// The client-first message without its header. It is part of the text that both sides sign.
    client_first_bare: String,
    nonce: String,
    state: State,
}

/// The server-first message.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Challenge<'a> {
    pub(super) nonce: &'a str,
    pub(super) salt: Vec<u8>,
    pub(super) iterations: NonZeroU32,
}

/// Returns an authentication error without an address. The login adds the address.
fn authentication_error(reason: impl Into<String>) -> Error {
    Error::authentication("", reason)
}

impl<'a> Challenge<'a> {
    pub(super) fn parse(message: &'a str, client_nonce: &str) -> Result<Self> {
        let mut parts = message.split(',');
        let mut field = |key: &str| parts.next().and_then(|part| part.strip_prefix(key)?.strip_prefix('='));
        let malformed = || authentication_error("the broker's response is not a valid SCRAM message");
        // A mandatory extension would precede the nonce. None is supported, so such a message is malformed here (RFC
        // 5802).
        let nonce = field("r").ok_or_else(malformed)?;
        let salt = field("s").ok_or_else(malformed)?;
        let count = field("i").ok_or_else(malformed)?;
        if nonce.len() <= client_nonce.len() || !nonce.starts_with(client_nonce) {
            return Err(authentication_error(format!("the response belongs to another login: {UNVERIFIED}")));
        }
        if salt.len() > MAX_SALT * 4 / 3 + 4 {
            return Err(authentication_error(format!("the broker's salt is longer than {MAX_SALT} bytes")));
        }
        let salt = BASE64.decode(salt).ok().filter(|salt| !salt.is_empty()).ok_or_else(malformed)?;
        let digits = (1..=10).contains(&count.len()) && count.bytes().all(|digit| digit.is_ascii_digit());
        let iterations = digits.then(|| count.parse::<u64>().ok()).flatten().ok_or_else(malformed)?;
        let allowed = u64::from(MIN_ITERATIONS)..=u64::from(MAX_ITERATIONS);
        let in_range = allowed.contains(&iterations).then(|| u32::try_from(iterations).ok().and_then(NonZeroU32::new));
        let iterations = in_range.flatten().ok_or_else(|| {
            authentication_error(format!(
                "the broker requests {iterations} iterations of SCRAM; {MIN_ITERATIONS} to {MAX_ITERATIONS} are \
                 accepted: fewer do not protect the password, and more only take time"
            ))
        })?;
        if salt.len() > MAX_SALT {
            return Err(authentication_error(format!("the broker's salt is longer than {MAX_SALT} bytes")));
        }
        Ok(Self { nonce, salt, iterations })
    }
}

impl ScramExchange {
    async fn keys(&self, salt: Vec<u8>, iterations: NonZeroU32) -> Result<Arc<Keys>> {
        let cached = lock(&self.keys).clone();
        if let Some(cached) = cached.filter(|keys| keys.salt == salt && keys.iterations == iterations) {
            return Ok(cached);
        }
        let (hash, password) = (self.hash, self.password.clone());
        // The derivation takes up to a second, so it does not run on a thread of the runtime.
        let derived = tokio::task::spawn_blocking(move || Keys::derive(hash, &password, salt, iterations)).await;
        let keys = derived.map_err(|_| Error::closed("the client"))?;
        Ok(Arc::new(keys))
    }

    /// Returns the client-final message and stores the expected server signature.
    async fn client_final(&mut self, message: &str) -> Result<Bytes> {
        let challenge = Challenge::parse(message, &self.nonce)?;
        let keys = self.keys(challenge.salt, challenge.iterations).await?;
        let without_proof = format!("c={},r={}", BASE64.encode(GS2_HEADER), challenge.nonce);
        let signed = format!("{},{message},{without_proof}", self.client_first_bare);
        let stored = digest::digest(self.hash.digest(), &keys.client);
        let signature = hmac::sign(&hmac::Key::new(self.hash.hmac(), stored.as_ref()), signed.as_bytes());
        let proof: Vec<u8> = keys.client.iter().zip(signature.as_ref()).map(|(key, mask)| key ^ mask).collect();
        let server_signature = hmac::sign(&hmac::Key::new(self.hash.hmac(), &keys.server), signed.as_bytes());
        self.state = State::Final(server_signature.as_ref().to_vec());
        *lock(&self.keys) = Some(keys);
        Ok(Bytes::from(format!("{without_proof},p={}", BASE64.encode(proof))))
    }

    pub(super) fn verify(message: &str, expected: &[u8]) -> Result<()> {
        let first = message.split(',').next().unwrap_or_default();
        if let Some(error) = first.strip_prefix("e=") {
            return Err(authentication_error(format!("the login failed: {error}")));
        }
        let signature = first.strip_prefix("v=").filter(|text| text.len() <= 4 * expected.len());
        let signature = signature.and_then(|text| BASE64.decode(text).ok()).unwrap_or_default();
        constant_time::verify_slices_are_equal(&signature, expected)
            .map_err(|_| authentication_error(format!("the broker's signature is wrong or missing: {UNVERIFIED}")))
    }
}

impl Exchange for ScramExchange {
    fn initial(&mut self) -> BoxFuture<'_, Bytes> {
        Box::pin(std::future::ready(Ok(Bytes::from(format!("{GS2_HEADER}{}", self.client_first_bare)))))
    }

    fn respond(&mut self, challenge: Bytes) -> BoxFuture<'_, Option<Bytes>> {
        Box::pin(async move {
            let message = std::str::from_utf8(&challenge).ok().filter(|message| message.len() <= MAX_MESSAGE);
            let message =
                message.ok_or_else(|| authentication_error("the broker's response is not a valid SCRAM message"))?;
            match std::mem::replace(&mut self.state, State::Done) {
                State::First => self.client_final(message).await.map(Some),
                State::Final(signature) => Self::verify(message, &signature).map(|()| None),
                State::Done => Err(authentication_error("the broker sent a message after the end of the login")),
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scram(hash: Hash, name: &str, password: &str) -> Scram {
        Scram {
            hash,
            name: name.replace('=', "=3D").replace(',', "=2C"),
            password: Secret::from(password.to_owned()),
            delegation_token: false,
            keys: Arc::default(),
        }
    }

    /// Runs an exchange with these messages of the broker. Returns the client-final message and the outcome.
    async fn run_exchange(scram: &Scram, nonce: &str, first: &str, last: &str) -> (String, Result<Option<Bytes>>) {
        let mut exchange = scram.exchange(nonce.to_owned());
        let proof = exchange.respond(Bytes::from(first.to_owned())).await.unwrap().unwrap();
        let end = exchange.respond(Bytes::from(last.to_owned())).await;
        (String::from_utf8(proof.to_vec()).unwrap(), end)
    }

    const NONCE: &str = "rOprNGfwEbeRWgbNEkqO";
    const FIRST: &str = "r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096";

    #[tokio::test]
    async fn sha256_matches_the_rfc_example() {
        let scram = scram(Hash::Sha256, "user", "pencil");
        let initial = scram.exchange(NONCE.to_owned()).initial().await.unwrap();
        assert_eq!(&initial[..], b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO");
        let (proof, end) = run_exchange(&scram, NONCE, FIRST, "v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=").await;
        assert_eq!(
            proof,
            "c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,\
             p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
        );
        assert_eq!(end, Ok(None));
    }

    #[tokio::test]
    async fn sha512_matches_reference_values() {
        // The expected messages were computed with Python's hashlib and hmac.
        let scram = scram(Hash::Sha512, "user", "pencil");
        let (proof, end) = run_exchange(&scram, NONCE, FIRST, SHA512_SIGNATURE).await;
        assert!(proof.ends_with(SHA512_PROOF), "{proof}");
        assert_eq!(end, Ok(None));
    }

    const SHA512_PROOF: &str =
        "p=gMGXRcevScNtxZ6/8lQYpGtnsNAc3mGcmNomv+xnoOMw+3R2xNJdMNnzMlTN8PPC6wdp6dybEmDYXYTxwnYPJQ==";
    const SHA512_SIGNATURE: &str =
        "v=ZQnYEgWQMFmmsM8aQMF0nDDCy/AgCzkwk8CmMZYcMg0vSVlKDanekLtifDSeVGT4+5ZxXnJq199RVG2rR7N7Zw==";

    #[tokio::test]
    async fn keys_are_cached_by_salt_and_iterations() {
        let scram = scram(Hash::Sha256, "user", "pencil");
        let derived = || scram.keys.lock().unwrap().clone().unwrap();
        let _ = run_exchange(&scram, NONCE, FIRST, "").await;
        let first = derived();
        let _ = run_exchange(&scram, NONCE, FIRST, "").await;
        assert!(Arc::ptr_eq(&first, &derived()));
        let _ = run_exchange(&scram, NONCE, &FIRST.replace("4096", "4097"), "").await;
        assert!(!Arc::ptr_eq(&first, &derived()));
        let _ = run_exchange(&scram, NONCE, &FIRST.replace("W22Z", "X22Z"), "").await;
        assert_eq!(derived().iterations.get(), 4096);
    }

    #[tokio::test]
    async fn escapes_names_and_marks_delegation_tokens() {
        let mut scram = scram(Hash::Sha512, "a=b,c", "x");
        scram.delegation_token = true;
        let initial = scram.exchange("N".into()).initial().await.unwrap();
        assert_eq!(&initial[..], b"n,,n=a=3Db=2Cc,r=N,tokenauth=true");
    }

    #[tokio::test]
    async fn rejects_invalid_server_signatures() {
        let scram = scram(Hash::Sha256, "user", "pencil");
        let short = "v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95A==";
        for last in ["", "v=", "v=AAAA", short, "v=%", "x", "v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G5="] {
            let (_, end) = run_exchange(&scram, NONCE, FIRST, last).await;
            let text = end.unwrap_err().to_string();
            assert!(text.contains("not from a broker that knows your password"), "{last}: {text}");
        }
        let (_, end) = run_exchange(&scram, NONCE, FIRST, "e=invalid-proof").await;
        assert!(end.unwrap_err().to_string().contains("invalid-proof"));
    }

    #[tokio::test]
    async fn rejects_invalid_challenges_before_deriving_keys() {
        let long_salt = format!("r=Nx,s={},i=4096", BASE64.encode([7; MAX_SALT + 1]));
        let huge = format!("r=Nx,s={},i=4096", "A".repeat(1 << 22));
        let cases = [
            ("r=Nx,s=AAAA,i=2147483648", "2147483648 iterations"),
            ("r=Nx,s=AAAA,i=1000001", "1000001 iterations"),
            ("r=Nx,s=AAAA,i=4095", "4095 iterations"),
            ("r=Nx,s=AAAA,i=1", "1 iterations"),
            ("r=Nx,s=AAAA,i=0", "0 iterations"),
            ("r=Nx,s=AAAA,i=x", "not a valid SCRAM message"),
            ("r=Nx,s=AAAA,i=-1", "not a valid SCRAM message"),
            ("r=Nx,s=AAAA,i=+4096", "not a valid SCRAM message"),
            ("r=Nx,s=AAAA,i=", "not a valid SCRAM message"),
            ("r=Nx,s=AAAA,i=99999999999999999999999999", "not a valid SCRAM message"),
            ("r=Nx,s=,i=4096", "not a valid SCRAM message"),
            ("r=Nx,s=%,i=4096", "not a valid SCRAM message"),
            ("r=Nx,i=4096", "not a valid SCRAM message"),
            ("m=x,r=Nx,s=AAAA,i=4096", "not a valid SCRAM message"),
            ("", "not a valid SCRAM message"),
            ("r=N,s=AAAA,i=4096", "knows your password"),
            ("r=Mx,s=AAAA,i=4096", "knows your password"),
            (&long_salt, "longer than 1024 bytes"),
            (&huge, "not a valid SCRAM message"),
        ];
        for (first, expected) in cases {
            let scram = scram(Hash::Sha256, "user", "pencil");
            let result = scram.exchange("N".into()).respond(Bytes::from(first.to_owned())).await;
            let text = result.unwrap_err().to_string();
            assert!(text.contains(expected), "{} fails with {text}", &first[..first.len().min(40)]);
            assert!(scram.keys.lock().unwrap().is_none(), "nothing was derived");
        }
        let malformed = scram(Hash::Sha256, "u", "p").exchange("N".into()).respond(Bytes::from_static(b"r=\xff")).await;
        assert!(malformed.is_err());
    }

    #[tokio::test]
    async fn accepts_minimum_and_maximum_iterations() {
        for iterations in [4096, 16_384] {
            let first = format!("r=Nx,s=AAAA,i={iterations}");
            assert!(scram(Hash::Sha512, "u", "").exchange("N".into()).respond(Bytes::from(first)).await.is_ok());
        }
        assert!(Challenge::parse("r=Nx,s=AAAA,i=1000000", "N").is_ok());
    }
}
