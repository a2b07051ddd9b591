//! SCRAM: both sides show that they know the password, and nobody sees it (RFC 5802, RFC 7677).
//!
//! As Kafka does, without SASLprep and without channel binding.

use std::num::NonZeroU32;
use std::sync::{Arc, Mutex, PoisonError};

use aws_lc_rs::{constant_time, digest, hmac, pbkdf2, rand};
use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use bytes::Bytes;
use zeroize::Zeroizing;

use super::{Exchange, Mechanism, Waiting};
use crate::config::SaslOptions;
use crate::error::{Error, Result};
use crate::secret::Secret;

/// Fewer make a stolen answer cheap to guess from (RFC 7677).
const FEWEST_ITERATIONS: u32 = 4096;
/// Kafka keeps at most 16,384. More than this is no broker's wish but somebody's who wants our time.
const MOST_ITERATIONS: u32 = 1_000_000;
const LONGEST_SALT: usize = 1024;
/// What a broker says is short: a nonce, a salt, a number, a signature.
const LONGEST_MESSAGE: usize = 16 * 1024;
/// Of the nonce, before base64.
const NONCE: usize = 24;

/// Without channel binding, in nobody else's name.
const GS2_HEADER: &str = "n,,";

const STRANGER: &str = "the answer is not from a broker that knows your password";

/// Which hash.
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

/// What is made of the password, which takes time.
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
        let of = |name: &str| Zeroizing::new(hmac::sign(&key, name.as_bytes()).as_ref().to_vec());
        Self { client: of("Client Key"), server: of("Server Key"), salt, iterations }
    }
}

/// A user and a password.
pub(super) struct Scram {
    hash: Hash,
    /// With `=` and `,` escaped.
    name: String,
    password: Secret,
    /// The user and password are the id and secret of a delegation token (KIP-48).
    token: bool,
    /// Of the last login. All brokers have the same salt for a user, so it is that of the next one too.
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
        let missing =
            |what| Error::configuration(format!("sasl.mechanism={mechanism} needs option {what}, or sasl.jaas.config"));
        let given = options.username.as_ref().filter(|name| !name.is_empty());
        let name = given.ok_or_else(|| missing("sasl.username"))?;
        let password = options.password.clone().ok_or_else(|| missing("sasl.password"))?;
        Ok(Self {
            hash,
            name: name.replace('=', "=3D").replace(',', "=2C"),
            password,
            token: options.delegation_token,
            keys: Arc::default(),
        })
    }

    fn exchange(&self, nonce: String) -> Conversation {
        Conversation {
            hash: self.hash,
            password: self.password.clone(),
            keys: Arc::clone(&self.keys),
            bare: format!("n={},r={nonce}{}", self.name, if self.token { ",tokenauth=true" } else { "" }),
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

    fn begin<'a>(&'a self, _: &'a str) -> Waiting<'a, Box<dyn Exchange>> {
        let mut random = [0; NONCE];
        let begun = match rand::fill(&mut random) {
            Ok(()) => Ok(Box::new(self.exchange(BASE64.encode(random))) as Box<dyn Exchange>),
            Err(_) => Err(Error::State("the system gives no random numbers".into())),
        };
        Box::pin(std::future::ready(begun))
    }
}

enum State {
    /// The broker is to name salt and iterations.
    First,
    /// The broker is to show that it knows the password: this is the signature.
    Final(Vec<u8>),
    Done,
}

pub(super) struct Conversation {
    hash: Hash,
    password: Secret,
    keys: Arc<Mutex<Option<Arc<Keys>>>>,
    /// The first message without its header, which both sides sign.
    bare: String,
    nonce: String,
    state: State,
}

/// What a broker asks for.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Challenge<'a> {
    pub(super) nonce: &'a str,
    pub(super) salt: Vec<u8>,
    pub(super) iterations: NonZeroU32,
}

/// What is wrong, without saying where: the login knows.
fn refused(reason: impl Into<String>) -> Error {
    Error::authentication("", reason)
}

