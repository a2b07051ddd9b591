//! Signatures of requests to AWS (Signature Version 4).

use std::fmt::Write;
use std::time::SystemTime;

use aws_lc_rs::{digest, hmac};
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};

use super::AwsCredentials;
use super::chain::failed;
use crate::config::credentials::jwt::seconds_of;
use crate::error::Result;
use crate::secret::Secret;

/// Name of the signature algorithm.
pub(crate) const ALGORITHM: &str = "AWS4-HMAC-SHA256";
const DATE: HeaderName = HeaderName::from_static("x-amz-date");
const TARGET: HeaderName = HeaderName::from_static("x-amz-target");
const TOKEN: HeaderName = HeaderName::from_static("x-amz-security-token");

/// Time, region and service for which a signature is valid.
#[derive(Debug)]
pub(crate) struct Scope {
    /// Time of the request, such as `20261122T072600Z`.
    pub(crate) time: String,
    /// Date, region and service, as in the credential of a signature.
    pub(crate) text: String,
    region: String,
    service: &'static str,
}

impl Scope {
    pub(crate) fn new(now: SystemTime, region: &str, service: &'static str) -> Self {
        let time = timestamp(now);
        let text = format!("{}/{region}/{service}/aws4_request", date(&time));
        Self { time, text, region: region.to_owned(), service }
    }

    /// Returns the signature of a canonical request, in hexadecimal digits.
    pub(crate) fn sign(&self, credentials: &AwsCredentials, request: &str) -> String {
        let text = format!("{ALGORITHM}\n{}\n{}\n{}", self.time, self.text, sha256_hex(request.as_bytes()));
        let first = Secret::from(format!("AWS4{}", credentials.secret.reveal()));
        let key = [date(&self.time), &self.region, self.service, "aws4_request"]
            .iter()
            .fold(hmac::Key::new(hmac::HMAC_SHA256, first.reveal().as_bytes()), |key, part| {
                hmac::Key::new(hmac::HMAC_SHA256, hmac::sign(&key, part.as_bytes()).as_ref())
            });
        hex(hmac::sign(&key, text.as_bytes()).as_ref())
    }

    /// Returns the value of the header Authorization for a POST request to the path `/`. `headers` are the names, in
    /// lower case and sorted, and the values of the signed headers.
    pub(crate) fn authorization(&self, credentials: &AwsCredentials, headers: &[(&str, &str)], body: &[u8]) -> Secret {
        let names = headers.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(";");
        let lines: String = headers.iter().map(|(name, value)| format!("{name}:{}\n", value.trim())).collect();
        let request = format!("POST\n/\n\n{lines}\n{names}\n{}", sha256_hex(body));
        let signature = self.sign(credentials, &request);
        format!(
            "{ALGORITHM} Credential={}/{}, SignedHeaders={names}, Signature={signature}",
            credentials.key_id, self.text
        )
        .into()
    }
}

/// Returns the headers of a POST request to the path `/`, with its signature. `target` is the operation of a service with
/// JSON requests.
///
/// # Errors
/// Fails if the credentials have characters that headers cannot have.
pub(crate) fn signed_headers(
    scope: &Scope,
    credentials: &AwsCredentials,
    host: &str,
    content_type: &'static str,
    target: Option<&'static str>,
    body: &str,
) -> Result<HeaderMap> {
    let mut signed = vec![("content-type", content_type), ("host", host), ("x-amz-date", &*scope.time)];
    signed.extend(credentials.token.as_ref().map(|token| ("x-amz-security-token", token.reveal())));
    signed.extend(target.map(|target| ("x-amz-target", target)));
    let authorization = scope.authorization(credentials, &signed, body.as_bytes());
    let invalid = |_| failed("they have characters that HTTP headers cannot have");
    let secret = |text: &str| {
        let mut value = HeaderValue::try_from(text).map_err(invalid)?;
        value.set_sensitive(true);
        Ok::<_, crate::error::Error>(value)
    };
    let mut headers = HeaderMap::new();
    headers.insert(AUTHORIZATION, secret(authorization.reveal())?);
    if let Some(token) = &credentials.token {
        headers.insert(TOKEN, secret(token.reveal())?);
    }
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    headers.insert(DATE, HeaderValue::try_from(scope.time.as_str()).map_err(invalid)?);
    if let Some(target) = target {
        headers.insert(TARGET, HeaderValue::from_static(target));
    }
    Ok(headers)
}

fn date(time: &str) -> &str {
    time.get(..8).unwrap_or_default()
}

/// Returns the SHA-256 digest in hexadecimal digits.
pub(crate) fn sha256_hex(bytes: &[u8]) -> String {
    hex(digest::digest(&digest::SHA256, bytes).as_ref())
}

/// Returns bytes as hexadecimal digits.
pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(2 * bytes.len()), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// Percent-encodes text as Signature Version 4 requires: everything but letters, digits and `-._~`.
pub(crate) fn percent_encode(text: &str) -> String {
    text.bytes().fold(String::with_capacity(text.len()), |mut output, byte| {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => output.push(char::from(byte)),
            byte => {
                let _ = write!(output, "%{byte:02X}");
            }
        }
        output
    })
}

/// Formats a time as `20261122T072600Z`.
pub(super) fn timestamp(time: SystemTime) -> String {
    let seconds = seconds_of(time);
    let (days, second) = (seconds / 86_400, seconds % 86_400);
    // Howard Hinnant's algorithm to convert days to a date, with years that begin in March.
    let days = days + 719_468;
    let (era, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day_of_year = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day_of_year + 2) / 153;
    let date = day_of_year - (153 * month + 2) / 5 + 1;
    let (year, month) = (year + 400 * era + u64::from(month > 9), if month > 9 { month - 9 } else { month + 3 });
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    format!("{year:04}{month:02}{date:02}T{hour:02}{minute:02}{second:02}Z")
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, UNIX_EPOCH};

    use super::*;

    #[test]
    fn timestamp_has_aws_format() {
        for (seconds, expected) in [
            (0, "19700101T000000Z"),
            (951_782_399, "20000228T235959Z"),
            (951_782_400, "20000229T000000Z"),
            (1_440_938_160, "20150830T123600Z"),
            (1_767_225_599, "20251231T235959Z"),
            (1_767_225_600, "20260101T000000Z"),
            (4_107_542_400, "21000301T000000Z"),
        ] {
            assert_eq!(timestamp(UNIX_EPOCH + Duration::from_secs(seconds)), expected);
        }
    }

    const AUTHORIZATION: &str = "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/eu-central-1/glue/aws4_request, \
                                 SignedHeaders=content-type;host;x-amz-date;x-amz-target, \
                                 Signature=1d7db7042bed08c37a0eb99076072d0c1ef98e391dfcc47912b1c3249124d09c";

    #[test]
    fn authorization_equals_botocore() {
        let credentials = AwsCredentials {
            key_id: "AKIDEXAMPLE".to_owned(),
            secret: "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY".to_owned().into(),
            token: None,
        };
        let scope = Scope::new(UNIX_EPOCH + Duration::from_secs(1_440_938_160), "eu-central-1", "glue");
        let headers = [
            ("content-type", "application/x-amz-json-1.1"),
            ("host", "glue.eu-central-1.amazonaws.com"),
            ("x-amz-date", &*scope.time),
            ("x-amz-target", "AWSGlue.GetSchemaVersion"),
        ];
        let body = br#"{"SchemaVersionId": "b7b4a7f0-9c96-4e4a-a687-fb5de9ef0c63"}"#;
        assert_eq!(scope.authorization(&credentials, &headers, body).reveal(), AUTHORIZATION);
    }
}
