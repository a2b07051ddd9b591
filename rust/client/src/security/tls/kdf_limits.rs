//! How often a store has its password hashed, read before AWS-LC does so: it takes 100 million of each count.
//!
//! What is seen: the counts of the MAC (RFC 7292), of what is encrypted, and of keys that lie in the open. What is not:
//! those of a key inside of what is encrypted, which only AWS-LC decrypts. Nobody can write such a store who does not know
//! its password, and no tool is known that does.

use std::borrow::Cow;

use super::x509::{INTEGER, OID, Reader, SEQUENCE};

/// The most, of all counts of a store together. keytool writes 10,000 for each of three, and OWASP wants 600,000. What
/// costs the most, a MAC with SHA-512, takes 1.2 s with these, PBKDF2 with SHA-256 half of that.
const MOST: u64 = 5_000_000;

/// The only context-specific tag that stores have.
const WRAPPED: u8 = 0xA0;

/// # Errors
/// A PKCS12 store would take too long.
pub(super) fn check_pkcs12(ber: &[u8], password: &str) -> Result<(), String> {
    // AWS-LC tries an empty password in both of the ways in which such are written.
    let tries = if password.is_empty() { 2 } else { 1 };
    check(of_pkcs12(ber, tries), "keytool -importkeystore, or openssl pkcs12 -export with -iter 100000")
}

/// # Errors
/// An encrypted key would take too long.
pub(super) fn check_pkcs8(der: &[u8]) -> Result<(), String> {
    check(of_encrypted_key(der), "openssl pkcs8 -topk8 with -iter 100000")
}

fn check(iterations: Option<u64>, tool: &str) -> Result<(), String> {
    match iterations {
        Some(count) if count > MOST => Err(format!(
            "its password is to be hashed {count} times, and {MOST} are the most that are taken: write it again with fewer \
             iterations ({tool})"
        )),
        // Where nothing was found AWS-LC says better what is wrong.
        _ => Ok(()),
    }
}

/// All counts that can be seen, added up, that of the MAC for each of its tries.
fn of_pkcs12(ber: &[u8], tries: u64) -> Option<u64> {
    let mut store = Reader(Reader(ber).take(SEQUENCE)?);
    let _version = store.take(INTEGER)?;
    let safes = store.take(SEQUENCE)?;
    let mac = store.take(SEQUENCE).and_then(of_mac).unwrap_or(0);
    Some(of_safes(safes).unwrap_or(0).saturating_add(mac.saturating_mul(tries)))
}

fn of_mac(mac: &[u8]) -> Option<u64> {
    let mut mac = Reader(mac);
    let _digest = mac.take(SEQUENCE)?;
    let _salt = mac.octets()?;
    mac.take(INTEGER).map(number)
}

fn of_safes(content: &[u8]) -> Option<u64> {
    let safes = in_the_open(content)?;
    let mut safes = Reader(Reader(&safes).take(SEQUENCE)?);
    let mut sum = 0u64;
    while let Some(safe) = safes.take(SEQUENCE) {
        let found = of_encrypted(safe).or_else(|| of_bags(&in_the_open(safe)?));
        sum = sum.saturating_add(found.unwrap_or(0));
    }
    Some(sum)
}

/// The octets of a ContentInfo that is not encrypted (PKCS7).
fn in_the_open(content: &[u8]) -> Option<Cow<'_, [u8]>> {
    let mut content = Reader(content);
    let _type = content.take(OID)?;
    Reader(content.take(WRAPPED)?).octets()
}

/// Of a ContentInfo that is encrypted.
fn of_encrypted(content: &[u8]) -> Option<u64> {
    let mut content = Reader(content);
    let _type = content.take(OID)?;
    let mut encrypted = Reader(Reader(content.take(WRAPPED)?).take(SEQUENCE)?);
    let _version = encrypted.take(INTEGER)?;
    let mut encrypted = Reader(encrypted.take(SEQUENCE)?);
    let _type = encrypted.take(OID)?;
    of_algorithm(encrypted.take(SEQUENCE)?)
}

fn of_bags(bags: &[u8]) -> Option<u64> {
    let mut bags = Reader(Reader(bags).take(SEQUENCE)?);
    let mut sum = 0u64;
    while let Some(bag) = bags.take(SEQUENCE) {
        let mut bag = Reader(bag);
        // A bag that cannot be read hides nothing of those before it: AWS-LC decrypts them first. Certificates and keys
        // that are not encrypted begin with something else.
        let key = bag.take(OID).and_then(|_type| bag.take(WRAPPED)).and_then(of_encrypted_key);
        sum = sum.saturating_add(key.unwrap_or(0));
    }
    Some(sum)
}

