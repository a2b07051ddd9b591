//! Assertions: tokens that a client signs itself, to get another one for them (RFC 7523).

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

/// Where assertions come from.
#[derive(Debug, Clone)]
pub(super) enum Assertions {
    /// Somebody else signs them, and renews the file.
    File(PathBuf),
    /// They are made here. Key and template are read each time, so that they may be replaced.
    Made(Arc<Maker>),
}

#[derive(Debug, Clone)]
enum KeySource {
    File(PathBuf),
    Text(Secret),
}

#[derive(Debug)]
pub(super) struct Maker {
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
    /// Those that the options name, if any. `audience` is for whom they are where no option says it.
    ///
    /// # Errors
    /// The key or the template cannot be read or used, or a claim is missing.
    pub(super) fn of(oauth: &OAuthOptions, audience: &str) -> Result<Option<Self>> {
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
                "option {FILE} names an assertion, and another one a key to make some: leave one out"
            ))),
            (Some(path), None) => Ok(Some(Self::File(path.clone()))),
            (None, None) => Ok(None),
            (None, Some(key)) => {
                let claim =
                    |given: &Option<String>, default: Option<&str>| given.clone().or(default.map(str::to_owned));
                // A client that speaks for itself has its own id in both (RFC 7523, 3).
                let id = oauth.client_id.as_deref();
                let maker = Maker {
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
                // What is wrong with key and template shows now.
                maker.make(SystemTime::now())?;
                Ok(Some(Self::Made(Arc::new(maker))))
            }
        }
    }

    /// An assertion that holds now.
    ///
    /// # Errors
    /// File, key or template cannot be read any more.
    pub(super) async fn next(&self, name: &str) -> Result<Secret> {
        match self {
            Self::File(path) => {
                let text = read_trimmed(name, path).await?;
                if text.is_empty() {
                    return Err(Error::authentication(name, format!("option {FILE}: {} is empty", path.display())));
                }
                Ok(text.into())
            }
            Self::Made(maker) => {
                let maker = Arc::clone(maker);
                let made = tokio::task::spawn_blocking(move || maker.make(SystemTime::now())).await;
                made.unwrap_or_else(|_| Err(Error::authentication(name, "the signing of the assertion was given up")))
            }
        }
    }
}

/// Keys that sign.
enum Key {
    Rsa(RsaKeyPair),
    Ec(EcdsaKeyPair),
}

impl Maker {
    fn make(&self, now: SystemTime) -> Result<Secret> {
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
                "an assertion needs option sasl.oauthbearer.assertion.claim.iss: whom it is from",
            ));
        }
        claims.insert("iat".to_owned(), jwt::seconds_of(now).into());
        claims.insert("exp".to_owned(), jwt::seconds_of(now + self.expires).into());
        claims.insert("nbf".to_owned(), jwt::seconds_of(now - self.not_before).into());
        if self.jti {
            claims.insert("jti".to_owned(), unique()?.into());
        }
        let unsigned = jwt::unsigned(&header, &claims);
        let signature = self.key()?.sign(unsigned.as_bytes())?;
        Ok(jwt::signed(&unsigned, &signature).into())
    }

    /// Header and claims of the template; claims that options name win.
    fn template(&self) -> Result<(Map<String, Value>, Map<String, Value>)> {
        let mut found = (Map::new(), Map::new());
        if let Some(path) = &self.template {
            let wrong = |text: String| Error::configuration(format!("option {TEMPLATE}: {} {text}", path.display()));
            let text = read_text(path).map_err(|error| wrong(format!("cannot be read: {error}")))?;
            let parsed = serde_json::from_str(&text).map_err(|error| wrong(format!("is no JSON: {error}")))?;
            let Value::Object(parts) = parsed else { return Err(wrong("is no JSON object".to_owned())) };
            for (name, part) in parts {
                let Value::Object(part) = part else { return Err(wrong(format!("has a {name:?} that is no object"))) };
                match name.as_str() {
                    "header" => found.0 = part,
                    "payload" => found.1 = part,
                    _ => return Err(wrong(format!("has {name:?}, which is neither header nor payload"))),
                }
            }
        }
        Ok(found)
    }

    fn key(&self) -> Result<Key> {
        let (option, pem) = match &self.key {
            KeySource::File(path) => (KEY_FILE, read_key(path)?),
            KeySource::Text(pem) => (KEY_TEXT, pem.clone()),
        };
        let wrong = |text: &str| Error::configuration(format!("option {option}: {text}"));
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
        key.map_err(|_| wrong(&format!("the key must be {kind} (sasl.oauthbearer.assertion.algorithm)")))
    }
}

impl Key {
    fn sign(&self, text: &[u8]) -> Result<Vec<u8>> {
        let failed = |_| Error::configuration("the assertion cannot be signed with this key");
        let random = SystemRandom::new();
        match self {
            Self::Rsa(key) => {
                let mut signature = vec![0; key.public_modulus_len()];
                key.sign(&RSA_PKCS1_SHA256, &random, text, &mut signature).map_err(failed)?;
                Ok(signature)
            }
            Self::Ec(key) => Ok(key.sign(&random, text).map_err(failed)?.as_ref().to_vec()),
        }
    }
}

fn read_key(path: &Path) -> Result<Secret> {
    let unreadable =
        |error| Error::configuration(format!("option {KEY_FILE}: {} cannot be read: {error}", path.display()));
    read_text(path).map(Secret::from).map_err(unreadable)
}