impl<'a> Challenge<'a> {
    pub(super) fn parse(message: &'a str, own_nonce: &str) -> Result<Self> {
        let mut parts = message.split(',');
        let mut field = |key: &str| parts.next().and_then(|part| part.strip_prefix(key)?.strip_prefix('='));
        let garbled = || refused("the broker's answer is not one of SCRAM's");
        // An extension that must be understood comes first, and none is (RFC 5802).
        let nonce = field("r").ok_or_else(garbled)?;
        let salt = field("s").ok_or_else(garbled)?;
        let count = field("i").ok_or_else(garbled)?;
        if nonce.len() <= own_nonce.len() || !nonce.starts_with(own_nonce) {
            return Err(refused(format!("the answer is to another login: {STRANGER}")));
        }
        if salt.len() > LONGEST_SALT * 4 / 3 + 4 {
            return Err(refused(format!("the broker's salt is longer than {LONGEST_SALT} bytes")));
        }
        let salt = BASE64.decode(salt).ok().filter(|salt| !salt.is_empty()).ok_or_else(garbled)?;
        let digits = (1..=10).contains(&count.len()) && count.bytes().all(|digit| digit.is_ascii_digit());
        let iterations = digits.then(|| count.parse::<u64>().ok()).flatten().ok_or_else(garbled)?;
        let allowed = u64::from(FEWEST_ITERATIONS)..=u64::from(MOST_ITERATIONS);
        let within = allowed.contains(&iterations).then(|| u32::try_from(iterations).ok().and_then(NonZeroU32::new));
        let iterations = within.flatten().ok_or_else(|| {
            refused(format!(
                "the broker asks for {iterations} iterations of SCRAM; {FEWEST_ITERATIONS} to {MOST_ITERATIONS} are \
                 done: fewer protect no password, and more only take time"
            ))
        })?;
        if salt.len() > LONGEST_SALT {
            return Err(refused(format!("the broker's salt is longer than {LONGEST_SALT} bytes")));
        }
        Ok(Self { nonce, salt, iterations })
    }
}

impl Conversation {
    async fn keys(&self, salt: Vec<u8>, iterations: NonZeroU32) -> Result<Arc<Keys>> {
        let known = self.keys.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(known) = known.filter(|keys| keys.salt == salt && keys.iterations == iterations) {
            return Ok(known);
        }
        let (hash, password) = (self.hash, self.password.clone());
        // Up to a second of arithmetic: not on a thread that others wait for.
        let derived = tokio::task::spawn_blocking(move || Keys::derive(hash, &password, salt, iterations)).await;
        let keys = derived.map_err(|_| Error::closed("the client"))?;
        Ok(Arc::new(keys))
    }

    /// The last message of ours; from then on the broker's signature is awaited.
    async fn prove(&mut self, message: &str) -> Result<Bytes> {
        let challenge = Challenge::parse(message, &self.nonce)?;
        let keys = self.keys(challenge.salt, challenge.iterations).await?;
        let without_proof = format!("c={},r={}", BASE64.encode(GS2_HEADER), challenge.nonce);
        let signed = format!("{},{message},{without_proof}", self.bare);
        let stored = digest::digest(self.hash.digest(), &keys.client);
        let signature = hmac::sign(&hmac::Key::new(self.hash.hmac(), stored.as_ref()), signed.as_bytes());
        let proof: Vec<u8> = keys.client.iter().zip(signature.as_ref()).map(|(key, by)| key ^ by).collect();
        let own = hmac::sign(&hmac::Key::new(self.hash.hmac(), &keys.server), signed.as_bytes());
        self.state = State::Final(own.as_ref().to_vec());
        *self.keys.lock().unwrap_or_else(PoisonError::into_inner) = Some(keys);
        Ok(Bytes::from(format!("{without_proof},p={}", BASE64.encode(proof))))
    }

