//! The AWS_MSK_IAM mechanism: a connect request signed with AWS credentials (Signature Version 4).

use std::fmt::Write;
use std::time::{Duration, SystemTime};

use aws_lc_rs::{digest, hmac};
use bytes::Bytes;
use serde_json::{Map, Value};
use tokio::time::timeout;

use super::{BoxFuture, Exchange, Mechanism};
use crate::config::credentials::jwt::seconds_of;
use crate::config::credentials::{AwsCredentials, AwsProvider};
use crate::config::{Protocol, SaslOptions, SecurityOptions};
use crate::error::{Error, Result};
use crate::secret::Secret;

const ACTION: &str = "kafka-cluster:Connect";
const SERVICE: &str = "kafka-cluster";
const ALGORITHM: &str = "AWS4-HMAC-SHA256";
/// Lifetime of a signature, in seconds. MSK accepts no other value.
const EXPIRES_SECONDS: &str = "900";
/// Maximum time to look up credentials. It is shorter than the timeout for setting up a connection, so that the error
/// names the credentials as the cause.
const LOOKUP_TIMEOUT: Duration = Duration::from_secs(8);
/// Supported options of MSK's login module: the options that select credentials, and `awsDebugCreds`, which has no
/// effect here.
const LOGIN_MODULE_OPTIONS: &[&str] =
    &["awsProfileName", "awsRoleArn", "awsRoleSessionName", "awsRoleExternalId", "awsStsRegion", "awsDebugCreds"];

/// The mechanism with AWS credentials, which are looked up for every login.
#[derive(Debug)]
pub(super) struct Iam {
    /// True if a profile or role is configured, in which case credentials in the environment are ignored.
    uses_profile: bool,
    source: Option<AwsProvider>,
}

impl Iam {
    /// # Errors
    /// Fails if the protocol is not SASL_SSL, or if an option is unknown.
    pub(super) fn new(sasl: &SaslOptions, security: &SecurityOptions) -> Result<Self> {
        if security.protocol != Protocol::SaslSsl {
            return Err(Error::configuration(
                "sasl.mechanism=AWS_MSK_IAM needs security.protocol=SASL_SSL: anyone who sees a signature can use it",
            ));
        }
        for (name, _) in &sasl.aws {
            if !LOGIN_MODULE_OPTIONS.contains(&name.as_str()) {
                let known = LOGIN_MODULE_OPTIONS.join(", ");
                return Err(Error::configuration(format!(
                    "option sasl.jaas.config: {name} of IAMLoginModule is none of those that are known: {known}"
                )));
            }
        }
        let uses_profile = sasl.aws.iter().any(|(name, _)| name == "awsProfileName" || name == "awsRoleArn");
        Ok(Self { uses_profile, source: sasl.aws_provider.clone() })
    }

    async fn credentials(&self) -> Result<AwsCredentials> {
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

/// Returns the region in the host name of an MSK broker, such as `b-1.name.abcdef.c2.kafka.us-east-1.amazonaws.com`,
/// otherwise the region set in the environment.
fn region(host: &str, get: impl Fn(&str) -> Option<String>) -> Result<String> {
    let labels: Vec<&str> = host.split('.').collect();
    let named = labels.windows(3).find_map(|labels| match labels {
        [service, region, "amazonaws"] if service.starts_with("kafka") => Some((*region).to_owned()),
        _ => None,
    });
    let set =
        || ["AWS_REGION", "AWS_DEFAULT_REGION"].iter().find_map(|name| get(name).filter(|value| !value.is_empty()));
    named.or_else(set).ok_or_else(|| {
        Error::authentication(
            "",
            format!("no AWS region: the host {host} does not name it (…kafka.REGION.amazonaws.com): set AWS_REGION"),
        )
    })
}

/// Returns the message to send, a JSON object with the parameters of a presigned URL.
fn payload(credentials: &AwsCredentials, host: &str, region: &str, now: SystemTime) -> Bytes {
    let time = timestamp(now);
    let date = time.get(..8).unwrap_or_default();
    let scope = format!("{date}/{region}/{SERVICE}/aws4_request");
    let mut query = vec![
        ("Action", ACTION.to_owned()),
        ("X-Amz-Algorithm", ALGORITHM.to_owned()),
        ("X-Amz-Credential", format!("{}/{scope}", credentials.key_id)),
        ("X-Amz-Date", time.clone()),
        ("X-Amz-Expires", EXPIRES_SECONDS.to_owned()),
    ];
    query.extend(credentials.token.as_ref().map(|token| ("X-Amz-Security-Token", token.reveal().to_owned())));
    query.push(("X-Amz-SignedHeaders", "host".to_owned()));
    let pairs: Vec<String> = query.iter().map(|(name, value)| format!("{name}={}", percent_encode(value))).collect();
    let request = format!("GET\n/\n{}\nhost:{host}\n\nhost\n{}", pairs.join("&"), hex(sha256(b"").as_ref()));
    let text = format!("{ALGORITHM}\n{time}\n{scope}\n{}", hex(sha256(request.as_bytes()).as_ref()));
    let first = Secret::from(format!("AWS4{}", credentials.secret.reveal()));
    let key = [date, region, SERVICE, "aws4_request"]
        .iter()
        .fold(hmac::Key::new(hmac::HMAC_SHA256, first.reveal().as_bytes()), |key, part| {
            hmac::Key::new(hmac::HMAC_SHA256, hmac::sign(&key, part.as_bytes()).as_ref())
        });
    let mut fields: Map<String, Value> =
        query.into_iter().map(|(name, value)| (name.to_ascii_lowercase(), value.into())).collect();
    fields.insert("x-amz-signature".to_owned(), hex(hmac::sign(&key, text.as_bytes()).as_ref()).into());
    fields.insert("version".to_owned(), "2020_10_22".into());
    fields.insert("host".to_owned(), host.into());
    fields.insert("user-agent".to_owned(), concat!("samsarrow/", env!("CARGO_PKG_VERSION")).into());
    Bytes::from(Value::Object(fields).to_string())
}

fn sha256(bytes: &[u8]) -> digest::Digest {
    digest::digest(&digest::SHA256, bytes)
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(2 * bytes.len()), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// Percent-encodes text as Signature Version 4 requires: everything but letters, digits and `-._~`.
fn percent_encode(text: &str) -> String {
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

impl Mechanism for Iam {
    fn name(&self) -> &'static str {
        "AWS_MSK_IAM"
    }

    fn begin<'a>(&'a self, host: &'a str) -> BoxFuture<'a, Box<dyn Exchange>> {
        Box::pin(async move {
            let credentials = self.credentials().await?;
            let region = region(host, |name| std::env::var(name).ok())?;
            let message = payload(&credentials, host, &region, SystemTime::now());
            Ok(Box::new(SignedRequest(message)) as Box<dyn Exchange>)
        })
    }
}

struct SignedRequest(Bytes);

impl Exchange for SignedRequest {
    fn initial(&mut self) -> BoxFuture<'_, Bytes> {
        Box::pin(std::future::ready(Ok(self.0.clone())))
    }

    fn respond(&mut self, challenge: Bytes) -> BoxFuture<'_, Option<Bytes>> {
        // MSK responds with a JSON object that contains the id of the request.
        Box::pin(std::future::ready(if challenge.is_empty() {
            Err(Error::authentication("", "the broker's response to the signature is empty: is this an MSK broker?"))
        } else {
            Ok(None)
        }))
    }
}

#[cfg(test)]
mod tests {
    use std::time::UNIX_EPOCH;

