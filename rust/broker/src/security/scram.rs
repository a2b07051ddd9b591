//! Server side of SCRAM (RFC 5802, RFC 7677).

use std::collections::HashMap;
use std::num::NonZeroU32;
use std::sync::Mutex;

use aws_lc_rs::constant_time::verify_slices_are_equal;
use aws_lc_rs::{digest, hmac, pbkdf2, rand};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use samsarrow_wire::sync::lock;

use super::options::{Mechanism, Users};
use super::sasl_exchange::{Rejection, Step};

const SALT_BYTES: usize = 16;
const NONCE_BYTES: usize = 18;
/// Maximum length of a client nonce in bytes, since the broker stores the nonce.
const MAX_NONCE_BYTES: usize = 1024;

/// Hash, HMAC and key derivation algorithms of a mechanism.
#[derive(Clone, Copy)]
struct Hash {
    hmac: hmac::Algorithm,
    digest: &'static digest::Algorithm,
    derive: pbkdf2::Algorithm,
}

impl Hash {
    fn of(mechanism: Mechanism) -> Self {
        if mechanism == Mechanism::ScramSha512 {
            return Self { hmac: hmac::HMAC_SHA512, digest: &digest::SHA512, derive: pbkdf2::PBKDF2_HMAC_SHA512 };
        }
        Self { hmac: hmac::HMAC_SHA256, digest: &digest::SHA256, derive: pbkdf2::PBKDF2_HMAC_SHA256 }
    }

    fn sign(self, key: &[u8], text: &[u8]) -> Vec<u8> {
        hmac::sign(&hmac::Key::new(self.hmac, key), text).as_ref().to_vec()
    }

    fn digest(self, text: &[u8]) -> Vec<u8> {
        digest::digest(self.digest, text).as_ref().to_vec()
    }
}

/// Stored credential of a user. The password cannot be recovered from it.
#[derive(Clone)]
struct Credential {
    salt: [u8; SALT_BYTES],
    stored_key: Vec<u8>,
    server_key: Vec<u8>,
}

impl Credential {
    fn new(hash: Hash, password: &str, iterations: NonZeroU32) -> Result<Self, Rejection> {
        let mut salt = [0; SALT_BYTES];
        rand::fill(&mut salt).map_err(|_| Rejection::Generic)?;
        Ok(Self::salted(hash, password, iterations, salt))
    }

    fn salted(hash: Hash, password: &str, iterations: NonZeroU32, salt: [u8; SALT_BYTES]) -> Self {
        let mut salted = vec![0; hash.digest.output_len()];
        pbkdf2::derive(hash.derive, iterations, &salt, password.as_bytes(), &mut salted);
        let stored_key = hash.digest(&hash.sign(&salted, b"Client Key"));
        Self { salt, stored_key, server_key: hash.sign(&salted, b"Server Key") }
    }
}

/// Credentials by mechanism and user name. Each is derived from the password on first use.
pub(crate) struct Credentials {
    iterations: NonZeroU32,
    known: Mutex<HashMap<(Mechanism, String), Credential>>,
}

impl std::fmt::Debug for Credentials {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Credentials").field("iterations", &self.iterations).finish_non_exhaustive()
    }
}

impl Credentials {
    pub(super) fn new(iterations: u32) -> Self {
        Self { iterations: NonZeroU32::new(iterations).unwrap_or(NonZeroU32::MIN), known: Mutex::default() }
    }

    fn of(&self, mechanism: Mechanism, name: &str, users: &Users) -> Result<Credential, Rejection> {
        let password = users.password(name).ok_or(Rejection::Generic)?;
        let mut known = lock(&self.known);
        if let Some(credential) = known.get(&(mechanism, name.to_owned())) {
            return Ok(credential.clone());
        }
        let credential = Credential::new(Hash::of(mechanism), password, self.iterations)?;
        known.insert((mechanism, name.to_owned()), credential.clone());
        Ok(credential)
    }
}

/// State kept from the client's first message to its final message.
struct FirstMessages {
    name: String,
    credential: Credential,
    /// GS2 header of the client's first message, which the client must repeat in the attribute `c`.
    header: String,
    nonce: String,
    /// First messages of the client and the server, which both signatures cover.
    signed: String,
}

