//! Tests of an issuer that responds with a token, rejects the request, fails or stalls.

use std::sync::Arc;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use super::*;
use crate::config::{ClientKind, OptionValue, Options};

/// Starts an issuer that sends these responses in turn, then repeats the last response. Records the requests.
async fn issuer(responses: Vec<Vec<u8>>) -> (String, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/token?a=b", listener.local_addr().unwrap());
    let requests = Arc::new(Mutex::new(Vec::new()));
    let recorded = Arc::clone(&requests);
    tokio::spawn(async move {
        let mut responses = responses.into_iter().peekable();
        let mut response = Vec::new();
        while let Ok((mut stream, _)) = listener.accept().await {
            response = responses.next().unwrap_or(response);
            let mut request = Vec::new();
            let mut part = [0; 4096];
            // The requests are so small that head and form arrive in one or two reads.
            while !is_complete(&request) {
                let size = stream.read(&mut part).await.unwrap_or(0);
                if size == 0 {
                    break;
                }
                request.extend_from_slice(&part[..size]);
            }
            recorded.lock().unwrap().push(String::from_utf8(request).unwrap());
            let _ = stream.write_all(&response).await;
            let _ = stream.shutdown().await;
        }
    });
    (url, requests)
}

fn is_complete(request: &[u8]) -> bool {
    let text = String::from_utf8_lossy(request);
    let Some((head, body)) = text.split_once("\r\n\r\n") else { return false };
    let size = head.lines().find_map(|line| line.to_ascii_lowercase().strip_prefix("content-length: ")?.parse().ok());
    body.len() >= size.unwrap_or(0)
}

fn http(status: &str, headers: &str, body: &str) -> Vec<u8> {
    format!("HTTP/1.1 {status}\r\n{headers}Content-Length: {}\r\n\r\n{body}", body.len()).into_bytes()
}

fn oidc(url: &str, settings: &[(&str, &str)]) -> Result<Oidc> {
    let fixed = [
        ("bootstrap.servers", "h:1"),
        ("security.protocol", "SASL_SSL"),
        ("sasl.mechanism", "OAUTHBEARER"),
        ("sasl.login.retry.backoff.ms", "20"),
        ("sasl.login.retry.backoff.max.ms", "400"),
    ];
    let settings = fixed.iter().chain(settings);
    let settings = settings.map(|(name, value)| ((*name).to_owned(), OptionValue::Str((*value).to_owned())));
    let options = Options::parse(ClientKind::Producer, settings)?;
    let security = options.common.security.clone();
    Oidc::new(url, security.sasl.as_ref().unwrap())
}

const CLIENT: [(&str, &str); 2] =
    [("sasl.oauthbearer.client.id", "me & you"), ("sasl.oauthbearer.client.secret", "hunter2+")];

async fn token_of(response: Vec<u8>) -> Result<Token> {
    let (url, _) = issuer(vec![response]).await;
    oidc(&url, &CLIENT)?.fetch().await
}

