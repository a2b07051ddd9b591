//! The proxy that the environment names for HTTPS, as curl and Python's requests read it.

use std::net::IpAddr;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use hyper::Uri;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use super::endpoint::{Endpoint, parts, unescaped};
use crate::error::{Error, Result};
use crate::secret::Secret;
use crate::security::redact::Veil;

/// The longest that a proxy's answer is.
const LONGEST: usize = 8 << 10;

/// A proxy that is asked for tunnels.
#[derive(Debug)]
pub(crate) struct Proxy {
    pub(crate) https: bool,
    pub(crate) host: String,
    pub(crate) port: u16,
    credentials: Option<Secret>,
}

impl Proxy {
    /// The one that `environment` names for an endpoint, if any.
    ///
    /// # Errors
    /// It names something that is no such proxy.
    pub(crate) fn of(endpoint: &Endpoint, environment: impl Fn(&str) -> Option<String>) -> Result<Option<Self>> {
        let get = |name: &str| environment(name).filter(|value| !value.trim().is_empty());
        // Only what is encrypted goes through a proxy; the rest is on this machine.
        if !endpoint.https {
            return Ok(None);
        }
        let exempt = get("no_proxy").or_else(|| get("NO_PROXY"));
        if exempt.is_some_and(|exempt| is_exempt(&exempt, endpoint)) {
            return Ok(None);
        }
        let found =
            ["https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"].iter().find_map(|name| Some((name, get(name)?)));
        found.map(|(name, url)| Self::parse(name, url.trim())).transpose()
    }

    fn parse(name: &str, url: &str) -> Result<Self> {
        // The address may have a password: it is not shown.
        let wrong = |text: &str| Error::configuration(format!("environment variable {name} {text}"));
        let url = if url.contains("://") { url.to_owned() } else { format!("http://{url}") };
        let uri: Uri = url.parse().map_err(|_| wrong("is no address of a proxy"))?;
        let https = match uri.scheme_str() {
            Some("http") => false,
            Some("https") => true,
            _ => return Err(wrong("names a proxy of another kind than http:// and https://")),
        };
        let authority = uri.authority().ok_or_else(|| wrong("names no host"))?;
        let credentials = match authority.as_str().rsplit_once('@') {
            None => None,
            Some((user, _)) => {
                let user = unescaped(user).ok_or_else(|| wrong("has a name or password that is wrongly escaped"))?;
                let user = if user.contains(':') { user } else { user + ":" };
                Some(Secret::from(BASE64_STANDARD.encode(user)))
            }
        };
        let port = if https { 443 } else { 80 };
        let (host, port) = parts(authority, port).ok_or_else(|| wrong("names no host or no port"))?;
        Ok(Self { https, host, port, credentials })
    }

    /// Has the proxy connect to a host.
    ///
    /// # Errors
    /// It does not. The text says why.
    pub(crate) async fn tunnel<S>(&self, stream: &mut S, host: &str, port: u16) -> std::result::Result<(), String>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let place = format!("the proxy {}:{}", self.host, self.port);
        let target = if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") };
        let mut request = format!("CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n");
        if let Some(credentials) = &self.credentials {
            request += &format!("Proxy-Authorization: Basic {}\r\n", credentials.reveal());
        }
        request += "\r\n";
        let broken = |error: std::io::Error| format!("{place} broke the connection: {error}");
        stream.write_all(request.as_bytes()).await.map_err(broken)?;
        stream.flush().await.map_err(broken)?;
        let mut answer = Vec::new();
        // Byte by byte: what follows belongs to the host behind the proxy.
        while !answer.ends_with(b"\r\n\r\n") {
            if answer.len() >= LONGEST {
                return Err(format!("{place} answers with more than {LONGEST} bytes"));
            }
            answer.push(stream.read_u8().await.map_err(broken)?);
        }
        let line = String::from_utf8_lossy(&answer);
        let line = line.lines().next().unwrap_or_default();
        let mut words = line.splitn(3, ' ');
        let (version, status) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
        if version.starts_with("HTTP/1.") && status.len() == 3 && status.starts_with('2') {
            return Ok(());
        }
        let line = Veil::default().show(line);
        Err(format!("{place} does not connect to {target}: it answers {line:?}"))
    }
}

/// Whether `NO_PROXY` names a host: `*`, the host, a domain above it, an address or a network of addresses.
fn is_exempt(list: &str, endpoint: &Endpoint) -> bool {
    let host = endpoint.host.to_ascii_lowercase();
    let address: Option<IpAddr> = host.parse().ok();
    list.split([',', ' ']).map(str::trim).filter(|entry| !entry.is_empty()).any(|entry| {
        let entry = entry.to_ascii_lowercase();
        let entry = match entry.rsplit_once(':') {
            Some((name, port)) if !name.contains(':') || name.ends_with(']') => {
                if port.parse() != Ok(endpoint.port) {
                    return false;
                }
                name
            }
            _ => entry.as_str(),
        };
        let entry = entry.trim_start_matches('[').trim_end_matches(']');
        if entry == "*" || entry == host {
            return true;
        }
        if let Some(address) = address {
            return entry.split_once('/').is_some_and(|(network, bits)| {
                matches!((network.parse(), bits.parse()), (Ok(network), Ok(bits)) if is_within(address, network, bits))
            });
        }
        let domain = entry.trim_start_matches("*.").trim_start_matches('.');
        host.strip_suffix(domain).is_some_and(|above| above.is_empty() || above.ends_with('.'))
    })
}