/// State of one SCRAM exchange.
pub(super) struct Scram {
    mechanism: Mechanism,
    first_messages: Option<FirstMessages>,
}

/// Returns the value of an attribute. For example, the value of the attribute `r` in `r=NONCE` is `NONCE`.
fn attribute<'a>(part: Option<&'a str>, name: &str) -> Result<&'a str, Rejection> {
    let value = part.and_then(|part| part.strip_prefix(name)).and_then(|rest| rest.strip_prefix('='));
    value.ok_or(Rejection::Generic)
}

/// Decodes the escapes `=2C` (comma) and `=3D` (equals sign) in a name.
fn unescape(name: &str) -> Result<String, Rejection> {
    let mut parts = name.split('=');
    let mut plain = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (character, rest) = match (part.strip_prefix("2C"), part.strip_prefix("3D")) {
            (Some(rest), _) => (',', rest),
            (_, Some(rest)) => ('=', rest),
            _ => return Err(Rejection::Generic),
        };
        plain.push(character);
        plain.push_str(rest);
    }
    Ok(plain)
}

impl Scram {
    pub(super) fn new(mechanism: Mechanism) -> Self {
        Self { mechanism, first_messages: None }
    }

    pub(super) fn evaluate(
        &mut self,
        token: &[u8],
        users: &Users,
        credentials: &Credentials,
    ) -> Result<Step, Rejection> {
        let text = std::str::from_utf8(token).map_err(|_| Rejection::Generic)?;
        match self.first_messages.take() {
            None => self.open(text, users, credentials),
            Some(first_messages) => self.prove(&first_messages, text),
        }
    }

    /// Handles the client's first message, `n,[a=NAME],n=NAME,r=NONCE[,tokenauth=…]`.
    fn open(&mut self, text: &str, users: &Users, credentials: &Credentials) -> Result<Step, Rejection> {
        let mut parts = text.splitn(3, ',');
        // Only the flag `n` (no channel binding) is accepted, because Kafka has no mechanism with channel binding.
        let (flag, identity) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
        let bare = parts.next().ok_or(Rejection::Generic)?;
        if flag != "n" {
            return Err(Rejection::Generic);
        }
        let identity = match identity {
            "" => String::new(),
            named => unescape(attribute(Some(named), "a")?)?,
        };
        let mut attributes = bare.split(',');
        let name = unescape(attribute(attributes.next(), "n")?)?;
        let nonce = attribute(attributes.next(), "r")?;
        if nonce.is_empty() || nonce.len() > MAX_NONCE_BYTES {
            return Err(Rejection::Generic);
        }
        if attributes.any(|extension| extension.eq_ignore_ascii_case("tokenauth=true")) {
            // Logins with delegation tokens are not supported.
            return Err(Rejection::Generic);
        }
        let credential = credentials.of(self.mechanism, &name, users)?;
        if !identity.is_empty() && identity != name {
            return Err(Rejection::different_identity());
        }
        let mut server_nonce = [0; NONCE_BYTES];
        rand::fill(&mut server_nonce).map_err(|_| Rejection::Generic)?;
        let nonce = format!("{nonce}{}", STANDARD.encode(server_nonce));
        let first = format!("r={nonce},s={},i={}", STANDARD.encode(credential.salt), credentials.iterations);
        let header = text.strip_suffix(bare).unwrap_or_default().to_owned();
        self.first_messages =
            Some(FirstMessages { name, credential, header, nonce, signed: format!("{bare},{first}") });
        Ok(Step::Challenge(Bytes::from(first)))
    }

