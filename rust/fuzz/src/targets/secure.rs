//! SASL messages sent by brokers, `sasl.jaas.config` entries, and key stores.
use aws_lc_rs::{digest, hmac};
use samsarrow_client::config::{ClientKind, OptionValue, Options};
use samsarrow_client::fuzz;
use samsarrow_client::security::redact;

use super::broken;

/// Password of all key stores and JAAS entries. An error message that contains it is a bug.
pub(crate) const SECRET: &str = "canary-9q";
/// Nonce of the client, which must be a prefix of the broker's nonce.
pub(crate) const NONCE: &str = "nonce";
/// The expected signature of the broker, and the message that contains it.
const SIGNATURE: &[u8] = &[7; 32];
pub(crate) const SIGNED: &str = "v=BwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwc=";

/// Input: a byte with the kind of the message, then the message.
pub(super) fn login(input: &[u8]) {
    let Some((&what, bytes)) = input.split_first() else { return };
    let text = String::from_utf8_lossy(bytes);
    match what % 5 {
        0 => {
            let Some((nonce, salt, iterations)) = fuzz::scram_challenge(&text, NONCE) else { return };
            assert!(nonce.len() > NONCE.len() && nonce.starts_with(NONCE), "an answer to another login");
            assert!((4096..=1_000_000).contains(&iterations), "{iterations} iterations");
            assert!(!salt.is_empty() && salt.len() <= 1024, "{} bytes of salt", salt.len());
        }
        1 if fuzz::scram_signature(&text, SIGNATURE) => assert_eq!(text.split(',').next(), Some(SIGNED)),
        2 if fuzz::gssapi_offer(bytes) => {
            assert!(bytes.len() == 4 && bytes.first().is_some_and(|layers| layers & 1 == 1))
        }
        3 => {
            let shown = redact::redact(&text, [SECRET.to_owned().into()]);
            assert!(!shown.contains(SECRET), "a secret shows");
            assert!(!shown.chars().any(char::is_control), "a control character shows");
            assert!(shown.chars().count() <= 300 * 10 + 1, "{} characters show", shown.chars().count());
        }
        4 => drop(fuzz::token(&text)),
        _ => {}
    }
}

const MECHANISMS: [&str; 6] = ["GSSAPI", "PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER", "AWS_MSK_IAM"];

/// Input: a byte with the index of a mechanism, then a JAAS entry.
pub(super) fn jaas(input: &[u8]) {
    let Some((&flags, text)) = input.split_first() else { return };
    let mechanism = MECHANISMS.get(usize::from(flags) % MECHANISMS.len()).copied().unwrap_or_default();
    let text = String::from_utf8_lossy(text).into_owned();
    let options = [
        ("bootstrap.servers", "h:1".to_owned()),
        ("security.protocol", "SASL_SSL".to_owned()),
        ("sasl.mechanism", mechanism.to_owned()),
        ("sasl.jaas.config", text),
    ];
    let pairs = options.map(|(name, value)| (name.to_owned(), OptionValue::Str(value)));
    // Error messages may contain values that are not secrets, such as user names.
    if let Err(error) = Options::parse(ClientKind::Producer, pairs) {
        assert!(!error.to_string().contains(SECRET), "a secret shows: {error}");
    }
}

/// Flags: 1 appends the correct digest, 2 omits the password, 4 uses another key password.
pub(super) fn jks(input: &[u8]) {
    let Some((&flags, bytes)) = input.split_first() else { return };
    let mut bytes = bytes.to_vec();
    if flags & 1 != 0 {
        let mut context = digest::Context::new(&digest::SHA1_FOR_LEGACY_USE_ONLY);
        context.update(&utf16(SECRET));
        context.update(b"Mighty Aphrodite");
        context.update(&bytes);
        bytes.extend_from_slice(context.finish().as_ref());
    }
    open(&bytes, flags);
}

/// Flags: with 1, the input contains safes, which are wrapped in a store with the correct digest. The other flags are
/// those of [`jks`].
pub(super) fn pkcs12(input: &[u8]) {
    let Some((&flags, bytes)) = input.split_first() else { return };
    match flags & 1 {
        0 => open(bytes, flags),
        _ => open(&sealed(bytes), flags),
    }
}

/// Flags as in [`jks`], except for the digest.
pub(super) fn pem(input: &[u8]) {
    let Some((&flags, bytes)) = input.split_first() else { return };
    open(bytes, flags);
}

fn open(bytes: &[u8], flags: u8) {
    let password = (flags & 2 == 0).then_some(SECRET);
    let key_password = if flags & 4 == 0 { SECRET } else { "another" };
    match fuzz::store(bytes, password, Some(key_password)) {
        // Keys may be converted between Base64 and DER, but the result is not much longer.
        Ok((key, certificates)) if key + certificates > 2 * bytes.len() + 4096 => {
            broken(&format!("{key} bytes of a key, {certificates} of certificates from {} bytes", bytes.len()));
        }
        Ok(_) => {}
        Err(error) => assert!(!error.to_string().contains(SECRET), "a secret shows: {error}"),
    }
}

/// Encodes a password in UTF-16, as Java and PKCS12 do before hashing it.
fn utf16(text: &str) -> Vec<u8> {
    text.encode_utf16().flat_map(u16::to_be_bytes).collect()
}

/// Wraps safes in a PKCS12 store with the correct digest (RFC 7292, with SHA-256 and one iteration).
fn sealed(safes: &[u8]) -> Vec<u8> {
    const SALT: [u8; 8] = [9; 8];
    let password = [utf16(SECRET), vec![0, 0]].concat();
    let filled =
        |bytes: &[u8]| bytes.iter().copied().cycle().take(bytes.len().next_multiple_of(64)).collect::<Vec<_>>();
    let key = [vec![3; 64], filled(&SALT), filled(&password)].concat();
    let key = hmac::Key::new(hmac::HMAC_SHA256, digest::digest(&digest::SHA256, &key).as_ref());
    let mac = hmac::sign(&key, safes);
    let data = [0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x07, 0x01];
    let sha256 = [0x60, 0x86, 0x48, 0x01, 0x65, 0x03, 0x04, 0x02, 0x01];
    let content = der(0x30, &[&der(0x06, &[&data]), &der(0xa0, &[&der(0x04, &[safes])])]);
    let digest = der(0x30, &[&der(0x30, &[&der(0x06, &[&sha256]), &[5, 0]]), &der(0x04, &[mac.as_ref()])]);
    let mac = der(0x30, &[&digest, &der(0x04, &[&SALT]), &[2, 1, 1]]);
    der(0x30, &[&[2, 1, 3], &content, &mac])
}

fn der(tag: u8, parts: &[&[u8]]) -> Vec<u8> {
    let body = parts.concat();
    let mut out = vec![tag];
    crate::tree::Number::Der.put(body.len() as i64, &mut out);
    out.extend_from_slice(&body);
    out
}
