//! The OAUTHBEARER mechanism, which logs in with a token (RFC 7628, KIP-255).

use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;

use super::oidc::Oidc;
use super::token_cache::TokenCache;
use super::unsecured::Unsecured;
use super::{BoxFuture, Exchange, Mechanism, file};
use crate::config::SaslOptions;
use crate::config::credentials::{Fetching, Token, TokenSource, check_extension};
use crate::error::{Error, Result};
use crate::security::redact::Redactor;

/// The client's response to a broker's error message. After this response the broker fails the login.
const ERROR_ACK: &[u8] = b"\x01";

/// The mechanism with tokens from any source.
#[derive(Debug)]
pub(super) struct OAuthBearer {
    tokens: Arc<TokenCache>,
    extensions: Vec<(String, String)>,
}

impl OAuthBearer {
    /// # Errors
    /// Fails if the options set no token source, several sources or an invalid source.
    pub(super) fn new(sasl: &SaslOptions) -> Result<Self> {
        for (name, value) in &sasl.oauth.extensions {
            let wrong = |text| Error::configuration(format!("option sasl.oauthbearer.extensions: {text}"));
            check_extension(name, value).map_err(wrong)?;
        }
        let tokens = Arc::new(TokenCache::new(source(sasl)?, sasl.refresh));
        Ok(Self { tokens, extensions: sasl.oauth.extensions.clone() })
    }
}

fn source(sasl: &SaslOptions) -> Result<Arc<dyn TokenSource>> {
    let oauth = &sasl.oauth;
    let url = oauth.token_endpoint_url.as_deref();
    let sources = [
        ("sasl.oauthbearer.token.provider", oauth.provider.is_some() || oauth.provider_name.is_some()),
        ("sasl.oauthbearer.token.endpoint.url", url.is_some()),
        ("enable.sasl.oauthbearer.unsecure.jwt", oauth.unsecured),
        ("sasl.jaas.config (unsecuredLogin…)", !oauth.unsecured_login.is_empty()),
    ];
    let mut configured = sources.iter().filter(|(_, is_set)| *is_set).map(|(name, _)| name);
    if let (Some(first), Some(second)) = (configured.next(), configured.next()) {
        return Err(Error::configuration(format!(
            "options {first} and {second} both set the source of tokens: leave one of them out"
        )));
    }
    if let Some(provider) = &oauth.provider {
        return Ok(Arc::clone(&provider.0));
    }
    if oauth.provider_name.is_some() {
        return Err(Error::configuration("option sasl.oauthbearer.token.provider needs a client in Python"));
    }
    if let Some(url) = url {
        return match url.strip_prefix("file:") {
            Some(path) => Ok(Arc::new(TokenFile::new(path)?)),
            None => Ok(Arc::new(Oidc::new(url, sasl)?)),
        };
    }
    if oauth.oidc {
        return Err(Error::configuration(
            "sasl.oauthbearer.method=oidc needs option sasl.oauthbearer.token.endpoint.url",
        ));
    }
    if !oauth.unsecured_login.is_empty() {
        return Ok(Arc::new(Unsecured::from_jaas(&oauth.unsecured_login)?));
    }
    if oauth.unsecured {
        let config = oauth.config.as_ref().ok_or_else(|| {
            Error::configuration(
                "enable.sasl.oauthbearer.unsecure.jwt=true needs option sasl.oauthbearer.config, for example principal=admin",
            )
        })?;
        return Ok(Arc::new(Unsecured::from_config(config.reveal())?));
    }
    Err(Error::configuration(
        "sasl.mechanism=OAUTHBEARER needs a source of tokens: option sasl.oauthbearer.token.endpoint.url (an issuer's \
         address, or file: and a path) or, in Python, sasl.oauthbearer.token.provider (a function)",
    ))
}

impl Mechanism for OAuthBearer {
    fn name(&self) -> &'static str {
        "OAUTHBEARER"
    }

    fn begin<'a>(&'a self, _: &'a str) -> BoxFuture<'a, Box<dyn Exchange>> {
        Box::pin(async move {
            let token = self.tokens.current().await?;
            let message = message(&token, &self.extensions);
            let exchange = BearerExchange { message, token, tokens: Arc::clone(&self.tokens), rejection: None };
            Ok(Box::new(exchange) as Box<dyn Exchange>)
        })
    }
}