/// Of an EncryptedPrivateKeyInfo.
fn of_encrypted_key(key: &[u8]) -> Option<u64> {
    of_algorithm(Reader(Reader(key).take(SEQUENCE)?).take(SEQUENCE)?)
}

/// Of an AlgorithmIdentifier of PBES1, of PKCS12, or of PBES2 with PBKDF2 (RFC 8018).
fn of_algorithm(algorithm: &[u8]) -> Option<u64> {
    let mut algorithm = Reader(algorithm);
    let _type = algorithm.take(OID)?;
    let mut parameters = Reader(algorithm.take(SEQUENCE)?);
    if let Some(derivation) = parameters.take(SEQUENCE) {
        let mut derivation = Reader(derivation);
        let _type = derivation.take(OID)?;
        parameters = Reader(derivation.take(SEQUENCE)?);
    }
    let _salt = parameters.octets()?;
    parameters.take(INTEGER).map(number)
}

/// What is negative is as good as endless: AWS-LC refuses both.
fn number(integer: &[u8]) -> u64 {
    let zeros = integer.iter().take_while(|byte| **byte == 0).count();
    match integer.get(zeros..) {
        Some(digits) if digits.len() <= 8 => digits.iter().fold(0, |number, byte| number << 8 | u64::from(*byte)),
        _ => u64::MAX,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OCTETS: u8 = 0x04;

    /// An element.
    fn e(tag: u8, parts: &[&[u8]]) -> Vec<u8> {
        let content = parts.concat();
        let length = match u16::try_from(content.len()).unwrap().to_be_bytes() {
            [0, short @ 0..=0x7F] => vec![short],
            [0, long] => vec![0x81, long],
            both => [&[0x82], &both[..]].concat(),
        };
        [&[tag], &length[..], &content].concat()
    }

    /// The same in the way of tools that do not know how long it becomes.
    fn endless(tag: u8, parts: &[&[u8]]) -> Vec<u8> {
        [&[tag, 0x80], &parts.concat()[..], &[0, 0]].concat()
    }

    fn count(count: u32) -> Vec<u8> {
        let digits = [&[0][..], &count.to_be_bytes()].concat();
        let spare = digits.windows(2).take_while(|pair| pair[0] == 0 && pair[1] < 0x80).count();
        e(INTEGER, &[&digits[spare..]])
    }

    fn oid() -> Vec<u8> {
        e(OID, &[&[0x2A]])
    }

    fn pbes2(iterations: u32) -> Vec<u8> {
        let parameters = e(SEQUENCE, &[&e(OCTETS, &[b"salt"]), &count(iterations), &e(SEQUENCE, &[&oid()])]);
        let derivation = e(SEQUENCE, &[&oid(), &parameters]);
        e(SEQUENCE, &[&oid(), &e(SEQUENCE, &[&derivation, &e(SEQUENCE, &[&oid()])])])
    }

    fn pkcs12_way(iterations: u32) -> Vec<u8> {
        e(SEQUENCE, &[&oid(), &e(SEQUENCE, &[&e(OCTETS, &[b"salt"]), &count(iterations)])])
    }

    fn encrypted_key(algorithm: &[u8]) -> Vec<u8> {
        e(SEQUENCE, &[algorithm, &e(OCTETS, &[b"secret"])])
    }

    fn mac(iterations: u32) -> Vec<u8> {
        e(SEQUENCE, &[&e(SEQUENCE, &[&oid()]), &e(OCTETS, &[b"salt"]), &count(iterations)])
    }

    fn store(safes: &[u8], mac: &[u8]) -> Vec<u8> {
        let content = e(SEQUENCE, &[&oid(), &e(WRAPPED, &[&e(OCTETS, &[safes])])]);
        e(SEQUENCE, &[&e(INTEGER, &[&[3]]), &content, mac])
    }

    fn certificates(algorithm: &[u8]) -> Vec<u8> {
        let encrypted = e(SEQUENCE, &[&oid(), algorithm, &e(0x80, &[b"secret"])]);
        e(SEQUENCE, &[&oid(), &e(WRAPPED, &[&e(SEQUENCE, &[&e(INTEGER, &[&[0]]), &encrypted])])])
    }

    fn bags(bags: &[&[u8]]) -> Vec<u8> {
        let bags: Vec<_> = bags.iter().map(|bag| e(SEQUENCE, &[&oid(), &e(WRAPPED, &[bag])])).collect();
        let bags = e(SEQUENCE, &[&bags.concat()]);
        e(SEQUENCE, &[&oid(), &e(WRAPPED, &[&e(OCTETS, &[&bags])])])
    }

    #[test]
    fn all_counts_of_a_store_are_added_up() {
        let plain = e(SEQUENCE, &[&e(INTEGER, &[&[0]]), &pkcs12_way(7)]);
        let keys = bags(&[&plain, &encrypted_key(&pkcs12_way(300)), &encrypted_key(&pbes2(4000))]);
        let safes = e(SEQUENCE, &[&certificates(&pbes2(20)), &keys, &certificates(&pkcs12_way(50_000))]);
        assert_eq!(of_pkcs12(&store(&safes, &mac(1)), 1), Some(54_321));
        assert_eq!(of_pkcs12(&store(&safes, &[]), 2), Some(54_320), "aws-lc wants a MAC");
        assert_eq!(of_pkcs12(&store(b"", &mac(9)), 2), Some(18));
        assert_eq!(of_encrypted_key(&encrypted_key(&pbes2(4000))), Some(4000));
    }

    #[test]
    fn a_bag_that_cannot_be_read_hides_nothing_of_those_before_it() {
        let whole = e(SEQUENCE, &[&oid(), &e(WRAPPED, &[&encrypted_key(&pbes2(4000))])]);
        let bags = e(SEQUENCE, &[&whole, &e(SEQUENCE, &[b"\xD4\x0B"]), &whole]);
        let safes = e(SEQUENCE, &[&e(SEQUENCE, &[&oid(), &e(WRAPPED, &[&e(OCTETS, &[&bags])])])]);
        assert_eq!(of_pkcs12(&store(&safes, &mac(1)), 1), Some(8001));
    }

    #[test]
    fn lengths_that_are_not_known_beforehand_and_octets_in_parts_hide_nothing() {
        let keys = e(SEQUENCE, &[&e(SEQUENCE, &[&oid(), &endless(WRAPPED, &[&encrypted_key(&pbes2(4000))])])]);
        let (one, rest) = keys.split_at(11);
        let parts = endless(0x24, &[&e(OCTETS, &[one]), &endless(0x24, &[&e(OCTETS, &[rest])])]);
        let keys = endless(SEQUENCE, &[&oid(), &endless(WRAPPED, &[&parts])]);
        let safes = endless(SEQUENCE, &[&certificates(&pbes2(20)), &keys]);
        let parts = e(0x24, &[&e(OCTETS, &[&safes])]);
        let content = endless(SEQUENCE, &[&oid(), &endless(WRAPPED, &[&parts])]);
        let store = endless(SEQUENCE, &[&e(INTEGER, &[&[3]]), &content, &mac(1)]);
        assert_eq!(of_pkcs12(&store, 1), Some(4021));
    }

    #[test]
    fn what_would_take_too_long_is_refused_with_the_count_and_what_to_do() {
        let twice = e(SEQUENCE, &[&certificates(&pbes2(2_000_000)), &certificates(&pbes2(3_000_000))]);
        assert_eq!(check_pkcs12(&store(&twice, &[]), "x"), Ok(()));
        let error = check_pkcs12(&store(&twice, &mac(1)), "x").unwrap_err();
        assert!(error.contains("hashed 5000001 times, and 5000000 are the most"), "{error}");
        assert!(error.contains("write it again") && error.contains("openssl pkcs12 -export"), "{error}");
        let key = |iterations| check_pkcs8(&encrypted_key(&pbes2(iterations)));
        assert_eq!(key(600_000), Ok(()));
        assert!(key(u32::MAX).unwrap_err().contains("openssl pkcs8 -topk8"));
        assert_eq!(number(&[0xFF; 9]), u64::MAX);
        for wrong in [&b""[..], b"\x30", b"\x30\x03\x02\x01\x03", &[0x30; 4096], &[0x30, 0x80].repeat(4096)] {
            assert_eq!(check_pkcs12(wrong, ""), Ok(()));
        }
    }
}
