//! The address of an issuer of tokens.

use std::net::IpAddr;

use hyper::Uri;
use hyper::http::uri::Authority;

use crate::error::{Error, Result};

/// An `https:` address, or an `http:` one on this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Endpoint {
    pub(super) https: bool,
    /// Without the brackets of an IPv6 address.
    pub(super) host: String,
    pub(super) port: u16,
    /// With the query.
    pub(super) path: String,
    /// For texts: without the query.
    pub(super) shown: String,
}

impl Endpoint {
    /// # Errors
    /// It is no such address.
    pub(super) fn parse(option: &str, url: &str) -> Result<Self> {
        let wrong = |text: String| Error::configuration(format!("option {option} {text}"));
        let uri: Uri = url.trim().parse().map_err(|error| wrong(format!("is no address: {error}")))?;
        let https = match uri.scheme_str() {
            Some("https") => true,
            Some("http") => false,
            _ => return Err(wrong("must begin with https:// (or file:)".to_owned())),
        };
        let authority = uri.authority().ok_or_else(|| wrong("names no host".to_owned()))?;
        if authority.as_str().contains('@') {
            return Err(wrong("must not have a name or password: they have options of their own".to_owned()));
        }
        let port = if https { 443 } else { 80 };
        let (host, port) = parts(authority, port).ok_or_else(|| wrong("names no host or no port".to_owned()))?;
        if !https && !is_loopback(&host) {
            return Err(wrong(format!(
                "is http://{host}, where everybody on the way can read secret and token: it must be https:// (http:// is for \
                 this machine only)"
            )));
        }
        let path = uri.path_and_query().map_or("/", |path| path.as_str()).to_owned();
        let shown = format!("{}://{authority}{}", if https { "https" } else { "http" }, uri.path());
        Ok(Self { https, host, port, path, shown })
    }

    /// What the Host header has.
    pub(super) fn authority(&self) -> String {
        let host = if self.host.contains(':') { format!("[{}]", self.host) } else { self.host.clone() };
        if self.port == if self.https { 443 } else { 80 } { host } else { format!("{host}:{}", self.port) }
    }
}

/// Host, without brackets, and port of an address; None if it has no such.
pub(super) fn parts(authority: &Authority, default: u16) -> Option<(String, u16)> {
    let host = authority.host();
    let (_, rest) = authority.as_str().rsplit_once(host)?;
    let port = match rest.strip_prefix(':') {
        Some(port) => port.parse().ok().filter(|port| *port > 0)?,
        None => default,
    };
    let host = host.trim_start_matches('[').trim_end_matches(']');
    (!host.is_empty()).then(|| (host.to_owned(), port))
}

/// Whether a host is this machine, whatever a name server says.
pub(super) fn is_loopback(host: &str) -> bool {
    host.eq_ignore_ascii_case("localhost") || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_https_or_on_this_machine() {
        let parse = |url| Endpoint::parse("x", url);
        let found = parse("https://id.example.com/oauth2/token?tenant=1").unwrap();
        assert_eq!(
            (found.host.as_str(), found.port, found.path.as_str()),
            ("id.example.com", 443, "/oauth2/token?tenant=1")
        );
        assert_eq!(
            (found.shown.as_str(), found.authority().as_str()),
            ("https://id.example.com/oauth2/token", "id.example.com")
        );
        let found = parse("http://[::1]:8080").unwrap();
        assert_eq!((found.host.as_str(), found.path.as_str(), found.authority().as_str()), ("::1", "/", "[::1]:8080"));
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
            ("https://me:hunter2@id.example.com/", "must not have a name or password"),
            ("https://h:0/", "names no host or no port"),
            ("https://h:99999/", "names no host or no port"),
            ("", "option x is no address"),
        ] {
            let error = parse(url).unwrap_err().to_string();
            assert!(error.contains(reason) && !error.contains("hunter2"), "{url}: {error}");
        }
    }
}
