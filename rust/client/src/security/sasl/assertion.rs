//! Assertions: tokens that the client exchanges for access tokens (RFC 7523).

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, RSA_PKCS1_SHA256, RsaKeyPair};
use serde_json::{Map, Value};

use super::file::{read_text, read_trimmed};
use crate::config::OAuthOptions;
use crate::config::credentials::jwt;
use crate::error::{Error, Result};
use crate::secret::Secret;
use crate::security::tls;

const KEY_FILE: &str = "sasl.oauthbearer.assertion.private.key.file";
const KEY_TEXT: &str = "sasl.oauthbearer.assertion.private.key.pem";
const PASSPHRASE: &str = "sasl.oauthbearer.assertion.private.key.passphrase";
const TEMPLATE: &str = "sasl.oauthbearer.assertion.template.file";
const FILE: &str = "sasl.oauthbearer.assertion.file";

/// Source of assertions.
#[derive(Debug, Clone)]
pub(super) enum Assertions {
    /// Assertion in a file that another process writes and renews.
    File(PathBuf),
    /// Assertions signed by this client. Key and template are read again for every assertion, so that the files may be
    /// replaced.
    Signed(Arc<AssertionSigner>),
}

#[derive(Debug, Clone)]
enum KeySource {
    File(PathBuf),
    Text(Secret),
}

#[derive(Debug)]
pub(super) struct AssertionSigner {
    key: KeySource,
    passphrase: Option<Secret>,
    es256: bool,
    template: Option<PathBuf>,
    claims: Vec<(&'static str, Option<String>)>,
    expires: Duration,
    not_before: Duration,
    jti: bool,
}

impl Assertions {
    /// Creates the source of assertions that the options set, if any. `audience` is the default of the `aud` claim.
    ///
    /// # Errors
    /// Fails if the key or the template cannot be read or used, or if a claim is missing.
    pub(super) fn from_options(oauth: &OAuthOptions, audience: &str) -> Result<Option<Self>> {
        let key = match (&oauth.assertion_private_key_file, &oauth.assertion_private_key_pem) {
            (Some(_), Some(_)) => {
                return Err(Error::configuration(format!(
                    "options {KEY_FILE} and {KEY_TEXT} both name a key: leave one out"
                )));
            }
            (Some(path), None) => Some(KeySource::File(path.clone())),
            (None, Some(pem)) => Some(KeySource::Text(pem.clone())),
            (None, None) => None,
        };
        match (&oauth.assertion_file, key) {
            (Some(_), Some(_)) => Err(Error::configuration(format!(
                "option {FILE} sets an assertion file, and another option a key to sign assertions: leave one out"
            ))),
            (Some(path), None) => Ok(Some(Self::File(path.clone()))),
            (None, None) => Ok(None),
            (None, Some(key)) => {
                let claim =
                    |value: &Option<String>, default: Option<&str>| value.clone().or(default.map(str::to_owned));
                // A client that acts for itself uses its own id in the claims `iss` and `sub` (RFC 7523, section 3).
                let id = oauth.client_id.as_deref();
                let signer = AssertionSigner {
                    key,
                    passphrase: oauth.assertion_private_key_passphrase.clone(),
                    es256: oauth.assertion_algorithm == "ES256",
                    template: oauth.assertion_template_file.clone(),
                    claims: vec![
                        ("iss", claim(&oauth.assertion_iss, id)),
                        ("sub", claim(&oauth.assertion_sub, id)),
                        ("aud", claim(&oauth.assertion_aud, Some(audience))),
                    ],
                    expires: oauth.assertion_expires,
                    not_before: oauth.assertion_not_before,
                    jti: oauth.assertion_jti,
                };
                // Signs an assertion so that errors in key and template are raised when the client is created.
                signer.sign_assertion(SystemTime::now())?;
                Ok(Some(Self::Signed(Arc::new(signer))))
            }
        }
    }

