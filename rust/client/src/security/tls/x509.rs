//! A minimal parser of DER and BER, which describes faulty certificates and walks through stores. Trust decisions are
//! made by rustls, not by this parser.

use std::borrow::Cow;
use std::net::IpAddr;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

pub(super) const INTEGER: u8 = 0x02;
const BIT_STRING: u8 = 0x03;
const OCTET_STRING: u8 = 0x04;
/// Tag of an octet string that consists of other octet strings.
const CONSTRUCTED_OCTETS: u8 = 0x24;
pub(super) const OID: u8 = 0x06;
const UTC_TIME: u8 = 0x17;
pub(super) const SEQUENCE: u8 = 0x30;
const SET: u8 = 0x31;
const BOOLEAN: u8 = 0x01;

const COMMON_NAME: &[u8] = &[0x55, 0x04, 0x03];
const RSA: &[u8] = &[0x2A, 0x86, 0x48, 0x86, 0xF7, 0x0D, 0x01, 0x01, 0x01];
const SUBJECT_ALT_NAME: &[u8] = &[0x55, 0x1D, 0x11];
const BASIC_CONSTRAINTS: &[u8] = &[0x55, 0x1D, 0x13];
/// sha1WithRSAEncryption, ecdsa-with-SHA1, md5WithRSAEncryption.
const WEAK_SIGNATURES: [&[u8]; 3] = [
    &[0x2A, 0x86, 0x48, 0x86, 0xF7, 0x0D, 0x01, 0x01, 0x05],
    &[0x2A, 0x86, 0x48, 0xCE, 0x3D, 0x04, 0x01],
    &[0x2A, 0x86, 0x48, 0x86, 0xF7, 0x0D, 0x01, 0x01, 0x04],
];

/// The fields of a certificate that are used in error texts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Certificate<'a> {
    /// Version of the certificate: 1, 2 or 3.
    pub(super) version: u8,
    /// True if the certificate is signed with SHA-1 or MD5.
    pub(super) weak_signature: bool,
    /// DER.
    pub(super) issuer: &'a [u8],
    /// DER.
    pub(super) subject: &'a [u8],
    /// Seconds since 1970.
    pub(super) not_before: i64,
    /// Seconds since 1970.
    pub(super) not_after: i64,
    /// Size of the key in bits, if it is an RSA key.
    pub(super) rsa_bits: Option<usize>,
    /// True if the certificate may sign other certificates.
    pub(super) is_ca: bool,
    /// DNS names and IP addresses in the subject alternative name.
    pub(super) names: Vec<String>,
}

impl<'a> Certificate<'a> {
    /// Parses a certificate. Returns `None` if the bytes are not a certificate or if its form is not supported.
    pub(super) fn parse(der: &'a [u8]) -> Option<Self> {
        let mut whole = Reader(Reader(der).take(SEQUENCE)?);
        let mut body = Reader(whole.take(SEQUENCE)?);
        let version = match body.take(0xA0) {
            Some(version) => Reader(version).take(INTEGER)?.last().copied()?.checked_add(1)?,
            None => 1,
        };
        let _serial = body.take(INTEGER)?;
        let algorithm = Reader(body.take(SEQUENCE)?).take(OID)?;
        let issuer = body.take(SEQUENCE)?;
        let mut validity = Reader(body.take(SEQUENCE)?);
        let (not_before, not_after) = (validity.time()?, validity.time()?);
        let subject = body.take(SEQUENCE)?;
        let mut certificate = Self {
            version,
            weak_signature: WEAK_SIGNATURES.contains(&algorithm),
            issuer,
            subject,
            not_before,
            not_after,
            rsa_bits: rsa_bits(body.take(SEQUENCE)?),
            ..Self::default()
        };
        // The extensions may be preceded by unique ids, an obsolete field.
        while let Some((tag, content)) = body.next() {
            if tag == 0xA3 {
                certificate.extensions(content);
            }
        }
        Some(certificate)
    }

    fn extensions(&mut self, content: &'a [u8]) {
        let Some(list) = Reader(content).take(SEQUENCE) else { return };
        let mut list = Reader(list);
        while let Some(extension) = list.take(SEQUENCE) {
            let mut extension = Reader(extension);
            let oid = extension.take(OID);
            let _critical = extension.take(BOOLEAN);
            let value = extension.take(OCTET_STRING).and_then(|value| Reader(value).take(SEQUENCE));
            match (oid, value) {
                (Some(SUBJECT_ALT_NAME), Some(names)) => self.names = alt_names(names),
                (Some(BASIC_CONSTRAINTS), Some(value)) => {
                    self.is_ca = Reader(value).take(BOOLEAN).is_some_and(|value| value != [0]);
                }
                _ => {}
            }
        }
    }

    /// Returns true if issuer and subject are equal.
    pub(super) fn self_issued(&self) -> bool {
        self.issuer == self.subject
    }

