//! Limits on key derivation. The iteration counts of a store are checked before AWS-LC derives keys with them, because
//! AWS-LC accepts up to 100 million iterations per count.
//!
//! The checked counts are those of the MAC (RFC 7292), of encrypted ContentInfos, and of keys outside encrypted
//! ContentInfos. The counts of keys inside encrypted ContentInfos are not checked, because only AWS-LC decrypts them.
//! No known tool writes such a store, and writing it requires the password.

use std::borrow::Cow;

use super::x509::{INTEGER, OID, Reader, SEQUENCE};

/// Maximum sum of all iteration counts of a store. keytool writes three counts of 10,000 each; OWASP recommends 600,000
/// iterations. At this limit the slowest derivation, a MAC with SHA-512, takes 1.2 s, and PBKDF2 with SHA-256 half of
/// that.
const MAX_ITERATIONS: u64 = 5_000_000;

/// The context-specific tag 0. Stores use no other context-specific tag.
const WRAPPED: u8 = 0xA0;

/// # Errors
/// Fails if the iteration counts of a PKCS12 store exceed `MAX_ITERATIONS` in total.
pub(super) fn check_pkcs12(ber: &[u8], password: &str) -> Result<(), String> {
    // If the password is empty, AWS-LC tries both of its encodings.
    let attempts = if password.is_empty() { 2 } else { 1 };
    check(pkcs12_iterations(ber, attempts), "keytool -importkeystore, or openssl pkcs12 -export with -iter 100000")
}

/// # Errors
/// Fails if the iteration count of an encrypted key exceeds `MAX_ITERATIONS`.
pub(super) fn check_pkcs8(der: &[u8]) -> Result<(), String> {
    check(key_iterations(der), "openssl pkcs8 -topk8 with -iter 100000")
}

fn check(iterations: Option<u64>, tool: &str) -> Result<(), String> {
    match iterations {
        Some(count) if count > MAX_ITERATIONS => Err(format!(
            "its password would be hashed {count} times, and the maximum is {MAX_ITERATIONS}: write it again with fewer \
             iterations ({tool})"
        )),
        // If no count was found, the store is passed to AWS-LC, which reports a more precise error.
        _ => Ok(()),
    }
}

/// Returns the sum of all iteration counts that can be read. The count of the MAC is multiplied by the number of
/// attempts.
fn pkcs12_iterations(ber: &[u8], attempts: u64) -> Option<u64> {
    let mut store = Reader(Reader(ber).take(SEQUENCE)?);
    let _version = store.take(INTEGER)?;
    let safes = store.take(SEQUENCE)?;
    let mac = store.take(SEQUENCE).and_then(mac_iterations).unwrap_or(0);
    Some(safes_iterations(safes).unwrap_or(0).saturating_add(mac.saturating_mul(attempts)))
}

fn mac_iterations(mac: &[u8]) -> Option<u64> {
    let mut mac = Reader(mac);
    let _digest = mac.take(SEQUENCE)?;
    let _salt = mac.octets()?;
    mac.take(INTEGER).map(unsigned_value)
}

fn safes_iterations(content: &[u8]) -> Option<u64> {
    let safes = unencrypted_content(content)?;
    let mut safes = Reader(Reader(&safes).take(SEQUENCE)?);
    let mut sum = 0u64;
    while let Some(safe) = safes.take(SEQUENCE) {
        let iterations = encrypted_iterations(safe).or_else(|| bags_iterations(&unencrypted_content(safe)?));
        sum = sum.saturating_add(iterations.unwrap_or(0));
    }
    Some(sum)
}

/// Returns the content octets of an unencrypted ContentInfo (PKCS7).
fn unencrypted_content(content: &[u8]) -> Option<Cow<'_, [u8]>> {
    let mut content = Reader(content);
    let _type = content.take(OID)?;
    Reader(content.take(WRAPPED)?).octets()
}

/// Returns the iteration count of an encrypted ContentInfo.
fn encrypted_iterations(content: &[u8]) -> Option<u64> {
    let mut content = Reader(content);
    let _type = content.take(OID)?;
    let mut encrypted = Reader(Reader(content.take(WRAPPED)?).take(SEQUENCE)?);
    let _version = encrypted.take(INTEGER)?;
    let mut encrypted = Reader(encrypted.take(SEQUENCE)?);
    let _type = encrypted.take(OID)?;
    algorithm_iterations(encrypted.take(SEQUENCE)?)
}

