//! The HTTPS proxy set in the environment, by the rules of curl and of Python's requests.

use std::net::IpAddr;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use hyper::Uri;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use super::endpoint::{Endpoint, host_and_port};
use crate::config::url::percent_decode;
use crate::error::{Error, Result};
use crate::secret::Secret;
use crate::security::redact::Redactor;

/// Maximum size of a proxy's response, in bytes.
const MAX_RESPONSE: usize = 8 << 10;

/// A proxy that opens tunnels with CONNECT.
#[derive(Debug)]
pub(crate) struct Proxy {
    pub(crate) https: bool,
    pub(crate) host: String,
    pub(crate) port: u16,
    credentials: Option<Secret>,
}

impl Proxy {
    /// Returns the proxy to use for an endpoint, if `environment` sets one.
    ///
    /// # Errors
    /// Fails if the environment variable is not the URL of a supported proxy.
    pub(crate) fn for_endpoint(
        endpoint: &Endpoint,
        environment: impl Fn(&str) -> Option<String>,
    ) -> Result<Option<Self>> {
        let get = |name: &str| environment(name).filter(|value| !value.trim().is_empty());
        // Only encrypted connections use a proxy. Unencrypted connections do not leave this machine.
        if !endpoint.https {
            return Ok(None);
        }
        let exempt = get("no_proxy").or_else(|| get("NO_PROXY"));
        if exempt.is_some_and(|exempt| is_exempt(&exempt, endpoint)) {
            return Ok(None);
        }
        let proxy =
            ["https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"].iter().find_map(|name| Some((name, get(name)?)));
        proxy.map(|(name, url)| Self::parse(name, url.trim())).transpose()
    }

    fn parse(name: &str, url: &str) -> Result<Self> {
        // The URL may contain a password, so no error text contains the URL.
        let error = |text: &str| Error::configuration(format!("environment variable {name} {text}"));
        let url = if url.contains("://") { url.to_owned() } else { format!("http://{url}") };
        let uri: Uri = url.parse().map_err(|_| error("is not the URL of a proxy"))?;
        let https = match uri.scheme_str() {
            Some("http") => false,
            Some("https") => true,
            _ => return Err(error("has an unsupported proxy scheme: use http:// or https://")),
        };
        let authority = uri.authority().ok_or_else(|| error("has no host"))?;
        let credentials = match authority.as_str().rsplit_once('@') {
            None => None,
            Some((user, _)) => {
                let user = percent_decode(user)
                    .ok_or_else(|| error("has a user name or password with invalid percent-encoding"))?;
                let user = if user.contains(':') { user } else { user + ":" };
                Some(Secret::from(BASE64_STANDARD.encode(user)))
            }
        };
        let port = if https { 443 } else { 80 };
        let (host, port) = host_and_port(authority, port).ok_or_else(|| error("has no host or no valid port"))?;
        Ok(Self { https, host, port, credentials })
    }

    /// Requests a tunnel to a host and port.
    ///
    /// # Errors
    /// Returns the reason why the proxy does not connect.
    pub(crate) async fn tunnel<S>(&self, stream: &mut S, host: &str, port: u16) -> std::result::Result<(), String>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let proxy = format!("the proxy {}:{}", self.host, self.port);
        let target = if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") };
        let mut request = format!("CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n");
        if let Some(credentials) = &self.credentials {
            request += &format!("Proxy-Authorization: Basic {}\r\n", credentials.reveal());
        }
        request += "\r\n";
        let io_error = |error: std::io::Error| format!("{proxy} broke the connection: {error}");
        stream.write_all(request.as_bytes()).await.map_err(io_error)?;
        stream.flush().await.map_err(io_error)?;
        let mut response = Vec::new();
        // The response is read byte by byte, because the bytes after the response come from the host behind the proxy.
        while !response.ends_with(b"\r\n\r\n") {
            if response.len() >= MAX_RESPONSE {
                return Err(format!("{proxy} sent a response of more than {MAX_RESPONSE} bytes"));
            }
            response.push(stream.read_u8().await.map_err(io_error)?);
        }
        let line = String::from_utf8_lossy(&response);
        let line = line.lines().next().unwrap_or_default();
        let mut words = line.splitn(3, ' ');
        let (version, status) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
        if version.starts_with("HTTP/1.") && status.len() == 3 && status.starts_with('2') {
            return Ok(());
        }
        let line = Redactor::default().redact(line);
        Err(format!("{proxy} does not connect to {target}: its response is {line:?}"))
    }
}