/// Returns the initial message: no channel binding, no authorization id, the token, and the extensions.
fn message(token: &Token, extensions: &[(String, String)]) -> Bytes {
    let overridden = |name: &String| token.extensions.iter().any(|(existing, _)| existing == name);
    let extensions = extensions.iter().filter(|(name, _)| !overridden(name)).chain(&token.extensions);
    let mut message = b"n,,\x01auth=Bearer ".to_vec();
    message.extend_from_slice(token.value.reveal().as_bytes());
    for (name, value) in extensions {
        message.extend_from_slice(format!("\x01{name}={value}").as_bytes());
    }
    message.extend_from_slice(b"\x01\x01");
    Bytes::from(message)
}

struct BearerExchange {
    message: Bytes,
    token: Arc<Token>,
    tokens: Arc<TokenCache>,
    rejection: Option<String>,
}

impl Exchange for BearerExchange {
    fn initial(&mut self) -> BoxFuture<'_, Bytes> {
        Box::pin(std::future::ready(Ok(self.message.clone())))
    }

    fn respond(&mut self, challenge: Bytes) -> BoxFuture<'_, Option<Bytes>> {
        let result = match self.rejection.take() {
            // The broker responds although it rejected the token and should have failed the login.
            Some(reason) => Err(Error::authentication("", reason)),
            None if challenge.is_empty() => Ok(None),
            None => {
                self.tokens.invalidate(&self.token);
                let text =
                    Redactor::from_secrets([self.token.value.clone()]).redact(&String::from_utf8_lossy(&challenge));
                self.rejection = Some(format!("the broker rejects the token: {text}"));
                Ok(Some(Bytes::from_static(ERROR_ACK)))
            }
        };
        Box::pin(std::future::ready(result))
    }
}

/// A token file that another process renews.
#[derive(Debug)]
struct TokenFile(PathBuf);

impl TokenFile {
    /// Creates the source for a `file:` URL. `rest` is the part of the URL after the colon.
    fn new(rest: &str) -> Result<Self> {
        let wrong = || {
            Error::configuration(format!(
                "option sasl.oauthbearer.token.endpoint.url: file:{rest} is not a local path: write file:///path"
            ))
        };
        file::path_of_url(rest).map(Self).ok_or_else(wrong)
    }
}

impl TokenSource for TokenFile {
    fn name(&self) -> String {
        "sasl.oauthbearer.token.endpoint.url".to_owned()
    }