    /// Returns a currently valid assertion.
    ///
    /// # Errors
    /// Fails if the assertion file, the key or the template can no longer be read.
    pub(super) async fn obtain(&self, name: &str) -> Result<Secret> {
        match self {
            Self::File(path) => {
                let text = read_trimmed(name, path).await?;
                if text.is_empty() {
                    return Err(Error::authentication(name, format!("option {FILE}: {} is empty", path.display())));
                }
                Ok(text.into())
            }
            Self::Signed(signer) => {
                let signer = Arc::clone(signer);
                let signed = tokio::task::spawn_blocking(move || signer.sign_assertion(SystemTime::now())).await;
                signed.unwrap_or_else(|_| Err(Error::authentication(name, "signing the assertion was cancelled")))
            }
        }
    }
}

/// A signing key.
enum Key {
    Rsa(RsaKeyPair),
    Ec(EcdsaKeyPair),
}

impl AssertionSigner {
    fn sign_assertion(&self, now: SystemTime) -> Result<Secret> {
        let (mut header, mut claims) = self.template()?;
        header.insert("alg".to_owned(), if self.es256 { "ES256" } else { "RS256" }.into());
        header.entry("typ").or_insert_with(|| "JWT".into());
        for (name, value) in &self.claims {
            if let Some(value) = value {
                claims.entry(*name).or_insert_with(|| value.as_str().into());
            }
        }
        if !claims.contains_key("iss") {
            return Err(Error::configuration(
                "an assertion needs option sasl.oauthbearer.assertion.claim.iss: its issuer",
            ));
        }
        claims.insert("iat".to_owned(), jwt::seconds_of(now).into());
        claims.insert("exp".to_owned(), jwt::seconds_of(now + self.expires).into());
        claims.insert("nbf".to_owned(), jwt::seconds_of(now - self.not_before).into());
        if self.jti {
            claims.insert("jti".to_owned(), random_uuid()?.into());
        }
        let unsigned = jwt::unsigned(&header, &claims);
        let signature = self.key()?.sign(unsigned.as_bytes())?;
        Ok(jwt::signed(&unsigned, &signature).into())
    }

    /// Returns the header and the claims in the template. These claims take precedence over the claims in the options,
    /// except `iat`, `exp`, `nbf` and `jti`.
    fn template(&self) -> Result<(Map<String, Value>, Map<String, Value>)> {
        let mut template = (Map::new(), Map::new());
        if let Some(path) = &self.template {
            let error = |text: String| Error::configuration(format!("option {TEMPLATE}: {} {text}", path.display()));
            let text = read_text(path).map_err(|e| error(format!("cannot be read: {e}")))?;
            let parsed = serde_json::from_str(&text).map_err(|e| error(format!("is no JSON: {e}")))?;
            let Value::Object(parts) = parsed else { return Err(error("is no JSON object".to_owned())) };
            for (name, part) in parts {
                let Value::Object(part) = part else { return Err(error(format!("has a {name:?} that is no object"))) };
                match name.as_str() {
                    "header" => template.0 = part,
                    "payload" => template.1 = part,
                    _ => return Err(error(format!("has {name:?}, which is neither header nor payload"))),
                }
            }
        }
        Ok(template)
    }

