//! AWS credentials and signatures (Signature Version 4), for MSK IAM logins and AWS Glue Schema Registry.

use std::fmt::Write;
use std::time::{Duration, SystemTime};

use aws_lc_rs::{digest, hmac};
use tokio::time::timeout;

use crate::config::credentials::jwt::seconds_of;
use crate::config::credentials::{AwsCredentials, AwsProvider};
use crate::error::{Error, Result};
use crate::secret::Secret;

/// Name of the signature algorithm.
pub(crate) const ALGORITHM: &str = "AWS4-HMAC-SHA256";
/// Maximum time to look up credentials. It is shorter than the timeout for setting up a connection, so that the error
/// names the credentials as the cause.
const LOOKUP_TIMEOUT: Duration = Duration::from_secs(8);

/// Sources of credentials: environment variables, and the source that the application supplies.
#[derive(Debug, Clone)]
pub(crate) struct CredentialSources {
    /// True if a profile or role is configured, in which case credentials in the environment are ignored.
    uses_profile: bool,
    source: Option<AwsProvider>,
}

impl CredentialSources {
    /// Creates the sources for a client with these options of MSK's login module.
    pub(crate) fn new(options: &[(String, Secret)], source: Option<AwsProvider>) -> Self {
        let uses_profile = options.iter().any(|(name, _)| name == "awsProfileName" || name == "awsRoleArn");
        Self { uses_profile, source }
    }

    /// Looks up credentials.
    ///
    /// # Errors
    /// Fails if no source has credentials, or if the lookup takes too long.
    pub(crate) async fn find(&self) -> Result<AwsCredentials> {
        if !self.uses_profile
            && let Some(credentials) = from_environment(|name| std::env::var(name).ok())?
        {
            return Ok(credentials);
        }
        let Some(source) = &self.source else {
            return Err(Error::authentication(
                "AWS credentials",
                "there are none in the environment of this process: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY; profiles \
                 and roles are looked up in Python only, in Spark by format(\"samsarrow-python\")",
            ));
        };
        timeout(LOOKUP_TIMEOUT, source.0.fetch()).await.unwrap_or_else(|_| {
            Err(Error::connection("AWS credentials", format!("none were found within {} s", LOOKUP_TIMEOUT.as_secs())))
        })
    }
}

/// Returns true if environment variables contain AWS credentials, so no other source is needed.
pub fn has_aws_environment() -> bool {
    from_environment(|name| std::env::var(name).ok()).is_ok_and(|credentials| credentials.is_some())
}

fn from_environment(get: impl Fn(&str) -> Option<String>) -> Result<Option<AwsCredentials>> {
    let get = |name: &str| get(name).filter(|value| !value.trim().is_empty());
    let (key_id, secret) = (get("AWS_ACCESS_KEY_ID"), get("AWS_SECRET_ACCESS_KEY"));
    let missing = |name| Error::authentication("AWS credentials", format!("environment variable {name} is missing"));
    match (key_id, secret) {
        (Some(key_id), Some(secret)) => {
            let token = get("AWS_SESSION_TOKEN").or_else(|| get("AWS_SECURITY_TOKEN")).map(Secret::from);
            Ok(Some(AwsCredentials { key_id, secret: secret.into(), token }))
        }
        (Some(_), None) => Err(missing("AWS_SECRET_ACCESS_KEY")),
        (None, Some(_)) => Err(missing("AWS_ACCESS_KEY_ID")),
        (None, None) => Ok(None),
    }
}

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

fn date(time: &str) -> &str {
    time.get(..8).unwrap_or_default()
}

/// Returns the SHA-256 digest in hexadecimal digits.
pub(crate) fn sha256_hex(bytes: &[u8]) -> String {
    hex(digest::digest(&digest::SHA256, bytes).as_ref())
}

fn hex(bytes: &[u8]) -> String {
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
fn timestamp(time: SystemTime) -> String {
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
    use std::time::UNIX_EPOCH;

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

    #[test]
    fn reads_credentials_from_environment() {
        let credentials_of = |variables: &[(&str, &str)]| {
            from_environment(|name| {
                variables.iter().find(|(other, _)| *other == name).map(|(_, value)| (*value).to_owned())
            })
        };
        let (id, secret) = (("AWS_ACCESS_KEY_ID", "id"), ("AWS_SECRET_ACCESS_KEY", "hunter2"));
        let credentials = credentials_of(&[id, secret, ("AWS_SESSION_TOKEN", "t")]).unwrap().unwrap();
        assert_eq!(
            (credentials.key_id.as_str(), credentials.secret.reveal(), credentials.token.is_some()),
            ("id", "hunter2", true)
        );
        assert!(!format!("{credentials:?}").contains("hunter2"));
        assert!(credentials_of(&[]).unwrap().is_none());
        assert!(credentials_of(&[id]).unwrap_err().to_string().contains("AWS_SECRET_ACCESS_KEY is missing"));
        assert!(credentials_of(&[secret]).unwrap_err().to_string().contains("AWS_ACCESS_KEY_ID is missing"));
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
