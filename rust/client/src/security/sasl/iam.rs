//! The AWS_MSK_IAM mechanism: a connect request signed with AWS credentials (Signature Version 4).

use std::time::SystemTime;

use bytes::Bytes;
use serde_json::{Map, Value};

use super::{BoxFuture, Exchange, Mechanism};
use crate::config::url::region_of_environment;
use crate::config::{Protocol, SaslOptions, SecurityOptions};
use crate::error::{Error, Result};
use crate::security::aws::signature::{ALGORITHM, Scope, percent_encode, sha256_hex};
use crate::security::aws::{AwsCredentials, CredentialSources};

const ACTION: &str = "kafka-cluster:Connect";
const SERVICE: &str = "kafka-cluster";
/// Lifetime of a signature, in seconds. MSK accepts no other value.
const EXPIRES_SECONDS: &str = "900";
/// Supported options of MSK's login module: the options that select credentials, and `awsDebugCreds`, which has no
/// effect here.
const LOGIN_MODULE_OPTIONS: &[&str] =
    &["awsProfileName", "awsRoleArn", "awsRoleSessionName", "awsRoleExternalId", "awsStsRegion", "awsDebugCreds"];

/// The mechanism with AWS credentials, which are looked up for every login.
#[derive(Debug)]
pub(super) struct Iam {
    credentials: CredentialSources,
}

impl Iam {
    /// # Errors
    /// Fails if the protocol is not SASL_SSL, or if an option is unknown.
    pub(super) fn new(sasl: &SaslOptions, security: &SecurityOptions) -> Result<Self> {
        if security.protocol != Protocol::SaslSsl {
            return Err(Error::configuration(
                "sasl.mechanism=AWS_MSK_IAM needs security.protocol=SASL_SSL: a signature sent in plaintext can be reused",
            ));
        }
        for (name, _) in &sasl.aws {
            if !LOGIN_MODULE_OPTIONS.contains(&name.as_str()) {
                let known = LOGIN_MODULE_OPTIONS.join(", ");
                return Err(Error::configuration(format!(
                    "option sasl.jaas.config: {name} of IAMLoginModule is not one of the known options: {known}"
                )));
            }
        }
        Ok(Self { credentials: CredentialSources::new(&sasl.aws) })
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
    named.or_else(|| region_of_environment(get)).ok_or_else(|| {
        Error::authentication(
            "",
            format!("no AWS region: the host {host} does not name it (…kafka.REGION.amazonaws.com): set AWS_REGION"),
        )
    })
}

/// Returns the message to send, a JSON object with the parameters of a presigned URL.
fn payload(credentials: &AwsCredentials, host: &str, region: &str, now: SystemTime) -> Bytes {
    let scope = Scope::new(now, region, SERVICE);
    let mut query = vec![
        ("Action", ACTION.to_owned()),
        ("X-Amz-Algorithm", ALGORITHM.to_owned()),
        ("X-Amz-Credential", format!("{}/{}", credentials.key_id, scope.text)),
        ("X-Amz-Date", scope.time.clone()),
        ("X-Amz-Expires", EXPIRES_SECONDS.to_owned()),
    ];
    query.extend(credentials.token.as_ref().map(|token| ("X-Amz-Security-Token", token.reveal().to_owned())));
    query.push(("X-Amz-SignedHeaders", "host".to_owned()));
    let pairs: Vec<String> = query.iter().map(|(name, value)| format!("{name}={}", percent_encode(value))).collect();
    let request = format!("GET\n/\n{}\nhost:{host}\n\nhost\n{}", pairs.join("&"), sha256_hex(b""));
    let signature = scope.sign(credentials, &request);
    let mut fields: Map<String, Value> =
        query.into_iter().map(|(name, value)| (name.to_ascii_lowercase(), value.into())).collect();
    fields.insert("x-amz-signature".to_owned(), signature.into());
    fields.insert("version".to_owned(), "2020_10_22".into());
    fields.insert("host".to_owned(), host.into());
    fields.insert("user-agent".to_owned(), concat!("samsarrow/", env!("CARGO_PKG_VERSION")).into());
    Bytes::from(Value::Object(fields).to_string())
}

impl Mechanism for Iam {
    fn name(&self) -> &'static str {
        "AWS_MSK_IAM"
    }

    fn begin<'a>(&'a self, host: &'a str) -> BoxFuture<'a, Box<dyn Exchange>> {
        Box::pin(async move {
            let credentials = self.credentials.find().await?;
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
    use std::time::{Duration, UNIX_EPOCH};

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