fn bags_iterations(bags: &[u8]) -> Option<u64> {
    let mut bags = Reader(Reader(bags).take(SEQUENCE)?);
    let mut sum = 0u64;
    while let Some(bag) = bags.take(SEQUENCE) {
        let mut bag = Reader(bag);
        // An unreadable bag counts as 0 and does not discard the counts of the bags before it, which AWS-LC decrypts
        // first. Certificates and unencrypted keys are unreadable here, because they have another structure.
        let key = bag.take(OID).and_then(|_type| bag.take(WRAPPED)).and_then(key_iterations);
        sum = sum.saturating_add(key.unwrap_or(0));
    }
    Some(sum)
}

/// Returns the iteration count of an EncryptedPrivateKeyInfo.
fn key_iterations(key: &[u8]) -> Option<u64> {
    algorithm_iterations(Reader(Reader(key).take(SEQUENCE)?).take(SEQUENCE)?)
}

/// Returns the iteration count of an AlgorithmIdentifier of PBES1, PKCS12, or PBES2 with PBKDF2 (RFC 8018).
fn algorithm_iterations(algorithm: &[u8]) -> Option<u64> {
    let mut algorithm = Reader(algorithm);
    let _type = algorithm.take(OID)?;
    let mut parameters = Reader(algorithm.take(SEQUENCE)?);
    if let Some(derivation) = parameters.take(SEQUENCE) {
        let mut derivation = Reader(derivation);
        let _type = derivation.take(OID)?;
        parameters = Reader(derivation.take(SEQUENCE)?);
    }
    let _salt = parameters.octets()?;
    parameters.take(INTEGER).map(unsigned_value)
}

