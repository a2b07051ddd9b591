use std::sync::{Arc, Mutex};

use samsarrow_wire::frame;
use samsarrow_wire::messages::api_versions::ApiVersion;
use samsarrow_wire::messages::{
    ApiVersionsRequest, ApiVersionsResponse, SaslAuthenticateResponse, SaslHandshakeResponse,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use super::super::BoxFuture;
use super::*;
use crate::config::{ClientKind, OptionValue, Options};
use crate::net::{Connection, Setup};

/// A mechanism whose exchange never ends.
#[derive(Debug)]
struct Endless;

impl SaslMechanism for Endless {
    fn name(&self) -> &'static str {
        "ENDLESS"
    }

    fn begin<'a>(&'a self, _: &'a str) -> BoxFuture<'a, Box<dyn Exchange>> {
        let exchange: Box<dyn Exchange> = Box::new(Endless);
        Box::pin(std::future::ready(Ok(exchange)))
    }
}

impl Exchange for Endless {
    fn initial(&mut self) -> BoxFuture<'_, Bytes> {
        Box::pin(std::future::ready(Ok(Bytes::from_static(b"x"))))
    }

    fn respond(&mut self, challenge: Bytes) -> BoxFuture<'_, Option<Bytes>> {
        Box::pin(std::future::ready(Ok((&challenge[..] != b"enough").then_some(challenge))))
    }
}

/// API keys and versions of the received requests.
type Requests = Arc<Mutex<Vec<(i16, i16)>>>;

/// Starts a broker that accepts one connection and returns these responses to SaslHandshake and to tokens.
async fn scripted(
    newest: i16,
    handshake: SaslHandshakeResponse,
    token: SaslAuthenticateResponse,
) -> (String, Requests) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let requests = Requests::default();
    let received = Arc::clone(&requests);
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let supports = |api_key, max_version| ApiVersion { api_key, max_version, ..Default::default() };
        let versions = ApiVersionsResponse {
            api_keys: vec![supports(17, 1), supports(18, 4), supports(36, newest)],
            ..Default::default()
        };
        while let Ok(length) = stream.read_i32().await {
            let mut body = vec![0; usize::try_from(length).unwrap()];
            stream.read_exact(&mut body).await.unwrap();
            let (header, _) = frame::decode_request_header(body.into()).unwrap();
            let (version, id) = (header.api_version, header.correlation_id);
            received.lock().unwrap().push((header.api_key, version));
            let answer = match header.api_key {
                17 => frame::encode_response::<SaslHandshakeRequest>(&handshake, version, id),
                18 => frame::encode_response::<ApiVersionsRequest>(&versions, version, id),
                _ => frame::encode_response::<SaslAuthenticateRequest>(&token, version, id),
            };
            stream.write_all(&answer.unwrap()).await.unwrap();
        }
    });
    (address, requests)
}

async fn log_in(address: &str) -> Result<Session> {
    let servers = ("bootstrap.servers".to_owned(), OptionValue::Str(address.to_owned()));
    let setup = Setup::new(Options::parse(ClientKind::Admin, [servers]).unwrap().common).unwrap();
    let connection = Connection::open(address, &Arc::new(setup)).await.unwrap();
    let login = Login {
        mechanism: Box::new(Endless),
        protocol: Protocol::SaslPlaintext,
        user: None,
        redactor: Redactor::default(),
    };
    login.authenticate(&connection, connection.versions(), "h", None).await
}

fn token_response(auth_bytes: &'static [u8]) -> SaslAuthenticateResponse {
    SaslAuthenticateResponse {
        auth_bytes: Bytes::from_static(auth_bytes),
        session_lifetime_ms: 5000,
        ..Default::default()
    }
}

#[tokio::test]
async fn endless_exchange_is_rejected() {
    let (address, requests) = scripted(2, SaslHandshakeResponse::default(), token_response(b"more")).await;
    let error = log_in(&address).await.unwrap_err();
    assert!(matches!(error, Error::Authentication { .. }), "{error:?}");
    assert!(error.to_string().starts_with(&address) && error.to_string().contains("does not end"), "{error}");
    let tokens = requests.lock().unwrap().iter().filter(|(api, _)| *api == 36).count();
    assert_eq!(tokens, 1 + MAX_ROUNDS, "the first, and one for each challenge");
}

#[tokio::test]
async fn authenticate_uses_highest_common_version() {
    for (newest, used, lifetime) in [(0, 0, None), (1, 1, Some(5)), (2, 2, Some(5)), (99, 2, Some(5))] {
        let (address, requests) = scripted(newest, SaslHandshakeResponse::default(), token_response(b"enough")).await;
        let session = log_in(&address).await.unwrap();
        assert_eq!(session.lifetime, lifetime.map(Duration::from_secs), "v{newest}");
        assert_eq!(requests.lock().unwrap()[1..], [(17, 1), (36, used)]);
    }
}

#[tokio::test]
async fn retriable_codes_are_connection_errors() {
    let is_retriable = |error: &Error| matches!(error, Error::Connection { .. });
    for (code, retriable) in [
        (ErrorCode::NETWORK_EXCEPTION, true),
        (ErrorCode::SASL_AUTHENTICATION_FAILED, false),
        (ErrorCode::ILLEGAL_SASL_STATE, false),
    ] {
        let rejects = SaslHandshakeResponse { error_code: code.code(), ..Default::default() };
        let (address, _) = scripted(2, rejects, token_response(b"")).await;
        let error = log_in(&address).await.unwrap_err();
        assert_eq!(is_retriable(&error), retriable, "{error:?}");
        let rejects = SaslAuthenticateResponse { error_code: code.code(), ..Default::default() };
        let (address, _) = scripted(2, SaslHandshakeResponse::default(), rejects).await;
        let error = log_in(&address).await.unwrap_err();
        assert_eq!(is_retriable(&error), retriable, "{error:?}");
    }
}
