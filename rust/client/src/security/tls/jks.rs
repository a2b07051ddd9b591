//! Java's own key stores (`JKS`), in the format of `sun.security.provider.JavaKeyStore`.
//!
//! All fields have explicit lengths. A wrong length never causes an allocation that is larger than the store.

use aws_lc_rs::digest::{Context, SHA1_FOR_LEGACY_USE_ONLY};
use zeroize::Zeroizing;

use super::awslc::StoreContents;
use super::x509;

const MAGIC: [u8; 4] = [0xFE, 0xED, 0xFE, 0xED];
/// Constant text that is hashed after the password when a store's digest is computed.
const WHITENER: &[u8] = b"Mighty Aphrodite";
/// Size of a SHA-1 digest in bytes, which is also the size of a key's salt.
const DIGEST_SIZE: usize = 20;
/// Object identifier 1.3.6.1.4.1.42.2.17.1.1 of the algorithm that protects JKS keys.
const KEY_PROTECTOR: &[u8] = &[0x2B, 0x06, 0x01, 0x04, 0x01, 0x2A, 0x02, 0x11, 0x01, 0x01];

/// Reason why a store cannot be opened.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum JksError {
    /// The store's password is wrong, or the store was modified.
    Password,
    /// The key's password is wrong.
    KeyPassword,
    /// The content of the store is invalid.
    Invalid(&'static str),
}

/// Returns true if `bytes` start with the magic number of JKS.
pub(super) fn is_jks(bytes: &[u8]) -> bool {
    bytes.starts_with(&MAGIC)
}

/// Opens a store. As in Java, the digest of the store is not verified if `password` is not set. The key is read only if
/// `key_password` is set.
pub(super) fn open(
    bytes: &[u8],
    password: Option<&str>,
    key_password: Option<&str>,
) -> Result<StoreContents, JksError> {
    let (content, digest) = bytes.split_last_chunk::<DIGEST_SIZE>().ok_or(TRUNCATED)?;
    if let Some(password) = password {
        let computed = sha1(&[&utf16(password), WHITENER, content]);
        if aws_lc_rs::constant_time::verify_slices_are_equal(&computed, digest).is_err() {
            return Err(JksError::Password);
        }
    }
    let mut rest = Reader(content);
    if rest.take(4)? != MAGIC {
        return Err(JksError::Invalid("it does not start as a JKS does"));
    }
    let version = rest.read_u32()?;
    if !matches!(version, 1 | 2) {
        return Err(JksError::Invalid("its version is unknown"));
    }
    let mut contents = StoreContents::default();
    for _ in 0..rest.read_u32()? {
        let tag = rest.read_u32()?;
        let _alias = rest.read_text()?;
        let _created = rest.take(8)?;
        match tag {
            1 => {
                let protected = rest.read_sized()?;
                let mut chain = Vec::new();
                for _ in 0..rest.read_u32()? {
                    chain.push(rest.read_certificate(version)?);
                }
                let Some(password) = key_password else { continue };
                if contents.key.is_some() {
                    return Err(JksError::Invalid("it has more than one key: put one into a separate store"));
                }
                contents.key = Some(unprotect(protected, password)?);
                contents.chain = chain;
            }
            2 => contents.certificates.push(rest.read_certificate(version)?),
            _ => return Err(JksError::Invalid("it has entries of an unknown kind")),
        }
    }
    Ok(contents)
}

/// Decrypts a private key to PKCS8. The key is combined by XOR with a chain of digests that starts with a salt.
fn unprotect(protected: &[u8], password: &str) -> Result<Zeroizing<Vec<u8>>, JksError> {
    let Some((_, bytes)) = x509::encrypted_key(protected).filter(|(oid, _)| *oid == KEY_PROTECTOR) else {
        return Err(JksError::Invalid("its key is protected with an unknown algorithm"));
    };
    let (salt, rest) = bytes.split_first_chunk::<DIGEST_SIZE>().ok_or(TRUNCATED)?;
    let (sealed, check) = rest.split_last_chunk::<DIGEST_SIZE>().ok_or(TRUNCATED)?;
    let password = utf16(password);
    let mut plain = Zeroizing::new(sealed.to_vec());
    let mut digest = Zeroizing::new(*salt);
    for part in plain.chunks_mut(DIGEST_SIZE) {
        *digest = sha1(&[&password, &*digest]);
        for (byte, mask) in part.iter_mut().zip(digest.iter()) {
            *byte ^= mask;
        }
    }
    let computed = sha1(&[&password, &plain]);
    aws_lc_rs::constant_time::verify_slices_are_equal(&computed, check).map_err(|_| JksError::KeyPassword)?;
    Ok(plain)
}

/// Encodes a password as Java does, in big-endian UTF-16.
fn utf16(password: &str) -> Zeroizing<Vec<u8>> {
    Zeroizing::new(password.encode_utf16().flat_map(u16::to_be_bytes).collect())
}

fn sha1(parts: &[&[u8]]) -> [u8; DIGEST_SIZE] {
    let mut context = Context::new(&SHA1_FOR_LEGACY_USE_ONLY);
    for part in parts {
        context.update(part);
    }
    let mut digest = [0; DIGEST_SIZE];
    for (into, byte) in digest.iter_mut().zip(context.finish().as_ref()) {
        *into = *byte;
    }
    digest
}

const TRUNCATED: JksError = JksError::Invalid("it is truncated");

