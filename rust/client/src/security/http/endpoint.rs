//! URL of an HTTP server.

use std::net::IpAddr;

use hyper::Uri;
use hyper::http::uri::Authority;

use crate::error::{Error, Result};

/// An `https:` or `http:` URL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Endpoint {
    pub(crate) https: bool,
    /// Host name or IP address. An IPv6 address has no brackets.
    pub(crate) host: String,
    pub(crate) port: u16,
    /// Path, including the query.
    pub(crate) path: String,
    /// URL without its query, for error texts.
    pub(crate) display_url: String,
}

impl Endpoint {
    /// Parses the URL of a server that receives secrets. The URL must begin with `https:`, unless it names this
    /// machine.
    ///
    /// # Errors
    /// Fails if the URL is invalid or not allowed.
    pub(crate) fn secret(option: &str, url: &str) -> Result<Self> {
        let endpoint = Self::parse(option, url)?;
        if !endpoint.https && !endpoint.is_local() {
            return Err(Error::configuration(format!(
                "option {option} is http://{}, which sends secret and token unencrypted: it must be https:// \
                 (http:// is allowed for this machine only)",
                endpoint.host
            )));
        }
        Ok(endpoint)
    }

    /// Parses a URL without restrictions on its scheme and host.
    ///
    /// # Errors
    /// Fails if the URL is invalid.
    pub(crate) fn parse(option: &str, url: &str) -> Result<Self> {
        let error = |text: String| Error::configuration(format!("option {option} {text}"));
        let uri: Uri = url.trim().parse().map_err(|e| error(format!("is not a valid URL: {e}")))?;
        let https = match uri.scheme_str() {
            Some("https") => true,
            Some("http") => false,
            _ => return Err(error("must begin with https:// or http://".to_owned())),
        };
        let authority = uri.authority().ok_or_else(|| error("has no host".to_owned()))?;
        if authority.as_str().contains('@') {
            return Err(error("must not contain a user name or password: set their options instead".to_owned()));
        }
        let port = if https { 443 } else { 80 };
        let (host, port) =
            host_and_port(authority, port).ok_or_else(|| error("has no host or no valid port".to_owned()))?;
        let path = uri.path_and_query().map_or("/", |path| path.as_str()).to_owned();
        let display_url = format!("{}://{authority}{}", if https { "https" } else { "http" }, uri.path());
        Ok(Self { https, host, port, path, display_url })
    }

    /// Returns true if the host is this machine.
    pub(crate) fn is_local(&self) -> bool {
        is_loopback(&self.host)
    }

    /// Returns the value of the Host header.
    pub(crate) fn authority(&self) -> String {
        let host = if self.host.contains(':') { format!("[{}]", self.host) } else { self.host.clone() };
        if self.port == if self.https { 443 } else { 80 } { host } else { format!("{host}:{}", self.port) }
    }
}

/// Returns the host (without brackets) and the port of an authority. Returns `None` if the host is missing or the port
/// is invalid.
pub(crate) fn host_and_port(authority: &Authority, default: u16) -> Option<(String, u16)> {
    let host = authority.host();
    let (_, rest) = authority.as_str().rsplit_once(host)?;
    let port = match rest.strip_prefix(':') {
        Some(port) => port.parse().ok().filter(|port| *port > 0)?,
        None => default,
    };
    let host = host.trim_start_matches('[').trim_end_matches(']');
    (!host.is_empty()).then(|| (host.to_owned(), port))
}

/// Returns true if a host name refers to this machine, without a DNS lookup.
pub(crate) fn is_loopback(host: &str) -> bool {
    host.eq_ignore_ascii_case("localhost") || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secret_endpoints_require_https_or_loopback() {
        let parse = |url| Endpoint::secret("x", url);
        let endpoint = parse("https://id.example.com/oauth2/token?tenant=1").unwrap();
        assert_eq!(
            (endpoint.host.as_str(), endpoint.port, endpoint.path.as_str()),
            ("id.example.com", 443, "/oauth2/token?tenant=1")
        );
        assert_eq!(
            (endpoint.display_url.as_str(), endpoint.authority().as_str()),
            ("https://id.example.com/oauth2/token", "id.example.com")
        );
        let endpoint = parse("http://[::1]:8080").unwrap();
        assert_eq!(
            (endpoint.host.as_str(), endpoint.path.as_str(), endpoint.authority().as_str()),
            ("::1", "/", "[::1]:8080")
        );
        for url in ["http://localhost:1/", "http://127.0.0.9/"] {
            assert!(parse(url).is_ok(), "{url}");
        }
        for (url, reason) in [
            ("http://id.example.com/", "it must be https://"),
            ("http://localhost.example.com/", "it must be https://"),
            ("http://10.0.0.1/", "it must be https://"),
            ("ftp://localhost/", "must begin with https://"),
            ("id.example.com", "must begin with https://"),
            ("https://", "option x "),
            ("https:///token", "option x "),
            ("https://me:hunter2@id.example.com/", "must not contain a user name or password"),
            ("https://h:0/", "has no host or no valid port"),
            ("https://h:99999/", "has no host or no valid port"),
            ("", "option x is not a valid URL"),
        ] {
            let error = parse(url).unwrap_err().to_string();
            assert!(error.contains(reason) && !error.contains("hunter2"), "{url}: {error}");
        }
    }
}
