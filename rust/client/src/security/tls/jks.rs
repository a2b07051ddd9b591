//! Java's own key stores (`JKS`), as `sun.security.provider.JavaKeyStore` writes them.
//!
//! The format says how long everything is; nothing is allocated for what is not there.

use aws_lc_rs::digest::{Context, SHA1_FOR_LEGACY_USE_ONLY};
use zeroize::Zeroizing;

use super::awslc::Opened;
use super::x509;

const MAGIC: [u8; 4] = [0xFE, 0xED, 0xFE, 0xED];
/// What the digest of a store begins with, besides the password.
const WHITENER: &[u8] = b"Mighty Aphrodite";
/// Of SHA-1, of the salt of a key, and of the digests of keys and stores.
const DIGEST: usize = 20;
/// 1.3.6.1.4.1.42.2.17.1.1: how JKS protects keys.
const KEY_PROTECTOR: &[u8] = &[0x2B, 0x06, 0x01, 0x04, 0x01, 0x2A, 0x02, 0x11, 0x01, 0x01];

/// Why there is nothing.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Refused {
    /// The store's is another one, or the store was changed.
    Password,
    /// The key's is another one.
    KeyPassword,
    /// It is not what it should be.
    Because(&'static str),
}

/// Whether `bytes` begin as such a store does.
pub(super) fn is_jks(bytes: &[u8]) -> bool {
    bytes.starts_with(&MAGIC)
}

/// Opens a store. Without a password its digest is not looked at, as in Java. Its key is of interest only if there is a
/// password for it.
pub(super) fn open(bytes: &[u8], password: Option<&str>, key_password: Option<&str>) -> Result<Opened, Refused> {
    let (content, digest) = bytes.split_last_chunk::<DIGEST>().ok_or(CUT)?;
    if let Some(password) = password {
        let found = sha1(&[&utf16(password), WHITENER, content]);
        if aws_lc_rs::constant_time::verify_slices_are_equal(&found, digest).is_err() {
            return Err(Refused::Password);
        }
    }
    let mut rest = Rest(content);
    if rest.take(4)? != MAGIC {
        return Err(Refused::Because("it does not begin as a JKS does"));
    }
    let version = rest.number()?;
    if !matches!(version, 1 | 2) {
        return Err(Refused::Because("its version is unknown"));
    }
    let mut opened = Opened::default();
    for _ in 0..rest.number()? {
        let tag = rest.number()?;
        let _alias = rest.text()?;
        let _created = rest.take(8)?;
        match tag {
            1 => {
                let protected = rest.sized()?;
                let mut chain = Vec::new();
                for _ in 0..rest.number()? {
                    chain.push(rest.certificate(version)?);
                }
                let Some(password) = key_password else { continue };
                if opened.key.is_some() {
                    return Err(Refused::Because("it has more than one key: put one into a separate store"));
                }
                opened.key = Some(unprotect(protected, password)?);
                opened.chain = chain;
            }
            2 => opened.certificates.push(rest.certificate(version)?),
            _ => return Err(Refused::Because("it holds entries of an unknown kind")),
        }
    }
    Ok(opened)
}

/// The PKCS8 of a key: XOR with a chain of digests that begins with a salt.
fn unprotect(protected: &[u8], password: &str) -> Result<Zeroizing<Vec<u8>>, Refused> {
    let Some((_, bytes)) = x509::encrypted_key(protected).filter(|(oid, _)| *oid == KEY_PROTECTOR) else {
        return Err(Refused::Because("its key is protected in an unknown way"));
    };
    let (salt, rest) = bytes.split_first_chunk::<DIGEST>().ok_or(CUT)?;
    let (sealed, check) = rest.split_last_chunk::<DIGEST>().ok_or(CUT)?;
    let password = utf16(password);
    let mut plain = Zeroizing::new(sealed.to_vec());
    let mut digest = Zeroizing::new(*salt);
    for part in plain.chunks_mut(DIGEST) {
        *digest = sha1(&[&password, &*digest]);
        for (byte, mask) in part.iter_mut().zip(digest.iter()) {
            *byte ^= mask;
        }
    }
    let found = sha1(&[&password, &plain]);
    aws_lc_rs::constant_time::verify_slices_are_equal(&found, check).map_err(|_| Refused::KeyPassword)?;
    Ok(plain)
}

/// Java's characters, the high byte first.
fn utf16(password: &str) -> Zeroizing<Vec<u8>> {
    Zeroizing::new(password.encode_utf16().flat_map(u16::to_be_bytes).collect())
}

fn sha1(parts: &[&[u8]]) -> [u8; DIGEST] {
    let mut context = Context::new(&SHA1_FOR_LEGACY_USE_ONLY);
    for part in parts {
        context.update(part);
    }
    let mut digest = [0; DIGEST];
    for (into, byte) in digest.iter_mut().zip(context.finish().as_ref()) {
        *into = *byte;
    }
    digest
}

const CUT: Refused = Refused::Because("it is cut short");

/// What was not read yet.
struct Rest<'a>(&'a [u8]);