    fn key(&self) -> Result<Key> {
        let (option, pem) = match &self.key {
            KeySource::File(path) => (KEY_FILE, read_key(path)?),
            KeySource::Text(pem) => (KEY_TEXT, pem.clone()),
        };
        let error = |text: &str| Error::configuration(format!("option {option}: {text}"));
        let kind = if self.es256 {
            "an EC key of curve P-256, for ES256"
        } else {
            "an RSA key of 2048 bits or more, for RS256"
        };
        let der = tls::private_key(option, &pem, self.passphrase.as_ref()).map_err(|error| match error {
            Error::Configuration(text) => Error::Configuration(text.replace("ssl.key.password", PASSPHRASE)),
            other => other,
        })?;
        let key = if self.es256 {
            let algorithm = &ECDSA_P256_SHA256_FIXED_SIGNING;
            let key = EcdsaKeyPair::from_pkcs8(algorithm, &der);
            key.or_else(|_| EcdsaKeyPair::from_private_key_der(algorithm, &der)).map(Key::Ec)
        } else {
            RsaKeyPair::from_pkcs8(&der).or_else(|_| RsaKeyPair::from_der(&der)).map(Key::Rsa)
        };
        key.map_err(|_| error(&format!("the key must be {kind} (sasl.oauthbearer.assertion.algorithm)")))
    }
}

impl Key {
    fn sign(&self, text: &[u8]) -> Result<Vec<u8>> {
        let sign_error = |_| Error::configuration("the assertion cannot be signed with this key");
        let random = SystemRandom::new();
        match self {
            Self::Rsa(key) => {
                let mut signature = vec![0; key.public_modulus_len()];
                key.sign(&RSA_PKCS1_SHA256, &random, text, &mut signature).map_err(sign_error)?;
                Ok(signature)
            }
            Self::Ec(key) => Ok(key.sign(&random, text).map_err(sign_error)?.as_ref().to_vec()),
        }
    }
}

fn read_key(path: &Path) -> Result<Secret> {
    let unreadable =
        |error| Error::configuration(format!("option {KEY_FILE}: {} cannot be read: {error}", path.display()));
    read_text(path).map(Secret::from).map_err(unreadable)
}

/// Returns a random UUID (RFC 9562, version 4).
fn random_uuid() -> Result<String> {
    let mut bytes = [0_u8; 16];
    aws_lc_rs::rand::fill(&mut bytes).map_err(|_| Error::configuration("the system provides no random numbers"))?;
    let number = u128::from_be_bytes(bytes) & !(0xf000 << 64) & !(0xc000 << 48) | (0x4000 << 64) | (0x8000 << 48);
    let hex = format!("{number:032x}");
    let part = |from, to| hex.get(from..to).unwrap_or_default();
    Ok(format!("{}-{}-{}-{}-{}", part(0, 8), part(8, 12), part(12, 16), part(16, 20), part(20, 32)))
}

#[cfg(test)]
mod tests {
    use aws_lc_rs::encoding::AsDer;
    use aws_lc_rs::rsa::KeySize;
    use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED, KeyPair, RSA_PKCS1_2048_8192_SHA256, UnparsedPublicKey};
    use base64::Engine;
    use base64::prelude::{BASE64_STANDARD, BASE64_URL_SAFE_NO_PAD};

    use super::*;

    fn pem(der: &[u8]) -> String {
        format!("-----BEGIN PRIVATE KEY-----\n{}\n-----END PRIVATE KEY-----\n", BASE64_STANDARD.encode(der))
    }

    fn signer(pem: &str, es256: bool) -> AssertionSigner {
        let claims = vec![("iss", Some("me".to_owned())), ("sub", None), ("aud", Some("them".to_owned()))];
        let (expires, not_before) = (Duration::from_secs(300), Duration::from_secs(60));
        let key = KeySource::Text(pem.to_owned().into());
        AssertionSigner { key, passphrase: None, es256, template: None, claims, expires, not_before, jti: true }
    }

    fn verified_parts(token: &Secret, verify: impl FnOnce(&[u8], &[u8])) -> (Map<String, Value>, Map<String, Value>) {
        let (unsigned, signature) = token.reveal().rsplit_once('.').unwrap();
        verify(unsigned.as_bytes(), &BASE64_URL_SAFE_NO_PAD.decode(signature).unwrap());
        let header = BASE64_URL_SAFE_NO_PAD.decode(unsigned.split_once('.').unwrap().0).unwrap();
        (serde_json::from_slice(&header).unwrap(), jwt::claims(token.reveal()).unwrap())
    }