    /// Returns the common name of the subject.
    pub(super) fn common_name(&self) -> Option<String> {
        common_name(self.subject)
    }

    /// Returns the common name of the issuer.
    pub(super) fn issuer_name(&self) -> Option<String> {
        common_name(self.issuer)
    }
}

/// Returns the algorithm and the content of an EncryptedPrivateKeyInfo (PKCS8).
pub(super) fn encrypted_key(der: &[u8]) -> Option<(&[u8], &[u8])> {
    let mut whole = Reader(Reader(der).take(SEQUENCE)?);
    let algorithm = Reader(whole.take(SEQUENCE)?).take(OID)?;
    Some((algorithm, whole.take(OCTET_STRING)?))
}

/// Returns true if the bytes begin like a PKCS12 store, which is a sequence whose first element is the version 3.
pub(super) fn is_pkcs12(der: &[u8]) -> bool {
    // Only the first bytes are checked, because the store may be truncated.
    let Some((&SEQUENCE, rest)) = der.split_first() else { return false };
    let skip = match rest.first() {
        Some(&short) if short < 0x80 => 1,
        Some(&long) => 1 + usize::from(long & 0x7F),
        None => return false,
    };
    rest.get(skip..).is_some_and(|body| body.starts_with(&[INTEGER, 1, 3]))
}

fn common_name(name: &[u8]) -> Option<String> {
    let mut parts = Reader(name);
    while let Some(part) = parts.take(SET) {
        let mut pair = Reader(Reader(part).take(SEQUENCE)?);
        if pair.take(OID)? == COMMON_NAME {
            return pair.next().map(|(_, text)| String::from_utf8_lossy(text).chars().take(200).collect());
        }
    }
    None
}

fn rsa_bits(key: &[u8]) -> Option<usize> {
    let mut key = Reader(key);
    if Reader(key.take(SEQUENCE)?).take(OID)? != RSA {
        return None;
    }
    let (_unused, bits) = key.take(BIT_STRING)?.split_first()?;
    let modulus = Reader(Reader(bits).take(SEQUENCE)?).take(INTEGER)?;
    let zeros = modulus.iter().take_while(|byte| **byte == 0).count();
    let modulus = modulus.get(zeros..)?;
    Some(modulus.len() * 8 - modulus.first().map_or(0, |byte| byte.leading_zeros() as usize))
}

fn alt_names(names: &[u8]) -> Vec<String> {
    let mut output = Vec::new();
    let mut names = Reader(names);
    while let Some((tag, content)) = names.next() {
        match tag {
            0x82 => output.push(String::from_utf8_lossy(content).into_owned()),
            0x87 => {
                let four = <[u8; 4]>::try_from(content).map(IpAddr::from);
                let sixteen = <[u8; 16]>::try_from(content).map(IpAddr::from);
                output.extend(four.or(sixteen).ok().map(|address| address.to_string()));
            }
            _ => {}
        }
    }
    output
}

/// Maximum nesting depth of elements of indefinite length, as in AWS-LC.
const MAX_DEPTH: usize = 128;

/// Reader of consecutive elements.
pub(super) struct Reader<'a>(pub(super) &'a [u8]);

impl<'a> Reader<'a> {
    /// Returns the tag and content of the next element. Consumes nothing if the input does not contain a complete
    /// element.
    fn next(&mut self) -> Option<(u8, &'a [u8])> {
        let (tag, content, rest) = element(self.0, MAX_DEPTH)?;
        self.0 = rest;
        Some((tag, content))
    }

    /// Returns the octets of the next element if it is an octet string, primitive or constructed. Otherwise consumes
    /// nothing.
    pub(super) fn octets(&mut self) -> Option<Cow<'a, [u8]>> {
        if let Some(whole) = self.take(OCTET_STRING) {
            return Some(Cow::Borrowed(whole));
        }
        let mut joined = Vec::new();
        join(self.take(CONSTRUCTED_OCTETS)?, false, &mut joined, MAX_DEPTH)?;
        Some(Cow::Owned(joined))
    }

    /// Returns the content of the next element if it has this tag. Otherwise consumes nothing.
    pub(super) fn take(&mut self, expected_tag: u8) -> Option<&'a [u8]> {
        let before = self.0;
        match self.next() {
            Some((tag, content)) if tag == expected_tag => Some(content),
            _ => {
                self.0 = before;
                None
            }
        }
    }

    /// Reads a time and returns it in seconds since 1970.
    fn time(&mut self) -> Option<i64> {
        let (tag, text) = self.next()?;
        let (year, rest) = if tag == UTC_TIME {
            let (year, rest) = text.split_at_checked(2)?;
            let year = parse_digits(year)?;
            (if year < 50 { 2000 + year } else { 1900 + year }, rest)
        } else {
            let (year, rest) = text.split_at_checked(4)?;
            (parse_digits(year)?, rest)
        };
        let mut parts = rest.chunks(2).map(parse_digits);
        let mut part = || parts.next().flatten();
        let (month, day, hour, minute, second) = (part()?, part()?, part()?, part()?, part()?);
        Some(days(year, month, day) * 86_400 + hour * 3600 + minute * 60 + second)
    }
}