    /// Handles the client's final message, `c=HEADER,r=NONCE,p=PROOF`.
    fn prove(&self, first_messages: &FirstMessages, text: &str) -> Result<Step, Rejection> {
        let (bare, proof) = text.rsplit_once(",p=").ok_or(Rejection::Generic)?;
        let mut attributes = bare.split(',');
        let header = STANDARD.decode(attribute(attributes.next(), "c")?).map_err(|_| Rejection::Generic)?;
        let nonce = attribute(attributes.next(), "r")?;
        let proof = STANDARD.decode(proof).map_err(|_| Rejection::Generic)?;
        if header != first_messages.header.as_bytes() || nonce != first_messages.nonce {
            return Err(Rejection::Generic);
        }
        let hash = Hash::of(self.mechanism);
        let signed = format!("{},{bare}", first_messages.signed);
        let signature = hash.sign(&first_messages.credential.stored_key, signed.as_bytes());
        if proof.len() != signature.len() {
            return Err(Rejection::Generic);
        }
        let client_key: Vec<u8> = signature.iter().zip(&proof).map(|(a, b)| a ^ b).collect();
        verify_slices_are_equal(&hash.digest(&client_key), &first_messages.credential.stored_key)
            .map_err(|_| Rejection::Generic)?;
        let signature = hash.sign(&first_messages.credential.server_key, signed.as_bytes());
        let last = format!("v={}", STANDARD.encode(signature));
        Ok(Step::Done { token: Bytes::from(last), principal: first_messages.name.clone(), expires_ms: None })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Example exchange of RFC 7677.
    const BARE: &str = "n=user,r=rOprNGfwEbeRWgbNEkqO";
    const NONCE: &str = "rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0";
    const PROOF: &str = "dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=";

    fn first_messages() -> FirstMessages {
        let salt = STANDARD.decode("W22ZaJ0SNY7soEsUEjb6gQ==").unwrap().try_into().unwrap();
        let iterations = NonZeroU32::new(4096).unwrap();
        let credential = Credential::salted(Hash::of(Mechanism::ScramSha256), "pencil", iterations, salt);
        let signed = format!("{BARE},r={NONCE},s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096");
        FirstMessages { name: "user".to_owned(), credential, header: "n,,".to_owned(), nonce: NONCE.to_owned(), signed }
    }

    fn prove(last: &str) -> Result<Step, Rejection> {
        Scram::new(Mechanism::ScramSha256).prove(&first_messages(), last)
    }

    #[test]
    fn accepts_rfc_7677_example() {
        let token = Bytes::from_static(b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=");
        let done = Step::Done { token, principal: "user".to_owned(), expires_ms: None };
        assert_eq!(prove(&format!("c=biws,r={NONCE},p={PROOF}")), Ok(done));
    }

    #[test]
    fn rejects_invalid_proofs() {
        let wrong = PROOF.replacen('d', "e", 1);
        for last in [
            format!("c=biws,r={NONCE},p={wrong}"),
            format!("c=biws,r={NONCE}x,p={PROOF}"),
            format!("c=eSws,r={NONCE},p={PROOF}"),
            format!("c=biws,r={NONCE},p="),
            format!("c=biws,r={NONCE},p=*"),
            format!("c=biws,p={PROOF}"),
            format!("c=biws,r={NONCE}"),
            String::new(),
        ] {
            assert_eq!(prove(&last), Err(Rejection::Generic), "{last}");
        }
    }

    #[test]
    fn parses_client_first_message() {
        let users: Users = [("a=b,c", "x"), ("alice", "y")].into_iter().collect();
        let credentials = Credentials::new(1);
        let open = |first: &str| Scram::new(Mechanism::ScramSha512).open(first, &users, &credentials);
        for good in ["n,,n=a=3Db=2Cc,r=x", "n,a=alice,n=alice,r=x", "n,,n=alice,r=x,more=y"] {
            let Ok(Step::Challenge(first)) = open(good) else { panic!("{good}") };
            let first = std::str::from_utf8(&first).unwrap();
            assert!(first.starts_with("r=x") && first.ends_with(",i=1") && first.len() > 40, "{first}");
        }
        assert_eq!(open("n,a=bob,n=alice,r=x"), Err(Rejection::different_identity()));
        let long = format!("n,,n=alice,r={}", "x".repeat(MAX_NONCE_BYTES + 1));
        for bad in [
            "",
            "n,,",
            "n,,n=alice",
            "n,,n=alice,r=",
            "n,,n=bob,r=x",
            "y,,n=alice,r=x",
            "p=tls-unique,,n=alice,r=x",
            "n,,n=al=ice,r=x",
            "n,,n=a=3Db=2,r=x",
            "n,alice,n=alice,r=x",
            "n,,r=x,n=alice",
            "n,,n=alice,r=x,tokenauth=true",
            &long,
        ] {
            assert_eq!(open(bad), Err(Rejection::Generic), "{bad}");
        }
    }
}