/// Returns the value of an integer. Negative and too large integers count as unlimited iterations, because AWS-LC
/// rejects both.
fn unsigned_value(integer: &[u8]) -> u64 {
    let zeros = integer.iter().take_while(|byte| **byte == 0).count();
    match integer.get(zeros..) {
        Some(digits) if digits.len() <= 8 => digits.iter().fold(0, |value, byte| value << 8 | u64::from(*byte)),
        _ => u64::MAX,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OCTETS: u8 = 0x04;

    /// Encodes an element.
    fn element(tag: u8, parts: &[&[u8]]) -> Vec<u8> {
        let content = parts.concat();
        let length = match u16::try_from(content.len()).unwrap().to_be_bytes() {
            [0, short @ 0..=0x7F] => vec![short],
            [0, long] => vec![0x81, long],
            both => [&[0x82], &both[..]].concat(),
        };
        [&[tag], &length[..], &content].concat()
    }

    /// Encodes a BER element of indefinite length.
    fn indefinite(tag: u8, parts: &[&[u8]]) -> Vec<u8> {
        [&[tag, 0x80], &parts.concat()[..], &[0, 0]].concat()
    }

    fn count(count: u32) -> Vec<u8> {
        let digits = [&[0][..], &count.to_be_bytes()].concat();
        let spare = digits.windows(2).take_while(|pair| pair[0] == 0 && pair[1] < 0x80).count();
        element(INTEGER, &[&digits[spare..]])
    }

    fn any_oid() -> Vec<u8> {
        element(OID, &[&[0x2A]])
    }

    fn pbes2(iterations: u32) -> Vec<u8> {
        let parameters =
            element(SEQUENCE, &[&element(OCTETS, &[b"salt"]), &count(iterations), &element(SEQUENCE, &[&any_oid()])]);
        let derivation = element(SEQUENCE, &[&any_oid(), &parameters]);
        element(SEQUENCE, &[&any_oid(), &element(SEQUENCE, &[&derivation, &element(SEQUENCE, &[&any_oid()])])])
    }

    fn pkcs12_pbe(iterations: u32) -> Vec<u8> {
        element(SEQUENCE, &[&any_oid(), &element(SEQUENCE, &[&element(OCTETS, &[b"salt"]), &count(iterations)])])
    }

    fn encrypted_key(algorithm: &[u8]) -> Vec<u8> {
        element(SEQUENCE, &[algorithm, &element(OCTETS, &[b"secret"])])
    }

    fn mac(iterations: u32) -> Vec<u8> {
        element(SEQUENCE, &[&element(SEQUENCE, &[&any_oid()]), &element(OCTETS, &[b"salt"]), &count(iterations)])
    }

    fn store(safes: &[u8], mac: &[u8]) -> Vec<u8> {
        let content = element(SEQUENCE, &[&any_oid(), &element(WRAPPED, &[&element(OCTETS, &[safes])])]);
        element(SEQUENCE, &[&element(INTEGER, &[&[3]]), &content, mac])
    }

    fn certificates(algorithm: &[u8]) -> Vec<u8> {
        let encrypted = element(SEQUENCE, &[&any_oid(), algorithm, &element(0x80, &[b"secret"])]);
        element(
            SEQUENCE,
            &[&any_oid(), &element(WRAPPED, &[&element(SEQUENCE, &[&element(INTEGER, &[&[0]]), &encrypted])])],
        )
    }

    fn bags(bags: &[&[u8]]) -> Vec<u8> {
        let bags: Vec<_> = bags.iter().map(|bag| element(SEQUENCE, &[&any_oid(), &element(WRAPPED, &[bag])])).collect();
        let bags = element(SEQUENCE, &[&bags.concat()]);
        element(SEQUENCE, &[&any_oid(), &element(WRAPPED, &[&element(OCTETS, &[&bags])])])
    }

    #[test]
    fn sums_all_counts_of_a_store() {
        let plain = element(SEQUENCE, &[&element(INTEGER, &[&[0]]), &pkcs12_pbe(7)]);
        let keys = bags(&[&plain, &encrypted_key(&pkcs12_pbe(300)), &encrypted_key(&pbes2(4000))]);
        let safes = element(SEQUENCE, &[&certificates(&pbes2(20)), &keys, &certificates(&pkcs12_pbe(50_000))]);
        assert_eq!(pkcs12_iterations(&store(&safes, &mac(1)), 1), Some(54_321));
        assert_eq!(pkcs12_iterations(&store(&safes, &[]), 2), Some(54_320), "aws-lc requires a MAC");
        assert_eq!(pkcs12_iterations(&store(b"", &mac(9)), 2), Some(18));
        assert_eq!(key_iterations(&encrypted_key(&pbes2(4000))), Some(4000));
    }

    #[test]
    fn unreadable_bag_does_not_hide_others() {
        let whole = element(SEQUENCE, &[&any_oid(), &element(WRAPPED, &[&encrypted_key(&pbes2(4000))])]);
        let bags = element(SEQUENCE, &[&whole, &element(SEQUENCE, &[b"\xD4\x0B"]), &whole]);
        let safes =
            element(SEQUENCE, &[&element(SEQUENCE, &[&any_oid(), &element(WRAPPED, &[&element(OCTETS, &[&bags])])])]);
        assert_eq!(pkcs12_iterations(&store(&safes, &mac(1)), 1), Some(8001));
    }

    #[test]
    fn reads_indefinite_lengths_and_constructed_octets() {
        let keys = element(
            SEQUENCE,
            &[&element(SEQUENCE, &[&any_oid(), &indefinite(WRAPPED, &[&encrypted_key(&pbes2(4000))])])],
        );
        let (head, rest) = keys.split_at(11);
        let parts = indefinite(0x24, &[&element(OCTETS, &[head]), &indefinite(0x24, &[&element(OCTETS, &[rest])])]);
        let keys = indefinite(SEQUENCE, &[&any_oid(), &indefinite(WRAPPED, &[&parts])]);
        let safes = indefinite(SEQUENCE, &[&certificates(&pbes2(20)), &keys]);
        let parts = element(0x24, &[&element(OCTETS, &[&safes])]);
        let content = indefinite(SEQUENCE, &[&any_oid(), &indefinite(WRAPPED, &[&parts])]);
        let store = indefinite(SEQUENCE, &[&element(INTEGER, &[&[3]]), &content, &mac(1)]);
        assert_eq!(pkcs12_iterations(&store, 1), Some(4021));
    }

    #[test]
    fn rejects_excessive_iterations() {
        let several = element(SEQUENCE, &[&certificates(&pbes2(2_000_000)), &certificates(&pbes2(3_000_000))]);
        assert_eq!(check_pkcs12(&store(&several, &[]), "x"), Ok(()));
        let error = check_pkcs12(&store(&several, &mac(1)), "x").unwrap_err();
        assert!(error.contains("hashed 5000001 times, and the maximum is 5000000"), "{error}");
        assert!(error.contains("write it again") && error.contains("openssl pkcs12 -export"), "{error}");
        let key = |iterations| check_pkcs8(&encrypted_key(&pbes2(iterations)));
        assert_eq!(key(600_000), Ok(()));
        assert!(key(u32::MAX).unwrap_err().contains("openssl pkcs8 -topk8"));
        assert_eq!(unsigned_value(&[0xFF; 9]), u64::MAX);
        for wrong in [&b""[..], b"\x30", b"\x30\x03\x02\x01\x03", &[0x30; 4096], &[0x30, 0x80].repeat(4096)] {
            assert_eq!(check_pkcs12(wrong, ""), Ok(()));
        }
    }
}