/// Splits off the header of an element. Returns the tag (of multi-byte tags only the first byte), the length if it is
/// definite, and the rest of the input.
fn header(input: &[u8]) -> Option<(u8, Option<usize>, &[u8])> {
    let (&tag, mut rest) = input.split_first()?;
    if tag & 0x1F == 0x1F {
        let more = rest.iter().take_while(|byte| **byte & 0x80 != 0).count();
        rest = rest.get(more + 1..)?;
    }
    let (&first, rest) = rest.split_first()?;
    match first {
        0..=0x7F => Some((tag, Some(usize::from(first)), rest)),
        // Length of a constructed BER element of indefinite length, whose content ends with two zero bytes.
        0x80 => (tag & 0x20 != 0).then_some((tag, None, rest)),
        0x81..=0x84 => {
            let (bytes, rest) = rest.split_at_checked(usize::from(first & 0x7F))?;
            let length = bytes.iter().fold(0usize, |len, byte| len << 8 | usize::from(*byte));
            Some((tag, Some(length), rest))
        }
        _ => None,
    }
}

/// Splits off an element. Returns its tag, its content, and the rest of the input.
fn element(input: &[u8], depth: usize) -> Option<(u8, &[u8], &[u8])> {
    let (tag, length, rest) = header(input)?;
    if let Some(length) = length {
        let (content, rest) = rest.split_at_checked(length)?;
        return Some((tag, content, rest));
    }
    let mut remaining = rest;
    while !remaining.starts_with(&[0, 0]) {
        (_, _, remaining) = element(remaining, depth.checked_sub(1)?)?;
    }
    Some((tag, rest.get(..rest.len() - remaining.len())?, remaining.get(2..)?))
}

/// Appends the octet strings in `input` to `joined` and returns the rest of the input. If the length is `indefinite`,
/// two zero bytes end the octet strings.
fn join<'a>(mut input: &'a [u8], indefinite: bool, joined: &mut Vec<u8>, depth: usize) -> Option<&'a [u8]> {
    loop {
        if indefinite && input.starts_with(&[0, 0]) {
            return input.get(2..);
        }
        if input.is_empty() {
            return (!indefinite).then_some(input);
        }
        let (tag, length, rest) = header(input)?;
        input = match (tag, length) {
            (OCTET_STRING, Some(length)) => {
                let (part, rest) = rest.split_at_checked(length)?;
                joined.extend_from_slice(part);
                rest
            }
            (CONSTRUCTED_OCTETS, Some(length)) => {
                let (parts, rest) = rest.split_at_checked(length)?;
                join(parts, false, joined, depth.checked_sub(1)?)?;
                rest
            }
            (CONSTRUCTED_OCTETS, None) => join(rest, true, joined, depth.checked_sub(1)?)?,
            _ => return None,
        };
    }
}

fn parse_digits(digits: &[u8]) -> Option<i64> {
    std::str::from_utf8(digits).ok().filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()))?.parse().ok()
}

/// Returns the number of days from 1970 to a Gregorian date. Years begin in March here, so that a leap day is the last
/// day of its year.
fn days(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let (era, of_era) = (year.div_euclid(400), year.rem_euclid(400));
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + day_of_year - 719_468
}

/// Formats a time as `2026-02-03 04:05 UTC`.
pub(super) fn format_utc(seconds: i64) -> String {
    let (day, second_of_day) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
    let shifted = day + 719_468;
    let (era, of_era) = (shifted.div_euclid(146_097), shifted.rem_euclid(146_097));
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let day_of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = era * 400 + year_of_era + i64::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02} {:02}:{:02} UTC", second_of_day / 3600, second_of_day / 60 % 60)
}

/// Returns the current time in seconds since 1970.
pub(super) fn now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
    i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn converts_times_to_and_from_dates() {
        for (text, seconds) in [
            ("1970-01-01 00:00 UTC", 0),
            ("2000-02-29 12:30 UTC", 951_827_400),
            ("1969-12-31 23:59 UTC", -60),
            ("2100-03-01 00:00 UTC", 4_107_542_400),
        ] {
            assert_eq!(format_utc(seconds), text);
        }
        let utc = [UTC_TIME, 13, b'0', b'0', b'0', b'2', b'2', b'9', b'1', b'2', b'3', b'0', b'0', b'0', b'Z'];
        assert_eq!(Reader(&utc).time(), Some(951_827_400));
    }

    #[test]
    fn parse_rejects_invalid_certificates() {
        for wrong in [&b""[..], b"\x30", b"\x30\x84\xFF\xFF\xFF\xFF", b"\x30\x02\x30\x00", b"\x30\x80\x00\x00"] {
            assert_eq!(Certificate::parse(wrong), None);
            assert!(!is_pkcs12(wrong));
        }
    }
}