fn is_within(address: IpAddr, network: IpAddr, bits: u32) -> bool {
    match (address, network) {
        (IpAddr::V4(address), IpAddr::V4(network)) if bits <= 32 => {
            let differing = u32::from(address) ^ u32::from(network);
            differing.checked_shr(32 - bits).unwrap_or(0) == 0
        }
        (IpAddr::V6(address), IpAddr::V6(network)) if bits <= 128 => {
            let differing = u128::from(address) ^ u128::from(network);
            differing.checked_shr(128 - bits).unwrap_or(0) == 0
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn endpoint(url: &str) -> Endpoint {
        Endpoint::parse("x", url).unwrap()
    }

    fn proxy(url: &str, environment: &[(&str, &str)]) -> Result<Option<Proxy>> {
        let get =
            |name: &str| environment.iter().find(|(other, _)| *other == name).map(|(_, value)| (*value).to_owned());
        Proxy::of(&endpoint(url), get)
    }

    #[test]
    fn the_environment_names_the_proxy() {
        let found = proxy("https://id.example.com/", &[("HTTPS_PROXY", "http://p.example.com:3128")]).unwrap().unwrap();
        assert_eq!((found.host.as_str(), found.port, found.https), ("p.example.com", 3128, false));
        assert!(found.credentials.is_none());
        let found = proxy("https://h/", &[("https_proxy", "p:1"), ("HTTPS_PROXY", "q:2")]).unwrap().unwrap();
        assert_eq!((found.host.as_str(), found.port), ("p", 1));
        assert!(proxy("https://h/", &[("ALL_PROXY", "https://p")]).unwrap().unwrap().https);
        assert!(proxy("http://localhost/", &[("ALL_PROXY", "http://p")]).unwrap().is_none());
        assert!(proxy("https://h/", &[("HTTPS_PROXY", " ")]).unwrap().is_none());
        assert!(proxy("https://h/", &[("HTTP_PROXY", "http://p")]).unwrap().is_none());
    }

    #[test]
    fn its_password_does_not_show() {
        let found = proxy("https://h/", &[("HTTPS_PROXY", "http://me:hunt%20er2@p:1")]).unwrap().unwrap();
        assert_eq!(found.credentials.as_ref().unwrap().reveal(), BASE64_STANDARD.encode("me:hunt er2"));
        assert!(!format!("{found:?}").contains(found.credentials.as_ref().unwrap().reveal()));
        for wrong in
            ["socks5://me:hunter2@p:1", "http://me:hunter2@", "http://me%zz:hunter2@p", "http://me:hunter2@p:99999"]
        {
            let error = proxy("https://h/", &[("HTTPS_PROXY", wrong)]).unwrap_err().to_string();
            assert!(error.contains("HTTPS_PROXY") && !error.contains("hunter2"), "{error}");
        }
    }

    #[test]
    fn hosts_are_exempt_by_name_domain_address_and_network() {
        for (url, list, exempt) in [
            ("https://id.example.com/", "*", true),
            ("https://id.example.com/", "localhost, .example.com", true),
            ("https://id.example.com/", "example.com", true),
            ("https://id.example.com/", "*.example.com", true),
            ("https://ID.example.com/", "id.EXAMPLE.com", true),
            ("https://id.example.com/", "id.example.com:443", true),
            ("https://id.example.com/", "id.example.com:8443", false),
            ("https://id.example.com/", "ample.com", false),
            ("https://id.example.com/", "x.id.example.com", false),
            ("https://10.1.2.3/", "10.0.0.0/8", true),
            ("https://10.1.2.3/", "0.0.0.0/0", true),
            ("https://10.1.2.3/", "10.1.2.4/32", false),
            ("https://10.1.2.3/", "10.1.2.3/33", false),
            ("https://10.1.2.3/", "2.3", false),
            ("https://[fd00::1]/", "fd00::/8", true),
            ("https://[fd00::1]/", "fd00::1", true),
            ("https://[fd00::1]/", "[fd00::1]:443", true),
            ("https://[fd00::1]/", "fe80::/10", false),
        ] {
            assert_eq!(is_exempt(list, &endpoint(url)), exempt, "{url} {list}");
        }
    }

    #[tokio::test]
    async fn a_proxy_that_refuses_is_named() {
        let proxy = Proxy { https: false, host: "p".to_owned(), port: 1, credentials: None };
        for (answer, wanted) in [
            ("HTTP/1.1 200 OK\r\nA: b\r\n\r\n", None),
            ("HTTP/1.1 407 Proxy Authentication Required\r\n\r\n", Some("407 Proxy Authentication Required")),
            ("220 mail\r\n\r\n", Some("it answers \"220 mail\"")),
            ("HTTP/1.1 200", Some("broke the connection")),
        ] {
            let (mut ours, mut theirs) = tokio::io::duplex(64 << 10);
            theirs.write_all(answer.as_bytes()).await.unwrap();
            theirs.shutdown().await.unwrap();
            let result = proxy.tunnel(&mut ours, "h", 443).await;
            match wanted {
                None => result.unwrap(),
                Some(wanted) => assert!(result.clone().unwrap_err().contains(wanted), "{result:?}"),
            }
        }
        let (mut ours, mut theirs) = tokio::io::duplex(64 << 10);
        theirs.write_all(&[b'a'; LONGEST + 1]).await.unwrap();
        assert!(proxy.tunnel(&mut ours, "h", 443).await.unwrap_err().contains("more than 8192 bytes"));
    }
}