    #[test]
    fn signs_with_rsa() {
        let key = RsaKeyPair::generate(KeySize::Rsa2048).unwrap();
        let signer = signer(&pem(key.as_der().unwrap().as_ref()), false);
        let now = SystemTime::now();
        let token = signer.sign_assertion(now).unwrap();
        let (header, claims) = verified_parts(&token, |text, signature| {
            UnparsedPublicKey::new(&RSA_PKCS1_2048_8192_SHA256, key.public_key()).verify(text, signature).unwrap();
        });
        assert_eq!((header["alg"].as_str(), header["typ"].as_str()), (Some("RS256"), Some("JWT")));
        assert_eq!((claims["iss"].as_str(), claims["aud"].as_str()), (Some("me"), Some("them")));
        let offset = |name: &str| claims[name].as_u64().unwrap() as i64 - jwt::seconds_of(now) as i64;
        assert_eq!((offset("iat"), offset("exp"), offset("nbf")), (0, 300, -60));
        let jti = claims["jti"].as_str().unwrap();
        assert_eq!((jti.len(), &jti[14..15]), (36, "4"), "{jti}");
        assert_ne!(jwt::claims(signer.sign_assertion(now).unwrap().reveal()).unwrap()["jti"], claims["jti"]);
    }

    #[test]
    fn signs_with_es256() {
        let key = EcdsaKeyPair::generate(&ECDSA_P256_SHA256_FIXED_SIGNING).unwrap();
        let pem = pem(key.to_pkcs8v1().unwrap().as_ref());
        let token = signer(&pem, true).sign_assertion(SystemTime::now()).unwrap();
        let (header, _) = verified_parts(&token, |text, signature| {
            assert_eq!(signature.len(), 64, "both numbers, one after the other (RFC 7518, 3.4)");
            UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, key.public_key()).verify(text, signature).unwrap();
        });
        assert_eq!(header["alg"].as_str(), Some("ES256"));
        let error = signer(&pem, false).sign_assertion(SystemTime::now()).unwrap_err().to_string();
        assert!(error.contains("the key must be an RSA key"), "{error}");
    }

    #[test]
    fn rejects_unusable_keys_without_revealing_them() {
        for (invalid, reason) in [
            ("", "has no private key"),
            ("-----BEGIN PRIVATE KEY-----\nc2VjcmV0\n-----END PRIVATE KEY-----\n", "the key must be an RSA key"),
            (
                "-----BEGIN ENCRYPTED PRIVATE KEY-----\nc2VjcmV0\n-----END ENCRYPTED PRIVATE KEY-----",
                "its private key is encrypted: set sasl.oauthbearer.assertion.private.key.passphrase",
            ),
        ] {
            let error = signer(invalid, false).sign_assertion(SystemTime::now()).unwrap_err().to_string();
            assert!(error.contains(reason) && error.contains(KEY_TEXT) && !error.contains("c2Vj"), "{error}");
        }
    }

    #[test]
    fn template_adds_headers_and_claims() {
        let key = EcdsaKeyPair::generate(&ECDSA_P256_SHA256_FIXED_SIGNING).unwrap();
        let mut signer = signer(&pem(key.to_pkcs8v1().unwrap().as_ref()), true);
        let path = std::env::temp_dir().join(format!("samsarrow-template-{}", std::process::id()));
        signer.template = Some(path.clone());
        let sign_assertion = |template: &str| {
            std::fs::write(&path, template).unwrap();
            signer.sign_assertion(SystemTime::now())
        };
        let signed =
            sign_assertion(r#"{"header": {"kid": "7"}, "payload": {"aud": ["a", "b"], "exp": 1, "tenant": 3}}"#)
                .unwrap();
        let (header, claims) = verified_parts(&signed, |_, _| ());
        assert_eq!((header["kid"].as_str(), claims["tenant"].as_u64()), (Some("7"), Some(3)));
        assert!(claims["aud"].is_array() && claims["exp"].as_u64() > Some(1));
        for (invalid, reason) in [
            ("", "is no JSON"),
            ("[]", "is no JSON object"),
            (r#"{"header": 1}"#, "that is no object"),
            (r#"{"claims": {}}"#, "neither header nor payload"),
        ] {
            let error = sign_assertion(invalid).unwrap_err().to_string();
            assert!(error.contains(reason), "{error}");
        }
        std::fs::remove_file(&path).unwrap();
        let error = signer.sign_assertion(SystemTime::now()).unwrap_err().to_string();
        assert!(error.contains(TEMPLATE) && error.contains("cannot be read"), "{error}");
    }
}
