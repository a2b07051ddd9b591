//! The address of a server that is asked over HTTP.

use std::net::IpAddr;

use hyper::Uri;
use hyper::http::uri::Authority;

use crate::error::{Error, Result};

/// An `https:` address, or an `http:` one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Endpoint {
    pub(crate) https: bool,
    /// Without the brackets of an IPv6 address.
    pub(crate) host: String,
    pub(crate) port: u16,
    /// With the query.
    pub(crate) path: String,
    /// For texts: without the query.
    pub(crate) shown: String,
}

impl Endpoint {
    /// One that gets secrets: `https:`, or on this machine.
    ///
    /// # Errors
    /// It is no such address.
    pub(crate) fn secret(option: &str, url: &str) -> Result<Self> {
        let endpoint = Self::parse(option, url)?;
        if !endpoint.https && !endpoint.is_here() {
            return Err(Error::configuration(format!(
                "option {option} is http://{}, where everybody on the way can read secret and token: it must be https:// \
                 (http:// is for this machine only)",
                endpoint.host
            )));
        }
        Ok(endpoint)
    }

    /// Any.
    ///
    /// # Errors
    /// It is no such address.
    pub(crate) fn parse(option: &str, url: &str) -> Result<Self> {
        let wrong = |text: String| Error::configuration(format!("option {option} {text}"));
        let uri: Uri = url.trim().parse().map_err(|error| wrong(format!("is no address: {error}")))?;
        let https = match uri.scheme_str() {
            Some("https") => true,
            Some("http") => false,
            _ => return Err(wrong("must begin with https:// or http://".to_owned())),
        };
        let authority = uri.authority().ok_or_else(|| wrong("names no host".to_owned()))?;
        if authority.as_str().contains('@') {
            return Err(wrong("must not have a name or password: set their options instead".to_owned()));
        }
        let port = if https { 443 } else { 80 };
        let (host, port) = parts(authority, port).ok_or_else(|| wrong("names no host or no port".to_owned()))?;
        let path = uri.path_and_query().map_or("/", |path| path.as_str()).to_owned();
        let shown = format!("{}://{authority}{}", if https { "https" } else { "http" }, uri.path());
        Ok(Self { https, host, port, path, shown })
    }

    /// Whether it is on this machine.
    pub(crate) fn is_here(&self) -> bool {
        is_loopback(&self.host)
    }

    /// What the Host header has.
    pub(crate) fn authority(&self) -> String {
        let host = if self.host.contains(':') { format!("[{}]", self.host) } else { self.host.clone() };
        if self.port == if self.https { 443 } else { 80 } { host } else { format!("{host}:{}", self.port) }
    }
}

/// Host, without brackets, and port of an address; None if it has no such.
pub(crate) fn parts(authority: &Authority, default: u16) -> Option<(String, u16)> {
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
pub(crate) fn is_loopback(host: &str) -> bool {
    host.eq_ignore_ascii_case("localhost") || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// `%20` is a space, as in every address.
pub(crate) fn unescaped(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'%' => {
                let digits = [rest.next()?, rest.next()?];
                u8::from_str_radix(std::str::from_utf8(&digits).ok()?, 16).ok()?
            }
            byte => byte,
        });
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_https_or_on_this_machine() {
        let parse = |url| Endpoint::secret("x", url);
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
