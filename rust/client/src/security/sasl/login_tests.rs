use std::sync::{Arc, Mutex};

use samsarrow_wire::frame;
use samsarrow_wire::messages::api_versions::ApiVersion;
use samsarrow_wire::messages::{
    ApiVersionsRequest, ApiVersionsResponse, SaslAuthenticateResponse, SaslHandshakeResponse,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use super::super::Waiting;
use super::*;
use crate::config::{ClientKind, OptionValue, Options};
use crate::net::{Connection, Setup};

/// A mechanism that has something to say for ever.
#[derive(Debug)]
struct Endless;

impl Conversation for Endless {
    fn name(&self) -> &'static str {
        "ENDLESS"
    }

    fn begin<'a>(&'a self, _: &'a str) -> Waiting<'a, Box<dyn Exchange>> {
        let exchange: Box<dyn Exchange> = Box::new(Endless);
        Box::pin(std::future::ready(Ok(exchange)))
    }
}

impl Exchange for Endless {
    fn initial(&mut self) -> Waiting<'_, Bytes> {
        Box::pin(std::future::ready(Ok(Bytes::from_static(b"x"))))
    }

    fn answer(&mut self, challenge: Bytes) -> Waiting<'_, Option<Bytes>> {
        Box::pin(std::future::ready(Ok((&challenge[..] != b"enough").then_some(challenge))))
    }
}

/// What was asked: the API's number and the version.
type Asked = Arc<Mutex<Vec<(i16, i16)>>>;

/// A broker of one connection that answers these to a handshake and to each token.
async fn scripted(newest: i16, handshake: SaslHandshakeResponse, token: SaslAuthenticateResponse) -> (String, Asked) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let asked = Asked::default();
    let seen = Arc::clone(&asked);
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let speaks = |api_key, max_version| ApiVersion { api_key, max_version, ..Default::default() };
        let versions = ApiVersionsResponse {
            api_keys: vec![speaks(17, 1), speaks(18, 4), speaks(36, newest)],
            ..Default::default()
        };
        while let Ok(length) = stream.read_i32().await {
            let mut body = vec![0; usize::try_from(length).unwrap()];
            stream.read_exact(&mut body).await.unwrap();
            let (header, _) = frame::decode_request_header(body.into()).unwrap();
            let (version, id) = (header.api_version, header.correlation_id);
            seen.lock().unwrap().push((header.api_key, version));
            let answer = match header.api_key {
                17 => frame::encode_response::<SaslHandshakeRequest>(&handshake, version, id),
                18 => frame::encode_response::<ApiVersionsRequest>(&versions, version, id),
                _ => frame::encode_response::<SaslAuthenticateRequest>(&token, version, id),
            };
            stream.write_all(&answer.unwrap()).await.unwrap();
        }
    });
    (address, asked)
}

async fn log_in(address: &str) -> Result<Session> {
    let servers = ("bootstrap.servers".to_owned(), OptionValue::Str(address.to_owned()));
    let setup = Setup::new(Options::parse(ClientKind::Admin, [servers]).unwrap().common).unwrap();
    let connection = Connection::open(address, &Arc::new(setup)).await.unwrap();
    let login =
        Login { mechanism: Box::new(Endless), protocol: Protocol::SaslPlaintext, user: None, veil: Veil::default() };
    login.authenticate(&connection, connection.versions(), "h", None).await
}

fn answer(auth_bytes: &'static [u8]) -> SaslAuthenticateResponse {
    SaslAuthenticateResponse {
        auth_bytes: Bytes::from_static(auth_bytes),
        session_lifetime_ms: 5000,
        ..Default::default()
    }
}

#[tokio::test]
async fn a_login_that_comes_to_no_end_is_given_up() {
    let (address, asked) = scripted(2, SaslHandshakeResponse::default(), answer(b"more")).await;
    let error = log_in(&address).await.unwrap_err();
    assert!(matches!(error, Error::Authentication { .. }), "{error:?}");
    assert!(error.to_string().starts_with(&address) && error.to_string().contains("no end"), "{error}");
    let tokens = asked.lock().unwrap().iter().filter(|(api, _)| *api == 36).count();
    assert_eq!(tokens, 1 + ROUNDS, "the first, and one for each challenge");
}

#[tokio::test]
async fn tokens_travel_in_the_highest_version_in_common() {
    for (newest, used, lifetime) in [(0, 0, None), (1, 1, Some(5)), (2, 2, Some(5)), (99, 2, Some(5))] {
        let (address, asked) = scripted(newest, SaslHandshakeResponse::default(), answer(b"enough")).await;
        let session = log_in(&address).await.unwrap();
        assert_eq!(session.lifetime, lifetime.map(Duration::from_secs), "v{newest}");
        assert_eq!(asked.lock().unwrap()[1..], [(17, 1), (36, used)]);
    }
}

#[tokio::test]
async fn what_may_pass_is_told_apart_from_what_will_not() {
    let passes = |error: &Error| matches!(error, Error::Connection { .. });
    for (code, may_pass) in [
        (ErrorCode::NETWORK_EXCEPTION, true),
        (ErrorCode::SASL_AUTHENTICATION_FAILED, false),
        (ErrorCode::ILLEGAL_SASL_STATE, false),
    ] {
        let refuses = SaslHandshakeResponse { error_code: code.code(), ..Default::default() };
        let (address, _) = scripted(2, refuses, answer(b"")).await;
        let error = log_in(&address).await.unwrap_err();
        assert_eq!(passes(&error), may_pass, "{error:?}");
        let refuses = SaslAuthenticateResponse { error_code: code.code(), ..Default::default() };
        let (address, _) = scripted(2, SaslHandshakeResponse::default(), refuses).await;
        let error = log_in(&address).await.unwrap_err();
        assert_eq!(passes(&error), may_pass, "{error:?}");
    }
}
