//! SASL logins: order of requests, failures, re-authentication and session expiry.

use std::time::Duration;

use crate::common::*;
use bytes::Bytes;
use samsarrow_broker::{Broker, BrokerOptions, Fault, Logins, Mechanism, Protocol, SecurityOptions};
use samsarrow_wire::error_code::ErrorCode;
use samsarrow_wire::messages::sasl_authenticate::SaslAuthenticateResponse;
use samsarrow_wire::messages::sasl_handshake::SaslHandshakeResponse;
use samsarrow_wire::messages::{
    ApiKey, ApiVersionsRequest, MetadataRequest, SaslAuthenticateRequest, SaslHandshakeRequest,
};
use samsarrow_wire::releases::Release;
use tokio::io::AsyncWriteExt;

const PASSWORD: &[u8] = b"\0alice\0secret";
const WRONG_TOKEN: &[u8] = b"\0alice\0guess";
const WRONG_TEXT: &str = "Authentication failed: Invalid username or password";

fn secured() -> SecurityOptions {
    SecurityOptions {
        protocol: Protocol::SaslPlaintext,
        users: [("alice", "secret"), ("bob", "hidden")].into_iter().collect(),
        ..SecurityOptions::default()
    }
}

async fn start(security: SecurityOptions) -> Broker {
    let topics = vec![("t".to_owned(), 1)];
    Broker::start(BrokerOptions { topics, security, ..BrokerOptions::default() }).await.unwrap()
}

async fn expiring() -> Broker {
    start(SecurityOptions { session_lifetime: Some(Duration::from_millis(2500)), ..secured() }).await
}

async fn handshake(client: &mut Client, version: i16, mechanism: &str) -> SaslHandshakeResponse {
    client.call(version, &SaslHandshakeRequest { mechanism: mechanism.to_owned(), ..Default::default() }).await
}

async fn authenticate(client: &mut Client, version: i16, token: &'static [u8]) -> SaslAuthenticateResponse {
    let auth_bytes = Bytes::from_static(token);
    client.call(version, &SaslAuthenticateRequest { auth_bytes, ..Default::default() }).await
}

async fn log_in(client: &mut Client) -> SaslAuthenticateResponse {
    assert_eq!(handshake(client, 1, "PLAIN").await.error_code, 0);
    authenticate(client, 2, PASSWORD).await
}

async fn is_served(client: &mut Client) {
    assert_eq!(client.produce("t", 0, &batch(1)).await.error_code, 0);
}