/// A random UUID (RFC 9562, version 4).
fn unique() -> Result<String> {
    let mut bytes = [0_u8; 16];
    aws_lc_rs::rand::fill(&mut bytes).map_err(|_| Error::configuration("the system gives no random numbers"))?;
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

    fn maker(pem: &str, es256: bool) -> Maker {
        let claims = vec![("iss", Some("me".to_owned())), ("sub", None), ("aud", Some("them".to_owned()))];
        let (expires, not_before) = (Duration::from_secs(300), Duration::from_secs(60));
        let key = KeySource::Text(pem.to_owned().into());
        Maker { key, passphrase: None, es256, template: None, claims, expires, not_before, jti: true }
    }

    fn checked(token: &Secret, verify: impl FnOnce(&[u8], &[u8])) -> (Map<String, Value>, Map<String, Value>) {
        let (unsigned, signature) = token.reveal().rsplit_once('.').unwrap();
        verify(unsigned.as_bytes(), &BASE64_URL_SAFE_NO_PAD.decode(signature).unwrap());
        let header = BASE64_URL_SAFE_NO_PAD.decode(unsigned.split_once('.').unwrap().0).unwrap();
        (serde_json::from_slice(&header).unwrap(), jwt::claims(token.reveal()).unwrap())
    }

    #[test]
    fn assertions_are_signed_with_rsa() {
        let key = RsaKeyPair::generate(KeySize::Rsa2048).unwrap();
        let maker = maker(&pem(key.as_der().unwrap().as_ref()), false);
        let now = SystemTime::now();
        let token = maker.make(now).unwrap();
        let (header, claims) = checked(&token, |text, signature| {
            UnparsedPublicKey::new(&RSA_PKCS1_2048_8192_SHA256, key.public_key()).verify(text, signature).unwrap();
        });
        assert_eq!((header["alg"].as_str(), header["typ"].as_str()), (Some("RS256"), Some("JWT")));
        assert_eq!((claims["iss"].as_str(), claims["aud"].as_str()), (Some("me"), Some("them")));
        let at = |name: &str| claims[name].as_u64().unwrap() as i64 - jwt::seconds_of(now) as i64;
        assert_eq!((at("iat"), at("exp"), at("nbf")), (0, 300, -60));
        let jti = claims["jti"].as_str().unwrap();
        assert_eq!((jti.len(), &jti[14..15]), (36, "4"), "{jti}");
        assert_ne!(jwt::claims(maker.make(now).unwrap().reveal()).unwrap()["jti"], claims["jti"]);
    }

    #[test]
    fn assertions_are_signed_with_elliptic_curves() {
        let key = EcdsaKeyPair::generate(&ECDSA_P256_SHA256_FIXED_SIGNING).unwrap();
        let pem = pem(key.to_pkcs8v1().unwrap().as_ref());
        let token = maker(&pem, true).make(SystemTime::now()).unwrap();
        let (header, _) = checked(&token, |text, signature| {
            assert_eq!(signature.len(), 64, "both numbers, one after the other (RFC 7518, 3.4)");
            UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, key.public_key()).verify(text, signature).unwrap();
        });
        assert_eq!(header["alg"].as_str(), Some("ES256"));
        let error = maker(&pem, false).make(SystemTime::now()).unwrap_err().to_string();
        assert!(error.contains("the key must be an RSA key"), "{error}");
    }

    #[test]
    fn keys_that_cannot_be_used_are_named_and_not_shown() {
        for (wrong, reason) in [
            ("", "has no private key"),
            ("-----BEGIN PRIVATE KEY-----\nc2VjcmV0\n-----END PRIVATE KEY-----\n", "the key must be an RSA key"),
            (
                "-----BEGIN ENCRYPTED PRIVATE KEY-----\nc2VjcmV0\n-----END ENCRYPTED PRIVATE KEY-----",
                "its private key is encrypted: set sasl.oauthbearer.assertion.private.key.passphrase",
            ),
        ] {
            let error = maker(wrong, false).make(SystemTime::now()).unwrap_err().to_string();
            assert!(error.contains(reason) && error.contains(KEY_TEXT) && !error.contains("c2Vj"), "{error}");
        }
    }

    #[test]
    fn templates_have_what_options_do_not() {
        let key = EcdsaKeyPair::generate(&ECDSA_P256_SHA256_FIXED_SIGNING).unwrap();
        let mut maker = maker(&pem(key.to_pkcs8v1().unwrap().as_ref()), true);
        let path = std::env::temp_dir().join(format!("samsarrow-template-{}", std::process::id()));
        maker.template = Some(path.clone());
        let make = |template: &str| {
            std::fs::write(&path, template).unwrap();
            maker.make(SystemTime::now())
        };
        let made = make(r#"{"header": {"kid": "7"}, "payload": {"aud": ["a", "b"], "exp": 1, "tenant": 3}}"#).unwrap();
        let (header, claims) = checked(&made, |_, _| ());
        assert_eq!((header["kid"].as_str(), claims["tenant"].as_u64()), (Some("7"), Some(3)));
        assert!(claims["aud"].is_array() && claims["exp"].as_u64() > Some(1));
        for (wrong, reason) in [
            ("", "is no JSON"),
            ("[]", "is no JSON object"),
            (r#"{"header": 1}"#, "that is no object"),
            (r#"{"claims": {}}"#, "neither header nor payload"),
        ] {
            let error = make(wrong).unwrap_err().to_string();
            assert!(error.contains(reason), "{error}");
        }
        std::fs::remove_file(&path).unwrap();
        let error = maker.make(SystemTime::now()).unwrap_err().to_string();
        assert!(error.contains(TEMPLATE) && error.contains("cannot be read"), "{error}");
    }
}