    use super::*;

    const HOST: &str = "b-1.demo.abcdef.c2.kafka.eu-central-1.amazonaws.com";

    fn credentials(token: Option<&str>) -> AwsCredentials {
        AwsCredentials {
            key_id: "AKIDEXAMPLE".to_owned(),
            secret: "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY".to_owned().into(),
            token: token.map(|token| token.to_owned().into()),
        }
    }

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
    fn region_is_taken_from_host_or_environment() {
        let none = |_: &str| None;
        assert_eq!(region(HOST, none).unwrap(), "eu-central-1");
        let serverless = "boot-x.c1.kafka-serverless.us-west-2.amazonaws.com";
        assert_eq!(region(serverless, none).unwrap(), "us-west-2");
        assert_eq!(region("b-1.x.c2.kafka.cn-north-1.amazonaws.com.cn", none).unwrap(), "cn-north-1");
        let set = |name: &str| (name == "AWS_DEFAULT_REGION").then(|| "sa-east-1".to_owned());
        assert_eq!(region("broker.internal", set).unwrap(), "sa-east-1");
        assert!(region("broker.internal", none).unwrap_err().to_string().contains("set AWS_REGION"));
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

    #[test]
    fn signature_equals_botocore() {
        let now = UNIX_EPOCH + Duration::from_secs(1_440_938_160);
        for (token, signature) in [
            (None, "4eb0a2a533336a8b8a587efa7063d8fd7fd5190f474fcd3e089e2b40424bb1a9"),
            (Some("FwoGZXIvYXdzE+/="), "0c161d2d0e13c18539daeeafa88485e35424d91253a3ae221e4f642f3baff58a"),
        ] {
            let payload: Value =
                serde_json::from_slice(&payload(&credentials(token), HOST, "eu-central-1", now)).unwrap();
            assert_eq!(payload["x-amz-signature"], signature);
            assert_eq!(payload["x-amz-credential"], "AKIDEXAMPLE/20150830/eu-central-1/kafka-cluster/aws4_request");
            assert_eq!(
                (&payload["action"], &payload["x-amz-expires"]),
                (&"kafka-cluster:Connect".into(), &"900".into())
            );
            assert_eq!(payload.get("x-amz-security-token").and_then(Value::as_str), token);
            assert_eq!((&payload["version"], &payload["host"]), (&"2020_10_22".into(), &HOST.into()));
        }
    }

    #[tokio::test]
    async fn empty_response_fails() {
        let error = SignedRequest(Bytes::new()).respond(Bytes::new()).await.unwrap_err();
        assert!(error.fatal() && error.to_string().contains("is empty"), "{error}");
        let response = Bytes::from_static(br#"{"version":"2020_10_22","request-id":"1"}"#);
        assert_eq!(SignedRequest(Bytes::new()).respond(response).await.unwrap(), None);
    }
}