#[tokio::test]
async fn login_in_the_order_of_the_java_client() {
    let broker = start(secured()).await;
    for version in 0..=2 {
        let mut client = Client::connect(&broker, 0).await;
        client.call(0, &ApiVersionsRequest::default()).await;
        let response = handshake(&mut client, 1, "PLAIN").await;
        assert_eq!(response.mechanisms, ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"]);
        let response = authenticate(&mut client, version, PASSWORD).await;
        assert_eq!((response.error_code, response.session_lifetime_ms, &response.auth_bytes[..]), (0, 0, &b""[..]));
        client.call(0, &ApiVersionsRequest::default()).await;
        is_served(&mut client).await;
    }
    assert_eq!(broker.logins(), Logins { succeeded: 3, ..Logins::default() });
    broker.shutdown().await;
}

#[tokio::test]
async fn unframed_tokens_after_handshake_v0() {
    let broker = start(secured()).await;
    let mut client = Client::connect(&broker, 0).await;
    assert_eq!(handshake(&mut client, 0, "PLAIN").await.error_code, 0);
    client.stream.write_all(&[&[0, 0, 0, 13], PASSWORD].concat()).await.unwrap();
    assert_eq!(client.frame().await.unwrap(), Bytes::new());
    is_served(&mut client).await;
    let mut client = Client::connect(&broker, 0).await;
    handshake(&mut client, 0, "PLAIN").await;
    client.stream.write_all(&[&[0, 0, 0, 12], WRONG_TOKEN].concat()).await.unwrap();
    assert!(client.is_closed().await, "there is no answer that could say so");
    assert_eq!(broker.logins(), Logins { succeeded: 1, failed: 1, ..Logins::default() });
    broker.shutdown().await;
}

#[tokio::test]
async fn wrong_password_is_reported_and_closes() {
    let broker = start(secured()).await;
    let mut client = Client::connect(&broker, 0).await;
    handshake(&mut client, 1, "PLAIN").await;
    let response = authenticate(&mut client, 2, WRONG_TOKEN).await;
    assert_eq!(response.error_code, ErrorCode::SASL_AUTHENTICATION_FAILED.code());
    assert_eq!(response.error_message.as_deref(), Some(WRONG_TEXT));
    assert!(client.is_closed().await);
    let mut client = Client::connect(&broker, 0).await;
    handshake(&mut client, 1, "SCRAM-SHA-256").await;
    let response = authenticate(&mut client, 2, b"n,,n=nobody,r=x").await;
    let text = "Authentication failed during authentication due to invalid credentials with SASL mechanism \
                SCRAM-SHA-256";
    assert_eq!(response.error_message.as_deref(), Some(text));
    assert!(client.is_closed().await);
    assert_eq!(broker.logins(), Logins { failed: 2, ..Logins::default() });
    broker.shutdown().await;
}

#[tokio::test]
async fn rejects_disabled_mechanism() {
    let broker = start(SecurityOptions { mechanisms: vec![Mechanism::ScramSha512], ..secured() }).await;
    for requested in ["PLAIN", "GSSAPI", "scram-sha-512", ""] {
        let mut client = Client::connect(&broker, 0).await;
        let response = handshake(&mut client, 1, requested).await;
        assert_eq!(response.error_code, ErrorCode::UNSUPPORTED_SASL_MECHANISM.code(), "{requested}");
        assert_eq!(response.mechanisms, ["SCRAM-SHA-512"]);
        assert!(client.is_closed().await);
    }
    broker.shutdown().await;
}

#[tokio::test]
async fn request_before_login_closes() {
    let broker = start(secured()).await;
    let metadata = MetadataRequest { topics: None, ..Default::default() };
    let mut client = Client::connect(&broker, 0).await;
    client.send(9, &metadata).await;
    assert!(client.is_closed().await);
    let mut client = Client::connect(&broker, 0).await;
    client.call(3, &versions()).await;
    client.send(3, &versions()).await;
    assert!(client.is_closed().await, "the second ApiVersions");
    // During a login, other requests are rejected with ILLEGAL_SASL_STATE.
    let mut client = Client::connect(&broker, 0).await;
    handshake(&mut client, 1, "PLAIN").await;
    let response = client.call(1, &SaslHandshakeRequest { mechanism: "PLAIN".to_owned(), ..Default::default() }).await;
    assert_eq!(response.error_code, ErrorCode::ILLEGAL_SASL_STATE.code());
    assert!(client.is_closed().await);
    let mut client = Client::connect(&broker, 0).await;
    handshake(&mut client, 1, "PLAIN").await;
    client.send(9, &produce_request("t", 0, &batch(1), 0)).await;
    assert!(client.is_closed().await);
    assert_eq!(broker.end_offset("t", 0), Some(0));
    assert_eq!(broker.logins(), Logins { failed: 4, ..Logins::default() });
    broker.shutdown().await;
}

fn versions() -> ApiVersionsRequest {
    ApiVersionsRequest {
        client_software_name: "test".to_owned(),
        client_software_version: "1".to_owned(),
        ..Default::default()
    }
}

#[tokio::test]
async fn frame_size_is_limited_before_login() {
    let broker = start(secured()).await;
    let mut client = Client::connect(&broker, 0).await;
    client.stream.write_all(&(512 * 1024 + 1_u32).to_be_bytes()).await.unwrap();
    assert!(client.is_closed().await);
    let mut client = Client::connect(&broker, 0).await;
    log_in(&mut client).await;
    let large = batch_of(&[1_700_000_000_000], 600 << 10, NO_PRODUCER);
    assert_eq!(client.produce("t", 0, &large).await.error_code, 0);
    broker.shutdown().await;
}

#[tokio::test]
async fn rejects_unexpected_login() {
    for security in [SecurityOptions::default(), secured()] {
        let has_login = security.protocol.has_login();
        let broker = start(security).await;
        let mut client = Client::connect(&broker, 0).await;
        if has_login {
            log_in(&mut client).await;
        }
        for _ in 0..2 {
            let response = handshake(&mut client, 1, "PLAIN").await;
            assert_eq!(response.error_code, ErrorCode::ILLEGAL_SASL_STATE.code());
            assert_eq!(response.mechanisms, [""; 0]);
            let response = authenticate(&mut client, 2, PASSWORD).await;
            assert_eq!(response.error_code, ErrorCode::ILLEGAL_SASL_STATE.code());
            is_served(&mut client).await;
        }
        broker.shutdown().await;
    }
}

#[tokio::test]
async fn session_expires_without_reauthentication() {
    let broker = expiring().await;
    let mut again = Client::connect(&broker, 0).await;
    let mut silent = Client::connect(&broker, 0).await;
    assert_eq!(log_in(&mut again).await.session_lifetime_ms, 2500);
    log_in(&mut silent).await;
    for _ in 0..3 {
        tokio::time::sleep(Duration::from_millis(1250)).await;
        assert_eq!(log_in(&mut again).await.session_lifetime_ms, 2500);
        is_served(&mut again).await;
        // Re-authenticating again immediately is rejected, but the session stays valid.
        assert_eq!(handshake(&mut again, 1, "PLAIN").await.error_code, ErrorCode::ILLEGAL_SASL_STATE.code());
        is_served(&mut again).await;
    }
    silent.send(9, &MetadataRequest::default()).await;
    assert!(silent.is_closed().await, "its session has ended");
    // A client may still re-authenticate after its session has expired, if it has not sent another request since.
    tokio::time::sleep(Duration::from_millis(2600)).await;
    assert_eq!(log_in(&mut again).await.error_code, 0);
    is_served(&mut again).await;
    assert_eq!(broker.logins(), Logins { succeeded: 2, repeated: 4, expired: 1, failed: 0 });
    broker.shutdown().await;
}

#[tokio::test]
async fn reauthentication_rejects_other_principal() {
    let broker = expiring().await;
    let mut client = Client::connect(&broker, 0).await;
    log_in(&mut client).await;
    handshake(&mut client, 1, "PLAIN").await;
    let response = authenticate(&mut client, 2, b"\0bob\0hidden").await;
    assert_eq!(response.error_code, ErrorCode::SASL_AUTHENTICATION_FAILED.code());
    let text = "Cannot change principals during re-authentication from User.alice: User.bob";
    assert_eq!(response.error_message.as_deref(), Some(text));
    assert!(client.is_closed().await);
    let mut client = Client::connect(&broker, 0).await;
    log_in(&mut client).await;
    assert_eq!(handshake(&mut client, 1, "SCRAM-SHA-256").await.error_code, 0, "as Kafka");
    let auth_bytes = Bytes::from_static(b"n,,n=alice,r=x");
    client.send(2, &SaslAuthenticateRequest { auth_bytes, ..Default::default() }).await;
    assert!(client.is_closed().await);
    assert_eq!(broker.logins(), Logins { succeeded: 2, failed: 2, ..Logins::default() });
    broker.shutdown().await;
}

#[tokio::test]
async fn oauth_token_limits_session_lifetime() {
    let broker = start(SecurityOptions { session_lifetime: Some(Duration::from_secs(3600)), ..secured() }).await;
    let mut client = Client::connect(&broker, 0).await;
    handshake(&mut client, 1, "OAUTHBEARER").await;
    // JWT with header {"alg":"none"} and claims {"sub":"carol","exp":4102444800}; it expires in the year 2100.
    let good = b"n,,\x01auth=Bearer eyJhbGciOiJub25lIn0.eyJzdWIiOiJjYXJvbCIsImV4cCI6NDEwMjQ0NDgwMH0.\x01\x01";
    let response = authenticate(&mut client, 2, good).await;
    assert_eq!((response.error_code, response.session_lifetime_ms), (0, 3_600_000));
    let mut client = Client::connect(&broker, 0).await;
    handshake(&mut client, 1, "OAUTHBEARER").await;
    let response = authenticate(&mut client, 2, b"n,,\x01auth=Bearer a.b.\x01\x01").await;
    assert_eq!(response.auth_bytes, r#"{"status":"invalid_token"}"#);
    let response = authenticate(&mut client, 2, b"\x01").await;
    assert_eq!(response.error_message.as_deref(), Some(r#"{"status":"invalid_token"}"#));
    assert!(client.is_closed().await);
    broker.shutdown().await;
}

#[tokio::test]
async fn faults_and_hooks_modify_login_responses() {
    let broker = start(secured()).await;
    let code = ErrorCode::SASL_AUTHENTICATION_FAILED;
    broker.fail_next(ApiKey::SaslAuthenticate, Fault::Error(code), 1);
    let mut client = Client::connect(&broker, 0).await;
    assert_eq!(log_in(&mut client).await.error_code, code.code());
    assert!(client.is_closed().await);
    broker.on_login(|response| match response.step {
        0 => response.mechanisms = vec![response.mechanism.clone(), "GSSAPI".to_owned()],
        _ => {
            response.token = Bytes::from_static(b"more");
            response.session_lifetime_ms = 7;
        }
    });
    let mut client = Client::connect(&broker, 0).await;
    assert_eq!(handshake(&mut client, 1, "PLAIN").await.mechanisms, ["PLAIN", "GSSAPI"]);
    let response = authenticate(&mut client, 2, PASSWORD).await;
    assert_eq!((response.error_code, &response.auth_bytes[..], response.session_lifetime_ms), (0, &b"more"[..], 7));
    is_served(&mut client).await;
    broker.on_login(|response| response.error = ErrorCode::ILLEGAL_SASL_STATE);
    let mut client = Client::connect(&broker, 0).await;
    assert_eq!(handshake(&mut client, 1, "PLAIN").await.error_code, ErrorCode::ILLEGAL_SASL_STATE.code());
    assert!(client.is_closed().await);
    broker.clear_faults();
    let mut client = Client::connect(&broker, 0).await;
    assert_eq!(&log_in(&mut client).await.auth_bytes[..], b"");
    assert_eq!(broker.logins(), Logins { succeeded: 2, failed: 2, ..Logins::default() });
    broker.shutdown().await;
}

#[tokio::test]
async fn rejects_contradictory_options() {
    let rejected = async |security: SecurityOptions, kafka: Option<&str>| {
        let kafka = kafka.map(|kafka| Release::named(kafka).unwrap());
        let started = Broker::start(BrokerOptions { security, kafka, ..BrokerOptions::default() }).await;
        started.expect_err("it cannot be").to_string()
    };
    let lifetime = Some(Duration::from_secs(1));
    let open = SecurityOptions { protocol: Protocol::Plaintext, ..secured() };
    assert!(rejected(open, None).await.contains("PLAINTEXT has no logins"));
    let open = SecurityOptions { session_lifetime: lifetime, ..SecurityOptions::default() };
    assert!(rejected(open, None).await.contains("PLAINTEXT has none"));
    assert!(rejected(SecurityOptions { mechanisms: vec![], ..secured() }, None).await.contains("a mechanism"));
    assert!(
        rejected(SecurityOptions { session_lifetime: Some(Duration::ZERO), ..secured() }, None).await.contains("1 ms")
    );
    let empty_name = SecurityOptions { users: [("", "x")].into_iter().collect(), ..secured() };
    assert!(rejected(empty_name, None).await.contains("must not be empty"));
    let scram = SecurityOptions { mechanisms: vec![Mechanism::ScramSha256], ..secured() };
    assert!(rejected(scram, Some("0.10.1")).await.contains("Kafka 0.10.1 has no SCRAM-SHA-256"));
    assert!(rejected(secured(), Some("0.9")).await.contains("needs a mechanism"));
    let late = SecurityOptions { session_lifetime: lifetime, ..secured() };
    assert!(rejected(late, Some("2.1")).await.contains("KIP-368"));
    assert!(!format!("{:?}", secured()).contains("hidden"), "passwords are never shown");
}