impl<'a> Rest<'a> {
    fn take(&mut self, count: usize) -> Result<&'a [u8], Refused> {
        let (taken, rest) = self.0.split_at_checked(count).ok_or(CUT)?;
        self.0 = rest;
        Ok(taken)
    }

    fn number(&mut self) -> Result<u32, Refused> {
        let bytes = self.take(4)?.try_into().map_err(|_| CUT)?;
        Ok(u32::from_be_bytes(bytes))
    }

    fn sized(&mut self) -> Result<&'a [u8], Refused> {
        let count = usize::try_from(self.number()?).map_err(|_| CUT)?;
        self.take(count)
    }

    fn text(&mut self) -> Result<&'a [u8], Refused> {
        let bytes = self.take(2)?.try_into().map_err(|_| CUT)?;
        self.take(usize::from(u16::from_be_bytes(bytes)))
    }

    /// Version 2 says of what kind it is.
    fn certificate(&mut self, version: u32) -> Result<Vec<u8>, Refused> {
        if version == 2 && self.text()? != b"X.509" {
            return Err(Refused::Because("it holds certificates of an unknown kind"));
        }
        Ok(self.sized()?.to_vec())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PASSWORD: &str = "pässword";

    fn text(into: &mut Vec<u8>, text: &[u8]) {
        into.extend_from_slice(&u16::try_from(text.len()).unwrap().to_be_bytes());
        into.extend_from_slice(text);
    }

    fn sized(into: &mut Vec<u8>, bytes: &[u8]) {
        into.extend_from_slice(&u32::try_from(bytes.len()).unwrap().to_be_bytes());
        into.extend_from_slice(bytes);
    }

    fn protect(key: &[u8], password: &str) -> Vec<u8> {
        let password = utf16(password);
        let salt = [7; DIGEST];
        let (mut digest, mut sealed) = (salt, Vec::new());
        for part in key.chunks(DIGEST) {
            digest = sha1(&[&password, &digest]);
            sealed.extend(part.iter().zip(digest).map(|(byte, mask)| byte ^ mask));
        }
        let content = [&salt[..], &sealed, &sha1(&[&password, key])].concat();
        let mut algorithm = vec![0x06, u8::try_from(KEY_PROTECTOR.len()).unwrap()];
        algorithm.extend_from_slice(KEY_PROTECTOR);
        let mut whole = vec![0x30, u8::try_from(algorithm.len()).unwrap()];
        whole.extend(algorithm);
        whole.extend([0x04, u8::try_from(content.len()).unwrap()]);
        whole.extend(content);
        [vec![0x30, u8::try_from(whole.len()).unwrap()], whole].concat()
    }

    /// A key with a chain of two, then a certificate that is trusted.
    fn store(version: u32) -> Vec<u8> {
        let mut store = MAGIC.to_vec();
        let certificate = |store: &mut Vec<u8>, bytes: &[u8]| {
            if version == 2 {
                text(store, b"X.509");
            }
            sized(store, bytes);
        };
        for number in [version, 2, 1] {
            store.extend_from_slice(&number.to_be_bytes());
        }
        text(&mut store, b"own");
        store.extend_from_slice(&[0; 8]);
        sized(&mut store, &protect(b"the key, longer than one digest", "of the key"));
        store.extend_from_slice(&2u32.to_be_bytes());
        certificate(&mut store, b"leaf");
        certificate(&mut store, b"above");
        store.extend_from_slice(&2u32.to_be_bytes());
        text(&mut store, b"ca");
        store.extend_from_slice(&[0; 8]);
        certificate(&mut store, b"root");
        let digest = sha1(&[&utf16(PASSWORD), WHITENER, &store]);
        store.extend_from_slice(&digest);
        store
    }

    #[test]
    fn keys_chains_and_trusted_certificates_are_told_apart() {
        for version in [1, 2] {
            let opened = open(&store(version), Some(PASSWORD), Some("of the key")).unwrap();
            assert_eq!(&opened.key.unwrap()[..], b"the key, longer than one digest");
            assert_eq!(opened.chain, [&b"leaf"[..], b"above"]);
            assert_eq!(opened.certificates, [b"root"]);
            // Whom to trust needs no password, in Java either.
            let opened = open(&store(version), None, None).unwrap();
            assert!(opened.key.is_none() && opened.chain.is_empty());
            assert_eq!(opened.certificates, [b"root"]);
        }
    }

    #[test]
    fn wrong_passwords_and_changed_stores_are_refused() {
        let store = store(2);
        assert_eq!(open(&store, Some("another"), None).err(), Some(Refused::Password));
        assert_eq!(open(&store, Some(PASSWORD), Some(PASSWORD)).err(), Some(Refused::KeyPassword));
        for at in 0..store.len() {
            let mut changed = store.clone();
            changed[at] ^= 1;
            assert_eq!(open(&changed, Some(PASSWORD), None).err(), Some(Refused::Password), "{at}");
        }
    }

    #[test]
    fn nothing_is_made_that_is_not_there() {
        let store = store(2);
        let all = |opened: &Opened| {
            let key = opened.key.as_ref().map_or(0, |key| key.len());
            key + opened.chain.iter().chain(&opened.certificates).map(Vec::len).sum::<usize>()
        };
        for end in 0..store.len() {
            // The last bytes are a digest, which nobody looks at without a password.
            let cut = [&store[..end], &[0; DIGEST]].concat();
            assert_eq!(open(&cut, None, Some("of the key")).is_ok(), end >= store.len() - DIGEST, "{end}");
        }
        for at in 0..store.len() - DIGEST - 3 {
            for claim in [u32::MAX, 0x7FFF_FFFF, 1 << 24] {
                let mut hostile = store.clone();
                hostile[at..at + 4].copy_from_slice(&claim.to_be_bytes());
                if let Ok(opened) = open(&hostile, None, Some("of the key")) {
                    assert!(all(&opened) <= hostile.len());
                    assert!(opened.chain.capacity() + opened.certificates.capacity() <= hostile.len());
                }
            }
        }
    }
}