    fn fetch(&self) -> Fetching<'_> {
        Box::pin(async {
            let name = self.name();
            let text = file::read_trimmed(&name, &self.0).await?;
            Token::new(text, None).map_err(|text| Error::authentication(name, text))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{ClientKind, OptionValue, Options, SecurityOptions};

    fn options(settings: &[(&str, &str)]) -> SecurityOptions {
        let fixed =
            [("bootstrap.servers", "h:1"), ("security.protocol", "SASL_SSL"), ("sasl.mechanism", "OAUTHBEARER")];
        let settings = fixed.iter().chain(settings);
        let settings = settings.map(|(name, value)| ((*name).to_owned(), OptionValue::Str((*value).to_owned())));
        Options::parse(ClientKind::Producer, settings).unwrap().common.security.clone()
    }

    fn mechanism(settings: &[(&str, &str)]) -> Result<OAuthBearer> {
        let security = options(settings);
        OAuthBearer::new(security.sasl.as_ref().unwrap())
    }

    #[test]
    fn requires_exactly_one_token_source() {
        const URL: &str = "sasl.oauthbearer.token.endpoint.url";
        const UNSECURED: &str = "enable.sasl.oauthbearer.unsecure.jwt";
        for (settings, reason) in [
            (&[][..], "sasl.mechanism=OAUTHBEARER needs a source of tokens"),
            (&[("sasl.oauthbearer.method", "oidc")], "method=oidc needs option sasl.oauthbearer.token.endpoint.url"),
            (&[(UNSECURED, "true")], "needs option sasl.oauthbearer.config"),
            (
                &[(UNSECURED, "true"), (URL, "https://h/")],
                "options sasl.oauthbearer.token.endpoint.url and enable.sasl",
            ),
            (&[("oauth_cb", "a:b"), (URL, "https://h/")], "token.provider and sasl.oauthbearer.token.endpoint.url"),
            (&[("oauth_cb", "a:b")], "needs a client in Python"),
            (&[(URL, "http://id.example.com/")], "it must be https://"),
            (&[(URL, "file:relative")], "is not a local path"),
            (&[(URL, "https://h/")], "client.id and .client.secret, or an assertion"),
            (
                &[(URL, "https://h/"), ("sasl.oauthbearer.client.secret", "hunter2")],
                "needs option sasl.oauthbearer.client",
            ),
            (&[(URL, "https://h/"), ("sasl.oauthbearer.grant.type", "jwt-bearer")], "needs an assertion"),
            (&[(URL, "https://h/"), ("https.ca.location", "/nowhere")], "https.ca.location (/nowhere): cannot be read"),
            (&[(URL, "https://h/"), ("https.ca.pem", "hello")], "https.ca.pem: has no certificate"),
            (&[("sasl.oauthbearer.extensions", "auth=x")], "cannot have the name auth"),
        ] {
            let error = mechanism(settings).unwrap_err().to_string();
            assert!(error.contains(reason) && !error.contains("hunter2"), "{settings:?}: {error}");
        }
    }

    async fn begin(mechanism: &OAuthBearer) -> Box<dyn Exchange> {
        mechanism.begin("broker").await.unwrap()
    }

    #[tokio::test]
    async fn sends_token_and_extensions_and_accepts_empty_response() {
        let mechanism = mechanism(&[
            ("enable.sasl.oauthbearer.unsecure.jwt", "true"),
            ("sasl.oauthbearer.config", "principal=me extension_a=mine"),
            ("sasl.oauthbearer.extensions", "a=theirs, logicalCluster=lkc-1"),
        ])
        .unwrap();
        let mut exchange = begin(&mechanism).await;
        let message = String::from_utf8(exchange.initial().await.unwrap().to_vec()).unwrap();
        let token = message.strip_prefix("n,,\x01auth=Bearer eyJ").unwrap();
        assert!(token.ends_with(".\x01logicalCluster=lkc-1\x01a=mine\x01\x01"), "{message}");
        assert_eq!(exchange.respond(Bytes::new()).await.unwrap(), None);
    }

    #[tokio::test]
    async fn rejected_token_is_reported_and_replaced() {
        let settings = [("enable.sasl.oauthbearer.unsecure.jwt", "true"), ("sasl.oauthbearer.config", "principal=me")];
        let mechanism = mechanism(&settings).unwrap();
        let mut exchange = begin(&mechanism).await;
        let token = mechanism.tokens.current().await.unwrap();
        let json = format!("{{\"status\":\"invalid_token\",\"echo\":\"{}\"}}", token.value.reveal());
        assert_eq!(exchange.respond(Bytes::from(json)).await.unwrap().as_deref(), Some(ERROR_ACK));
        // The login has failed, regardless of later responses.
        let error = exchange.respond(Bytes::new()).await.unwrap_err().to_string();
        assert_eq!(error, ": the broker rejects the token: {\"status\":\"invalid_token\",\"echo\":\"[hidden]\"}");
        assert!(!Arc::ptr_eq(&token, &mechanism.tokens.current().await.unwrap()));
    }

    #[tokio::test]
    async fn reads_tokens_from_file() {
        let path = std::env::temp_dir().join(format!("samsarrow-token-{}", std::process::id()));
        let url = format!("file://{}", path.display());
        let mechanism = mechanism(&[("sasl.oauthbearer.token.endpoint.url", &url)]).unwrap();
        for (written, expected) in [("first\n", "Bearer first\x01"), ("second", "Bearer second\x01")] {
            std::fs::write(&path, written).unwrap();
            let message = begin(&mechanism).await.initial().await.unwrap();
            assert!(String::from_utf8_lossy(&message).contains(expected), "{message:?}");
        }
        std::fs::write(&path, "not a token").unwrap();
        let wrong = mechanism.begin("broker").await.err().unwrap();
        std::fs::remove_file(&path).unwrap();
        assert!(wrong.to_string().contains("the token has the character ' '"), "{wrong}");
        tokio::time::sleep(std::time::Duration::from_millis(600)).await;
        let missing = mechanism.begin("broker").await.err().unwrap();
        assert!(missing.fatal() && missing.to_string().contains("cannot be read"), "{missing}");
    }
}