#[tokio::test]
async fn requests_token_with_client_secret() {
    let response = http("200 OK", "", r#"{"access_token": "t", "expires_in": "3599", "token_type": "Bearer"}"#);
    let (url, requests) = issuer(vec![response]).await;
    let plain = oidc(&url, &[CLIENT[0], CLIENT[1], ("sasl.oauthbearer.scope", "a b")]).unwrap();
    assert_eq!(plain.fetch().await.unwrap().value.reveal(), "t");
    let encoded = oidc(&url, &[CLIENT[0], CLIENT[1], ("sasl.oauthbearer.header.urlencode", "true")]).unwrap();
    encoded.fetch().await.unwrap();
    let requests = requests.lock().unwrap();
    assert!(requests[0].starts_with("POST /token?a=b HTTP/1.1\r\n"), "{}", requests[0]);
    assert!(requests[0].ends_with("\r\n\r\ngrant_type=client_credentials&scope=a+b"), "{}", requests[0]);
    for (request, expected) in [(&requests[0], "me & you:hunter2+"), (&requests[1], "me+%26+you:hunter2%2B")] {
        assert!(
            request.contains(&format!("authorization: Basic {}\r\n", BASE64_STANDARD.encode(expected))),
            "{request}"
        );
    }
}

#[tokio::test]
async fn requests_token_with_assertion() {
    let path = std::env::temp_dir().join(format!("samsarrow-assertion-{}", std::process::id()));
    std::fs::write(&path, "eyJh.eyJi.c\n").unwrap();
    let file = ("sasl.oauthbearer.assertion.file", path.to_str().unwrap());
    let (url, requests) = issuer(vec![http("200 OK", "", r#"{"access_token": "t"}"#)]).await;
    let grant = ("sasl.oauthbearer.grant.type", "urn:ietf:params:oauth:grant-type:jwt-bearer");
    for settings in [&[file][..], &[file, grant, CLIENT[0]], &[file, CLIENT[0]]] {
        oidc(&url, settings).unwrap().fetch().await.unwrap();
    }
    std::fs::remove_file(&path).unwrap();
    let requests: Vec<String> =
        requests.lock().unwrap().iter().map(|request| request.rsplit("\r\n\r\n").next().unwrap().to_owned()).collect();
    let bearer = "grant_type=urn%3Aietf%3Aparams%3Aoauth%3Agrant-type%3Ajwt-bearer&assertion=eyJh.eyJi.c";
    let signed = "grant_type=client_credentials\
            &client_assertion_type=urn%3Aietf%3Aparams%3Aoauth%3Aclient-assertion-type%3Ajwt-bearer\
            &client_assertion=eyJh.eyJi.c&client_id=me+%26+you";
    assert_eq!(requests, [bearer, bearer, signed]);
    let both = oidc(&url, &[file, CLIENT[0], CLIENT[1]]).unwrap_err().to_string();
    assert!(both.contains("both say who asks"), "{both}");
}

#[tokio::test]
async fn rejection_is_fatal_and_redacted() {
    let echo = r#"{"error": "invalid_client", "error_description": "hunter2+ hunter2%2B aHVudGVyMg\u0007 eyJhbGciOiJub25lIn0.e30."}"#;
    let error = token_of(http("401 Unauthorized", "", echo)).await.unwrap_err();
    assert!(error.fatal() && !error.retriable());
    let message = error.to_string();
    let expected = "/token: it responds with 401: invalid_client: [hidden] [hidden] aHVudGVyMg\\u{7} [hidden]";
    assert!(message.ends_with(expected), "{message}");
    for (response, expected) in [
        (
            http("400 Bad Request", "Content-Type: text/html; charset=x\r\n", "<html>"),
            "it responds with 400 (text/html, 6 bytes)",
        ),
        (http("403 Forbidden", "", ""), "it responds with 403"),
        (
            http("302 Found", "Location: http://evil.example/\r\n", ""),
            "a redirect to http://evil.example/; secrets are not",
        ),
        (http("307 Temporary Redirect", "", ""), "it responds with 307 and a redirect to nowhere"),
        (
            http("200 OK", "Content-Type: text/html\r\n", "<html>sign in</html>"),
            "is not a JSON object (text/html, 20 bytes)",
        ),
        (http("200 OK", "", "[]"), "is not a JSON object"),
        (http("200 OK", "", r#"{"token": "t"}"#), "the response has no access_token; it has token"),
        (
            http("200 OK", "", r#"{"access_token": "a b"}"#),
            "access_token of the response: the token has the character ' '",
        ),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 1073741824\r\n\r\n{".to_vec(), "more than 1048576 bytes"),
        ([b"HTTP/1.1 200 OK\r\n\r\n".to_vec(), vec![b' '; 2 << 20]].concat(), "more than 1048576 bytes"),
    ] {
        let error = token_of(response).await.unwrap_err();
        assert!(error.fatal() && error.to_string().contains(expected), "{error} for {expected}");
    }
}

#[tokio::test]
async fn retriable_failures_are_retried_with_a_limit() {
    let good = http("200 OK", "", r#"{"access_token": "t", "expires_in": 60}"#);
    let bad = [http("503 Service Unavailable", "", ""), http("429 Too Many Requests", "", ""), Vec::new()];
    let (url, requests) = issuer(bad.into_iter().chain([good]).collect()).await;
    assert_eq!(oidc(&url, &CLIENT).unwrap().fetch().await.unwrap().value.reveal(), "t");
    assert_eq!(requests.lock().unwrap().len(), 4);
    let (url, requests) = issuer(vec![http("500 Oops", "", "")]).await;
    let error = oidc(&url, &CLIENT).unwrap().fetch().await.unwrap_err();
    assert!(error.retriable() && error.to_string().contains("it responds with 500"), "{error}");
    assert!((2..12).contains(&requests.lock().unwrap().len()), "{}", requests.lock().unwrap().len());
    for garbage in [vec![b'a'; 200_000], b"SSH-2.0-OpenSSH\r\n".to_vec()] {
        let error = token_of(garbage).await.unwrap_err();
        assert!(error.retriable() && error.to_string().contains("no valid HTTP response"), "{error}");
    }
}

#[tokio::test]
async fn slow_response_times_out() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n").await.unwrap();
        // Each read returns a byte in time, so a timeout of single reads would never expire.
        while stream.write_all(b" ").await.is_ok() {
            sleep(Duration::from_millis(20)).await;
        }
    });
    let mut source = oidc(&url, &[CLIENT[0], CLIENT[1], ("sasl.login.read.timeout.ms", "300")]).unwrap();
    source.backoff_max = Duration::ZERO;
    let started = Instant::now();
    let error = source.fetch().await.unwrap_err();
    assert!(error.to_string().contains("no complete response within 300 ms (sasl.login.read.timeout.ms)"), "{error}");
    assert!(started.elapsed() < Duration::from_secs(5));
}