    pub(super) fn verify(message: &str, wanted: &[u8]) -> Result<()> {
        let first = message.split(',').next().unwrap_or_default();
        if let Some(error) = first.strip_prefix("e=") {
            return Err(refused(format!("the login failed: {error}")));
        }
        let signature = first.strip_prefix("v=").filter(|text| text.len() <= 4 * wanted.len());
        let signature = signature.and_then(|text| BASE64.decode(text).ok()).unwrap_or_default();
        constant_time::verify_slices_are_equal(&signature, wanted)
            .map_err(|_| refused(format!("the broker's signature is wrong or missing: {STRANGER}")))
    }
}

impl Exchange for Conversation {
    fn initial(&mut self) -> Waiting<'_, Bytes> {
        Box::pin(std::future::ready(Ok(Bytes::from(format!("{GS2_HEADER}{}", self.bare)))))
    }

    fn answer(&mut self, challenge: Bytes) -> Waiting<'_, Option<Bytes>> {
        Box::pin(async move {
            let message = std::str::from_utf8(&challenge).ok().filter(|message| message.len() <= LONGEST_MESSAGE);
            let message = message.ok_or_else(|| refused("the broker's answer is not one of SCRAM's"))?;
            match std::mem::replace(&mut self.state, State::Done) {
                State::First => self.prove(message).await.map(Some),
                State::Final(signature) => Self::verify(message, &signature).map(|()| None),
                State::Done => Err(refused("the broker goes on after the end of the login")),
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
            token: false,
            keys: Arc::default(),
        }
    }

    /// The end of a conversation whose broker says these.
    async fn talk(scram: &Scram, nonce: &str, first: &str, last: &str) -> (String, Result<Option<Bytes>>) {
        let mut conversation = scram.exchange(nonce.to_owned());
        let proof = conversation.answer(Bytes::from(first.to_owned())).await.unwrap().unwrap();
        let end = conversation.answer(Bytes::from(last.to_owned())).await;
        (String::from_utf8(proof.to_vec()).unwrap(), end)
    }

    const NONCE: &str = "rOprNGfwEbeRWgbNEkqO";
    const FIRST: &str = "r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096";

    #[tokio::test]
    async fn the_rfcs_example_comes_out() {
        let scram = scram(Hash::Sha256, "user", "pencil");
        let initial = scram.exchange(NONCE.to_owned()).initial().await.unwrap();
        assert_eq!(&initial[..], b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO");
        let (proof, end) = talk(&scram, NONCE, FIRST, "v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=").await;
        assert_eq!(
            proof,
            "c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,\
             p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
        );
        assert_eq!(end, Ok(None));
    }

    #[tokio::test]
    async fn the_same_with_the_longer_hash() {
        // Reckoned by Python's hashlib and hmac.
        let scram = scram(Hash::Sha512, "user", "pencil");
        let (proof, end) = talk(&scram, NONCE, FIRST, SHA512_SIGNATURE).await;
        assert!(proof.ends_with(SHA512_PROOF), "{proof}");
        assert_eq!(end, Ok(None));
    }

    const SHA512_PROOF: &str =
        "p=gMGXRcevScNtxZ6/8lQYpGtnsNAc3mGcmNomv+xnoOMw+3R2xNJdMNnzMlTN8PPC6wdp6dybEmDYXYTxwnYPJQ==";
    const SHA512_SIGNATURE: &str =
        "v=ZQnYEgWQMFmmsM8aQMF0nDDCy/AgCzkwk8CmMZYcMg0vSVlKDanekLtifDSeVGT4+5ZxXnJq199RVG2rR7N7Zw==";

    #[tokio::test]
    async fn keys_are_derived_once_for_a_salt() {
        let scram = scram(Hash::Sha256, "user", "pencil");
        let derived = || scram.keys.lock().unwrap().clone().unwrap();
        let _ = talk(&scram, NONCE, FIRST, "").await;
        let first = derived();
        let _ = talk(&scram, NONCE, FIRST, "").await;
        assert!(Arc::ptr_eq(&first, &derived()));
        let _ = talk(&scram, NONCE, &FIRST.replace("4096", "4097"), "").await;
        assert!(!Arc::ptr_eq(&first, &derived()));
        let _ = talk(&scram, NONCE, &FIRST.replace("W22Z", "X22Z"), "").await;
        assert_eq!(derived().iterations.get(), 4096);
    }

    #[tokio::test]
    async fn names_are_escaped_and_tokens_say_that_they_are_one() {
        let mut scram = scram(Hash::Sha512, "a=b,c", "x");
        scram.token = true;
        let initial = scram.exchange("N".into()).initial().await.unwrap();
        assert_eq!(&initial[..], b"n,,n=a=3Db=2Cc,r=N,tokenauth=true");
    }

    #[tokio::test]
    async fn whoever_does_not_know_the_password_is_refused() {
        let scram = scram(Hash::Sha256, "user", "pencil");
        let short = "v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95A==";
        for last in ["", "v=", "v=AAAA", short, "v=%", "x", "v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G5="] {
            let (_, end) = talk(&scram, NONCE, FIRST, last).await;
            let text = end.unwrap_err().to_string();
            assert!(text.contains("not from a broker that knows your password"), "{last}: {text}");
        }
        let (_, end) = talk(&scram, NONCE, FIRST, "e=invalid-proof").await;
        assert!(end.unwrap_err().to_string().contains("invalid-proof"));
    }

    #[tokio::test]
    async fn a_broker_that_asks_for_too_much_is_refused_before_anything_is_derived() {
        let long_salt = format!("r=Nx,s={},i=4096", BASE64.encode([7; LONGEST_SALT + 1]));
        let huge = format!("r=Nx,s={},i=4096", "A".repeat(1 << 22));
        let cases = [
            ("r=Nx,s=AAAA,i=2147483648", "2147483648 iterations"),
            ("r=Nx,s=AAAA,i=1000001", "1000001 iterations"),
            ("r=Nx,s=AAAA,i=4095", "4095 iterations"),
            ("r=Nx,s=AAAA,i=1", "1 iterations"),
            ("r=Nx,s=AAAA,i=0", "0 iterations"),
            ("r=Nx,s=AAAA,i=x", "not one of SCRAM's"),
            ("r=Nx,s=AAAA,i=-1", "not one of SCRAM's"),
            ("r=Nx,s=AAAA,i=+4096", "not one of SCRAM's"),
            ("r=Nx,s=AAAA,i=", "not one of SCRAM's"),
            ("r=Nx,s=AAAA,i=99999999999999999999999999", "not one of SCRAM's"),
            ("r=Nx,s=,i=4096", "not one of SCRAM's"),
            ("r=Nx,s=%,i=4096", "not one of SCRAM's"),
            ("r=Nx,i=4096", "not one of SCRAM's"),
            ("m=x,r=Nx,s=AAAA,i=4096", "not one of SCRAM's"),
            ("", "not one of SCRAM's"),
            ("r=N,s=AAAA,i=4096", "knows your password"),
            ("r=Mx,s=AAAA,i=4096", "knows your password"),
            (&long_salt, "longer than 1024 bytes"),
            (&huge, "not one of SCRAM's"),
        ];
        for (first, wanted) in cases {
            let scram = scram(Hash::Sha256, "user", "pencil");
            let refused = scram.exchange("N".into()).answer(Bytes::from(first.to_owned())).await;
            let text = refused.unwrap_err().to_string();
            assert!(text.contains(wanted), "{} is refused as {text}", &first[..first.len().min(40)]);
            assert!(scram.keys.lock().unwrap().is_none(), "nothing was derived");
        }
        let garbled = scram(Hash::Sha256, "u", "p").exchange("N".into()).answer(Bytes::from_static(b"r=\xff")).await;
        assert!(garbled.is_err());
    }

    #[tokio::test]
    async fn the_most_and_the_fewest_iterations_are_done() {
        for iterations in [4096, 16_384] {
            let first = format!("r=Nx,s=AAAA,i={iterations}");
            assert!(scram(Hash::Sha512, "u", "").exchange("N".into()).answer(Bytes::from(first)).await.is_ok());
        }
        assert!(Challenge::parse("r=Nx,s=AAAA,i=1000000", "N").is_ok());
    }
}