/// The bytes of a store that are not yet read.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, count: usize) -> Result<&'a [u8], JksError> {
        let (taken, rest) = self.0.split_at_checked(count).ok_or(TRUNCATED)?;
        self.0 = rest;
        Ok(taken)
    }

    fn read_u32(&mut self) -> Result<u32, JksError> {
        let bytes = self.take(4)?.try_into().map_err(|_| TRUNCATED)?;
        Ok(u32::from_be_bytes(bytes))
    }

    fn read_sized(&mut self) -> Result<&'a [u8], JksError> {
        let count = usize::try_from(self.read_u32()?).map_err(|_| TRUNCATED)?;
        self.take(count)
    }

    fn read_text(&mut self) -> Result<&'a [u8], JksError> {
        let bytes = self.take(2)?.try_into().map_err(|_| TRUNCATED)?;
        self.take(usize::from(u16::from_be_bytes(bytes)))
    }

    /// Reads a certificate. In version 2 of the format, the type of the certificate precedes it.
    fn read_certificate(&mut self, version: u32) -> Result<Vec<u8>, JksError> {
        if version == 2 && self.read_text()? != b"X.509" {
            return Err(JksError::Invalid("it has certificates of an unknown type"));
        }
        Ok(self.read_sized()?.to_vec())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PASSWORD: &str = "pässword";

    fn write_text(into: &mut Vec<u8>, text: &[u8]) {
        into.extend_from_slice(&u16::try_from(text.len()).unwrap().to_be_bytes());
        into.extend_from_slice(text);
    }

    fn write_sized(into: &mut Vec<u8>, bytes: &[u8]) {
        into.extend_from_slice(&u32::try_from(bytes.len()).unwrap().to_be_bytes());
        into.extend_from_slice(bytes);
    }

    fn protect(key: &[u8], password: &str) -> Vec<u8> {
        let password = utf16(password);
        let salt = [7; DIGEST_SIZE];
        let (mut digest, mut sealed) = (salt, Vec::new());
        for part in key.chunks(DIGEST_SIZE) {
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

    /// Builds a store with a key, its chain of two certificates, and a trusted certificate.
    fn store(version: u32) -> Vec<u8> {
        let mut store = MAGIC.to_vec();
        let write_certificate = |store: &mut Vec<u8>, bytes: &[u8]| {
            if version == 2 {
                write_text(store, b"X.509");
            }
            write_sized(store, bytes);
        };
        for number in [version, 2, 1] {
            store.extend_from_slice(&number.to_be_bytes());
        }
        write_text(&mut store, b"own");
        store.extend_from_slice(&[0; 8]);
        write_sized(&mut store, &protect(b"the key, longer than one digest", "of the key"));
        store.extend_from_slice(&2u32.to_be_bytes());
        write_certificate(&mut store, b"leaf");
        write_certificate(&mut store, b"above");
        store.extend_from_slice(&2u32.to_be_bytes());
        write_text(&mut store, b"ca");
        store.extend_from_slice(&[0; 8]);
        write_certificate(&mut store, b"root");
        let digest = sha1(&[&utf16(PASSWORD), WHITENER, &store]);
        store.extend_from_slice(&digest);
        store
    }

    #[test]
    fn separates_keys_chains_and_trusted_certificates() {
        for version in [1, 2] {
            let contents = open(&store(version), Some(PASSWORD), Some("of the key")).unwrap();
            assert_eq!(&contents.key.unwrap()[..], b"the key, longer than one digest");
            assert_eq!(contents.chain, [&b"leaf"[..], b"above"]);
            assert_eq!(contents.certificates, [b"root"]);
            // As in Java, trusted certificates can be read without a password.
            let contents = open(&store(version), None, None).unwrap();
            assert!(contents.key.is_none() && contents.chain.is_empty());
            assert_eq!(contents.certificates, [b"root"]);
        }
    }

    #[test]
    fn rejects_wrong_passwords_and_modified_stores() {
        let store = store(2);
        assert_eq!(open(&store, Some("another"), None).err(), Some(JksError::Password));
        assert_eq!(open(&store, Some(PASSWORD), Some(PASSWORD)).err(), Some(JksError::KeyPassword));
        for index in 0..store.len() {
            let mut changed = store.clone();
            changed[index] ^= 1;
            assert_eq!(open(&changed, Some(PASSWORD), None).err(), Some(JksError::Password), "{index}");
        }
    }

    #[test]
    fn never_allocates_more_than_the_input() {
        let store = store(2);
        let all = |contents: &StoreContents| {
            let key = contents.key.as_ref().map_or(0, |key| key.len());
            key + contents.chain.iter().chain(&contents.certificates).map(Vec::len).sum::<usize>()
        };
        for end in 0..store.len() {
            // The last bytes of a store are its digest, which is not verified without a password.
            let cut = [&store[..end], &[0; DIGEST_SIZE]].concat();
            assert_eq!(open(&cut, None, Some("of the key")).is_ok(), end >= store.len() - DIGEST_SIZE, "{end}");
        }
        for index in 0..store.len() - DIGEST_SIZE - 3 {
            for claim in [u32::MAX, 0x7FFF_FFFF, 1 << 24] {
                let mut hostile = store.clone();
                hostile[index..index + 4].copy_from_slice(&claim.to_be_bytes());
                if let Ok(contents) = open(&hostile, None, Some("of the key")) {
                    assert!(all(&contents) <= hostile.len());
                    assert!(contents.chain.capacity() + contents.certificates.capacity() <= hostile.len());
                }
            }
        }
    }
}