/// Returns true if an entry of `NO_PROXY` matches the host. An entry is `*`, a host, a parent domain, an address or a
/// network.
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
        Proxy::for_endpoint(&endpoint(url), get)
    }

    #[test]
    fn proxy_is_read_from_the_environment() {
        let parsed =
            proxy("https://id.example.com/", &[("HTTPS_PROXY", "http://p.example.com:3128")]).unwrap().unwrap();
        assert_eq!((parsed.host.as_str(), parsed.port, parsed.https), ("p.example.com", 3128, false));
        assert!(parsed.credentials.is_none());
        let parsed = proxy("https://h/", &[("https_proxy", "p:1"), ("HTTPS_PROXY", "q:2")]).unwrap().unwrap();
        assert_eq!((parsed.host.as_str(), parsed.port), ("p", 1));
        assert!(proxy("https://h/", &[("ALL_PROXY", "https://p")]).unwrap().unwrap().https);
        assert!(proxy("http://localhost/", &[("ALL_PROXY", "http://p")]).unwrap().is_none());
        assert!(proxy("https://h/", &[("HTTPS_PROXY", " ")]).unwrap().is_none());
        assert!(proxy("https://h/", &[("HTTP_PROXY", "http://p")]).unwrap().is_none());
    }

    #[test]
    fn proxy_password_is_hidden() {
        let parsed = proxy("https://h/", &[("HTTPS_PROXY", "http://me:hunt%20er2@p:1")]).unwrap().unwrap();
        assert_eq!(parsed.credentials.as_ref().unwrap().reveal(), BASE64_STANDARD.encode("me:hunt er2"));
        assert!(!format!("{parsed:?}").contains(parsed.credentials.as_ref().unwrap().reveal()));
        for invalid in
            ["socks5://me:hunter2@p:1", "http://me:hunter2@", "http://me%zz:hunter2@p", "http://me:hunter2@p:99999"]
        {
            let error = proxy("https://h/", &[("HTTPS_PROXY", invalid)]).unwrap_err().to_string();
            assert!(error.contains("HTTPS_PROXY") && !error.contains("hunter2"), "{error}");
        }
    }

    #[test]
    fn no_proxy_matches_name_domain_address_and_network() {
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
    async fn rejected_tunnel_reports_the_proxy() {
        let proxy = Proxy { https: false, host: "p".to_owned(), port: 1, credentials: None };
        for (response, expected) in [
            ("HTTP/1.1 200 OK\r\nA: b\r\n\r\n", None),
            ("HTTP/1.1 407 Proxy Authentication Required\r\n\r\n", Some("407 Proxy Authentication Required")),
            ("220 mail\r\n\r\n", Some("its response is \"220 mail\"")),
            ("HTTP/1.1 200", Some("broke the connection")),
        ] {
            let (mut ours, mut theirs) = tokio::io::duplex(64 << 10);
            theirs.write_all(response.as_bytes()).await.unwrap();
            theirs.shutdown().await.unwrap();
            let result = proxy.tunnel(&mut ours, "h", 443).await;
            match expected {
                None => result.unwrap(),
                Some(expected) => assert!(result.clone().unwrap_err().contains(expected), "{result:?}"),
            }
        }
        let (mut ours, mut theirs) = tokio::io::duplex(64 << 10);
        theirs.write_all(&[b'a'; MAX_RESPONSE + 1]).await.unwrap();
        assert!(proxy.tunnel(&mut ours, "h", 443).await.unwrap_err().contains("more than 8192 bytes"));
    }
}
